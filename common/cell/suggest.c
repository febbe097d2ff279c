/*
 * Suggests a replacement for a function that the language lacks.  The suggested activations have a
 * gradient that is never NaN, however large a is, and is right at 0 (doc/guide/recipes.md).
 */
#include "common/cell/parse.h"

#include <string.h>

/* Names in lower case without '_'. */
static const struct {
    const char *name, *text;
} known[] = {
    /* clang-format off */
    {"celu", "relu(a) + exp(min(0, a)) - 1"},
    {"clamp", "min(max(a, low), high)"},
    {"clip", "min(max(a, low), high)"},
    {"detach", "stop(a)"},
    {"dropout", "a * bernoulli(0.9) / 0.9"},
    {"elu", "relu(a) + exp(min(0, a)) - 1"},
    {"expm1", "exp(a) - 1"},
    {"fabs", "abs(a)"},
    {"gelu", "a * sigmoid(1.59576912 * (c + 0.044715 * c * c * c)) with c = min(max(a, -20), 20)"},
    {"hardsigmoid", "min(max(a / 6 + 0.5, 0), 1), in ONNX 0.2 * a + 0.5"},
    {"hardswish", "a * min(max(a / 6 + 0.5, 0), 1)"},
    {"hardtanh", "min(max(a, -1), 1)"},
    {"heaviside", "select(a, 1, 0)"},
    {"leakyrelu", "max(a, 0.01 * a)"},
    {"ln", "log(a)"},
    {"log1p", "log(1 + a)"},
    {"logistic", "sigmoid(a)"},
    {"logsigmoid", "min(0, a) - log(1 + exp(min(-a, a)))"},
    {"maximum", "max(a, b)"},
    {"minimum", "min(a, b)"},
    {"mish", "a * tanh(relu(a) + log(1 + exp(min(-a, a))))"},
    {"pow", "exp(n * log(a)), or a * a"},
    {"prelu", "max(a, 0) + p * min(0, a)"},
    {"relu6", "min(relu(a), 6)"},
    {"rsqrt", "1 / sqrt(a)"},
    {"selu", "1.05070099 * relu(a) + 1.75809934 * (exp(min(0, a)) - 1)"},
    {"sign", "select(a, 1, select(-a, -1, 0))"},
    {"silu", "a * sigmoid(a)"},
    {"softplus", "relu(a) + log(1 + exp(min(-a, a)))"},
    {"softsign", "a / (1 + abs(a))"},
    {"square", "a * a"},
    {"stopgradient", "stop(a)"},
    {"sum", "mean(a) * H, with H as a number"},
    {"swish", "a * sigmoid(a)"},
    {"thresholdedrelu", "select(a - 1, a, 0)"},
    {"where", "select(a, b, c): b where a > 0, else c"},
    /* clang-format on */
};

static bool alike(const struct eco_token *token, const char *name)
{
    for (int i = 0; i < token->length; i++) {
        const char c = token->text[i];
        if (c == '_')
            continue;
        if ((c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c) != *name)
            return false;
        name++;
    }
    return *name == 0;
}

static int fail_with_list(struct eco_parser *parser, const struct eco_token *token)
{
    char list[ECO_OPCODES * 10];
    struct eco_text text = {list, sizeof list, 0};
    for (int op = 0; op < ECO_OPCODES; op++)
        if (eco_parse_is_function(parser->recipe, op))
            eco_text_add(&text, " %s", eco_opcode_info[op].name);
    return eco_scan_fail(&parser->scan, token, false, "there is no function '%.*s', but%s",
                         token->length, token->text, list);
}

int eco_parse_suggest(struct eco_parser *parser, const struct eco_token *token)
{
    for (int op = 0; op < ECO_OPCODES; op++)
        if (eco_parse_is_function(parser->recipe, op) && alike(token, eco_opcode_info[op].name))
            return eco_scan_fail(&parser->scan, token, false, "there is no function '%.*s', but %s",
                                 token->length, token->text, eco_opcode_info[op].name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (alike(token, known[i].name))
            return eco_scan_fail(&parser->scan, token, false,
                                 "there is no function '%.*s': write %s", token->length,
                                 token->text, known[i].text);
    return fail_with_list(parser, token);
}

/*
 * Texts of cells for the recurrent nodes of ONNX.  A line of a text that has parameters is named by
 * the letter that the built-in cell has for it, so that weights are found by one table for all.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ort/layer.h"

/* An activation of ONNX: its formula of X and its numbers A and B, and their defaults. */
static const struct activation {
    const char *name, *formula;
    int numbers;
    float alpha, beta;
} activations[] = {
    {"Affine", "(A * X + B)", 2, 1, 0},
    {"Elu", "select(X, X, A * (exp(min(X, 0)) - 1))", 1, 1, 0},
    {"HardSigmoid", "max(0, min(1, A * X + B))", 2, 0.2f, 0.5f},
    {"LeakyRelu", "select(X, X, A * X)", 1, 0.01f, 0},
    {"Relu", "relu(X)", 0, 0, 0},
    {"ScaledTanh", "A * tanh(B * X)", 2, 1, 1},
    {"Sigmoid", "sigmoid(X)", 0, 0, 0},
    {"Softplus", "(max(X, 0) + log(1 + exp(-abs(X))))", 0, 0, 0},
    {"Softsign", "(X / (1 + abs(X)))", 0, 0, 0},
    {"Tanh", "tanh(X)", 0, 0, 0},
    {"ThresholdedRelu", "select(X - A, X, 0)", 1, 1, 0},
};

static const char *const defaults[][3] = {
    {"Sigmoid", "Tanh", "Tanh"}, {"Sigmoid", "Tanh", NULL}, {"Tanh", NULL, NULL}};

static const struct activation *find_activation(const char *name)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (strcasecmp(activations[i].name, name) == 0) /* as ONNX Runtime compares them */
            return &activations[i];
    return NULL;
}

bool read_activations(const struct node *node, int directions, struct equations *equations,
                      struct reason *reason)
{
    char names[MOST_TEXT] = "";
    float alpha[8], beta[8]; /* of those that have numbers, one after the other */
    size_t bytes = sizeof names, alphas = sizeof alpha, betas = sizeof beta, a = 0, b = 0;
    const int each = KIND_RNN - equations->kind + 1;
    if (!node_list(node, "activations", ORT_STRINGS, names, &bytes, reason) ||
        !node_list(node, "activation_alpha", ORT_FLOATS, alpha, &alphas, reason) ||
        !node_list(node, "activation_beta", ORT_FLOATS, beta, &betas, reason))
        return false;
    const char *name = names;
    for (int i = 0; i < each * directions; i++) {
        if (bytes && name >= names + bytes)
            return refuse(reason, "it has %d activations, needs %d", i, each * directions);
        const char *const its = bytes ? name : defaults[equations->kind][i % each];
        const struct activation *const is = find_activation(its);
        if (!is)
            return refuse(reason, "activation %.40s is not known", its);
        name += bytes ? strlen(name) + 1 : 0;
        struct chosen *const first = &equations->chosen[i % each], chosen = {is, 0, 0};
        if (is->numbers > 0)
            chosen.alpha = a < alphas / sizeof *alpha ? alpha[a++] : is->alpha;
        if (is->numbers > 1)
            chosen.beta = b < betas / sizeof *beta ? beta[b++] : is->beta;
        if (!isfinite(chosen.alpha) || !isfinite(chosen.beta))
            return refuse(reason, "a number of activation %s is not finite", is->name);
        if (i < each)
            *first = chosen;
        else if (first->is != is || first->alpha != chosen.alpha || first->beta != chosen.beta)
            return refuse(reason, "the directions have different activations");
    }
    if (bytes && each == 1 && name < names + bytes) /* ONNX's default for one direction is two */
        name += directions == 1 ? strlen(name) + 1 : 0;
    return !bytes || name >= names + bytes ||
           refuse(reason, "it has more than %d activations", each * directions);
}

/* ---- texts ----------------------------------------------------------------------------------- */

struct writer {
    char *text;
    size_t bytes, length;
    const struct equations *equations;
};

__attribute__((format(printf, 2, 3))) static void say(struct writer *writer, const char *format,
                                                      ...)
{
    va_list list;
    va_start(list, format);
    const int length =
        vsnprintf(writer->text + writer->length, writer->bytes - writer->length, format, list);
    va_end(list);
    writer->length += length > 0 ? (size_t)length : 0;
    if (writer->length >= writer->bytes)
        writer->length = writer->bytes - 1;
}

/* An activation of a name; all but c' is clipped first. */
static void say_activation(struct writer *writer, const struct chosen *chosen, char name)
{
    const double clip = (double)writer->equations->clip;
    for (const char *at = chosen->is->formula; *at; at++)
        if (*at == 'A' || *at == 'B')
            say(writer, "(%.9g)", (double)(*at == 'A' ? chosen->alpha : chosen->beta));
        else if (*at != 'X')
            say(writer, "%c", *at);
        else if (name == 'c')
            say(writer, "c'");
        else if (clip > 0)
            say(writer, "min(max(%c, %.9g), %.9g)", name, -clip, clip);
        else
            say(writer, "%c", name);
}

/* Writes lines; $0i is activation 0 of line i, $p a peephole of LSTMs that have some. */
static void expand(struct writer *writer, const char *lines)
{
    for (; *lines; lines++)
        if (*lines != '$') {
            say(writer, "%c", *lines);
        } else if (*++lines == 'p') {
            say(writer, "%s", writer->equations->peepholes ? " + p * c" : "");
        } else if (*lines == 'q') {
            say(writer, "%s", writer->equations->peepholes ? " + p * c'" : "");
        } else {
            say_activation(writer, &writer->equations->chosen[*lines - '0'], lines[1]);
            lines++;
        }
}

/* The built-in cell with these equations, or NULL. */
static const char *builtin(const struct equations *equations)
{
    const int kind = equations->kind;
    bool is_default = true;
    for (int i = 0; i <= KIND_RNN - kind; i++)
        is_default &= equations->chosen[i].is == find_activation(defaults[kind][i]);
    if (equations->clip > 0)
        return NULL;
    if (kind == KIND_RNN && equations->chosen[0].is == find_activation("Relu"))
        return "rnn-relu";
    if (!is_default || (equations->peepholes && equations->coupled))
        return NULL;
    if (kind == KIND_LSTM)
        return equations->peepholes ? "lstm-peephole"
               : equations->coupled ? "lstm-coupled"
                                    : "lstm";
    if (kind == KIND_GRU)
        return equations->reset_after ? "gru" : "gru-reset-first";
    return "rnn-tanh";
}

const char *cell_of(const struct equations *equations, char *text, size_t bytes)
{
    static const char *const name[] = {"onnx-lstm", "onnx-gru", "onnx-rnn"};
    struct writer writer = {text, bytes, 0, equations};
    text[0] = 0;
    const char *const known = builtin(equations);
    if (known)
        return known;
    say(&writer, "cell %s(%s)\n", name[equations->kind],
        equations->kind == KIND_LSTM ? "h, c" : "h");
    if (equations->kind == KIND_LSTM) {
        expand(&writer, "i = W x + R h + b$p\niz = $0i\n");
        expand(&writer, equations->coupled ? "fz = 1 - iz\n" : "f = W x + R h + b$p\nfz = $0f\n");
        expand(&writer, "g = W x + R h + b\ngz = $1g\nc' = fz * c + iz * gz\n"
                        "o = W x + R h + b$q\noz = $0o\nhz = $2c\nh' = oz * hz\n");
    } else if (equations->kind == KIND_GRU) {
        expand(&writer, "r = W x + R h + b\nrz = $0r\nz = W x + R h + b\nzz = $0z\n");
        expand(&writer, equations->reset_after ? "q = R h + b\nn = W x + b + rz * q\n"
                                               : "n = W x + R (rz * h) + b\n");
        expand(&writer, "nz = $1n\nh' = (1 - zz) * nz + zz * h\n");
    } else {
        expand(&writer, "u = W x + R h + b\nh' = $0u\n");
    }
    return name[equations->kind];
}

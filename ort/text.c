/*
 * Writes texts of cells.  A line of the text that has parameters is named by the letter that the
 * built-in cell has for it, so that weights are found by one table for all texts.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "ort/layer.h"

/* An activation of ONNX: its formula, with A and B for its numbers, and their defaults. */
static const struct activation {
    const char *name, *formula;
    int numbers;
    float alpha, beta;
} activations[] = {
    {"Affine", "(A * %s + B)", 2, 1, 0},
    {"Elu", "select(%s, %s, A * (exp(min(%s, 0)) - 1))", 1, 1, 0},
    {"HardSigmoid", "max(0, min(1, A * %s + B))", 2, 0.2f, 0.5f},
    {"LeakyRelu", "select(%s, %s, A * %s)", 1, 0.01f, 0},
    {"Relu", "relu(%s)", 0, 0, 0},
    {"ScaledTanh", "A * tanh(B * %s)", 2, 1, 1},
    {"Sigmoid", "sigmoid(%s)", 0, 0, 0},
    {"Softplus", "(max(%s, 0) + log(1 + exp(-abs(%s))))", 0, 0, 0},
    {"Softsign", "(%s / (1 + abs(%s)))", 0, 0, 0},
    {"Tanh", "tanh(%s)", 0, 0, 0},
    {"ThresholdedRelu", "select(%s - A, %s, 0)", 1, 1, 0},
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

/* ---- activations ----------------------------------------------------------------------------- */

/* The formula with its numbers; the number before a product needs parentheses if it is negative. */
static void write_activation(const struct activation *activation, float alpha, float beta,
                             char *text, size_t bytes)
{
    size_t length = 0;
    for (const char *at = activation->formula; *at && length < bytes; at++)
        if (*at == 'A' || *at == 'B')
            length += (size_t)snprintf(text + length, bytes - length, "(%.9g)",
                                       (double)(*at == 'A' ? alpha : beta));
        else
            text[length++] = *at;
    text[length < bytes ? length : bytes - 1] = 0;
}

/* Numbers that are listed for some of the activations only. */
struct numbers {
    float value[8];
    size_t count, next;
};

static float next_number(struct numbers *numbers, float otherwise)
{
    return numbers->next < numbers->count ? numbers->value[numbers->next++] : otherwise;
}

bool read_activations(const struct node *node, int directions, struct equations *equations,
                      struct reason *reason)
{
    char names[MOST_TEXT] = "", other[128];
    struct numbers alpha = {.next = 0}, beta = {.next = 0};
    size_t bytes = sizeof names, alphas = sizeof alpha.value, betas = sizeof beta.value;
    const int each = KIND_RNN - equations->kind + 1;
    if (!node_list(node, "activations", ORT_STRINGS, names, &bytes, reason) ||
        !node_list(node, "activation_alpha", ORT_FLOATS, alpha.value, &alphas, reason) ||
        !node_list(node, "activation_beta", ORT_FLOATS, beta.value, &betas, reason))
        return false;
    alpha.count = alphas / sizeof(float);
    beta.count = betas / sizeof(float);
    const char *name = names;
    for (int i = 0; i < each * directions; i++) {
        char *const text = i < each ? equations->activation[i] : other;
        if (bytes && name >= names + bytes)
            return refuse(reason, "it has %d activations, needs %d", i, each * directions);
        const char *const its = bytes ? name : defaults[equations->kind][i % each];
        const struct activation *const is = find_activation(its);
        if (!is)
            return refuse(reason, "activation %.40s is not known", its);
        name += bytes ? strlen(name) + 1 : 0;
        const float a = is->numbers > 0 ? next_number(&alpha, is->alpha) : 0;
        const float b = is->numbers > 1 ? next_number(&beta, is->beta) : 0;
        if (!(a - a == 0 && b - b == 0))
            return refuse(reason, "a number of activation %s is not finite", is->name);
        write_activation(is, a, b, text, sizeof other);
        if (i >= each && strcmp(text, equations->activation[i - each]) != 0)
            return refuse(reason, "the directions have different activations");
    }
    return true;
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

/* Writes activation number `which` of a name. */
static void say_activation(struct writer *writer, int which, const char *name)
{
    const char *at = writer->equations->activation[which];
    for (const char *hole; (hole = strstr(at, "%s")); at = hole + 2)
        say(writer, "%.*s%s", (int)(hole - at), at, name);
    say(writer, "%s\n", at);
}

/* A gate: its line NAME with the sum, and the line NAMEz with the activation of it, clipped. */
static void say_gate(struct writer *writer, char name, int which, const char *sum)
{
    const double clip = (double)writer->equations->clip;
    say(writer, "%c = %s\n", name, sum);
    if (clip > 0)
        say(writer, "%cc = min(max(%c, %.9g), %.9g)\n", name, name, -clip, clip);
    say(writer, "%cz = ", name);
    say_activation(writer, which, (char[]){name, clip > 0 ? 'c' : 0, 0});
}

static void say_lstm(struct writer *writer)
{
    const bool peepholes = writer->equations->peepholes;
    const char *const sum = "W x + R h + b";
    const char *const seeing = peepholes ? "W x + R h + b + p * c" : sum;
    say(writer, "cell onnx-lstm(h, c)\n");
    say_gate(writer, 'i', 0, seeing);
    if (writer->equations->coupled)
        say(writer, "fz = 1 - iz\n");
    else
        say_gate(writer, 'f', 0, seeing);
    say_gate(writer, 'g', 1, sum);
    say(writer, "c' = fz * c + iz * gz\n");
    say_gate(writer, 'o', 0, peepholes ? "W x + R h + b + p * c'" : sum);
    say(writer, "hz = ");
    say_activation(writer, 2, "c'");
    say(writer, "h' = oz * hz\n");
}

static void say_gru(struct writer *writer)
{
    const bool after = writer->equations->reset_after;
    say(writer, "cell onnx-gru(h)\n");
    say_gate(writer, 'r', 0, "W x + R h + b");
    say_gate(writer, 'z', 0, "W x + R h + b");
    if (after)
        say(writer, "q = R h + b\n");
    say_gate(writer, 'n', 1, after ? "W x + b + rz * q" : "W x + R (rz * h) + b");
    say(writer, "h' = (1 - zz) * nz + zz * h\n");
}

static void say_rnn(struct writer *writer)
{
    const double clip = (double)writer->equations->clip;
    say(writer, "cell onnx-rnn(h)\nu = W x + R h + b\n");
    if (clip > 0)
        say(writer, "uc = min(max(u, %.9g), %.9g)\n", -clip, clip);
    say(writer, "h' = ");
    say_activation(writer, 0, clip > 0 ? "uc" : "u");
}

/* The built-in cell with these equations, or NULL. */
static const char *builtin(const struct equations *equations)
{
    const int kind = equations->kind;
    bool is_default = true;
    for (int i = 0; i <= KIND_RNN - kind; i++) {
        char text[128];
        write_activation(find_activation(defaults[kind][i]), 0, 0, text, sizeof text);
        is_default &= strcmp(text, equations->activation[i]) == 0;
    }
    if (equations->clip > 0)
        return NULL;
    if (kind == KIND_RNN && strcmp(equations->activation[0], "relu(%s)") == 0)
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
    static void (*const write[])(struct writer *) = {say_lstm, say_gru, say_rnn};
    static const char *const name[] = {"onnx-lstm", "onnx-gru", "onnx-rnn"};
    text[0] = 0;
    const char *const known = builtin(equations);
    if (known)
        return known;
    write[equations->kind](&(struct writer){text, bytes, 0, equations});
    return name[equations->kind];
}

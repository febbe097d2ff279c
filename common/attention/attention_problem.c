/*
 * Attention: checks a description, makes it canonical, and writes its string.  Knows nothing of
 * devices.
 */
#include "common/attention/attention.h"

#include <string.h>

#include "common/problem.h"

/* ---- from a description ---------------------------------------------------------------------- */

/* clang-format off */
#define FIELD(name)                   offsetof(struct eco_attention_desc, name)
#define AT(name)                      offsetof(struct eco_attention, name)
#define VALUE(to, of)                 .name = #of, .field = FIELD(of), .at = AT(to)
#define COUNT(to, of, name, low)      {VALUE(to, name), .key = of, .least = low, .most = ECO_MAX_EXTENT}
#define WORD(of, to, set)             {.word = of, .field = FIELD(to), .value = set}
#define WORD_FLAG(of, set)            {of, "ECORNN_" #set, FIELD(flags), ECORNN_##set}
/* clang-format on */

static void print_value_width(struct eco_text *text, const void *of)
{
    const struct eco_attention *problem = of;
    if (problem->V != problem->H)
        eco_text_add(text, "/V%d", problem->V);
}

static const struct eco_option options[] = {
    {VALUE(type, type), .usual = ECORNN_F32, .most = ECO_TYPES - 1,
     .word = {WORD("f32", type, ECORNN_F32), WORD("f64", type, ECORNN_F64),
              WORD("bf16", type, ECORNN_BF16), WORD("f16", type, ECORNN_F16)}},
    {.word = {WORD_FLAG("train", TRAINING), WORD("infer", flags, 0)}, .at = AT(training)},
    COUNT(T, "T", steps, 1),
    COUNT(S, "S", source, 1),
    COUNT(N, "N", batch, 1),
    COUNT(H, "H", hidden, 1),
    {VALUE(V, value), .key = "V", .most = ECO_MAX_EXTENT, .print = print_value_width},
    {.word = {WORD_FLAG("batch-major", BATCH_MAJOR)}, .at = AT(batch_major)},
};

_Static_assert(sizeof options / sizeof *options <= ECO_OPTIONS, "room for what is said");

static const struct eco_grammar grammar = {
    .option = options, .options = sizeof options / sizeof *options, .flags = FIELD(flags)};

static void write_text(struct eco_attention *problem)
{
    struct eco_text text = {problem->text, sizeof problem->text, 0};
    eco_text_add(&text, "attention/additive");
    eco_options_print(&grammar, &text, problem);
}

ecornn_status eco_attention_build(struct eco_attention *problem,
                                  const struct eco_attention_desc *desc)
{
    const ecornn_status status = eco_options_check(&grammar, desc);
    if (status != ECORNN_OK)
        return status;
    *problem = (struct eco_attention){0};
    eco_options_build(&grammar, problem, desc);
    if (problem->V == 0)
        problem->V = problem->H;
    write_text(problem);
    return ECORNN_OK;
}

/* ---- from a string --------------------------------------------------------------------------- */

ecornn_status eco_attention_parse(struct eco_attention_desc *desc, const char *text)
{
    static const char first[] = "attention/additive/", dot[] = "attention/dot/";
    char copy[ECO_ATTENTION_TEXT];
    if (strlen(text) >= sizeof copy)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string has %zu characters, at most %zu",
                        strlen(text), sizeof copy - 1);
    if (strncmp(text, dot, sizeof dot - 1) == 0)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "problem string \"%s\" asks for dot-product scores, but only additive "
                        "scores are supported",
                        text);
    if (strncmp(text, first, sizeof first - 1) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string \"%s\" must begin with %s", text,
                        first);
    strcpy(copy, text);
    struct eco_attention_desc parsed = {0};
    struct eco_reading reading = {.grammar = &grammar, .desc = &parsed, .text = text};
    ecornn_status status = eco_options_parse(&reading, copy + sizeof first - 1);
    if (parsed.type == 0)
        parsed.type = ECORNN_F32;
    if (status == ECORNN_OK)
        status = eco_options_check(&grammar, &parsed);
    if (status == ECORNN_OK)
        *desc = parsed;
    return status;
}

/*
 * Attention: checks a description, makes it canonical, and writes its string.  Knows nothing of
 * devices.
 */
#include "common/attention/attention.h"

#include <string.h>

#include "common/grammar.h"
#include "common/problem.h"

/* Limits that keep every row index an int32_t; sizes in bytes are checked separately. */
enum { MAX_EXTENT = 1 << 24 };

/* ---- from a description ---------------------------------------------------------------------- */

static const struct eco_extent extents[] = {
#define FIELD(name) #name, offsetof(struct eco_attention_desc, name)
    {'T', FIELD(steps), 1, MAX_EXTENT}, {'S', FIELD(source), 1, MAX_EXTENT},
    {'N', FIELD(batch), 1, MAX_EXTENT}, {'H', FIELD(hidden), 1, MAX_EXTENT},
    {'V', FIELD(value), 0, MAX_EXTENT}, {0, FIELD(type), 0, ECO_TYPES - 1},
#undef FIELD
};

/* The items of a string; each may be set once. */
enum saying { TYPE, PASS, ORDER, SAYINGS };

static const struct eco_word words[] = {
#define FIELD(name) offsetof(struct eco_attention_desc, name)
    {"f32", TYPE, FIELD(type), ECORNN_F32},
    {"f64", TYPE, FIELD(type), ECORNN_F64},
    {"bf16", TYPE, FIELD(type), ECORNN_BF16},
    {"f16", TYPE, FIELD(type), ECORNN_F16},
    {"infer", PASS, FIELD(flags), 0},
    {"train", PASS, FIELD(flags), ECORNN_TRAINING},
    {"batch-major", ORDER, FIELD(flags), ECORNN_BATCH_MAJOR},
#undef FIELD
};

static const struct eco_grammar grammar = {.words = words,
                                           .extents = extents,
                                           .n_words = sizeof words / sizeof *words,
                                           .n_extents = sizeof extents / sizeof *extents,
                                           .sayings = SAYINGS,
                                           .flags = offsetof(struct eco_attention_desc, flags)};
_Static_assert(SAYINGS + sizeof extents / sizeof *extents <= ECO_SAYINGS, "room for what is said");

static ecornn_status check_desc(const struct eco_attention_desc *desc)
{
    const ecornn_status status = eco_extents_check(&grammar, desc);
    if (status != ECORNN_OK)
        return status;
    const uint32_t known = ECORNN_TRAINING | ECORNN_BATCH_MAJOR;
    if ((desc->flags & ~known) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "flags is 0x%x, known are 0x%x", desc->flags, known);
    return ECORNN_OK;
}

static void write_text(struct eco_attention *problem)
{
    struct eco_text text = {problem->text, sizeof problem->text, 0};
    eco_text_add(&text, "attention/additive/%s/%s/T%d/S%d/N%d/H%d", eco_type_name(problem->type),
                 problem->training ? "train" : "infer", problem->T, problem->S, problem->N,
                 problem->H);
    if (problem->V != problem->H)
        eco_text_add(&text, "/V%d", problem->V);
    if (problem->batch_major)
        eco_text_add(&text, "/batch-major");
}

ecornn_status eco_attention_build(struct eco_attention *problem,
                                  const struct eco_attention_desc *desc)
{
    const ecornn_status status = check_desc(desc);
    if (status != ECORNN_OK)
        return status;
    *problem = (struct eco_attention){
        .T = desc->steps,
        .S = desc->source,
        .N = desc->batch,
        .H = desc->hidden,
        .V = desc->value != 0 ? desc->value : desc->hidden,
        .training = (desc->flags & ECORNN_TRAINING) != 0,
        .batch_major = (desc->flags & ECORNN_BATCH_MAJOR) != 0,
        .type = desc->type != 0 ? desc->type : ECORNN_F32,
    };
    write_text(problem);
    return ECORNN_OK;
}

/* ---- from a string --------------------------------------------------------------------------- */

static ecornn_status parse_part(struct eco_reading *reading, const char *part)
{
    ecornn_status status;
    return eco_reading_word(reading, part, &status) ? status : eco_reading_extent(reading, part);
}

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
    char *rest = copy + sizeof first - 1;
    while (rest != NULL) {
        const char *part = rest;
        rest = strchr(rest, '/');
        if (rest != NULL)
            *rest++ = '\0';
        const ecornn_status status = parse_part(&reading, part);
        if (status != ECORNN_OK)
            return status;
    }
    if (parsed.type == 0)
        parsed.type = ECORNN_F32;
    const ecornn_status status = check_desc(&parsed);
    if (status == ECORNN_OK)
        *desc = parsed;
    return status;
}

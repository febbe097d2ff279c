/*
 * Attention: a description checked and made canonical, and its string.  Knows nothing of devices.
 */
#include "common/attention/attention.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/problem.h"

/* Limits that keep every index of a row an int32_t; sizes in bytes are checked on their own. */
enum { MAX_EXTENT = 1 << 24, MAX_SCALE = 1 << 20 };

/* ---- from a description ---------------------------------------------------------------------- */

/* A number of the description, how a problem string calls it, and its limits. */
static const struct extent {
    char letter; /* 0: a string has a word for each value */
    const char *name;
    size_t field; /* offset in ecornn_attention_desc; all are 32 bits wide */
    int32_t least, most;
} extents[] = {
#define FIELD(name) #name, offsetof(ecornn_attention_desc, name)
    {'T', FIELD(steps), 1, MAX_EXTENT},       {'S', FIELD(source), 1, MAX_EXTENT},
    {'N', FIELD(batch), 1, MAX_EXTENT},       {'H', FIELD(hidden), 1, MAX_EXTENT},
    {'V', FIELD(value), 0, MAX_EXTENT},       {0, FIELD(score), 0, ECORNN_DOT},
    {0, FIELD(order), 0, ECORNN_BATCH_MAJOR}, {0, FIELD(type), 0, ECO_TYPES - 1},
#undef FIELD
};
enum { EXTENTS = sizeof extents / sizeof *extents };

static bool is_scale(float scale)
{
    return scale >= 0 && scale <= MAX_SCALE; /* NaN is none */
}

static ecornn_status check_scale(const ecornn_attention_desc *desc)
{
    if (!is_scale(desc->scale))
        return eco_fail(ECORNN_BAD_ARGUMENT, "scale is %g, must be 0 to %d", (double)desc->scale,
                        MAX_SCALE);
    if (desc->score != ECORNN_DOT && desc->scale != 0 && desc->scale != 1)
        return eco_fail(ECORNN_BAD_ARGUMENT, "scale is %g, but additive scores have none",
                        (double)desc->scale);
    return ECORNN_OK;
}

static ecornn_status check_desc(const ecornn_attention_desc *desc)
{
    for (size_t i = 0; i < EXTENTS; i++) {
        int32_t value;
        memcpy(&value, (const char *)desc + extents[i].field, sizeof value);
        if (value < extents[i].least || value > extents[i].most)
            return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %d, must be %d to %d", extents[i].name,
                            value, extents[i].least, extents[i].most);
    }
    if ((desc->flags & ~(uint32_t)ECORNN_TRAINING) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "flags is 0x%x, known are 0x%x", desc->flags,
                        ECORNN_TRAINING);
    for (size_t i = 0; i < sizeof desc->reserved / sizeof *desc->reserved; i++)
        if (desc->reserved[i] != 0)
            return eco_fail(ECORNN_BAD_ARGUMENT, "reserved[%zu] is %u, must be 0", i,
                            desc->reserved[i]);
    return check_scale(desc);
}

static void write_text(struct eco_attention *problem)
{
    struct eco_text text = {problem->text, sizeof problem->text, 0};
    eco_text_add(&text, "attention/%s/%s/%s/T%d/S%d/N%d/H%d",
                 problem->score == ECORNN_DOT ? "dot" : "additive", eco_type_name(problem->type),
                 problem->training ? "train" : "infer", problem->T, problem->S, problem->N,
                 problem->H);
    if (problem->V != problem->H)
        eco_text_add(&text, "/V%d", problem->V);
    if (problem->order == ECORNN_BATCH_MAJOR)
        eco_text_add(&text, "/batch-major");
    if (problem->scale != 1) {
        eco_text_add(&text, "/scale:");
        eco_problem_write_decimal(&text, problem->scale);
    }
}

ecornn_status eco_attention_build(struct eco_attention *problem, const ecornn_attention_desc *desc)
{
    const ecornn_status status = check_desc(desc);
    if (status != ECORNN_OK)
        return status;
    *problem = (struct eco_attention){
        .score = desc->score,
        .T = desc->steps,
        .S = desc->source,
        .N = desc->batch,
        .H = desc->hidden,
        .V = desc->value != 0 ? desc->value : desc->hidden,
        .training = (desc->flags & ECORNN_TRAINING) != 0,
        .order = desc->order,
        .type = desc->type,
        .scale = desc->scale != 0 ? desc->scale : 1,
    };
    write_text(problem);
    return ECORNN_OK;
}

/* ---- from a string --------------------------------------------------------------------------- */

/* What a part of the string says; a string says each once. */
enum saying { SCORE, TYPE, PASS, ORDER, SCALE, EXTENT };

static const struct part {
    const char *word;
    enum saying saying;
    size_t field; /* offset in ecornn_attention_desc; all are 32 bits wide */
    int32_t value;
} keyword[] = {
#define FIELD(name) offsetof(ecornn_attention_desc, name)
    {"additive", SCORE, FIELD(score), ECORNN_ADDITIVE},
    {"dot", SCORE, FIELD(score), ECORNN_DOT},
    {"f32", TYPE, FIELD(type), ECORNN_F32},
    {"f64", TYPE, FIELD(type), ECORNN_F64},
    {"bf16", TYPE, FIELD(type), ECORNN_BF16},
    {"f16", TYPE, FIELD(type), ECORNN_F16},
    {"infer", PASS, FIELD(flags), 0},
    {"train", PASS, FIELD(flags), ECORNN_TRAINING},
    {"batch-major", ORDER, FIELD(order), ECORNN_BATCH_MAJOR},
#undef FIELD
};

/* A string that is being read. */
struct reading {
    ecornn_attention_desc desc;
    const char *text;                   /* the whole */
    const char *said[EXTENT + EXTENTS]; /* the part that said so, or NULL */
};

static ecornn_status fail_part(const struct reading *reading, const char *part)
{
    return eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" is no part of a problem string \"%s\"", part,
                    reading->text);
}

static ecornn_status say(struct reading *reading, int saying, const char *part)
{
    const char *before = reading->said[saying];
    reading->said[saying] = part;
    if (before == NULL)
        return ECORNN_OK;
    return eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" %s \"%s\" in problem string \"%s\"", part,
                    strcmp(part, before) == 0 ? "repeats" : "contradicts", before, reading->text);
}

static ecornn_status parse_extent(struct reading *reading, const char *part)
{
    size_t i = 0;
    while (i < EXTENTS && (extents[i].letter == 0 || extents[i].letter != part[0]))
        i++;
    const char *digits = part[0] != '\0' ? part + 1 : part;
    if (i == EXTENTS || digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return fail_part(reading, part);
    const ecornn_status status = say(reading, EXTENT + (int)i, part);
    if (status != ECORNN_OK)
        return status;
    errno = 0;
    const long long value = strtoll(digits, NULL, 10);
    if (errno != 0 || value < extents[i].least || value > extents[i].most)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%c is %s, must be %d to %d", part[0], digits,
                        extents[i].least, extents[i].most);
    memcpy((char *)&reading->desc + extents[i].field, &(int32_t){(int32_t)value}, sizeof(int32_t));
    return ECORNN_OK;
}

static ecornn_status parse_part(struct reading *reading, const char *part)
{
    static const char scale[] = "scale:";
    for (size_t i = 0; i < sizeof keyword / sizeof *keyword; i++)
        if (strcmp(part, keyword[i].word) == 0) {
            memcpy((char *)&reading->desc + keyword[i].field, &keyword[i].value, sizeof(int32_t));
            return say(reading, (int)keyword[i].saying, part);
        }
    if (strncmp(part, scale, sizeof scale - 1) != 0)
        return parse_extent(reading, part);
    if (!eco_problem_parse_decimal(part + sizeof scale - 1, &reading->desc.scale))
        return fail_part(reading, part);
    return say(reading, SCALE, part);
}

ecornn_status eco_attention_parse(ecornn_attention_desc *desc, const char *text)
{
    static const char first[] = "attention/";
    char copy[ECO_ATTENTION_TEXT];
    if (strlen(text) >= sizeof copy)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string has %zu characters, at most %zu",
                        strlen(text), sizeof copy - 1);
    if (strncmp(text, first, sizeof first - 1) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string \"%s\" must begin with %s", text,
                        first);
    strcpy(copy, text);
    struct reading reading = {.text = text};
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
    if (reading.said[SCORE] == NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string \"%s\" says neither additive nor dot",
                        text);
    const ecornn_status status = check_desc(&reading.desc);
    if (status == ECORNN_OK)
        *desc = reading.desc;
    return status;
}

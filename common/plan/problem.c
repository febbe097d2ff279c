/*
 * The problem: checks a description, makes it canonical, and writes its string.  Knows nothing of
 * layouts or devices.
 */
#include "common/problem.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/scan.h"
#include "common/grammar.h"
#include "common/quantise.h"
#include "common/type.h"
#include "common/util.h"

/* Limits that keep every index an int32_t and the generator's coordinates (number.h) in range.
 * Sizes in bytes are checked for overflow separately. */
enum { ECO_MAX_EXTENT = 1 << 24 };

int32_t eco_problem_input(const struct eco_problem *problem, int layer)
{
    return layer == 0 ? problem->I : problem->D * problem->P;
}

int32_t eco_problem_width(const struct eco_problem *problem, int state)
{
    return state == 0 ? problem->P : problem->H;
}

int32_t eco_problem_columns(const struct eco_problem *problem, int operand)
{
    return problem->cell->lowered.operand[operand].state == 0 ? problem->P : problem->H;
}

int32_t eco_problem_mean(const struct eco_problem *problem)
{
    return problem->cell->recipe.head_means ? eco_problem_head(problem) : problem->H;
}

int32_t eco_problem_head(const struct eco_problem *problem)
{
    return problem->H / problem->heads;
}

bool eco_problem_reversed(const struct eco_problem *problem, int d)
{
    return d == 1 || problem->reverse;
}

bool eco_problem_wide_output(const struct eco_problem *problem)
{
    return problem->cell->lowered.remembers && eco_type_narrow(problem->type);
}

bool eco_problem_writes_y(const struct eco_problem *problem)
{
    return problem->training || problem->resets || problem->states ||
           eco_problem_wide_output(problem);
}

bool eco_problem_draws(const struct eco_problem *problem)
{
    return problem->dropout > 0 || problem->cell->recipe.n_bernoulli > 0;
}

/* ---- from a description ---------------------------------------------------------------------- */

#define FIELD(name) #name, offsetof(ecornn_desc, name)
static const struct eco_extent extents[] = {
    {'I', FIELD(input), 1, ECO_MAX_EXTENT},
    {'H', FIELD(hidden), 1, ECO_MAX_EXTENT},
    {'P', FIELD(proj), 0, ECO_MAX_EXTENT},
    {'L', FIELD(layers), 0, ECO_MAX_LAYERS},
    {'T', FIELD(steps), 1, ECO_MAX_EXTENT},
    {'N', FIELD(batch), 1, ECO_MAX_EXTENT},
    {0, FIELD(type), 0, ECO_TYPES - 1},
    {0, FIELD(param_type), 0, ECO_TYPES - 1},
    {0, FIELD(weight_type), 0, ECO_WEIGHT_TYPES - 1},
    {0, FIELD(save_type), 0, ECO_TYPES - 1},
    {0, FIELD(models), 0, ECO_MAX_MODELS},
    {0, FIELD(heads), 0, ECO_MAX_EXTENT},
};
#undef FIELD

/* The items of a string; each may be set once. */
enum saying {
    TYPE,
    WEIGHTS,
    PARAMS,
    MATH,
    ROWS,
    PASS,
    DIRECTION,
    ORDER,
    RESETS,
    MASKS,
    PADDING,
    STATES,
    STREAMS,
    DROPOUT,
    HEADS,
    GROUPS,
    SAVE,
    SAVE_TYPE,
    MEMORY,
    MODELS,
    SHARING,
    TANGENT,
    MEASURE,
    SAYINGS
};

static const struct eco_word words[] = {
#define FIELD(name) offsetof(ecornn_desc, name)
    {"f32", TYPE, FIELD(type), ECORNN_F32},
    {"f64", TYPE, FIELD(type), ECORNN_F64},
    {"bf16", TYPE, FIELD(type), ECORNN_BF16},
    {"f16", TYPE, FIELD(type), ECORNN_F16},
    {"bf16-weights", WEIGHTS, FIELD(weight_type), ECORNN_BF16},
    {"f16-weights", WEIGHTS, FIELD(weight_type), ECORNN_F16},
    {"int8-weights", WEIGHTS, FIELD(weight_type), ECORNN_S8},
    {"int8", WEIGHTS, FIELD(flags), ECORNN_INT8},
    {"bf16-params", PARAMS, FIELD(param_type), ECORNN_BF16},
    {"f16-params", PARAMS, FIELD(param_type), ECORNN_F16},
    {"fast", MATH, FIELD(flags), ECORNN_FAST_MATH},
    {"row-invariant", ROWS, FIELD(flags), ECORNN_ROW_INVARIANT},
    {"infer", PASS, FIELD(flags), 0},
    {"train", PASS, FIELD(flags), ECORNN_TRAINING},
    {"rev", DIRECTION, FIELD(flags), ECORNN_REVERSE},
    {"bi", DIRECTION, FIELD(flags), ECORNN_BIDIRECTIONAL},
    {"batch-major", ORDER, FIELD(flags), ECORNN_BATCH_MAJOR},
    {"resets", RESETS, FIELD(flags), ECORNN_RESETS},
    {"mask", MASKS, FIELD(flags), ECORNN_MASK},
    {"shared-x", SHARING, FIELD(flags), ECORNN_SHARED_INPUT},
    {"grouped-input", GROUPS, FIELD(flags), ECORNN_GROUPED_INPUT},
    {"repeat-padding", PADDING, FIELD(flags), ECORNN_REPEAT_PADDING},
    {"all-states", STATES, FIELD(flags), ECORNN_ALL_STATES},
    {"streams", STREAMS, FIELD(flags), ECORNN_STREAMS},
    {"tangent", TANGENT, FIELD(flags), ECORNN_TANGENT},
    {"measure", MEASURE, FIELD(flags), ECORNN_MEASURE},
    {"save:all", SAVE, FIELD(flags), ECORNN_SAVE_ALL},
    {"save:states", SAVE, FIELD(flags), ECORNN_SAVE_STATES},
    {"bf16-save", SAVE_TYPE, FIELD(save_type), ECORNN_BF16},
    {"f16-save", SAVE_TYPE, FIELD(save_type), ECORNN_F16},
#undef FIELD
};

static const struct eco_grammar grammar = {.words = words,
                                           .extents = extents,
                                           .n_words = sizeof words / sizeof *words,
                                           .n_extents = sizeof extents / sizeof *extents,
                                           .sayings = SAYINGS,
                                           .flags = offsetof(ecornn_desc, flags)};
_Static_assert(SAYINGS + sizeof extents / sizeof *extents <= ECO_SAYINGS, "room for what is said");

/* Sums of int8 products must fit 32 bits. */
static bool is_too_wide(const ecornn_desc *desc)
{
    const int64_t D = (desc->flags & ECORNN_BIDIRECTIONAL) != 0 ? 2 : 1;
    return desc->input > ECO_QUANTISED_COLUMNS || D * desc->hidden > ECO_QUANTISED_COLUMNS;
}

static ecornn_status check_int8(const ecornn_desc *desc)
{
    const bool rows = (desc->flags & ECORNN_INT8) != 0, weights = desc->weight_type == ECORNN_S8;
    if (rows && (eco_problem_type(desc) != ECORNN_F32 || (desc->weight_type != 0 && !weights)))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "type is %s and weight_type %s, must be f32 and int8 with ECORNN_INT8",
                        eco_type_name(eco_problem_type(desc)), eco_type_name(desc->weight_type));
    if ((rows || weights) && (desc->flags & ECORNN_TRAINING) != 0)
        return eco_fail(ECORNN_UNSUPPORTED, "weight_type is int8, which training does not support: "
                                            "train with f32 weights and pack those");
    if (rows && is_too_wide(desc))
        return eco_fail(ECORNN_UNSUPPORTED,
                        "input is %d and hidden %d, must be at most %d, with two directions half "
                        "of it, with ECORNN_INT8",
                        desc->input, desc->hidden, ECO_QUANTISED_COLUMNS);
    return ECORNN_OK;
}

/* Called after the extents are checked, so every type is valid. */
static ecornn_status check_types(const ecornn_desc *desc)
{
    const ecornn_type type = eco_problem_type(desc), param = desc->param_type,
                      weight = desc->weight_type;
    if (param != 0 && param != type && (param != ECORNN_F32 || type == ECORNN_F64))
        return eco_fail(ECORNN_BAD_ARGUMENT, "param_type is %s, must be %s or 0 with type %s",
                        eco_type_name(param), type == ECORNN_F64 ? "f64" : "f32",
                        eco_type_name(type));
    if (weight != 0 && weight != type && !(type == ECORNN_F32 && eco_type_narrow(weight)))
        return eco_fail(ECORNN_BAD_ARGUMENT, "weight_type is %s, must be %s with type %s",
                        eco_type_name(weight),
                        type == ECORNN_F32 ? "f32, bf16, f16 or int8" : eco_type_name(type),
                        eco_type_name(type));
    const ecornn_status status = check_int8(desc);
    return status == ECORNN_OK ? eco_saving_check(desc) : status;
}

static bool is_dropout(float value)
{
    return value >= 0.0f && value < 1.0f; /* false for NaN */
}

/* A cell that reads x unit by unit needs as many inputs as units in every layer. */
static ecornn_status check_raw_input(const ecornn_desc *desc)
{
    const int32_t D = (desc->flags & ECORNN_BIDIRECTIONAL) != 0 ? 2 : 1,
                  P = desc->proj != 0 ? desc->proj : desc->hidden;
    if (desc->cell->lowered.raw < 0)
        return ECORNN_OK;
    if (desc->input != desc->hidden)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "input is %d, but cell %s reads x unit by unit: must be hidden, %d",
                        desc->input, desc->cell->recipe.name, desc->hidden);
    if (desc->layers > 1 && (int64_t)D * P != desc->hidden)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "a layer's output is %" PRId64
                        " wide, but cell %s reads x unit by unit: must be hidden, %d",
                        (int64_t)D * P, desc->cell->recipe.name, desc->hidden);
    return ECORNN_OK;
}

static ecornn_status check_flags(const ecornn_desc *desc)
{
    const uint32_t known =
        ECORNN_TRAINING | ECORNN_FAST_MATH | ECORNN_ROW_INVARIANT | ECORNN_RESETS | ECORNN_MASK |
        ECORNN_REPEAT_PADDING | ECORNN_ALL_STATES | ECORNN_SHARED_INPUT | ECORNN_GROUPED_INPUT |
        ECORNN_REVERSE | ECORNN_BIDIRECTIONAL | ECORNN_BATCH_MAJOR | ECORNN_SAVE_ALL |
        ECORNN_SAVE_STATES | ECORNN_TANGENT | ECORNN_INT8 | ECORNN_STREAMS | ECORNN_MEASURE;
    static const struct {
        uint32_t flags;
        const char *text;
    } apart[] = {{ECORNN_REVERSE | ECORNN_BIDIRECTIONAL, "ECORNN_REVERSE and ECORNN_BIDIRECTIONAL"},
                 {ECORNN_SAVE_ALL | ECORNN_SAVE_STATES, "ECORNN_SAVE_ALL and ECORNN_SAVE_STATES"}};
    if ((desc->flags & ECORNN_STREAMS) != 0 && desc->models > 1)
        return eco_fail(ECORNN_UNSUPPORTED, "ECORNN_STREAMS needs one model, models is %d",
                        desc->models);
    if ((desc->flags & ~known) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "flags is 0x%x, known are 0x%x", desc->flags, known);
    const double most = (desc->flags & ECORNN_MEASURE) != 0 ? 1000 : 0;
    if (!(desc->measure_seconds >= 0 && desc->measure_seconds <= most))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "measure_seconds is %g, must be 0 to 1000 with ECORNN_MEASURE, else 0",
                        desc->measure_seconds);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        if ((desc->flags & apart[i].flags) == apart[i].flags)
            return eco_fail(ECORNN_BAD_ARGUMENT, "flags is 0x%x, but %s exclude each other",
                            desc->flags, apart[i].text);
    return ECORNN_OK;
}

static ecornn_status check_heads(const ecornn_desc *desc)
{
    if (desc->heads > 1 && desc->hidden % desc->heads != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "heads is %d, must divide hidden, which is %d",
                        desc->heads, desc->hidden);
    if (desc->heads > 1 && desc->proj != 0)
        return eco_fail(ECORNN_UNSUPPORTED, "proj is %d with %d heads: no projection joins heads",
                        desc->proj, desc->heads);
    if ((desc->flags & ECORNN_GROUPED_INPUT) != 0 &&
        (desc->heads <= 1 || desc->input % desc->heads != 0))
        return eco_fail(
            ECORNN_BAD_ARGUMENT,
            "heads is %d with ECORNN_GROUPED_INPUT, must be 2 or more and divide input, "
            "which is %d",
            desc->heads, desc->input);
    return ECORNN_OK;
}

static ecornn_status check_desc(const ecornn_desc *desc)
{
    if (desc->cell == NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    ecornn_status status = eco_extents_check(&grammar, desc);
    if (status == ECORNN_OK)
        status = check_types(desc);
    if (status != ECORNN_OK)
        return status;
    if (!is_dropout(desc->dropout))
        return eco_fail(ECORNN_BAD_ARGUMENT, "dropout is %g, must be at least 0 and below 1",
                        (double)desc->dropout);
    if (desc->dropout > 0 && desc->layers <= 1)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "dropout is %g, but goes between layers of one plan, and it has 1: must be "
                        "0, and in the text of a net a piece, \"; dropout:P;\"",
                        (double)desc->dropout);
    status = check_flags(desc);
    if (status != ECORNN_OK)
        return status;
    if (desc->reserved != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "reserved is %d, must be 0", desc->reserved);
    status = check_heads(desc);
    if (status != ECORNN_OK)
        return status;
    if (desc->proj != 0 && !desc->cell->lowered.projectable)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "proj is %d, but cell %s uses its output state outside R(.): no projection",
                        desc->proj, desc->cell->recipe.name);
    if (desc->models <= 1 && (desc->flags & ECORNN_SHARED_INPUT) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "models is %d, must be 2 or more with ECORNN_SHARED_INPUT", desc->models);
    if (desc->models > 1 && desc->memory_limit > 0)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "memory_limit is %" PRIu64 ", must be 0 with models, which are %d",
                        desc->memory_limit, desc->models);
    return check_raw_input(desc);
}

/* Writes the fewest decimals that identify the float, the same in every locale. */
void eco_problem_write_decimal(struct eco_text *text, float value)
{
    enum { USUAL = 12, MOST = 54 }; /* nine digits of the smallest float need MOST */
    int decimals = 0;
    double power = 1, integer;
    do {
        decimals++;
        power *= 10;
        integer = rint((double)value * power);
    } while (decimals < MOST && (float)(integer / power) != value);
    if (decimals <= USUAL)
        eco_text_add(text, "%" PRId64 ".%0*" PRId64, (int64_t)integer / (int64_t)power, decimals,
                     (int64_t)integer % (int64_t)power);
    else
        eco_text_add(text, "%" PRId64 "e-%d", (int64_t)integer, decimals);
}

static void write_text(struct eco_problem *problem)
{
    struct eco_text text = {problem->text, sizeof problem->text, 0};
    eco_text_add(&text, "%s/%s", problem->cell->recipe.name, eco_type_name(problem->type));
    if (problem->int8)
        eco_text_add(&text, "/int8");
    else if (problem->weight_type != problem->type)
        eco_text_add(&text, "/%s-weights", eco_type_name(problem->weight_type));
    if (eco_type_narrow(problem->param_type))
        eco_text_add(&text, "/%s-params", eco_type_name(problem->param_type));
    if (problem->fast)
        eco_text_add(&text, "/fast");
    if (problem->row_invariant)
        eco_text_add(&text, "/row-invariant");
    eco_text_add(&text, "/%s", problem->training ? "train" : "infer");
    if (problem->L > 1)
        eco_text_add(&text, "/L%d", problem->L);
    eco_text_add(&text, "%s/T%d/N%d/I%d/H%d",
                 problem->D == 2    ? "/bi"
                 : problem->reverse ? "/rev"
                                    : "",
                 problem->T, problem->N, problem->I, problem->H);
    if (problem->projected)
        eco_text_add(&text, "/P%d", problem->P);
    if (problem->heads > 1)
        eco_text_add(&text, "/heads:%d%s", problem->heads,
                     problem->grouped ? "/grouped-input" : "");
    if (problem->batch_major)
        eco_text_add(&text, "/batch-major");
    if (problem->resets)
        eco_text_add(&text, "/resets");
    if (problem->masks)
        eco_text_add(&text, "/mask");
    if (problem->repeats)
        eco_text_add(&text, "/repeat-padding");
    if (problem->states)
        eco_text_add(&text, "/all-states");
    if (problem->streams)
        eco_text_add(&text, "/streams");
    if (problem->dropout > 0) {
        eco_text_add(&text, "/dropout:");
        eco_problem_write_decimal(&text, problem->dropout);
    }
    eco_saving_write(&text, problem);
    if (problem->models > 1)
        eco_text_add(&text, "/models:%d", problem->models);
    if (problem->shared)
        eco_text_add(&text, "/shared-x");
}

void eco_problem_of_one(struct eco_problem *one, const struct eco_problem *problem)
{
    *one = *problem;
    one->models = 1;
    one->shared = false;
    write_text(one);
}

ecornn_status eco_problem_build(struct eco_problem *problem, const ecornn_desc *desc)
{
    const ecornn_type type = eco_problem_type(desc);
    const ecornn_status status = check_desc(desc);
    if (status != ECORNN_OK)
        return status;
    *problem = (struct eco_problem){
        .cell = desc->cell,
        .T = desc->steps,
        .N = desc->batch,
        .I = desc->input,
        .H = desc->hidden,
        .heads = desc->heads != 0 ? desc->heads : 1,
        .grouped = (desc->flags & ECORNN_GROUPED_INPUT) != 0,
        .P = desc->proj != 0 ? desc->proj : desc->hidden,
        .L = desc->layers != 0 ? desc->layers : 1,
        .D = (desc->flags & ECORNN_BIDIRECTIONAL) != 0 ? 2 : 1,
        .projected = desc->proj != 0,
        .training = (desc->flags & ECORNN_TRAINING) != 0,
        .fast = (desc->flags & ECORNN_FAST_MATH) != 0,
        .row_invariant = (desc->flags & ECORNN_ROW_INVARIANT) != 0,
        .resets = (desc->flags & ECORNN_RESETS) != 0,
        .masks = (desc->flags & ECORNN_MASK) != 0,
        .repeats = (desc->flags & ECORNN_REPEAT_PADDING) != 0,
        .states = (desc->flags & ECORNN_ALL_STATES) != 0,
        .streams = (desc->flags & ECORNN_STREAMS) != 0,
        .shared = (desc->flags & ECORNN_SHARED_INPUT) != 0,
        .int8 = (desc->flags & ECORNN_INT8) != 0,
        .models = desc->models != 0 ? desc->models : 1,
        .reverse = (desc->flags & ECORNN_REVERSE) != 0,
        .batch_major = (desc->flags & ECORNN_BATCH_MAJOR) != 0,
        .type = type,
        .param_type = type == ECORNN_F64      ? ECORNN_F64
                      : desc->param_type != 0 ? desc->param_type
                                              : ECORNN_F32,
        .weight_type = (desc->flags & ECORNN_INT8) != 0 ? ECORNN_S8
                       : desc->weight_type != 0         ? desc->weight_type
                                                        : type,
        .dropout = desc->dropout,
        .saving = eco_saving_of(desc),
        .memory_limit = desc->memory_limit,
    };
    write_text(problem);
    return ECORNN_OK;
}

/* ---- from a string --------------------------------------------------------------------------- */

/* Independent of the locale. */
bool eco_problem_parse_decimal(const char *text, float *value)
{
    struct eco_cell_error error;
    struct eco_scanner scanner;
    if (text[strspn(text, "0123456789.eE+-")] != '\0' ||
        eco_scan_begin(&scanner, text, &error) != 0)
        return false;
    const bool minus = eco_scan_is(&scanner, '-');
    if (minus)
        eco_scan_next(&scanner, false);
    const struct eco_token token = scanner.token;
    eco_scan_next(&scanner, false);
    *value = (float)(minus ? -token.number : token.number);
    return !scanner.failed && token.kind == ECO_TOKEN_NUMBER && scanner.token.kind == ECO_TOKEN_END;
}

static ecornn_status parse_models(struct eco_reading *reading, const char *part)
{
    const char *digits = strchr(part, ':') + 1;
    ecornn_desc *desc = reading->desc;
    if (*digits == '\0' || strspn(digits, "0123456789") != strlen(digits) || strlen(digits) > 9)
        return eco_reading_fail(reading, part);
    desc->models = (int32_t)strtol(digits, NULL, 10);
    if (desc->models < 1 || desc->models > ECO_MAX_MODELS)
        return eco_fail(ECORNN_BAD_ARGUMENT, "models is %s, must be 1 to %d", digits,
                        ECO_MAX_MODELS);
    return eco_reading_say(reading, MODELS, part);
}

static ecornn_status parse_heads(struct eco_reading *reading, const char *part, const char *value)
{
    const size_t digits = strspn(value, "0123456789");
    int64_t heads = 0;
    for (size_t i = 0; i < digits && heads <= ECO_MAX_EXTENT; i++)
        heads = heads * 10 + (value[i] - '0');
    if (digits == 0 || value[digits] != '\0')
        return eco_reading_fail(reading, part);
    if (heads < 1 || heads > ECO_MAX_EXTENT)
        return eco_fail(ECORNN_BAD_ARGUMENT, "heads is %s, must be 1 to %d", value, ECO_MAX_EXTENT);
    ((ecornn_desc *)reading->desc)->heads = (int32_t)heads;
    return eco_reading_say(reading, HEADS, part);
}

static ecornn_status parse_measure(struct eco_reading *reading, const char *part, const char *value)
{
    ecornn_desc *desc = reading->desc;
    float seconds;
    if (!eco_problem_parse_decimal(value, &seconds))
        return eco_reading_fail(reading, part);
    desc->flags |= ECORNN_MEASURE;
    desc->measure_seconds = (double)seconds;
    return eco_reading_say(reading, MEASURE, part);
}

static ecornn_status parse_part(struct eco_reading *reading, const char *part)
{
    static const char dropout[] = "dropout:", heads[] = "heads:", measure[] = "measure:";
    ecornn_desc *desc = reading->desc;
    ecornn_status status;
    if (eco_reading_word(reading, part, &status))
        return status;
    if (eco_saving_parse(desc, part))
        return eco_reading_say(reading, part[0] == 's' ? SAVE : MEMORY, part);
    if (strncmp(part, "models:", 7) == 0)
        return parse_models(reading, part);
    if (strncmp(part, heads, sizeof heads - 1) == 0)
        return parse_heads(reading, part, part + sizeof heads - 1);
    if (strncmp(part, measure, sizeof measure - 1) == 0)
        return parse_measure(reading, part, part + sizeof measure - 1);
    if (strncmp(part, dropout, sizeof dropout - 1) != 0)
        return eco_reading_extent(reading, part);
    const char *value = part + sizeof dropout - 1;
    if (!eco_problem_parse_decimal(value, &desc->dropout))
        return eco_reading_fail(reading, part);
    if (!is_dropout(desc->dropout))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "dropout is %s, which is %g in float, must be at least 0 and below 1",
                        value, (double)desc->dropout);
    return eco_reading_say(reading, DROPOUT, part);
}

ecornn_status eco_problem_parse(ecornn_desc *desc, const char *text, const ecornn_cell *cell)
{
    char copy[ECO_MAX_PROBLEM_TEXT];
    if (strlen(text) >= sizeof copy)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string has %zu characters, at most %zu",
                        strlen(text), sizeof copy - 1);
    strcpy(copy, text);
    ecornn_desc parsed = {.cell = cell};
    struct eco_reading reading = {.grammar = &grammar, .desc = &parsed, .text = text};
    char *rest = copy;
    for (bool first = true; rest != NULL; first = false) {
        char *part = rest;
        rest = strchr(part, '/');
        if (rest != NULL)
            *rest++ = '\0';
        if (first && cell == NULL)
            for (int i = 0; parsed.cell == NULL && eco_cell_builtin(i) != NULL; i++)
                if (strcmp(eco_cell_builtin(i)->recipe.name, part) == 0)
                    parsed.cell = eco_cell_builtin(i);
        if (first && parsed.cell == NULL)
            return eco_fail(ECORNN_BAD_ARGUMENT, "no built-in cell is called \"%s\"", part);
        const ecornn_status status = first ? ECORNN_OK : parse_part(&reading, part);
        if (status != ECORNN_OK)
            return status;
    }
    parsed.type = eco_problem_type(&parsed);
    const ecornn_status status = check_desc(&parsed);
    if (status == ECORNN_OK)
        *desc = parsed;
    return status;
}

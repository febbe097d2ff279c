/*
 * The problem: checks a description, makes it canonical, and writes its string.  Knows nothing of
 * layouts or devices.
 */
#include "common/problem.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/cell/scan.h"
#include "common/quantise.h"
#include "common/type.h"
#include "common/util.h"

int32_t eco_problem_input(const struct eco_problem *problem, int layer)
{
    return layer == 0 ? problem->I : problem->D * problem->Y;
}

/* Numbers of a row in a value of a kind: H; with a matrix state those of all heads. */
struct extents {
    const struct ecornn_cell *cell;
    int64_t H, heads, key;
};

static int64_t kind_width(const struct extents *of, int kind)
{
    const int64_t heads = of->cell->recipe.matrix ? of->heads : 1;
    const int64_t width[] = {[ECO_KIND_UNITS] = of->H,
                             [ECO_KIND_NUMBER] = heads,
                             [ECO_KIND_KEY] = heads * of->key,
                             [ECO_KIND_VALUE] = of->H,
                             [ECO_KIND_MATRIX] = of->key * of->H};
    return width[kind];
}

static struct extents extents_of(const struct eco_problem *problem)
{
    return (struct extents){problem->cell, problem->H, problem->heads, problem->key};
}

/* The key's width is that of a head's values unless it is said. */
static struct extents extents_of_desc(const ecornn_desc *desc)
{
    const int32_t heads = desc->heads > 1 ? desc->heads : 1;
    return (struct extents){desc->cell, desc->hidden, heads,
                            desc->key > 0 ? desc->key : desc->hidden / heads};
}

/* Columns of the parts of x that come before part `end` of a cell's text. */
static int64_t parts_width(const struct extents *of, int end)
{
    int64_t width = 0;
    for (int k = 0; k < end; k++)
        width += kind_width(of, of->cell->recipe.part[k].kind);
    return width;
}

/* What a description's x has besides the parts; below 0: too little. */
static int64_t rest_of(const ecornn_desc *desc)
{
    const struct extents of = extents_of_desc(desc);
    return desc->input - parts_width(&of, desc->cell->recipe.n_parts);
}

int32_t eco_problem_kind(const struct eco_problem *problem, int kind)
{
    const struct extents of = extents_of(problem);
    return (int32_t)kind_width(&of, kind);
}

int32_t eco_problem_part(const struct eco_problem *problem, int part)
{
    return eco_problem_kind(problem, problem->cell->recipe.part[part].kind);
}

int32_t eco_problem_parts(const struct eco_problem *problem)
{
    const struct extents of = extents_of(problem);
    return (int32_t)parts_width(&of, problem->cell->recipe.n_parts);
}

int32_t eco_problem_rest(const struct eco_problem *problem, int layer)
{
    /* sizes are also asked of a second layer that is not there */
    const int32_t rest =
        layer == 0 ? problem->I - eco_problem_parts(problem) : eco_problem_input(problem, layer);
    assert(rest >= 0);
    return rest;
}

int32_t eco_problem_column(const struct eco_problem *problem, int copy)
{
    const struct extents of = extents_of(problem);
    return copy == 0 ? 0 : eco_problem_rest(problem, 0) + (int32_t)parts_width(&of, copy - 1);
}

bool eco_problem_is_single(const struct eco_problem *problem, int copy)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    return copy > 0 && recipe->part[copy - 1].kind == ECO_KIND_NUMBER && !recipe->matrix;
}

int32_t eco_problem_width(const struct eco_problem *problem, int state)
{
    return state == 0 ? problem->P
                      : eco_problem_kind(problem, problem->cell->recipe.state_kind[state]);
}

ecornn_type eco_problem_state_type(const struct eco_problem *problem, int state)
{
    return problem->cell->recipe.matrix && state > 0 ? eco_type_sum(problem->type) : problem->type;
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
    return problem->Y != problem->P ||
           (problem->cell->lowered.remembers && eco_type_narrow(problem->type));
}

bool eco_problem_writes_y(const struct eco_problem *problem)
{
    return problem->training || problem->resets || problem->states ||
           eco_problem_wide_output(problem);
}

bool eco_problem_is_plain(const struct eco_problem *problem)
{
    return !problem->resets && !problem->row_invariant;
}

bool eco_problem_draws(const struct eco_problem *problem)
{
    return problem->dropout > 0 || problem->cell->recipe.n_bernoulli > 0;
}

/* ---- options --------------------------------------------------------------------------------- */

/* Writes the fewest decimals that identify the float, the same in every locale. */
static void write_decimal(struct eco_text *text, float value)
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

static bool is_dropout(float value)
{
    return value >= 0.0f && value < 1.0f; /* false for NaN */
}

static ecornn_status parse_dropout(struct eco_reading *reading, const char *part, const char *value)
{
    ecornn_desc *desc = reading->desc;
    if (!eco_problem_parse_decimal(value, &desc->dropout))
        return eco_reading_fail(reading, part);
    if (!is_dropout(desc->dropout))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "dropout is %s, which is %g in float, must be at least 0 and below 1",
                        value, (double)desc->dropout);
    return ECORNN_OK;
}

static void print_dropout(struct eco_text *text, const void *of)
{
    const struct eco_problem *problem = of;
    if (problem->dropout > 0) {
        eco_text_add(text, "/dropout:");
        write_decimal(text, problem->dropout);
    }
}

static ecornn_status parse_measure(struct eco_reading *reading, const char *part, const char *value)
{
    ecornn_desc *desc = reading->desc;
    float seconds;
    if (!eco_problem_parse_decimal(value, &seconds))
        return eco_reading_fail(reading, part);
    desc->flags |= ECORNN_MEASURE;
    desc->measure_seconds = (double)seconds;
    return ECORNN_OK;
}

static void print_weights(struct eco_text *text, const void *of)
{
    const struct eco_problem *problem = of;
    if (problem->int8)
        eco_text_add(text, "/int8");
    else if (problem->weight_type != problem->type)
        eco_text_add(text, "/%s-weights", eco_type_name(problem->weight_type));
}

static void print_direction(struct eco_text *text, const void *of)
{
    const struct eco_problem *problem = of;
    if (problem->D == 2 || problem->reverse)
        eco_text_add(text, problem->D == 2 ? "/bi" : "/rev");
}

static void print_key(struct eco_text *text, const void *of)
{
    const struct eco_problem *problem = of;
    if (problem->key != (problem->cell->recipe.matrix ? eco_problem_head(problem) : 0))
        eco_text_add(text, "/key:%d", problem->key);
}

static void print_projection(struct eco_text *text, const void *of)
{
    const struct eco_problem *problem = of;
    if (problem->projected)
        eco_text_add(text, "/P%d", problem->P);
}

/* clang-format off */
#define FIELD(name)        offsetof(ecornn_desc, name)
#define VALUE(of)          .name = #of, .field = FIELD(of)
#define AT(name)           offsetof(struct eco_problem, name)
#define WORD(of, to, set)  {.word = of, .field = FIELD(to), .value = set}
#define WORD_FLAG(of, set) {of, "ECORNN_" #set, FIELD(flags), ECORNN_##set}
#define ITEM(...)          {__VA_ARGS__},
#define COUNT(to, of, name, low, high, common, nets) \
    {VALUE(name), .key = of, .least = low, .most = high, .usual = common, .at = AT(to), nets},
#define FLAG(to, set, of, without, nets) \
    {.word = {WORD_FLAG(of, set), WORD(without, flags, 0)}, .at = AT(to), nets},
#define ALIKE              .alike = true
#define FREE               .alike = false
/* clang-format on */

static const struct eco_option options[] = {
#include "common/option_rows.inc"
};
enum { OPTIONS = sizeof options / sizeof *options };
_Static_assert((int)OPTIONS <= (int)ECO_OPTIONS, "room for what is said");

const struct eco_grammar eco_problem_grammar = {
    .option = options, .options = OPTIONS, .flags = FIELD(flags)};

/* ---- from a description ---------------------------------------------------------------------- */

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

/* Does the text of a cell read the rest of x, by W or unit by unit? */
static bool reads_rest(const struct ecornn_cell *cell)
{
    const struct eco_recipe *recipe = &cell->recipe;
    return cell->lowered.raw >= 0 || (recipe->n_params > 0 && recipe->param[0].kind == ECO_PARAM_W);
}

/* A cell with parts of x reads them in the first layer only; what is left of x must be read. */
static ecornn_status check_parts(const ecornn_desc *desc)
{
    const struct eco_recipe *recipe = &desc->cell->recipe;
    const int64_t rest = rest_of(desc);
    if (desc->layers > 1)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "layers is %d, but cell %s has part '%s' of x, which layers above the "
                        "first lack: must be 1",
                        desc->layers, recipe->name, recipe->part[0].name);
    if (rest < 0 || (rest == 0) == reads_rest(desc->cell))
        return eco_fail(
            ECORNN_BAD_ARGUMENT,
            "input is %d, but the parts of x of cell %s, '%s' %s, are %" PRId64 " wide: must be %s",
            desc->input, recipe->name, recipe->part[0].name,
            recipe->n_parts > 1 ? "and others" : "alone", desc->input - rest,
            reads_rest(desc->cell) ? "larger, because its text reads the rest of x too"
                                   : "that, because its text does not read the rest of x");
    return ECORNN_OK;
}

/* A cell that reads x unit by unit needs as many inputs as units in every layer. */
static ecornn_status check_raw_input(const ecornn_desc *desc)
{
    const struct eco_recipe *recipe = &desc->cell->recipe;
    const int32_t D = (desc->flags & ECORNN_BIDIRECTIONAL) != 0 ? 2 : 1,
                  Y = (desc->proj != 0 ? desc->proj : desc->hidden) * recipe->n_outputs;
    if (desc->cell->lowered.raw < 0)
        return ECORNN_OK;
    if (rest_of(desc) != desc->hidden)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "input is %d, but cell %s reads x unit by unit: must be hidden, %d%s",
                        desc->input, recipe->name, desc->hidden,
                        recipe->n_parts > 0 ? ", and the parts of x" : "");
    if (desc->layers > 1 && (int64_t)D * Y != desc->hidden)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "a layer's output is %" PRId64
                        " wide, but cell %s reads x unit by unit: must be hidden, %d",
                        (int64_t)D * Y, recipe->name, desc->hidden);
    return ECORNN_OK;
}

static ecornn_status check_flags(const ecornn_desc *desc)
{
    const double most = (desc->flags & ECORNN_MEASURE) != 0 ? 1000 : 0;
    if ((desc->flags & ECORNN_STREAMS) != 0 && desc->models > 1)
        return eco_fail(ECORNN_UNSUPPORTED, "ECORNN_STREAMS needs one model, models is %d",
                        desc->models);
    if (!(desc->measure_seconds >= 0 && desc->measure_seconds <= most))
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "measure_seconds is %g, must be 0 to 1000 with ECORNN_MEASURE, else 0",
                        desc->measure_seconds);
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
        (desc->heads <= 1 || rest_of(desc) % desc->heads != 0))
        return eco_fail(
            ECORNN_BAD_ARGUMENT,
            "heads is %d with ECORNN_GROUPED_INPUT, must be 2 or more and divide input%s, "
            "which is %" PRId64,
            desc->heads, desc->cell->recipe.n_parts > 0 ? " without the parts of x" : "",
            rest_of(desc));
    return ECORNN_OK;
}

/* What a cell with a matrix state does not have, and the size of the state. */
static ecornn_status check_matrix(const ecornn_desc *desc)
{
    enum { WITHOUT = ECORNN_BIDIRECTIONAL | ECORNN_TANGENT | ECORNN_GROUPED_INPUT | ECORNN_INT8 };
    const char *const name = desc->cell->recipe.name;
    const struct extents of = extents_of_desc(desc);
    const ecornn_type save = desc->save_type;
    if ((desc->flags & WITHOUT) != 0 || desc->weight_type != 0 ||
        (save != 0 && save != eco_problem_type(desc)))
        return eco_fail(ECORNN_UNSUPPORTED,
                        "cell %s has a matrix state, which goes without ECORNN_BIDIRECTIONAL, "
                        "ECORNN_TANGENT, ECORNN_GROUPED_INPUT, ECORNN_INT8, weight_type and "
                        "save_type",
                        name);
    if (desc->layers > 1 || desc->models > 1)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "layers is %d and models %d, must be at most 1 for cell %s, which has a "
                        "matrix state",
                        desc->layers, desc->models, name);
    if (of.key * of.H > INT32_MAX || of.key * of.heads > INT32_MAX)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "key is %" PRId64 ": the states of a row would have %" PRId64
                        " numbers, at most %d",
                        of.key, of.key * of.H, INT32_MAX);
    return ECORNN_OK;
}

static ecornn_status check_key(const ecornn_desc *desc)
{
    if (desc->cell->recipe.matrix)
        return check_matrix(desc);
    return desc->key == 0 ? ECORNN_OK
                          : eco_fail(ECORNN_BAD_ARGUMENT,
                                     "key is %d, but cell %s has no matrix state: must be 0",
                                     desc->key, desc->cell->recipe.name);
}

static ecornn_status check_desc(const ecornn_desc *desc)
{
    if (desc->cell == NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT, "cell is NULL");
    ecornn_status status = eco_options_check(&eco_problem_grammar, desc);
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
    if (desc->reserved != 0 || desc->reserved2 != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "reserved is %d and reserved2 %d, must be 0",
                        desc->reserved, desc->reserved2);
    status = check_heads(desc);
    if (status == ECORNN_OK)
        status = check_key(desc);
    if (status != ECORNN_OK)
        return status;
    if (desc->proj != 0 && !desc->cell->lowered.projectable)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "proj is %d, but cell %s uses its output state outside R(.): no projection",
                        desc->proj, desc->cell->recipe.name);
    if (desc->proj != 0 && desc->cell->recipe.n_outputs > 1)
        return eco_fail(ECORNN_UNSUPPORTED, "proj is %d, but y of cell %s has %d states",
                        desc->proj, desc->cell->recipe.name, desc->cell->recipe.n_outputs);
    if (desc->models <= 1 && (desc->flags & ECORNN_SHARED_INPUT) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "models is %d, must be 2 or more with ECORNN_SHARED_INPUT", desc->models);
    if (desc->models > 1 && desc->memory_limit > 0)
        return eco_fail(ECORNN_UNSUPPORTED,
                        "memory_limit is %" PRIu64 ", must be 0 with models, which are %d",
                        desc->memory_limit, desc->models);
    status = desc->cell->recipe.n_parts > 0 ? check_parts(desc) : ECORNN_OK;
    return status == ECORNN_OK ? check_raw_input(desc) : status;
}

static void write_text(struct eco_problem *problem)
{
    struct eco_text text = {problem->text, sizeof problem->text, 0};
    eco_text_add(&text, "%s", problem->cell->recipe.name);
    eco_options_print(&eco_problem_grammar, &text, problem);
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
        .P = desc->proj != 0 ? desc->proj : desc->hidden,
        .Y = desc->proj != 0 ? desc->proj : desc->hidden * desc->cell->recipe.n_outputs,
        .D = (desc->flags & ECORNN_BIDIRECTIONAL) != 0 ? 2 : 1,
        .projected = desc->proj != 0,
        .int8 = (desc->flags & ECORNN_INT8) != 0,
        .reverse = (desc->flags & ECORNN_REVERSE) != 0,
        .weight_type = (desc->flags & ECORNN_INT8) != 0 ? ECORNN_S8
                       : desc->weight_type != 0         ? desc->weight_type
                                                        : type,
        .flags = desc->flags,
        .dropout = desc->dropout,
        .saving = eco_saving_of(desc),
        .memory_limit = desc->memory_limit,
    };
    eco_options_build(&eco_problem_grammar, problem, desc);
    if (desc->cell->recipe.matrix && problem->key == 0)
        problem->key = eco_problem_head(problem);
    if (type == ECORNN_F64 || problem->param_type == 0)
        problem->param_type = type == ECORNN_F64 ? ECORNN_F64 : ECORNN_F32;
    write_text(problem);
    return ECORNN_OK;
}

/* ---- from a string --------------------------------------------------------------------------- */

ecornn_status eco_problem_parse(ecornn_desc *desc, const char *text, const ecornn_cell *cell)
{
    char copy[ECO_MAX_PROBLEM_TEXT];
    if (strlen(text) >= sizeof copy)
        return eco_fail(ECORNN_BAD_ARGUMENT, "problem string has %zu characters, at most %zu",
                        strlen(text), sizeof copy - 1);
    strcpy(copy, text);
    ecornn_desc parsed = {.cell = cell};
    struct eco_reading reading = {.grammar = &eco_problem_grammar, .desc = &parsed, .text = text};
    char *rest = strchr(copy, '/');
    if (rest != NULL)
        *rest++ = '\0';
    for (int i = 0; parsed.cell == NULL && eco_cell_builtin(i) != NULL; i++)
        if (strcmp(eco_cell_builtin(i)->recipe.name, copy) == 0)
            parsed.cell = eco_cell_builtin(i);
    if (parsed.cell == NULL)
        return eco_fail(ECORNN_BAD_ARGUMENT,
                        "no built-in cell is called \"%s\", and none of the library (\"ecornn "
                        "cell --list\" has them); other cells need their text",
                        copy);
    ecornn_status status = eco_options_parse(&reading, rest);
    parsed.type = eco_problem_type(&parsed);
    if (status == ECORNN_OK)
        status = check_desc(&parsed);
    if (status == ECORNN_OK)
        *desc = parsed;
    return status;
}

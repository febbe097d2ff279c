/* Cases: their strings, cells and inputs, and the named arrays of inputs and results. */
#include "tests/kit/testing.h"
#include "tests/kit/calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"
#include "common/run_arrays.h"
#include "common/type.h"

/* ---- arrays ---------------------------------------------------------------------------------- */

static void give_up(const char *what, const char *which)
{
    fprintf(stderr, "%s: %s\n", what, which);
    exit(99); /* the test kit is broken, which is no failure of the library */
}

static void *allocate(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        give_up("no memory", "testing");
    return memory;
}

struct array *data_add(struct data *data, const char *name, int rank, const int32_t *extent)
{
    if (data->n == data->room) {
        data->room = 2 * data->room + 16;
        struct array *larger = allocate((size_t)data->room * sizeof *larger);
        if (data->n)
            memcpy(larger, data->array, (size_t)data->n * sizeof *larger);
        free(data->array);
        data->array = larger;
    }
    struct array *array = &data->array[data->n++];
    *array = (struct array){.rank = rank, .count = 1};
    snprintf(array->name, sizeof array->name, "%s", name);
    for (int k = 0; k < rank; k++) {
        array->extent[k] = extent[k];
        array->count *= (size_t)extent[k];
    }
    array->value = allocate(array->count * sizeof *array->value);
    return array;
}

struct array *data_find(const struct data *data, const char *name)
{
    for (int i = 0; i < data->n; i++)
        if (strcmp(data->array[i].name, name) == 0)
            return &data->array[i];
    return NULL;
}

void data_free(struct data *data)
{
    for (int i = 0; i < data->n; i++)
        free(data->array[i].value);
    free(data->array);
    free(data->rounds);
    *data = (struct data){0};
}

/* ---- cells from files ------------------------------------------------------------------------ */

void source_path(char path[1024], const char *inside)
{
    const char *const root[] = {getenv("srcdir"), ".", "..", "../.."};
    for (size_t i = 0; i < sizeof root / sizeof *root; i++) {
        snprintf(path, 1024, "%s/%s", root[i] ? root[i] : ".", inside);
        FILE *file = fopen(path, "r");
        if (file) {
            fclose(file);
            return;
        }
    }
}

bool source_read(const char *inside, char *text, size_t size)
{
    char path[1024];
    source_path(path, inside);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return true;
}

bool cell_read(const char *name, char *text, size_t size)
{
    static const char *const folder[] = {"cells", "tests/cells"};
    char inside[256];
    bool found = false;
    if (strncmp(name, "own-", 4) == 0) {
        snprintf(inside, sizeof inside, "common/cell/%s.cell", name + 4);
        return source_read(inside, text, size);
    }
    for (int k = 0; !found && k < 2; k++) {
        snprintf(inside, sizeof inside, "%s/%s.cell", folder[k], name);
        found = source_read(inside, text, size);
    }
    return found;
}

/* False: the file does not exist or is not a cell. */
static bool read_cell(ecornn_cell **cell, const char *name)
{
    char text[16384];
    const bool found = cell_read(name, text, sizeof text);
    if (found && ecornn_cell_parse(cell, text) == ECORNN_OK)
        return true;
    fprintf(stderr, "%s: %s\n", name, found ? ecornn_error_detail() : "no such cell");
    return false;
}

/* ---- strings --------------------------------------------------------------------------------- */

static bool parse_null(struct test_case *test, const char *list)
{
    for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
        const int array = case_array(list);
        if (array < 0)
            return false;
        test->null |= 1u << array;
    }
    return true;
}

static bool parse_lengths(struct test_case *test, const char *word)
{
    static const char *const name[] = {"", "random", "zero", "full", "short"};
    for (int k = 1; k < 5; k++)
        if (strcmp(word, name[k]) == 0)
            test->lengths = (enum lengths)k;
    return test->lengths != LENGTHS_NULL;
}

/* 1: a suffix of a case; 0: a part of the problem string; -1: a wrong suffix. */
static int parse_suffix(struct test_case *test, const char *part)
{
    const struct {
        const char *word;
        bool *flag;
    } flag[] = {{"states", &test->with_states},
                {"alias", &test->alias},
                {"accumulate", &test->accumulate},
                {"noreserve", &test->noreserve}};
    for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
        if (strcmp(part, flag[i].word) == 0)
            return *flag[i].flag = true;
    const char *colon = strchr(part, ':');
    if (!colon || strncmp(part, "dropout", 7) == 0 || strncmp(part, "save", 4) == 0 ||
        strncmp(part, "memory", 6) == 0 || strncmp(part, "heads", 5) == 0 ||
        strncmp(part, "key", 3) == 0)
        return 0;
    bool ok = false;
    if (strncmp(part, "lengths", 7) == 0)
        ok = parse_lengths(test, colon + 1);
    else if (strncmp(part, "null", 4) == 0)
        ok = parse_null(test, colon + 1);
    else if (strncmp(part, "run", 3) == 0)
        ok = sscanf(colon, ":%dx%d", &test->T, &test->N) == 2;
    else if (strncmp(part, "scale", 5) == 0)
        ok = sscanf(colon, ":%lf", &test->scale) == 1;
    else if (strncmp(part, "gradients", 9) == 0)
        ok = sscanf(colon, ":%lf", &test->gradients) == 1;
    else if (strncmp(part, "gates", 5) == 0)
        ok = sscanf(colon, ":%lf", &test->gates) == 1;
    else if (strncmp(part, "resets", 6) == 0)
        ok = sscanf(colon, ":%lf", &test->resets) == 1 && test->resets >= 0;
    else if (strncmp(part, "first", 5) == 0)
        ok = sscanf(colon, ":%dx%d", &test->first_step, &test->first_row) == 2;
    else if (strncmp(part, "mask", 4) == 0)
        ok = sscanf(colon, ":%lf", &test->mask) == 1 && test->mask >= 0;
    else if (strncmp(part, "seed", 4) == 0)
        ok = (test->seed = strtoull(colon + 1, NULL, 0)) != 0;
    return ok ? 1 : -1;
}

/* Splits the string: suffixes to test, the rest to problem. */
static bool parse_parts(struct test_case *test, const char *text, char problem[CASE_TEXT])
{
    char copy[CASE_TEXT];
    snprintf(copy, sizeof copy, "%s", text);
    problem[0] = '\0';
    for (char *part = copy, *rest = copy; rest; part = rest) {
        rest = strchr(part, '/');
        if (rest)
            *rest++ = '\0';
        const int kind = problem[0] ? parse_suffix(test, part) : 0;
        if (kind < 0) {
            fprintf(stderr, "%s: wrong suffix %s\n", text, part);
            return false;
        }
        if (kind == 0) /* the problem is not longer than text, which fits */
            strcat(strcat(problem, problem[0] ? "/" : ""), part);
    }
    return true;
}

/* The input that a cell needs: as many numbers as units if it reads x unit by unit, else `given` if
 * it has a W; and its parts. */
static int32_t input_of(const struct ecornn_cell *cell, int32_t given, int32_t H)
{
    const struct eco_recipe *recipe = &cell->recipe;
    const bool multiplies = recipe->n_params > 0 && recipe->param[0].kind == ECO_PARAM_W;
    int32_t input = cell->lowered.raw >= 0 ? H : multiplies ? given : 0;
    for (int k = 0; k < recipe->n_parts; k++)
        input += recipe->part[k].kind == ECO_KIND_NUMBER ? 1 : H;
    return input;
}

/* A cell with a matrix state has heads, two if H is even, and five rows; of the parts of x that a
 * problem string may have, it takes these. */
enum { MATRIX_KEY = 5 };

static int32_t matrix_heads(int32_t H)
{
    return H % 2 == 0 ? 2 : 1;
}

static int32_t matrix_width(int kind, int32_t H, int32_t heads, int32_t key)
{
    const int32_t width[] = {[ECO_KIND_NUMBER] = heads,
                             [ECO_KIND_KEY] = heads * key,
                             [ECO_KIND_VALUE] = H,
                             [ECO_KIND_MATRIX] = key * H};
    return width[kind];
}

static void fit_matrix(const struct eco_recipe *recipe, char problem[CASE_TEXT])
{
    static const char *const without[] = {
        "L",    "P",      "bi",   "dropout:", "bf16-weights", "f16-weights",
        "int8", "heads:", "key:", "I",        "bf16-save",    "f16-save"};
    char copy[CASE_TEXT];
    int32_t H = 1, heads = 0, key = 0, input = 0;
    const char *at = strstr(problem, "/H");
    sscanf(at ? at : "", "/H%d", &H);
    sscanf((at = strstr(problem, "/heads:")) ? at : "", "/heads:%d", &heads);
    sscanf((at = strstr(problem, "/key:")) ? at : "", "/key:%d", &key);
    heads = heads > 0 ? heads : matrix_heads(H);
    key = key > 0 ? key : MATRIX_KEY;
    for (int k = 0; k < recipe->n_parts; k++)
        input += matrix_width(recipe->part[k].kind, H, heads, key);
    snprintf(copy, sizeof copy, "%s", problem);
    problem[0] = '\0';
    for (char *part = strtok(copy, "/"); part; part = strtok(NULL, "/")) {
        bool takes = true;
        for (size_t k = 0; problem[0] && k < sizeof without / sizeof *without; k++)
            takes = takes && strncmp(part, without[k], strlen(without[k])) != 0;
        if (takes)
            strcat(strcat(problem, problem[0] ? "/" : ""), part);
    }
    snprintf(problem + strlen(problem), CASE_TEXT - strlen(problem), "/I%d/heads:%d/key:%d", input,
             heads, key);
}

/* A cell that reads x unit by unit needs as many inputs as units in every layer; one with parts of
 * x is in the first layer only. */
static void fit_input(const struct ecornn_cell *cell, char problem[CASE_TEXT])
{
    char copy[CASE_TEXT];
    const bool parts = cell->recipe.n_parts > 0;
    int32_t H = 0, I = 1;
    const char *hidden = strstr(problem, "/H"), *given = strstr(problem, "/I");
    sscanf(hidden ? hidden : "", "/H%d", &H);
    sscanf(given ? given : "", "/I%d", &I);
    snprintf(copy, sizeof copy, "%s", problem);
    problem[0] = '\0';
    for (char *part = strtok(copy, "/"); part; part = strtok(NULL, "/")) {
        char input[16];
        snprintf(input, sizeof input, "I%d", input_of(cell, I, H));
        if (parts ? (part[0] == 'L' && part[1] <= '9') || strncmp(part, "dropout", 7) == 0
                  : part[0] == 'P' || (strcmp(part, "bi") == 0 && strstr(problem, "/L")))
            continue;
        strcat(strcat(problem, problem[0] ? "/" : ""), part[0] == 'I' ? input : part);
    }
}

bool case_parse(struct test_case *test, const char *text)
{
    *test = (struct test_case){.resets = -1, .mask = -1, .scale = 1, .gradients = 1, .seed = 1};
    snprintf(test->text, sizeof test->text, "%s", text);
    char problem[CASE_TEXT], cell[64];
    if (!parse_parts(test, text, problem))
        return false;
    snprintf(cell, sizeof cell, "%.*s", (int)strcspn(problem, "/"), problem);
    if (!builtin_cell(cell) && !read_cell(&test->own, cell))
        return false;
    const struct ecornn_cell *const named = test->own ? test->own : builtin_cell(cell);
    if (named->recipe.matrix)
        fit_matrix(&named->recipe, problem);
    else if (named->lowered.copies != 0)
        fit_input(named, problem);
    if (parse_desc(&test->desc, problem, test->own) != ECORNN_OK) {
        fprintf(stderr, "%s: %s\n", text, ecornn_error_detail());
        case_free(test);
        return false;
    }
    if (test->resets >= 0)
        test->desc.flags |= ECORNN_RESETS;
    if (test->mask >= 0)
        test->desc.flags |= ECORNN_MASK;
    test->T = test->T ? test->T : test->desc.steps;
    test->N = test->N ? test->N : test->desc.batch;
    test->states = test->desc.cell->recipe.n_states;
    return true;
}

void case_free(struct test_case *test)
{
    ecornn_cell_free(test->own);
    test->own = NULL;
}

/* ---- inputs ---------------------------------------------------------------------------------- */

double uniform(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

const char *case_field(const struct eco_run_array *array)
{
    const char *const field = eco_run_array_field(array);
    return strcmp(field, "reset_state") == 0    ? "start"
           : strcmp(field, "dreset_state") == 0 ? "dstart"
                                                : field;
}

int case_array(const char *name)
{
    const size_t length = strcspn(name, "0123456789,");
    for (int a = 0; a < ECO_RUN_ARRAYS; a++) {
        const char *const field = case_field(&eco_run_array[a]);
        if (strlen(field) == length && strncmp(name, field, length) == 0)
            return a;
    }
    return -1;
}

void case_name(char name[32], const struct eco_run_array *array, int s)
{
    char index[12] = "";
    if (array->count > 1)
        snprintf(index, sizeof index, "%d", s);
    snprintf(name, 32, "%s%s", case_field(array), index);
}

struct eco_run_shape case_shape(const struct test_case *test, const struct eco_run_array *array,
                                int s, int32_t extent[3])
{
    struct eco_problem problem;
    if (eco_problem_build(&problem, &test->desc) != ECORNN_OK)
        give_up(test->text, ecornn_error_detail());
    const struct eco_run_shape shape = eco_run_array_shape(array, &problem, s, test->T, test->N);
    const bool inner = (array->letters & (ECO_I | ECO_Y)) != 0,
               row_major = inner && problem.batch_major;
    extent[0] = row_major ? shape.rows : (inner ? 1 : shape.lanes) * shape.steps;
    extent[1] = row_major ? shape.steps : shape.rows;
    extent[2] = (inner ? shape.lanes : 1) * shape.width;
    return shape;
}

ecornn_type case_type(const struct test_case *test, const char *name)
{
    const int a = case_array(name);
    int32_t unused[3];
    return a < 0 || eco_run_array[a].element == ECO_ARRAY_BLOCK
               ? param_type_of(&test->desc)
               : case_shape(test, &eco_run_array[a], name[strlen(name) - 1] != '0', unused).type;
}

/* Fills an array with numbers in [-scale, scale] that the type can hold. */
static void fill(struct array *array, ecornn_type type, double scale, uint64_t *random)
{
    for (size_t i = 0; i < array->count; i++)
        array->value[i] = eco_type_round(scale * (2 * uniform(random) - 1), type);
}

static void add_random(const struct test_case *test, struct data *inputs, const char *name,
                       const int32_t extent[3], double scale)
{
    /* every array has its own random stream, so that leaving out one does not change the others */
    uint64_t random = test->seed;
    for (const char *letter = name; *letter; letter++)
        random = random * 1099511628211u + (unsigned char)*letter;
    fill(data_add(inputs, name, 3, extent), case_type(test, name), scale, &random);
}

static void shift(struct array *array, ecornn_type type, double more)
{
    for (size_t i = 0; i < array->count; i++)
        array->value[i] = eco_type_round(array->value[i] + more, type);
}

static void fill_lengths(const struct test_case *test, struct array *lengths)
{
    uint64_t random = test->seed + 77;
    for (int32_t n = 0; n < test->N; n++) {
        const double u = uniform(&random);
        lengths->value[n] = test->lengths == LENGTHS_RANDOM  ? floor(u * (test->T + 1))
                            : test->lengths == LENGTHS_SHORT ? floor(u * 2)
                            : test->lengths == LENGTHS_FULL  ? test->T
                                                             : 0;
    }
}

/* The given percentage of bytes is not 0. */
static void fill_bytes(const struct test_case *test, struct array *bytes, double percent)
{
    uint64_t random = test->seed + 72 + strlen(bytes->name);
    for (size_t i = 0; i < bytes->count; i++)
        bytes->value[i] = uniform(&random) * 100 < percent ? 1 + floor(uniform(&random) * 255) : 0;
}

int32_t case_length(const struct data *inputs, int32_t n, int32_t T)
{
    const struct array *lengths = data_find(inputs, "lengths");
    return lengths ? (int32_t)lengths->value[n] : T;
}

bool case_counts(const struct test_case *test, const struct data *inputs, int32_t t, int32_t n)
{
    const struct array *mask = data_find(inputs, "mask");
    return t < case_length(inputs, n, test->T) && (!mask || mask->value[t * test->N + n] != 0);
}

/* Adds parameters: matrices that keep sums of products near 1, and vectors up to 1. */
static void add_params(const struct test_case *test, struct data *inputs)
{
    ecornn_device *device = NULL;
    ecornn_plan *plan = NULL;
    if (ecornn_device_open(&device, "reference") != ECORNN_OK ||
        ecornn_plan_create_desc(&plan, device, &test->desc) != ECORNN_OK)
        give_up(test->text, ecornn_error_detail());
    for (int i = 0; i < count_params(plan); i++) {
        ecornn_param param;
        if (param_at(plan, i, &param) != ECORNN_OK)
            give_up(test->text, ecornn_error_detail());
        const int32_t extent[3] = {param.rows, param.cols, 1};
        add_random(test, inputs, param.name, extent, 1.5 / sqrt(param.cols));
        if (strstr(param.name, ".b.z") || strstr(param.name, ".b.i"))
            shift(data_find(inputs, param.name), case_type(test, param.name), test->gates);
    }
    ecornn_plan_free(plan);
    ecornn_device_close(device);
}

static bool is_given(const struct test_case *test, int a)
{
    const struct eco_run_array *const row = &eco_run_array[a];
    return !row->output && row->element != ECO_ARRAY_BLOCK && row->element != ECO_ARRAY_INDEX &&
           (row->flag & ~test->desc.flags) == 0 && !(test->null >> a & 1) &&
           (row->flag != ECORNN_RESETS || test->resets >= 0) &&
           (row->flag != ECORNN_MASK || test->mask >= 0) &&
           (test->with_states || !eco_is_state(row)) &&
           (row->element != ECO_ARRAY_LENGTH || test->lengths != LENGTHS_NULL);
}

static void add_input(const struct test_case *test, struct data *inputs,
                      const struct eco_run_array *row, int s)
{
    /* slstm divides by its state n, which is never negative */
    const bool sum = strcmp(test->desc.cell->recipe.name, "slstm") == 0 && s == 2;
    int32_t extent[3];
    char name[32];
    case_shape(test, row, s, extent);
    case_name(name, row, s);
    if (row->element <= ECO_ARRAY_STATE)
        add_random(test, inputs, name, extent, row->gradient ? test->gradients : test->scale);
    else if (row->element == ECO_ARRAY_MARK)
        fill_bytes(test, data_add(inputs, name, 3, extent),
                   row->flag == ECORNN_RESETS ? test->resets : 100 - test->mask);
    else
        fill_lengths(test, data_add(inputs, name, 3, extent));
    struct array *const array = data_find(inputs, name);
    for (size_t i = 0; sum && eco_is_state(row) && !row->gradient && i < array->count; i++)
        array->value[i] = fabs(array->value[i]);
}

void case_inputs(const struct test_case *test, struct data *inputs)
{
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        for (int s = 0; is_given(test, a) && s < (eco_run_array[a].count > 1 ? test->states : 1);
             s++)
            add_input(test, inputs, &eco_run_array[a], s);
    add_params(test, inputs);
}

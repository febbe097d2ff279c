/*
 * The words of a run: what its arguments and parameters give besides sizes; see patch.h.
 */
#include "gpu/run/patch.h"

#include <string.h>

#include "common/run_arrays.h"

/* Adds those of `count` words that are not 0. */
static void add(struct eco_run_words *words, void *first, int count)
{
    for (int k = 0; k < count; k++) {
        char *place = (char *)first + (size_t)k * sizeof *words->value;
        uint64_t value;
        memcpy(&value, place, sizeof value);
        if (value != 0) {
            words->field[words->n] = (uint16_t)words->fields;
            words->place[words->n] = place;
            words->value[words->n++] = value;
        }
        words->fields++;
    }
}

static void add_args(struct eco_run_words *words, struct eco_args *args)
{
    _Static_assert(sizeof(void *) == sizeof *words->value, "a word is an address");
    for (int a = 0; a < ECO_RUN_ARRAYS; a++)
        add(words, (char *)args + eco_run_array[a].at, eco_run_array[a].count);
}

static void add_parts(struct eco_run_key *key, const struct eco_args *args)
{
    memset(key->part_rows, 0, sizeof key->part_rows);
    if (args->inputs == NULL)
        return;
    add(&key->words, (void *)(uintptr_t)args->inputs, 2 * ECO_MAX_PARTS);
    memcpy(key->part_rows, args->input_rows, sizeof key->part_rows);
}

static void add_given(struct eco_run_key *key, struct eco_gpu_given *given)
{
    add(&key->words, given->matrix, sizeof given->matrix / sizeof *given->matrix);
    key->moves = given->count;
    for (int k = 0; k < given->count; k++) {
        struct eco_param_move *move = &given->move[k];
        add(&key->words, &move->to.data, 1);
        add(&key->words, &move->from.data, 1);
        add(&key->words, &move->added, 1);
        key->rows[k] = move->rows;
        key->width[k] = move->width;
    }
}

void eco_gpu_key(struct eco_run_key *key, struct eco_args *args, struct eco_gpu_given *given,
                 bool draws)
{
    key->T = args->T;
    key->N = args->N;
    key->backward = args->backward;
    key->accumulate = args->accumulate;
    key->first_step = draws ? args->first_step : 0;
    key->first_row = draws ? args->first_row : 0;
    key->stream = args->stream;
    key->moves = 0;
    key->words.n = key->words.fields = 0;
    add_args(&key->words, args);
    add_parts(key, args);
    key->words.seed = draws && args->seed != 0 ? key->words.n : -1;
    if (draws)
        add(&key->words, &args->seed, 1);
    if (given != NULL)
        add_given(key, given);
}

static bool same_but_words(const struct eco_run_key *a, const struct eco_run_key *b)
{
    const size_t moves = (size_t)a->moves * sizeof *a->rows;
    return a->T == b->T && a->N == b->N && a->backward == b->backward &&
           a->accumulate == b->accumulate && a->first_step == b->first_step &&
           a->first_row == b->first_row && a->moves == b->moves &&
           memcmp(a->rows, b->rows, moves) == 0 && memcmp(a->width, b->width, moves) == 0 &&
           memcmp(a->part_rows, b->part_rows, sizeof a->part_rows) == 0 &&
           a->words.n == b->words.n && a->words.fields == b->words.fields &&
           memcmp(a->words.field, b->words.field, (size_t)a->words.n * sizeof *a->words.field) == 0;
}

bool eco_gpu_same_run(const struct eco_run_key *a, const struct eco_run_key *b)
{
    return same_but_words(a, b) &&
           memcmp(a->words.value, b->words.value, (size_t)a->words.n * sizeof *a->words.value) == 0;
}

int eco_gpu_first_equal(const struct eco_run_words *words, int i)
{
    int first = 0;
    while (words->value[first] != words->value[i])
        first++;
    return first;
}

bool eco_gpu_alike_runs(const struct eco_run_key *a, const struct eco_run_key *b)
{
    bool alike = a->stream == b->stream && same_but_words(a, b);
    for (int i = 0; alike && i < a->words.n; i++)
        alike = (i == a->words.seed ||
                 (a->words.value[i] - b->words.value[i]) % ECO_WORD_ALIGNMENT == 0) &&
                eco_gpu_first_equal(&a->words, i) == eco_gpu_first_equal(&b->words, i);
    return alike;
}

void eco_gpu_shift_words(const struct eco_run_words *words, const uint64_t *add)
{
    for (int i = 0; i < words->n; i++) {
        const uint64_t value = words->value[i] + (add != NULL ? add[i] : 0);
        memcpy(words->place[i], &value, sizeof value);
    }
}

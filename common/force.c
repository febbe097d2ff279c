/*
 * The table of choices, and forced ones: a list of key=value separated by commas.
 */
#include "common/backend.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* ---- the table ------------------------------------------------------------------------------- */

/* Divisions of algorithm persistent, in the order of ECO_PERSISTENT_INDEX.  Most are refused when a
 * plan is made. */
// clang-format off
#define BLOCKS(mainloop, n) mainloop ":8x" n " " mainloop ":16x" n " " mainloop ":32x" n " " mainloop ":64x" n
#define MAINLOOP(name)      BLOCKS(name, "1") " " BLOCKS(name, "2") " " BLOCKS(name, "4")
#define DIVISIONS           MAINLOOP("mma") " " MAINLOOP("mma-many") " " MAINLOOP("direct") " " \
                            MAINLOOP("direct-wide") " " MAINLOOP("wgmma")
/* Tiles of products of steps; eco_gpu_step_tiles() takes their numbers apart. */
#define SLICES(tile)     tile "x1 " tile "x2 " tile "x3 " tile "x4 " tile "x5 " tile "x6 " tile "x7 " tile "x8"
#define TILES(kind)      SLICES(kind ":64x32") " " SLICES(kind ":64x64") " " SLICES(kind ":128x32") " " SLICES(kind ":128x64")
#define STEP_TILES       TILES("splitting") " " TILES("presplit") " " TILES("scaled-f16")
// clang-format on
/* Blocks of wide steps in the order of ECO_WIDE_LIST (gpu/wide_step/args.h). */
#define WIDE_STEPS "wgmma:64x32 wgmma:128x24 wgmma:128x32 wgmma:128x64 wgmma:256x48 wgmma:128x16"

enum {
    TRAINING = ECO_CHOICE_TRAINING,
    FULL_F32 = ECO_CHOICE_FULL_F32,
    FAST_F32 = ECO_CHOICE_FAST_F32,
    SUMS = ECO_CHOICE_SUMS,
    UNSAID = ECO_CHOICE_UNSAID,
    WORDS = ECO_CHOICE_WORDS,
    UNTRIED = ECO_CHOICE_UNTRIED,
    ELSEWHERE = ECO_CHOICE_ELSEWHERE
};

#define ROW(id, ...) [ECO_FORCE_##id] = {__VA_ARGS__},
const struct eco_choice eco_choices[ECO_FORCED_KEYS + 1] = {
#include "common/choice_rows.inc"
    {.key = NULL}};
#undef ROW

bool eco_choice_is_of(const struct eco_choice *choice, const struct eco_backend *backend)
{
    return strcmp(choice->backend, backend->name) == 0;
}

/* ---- texts ----------------------------------------------------------------------------------- */

int eco_word_index(const char *list, const char *word)
{
    const size_t length = strlen(word);
    int index = 0;
    for (const char *at = list; *at != '\0'; index++) {
        const size_t n = strcspn(at, " ");
        if (n == length && strncmp(at, word, n) == 0)
            return index;
        at += n + strspn(at + n, " ");
    }
    return -1;
}

bool eco_force_text(const char *forced, const char *key, char *value, size_t size)
{
    const char *at = forced;
    const size_t length = strlen(key);
    while (at != NULL && *at != '\0') {
        const size_t pair = strcspn(at, ",");
        if (pair > length && strncmp(at, key, length) == 0 && at[length] == '=') {
            const size_t rest = pair - length - 1, n = rest < size ? rest : size - 1;
            memcpy(value, at + length + 1, n);
            value[n] = '\0';
            return true;
        }
        at += pair + (at[pair] == ',');
    }
    return false;
}

/* Reads a number and nothing after it. */
static bool to_number(const char *text, int *value)
{
    char *end;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < INT_MIN || number > INT_MAX)
        return false;
    *value = (int)number;
    return true;
}

bool eco_force_number(const char *forced, const char *key, int *value)
{
    char text[24];
    return eco_force_text(forced, key, text, sizeof text) && to_number(text, value);
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { VALUE = 32 };

/* The first row with these letters as key; ECO_FORCED_KEYS: none has them. */
static int row_of(const char *text, size_t letters)
{
    int k = 0;
    while (k < ECO_FORCED_KEYS && !(strlen(eco_choices[k].key) == letters &&
                                    strncmp(eco_choices[k].key, text, letters) == 0))
        k++;
    return k;
}

static ecornn_status fail_key(const char *key, size_t letters)
{
    char known[ECO_MAX_DETAIL];
    struct eco_text text = {known, sizeof known, 0};
    for (int k = 0; k < ECO_FORCED_KEYS; k++)
        if (row_of(eco_choices[k].key, strlen(eco_choices[k].key)) == k)
            eco_text_add(&text, "%s%s", k > 0 ? ", " : "", eco_choices[k].key);
    return eco_fail(ECORNN_UNSUPPORTED,
                    "ECORNN_FORCE: \"%.*s\" is not KEY=VALUE with one of these keys: %s",
                    (int)letters, key, known);
}

/* Keys of other backends are right, because a program may use several. */
static ecornn_status check_keys(const char *forced)
{
    uint64_t before = 0;
    for (const char *at = forced; *at != '\0'; at += *at == ',') {
        const size_t letters = strcspn(at, "=,"), pair = strcspn(at, ",");
        const int k = row_of(at, letters);
        if (pair > 0 && (k == ECO_FORCED_KEYS || pair == letters))
            return fail_key(at, pair < VALUE ? pair : VALUE);
        if (pair > 0 && before >> k & 1)
            return eco_fail(ECORNN_UNSUPPORTED, "ECORNN_FORCE has %s twice", eco_choices[k].key);
        before |= pair > 0 ? UINT64_C(1) << k : 0;
        at += pair;
    }
    return ECORNN_OK;
}

static bool read_value(const struct eco_backend *backend, const struct eco_choice *row,
                       const char *value, int32_t *number)
{
    int read;
    if (row->flags & WORDS) {
        const int index = eco_word_index(row->values, value);
        *number = row->least + index;
        return index >= 0;
    }
    if (row->said != NULL)
        return backend->read_choice((enum eco_forced_key)(row - eco_choices), value, number);
    if (!to_number(value, &read) || read < row->least || read > row->most)
        return false;
    *number = read;
    return true;
}

static ecornn_status fail_value(const struct eco_choice *row, const char *value)
{
    char range[2 * VALUE];
    struct eco_text text = {range, sizeof range, 0};
    if (row->said != NULL)
        eco_text_add(&text, "%s", row->said);
    else
        eco_text_add(&text, "%d to %d", (int)row->least, (int)row->most);
    return eco_fail(ECORNN_UNSUPPORTED, "ECORNN_FORCE: %s=%s is none of the values of that key: %s",
                    row->key, value, range);
}

/* The value of a row's variable; NULL: not set. */
static const char *variable_of(const struct eco_choice *row)
{
    const char *value = row->variable != NULL ? eco_environment(row->variable) : NULL;
    return value != NULL && *value != '\0' ? value : NULL;
}

/* Reads which algorithm alone may run; "": any. */
static ecornn_status read_algorithm(struct eco_force *force, const struct eco_backend *backend)
{
    struct eco_text text = {force->algorithm, sizeof force->algorithm, 0};
    const char *only = eco_environment("ECORNN_ALGORITHM");
    const bool forced =
        eco_force_text(force->text, "algorithm", force->algorithm, sizeof force->algorithm);
    char names[ECO_MAX_DETAIL];
    struct eco_text all = {names, sizeof names, 0};
    if (!forced)
        eco_text_add(&text, "%s", only != NULL ? only : "");
    if (force->algorithm[0] == '\0' || backend->algos == NULL || backend->algos[1] == NULL)
        return ECORNN_OK; /* the reference has no choice */
    for (const struct eco_algo *const *algo = backend->algos; *algo != NULL; algo++) {
        if (strcmp((*algo)->name, force->algorithm) == 0)
            return ECORNN_OK;
        eco_text_add(&all, " %s", (*algo)->name);
    }
    return eco_fail(ECORNN_UNSUPPORTED, "%s is \"%s\", must be one of%s",
                    forced ? "ECORNN_FORCE: algorithm" : "ECORNN_ALGORITHM", force->algorithm,
                    names);
}

ecornn_status eco_force_read(struct eco_force *force, const struct eco_backend *backend)
{
    struct eco_text all = {force->text, sizeof force->text, strlen(force->text)};
    char value[VALUE];
    ecornn_status status = check_keys(force->text);
    force->keys = 0;
    force->algorithm[0] = '\0';
    if (status == ECORNN_OK)
        status = read_algorithm(force, backend);
    if (status != ECORNN_OK)
        return status;
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++) {
        if (!eco_choice_is_of(row, backend) || row->flags & ELSEWHERE)
            continue;
        if (!eco_force_text(force->text, row->key, value, sizeof value)) {
            if (variable_of(row) == NULL)
                continue;
            struct eco_text cut = {value, sizeof value, 0};
            eco_text_add(&cut, "%s", variable_of(row));
            eco_text_add(&all, "%s%s=%s", all.length > 0 ? "," : "", row->key, value);
        }
        if (!read_value(backend, row, value, &force->value[row - eco_choices]))
            return fail_value(row, value);
        force->keys |= UINT64_C(1) << (row - eco_choices);
    }
    return ECORNN_OK;
}

/* ---- forced choices -------------------------------------------------------------------------- */

void eco_force_write(const struct eco_force *force, bool only_unsaid, struct eco_text *text)
{
    char value[VALUE];
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++)
        if (force->keys >> (row - eco_choices) & 1 && (row->flags & UNSAID || !only_unsaid) &&
            eco_force_text(force->text, row->key, value, sizeof value))
            eco_text_add(text, ",%s=%s", row->key, value);
}

const struct eco_choice *eco_force_unfit(const struct eco_force *force, const char *algorithm)
{
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++)
        if (force->keys >> (row - eco_choices) & 1 && row->algorithms != NULL &&
            eco_word_index(row->algorithms, algorithm) < 0)
            return row;
    return NULL;
}

void eco_choice_write(enum eco_forced_key key, int32_t value, struct eco_text *text)
{
    const struct eco_choice *row = &eco_choices[key];
    const char *word = row->values;
    if (!(row->flags & WORDS)) {
        eco_text_add(text, ",%s=%d", row->key, (int)value);
        return;
    }
    for (int32_t n = row->least; n < value; n++)
        word = strchr(word, ' ') + 1;
    eco_text_add(text, ",%s=%.*s", row->key, (int)strcspn(word, " "), word);
}

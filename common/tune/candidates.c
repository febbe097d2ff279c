/*
 * Which choices tuning tries, and the candidates that follow from a plan; see common/choice.h.
 */
#include "common/choice.h"

#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"

static uint64_t add_words(uint64_t hash, const char *words)
{
    return words != NULL ? eco_hash(hash, words, strlen(words) + 1) : eco_hash(hash, "", 1);
}

uint64_t eco_choices_hash(const struct eco_backend *backend)
{
    uint64_t hash = ECO_HASH;
    for (const struct eco_algo *const *algo = backend->algos; algo && *algo != NULL; algo++)
        hash = add_words(hash, (*algo)->name);
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++)
        if (eco_choice_is_of(row, backend)) {
            hash = add_words(hash, row->key);
            hash = add_words(hash, row->algorithms);
            hash = add_words(hash, row->values);
            hash = eco_hash(hash, &row->flags, sizeof row->flags);
        }
    return hash;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Adds forced pairs, with another value of one key. */
static void add_pairs(struct eco_text *text, const char *pairs, const char *key, const char *value)
{
    const size_t length = strlen(key);
    const char *before = "";
    for (const char *at = pairs; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        if (!(n > length && strncmp(at, key, length) == 0 && at[length] == '=')) {
            eco_text_add(text, "%s%.*s", before, (int)n, at);
            before = ",";
        }
        at += n + (at[n] == ',');
    }
    eco_text_add(text, "%s%s=%s", before, key, value);
}

/* Does a forced pair change the order of sums? */
static bool changes_sums(const struct eco_backend *backend, const char *pair)
{
    const size_t length = strcspn(pair, "=,");
    for (const struct eco_choice *row = eco_choices; row->key != NULL; row++)
        if (eco_choice_is_of(row, backend) && (row->flags & ECO_CHOICE_SUMS) != 0 &&
            strlen(row->key) == length && strncmp(row->key, pair, length) == 0)
            return true;
    return false;
}

void eco_choices_take(struct eco_text *text, const char *pairs, const struct eco_backend *backend,
                      bool row_invariant)
{
    const char *before = "";
    for (const char *at = pairs; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        if (!row_invariant || !changes_sums(backend, at)) {
            eco_text_add(text, "%s%.*s", before, (int)n, at);
            before = ",";
        }
        at += n + (at[n] == ',');
    }
}

/* The value that a word of the table stands for.  False: it is relative, but the plan has no number
 * for this key. */
static bool value_of(const char *pairs, const char *key, const char *word, char value[32])
{
    struct eco_text text = {value, 32, 0};
    int now;
    if (*word != '/' && *word != '*') {
        eco_text_add(&text, "%s", word);
        return true;
    }
    if (!eco_force_number(pairs, key, &now) || now <= 0)
        return false;
    const long long factor = strtoll(word + 1, NULL, 10);
    const long long wanted = *word == '*' ? (now > (1 << 20) ? now : now * factor) : now / factor;
    eco_text_add(&text, "%lld", wanted > 1 ? wanted : 1);
    return true;
}

/* ---- candidates ------------------------------------------------------------------------------ */

bool eco_choice_applies(const struct eco_choice *choice, const struct ecornn_plan *plan)
{
    const struct eco_problem *problem = &plan->problem;
    const bool f32 = problem->type == ECORNN_F32;
    const int unmet = (problem->training ? 0 : ECO_CHOICE_TRAINING) |
                      (f32 && !problem->fast ? 0 : ECO_CHOICE_FULL_F32) |
                      (f32 && problem->fast ? 0 : ECO_CHOICE_FAST_F32) |
                      (problem->row_invariant ? ECO_CHOICE_SUMS : 0);
    return choice->values != NULL && !(choice->flags & ECO_CHOICE_UNTRIED) &&
           eco_choice_is_of(choice, plan->device->backend) && (choice->flags & unmet) == 0 &&
           (choice->algorithms == NULL ||
            eco_word_index(choice->algorithms, plan->algo->name) >= 0);
}

/* Grids of all threads, of half of them, and of one: ops x rows x units at a time. */
static void list_grids(const struct ecornn_plan *plan, struct eco_text *text)
{
    enum { MOST_THREADS = 64 }; /* as ECO_STEP_THREADS of the CPU backend */
    const int most =
        plan->device->caps.threads < MOST_THREADS ? plan->device->caps.threads : MOST_THREADS;
    eco_text_add(text, "1x1x1");
    for (int threads = most; threads > 1; threads = threads > most / 2 ? threads / 2 : 1)
        for (int ops = 1; ops <= plan->problem.D && ops <= threads; ops++)
            for (int rows = 1; ops * rows <= threads; rows++)
                if (threads % (ops * rows) == 0 && rows <= plan->problem.N)
                    eco_text_add(text, " %dx%dx%d", ops, rows, threads / ops / rows);
}

int eco_candidates(const struct eco_choice *choice, const struct ecornn_plan *plan,
                   char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE])
{
    char pairs[ECO_MAX_FORCE] = "", listed[2048] = "";
    struct eco_text now = {pairs, sizeof pairs, 0}, list = {listed, sizeof listed, 0};
    const bool algorithm = strcmp(choice->key, "algorithm") == 0;
    int count = 0;
    eco_plan_choices(plan, &now);
    if (strcmp(choice->values, "GRIDS") == 0)
        list_grids(plan, &list);
    else
        eco_text_add(&list, "%s", choice->values);
    for (char *word = listed; *word != '\0' && count < ECO_MAX_CANDIDATES;) {
        const size_t n = strcspn(word, " ");
        char value[32], has[32] = "";
        char *next = word + n + (word[n] != '\0');
        word[n] = '\0';
        eco_force_text(pairs, choice->key, has, sizeof has);
        if (value_of(pairs, choice->key, word, value) && strcmp(value, has) != 0) {
            struct eco_text text = {candidates[count], ECO_MAX_FORCE, 0};
            add_pairs(&text, algorithm ? "" : pairs, choice->key, value);
            count += text.length < text.size;
        }
        word = next;
    }
    return count;
}

/*
 * Candidates of one choice of a plan, see tune.h.
 */
#include "common/tune/tune.h"

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
    for (const struct eco_choice *row = backend->tunables; row && row->key != NULL; row++) {
        hash = add_words(hash, row->key);
        hash = add_words(hash, row->algorithms);
        hash = add_words(hash, row->values);
        hash = eco_hash(hash, &row->training, sizeof row->training);
    }
    return hash;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Is a word of so many letters one of a list? */
static bool has_word(const char *list, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = list; *at != '\0';) {
        const size_t n = strcspn(at, " ");
        if (n == length && strncmp(at, word, n) == 0)
            return true;
        at += n + strspn(at + n, " ");
    }
    return false;
}

/* Forced pairs, with another value of that key. */
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

static bool is_cut(const struct eco_backend *backend, const char *pair)
{
    const size_t length = strcspn(pair, "=,");
    for (const struct eco_choice *row = backend->tunables; row && row->key != NULL; row++)
        if (row->cuts && strlen(row->key) == length && strncmp(row->key, pair, length) == 0)
            return true;
    return false;
}

void eco_choices_take(struct eco_text *text, const char *pairs, const struct eco_backend *backend,
                      bool row_invariant)
{
    const char *before = "";
    for (const char *at = pairs; *at != '\0';) {
        const size_t n = strcspn(at, ",");
        if (!row_invariant || !is_cut(backend, at)) {
            eco_text_add(text, "%s%.*s", before, (int)n, at);
            before = ",";
        }
        at += n + (at[n] == ',');
    }
}

/* "/4" and "*2" of what the plan has, or the word itself; false: the plan has no number there. */
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
    const long factor = strtol(word + 1, NULL, 10);
    const long wanted = *word == '*' ? (now > (1 << 20) ? now : now * factor) : now / factor;
    eco_text_add(&text, "%ld", wanted > 1 ? wanted : 1);
    return true;
}

/* ---- candidates ------------------------------------------------------------------------------ */

bool eco_choice_applies(const struct eco_choice *choice, const struct ecornn_plan *plan)
{
    return (plan->problem.training || !choice->training) &&
           !(plan->problem.row_invariant && choice->cuts) &&
           (choice->algorithms == NULL || has_word(choice->algorithms, plan->algo->name));
}

int eco_candidates(const struct eco_choice *choice, const struct ecornn_plan *plan,
                   char candidates[ECO_MAX_CANDIDATES][ECO_MAX_FORCE])
{
    char pairs[ECO_MAX_FORCE] = "", listed[2048] = ""; /* nothing may be added to either */
    struct eco_text now = {pairs, sizeof pairs, 0}, list = {listed, sizeof listed, 0};
    const bool algorithm = strcmp(choice->key, "algorithm") == 0;
    int count = 0;
    eco_plan_choices(plan, &now);
    if (choice->values != NULL)
        eco_text_add(&list, "%s", choice->values);
    else
        choice->list(plan, &list);
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

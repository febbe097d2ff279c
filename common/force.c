/*
 * Forced choices: a list of key=value separated by commas, read by a table of keys.
 */
#include "common/force.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

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

enum { VALUE = 32, NAMES = ECO_FORCED_KEYS + 2 };

#define KEY(key, name) name,
static const char *const names[NAMES] = {
    ECO_FORCED_LIST(KEY) "algorithm", "graph" /* of a device, when it is opened */
};
#undef KEY

/* The name with these letters; NAMES: none has them. */
static int name_of(const char *text, size_t letters)
{
    int k = 0;
    while (k < NAMES && !(strlen(names[k]) == letters && strncmp(names[k], text, letters) == 0))
        k++;
    return k;
}

static ecornn_status fail_key(const char *key, size_t letters)
{
    char known[ECO_MAX_DETAIL];
    struct eco_text text = {known, sizeof known, 0};
    for (int k = 0; k < NAMES; k++)
        eco_text_add(&text, "%s%s", k > 0 ? ", " : "", names[k]);
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
        const int k = name_of(at, letters);
        if (pair > 0 && (k == NAMES || pair == letters))
            return fail_key(at, pair < VALUE ? pair : VALUE);
        if (pair > 0 && before >> k & 1)
            return eco_fail(ECORNN_UNSUPPORTED, "ECORNN_FORCE has %s twice", names[k]);
        before |= pair > 0 ? UINT64_C(1) << k : 0;
        at += pair;
    }
    return ECORNN_OK;
}

static bool read_value(const struct eco_force_key *key, const char *value, int32_t *number)
{
    int read;
    if (key->read != NULL)
        return key->read(value, number);
    if (!to_number(value, &read) || read < key->least || read > key->most)
        return false;
    *number = read;
    return true;
}

static ecornn_status fail_value(const struct eco_force_key *key, const char *value)
{
    char range[2 * VALUE];
    struct eco_text text = {range, sizeof range, 0};
    if (key->read != NULL)
        eco_text_add(&text, "%s", key->values);
    else
        eco_text_add(&text, "%d to %d", (int)key->least, (int)key->most);
    return eco_fail(ECORNN_UNSUPPORTED, "ECORNN_FORCE: %s=%s is none of the values of that key: %s",
                    names[key->key], value, range);
}

/* The value of a key's variable; NULL: not set. */
static const char *variable_of(const struct eco_force_key *key)
{
    const char *value = key->variable != NULL ? eco_environment(key->variable) : NULL;
    return value != NULL && *value != '\0' ? value : NULL;
}

static void read_algorithm(struct eco_force *force)
{
    struct eco_text text = {force->algorithm, sizeof force->algorithm, 0};
    const char *only = eco_environment("ECORNN_ALGORITHM");
    if (!eco_force_text(force->text, "algorithm", force->algorithm, sizeof force->algorithm))
        eco_text_add(&text, "%s", only != NULL ? only : "");
}

ecornn_status eco_force_read(struct eco_force *force, const struct eco_force_key *keys)
{
    struct eco_text all = {force->text, sizeof force->text, strlen(force->text)};
    char value[VALUE];
    const ecornn_status status = check_keys(force->text);
    force->keys = 0;
    force->algorithm[0] = '\0';
    if (status != ECORNN_OK)
        return status;
    read_algorithm(force);
    for (const struct eco_force_key *key = keys; key != NULL && key->key < ECO_FORCED_KEYS; key++) {
        const char *const name = names[key->key];
        if (!eco_force_text(force->text, name, value, sizeof value)) {
            if (variable_of(key) == NULL)
                continue;
            struct eco_text cut = {value, sizeof value, 0};
            eco_text_add(&cut, "%s", variable_of(key));
            eco_text_add(&all, "%s%s=%s", all.length > 0 ? "," : "", name, value);
        }
        if (!read_value(key, value, &force->value[key->key]))
            return fail_value(key, value);
        force->keys |= UINT32_C(1) << key->key;
    }
    return ECORNN_OK;
}

void eco_force_write(const struct eco_force *force, const struct eco_force_key *keys,
                     bool only_unsaid, struct eco_text *text)
{
    char value[VALUE];
    for (const struct eco_force_key *key = keys; key->key < ECO_FORCED_KEYS; key++)
        if ((key->unsaid || !only_unsaid) &&
            eco_force_text(force->text, names[key->key], value, sizeof value))
            eco_text_add(text, ",%s=%s", names[key->key], value);
}

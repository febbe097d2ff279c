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

enum { VALUE = 32 };

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
                    key->name, value, range);
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
    force->keys = 0;
    force->algorithm[0] = '\0';
    read_algorithm(force);
    for (const struct eco_force_key *key = keys; key != NULL && key->name != NULL; key++) {
        if (!eco_force_text(force->text, key->name, value, sizeof value)) {
            if (variable_of(key) == NULL)
                continue;
            struct eco_text cut = {value, sizeof value, 0};
            eco_text_add(&cut, "%s", variable_of(key));
            eco_text_add(&all, "%s%s=%s", all.length > 0 ? "," : "", key->name, value);
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
    for (const struct eco_force_key *key = keys; key->name != NULL; key++)
        if ((key->unsaid || !only_unsaid) &&
            eco_force_text(force->text, key->name, value, sizeof value))
            eco_text_add(text, ",%s=%s", key->name, value);
}

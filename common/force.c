/*
 * Forced choices: a list of key=value separated by commas.  Knows no key.
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

bool eco_force_number(const char *forced, const char *key, int *value)
{
    char text[24], *end;
    if (!eco_force_text(forced, key, text, sizeof text))
        return false;
    errno = 0;
    const long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < INT_MIN || number > INT_MAX)
        return false;
    *value = (int)number;
    return true;
}

bool eco_force_algorithm(const char *forced, char name[ECO_MAX_ALGORITHM])
{
    const char *only = eco_environment("ECORNN_ALGORITHM");
    struct eco_text text = {name, ECO_MAX_ALGORITHM, 0};
    if (eco_force_text(forced, "algorithm", name, ECO_MAX_ALGORITHM))
        return name[0] != '\0';
    eco_text_add(&text, "%s", only != NULL ? only : "");
    return text.length > 0;
}

/*
 * Numbers that were measured of a machine, as a word of wisdom: whole ones, by key.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/backend.h"
#include "common/util.h"

enum { MOST_DIGITS = 15 }; /* that a double has */

/* Length of the pair "key=number" at text; 0: it is none.  digits: where the number begins. */
static size_t pair_of(const char *text, size_t *digits)
{
    const size_t key = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (key == 0 || text[key] != '=')
        return 0;
    *digits = key + 1;
    const size_t n = strspn(text + *digits, "0123456789");
    return n == 0 || n > MOST_DIGITS ? 0 : *digits + n;
}

bool eco_values_are(const char *values)
{
    size_t digits;
    if (values == NULL || strlen(values) >= ECO_MAX_VALUES)
        return false;
    for (const char *at = values;; at++) {
        const size_t length = pair_of(at, &digits);
        at += length;
        if (length == 0 || (*at != ',' && *at != '\0'))
            return false;
        if (*at == '\0')
            return true;
    }
}

static double value_of(const struct eco_measure *measure, const char *values)
{
    size_t digits, length;
    const size_t key = strlen(measure->key);
    for (const char *at = values; (length = pair_of(at, &digits)) > 0; at += length + 1) {
        if (digits == key + 1 && strncmp(at, measure->key, key) == 0) {
            const double value = (double)strtoull(at + digits, NULL, 10) * measure->unit;
            return value >= measure->least && value <= measure->most ? value : 0;
        }
        if (at[length] != ',')
            break;
    }
    return 0;
}

void eco_values_read(const struct eco_measure *measures, const char *values, double *value)
{
    for (int k = 0; measures[k].key != NULL; k++)
        value[k] = value_of(&measures[k], values);
}

void eco_values_write(struct eco_text *text, const struct eco_measure *measures,
                      const double *value)
{
    const char *before = "";
    for (int k = 0; measures[k].key != NULL; k++)
        if (value[k] >= measures[k].least && value[k] <= measures[k].most) {
            eco_text_add(text, "%s%s=%.0f", before, measures[k].key, value[k] / measures[k].unit);
            before = ",";
        }
}

/*
 * Parses the parts of a problem string, and checks the numbers of a description, by tables.
 */
#include "common/grammar.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

ecornn_status eco_extents_check(const struct eco_grammar *grammar, const void *desc)
{
    for (int i = 0; i < grammar->n_extents; i++) {
        const struct eco_extent *extent = &grammar->extents[i];
        int32_t value;
        memcpy(&value, (const char *)desc + extent->field, sizeof value);
        if (value < extent->least || value > extent->most)
            return extent->letter != 0 && value == 0
                       ? eco_fail(ECORNN_BAD_ARGUMENT,
                                  "%s is 0, must be %d to %d: %c in a problem string", extent->name,
                                  extent->least, extent->most, extent->letter)
                       : eco_fail(ECORNN_BAD_ARGUMENT, "%s is %d, must be %d to %d", extent->name,
                                  value, extent->least, extent->most);
    }
    return ECORNN_OK;
}

ecornn_status eco_reading_fail(const struct eco_reading *reading, const char *part)
{
    return eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" is not a valid part of problem string \"%s\"",
                    part, reading->text);
}

ecornn_status eco_reading_say(struct eco_reading *reading, int saying, const char *part)
{
    assert(saying >= 0 && saying < ECO_SAYINGS);
    const char *before = reading->said[saying];
    reading->said[saying] = part;
    if (before == NULL)
        return ECORNN_OK;
    return eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" %s \"%s\" in problem string \"%s\"", part,
                    strcmp(part, before) == 0 ? "repeats" : "contradicts", before, reading->text);
}

static void set_field(const struct eco_reading *reading, size_t field, int32_t value)
{
    char *at = (char *)reading->desc + field;
    uint32_t flags = 0;
    if (field == reading->grammar->flags)
        memcpy(&flags, at, sizeof flags);
    flags |= (uint32_t)value;
    memcpy(at, &flags, sizeof flags);
}

bool eco_reading_word(struct eco_reading *reading, const char *part, ecornn_status *status)
{
    const struct eco_word *word = reading->grammar->words, *end = word + reading->grammar->n_words;
    while (word < end && strcmp(part, word->word) != 0)
        word++;
    if (word == end)
        return false;
    set_field(reading, word->field, word->value);
    *status = eco_reading_say(reading, word->saying, part);
    return true;
}

ecornn_status eco_reading_extent(struct eco_reading *reading, const char *part)
{
    const struct eco_grammar *grammar = reading->grammar;
    int i = 0;
    while (i < grammar->n_extents && grammar->extents[i].letter != part[0])
        i++;
    if (i == grammar->n_extents || part[0] == '\0' || part[1] == '\0' ||
        part[1 + strspn(part + 1, "0123456789")] != '\0')
        return eco_reading_fail(reading, part);
    const struct eco_extent *extent = &grammar->extents[i];
    const ecornn_status status = eco_reading_say(reading, grammar->sayings + i, part);
    if (status != ECORNN_OK)
        return status;
    errno = 0;
    const long long value = strtoll(part + 1, NULL, 10);
    if (errno != 0 || value < extent->least || value > extent->most)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%c is %s, must be %d to %d", part[0], part + 1,
                        extent->least, extent->most);
    set_field(reading, extent->field, (int32_t)value);
    return ECORNN_OK;
}

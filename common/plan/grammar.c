/*
 * Parses and prints problem strings, and checks and reads descriptions, by rows of options.
 */
#include "common/grammar.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

static int32_t get_field(const void *desc, size_t field)
{
    int32_t value;
    memcpy(&value, (const char *)desc + field, sizeof value);
    return value;
}

/* An option that is a flag has its word first. */
static bool is_flag(const struct eco_option *option)
{
    return option->word[0].flag != NULL;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

static ecornn_status check_number(const struct eco_option *option, const void *desc)
{
    const int32_t value = get_field(desc, option->field);
    if (option->name == NULL || (value >= option->least && value <= option->most))
        return ECORNN_OK;
    return option->least > 0 && value == 0
               ? eco_fail(ECORNN_BAD_ARGUMENT, "%s is 0, must be %d to %d: %s in a problem string",
                          option->name, option->least, option->most, option->key)
               : eco_fail(ECORNN_BAD_ARGUMENT, "%s is %d, must be %d to %d", option->name, value,
                          option->least, option->most);
}

/* Adds the flags of an option to `known`; at most one may be set. */
static ecornn_status check_flags(const struct eco_option *option, uint32_t flags, uint32_t *known)
{
    const struct eco_word *other = NULL;
    for (const struct eco_word *word = option->word; word < option->word + ECO_WORDS; word++) {
        const uint32_t flag = word->flag != NULL ? (uint32_t)word->value : 0;
        *known |= flag;
        if ((flags & flag) == 0)
            continue;
        if (other != NULL)
            return eco_fail(ECORNN_BAD_ARGUMENT, "flags is 0x%x, but %s and %s exclude each other",
                            flags, other->flag, word->flag);
        other = word;
    }
    return ECORNN_OK;
}

ecornn_status eco_options_check(const struct eco_grammar *grammar, const void *desc)
{
    const uint32_t flags = (uint32_t)get_field(desc, grammar->flags);
    uint32_t known = 0;
    ecornn_status status = ECORNN_OK;
    for (int i = 0; status == ECORNN_OK && i < grammar->options; i++) {
        status = check_number(&grammar->option[i], desc);
        if (status == ECORNN_OK)
            status = check_flags(&grammar->option[i], flags, &known);
    }
    if (status == ECORNN_OK && (flags & ~known) != 0)
        return eco_fail(ECORNN_BAD_ARGUMENT, "flags is 0x%x, known are 0x%x", flags, known);
    return status;
}

void eco_options_build(const struct eco_grammar *grammar, void *problem, const void *desc)
{
    for (int i = 0; i < grammar->options; i++) {
        const struct eco_option *const option = &grammar->option[i];
        char *const at = (char *)problem + option->at;
        const int32_t number = get_field(desc, option->field);
        const int32_t value = number != 0 ? number : option->usual;
        const bool set = (get_field(desc, grammar->flags) & option->word[0].value) != 0;
        if (option->at != 0 && is_flag(option))
            memcpy(at, &set, sizeof set);
        else if (option->at != 0)
            memcpy(at, &value, sizeof value);
    }
}

int32_t eco_option_get(const struct eco_option *option, const void *problem)
{
    bool set;
    if (!is_flag(option))
        return get_field(problem, option->at);
    memcpy(&set, (const char *)problem + option->at, sizeof set);
    return set;
}

static void print_value(struct eco_text *text, const struct eco_option *option, int32_t value)
{
    const char *word = is_flag(option) ? option->word[value == 0].word : NULL;
    for (int w = 0; w < ECO_WORDS && !is_flag(option); w++)
        if (option->word[w].word != NULL && option->word[w].value == value)
            word = option->word[w].word;
    if (word != NULL)
        eco_text_add(text, "/%s", word);
    else if (option->key != NULL && value != option->usual)
        eco_text_add(text, "/%s%d", option->key, value);
}

void eco_options_print(const struct eco_grammar *grammar, struct eco_text *text,
                       const void *problem)
{
    for (int i = 0; i < grammar->options; i++) {
        const struct eco_option *const option = &grammar->option[i];
        if (option->print != NULL)
            option->print(text, problem);
        else if (option->at != 0)
            print_value(text, option, eco_option_get(option, problem));
    }
}

/* ---- strings --------------------------------------------------------------------------------- */

/* Adds what parts may be: words, and what numbers and words follow. */
static void add_parts(struct eco_text *text, const struct eco_grammar *grammar)
{
    for (int i = 0; i < grammar->options; i++) {
        const struct eco_option *const option = &grammar->option[i];
        for (int w = 0; w < ECO_WORDS; w++)
            if (option->word[w].word != NULL)
                eco_text_add(text, " %s", option->word[w].word);
        if (option->key != NULL)
            eco_text_add(text, " %s#", option->key);
    }
}

ecornn_status eco_reading_fail(const struct eco_reading *reading, const char *part)
{
    char parts[ECO_MAX_DETAIL];
    struct eco_text all = {parts, sizeof parts, 0};
    add_parts(&all, reading->grammar);
    return eco_fail(ECORNN_BAD_ARGUMENT,
                    "\"%s\" is not a valid part of problem string \"%s\"; valid are%s", part,
                    reading->text, parts);
}

static void set_field(const struct eco_reading *reading, size_t field, int32_t value)
{
    if (field == reading->grammar->flags)
        value |= get_field(reading->desc, field);
    memcpy((char *)reading->desc + field, &value, sizeof value);
}

static ecornn_status parse_number(struct eco_reading *reading, const struct eco_option *option,
                                  const char *part, const char *digits)
{
    const bool letter = option->key[1] == '\0';
    const int32_t least = letter ? option->least : 1;
    errno = 0;
    const long long value = strtoll(digits, NULL, 10);
    if (*digits == '\0' || digits[strspn(digits, "0123456789")] != '\0')
        return eco_reading_fail(reading, part);
    if (errno != 0 || value < least || value > option->most)
        return eco_fail(ECORNN_BAD_ARGUMENT, "%s is %s, must be %d to %d",
                        letter ? option->key : option->name, digits, least, option->most);
    set_field(reading, option->field, (int32_t)value);
    return ECORNN_OK;
}

/* Does the part set this option? */
static bool parse_option(struct eco_reading *reading, const struct eco_option *option,
                         const char *part, ecornn_status *status)
{
    const size_t key = option->key != NULL ? strlen(option->key) : 0;
    for (int w = 0; w < ECO_WORDS; w++)
        if (option->word[w].word != NULL && strcmp(part, option->word[w].word) == 0) {
            set_field(reading, option->word[w].field, option->word[w].value);
            return true;
        }
    if (key == 0 || strncmp(part, option->key, key) != 0)
        return false;
    *status = option->parse != NULL ? option->parse(reading, part, part + key)
                                    : parse_number(reading, option, part, part + key);
    return true;
}

static ecornn_status parse_part(struct eco_reading *reading, const char *part)
{
    const struct eco_grammar *const grammar = reading->grammar;
    ecornn_status status = ECORNN_OK;
    int i = 0;
    while (i < grammar->options && !parse_option(reading, &grammar->option[i], part, &status))
        i++;
    if (i == grammar->options)
        return eco_reading_fail(reading, part);
    const char *const before = reading->said[i];
    reading->said[i] = part;
    if (status != ECORNN_OK || before == NULL)
        return status;
    return eco_fail(ECORNN_BAD_ARGUMENT, "\"%s\" %s \"%s\" in problem string \"%s\"", part,
                    strcmp(part, before) == 0 ? "repeats" : "contradicts", before, reading->text);
}

ecornn_status eco_options_parse(struct eco_reading *reading, char *parts)
{
    ecornn_status status = ECORNN_OK;
    while (status == ECORNN_OK && parts != NULL) {
        const char *const part = parts;
        parts = strchr(parts, '/');
        if (parts != NULL)
            *parts++ = '\0';
        status = parse_part(reading, part);
    }
    return status;
}

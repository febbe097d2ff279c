/*
 * The text form of wisdom: a first line, then lines of devices, problems and remarks.  The reader
 * accepts any input without harm; it knows neither the store nor files.
 *
 *     ecornn-wisdom 1
 *     device 91c1d7f2a04be335 cpu avx512 threads=2 ... name=Some Processor
 *     lstm/f32/infer/T100/N32/I256/H256 - 91c1d7f2a04be335 algorithm=packed 123456 789 2026-11-25
 *
 * Words have single blanks between them.  A line of a problem refers to a device above it.  If that
 * device is of another version of the library, the problem may be unknown here and is not parsed.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

enum { MOST_BYTES = 16 << 20, MOST_LINE = 1024, MOST_LINES = 1 << 18, MOST_DEVICES = 4096 };

struct reader {
    struct eco_wisdom *to;
    const char *name;
    uint32_t number; /* of the line, from 1 */
    uint32_t room;   /* lines that fit */
    int devices;
    struct {
        uint64_t id;
        bool this_version;
    } device[MOST_DEVICES];
};

static ecornn_status refuse(const struct reader *reader, const char *why)
{
    char reason[256];
    struct eco_text text = {reason, sizeof reason, 0};
    eco_text_add(&text, "%s", why); /* a copy: it may be the thread's error text itself */
    return eco_fail(ECORNN_BAD_ARGUMENT, "%.220s:%" PRIu32 ": %s", reader->name, reader->number,
                    reason);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Cuts a line into its words, in place; the last takes the rest.  False: there are fewer. */
static bool cut(char *line, struct eco_wisdom_line *cut)
{
    cut->word[0] = line;
    for (int k = 1; k < cut->words; k++) {
        char *end = strchr(line, ' ');
        if (end == NULL || end == line || end[1] == '\0')
            return false;
        *end = '\0';
        cut->word[k] = line = end + 1;
    }
    return true;
}

static bool read_hex(const char *word, uint64_t *value)
{
    *value = strtoull(word, NULL, 16);
    return strlen(word) == 16 && word[strspn(word, "0123456789abcdef")] == '\0';
}

static bool is_count(const char *word)
{
    enum { MOST_DIGITS = 18 };
    const size_t digits = strspn(word, "0123456789");
    return digits > 0 && digits <= MOST_DIGITS && word[digits] == '\0';
}

static bool is_date(const char *word)
{
    static const char form[] = "dddd-dd-dd";
    for (size_t i = 0; i < sizeof form; i++)
        if (form[i] == 'd' ? word[i] < '0' || word[i] > '9' : word[i] != form[i])
            return false;
    const int month = 10 * (word[5] - '0') + word[6] - '0',
              day = 10 * (word[8] - '0') + word[9] - '0';
    return month >= 1 && month <= 12 && day >= 1 && day <= 31;
}

/* Are these "algorithm=NAME,key=value", as in ECORNN_FORCE?  The planner checks their meaning. */
static bool is_choices(const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (strlen(word) >= ECO_MAX_FORCE || strncmp(word, "algorithm=", 10) != 0)
        return false;
    for (const char *at = word;; at++) {
        const size_t key = strspn(at, letters);
        if (key == 0 || at[key] != '=')
            return false;
        at += key + 1;
        const size_t value = strcspn(at, ",");
        if (value == 0 || strspn(at, "abcdefghijklmnopqrstuvwxyz0123456789-:.") < value)
            return false;
        at += value;
        if (*at == '\0')
            return true;
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The index of a device among those read so far; -1: it is not there. */
static int find_device(const struct reader *reader, uint64_t id)
{
    for (int k = 0; k < reader->devices; k++)
        if (reader->device[k].id == id)
            return k;
    return -1;
}

static ecornn_status check_device(struct reader *reader, struct eco_wisdom_line *line)
{
    const char *words = line->word[2];
    if (!read_hex(line->word[1], &line->device))
        return refuse(reader, "a device needs a hash of 16 digits");
    if (strlen(words) >= ECO_MAX_IDENTITY)
        return refuse(reader, "the words of the device are too long");
    if (line->device != eco_hash(ECO_HASH, words, strlen(words)))
        return refuse(reader, "the hash is not that of the device's words");
    if (find_device(reader, line->device) >= 0)
        return ECORNN_OK;
    if (reader->devices == MOST_DEVICES)
        return refuse(reader, "too many devices");
    reader->device[reader->devices].id = line->device;
    reader->device[reader->devices++].this_version = eco_identity_of_this_version(words);
    return ECORNN_OK;
}

static ecornn_status check_problem(struct reader *reader, struct eco_wisdom_line *line)
{
    const char *const *word = line->word;
    if (strcmp(word[1], "-") != 0 && (!read_hex(word[1], &line->cell) || line->cell == 0))
        return refuse(reader, "the cell is neither - nor 16 digits");
    if (!read_hex(word[2], &line->device))
        return refuse(reader, "the device is not 16 digits");
    const int device = find_device(reader, line->device);
    if (device < 0)
        return refuse(reader, "no line above describes the device");
    if (!is_choices(word[3]))
        return refuse(reader, "the choices are not algorithm=NAME,key=value");
    if (!is_count(word[4]) || strtoull(word[4], NULL, 10) == 0 || !is_count(word[5]))
        return refuse(reader, "time and spread are not two numbers of nanoseconds");
    if (!is_date(word[6]))
        return refuse(reader, "the line does not end with a date, YYYY-MM-DD");
    const char *why = reader->device[device].this_version
                          ? eco_wisdom_problem_refuses(word[0], line->cell == 0)
                          : NULL;
    if (why != NULL)
        return refuse(reader, why);
    line->key = eco_wisdom_key(word[0], line->cell);
    return ECORNN_OK;
}

static ecornn_status read_words(struct reader *reader, char *text, struct eco_wisdom_line *line)
{
    if (strlen(text) >= MOST_LINE)
        return refuse(reader, "the line is too long");
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++)
        if (*at < ' ' || *at == 0x7F)
            return refuse(reader, "the line has a control character");
    line->words = strncmp(text, "device ", 7) == 0 ? ECO_WISDOM_DEVICE : ECO_WISDOM_PROBLEM;
    if (!cut(text, line))
        return refuse(reader, line->words == ECO_WISDOM_DEVICE
                                  ? "the line is not device HASH WORDS"
                                  : "the line is not PROBLEM CELL DEVICE CHOICES TIME SPREAD DATE");
    return line->words == ECO_WISDOM_DEVICE ? check_device(reader, line)
                                            : check_problem(reader, line);
}

static ecornn_status read_line(struct reader *reader, char *text)
{
    struct eco_wisdom_line line = {
        .word = {text}, .words = ECO_WISDOM_REMARK, .order = reader->number};
    ecornn_status status = ECORNN_OK;
    if (reader->number == 1)
        return strcmp(text, ECO_WISDOM_HEAD) == 0
                   ? ECORNN_OK
                   : refuse(reader, "the first line is not " ECO_WISDOM_HEAD);
    if (text[0] == '\0')
        return ECORNN_OK;
    if (text[0] != '#')
        status = read_words(reader, text, &line);
    if (status == ECORNN_OK && reader->to->lines == reader->room)
        return refuse(reader, "too many lines");
    if (status == ECORNN_OK)
        reader->to->line[reader->to->lines++] = line;
    return status;
}

static ecornn_status read_lines(struct reader *reader, char *text, size_t bytes)
{
    char *const end = text + bytes;
    for (char *line = text; line < end; reader->number++) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        if (stop == NULL)
            return refuse(reader, "the line does not end");
        *stop = '\0';
        if (strlen(line) != (size_t)(stop - line))
            return refuse(reader, "the line has a zero byte");
        const ecornn_status status = read_line(reader, line);
        if (status != ECORNN_OK)
            return status;
        line = stop + 1;
    }
    return reader->number > 1 ? ECORNN_OK : refuse(reader, "the text is empty");
}

/* ---- order ----------------------------------------------------------------------------------- */

/* Do two lines state the same fact?  0: they do.  What follows the third word of a problem is not
 * compared. */
static int compare_facts(const struct eco_wisdom_line *a, const struct eco_wisdom_line *b)
{
    int difference = a->words - b->words;
    for (int k = 0; difference == 0 && k < a->words && k < ECO_WISDOM_DEVICE; k++)
        difference = strcmp(a->word[k], b->word[k]);
    return difference;
}

static int compare_orders(const void *a, const void *b)
{
    const struct eco_wisdom_line *one = a, *other = b;
    return (one->order > other->order) - (one->order < other->order);
}

/* Sorts equal facts so that the line to keep is the first. */
static int compare_lines(const void *a, const void *b)
{
    const struct eco_wisdom_line *one = a, *other = b;
    const int facts = compare_facts(one, other), orders = compare_orders(a, b);
    return facts != 0 ? facts : one->words == ECO_WISDOM_PROBLEM ? -orders : orders;
}

static int compare_keys(const void *a, const void *b)
{
    const struct eco_wisdom_line *one = *(const struct eco_wisdom_line *const *)a,
                                 *other = *(const struct eco_wisdom_line *const *)b;
    return one->key != other->key ? (one->key > other->key) - (one->key < other->key)
                                  : compare_orders(one, other);
}

/* Drops lines whose facts other lines state, and makes the index by key.  The rest keep their
 * order, so that a remark stays before the line that it is about. */
static void arrange(struct eco_wisdom *wisdom)
{
    struct eco_wisdom_line *line = wisdom->line;
    uint32_t kept = 0;
    qsort(line, wisdom->lines, sizeof *line, compare_lines);
    for (uint32_t k = 0; k < wisdom->lines; k++)
        if (kept == 0 || compare_facts(&line[kept - 1], &line[k]) != 0)
            line[kept++] = line[k];
    wisdom->lines = kept;
    qsort(line, kept, sizeof *line, compare_orders);
    for (uint32_t k = 0; k < kept; k++)
        if (line[k].words == ECO_WISDOM_PROBLEM)
            wisdom->by_key[wisdom->problems++] = &line[k];
    qsort(wisdom->by_key, wisdom->problems, sizeof *wisdom->by_key, compare_keys);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static ecornn_status read_all(struct reader *reader, const char *text, size_t bytes)
{
    struct eco_wisdom *to = reader->to;
    size_t lines = 1; /* an allocation of 0 bytes may fail */
    for (size_t k = 0; k < bytes && lines < MOST_LINES; k++)
        lines += text[k] == '\n';
    to->text = eco_alloc(bytes + 1);
    to->line = eco_alloc(lines * sizeof *to->line);
    to->by_key = eco_alloc(lines * sizeof *to->by_key);
    if (to->text == NULL || to->line == NULL || to->by_key == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for wisdom of %zu bytes", bytes);
    reader->room = (uint32_t)lines;
    to->bytes = bytes;
    memcpy(to->text, text, bytes);
    return read_lines(reader, to->text, bytes);
}

ecornn_status eco_wisdom_read(struct eco_wisdom *wisdom, const char *text, size_t bytes,
                              const char *name)
{
    struct eco_wisdom made = {0};
    struct reader *reader = eco_alloc_zeroed(sizeof *reader);
    if (reader == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for %zu bytes", sizeof *reader);
    reader->to = &made;
    reader->name = name;
    reader->number = 1;
    const ecornn_status status = bytes > MOST_BYTES
                                     ? refuse(reader, "the text is larger than 16 MiB")
                                     : read_all(reader, text, bytes);
    eco_free(reader);
    if (status != ECORNN_OK) {
        eco_wisdom_free(&made);
        return status;
    }
    arrange(&made);
    *wisdom = made;
    return ECORNN_OK;
}

void eco_wisdom_free(struct eco_wisdom *wisdom)
{
    eco_free(wisdom->text);
    eco_free(wisdom->line);
    eco_free(wisdom->by_key);
    *wisdom = (struct eco_wisdom){0};
}

void eco_wisdom_write(struct eco_text *text, const struct eco_wisdom *wisdom)
{
    for (size_t i = 0; i < (size_t)wisdom->lines; i++)
        for (int k = 0; k < wisdom->line[i].words; k++)
            eco_text_add(text, "%s%c", wisdom->line[i].word[k],
                         k + 1 < wisdom->line[i].words ? ' ' : '\n');
}

/*
 * The text form of wisdom, read: a first line, lines of devices, of what was measured of them, and
 * of problems, words with single blanks between, and remarks.  Reads anything without harm; knows
 * no store and no file.
 *
 *     ecornn-wisdom 1
 *     device 91c1d7f2a04be335 cpu avx512 threads=2 ... name=Some Processor
 *     machine 91c1d7f2a04be335 f32-mflops=153600,barrier-ps=250000 2026-11-25
 *     lstm/f32/infer/T100/N32/I256/H256 - 91c1d7f2a04be335 algorithm=packed,chunk=8 123456 789
 * 2026-11-25
 *
 * The second word of a problem is "-", or the identity of a cell from text; then device, choices,
 * median and spread in nanoseconds, date.  What a line of another version calls a problem may be
 * none here: nothing is read into it.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"

/* The least line is a device's, of one letter: every line has its bytes, with the one that ends it.
 */
enum { MOST_BYTES = 16 << 20, MOST_LINE = 1024, MOST_DEVICES = 4096, MOST_REMARKS = 1 << 16 };
enum { LEAST_LINE = sizeof ECO_WISDOM_DEVICE "0123456789abcdef x", LEAST_REMARK = sizeof "#" };

struct reader {
    struct eco_wisdom *to;
    const char *name;
    uint32_t number;        /* of the line, from 1 on */
    uint32_t room, remarks; /* lines of problems, and remarks, that fit */
    int32_t devices;        /* so many of these */
    int32_t *by_id;         /* places of devices, by identity */
};

static ecornn_status refuse(const struct reader *reader, const char *why)
{
    char reason[256];
    struct eco_text text = {reason, sizeof reason, 0};
    eco_text_add(&text, "%s", why); /* it may be the thread's detail itself */
    return eco_fail(ECORNN_BAD_ARGUMENT, "%.220s:%" PRIu32 ": %s", reader->name, reader->number,
                    reason);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The next word, cut off in place; NULL: there is none. */
static char *next_word(char **rest)
{
    char *word = *rest;
    if (word == NULL || *word == '\0' || *word == ' ')
        return NULL;
    char *end = strchr(word, ' ');
    if (end != NULL)
        *end++ = '\0';
    *rest = end;
    return word;
}

static bool read_hex(const char *word, uint64_t *value)
{
    if (word == NULL || strlen(word) != 16 || word[strspn(word, "0123456789abcdef")] != '\0')
        return false;
    *value = strtoull(word, NULL, 16);
    return true;
}

static bool read_count(const char *word, uint64_t *value)
{
    enum { MOST_DIGITS = 18 };
    const size_t digits = word == NULL ? 0 : strspn(word, "0123456789");
    if (digits == 0 || digits > MOST_DIGITS || word[digits] != '\0')
        return false;
    *value = strtoull(word, NULL, 10);
    return true;
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

/* "algorithm=NAME,key=value": pairs as ECORNN_FORCE has them.  What they mean is the planner's. */
static bool is_choices(const char *word)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    if (word == NULL || strlen(word) >= ECO_MAX_FORCE || strncmp(word, "algorithm=", 10) != 0)
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

/* Where in the order of identities this one is, or would be. */
static int32_t place_of(const struct reader *reader, uint64_t id)
{
    int32_t from = 0, to = reader->to->devices;
    while (from < to) {
        const int32_t middle = from + (to - from) / 2;
        if (reader->to->device[reader->by_id[middle]].id < id)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static int32_t find_device(const struct reader *reader, uint64_t id)
{
    const int32_t place = place_of(reader, id);
    if (place == reader->to->devices)
        return -1;
    const int32_t k = reader->by_id[place];
    return reader->to->device[k].id == id ? k : -1;
}

static void add_device(struct reader *reader, struct eco_wisdom_device device)
{
    struct eco_wisdom *to = reader->to;
    const int32_t place = place_of(reader, device.id), k = to->devices;
    memmove(reader->by_id + place + 1, reader->by_id + place,
            (size_t)(k - place) * sizeof *reader->by_id);
    reader->by_id[place] = k;
    to->machine[k] = (struct eco_wisdom_machine){.device = -1};
    to->device[k] = device;
    to->devices++;
}

static ecornn_status read_device(struct reader *reader, char *rest)
{
    struct eco_wisdom *to = reader->to;
    uint64_t id = 0;
    if (!read_hex(next_word(&rest), &id) || rest == NULL || *rest == '\0')
        return refuse(reader, "a device is 16 digits of its identity, then its words");
    if (strlen(rest) >= ECO_MAX_IDENTITY)
        return refuse(reader, "the words of the device are too long");
    if (id != eco_hash(ECO_HASH, rest, strlen(rest)))
        return refuse(reader, "the words of the device are not those of its identity");
    if (find_device(reader, id) >= 0)
        return ECORNN_OK;
    if (to->devices >= reader->devices)
        return refuse(reader, "too many devices");
    add_device(reader, (struct eco_wisdom_device){id, rest, reader->number});
    return ECORNN_OK;
}

static ecornn_status read_machine(const struct reader *reader, char *rest)
{
    struct eco_wisdom *to = reader->to;
    struct eco_wisdom_machine machine = {.order = reader->number};
    uint64_t device = 0;
    if (!read_hex(next_word(&rest), &device))
        return refuse(reader, "the machine is not 16 digits of a device");
    machine.device = find_device(reader, device);
    if (machine.device < 0)
        return refuse(reader, "no line before this one describes the device");
    machine.values = next_word(&rest);
    if (!eco_values_are(machine.values))
        return refuse(reader, "what was measured is not key=number,key=number");
    machine.date = next_word(&rest);
    if (machine.date == NULL || !is_date(machine.date) || rest != NULL)
        return refuse(reader, "the line does not end with a date, YYYY-MM-DD");
    to->machine[machine.device] = machine; /* the later counts */
    return ECORNN_OK;
}

static ecornn_status read_problem(const struct reader *reader, char *rest)
{
    struct eco_wisdom *to = reader->to;
    struct eco_wisdom_line line = {.problem = next_word(&rest), .order = reader->number};
    const char *cell = next_word(&rest);
    uint64_t device = 0;
    if (line.problem == NULL || cell == NULL)
        return refuse(reader, "the line is no problem, cell, device and choices");
    if (strcmp(cell, "-") != 0 && (!read_hex(cell, &line.cell) || line.cell == 0))
        return refuse(reader, "the cell is neither - nor 16 digits");
    if (!read_hex(next_word(&rest), &device))
        return refuse(reader, "the device is not 16 digits");
    line.device = find_device(reader, device);
    if (line.device < 0)
        return refuse(reader, "no line before this one describes the device");
    line.choices = next_word(&rest);
    if (!is_choices(line.choices))
        return refuse(reader, "the choices are not algorithm=NAME,key=value");
    if (!read_count(next_word(&rest), &line.nanoseconds) || line.nanoseconds == 0 ||
        !read_count(next_word(&rest), &line.spread))
        return refuse(reader, "time and spread are not two numbers of nanoseconds");
    line.date = next_word(&rest);
    if (line.date == NULL || !is_date(line.date) || rest != NULL)
        return refuse(reader, "the line does not end with a date, YYYY-MM-DD");
    const char *why = eco_identity_of_this_version(to->device[line.device].words)
                          ? eco_wisdom_problem_refuses(line.problem, line.cell == 0)
                          : NULL;
    if (why != NULL)
        return refuse(reader, why);
    if (to->lines >= reader->room)
        return refuse(reader, "more problems than a text of this size has");
    to->line[to->lines++] = line;
    return ECORNN_OK;
}

static ecornn_status read_remark(const struct reader *reader, const char *line)
{
    struct eco_wisdom *to = reader->to;
    if (to->remarks >= reader->remarks)
        return refuse(reader, "too many remarks");
    to->remark[to->remarks++] = (struct eco_wisdom_remark){line, reader->number};
    return ECORNN_OK;
}

static ecornn_status read_line(struct reader *reader, char *line)
{
    if (reader->number == 1)
        return strcmp(line, ECO_WISDOM_HEAD) == 0
                   ? ECORNN_OK
                   : refuse(reader, "the first line is not " ECO_WISDOM_HEAD);
    if (line[0] == '\0')
        return ECORNN_OK;
    if (line[0] == '#')
        return read_remark(reader, line);
    if (strlen(line) >= MOST_LINE)
        return refuse(reader, "the line is too long");
    for (const unsigned char *at = (const unsigned char *)line; *at != '\0'; at++)
        if (*at < ' ' || *at == 0x7F)
            return refuse(reader, "a control character");
    if (strncmp(line, ECO_WISDOM_DEVICE, strlen(ECO_WISDOM_DEVICE)) == 0)
        return read_device(reader, line + strlen(ECO_WISDOM_DEVICE));
    if (strncmp(line, ECO_WISDOM_MACHINE, strlen(ECO_WISDOM_MACHINE)) == 0)
        return read_machine(reader, line + strlen(ECO_WISDOM_MACHINE));
    return read_problem(reader, line);
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
            return refuse(reader, "a zero byte");
        const ecornn_status status = read_line(reader, line);
        if (status != ECORNN_OK)
            return status;
        line = stop + 1;
    }
    return reader->number > 1 ? ECORNN_OK : refuse(reader, "the text is empty");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool make_room(struct eco_wisdom *wisdom, size_t bytes, struct reader *reader)
{
    const size_t lines = bytes / LEAST_LINE + 1;
    const size_t devices = lines < MOST_DEVICES ? lines : MOST_DEVICES;
    const size_t most = bytes / LEAST_REMARK + 1;
    const size_t remarks = most < MOST_REMARKS ? most : MOST_REMARKS;
    reader->room = (uint32_t)lines;
    reader->devices = (int32_t)devices;
    reader->remarks = (uint32_t)remarks;
    reader->by_id = eco_alloc(devices * sizeof *reader->by_id);
    wisdom->text = eco_alloc(bytes + 1);
    wisdom->line = eco_alloc(lines * sizeof *wisdom->line);
    wisdom->place = eco_alloc(lines * sizeof *wisdom->place);
    wisdom->device = eco_alloc(devices * sizeof *wisdom->device);
    wisdom->machine = eco_alloc(devices * sizeof *wisdom->machine);
    wisdom->remark = eco_alloc(remarks * sizeof *wisdom->remark);
    return reader->by_id && wisdom->text && wisdom->line && wisdom->place && wisdom->device &&
           wisdom->machine && wisdom->remark;
}

ecornn_status eco_wisdom_read(struct eco_wisdom *wisdom, const char *text, size_t bytes,
                              const char *name)
{
    struct eco_wisdom made = {0};
    struct reader reader = {.to = &made, .name = name, .number = 1};
    if (bytes > MOST_BYTES)
        return refuse(&reader, "the text is larger than 16 MiB");
    ecornn_status status = ECORNN_OK;
    if (!make_room(&made, bytes, &reader))
        status = eco_fail(ECORNN_NO_MEMORY, "no memory for wisdom of %zu bytes", bytes);
    if (status == ECORNN_OK) {
        memcpy(made.text, text, bytes);
        status = read_lines(&reader, made.text, bytes);
    }
    eco_free(reader.by_id);
    if (status != ECORNN_OK) {
        eco_wisdom_free(&made);
        return status;
    }
    eco_wisdom_arrange(&made);
    *wisdom = made;
    return ECORNN_OK;
}

void eco_wisdom_free(struct eco_wisdom *wisdom)
{
    eco_free(wisdom->text);
    eco_free(wisdom->line);
    eco_free(wisdom->place);
    eco_free(wisdom->device);
    eco_free(wisdom->machine);
    eco_free(wisdom->remark);
    *wisdom = (struct eco_wisdom){0};
}

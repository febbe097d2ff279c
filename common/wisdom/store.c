/*
 * The wisdom of this process, behind a lock.  With the error text of a thread it is the only state
 * of the library that changes.  Each plan looks it up once, when it is made.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/backend.h"
#include "common/locks.h"
#include "common/util.h"

static struct eco_wisdom store;          /* under ECO_LOCK_WISDOM, */
static char complaint[ECO_MAX_IDENTITY]; /* and this */

/* ---- changes --------------------------------------------------------------------------------- */

/* The store's lines, then more, as one text that is read. */
static ecornn_status join(const struct eco_wisdom *more, struct eco_wisdom *joined)
{
    struct eco_text text = {.size = sizeof ECO_WISDOM_HEAD + 1 + store.bytes + more->bytes};
    text.data = eco_alloc(text.size);
    if (text.data == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for wisdom of %zu bytes", text.size);
    eco_text_add(&text, ECO_WISDOM_HEAD "\n");
    eco_wisdom_write(&text, &store);
    eco_wisdom_write(&text, more);
    const ecornn_status status = eco_wisdom_read(joined, text.data, text.length, "wisdom");
    eco_free(text.data);
    return status;
}

ecornn_status eco_wisdom_add(const char *text, size_t bytes, const char *name)
{
    struct eco_wisdom more = {0}, joined = {0};
    ecornn_status status = eco_wisdom_read(&more, text, bytes, name);
    if (status != ECORNN_OK)
        return status;
    eco_lock(ECO_LOCK_WISDOM);
    if (store.text == NULL) { /* nothing to join it with */
        store = more;
        more = (struct eco_wisdom){0};
    } else if ((status = join(&more, &joined)) == ECORNN_OK) {
        eco_wisdom_free(&store);
        store = joined;
    }
    eco_unlock(ECO_LOCK_WISDOM);
    eco_wisdom_free(&more);
    return status;
}

ecornn_status eco_wisdom_learn(const struct ecornn_device *device,
                               const struct eco_problem *problem, const char *choices,
                               double seconds, double spread)
{
    const double most = 1e8; /* s: the format has 18 digits of nanoseconds */
    const uint64_t cell = eco_cell_identity(problem->cell);
    const time_t now = time(NULL);
    char data[2048], identity[17] = "-", date[16]; /* a line has at most 1024 bytes */
    struct eco_text text = {data, sizeof data, 0};
    struct tm day;
    if (!eco_os_date(now, &day) || strftime(date, sizeof date, "%Y-%m-%d", &day) == 0)
        return eco_fail(ECORNN_FAILED, "the system has no date");
    if (cell != 0)
        eco_text_add(&(struct eco_text){identity, sizeof identity, 0}, "%016" PRIx64, cell);
    eco_text_add(&text, ECO_WISDOM_HEAD "\ndevice %016" PRIx64 " %s\n", device->id,
                 device->identity);
    eco_text_add(&text, "%s %s %016" PRIx64 " %s %.0f %.0f %s\n", problem->text, identity,
                 device->id, choices, fmax(1, 1e9 * fmin(seconds, most)), 1e9 * fmin(spread, most),
                 date);
    return eco_wisdom_add(data, text.length, "tuning");
}

void eco_wisdom_forget(void)
{
    eco_lock(ECO_LOCK_WISDOM);
    eco_wisdom_free(&store);
    complaint[0] = '\0';
    eco_unlock(ECO_LOCK_WISDOM);
}

void eco_wisdom_complain(const char *about)
{
    eco_lock(ECO_LOCK_WISDOM);
    struct eco_text text = {complaint, sizeof complaint, strlen(complaint)};
    eco_text_add(&text, "%s%s", text.length > 0 ? "; " : "", about);
    eco_unlock(ECO_LOCK_WISDOM);
}

void eco_wisdom_complaint(struct eco_text *text)
{
    eco_lock(ECO_LOCK_WISDOM);
    eco_text_add(text, "%s", complaint);
    eco_unlock(ECO_LOCK_WISDOM);
}

/* ---- questions ------------------------------------------------------------------------------- */

size_t eco_wisdom_print(char *data, size_t size)
{
    struct eco_text text = {data, size, 0};
    eco_lock(ECO_LOCK_WISDOM);
    eco_text_add(&text, ECO_WISDOM_HEAD "\n");
    eco_wisdom_write(&text, &store);
    eco_unlock(ECO_LOCK_WISDOM);
    return text.length;
}

/* The index in by_key of the first line with this key, if there is one. */
static uint32_t first_of(uint64_t key)
{
    uint32_t from = 0, to = store.problems;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (store.by_key[middle]->key < key)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The line of this problem on this device, or the latest line of its bucket, or NULL.  other: a
 * line of another device, if there is one. */
static const struct eco_wisdom_line *best_of(const struct eco_problem *problem,
                                             const struct ecornn_device *device,
                                             const struct eco_wisdom_line **other)
{
    const uint64_t cell = eco_cell_identity(problem->cell),
                   key = eco_wisdom_key(problem->text, cell);
    const struct eco_wisdom_line *best = NULL;
    for (uint32_t k = first_of(key); k < store.problems && store.by_key[k]->key == key; k++) {
        const struct eco_wisdom_line *line = store.by_key[k];
        if (line->cell != cell)
            continue;
        if (line->device != device->id)
            *other = line;
        else if (strcmp(line->word[0], problem->text) == 0)
            return line;
        else
            best = line;
    }
    return best;
}

static const char *words_of(uint64_t device)
{
    uint32_t k = 0;
    while (store.line[k].words != ECO_WISDOM_DEVICE || store.line[k].device != device)
        k++; /* each problem has a device */
    return store.line[k].word[2];
}

void eco_wisdom_find(const struct eco_problem *problem, const struct ecornn_device *device,
                     struct eco_wisdom_found *found)
{
    char said[sizeof found->note] = ""; /* may hold any bytes of a file */
    struct eco_text choices = {found->choices, sizeof found->choices, 0},
                    note = {said, sizeof said, 0}, shown = {found->note, sizeof found->note, 0};
    const struct eco_wisdom_line *other = NULL;
    found->choices[0] = found->note[0] = '\0';
    eco_lock(ECO_LOCK_WISDOM);
    const struct eco_wisdom_line *line =
        store.problems > 0 ? best_of(problem, device, &other) : NULL;
    if (line != NULL) {
        eco_text_add(&choices, "%s", line->word[3]);
        eco_text_add(&note, "%s, %.4g ms on %s", line->word[0], 1e-6 * strtod(line->word[4], NULL),
                     line->word[6]);
    } else if (other != NULL) {
        eco_text_add(&note, "of another device, not used: ");
        eco_identity_difference(&note, words_of(other->device), device->identity);
    }
    if (complaint[0] != '\0')
        eco_text_add(&note, "%s%s", note.length > 0 ? "; " : "", complaint);
    eco_unlock(ECO_LOCK_WISDOM);
    eco_text_add_escaped(&shown, said);
}

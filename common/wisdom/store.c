/*
 * The wisdom of this process: the one thing in the library that changes, behind a lock.  Plans ask
 * it once, when they are made; knows no file.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>
#include <string.h>

#include "common/backend.h"
#include "common/locks.h"
#include "common/util.h"

static struct eco_wisdom store;          /* under ECO_LOCK_WISDOM, */
static char complaint[ECO_MAX_IDENTITY]; /* and this */

/* ---- changes --------------------------------------------------------------------------------- */

/* The store's lines, then those of another, as one. */
static ecornn_status join(const struct eco_wisdom *more, struct eco_wisdom *joined)
{
    struct eco_text counted = {NULL, 0, 0};
    eco_wisdom_write(&counted, &store, true);
    eco_wisdom_write(&counted, more, false);
    struct eco_text text = {eco_alloc(counted.length + 1), counted.length + 1, 0};
    if (text.data == NULL)
        return eco_fail(ECORNN_NO_MEMORY, "no memory for wisdom of %zu bytes", counted.length);
    eco_wisdom_write(&text, &store, true);
    eco_wisdom_write(&text, more, false);
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
    if (store.text == NULL) { /* nothing to read it with again */
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
                               const struct eco_wisdom_line *line)
{
    char data[2048]; /* two lines of at most 1024 */
    struct eco_text text = {data, sizeof data, 0};
    const struct eco_wisdom_device measured = {.id = device->id, .words = device->identity};
    eco_wisdom_write(&text, &(struct eco_wisdom){0}, true);
    eco_wisdom_write_device(&text, &measured);
    eco_wisdom_write_line(&text, line, &measured);
    return eco_wisdom_add(data, text.length, "tuning");
}

ecornn_status eco_wisdom_learn_machine(const struct ecornn_device *device, const char *values,
                                       const char *date)
{
    char data[2048]; /* as above */
    struct eco_text text = {data, sizeof data, 0};
    const struct eco_wisdom_device measured = {.id = device->id, .words = device->identity};
    const struct eco_wisdom_machine machine = {.values = values, .date = date};
    eco_wisdom_write(&text, &(struct eco_wisdom){0}, true);
    eco_wisdom_write_device(&text, &measured);
    eco_wisdom_write_machine(&text, &machine, &measured);
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
    eco_wisdom_write(&text, &store, true);
    eco_unlock(ECO_LOCK_WISDOM);
    return text.length;
}

void eco_wisdom_find_machine(const struct ecornn_device *device, char values[ECO_MAX_VALUES])
{
    struct eco_text text = {values, ECO_MAX_VALUES, 0};
    values[0] = '\0';
    eco_lock(ECO_LOCK_WISDOM);
    for (int32_t k = 0; k < store.machines; k++)
        if (store.device[store.machine[k].device].id == device->id)
            eco_text_add(&text, "%s", store.machine[k].values);
    eco_unlock(ECO_LOCK_WISDOM);
}

static uint32_t first_of(uint64_t key)
{
    uint32_t from = 0, to = store.lines;
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (store.place[middle].key < key)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The line for this very problem, else the latest of its bucket; NULL: none of this device.  other:
 * one of another device. */
static const struct eco_wisdom_line *best_of(const struct eco_problem *problem,
                                             const struct ecornn_device *device,
                                             const struct eco_wisdom_line **other)
{
    const uint64_t cell = eco_cell_identity(problem->cell),
                   key = eco_wisdom_key(problem->text, cell);
    const struct eco_wisdom_line *best = NULL;
    for (uint32_t k = first_of(key); k < store.lines && store.place[k].key == key; k++) {
        const struct eco_wisdom_line *line = &store.line[store.place[k].line];
        if (line->cell != cell)
            continue;
        if (store.device[line->device].id != device->id)
            *other = line;
        else if (strcmp(line->problem, problem->text) == 0)
            return line;
        else if (best == NULL || line->order > best->order)
            best = line;
    }
    return best;
}

void eco_wisdom_find(const struct eco_problem *problem, const struct ecornn_device *device,
                     struct eco_wisdom_found *found)
{
    char said[sizeof found->note] = ""; /* with words out of files, which may hold anything */
    struct eco_text choices = {found->choices, sizeof found->choices, 0},
                    note = {said, sizeof said, 0}, shown = {found->note, sizeof found->note, 0};
    const struct eco_wisdom_line *other = NULL;
    found->choices[0] = found->note[0] = '\0';
    eco_lock(ECO_LOCK_WISDOM);
    const struct eco_wisdom_line *line = store.lines > 0 ? best_of(problem, device, &other) : NULL;
    if (line != NULL) {
        eco_text_add(&choices, "%s", line->choices);
        eco_text_add(&note, "%s, %.4g ms on %s", line->problem, 1e-6 * (double)line->nanoseconds,
                     line->date);
    } else if (other != NULL) {
        eco_text_add(&note, "of another device, not used: ");
        eco_identity_difference(&note, store.device[other->device].words, device->identity);
    }
    if (complaint[0] != '\0')
        eco_text_add(&note, "%s%s", note.length > 0 ? "; " : "", complaint);
    eco_unlock(ECO_LOCK_WISDOM);
    eco_text_add_escaped(&shown, said);
}

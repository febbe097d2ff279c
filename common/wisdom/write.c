/*
 * The text form of wisdom, written: what text.c reads.
 */
#include "common/wisdom/wisdom.h"

#include <inttypes.h>

#include "common/util.h"

void eco_wisdom_write_device(struct eco_text *text, const struct eco_wisdom_device *device)
{
    eco_text_add(text, ECO_WISDOM_DEVICE "%016" PRIx64 " %s\n", device->id, device->words);
}

void eco_wisdom_write_line(struct eco_text *text, const struct eco_wisdom_line *line,
                           const struct eco_wisdom_device *device)
{
    eco_text_add(text, "%s ", line->problem);
    if (line->cell != 0)
        eco_text_add(text, "%016" PRIx64, line->cell);
    else
        eco_text_add(text, "-");
    eco_text_add(text, " %016" PRIx64 " %s %" PRIu64 " %" PRIu64 " %s\n", device->id, line->choices,
                 line->nanoseconds, line->spread, line->date);
}

void eco_wisdom_write_machine(struct eco_text *text, const struct eco_wisdom_machine *machine,
                              const struct eco_wisdom_device *device)
{
    eco_text_add(text, ECO_WISDOM_MACHINE "%016" PRIx64 " %s %s\n", device->id, machine->values,
                 machine->date);
}

/* ---- all of it ------------------------------------------------------------------------------- */

enum { REMARK, DEVICE, MACHINE, PROBLEM, KINDS };

/* The kind of the line that comes next; KINDS: none does. */
static int next_kind(const struct eco_wisdom *wisdom, const uint32_t at[KINDS])
{
    const struct {
        bool left;
        uint32_t order;
    } next[KINDS] = {
        [REMARK] = {at[REMARK] < wisdom->remarks,
                    at[REMARK] < wisdom->remarks ? wisdom->remark[at[REMARK]].order : 0},
        [DEVICE] = {at[DEVICE] < (uint32_t)wisdom->devices,
                    at[DEVICE] < (uint32_t)wisdom->devices ? wisdom->device[at[DEVICE]].order : 0},
        [MACHINE] = {at[MACHINE] < (uint32_t)wisdom->machines,
                     at[MACHINE] < (uint32_t)wisdom->machines ? wisdom->machine[at[MACHINE]].order
                                                              : 0},
        [PROBLEM] = {at[PROBLEM] < wisdom->lines,
                     at[PROBLEM] < wisdom->lines ? wisdom->line[at[PROBLEM]].order : 0}};
    int first = KINDS;
    for (int kind = 0; kind < KINDS; kind++)
        if (next[kind].left && (first == KINDS || next[kind].order < next[first].order))
            first = kind;
    return first;
}

/* Each where it was, so that a remark stays before what it is about. */
void eco_wisdom_write(struct eco_text *text, const struct eco_wisdom *wisdom, bool head)
{
    uint32_t at[KINDS] = {0};
    if (head)
        eco_text_add(text, ECO_WISDOM_HEAD "\n");
    for (int kind; (kind = next_kind(wisdom, at)) < KINDS; at[kind]++) {
        const uint32_t k = at[kind];
        if (kind == REMARK)
            eco_text_add(text, "%s\n", wisdom->remark[k].text);
        else if (kind == DEVICE)
            eco_wisdom_write_device(text, &wisdom->device[k]);
        else if (kind == MACHINE)
            eco_wisdom_write_machine(text, &wisdom->machine[k],
                                     &wisdom->device[wisdom->machine[k].device]);
        else
            eco_wisdom_write_line(text, &wisdom->line[k], &wisdom->device[wisdom->line[k].device]);
    }
}

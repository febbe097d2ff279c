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

/* Each where it was, so that a remark stays before what it is about. */
void eco_wisdom_write(struct eco_text *text, const struct eco_wisdom *wisdom, bool head)
{
    uint32_t remark = 0, line = 0;
    int32_t device = 0;
    if (head)
        eco_text_add(text, ECO_WISDOM_HEAD "\n");
    for (;;) {
        const uint32_t none = UINT32_MAX,
                       remarked = remark < wisdom->remarks ? wisdom->remark[remark].order : none,
                       described = device < wisdom->devices ? wisdom->device[device].order : none,
                       measured = line < wisdom->lines ? wisdom->line[line].order : none;
        if (remark < wisdom->remarks && remarked <= described && remarked <= measured) {
            eco_text_add(text, "%s\n", wisdom->remark[remark++].text);
        } else if (device < wisdom->devices && described <= measured) {
            eco_wisdom_write_device(text, &wisdom->device[device++]);
        } else if (line < wisdom->lines) {
            const struct eco_wisdom_line *next = &wisdom->line[line++];
            eco_wisdom_write_line(text, next, &wisdom->device[next->device]);
        } else {
            return;
        }
    }
}

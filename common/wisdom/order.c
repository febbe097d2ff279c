/*
 * Which lines of wisdom stay, in which order they are written, and how they are found.
 */
#include "common/wisdom/wisdom.h"

#include <stdlib.h>
#include <string.h>

/* ---- lines ----------------------------------------------------------------------------------- */

static int by_name(const struct eco_wisdom_line *a, const struct eco_wisdom_line *b)
{
    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    const int names = strcmp(a->problem, b->problem);
    return names != 0 ? names : (a->cell > b->cell) - (a->cell < b->cell);
}

/* The later of two lines for the same comes first. */
static int compare_lines(const void *a, const void *b)
{
    const struct eco_wisdom_line *one = a, *other = b;
    const int names = by_name(one, other);
    return names != 0 ? names : (one->order < other->order) - (one->order > other->order);
}

static int compare_orders(const void *a, const void *b)
{
    const struct eco_wisdom_line *one = a, *other = b;
    return (one->order > other->order) - (one->order < other->order);
}

static int compare_places(const void *a, const void *b)
{
    const struct eco_wisdom_place *one = a, *other = b;
    if (one->key != other->key)
        return one->key < other->key ? -1 : 1;
    return (one->line > other->line) - (one->line < other->line);
}

static void arrange_lines(struct eco_wisdom *wisdom)
{
    uint32_t kept = 0;
    if (wisdom->lines > 1)
        qsort(wisdom->line, wisdom->lines, sizeof *wisdom->line, compare_lines);
    for (uint32_t k = 0; k < wisdom->lines; k++)
        if (kept == 0 || by_name(&wisdom->line[kept - 1], &wisdom->line[k]) != 0)
            wisdom->line[kept++] = wisdom->line[k];
    wisdom->lines = kept;
    if (kept > 1) /* what is written has the order, so that the latest of a bucket stays that */
        qsort(wisdom->line, kept, sizeof *wisdom->line, compare_orders);
    for (uint32_t k = 0; k < kept; k++)
        wisdom->place[k] = (struct eco_wisdom_place){
            eco_wisdom_key(wisdom->line[k].problem, wisdom->line[k].cell), k};
    if (kept > 1)
        qsort(wisdom->place, kept, sizeof *wisdom->place, compare_places);
}

/* ---- remarks --------------------------------------------------------------------------------- */

static int compare_remarks(const void *a, const void *b)
{
    const struct eco_wisdom_remark *one = a, *other = b;
    const int texts = strcmp(one->text, other->text);
    return texts != 0 ? texts : (one->order > other->order) - (one->order < other->order);
}

static int compare_remark_orders(const void *a, const void *b)
{
    const struct eco_wisdom_remark *one = a, *other = b;
    return (one->order > other->order) - (one->order < other->order);
}

/* A file that is read again has the same ones: the first place counts. */
static void arrange_remarks(struct eco_wisdom *wisdom)
{
    struct eco_wisdom_remark *remark = wisdom->remark;
    uint32_t kept = 0;
    if (wisdom->remarks < 2)
        return;
    qsort(remark, wisdom->remarks, sizeof *remark, compare_remarks);
    for (uint32_t k = 0; k < wisdom->remarks; k++)
        if (kept == 0 || strcmp(remark[kept - 1].text, remark[k].text) != 0)
            remark[kept++] = remark[k];
    wisdom->remarks = kept;
    qsort(remark, kept, sizeof *remark, compare_remark_orders);
}

/* ---- machines -------------------------------------------------------------------------------- */

static int compare_machines(const void *a, const void *b)
{
    const struct eco_wisdom_machine *one = a, *other = b;
    return (one->order > other->order) - (one->order < other->order);
}

/* Read, each is at the place of its device. */
static void arrange_machines(struct eco_wisdom *wisdom)
{
    wisdom->machines = 0;
    for (int32_t k = 0; k < wisdom->devices; k++)
        if (wisdom->machine[k].device >= 0)
            wisdom->machine[wisdom->machines++] = wisdom->machine[k];
    if (wisdom->machines > 1)
        qsort(wisdom->machine, (size_t)wisdom->machines, sizeof *wisdom->machine, compare_machines);
}

void eco_wisdom_arrange(struct eco_wisdom *wisdom)
{
    arrange_machines(wisdom);
    arrange_lines(wisdom);
    arrange_remarks(wisdom);
}

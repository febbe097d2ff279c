/*
 * Makes jobs, and keeps them in a table.
 */
#include "python/native/job.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/locks.h"
#include "python/native/tensors.h"

static struct shape shape_of(int64_t first, int64_t second, int64_t third)
{
    return (struct shape){3, {first, second, third}, {second * third, third, 1}};
}

static void set_shapes(struct job *job, const ecornn_desc *desc)
{
    const int64_t directions = desc->flags & ECORNN_BIDIRECTIONAL ? 2 : 1;
    const int64_t width = desc->proj ? desc->proj : desc->hidden;
    const bool batch_major = desc->flags & ECORNN_BATCH_MAJOR;
    const int64_t first = batch_major ? job->batch : job->steps;
    const int64_t second = batch_major ? job->steps : job->batch;
    job->x = shape_of(first, second, desc->input);
    job->y = shape_of(first, second, job->of->sizes.output);
    for (int64_t i = 0; i < job->of->states; i++)
        job->state[i] = shape_of(desc->layers * directions, job->batch, i ? desc->hidden : width);
}

/* States whose shapes or types are not those of set_shapes. */
static bool has_matrix(const struct plan *plan)
{
    for (int i = 0; i < plan->states; i++) {
        size_t elements = 0;
        ecornn_type type = ECORNN_F32;
        const bool is_first = i == 0 && plan->desc.proj > 0;
        if (library.plan_state(plan->plan, i, &elements, &type) != ECORNN_OK ||
            elements != (size_t)(is_first ? plan->desc.proj : plan->desc.hidden) ||
            type != plan->desc.type)
            return true;
    }
    return false;
}

const char *job_of(struct job *job, struct plan *plan, const struct job_wish *wish)
{
    ecornn_sizes sizes = {.size = sizeof sizes};
    const struct layout *const layout = layout_of(plan);
    if (!layout)
        return "no memory";
    if (layout->uneven)
        return "with a projection the cell has matrices R of several widths";
    if (layout->arrays > MOST_WEIGHTS)
        return "too many layers for one call: they need Python's ecornn.torch";
    if (has_matrix(plan))
        return "a matrix state needs Python's ecornn.torch";
    if (library.run_sizes(plan->plan, (int32_t)wish->steps, (int32_t)wish->batch, &sizes) !=
        ECORNN_OK)
        return library.error_detail();
    *job = (struct job){.of = plan,
                        .layout = layout,
                        .reserve = (int64_t)sizes.reserve_bytes,
                        .workspace = (int64_t)sizes.workspace_bytes,
                        .packed = (int64_t)sizes.weight_bytes,
                        .dpacked = (int64_t)sizes.dweight_bytes,
                        .cuda = wish->cuda,
                        .device = wish->device,
                        .steps = wish->steps,
                        .batch = wish->batch};
    set_shapes(job, &plan->desc);
    return NULL;
}

static void job_free(struct job *job)
{
    plan_let_go(job->of);
    free(job);
}

static struct job *job_from(const struct job_wish *wish)
{
    struct plan *plan = NULL;
    struct job *const job = new_zeros(1, sizeof *job);
    if (!job || wish->size != sizeof *wish || wish->desc->size < sizeof *wish->desc ||
        plan_adopt(&plan, wish->plan, wish->desc, plan_kind(wish->cell, wish->bias)) != ECORNN_OK ||
        plan->desc.models > 1 || job_of(job, plan, wish) != NULL) {
        plan_let_go(plan);
        free(job);
        return NULL;
    }
    return job;
}

/* ---- the table ------------------------------------------------------------------------------- */

enum { PLACE_BITS = 20 };
static struct {
    struct job **job; /* [places]; NULL: free */
    int64_t places, made;
} table;

/* The index of a free entry, after doubling a full table; -1: no memory. */
static int64_t find_place(void)
{
    for (int64_t i = 0; i < table.places; i++)
        if (!table.job[i])
            return i;
    const int64_t first = table.places, places = first ? 2 * first : 64;
    struct job **const larger = realloc(table.job, (size_t)places * sizeof *larger);
    if (!larger)
        return -1;
    table.job = larger;
    memset(larger + first, 0, (size_t)(places - first) * sizeof *larger);
    table.places = places;
    return first;
}

int64_t ecornn_torch_job(const struct job_wish *wish)
{
    struct job *const job = job_from(wish);
    if (!job)
        return 0;
    lock_take(LOCK_JOBS);
    const int64_t place = find_place();
    const bool room = place >= 0 && place < (int64_t)1 << PLACE_BITS;
    const int64_t number = room ? ++table.made << PLACE_BITS | place : 0;
    job->number = number;
    if (room)
        table.job[place] = job;
    lock_release(LOCK_JOBS);
    if (!room)
        job_free(job);
    return number;
}

static struct job *find(int64_t number)
{
    const int64_t place = number & (((int64_t)1 << PLACE_BITS) - 1);
    struct job *const job = place < table.places ? table.job[place] : NULL;
    return job && job->number == number ? job : NULL;
}

void ecornn_torch_job_free(int64_t number)
{
    lock_take(LOCK_JOBS);
    struct job *const job = find(number);
    bool last = false;
    if (job) {
        table.job[number & (((int64_t)1 << PLACE_BITS) - 1)] = NULL;
        job->dropped = true;
        last = job->users == 0;
    }
    lock_release(LOCK_JOBS);
    if (last)
        job_free(job);
}

struct job *job_hold(int64_t number)
{
    lock_take(LOCK_JOBS);
    struct job *const job = find(number);
    if (job)
        job->users++;
    lock_release(LOCK_JOBS);
    return job;
}

void job_let_go(struct job *job)
{
    if (!job)
        return;
    lock_take(LOCK_JOBS);
    const bool last = --job->users == 0 && job->dropped;
    lock_release(LOCK_JOBS);
    if (last)
        job_free(job);
}

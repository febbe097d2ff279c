/*
 * Runs of a stack of layers on addresses: plan, packed weights, workspace and reserve are found
 * here.
 */
#include "python/native/runner.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/layout.h"
#include "python/native/locks.h"

struct run {
    struct plan *plan;
    struct packed *packed; /* NULL: the plan has none, or the run is empty */
    struct memory *reserve;
    ecornn_sizes sizes; /* of this T and N */
    struct ask ask;
};

int ecornn_run_open(int version, void *opened)
{
    static bool begun;
    if (version != RUN_VERSION || !library_find(opened))
        return 1;
    if (!begun)
        begun = lent_begin();
    return begun ? 0 : 1;
}

const char *ecornn_run_error(int status)
{
    return error_text((ecornn_status)status);
}

int ecornn_run_plan(struct stack *stack, const struct ask *ask, struct run_plan *found)
{
    const ecornn_status status =
        ask->size == sizeof *ask ? stack_plan(stack, ask, &found->held) : ECORNN_BAD_ARGUMENT;
    if (status == ECORNN_OK && found->held) {
        found->plan = found->held->plan;
        found->desc = &found->held->desc;
    }
    return status;
}

void ecornn_run_let_go(struct plan *held)
{
    plan_let_go(held);
}

static void put_place(int64_t *to, const struct place *place, int64_t bytes)
{
    to[0] = place->array;
    to[1] = place->offset / bytes;
}

int ecornn_run_places(const ecornn_plan *plan, const ecornn_desc *desc, const char *cell, int bias,
                      int64_t *arrays, int64_t *places, int64_t *count)
{
    struct plan *of = NULL;
    ecornn_status status = plan_adopt(&of, plan, desc, plan_kind(cell, bias != 0));
    const struct layout *const layout = status == ECORNN_OK ? layout_of(of) : NULL;
    if (status == ECORNN_OK && !layout)
        status = ECORNN_NO_MEMORY;
    if (layout) {
        const int64_t bytes = shape_bytes(&(struct shape){.rank = 0}, of->desc.param_type);
        for (int64_t i = 0; i < layout->arrays && i < count[0]; i++) {
            const struct shape *const shape = &layout->array[i];
            const int64_t numbers[] = {layout->kind[i], shape->size[0],
                                       shape->rank > 1 ? shape->size[1] : 0};
            memcpy(arrays + 3 * i, numbers, sizeof numbers);
        }
        for (int64_t i = 0; i < layout->count && i < count[1]; i++) {
            put_place(places + 4 * i, &layout->from[i], bytes);
            put_place(places + 4 * i + 2, &layout->more[i], bytes);
        }
        count[0] = layout->uneven ? -1 : layout->arrays;
        count[1] = layout->count;
    }
    plan_let_go(of);
    return status;
}

static void end(struct run *run)
{
    memory_drop(run->reserve);
    packed_drop(run->packed);
    plan_let_go(run->plan);
}

void ecornn_run_end(struct run *run)
{
    if (run)
        end(run);
    free(run);
}

/* io with the addresses of what the run has, and a workspace, to be dropped after the run. */
static bool complete(const struct run *run, ecornn_io *io, struct memory **workspace)
{
    *workspace = lend(run->ask.device, io->stream, LENT_WORKSPACE, run->sizes.workspace_bytes);
    if (!*workspace)
        return false;
    io->workspace = (*workspace)->at;
    io->workspace_bytes = (*workspace)->bytes;
    io->weights = run->packed ? run->packed->weights->at : NULL;
    io->reserve = run->reserve ? run->reserve->at : NULL;
    io->reserve_bytes = run->reserve ? run->reserve->bytes : 0;
    return true;
}

static ecornn_status forward(struct stack *stack, struct run *run, ecornn_io *io)
{
    const struct ask *const ask = &run->ask;
    ecornn_status status = stack_plan(stack, ask, &run->plan);
    run->sizes.size = sizeof run->sizes;
    if (status == ECORNN_OK) /* an empty run counts as one step or row */
        status = library.run_sizes(run->plan->plan, ask->steps > 0 ? ask->steps : 1,
                                   ask->batch > 0 ? ask->batch : 1, &run->sizes);
    if (status == ECORNN_OK && ask->steps > 0 && ask->batch > 0 &&
        run->plan->sizes.weight_bytes > 0)
        status = stack_packed(stack, run->plan, ask, &run->packed);
    if (status != ECORNN_OK)
        return status;
    if (ask->flags & ECORNN_TRAINING &&
        !(run->reserve = lend(ask->device, io->stream, LENT_RESERVE, run->sizes.reserve_bytes)))
        return ECORNN_NO_MEMORY;
    struct memory *workspace = NULL;
    if (!complete(run, io, &workspace))
        return ECORNN_NO_MEMORY;
    status = library.forward(run->plan->plan, ask->steps, ask->batch, io);
    memory_drop(workspace);
    return status;
}

int ecornn_run_forward(struct stack *stack, const struct ask *ask, const ecornn_io *io,
                       struct run **kept)
{
    if (ask->size != sizeof *ask || io->size != sizeof *io || ask->measure_seconds < 0)
        return ECORNN_BAD_ARGUMENT;
    struct run run = {.ask = *ask};
    ecornn_io with = *io;
    ecornn_status status = forward(stack, &run, &with);
    struct run *const made = status == ECORNN_OK && kept ? new_zeros(1, sizeof *made) : NULL;
    if (made) {
        *made = run;
        *kept = made;
        return status;
    }
    if (status == ECORNN_OK && kept)
        status = ECORNN_NO_MEMORY;
    end(&run);
    return status;
}

/* Through device memory. */
static ecornn_status unpack_on_gpu(const struct run *run, const void *dweights, char *to, bool add,
                                   void *stream)
{
    const size_t bytes = (size_t)layout_of(run->plan)->bytes;
    struct memory *const memory = memory_new(run->ask.device, bytes);
    if (!memory)
        return ECORNN_NO_MEMORY;
    char *start[1] = {memory->at};
    ecornn_status status = add ? library.upload(run->ask.device, memory->at, to, bytes) : ECORNN_OK;
    if (status == ECORNN_OK && add) /* the stream does not wait for the upload */
        status = library.wait(run->ask.device, NULL);
    if (status == ECORNN_OK)
        status = layout_unpack(run->plan, start, dweights, add, stream);
    if (status == ECORNN_OK)
        status = library.wait(run->ask.device, stream);
    if (status == ECORNN_OK)
        status = library.download(run->ask.device, to, memory->at, bytes);
    memory_drop(memory);
    return status;
}

static ecornn_status unpack(const struct run *run, const void *dweights, char *to, bool add,
                            void *stream)
{
    if (!layout_of(run->plan))
        return ECORNN_NO_MEMORY;
    if (add)
        lock_take(LOCK_ADDING);
    const ecornn_status status =
        run->ask.on_gpu ? unpack_on_gpu(run, dweights, to, add, stream)
                        : layout_unpack(run->plan, (char *const[]){to}, dweights, add, stream);
    if (add)
        lock_release(LOCK_ADDING);
    return status;
}

int ecornn_run_backward(struct run *run, const ecornn_io *given, const ecornn_gradient *gradient,
                        void *dparams, int add)
{
    if (given->size != sizeof *given || gradient->size != sizeof *gradient)
        return ECORNN_BAD_ARGUMENT;
    ecornn_io io = *given;
    ecornn_gradient with = *gradient;
    struct memory *workspace = NULL, *dweights = NULL;
    ecornn_status status = complete(run, &io, &workspace) ? ECORNN_OK : ECORNN_NO_MEMORY;
    if (status == ECORNN_OK && dparams) {
        dweights = lend(run->ask.device, io.stream, LENT_DWEIGHTS, run->plan->sizes.dweight_bytes);
        status = dweights ? ECORNN_OK : ECORNN_NO_MEMORY;
    }
    with.dweights = dweights ? dweights->at : NULL;
    if (status == ECORNN_OK)
        status = library.backward(run->plan->plan, run->ask.steps, run->ask.batch, &io, &with);
    memory_drop(workspace);
    if (status == ECORNN_OK && dparams)
        status = unpack(run, with.dweights, dparams, add, io.stream);
    memory_drop(dweights);
    return status;
}

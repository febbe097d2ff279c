/*
 * Jobs from the numbers that Python gives.
 */
#include "python/native/job.h"

#include <stdlib.h>

/* Numbers that are still to be read. */
struct reader {
    const int64_t *next, *end;
    bool wrong;
};

static int64_t take(struct reader *reader)
{
    if (reader->next == reader->end) {
        reader->wrong = true;
        return 0;
    }
    return *reader->next++;
}

/* rank, sizes. */
static struct shape take_shape(struct reader *reader)
{
    struct shape shape = {.rank = take(reader)};
    int64_t stride = 1;
    if (shape.rank < 0 || shape.rank > MOST_RANK) {
        reader->wrong = true;
        shape.rank = 0;
    }
    for (int64_t i = 0; i < shape.rank; i++)
        shape.size[i] = take(reader);
    for (int64_t i = shape.rank; i-- > 0; stride *= shape.size[i])
        shape.stride[i] = stride;
    return shape;
}

static void take_places(struct reader *reader, struct place *places, const struct job *job)
{
    for (int64_t i = 0; i < job->params; i++) {
        places[i].tensor = take(reader);
        places[i].offset = take(reader);
        reader->wrong |= places[i].tensor < -1 || places[i].tensor >= job->weights;
    }
}

static void *as_pointer(int64_t number)
{
    return (void *)(uintptr_t)number;
}

/* The fields of struct job in their order, a pointer as a number; shapes as rank and sizes; places
 * as tensor and offset. */
static void job_read(struct job *job, struct reader *reader)
{
    job->plan = as_pointer(take(reader));
    int64_t *const fields[] = {&job->reserve, &job->workspace, &job->packed, &job->dpacked,
                               &job->cuda,    &job->device,    &job->type,   &job->param_type,
                               &job->steps,   &job->batch,     &job->states, &job->weights,
                               &job->params};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        *fields[i] = take(reader);
    job->zeros = as_pointer(take(reader));
    reader->wrong |= job->states < 1 || job->states > ECORNN_MAX_STATES || job->weights < 1 ||
                     job->params < 1 || job->weights > MOST_WEIGHTS || job->params > MOST_PARAMS ||
                     job->type < 0 || job->type > ECORNN_F16 || job->param_type < 0 ||
                     job->param_type > ECORNN_F16;
}

static void read_arrays(struct job *job, struct reader *reader)
{
    job->x = take_shape(reader);
    job->y = take_shape(reader);
    for (int64_t i = 0; i < job->states; i++)
        job->state[i] = take_shape(reader);
    for (int64_t i = 0; i < job->weights; i++)
        job->weight[i] = take_shape(reader);
    take_places(reader, job->from, job);
    take_places(reader, job->more, job);
    take_places(reader, job->to, job);
    take_places(reader, job->twin, job);
    for (int64_t i = 0; i < job->params; i++)
        job->adds |= job->more[i].tensor >= 0;
    reader->wrong |= reader->next != reader->end;
}

struct job *job_make(const int64_t *numbers, size_t count)
{
    struct reader reader = {numbers, numbers + count, false};
    struct job *const job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job_read(job, &reader);
    if (!reader.wrong) {
        job->weight = calloc((size_t)job->weights, sizeof *job->weight);
        job->from = calloc(4 * (size_t)job->params, sizeof *job->from);
        reader.wrong = !job->weight || !job->from;
    }
    if (!reader.wrong) {
        job->more = job->from + job->params;
        job->to = job->more + job->params;
        job->twin = job->to + job->params;
        read_arrays(job, &reader);
    }
    if (reader.wrong) {
        job_free(job);
        return NULL;
    }
    return job;
}

void job_free(struct job *job)
{
    if (!job)
        return;
    free(job->weight);
    free(job->from);
    free(job);
}

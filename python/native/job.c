/*
 * Builds jobs from the numbers that Python passes, and keeps them in a table.
 */
#include "python/native/job.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The numbers not read yet. */
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

/* Reads a rank and the sizes. */
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

int64_t shape_bytes(const struct shape *shape, int64_t type)
{
    static const int64_t bytes[] = {
        [ECORNN_F32] = 4, [ECORNN_F64] = 8, [ECORNN_BF16] = 2, [ECORNN_F16] = 2};
    int64_t product = bytes[type];
    for (int64_t i = 0; i < shape->rank; i++)
        product *= shape->size[i];
    return product;
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

/* Reads the fields of struct job in order: a pointer as a number, a shape as rank and sizes, a
 * place as tensor and offset. */
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
    reader->wrong |= job->states < 1 || job->states > ECORNN_MAX_STATES || job->weights < 0 ||
                     job->params < 0 || job->weights > MOST_WEIGHTS || job->params > MOST_PARAMS ||
                     job->type < 1 || job->type > ECORNN_F16 || job->param_type < 1 ||
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
    for (int64_t i = 0; i < job->weights; i++)
        job->copy += shape_bytes(&job->weight[i], job->param_type);
    reader->wrong |= reader->next != reader->end;
}

static void job_free(struct job *job)
{
    free(job->weight);
    free(job->from);
    free(job);
}

static struct job *job_from(const int64_t *numbers, size_t count)
{
    struct reader reader = {numbers, numbers + count, false};
    struct job *const job = calloc(1, sizeof *job);
    if (!job)
        return NULL;
    job_read(job, &reader);
    if (!reader.wrong) {
        job->weight = calloc((size_t)job->weights + 1, sizeof *job->weight);
        job->from = calloc(4 * (size_t)job->params + 1, sizeof *job->from);
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

/* ---- the table ------------------------------------------------------------------------------- */

enum { PLACE_BITS = 20 };
static struct {
    pthread_mutex_t lock;
    struct job **job; /* [places]; NULL: free */
    int64_t places, made;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void lock(void)
{
    pthread_mutex_lock(&table.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&table.lock);
}

bool jobs_begin(void)
{
    return pthread_atfork(lock, unlock, unlock) == 0;
}

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

int64_t job_make(const int64_t *numbers, size_t count)
{
    struct job *const job = job_from(numbers, count);
    if (!job)
        return 0;
    lock();
    const int64_t place = find_place();
    const bool room = place >= 0 && place < (int64_t)1 << PLACE_BITS;
    const int64_t number = room ? ++table.made << PLACE_BITS | place : 0;
    job->number = number;
    if (room)
        table.job[place] = job;
    unlock();
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

void job_drop(int64_t number)
{
    lock();
    struct job *const job = find(number);
    bool last = false;
    if (job) {
        table.job[number & (((int64_t)1 << PLACE_BITS) - 1)] = NULL;
        job->dropped = true;
        last = job->users == 0;
    }
    unlock();
    if (last)
        job_free(job);
}

struct job *job_hold(int64_t number)
{
    lock();
    struct job *const job = find(number);
    if (job)
        job->users++;
    unlock();
    return job;
}

void job_let_go(struct job *job)
{
    if (!job)
        return;
    lock();
    const bool last = --job->users == 0 && job->dropped;
    unlock();
    if (last)
        job_free(job);
}

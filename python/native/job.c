/*
 * Makes jobs, and keeps them in a table.
 */
#include "python/native/job.h"

#include <stdlib.h>
#include <string.h>

#include "python/native/tensors.h"

int64_t shape_bytes(const struct shape *shape, int64_t type)
{
    static const int64_t bytes[] = {
        [ECORNN_F32] = 4, [ECORNN_F64] = 8, [ECORNN_BF16] = 2, [ECORNN_F16] = 2};
    int64_t product = bytes[type];
    for (int64_t i = 0; i < shape->rank; i++)
        product *= shape->size[i];
    return product;
}

/* ---- parameters and torch's tensors ---------------------------------------------------------- */

/* torch's cells have two biases for a gate, the library one, their sum, except gru's n; gate of
 * each of the library's vectors, 's' sum, 'h' of weight_hh's bias, 'i' of weight_ih's. */
static const struct twin {
    const char *cell;
    int64_t gates;
    const char *kind, *gate;
} twins[] = {{"lstm", 4, "ssss", "\0\1\2\3"},
             {"gru", 3, "sshi", "\0\1\2\2"},
             {"rnn-tanh", 1, "s", "\0"},
             {"rnn-relu", 1, "s", "\0"}};
enum { TWINS = sizeof twins / sizeof *twins };

int plan_kind(const char *cell, bool bias)
{
    int twin = 0;
    while (twin < TWINS && strcmp(cell, twins[twin].cell) != 0)
        twin++;
    return 2 * twin + bias;
}

/* Tensors of a pair of layer and direction, in torch's order; without twins BIAS_IH is b, and
 * BIAS_HH is p. */
enum tensor_kind { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, WEIGHT_HR, TENSORS };

static enum tensor_kind kind_of(const struct param *param)
{
    static const char kinds[] = "WRbp";
    const char *const found = param->kind ? strchr(kinds, param->kind) : NULL;
    return found ? (enum tensor_kind)(found - kinds) : WEIGHT_HR;
}

/* Rows of the tensors of a pair; 0: it has none. */
static void count_rows(const struct plan *plan, int64_t *rows)
{
    const bool bias = plan->kind % 2;
    const int twin = plan->kind / 2;
    for (int i = 0; i < plan->count && plan->param[i].pair == 0; i++)
        rows[kind_of(&plan->param[i])] += plan->param[i].rows;
    if (!bias)
        rows[BIAS_IH] = 0;
    if (twin < TWINS)
        rows[BIAS_IH] = rows[BIAS_HH] = bias ? twins[twin].gates * plan->desc.hidden : 0;
}

/* The places of a parameter, which is number `turn` of its kind in its pair. */
static void place(struct layout *layout, const struct plan *plan, int i, int64_t turn,
                  const int64_t *tensor)
{
    const struct twin *const twin = plan->kind / 2 < TWINS ? &twins[plan->kind / 2] : NULL;
    enum tensor_kind kind = kind_of(&plan->param[i]);
    struct place *const from = &layout->from[i], *const more = &layout->more[i];
    const struct shape one = {2, {plan->param[i].rows, plan->param[i].cols}, {0}};
    const int64_t bytes = shape_bytes(&one, plan->desc.param_type);
    *from = *more = (struct place){-1, 0};
    if (kind == BIAS_IH && plan->kind % 2 == 0)
        return;
    if (kind == BIAS_IH && twin) {
        const char source = twin->kind[turn];
        turn = twin->gate[turn];
        kind = source == 'h' ? BIAS_HH : BIAS_IH;
        if (source == 's')
            *more = (struct place){tensor[BIAS_HH], turn * bytes};
        layout->adds |= source == 's';
    }
    *from = (struct place){tensor[kind], turn * bytes};
}

/* All of one pair follow each other in the library's parameters. */
static void fill_layout(struct layout *layout, const struct plan *plan, const int64_t *rows)
{
    int64_t turns[TENSORS] = {0}, tensor[TENSORS];
    for (int i = 0; i < plan->count; i++) {
        const struct param *const param = &plan->param[i];
        const bool is_first = i == 0 || param->pair != plan->param[i - 1].pair;
        for (int kind = 0; is_first && kind < TENSORS; kind++) {
            turns[kind] = 0;
            tensor[kind] = rows[kind] ? layout->weights++ : -1;
            if (rows[kind])
                layout->weight[tensor[kind]] = (struct shape){1, {rows[kind], 1}, {1, 1}};
        }
        const enum tensor_kind kind = kind_of(param);
        if (!param->is_vector) {
            struct shape *const weight = &layout->weight[tensor[kind]];
            weight->rank = 2;
            weight->size[1] = weight->stride[0] = param->cols;
        }
        place(layout, plan, i, turns[kind]++, tensor);
    }
    for (int64_t k = 0; k < layout->weights; k++)
        layout->copy += shape_bytes(&layout->weight[k], plan->desc.param_type);
}

static const char *make_layout(struct plan *plan)
{
    int64_t rows[TENSORS] = {0}, count = 0;
    count_rows(plan, rows);
    for (int kind = 0; kind < TENSORS; kind++)
        count += rows[kind] > 0;
    const int64_t directions = plan->desc.flags & ECORNN_BIDIRECTIONAL ? 2 : 1;
    count *= plan->desc.layers * directions;
    if (count > MOST_WEIGHTS || plan->count > MOST_PARAMS)
        return "too many layers for one call: they need Python's ecornn.torch";
    const size_t zeros = plan->kind % 2 ? 0 : (size_t)plan->desc.hidden * sizeof(double);
    struct layout *const layout =
        calloc(1, sizeof *layout + (size_t)count * sizeof(struct shape) +
                      2 * (size_t)plan->count * sizeof(struct place) + zeros);
    if (!layout)
        return "no memory";
    layout->from = (struct place *)(void *)(layout->weight + count);
    layout->more = layout->from + plan->count;
    layout->zeros = zeros ? layout->more + plan->count : NULL;
    fill_layout(layout, plan, rows);
    plan->more = layout;
    return NULL;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void lock(void);
static void unlock(void);

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
    lock();
    const char *const why = plan->more ? NULL : make_layout(plan);
    unlock();
    if (why)
        return why;
    if (has_matrix(plan))
        return "a matrix state needs Python's ecornn.torch";
    if (library.run_sizes(plan->plan, (int32_t)wish->steps, (int32_t)wish->batch, &sizes) !=
        ECORNN_OK)
        return library.error_detail();
    *job = (struct job){.of = plan,
                        .layout = plan->more,
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
    struct job *const job = calloc(1, sizeof *job);
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

__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(lock, unlock, unlock);
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

int64_t job_make(const struct job_wish *wish)
{
    struct job *const job = job_from(wish);
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

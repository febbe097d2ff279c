/*
 * The plans of a node, one for each bucket of T and N, their packed weights, and scratch memory.
 */
#ifndef ECO_ORT_PLANS_H
#define ECO_ORT_PLANS_H

#include <ecornn.h>

#include <pthread.h>
#include <stdbool.h>

enum { MOST_PLANS = 16, MOST_SCRATCH = 4, MOST_PARAMS = 64 };

/* Where the parameters of a plan are, for ecornn_pack. */
struct params {
    const void *at[MOST_PARAMS], *added[MOST_PARAMS];
};
typedef bool params_of(const void *owner, const ecornn_plan *plan, int count,
                       struct params *params);

struct packed; /* weights that several plans may share */

struct planned {
    ecornn_plan *plan;
    ecornn_sizes sizes;
    int32_t steps, batch;
    struct packed *packed; /* NULL: each run packs its own */
    const void *weights;
    int users; /* runs, and one for being in the list */
};

struct scratch {
    char *memory;
    size_t bytes;
};

struct plans {
    pthread_mutex_t lock;
    ecornn_device *device;
    struct planned *list[MOST_PLANS]; /* the last used one first */
    int count;
    struct scratch spare[MOST_SCRATCH];
    int spares;
};

void plans_begin(struct plans *plans, ecornn_device *device);
void plans_end(struct plans *plans);

/* What a plan is made from: the text before "/T#/N#", and own cells. */
struct problem {
    const char *text;
    const ecornn_cell *const *cells;
};

/* The plan for runs of these T and N.  find: NULL, or finds constant parameters, which are packed
 * once; owner is its first argument.  plans_return gives it back. */
ecornn_status plans_take(struct plans *plans, const struct problem *problem, int64_t steps,
                         int64_t batch, params_of *find, const void *owner, struct planned **taken);
void plans_return(struct plans *plans, struct planned *planned);

/* Memory for one run; NULL memory: there is none. */
struct scratch scratch_take(struct plans *plans, size_t bytes);
void scratch_return(struct plans *plans, struct scratch scratch);

#endif /* ECO_ORT_PLANS_H */

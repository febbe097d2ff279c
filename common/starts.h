/*
 * Runs that begin, or begin anew, without given states from a cell whose text says where: they
 * have those as arrays of the workspace, filled ahead of the run, as if the caller gave them.  So
 * no algorithm and no kernel knows of it.  plan/starts.c.
 */
#ifndef ECO_STARTS_H
#define ECO_STARTS_H

#include "common/backend.h"
#include "common/layout.h"
#include "common/plan.h"
#include "common/util.h"

struct eco_starts {
    struct eco_args inside; /* the algorithm's */
    struct eco_fill fill[ECO_MAX_STATES];
    int fills; /* before it */
};

/* Bytes of the workspace, behind what else lies there. */
struct eco_size eco_starts_bytes(const struct eco_layout *layout);
/* false: the run needs none. */
bool eco_starts_begin(struct eco_starts *starts, const struct eco_layout *layout,
                      const struct eco_args *args);

#endif /* ECO_STARTS_H */

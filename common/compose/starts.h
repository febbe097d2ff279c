/*
 * Start values of states.  If the caller gives no initial or reset states and the cell's text has
 * start values, they are written to arrays in the workspace before the run, as if the caller gave
 * them.  So no algorithm and no kernel knows about start values.  compose/run_one.c.
 */
#ifndef ECO_STARTS_H
#define ECO_STARTS_H

#include "common/compose/call.h"
#include "common/layout.h"
#include "common/plan.h"
#include "common/util.h"

struct eco_starts {
    struct eco_args inside; /* the algorithm's */
    struct eco_call fill[ECO_MAX_STATES];
    int fills; /* fills before the run */
};

/* Bytes of one state, [L*D,N,width] of the caller's type.  plan/shapes.c. */
struct eco_size eco_states_of(const struct eco_layout *layout, int state);
/* Bytes in the workspace, after its other arrays: of one state, 0 if it starts at zero; of all; and
 * of states of streams, if the layout gathers them. */
struct eco_size eco_starts_of(const struct eco_layout *layout, int state);
struct eco_size eco_starts_bytes(const struct eco_layout *layout);
struct eco_size eco_streams_bytes(const struct eco_layout *layout);
/* false: the run needs no start values. */
bool eco_starts_begin(struct eco_starts *starts, const struct eco_layout *layout,
                      const struct eco_args *args);

#endif /* ECO_STARTS_H */

/*
 * A plan with its device and its blocks, for tests of the public functions that bring their own
 * numbers.
 */
#ifndef ECO_TESTS_PLANNED_H
#define ECO_TESTS_PLANNED_H

#include "tests/kit/status.h"

struct planned {
    ecornn_device *device;
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    void *weights, *dweights, *workspace, *reserve; /* of the device; what it has none of is NULL */
};

/* Fails the test where a call fails; on a CPU dweights is all zeros, so gaps in it compare equal.
 */
void planned_open(struct planned *planned, const char *device, const char *problem,
                  const ecornn_cell *cell);
void planned_close(struct planned *planned);
/* Packs parameters that lie in one block, as ecornn_param.offset says, into weights. */
void planned_pack(const struct planned *planned, const void *params, void *weights);
/* A whole run with all blocks: the caller adds x, y and more. */
ecornn_io planned_io(const struct planned *planned);

#endif /* ECO_TESTS_PLANNED_H */

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
    void *weights, *dweights, *workspace,
        *reserve; /* memory of the device; NULL if the block has no bytes */
};

/* Fails the test if a call fails. On a CPU dweights is set to zeros, so that its gaps are equal. */
void planned_open(struct planned *planned, const char *device, const char *problem,
                  const ecornn_cell *cell);
void planned_close(struct planned *planned);
/* Packs the parameters of one block, at the offsets of ecornn_param.offset, into weights. */
void planned_pack(const struct planned *planned, const void *params, void *weights);
/* The arguments of a run of all steps with all blocks; the caller adds x, y and more. */
ecornn_io planned_io(const struct planned *planned);

#endif /* ECO_TESTS_PLANNED_H */

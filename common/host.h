/*
 * Functions of a backend whose device memory is host memory.
 */
#ifndef ECO_HOST_H
#define ECO_HOST_H

#include "common/backend.h"

int eco_host_count(void); /* one */
void eco_host_close(struct ecornn_device *device);
void *eco_host_alloc(struct ecornn_device *device, size_t bytes);
void eco_host_free(struct ecornn_device *device, void *memory);
ecornn_status eco_host_copy(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                            bool to_device);
/* Does slice `id` of `count` of a call, other than of packing. */
void eco_host_call_part(const struct eco_call *call, int id, int count);
/* Runs jobs one after the other. */
ecornn_status eco_host_fork(struct ecornn_device *device, const struct eco_jobs *jobs,
                            void *stream);
ecornn_status eco_host_wait(struct ecornn_device *device, void *stream); /* nothing to wait for */

#endif /* ECO_HOST_H */

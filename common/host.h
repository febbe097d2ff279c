/*
 * Memory functions of a backend whose device memory is host memory.
 */
#ifndef ECO_HOST_H
#define ECO_HOST_H

#include "common/backend.h"

void *eco_host_alloc(struct ecornn_device *device, size_t bytes);
void eco_host_free(struct ecornn_device *device, void *memory);
ecornn_status eco_host_copy(struct ecornn_device *device, void *to, const void *from, size_t bytes,
                            bool to_device);
ecornn_status eco_host_fill(struct ecornn_device *device, const struct eco_fill *fills, int count,
                            void *stream);
ecornn_status eco_host_move_rows(struct ecornn_device *device, const struct eco_rows_move *rows,
                                 void *stream);
/* Slice id of count of a join. */
void eco_host_join_part(const struct eco_join *join, int id, int count);
ecornn_status eco_host_join(struct ecornn_device *device, const struct eco_join *join,
                            void *stream);
ecornn_status eco_host_join_lengths(struct ecornn_device *device, int32_t *to, const int32_t *from,
                                    int32_t N, int32_t steps, void *stream);
/* For a device with one thread. */
void eco_host_run_on_threads(struct ecornn_device *device,
                             void (*work)(void *user_data, int id, int count), void *user_data);
ecornn_status eco_host_wait(struct ecornn_device *device, void *stream); /* nothing to wait for */

#endif /* ECO_HOST_H */

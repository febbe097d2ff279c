/*
 * Memory that runs share: blocks with a count of users, and those that each thread keeps for its
 * next run, because fresh pages cost more than a small layer.
 */
#ifndef ECO_NATIVE_LENT_H
#define ECO_NATIVE_LENT_H

#include <stdatomic.h>
#include <stddef.h>

#include "python/native/library.h"

struct memory {
    atomic_int users;
    ecornn_device *device; /* NULL: host memory */
    size_t bytes;          /* at least 1 */
    void *at;
};

/* A new block with one user; NULL: no memory. */
struct memory *memory_new(ecornn_device *device, size_t bytes);
struct memory *memory_hold(struct memory *memory);
void memory_drop(struct memory *memory); /* NULL is allowed */
/* The block itself if it has no user but the caller and at least that many bytes; else a new one
 * in its place, after the caller's use of it has ended. */
struct memory *memory_again(struct memory *memory, ecornn_device *device, size_t bytes);

enum lent_use { LENT_WORKSPACE, LENT_DWEIGHTS, LENT_RESERVE };

/* Asks the system for huge pages where a block that will be written has room for any: it is mapped
 * by 512 times fewer page faults, and read with fewer TLB misses. */
void memory_large(void *at, size_t bytes);

/* Called once before the others; false: not possible. */
bool lent_begin(void);
/* A block for one run, to be dropped after its last use: the one that the calling thread keeps for
 * this device, stream and use, unless an earlier run still has it or it would be very large. */
struct memory *lend(ecornn_device *device, void *stream, enum lent_use use, size_t bytes);

#endif /* ECO_NATIVE_LENT_H */

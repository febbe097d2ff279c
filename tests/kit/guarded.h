/*
 * Guarded device memory for tests: every buffer lies between guards and starts as NaN, in both
 * types.  Reaches the device through the public interface only; knows nothing of cases.
 */
#ifndef GUARDED_H
#define GUARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "ecornn.h"

enum { GUARD = 256 }; /* bytes, a multiple of the alignment */

/* Where buffers live, what a complaint begins with, and whether there was one. */
struct memory {
    ecornn_device *device;
    const char *text;
    bool failed;
};

/* A block on the device and what it should hold; a NULL device: no such block. */
struct buffer {
    const char *name;
    size_t bytes;
    unsigned char *device; /* guards included */
    unsigned char *image;
};

void memory_complain(struct memory *memory, const char *what, const char *which);
/* Complains of a call that failed. */
bool memory_succeeded(struct memory *memory, ecornn_status status, const char *call);

void buffer_make(struct memory *memory, struct buffer *buffer, const char *name, size_t bytes);
void buffer_drop(struct memory *memory, struct buffer *buffer);
/* The block without its guards; NULL where there is none. */
void *buffer_inside(const struct buffer *buffer);
/* Image to device. */
void buffer_upload(struct memory *memory, struct buffer *buffer);
/* NaN again. */
void buffer_refill(struct memory *memory, struct buffer *buffer);
/* The block as it is now, guards included, which are checked; constant: all of it is, against the
 * image.  The caller frees. */
unsigned char *buffer_fetch(struct memory *memory, const struct buffer *buffer, bool constant);
/* ... only checked. */
void buffer_check(struct memory *memory, const struct buffer *buffer, bool constant);
/* Complains where the block, guards included, is not as it was fetched before. */
void buffer_same(struct memory *memory, const struct buffer *buffer, const unsigned char *before);

#endif /* GUARDED_H */

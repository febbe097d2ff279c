/*
 * Guarded device memory for tests: every buffer is between guards and starts as NaN.  Reaches the
 * device through the public interface only; knows nothing of cases.
 */
#ifndef GUARDED_H
#define GUARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "ecornn.h"

enum { GUARD = 256 }; /* bytes, a multiple of the alignment */

/* The device of the buffers, the beginning of each error message, and whether there was an error.
 */
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
/* Prints an error if a call failed. */
bool memory_succeeded(struct memory *memory, ecornn_status status, const char *call);

void buffer_make(struct memory *memory, struct buffer *buffer, const char *name, size_t bytes);
void buffer_drop(struct memory *memory, struct buffer *buffer);
/* The block without its guards; NULL if there is none. */
void *buffer_inside(const struct buffer *buffer);
/* Copies the image to the device. */
void buffer_upload(struct memory *memory, struct buffer *buffer);
/* Fills the block with NaN again. */
void buffer_refill(struct memory *memory, struct buffer *buffer);
/* Copies the block with its guards from the device and checks the guards. constant: checks that the
 * block equals the image, too. The caller frees the copy. */
unsigned char *buffer_fetch(struct memory *memory, const struct buffer *buffer, bool constant);
/* The same check without a copy for the caller. */
void buffer_check(struct memory *memory, const struct buffer *buffer, bool constant);
/* Prints an error if the block or its guards differ from an earlier copy. */
void buffer_same(struct memory *memory, const struct buffer *buffer, const unsigned char *before);

#endif /* GUARDED_H */

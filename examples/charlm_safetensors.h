/*
 * Files of named arrays in the safetensors format: the header's length as 8 little-endian bytes, a
 * JSON header, then the arrays' bytes.  Only F32 is read and written.  A file to be read may come
 * from anyone: every length, offset, shape and name is checked before it is used.
 */
#ifndef CHARLM_SAFETENSORS_H
#define CHARLM_SAFETENSORS_H

#include "charlm_util.h"

enum {
    TENSOR_RANK_MAX = 8,
    TENSOR_COUNT_MAX = 4096,
    TENSOR_NAME_MAX = 255,
    METADATA_COUNT_MAX = 256,
    METADATA_VALUE_MAX = 1 << 16,
    HEADER_BYTES_MAX = 1 << 24
};
static const size_t TENSOR_FILE_MAX = (size_t)1 << 31; /* bytes of a file read into memory */

struct tensor {
    const char *name;
    uint64_t shape[TENSOR_RANK_MAX];
    int rank;
    uint64_t begin, end; /* in bytes, from the first byte after the header */
};
struct metadata {
    const char *key, *value;
};

struct safetensors {
    struct tensor *tensors;
    struct metadata *metadata;
    size_t tensor_count, metadata_count;
    const unsigned char *data;
    char *strings; /* the names, keys and values above */
    void *owned;   /* the whole file, when safetensors_read made it */
};

/* Reads a file's bytes, which must outlive the result.  On failure nothing is kept; either way
 * safetensors_free may follow. */
bool safetensors_parse(struct safetensors *file, const void *bytes, size_t size,
                       struct complaint *why);
/* The same from a regular file. */
bool safetensors_read(struct safetensors *file, const char *path, struct complaint *why);
void safetensors_free(struct safetensors *file);

/* NULL when there is no such tensor or key. */
const struct tensor *safetensors_find(const struct safetensors *file, const char *name);
const char *safetensors_value(const struct safetensors *file, const char *key);
/* Copies a tensor's elements, (end - begin) / 4 of them. */
void safetensors_copy(const struct safetensors *file, const struct tensor *tensor, float *to);

/* An array to write. */
struct tensor_source {
    char name[TENSOR_NAME_MAX + 1];
    uint64_t shape[2];
    int rank; /* 1 or 2 */
    const float *data;
};
struct safetensors_content {
    const struct tensor_source *tensors;
    const struct metadata *metadata;
    size_t tensor_count, metadata_count;
};
/* Replaces the file at once or not at all: writes beside it, waits for the disk, then renames.
 * Refuses a path that is there and no regular file. */
bool safetensors_write(const char *path, const struct safetensors_content *content,
                       struct complaint *why);
/* Whether a file could be written there: asked before hours of work, not after. */
bool safetensors_writable(const char *path, struct complaint *why);

#endif /* CHARLM_SAFETENSORS_H */

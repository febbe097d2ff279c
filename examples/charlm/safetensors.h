/*
 * Files of named arrays in the safetensors format: the header's length as 8 little-endian bytes, a
 * JSON header, then the arrays' bytes.  Only F32 is read and written.  A file to be read may come
 * from anyone: every length, offset, shape and name is checked before it is used.
 */
#ifndef CHARLM_SAFETENSORS_H
#define CHARLM_SAFETENSORS_H

#include "util.h"

enum {
    LENGTH_BYTES = 8,    /* of the header's length, in front */
    CHECKSUM_DIGITS = 8, /* of the metadata's crc32, which is of the file with zeros for them */
    TENSOR_RANK_MAX = 8,
    TENSOR_COUNT_MAX = 4096,
    TENSOR_NAME_MAX = 255,
    METADATA_COUNT_MAX = 256,
    METADATA_VALUE_MAX = 1 << 16,
    HEADER_BYTES_MAX = 1 << 24
};
static const char CHECKSUM_KEY[] = "crc32";            /* a file without one is read unchecked */
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
/* What safetensors_parse would make of a file with this header and so many bytes behind it. */
bool safetensors_foresee(struct safetensors *file, const char *text, size_t header,
                         uint64_t data_bytes, struct complaint *why);
/* safetensors_parse of a regular file. */
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
/* Writes a file, or replaces it at once (replace.h), with a checksum in its metadata. */
bool safetensors_write(const char *path, const struct safetensors_content *content,
                       struct complaint *why);
/* Asked before hours of work, not after: how long the file would be, and what safetensors_read
 * would find in it.  False where it would refuse it.  The data need not be there yet. */
bool safetensors_preview(struct safetensors *file, const struct safetensors_content *content,
                         uint64_t *bytes, struct complaint *why);

#endif /* CHARLM_SAFETENSORS_H */

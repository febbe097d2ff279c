/*
 * The part of XLA's foreign function interface that is used: version 0.1, which every jaxlib that
 * has the interface supports, since later versions only add fields.  xla/ffi/api/c_api.h in a
 * jaxlib describes the structures.  They are declared here, so that building needs nothing of JAX.
 */
#ifndef ECO_XLA_ABI_H
#define ECO_XLA_ABI_H

#include <stddef.h>
#include <stdint.h>

#include "python/native/plans.h"

enum { XLA_MAJOR = 0, XLA_MINOR = 1 };
/* Numbers of types, of attributes and of errors. */
enum { XLA_U8 = 6, XLA_S32 = 4, XLA_S64 = 5, XLA_U32 = 8, XLA_F16 = 10, XLA_F32 = 11 };
enum { XLA_F64 = 12, XLA_BF16 = 16 };
enum { XLA_SCALAR = 3, XLA_STRING = 4 };
enum { XLA_BAD_ARGUMENT = 3, XLA_NO_MEMORY = 8, XLA_WRONG_STATE = 9, XLA_UNSUPPORTED = 12 };
enum { XLA_INTERNAL = 13 };

enum { XLA_METADATA = 1 }; /* the extension of a frame that asks for the handler's version */
struct xla_extension {
    size_t size;
    int type;
    struct xla_extension *next;
};

struct xla_version {
    size_t size;
    struct xla_extension *extension;
    int major, minor;
};

struct xla_metadata_extension {
    struct xla_extension base;
    struct {
        size_t size;
        struct xla_version version;
        uint32_t traits;
    } * metadata;
};

struct xla_buffer {
    size_t size;
    struct xla_extension *extension;
    int type;
    void *data;
    int64_t rank;
    int64_t *dims; /* [rank] */
};

struct xla_scalar {
    int type;
    void *value;
};

struct xla_buffers {
    size_t size;
    struct xla_extension *extension;
    int64_t count;
    int *kinds; /* 1 */
    struct xla_buffer **buffer;
};

struct xla_attributes { /* sorted by name */
    size_t size;
    struct xla_extension *extension;
    int64_t count;
    int *kinds;
    struct span **names;
    void **values;
};

typedef struct xla_error xla_error; /* NULL: none */
typedef struct xla_context xla_context;
typedef void xla_other(void); /* a function that is not used */

struct xla_error_arguments {
    size_t size;
    struct xla_extension *extension;
    const char *message;
    int code;
};

struct xla_stream_arguments {
    size_t size;
    struct xla_extension *extension;
    xla_context *context;
    void *stream; /* result */
};

struct xla_ordinal_arguments {
    size_t size;
    struct xla_extension *extension;
    xla_context *context;
    int32_t ordinal; /* result: number of the GPU */
};

struct xla_api {
    size_t size;
    struct xla_extension *extension;
    struct xla_version version;
    const void *internal;
    xla_error *(*error)(struct xla_error_arguments *arguments);
    xla_other *error_message;
    xla_other *error_destroy;
    xla_other *handler_register;
    xla_error *(*stream)(struct xla_stream_arguments *arguments);
    xla_other *between[12];
    xla_error *(*ordinal)(struct xla_ordinal_arguments *arguments);
};

struct xla_frame { /* one call of a handler */
    size_t size;
    struct xla_extension *extension;
    const struct xla_api *api;
    xla_context *context;
    int stage;
    struct xla_buffers in, out;
    struct xla_attributes attributes;
};

#endif /* ECO_XLA_ABI_H */

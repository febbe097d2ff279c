/*
 * The functions of libecornn that the modules use.  Modules are not linked with it: they take the
 * one that Python has opened, or, without Python, the one that belongs to the process or the
 * system.
 */
#ifndef ECO_NATIVE_LIBRARY_H
#define ECO_NATIVE_LIBRARY_H

#include <stdbool.h>

#include "ecornn.h"

#define SHOWN __attribute__((visibility("default"))) /* what a module offers */

/* clang-format off */
#define LIBRARY_FUNCTIONS(f) \
    f(ecornn_status, device_open, (ecornn_device **, const char *)) \
    f(void, device_close, (ecornn_device *)) \
    f(ecornn_status, cell_parse, (ecornn_cell **, const char *)) \
    f(void, cell_free, (ecornn_cell *)) \
    f(ecornn_status, cell_states, (const ecornn_cell *, int *, double *)) \
    f(ecornn_status, desc_parse, (ecornn_desc *, const char *, const ecornn_cell *)) \
    f(ecornn_status, plan_create_desc, (ecornn_plan **, ecornn_device *, const ecornn_desc *)) \
    f(void, plan_free, (ecornn_plan *)) \
    f(ecornn_status, plan_sizes, (const ecornn_plan *, ecornn_sizes *)) \
    f(ecornn_status, run_sizes, (const ecornn_plan *, int32_t, int32_t, ecornn_sizes *)) \
    f(ecornn_status, plan_state, (const ecornn_plan *, int, size_t *, ecornn_type *)) \
    f(int32_t, bucket, (int32_t)) \
    f(ecornn_status, param_get, (const ecornn_plan *, int, ecornn_param *)) \
    f(ecornn_status, weights_fit, (const ecornn_plan *, const ecornn_plan *)) \
    f(ecornn_status, pack, (const ecornn_plan *, const void *const *, const void *const *, void *, void *)) \
    f(ecornn_status, unpack, (const ecornn_plan *, const void *, void *const *, int, void *)) \
    f(ecornn_status, forward, (const ecornn_plan *, int32_t, int32_t, const ecornn_io *)) \
    f(ecornn_status, backward, \
      (const ecornn_plan *, int32_t, int32_t, const ecornn_io *, const ecornn_gradient *)) \
    f(ecornn_status, same, (const ecornn_plan *, const void *, const void *, size_t, int *)) \
    f(void *, alloc, (ecornn_device *, size_t)) \
    f(void, free, (ecornn_device *, void *)) \
    f(ecornn_status, wait, (ecornn_device *, void *)) \
    f(ecornn_status, upload, (ecornn_device *, void *, const void *, size_t)) \
    f(ecornn_status, download, (ecornn_device *, void *, const void *, size_t)) \
    f(const char *, error_detail, (void))
#define LIBRARY_MEMBER(type, name, arguments) type(*name) arguments;
struct library {
    LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
};
/* clang-format on */
#undef LIBRARY_MEMBER
extern struct library library;

/* opened: by Python's dlopen; NULL: the library that this module found when it was loaded, or that
 * the process has by now.  The first one stays: false if this is another one, or lacks a function.
 */
bool library_find(void *opened);

/* The modules' own failures have a text, too. */
void say_no_memory(size_t bytes);
void *new_zeros(size_t count, size_t size); /* calloc, which says so; for products that fit */
/* The text after a failure with that status in this thread, until its next failure. */
const char *error_text(ecornn_status status);

#endif /* ECO_NATIVE_LIBRARY_H */

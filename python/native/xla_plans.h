/*
 * The plans of JAX's programs.  A program has the problem as text, not a plan's address, so it may
 * be stored and run in another process.
 */
#ifndef ECO_XLA_PLANS_H
#define ECO_XLA_PLANS_H

#include "ecornn.h"
#include "python/native/xla_abi.h"

/* The functions of the library that Python has loaded, in the order of _xla.py. */
struct xla_library {
    ecornn_status (*device_open)(ecornn_device **, const char *);
    ecornn_status (*cell_parse)(ecornn_cell **, const char *);
    ecornn_status (*desc_parse)(ecornn_desc *, const char *, const ecornn_cell *);
    ecornn_status (*plan_create)(ecornn_plan **, ecornn_device *, const ecornn_desc *);
    ecornn_status (*plan_sizes)(const ecornn_plan *, ecornn_sizes *);
    ecornn_status (*run_sizes)(const ecornn_plan *, int32_t, int32_t, ecornn_sizes *);
    ecornn_status (*cell_states)(const ecornn_cell *, int *, double *);
    ecornn_status (*param_get)(const ecornn_plan *, int, ecornn_param *);
    ecornn_status (*pack)(const ecornn_plan *, const void *const *, const void *const *, void *,
                          void *);
    ecornn_status (*unpack)(const ecornn_plan *, const void *, void *const *, int, void *);
    ecornn_status (*forward)(const ecornn_plan *, int32_t, int32_t, const ecornn_io *);
    ecornn_status (*backward)(const ecornn_plan *, int32_t, int32_t, const ecornn_io *,
                              const ecornn_gradient *);
    ecornn_status (*wait)(ecornn_device *, void *);
    ecornn_status (*download)(ecornn_device *, void *, const void *, size_t);
    const char *(*error_detail)(void);
    void (*plan_free)(ecornn_plan *);
    void (*cell_free)(ecornn_cell *);
    void (*device_close)(ecornn_device *);
};
extern struct xla_library xla_library;

struct xla_plan {
    ecornn_device *device;
    ecornn_plan *plan;
    ecornn_desc desc; /* layers and models are at least 1, type is set */
    ecornn_sizes sizes;
    int states, count;    /* parameters of one model */
    int64_t (*size)[2];   /* [count] rows and columns of each; columns 0: a vector */
    int type, param_type; /* numbers in XLA of the types of x and of parameters */
};

/*
 * The plan for a problem (ecornn_desc_parse) on a device; cell: the text of a cell, or empty.  The
 * first call makes it.  It is never freed, as JAX keeps its programs.  Any thread may call it.
 * Fails as the library does, and with NO_MEMORY.
 */
ecornn_status xla_plan_find(const struct xla_plan **found, struct xla_span device,
                            struct xla_span problem, struct xla_span cell);

#endif /* ECO_XLA_PLANS_H */

/*
 * The interface between the library and a backend in a module, which lib/module.c loads when it is
 * first needed.  The module exports only eco_module_open and contains its own copy of what it uses
 * of common, so it also works with a static libecornn.
 */
#ifndef ECO_MODULE_H
#define ECO_MODULE_H

#include "common/backend.h"

/* Functions that the library provides to a module. */
struct eco_services {
    ecornn_status (*fail)(ecornn_status status, const char *format, ...); /* eco_fail */
    bool (*call_fails)(void);                                             /* eco_call_fails */
};

/* Library and module must be built from the same sources, because they share structs. */
struct eco_build {
    char version[32];
    size_t plan, layout, device, args, backend; /* sizes of shared structs */
    size_t attention_plan, attention_args;
};
#define ECO_BUILD                                                                                  \
    ((struct eco_build){PACKAGE_VERSION, sizeof(struct ecornn_plan), sizeof(struct eco_layout),    \
                        sizeof(struct ecornn_device), sizeof(struct eco_args),                     \
                        sizeof(struct eco_backend), sizeof(struct eco_attention_plan),             \
                        sizeof(struct eco_attention_args)})

struct eco_module {
    struct eco_build build;
    const struct eco_backend *backend;
};

/* Called once, before anything else. */
typedef const struct eco_module *(*eco_module_function)(const struct eco_services *services);
#define ECO_MODULE_SYMBOL "eco_module_open"

#endif /* ECO_MODULE_H */

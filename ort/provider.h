/*
 * What a session has of this provider.
 */
#ifndef ECO_ORT_PROVIDER_H
#define ECO_ORT_PROVIDER_H

#include <ecornn.h>

#include "ort/node.h"

#define PROVIDER_NAME "EcornnExecutionProvider"

/* Options of a session; provider.c has their names. */
struct options {
    char precision[32]; /* parts of a problem string for F32 nodes, "/bf16-weights"; "": F32 */
    int threads;        /* 0: all cores */
};

struct provider {
    struct ort_provider face;
    const struct ort_api *api;
    const struct ort_ep_api *ep;
    const ort_logger *logger;
    struct options options;
    ecornn_device *device;
};

ort_status *provider_create(const struct ort_api *api, const struct ort_ep_api *ep,
                            const ort_options *options, const ort_logger *logger,
                            struct ort_provider **made);
void provider_release(struct ort_provider *face);

/* A status with "ecornn: " and the text. */
__attribute__((format(printf, 3, 4))) ort_status *failed(const struct ort_api *api, int code,
                                                         const char *format, ...);

#endif /* ECO_ORT_PROVIDER_H */

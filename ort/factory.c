/*
 * The functions that ONNX Runtime looks for in a library of execution providers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ort/layer.h"

struct factory {
    struct ort_factory face;
    const struct ort_api *api;
    const struct ort_ep_api *ep;
};

#define SHOWN __attribute__((visibility("default")))
SHOWN ort_status *CreateEpFactories(const char *registered, const struct ort_base *base,
                                    const ort_logger *logger, struct ort_factory **factories,
                                    size_t most, size_t *count);
SHOWN ort_status *ReleaseEpFactory(struct ort_factory *factory);

static const char *name(const struct ort_factory *self)
{
    (void)self;
    return PROVIDER_NAME;
}

static const char *vendor(const struct ort_factory *self)
{
    (void)self;
    return "ecornn";
}

static uint32_t vendor_id(const struct ort_factory *self)
{
    (void)self;
    return 0; /* no maker of hardware */
}

static const char *own_version(const struct ort_factory *self)
{
    (void)self;
    return ECORNN_VERSION_STRING;
}

static ort_status *supported(struct ort_factory *self, const ort_hardware *const *hardware,
                             size_t count, ort_device **devices, size_t most, size_t *found)
{
    const struct factory *const factory = (struct factory *)self;
    *found = 0;
    for (size_t i = 0; i < count && *found < most; i++) {
        if (factory->api->hardware_kind(hardware[i]) != 0)
            continue; /* no CPU */
        ort_status *const status =
            factory->ep->create_device(self, hardware[i], NULL, NULL, &devices[*found]);
        if (status)
            return status;
        ++*found;
    }
    return NULL;
}

static ort_status *create(struct ort_factory *self, const ort_hardware *const *hardware,
                          const ort_pairs *const *metadata, size_t count,
                          const ort_options *options, const ort_logger *logger,
                          struct ort_provider **provider)
{
    const struct factory *const factory = (struct factory *)self;
    (void)hardware;
    (void)metadata;
    *provider = NULL;
    if (count != 1)
        return failed(factory->api, ORT_INVALID_ARGUMENT, "%zu devices, must be one", count);
    return provider_create(factory->api, factory->ep, options, logger, provider);
}

static void release(struct ort_factory *self, struct ort_provider *provider)
{
    (void)self;
    provider_release(provider);
}

/* ---- what computes on a CPU does not need ---------------------------------------------------- */

/* No allocator and no stream: ONNX Runtime's own. */
static ort_status *create_none(struct ort_factory *self, const void *memory,
                               const ort_pairs *options, void **made)
{
    (void)self;
    (void)memory;
    (void)options;
    *made = NULL;
    return NULL;
}

static ort_status *create_transfer(struct ort_factory *self, void **transfer)
{
    return create_none(self, NULL, NULL, transfer);
}

static bool has_streams(const struct ort_factory *self)
{
    (void)self;
    return false;
}

/* ---- the library ----------------------------------------------------------------------------- */

/* An interface version that an older ONNX Runtime has too, only to make a status. */
static ort_status *refuse_version(const struct ort_base *base)
{
    char text[160];
    for (uint32_t version = ORT_VERSION - 1; version > 0; version--) {
        const struct ort_api *const api = base->api(version);
        if (!api)
            continue;
        snprintf(text, sizeof text, "ecornn-ort.so needs ONNX Runtime 1.%d or later; this is %.40s",
                 ORT_VERSION, base->version());
        return api->create_status(ORT_NOT_IMPLEMENTED, text);
    }
    return NULL; /* with no factory */
}

ort_status *CreateEpFactories(const char *registered, const struct ort_base *base,
                              const ort_logger *logger, struct ort_factory **factories, size_t most,
                              size_t *count)
{
    (void)registered;
    (void)logger;
    *count = 0;
    const struct ort_api *const api = base->api(ORT_VERSION);
    if (!api)
        return refuse_version(base);
    struct factory *const factory = most > 0 ? calloc(1, sizeof *factory) : NULL;
    if (!factory)
        return failed(api, ORT_FAIL, "no room for a factory");
    *factory = (struct factory){.face = {.version = ORT_VERSION,
                                         .name = name,
                                         .vendor = vendor,
                                         .supported = supported,
                                         .create = create,
                                         .release = release,
                                         .vendor_id = vendor_id,
                                         .own_version = own_version,
                                         .create_allocator = create_none,
                                         .create_transfer = create_transfer,
                                         .has_streams = has_streams,
                                         .create_stream = create_none},
                                .api = api,
                                .ep = api->ep_api()};
    factories[0] = &factory->face;
    *count = 1;
    return NULL;
}

/* ONNX Runtime calls it for a session that outlives its registration, too: so it stays, as does
 * this library. */
ort_status *ReleaseEpFactory(struct ort_factory *factory)
{
    (void)factory;
    return NULL;
}

/*
 * A session's provider: its options, the nodes that it takes, and layers for these.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ort/layer.h"

/* Options of a session. */
struct options {
    const char *precision; /* of F32 nodes: parts of a problem string; NULL: not said */
    int threads;           /* 0: all cores */
};

struct provider {
    struct ort_provider face;
    const struct ort_api *api;
    const struct ort_ep_api *ep;
    const ort_logger *logger;
    struct options options;
    ecornn_device *device;
};

ort_status *failed(const struct ort_api *api, int code, const char *format, ...)
{
    char text[2 * MOST_TEXT] = "ecornn: ";
    const size_t length = strlen(text);
    va_list list;
    va_start(list, format);
    vsnprintf(text + length, sizeof text - length, format, list);
    va_end(list);
    return api->create_status(code, text);
}

/* Lines at level INFO are shown if the session's log_severity_level is 1 or less. */
__attribute__((format(printf, 3, 4))) static void say(const struct provider *provider, int level,
                                                      const char *format, ...)
{
    char text[2 * MOST_TEXT];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    ort_status *const status =
        provider->api->log(provider->logger, level, text, "ecornn", 0, PROVIDER_NAME);
    if (status)
        provider->api->release_status(status);
}

/* ---- options --------------------------------------------------------------------------------- */

#define PREFIX "ep.ecornnexecutionprovider." /* ONNX Runtime puts it in front, in lower case */

static bool read_precision(struct options *options, const char *value)
{
    static const char *const known[][2] = {{"f32", ""},
                                           {"bf16-weights", "/bf16-weights"},
                                           {"int8-weights", "/int8-weights"},
                                           {"int8", "/int8"}};
    for (size_t i = 0; i < sizeof known / sizeof *known && !options->precision; i++)
        if (strcmp(known[i][0], value) == 0)
            options->precision = known[i][1];
    return options->precision;
}

static bool read_threads(struct options *options, const char *value)
{
    char *end = NULL;
    const long threads = strtol(value, &end, 10);
    options->threads = (int)threads;
    return *value >= '0' && *value <= '9' && !*end && threads <= 1024;
}

static const struct {
    const char *name, *values;
    bool (*read)(struct options *options, const char *value);
} options_known[] = {
    {"precision", "f32, bf16-weights, int8-weights or int8", read_precision},
    {"threads", "0 (all cores) to 1024", read_threads},
};

static ort_status *read_option(const struct ort_api *api, struct options *options, const char *key,
                               const char *value)
{
    for (size_t i = 0; i < sizeof options_known / sizeof *options_known; i++)
        if (strcmp(options_known[i].name, key) == 0)
            return options_known[i].read(options, value)
                       ? NULL
                       : failed(api, ORT_INVALID_ARGUMENT, "option %s is '%.40s', must be %s", key,
                                value, options_known[i].values);
    return failed(api, ORT_INVALID_ARGUMENT, "no option '%.40s': there are precision and threads",
                  key);
}

static ort_status *read_options(const struct ort_api *api, const ort_options *given,
                                struct options *options)
{
    ort_pairs *pairs = NULL;
    const char *const *keys = NULL, *const *values = NULL;
    size_t count = 0;
    ort_status *status = api->entries(given, &pairs);
    if (status)
        return status;
    api->pairs(pairs, &keys, &values, &count);
    for (size_t i = 0; i < count && !status; i++)
        if (strncmp(keys[i], PREFIX, strlen(PREFIX)) == 0)
            status = read_option(api, options, keys[i] + strlen(PREFIX), values[i]);
    api->release_pairs(pairs);
    return status;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static ort_status *nodes_of(const struct ort_api *api, const ort_graph *graph,
                            const ort_node ***nodes, size_t *count)
{
    *nodes = NULL;
    ort_status *status = api->node_count(graph, count);
    if (!status && !(*nodes = calloc(*count + 1, sizeof **nodes)))
        status = failed(api, ORT_FAIL, "no memory");
    if (!status)
        status = api->nodes(graph, *nodes, *count);
    if (!status)
        return NULL;
    free(*nodes);
    *nodes = NULL;
    return status;
}

/* Takes the node if it can be computed, and says so. */
static ort_status *consider(const struct provider *provider, const ort_node *handle,
                            ort_support *support)
{
    struct node node;
    struct reason reason = {""};
    const char *domain = "", *operator_name = "";
    ort_status *status = provider->api->node_domain(handle, &domain);
    if (!status)
        status = provider->api->node_operator(handle, &operator_name);
    if (status || !find_op(domain, operator_name))
        return status;
    struct layer *const layer = node_read(&node, provider->api, handle, &reason)
                                    ? layer_create(provider->api, provider->device,
                                                   provider->options.precision, &node, &reason)
                                    : NULL;
    if (!layer) {
        say(provider, ORT_WARNING, "ecornn leaves %s '%s' to others: %s", node.operator_name,
            node.name, reason.text);
        return NULL;
    }
    say(provider, ORT_INFO, "ecornn takes %s '%s': %s%s", node.operator_name, node.name,
        layer->problem,
        layer->packs      ? ", packs weights now"
        : layer->constant ? ", packs weights once"
                          : "");
    const struct ort_fusion fusion = {ORT_VERSION, layer->packs};
    layer_free(layer);
    return provider->ep->take_nodes(support, &handle, 1, &fusion);
}

static ort_status *capability(struct ort_provider *self, const ort_graph *graph,
                              ort_support *support)
{
    const struct provider *const provider = (struct provider *)self;
    const ort_node **nodes = NULL;
    size_t count = 0;
    ort_status *status = nodes_of(provider->api, graph, &nodes, &count);
    for (size_t i = 0; i < count && !status; i++)
        status = consider(provider, nodes[i], support);
    free(nodes);
    return status;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* Finds the places of the node's values in the fused node, which lists each name once. */
static void find_places(const char *const *own, size_t count, const char *const *fused,
                        size_t fused_count, int *places)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; *own[i] && places[i] < 0 && k < fused_count; k++)
            if (strcmp(own[i], fused[k]) == 0)
                places[i] = (int)k;
}

static struct layer *compile_node(const struct provider *provider, const ort_node *handle,
                                  const ort_node *fused_handle, struct reason *reason)
{
    const struct ort_api *const api = provider->api;
    struct node node, fused;
    if (!node_read(&node, api, handle, reason) || !node_read(&fused, api, fused_handle, reason))
        return NULL;
    struct layer *const layer =
        layer_create(api, provider->device, provider->options.precision, &node, reason);
    if (!layer)
        return NULL;
    find_places(node.input_name, node.inputs, fused.input_name, fused.inputs, layer->input);
    find_places(node.output_name, node.outputs, fused.output_name, fused.outputs, layer->output);
    bool done = true;
    for (size_t i = 0; done && i < node.inputs; i++)
        if (*node.input_name[i] && layer->input[i] < 0 && !layer->packs)
            done = refuse(reason, "the fused node lacks input %zu", i);
    if (done && (!layer->packs || layer->op->prepare(layer, reason))) {
        layer->node = NULL;
        return layer;
    }
    layer_free(layer);
    return NULL;
}

static ort_status *compile_graph(const struct provider *provider, const ort_graph *graph,
                                 const ort_node *fused, struct ort_compute **compute)
{
    struct reason reason = {""};
    const ort_node **nodes = NULL;
    size_t count = 0;
    ort_status *const status = nodes_of(provider->api, graph, &nodes, &count);
    if (status)
        return status;
    struct layer *const layer =
        count == 1 ? compile_node(provider, nodes[0], fused, &reason) : NULL;
    free(nodes);
    if (!layer)
        return failed(provider->api, ORT_EP_FAIL, "compiling a graph of %zu nodes: %s", count,
                      reason.text);
    *compute = &layer->face;
    return NULL;
}

static void release_computes(struct ort_provider *self, struct ort_compute **computes, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        layer_free((struct layer *)computes[i]);
        computes[i] = NULL;
    }
}

static ort_status *compile(struct ort_provider *self, const ort_graph **graphs,
                           const ort_node **fused, size_t count, struct ort_compute **computes,
                           ort_node **contexts)
{
    const struct provider *const provider = (struct provider *)self;
    ort_status *status = NULL;
    (void)contexts;
    for (size_t i = 0; i < count; i++)
        computes[i] = NULL;
    for (size_t i = 0; i < count && !status; i++)
        status = compile_graph(provider, graphs[i], fused[i], &computes[i]);
    if (status)
        release_computes(self, computes, count);
    return status;
}

/* ---- a provider ------------------------------------------------------------------------------ */

static const char *name(const struct ort_provider *self)
{
    (void)self;
    return PROVIDER_NAME;
}

ort_status *provider_create(const struct ort_api *api, const struct ort_ep_api *ep,
                            const ort_options *options, const ort_logger *logger,
                            struct ort_provider **made)
{
    char device[16] = "cpu";
    struct provider *const provider = calloc(1, sizeof *provider);
    if (!provider)
        return failed(api, ORT_FAIL, "no memory");
    *provider = (struct provider){.face = {.version = ORT_VERSION,
                                           .name = name,
                                           .capability = capability,
                                           .compile = compile,
                                           .release_computes = release_computes},
                                  .api = api,
                                  .ep = ep,
                                  .logger = logger,
                                  .options = {.threads = 1}};
    ort_status *status = read_options(api, options, &provider->options);
    if (provider->options.threads > 0)
        snprintf(device, sizeof device, "cpu:%d", provider->options.threads);
    if (!status && ecornn_device_open(&provider->device, device) != ECORNN_OK)
        status = failed(api, ORT_EP_FAIL, "%s", ecornn_error_detail());
    if (status)
        free(provider);
    else
        *made = &provider->face;
    return status;
}

void provider_release(struct ort_provider *face)
{
    struct provider *const provider = (struct provider *)face;
    if (provider)
        ecornn_device_close(provider->device);
    free(provider);
}

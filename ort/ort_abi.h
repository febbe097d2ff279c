/*
 * The part of ONNX Runtime's C interface that is used: structures for execution providers of 1.23,
 * which later versions only append to.  Tables of functions are declared by position; what lies
 * between is not named.  Nothing of ONNX Runtime is needed to build.
 */
#ifndef ECO_ORT_ABI_H
#define ECO_ORT_ABI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORT_VERSION = 23 }; /* of the interface: that of ONNX Runtime 1.23 */

/* Handles of ONNX Runtime. */
typedef struct ort_status ort_status; /* NULL: it went well */
typedef struct ort_logger ort_logger;
typedef struct ort_graph ort_graph;
typedef struct ort_node ort_node;
typedef struct ort_attribute ort_attribute;
typedef struct ort_value ort_value;
typedef struct ort_value_info ort_value_info; /* a name of a graph, with its type */
typedef struct ort_type ort_type;
typedef struct ort_tensor_type ort_tensor_type;
typedef struct ort_context ort_context; /* inputs and outputs of a run of a node */
typedef struct ort_options ort_options;
typedef struct ort_pairs ort_pairs; /* of keys and values */
typedef struct ort_hardware ort_hardware;
typedef struct ort_device ort_device;
typedef struct ort_support ort_support; /* the nodes that a provider takes */
typedef void (*ort_other)(void);        /* a function that is not used */

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_NOT_IMPLEMENTED = 9, ORT_EP_FAIL = 11 };
enum { ORT_INFO = 1, ORT_WARNING = 2 };
enum { ORT_INT = 1, ORT_INTS, ORT_FLOAT, ORT_FLOATS, ORT_STRING, ORT_STRINGS };
enum { ORT_F32 = 1, ORT_U8 = 2, ORT_S8 = 3, ORT_S32 = 6, ORT_F64 = 11, ORT_BF16 = 16 };

/* The functions of every session, in the order of their places; 1.0 has those below 101. */
struct ort_api {
    ort_status *(*create_status)(int code, const char *text);
    ort_other from_1[1];
    const char *(*error_message)(const ort_status *status);
    ort_other from_3[48];
    ort_status *(*mutable_data)(ort_value *value, void **data);
    ort_other from_52[3];
    ort_status *(*tensor_type)(const ort_type *type, const ort_tensor_type **tensor); /* or NULL */
    ort_other from_56[4];
    ort_status *(*element)(const ort_tensor_type *tensor, int *element);
    ort_status *(*rank)(const ort_tensor_type *tensor, size_t *rank);
    ort_status *(*dimensions)(const ort_tensor_type *tensor, int64_t *sizes, size_t rank);
    ort_other from_63[2];
    ort_status *(*value_type)(const ort_value *value, ort_tensor_type **tensor);
    ort_other from_66[22];
    ort_status *(*input_count)(const ort_context *context, size_t *count);
    ort_status *(*output_count)(const ort_context *context, size_t *count);
    ort_status *(*input)(const ort_context *context, size_t index, const ort_value **value);
    ort_status *(*output)(ort_context *context, size_t index, const int64_t *sizes, size_t rank,
                          ort_value **value);
    ort_other from_92[1];
    void (*release_status)(ort_status *status);
    ort_other from_94[5];
    void (*release_tensor_type)(ort_tensor_type *tensor);
    ort_other from_100[147];
    ort_status *(*log)(const ort_logger *logger, int level, const char *text, const char *file,
                       int line, const char *function); /* 1.15 */
    ort_other from_248[24];
    ort_status *(*read_attribute)(const ort_attribute *attribute, int kind, void *data,
                                  size_t bytes, size_t *needed); /* 1.17 */
    ort_other from_273[16];
    ort_status *(*name)(const ort_value_info *info, const char **name); /* 1.22, to 317 */
    ort_status *(*type)(const ort_value_info *info, const ort_type **type);
    ort_other from_291[7];
    void (*pairs)(const ort_pairs *pairs, const char *const **keys, const char *const **values,
                  size_t *count);
    ort_other from_299[1];
    void (*release_pairs)(ort_pairs *pairs);
    ort_other from_301[6];
    int (*hardware_kind)(const ort_hardware *hardware);
    ort_other from_308[9];
    const struct ort_ep_api *(*ep_api)(void);
    ort_other from_318[8]; /* 1.23 from here on */
    ort_status *(*initialiser)(const ort_value_info *info, const ort_value **value);
    ort_other from_327[4];
    ort_status *(*is_constant)(const ort_value_info *info, bool *constant);
    ort_other from_332[12];
    ort_status *(*node_count)(const ort_graph *graph, size_t *count);
    ort_status *(*nodes)(const ort_graph *graph, const ort_node **nodes, size_t count);
    ort_other from_346[3];
    ort_status *(*node_name)(const ort_node *node, const char **name);
    ort_status *(*node_operator)(const ort_node *node, const char **name);
    ort_status *(*node_domain)(const ort_node *node, const char **name);
    ort_other from_352[1];
    ort_status *(*node_input_count)(const ort_node *node, size_t *count);
    ort_status *(*node_inputs)(const ort_node *node, const ort_value_info **infos, size_t count);
    ort_status *(*node_output_count)(const ort_node *node, size_t *count);
    ort_status *(*node_outputs)(const ort_node *node, const ort_value_info **infos, size_t count);
    ort_other from_357[4];
    ort_status *(*attribute)(const ort_node *node, const char *name, const ort_attribute **found);
    ort_other from_362[16];
    ort_status *(*data)(const ort_value *value, const void **data);
    ort_status *(*entries)(const ort_options *options, ort_pairs **pairs); /* of a session */
};

_Static_assert(offsetof(struct ort_api, log) == 247 * sizeof(ort_other), "log");
_Static_assert(offsetof(struct ort_api, ep_api) == 317 * sizeof(ort_other), "ep_api");
_Static_assert(sizeof(struct ort_api) == 380 * sizeof(ort_other), "the last is 379");

struct ort_base {
    const struct ort_api *(*api)(uint32_t version); /* NULL: this ONNX Runtime is older */
    const char *(*version)(void);
};

struct ort_fusion {
    uint32_t version;
    bool drop_constants; /* ONNX Runtime may free them after Compile, and passes none to runs */
};

/* ---- what a provider implements: the version, then functions in this order --------------------*/

struct ort_provider;
struct ort_factory;

struct ort_ep_api {
    ort_status *(*create_device)(struct ort_factory *factory, const ort_hardware *hardware,
                                 const ort_pairs *metadata, const ort_pairs *options,
                                 ort_device **device); /* 1.22 */
    ort_other from_1[1];
    ort_status *(*take_nodes)(ort_support *support, const ort_node *const *nodes, size_t count,
                              const struct ort_fusion *fusion); /* 1.23 */
};

/* A compiled node. */
struct ort_compute {
    uint32_t version;
    ort_status *(*create_state)(struct ort_compute *self, void *context, void **state);
    ort_status *(*run)(struct ort_compute *self, void *state, ort_context *context);
    void (*release_state)(struct ort_compute *self, void *state);
};

struct ort_provider {
    uint32_t version;
    const char *(*name)(const struct ort_provider *self);
    ort_status *(*capability)(struct ort_provider *self, const ort_graph *graph,
                              ort_support *support);
    ort_status *(*compile)(struct ort_provider *self, const ort_graph **graphs,
                           const ort_node **fused, size_t count, struct ort_compute **computes,
                           ort_node **contexts);
    void (*release_computes)(struct ort_provider *self, struct ort_compute **computes,
                             size_t count);
    ort_other optional[8]; /* of 1.23, all NULL */
};

struct ort_factory {
    uint32_t version;
    const char *(*name)(const struct ort_factory *self);
    const char *(*vendor)(const struct ort_factory *self);
    ort_status *(*supported)(struct ort_factory *self, const ort_hardware *const *hardware,
                             size_t count, ort_device **devices, size_t most, size_t *found);
    ort_status *(*create)(struct ort_factory *self, const ort_hardware *const *hardware,
                          const ort_pairs *const *metadata, size_t count,
                          const ort_options *options, const ort_logger *logger,
                          struct ort_provider **provider);
    void (*release)(struct ort_factory *self, struct ort_provider *provider);
    uint32_t (*vendor_id)(const struct ort_factory *self);
    const char *(*own_version)(const struct ort_factory *self);
    ort_other validate; /* of compiled models: NULL */
    ort_status *(*create_allocator)(struct ort_factory *self, const void *memory,
                                    const ort_pairs *options, void **allocator);
    ort_other release_allocator; /* NULL: there is none */
    ort_status *(*create_transfer)(struct ort_factory *self, void **transfer);
    bool (*has_streams)(const struct ort_factory *self);
    ort_status *(*create_stream)(struct ort_factory *self, const void *device,
                                 const ort_pairs *options, void **stream);
};

#endif /* ECO_ORT_ABI_H */

/*
 * What the files of the plug-in share: nodes, the layers that are made of them, and their runs.
 */
#ifndef ECO_ORT_LAYER_H
#define ECO_ORT_LAYER_H

#include <ecornn.h>

#include <pthread.h>

#include "ort/ort_abi.h"

enum { MOST_INPUTS = 16, MOST_OUTPUTS = 4, MOST_RANK = 5, MOST_TEXT = 512 };
enum { MOST_PLANS = 64, MOST_SCRATCH = 4, MOST_PARAMS = 64 };

/* ---- node.c: a node before it runs ----------------------------------------------------------- */

struct node {
    const struct ort_api *api;
    const ort_node *handle;
    const char *name, *operator_name, *domain;
    const ort_value_info *input[MOST_INPUTS], *output[MOST_OUTPUTS];
    const char *input_name[MOST_INPUTS], *output_name[MOST_OUTPUTS]; /* "": not given */
    size_t inputs, outputs;
};

/* A tensor, or what the graph says about one. */
struct tensor {
    const void *data; /* NULL: not given, or only its type is known */
    int element;      /* ONNX's number of its type; 0: not given */
    size_t rank;
    int64_t size[MOST_RANK]; /* -1: not known */
};

/* Why something cannot be done, in one line; "" so far.  Functions that take one return false after
 * they have written it. */
struct reason {
    char text[MOST_TEXT];
};
/* Writes the reason, unless there is one already; always false. */
__attribute__((format(printf, 2, 3))) bool refuse(struct reason *reason, const char *format, ...);
bool refuse_status(struct reason *reason, ecornn_status status); /* of a call of the library */
/* Did ONNX Runtime's function succeed?  Releases the status. */
bool passed(const struct ort_api *api, ort_status *status, struct reason *reason);

bool node_read(struct node *node, const struct ort_api *api, const ort_node *handle,
               struct reason *reason);
/* Writes up to `bytes` of an attribute, and how many there were; 0 if there is none: then data
 * stays as it is.  Strings end in 0. */
bool node_list(const struct node *node, const char *name, int kind, void *data, size_t *bytes,
               struct reason *reason);
bool node_int(const struct node *node, const char *name, int64_t *value, struct reason *reason);
bool node_float(const struct node *node, const char *name, float *value, struct reason *reason);
/* What the graph says about an input, and its data if it is constant. */
bool node_input(const struct node *node, size_t index, struct tensor *tensor,
                struct reason *reason);
/* Is it of this type and these sizes? */
bool tensor_check(const struct tensor *tensor, const char *name, int element, const int64_t *sizes,
                  size_t rank, struct reason *reason);
bool value_read(const struct ort_api *api, const ort_value *value, struct tensor *tensor,
                struct reason *reason);

/* ---- plans.c: a plan for each bucket of T and N, its packed weights, scratch memory ---------- */

/* Addresses of the parameters of a plan, for ecornn_pack. */
struct params {
    const void *at[MOST_PARAMS], *added[MOST_PARAMS];
};
typedef bool params_of(void *owner, const ecornn_plan *plan, int count, struct params *params);

struct planned {
    ecornn_plan *plan;
    ecornn_sizes sizes;
    struct packed *packed; /* shared by plans; NULL: each run packs its own weights */
    const void *weights;
    int users; /* runs, and one for being in the list */
};

struct scratch {
    char *memory;
    size_t bytes;
};

struct plans {
    pthread_mutex_t lock;
    ecornn_device *device;
    struct planned *list[MOST_PLANS]; /* the last used one first */
    int count, spares;
    struct scratch spare[MOST_SCRATCH];
};

void plans_begin(struct plans *plans, ecornn_device *device);
void plans_end(struct plans *plans);
/* The plan for runs of these T and N, of a text without them.  find: NULL, or finds constant
 * parameters, which are packed once. */
ecornn_status plans_take(struct plans *plans, const char *text, ecornn_cell *cell, int64_t steps,
                         int64_t batch, params_of *find, void *owner, struct planned **taken);
void plans_return(struct plans *plans, struct planned *planned);
/* Memory for one run; NULL memory: there is none. */
struct scratch scratch_take(struct plans *plans, size_t bytes);
void scratch_return(struct plans *plans, struct scratch scratch);

/* ---- layer.c: a node that this provider computes ------------------------------------------- */

struct layer;
struct run;

/* An operator of ONNX. */
struct op {
    const char *domain, *name;
    const char *const *inputs; /* their names */
    /* Reads the node into a layer of zeros, whose node, device and precision are set; it writes
     * problem, cell, constant and what it needs itself. */
    bool (*describe)(struct layer *layer, struct reason *reason);
    bool (*run)(struct run *run);
    /* NULL, or packs constant weights before the first run. */
    bool (*prepare)(struct layer *layer, struct reason *reason);
};
const struct op *find_op(const char *domain, const char *name); /* NULL: not one of these */

struct layer {
    struct ort_compute face;
    const struct ort_api *api;
    ecornn_device *device;
    const char *precision; /* of F32 nodes: parts of a problem string; NULL: not said */
    const struct op *op;
    const struct node *node; /* until it is compiled */
    char name[128];
    int input[MOST_INPUTS], output[MOST_OUTPUTS]; /* places in the fused node; -1: not given */
    char problem[160];                            /* the plans' text, without T and N */
    ecornn_cell *cell;                            /* NULL: built-in */
    struct plans plans;
    bool constant; /* are all weights constant? */
    bool packs;    /* are they packed before the first run, and ONNX Runtime's copy freed? */
    int element;   /* of X */
    /* recurrent.c */
    void *zeros; /* for a bias that is not given */
    int kind, directions;
    bool batch_first, reset_after, has_peepholes, quantised;
    int64_t steps, batch, width, hidden; /* T and N if the graph says them, I, H */
    /* attention.c */
    int64_t heads, shared; /* of keys, and those that share a query */
    int64_t key, value, part[6];
};

struct layer *layer_create(const struct ort_api *api, ecornn_device *device, const char *precision,
                           const struct node *node, struct reason *reason);
void layer_free(struct layer *layer);
/* The words of problem strings for ONNX's number of a type, and its bytes; NULL: not supported. */
const char *words_of_element(int element, size_t *bytes);

/* ---- layer.c: a run ------------------------------------------------------------------------ */

struct run {
    struct layer *layer;
    ort_context *context;
    struct reason reason;
    int64_t steps, batch;
    ecornn_io io;
    struct planned *planned;
    struct params params;
    struct scratch scratch;
    size_t used;
};

/* Sizes and data of an input, if it is given; with element not 0 it must have these sizes. */
bool run_input(struct run *run, int index, struct tensor *tensor, int element, const int64_t *sizes,
               size_t rank);
/* Memory for an output; NULL if the graph does not use it. */
bool run_output(struct run *run, int index, void *data, const int64_t *sizes, size_t rank);
/* Takes a plan and memory for its run, with `more` bytes in up to eight pieces. */
bool run_begin(struct run *run, params_of *find, void *owner, size_t more);
void *run_memory(struct run *run, size_t bytes);
bool run_forward(struct run *run);

/* ---- operators ----------------------------------------------------------------------------- */

bool recurrent_describe(struct layer *layer, struct reason *reason);
bool recurrent_run(struct run *run);
bool recurrent_prepare(struct layer *layer, struct reason *reason);
bool attention_describe(struct layer *layer, struct reason *reason);
bool attention_run(struct run *run);

enum { KIND_LSTM, KIND_GRU, KIND_RNN };

struct activation; /* text.c */
struct chosen {
    const struct activation *is;
    float alpha, beta;
};

/* What the text of a recurrent cell depends on. */
struct equations {
    int kind;
    bool peepholes;          /* LSTM: input P is given */
    bool coupled;            /* LSTM: input_forget */
    bool reset_after;        /* GRU: linear_before_reset */
    float clip;              /* of what activations are given; 0: none */
    struct chosen chosen[3]; /* activations */
};
/* Reads the attributes of activations for all directions. */
bool read_activations(const struct node *node, int directions, struct equations *equations,
                      struct reason *reason);
/* A built-in cell's name, and "" as text, or the name in a text of its own [bytes]. */
const char *cell_of(const struct equations *equations, char *text, size_t bytes);

/* ---- provider.c ---------------------------------------------------------------------------- */

#define PROVIDER_NAME "EcornnExecutionProvider"

ort_status *provider_create(const struct ort_api *api, const struct ort_ep_api *ep,
                            const ort_options *options, const ort_logger *logger,
                            struct ort_provider **made);
void provider_release(struct ort_provider *face);
/* A status with "ecornn: " and the text. */
__attribute__((format(printf, 3, 4))) ort_status *failed(const struct ort_api *api, int code,
                                                         const char *format, ...);

#endif /* ECO_ORT_LAYER_H */

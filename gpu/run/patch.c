/*
 * Finds the words of a run in the parameters of a graph's kernels, and sets them; see patch.h.
 */
#include "gpu/run/patch.h"

#include <string.h>

/* Functions of the driver: those of the runtime do not know the kernels of other libraries. */
struct driver {
    CUresult (*get)(cudaGraphNode_t, CUDA_KERNEL_NODE_PARAMS *);
    CUresult (*set)(cudaGraphExec_t, cudaGraphNode_t, const CUDA_KERNEL_NODE_PARAMS *);
    CUresult (*function_info)(CUfunction, size_t, size_t *, size_t *);
    CUresult (*kernel_info)(CUkernel, size_t, size_t *, size_t *);
};

enum { MOST_PARAMS = 64, MOST_BYTES = ECO_ARGUMENT_BYTES };

/* A kernel's parameters, as it gets them: in one block of bytes. */
struct image {
    CUDA_KERNEL_NODE_PARAMS kernel;
    bool whole; /* the node takes the block, instead of an address for each */
    int params;
    size_t at[MOST_PARAMS]; /* [params] */
    size_t bytes;
    unsigned char byte[MOST_BYTES];
};

struct patch {
    uint32_t at; /* a byte of the block */
    int32_t word;
};

/* A node with words. A fill is one without parameters. */
struct node {
    struct node *next;
    cudaGraphNode_t node;
    bool fills;
    struct cudaMemsetParams fill;
    CUDA_KERNEL_NODE_PARAMS kernel;
    void **argument; /* kernel.kernelParams or kernel.extra */
    size_t bytes;
    int patches;
    struct patch *patch;  /* [patches] */
    unsigned char *block; /* [bytes] */
};

struct eco_patches {
    struct driver driver;
    struct node *first;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Stores the address of a function of the driver, which has it since this version of CUDA. */
static bool find(const char *name, unsigned version, void *function)
{
    void *symbol = NULL;
    const cudaError_t error = eco_driver_symbol(name, version, &symbol);
    memcpy(function, &symbol, sizeof symbol);
    return error == cudaSuccess && symbol != NULL;
}

static bool find_driver(struct driver *driver)
{
    return find("cuGraphKernelNodeGetParams", 12000, &driver->get) &&
           find("cuGraphExecKernelNodeSetParams", 12000, &driver->set) &&
           find("cuFuncGetParamInfo", 12040, &driver->function_info) &&
           find("cuKernelGetParamInfo", 12040, &driver->kernel_info);
}

/* Reads parameters that were given as one block. */
static bool read_whole(struct image *image)
{
    void **extra = image->kernel.extra;
    const void *from = NULL;
    image->whole = true;
    image->params = 0;
    image->bytes = 0;
    for (; extra != NULL && extra[0] != CU_LAUNCH_PARAM_END; extra += 2) {
        if (extra[0] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            from = extra[1];
        else if (extra[0] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            image->bytes = *(const size_t *)extra[1];
    }
    if (from == NULL || image->bytes > sizeof image->byte)
        return false;
    memcpy(image->byte, from, image->bytes);
    return true;
}

static bool read_kernel(const struct driver *driver, cudaGraphNode_t node, struct image *image)
{
    size_t at, bytes;
    if (driver->get(node, &image->kernel) != CUDA_SUCCESS)
        return false;
    const CUDA_KERNEL_NODE_PARAMS *kernel = &image->kernel;
    if (kernel->kernelParams == NULL)
        return read_whole(image);
    image->whole = false;
    image->bytes = 0;
    for (image->params = 0; image->params < MOST_PARAMS; image->params++) {
        const size_t k = (size_t)image->params;
        if ((kernel->func != NULL
                 ? driver->function_info(kernel->func, k, &at, &bytes)
                 : driver->kernel_info(kernel->kern, k, &at, &bytes)) != CUDA_SUCCESS)
            return true;
        if (at < image->bytes || at + bytes > sizeof image->byte)
            return false;
        memset(image->byte + image->bytes, 0, at - image->bytes);
        memcpy(image->byte + at, kernel->kernelParams[k], bytes);
        image->at[k] = at;
        image->bytes = at + bytes;
    }
    return false;
}

/* ---- comparing ------------------------------------------------------------------------------- */

/* Two captures of a run, and how their words differ. */
struct pair {
    const struct driver *driver;
    const struct eco_run_words *words; /* of the first */
    const uint64_t *shift;             /* [words->n] */
};

/* The word that a value holds, if it is `after` in the second capture; -1: none. */
static int word_of(const struct pair *pair, uint64_t value, uint64_t after)
{
    const uint64_t before = UINT64_C(1) << 32, behind = UINT64_C(1) << 40; /* bytes */
    const struct eco_run_words *words = pair->words;
    int i = 0;
    while (i < words->n && pair->shift[i] != after - value)
        i++;
    if (i == words->n)
        return -1;
    return i == words->seed ? (value == words->value[i] ? i : -1)
           : value - words->value[i] + before < before + behind ? i
                                                                : -1;
}

/* Lists the differences of two blocks; returns their number, or -1 for one that is no word. */
static int compare(const struct pair *pair, const struct image *a, const struct image *b,
                   struct patch *patch)
{
    int patches = 0;
    size_t at = 0;
    for (uint64_t value, after; at + sizeof value <= a->bytes; at += sizeof value) {
        memcpy(&value, a->byte + at, sizeof value);
        memcpy(&after, b->byte + at, sizeof after);
        if (value == after)
            continue;
        const int word = word_of(pair, value, after);
        if (word < 0)
            return -1;
        patch[patches++] = (struct patch){(uint32_t)at, word};
    }
    return memcmp(a->byte + at, b->byte + at, a->bytes - at) == 0 ? patches : -1;
}

static struct node *make_node(cudaGraphNode_t node, size_t bytes, int arguments, int patches,
                              const struct patch *patch)
{
    const size_t argument_bytes = (size_t)arguments * sizeof(void *),
                 patch_bytes = (size_t)patches * sizeof *patch;
    struct node *made = eco_alloc_zeroed(sizeof *made + argument_bytes + patch_bytes + bytes);
    if (made == NULL)
        return NULL;
    made->node = node;
    made->bytes = bytes;
    made->patches = patches;
    made->argument = (void **)(made + 1);
    made->patch = (struct patch *)(made->argument + arguments);
    made->block = (unsigned char *)(made->patch + patches);
    memcpy(made->patch, patch, patch_bytes);
    return made;
}

static struct node *make_kernel(cudaGraphNode_t node, const struct image *image, int patches,
                                const struct patch *patch)
{
    enum { EXTRA = 5 };
    struct node *made =
        make_node(node, image->bytes, image->whole ? EXTRA : image->params, patches, patch);
    if (made == NULL)
        return NULL;
    memcpy(made->block, image->byte, image->bytes);
    made->kernel = image->kernel;
    if (image->whole) {
        void *const extra[EXTRA] = {CU_LAUNCH_PARAM_BUFFER_POINTER, made->block,
                                    CU_LAUNCH_PARAM_BUFFER_SIZE, &made->bytes, CU_LAUNCH_PARAM_END};
        memcpy(made->argument, extra, sizeof extra);
        made->kernel.extra = made->argument;
        return made;
    }
    for (int k = 0; k < image->params; k++)
        made->argument[k] = made->block + image->at[k];
    made->kernel.kernelParams = made->argument;
    return made;
}

/* Adds a node if it has words; false: they cannot be found. */
static bool add_kernel(struct node **list, const struct pair *pair, cudaGraphNode_t node,
                       cudaGraphNode_t shifted)
{
    struct image a, b;
    struct patch patch[MOST_BYTES / sizeof(uint64_t)];
    if (!read_kernel(pair->driver, node, &a) || !read_kernel(pair->driver, shifted, &b) ||
        a.kernel.func != b.kernel.func || a.kernel.kern != b.kernel.kern || a.bytes != b.bytes)
        return false;
    const int patches = compare(pair, &a, &b, patch);
    if (patches > 0)
        *list = make_kernel(node, &a, patches, patch);
    return patches == 0 || (patches > 0 && *list != NULL);
}

static bool add_fill(struct node **list, const struct pair *pair, cudaGraphNode_t node,
                     cudaGraphNode_t shifted)
{
    struct cudaMemsetParams a, b;
    struct patch patch = {0, 0};
    if (cudaGraphMemsetNodeGetParams(node, &a) != cudaSuccess ||
        cudaGraphMemsetNodeGetParams(shifted, &b) != cudaSuccess)
        return false;
    if (a.dst == b.dst)
        return true;
    patch.word = word_of(pair, (uintptr_t)a.dst, (uintptr_t)b.dst);
    if (patch.word < 0 || (*list = make_node(node, 0, 0, 1, &patch)) == NULL)
        return false;
    (*list)->fills = true;
    (*list)->fill = a;
    return true;
}

static bool add_node(struct node **list, const struct pair *pair, cudaGraphNode_t node,
                     cudaGraphNode_t shifted)
{
    enum cudaGraphNodeType type, other;
    if (cudaGraphNodeGetType(node, &type) != cudaSuccess ||
        cudaGraphNodeGetType(shifted, &other) != cudaSuccess || type != other)
        return false;
    if (type == cudaGraphNodeTypeKernel)
        return add_kernel(list, pair, node, shifted);
    if (type == cudaGraphNodeTypeMemset)
        return add_fill(list, pair, node, shifted);
    return type == cudaGraphNodeTypeEmpty;
}

struct eco_patches *eco_gpu_find_patches(cudaGraph_t graph, cudaGraph_t shifted,
                                         const struct eco_run_words *words, const uint64_t *shift)
{
    size_t nodes = 0, others = 0;
    if (cudaGraphGetNodes(graph, NULL, &nodes) != cudaSuccess ||
        cudaGraphGetNodes(shifted, NULL, &others) != cudaSuccess || nodes != others)
        return NULL;
    struct eco_patches *patches = eco_alloc_zeroed(sizeof *patches);
    cudaGraphNode_t *node = eco_alloc_zeroed((2 * nodes + 1) * sizeof *node);
    bool good = patches != NULL && node != NULL && find_driver(&patches->driver) &&
                cudaGraphGetNodes(graph, node, &nodes) == cudaSuccess &&
                cudaGraphGetNodes(shifted, node + nodes, &others) == cudaSuccess;
    struct node **end = good ? &patches->first : NULL;
    for (size_t i = 0; good && i < nodes; i++) {
        const struct pair pair = {&patches->driver, words, shift};
        good = add_node(end, &pair, node[i], node[nodes + i]);
        end = *end != NULL ? &(*end)->next : end;
    }
    eco_free(node);
    if (good)
        return patches;
    eco_gpu_free_patches(patches);
    return NULL;
}

void eco_gpu_free_patches(struct eco_patches *patches)
{
    while (patches != NULL && patches->first != NULL) {
        struct node *first = patches->first;
        patches->first = first->next;
        eco_free(first);
    }
    eco_free(patches);
}

/* ---- setting --------------------------------------------------------------------------------- */

/* Adds to the words of a node; false: none of them changes. */
static bool add_words(struct node *node, const uint64_t *add)
{
    bool changes = false;
    for (int k = 0; k < node->patches; k++) {
        const struct patch *patch = &node->patch[k];
        uint64_t value;
        if (add[patch->word] == 0)
            continue;
        changes = true;
        if (node->fills) {
            node->fill.dst = (void *)((uintptr_t)node->fill.dst + add[patch->word]);
            continue;
        }
        memcpy(&value, node->block + patch->at, sizeof value);
        value += add[patch->word];
        memcpy(node->block + patch->at, &value, sizeof value);
    }
    return changes;
}

ecornn_status eco_gpu_set_words(struct eco_patches *patches, cudaGraphExec_t exec,
                                const uint64_t *add)
{
    ecornn_status status = ECORNN_OK;
    for (struct node *node = patches->first; status == ECORNN_OK && node != NULL;
         node = node->next) {
        if (!add_words(node, add))
            continue;
        if (node->fills)
            status = ECO_CUDA(cudaGraphExecMemsetNodeSetParams(exec, node->node, &node->fill));
        else
            status =
                eco_cuda_status(patches->driver.set(exec, node->node, &node->kernel) == CUDA_SUCCESS
                                    ? cudaSuccess
                                    : cudaErrorUnknown,
                                "cuGraphExecKernelNodeSetParams");
    }
    return status;
}

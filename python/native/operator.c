/*
 * Registers the operators with the torch of this process.
 */
#include "python/native/operator.h"

#include "python/native/cell.h"
#include "python/native/layer.h"
#include "python/native/lent.h"

enum { VERSION = 6 }; /* version of the interface between Python and this module */

/* Called by Python with the libecornn that it has opened.  Returns 0 if the operators are
 * registered; otherwise Python or libecornn has another version, this torch has no stable
 * interface, or another copy of this module has registered them. */
SHOWN int ecornn_torch_open(int version, void *opened);

static const struct {
    const char *name, *schema;
    torch_kernel *kernel;
} operators[] = {
    {"pack", "pack(int job, Tensor(a!) packed, Tensor[] weights) -> bool", operator_pack},
    {"forward", "forward(int job, int given, Tensor[] tensors, int seed) -> Tensor[]",
     operator_forward},
    {"backward", "backward(int job, int given, Tensor[] tensors, int seed) -> Tensor[]",
     operator_backward},
    {"cell", "cell(int kind, int given, Tensor[] tensors) -> Tensor[]", operator_cell},
    {"cell_backward", "cell_backward(int kind, int given, Tensor[] tensors) -> Tensor[]",
     operator_cell_backward},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

/* ecornn::layer, which Python overrides by kernels of its own. */
static bool define_layer(void)
{
    torch_library *made = NULL, *any = NULL;
    return torch.aoti_torch_library_init_def("ecornn", __FILE__, __LINE__, &made) == TORCH_OK &&
           torch.aoti_torch_library_def(made, LAYER_SCHEMA) == TORCH_OK &&
           torch.aoti_torch_library_init_impl("ecornn", "CompositeExplicitAutograd", __FILE__,
                                              __LINE__, &any) == TORCH_OK &&
           torch.torch_library_impl(any, "layer", operator_layer, TORCH_ABI) == TORCH_OK;
}

/* Once torch is there: when this module is loaded, or when Python opens it. */
static bool begin(void)
{
    static bool begun;
    if (!begun && torch_abi_find())
        begun = lent_begin() && define_layer();
    return begun;
}

__attribute__((constructor)) static void loaded(void)
{
    begin();
}

static bool define(void)
{
    torch_library *made = NULL;
    bool ok =
        torch.aoti_torch_library_init_def("ecornn_native", __FILE__, __LINE__, &made) == TORCH_OK;
    for (int i = 0; ok && i < OPERATORS; i++)
        ok = torch.aoti_torch_library_def(made, operators[i].schema) == TORCH_OK;
    return ok; /* kept for the life of the process, like torch's handles */
}

static bool implement(const char *key)
{
    torch_library *made = NULL;
    bool ok = torch.aoti_torch_library_init_impl("ecornn_native", key, __FILE__, __LINE__, &made) ==
              TORCH_OK;
    for (int i = 0; ok && i < OPERATORS; i++)
        ok = torch.torch_library_impl(made, operators[i].name, operators[i].kernel, TORCH_ABI) ==
             TORCH_OK;
    return ok;
}

int ecornn_torch_open(int version, void *opened)
{
    return version == VERSION && library_find(opened) && begin() && define() && implement("CPU") &&
                   implement("CUDA")
               ? 0
               : 1;
}

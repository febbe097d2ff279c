/*
 * Prints the source of a fused step for NVRTC, for problems whose kernels are not in the module.
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/jit/compile.h"

struct contents {
    const struct eco_problem *problem;
    int shape;
};

static void print(const void *what, struct eco_text *text)
{
    const struct contents *contents = what;
    const struct eco_problem *problem = contents->problem;
    char name[ECO_KERNEL_NAME];
    eco_fused_kernel_name(contents->shape, name);
    eco_text_add(text, "#ifndef ECO_FUSED_ALONE\n#define ECO_FUSED_ALONE 1\n");
    eco_print_problem(problem, text);
    eco_text_add(text, "%s#include \"gpu/fused_step/kernel.cuh\"\n",
                 problem->fast ? "#define ECO_FAST 1\n" : "");
    eco_text_add(text, "FUSED(extern \"C\", %s, 0, %d)\n#else\n", name, contents->shape);
    eco_print_cell(problem->cell, "forward", text);
    eco_text_add(text, "#endif\n");
}

char *eco_fused_text(const struct eco_problem *problem, int shape)
{
    return eco_print_text(print, &(struct contents){problem, shape});
}

void eco_fused_kernel_name(int shape, char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "shape_%d", shape);
}

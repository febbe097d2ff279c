/*
 * Prints the source of fused steps for NVRTC, for a custom cell or with resets.
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/jit/compile.h"

static void print(const void *what, struct eco_text *text)
{
    const struct eco_problem *problem = what;
    eco_text_add(text,
                 "#ifndef ECO_FUSED_ALONE\n#define ECO_FUSED_ALONE 1\n#define ECO_ROWS_%s 1\n%s%s"
                 "#include \"gpu/fused_step/kernel.cuh\"\n",
                 eco_type_macro(problem->type), problem->fast ? "#define ECO_FUSED_TF32 1\n" : "",
                 problem->resets ? "#define ECO_RESETS 1\n" : "");
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++)
        if (ECO_FUSED_MADE(problem->cell->lowered.n_accs, shape)) {
            char name[ECO_KERNEL_NAME];
            eco_fused_kernel_name(shape, name);
            eco_text_add(text, "FUSED(extern \"C\", %s, 0, %d)\n", name, shape);
        }
    eco_text_add(text, "#else\n");
    eco_print_cell(problem->cell, "forward", text);
    eco_text_add(text, "#endif\n");
}

char *eco_fused_text(const struct eco_problem *problem)
{
    return eco_print_text(print, problem);
}

void eco_fused_kernel_name(int shape, char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "shape_%d", shape);
}

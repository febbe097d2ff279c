/*
 * The text of fused steps of a cell that is not built in, as NVRTC takes it.
 */
#include "gpu/fused_step/fused_step.h"
#include "gpu/jit/compile.h"

struct contents {
    const struct ecornn_cell *cell;
    ecornn_type rows;
    bool fast;
};

static void print(const void *what, struct eco_text *text)
{
    const struct contents *contents = what;
    eco_text_add(text,
                 "#ifndef ECO_FUSED_ALONE\n#define ECO_FUSED_ALONE 1\n#define ECO_ROWS_%s 1\n%s"
                 "#include \"gpu/fused_step/kernel.cuh\"\n",
                 eco_type_macro(contents->rows),
                 contents->fast ? "#define ECO_FUSED_TF32 1\n" : "");
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++)
        if (ECO_FUSED_MADE(contents->cell->lowered.n_accs, shape)) {
            char name[ECO_KERNEL_NAME];
            eco_fused_kernel_name(shape, name);
            eco_text_add(text, "FUSED(extern \"C\", %s, 0, %d)\n", name, shape);
        }
    eco_text_add(text, "#else\n");
    eco_print_cell(contents->cell, "forward", text);
    eco_text_add(text, "#endif\n");
}

char *eco_fused_text(const struct ecornn_cell *cell, ecornn_type rows, bool fast)
{
    return eco_print_text(print, &(struct contents){cell, rows, fast});
}

void eco_fused_kernel_name(int shape, char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "shape_%d", shape);
}

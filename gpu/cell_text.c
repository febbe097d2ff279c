/*
 * The text of a cell that is not built in, as NVRTC takes it: the kernels of built-in cells around
 * its printed stages.
 */
#include "gpu/compile.h"

#include <string.h>

#include "common/type.h"

static void print(const struct ecornn_cell *cell, ecornn_type rows, struct eco_text *text)
{
    static const char *const name[ECO_TYPES] = {
        [ECORNN_F32] = "F32", [ECORNN_F64] = "F64", [ECORNN_BF16] = "BF16", [ECORNN_F16] = "F16"};
    eco_text_add(text,
                 "#define ECO_ROWS_%s 1\n#define CELL_LINKAGE extern \"C\"\n"
                 "#include \"gpu/cell.cuh\"\n",
                 name[rows]);
    const size_t used = text->length < text->size ? text->length : text->size;
    text->length +=
        eco_cell_emit_kernels(cell, text->size > 0 ? text->data + used : NULL, text->size - used);
}

char *eco_cell_text(const struct ecornn_cell *cell, ecornn_type rows)
{
    struct eco_text measured = {NULL, 0, 0};
    print(cell, rows, &measured);
    char *text = eco_alloc(measured.length + 1);
    if (text != NULL)
        print(cell, rows, &(struct eco_text){text, measured.length + 1, 0});
    return text;
}

void eco_cell_kernel_name(const struct ecornn_cell *cell, bool backward, int stage,
                          char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "%s_%s_%d_kernel", cell->recipe.name,
                 backward ? "backward" : "forward", stage);
    for (char *c = strchr(name, '-'); c != NULL; c = strchr(c, '-'))
        *c = '_';
}

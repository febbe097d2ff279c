/*
 * Prints the source of a custom cell for NVRTC: kernels around its printed stages.
 */
#include "gpu/jit/compile.h"

#include "common/type.h"

void eco_print_emitted(eco_emit_function *emit, const struct ecornn_cell *cell,
                       struct eco_text *text)
{
    const size_t used = text->length < text->size ? text->length : text->size;
    text->length += emit(cell, text->size > 0 ? text->data + used : NULL, text->size - used);
}

char *eco_print_text(eco_print_function *print, const void *contents)
{
    struct eco_text measured = {NULL, 0, 0};
    print(contents, &measured);
    char *text = eco_alloc(measured.length + 1);
    if (text != NULL)
        print(contents, &(struct eco_text){text, measured.length + 1, 0});
    return text;
}

/* ---- a kernel for each stage ----------------------------------------------------------------- */

void eco_print_problem(const struct eco_problem *problem, struct eco_text *text)
{
    static const char *const rows[ECO_TYPES] = {
        [ECORNN_F32] = "F32", [ECORNN_F64] = "F64", [ECORNN_BF16] = "BF16", [ECORNN_F16] = "F16"};
    eco_text_add(text, "#define ECO_ROWS_%s 1\n%s", rows[problem->type],
                 problem->resets ? "#define ECO_RESETS 1\n" : "");
}

struct stages {
    const struct eco_problem *problem;
    bool backward;
};

static void print_stages(const void *what, struct eco_text *text)
{
    const struct stages *const stages = what;
    eco_print_problem(stages->problem, text);
    eco_text_add(text,
                 "#define CELL_LINKAGE extern \"C\"\n#define CELL_ONLY_BACKWARD %d\n"
                 "#include \"gpu/cell/stage_loop.cuh\"\n",
                 stages->backward);
    eco_print_emitted(eco_cell_emit_kernels, stages->problem->cell, text);
}

char *eco_cell_text(const struct eco_problem *problem, bool backward)
{
    return eco_print_text(print_stages, &(struct stages){problem, backward});
}

void eco_print_symbol(const char *name, struct eco_text *text)
{
    for (; *name != '\0'; name++)
        eco_text_add(text, "%c", *name == '-' ? '_' : *name);
}

void eco_cell_kernel_name(const struct ecornn_cell *cell, bool backward, int stage,
                          char name[ECO_KERNEL_NAME])
{
    struct eco_text text = {name, ECO_KERNEL_NAME, 0};
    eco_print_symbol(cell->recipe.name, &text);
    eco_text_add(&text, "_%s_%d_kernel", backward ? "backward" : "forward", stage);
}

/* ---- other texts ----------------------------------------------------------------------------- */

static size_t emit_numbers(const struct ecornn_cell *cell, char *text, size_t size)
{
    return eco_cell_emit_numbers(cell, 0, text, size);
}

static size_t emit_means(const struct ecornn_cell *cell, char *text, size_t size)
{
    return eco_cell_emit_means(cell, false, text, size);
}

static size_t emit_means_back(const struct ecornn_cell *cell, char *text, size_t size)
{
    return eco_cell_emit_means(cell, true, text, size);
}

void eco_print_cell(const struct ecornn_cell *cell, const char *way, struct eco_text *text)
{
    if (cell->lowered.has_means) /* its stages run with floats and with dual numbers */
        eco_text_add(text, "#define vec auto\n");
    eco_print_emitted(eco_cell_emit, cell, text);
    if (cell->lowered.has_means)
        eco_text_add(text, "#undef vec\n");
    eco_text_add(text, "#define CELLS_PERSISTENT(CALL) ");
    eco_print_emitted(emit_numbers, cell, text);
    eco_text_add(text, "\n");
    if (cell->lowered.has_means) {
        eco_print_emitted(way[0] == 'b' ? emit_means_back : emit_means, cell, text);
        return;
    }
    eco_text_add(text, "#define CELLS_%s(CALL)", way);
    for (int k = 0; k < eco_cell_products(cell); k++) {
        eco_text_add(text, " CALL(0, %d, ", k);
        eco_print_symbol(cell->recipe.name, text);
        eco_text_add(text, "_%s_%d)", way, k);
    }
    eco_text_add(text, "\n");
}

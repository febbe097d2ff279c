/*
 * The text of a cell that is not built in, as NVRTC takes it: the kernels of built-in cells around
 * its printed stages.
 */
#include "gpu/jit/compile.h"

#include "common/type.h"
#include "gpu/fused_step/args.h"
#include "gpu/persistent/args.h"

/* What a text is made of. */
struct contents {
    const struct ecornn_cell *cell;
    ecornn_type rows;
    const struct eco_persistent_kind *kind;
    bool backward, fast;
    uint64_t shapes;
};
typedef size_t emit_function(const struct ecornn_cell *cell, char *text, size_t size);

static void add(struct eco_text *text, emit_function *emit, const struct ecornn_cell *cell)
{
    const size_t used = text->length < text->size ? text->length : text->size;
    text->length += emit(cell, text->size > 0 ? text->data + used : NULL, text->size - used);
}

static char *printed(const struct contents *contents,
                     void (*print)(const struct contents *contents, struct eco_text *text))
{
    struct eco_text measured = {NULL, 0, 0};
    print(contents, &measured);
    char *text = eco_alloc(measured.length + 1);
    if (text != NULL)
        print(contents, &(struct eco_text){text, measured.length + 1, 0});
    return text;
}

/* ---- a kernel for each stage ----------------------------------------------------------------- */

static const char *const type_name[ECO_TYPES] = {
    [ECORNN_F32] = "F32", [ECORNN_F64] = "F64", [ECORNN_BF16] = "BF16", [ECORNN_F16] = "F16"};

static void print_stages(const struct contents *contents, struct eco_text *text)
{
    eco_text_add(text,
                 "#define ECO_ROWS_%s 1\n#define CELL_LINKAGE extern \"C\"\n"
                 "#include \"gpu/cell/stage_loop.cuh\"\n",
                 type_name[contents->rows]);
    add(text, eco_cell_emit_kernels, contents->cell);
}

char *eco_cell_text(const struct ecornn_cell *cell, ecornn_type rows)
{
    return printed(&(struct contents){.cell = cell, .rows = rows}, print_stages);
}

static void add_symbol(struct eco_text *text, const char *name)
{
    for (; *name != '\0'; name++)
        eco_text_add(text, "%c", *name == '-' ? '_' : *name);
}

void eco_cell_kernel_name(const struct ecornn_cell *cell, bool backward, int stage,
                          char name[ECO_KERNEL_NAME])
{
    struct eco_text text = {name, ECO_KERNEL_NAME, 0};
    add_symbol(&text, cell->recipe.name);
    eco_text_add(&text, "_%s_%d_kernel", backward ? "backward" : "forward", stage);
}

/* ---- what such texts have themselves --------------------------------------------------------- */

static size_t emit_numbers(const struct ecornn_cell *cell, char *text, size_t size)
{
    return eco_cell_emit_numbers(cell, 0, text, size);
}

/* The functions of the cell's first stages, and lists of them as the module's cells have. */
static void print_cell(const struct ecornn_cell *cell, const char *way, struct eco_text *text)
{
    enum { STAGES = ECO_PERSISTENT_PRODUCTS };
    add(text, eco_cell_emit, cell);
    for (int k = 0; k < STAGES; k++) {
        eco_text_add(text, "#define CELLS_%s_%d(CALL)", way, k);
        if (k < eco_cell_products(cell)) {
            eco_text_add(text, " CALL(0, ");
            add_symbol(text, cell->recipe.name);
            eco_text_add(text, "_%s_%d)", way, k);
        }
        eco_text_add(text, "\n");
    }
    eco_text_add(text, "#define CELLS_PERSISTENT(CALL) ");
    add(text, emit_numbers, cell);
    eco_text_add(text, "\n");
}

/* ---- a kernel for a step --------------------------------------------------------------------- */

static void print_fused(const struct contents *contents, struct eco_text *text)
{
    eco_text_add(text,
                 "#ifndef ECO_FUSED_ALONE\n#define ECO_FUSED_ALONE 1\n#define ECO_ROWS_%s 1\n%s"
                 "#include \"gpu/fused_step/kernel.cuh\"\n",
                 type_name[contents->rows], contents->fast ? "#define ECO_FUSED_TF32 1\n" : "");
    for (int shape = 0; shape < ECO_FUSED_SHAPES; shape++)
        if (ECO_FUSED_MADE(contents->cell->lowered.n_accs, shape)) {
            char name[ECO_KERNEL_NAME];
            eco_fused_kernel_name(shape, name);
            eco_text_add(text, "FUSED(extern \"C\", %s, 0, %d)\n", name, shape);
        }
    eco_text_add(text, "#else\n");
    print_cell(contents->cell, "forward", text);
    eco_text_add(text, "#endif\n");
}

char *eco_fused_text(const struct ecornn_cell *cell, ecornn_type rows, bool fast)
{
    return printed(&(struct contents){.cell = cell, .rows = rows, .fast = fast}, print_fused);
}

void eco_fused_kernel_name(int shape, char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "shape_%d", shape);
}

/* ---- a kernel for all steps ------------------------------------------------------------------ */

/* The text includes itself, as the kernels do that come with the module. */
static void print_persistent(const struct contents *contents, struct eco_text *text)
{
    const struct eco_persistent_kind *kind = contents->kind;
    const char *way = contents->backward ? "backward" : "forward";
    eco_text_add(text,
                 "#ifndef ECO_%s\n#define ECO_ROWS_%s 1\n#define ECO_OPERAND_%s 1\n"
                 "#define ECO_%s 1\n%s"
                 "#include \"gpu/persistent/%s_kernels.cuh\"\n",
                 kind->accuracy, kind->rows, kind->operand, kind->accuracy,
                 kind->scaled ? "#define ECO_SCALED 1\n" : "", way);
    for (int place = 0; place < ECO_PERSISTENT_SHAPES; place++)
        if (contents->shapes >> place & 1) {
            char name[ECO_KERNEL_NAME];
            eco_persistent_kernel_name(place, name);
            eco_text_add(text, "PERSISTENT_KERNEL(extern \"C\", %s, 0, %d, %d, %d)\n", name,
                         ECO_PERSISTENT_SHIFT_OF(place), ECO_PERSISTENT_CLUSTER_LOG2_OF(place),
                         ECO_PERSISTENT_MAINLOOP_OF(place));
        }
    eco_text_add(text, "#else\n");
    print_cell(contents->cell, way, text);
    eco_text_add(text, "#endif\n");
}

char *eco_persistent_text(const struct ecornn_cell *cell, const struct eco_persistent_kind *kind,
                          bool backward, uint64_t shapes)
{
    return printed(
        &(struct contents){.cell = cell, .kind = kind, .backward = backward, .shapes = shapes},
        print_persistent);
}

void eco_persistent_kernel_name(int place, char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "units_%d_blocks_%d_form_%d",
                 1 << ECO_PERSISTENT_SHIFT_OF(place), 1 << ECO_PERSISTENT_CLUSTER_LOG2_OF(place),
                 ECO_PERSISTENT_MAINLOOP_OF(place));
}

/*
 * Prints the source of a cell's scan for NVRTC: numbers, words, the printed text, a kernel.
 */
#include "gpu/scan/scan.h"

#include "gpu/jit/compile.h"

struct contents {
    const struct ecornn_cell *cell;
    ecornn_type rows;
    bool backward;
};

static void add(struct eco_text *text,
                size_t (*emit)(const struct ecornn_cell *cell, char *text, size_t size),
                const struct ecornn_cell *cell)
{
    const size_t used = text->length < text->size ? text->length : text->size;
    text->length += emit(cell, text->size > 0 ? text->data + used : NULL, text->size - used);
}

static void add_function(struct eco_text *text, const char *macro, const char *cell,
                         const char *way)
{
    eco_text_add(text, "#define %s ", macro);
    for (; *cell != '\0'; cell++)
        eco_text_add(text, "%c", *cell == '-' ? '_' : *cell);
    eco_text_add(text, "_%s\n", way);
}

static void print(const void *what, struct eco_text *text)
{
    const struct contents *contents = what;
    const struct ecornn_cell *cell = contents->cell;
    const struct eco_lowered *lowered = &cell->lowered;
    eco_text_add(text,
                 "#define ECO_ROWS_%s 1\n#define SCAN_ACCS %d\n#define SCAN_DACCS %d\n"
                 "#define SCAN_SAVES %d\n#define SCAN_STATES %d\n#define SCAN_LINEAR %u\n",
                 eco_type_macro(contents->rows), lowered->n_accs,
                 lowered->n_accs + lowered->n_extra, lowered->n_saves, cell->recipe.n_states,
                 lowered->linear.states);
    add_function(text, "SCAN_FORWARD", cell->recipe.name, "forward_0");
    add_function(text, "SCAN_BACKWARD", cell->recipe.name, "backward_0");
    add_function(text, "SCAN_LINEAR_FORWARD", cell->recipe.name, "scan_0");
    add_function(text, "SCAN_LINEAR_BACKWARD", cell->recipe.name, "scan_1");
    eco_text_add(text, "#include \"gpu/scan/words.cuh\"\n");
    add(text, eco_cell_emit, cell);
    add(text, eco_cell_emit_scan, cell);
    eco_text_add(text, "#include \"gpu/scan/%s.cuh\"\n",
                 contents->backward ? "backward" : "forward");
}

char *eco_scan_text(const struct ecornn_cell *cell, ecornn_type rows, bool backward)
{
    return eco_print_text(print, &(struct contents){cell, rows, backward});
}

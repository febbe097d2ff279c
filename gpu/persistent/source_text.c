/*
 * Prints the source of a persistent kernel for NVRTC, for problems whose kernels are not in the
 * module.
 */
#include "gpu/persistent/persistent.h"

/* The text includes the same headers as the kernels of the module. */
static void print(const void *what, struct eco_text *text)
{
    const struct eco_persistent_source *contents = what;
    const struct eco_persistent_kind *kind = contents->kind;
    const char *way = contents->backward ? "backward" : "forward";
    eco_text_add(text, "#ifndef ECO_%s\n#define ECO_OPERAND_%s 1\n#define ECO_%s 1\n%s",
                 kind->accuracy, kind->operand, kind->accuracy,
                 kind->scaled ? "#define ECO_SCALED 1\n" : "");
    eco_print_problem(contents->problem, text);
    if (contents->problem->cell->lowered
            .has_means) /* blocks wait for its text several times in a step */
        eco_text_add(text, "#define CELL_WITHOUT_BRANCHES 1\n");
    const struct eco_persistent_usual *usual = &contents->usual;
    eco_text_add(text, "#define PERSISTENT_USUAL {%d, %d, %d, %d, %d, {%d, %d}}\n", usual->even,
                 usual->tiles, usual->rounds, usual->pieces, usual->parts, usual->k_blocks[0],
                 usual->k_blocks[1]);
    eco_text_add(text, "#define PERSISTENT_BACKWARD %d\n#include \"gpu/persistent/kernels.cuh\"\n",
                 contents->backward);
    char name[ECO_KERNEL_NAME];
    eco_persistent_kernel_name(contents->place, name);
    eco_text_add(text, "PERSISTENT_KERNEL(extern \"C\", %s, 0, %d, %d, %d, %d)\n#else\n", name,
                 eco_persistent_shift_of(contents->place),
                 eco_persistent_cluster_log2_of(contents->place),
                 eco_persistent_mainloop_of(contents->place), contents->kept);
    eco_print_cell(contents->problem->cell, way, text);
    eco_text_add(text, "#endif\n");
}

char *eco_persistent_text(const struct eco_persistent_source *source)
{
    return eco_print_text(print, source);
}

void eco_persistent_kernel_name(int place, char name[ECO_KERNEL_NAME])
{
    eco_text_add(&(struct eco_text){name, ECO_KERNEL_NAME, 0}, "units_%d_blocks_%d_mainloop_%d",
                 1 << eco_persistent_shift_of(place), 1 << eco_persistent_cluster_log2_of(place),
                 eco_persistent_mainloop_of(place));
}

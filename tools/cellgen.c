/*
 * cellgen: cell files to C, during the build.
 *     cellgen builtin FILE...   the texts, for common/cell/builtin.c
 *     cellgen library FILE...   the same, for common/cell/library.c
 *     cellgen kernels FILE...   the stages, for a kernel template (doc/cells.md)
 *     cellgen print FILE...     the stages of a cell, for people
 * Links the compiler of cells and nothing else.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cell/cell.h"

struct source {
    char text[ECO_MAX_TEXT + 1];
    struct ecornn_cell cell;
    char symbol[ECO_MAX_NAME]; /* the cell's name in C */
};

static int read_source(struct source *source, const char *path)
{
    struct eco_cell_error error;
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    const size_t length = fread(source->text, 1, sizeof source->text, file);
    fclose(file);
    if (length == sizeof source->text || memchr(source->text, 0, length) != NULL) {
        fprintf(stderr, "%s: a cell's text has no zero byte and at most %d bytes\n", path,
                ECO_MAX_TEXT);
        return 1;
    }
    source->text[length] = 0;
    if (!eco_cell_compile(&source->cell, source->text, &error)) {
        fprintf(stderr, "%s:%d:%d: %s\n", path, error.line, error.column, error.message);
        return 1;
    }
    for (size_t i = 0; i < sizeof source->symbol; i++)
        source->symbol[i] = source->cell.recipe.name[i] == '-' ? '_' : source->cell.recipe.name[i];
    return 0;
}

static int print_stages(const struct source *source,
                        size_t (*emit)(const struct ecornn_cell *cell, char *text, size_t size))
{
    const size_t size = emit(&source->cell, NULL, 0) + 1;
    char *text = malloc(size);
    if (text == NULL)
        return 1;
    emit(&source->cell, text, size);
    fputs(text, stdout);
    free(text);
    return 0;
}

static void print_string(const char *text)
{
    for (; *text != 0; text++) {
        if (*text == '\n')
            fputs(text[1] == 0 ? "\\n" : "\\n\"\n     \"", stdout);
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if (*text >= ' ' && *text <= '~')
            putchar(*text);
        else
            printf("\\%03o", (unsigned)(unsigned char)*text);
    }
}

static int print_texts(const struct source *source, int n, const char *type)
{
    printf("/* Printed by cellgen: names and texts of cells. */\nstatic const %s = {\n", type);
    for (int i = 0; i < n; i++) {
        printf("    {\"%s\",\n     \"", source[i].cell.recipe.name);
        print_string(source[i].text);
        puts("\"},");
    }
    puts("};");
    return 0;
}

static int print_builtin(const struct source *source, int n)
{
    return print_texts(source, n, "struct {\n    const char *name, *text;\n} builtin_text[]");
}

static int print_library(const struct source *source, int n)
{
    return print_texts(source, n, "struct eco_library_text library_text[]");
}

static void print_row(const struct source *source, const char *way, int stages)
{
    printf("     .%s = {", way);
    for (int k = 0; k < stages; k++)
        printf("%sCELL_KERNEL(%s_%s_%d)", k > 0 ? ", " : "", source->symbol, way, k);
    printf("}");
}

/* Prints CALL(index in the list of cells, stage, function) for every stage of every cell. */
static void print_list(const struct source *source, int n, int backward)
{
    const char *way = backward ? "backward" : "forward";
    printf("#define CELLS_%s(CALL)", way);
    for (int i = 0; i < n; i++) {
        const struct eco_lowered *lowered = &source[i].cell.lowered;
        for (int k = 0; k < (backward ? lowered->n_backward : lowered->n_forward); k++)
            printf(" \\\n    CALL(%d, %d, %s_%s_%d)", i, k, source[i].symbol, way, k);
    }
    puts("");
}

/* Prints a list of all cells that can stay on a chip, and an entry for each by its name. */
static void print_numbers(const struct source *source, int n)
{
    char numbers[256];
    printf("#define CELLS_PERSISTENT(CALL)");
    for (int i = 0; i < n; i++)
        if (eco_cell_products(&source[i].cell) > 0)
            printf(" CELLS_OF_%s(CALL)", source[i].symbol);
    puts("");
    for (int i = 0; i < n; i++)
        if (eco_cell_products(&source[i].cell) > 0) {
            eco_cell_emit_numbers(&source[i].cell, i, numbers, sizeof numbers);
            printf("#define CELLS_OF_%s(CALL) %s\n", source[i].symbol, numbers);
        }
}

/* Prints the stages of a scan for CPUs. A GPU compiles its own at run time. */
static int print_scan(const struct source *source)
{
    const struct eco_linear *linear = &source->cell.lowered.linear;
    if (!linear->scans)
        return 0;
    if (linear->n_factors > source->cell.recipe.n_states) {
        fprintf(stderr, "%s: built-in cells with coupled states have no kernels of a scan\n",
                source->cell.recipe.name);
        return 1;
    }
    puts("#ifdef CELL_SCANS");
    const int failed = print_stages(source, eco_cell_emit_scan_kernels);
    puts("#endif");
    return failed;
}

static int print_kernels(const struct source *source, int n)
{
    puts("/* Printed by cellgen: the stages of the built-in cells, see doc/cells.md. */");
    for (int i = 0; i < n; i++)
        if (print_stages(&source[i], eco_cell_emit_kernels) != 0 || print_scan(&source[i]) != 0)
            return 1;
    print_list(source, n, 0);
    print_list(source, n, 1);
    print_numbers(source, n);
    puts("#ifdef CELL_KERNEL\nstatic const struct eco_cell_kernels CELL(cells)[] = {");
    for (int i = 0; i < n; i++) {
        printf("    {\n");
        print_row(&source[i], "forward", source[i].cell.lowered.n_forward);
        printf(",\n");
        print_row(&source[i], "backward", source[i].cell.lowered.n_backward);
        if (source[i].cell.lowered.linear.scans) {
            puts(",\n#ifdef CELL_SCANS");
            print_row(&source[i], "scan", 2);
            puts("\n#endif");
        }
        printf("},\n");
    }
    puts("};\n#endif");
    return 0;
}

/* Prints the meaning of accumulators, operands and saved values, by the names in the text. */
static void print_legend(const struct source *source)
{
    const struct eco_recipe *recipe = &source->cell.recipe;
    const struct eco_lowered *lowered = &source->cell.lowered;
    for (int i = 0; i < lowered->n_accs; i++) {
        const struct eco_accumulator *acc = &lowered->acc[i];
        printf("/* acc %d:", i);
        if (acc->input >= 0)
            printf(" %s x", recipe->param[acc->input].name);
        for (int k = 0; k < lowered->n_operands; k++)
            if (acc->recurrent[k] >= 0)
                printf(" %s operand %d", recipe->param[acc->recurrent[k]].name, k);
        if (acc->vector >= 0)
            printf(" %s", recipe->param[acc->vector].name);
        printf(", from stage %d */\n", acc->stage);
    }
    for (int k = 0; k < lowered->n_operands; k++) {
        const struct eco_operand *operand = &lowered->operand[k];
        if (operand->state >= 0)
            printf("/* operand %d: state %s */\n", k, recipe->state[operand->state]);
        else
            printf("/* operand %d: slot %d, before forward stage %d, backward stage %d */\n", k,
                   operand->slot, operand->forward, operand->backward);
    }
    printf("/* %d saved, %d extra vectors, %d + %d means%s */\n", lowered->n_saves,
           lowered->n_extra, lowered->n_means[0], lowered->n_means[1],
           lowered->projectable ? ", projectable" : "");
}

static int print_for_people(const struct source *source, int n)
{
    for (int i = 0; i < n; i++) {
        print_legend(&source[i]);
        if (print_stages(&source[i], eco_cell_emit) != 0)
            return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *word;
        int (*print)(const struct source *source, int n);
    } command[] = {{"builtin", print_builtin},
                   {"library", print_library},
                   {"kernels", print_kernels},
                   {"print", print_for_people}};
    const int n = argc - 2;
    if (n < 1) {
        fprintf(stderr, "usage: cellgen builtin|library|kernels|print FILE...\n");
        return 2;
    }
    struct source *source = calloc((size_t)n, sizeof *source);
    int status = 2;
    if (source == NULL)
        return 1;
    for (int i = 0; i < n; i++)
        if (read_source(&source[i], argv[i + 2]) != 0)
            goto out;
    for (size_t i = 0; i < sizeof command / sizeof *command; i++)
        if (strcmp(argv[1], command[i].word) == 0)
            status = command[i].print(source, n);
    if (status == 2)
        fprintf(stderr, "cellgen: unknown command '%s'\n", argv[1]);
    if (fflush(stdout) != 0)
        status = 1;
out:
    free(source);
    return status;
}

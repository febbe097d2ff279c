/*
 * Prints the stages of a cell in the neutral vocabulary that every kernel template defines: one
 * function per stage, one line per instruction, the same instructions that the interpreter
 * executes.
 */
#include "common/cell/cell.h"

#include <inttypes.h>
#include <math.h>

#include "common/util.h"

/* Words with which a stage reads memory (values) and writes it (statements). */
static const char *const load_word[ECO_OPCODES] = {
    [ECO_OP_STATE] = "load_state", [ECO_OP_VECTOR] = "load_vector",
    [ECO_OP_MEAN] = "load_mean",   [ECO_OP_DNEXT] = "load_dnext",
    [ECO_OP_ACC] = "load_acc",     [ECO_OP_DOPERAND] = "load_doperand",
    [ECO_OP_NEXT] = "load_next",   [ECO_OP_SAVED] = "load_saved",
};
static const char *const store_word[ECO_OPCODES] = {
    [ECO_OP_STORE_OPERAND] = "store_operand", [ECO_OP_STORE_MEAN] = "store_mean",
    [ECO_OP_STORE_SAVE] = "store_save",       [ECO_OP_STORE_NEXT] = "store_next",
    [ECO_OP_STORE_DACC] = "store_dacc",       [ECO_OP_STORE_DSTATE] = "store_dstate",
    [ECO_OP_STORE_COUPLED] = "store_coupled",
};

const char *eco_cell_word(int op)
{
    return load_word[op]    ? load_word[op]
           : store_word[op] ? store_word[op]
                            : eco_opcode_info[op].name;
}

/* Prints a number exactly and independently of the locale: an integer times a power of two. */
static void emit_number(struct eco_text *text, double value)
{
    int exponent;
    int64_t integer = (int64_t)ldexp(frexp(fabs(value), &exponent), 53);
    exponent -= 53;
    for (; integer != 0 && integer % 2 == 0; exponent++)
        integer /= 2;
    eco_text_add(text, "%s0x%" PRIx64 "p%+d", signbit(value) ? "-" : "", integer,
                 integer == 0 ? 0 : exponent);
}

static void emit_value(struct eco_text *text, const struct eco_node *code)
{
    const int16_t argument[3] = {code->a, code->b, code->c};
    if (load_word[code->op] != NULL) {
        eco_text_add(text, "%s(at, %d)", load_word[code->op], code->index);
        return;
    }
    eco_text_add(text, "v_%s(", eco_opcode_info[code->op].name);
    if (code->op == ECO_OP_BERNOULLI)
        eco_text_add(text, "at, %d, ", code->index);
    if (code->op == ECO_OP_BERNOULLI || code->op == ECO_OP_CONST)
        emit_number(text, code->value);
    for (int i = 0; i < eco_opcode_info[code->op].arguments; i++)
        eco_text_add(text, "%sv%d", i > 0 ? ", " : "", argument[i]);
    eco_text_add(text, ")");
}

static void emit_name(struct eco_text *text, const char *name)
{
    for (; *name != 0; name++)
        eco_text_add(text, "%c", *name == '-' ? '_' : *name);
}

static void emit_line(struct eco_text *text, const struct eco_program *program, int i)
{
    const struct eco_node *code = &program->code[i];
    if (code->op == ECO_OP_STORE_LINEAR) {
        eco_text_add(text, "    store_linear(at, %d, v%d, v%d);\n", code->index, code->a, code->b);
        return;
    }
    if (store_word[code->op] != NULL) {
        eco_text_add(text, "    %s(at, %d, v%d);\n", store_word[code->op], code->index, code->a);
        return;
    }
    eco_text_add(text, "    const vec v%d = ", i);
    emit_value(text, code);
    eco_text_add(text, ";\n");
}

/* Prints loads first: a GPU's compiler does not move them ahead of a division, and waits. */
static void emit_stage(struct eco_text *text, const char *name, const char *pass, int stage,
                       const struct eco_program *program)
{
    eco_text_add(text, "CELL_FUNCTION void CELL(");
    emit_name(text, name);
    eco_text_add(text, "_%s_%d)(CELL_AT at)\n{\n", pass, stage);
    for (int loads = 1; loads >= 0; loads--)
        for (int i = 0; i < program->n; i++)
            if ((load_word[program->code[i].op] != NULL) == loads)
                emit_line(text, program, i);
    eco_text_add(text, "}\n\n");
}

size_t eco_cell_emit(const struct ecornn_cell *cell, char *text, size_t size)
{
    const struct eco_lowered *lowered = &cell->lowered;
    struct eco_text out = {text, size, 0};
    for (int k = 0; k < lowered->n_forward; k++)
        emit_stage(&out, cell->recipe.name, "forward", k, &lowered->forward[k]);
    for (int k = 0; k < lowered->n_backward; k++)
        emit_stage(&out, cell->recipe.name, "backward", k, &lowered->backward[k]);
    return out.length;
}

size_t eco_cell_emit_scan(const struct ecornn_cell *cell, char *text, size_t size)
{
    struct eco_text out = {text, size, 0};
    for (int pass = 0; pass < 2; pass++)
        emit_stage(&out, cell->recipe.name, "scan", pass, &cell->lowered.linear.program[pass]);
    return out.length;
}

static int means_of(const struct eco_program *program)
{
    int means = 0;
    for (int i = 0; i < program->n; i++)
        if (program->code[i].op == ECO_OP_STORE_MEAN && program->code[i].index >= means)
            means = program->code[i].index + 1;
    return means;
}

static void emit_include(struct eco_text *text, const char *name, const char *pass, int stage,
                         const struct eco_program *program)
{
    eco_text_add(text, "#ifdef CELL_TEMPLATE\n#define CELL_STAGE ");
    emit_name(text, name);
    eco_text_add(text,
                 "_%s_%d\n#define CELL_BACKWARD %d\n#define CELL_MEANS %d\n"
                 "#include CELL_TEMPLATE\n"
                 "#undef CELL_STAGE\n#undef CELL_BACKWARD\n#undef CELL_MEANS\n#endif\n",
                 pass, stage, pass[0] == 'b', means_of(program));
}

size_t eco_cell_emit_kernels(const struct ecornn_cell *cell, char *text, size_t size)
{
    const struct eco_lowered *lowered = &cell->lowered;
    struct eco_text out = {text, size, eco_cell_emit(cell, text, size)};
    for (int k = 0; k < lowered->n_forward; k++)
        emit_include(&out, cell->recipe.name, "forward", k, &lowered->forward[k]);
    for (int k = 0; k < lowered->n_backward; k++)
        emit_include(&out, cell->recipe.name, "backward", k, &lowered->backward[k]);
    return out.length;
}

size_t eco_cell_emit_scan_kernels(const struct ecornn_cell *cell, char *text, size_t size)
{
    struct eco_text out = {text, size, eco_cell_emit_scan(cell, text, size)};
    for (int pass = 0; pass < 2; pass++)
        emit_include(&out, cell->recipe.name, "scan", pass, &cell->lowered.linear.program[pass]);
    return out.length;
}

/* For each accumulator, which of those with operand o it is. */
static int emit_rows(struct eco_text *text, const struct eco_lowered *lowered, int o)
{
    int rows = 0;
    for (int a = 0; a < lowered->n_accs; a++) {
        const bool has = lowered->acc[a].recurrent[o] >= 0;
        eco_text_add(text, ", %d", has ? rows : -1);
        rows += has;
    }
    return rows;
}

/* A call of a program in a stage of a pass; -1: none. */
static void emit_call(struct eco_text *text, const struct ecornn_cell *cell, const char *way,
                      int stage, int program)
{
    if (program < 0)
        return;
    eco_text_add(text, " CALL(0, %d, ", stage);
    emit_name(text, cell->recipe.name);
    eco_text_add(text, "_%s_%d)", way, program);
}

static void emit_list(struct eco_text *text, const char *name,
                      const struct eco_joined_stages *joined, int which)
{
    eco_text_add(text, "#define CELLS_%s ", name);
    for (int m = 0; m < joined->n_means || m == 0; m++) {
        const struct eco_joined_mean *mean = &joined->mean[m];
        eco_text_add(text, m > 0 ? ", " : "");
        if (which < 2)
            eco_text_add(text, "%d", which == 0 ? mean->stage : mean->with);
        else
            emit_number(text, mean->curve);
    }
    eco_text_add(text, "\n");
}

size_t eco_cell_emit_means(const struct ecornn_cell *cell, bool backward, char *text, size_t size)
{
    struct eco_text out = {text, size, 0};
    struct eco_joined_stages joined;
    eco_cell_join_stages(&cell->lowered, backward, &joined);
    const char *way = backward ? "backward" : "forward";
    eco_text_add(&out, "#define CELLS_%s(CALL)", way);
    for (int k = 0; k < joined.n; k++) {
        emit_call(&out, cell, way, k, joined.stage[k].again);
        emit_call(&out, cell, way, k, joined.stage[k].program);
    }
    eco_text_add(&out, "\n#define CELLS_AHEAD(CALL)");
    for (int k = 0; k < joined.n; k++)
        emit_call(&out, cell, way, k, joined.stage[k].ahead);
    eco_text_add(&out, "\n#define CELLS_STAGES %d\n#define CELLS_MEANS %d\n", joined.n,
                 joined.n_means);
    emit_list(&out, "MEAN_STAGES", &joined, 0);
    emit_list(&out, "MEAN_WITH", &joined, 1);
    emit_list(&out, "MEAN_CURVES", &joined, 2);
    return out.length;
}

size_t eco_cell_emit_numbers(const struct ecornn_cell *cell, int place, char *text, size_t size)
{
    const struct eco_lowered *lowered = &cell->lowered;
    struct eco_text out = {text, size, 0}, none = {NULL, 0, 0};
    eco_text_add(&out, "CALL(%d, %d, %d, %d", place, lowered->n_accs, cell->recipe.n_states,
                 lowered->n_saves);
    for (int o = 0; o < 2; o++)
        eco_text_add(&out, ", %d", o < lowered->n_operands ? emit_rows(&none, lowered, o) : 0);
    for (int o = 0; o < lowered->n_operands; o++)
        emit_rows(&out, lowered, o);
    eco_text_add(&out, ")");
    return out.length;
}

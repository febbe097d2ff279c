/*
 * Chooses the tiles of a cell's scan, or how many steps are read at once where units are apart; and
 * prints its source for NVRTC: numbers, words, the printed text, a kernel.
 */
#include "gpu/scan/scan.h"

#include "gpu/jit/compile.h"

#include <inttypes.h>

/* ---- tiles ----------------------------------------------------------------------------------- */

/* Values that a thread keeps in registers for a step. A thread has matrices for its two units, not
 * for each step; of 16 factors, the most there are, it then has room for half as many steps. */
static int numbers_of(const struct eco_scan_source *source)
{
    const struct eco_problem *problem = source->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const int states = problem->cell->recipe.n_states, given = problem->states ? states - 1 : 0,
              coupled = (lowered->linear.n_factors - states + 1) / 2;
    return coupled +
           (source->backward ? lowered->n_saves + 2 * states + given : lowered->n_accs + states);
}

bool eco_scan_is_apart(const struct ecornn_cell *cell)
{
    const struct eco_lowered *lowered = &cell->lowered;
    return !lowered->linear.scans && lowered->n_operands == 0 && lowered->n_forward == 1 &&
           lowered->n_backward == 1 && !lowered->has_means;
}

/* Registers have what a thread reads of two times as many steps. Blocks are small, so that a few
 * rows have some for each multiprocessor; six leave a thread 168 registers. */
static struct eco_scan_tiles apart_tiles(const struct eco_scan_source *source)
{
    enum { FEW = 12, SOME = 20 }; /* bytes that are read for a step */
    const struct eco_problem *problem = source->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const struct eco_program *back = &lowered->backward[0];
    const int sum = (int)eco_type_bytes(eco_type_sum(problem->type)),
              given = problem->states ? problem->cell->recipe.n_states : 0;
    int reads = source->backward ? 1 + given + lowered->n_saves : lowered->n_accs;
    for (int i = 0; i < back->n && source->backward; i++)
        reads += back->code[i].op == ECO_OP_STATE || back->code[i].op == ECO_OP_NEXT;
    const int steps = reads * sum <= FEW ? 8 : reads * sum <= SOME ? 4 : 2;
    return (struct eco_scan_tiles){.steps = steps, .warps = ECO_SCAN_WIDE, .blocks = 24 / sum};
}

/* Few steps of few numbers leave room for four blocks, which hide each other's memory; other steps
 * are as many as two blocks have room for. Doubles take twice the registers, and matrices of many
 * doubles leave shared memory for half as many warps. */
struct eco_scan_tiles eco_scan_tiles(const struct eco_scan_source *source)
{
    const struct eco_problem *problem = source->problem;
    if (eco_scan_is_apart(problem->cell))
        return apart_tiles(source);
    enum { FEW = 3, FEW_BACK = 4, SOME = 6, MANY = 12 }; /* as measured; four spill forward */
    enum { MOST_BYTES = 96 }; /* of a unit in shared memory, if a block has eight warps */
    const int numbers = numbers_of(source), few = source->backward ? FEW_BACK : FEW,
              bytes = (int)eco_type_bytes(eco_type_sum(problem->type)),
              shared = problem->cell->lowered.linear.n_factors + 2 * problem->cell->recipe.n_states;
    const int steps = numbers <= SOME ? 8 : numbers <= MANY ? 4 : 2;
    return (struct eco_scan_tiles){.steps = numbers <= few ? 4 : steps,
                                   .warps = shared * bytes <= MOST_BYTES ? 8 : 4,
                                   .blocks = (numbers <= few ? 16 : 8) / bytes};
}

/* ---- the text -------------------------------------------------------------------------------- */

static void add_function(struct eco_text *text, const char *macro, const char *cell,
                         const char *way)
{
    eco_text_add(text, "#define %s ", macro);
    eco_print_symbol(cell, text);
    eco_text_add(text, "_%s\n", way);
}

static void add_counts(struct eco_text *text, const struct eco_scan_source *source)
{
    const struct eco_problem *problem = source->problem;
    const struct eco_lowered *lowered = &problem->cell->lowered;
    const struct eco_scan_tiles tiles = eco_scan_tiles(source);
    eco_print_problem(problem, text);
    eco_text_add(text,
                 "#define SCAN_ACCS %d\n#define SCAN_DACCS %d\n"
                 "#define SCAN_SAVES %d\n#define SCAN_STATES %d\n#define SCAN_LINEAR %u\n"
                 "#define SCAN_STEPS %d\n#define SCAN_WARPS %d\n#define SCAN_BLOCKS %d\n"
                 "#define SCAN_GIVES %s\n",
                 lowered->n_accs, lowered->n_accs + lowered->n_extra, lowered->n_saves,
                 problem->cell->recipe.n_states, lowered->linear.states, tiles.steps, tiles.warps,
                 tiles.blocks, problem->states ? "true" : "false");
}

/* For each state in each state a bit, whether there is a factor, and four bits, its number. */
static void add_factors(struct eco_text *text, const struct ecornn_cell *cell)
{
    const struct eco_linear *linear = &cell->lowered.linear;
    uint64_t numbers = 0;
    unsigned coupled = 0;
    for (int s = 0; s < cell->recipe.n_states; s++)
        for (int v = 0; v < cell->recipe.n_states; v++)
            if (linear->factor[s][v] >= 0) {
                coupled |= 1u << (s * ECO_MAX_STATES + v);
                numbers |= (uint64_t)linear->factor[s][v] << 4 * (s * ECO_MAX_STATES + v);
            }
    eco_text_add(text,
                 "#define SCAN_FACTORS %d\n#define SCAN_COUPLED 0x%xu\n"
                 "#define SCAN_FACTOR_NUMBERS 0x%" PRIx64 "ull\n",
                 linear->n_factors, coupled, numbers);
}

static void print(const void *what, struct eco_text *text)
{
    const struct eco_scan_source *source = what;
    const struct ecornn_cell *cell = source->problem->cell;
    const bool apart = eco_scan_is_apart(cell);
    int vectors = 0;
    add_counts(text, source);
    add_factors(text, cell);
    add_function(text, "SCAN_FORWARD", cell->recipe.name, "forward_0");
    add_function(text, "SCAN_BACKWARD", cell->recipe.name, "backward_0");
    add_function(text, "SCAN_LINEAR_FORWARD", cell->recipe.name, "scan_0");
    add_function(text, "SCAN_LINEAR_BACKWARD", cell->recipe.name, "scan_1");
    for (int k = 0; k < cell->recipe.n_params && apart; k++)
        vectors += cell->recipe.param[k].kind == ECO_PARAM_VECTOR;
    eco_text_add(text, "#define SCAN_VECTORS %d\n#include \"gpu/scan/words.cuh\"\n", vectors);
    eco_print_emitted(eco_cell_emit, cell, text);
    if (!apart)
        eco_print_emitted(eco_cell_emit_scan, cell, text);
    const char *way = source->backward ? "backward" : "forward";
    eco_text_add(text, "#define apart_%s scan_%s\n#include \"gpu/scan/%s%s.cuh\"\n", way, way,
                 apart ? "apart_" : "", way);
}

char *eco_scan_text(const struct eco_scan_source *source)
{
    return eco_print_text(print, source);
}

/*
 * The text of a cell with a matrix state as kernels read it, and the memory of a run.
 */
#include "gpu/matrix/matrix.h"

#include "common/mark.h"

enum { NONE = -1 };

/* Bits of a node's orders. */
enum {
    WANTED = 1 << ECO_GPU_MATRIX_WANTED,
    SWEPT = 1 << ECO_GPU_MATRIX_SWEPT,
    BEFORE = 1 << ECO_GPU_MATRIX_BEFORE
};

/* ---- the text -------------------------------------------------------------------------------- */

int eco_gpu_matrix_nodes(const struct eco_problem *problem)
{
    const struct eco_matrix_rule *rule = &problem->cell->rule;
    int used = 0;
    for (int i = 0; i < rule->n_nodes; i++)
        used += rule->phase[i] != ECO_MATRIX_UNUSED;
    return used;
}

/* Numbers of a head in a value. */
static int32_t width_of(const struct eco_problem *problem, int kind)
{
    return eco_problem_kind(problem, kind) / problem->heads;
}

_Static_assert((int)ECO_GPU_MATRIX_NODES <= INT8_MAX, "a node's arguments are int8_t");
static int8_t place_of(int node, const int16_t place[ECO_MAX_NODES])
{
    return (int8_t)(node >= 0 ? place[node] : NONE);
}

static void add_node(struct eco_gpu_matrix_call *call, const struct eco_problem *problem, int i,
                     int16_t place[ECO_MAX_NODES])
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const struct eco_node *from = &recipe->node[i];
    const int copied = eco_recipe_copies(recipe, i);
    const bool read = i == problem->cell->rule.out;
    place[i] = (int16_t)call->nodes;
    call->value[call->nodes] = from->value;
    call->node[call->nodes++] =
        (struct eco_gpu_matrix_node){.op = (uint8_t)from->op,
                                     .kind = recipe->kind[i],
                                     .a = place_of(read ? NONE : from->a, place),
                                     .b = place_of(read ? NONE : from->b, place),
                                     .c = place_of(read ? NONE : from->c, place),
                                     .copied = place_of(copied, place),
                                     .at = call->node_values};
    call->node_values += width_of(problem, recipe->kind[i]);
    if (from->op == ECO_OP_X)
        call->part_node[from->index - 1] = place[i];
    if (from->op == ECO_OP_STATE)
        call->previous[from->index] = place[i];
}

/* Do keys go to chunks times their gates?  With a gate of each row of S, or with `other`. */
static bool gated(const struct eco_gpu_matrix_call *call)
{
    const int16_t node = call->term[ECO_GPU_MATRIX_DECAY].node;
    return call->term[ECO_GPU_MATRIX_OTHER].node >= 0 ||
           (node >= 0 && call->node[node].kind == ECO_KIND_KEY);
}

/* Finds the part of x that a term is.  Values may be a number times one, which is of a head. */
static void find_part(const struct eco_gpu_matrix_call *call, struct eco_gpu_matrix_source *term,
                      bool value)
{
    term->part = term->by = NONE;
    if (term->node < 0)
        return;
    const struct eco_gpu_matrix_node *const node = &call->node[term->node];
    if (node->op == ECO_OP_X)
        term->part = term->node;
    for (int k = 0; k < 2 && value && node->op == ECO_OP_MUL; k++) {
        const int16_t part = k == 0 ? node->a : node->b, by = k == 0 ? node->b : node->a;
        if (call->node[part].op == ECO_OP_X && call->node[part].kind == ECO_KIND_VALUE &&
            call->node[by].kind == ECO_KIND_NUMBER)
            term->part = part, term->by = by;
    }
}

static bool is_number(const struct eco_gpu_matrix_node *node)
{
    return node->kind == ECO_KIND_NUMBER && node->op != ECO_OP_DOT && node->op != ECO_OP_MEAN;
}

static void mark(struct eco_gpu_matrix_call *call, int node, unsigned orders)
{
    if (node >= 0) /* none: no such argument or term, or a text with too many nodes */
        call->node[node].orders |= (uint8_t)orders;
}

/* Marks what each order needs first: terms and other states, y, and what derivatives read.
 * mark_orders() adds what those depend on. */
static void mark_ends(struct eco_gpu_matrix_call *call)
{
    enum { OF_A = 1, OF_B = 2, OF_Y = 4 }; /* what differentiate() and sweep_sum() read */
    static const uint8_t reads[ECO_OPCODES] = {
        [ECO_OP_MUL] = OF_A | OF_B, [ECO_OP_DOT] = OF_A | OF_B, [ECO_OP_DIV] = OF_B | OF_Y,
        [ECO_OP_MIN] = OF_A | OF_B, [ECO_OP_MAX] = OF_A | OF_B, [ECO_OP_SELECT] = OF_A,
        [ECO_OP_ABS] = OF_A,        [ECO_OP_LOG] = OF_A,        [ECO_OP_RELU] = OF_A,
        [ECO_OP_EXP] = OF_Y,        [ECO_OP_SQRT] = OF_Y,       [ECO_OP_TANH] = OF_Y,
        [ECO_OP_SIGMOID] = OF_Y};
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++)
        mark(call, call->term[k].part < 0 ? call->term[k].node : call->term[k].by, WANTED);
    for (int s = 0; s < call->states; s++)
        if (s != call->matrix)
            mark(call, call->next[s], s > 0 ? WANTED | BEFORE : BEFORE);
    for (int i = 0; i < call->nodes; i++) {
        const struct eco_gpu_matrix_node *const node = &call->node[i];
        mark(call, node->a, reads[node->op] & OF_A ? SWEPT : 0);
        mark(call, node->b, reads[node->op] & OF_B ? SWEPT : 0);
        mark(call, i, reads[node->op] & OF_Y ? SWEPT : 0);
    }
}

static void mark_orders(struct eco_gpu_matrix_call *call)
{
    mark_ends(call);
    call->numbers = !call->remembers;
    for (int i = call->nodes - 1; i >= 0; i--) {
        const struct eco_gpu_matrix_node *const node = &call->node[i];
        const int of[] = {node->a, node->b, node->c, node->copied};
        for (size_t k = 0; k < sizeof of / sizeof *of; k++)
            mark(call, of[k], node->orders | BEFORE);
        call->numbers = call->numbers && (!(node->orders & WANTED) || is_number(node));
    }
}

static void add_to_order(struct eco_gpu_matrix_call *call, int order, int16_t node)
{
    struct eco_gpu_matrix_nodes *const nodes = &call->order[order];
    nodes->at[nodes->count++] = (uint8_t)node;
}

/* Parts, states and what is read of S' are not evaluated. */
static void add_orders(struct eco_gpu_matrix_call *call, const struct eco_problem *problem,
                       const int16_t place[ECO_MAX_NODES])
{
    for (int i = 0; i < problem->cell->rule.n_nodes; i++) {
        const int op = problem->cell->recipe.node[i].op, phase = problem->cell->rule.phase[i];
        if (place[i] < 0 || op == ECO_OP_X || op == ECO_OP_STATE || i == problem->cell->rule.out)
            continue;
        add_to_order(call,
                     phase == ECO_MATRIX_BEFORE ? ECO_GPU_MATRIX_BEFORE : ECO_GPU_MATRIX_AFTER,
                     place[i]);
        for (int order = 0; order < ECO_GPU_MATRIX_BEFORE && phase == ECO_MATRIX_BEFORE; order++)
            if (call->node[place[i]].orders >> order & 1)
                add_to_order(call, order, place[i]);
    }
}

static void add_text(struct eco_gpu_matrix_call *call, const struct eco_problem *problem)
{
    const struct eco_recipe *recipe = &problem->cell->recipe;
    const struct eco_matrix_rule *rule = &problem->cell->rule;
    const int16_t term[ECO_GPU_MATRIX_TERMS] = {
        [ECO_GPU_MATRIX_DECAY] = rule->decay, [ECO_GPU_MATRIX_READ] = rule->read,
        [ECO_GPU_MATRIX_SCALE] = rule->scale, [ECO_GPU_MATRIX_OTHER] = rule->other,
        [ECO_GPU_MATRIX_KEY] = rule->key,     [ECO_GPU_MATRIX_QUERY] = rule->query,
        [ECO_GPU_MATRIX_VALUE] = rule->value};
    int16_t place[ECO_MAX_NODES];
    for (int i = 0; i < ECO_MAX_NODES; i++)
        place[i] = NONE;
    for (int k = 0; k < ECO_MAX_PARTS; k++)
        call->part_node[k] = NONE;
    for (int s = 0; s < ECO_MAX_STATES; s++)
        call->next[s] = call->previous[s] = NONE;
    for (int i = 0; i < rule->n_nodes && call->nodes < ECO_GPU_MATRIX_NODES; i++)
        if (rule->phase[i] != ECO_MATRIX_UNUSED)
            add_node(call, problem, i, place);
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++)
        call->term[k] = (struct eco_gpu_matrix_source){
            .node = term[k] >= 0 && (k != ECO_GPU_MATRIX_SCALE || rule->read >= 0) ? place[term[k]]
                                                                                   : (int16_t)NONE,
            .width = term[k] >= 0 ? width_of(problem, recipe->kind[term[k]]) : 0};
    call->values = call->node_values;
    for (int s = 0; s < recipe->n_states; s++) {
        call->width[s] = eco_problem_width(problem, s) / problem->heads;
        call->start[s] = recipe->start[s];
        call->next[s] = s == rule->state ? (int16_t)NONE : place[recipe->next[s]];
        call->carried_at[s] = call->values;
        call->values += s > 0 && s != rule->state ? call->width[s] : 0;
    }
    call->states = (uint8_t)recipe->n_states;
    call->matrix = (uint8_t)rule->state;
    call->out = place[rule->out];
    call->y_node = call->next[0];
    call->direct = call->y_node == call->out;
    call->remembers = rule->remembers;
    call->gates_keys = gated(call);
    call->same_key = !call->gates_keys &&
                     call->term[ECO_GPU_MATRIX_READ].node == call->term[ECO_GPU_MATRIX_KEY].node;
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++)
        find_part(call, &call->term[k], k == ECO_GPU_MATRIX_VALUE);
    mark_orders(call);
    add_orders(call, problem, place);
    call->parts = (uint8_t)recipe->n_parts;
    for (int k = 0; k < recipe->n_parts; k++)
        call->part_width[k] = width_of(problem, recipe->part[k].kind);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool is_small(const struct eco_gpu_matrix_call *call, int s)
{
    return s > 0 && s != call->matrix;
}

/* Can the run go back by chunks? */
static bool goes_back(const struct eco_gpu_matrix_call *call)
{
    return call->by_chunks && call->training;
}

static bool others(const struct eco_gpu_matrix_call *call)
{
    return call->term[ECO_GPU_MATRIX_OTHER].node >= 0;
}

static bool is_key(int k)
{
    return k == ECO_GPU_MATRIX_QUERY || k == ECO_GPU_MATRIX_KEY || k == ECO_GPU_MATRIX_READ ||
           k == ECO_GPU_MATRIX_OTHER;
}

/* Reals of a step of a head in the arrays of a slab. */
static size_t slot_numbers(const struct eco_gpu_matrix_call *call)
{
    const size_t V = (size_t)call->V;
    size_t numbers = call->direct ? 0 : V;
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++) {
        const size_t width = call->term[k].node >= 0 ? (size_t)call->term[k].width : 0;
        numbers += call->term[k].part < 0 ? width : call->term[k].by < 0 ? 0 : 1;
        numbers += call->by_chunks && call->gates_keys && is_key(k) ? (size_t)call->K : 0;
        if (call->training && k != ECO_GPU_MATRIX_VALUE)
            numbers += (size_t)call->partials * width;
    }
    for (int s = 0; s < call->states; s++)
        numbers += is_small(call, s) ? (size_t)call->width[s] : 0;
    return numbers + (call->training ? 2 * V : 0) + (goes_back(call) && others(call) ? V : 0);
}

/* Bytes of pairs and numbers of a chunk's steps. */
enum {
    PAIRS_BYTES = 4 * ECO_GPU_MATRIX_LOWER_BYTES +
                  (ECO_GPU_MATRIX_CHUNK_NUMBERS * ECO_GPU_MATRIX_CHUNK_STEPS + 1) * sizeof(float)
};

/* Likewise, and of the gradient of S after them. */
static double chunk_bytes(const struct eco_gpu_matrix_call *call)
{
    const double state = (double)call->width[call->matrix] * sizeof(float);
    return !call->by_chunks ? 0 : PAIRS_BYTES + (goes_back(call) ? state : 0);
}

double eco_gpu_matrix_room(const struct eco_problem *problem, double most)
{
    const double limit = (double)problem->memory_limit / 16;
    return limit > 0 && limit < most ? limit : most;
}

/* Steps of a slab: whole chunks whose arrays have about this many bytes.  It is the plan's, so that
 * no smaller run needs more memory. */
static int32_t slab_of(const struct eco_gpu_matrix_call *call, const struct eco_problem *problem)
{
    static const double usual = 128 << 20, most_slots = INT32_MAX;
    const double most = eco_gpu_matrix_room(problem, usual);
    const double heads = (double)problem->N * problem->heads,
                 numbers = (double)slot_numbers(call) *
                           (double)eco_type_bytes(eco_type_sum(problem->type)),
                 step = heads * (numbers + chunk_bytes(call) / ECO_GPU_MATRIX_CHUNK_STEPS),
                 fit = step * problem->T > most ? most / step : problem->T,
                 slots = fit * heads > most_slots ? most_slots / heads : fit;
    const int32_t chunks = (int32_t)(slots / call->chunk);
    return slots >= problem->T ? problem->T : (chunks < 1 ? 1 : chunks) * call->chunk;
}

bool eco_gpu_matrix_chunks(const struct eco_problem *problem)
{
    const struct eco_matrix_rule *const rule = &problem->cell->rule;
    const bool by_row = rule->decay >= 0 && problem->cell->recipe.kind[rule->decay] == ECO_KIND_KEY;
    if (problem->type == ECORNN_F64 || problem->key > ECO_GPU_MATRIX_CHUNK_KEYS ||
        problem->row_invariant)
        return false;
    /* steps back have more rooms for S if chunks are shorter */
    return !problem->training || rule->other < 0 || (by_row && rule->scale < 0);
}

void eco_gpu_matrix_begin(struct eco_gpu_matrix_call *call, const struct eco_layout *layout)
{
    const struct eco_problem *problem = layout->problem;
    *call = (struct eco_gpu_matrix_call){.args = {.T = layout->T, .N = layout->N},
                                         .heads = problem->heads,
                                         .K = problem->key,
                                         .V = eco_problem_head(problem),
                                         .chunk = layout->request.chunk,
                                         .resident = layout->request.gpu.resident,
                                         .batch_major = problem->batch_major,
                                         .reverse = problem->reverse,
                                         .repeats = problem->repeats,
                                         .training = layout->training};
    call->blocks = (call->V + ECO_GPU_MATRIX_COLUMNS - 1) / ECO_GPU_MATRIX_COLUMNS;
    call->chunks = (call->args.T + call->chunk - 1) / call->chunk;
    add_text(call, problem);
    call->by_chunks = eco_gpu_matrix_chunks(problem) &&
                      call->args.T >= ECO_GPU_MATRIX_CHUNK_LEAST &&
                      (call->chunk == ECO_GPU_MATRIX_CHUNK_STEPS ||
                       (call->args.T <= call->chunk && call->args.T <= ECO_GPU_MATRIX_CHUNK_STEPS));
    call->partials = goes_back(call) ? 1 : call->blocks;
    call->steps = slab_of(call, problem);
    call->steps = call->steps < call->args.T ? call->steps : call->args.T;
}

size_t eco_gpu_matrix_scratch(const struct eco_problem *problem)
{
    struct eco_gpu_matrix_call call = {.K = problem->key, .V = eco_problem_head(problem)};
    add_text(&call, problem);
    return (size_t)call.values * (problem->training ? 2 : 1) *
           eco_type_bytes(eco_type_sum(problem->type));
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* An arena whose arrays begin at multiples of a line of the cache. */
struct arena {
    uintptr_t first;
    size_t real;
    struct eco_size end; /* bytes */
};

static void *take(struct arena *arena, size_t rows, size_t row)
{
    enum { LINE = 128 };
    const uintptr_t at = arena->first + arena->end.value;
    struct eco_size bytes = eco_size_mul(eco_size_mul(eco_size_of(rows), row), arena->real);
    bytes = eco_size_add(bytes, eco_size_of(LINE - 1));
    bytes.value -= bytes.value % LINE;
    arena->end = eco_size_add(arena->end, bytes);
    return (void *)at;
}

static struct arena arena_of(const struct eco_layout *layout, void *first)
{
    return (struct arena){(uintptr_t)first, eco_type_bytes(layout->sum), eco_size_of(0)};
}

static void take_backward(struct eco_gpu_matrix_call *call, struct arena *arena, size_t slots)
{
    const size_t V = (size_t)call->V, threads = (size_t)(call->K + 31) / 32 * 32,
                 heads = (size_t)call->args.N * (size_t)call->heads;
    call->dout = take(arena, slots, V);
    call->dvalue = call->du = take(arena, slots, V);
    if (goes_back(call) && others(call))
        call->du = take(arena, slots, V);
    for (int k = 0; k < ECO_GPU_MATRIX_VALUE; k++)
        if (call->term[k].node >= 0)
            call->dterm[k] =
                take(arena, slots * (size_t)call->partials, (size_t)call->term[k].width);
    for (int s = 1; s < call->states && call->steps < call->args.T; s++)
        call->dcarried[s] = take(arena, heads, (size_t)call->width[s]);
    call->room =
        take(arena, (size_t)call->resident * (size_t)call->chunk, threads * ECO_GPU_MATRIX_COLUMNS);
    call->room_u =
        take(arena, (size_t)call->resident * (size_t)call->chunk, ECO_GPU_MATRIX_COLUMNS);
}

static void take_chunks(struct eco_gpu_matrix_call *call, struct arena *arena, size_t heads)
{
    enum { STEPS = ECO_GPU_MATRIX_CHUNK_STEPS, COLUMNS = ECO_GPU_MATRIX_CHUNK_COLUMNS };
    const size_t chunks = heads * (((size_t)call->steps + STEPS - 1) / STEPS),
                 lower = ECO_GPU_MATRIX_LOWER_BYTES / sizeof(float);
    call->asked = take(arena, chunks, lower);
    if (call->term[ECO_GPU_MATRIX_READ].node >= 0)
        call->solved = take(arena, chunks, lower);
    if (call->term[ECO_GPU_MATRIX_OTHER].node >= 0) {
        call->asked_other = take(arena, chunks, lower);
        call->heard = take(arena, chunks, lower);
    }
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS && call->gates_keys; k++)
        if (call->term[k].node >= 0 && is_key(k))
            call->gated[k] = (struct eco_gpu_matrix_source){
                .slots = take(arena, heads * (size_t)call->steps, (size_t)call->K),
                .width = call->K};
    if (call->gates_keys)
        call->chunk_decay = take(arena, chunks, ECO_GPU_MATRIX_CHUNK_KEYS);
    call->chunk_numbers = take(arena, chunks, (size_t)ECO_GPU_MATRIX_CHUNK_NUMBERS * STEPS);
    call->chunk_large = take(arena, chunks, 1);
    call->retries = take(arena, heads, ((size_t)call->V + COLUMNS - 1) / COLUMNS);
    if (goes_back(call))
        call->chunk_gradients = take(arena, chunks, (size_t)call->width[call->matrix]);
}

struct eco_size eco_gpu_matrix_workspace(struct eco_gpu_matrix_call *call,
                                         const struct eco_layout *layout, void *first)
{
    struct arena arena = arena_of(layout, first);
    const size_t heads = (size_t)call->args.N * (size_t)call->heads,
                 slots = heads * (size_t)call->steps;
    for (int k = 0; k < ECO_GPU_MATRIX_TERMS; k++) {
        struct eco_gpu_matrix_source *const term = &call->term[k];
        if (term->node >= 0 && term->part < 0)
            term->slots = take(&arena, slots, (size_t)term->width);
        if (term->by >= 0)
            term->times = take(&arena, slots, 1);
    }
    for (int s = 1; s < call->states; s++) {
        if (call->steps < call->args.T)
            call->carried[s] = take(&arena, heads, (size_t)call->width[s]);
        if (is_small(call, s))
            call->before[s] = take(&arena, slots, (size_t)call->width[s]);
    }
    if (call->by_chunks)
        take_chunks(call, &arena, heads);
    if (!call->direct)
        call->o = take(&arena, slots, (size_t)call->V);
    if (call->training)
        take_backward(call, &arena, slots);
    return arena.end;
}

/* After the mark, S and the other states before each chunk. */
struct eco_size eco_gpu_matrix_reserve(struct eco_gpu_matrix_call *call,
                                       const struct eco_layout *layout, void *first)
{
    struct arena arena = arena_of(layout, first);
    const size_t kept = (size_t)call->args.N * (size_t)call->heads * (size_t)call->chunks;
    arena.end = eco_size_of(ECO_MARK_BYTES);
    for (int s = 1; s < call->states; s++)
        *(s == call->matrix ? &call->kept_matrix : &call->kept[s]) =
            take(&arena, kept, (size_t)call->width[s]);
    return arena.end;
}

/*
 * Packs parameters and unpacks gradients in host memory.  weights.c knows where a parameter
 * belongs, and in which panels.
 */
#include "common/plan.h"

#include <assert.h>
#include <string.h>

#include "common/plan/lanes.h"
#include "common/plan/pack_bytes.h"

/* A thread's range of n things. */
struct share {
    size_t from, to;
};

static struct share share_of(size_t n, struct eco_slice slice)
{
    return (struct share){n * (size_t)slice.id / (size_t)slice.count,
                          n * ((size_t)slice.id + 1) / (size_t)slice.count};
}

/* A parameter and its position in the packed weights. */
struct source {
    struct eco_lanes_source from;
    int weight_id, before; /* position among the weight's n matrices */
};

/* The parameters of one layer and direction, and their destination. */
struct pack {
    const struct eco_layout *layout;
    const struct eco_lanes_code *code;
    int layer, d;
    struct source source[ECO_MAX_PARAMS + 1]; /* including the projection */
    int n;
    ecornn_type to; /* type of packed matrices */
    char *weights;
    struct eco_slice slice;
};

/* ---- panels ---------------------------------------------------------------------------------- */

/* Rows [row, row + n) of a parameter, as far as they exist. */
static struct eco_lanes_source rows_of(const struct eco_lanes_source *from, size_t row, size_t n)
{
    const size_t left = from->rows > row ? from->rows - row : 0;
    struct eco_lanes_source rows = *from;
    rows.rows = left < n ? left : n;
    rows.data += (from->rows - left) * from->cols * eco_type_bytes(from->type);
    rows.unit = from->rows - left;
    return rows;
}

static struct eco_lanes lanes_of(const struct pack *pack, const struct eco_panels *panels,
                                 int32_t vectors)
{
    const size_t vector = (size_t)(panels->group * panels->lanes) * eco_type_bytes(pack->to);
    return (struct eco_lanes){.stride = (size_t)vectors * vector,
                              .k = (size_t)panels->k,
                              .type = pack->to,
                              .rounded = pack->to != pack->layout->problem->weight_type};
}

/* Packs the units of a block into the parameter's vectors in its panels. */
static void pack_units(const struct pack *pack, const struct eco_panels *panels, int32_t block,
                       const struct source *source, char *weights)
{
    const int32_t first = source->before * panels->lane_groups, end = first + panels->lane_groups;
    for (int32_t panel = 0; panel < panels->panels; panel++) {
        const int32_t from = eco_panels_vector(panels, panel);
        const int32_t to = eco_panels_vector(panels, panel + 1);
        const int32_t v = from > first ? from : first, next = to < end ? to : end;
        if (v >= next)
            continue;
        if (pack->to == ECORNN_S8) {
            eco_pack_bytes(panels,
                           &(struct eco_bytes_source){&source->from, block, panel, v, next, first},
                           weights);
            continue;
        }
        struct eco_lanes lanes = lanes_of(pack, panels, to - from);
        const int32_t unit = (block * panels->lane_groups + v - first) * panels->lanes;
        const struct eco_lanes_source rows =
            rows_of(&source->from, (size_t)unit, (size_t)((next - v) * panels->lanes));
        lanes.to = weights + eco_panels_offset(panels, block, panel) * eco_type_bytes(pack->to) +
                   (size_t)(v - from) * (lanes.stride / (size_t)(to - from));
        lanes.vectors = (size_t)(next - v);
        pack->code->put_rows(&lanes, &rows);
    }
}

/* Packs the same units as rows of M^T, whose blocks have one panel each. */
static void pack_back(const struct pack *pack, const struct eco_panels *panels,
                      const struct source *source, struct share units, char *weights)
{
    struct eco_lanes lanes = lanes_of(pack, panels, panels->lane_groups);
    const struct eco_lanes_source rows = rows_of(&source->from, units.from, units.to - units.from);
    assert(panels->panels == 1);
    lanes.to = weights;
    lanes.vectors = (size_t)panels->lane_groups;
    lanes.blocks = (size_t)panels->blocks;
    lanes.block = eco_panels_offset(panels, 1, 0) * eco_type_bytes(pack->to);
    pack->code->put_columns(&lanes, &rows, (size_t)source->before * source->from.rows + units.from);
}

/* Packs this thread's blocks of a weight, each row for all copies while it is in the cache. */
static void pack_weight(const struct pack *pack, int weight_id)
{
    const struct eco_panels *panels =
        eco_layout_panels(pack->layout, pack->layer, weight_id, false);
    const struct eco_panels *back = eco_layout_panels(pack->layout, pack->layer, weight_id, true);
    char *const weights =
        pack->weights + eco_layout_weights(pack->layout, pack->layer, pack->d, weight_id);
    char *const weights_back =
        pack->weights + eco_layout_weights_back(pack->layout, pack->layer, pack->d, weight_id);
    const struct share share = share_of((size_t)panels->blocks, pack->slice);
    const size_t units = (size_t)(panels->lane_groups * panels->lanes);
    for (int i = 0; i < pack->n; i++) {
        const struct source *source = &pack->source[i];
        for (size_t block = share.from; source->weight_id == weight_id && block < share.to;
             block++) {
            pack_units(pack, panels, (int32_t)block, source, weights);
            if (pack->layout->problem->training)
                pack_back(pack, back, source, (struct share){block * units, (block + 1) * units},
                          weights_back);
        }
    }
}

/* Packs rows with heads into a matrix that is zero elsewhere. */
static void pack_heads(const struct eco_lanes_source *from, size_t width, struct share rows,
                       ecornn_type type, char *weights)
{
    const size_t element = eco_type_bytes(type), row = width * element;
    for (size_t i = rows.from; i < rows.to; i++) {
        char *const to = weights + i * row;
        memset(to, 0, row);
        eco_type_move(to + i / from->head * from->cols * element, type,
                      from->data + i * from->cols * eco_type_bytes(from->type), from->type,
                      from->cols);
    }
}

static void pack_dense(const struct pack *pack, const struct source *source, ecornn_type type,
                       char *weights)
{
    const struct eco_lanes_source *from = &source->from;
    const size_t element = eco_type_bytes(type);
    if (from->head > 0) {
        const size_t width = from->rows / from->head * from->cols;
        pack_heads(from, width, share_of(from->rows, pack->slice), type,
                   weights + (size_t)source->before * from->rows * width * element);
        return;
    }
    const size_t n = from->rows * from->cols;
    const struct share share = share_of(n, pack->slice);
    eco_type_move(weights + ((size_t)source->before * n + share.from) * element, type,
                  from->data + share.from * eco_type_bytes(from->type), from->type,
                  share.to - share.from);
}

/* One layer and direction. */
static void pack_direction(const struct pack *pack)
{
    const struct eco_layout *layout = pack->layout;
    for (int i = 0; i < pack->n; i++) {
        const struct source *source = &pack->source[i];
        const bool vectors = source->weight_id == ECO_WEIGHT_VECTORS;
        if (vectors || layout->request.cpu.lanes == 0)
            pack_dense(pack, source, vectors ? layout->sum : pack->to,
                       pack->weights +
                           eco_layout_weights(layout, pack->layer, pack->d, source->weight_id));
    }
    for (int weight_id = 0; weight_id < ECO_WEIGHT_IDS && layout->request.cpu.lanes > 0;
         weight_id++)
        if (weight_id != ECO_WEIGHT_VECTORS &&
            eco_layout_matrix(layout, pack->layer, weight_id)->n > 0)
            pack_weight(pack, weight_id);
}

/* ---- parameters ------------------------------------------------------------------------------ */

void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                   const struct eco_lanes_code *code, struct eco_slice slice)
{
    const struct eco_layout *layout = &plan->layout[0];
    const int count = eco_problem_params(&plan->problem);
    struct pack pack = {
        .layout = layout, .code = code, .to = layout->weight, .weights = weights, .slice = slice};
    for (int i = 0; i < count; i++) {
        struct eco_param_position position;
        eco_problem_param_position(&plan->problem, i, &position);
        if (position.layer != pack.layer || position.direction != pack.d) {
            pack_direction(&pack);
            pack.n = 0;
        }
        pack.layer = position.layer;
        pack.d = position.direction;
        struct source *source = &pack.source[pack.n++];
        source->from = (struct eco_lanes_source){.data = params[i],
                                                 .rows = (size_t)position.rows,
                                                 .cols = (size_t)position.cols,
                                                 .type = plan->problem.param_type};
        source->weight_id = eco_problem_weight_id(&plan->problem, &position, &source->before);
        source->from.head = position.blocks > 1 ? (size_t)(position.rows / position.blocks) : 0;
    }
    pack_direction(&pack);
}

void eco_plan_pack_add(const struct ecornn_plan *plan, const void *const *params, void *weights)
{
    const struct eco_layout *layout = &plan->layout[0];
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        struct eco_param_position position;
        int before;
        eco_problem_param_position(&plan->problem, i, &position);
        const int weight_id = eco_problem_weight_id(&plan->problem, &position, &before);
        eco_type_add((char *)weights +
                         eco_layout_weights(layout, position.layer, position.direction, weight_id) +
                         (size_t)before * position.elements * eco_type_bytes(layout->sum),
                     layout->sum, params[i], plan->problem.param_type, position.elements);
    }
}

/* A gradient and the parameter it is unpacked to. */
struct unpack {
    const char *from; /* the weight's gradient */
    char *to;
    ecornn_type sum, type;
    bool add;
};

/* Unpacks n elements. */
static void unpack_some(const struct unpack *unpack, size_t to, size_t from, size_t n)
{
    (unpack->add ? eco_type_add : eco_type_move)(
        unpack->to + to * eco_type_bytes(unpack->type), unpack->type,
        unpack->from + from * eco_type_bytes(unpack->sum), unpack->sum, n);
}

/* With heads: unpacks the blocks on the diagonal. */
static void unpack_heads(const struct unpack *unpack, const struct eco_param_position *position,
                         int before, struct share rows)
{
    const size_t n = (size_t)position->cols, blocks = (size_t)position->blocks,
                 head = (size_t)position->rows / blocks,
                 first = (size_t)before * (size_t)position->rows;
    for (size_t i = rows.from; i < rows.to; i++)
        unpack_some(unpack, i * n, (first + i) * n * blocks + i / head * n, n);
}

void eco_plan_unpack(const struct ecornn_plan *plan, const void *dweights, void *const *params,
                     bool add, struct eco_slice slice)
{
    const struct eco_layout *layout = &plan->layout[0];
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        struct eco_param_position position;
        int before;
        eco_problem_param_position(&plan->problem, i, &position);
        const int weight_id = eco_problem_weight_id(&plan->problem, &position, &before);
        const struct unpack unpack = {
            .from = (const char *)dweights +
                    eco_layout_gradient(layout, position.layer, position.direction, weight_id),
            .to = params[i],
            .sum = layout->sum,
            .type = plan->problem.param_type,
            .add = add};
        const struct share share = share_of(position.elements, slice);
        if (position.blocks > 1)
            unpack_heads(&unpack, &position, before, share_of((size_t)position.rows, slice));
        else
            unpack_some(&unpack, share.from, (size_t)before * position.elements + share.from,
                        share.to - share.from);
    }
}

void eco_plan_find_gradient(const struct ecornn_plan *plan, int index, ecornn_param *param)
{
    const struct eco_layout *layout = &plan->layout[0];
    struct eco_param_position position;
    int before;
    if (!plan->problem.training || layout->request.plain)
        return;
    eco_problem_param_position(&plan->problem, index, &position);
    const int weight_id = eco_problem_weight_id(&plan->problem, &position, &before);
    const struct eco_matrix *matrix = eco_layout_matrix(layout, position.layer, weight_id);
    param->is_dense = layout->sum == plan->problem.param_type && position.blocks <= 1 &&
                      matrix->height == matrix->units && matrix->row == matrix->columns;
    param->gradient = eco_layout_gradient(layout, position.layer, position.direction, weight_id) +
                      (size_t)before * position.elements * eco_type_bytes(layout->sum);
}

/*
 * Parameters to packed weights, and gradients back, in host memory.  Where a parameter lies, and in
 * which panels, weights.c says.
 */
#include "common/plan.h"

#include <string.h>

#include "common/plan/lanes.h"
#include "common/util.h"

/* This thread's part of n things. */
struct share {
    size_t from, to;
};

static struct share share_of(size_t n, struct eco_portion part)
{
    return (struct share){n * (size_t)part.id / (size_t)part.count,
                          n * ((size_t)part.id + 1) / (size_t)part.count};
}

/* A parameter on its way into a matrix of the packed weights. */
struct source {
    struct eco_lanes_source from;
    int part, before; /* which of the part's n it is */
};

/* The parameters of one layer and direction, and what they become. */
struct pack {
    const struct eco_layout *layout;
    int layer, d;
    struct source source[ECO_MAX_PARAMS + 1]; /* the projection too */
    int n;
    ecornn_type to; /* of packed matrices */
    char *weights;
    struct eco_portion part;
};

/* ---- panels ---------------------------------------------------------------------------------- */

/* Vectors [v, end) of a panel as neighbouring lanes, as many as are of one number; the first vector
 * that is not one of them. */
static int32_t find_lanes(const struct eco_panels *panels, int32_t block, int32_t v, int32_t end,
                          struct eco_lanes *lanes)
{
    const int32_t span = v % panels->spans, last = v + panels->spans - span;
    const int32_t next = panels->group > 1 ? v + 1 : last < end ? last : end;
    const int32_t unit = (block * panels->spans + span) * panels->lanes;
    const int32_t left = panels->units > unit ? panels->units - unit : 0;
    lanes->unit = (size_t)unit;
    lanes->width = (size_t)((next - v) * panels->lanes);
    lanes->count = (size_t)left < lanes->width ? (size_t)left : lanes->width;
    return next;
}

/* Whatever of the part belongs to these lanes, which are all of one number. */
static void pack_lanes(const struct pack *pack, int part, int32_t number, bool transposed,
                       const struct eco_lanes *lanes)
{
    for (int i = 0; i < pack->n; i++) {
        const struct source *source = &pack->source[i];
        if (source->part != part || lanes->count == 0)
            continue;
        if (transposed) /* all numbers lie one behind the other in k */
            eco_lanes_put_columns(lanes, &source->from, (size_t)source->before * source->from.rows);
        else if (source->before == number)
            eco_lanes_put_rows(lanes, &source->from);
    }
}

/* n elements as the weights' type has them. */
static void round_lanes(const struct pack *pack, char *at, size_t n)
{
    enum { SOME = 64 };
    char rounded[SOME * sizeof(double)];
    const ecornn_type type = pack->layout->problem->weight_type;
    for (size_t some; n > 0; n -= some, at += some * eco_type_bytes(pack->to)) {
        some = n < SOME ? n : SOME;
        eco_type_move(rounded, type, at, pack->to, some);
        eco_type_move(at, pack->to, rounded, type, some);
    }
}

static void pack_block(const struct pack *pack, int part, bool transposed, int32_t block,
                       char *weights)
{
    const struct eco_panels *panels =
        eco_layout_panels(pack->layout, pack->layer, part, transposed);
    const size_t element = eco_type_bytes(pack->to);
    const size_t vector = (size_t)(panels->group * panels->lanes) * element;
    char *const first = weights + eco_panels_offset(panels, block, 0) * element;
    char *const last = weights + eco_panels_offset(panels, block + 1, 0) * element;
    if ((block + 1) * panels->lanes * panels->spans > panels->units || panels->depth > panels->k)
        memset(first, 0, (size_t)(last - first)); /* what fills up */
    for (int32_t panel = 0; panel < panels->panels; panel++) {
        const int32_t from = eco_panels_vector(panels, panel);
        const int32_t end = eco_panels_vector(panels, panel + 1);
        char *to = weights + eco_panels_offset(panels, block, panel) * element;
        for (int32_t v = from, next; v < end; v = next) {
            struct eco_lanes lanes = {.to = to + (size_t)(v - from) * vector,
                                      .stride = (size_t)(end - from) * vector,
                                      .group = (size_t)panels->group,
                                      .pair = (size_t)panels->pair,
                                      .type = pack->to};
            next = find_lanes(panels, block, v, end, &lanes);
            pack_lanes(pack, part, v / panels->spans, transposed, &lanes);
        }
    }
    if (pack->to != pack->layout->problem->weight_type)
        round_lanes(pack, first, (size_t)(last - first) / element);
}

static void pack_dense(const struct pack *pack, const struct source *source, ecornn_type type,
                       char *weights)
{
    const struct eco_lanes_source *from = &source->from;
    const size_t n = from->rows * from->cols, element = eco_type_bytes(type);
    const struct share share = share_of(n, pack->part);
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
        const bool vectors = source->part == ECO_PART_VECTORS;
        if (vectors || layout->wishes.lanes == 0)
            pack_dense(pack, source, vectors ? layout->sum : pack->to,
                       pack->weights +
                           eco_layout_weights(layout, pack->layer, pack->d, source->part));
    }
    for (int part = 0; part < ECO_PARTS && layout->wishes.lanes > 0; part++)
        for (int back = 0; back <= (int)layout->problem->training; back++) {
            if (part == ECO_PART_VECTORS)
                continue;
            char *weights = pack->weights + (back ? eco_layout_weights_back : eco_layout_weights)(
                                                layout, pack->layer, pack->d, part);
            const size_t blocks =
                (size_t)eco_layout_panels(layout, pack->layer, part, back)->blocks;
            const struct share share = share_of(
                eco_layout_matrix(layout, pack->layer, part)->n > 0 ? blocks : 0, pack->part);
            for (size_t block = share.from; block < share.to; block++)
                pack_block(pack, part, back, (int32_t)block, weights);
        }
}

/* ---- parameters ------------------------------------------------------------------------------ */

void eco_plan_pack(const struct ecornn_plan *plan, const void *const *params, void *weights,
                   struct eco_portion part)
{
    const struct eco_layout *layout = &plan->layout[0];
    const int count = eco_problem_params(&plan->problem);
    struct pack pack = {.layout = layout, .to = layout->weight, .weights = weights, .part = part};
    for (int i = 0; i < count; i++) {
        struct eco_param_place place;
        eco_problem_place(&plan->problem, i, &place);
        if (place.layer != pack.layer || place.direction != pack.d) {
            pack_direction(&pack);
            pack.n = 0;
        }
        pack.layer = place.layer;
        pack.d = place.direction;
        struct source *source = &pack.source[pack.n++];
        source->from = (struct eco_lanes_source){.data = params[i],
                                                 .rows = (size_t)place.rows,
                                                 .cols = (size_t)place.cols,
                                                 .type = plan->problem.param_type};
        source->part = eco_problem_part(&plan->problem, &place, &source->before);
    }
    pack_direction(&pack);
}

void eco_plan_unpack(const struct ecornn_plan *plan, const void *dweights, void *const *params,
                     bool add, struct eco_portion part)
{
    const struct eco_layout *layout = &plan->layout[0];
    const ecornn_type type = plan->problem.param_type;
    for (int i = 0; i < eco_problem_params(&plan->problem); i++) {
        if (params[i] == NULL)
            continue;
        struct eco_param_place place;
        int before;
        eco_problem_place(&plan->problem, i, &place);
        const int of = eco_problem_part(&plan->problem, &place, &before);
        const size_t n = place.elements;
        const struct share share = share_of(n, part);
        const char *from = (const char *)dweights +
                           eco_layout_gradient(layout, place.layer, place.direction, of) +
                           ((size_t)before * n + share.from) * eco_type_bytes(layout->sum);
        (add ? eco_type_add : eco_type_move)((char *)params[i] + share.from * eco_type_bytes(type),
                                             type, from, layout->sum, share.to - share.from);
    }
}

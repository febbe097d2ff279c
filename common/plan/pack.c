/*
 * Parameters to packed weights, and gradients back, in host memory.  Where a parameter lies, and in
 * which panels, weights.c says.
 */
#include "common/model.h"

#include <string.h>

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

/* A parameter [rows, cols] on its way into a matrix of the packed weights. */
struct source {
    const char *data;
    size_t rows, cols;
    int part, before; /* which of the part's n it is */
};

/* The parameters of one layer and direction, and what they become. */
struct pack {
    const struct eco_layout *layout;
    int layer, d;
    struct source source[ECO_MAX_PARAMS + 1]; /* the projection too */
    int n;
    ecornn_type from, to; /* of parameters, of packed matrices */
    char *weights;
    struct eco_portion part;
};

static const char *source_at(const struct pack *pack, const struct source *source, size_t row,
                             size_t column)
{
    return source->data + (row * source->cols + column) * eco_type_bytes(pack->from);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Neighbouring lanes of a panel, for each k: the first `count` are units from `unit` on. */
struct lanes {
    char *to;      /* lane 0 of k = 0 */
    size_t stride; /* bytes from one group of k to the next */
    size_t group, pair, element;
    size_t width, count, unit;
};

enum { K_AT_A_TIME = 32, MOST_LANES = 64 };

/* Lane 0 of k; lanes are `pair` elements apart. */
static char *lane_at(const struct lanes *lanes, size_t k)
{
    if (lanes->group == 1)
        return lanes->to + k * lanes->stride;
    const size_t inside = k % lanes->group;
    const size_t element = inside / lanes->pair * lanes->width * lanes->pair + inside % lanes->pair;
    return lanes->to + k / lanes->group * lanes->stride + element * lanes->element;
}

/* One element; constant sizes are one move. */
static inline void move_element(char *to, const char *from, size_t element)
{
    if (element == sizeof(uint16_t))
        memcpy(to, from, sizeof(uint16_t));
    else if (element == sizeof(uint32_t))
        memcpy(to, from, sizeof(uint32_t));
    else
        memcpy(to, from, sizeof(uint64_t));
}

/* `units` lanes from lane j on, of n neighbouring k; from: rows of 32-bit words `row` bytes apart.
 * Lanes that are neighbours are written together, so that a cache line is written once. */
static inline void transpose_words(const struct lanes *lanes, size_t j, size_t n, const char *from,
                                   size_t row, const size_t units)
{
    char *to = lanes->to + j * sizeof(uint32_t);
    for (size_t k = 0; k < n; k++, to += lanes->stride, from += sizeof(uint32_t))
#pragma GCC unroll 16
        for (size_t u = 0; u < units; u++)
            memcpy(to + u * sizeof(uint32_t), from + u * row, sizeof(uint32_t));
}

/* Lane j of n neighbouring k from k on. */
static void put_lane(const struct lanes *lanes, size_t j, size_t k, size_t n, const char *from)
{
    const size_t element = lanes->element, step = lanes->pair * element;
    for (size_t i = 0; i < n; i++)
        move_element(lane_at(lanes, k + i) + j * step, from + i * element, element);
}

/* Lane j, converted some k at a time. */
static void pack_lane(const struct pack *pack, const struct source *source,
                      const struct lanes *lanes, size_t j)
{
    double converted[K_AT_A_TIME];
    for (size_t k = 0; k < source->cols; k += K_AT_A_TIME) {
        const size_t left = source->cols - k, n = left < K_AT_A_TIME ? left : K_AT_A_TIME;
        eco_type_move(converted, pack->to, source_at(pack, source, lanes->unit + j, k), pack->from,
                      n);
        put_lane(lanes, j, k, n, (const char *)converted);
    }
}

/* M[unit, k] = the parameter's row `unit`, element k. */
static void pack_rows(const struct pack *pack, const struct source *source,
                      const struct lanes *lanes)
{
    const size_t row = source->cols * sizeof(uint32_t), n = source->cols;
    const bool words =
        pack->from == pack->to && lanes->group == 1 && lanes->element == sizeof(uint32_t);
    size_t j = 0;
    for (; words && j + 16 <= lanes->count; j += 16)
        transpose_words(lanes, j, n, source_at(pack, source, lanes->unit + j, 0), row, 16);
    for (; words && j + 4 <= lanes->count; j += 4)
        transpose_words(lanes, j, n, source_at(pack, source, lanes->unit + j, 0), row, 4);
    for (; j < lanes->count; j++)
        pack_lane(pack, source, lanes, j);
}

/* M^T: unit is a column, a row of the parameter one k, from k `first` on. */
static void pack_columns(const struct pack *pack, const struct source *source, size_t first,
                         const struct lanes *lanes)
{
    const size_t element = lanes->element, step = lanes->pair * element;
    double converted[MOST_LANES];
    for (size_t k = 0; k < source->rows; k++) {
        const char *from = source_at(pack, source, k, lanes->unit);
        char *to = lane_at(lanes, first + k);
        if (lanes->group == 1) {
            eco_type_move(to, pack->to, from, pack->from, lanes->count);
            continue;
        }
        eco_type_move(converted, pack->to, from, pack->from, lanes->count);
        for (size_t j = 0; j < lanes->count; j++)
            move_element(to + j * step, (const char *)converted + j * element, element);
    }
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Vectors [v, end) of a panel as neighbouring lanes, as many as are of one number; the first vector
 * that is not one of them. */
static int32_t find_lanes(const struct eco_panels *panels, int32_t block, int32_t v, int32_t end,
                          struct lanes *lanes)
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
                       const struct lanes *lanes)
{
    for (int i = 0; i < pack->n; i++) {
        const struct source *source = &pack->source[i];
        if (source->part != part || lanes->count == 0)
            continue;
        if (transposed) /* all numbers lie one behind the other in k */
            pack_columns(pack, source, (size_t)source->before * source->rows, lanes);
        else if (source->before == number)
            pack_rows(pack, source, lanes);
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
            struct lanes lanes = {.to = to + (size_t)(v - from) * vector,
                                  .stride = (size_t)(end - from) * vector,
                                  .group = (size_t)panels->group,
                                  .pair = (size_t)panels->pair,
                                  .element = element};
            next = find_lanes(panels, block, v, end, &lanes);
            pack_lanes(pack, part, v / panels->spans, transposed, &lanes);
        }
    }
}

static void pack_dense(const struct pack *pack, const struct source *source, ecornn_type type,
                       char *weights)
{
    const size_t n = source->rows * source->cols, element = eco_type_bytes(type);
    const struct share share = share_of(n, pack->part);
    eco_type_move(weights + ((size_t)source->before * n + share.from) * element, type,
                  source->data + share.from * eco_type_bytes(pack->from), pack->from,
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
    struct pack pack = {.layout = layout,
                        .from = plan->problem.param_type,
                        .to = layout->weight,
                        .weights = weights,
                        .part = part};
    for (int i = 0; i < count; i++) {
        struct eco_param_place place;
        eco_problem_param(&plan->problem, i, &place);
        if (place.layer != pack.layer || place.direction != pack.d) {
            pack_direction(&pack);
            pack.n = 0;
        }
        pack.layer = place.layer;
        pack.d = place.direction;
        struct source *source = &pack.source[pack.n++];
        *source = (struct source){
            .data = params[i], .rows = (size_t)place.param.rows, .cols = (size_t)place.param.cols};
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
        eco_problem_param(&plan->problem, i, &place);
        const int of = eco_problem_part(&plan->problem, &place, &before);
        const size_t n = (size_t)place.param.rows * (size_t)place.param.cols;
        const struct share share = share_of(n, part);
        const char *from = (const char *)dweights +
                           eco_layout_gradient(layout, place.layer, place.direction, of) +
                           ((size_t)before * n + share.from) * eco_type_bytes(layout->sum);
        (add ? eco_type_add : eco_type_move)((char *)params[i] + share.from * eco_type_bytes(type),
                                             type, from, layout->sum, share.to - share.from);
    }
}

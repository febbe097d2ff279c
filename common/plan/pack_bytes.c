/*
 * Packs rows of a parameter as integers of 8 bits (common/quantise.h) into panels.
 */
#include "common/plan/pack_bytes.h"

#include <string.h>

#include "common/quantise.h"

enum { QUAD = 4 };

/* Address of k of a lane in a vector, of those that are stored together. */
struct lane {
    const struct eco_panels *panels;
    int8_t *first;
    size_t vectors;
};

static int8_t *lane_at(const struct lane *lane, size_t k)
{
    const size_t group = (size_t)lane->panels->group, lanes = (size_t)lane->panels->lanes;
    return lane->first + k / group * lane->vectors * group * lanes +
           k % group / QUAD * lanes * QUAD + k % QUAD;
}

/* Packs a unit; beyond the last one it is 0. */
static void put_unit(const struct lane *lane, const struct eco_lanes_source *from, size_t unit,
                     float *scale, int32_t *sum)
{
    const size_t depth = (size_t)lane->panels->depth;
    const bool exists = unit < from->rows;
    const char *row = from->data + unit * from->cols * eco_type_bytes(from->type);
    const size_t begin = exists && from->head > 0 ? unit / from->head * from->cols : 0,
                 end = exists ? begin + from->cols : 0;
    *scale = exists ? eco_weight_scale(row, from->type, from->cols) : 0;
    *sum = 0;
    for (size_t k = 0; k < depth; k++) {
        const bool is_weight = k >= begin && k < end;
        const int32_t q =
            is_weight ? eco_weight_integer(*scale, (float)eco_type_get(row, k - begin, from->type))
                      : 0;
        *lane_at(lane, k) = (int8_t)q;
        *sum += q;
    }
}

void eco_pack_bytes(const struct eco_panels *panels, const struct eco_bytes_source *source,
                    char *weights)
{
    const size_t lanes = (size_t)panels->lanes;
    const int32_t begin = eco_panels_vector(panels, source->panel);
    const int32_t end = eco_panels_vector(panels, source->panel + 1);
    for (int32_t v = source->v; v < source->next; v++) {
        const size_t group = (size_t)(source->block * panels->lane_groups + v - source->first);
        char *const scales = weights + eco_panels_scales(panels, source->block, v);
        int8_t *const to = (int8_t *)weights +
                           eco_panels_offset(panels, source->block, source->panel) +
                           (size_t)(v - begin) * (size_t)panels->group * lanes;
        for (size_t j = 0; j < lanes; j++) {
            const struct lane lane = {panels, to + j * QUAD, (size_t)(end - begin)};
            put_unit(&lane, source->from, group * lanes + j, (float *)(void *)scales + j,
                     (int32_t *)(void *)(scales + lanes * sizeof(float)) + j);
        }
    }
}

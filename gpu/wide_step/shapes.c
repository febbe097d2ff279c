/*
 * The shapes of blocks of wide steps; see args.h.
 */
#include "gpu/wide_step/wide_step.h"

#define SHAPE(number, down, across, tiles, units, stages, blocks, cluster)                         \
    {down, across, tiles, units, stages, blocks, cluster},
const struct eco_wide_shape eco_wide_shapes[ECO_WIDE_SHAPES] = {ECO_WIDE_LIST(SHAPE)};
#undef SHAPE

int32_t eco_wide_rows(int shape)
{
    const struct eco_wide_shape *s = &eco_wide_shapes[shape];
    return ECO_WIDE_M * s->tiles * s->down;
}

int32_t eco_wide_units(int shape, int32_t accs)
{
    const struct eco_wide_shape *s = &eco_wide_shapes[shape];
    return s->units * s->across * ECO_WIDE_MORE(accs);
}

size_t eco_wide_shared(int shape, int32_t accs, int stages)
{
    const size_t columns = (size_t)accs * (size_t)eco_wide_units(shape, accs),
                 lines = (size_t)eco_wide_rows(shape) + columns;
    return (size_t)stages * (lines * ECO_WIDE_LINE + ECO_WIDE_BARRIERS) + columns * sizeof(float);
}

bool eco_wide_leaves_zero(const struct eco_lowered *lowered, int state)
{
    const struct eco_program *last = &lowered->backward[lowered->n_backward - 1];
    bool zero = false;
    for (int i = 0; i < last->n; i++) {
        const struct eco_node *code = &last->code[i];
        if (code->op == ECO_OP_STORE_DSTATE && code->index == state)
            zero = last->code[code->a].op == ECO_OP_CONST && last->code[code->a].value == 0;
    }
    return zero;
}

/*
 * A run of a plan as every algorithm begins it: what its threads see, and the function of each
 * operation of the tape.
 */
#include "cpu/cpu.h"

static const eco_cpu_kernel ops[ECO_OP_KINDS] = {
    [ECO_BEGIN] = eco_cpu_begin,         [ECO_GATHER] = eco_cpu_gather,
    [ECO_INPUT] = eco_cpu_input,         [ECO_STEP] = eco_cpu_step,
    [ECO_KEEP] = eco_cpu_keep,           [ECO_END] = eco_cpu_end,
    [ECO_D_BEGIN] = eco_cpu_begin,       [ECO_REPLAY] = eco_cpu_replay,
    [ECO_D_STEP] = eco_cpu_d_step,       [ECO_D_INPUT] = eco_cpu_d_input,
    [ECO_D_SCATTER] = eco_cpu_d_scatter, [ECO_D_WEIGHTS] = eco_cpu_d_weights,
    [ECO_D_END] = eco_cpu_end,
};

struct eco_cpu_run eco_cpu_run_of(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                  const struct eco_args *args)
{
    const struct eco_cpu *cpu = plan->device->context;
    struct eco_cpu_plan *own = plan->context;
    return (struct eco_cpu_run){
        .cpu = cpu,
        .isa = own->isa,
        .grid = own->grid,
        .known_team = &own->team[args->backward],
        .caps = &plan->device->caps,
        .problem = &plan->problem,
        .work = &plan->work,
        .lowered = &plan->problem.cell->lowered,
        .layout = layout,
        .args = args,
        .ops = ops,
        .choose_grid = eco_cpu_grid,
        .kernels = plan->problem.type == ECORNN_F64    ? own->isa->f64
                   : plan->problem.type == ECORNN_BF16 ? own->isa->bf16
                                                       : own->isa->f32,
        .tile = own->isa->tile,
        .rows = {0, args->N},
        .unit_group = 16,
        .whole_rows = true,
    };
}

/*
 * A run of a plan by every algorithm: what its threads see, by the plan's choices, and the function
 * of each operation of the tape.  Chooses nothing.
 */
#include "cpu/cpu.h"
#include "cpu/gemm/packed/packed.h"

static const struct eco_products packed_products = {.multiply = eco_packed_multiply,
                                                    .weights = eco_packed_weights,
                                                    .prepare = eco_packed_prepare,
                                                    .stage = eco_packed_stage,
                                                    .line = eco_packed_line};

static const eco_cpu_kernel ops[ECO_OP_KINDS] = {
    [ECO_BEGIN] = eco_cpu_expand,     [ECO_GATHER] = eco_cpu_expand,
    [ECO_INPUT] = eco_cpu_expand,     [ECO_STEP] = eco_cpu_step,
    [ECO_KEEP] = eco_cpu_expand,      [ECO_END] = eco_cpu_expand,
    [ECO_D_BEGIN] = eco_cpu_expand,   [ECO_REPLAY] = eco_cpu_replay,
    [ECO_D_STEP] = eco_cpu_d_step,    [ECO_D_INPUT] = eco_cpu_expand,
    [ECO_D_SCATTER] = eco_cpu_expand, [ECO_D_WEIGHTS] = eco_cpu_expand,
    [ECO_D_END] = eco_cpu_expand,
};

/* Does the run scan in blocks of time? */
static bool has_blocks(const struct eco_cpu_request *request, const struct eco_args *args)
{
    return eco_args_whole(args) && args->T >= request->block_from;
}

struct eco_cpu_run eco_cpu_run_of(const struct ecornn_plan *plan, const struct eco_layout *layout,
                                  const struct eco_args *args)
{
    const struct eco_cpu *cpu = plan->device->context;
    const struct eco_cpu_plan *own = plan->context;
    const struct eco_cpu_request *request = &plan->request.cpu;
    return (struct eco_cpu_run){
        .cpu = cpu,
        .isa = own->isa,
        .grid = own->grid,
        .caps = &plan->device->caps,
        .problem = &plan->problem,
        .work = &plan->work,
        .lowered = &plan->problem.cell->lowered,
        .layout = layout,
        .args = args,
        .ops = ops,
        .kernels = plan->problem.type == ECORNN_F64    ? own->isa->f64
                   : plan->problem.type == ECORNN_BF16 ? own->isa->bf16
                                                       : own->isa->f32,
        .products = request->lanes > 0 ? &packed_products : &eco_dense_products,
        .tile = own->isa->tile,
        .rows = {0, args->N},
        .unit_group = 16,
        .cached_threads = own->cached_threads[layout->fuse_input],
        /* with lengths, rows of one part would end before others */
        .whole_rows = args->lengths != NULL || request->whole_rows,
        .own_units = request->own_units,
        .scans = request->scans,
        .block_steps = has_blocks(request, args) ? request->block_steps : 0,
    };
}

static const struct eco_cpu_team *team_of(const struct ecornn_plan *plan,
                                          const struct eco_args *args)
{
    const struct eco_cpu_plan *own = plan->context;
    int rows = 0, steps = 0;
    while (rows + 1 < ECO_TEAM_ROWS && args->N <= plan->problem.N >> (rows + 1))
        rows++;
    while (steps + 1 < ECO_TEAM_STEPS && args->T <= eco_team_steps(plan->problem.T, steps + 1))
        steps++;
    return &own->team[args->backward][args->lengths != NULL][rows][steps];
}

ecornn_status eco_cpu_run_tape(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args)
{
    struct eco_cpu_run run = eco_cpu_run_of(plan, layout, args);
    const struct eco_cpu_team *team = team_of(plan, args);
    eco_cpu_sort(&run);
    run.steps = team->grid;
    run.helps = team->helps;
    return eco_cpu_walk(&run, tape, team->threads);
}

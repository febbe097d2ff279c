/*
 * The runs of all algorithms: which ops of a level they queue together, by the kernels that the
 * plan has found.  Chooses nothing.
 */
#include "gpu/algo/algo.h"
#include "gpu/fused_step/fused_step.h"
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"
#include "gpu/scan/scan.h"

ecornn_status eco_gpu_run_persistent(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                     const struct eco_layout *layout, const struct eco_args *args)
{
    /* [forward has kernels][backward has kernels] */
    static const eco_gpu_ops ops[2][2][ECO_OP_KINDS] = {
        {{0}, {[ECO_D_STEP] = eco_persistent_run}},
        {{[ECO_STEP] = eco_persistent_run},
         {[ECO_STEP] = eco_persistent_run, [ECO_D_STEP] = eco_persistent_run}}};
    const struct eco_gpu_plan *own = plan->context;
    const ecornn_status status = eco_gpu_check_waits(plan->device->context);
    if (status != ECORNN_OK)
        return status;
    return eco_gpu_run_plan(plan, tape, layout, args,
                            ops[own->persistent[0].used][own->persistent[1].used]);
}

ecornn_status eco_gpu_run_fused(const struct ecornn_plan *plan, const struct eco_tape *tape,
                                const struct eco_layout *layout, const struct eco_args *args)
{
    static const eco_gpu_ops ops[ECO_OP_KINDS] = {
        [ECO_INPUT] = eco_fused_input, [ECO_STEP] = eco_fused_step, [ECO_END] = eco_fused_end};
    const struct eco_gpu_plan *own = plan->context;
    return eco_gpu_run_plan(plan, tape, layout, args, own->fused.used ? ops : NULL);
}

ecornn_status eco_gpu_run_step(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args)
{
    return eco_gpu_run_plan(plan, tape, layout, args, NULL);
}

ecornn_status eco_gpu_run_scan(const struct ecornn_plan *plan, const struct eco_tape *tape,
                               const struct eco_layout *layout, const struct eco_args *args)
{
    static const eco_gpu_ops ops[ECO_OP_KINDS] = {
        [ECO_STEP] = eco_scan_run, [ECO_D_STEP] = eco_scan_run};
    const struct eco_gpu_plan *own = plan->context;
    return eco_gpu_run_plan(plan, tape, layout, args, own->scan.used ? ops : NULL);
}

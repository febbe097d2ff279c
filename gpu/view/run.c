/*
 * Failures in a run: the first one is kept.
 */
#include "gpu/view/run.h"

void eco_gpu_note_cuda(struct eco_gpu_run *run, cudaError_t error, const char *doing)
{
    if (run->status == ECORNN_OK)
        run->status = eco_cuda_status(error, doing);
}

/*
 * The opponents ort (ONNX Runtime) and torch (PyTorch): classes of peers.py, which runs in a
 * process of its own.
 */
#include "versus.h"

static const char *refuses(const struct problem *problem)
{
    const ecornn_desc *desc = &problem->desc;
    const bool plain = desc->type == ECORNN_F32 && problem->param_type == ECORNN_F32 &&
                       problem->weight_type == ECORNN_F32 && !problem->uniform &&
                       problem->resets < 0 && desc->proj == 0 && desc->models <= 1 &&
                       !(desc->dropout > 0) && !(desc->flags & ECORNN_BATCH_MAJOR) &&
                       !(desc->flags & ECORNN_REVERSE);
    return plain ? NULL
                 : "is measured in f32 alone, forward or bi, time major, without lengths, resets, "
                   "projection and dropout";
}

/* Threads of these runtimes spin for many milliseconds after a run. */
#define PAUSE .round_seconds = 0.05, .pause = 0.2

const struct opponent opponent_ort = {.name = "ort",
                                      .about = "ONNX Runtime, inference, where python3 has it",
                                      .refuses = refuses,
                                      .where = IN_PYTHON,
                                      .params = "onnx",
                                      PAUSE};
const struct opponent opponent_torch = {.name = "torch",
                                        .about = "PyTorch, where python3 has it",
                                        .refuses = refuses,
                                        .where = IN_PYTHON,
                                        .params = "torch",
                                        PAUSE};

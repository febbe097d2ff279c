/*
 * Interprets a stage that was not compiled, instruction by instruction. It uses the same functions
 * as a compiled stage, so the bits are the same. All threads run the same instruction; values are
 * in each thread's local memory.
 */
#ifndef ECO_GPU_CELL_INTERPRET_CUH
#define ECO_GPU_CELL_INTERPRET_CUH

#include "common/cell/cell.h"
#include "gpu/cell/args.h"
#include "gpu/cell/stage_loop.cuh"

ECO_DEVICE real interpret_value(struct element *at, const struct eco_instruction *code,
                                const real *value)
{
    switch (code->op) {
    /* clang-format off */
    case ECO_OP_CONST: return v_const(code->value);
    case ECO_OP_BERNOULLI: return v_bernoulli(at, code->index, code->value);
    case ECO_OP_ACC: return load_acc(at, code->index);
    case ECO_OP_STATE: return load_state(at, code->index);
    case ECO_OP_NEXT: return load_next(at, code->index);
    case ECO_OP_VECTOR: return load_vector(at, code->index);
    case ECO_OP_MEAN: return load_mean(at, code->index);
    case ECO_OP_SAVED: return load_saved(at, code->index);
    case ECO_OP_DNEXT: return load_dnext(at, code->index);
    case ECO_OP_DOPERAND: return load_doperand(at, code->index);
    case ECO_OP_ADD: return v_add(value[code->a], value[code->b]);
    case ECO_OP_SUB: return v_sub(value[code->a], value[code->b]);
    case ECO_OP_MUL: return v_mul(value[code->a], value[code->b]);
    case ECO_OP_DIV: return v_div(value[code->a], value[code->b]);
    case ECO_OP_MIN: return v_min(value[code->a], value[code->b]);
    case ECO_OP_MAX: return v_max(value[code->a], value[code->b]);
    case ECO_OP_SELECT: return v_select(value[code->a], value[code->b], value[code->c]);
    case ECO_OP_NEG: return v_neg(value[code->a]);
    case ECO_OP_ABS: return v_abs(value[code->a]);
    case ECO_OP_EXP: return v_exp(value[code->a]);
    case ECO_OP_LOG: return v_log(value[code->a]);
    case ECO_OP_SQRT: return v_sqrt(value[code->a]);
    case ECO_OP_TANH: return v_tanh(value[code->a]);
    case ECO_OP_SIGMOID: return v_sigmoid(value[code->a]);
    case ECO_OP_RELU: return v_relu(value[code->a]);
    default: return 0;
        /* clang-format on */
    }
}

ECO_DEVICE void interpret_store(struct element *at, const struct eco_instruction *code, real v)
{
    switch (code->op) {
    /* clang-format off */
    case ECO_OP_STORE_OPERAND: store_operand(at, code->index, v); break;
    case ECO_OP_STORE_MEAN: store_mean(at, code->index, v); break;
    case ECO_OP_STORE_SAVE: store_save(at, code->index, v); break;
    case ECO_OP_STORE_NEXT: store_next(at, code->index, v); break;
    case ECO_OP_STORE_DACC: store_dacc(at, code->index, v); break;
    default: store_dstate(at, code->index, v);
        /* clang-format on */
    }
}

static __device__ __noinline__ void interpret(struct element *at,
                                              const struct eco_interpreted_call *program)
{
    real value[ECO_MAX_CODE];
    for (int i = 0; i < program->n; i++) {
        const struct eco_instruction *code = &program->code[i];
        if (code->op >= ECO_OP_STORE_OPERAND)
            interpret_store(at, code, value[code->a]);
        else
            value[i] = interpret_value(at, code, value);
    }
}

#define INTERPRET(at) interpret(at, &program)
static __global__ void __launch_bounds__(ECO_STAGE_THREADS)
    interpret_forward(const __grid_constant__ struct eco_interpreted_call program)
{
    STAGE_LOOP(at, &program.call, INTERPRET, mask_forward, ECO_MAX_MEANS)
}

static __global__ void __launch_bounds__(ECO_STAGE_THREADS)
    interpret_backward(const __grid_constant__ struct eco_interpreted_call program)
{
    STAGE_LOOP(at, &program.call, INTERPRET, mask_backward, ECO_MAX_MEANS)
}
#undef INTERPRET

#endif /* ECO_GPU_CELL_INTERPRET_CUH */

/*
 * Element-wise opcodes: rounding and derivative.
 */
#include "common/ref/ref_op.h"

#include <assert.h>
#include <math.h>

bool eco_reference_approximates(uint8_t op)
{
    return op == ECO_OP_EXP || op == ECO_OP_LOG || op == ECO_OP_TANH || op == ECO_OP_SIGMOID;
}

double eco_reference_slope(struct eco_arithmetic *arithmetic, uint8_t op, double a, double v)
{
    switch (op) {
    case ECO_OP_NEG:
        return -1;
    case ECO_OP_ABS:
        return a > 0 ? 1 : a < 0 ? -1 : 0;
    case ECO_OP_EXP:
        return v;
    case ECO_OP_LOG:
        return eco_round(arithmetic, 1 / a);
    case ECO_OP_SQRT:
        return eco_round(arithmetic, 0.5 / v);
    case ECO_OP_TANH:
        return eco_round(arithmetic, 1 - eco_round(arithmetic, v * v));
    case ECO_OP_SIGMOID:
        return eco_round(arithmetic, v * eco_round(arithmetic, 1 - v));
    case ECO_OP_RELU:
        return a > 0 ? 1 : 0;
    default:
        assert(!"an opcode of one argument");
        return NAN;
    }
}

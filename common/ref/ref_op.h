/*
 * Element-wise opcodes in the reference.
 */
#ifndef ECO_REF_OP_H
#define ECO_REF_OP_H

#include "common/cell/cell.h"
#include "common/ref/ref_rounding.h"

/* Whether a machine approximates the function (eco_opcode_value). */
bool eco_reference_approximates(uint8_t op);
/* The derivative of a function with one argument, from the argument a and the value v. */
double eco_reference_slope(struct eco_arithmetic *arithmetic, uint8_t op, double a, double v);

#endif /* ECO_REF_OP_H */

/*
 * Element-wise opcodes, as the reference understands them.
 */
#ifndef ECO_REF_OP_H
#define ECO_REF_OP_H

#include "common/cell/cell.h"
#include "common/ref/ref_rounding.h"

/* The value; does a machine approximate it? */
double eco_reference_value(uint8_t op, double a, double b, double c);
bool eco_reference_approximates(uint8_t op);
/* d f / d argument of one with a single argument, from the argument a and the value v. */
double eco_reference_slope(struct eco_arithmetic *arithmetic, uint8_t op, double a, double v);

#endif /* ECO_REF_OP_H */

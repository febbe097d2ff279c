/*
 * What opcodes compute; apart from cell.h, which kernels include.
 */
#ifndef ECO_OPCODE_H
#define ECO_OPCODE_H

/* The value of an opcode that works on one element; a mean is that of equal elements. */
double eco_opcode_value(int op, double a, double b, double c);

#endif /* ECO_OPCODE_H */

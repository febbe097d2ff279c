/*
 * The pointwise kernels for rows in BF16 (elem). Sums, vectors and carried gradients are float.
 */
#define ECO_NARROW 1
#include "cpu/isa/isa.c"

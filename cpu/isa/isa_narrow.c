/*
 * The pointwise kernels once more, for rows in BF16 (elem in words.h). Sums, vectors and carried
 * gradients are float.
 */
#define ECO_NARROW 1
#include "cpu/isa/isa.c"

/*
 * The pointwise kernels once more, for rows in BF16: what words.h calls elem.  Sums, vectors and
 * carried gradients are float as before.
 */
#define ECO_NARROW 1
#include "cpu/isa/isa.c"

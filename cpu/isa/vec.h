/*
 * The vocabulary of the instruction set of this object: -DECO_ISA=NAME chooses vec_NAME.h. Included
 * only by sources that are compiled once for each set.
 */
#ifndef ECO_VEC_H
#define ECO_VEC_H

/* clang-format off */
#define JOIN_(a, b)       a##b
#define JOIN(a, b)        JOIN_(a, b)
#define QUOTE_(text)      #text
#define QUOTE(text)       QUOTE_(text)
#define VEC_HEADER_(name) QUOTE(cpu/isa/vec_##name.h)
#define VEC_HEADER(name)  VEC_HEADER_(name)
#define ALWAYS_INLINE     static inline __attribute__((always_inline))
#include VEC_HEADER(ECO_ISA)
/* clang-format on */

#endif /* ECO_VEC_H */

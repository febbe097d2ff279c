/*
 * The floating-point environment; see fp.h.  The functions are never inlined, so that no arithmetic
 * moves across them.
 */
#include "common/fp.h"

#include "common/util.h"

#if ECO_FP_SSE
#include <xmmintrin.h>

enum {
    MASKED = 0x1f80,
    FLUSH = 0x8000,
    ZEROS = 0x0040
}; /* no traps; flush results; flush inputs */

struct eco_fp eco_fp_get(void)
{
    return (struct eco_fp){_mm_getcsr()};
}

void eco_fp_set(struct eco_fp fp)
{
    _mm_setcsr((unsigned)fp.word);
}

static struct eco_fp of_mode(enum eco_fp_mode mode)
{
    return (struct eco_fp){mode == ECO_FP_FLUSH ? MASKED | FLUSH | ZEROS : MASKED};
}
#elif ECO_FP_ARM
enum { FLUSH = 1 << 24 }; /* FPCR: flush both */

struct eco_fp eco_fp_get(void)
{
    uint64_t control, status;
    __asm__ volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(control), "=r"(status));
    return (struct eco_fp){status << 32 | (uint32_t)control};
}

void eco_fp_set(struct eco_fp fp)
{
    const uint64_t control = (uint32_t)fp.word, status = fp.word >> 32;
    __asm__ volatile("msr fpcr, %0\n\tmsr fpsr, %1" : : "r"(control), "r"(status));
}

static struct eco_fp of_mode(enum eco_fp_mode mode)
{
    return (struct eco_fp){mode == ECO_FP_FLUSH ? FLUSH : 0};
}
#else
struct eco_fp eco_fp_get(void)
{
    return (struct eco_fp){0};
}

void eco_fp_set(struct eco_fp fp)
{
    (void)fp;
}

static struct eco_fp of_mode(enum eco_fp_mode mode)
{
    (void)mode;
    return (struct eco_fp){0};
}
#endif

struct eco_fp eco_fp_enter(enum eco_fp_mode mode)
{
    const struct eco_fp before = eco_fp_get();
    eco_fp_set(of_mode(mode));
    return before;
}

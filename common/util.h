/*
 * Utilities: overflow-checked sizes, aligned memory, a string builder, the thread's error text.
 * Platform differences in common are only here and in os.h.
 */
#ifndef ECO_UTIL_H
#define ECO_UTIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn/types.h"
#include "common/os.h"

#if defined(__GNUC__)
#define ECO_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define ECO_PRINTF(text, first)
#endif

/* Executed by a thread between two reads of a flag. */
#if defined(__x86_64__) || defined(__i386__)
#define ECO_PAUSE() __builtin_ia32_pause()
#else
#define ECO_PAUSE() ((void)0)
#endif

/* Processors whose floating-point environment common/caller.c can set. */
#if defined(__SSE__)
#define ECO_FP_SSE 1
#elif defined(__aarch64__)
#define ECO_FP_ARM 1
#endif

/* Prefetches a cache line to the second-level cache, or, NEAR, to the first. */
#if defined(__GNUC__)
#define ECO_FETCH(address)      __builtin_prefetch(address, 0, 2)
#define ECO_FETCH_NEAR(address) __builtin_prefetch(address, 0, 3)
#else
#define ECO_FETCH(address)      ((void)(address))
#define ECO_FETCH_NEAR(address) ((void)(address))
#endif

enum {
    ECO_ALIGNMENT = 64
}; /* of blocks and of every array inside them: one cache line, one zmm register */

/* a / b rounded up, for a >= 0 and b > 0. */
static inline int32_t eco_ceil_div(int64_t a, int64_t b)
{
    return (int32_t)((a + b - 1) / b);
}
static inline size_t eco_larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sizes with a sticky overflow flag that is checked once at the end.  A size above PTRDIFF_MAX is
 * an overflow too, because no array can be larger. */
struct eco_size {
    size_t value;
    bool overflow;
};
static inline struct eco_size eco_size_of(size_t value)
{
    return (struct eco_size){value, value > PTRDIFF_MAX};
}
static inline struct eco_size eco_size_add(struct eco_size a, struct eco_size b)
{
    const bool overflow = b.value > PTRDIFF_MAX || a.value > PTRDIFF_MAX - b.value;
    return (struct eco_size){a.value + b.value, a.overflow || b.overflow || overflow};
}
static inline struct eco_size eco_size_mul(struct eco_size a, size_t b)
{
    const bool overflow = b != 0 && a.value > PTRDIFF_MAX / b;
    return (struct eco_size){a.value * b, a.overflow || overflow};
}
/* Rounds up to a multiple of ECO_ALIGNMENT. */
static inline struct eco_size eco_size_align(struct eco_size a)
{
    struct eco_size up = eco_size_add(a, eco_size_of(ECO_ALIGNMENT - 1));
    up.value -= up.value % ECO_ALIGNMENT;
    return up;
}

/* Aligned to ECO_ALIGNMENT; NULL if there is no memory or bytes is 0.  All memory of the library is
 * allocated here, so that a test can make every allocation fail once. */
void *eco_alloc(size_t bytes);
void *eco_alloc_zeroed(size_t bytes);
void eco_free(void *memory);
/* For tests: makes the k-th allocation from now on fail (0: none). */
void eco_alloc_fail_at(int k);
/* The same for a module's calls to its driver; false: the previous failure has happened. */
bool eco_call_fail_at(int k);
/* Must this call fail? */
bool eco_call_fails(void);

/* A string of bounded size: appends what fits, and counts what does not, like repeated snprintf. */
struct eco_text {
    char *data;
    size_t size, length; /* length may exceed size: the size it would need */
};
void eco_text_add(struct eco_text *text, const char *format, ...) ECO_PRINTF(2, 3);
/* Appends foreign text as one line, as much as fits; bytes that are not printable become "\xNN". */
void eco_text_add_escaped(struct eco_text *text, const char *from);

/* Adds bytes to a hash that starts as ECO_HASH: FNV-1a, not secure against attackers. */
#define ECO_HASH UINT64_C(0xCBF29CE484222325)
uint64_t eco_hash(uint64_t hash, const void *data, size_t bytes);

/* Sets the thread's error detail, always one line, and returns status: return eco_fail(...). */
ecornn_status eco_fail(ecornn_status status, const char *format, ...) ECO_PRINTF(2, 3);
const char *eco_fail_detail(void);
/* Saves and restores the error detail around calls that may fail without consequence. */
enum { ECO_MAX_DETAIL = 512 };
void eco_fail_keep(char detail[ECO_MAX_DETAIL]);
void eco_fail_restore(const char detail[ECO_MAX_DETAIL]);

#endif /* ECO_UTIL_H */

/*
 * Small tools for everyone: overflow-checked sizes, aligned memory, a string builder, the thread's
 * error text.  Platform differences live here and nowhere else in common.
 */
#ifndef ECO_UTIL_H
#define ECO_UTIL_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"

#if defined(__GNUC__)
#define ECO_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define ECO_PRINTF(text, first)
#endif

/* What a thread does between two looks at a flag. */
#if defined(__x86_64__) || defined(__i386__)
#define ECO_PAUSE() __builtin_ia32_pause()
#else
#define ECO_PAUSE() ((void)0)
#endif

/* Processors whose floating-point environment common/fp.c knows how to set. */
#if defined(__SSE__)
#define ECO_FP_SSE 1
#elif defined(__aarch64__)
#define ECO_FP_ARM 1
#endif

/* The cache line at an address is wanted soon in the second-level cache; near: in the first. */
#if defined(__GNUC__)
#define ECO_FETCH(address)      __builtin_prefetch(address, 0, 2)
#define ECO_FETCH_NEAR(address) __builtin_prefetch(address, 0, 3)
#else
#define ECO_FETCH(address)      ((void)(address))
#define ECO_FETCH_NEAR(address) ((void)(address))
#endif

enum { ECO_ALIGNMENT = 64 }; /* of blocks and of every array inside them: a cache line, a zmm */

/* Sizes that remember an overflow: sticky, checked once at the end.  No array is larger than
 * PTRDIFF_MAX, so what is more is an overflow, too. */
struct eco_size {
    size_t value;
    bool overflow;
};
struct eco_size eco_size_of(size_t value);
struct eco_size eco_size_add(struct eco_size a, struct eco_size b);
struct eco_size eco_size_mul(struct eco_size a, size_t b);
/* Up to the next multiple of ECO_ALIGNMENT. */
struct eco_size eco_size_align(struct eco_size a);

/* Aligned to ECO_ALIGNMENT; NULL when there is no memory or bytes is 0.  All memory of the library
 * comes from these two, so that a test can make every allocation fail once. */
void *eco_alloc(size_t bytes);
void *eco_alloc_zeroed(size_t bytes);
void eco_free(void *memory);
/* For tests: the k-th allocation from now on fails (0: none). */
void eco_alloc_fail_at(int k);
/* The same of a module's calls of what it is built on; false: the one before has failed. */
bool eco_call_fail_at(int k);
/* Does this call? */
bool eco_call_fails(void);

/* Sleeps until woken, if *word is still value; may return early, and does after a millisecond.
 * eco_wake_all wakes the sleepers of a word.  Where the system has no such thing, a sleeper only
 * gives way to other threads. */
void eco_sleep_while(_Atomic unsigned *word, unsigned value);
void eco_wake_all(_Atomic unsigned *word);

/* A text of bounded size: appends what fits, counts what does not.  As snprintf, in pieces. */
struct eco_text {
    char *data;
    size_t size, length; /* length may exceed size: what would have been needed */
};
void eco_text_add(struct eco_text *text, const char *format, ...) ECO_PRINTF(2, 3);
/* Adds a text of others to one line, as much as fits: what is no character to show is "\xNN", byte
 * by byte. */
void eco_text_add_shown(struct eco_text *text, const char *from);

/* Adds bytes to a hash that begins with ECO_HASH.  FNV-1a (Fowler, Noll, Vo): finds what is equal,
 * keeps out no enemy. */
#define ECO_HASH UINT64_C(0xCBF29CE484222325)
uint64_t eco_hash(uint64_t hash, const void *data, size_t bytes);

/* A variable of the environment, NULL in a set-user-id program; for device and plan creation. */
const char *eco_environment(const char *name);

/* Sets the calling thread's error detail and returns status: return eco_fail(...).  The detail is
 * one line whatever the arguments hold. */
ecornn_status eco_fail(ecornn_status status, const char *format, ...) ECO_PRINTF(2, 3);
const char *eco_fail_detail(void);
/* For calls that try what may fail, and go on without: the detail before is kept, and put back. */
enum { ECO_MAX_DETAIL = 512 };
void eco_fail_keep(char detail[ECO_MAX_DETAIL]);
void eco_fail_restore(const char detail[ECO_MAX_DETAIL]);

#endif /* ECO_UTIL_H */

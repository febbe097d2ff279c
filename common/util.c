/*
 * Utilities; see util.h.  Knows nothing of cells, plans or devices.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* for secure_getenv */
#endif

#include "common/util.h"

#include <limits.h>
#include <locale.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__linux__)
#include <sys/mman.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <sched.h>
#endif

/* Successes left before one fails; negative: none fails. */
static _Atomic int allocations_left = -1, calls_left = -1;

void eco_alloc_fail_at(int k)
{
    atomic_store(&allocations_left, k > 0 ? k - 1 : -1);
}

bool eco_call_fail_at(int k)
{
    return atomic_exchange(&calls_left, k > 0 ? k - 1 : -1) >= 0;
}

static bool is_last(_Atomic int *left)
{
    if (atomic_load_explicit(left, memory_order_relaxed) < 0)
        return false;
    return atomic_fetch_sub(left, 1) == 0;
}

static bool allocation_fails(void)
{
    return is_last(&allocations_left);
}

bool eco_call_fails(void)
{
    return is_last(&calls_left);
}

/* Blocks of megabytes start at a huge page boundary, and the system is asked for huge pages,
 * because products read them repeatedly: they need fewer TLB entries, and do not displace
 * themselves in a cache whose sets follow from physical addresses. Less than half a huge page at
 * the end stays in small ones. */
enum { LARGE_PAGE = 2 << 20, LARGE_FROM = LARGE_PAGE / 2 };

static void want_large_pages(void *memory, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    const size_t large = (bytes + LARGE_FROM) / LARGE_PAGE * LARGE_PAGE;
    if (memory != NULL && large > 0)
        (void)madvise(memory, large, MADV_HUGEPAGE); /* optional */
#else
    (void)memory, (void)bytes;
#endif
}

void *eco_alloc(size_t bytes)
{
    const size_t to = bytes >= LARGE_FROM ? LARGE_PAGE : ECO_ALIGNMENT;
    if (bytes == 0 || bytes > PTRDIFF_MAX - to || allocation_fails())
        return NULL;
    const size_t whole = (bytes + to - 1) / to * to;
    void *memory = aligned_alloc(to, whole);
    want_large_pages(memory, bytes);
    return memory;
}

void *eco_alloc_zeroed(size_t bytes)
{
    void *memory = eco_alloc(bytes);
    if (memory != NULL)
        memset(memory, 0, bytes);
    return memory;
}

void eco_free(void *memory)
{
    free(memory);
}

#if defined(__linux__)
void eco_sleep_while(_Atomic unsigned *word, unsigned value)
{
    const struct timespec most = {.tv_nsec = 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &most, NULL, 0);
}

void eco_wake_all(_Atomic unsigned *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
void eco_sleep_while(_Atomic unsigned *word, unsigned value)
{
    (void)word;
    (void)value;
    sched_yield();
}

void eco_wake_all(_Atomic unsigned *word)
{
    (void)word;
}
#endif

uint64_t eco_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    return hash;
}

const char *eco_environment(const char *name)
{
    return secure_getenv(name);
}

/* vsnprintf with a decimal point, whatever the locale of the program is. */
static int format_plainly(char *to, size_t size, const char *format, va_list list)
{
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(plain);
    const int n = vsnprintf(to, size, format, list);
    uselocale(before);
    if (plain != (locale_t)0)
        freelocale(plain);
    return n;
}

void eco_text_add(struct eco_text *text, const char *format, ...)
{
    const size_t used = text->length < text->size ? text->length : text->size,
                 left = text->size - used, /* vsnprintf() need not take more than INT_MAX */
        room = left < INT_MAX ? left : INT_MAX;
    va_list list;
    va_start(list, format);
    const int n = format_plainly(room > 0 ? text->data + used : NULL, room, format, list);
    va_end(list);
    if (n > 0)
        text->length += (size_t)n;
}

/* Bytes of the character at text if it can be printed in a line; 0: it controls a terminal, ends a
 * line, changes the writing direction, or is not UTF-8. */
static size_t printable_bytes(const char *text)
{
    static const uint32_t least[] = {0, 0xA0, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    if (at[0] < 0x80)
        return at[0] >= 0x20 && at[0] != 0x7F;
    if (at[0] < 0xC2 || at[0] > 0xF4)
        return 0;
    const int more = at[0] >= 0xF0 ? 3 : at[0] >= 0xE0 ? 2 : 1;
    uint32_t code = at[0] & (0x3Fu >> more);
    for (int k = 1; k <= more; k++) {
        if ((at[k] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (at[k] & 0x3F);
    }
    if (code < least[more] || code > 0x10FFFF || code >> 11 == 0xD800 >> 11)
        return 0;
    if ((code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) ||
        code == 0x200E || code == 0x200F || code == 0x061C)
        return 0;
    return (size_t)more + 1;
}

void eco_text_add_escaped(struct eco_text *text, const char *from)
{
    while (*from != '\0') {
        const size_t bytes = printable_bytes(from), room = bytes > 0 ? bytes : 4;
        if (text->length + room >= text->size)
            return;
        if (bytes > 0)
            eco_text_add(text, "%.*s", (int)bytes, from);
        else
            eco_text_add(text, "\\x%02X", (unsigned char)*from);
        from += bytes > 0 ? bytes : 1;
    }
}

static _Thread_local char fail_detail[ECO_MAX_DETAIL];

ecornn_status eco_fail(ecornn_status status, const char *format, ...)
{
    char said[sizeof fail_detail];
    struct eco_text detail = {fail_detail, sizeof fail_detail, 0};
    va_list list;
    va_start(list, format);
    format_plainly(said, sizeof said, format, list);
    va_end(list);
    fail_detail[0] = '\0';
    eco_text_add_escaped(&detail, said);
    return status;
}

const char *eco_fail_detail(void)
{
    return fail_detail;
}

void eco_fail_keep(char detail[ECO_MAX_DETAIL])
{
    memcpy(detail, fail_detail, sizeof fail_detail);
}

void eco_fail_restore(const char detail[ECO_MAX_DETAIL])
{
    memcpy(fail_detail, detail, sizeof fail_detail);
}

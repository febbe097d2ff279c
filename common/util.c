/*
 * Utilities; see util.h.  Knows nothing of cells, plans or devices.
 */
#include "common/util.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

void *eco_alloc(size_t bytes)
{
    const size_t to = bytes >= LARGE_FROM ? LARGE_PAGE : ECO_ALIGNMENT;
    if (bytes == 0 || bytes > PTRDIFF_MAX - to || allocation_fails())
        return NULL;
    const size_t whole = (bytes + to - 1) / to * to;
    const size_t large = (bytes + LARGE_FROM) / LARGE_PAGE * LARGE_PAGE;
    void *memory = eco_os_alloc(to, whole);
    if (memory != NULL && large > 0)
        eco_os_want_large_pages(memory, large);
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
    eco_os_free(memory);
}

uint64_t eco_hash(uint64_t hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ at[i]) * UINT64_C(0x100000001B3);
    return hash;
}

void eco_text_add(struct eco_text *text, const char *format, ...)
{
    const size_t used = text->length < text->size ? text->length : text->size,
                 left = text->size - used, /* vsnprintf() need not take more than INT_MAX */
        room = left < INT_MAX ? left : INT_MAX;
    va_list list;
    va_start(list, format);
    const int n = eco_os_format(room > 0 ? text->data + used : NULL, room, format, list);
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
    eco_os_format(said, sizeof said, format, list);
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

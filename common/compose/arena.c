/*
 * Arenas; see arena.h.
 */
#include "common/compose/arena.h"

#include <assert.h>

static struct eco_size align(struct eco_size bytes)
{
    struct eco_size all = eco_size_add(bytes, eco_size_of(ECO_ARENA_ALIGNMENT - 1));
    all.value = all.value / ECO_ARENA_ALIGNMENT * ECO_ARENA_ALIGNMENT;
    return all;
}

struct eco_size eco_arena_numbers(size_t element, size_t a, size_t b, size_t c)
{
    return eco_size_mul(eco_size_mul(eco_size_mul(eco_size_of(element), a), b), c);
}

size_t eco_arena_take(struct eco_arena *arena, struct eco_size bytes)
{
    const size_t at = arena->end.value;
    assert(arena->count == 0);
    arena->end = eco_size_add(arena->end, align(bytes));
    arena->floor = arena->end.value;
    return at;
}

/* The end of an array that occupies some of [begin, end) in some of the turns; 0: there is none. */
static size_t occupied(const struct eco_arena *arena, const struct eco_shared_array *want)
{
    for (int k = 0; k < arena->count; k++) {
        const struct eco_shared_array *const other = &arena->shared[k];
        if (other->from <= want->to && want->from <= other->to && other->begin < want->end &&
            want->begin < other->end)
            return other->end;
    }
    return 0;
}

void *eco_arena_array(struct eco_arena *arena, struct eco_size bytes)
{
    const size_t at = eco_arena_take(arena, bytes);
    return eco_after(arena->base, at);
}

size_t eco_arena_share(struct eco_arena *arena, struct eco_size bytes, int from, int to)
{
    const struct eco_size size = align(bytes);
    struct eco_shared_array want = {from, to, arena->floor, arena->floor + size.value};
    if (size.value == 0)
        return arena->floor;
    if (size.overflow || arena->end.overflow) {
        arena->end.overflow = true;
        return 0;
    }
    for (size_t end; (end = occupied(arena, &want)) != 0;)
        want.begin = end, want.end = end + size.value;
    assert(arena->count < arena->most);
    arena->shared[arena->count++] = want;
    if (want.end > arena->end.value)
        arena->end = eco_size_of(want.end);
    return want.begin;
}

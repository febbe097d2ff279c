/*
 * Places arrays in a block: the only code that does so for nets, models, tangents and masks.
 *
 * An arena counts bytes from the start of a block.  Arrays may say when they are in use, as a range
 * of turns; arrays that are in use at different times then share memory.  Example: three arrays of
 * 100 bytes in use in turns 0-1, 1-2 and 2-3.  The second is placed after the first, at 256, and
 * the third where the first was, at 0, so the block has 512 bytes.
 */
#ifndef ECO_ARENA_H
#define ECO_ARENA_H

#include "common/util.h"

/* Arrays are aligned as memory of ecornn_alloc is, because a GPU chooses products by alignment. */
enum { ECO_ARENA_ALIGNMENT = 256 };

struct eco_shared_array {
    int from, to; /* turns */
    size_t begin, end;
};

struct eco_arena {
    char *base;                      /* of the block; NULL: bytes are only counted */
    struct eco_size end;             /* bytes of the block so far */
    size_t floor;                    /* bytes of arrays that are always in use */
    struct eco_shared_array *shared; /* the others */
    int count, most;
};

/* Places an array that is always in use and returns the bytes before it.  Such arrays must be
 * placed before all others. */
size_t eco_arena_take(struct eco_arena *arena, struct eco_size bytes);
/* Places an array that is in use from one turn to another. */
size_t eco_arena_share(struct eco_arena *arena, struct eco_size bytes, int from, int to);
/* The same, and returns the array. */
void *eco_arena_array(struct eco_arena *arena, struct eco_size bytes);
/* An array [a,b,c] of elements. */
struct eco_size eco_arena_numbers(size_t element, size_t a, size_t b, size_t c);
/* The array that begins `bytes` after the start of a block; NULL if the block is NULL. */
static inline void *eco_after(const void *block, size_t bytes)
{
    return block == NULL ? NULL : (char *)(uintptr_t)block + bytes;
}

#endif /* ECO_ARENA_H */

/*
 * Who does what in a product of split operands, and when: tiles of C and their stages, shared out
 * to blocks; the stages that producers fill and consumers empty in turn.
 */
/* All stages of all tiles, tile by tile; a block does those between two bounds.  Where blocks share
 * tiles they put aside their parts of these, in the order of threads and registers: at most two,
 * that of the tile they begin in and that of the one they end in. */
struct course {
    int32_t steps, tiles_n, tiles, blocks; /* steps: stages of a tile */
    bool shared;
};

struct place {
    int32_t tile, step;
};

WORD course course_of(const eco_split_call &call, int32_t blocks)
{
    course c;
    c.steps = (call.k + DEPTH - 1) / DEPTH;
    c.tiles_n = (call.n + TILE - 1) / TILE;
    c.tiles = (call.m + TILE - 1) / TILE * c.tiles_n;
    c.blocks = blocks;
    c.shared = call.parts != nullptr;
    return c;
}

WORD place bound(const course &c, int32_t block)
{
    place p;
    if (c.shared) {
        const int64_t stage = (int64_t)c.tiles * c.steps * block / c.blocks;
        p.tile = (int32_t)(stage / c.steps);
        p.step = (int32_t)(stage - (int64_t)p.tile * c.steps);
    } else {
        p.tile = (int32_t)((int64_t)c.tiles * block / c.blocks);
        p.step = 0;
    }
    return p;
}

WORD bool before(const place &p, const place &q)
{
    return p.tile < q.tile || (p.tile == q.tile && p.step < q.step);
}

WORD void go_on(const course &c, place *p)
{
    if (++p->step == c.steps) {
        p->step = 0;
        p->tile++;
    }
}

/* [16][CONSUMERS] of a block's first or last tile. */
WORD float4 *part_of(const eco_split_call &call, int32_t block, bool last)
{
    return (float4 *)call.parts + (size_t)(2 * block + last) * (TILE * TILE / 4);
}

enum { STAGES = 2 }; /* of shared memory, in turn */

struct turn {
    int stage;
    unsigned parity;
    __device__ __forceinline__ void next()
    {
        stage = (stage + 1) % STAGES;
        parity ^= stage == 0;
    }
};

struct barriers {
    uint64_t full[STAGES], empty[STAGES];
    int mode[STAGES];
};

/*
 * Who does what in a product of split operands, and when: tiles of C and their stages, shared out
 * to clusters.  The blocks of a cluster work side by side, on tiles below each other.
 */
enum { PAIR = ECO_SPLIT_PAIR };

/* All stages of all pairs of tiles; a cluster does those between two bounds.  Where clusters share
 * tiles blocks put aside their parts of these, in the order of threads and registers: at most two,
 * that of the tile they begin in and that of the one they end in. */
struct course {
    int32_t steps, tiles_m, tiles_n, pairs, clusters; /* steps: stages of a tile */
    bool shared;
};

struct place {
    int32_t pair, step;
};

WORD course course_of(const eco_split_call &call, int32_t clusters)
{
    course c;
    c.steps = (call.k + DEPTH - 1) / DEPTH;
    c.tiles_m = (call.a.rows + TILE - 1) / TILE;
    c.tiles_n = (call.b.rows + TILE - 1) / TILE;
    c.pairs = (c.tiles_m + PAIR - 1) / PAIR * c.tiles_n;
    c.clusters = clusters;
    c.shared = call.parts != nullptr;
    return c;
}

WORD place bound(const course &c, int32_t cluster)
{
    place p;
    if (c.shared) {
        const int64_t stage = (int64_t)c.pairs * c.steps * cluster / c.clusters;
        p.pair = (int32_t)(stage / c.steps);
        p.step = (int32_t)(stage - (int64_t)p.pair * c.steps);
    } else {
        p.pair = (int32_t)((int64_t)c.pairs * cluster / c.clusters);
        p.step = 0;
    }
    return p;
}

WORD bool before(const place &p, const place &q)
{
    return p.pair < q.pair || (p.pair == q.pair && p.step < q.step);
}

/* A block's tile of a pair; m may be past the last. */
struct tile {
    int32_t m, n;
};

WORD tile tile_of(const course &c, int32_t pair, int32_t rank)
{
    const int32_t m = pair / c.tiles_n;
    return {m * PAIR + rank, pair - m * c.tiles_n};
}

/* [16][CONSUMERS] of a block's first or last tile. */
WORD float4 *part_of(const eco_split_call &call, int32_t cluster, int32_t rank, bool last)
{
    const size_t block = (size_t)cluster * PAIR + rank;
    return (float4 *)call.parts + (2 * block + last) * (TILE * TILE / 4);
}

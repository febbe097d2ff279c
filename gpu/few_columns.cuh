/*
 * Columns of a matrix as rows that an instruction wants: read as they lie, some neighbouring rows
 * of some neighbouring columns to a thread, and turned in registers.
 */
/* Of a matrix what a thread reads: UNITS columns of it, from `first` on.  WHOLE: as one; else one
 * by one, those that are there. */
template <int UNITS, bool WHOLE> struct columns {
    const narrow *first;
    size_t row;
    int there;
};

/* PIECE rows of them. */
template <int UNITS> struct block_of_columns {
    enum { words = UNITS * sizeof(narrow) / sizeof(unsigned) };
    unsigned of[PIECE][words];
};

template <int UNITS, bool WHOLE>
static __device__ __forceinline__ struct columns<UNITS, WHOLE>
columns_of(const void *matrix, size_t row, int first, int end) {
    const int there = end - first;
    return {(const narrow *)matrix + (there > 0 ? first : 0), row, there};
}

template <int WORDS>
static __device__ __forceinline__ void read_words(const void *from, bool there, unsigned *to)
{
    if constexpr (WORDS == 4) {
        const uint4 v = there ? *(const uint4 *)from : make_uint4(0, 0, 0, 0);
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (WORDS == 2) {
        const uint2 v = there ? *(const uint2 *)from : make_uint2(0, 0);
        to[0] = v.x, to[1] = v.y;
    } else {
        to[0] = there ? *(const unsigned *)from : 0;
    }
}

template <int UNITS>
static __device__ __forceinline__ void read_some_columns(const narrow *from, int there,
                                                         unsigned *to)
{
    __align__(16) narrow x[UNITS];
#pragma unroll
    for (int u = 0; u < UNITS; u++)
        x[u] = u < there ? from[u] : to_narrow(0);
    read_words<block_of_columns<UNITS>::words>(x, true, to);
}

/* Rows from k on, zeros from `end` on. */
template <int UNITS, bool WHOLE>
static __device__ __forceinline__ void fetch_columns(const struct columns<UNITS, WHOLE> &at, int k,
                                                     int end, struct block_of_columns<UNITS> *to)
{
    const narrow *from = at.first + (size_t)k * at.row;
#pragma unroll
    for (int i = 0; i < PIECE; i++, from += at.row) {
        if constexpr (WHOLE)
            read_words<block_of_columns<UNITS>::words>(from, k + i < end, to->of[i]);
        else
            read_some_columns<UNITS>(from, k + i < end ? at.there : 0, to->of[i]);
    }
}

/* One column's PIECE numbers. */
template <int UNITS>
static __device__ __forceinline__ uint4 turned(const struct block_of_columns<UNITS> &v, int unit)
{
#if defined(ECO_ROWS_F32)
    return make_uint4(v.of[0][unit], v.of[1][unit], v.of[2][unit], v.of[3][unit]);
#else
    enum { LOWER = 0x5410, UPPER = 0x7632 };
    const int w = unit / 2, half = unit % 2 ? UPPER : LOWER;
    return make_uint4(
        __byte_perm(v.of[0][w], v.of[1][w], half), __byte_perm(v.of[2][w], v.of[3][w], half),
        __byte_perm(v.of[4][w], v.of[5][w], half), __byte_perm(v.of[6][w], v.of[7][w], half));
#endif
}

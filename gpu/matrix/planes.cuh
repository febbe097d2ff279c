/*
 * Products of matrices of floats by tensor cores, as exact as sums in float: a number is the sum of
 * up to three of BF16, the planes of its matrix, and of the products of planes only those below
 * 2^-24 are left out.  A number that is BF16 itself needs one plane.
 *
 * A matrix of planes is in shared memory, by rows of 64 or 128 numbers.  Eight numbers of a row, a
 * group, stay together; groups are permuted from row to row, so that a fragment's eight
 * rows are in different banks.
 */
#ifndef ECO_GPU_MATRIX_PLANES_CUH
#define ECO_GPU_MATRIX_PLANES_CUH

#include "gpu/arch/mma.cuh"
#include "gpu/matrix/steps.cuh"

enum { PLANES = ECO_GPU_MATRIX_PLANES, GROUP_SIZE = 8, FRAGMENT = 16 };

/* Two neighbours of a row in each plane, the first in the lower half. */
struct split_pair {
    unsigned plane[PLANES];
};

ECO_DEVICE split_pair split(float x, float y)
{
    split_pair pair;
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
        const unsigned both = floats_to_bf16(x, y);
        pair.plane[p] = both;
        x -= __uint_as_float(both << 16);
        y -= __uint_as_float(both & 0xffff0000);
    }
    return pair;
}

struct planes {
    unsigned at; /* in shared_bytes: a multiple of row_bytes */
    int row_bytes, plane_bytes;
};

ECO_DEVICE planes planes_of(unsigned at, int rows, int columns)
{
    return {at, columns * 2, rows * columns * 2};
}

/* The place of a group of a row of a plane. */
ECO_DEVICE unsigned group_of(const planes &matrix, int plane, int row, int group)
{
    return matrix.at + plane * matrix.plane_bytes + row * matrix.row_bytes +
           (group ^ (row & (GROUP_SIZE - 1))) * (2 * GROUP_SIZE);
}

ECO_DEVICE unsigned char *group_at(const planes &matrix, int plane, int row, int group)
{
    return shared_bytes + group_of(matrix, plane, row, group);
}

/* Stores a pair of neighbours, of an even column on. */
template <int COUNT>
ECO_DEVICE void store_split_pair(const planes &matrix, int row, int column, float x, float y)
{
    const split_pair pair = split(x, y);
#pragma unroll
    for (int p = 0; p < COUNT; p++)
        *(unsigned *)(group_at(matrix, p, row, column / GROUP_SIZE) + column % GROUP_SIZE * 2) =
            pair.plane[p];
}

/* Stores a group. */
template <int COUNT>
ECO_DEVICE void store_group(const planes &matrix, int row, int group, const float x[GROUP_SIZE])
{
    split_pair pair[GROUP_SIZE / 2];
#pragma unroll
    for (int i = 0; i < GROUP_SIZE / 2; i++)
        pair[i] = split(x[2 * i], x[2 * i + 1]);
#pragma unroll
    for (int p = 0; p < COUNT; p++)
        *(uint4 *)group_at(matrix, p, row, group) =
            make_uint4(pair[0].plane[p], pair[1].plane[p], pair[2].plane[p], pair[3].plane[p]);
}

/* Two neighbours, of an even column on. */
template <int COUNT> ECO_DEVICE float2 planes_pair(const planes &matrix, int row, int column)
{
    float2 pair = make_float2(0, 0);
#pragma unroll
    for (int p = COUNT - 1; p >= 0; p--) {
        const unsigned both = *(const unsigned *)(group_at(matrix, p, row, column / GROUP_SIZE) +
                                                  column % GROUP_SIZE * 2);
        pair.x += __uint_as_float(both << 16);
        pair.y += __uint_as_float(both & 0xffff0000);
    }
    return pair;
}

/* ---- fragments ------------------------------------------------------------------------------- */

/* The row that a lane loads of four matrices of 8 by 8: of 16 rows from `row` on, an even group and
 * the next one.  `down`: the second matrix has the lower rows, else the next group. */
ECO_DEVICE unsigned row_of_lane(const planes &matrix, int row, int group, bool down)
{
    const int lane = (int)threadIdx.x % WARP, second = lane >> 3 & 1, third = lane >> 4;
    return group_of(matrix, 0, row + (lane & 7) + 8 * (down ? second : third),
                    group + (down ? third : second));
}

/* The place of a group that is an even number of groups further.  group_of() puts a group where the
 * exclusive or of its number and its row's is, and rows begin at multiples of their length. */
ECO_DEVICE unsigned groups_on(unsigned at, int groups)
{
    return at ^ (unsigned)(groups * 2 * GROUP_SIZE);
}

/* The left operand a of a product, from row m on; TURNED: the matrix has a's columns as rows. */
template <bool TURNED> ECO_DEVICE unsigned left_of(const planes &a, int m)
{
    return TURNED ? row_of_lane(a, 0, m / GROUP_SIZE, false) : row_of_lane(a, m, 0, true);
}

/* Its 16 rows and columns from column k on. */
template <bool TURNED> ECO_DEVICE uint4 left_at(const planes &a, unsigned left, int k, int plane)
{
    left = TURNED ? left + k * a.row_bytes : groups_on(left, k / GROUP_SIZE);
    left += plane * a.plane_bytes;
    return TURNED ? load_matrices_transposed(shared_bytes + left)
                  : load_matrices(shared_bytes + left);
}

/* The right operand b, from column n on. */
template <bool TURNED> ECO_DEVICE unsigned right_of(const planes &b, int n)
{
    return TURNED ? row_of_lane(b, n, 0, false) : row_of_lane(b, 0, n / GROUP_SIZE, true);
}

/* 16 rows of it from k on, and 16 columns, 8j further: x and y have 8 of them, z and w the others.
 */
template <bool TURNED>
ECO_DEVICE uint4 right_at(const planes &b, unsigned right, int k, int j, int plane)
{
    right = TURNED ? groups_on(right, k / GROUP_SIZE) + j * GROUP_SIZE * b.row_bytes
                   : groups_on(right, j) + k * b.row_bytes;
    right += plane * b.plane_bytes;
    return TURNED ? load_matrices(shared_bytes + right)
                  : load_matrices_transposed(shared_bytes + right);
}

/* A warp's part of a product: TALL times 16 rows, WIDE times 8 columns. */
template <int TALL, int WIDE> struct planes_sums {
    float at[TALL][WIDE][4];
};

template <int TALL, int WIDE> ECO_DEVICE void clear_sums(planes_sums<TALL, WIDE> &d)
{
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                d.at[i][j][e] = 0;
}

template <int TALL, int WIDE>
ECO_DEVICE void add(planes_sums<TALL, WIDE> &d, const planes_sums<TALL, WIDE> &more)
{
#pragma unroll
    for (int i = 0; i < TALL; i++)
#pragma unroll
        for (int j = 0; j < WIDE; j++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                d.at[i][j][e] += more.at[i][j][e];
}

/* Copies 16 rows. */
template <int TO, int FROM, int WIDE>
ECO_DEVICE void copy_sums(planes_sums<TO, WIDE> &to, int row, const planes_sums<FROM, WIDE> &from,
                          int i)
{
#pragma unroll
    for (int j = 0; j < WIDE; j++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            to.at[row][j][e] = from.at[i][j][e];
}

/* A sum of products of first planes, and of the others, apart.  A tensor core cuts its sums off, so
 * each of its instructions costs a large sum a bit: both begin at 0, and are added to what is there
 * as floats are. */
template <int TALL, int WIDE> struct apart {
    planes_sums<TALL, WIDE> large, small;
};

template <int TALL, int WIDE> ECO_DEVICE void clear_apart(apart<TALL, WIDE> &sum)
{
    clear_sums(sum.large);
    clear_sums(sum.small);
}

template <int TALL, int WIDE>
ECO_DEVICE void add_apart(planes_sums<TALL, WIDE> &d, apart<TALL, WIDE> &sum)
{
    add(sum.large, sum.small);
    add(d, sum.large);
}

/* Adds the products for 16 of k, of which the planes of a are in registers. */
template <int A, int B, bool TURNED, int TALL, int WIDE>
ECO_DEVICE void add_16(apart<TALL, WIDE> &d, const uint4 (&a)[TALL][A], const planes &b,
                       unsigned right_b, int k)
{
#pragma unroll
    for (int j = 0; j < WIDE; j += 2)
#pragma unroll
        for (int q = B - 1; q >= 0; q--) {
            const uint4 right = right_at<TURNED>(b, right_b, k, j, q);
#pragma unroll
            for (int p = A - 1; p >= 0; p--)
#pragma unroll
                for (int i = 0; i < TALL; i++) {
                    if (p + q >= PLANES)
                        continue;
                    planes_sums<TALL, WIDE> &to = p + q == 0 ? d.large : d.small;
                    mma_bf16(to.at[i][j], a[i][p], right.x, right.y);
                    mma_bf16(to.at[i][j + 1], a[i][p], right.z, right.w);
                }
        }
}

struct range {
    int first, end;
};

/* d += a b, from column n on, for the k of a range. */
template <int A, int B, bool TURNED_A, bool TURNED_B, int TALL, int WIDE>
ECO_DEVICE void add_product(planes_sums<TALL, WIDE> &d, const planes &a, const int (&m)[TALL],
                            const planes &b, int n, range of)
{
    apart<TALL, WIDE> sum;
    unsigned left[TALL], right = right_of<TURNED_B>(b, n);
    clear_apart(sum);
#pragma unroll
    for (int i = 0; i < TALL; i++)
        left[i] = left_of<TURNED_A>(a, m[i]);
#pragma unroll 2
    for (int k = of.first; k < of.end; k += FRAGMENT) {
        uint4 rows[TALL][A];
#pragma unroll
        for (int i = 0; i < TALL; i++)
#pragma unroll
            for (int p = 0; p < A; p++)
                rows[i][p] = left_at<TURNED_A>(a, left[i], k, p);
        add_16<A, B, TURNED_B>(sum, rows, b, right, k);
    }
    add_apart(d, sum);
}

/* ---- lower triangles in memory --------------------------------------------------------------- */

/* A matrix [64,64] that is 0 above its diagonal, as fragments: those of 16 rows and columns, by
 * rows, each plane by plane, a lane's 16 bytes each. */
enum { LOWER_FRAGMENTS = ECO_GPU_MATRIX_LOWER_FRAGMENTS, LOWER_BYTES = ECO_GPU_MATRIX_LOWER_BYTES };

ECO_DEVICE uint4 *lower_at(void *lower, int i, int k, int plane)
{
    return (uint4 *)lower + ((i * (i + 1) / 2 + k) * PLANES + plane) * WARP +
           (int)threadIdx.x % WARP;
}

/* The planes of 16 rows and columns; TURNED: of the transpose. */
template <bool TURNED>
ECO_DEVICE void load_lower(uint4 (&a)[1][PLANES], const void *lower, int i, int k)
{
    const uint4 *from = lower_at((void *)lower, TURNED ? k : i, TURNED ? i : k, 0);
#pragma unroll
    for (int p = 0; p < PLANES; p++) {
        a[0][p] = from[p * WARP];
        if (TURNED)
            a[0][p] = make_uint4(transpose_matrix(a[0][p].x), transpose_matrix(a[0][p].z),
                                 transpose_matrix(a[0][p].y), transpose_matrix(a[0][p].w));
    }
}

/* d += a b, of 16 rows from 16 i on, b being [64, ...]; TURNED: the triangle is a's transpose.  The
 * range is one of fragments. */
template <int B, bool TURNED, int WIDE>
ECO_DEVICE void multiply_lower(planes_sums<1, WIDE> &d, const void *lower, int i, const planes &b,
                               int n, range of)
{
    const int first = of.first, last = of.end - 1;
    const unsigned right = right_of<false>(b, n);
    apart<1, WIDE> sum;
    uint4 next[1][PLANES];
    clear_apart(sum);
    load_lower<TURNED>(next, lower, i, first);
    for (int k = first; k <= last; k++) {
        uint4 left[1][PLANES];
#pragma unroll
        for (int p = 0; p < PLANES; p++)
            left[0][p] = next[0][p];
        if (k < last)
            load_lower<TURNED>(next, lower, i, k + 1);
        add_16<PLANES, B, false>(sum, left, b, right, k * FRAGMENT);
    }
    add_apart(d, sum);
}

#endif /* ECO_GPU_MATRIX_PLANES_CUH */

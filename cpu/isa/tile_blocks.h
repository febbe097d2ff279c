/*
 * The blocks of rows and vectors for which a tile's kernels are compiled, with both as constants.
 */
#ifndef ECO_TILE_BLOCKS_H
#define ECO_TILE_BLOCKS_H

/* clang-format off */
/* CALL(R, V) for R rows and V vectors; a kernel with fewer registers leaves out the largest. */
#define BLOCKS_1(CALL) \
    CALL(1, 1) CALL(2, 1) CALL(3, 1) CALL(4, 1) CALL(5, 1) CALL(6, 1) \
    CALL(7, 1) CALL(8, 1) CALL(9, 1) CALL(10, 1) CALL(11, 1) CALL(12, 1)
#define BLOCKS_2(CALL) \
    CALL(1, 2) CALL(2, 2) CALL(3, 2) CALL(4, 2) CALL(5, 2) CALL(6, 2) \
    CALL(7, 2) CALL(8, 2) CALL(9, 2) CALL(10, 2) CALL(11, 2) CALL(12, 2)
#define BLOCKS_3(CALL) \
    CALL(1, 3) CALL(2, 3) CALL(3, 3) CALL(4, 3) CALL(5, 3) CALL(6, 3) CALL(7, 3) CALL(8, 3)
#define BLOCKS_4(CALL) \
    CALL(1, 4) CALL(2, 4) CALL(3, 4) CALL(4, 4) CALL(5, 4) CALL(6, 4)
#define BLOCKS(CALL) BLOCKS_1(CALL) BLOCKS_2(CALL) BLOCKS_3(CALL) BLOCKS_4(CALL)
/* [vectors][rows], where CALL(R, V) is an element and its comma. */
#define BLOCK_TABLE(CALL) {{BLOCKS_1(CALL)}, {BLOCKS_2(CALL)}, {BLOCKS_3(CALL)}, {BLOCKS_4(CALL)}}
/* clang-format on */

#endif /* ECO_TILE_BLOCKS_H */

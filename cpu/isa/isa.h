/*
 * The instruction sets that were built, and the one to use.
 */
#ifndef ECO_ISA_H
#define ECO_ISA_H

#include "common/plan/lanes.h"
#include "cpu/isa/pointwise.h"
#include "cpu/isa/tile.h"

/* isa.c and isa_narrow.c, compiled once for each set: plain, f64, and ECO_HAVE_AVX2 and so on. */
extern const struct eco_pointwise_kernels eco_kernels_plain, eco_kernels_f64;
extern const struct eco_pointwise_kernels eco_kernels_sse2, eco_kernels_neon;
extern const struct eco_pointwise_kernels eco_kernels_avx2, eco_kernels_avx512;
extern const struct eco_pointwise_kernels eco_kernels_narrow_plain, eco_kernels_narrow_sse2;
extern const struct eco_pointwise_kernels eco_kernels_narrow_neon, eco_kernels_narrow_avx2;
extern const struct eco_pointwise_kernels eco_kernels_narrow_avx512;
extern const struct eco_tile_kernel eco_tile_plain, eco_tile_sse2, eco_tile_neon;
extern const struct eco_tile_kernel eco_tile_avx2, eco_tile_avx512;
extern const struct eco_tile_kernel eco_narrow_plain, eco_narrow_sse2, eco_narrow_neon;
extern const struct eco_tile_kernel eco_narrow_avx2, eco_narrow_avx512;
extern const struct eco_narrow_rows eco_rows_plain, eco_rows_sse2, eco_rows_neon;
extern const struct eco_narrow_rows eco_rows_avx2, eco_rows_avx512;
extern const struct eco_byte_kernels eco_bytes_plain, eco_bytes_sse2, eco_bytes_neon;
extern const struct eco_byte_kernels eco_bytes_avx2, eco_bytes_avx512;
extern const struct eco_byte_kernels eco_bytes_avx512vnni; /* if ECO_HAVE_AVX512VNNI */
extern const struct eco_byte_kernels eco_bytes_avxvnni;    /* if ECO_HAVE_AVXVNNI */
extern const struct eco_byte_kernels eco_bytes_neondot;    /* if ECO_HAVE_NEONDOT */
extern const struct eco_lanes_code eco_lanes_plain, eco_lanes_sse2, eco_lanes_neon;
extern const struct eco_lanes_code eco_lanes_avx2, eco_lanes_avx512;
extern const struct eco_tile_kernel eco_tile_amx, eco_bytes_amx; /* tile_amx.c, if ECO_HAVE_AMX */
extern const struct eco_split_kernel eco_split_amx;
extern const struct eco_pair_rows eco_rows_amx;
extern const struct eco_tile_kernel eco_tile_avx512bf16; /* tile_dot.c, if ECO_HAVE_AVX512BF16 */
extern const struct eco_pair_rows eco_rows_avx512bf16;

/* The sets that were built and that this processor and system can run, best first, ending with
 * "plain" and then NULL. On Intel's processors "avx512bf16" is after "avx512vnni". run/cpuid.c. */
const struct eco_isa *eco_isa_supported(int index);

/* A process gets the registers of tiles (AMX) when it asks, and then needs larger signal stacks. So
 * opening a device does not ask; a plan with tiles does. Returns the set for such a plan: this one,
 * or the best without tiles if the system refuses. run/cpuid.c. */
const struct eco_isa *eco_isa_with_tiles(const struct eco_isa *isa);
/* Every set that a build may have, worst first, then NULL. */
const char *eco_isa_name(int index);

/* The best of them, but at most the one named by ECORNN_ISA; NULL, with the detail of the error: it
 * names none. */
const struct eco_isa *eco_isa_choose(void);

#endif /* ECO_ISA_H */

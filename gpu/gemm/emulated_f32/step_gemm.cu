/*
 * The product of a step: few rows times R, which is prepared once in a run. C is transposed,
 * because R has the larger tiles. The blocks of a cluster share a tile, each with some of k; they
 * send each other their sums, and each adds and writes a share of the tile. R does not wait for the
 * states: stages are filled with it while the preceding kernel computes them.
 */
#include "gpu/arch/grid_dependency.cuh"
#include "gpu/gemm/emulated_f32/cluster_epilogue.cuh"
#include "gpu/gemm/emulated_f32/pipeline.cuh"
#include "gpu/gemm/emulated_f32/producer.cuh"
#include "gpu/gemm/emulated_f32/slice.cuh"

/* ---- the kernel ------------------------------------------------------------------------------ */

/* Computes the sums of the block's stages, then writes its share of the tile. */
template <class kind>
ECO_DEVICE void multiply_and_write(const eco_emulated_call &call, int32_t stages,
                                   consumer<kind> &me, const tile_sums<kind> &sums)
{
    tile_writer<kind> out = tile_writer_of(call, sums);
    float sum[kind::held] = {0};
    if constexpr (kind::pairs)
        me.add(stages, sum);
    else
        me.add_in_place(stages, sum);
    wait_on_dependent_grids();
    __syncwarp();
    if (sums.blocks > 1)
        cluster_sync_to_write(); /* all have multiplied what the sums overwrite */
    else
        named_barrier_sync(kind::consumers);
    out.read();
    sums.put(sum);
    if (sums.blocks > 1)
        fence_proxy_async();
    __syncwarp();
    named_barrier_sync(kind::consumers);
    if (sums.blocks > 1) {
        if (threadIdx.x == 0)
            sums.send();
        __syncwarp();
        mbarrier_wait(sums.barrier, 0);
        __syncwarp();
        cluster_arrive();
    }
    out.write();
    __syncwarp();
    if (sums.blocks > 1)
        cluster_wait(); /* what this block sent has arrived */
}

template <eco_emulated_form form, int rows, int columns, bool splits>
static __global__ void __launch_bounds__(block_shape<form, rows, columns, splits>::threads, 1)
    multiply_step(const __grid_constant__ eco_emulated_call call)
{
#if HAS_WGMMA
    typedef block_shape<form, rows, columns, splits> kind;
    extern __shared__ char anywhere[];
    __shared__ barriers b;
    const unsigned shared = aligned(anywhere);
    const tile_sums<kind> sums =
        tile_sums_of<kind>(anywhere + (shared - shared_address(anywhere)), &b.sums);
    const slice s = slice_of(call);
    if (threadIdx.x == 0) {
        mbarrier_init(&b.sums, 1);
        open_stages<kind>(&b, arrivals_of<kind>(), 1);
        mbarrier_expect_bytes(&b.sums, sums.bytes_to_come());
    }
    __syncthreads();
    if (threadIdx.x < kind::consumers) {
        consumer<kind> me = {shared, &b, cluster_rank(), 1, 0};
        multiply_and_write<kind>(call, s.stages, me, sums);
    } else {
        fill_stages<kind>(call, s, shared, &b);
        __syncwarp();
        if (sums.blocks > 1) {
            cluster_sync_to_write();
            cluster_arrive();
            cluster_wait();
        }
    }
#endif
}

/* ---- launches -------------------------------------------------------------------------------- */

/* With larger tiles a thread would have more sums than registers. */
static const struct kernel {
    const void *kernel;
    int threads;
} step_kernels[ECO_EMULATED_KINDS][ECO_EMULATED_HEIGHTS][ECO_EMULATED_WIDTHS] = {
#define TILE_OF(height, width)                                                                     \
    ECO_EMULATED_LEAST_ROWS << height, ECO_EMULATED_LEAST_COLUMNS << width
#define KERNEL(form, splits, height, width)                                                        \
    {                                                                                              \
        (const void *)multiply_step<form, TILE_OF(height, width), splits>,                         \
            block_shape<form, TILE_OF(height, width), splits>::threads                             \
    }
#define KIND(form, splits)                                                                         \
    {                                                                                              \
        {KERNEL(form, splits, 0, 0), KERNEL(form, splits, 0, 1)},                                  \
        {                                                                                          \
            KERNEL(form, splits, 1, 0), KERNEL(form, splits, 1, 1)                                 \
        }                                                                                          \
    }
    [ECO_EMULATED_SPLITTING] = KIND(ECO_EMULATED_PAIRS, true),
    [ECO_EMULATED_PRESPLIT] = KIND(ECO_EMULATED_PAIRS, false),
    [ECO_EMULATED_PRESPLIT_SINGLES] = KIND(ECO_EMULATED_SINGLES, false),
#undef KIND
#undef KERNEL
#undef TILE_OF
};

/* The configuration of a launch in clusters of `slices` blocks. */
static cudaLaunchConfig_t config_of(cudaLaunchAttribute attributes[2], int32_t slices, int threads)
{
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {(unsigned)slices, 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)slices);
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.attrs = attributes;
    config.numAttrs = 1;
    return config;
}

cudaError_t eco_launch_emulated_step(const struct eco_emulated_call *call,
                                     const struct eco_emulated_cut *cut, bool overlap,
                                     cudaStream_t stream)
{
    const kernel *k = &step_kernels[cut->kind][cut->height][cut->width];
    const int32_t rows = eco_emulated_rows(cut), columns = eco_emulated_columns(cut),
                  tiles = (call->a.rows + rows - 1) / rows;
    cudaLaunchAttribute attributes[2] = {};
    cudaLaunchConfig_t config = config_of(attributes, cut->slices, k->threads);
    config.gridDim =
        dim3((unsigned)(tiles * cut->slices), (unsigned)((call->b.rows + columns - 1) / columns));
    config.stream = stream;
    config.numAttrs = overlap ? 2 : 1;
    void *argument[] = {(void *)call};
    return cudaLaunchKernelExC(&config, k->kernel, argument);
}

void eco_emulated_step_count(int32_t clusters[ECO_EMULATED_SLICES])
{
    const kernel *k = &step_kernels[0][0][0];
    for (int32_t slices = 1; slices <= ECO_EMULATED_SLICES; slices++) {
        cudaLaunchAttribute attributes[2] = {};
        const cudaLaunchConfig_t config = config_of(attributes, slices, k->threads);
        int n = 0;
        if (cudaOccupancyMaxActiveClusters(&n, k->kernel, &config) != cudaSuccess) {
            (void)cudaGetLastError(); /* the query failed: do not use clusters */
            n = 0;
        }
        clusters[slices - 1] = n;
    }
}

/* An empty kernel takes few registers. */
cudaError_t eco_emulated_load_kernel(const void *kernel, int shared_bytes, bool *usable)
{
    enum { FEW_REGISTERS = 32 };
    struct cudaFuncAttributes attributes = {0};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);
    *usable = error == cudaSuccess && attributes.numRegs > FEW_REGISTERS;
    return *usable ? cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          shared_bytes)
                   : error;
}

cudaError_t eco_emulated_step_load(bool *usable)
{
    cudaError_t error = cudaSuccess;
    const kernel *k = &step_kernels[0][0][0], *const end = k + sizeof step_kernels / sizeof *k;
    *usable = true;
    for (; k < end && error == cudaSuccess && *usable; k++)
        error = eco_emulated_load_kernel(k->kernel, SHARED_BYTES, usable);
    return error;
}

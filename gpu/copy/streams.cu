/*
 * States of streams: one thread moves a piece of a row, up to 16 bytes; blockIdx.y is the state.
 */
#include "common/type.h"
#include "gpu/arch/device.cuh"
#include "gpu/copy/streams.h"

enum { STREAM_THREADS = 128, STREAM_BLOCKS = 8192 };

/* Widths are in pieces. */
template <typename piece>
static __global__ void move_states(const __grid_constant__ struct eco_stream_rows call)
{
    const struct eco_stream_state state = call.state[blockIdx.y];
    const int64_t all = (int64_t)call.lanes * call.N * state.width;
    for (int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; index < all;
         index += (int64_t)gridDim.x * blockDim.x) {
        const int64_t row = index / state.width, i = index % state.width;
        const int32_t stream = call.rows[row % call.N];
        const bool there = stream >= 0 && stream < call.streams;
        const int64_t callers = (row / call.N * call.streams + stream) * state.width + i;
        if (!call.scatter)
            ((piece *)state.to)[index] = there ? ((const piece *)state.from)[callers] : piece();
        else if (there)
            ((piece *)state.to)[callers] = ((const piece *)state.from)[index];
    }
}

static const void *states_kernel(size_t bytes)
{
    return bytes == 2   ? (const void *)move_states<uint16_t>
           : bytes == 4 ? (const void *)move_states<uint32_t>
           : bytes == 8 ? (const void *)move_states<uint64_t>
                        : (const void *)move_states<uint4>;
}

cudaError_t eco_launch_streams(const struct eco_stream_rows *streams, cudaStream_t stream)
{
    struct eco_stream_rows call = *streams;
    const size_t element = eco_type_bytes(call.type);
    size_t places = 0, most = 0, bytes = sizeof(uint4);
    for (int s = 0; s < call.states; s++)
        places |= (size_t)call.state[s].to | (size_t)call.state[s].from |
                  (size_t)call.state[s].width * element;
    if (places % bytes != 0)
        bytes = element;
    for (int s = 0; s < call.states; s++) {
        const size_t width = (size_t)call.state[s].width * element / bytes,
                     all = (size_t)call.lanes * (size_t)call.N * width;
        call.state[s].width = (int32_t)width;
        most = all > most ? all : most;
    }
    void *argument[] = {&call};
    const size_t blocks = (most + STREAM_THREADS - 1) / STREAM_THREADS;
    if (blocks == 0)
        return cudaSuccess;
    return cudaLaunchKernel(
        states_kernel(bytes),
        dim3(blocks < STREAM_BLOCKS ? (unsigned)blocks : STREAM_BLOCKS, (unsigned)call.states),
        dim3(STREAM_THREADS), argument, 0, stream);
}

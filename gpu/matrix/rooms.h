/*
 * Where kernels of chunks have their arrays in shared memory, in bytes from its beginning; the host
 * needs the whole.  Arrays of planes begin at multiples of the bytes of their rows.
 */
#ifndef ECO_GPU_MATRIX_ROOMS_H
#define ECO_GPU_MATRIX_ROOMS_H

#include "gpu/matrix/args.h"

#if defined(__CUDACC__)
#define ECO_GPU_MATRIX_ROOM static __host__ __device__ __forceinline__
#else
#define ECO_GPU_MATRIX_ROOM static inline
#endif

/* What sizes depend on. */
struct eco_gpu_matrix_shape {
    unsigned keys, planes;    /* of a row of a key: 64 or 128 numbers, 1 or 3 planes */
    bool reads, same, others; /* the rule's READ, whether it is its KEY, and its OTHER */
    bool gated;               /* for the bytes of gradients: has the rule gates of rows? */
};

enum {
    ECO_GPU_MATRIX_STEP_BYTES = ECO_GPU_MATRIX_CHUNK_STEPS * sizeof(float), /* a number of each */
    ECO_GPU_MATRIX_PAIRS_BYTES =
        ECO_GPU_MATRIX_CHUNK_STEPS * ECO_GPU_MATRIX_PAIR_ROW * sizeof(float),
    ECO_GPU_MATRIX_COLUMN_BYTES =
        ECO_GPU_MATRIX_CHUNK_COLUMNS * ECO_GPU_MATRIX_PLANES * 2 /* a row */
};

/* Floats of shared memory that gate_gradients.cuh adds to those of gates.cuh. */
#define ECO_GPU_MATRIX_GATE_FLOATS(keys) (2048 + 16 * (keys) + ECO_GPU_MATRIX_CHUNK_STEPS)

/* Numbers of a row of a key: kernels are compiled for 64 and 128. */
ECO_GPU_MATRIX_ROOM unsigned eco_gpu_matrix_padded_key(int32_t key)
{
    return key <= ECO_GPU_MATRIX_CHUNK_KEYS / 2 ? ECO_GPU_MATRIX_CHUNK_KEYS / 2
                                                : ECO_GPU_MATRIX_CHUNK_KEYS;
}

/* Rows of a key [STEPS,keys] in planes. */
ECO_GPU_MATRIX_ROOM unsigned eco_gpu_matrix_tile(unsigned keys, unsigned planes)
{
    return ECO_GPU_MATRIX_CHUNK_STEPS * keys * planes * 2;
}

/* pairs_of_chunks.  What is solved, at 0, takes the room of keys when they are done with. */
struct eco_gpu_matrix_pairs_room {
    unsigned query, key, read, asked, heard, decay, kept, scale, bytes;
};

ECO_GPU_MATRIX_ROOM struct eco_gpu_matrix_pairs_room
eco_gpu_matrix_pairs_room(struct eco_gpu_matrix_shape shape)
{
    const unsigned tile = eco_gpu_matrix_tile(shape.keys, shape.planes),
                   end = (shape.reads && !shape.same ? 3 : 2) * tile;
    struct eco_gpu_matrix_pairs_room room;
    room.query = 0;
    room.key = tile;
    room.read = shape.reads && !shape.same ? 2 * tile : room.key;
    room.asked = end > ECO_GPU_MATRIX_PAIRS_BYTES ? end : (unsigned)ECO_GPU_MATRIX_PAIRS_BYTES;
    room.heard = room.asked + ECO_GPU_MATRIX_PAIRS_BYTES;
    room.decay = room.heard + (shape.reads ? ECO_GPU_MATRIX_PAIRS_BYTES : 0);
    room.kept = room.decay + ECO_GPU_MATRIX_STEP_BYTES;
    room.scale = room.kept + ECO_GPU_MATRIX_STEP_BYTES;
    room.bytes = room.scale + ECO_GPU_MATRIX_STEP_BYTES;
    return room;
}

/* gated_pairs_of_chunks: keys and gates are floats [STEPS,keys]. */
struct eco_gpu_matrix_gates_room {
    unsigned query, key, decay, read, halves, asked, heard, kept, scale, bytes;
};

ECO_GPU_MATRIX_ROOM struct eco_gpu_matrix_gates_room
eco_gpu_matrix_gates_room(struct eco_gpu_matrix_shape shape)
{
    const unsigned rows = shape.keys * ECO_GPU_MATRIX_STEP_BYTES;
    struct eco_gpu_matrix_gates_room room;
    room.query = 0;
    room.key = rows;
    room.decay = 2 * rows;
    room.read = (shape.reads ? 3 : 2) * rows;
    room.halves = room.read + rows;
    room.asked = room.halves + eco_gpu_matrix_tile(shape.keys, ECO_GPU_MATRIX_PLANES);
    room.heard = room.asked + ECO_GPU_MATRIX_PAIRS_BYTES;
    room.kept = room.heard + (shape.reads ? ECO_GPU_MATRIX_PAIRS_BYTES : 0);
    room.scale = room.kept + ECO_GPU_MATRIX_STEP_BYTES;
    room.bytes = room.scale + ECO_GPU_MATRIX_STEP_BYTES;
    return room;
}

/* chunks_forward and chunks_backward: S [keys,COLUMNS], d and u [STEPS,COLUMNS] in planes. */
struct eco_gpu_matrix_chunk_room {
    unsigned S, d, u, query, key, read, other, number, bytes;
};

ECO_GPU_MATRIX_ROOM struct eco_gpu_matrix_chunk_room
eco_gpu_matrix_chunk_room(struct eco_gpu_matrix_shape shape)
{
    const unsigned tile = eco_gpu_matrix_tile(shape.keys, shape.planes),
                   steps = ECO_GPU_MATRIX_CHUNK_STEPS * ECO_GPU_MATRIX_COLUMN_BYTES;
    struct eco_gpu_matrix_chunk_room room;
    room.S = 0;
    room.d = shape.keys * ECO_GPU_MATRIX_COLUMN_BYTES;
    room.u = room.d + (shape.others ? steps : 0);
    room.query = room.u + steps;
    room.key = room.query + tile;
    room.read = room.key + (shape.reads && !shape.same ? tile : 0);
    room.other = room.read + (shape.others ? tile : 0);
    room.number = room.other + tile;
    room.bytes = room.number + ECO_GPU_MATRIX_CHUNK_NUMBERS * ECO_GPU_MATRIX_STEP_BYTES;
    return room;
}

/* gradients_of_chunks: numbers of steps; then, while it sums over columns, S to `rows`, G having
 * the room of dout and e; and then keys, and what pairs meet, or what gate_gradients.cuh has. */
struct eco_gpu_matrix_gradients_room {
    unsigned number, dafter, all, dot, decay, kept;
    unsigned S, d, u, dout, e, rows;
    unsigned query, key, read, weighed, asked, heard, heard_too, bytes;
};

ECO_GPU_MATRIX_ROOM struct eco_gpu_matrix_gradients_room
eco_gpu_matrix_gradients_room(struct eco_gpu_matrix_shape shape)
{
    enum { STEPS = ECO_GPU_MATRIX_CHUNK_STEPS, OF_STEPS = STEPS * ECO_GPU_MATRIX_COLUMN_BYTES };
    const unsigned tile = eco_gpu_matrix_tile(shape.keys, shape.planes);
    struct eco_gpu_matrix_gradients_room room;
    room.number = 0;
    room.dafter = ECO_GPU_MATRIX_CHUNK_NUMBERS * ECO_GPU_MATRIX_STEP_BYTES;
    room.all = room.dafter + ECO_GPU_MATRIX_STEP_BYTES;
    room.dot = room.all + ECO_GPU_MATRIX_STEP_BYTES;
    room.decay = room.dot + ECO_GPU_MATRIX_CHUNK_DOTS * ECO_GPU_MATRIX_STEP_BYTES;
    room.kept = room.decay + ECO_GPU_MATRIX_STEP_BYTES;
    room.S = room.query = room.kept + ECO_GPU_MATRIX_STEP_BYTES;

    room.d = room.S + shape.keys * ECO_GPU_MATRIX_COLUMN_BYTES;
    room.dout = room.d + OF_STEPS;
    room.e = room.dout + OF_STEPS;
    room.u = room.e + (shape.others ? OF_STEPS : 0);
    room.rows = room.u + OF_STEPS;
    const unsigned columns = room.rows + (shape.reads ? tile : 0);

    room.key = room.query + tile;
    room.read = shape.same ? room.key : room.query;
    room.weighed = room.key + tile;
    room.asked = room.weighed + eco_gpu_matrix_tile(STEPS, ECO_GPU_MATRIX_PLANES);
    room.heard = room.asked + ECO_GPU_MATRIX_PAIRS_BYTES;
    room.heard_too = room.heard + ECO_GPU_MATRIX_PAIRS_BYTES;
    room.bytes = room.heard_too + ECO_GPU_MATRIX_PAIRS_BYTES;
    if (shape.gated)
        room.bytes = eco_gpu_matrix_gates_room(shape).bytes +
                     ECO_GPU_MATRIX_GATE_FLOATS(shape.keys) * sizeof(float);
    room.bytes = room.bytes > columns ? room.bytes : columns;
    return room;
}

#endif /* ECO_GPU_MATRIX_ROOMS_H */

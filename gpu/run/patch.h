/*
 * New addresses for a graph. A run's words are what differs between calls of the same sizes: the
 * addresses that the caller gives, and the seed. Two captures of a run, of which one has words that
 * are larger by known amounts, show which parameters of which kernels hold a word. Later calls only
 * set those, in about half a microsecond a kernel, where queueing takes several. The kernels may be
 * those of cuBLAS: what they do with a parameter does not matter, only that it grows with the word.
 */
#ifndef ECO_GPU_RUN_PATCH_H
#define ECO_GPU_RUN_PATCH_H

#include "common/run_arrays.h"
#include "gpu/ops/ops.h"

/* ---- words, run/words.c ---------------------------------------------------------------------- */

enum {
    ECO_WORD_ALIGNMENT = 256, /* addresses that differ by a multiple choose the same kernels */
    ECO_RUN_WORDS = 1 + ECO_RUN_POINTERS + 2 * ECO_MAX_PARTS + ECO_GIVEN_PLACES * ECO_WEIGHT_IDS +
                    3 * ECO_GIVEN_MOVES
};

/* The words of a run that are not 0. */
struct eco_run_words {
    int n, fields;                 /* of them; of all words */
    uint16_t field[ECO_RUN_WORDS]; /* [n] the number of a word among all */
    uint64_t value[ECO_RUN_WORDS]; /* [n] */
    void *place[ECO_RUN_WORDS];    /* [n] where the run keeps it */
    int seed;                      /* the word that is the seed; -1: none */
};

/* All that the kernels of a run depend on. */
struct eco_run_key {
    int32_t T, N;
    bool backward, accumulate;
    uint32_t first_step, first_row;
    void *stream;
    int moves;
    int32_t rows[ECO_GIVEN_MOVES], width[ECO_GIVEN_MOVES]; /* [moves] */
    size_t part_rows[2][ECO_MAX_PARTS];                    /* [of inputs, of dinputs] */
    struct eco_run_words words;
};

/* given NULL: the run has packed weights. draws: the seed and the position matter. Parts of x are
 * as run/run.c keeps them. */
void eco_gpu_key(struct eco_run_key *key, struct eco_args *args, struct eco_gpu_given *given,
                 bool draws);
/* Are two runs the same, on any stream? */
bool eco_gpu_same_run(const struct eco_run_key *a, const struct eco_run_key *b);
/* Do they have the same kernels on the same stream, with the same parameters but for words? Words
 * that are equal in one are then equal in the other. */
bool eco_gpu_alike_runs(const struct eco_run_key *a, const struct eco_run_key *b);
/* The first word with the same value. */
int eco_gpu_first_equal(const struct eco_run_words *words, int i);
/* Adds add[n] to the words where the run keeps them; add NULL: puts back their values. */
void eco_gpu_shift_words(const struct eco_run_words *words, const uint64_t *add);

/* ---- patches, run/patch.c -------------------------------------------------------------------- */

struct eco_patches;

/* Compares two captures: of a run with these words, and of one whose words are larger by shift[n],
 * which is the same for words that are equal and distinct for others. A parameter that holds a word
 * has grown with it, and is an address at most 1 TiB behind it, or the seed itself. NULL: a
 * parameter differs in another way, there are nodes other than kernels and fills, or there is no
 * memory. */
struct eco_patches *eco_gpu_find_patches(cudaGraph_t graph, cudaGraph_t shifted,
                                         const struct eco_run_words *words, const uint64_t *shift);
/* Adds add[n] to the words of an executable graph made of `graph`, which the caller keeps. Launches
 * that are queued are not affected. After a failure the graph must not be launched. */
ecornn_status eco_gpu_set_words(struct eco_patches *patches, cudaGraphExec_t exec,
                                const uint64_t *add);
void eco_gpu_free_patches(struct eco_patches *patches);

#endif /* ECO_GPU_RUN_PATCH_H */

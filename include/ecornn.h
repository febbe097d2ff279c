/**
 * @file
 * ecornn: fused recurrent layers.  Describe once, plan once, run many.
 *
 * Letters used for shapes, everywhere:
 *   T steps   N batch   I input width   H hidden width   P state width (H, or proj)
 *   L layers  D directions (1 or 2)     S states of the cell (LSTM 2, GRU 1)
 * Arrays are dense, row-major, last letter fastest.  Sizes are in bytes where the name says bytes,
 * in elements otherwise.  A zero field of a description takes its default.
 *
 * Errors: a function that can fail returns a status; ecornn_error_detail then says, for this
 * thread, which value was wrong and what the limit is.  Results are written only on success.
 *
 * Threads: every function may be called from any thread.  A device, a cell and a plan do not change
 * once created; one plan may run in many threads at a time if each run has its own workspace and
 * reserve.  A device must outlive its plans, a parsed cell the plans made from it.  On a CPU a
 * call, and each thread that it takes, wants 256 KB of stack.  pthread_cancel acts after a call.
 *
 * A CPU device takes its threads from OpenMP.  After a fork of a process that had more threads than
 * one, the child's runs take one thread, and ecornn_device_query says so.  Where the system gives
 * fewer threads than a run wants, it takes those; but where OpenMP itself finds no memory in a
 * thread's first run, libgomp ends the process.
 *
 * Floating point: results do not depend on the caller's rounding mode, flush-to-zero or traps, and
 * every call leaves these, and the flags, as they were.  A CPU's runs take denormals for zeros.
 *
 * Rows: on a CPU the bits of a row of y, final, dx and dinitial depend on that row's inputs and the
 * weights alone: not on N, its place, what other rows hold (NaN too) or where T is cut.  So it is
 * for F32; other types, GPUs, and cells that are linear in their states: with ECORNN_ROW_INVARIANT
 * (doc/numerics.md, "Rows").  Random numbers depend on step and place.
 *
 * Memory: the caller owns x, y, states, weights, workspace and reserve, all in memory the device
 * can use (ecornn_alloc; on a CPU any memory aligned to ecornn_sizes.alignment for the last three).
 * A run allocates nothing (the reference does).
 */
#ifndef ECORNN_H
#define ECORNN_H

#include <stddef.h>
#include <stdint.h>
#include <ecornn/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_errors Errors and version
 * @{ */

/** What a call that can fail returns. */
typedef enum {
    ECORNN_OK,           /**< done, or queued on the stream */
    ECORNN_BAD_ARGUMENT, /**< the call is wrong: ecornn_error_detail says how */
    ECORNN_BAD_CELL,     /**< the cell's text is wrong: the detail has line:column */
    ECORNN_NO_MEMORY,    /**< an allocation failed; nothing was changed */
    ECORNN_NO_DEVICE,    /**< no such device here, or its driver is missing */
    ECORNN_UNSUPPORTED,  /**< legal, but no algorithm of this device does it */
    ECORNN_FAILED        /**< the device or the system reported an error */
} ecornn_status;

/** The status in lower case, e.g. "bad argument"; "unknown status" outside the list. Never NULL. */
ECORNN_API const char *ecornn_status_name(ecornn_status status);
/** The last failure of the calling thread in one line, "" if there was none.  Valid until the
 * thread's next failing call.  UTF-8; control characters of a name or text in it are "\x1B". */
ECORNN_API const char *ecornn_error_detail(void);
/** What a report of a fault needs beside devices, as snprintf writes it, a line "word: value" each:
 * version, compiler, instruction sets, CBLAS, the CUDA module or why there is none, driver, NVRTC,
 * files of wisdom.  Returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_info(char *text, size_t size);
/** E.g. "0.1.0 cpu:avx512": the version and the instruction set the CPU backend would use. */
ECORNN_API const char *ecornn_version(void);

/** @} */

/** @defgroup ecornn_devices Devices and memory
 * @{ */

/** One CPU, one GPU, or the reference. */
typedef struct ecornn_device ecornn_device;

/** What a device is. */
typedef struct {
    char name[64];        /**< "Intel(R) Xeon(R) ..." */
    char backend[16];     /**< "cpu", "cuda", "reference" */
    char variant[16];     /**< instruction set "avx2"; of a GPU "sm_90" */
    int32_t threads;      /**< that a run uses; of a GPU multiprocessors */
    size_t memory_bytes;  /**< of the whole device; 0: unknown */
    uint32_t reserved[8]; /**< for later versions */
} ecornn_device_info;

/**
 * name: "cpu" (all cores the process may use, no more than OpenMP was told: OMP_NUM_THREADS,
 * omp_set_num_threads), "cpu:K" (K threads, 1 to 1024), "cuda" or "cuda:K"
 * (NVIDIA GPU number K, 0 when left out), "reference" (double, one thread, slow: what everything
 * else is checked against); NULL: the fastest device here, and an error if that cannot be opened.
 * Fails with BAD_ARGUMENT for a malformed name, NO_DEVICE for a device this machine lacks: the
 * detail says why (no driver, no module, too old).
 */
ECORNN_API ecornn_status ecornn_device_open(ecornn_device **device, const char *name);
/** Frees the device; NULL is allowed.  Its plans must be freed before. */
ECORNN_API void ecornn_device_close(ecornn_device *device);
/** How many devices of a backend ("cpu", "cuda", "reference") are here; 0 for an unknown name. */
ECORNN_API int ecornn_device_count(const char *backend);
/** The name of algorithm number index of the device, as ECORNN_ALGORITHM takes it; NULL past the
 * last. */
ECORNN_API const char *ecornn_device_algorithm(const ecornn_device *device, int index);
/** Name, backend, threads and memory of the device. */
ECORNN_API ecornn_status ecornn_device_query(const ecornn_device *device, ecornn_device_info *info);

/** Memory the device can use, aligned for every use below; the same program then runs on CPU and
 * GPU.  NULL when there is none or bytes is 0.  Contents are undefined. */
ECORNN_API void *ecornn_alloc(ecornn_device *device, size_t bytes);
/** Gives it back; NULL is allowed. */
ECORNN_API void ecornn_free(ecornn_device *device, void *memory);
/** Bytes of the host to memory of ecornn_alloc; waits until they are there. */
ECORNN_API ecornn_status ecornn_upload(ecornn_device *device, void *to, const void *from_host,
                                       size_t bytes);
/** And back to the host. */
ECORNN_API ecornn_status ecornn_download(ecornn_device *device, void *to_host, const void *from,
                                         size_t bytes);
/** Waits until everything queued on the stream is done; on a CPU everything always is. */
ECORNN_API ecornn_status ecornn_wait(ecornn_device *device, void *stream);

/** @} */

/** @defgroup ecornn_cells Cells
 * @{ */

/** States of a cell, at most. */
enum { ECORNN_MAX_STATES = 4 };
/** What a layer computes in a step; immutable, shared by plans. */
typedef struct ecornn_cell ecornn_cell;

/**
 * Built in: "rnn-tanh" "rnn-relu" (Elman 1990), "lstm" (Hochreiter and Schmidhuber 1997 with the
 * forget gate of Gers 2000), "lstm-peephole" (Gers 2002), "lstm-coupled" (f = 1 - i, Greff 2015),
 * "gru" (reset after the product, as cuDNN and PyTorch), "gru-reset-first" (Cho 2014), "mgu"
 * (Zhou 2016), "min-gru" "min-lstm" (Feng 2024), "sru" (Lei and Zhang 2017), "qrnn" (Bradbury
 * 2017).  NULL when there is no such cell.
 */
ECORNN_API const ecornn_cell *ecornn_cell_find(const char *name);
/** The name of built-in cell number index, in a fixed order; NULL past the last. */
ECORNN_API const char *ecornn_cell_name(int index);
/**
 * A cell from text in the language of doc/cells.md, e.g.
 *
 *     cell mgu(h)
 *     f  = sigmoid(W x + R h + b)
 *     n  = tanh(W x + R (f * h) + b)
 *     h' = (1 - f) * h + f * n
 *
 * Fails with BAD_CELL; the detail begins with line:column.  On a CUDA device the first plan of such
 * a cell compiles it, where there is NVRTC, and may keep the code in a folder of the user's; else
 * it is interpreted (doc/cells.md, "on a GPU").  Results are the same.
 */
ECORNN_API ecornn_status ecornn_cell_parse(ecornn_cell **cell, const char *text);
/** Writes the cell in words (recipe, gradient, accumulators, stages, what training saves), as
 * snprintf does; returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_cell_print(const ecornn_cell *cell, char *text, size_t size);
/** How many states the cell carries from step to step (LSTM 2, GRU 1); 0 for NULL. */
ECORNN_API int ecornn_cell_states(const ecornn_cell *cell);
/** Where state number `state`, from 0 on, begins in a run that is given none; 0 for NULL, and where
 * there is no such state. */
ECORNN_API double ecornn_cell_start(const ecornn_cell *cell, int state);
/** Frees a parsed cell; NULL and built-in cells are allowed and left alone. */
ECORNN_API void ecornn_cell_free(ecornn_cell *cell);

/** @} */

/** @defgroup ecornn_describe Descriptions
 * @{ */

/** Number types. */
typedef enum { ECORNN_F32, ECORNN_F64, ECORNN_BF16, ECORNN_F16 } ecornn_type;
/** Which way layers go over the steps. */
typedef enum { ECORNN_FORWARD, ECORNN_REVERSE, ECORNN_BIDIRECTIONAL } ecornn_direction;
/** Of x and y: [T,N,*] or [N,T,*]. */
typedef enum { ECORNN_TIME_MAJOR, ECORNN_BATCH_MAJOR } ecornn_order;
/** What a training run keeps for its backward.  What is not kept is computed again from x and y, so
 * with the last two backward reads y on a CPU too (doc/guide/training.md, "Memory"). */
typedef enum {
    ECORNN_SAVE_ALL,    /**< every value that the gradient uses */
    ECORNN_SAVE_STATES, /**< of each step the states but the output state; y of layers below the
                             last */
    ECORNN_SAVE_EVERY   /**< the same, of those states every save_every-th step only */
} ecornn_save;

/** Flags of a description. */
enum {
    /** Plan the backward pass too; bernoulli() and dropout are drawn. */
    ECORNN_TRAINING = 1u << 0,
    /** F32: products may round their operands to 11 bits, as TF32 does; on a GPU also to F16 times
     * powers of two (doc/numerics.md). */
    ECORNN_FAST_MATH = 1u << 1,
    /** The bits of a row of y, final, dx and dinitial do not depend on N, its place or its
     * neighbours; UNSUPPORTED where no algorithm of the device keeps that. */
    ECORNN_ROW_INVARIANT = 1u << 2,
    /** Runs may have io.resets. */
    ECORNN_RESETS = 1u << 3,
    /** Runs may have io.mask. */
    ECORNN_MASK = 1u << 4,
    /** Steps past a row's length are as steps that do not count (io.mask): a direction that rises
     * repeats its last output there; one that falls comes to them first, and has zeros. */
    ECORNN_REPEAT_PADDING = 1u << 5,
    /** Runs may have io.states and gradient.dstates. */
    ECORNN_ALL_STATES = 1u << 6,
    /** Of several models: they all read the same x. */
    ECORNN_SHARED_INPUT = 1u << 7,
    /** With heads: W, too, reads only its head's part of the layer's input, and is stored as
     * [H,I/heads], above the first layer [H,D*P/heads]. */
    ECORNN_GROUPED_INPUT = 1u << 8,
};

/** The layers that a plan is made for.  A field that is 0 takes its default. */
typedef struct {
    const ecornn_cell *cell;    /**< required */
    int32_t input;              /**< I: required */
    int32_t hidden;             /**< H: required */
    int32_t proj;               /**< P: h = P u, a product after the step; 0: none, P = H */
    int32_t layers;             /**< L; 0: 1 */
    int32_t steps;              /**< the largest T a run will have: required */
    int32_t batch;              /**< the largest N: required */
    ecornn_direction direction; /**< forward, reverse, or both */
    ecornn_order order;         /**< of x, y and their gradients */
    /** Of x, y, initial, final and their gradients; sums, and states that no product reads, are F32
     * inside a run, of F64 all is F64. */
    ecornn_type type;
    ecornn_type param_type; /**< of the parameter block; 0: F32, of F64 always F64; else as type */
    /** Of packed matrices; 0: as type.  BF16 or F16 with type F32: half the bytes to read, F32 for
     * all else. */
    ecornn_type weight_type;
    /** On the input of layers 1..L-1, in training; 0 <= p < 1, kept values are scaled by 1/(1-p).
     */
    float dropout;
    uint32_t flags;   /**< ECORNN_TRAINING and so on */
    ecornn_save save; /**< of a training plan */
    /** Bytes of reserve and workspace together, at most.  The plan is the fastest of those that
     * fit, whatever they save if save is 0; an error names the least that would do.  0: no limit.
     */
    uint64_t memory_limit;
    int32_t save_every;    /**< 1 to steps with ECORNN_SAVE_EVERY, else 0 */
    ecornn_type save_type; /**< of states kept for the replay; 0: the planner's choice, as type or
                                wider.  BF16 or F16 with F32; with SAVE_ALL only under a limit. */
    /** M: so many sets of weights, each with runs of its own, in one run; 0: 1.  All arrays have M
     * first: x, y, states and their gradients [M,...], parameters of one model after those of
     * another, weights, dweights and reserve likewise.  lengths [N], resets and mask [T,N] and x
     * are of all models with ECORNN_SHARED_INPUT, where dx is the sum over models, added up in
     * their order; else they have M first, too.  The bits of a model are those of a run by itself.
     * Model 0 has the run's seed, every other model one hashed from it and the model's number. */
    int32_t models;
    /** K: every R reads H/K units, those of its own head, and is stored as [H,H/K]: rows
     * [k*H/K, (k+1)*H/K) are the matrix [H/K,H/K] of head k.  H is a multiple.  0: 1. */
    int32_t heads;
    uint32_t reserved[1]; /**< zero */
} ecornn_desc;

/**
 * A description from a problem string, as ecornn_plan_print shows one; parts in any order after the
 * cell, defaults left out:
 *
 *     CELL[/f32|f64|bf16|f16][/bf16-weights|f16-weights][/bf16-params|f16-params][/fast]
 *     [/row-invariant][/infer|train][/L#][/rev|bi]/T#/N#/I#/H#[/P#][/heads:#[/grouped-input]][/batch-major]
 *     [/resets][/mask][/repeat-padding][/all-states][/dropout:#][/save:states|save:every:#]
 *     [/bf16-save|f16-save][/memory:#[K|M|G]][/models:#][/shared-x]
 *
 * e.g. "lstm/f32/train/L2/bi/T100/N32/I512/H512".  What is said twice, or contradicts, is refused.
 * CELL names a built-in cell, or stands for `cell` when that is not NULL.
 */
ECORNN_API ecornn_status ecornn_desc_parse(ecornn_desc *desc, const char *problem,
                                           const ecornn_cell *cell);

/** @} */

/** @defgroup ecornn_plans Plans
 * @{ */

/** All choices for one description on one device. */
typedef struct ecornn_plan ecornn_plan;

/** How large the blocks are that the caller gives to runs of a plan. */
typedef struct {
    size_t params;    /**< elements of the parameter block (see ecornn_param) */
    size_t weights;   /**< bytes of the packed weights */
    size_t dweights;  /**< bytes of their gradient, F32 or F64; 0: infer */
    size_t workspace; /**< bytes of a forward or backward; nothing between runs */
    size_t reserve;   /**< bytes; written by forward, read by its backward; 0: infer */
    size_t alignment; /**< of the three, in bytes */
} ecornn_sizes;

/** Checks the description, and makes every choice: by wisdom where there is some (wisdom.h), else
 * by estimate.  The cell and the device must outlive the plan. UNSUPPORTED where no algorithm of
 * the device does it: the detail says why, of each. */
ECORNN_API ecornn_status ecornn_plan_create(ecornn_plan **plan, ecornn_device *device,
                                            const ecornn_desc *desc);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_plan_free(ecornn_plan *plan);
/** The sizes of the blocks of its runs, of the planned T and N: enough for every smaller run. */
ECORNN_API void ecornn_plan_sizes(const ecornn_plan *plan, ecornn_sizes *sizes);
/** The sizes of a run of fewer steps or rows, each up to the planned number or ECORNN_ALL: never
 * more than those of the plan.  Weights and their gradient are the plan's. */
ECORNN_API ecornn_status ecornn_run_sizes(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                          ecornn_sizes *sizes);
/** The number of steps or rows to plan for where T or N changes from run to run: the size itself up
 * to 16, beyond it the next of 18, 20, 22 ... 32, 36, 40 ... 64, 72 and so on, eight for each power
 * of two.  It depends on nothing else.  So a plan of these T and N serves every run that they are
 * the bucket of, a run's bits do not depend on the sizes that came before it, and with
 * ecornn_run_sizes it takes no more memory than a plan of its own. */
ECORNN_API int32_t ecornn_bucket(int32_t size);
/** Writes the plan in words (problem string, algorithms tried and why one was chosen, tape, sizes),
 * as snprintf does; returns the length it needs. */
ECORNN_API int ecornn_plan_print(const ecornn_plan *plan, char *text, size_t size);

/** @} */

/** @defgroup ecornn_weights Weights
 * @{ */

/** One parameter. */
typedef struct {
    char name[48]; /**< "0.fwd.W.i": layer, direction, kind, line of the cell's text; of several
                        models "3:0.fwd.W.i" is model 3's */
    size_t offset; /**< of its first element in the parameter block */
    int32_t rows;  /**< W [H,I or D*P, or part of it]  R [H,P or H/heads]  b, p [H,1]  proj [P,H] */
    int32_t cols;  /**< the second of these */
} ecornn_param;

/**
 * How many parameters the plan has; of several models all of each, one model after the other.
 *
 * The parameter block: for each layer, for each direction: every W in the order of the cell's text,
 * then every R, then every vector (b, p), then the projection; each row-major, nothing between.
 * The four W of an LSTM are thus one [4H,I] matrix with its gates in the order i f g o.
 */
ECORNN_API int ecornn_param_count(const ecornn_plan *plan);
/** Name, place and shape of parameter number index, from 0 on. */
ECORNN_API ecornn_status ecornn_param_get(const ecornn_plan *plan, int index, ecornn_param *param);
/** Writes the packed weights (ecornn_sizes.weights bytes), matrices rounded to weight_type.
 * params[k]: parameter k in the device's memory, elements of param_type, wherever it lives: a
 * framework's tensors need no copy into one block. */
ECORNN_API ecornn_status ecornn_pack(const ecornn_plan *plan, const void *const *params,
                                     void *weights, void *stream);
/** As ecornn_pack, of sums: for frameworks that keep two biases where a cell has one.  added[k]:
 * what is added to parameter k, of its type and shape, or NULL: nothing, which matrices must have.
 * Sums are rounded to the type of sums inside a run. */
ECORNN_API ecornn_status ecornn_pack_sums(const ecornn_plan *plan, const void *const *params,
                                          const void *const *added, void *weights, void *stream);
/** May runs of plan `used` take weights that were packed for plan `packed`?  OK: their bits are
 * those of weights of its own.  UNSUPPORTED: the detail says in what the two differ.  T and N may
 * differ where the fastest form does not; weights packed for training fit inference, except those
 * of several models, never the other way round.  Gradients are those of the plan of backward. */
ECORNN_API ecornn_status ecornn_weights_fit(const ecornn_plan *packed, const ecornn_plan *used);
/** Gradients of the packed weights to those of the parameters, of param_type; add: to what
 * dparams[k] holds.  dparams[k] may be NULL: not wanted. */
ECORNN_API ecornn_status ecornn_unpack(const ecornn_plan *plan, const void *dweights,
                                       void *const *dparams, int add, void *stream);

/**
 * Another system's weights, host to host (doc/guide/weights.md: shapes): "torch" (torch.nn.LSTM's
 * parameters in order), "cudnn" (all matrices, then all biases), "keras" (per layer and direction:
 * kernel, recurrent kernel, bias), "onnx" (per layer: W, R, B, P).  What a system's cell is to this
 * one is found by the names of parameters: a text with those of the LSTM takes an LSTM's weights.
 * block: `elements` of them, exactly ecornn_import_size; type: of the block, whatever it is, F16 on
 * a CPU too; params: the parameter block, of the plan's param_type.
 * import: two biases are added where the equations allow it; export writes the sum and a zero.
 * UNSUPPORTED where that system has no such cell.
 */
ECORNN_API ecornn_status ecornn_import_size(const ecornn_plan *plan, const char *system,
                                            size_t *elements);
/** That system's block to the parameter block; see ecornn_import_size. */
ECORNN_API ecornn_status ecornn_import(const ecornn_plan *plan, const char *system,
                                       const void *block, ecornn_type type, size_t elements,
                                       void *params);
/** And back; see ecornn_import_size. */
ECORNN_API ecornn_status ecornn_export(const ecornn_plan *plan, const char *system,
                                       const void *params, void *block, ecornn_type type,
                                       size_t elements);

/** @} */

/** @defgroup ecornn_runs Runs
 * @{ */

/** ecornn_io.steps, batch: as many as the plan has. */
enum { ECORNN_ALL = -1 };

/** What a run reads and writes. */
typedef struct {
    size_t size; /**< sizeof(ecornn_io): later versions may add fields */
    /** This run's T, or ECORNN_ALL.  One of steps and batch is 0: an empty run; both, as not set:
     * the plan's, but refused with initial or final states. */
    int32_t steps;
    int32_t batch; /**< this run's N, or ECORNN_ALL */
    /** [N], any order, 0 <= length <= T; NULL: all T; in the device's memory: a GPU cannot check
     * them. */
    const int32_t *lengths;
    const void *x; /**< [T,N,I] or [N,T,I]; past a length: anything */
    /** [T,N,D*P]; 0 past a row's length; NULL: unwanted, but not with a reserve on a GPU, or
     * of a plan that does not save all: backward reads y. */
    void *y;
    const void *initial[ECORNN_MAX_STATES]; /**< [L*D,N,P], later states [L*D,N,H]; NULL: where
                                              the cell begins, 0 if its text says nothing */
    /** Same shapes, at each row's last step; NULL: unwanted; may be the same memory as initial. */
    void *final[ECORNN_MAX_STATES];
    const void *weights; /**< packed; NULL if they have 0 bytes */
    void *workspace;     /**< ecornn_sizes.workspace bytes */
    void *reserve;       /**< NULL runs inference on a training plan */
    uint64_t seed;       /**< of dropout and bernoulli: same masks everywhere */
    void *stream;        /**< a cudaStream_t; the CPU ignores it */
    /** What workspace holds; too little for this run's T and N is an error; 0: not checked. */
    size_t workspace_bytes;
    size_t reserve_bytes; /**< and reserve */
    /** [T,N], whatever the order, of a plan with ECORNN_RESETS: not 0 where x is the first of an
     * episode.  Between it and the step before a row's states become its reset_state, in both
     * directions.  y is as it was; no gradient goes from one episode to another.  NULL: none. */
    const uint8_t *resets;
    const void *reset_state[ECORNN_MAX_STATES]; /**< as initial */
    /** [T,N], whatever the order, of a plan with ECORNN_MASK: where a byte is 0, the step does not
     * count for the row.  States, their gradients and random numbers are as if the row did not have
     * that step: what its x and its byte of resets say is not looked at, and dx is 0.  y of a
     * direction is there what it was at the last step before, in its order, that counts; 0 ahead of
     * the first, whatever initial says.  NULL: every step counts. */
    const uint8_t *mask;
    /** [L*D,T,N,P], later states [L*D,T,N,H], whatever the order, of a plan with ECORNN_ALL_STATES:
     * those after each step, of the output state what y of its layer is; 0 past a row's length, and
     * where y is it by mask; NULL: unwanted.  On a GPU states[0] needs y.  Backward reads none. */
    void *states[ECORNN_MAX_STATES];
    /** Of a run that is a piece of a larger one: which step and row of that its first are, modulo
     * 2^32.  Random numbers (dropout, bernoulli) are then those of the larger run.  With mask,
     * steps are those that count. */
    uint32_t first_step;
    uint32_t first_row; /**< see first_step */
} ecornn_io;

/** What backward is given and asked for. */
typedef struct {
    size_t size;                           /**< sizeof(ecornn_gradient) */
    const void *dy;                        /**< as y; past a row's length never read; NULL: 0 */
    const void *dfinal[ECORNN_MAX_STATES]; /**< as final; NULL: 0 */
    void *dx;                              /**< as x; 0 past a row's length; NULL: unwanted */
    void *dinitial[ECORNN_MAX_STATES];     /**< as initial; NULL: unwanted */
    void *dweights;                        /**< packed; NULL: unwanted */
    /** Nonzero: add to dweights; dx and dinitial are always overwritten. */
    int32_t accumulate;
    /** As reset_state, overwritten: a row's sum over its resets; NULL: unwanted.  Of a plan with
     * ECORNN_RESETS. */
    void *dreset_state[ECORNN_MAX_STATES];
    /** As io.states, of a plan with ECORNN_ALL_STATES; past a row's length never read; NULL: 0. */
    const void *dstates[ECORNN_MAX_STATES];
} ecornn_gradient;

/**
 * y and final from x, initial and weights.  With a reserve it also keeps what backward needs.
 * An empty run, of 0 steps or 0 rows, copies states: initial, or where the cell begins, to final,
 * backward dfinal to dinitial, zeros where it is NULL; and the gradients of weights and reset_state
 * are 0.  It reads and writes nothing else, so x, y, dy, dx, weights, workspace and reserve may be
 * NULL, and the reserve stays as it is.
 */
ECORNN_API ecornn_status ecornn_forward(const ecornn_plan *plan, const ecornn_io *io);
/**
 * Gradients of one forward run.  io: the same steps, batch, lengths, resets, mask, x, initial,
 * reset_state, weights, seed, first_step, first_row and reserve as in that run, and y as that run
 * left it, on a GPU or of a plan that does not save all (else y is not read; final never is).  y
 * and the reserve are read, never written: backward may run again, and gives the same bits. A
 * reserve of another plan, or of a run with other steps, batch, lengths, resets, mask, seed (where
 * it is used), or other states given, is refused.  A GPU cannot see that: its reserve is not the
 * host's to read.
 */
ECORNN_API ecornn_status ecornn_backward(const ecornn_plan *plan, const ecornn_io *io,
                                         const ecornn_gradient *gradient);

/** @} */

#ifdef __cplusplus
}
#endif

#include <ecornn/attention.h>
#include <ecornn/net.h>
#include <ecornn/tangent.h>
#include <ecornn/wisdom.h>

#endif /* ECORNN_H */

/**
 * @file
 * ecornn: fused recurrent layers.  Describe once, plan once, run many times.
 *
 * Letters for shapes, everywhere:
 *   T steps   N batch   I input width   H hidden width   P state width (H, or proj)
 *   L layers  D directions (1 or 2)     S states of the cell (LSTM 2, GRU 1)
 * Arrays are dense and row-major, the last letter fastest.  Sizes are in bytes if the name says
 * bytes, else in elements.  A zero field of a description takes its default.
 *
 * Four functions run a layer: ecornn_plan_create, ecornn_plan_sizes, ecornn_pack and
 * ecornn_forward.  The sections below follow in the order in which a program grows: a layer,
 * training, devices, cells, weights of other systems, nets.  Tuning is in ecornn/wisdom.h; what may
 * still change is in ecornn/experimental.h, which this header does not include.  Pages such as
 * doc/cells.md are in the source tree.
 *
 * Structures: the caller sets `size` of a structure, passed in or out, to its sizeof, and sets all
 * fields it does not use to 0, as designated initialisers do.  So a program keeps its results with
 * a later library, whose structures may be longer; and an earlier library refuses a later program
 * only if it uses a field that this library does not have.  Enumerations are ints whose values do
 * not change.
 *
 * Errors: a function that can fail returns a status.  After a failure ecornn_error_detail names,
 * for this thread, the wrong value and its limit.  Results are written only on success.
 *
 * Threads: every function may be called from any thread.  A device, a cell and a plan do not change
 * after creation.  One plan may run in many threads at a time if each run has its own workspace and
 * reserve.  On a CPU each call, and each thread it uses, needs 256 KB of stack.  pthread_cancel
 * takes effect after a call.
 *
 * Lifetimes: plans and memory of ecornn_alloc hold their device, plans also their cells, so all
 * may be closed and freed in any order, but not while another thread's call uses them.  Once
 * closed, a device allows no new plans or allocations.  A call reads texts, structures and their
 * arrays of pointers before it returns.  On a CPU it has then finished.  On a GPU runs and
 * packing are queued on the stream: plans and device memory must stay until they are done.
 *
 * A CPU device uses OpenMP threads.  In the child of a fork whose parent had more than one thread,
 * runs use one thread, and ecornn_device_query reports 1.  If the system grants fewer threads than
 * a run asks for, the run uses those; but if OpenMP itself has no memory for a thread's first run,
 * libgomp ends the process.
 *
 * Floating point: results do not depend on the caller's rounding mode, flush-to-zero mode or traps,
 * and every call restores these, flags included.  On a CPU runs treat denormals as zeros.
 *
 * Rows: on a CPU in F32 (weights in F32 or int8), the bits of a row of y, final, dx and dinitial
 * depend only on that row's inputs and the weights: not on N, the row's position, the values of
 * other rows (NaN included) or where T is cut.  For other types, for GPUs and for cells that are
 * linear in their states, set ECORNN_ROW_INVARIANT (doc/numerics.md, "Rows").  Random numbers
 * depend on step and row position.
 *
 * Memory: the caller owns x, y, states, weights, dweights, workspace and reserve.  All are in
 * memory the device can use (ecornn_alloc; on a CPU any memory), the last four aligned to
 * ecornn_sizes.alignment, the others to their elements.  What a run writes must not overlap
 * anything else that it uses, unless a field says so.  A run allocates nothing, except on the
 * reference.
 */
#ifndef ECORNN_H
#define ECORNN_H

#include <ecornn/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup ecornn_errors Errors and version
 * @{ */

/** The status in lower case, e.g. "bad argument"; "unknown status" for others.  Never NULL. */
ECORNN_API const char *ecornn_status_name(ecornn_status status);
/** The last failure of the calling thread in one line; "" if there was none.  Valid until the
 * thread's next failing call.  UTF-8; control characters of a quoted name or text are escaped as
 * "\x1B".  All other texts that the library returns are static. */
ECORNN_API const char *ecornn_error_detail(void);
/** Writes what a bug report needs besides the devices, as snprintf does, one line "word: value"
 * each: version, compiler, instruction sets, CBLAS, the CUDA module or why it is missing, driver,
 * NVRTC, wisdom files.  Returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_info(char *text, size_t size);
/** The version and the instruction set that the CPU backend would use, e.g. "1.0.0 cpu:avx512". */
ECORNN_API const char *ecornn_version(void);

/** @} */

/** @defgroup ecornn_layer Run a layer
 * @{ */

/**
 * Makes a plan for a problem string or the text of a net (see "Nets"): checks it and makes every
 * choice, from wisdom if there is an entry (wisdom.h), else by estimate.
 *
 *     CELL[/f32|f64|bf16|f16][/bf16-weights|f16-weights|int8-weights|int8][/bf16-params|f16-params][/fast]
 *     [/row-invariant][/infer|train][/L#][/rev|bi]/T#/N#/I#/H#[/P#][/heads:#[/grouped-input]][/key:#][/batch-major]
 *     [/resets][/mask][/repeat-padding][/all-states][/streams][/dropout:#][/measure[:#]]
 *     [/save:all|save:states|save:every:#][/bf16-save|f16-save][/memory:#[K|M|G]][/models:#][/shared-x][/tangent]
 *
 * e.g. "lstm/f32/train/L2/bi/T100/N32/I512/H512".  Parts come in any order, defaults may be
 * omitted, and each part means what the field or flag of ecornn_desc says.  T and N are the largest
 * that a run will have.
 *
 * device NULL: the CPU with all its cores.  cells: own cells that the text may name, which come
 * before built-in ones and those of the library, terminated by NULL; NULL: none.  UNSUPPORTED if no
 * algorithm of the device can do it; the detail gives each algorithm's reason.
 */
ECORNN_API ecornn_status ecornn_plan_create(ecornn_plan **plan, ecornn_device *device,
                                            const char *text, const ecornn_cell *const *cells);
/** Frees the plan; NULL is allowed. */
ECORNN_API void ecornn_plan_free(ecornn_plan *plan);

/** The sizes of a plan, and of the blocks that the caller provides to its runs. */
typedef struct {
    size_t size;            /**< sizeof(ecornn_sizes), set by the caller */
    size_t param_elements;  /**< elements of the parameter block (see ecornn_param) */
    size_t weight_bytes;    /**< the packed weights */
    size_t dweight_bytes;   /**< their gradient, F32 or F64; 0 for inference */
    size_t workspace_bytes; /**< scratch of a forward or backward; holds nothing between runs */
    size_t reserve_bytes;   /**< written by forward and read by its backward; 0 for inference */
    size_t alignment;       /**< required alignment of the blocks, in bytes */
    int32_t param_count;    /**< number of parameters; see ecornn_param_get */
    int32_t steps;          /**< the largest T of a run */
    int32_t batch;          /**< the largest N */
    int32_t input;          /**< I: width of x */
    int32_t output;         /**< width of y, D*P, or D*H for each state that y has */
    int32_t reads_y;        /**< does backward read y, so that it must survive unchanged? */
    int32_t checks_lengths; /**< are lengths, and what belongs to a reserve, checked?  Not on a GPU,
                               whose memory the host does not read. */
    int32_t models;         /**< M */
    int32_t source;         /**< of attention: the largest S; else 0 */
    int32_t layers;         /**< of a net; else 1 */
    int32_t joined;         /**< of a net: product of all k, y has ceil(T/joined) steps; else 1 */
    int32_t first_param;   /**< of a layer of a net: number of its parameter 0 in the net; else 0 */
    size_t param_offset;   /**< the same: its offset in the net's parameter block, in elements, */
    size_t weight_offset;  /**< in the packed weights, in bytes, */
    size_t dweight_offset; /**< and in their gradient */
} ecornn_sizes;

/** The sizes for runs of the planned T and N, which are enough for every smaller run. */
ECORNN_API ecornn_status ecornn_plan_sizes(const ecornn_plan *plan, ecornn_sizes *sizes);

/**
 * Packs parameters into weights [ecornn_sizes.weight_bytes], with matrices rounded to weight_type.
 * A row of S8 whose numbers are multiples of one number, at most 127 times it, is stored exactly.
 * params[k], for k below ecornn_sizes.param_count, is parameter k in device memory, of param_type:
 * a framework's tensors need no copy into one block.
 *
 * A layer has, for each direction: every W in the order of the cell's text, then every R, then
 * every vector (b, p), then the projection, each row-major.  ecornn_param_get names and counts
 * those of any plan.  An LSTM has W, R and b of the gates i f g o: 12 for each layer and direction.
 * A GRU has W of r z n, R of r z q, and b of r z q n, where n = tanh(W.n x + b.n + r (R.q h +
 * b.q)): of the two biases of cuDNN's third gate b.n is that of W and b.q that of R.
 *
 * added: NULL, or for each k NULL or, if parameter k is a vector, one that is added to it, for
 * frameworks that keep two biases where a cell has one.  Sums are rounded to the type of sums
 * inside a run.
 */
ECORNN_API ecornn_status ecornn_pack(const ecornn_plan *plan, const void *const *params,
                                     const void *const *added, void *weights, void *stream);
/** Sets *same to 1 if all bytes of host memory at a and b are equal, else to 0; a CPU's threads
 * divide 256 KB and more.  A program with a copy of its parameters sees whether to pack again. */
ECORNN_API ecornn_status ecornn_same(const ecornn_plan *plan, const void *a, const void *b,
                                     size_t bytes, int *same);

/** What a run reads and writes. */
typedef struct ecornn_io {
    size_t size; /**< sizeof(ecornn_io) */
    /** [N] in device memory, in any order, 0 to T; NULL: all T.  Values beyond are refused if
     * ecornn_sizes.checks_lengths, else undefined. */
    const int32_t *lengths;
    const void *x; /**< [T,N,I] or [N,T,I]; values past a row's length are ignored */
    /** [T,N,D*P]; 0 past a row's length.  NULL if not needed; a run with a reserve needs it if
     * ecornn_sizes.reads_y. */
    void *y;
    /** [L*D,N,P], later states [L*D,N,H], layer by layer, forward before reverse; NULL: the cell's
     * start values, by default 0.  State 0 is the output h; state 1 of an LSTM is c.  A matrix
     * state is [N,heads,K,V], in F32 also if the plan has 16 bits (ecornn_plan_state). */
    const void *initial[ECORNN_MAX_STATES];
    /** Shaped as initial, after each row's last step; NULL if not needed.  May be initial's memory
     * in a run without a reserve; with one, backward reads initial. */
    void *final[ECORNN_MAX_STATES];
    const void *weights; /**< packed; NULL if they have 0 bytes */
    void *workspace;     /**< [ecornn_sizes.workspace_bytes], forward and backward */
    void *reserve;       /**< NULL: inference, also with a training plan */
    uint64_t seed;       /**< seed of dropout and bernoulli: the same masks on every device */
    void *stream;        /**< a cudaStream_t; the CPU ignores it */
    /** Size of workspace, checked against what this run's T and N need; 0: not checked. */
    size_t workspace_bytes;
    size_t reserve_bytes; /**< the same for reserve */
    /** [T,N], also with ECORNN_BATCH_MAJOR, for a plan with ECORNN_RESETS: nonzero if x of that
     * step is the first of an episode.  Between it and the step before, a row's states are
     * replaced by its reset_state, in both directions.  y is not affected; no gradient crosses
     * from one episode to another.  NULL: no resets. */
    const uint8_t *resets;
    const void *reset_state[ECORNN_MAX_STATES]; /**< shaped as initial */
    /** [T,N], also with ECORNN_BATCH_MAJOR, for a plan with ECORNN_MASK: a zero byte means that the
     * step does not count for the row.  States, gradients and random numbers are as if the row did
     * not have that step; its x and its byte of resets are ignored, and its dx is 0.  There y of a
     * direction repeats the last counted step in that direction's order, and is 0 before the
     * first, even with an initial state.  NULL: every step counts. */
    const uint8_t *mask;
    /** [L*D,T,N,P], later states [L*D,T,N,H], also with ECORNN_BATCH_MAJOR, for a plan with
     * ECORNN_ALL_STATES: the states after each step.  states[0] equals the y of its layer; states
     * are 0 past a row's length and repeat under a mask as y does.  NULL if not needed.
     * states[0] needs y.  Backward reads none. */
    void *states[ECORNN_MAX_STATES];
    /** Coordinates of this run's first step and row in a larger run, modulo 2^32, for a run that is
     * one piece of it.  Random numbers (dropout, bernoulli) are then those of the larger run.
     * With a mask only steps that count are counted; training a net that draws and has joins or
     * dropout between layers, first_step must then be 0. */
    uint32_t first_step;
    uint32_t first_row; /**< see first_step */
    /** NULL: `weights` are packed.  Else all parameters, as for ecornn_pack with `added`: the run
     * first packs them into `weights`, which it writes, with the same bits as both calls, in less
     * time.  Backward takes `weights` as its forward packed them.  A GPU may read matrices where
     * they are: they must then stay unchanged until the run has ended, and `weights` serves no
     * other run but this one's backward. */
    const void *const *params;
    const void *const *added; /**< see params */
    /** For a net, whose own initial, final, reset_state and states must be NULL: those of layer k
     * are in layers[k], with the layer's T; all else in there must be 0.  NULL, all or one: the
     * layer is given none.  [ecornn_sizes.layers] */
    const struct ecornn_io *const *layers;
    const struct ecornn_io *tangent; /**< ecornn/experimental.h; else NULL */
    /** Streams, in inference with ECORNN_STREAMS: [N], on a CPU ascending.  Row n continues stream
     * rows[n]: initial, which is then required, and final are [L*D,streams,P] and [L*D,streams,H],
     * may be the same memory, and only these streams are read and written.  All else stays
     * [T,N,...] or [N].  A stream restarts when its states are set, or by resets.  NULL: no
     * streams.
     *
     * On a GPU the list is in device memory and is read when the run executes, so a captured graph
     * takes other lists.  It is not checked: no two rows may name one stream.  A row outside of 0
     * to streams - 1 pads the list: it begins at zeros, and its final state is dropped. */
    const int32_t *rows;
    int32_t streams;  /**< with rows: streams that have states; else 0 */
    int32_t reserved; /**< 0 */
    /** NULL: the parts of x that the cell's text declares are columns of x.  Else all are arrays of
     * their own, in the text's order, [T,N,1] or [T,N,H], ordered as x, and x has the other columns
     * only, and is NULL if there are none.  They are read during the call; each is aligned for
     * its type and is not y.  Backward needs the same arrays.  UNSUPPORTED for several models, and
     * with a mask or repeated padding. */
    const void *const *inputs;
    /** With inputs: elements from one row of each to the next, 0: its width; NULL: all are 0. */
    const size_t *input_rows;
} ecornn_io;

/**
 * Computes y and final from x, initial and weights, for T steps of N rows, both at most the planned
 * numbers.  With a reserve it also keeps what backward needs.
 *
 * An empty run, of 0 steps or 0 rows, only copies states: forward from initial (or the start
 * values) to final, backward from dfinal (or zeros) to dinitial.  The gradients of weights and
 * reset_state are 0.  x, y, dy, dx, weights, workspace and reserve are neither read nor written and
 * may be NULL.
 */
ECORNN_API ecornn_status ecornn_forward(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                        const ecornn_io *io);

/** @} */

/** @defgroup ecornn_training Training
 * A step of a plan with "train": ecornn_pack; ecornn_forward with a reserve; ecornn_backward with
 * the same io, which gives dx, dinitial and dweights; ecornn_unpack, which converts dweights into
 * the gradients of the parameters.  A forward without a reserve is inference.
 * @{ */

/** Inputs and outputs of backward. */
typedef struct ecornn_gradient {
    size_t size;    /**< sizeof(ecornn_gradient) */
    const void *dy; /**< shaped as y; never read past a row's length; NULL: 0 */
    /** Shaped as final: added after each row's last step, besides dy; NULL: 0. */
    const void *dfinal[ECORNN_MAX_STATES];
    void *dx; /**< shaped as x; 0 past a row's length; NULL if not needed */
    void *dinitial[ECORNN_MAX_STATES]; /**< shaped as initial; NULL if not needed */
    void *dweights;                    /**< packed; NULL if not needed */
    /** Nonzero: adds to dweights; dx and dinitial are always overwritten. */
    int32_t add;
    int32_t reserved; /**< 0 */
    /** Shaped as reset_state, for a plan with ECORNN_RESETS: the sum over each row's resets.
     * Overwritten; NULL if not needed. */
    void *dreset_state[ECORNN_MAX_STATES];
    /** Shaped as io.states, for ECORNN_ALL_STATES; not read past a row's length; NULL: 0. */
    const void *dstates[ECORNN_MAX_STATES];
    /** For a net: the gradients of the states of layer k, as io.layers. */
    const struct ecornn_gradient *const *layers;
    const struct ecornn_gradient *tangent; /**< ecornn/experimental.h; else NULL */
    void *const *dparams;                  /**< only of tangents, else NULL: see ecornn_unpack */
    /** With io.inputs: shaped as inputs, 0 past a row's length, overwritten; NULL, all or one, if
     * not needed.  dx has the other columns.  UNSUPPORTED for two directions of 16 bits with
     * ECORNN_ROW_INVARIANT. */
    void *const *dinputs;
    const size_t *dinput_rows; /**< as io.input_rows */
} ecornn_gradient;

/**
 * Computes the gradients of one forward run, of a plan with ECORNN_TRAINING.  steps, batch and, in
 * io, lengths, resets, mask, x, initial, reset_state, weights, seed, first_step, first_row and
 * reserve must be those of that run.  y must be as that run left it if ecornn_sizes.reads_y, and is
 * not read otherwise.  final and params are never read.  y and the reserve are not modified:
 * backward may run again, with the same bits.
 *
 * Refused is a reserve of another problem, or of a run with other steps, batch, lengths, resets,
 * mask, seed (if it is used), or with initial or reset_state given where they were not, or the
 * other way round, if ecornn_sizes.checks_lengths; else it is undefined.
 */
ECORNN_API ecornn_status ecornn_backward(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                         const ecornn_io *io, const ecornn_gradient *gradient);
/** Converts gradients of the packed weights to gradients of the parameters, of param_type.  add
 * nonzero: adds to what dparams[k] holds.  dparams[k] may be NULL if it is not needed. */
ECORNN_API ecornn_status ecornn_unpack(const ecornn_plan *plan, const void *dweights,
                                       void *const *dparams, int add, void *stream);

/** One parameter. */
typedef struct {
    size_t size;   /**< sizeof(ecornn_param), set by the caller */
    char name[48]; /**< "0.fwd.W.i": layer, direction, kind, line of the cell's text; with several
                      models "3:0.fwd.W.i" belongs to model 3 */
    size_t offset; /**< offset of its first element in the parameter block */
    int32_t rows;  /**< W [H,I or D*P, or part of it]  R [H,P or H/heads]  b, p [H,1]  proj [P,H] */
    int32_t cols;  /**< the second dimension */
    size_t gradient;  /**< if is_dense, offset of its gradient in dweights, in bytes */
    int32_t is_dense; /**< 1 if dweights hold the gradient as [rows,cols] in the type of parameters,
                         once backward is done; else 0: use ecornn_unpack */
    int32_t reserved; /**< 0 */
} ecornn_param;

/**
 * Name, shape and offset of parameter number index, counted from 0 to ecornn_sizes.param_count - 1;
 * with several models those of one model after the other, of a net those of layer 0, then of
 * layer 1.
 *
 * The parameter block is one way to keep parameters: all of them in this order, without gaps.  The
 * four W of an LSTM are thus one [4H,I] matrix with gates in the order i f g o.
 */
ECORNN_API ecornn_status ecornn_param_get(const ecornn_plan *plan, int index, ecornn_param *param);
/** The sizes for a run of fewer steps or rows.  They never exceed those of the plan.  Weights and
 * their gradient stay the plan's.  UNSUPPORTED for nets, tangents and attention. */
ECORNN_API ecornn_status ecornn_run_sizes(const ecornn_plan *plan, int32_t steps, int32_t batch,
                                          ecornn_sizes *sizes);
/** Numbers of state `index` of each row and, unless type is NULL, the type of its arrays: P, H, or,
 * in a cell with a matrix state, those of all heads; type is the plan's, but F32 for such states of
 * 16-bit plans.  UNSUPPORTED of nets, tangents and attention: ask a layer (ecornn_plan_layer). */
ECORNN_API ecornn_status ecornn_plan_state(const ecornn_plan *plan, int index, size_t *elements,
                                           ecornn_type *type);
/** Rounds a number of steps or rows up to the one to plan for when T or N changes from run to run:
 * the size itself up to 16, then the next of 18, 20, 22 ... 32, 36, 40 ... 64, 72 and so on, eight
 * buckets for each power of two.  A plan for bucket sizes serves every run in that bucket, the
 * run's bits do not depend on earlier sizes, and with ecornn_run_sizes it takes no more memory
 * than a plan of its own. */
ECORNN_API int32_t ecornn_bucket(int32_t size);
/** Can runs of plan `used` take weights that were packed for plan `packed`?  OK: results have the
 * same bits as with weights packed for `used`.  UNSUPPORTED: the detail says how the two differ.
 * The plans may have different T and N, as long as both chose the same packing.  Weights packed
 * for training fit inference, except those of several models; the reverse never holds.  Gradients
 * belong to the plan of the backward run. */
ECORNN_API ecornn_status ecornn_weights_fit(const ecornn_plan *packed, const ecornn_plan *used);
/** @} */

/** @defgroup ecornn_devices Devices and memory
 * @{ */

/** The properties of a device. */
typedef struct {
    size_t size;          /**< sizeof(ecornn_device_info), set by the caller */
    size_t memory_bytes;  /**< of the whole device; 0: unknown */
    char name[64];        /**< "Intel(R) Xeon(R) ..." */
    char backend[16];     /**< "cpu", "cuda", "reference" */
    char algorithms[128]; /**< their names, as ECORNN_ALGORITHM takes them, with blanks between */
    char variant[16];     /**< instruction set, e.g. "avx2"; GPU: "sm_90" */
    int32_t threads;      /**< threads that a run uses; GPU: multiprocessors */
    int32_t reserved;     /**< 0 */
} ecornn_device_info;

/**
 * Opens a device.  name is one of
 * - all cores that the process may use, limited by OMP_NUM_THREADS and omp_set_num_threads: "cpu"
 * - K threads, 1 to 1024: "cpu:K"
 * - NVIDIA GPU number K, by default 0: "cuda:K", "cuda"
 * - double precision, one thread, slow; what all other results are checked by: "reference"
 * - the fastest device of this machine; an error if it cannot be opened: NULL
 *
 * Fails with BAD_ARGUMENT for a malformed name, NO_DEVICE for a device this machine lacks; the
 * detail says why (no driver, no module, too old).
 */
ECORNN_API ecornn_status ecornn_device_open(ecornn_device **device, const char *name);
/** Closes the device; NULL is allowed.  What its plans and memory need stays until the last of them
 * is freed. */
ECORNN_API void ecornn_device_close(ecornn_device *device);
/** Counts the devices of a backend: "cpu", "cuda" or "reference". */
ECORNN_API ecornn_status ecornn_device_count(const char *backend, int *count);
/** Fills in the properties of the device. */
ECORNN_API ecornn_status ecornn_device_query(const ecornn_device *device, ecornn_device_info *info);

/** Allocates memory the device can use, aligned for every use, so that one program runs on CPUs and
 * GPUs.  The contents are undefined.  NULL if device is NULL, there is no memory or bytes is 0. */
ECORNN_API void *ecornn_alloc(ecornn_device *device, size_t bytes);
/** Frees memory of ecornn_alloc, with the device that allocated it; NULL is allowed. */
ECORNN_API void ecornn_free(ecornn_device *device, void *memory);
/** Copies bytes from the host to memory of ecornn_alloc, and waits for the copy. */
ECORNN_API ecornn_status ecornn_upload(ecornn_device *device, void *to, const void *from_host,
                                       size_t bytes);
/** Copies bytes from memory of ecornn_alloc to the host, and waits for the copy. */
ECORNN_API ecornn_status ecornn_download(ecornn_device *device, void *to_host, const void *from,
                                         size_t bytes);
/** Waits until everything queued on the stream is done.  On a CPU it returns at once. */
ECORNN_API ecornn_status ecornn_wait(ecornn_device *device, void *stream);

/** @} */

/** @defgroup ecornn_cells Cells
 * @{ */

/**
 * Makes a cell from text in the language of doc/cells.md, e.g.
 *
 *     cell mgu(h)
 *     f  = sigmoid(W x + R h + b)
 *     n  = tanh(W x + R (f * h) + b)
 *     h' = (1 - f) * h + f * n
 *
 * or finds a built-in one by its name: "rnn-tanh" "rnn-relu" (Elman 1990), "lstm" (Hochreiter and
 * Schmidhuber 1997 with the forget gate of Gers 2000), "lstm-peephole" (Gers 2002), "lstm-coupled"
 * (f = 1 - i, Greff 2015), "gru" (reset after the product, as in cuDNN and PyTorch),
 * "gru-reset-first" (Cho 2014), "mgu" (Zhou 2016), "min-gru" "min-lstm" (Feng 2024), "sru" (Lei and
 * Zhang 2017), "qrnn" (Bradbury 2017), "slstm" (Beck 2024); or one of the library of published
 * cells, such as "lif" (ecornn_cell_library).  Neither is ever freed.
 *
 * Fails with BAD_CELL; the detail of a text begins with line:column.  On a CUDA device the first
 * plan of a cell from text compiles it with NVRTC and may keep the code in a folder of the user's.
 * Without NVRTC the cell is interpreted, with the same results (doc/cells.md, "on a GPU").
 */
ECORNN_API ecornn_status ecornn_cell_parse(ecornn_cell **cell, const char *text);
/** Frees a cell; NULL is allowed, and plans that use the cell keep it. */
ECORNN_API void ecornn_cell_free(ecornn_cell *cell);
/** The name of built-in cell number index, in a fixed order; BAD_ARGUMENT past the last. */
ECORNN_API ecornn_status ecornn_cell_name(int index, const char **name);
/** The name of cell number index of the library, in order of names, and its text, unless text is
 * NULL; BAD_ARGUMENT past the last.  Wherever a text names a cell, cells that the caller gives come
 * first, then built-in ones, then the library's. */
ECORNN_API ecornn_status ecornn_cell_library(int index, const char **name, const char **text);
/** Counts the states that the cell carries from step to step (LSTM 2, GRU 1).  start
 * [ECORNN_MAX_STATES], or NULL: the values at which they begin if a run is given no initial state.
 */
ECORNN_API ecornn_status ecornn_cell_states(const ecornn_cell *cell, int *count, double *start);
/** Prints the cell (recipe, gradient, accumulators, stages, what training saves) for people, as
 * snprintf does.  Returns the length it needs, -1 on failure.  Programs take the items. */
ECORNN_API int ecornn_cell_print(const ecornn_cell *cell, char *text, size_t size);

/** An item of what a cell was compiled to. */
typedef struct ecornn_cell_item {
    size_t size;         /**< sizeof(ecornn_cell_item), set by the caller */
    double value;        /**< a number; see ecornn_cell_item_get */
    char word[16];       /**< what the item is */
    char name[32];       /**< of the cell, state, part of x or parameter; "x": all of x; else "" */
    int32_t stage;       /**< of the step; -1: an item of the head */
    int32_t index;       /**< number of what it declares, adds to, computes or stores */
    int32_t argument[3]; /**< -1: none */
    int32_t reserved;    /**< 0 */
} ecornn_cell_item;

/**
 * Item number index of a cell, from 0; BAD_ARGUMENT past the last.  From them a program can compute
 * a step forward outside training, with values [N,H].  First comes the head:
 *
 *     cell
 *     state        value: where it begins; argument[0]: 1 if y has it, else 0
 *     part         of x; argument[0]: its size as in a text, 'H', '1', 'K' or 'V'
 *     parameter    in the order of ecornn_pack
 *
 * Each stage begins with what it adds to accumulators, here `index`, which are 0 before the step:
 *
 *     bias         parameter argument[0]
 *     copy         part argument[0] of x, or, if that is -1, x itself
 *     input        parameter argument[0] times x without its parts
 *     product      parameter argument[0] times the previous state argument[1], or, if that is -1,
 *                  times the operand argument[2]
 *
 * Then come its instructions, each for every unit.  Loads and functions compute value `index` of
 * the stage; arguments of functions and stores are such values:
 *
 *     load_acc load_state load_vector load_mean    argument[0]: accumulator, previous state,
 *                  parameter or mean; argument[1] of a mean: 0 over H, 1 over the units of a head
 *     const        value
 *     bernoulli    value, its expectation
 *     add sub mul div min max select neg abs exp log sqrt tanh sigmoid relu    as in a text
 *     store_next store_operand store_mean    the new state, an operand, what a mean is of
 *     store_save   for backward only
 *
 * A later version may have more words.  A cell with a matrix state has only its head.
 */
ECORNN_API ecornn_status ecornn_cell_item_get(const ecornn_cell *cell, int index,
                                              ecornn_cell_item *item);

/** @} */

/** @defgroup ecornn_describe Plans from structures
 * @{ */

/** Flags of a description, combined by |. */
enum {
    /** Plan the backward pass too; dropout and bernoulli() draw random numbers. */
    ECORNN_TRAINING = 1u << 0,
    /** F32: products may round their operands to 11 bits, as TF32 does; on a GPU also to scaled F16
     * (doc/numerics.md). */
    ECORNN_FAST_MATH = 1u << 1,
    /** The bits of a row of y, final, dx and dinitial do not depend on N, the row's position or the
     * other rows.  UNSUPPORTED if no algorithm of the device guarantees this. */
    ECORNN_ROW_INVARIANT = 1u << 2,
    /** Runs may have io.resets. */
    ECORNN_RESETS = 1u << 3,
    /** Runs may have io.mask. */
    ECORNN_MASK = 1u << 4,
    /** Steps past a row's length are treated as steps that do not count (io.mask).  A forward
     * direction repeats its last output there; a reverse direction, which meets them first, has
     * zeros. */
    ECORNN_REPEAT_PADDING = 1u << 5,
    /** Runs may have io.states and gradient.dstates. */
    ECORNN_ALL_STATES = 1u << 6,
    /** Several models: all read the same x. */
    ECORNN_SHARED_INPUT = 1u << 7,
    /** With heads: W also reads only its head's part of the layer's input, and is stored as
     * [H,I/heads], above the first layer as [H,D*P/heads]. */
    ECORNN_GROUPED_INPUT = 1u << 8,
    /** Layers take the steps from last to first. */
    ECORNN_REVERSE = 1u << 9,
    /** Each layer runs in both directions; y has the forward direction's P columns first. */
    ECORNN_BIDIRECTIONAL = 1u << 10,
    /** x, y and their gradients are [N,T,*] instead of [T,N,*]. */
    ECORNN_BATCH_MAJOR = 1u << 11,
    /** What a training run keeps for its backward; the rest is computed again from x and y, so
     * with all but SAVE_ALL, and with a save_type of 16 bits, backward reads y on a CPU too
     * (doc/guide/training.md, "Memory").  Without either flag and with save_every 0: all; under a
     * memory_limit whatever makes the fastest plan that fits.  ECORNN_SAVE_ALL: every value that
     * the gradient uses. */
    ECORNN_SAVE_ALL = 1u << 12,
    /** Each step's states but the output state, and y of layers below the last. */
    ECORNN_SAVE_STATES = 1u << 13,
    /** A plan of derivatives along a direction (ecornn/experimental.h). */
    ECORNN_TANGENT = 1u << 14,
    /** F32 inference with weight_type S8: products read rows as integers of 8 bits too, made in
     * each step with a scale and a zero for each row.  Their sums are exact (doc/numerics.md). */
    ECORNN_INT8 = 1u << 15,
    /** Runs may have io.rows; not of nets and tangents.  Workspaces on a GPU then have room for the
     * states of N rows. */
    ECORNN_STREAMS = 1u << 16,
    /** If wisdom has no entry for the problem's bucket, measure the plans that are estimated to be
     * the fastest and add the winner to the process's wisdom (wisdom.h, "Measuring"). */
    ECORNN_MEASURE = 1u << 17,
};

/** The layers that a plan is made for.  A field that is 0 takes its default. */
typedef struct {
    size_t size;             /**< sizeof(ecornn_desc) */
    const ecornn_cell *cell; /**< required */
    /** Limit on the bytes of reserve and workspace together; 0: none.  If no plan fits, the error
     * names the smallest limit that would do. */
    uint64_t memory_limit;
    uint32_t flags; /**< ECORNN_TRAINING and so on, combined by | */
    int32_t steps;  /**< the largest T a run will have: required */
    int32_t batch;  /**< the largest N: required */
    int32_t input;  /**< I, with the parts of x that the cell declares: required */
    int32_t hidden; /**< H: required */
    int32_t proj;   /**< P: h = P u, a product after the step; 0: no projection, P = H */
    int32_t layers; /**< L; 0: 1 */
    /** Type of x, y, initial, final and their gradients; 0: F32.  Inside a run, sums and states
     * that no product reads are F32; with F64 everything is F64. */
    ecornn_type type;
    ecornn_type param_type; /**< type of parameters; 0: F32, or F64 if type is F64 */
    /** Type of packed matrices; 0: type, or S8 with ECORNN_INT8.  BF16 or F16 with type F32 halves
     * the bytes read; S8, in inference, quarters them, on a GPU with up to 16 rows. */
    ecornn_type weight_type;
    /** Type of what the reserve keeps: states, and if all is saved every value but y of lower
     * layers; 0: the planner chooses type or wider.  BF16 or F16 with F32: then a plan that saves
     * all never saves wider values, also where memory_limit would allow it. */
    ecornn_type save_type;
    int32_t save_every; /**< 1 to steps: as ECORNN_SAVE_STATES, for every save_every-th step only */
    /** M: number of independent models, each with its own weights, in one run; 0: 1.  All arrays
     * have M as their first dimension: x, y, states and their gradients are [M,...]; parameters,
     * weights, dweights and reserve of the models follow each other.  lengths [N], resets and mask
     * [T,N] and x have M too, unless ECORNN_SHARED_INPUT is set; then dx is the sum over models,
     * added in their order.  Each model has the bits of a run by itself.  Model 0 uses the run's
     * seed, the others a hash of seed and model number. */
    int32_t models;
    /** K: every R reads H/K units, those of its own head, and is stored as [H,H/K]: rows [k*H/K,
     * (k+1)*H/K) are the matrix [H/K,H/K] of head k.  H must be a multiple of K.  0: 1. */
    int32_t heads;
    /** Dropout on the input of layers 1..L-1 in training, 0 <= p < 1; scales by 1/(1-p). */
    float dropout;
    int32_t reserved;       /**< 0 */
    double measure_seconds; /**< limit with ECORNN_MEASURE, up to 1000; 0: 0.05 */
    /** K: rows of the matrix that each head has as a state, in cells with such a state
     * (doc/cells.md, "Matrix states"), where heads is their number and hidden / heads V; 0: V. */
    int32_t key;
    int32_t reserved2; /**< 0 */
} ecornn_desc;

/** ecornn_plan_create for a description; the same for device NULL. */
ECORNN_API ecornn_status ecornn_plan_create_desc(ecornn_plan **plan, ecornn_device *device,
                                                 const ecornn_desc *desc);
/** Parses a problem string, as ecornn_plan_print shows one, to a description.  CELL names a
 * built-in cell or one of the library, which are never freed, or `cell` if that is not NULL, which
 * stays the caller's. */
ECORNN_API ecornn_status ecornn_desc_parse(ecornn_desc *desc, const char *problem,
                                           const ecornn_cell *cell);
/** Prints the plan (problem string, algorithms tried and why one was chosen, tape, sizes) as
 * snprintf does.  Returns the length it needs, -1 on failure. */
ECORNN_API int ecornn_plan_print(const ecornn_plan *plan, char *text, size_t size);

/** @} */

/** @defgroup ecornn_exchange Weights of other systems
 * @{ */

/**
 * The number of elements of another system's weight block, in host memory (doc/guide/weights.md has
 * the shapes): "torch" (torch.nn.LSTM's parameters in order), "cudnn" (all matrices, then all
 * biases), "keras" (per layer and direction: kernel, recurrent kernel, bias), "onnx" (per layer: W,
 * R, B, P). Cells are matched by parameter names: a text with the names of the LSTM takes an LSTM's
 * weights. In ecornn_import and ecornn_export, `elements` must be exactly this number; `type` is
 * the block's type, any of the four, F16 on a CPU too; `param_block` is the parameter
 * block, of the plan's param_type, in host memory too. Import adds two biases if the equations
 * allow it; export writes the sum and a zero, so it is not for gradients.  UNSUPPORTED if the other
 * system has no such cell.
 */
ECORNN_API ecornn_status ecornn_import_size(const ecornn_plan *plan, const char *system,
                                            size_t *elements);
/** Converts the other system's block to the parameter block; see ecornn_import_size. */
ECORNN_API ecornn_status ecornn_import(const ecornn_plan *plan, const char *system,
                                       const void *block, ecornn_type type, size_t elements,
                                       void *param_block);
/** Converts the parameter block to the other system's block; see ecornn_import_size. */
ECORNN_API ecornn_status ecornn_export(const ecornn_plan *plan, const char *system,
                                       const void *param_block, void *block, ecornn_type type,
                                       size_t elements);

/** @} */

/** @defgroup ecornn_nets Nets
 * A net is a text of pieces from x to y, separated by ";":
 *
 *     bf16/train/T400/N32/I40; lstm/H256/bi; join:2; lstm/H256/bi; gru/H256 + lstm/H128/rev
 *
 * - The first piece has what all layers share, as in a problem string: T, N, I of the net, and
 * whatever each layer's string would repeat.
 * - A layer is a cell and its own parts of a problem string: all but T, N, I, the type, the order,
 * train, resets, mask, repeat-padding, models and shared-x, which the first piece gives, and
 *   streams and tangent, which nets do not have.
 * - Layers joined by "+" run in parallel: they read the same input, each in its own direction, and
 * their outputs are concatenated, [T,N,C1+C2+...].  dx is their sum, added in their order.
 * - join:k turns [T,N,C] into an input [U,N,k*C] with U = ceil(T/k): step u concatenates steps u*k
 * to u*k+k-1, with zeros past a row's length, past T, and for steps that the mask does not count. A
 * row of length l has length ceil(l/k) afterwards.  A joined step counts if any of its steps does,
 * and begins an episode if any of those that count does.
 * - dropout:p, in a run with a reserve, sets elements to 0 with probability p and multiplies the
 * others by 1/(1-p).  Steps are numbered as in its input (io.first_step divided by the joins before
 * it), also with a mask.
 *
 * With models all arrays have M first, as for a plan; with shared-x this is so after the first
 * layers, and dropout before these is drawn once for all models.  Parameters are those of layer 0,
 * model after model, then of layer 1 and so on.
 *
 * Layers are numbered from 0 in the order of the text.  A net has the bits of its layers run one
 * after the other by plans with the same choices.  Layer 0 uses the run's seed, every other layer a
 * hash of seed and layer number.
 * @{ */

/** Layer number index of a net, counted from 0, for ecornn_plan_sizes, ecornn_param_get,
 * ecornn_import and so on.  It belongs to the net.  Of a plan that is no net: the plan itself. */
ECORNN_API ecornn_status ecornn_plan_layer(const ecornn_plan *plan, int index,
                                           const ecornn_plan **layer);

/** @} */

#ifdef __cplusplus
}
#endif

#include <ecornn/wisdom.h>

#endif /* ECORNN_H */

/*
 * The test kit: cases, their inputs, runs in guarded memory, expected results and what is compared.
 * Everything here uses the public interface, but for the reference's rounding and the lists of
 * algorithms.
 *
 * A case is one string, which every failure prints and every test that sweeps takes as argument or
 * in the environment (ECORNN_CASE): a problem string and, in any order, these suffixes:
 *
 *   /lengths:random  io.lengths is given: any lengths; or zero, full, short (0 or 1)
 *   /states          initial states and gradients of the final ones are given
 *   /resets:F        F in a hundred steps reset, to reset_state with /states, else to 0
 *   /resets          a plan with resets, a run without
 *   /mask:F          F in a hundred steps do not count
 *   /first:TxN       the run is the part of a longer run that begins at step T and row N
 *   /alias           final is the memory of initial (with /states)
 *   /accumulate      backward runs twice, first with final states of no gradient; the second adds
 *                    to dweights
 *   /null:LIST       these arrays of run_arrays.h are NULL, with commas
 *   /run:TxN         the run is smaller than the plan
 *   /noreserve       inference on a training plan
 *   /scale:F         x and the initial states times F
 *   /gradients:F     dy and the gradients of final states times F
 *   /gates:F         F more in the biases of gates z and i
 *   /seed:K          of the inputs and of the run; else 1
 *
 * The cell is a built-in one, or cells/CELL.cell or tests/cells/CELL.cell, or own-CELL:
 * common/cell/CELL.cell parsed at run time.
 */
#ifndef TESTING_H
#define TESTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ecornn.h"
#include "common/run_arrays.h"

enum { CASE_TEXT = 256 };

/* ---- arrays ---------------------------------------------------------------------------------- */

/* A named dense array. Elements of every type are kept as double, which is exact. */
struct array {
    char name[64];
    int rank;
    int32_t extent[3];
    size_t count;
    double *value;
    double bound; /* of expected results: largest error allowed, in absolute terms */
};

/*
 * Inputs or results of a case: arrays of a run by their names in it, case_array, of states with S,
 * the number of the state; parameters by their names, their gradients as d:NAME, before:NAME for
 * what dweights holds.
 */
struct data {
    int n, room;
    struct array *array;
    struct rounds
        *rounds; /* only from case_expect: rounded runs that may still extend the bounds */
};

struct array *data_add(struct data *data, const char *name, int rank, const int32_t *extent);
struct array *data_find(const struct data *data, const char *name); /* NULL: there is none */
void data_free(struct data *data);

/* ---- cases ----------------------------------------------------------------------------------- */

enum lengths { LENGTHS_NULL, LENGTHS_RANDOM, LENGTHS_ZERO, LENGTHS_FULL, LENGTHS_SHORT };

struct test_case {
    char text[CASE_TEXT];
    ecornn_desc desc;
    ecornn_cell *own;              /* parsed for this case, or NULL */
    int states;                    /* S of the cell */
    int32_t T, N;                  /* of the run */
    int32_t first_step, first_row; /* position in the larger run of which this is a piece */
    enum lengths lengths;
    double resets; /* percent of steps that reset; negative: io.resets is NULL */
    double mask;   /* percent of steps that are masked; negative: io.mask is NULL */
    bool with_states, alias, accumulate, noreserve;
    bool lean;     /* expect the results of a machine whose backward reads all states in the type of
                      rows */
    unsigned null; /* bit a: array a of run_arrays.h is NULL */
    double scale, gradients, gates;
    uint64_t seed;
};

/* The path of a file in the source tree, such as "cells/lif.cell". The tree is $srcdir, or else
 * the current folder or one above it. */
void source_path(char path[1024], const char *inside);
/* Reads such a file, up to size - 1 characters; false: there is none. */
bool source_read(const char *inside, char *text, size_t size);
/* Reads a cell's text likewise, by the name that it has in a case. */
bool cell_read(const char *name, char *text, size_t size);
/* False, with a message on stderr: the string is wrong. */
bool case_parse(struct test_case *test, const char *text);
void case_free(struct test_case *test);
/* The row of an array in run_arrays.h by its name in a case, up to the number of a state, and that
 * name: the field's, but start for reset_state.  -1: there is none. */
int case_array(const char *name);
const char *case_field(const struct eco_run_array *array);
/* The type of an array of the case, by its name. */
ecornn_type case_type(const struct test_case *test, const char *name);
/* The name in a case of an array of state s, and its shape and extents in memory. */
void case_name(char name[32], const struct eco_run_array *array, int s);
struct eco_run_shape case_shape(const struct test_case *test, const struct eco_run_array *array,
                                int s, int32_t extent[3]);
/* Makes random inputs from the case's seed that their types can hold. */
void case_inputs(const struct test_case *test, struct data *inputs);
int32_t case_length(const struct data *inputs, int32_t n, int32_t T);
/* Is step t neither padding of row n nor masked? */
bool case_counts(const struct test_case *test, const struct data *inputs, int32_t t, int32_t n);
/* Uniform in [0,1): splitmix64 (Steele, Lea, Flood 2014). */
double uniform(uint64_t *state);

/* ---- running --------------------------------------------------------------------------------- */

/* Observes the runs of a test. Each run is queued between a call of begin and one of end, on that
 * stream; when end returns, the run is finished. */
struct watch {
    void *stream;
    bool (*begin)(struct watch *watch);
    bool (*end)(struct watch *watch, bool backward);
};

struct machine {
    ecornn_device *device;
    ecornn_type type;    /* of the run: the case's, or F64 for all its arrays */
    int backwards;       /* how often backward runs; every time it must give the same bits */
    struct watch *watch; /* or NULL */
};

/*
 * Runs a case in guarded memory filled with NaN and checks what every run must keep: guards, inputs
 * and reserve unchanged, padding of y and dx 0.  False: something went wrong, said on stderr.
 */
bool case_run(const struct test_case *test, const struct machine *machine,
              const struct data *inputs, struct data *results);

/* ---- comparing ------------------------------------------------------------------------------- */

/* The largest magnitude of its finite numbers. */
double array_largest(const struct array *array);
/* The reference's results of a case, with a bound for each array (compare.c says how).  Keeps the
 * test and the inputs, which must live as long. */
bool case_expect(const struct test_case *test, const struct data *inputs, struct data *expected);
/* Every array of expected must be in results within its bound; who: printed with a failure. */
bool results_agree(const struct test_case *test, const char *who, const struct data *expected,
                   const struct data *results);
/* ... with one relative bound for all, of each array's largest magnitude. */
bool results_agree_within(const struct test_case *test, const char *who,
                          const struct data *expected, const struct data *results, double relative);
/* Every array of expected: the same bits; a NaN may be another one. */
bool results_same(const struct test_case *test, const char *who, const struct data *expected,
                  const struct data *results);

/* pieces.c: a run with resets gives the bits of the same run cut into episodes, where bits do not
 * depend on how many steps there are.  One direction. */
bool episodes_same(const struct test_case *test, const struct machine *machine,
                   const struct data *inputs);

/* masked.c: a run with a mask gives the bits of runs without it, of the steps that count, row by
 * row, where bits do not depend on how many steps there are. */
bool masked_same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs);

/* A case with all-states gives the bits of its runs of so many steps and rows each. */
bool pieces_same(const struct test_case *test, const struct machine *machine,
                 const struct data *inputs, int32_t steps, int32_t rows);

/* ---- lists of cases -------------------------------------------------------------------------- */

/* Whether ECORNN_TESTS is "all": tests run every case.  Otherwise they leave out cases that differ
 * from others only in their combination of type, instruction set and sizes. */
bool tests_all(void);

/* The sweep; one case alone where only is not NULL or ECORNN_CASE is set. */
int sweep_count(const char *only);
void sweep_text(const char *only, int index, char text[CASE_TEXT]);
/* A case with policy number k of what training saves; false: it does not train, or names one.
 * large: also where the reference takes minutes. */
enum { POLICIES = 3 };
bool sweep_policy(const char *text, int k, bool large, char policy[CASE_TEXT]);
/* Names of cells from text: those of tests/cells, then those of the library; false past the last.
 */
bool sweep_own_cell(int index, char name[64]);
int sweep_own_cells(void);
/* The cases of these cells. */
int sweep_own_count(void);
void sweep_own_text(int index, char text[CASE_TEXT]);
/* Likewise for cells of the library with a matrix state, which the lists above leave out. */
bool sweep_matrix_cell(int index, char name[64]);
int sweep_matrix_cells(void);
int sweep_matrix_count(void);
void sweep_matrix_text(int index, char text[CASE_TEXT]);
int builtin_count(void);

/* ---- algorithms of a backend ----------------------------------------------------------------- */

struct eco_backend;

int algorithm_count(const struct eco_backend *backend);
/* Makes plans take algorithm number k, and names it; false: the user's ECORNN_ALGORITHM is another.
 */
bool algorithm_take(const struct eco_backend *backend, int k, const char **name);
/* Plans take the user's ECORNN_ALGORITHM, or any, again. */
void algorithm_leave(void);
bool algorithm_runs(const ecornn_device *device, int k, const struct test_case *test);

typedef bool case_check(const struct test_case *test, const struct data *inputs,
                        const struct data *expected);
/* Asks agrees about a case, its inputs and what they should give; lean: as in test_case. */
bool case_agrees(const char *text, bool lean, case_check *agrees);
/* The built-in cell and its text parsed at run time, which an interpreter of the same words runs:
 * the same bits.  How many algorithms ran both; -1, with a word: other bits. */
int interpreted_same(const char *cell, const char *rest, const struct machine *machine);

/* ---- textbook.c ------------------------------------------------------------------------------ */

/* One layer forward in time, time-major, no lengths, of "lstm" "gru" "rnn-tanh" "rnn-relu", from
 * the equations by hand; nothing of the library is used. */
void textbook_run(const char *cell, const struct data *inputs, struct data *results);

#endif /* TESTING_H */

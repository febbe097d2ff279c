/*
 * Rows of a batch, each with what it gives alone, and runs of some of them in any order, for tests
 * of row invariance.
 */
#ifndef ECO_TESTS_ROWS_H
#define ECO_TESTS_ROWS_H

#include "tests/kit/trial.h"

enum { MOST_ROWS = 128 };

struct rows {
    ecornn_desc desc;
    bool by_place;    /* random numbers depend on a row's index */
    struct trial all; /* the inputs of all rows and, after rows_alone, what each row gives */
};

/* Rows [0, N) of the description's problem with random inputs. With ragged most rows have a random
 * length, and x and dy are NaN past it. The device must stay open. */
void rows_open(struct rows *rows, ecornn_device *device, const ecornn_desc *desc, int32_t N,
               bool ragged);
void rows_close(struct rows *rows);
/* A plan for T steps of N of these rows; false: the device refuses it. */
bool rows_batch(const struct rows *rows, struct trial *batch, ecornn_device *device, int32_t T,
                int32_t N);
/* Makes the expected results by running each row alone for its steps, or all rows together if they
 * must keep their places. All must be finite. */
void rows_alone(struct rows *rows);

/* What stands in a row instead of a row of all: NaN, infinities or the next row. */
enum poison { NO_POISON, POISON_NAN, POISON_INFINITY, POISON_NUMBERS };
struct order {
    int32_t id[MOST_ROWS];
    enum poison poison[MOST_ROWS];
};
/* Copies the rows in this order to a batch whose size is set; its first step is step t of all. */
void rows_take(struct rows *rows, struct trial *batch, const struct order *order, int32_t t);
/* The first array, from `first` to `last`, in which a row of the batch is not what it should be;
 * NULL: none, or the row is poison. */
const char *rows_differ(struct rows *rows, struct trial *batch, const struct order *order,
                        int32_t n, int first, int last);

#endif /* ECO_TESTS_ROWS_H */

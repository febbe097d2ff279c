/*
 * What the files of test_gpu share with each other and with test_gpu_plan: the device, the cases
 * that this process runs, and the comparison of a case with the reference.
 */
#ifndef ECO_TESTS_COMPARISON_H
#define ECO_TESTS_COMPARISON_H

#include <check.h>

#include "common/backend.h"
#include "tests/kit/testing.h"

extern const char *only; /* the argument */
extern ecornn_device *device;
extern int compared; /* cases */
/* Did the user ask for one algorithm only? Then a case that it does not support is no failure. */
extern bool restricted;

/* How often backward runs: queued, captured, and from the graph. */
enum { BACKWARDS = 3, TYPES = 4 };

/* Reads from ECORNN_PART which part of the cases this process runs. Returns whether it is the first
 * part. */
bool read_part(void);
/* share: how many of this number of cases belong to the part. nth: the index of the ith of them. */
int share(int cases);
int nth(int i);
/* Sets ECORNN_NVRTC for the plans that follow; NULL: to the user's value. */
void set_nvrtc(const char *value);

bool algorithms_agree(const struct test_case *test, const struct data *inputs,
                      const struct data *expected);
/* Changes the type of a case. False: the case is not in F32 throughout. */
bool retype(char text[CASE_TEXT], const char *type);
/* Checks case i of a list in each type. */
void check_in_types(const char *const list[], int i);

/* Add the tests of listed_cases.c and of exact_cases.c. first: also add the tests without a list,
 * which only the first part runs. */
void add_listed_cases(TCase *tests, TCase *own);
void add_exact_cases(TCase *tests, TCase *own, bool first);

#endif /* ECO_TESTS_COMPARISON_H */

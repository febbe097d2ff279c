/*
 * What the files of test_gpu, and test_gpu_plan, have in common: the device, which cases this
 * process has, and how a case is compared with the reference.
 */
#ifndef ECO_TESTS_COMPARISON_H
#define ECO_TESTS_COMPARISON_H

#include <check.h>

#include "common/backend.h"
#include "tests/kit/testing.h"

extern const char *only; /* the argument */
extern ecornn_device *device;
extern int compared; /* cases */
/* Does the user want one algorithm only, which need not run every case? */
extern bool restricted;

/* Backward runs so often: queued, captured, from the graph. */
enum { BACKWARDS = 3, TYPES = 4 };

/* The part of ECORNN_PART; true: the first one. */
bool read_part(void);
/* How many of so many cases belong to the part; which is the i-th of them. */
int share(int cases);
int nth(int i);
/* What ECORNN_NVRTC is for plans from now on; NULL: as the user has it. */
void set_nvrtc(const char *value);

bool algorithms_agree(const struct test_case *test, const struct data *inputs,
                      const struct data *expected);
/* The case in another type; false: it is not one in F32 throughout. */
bool retype(char text[CASE_TEXT], const char *type);
/* A case of a list, in each of the types. */
void check_in_types(const char *const list[], int i);

/* Adds the tests of listed_cases.c, of exact_cases.c; first: those, too, that are not of a list. */
void add_listed_cases(TCase *tests, TCase *own);
void add_exact_cases(TCase *tests, TCase *own, bool first);

#endif /* ECO_TESTS_COMPARISON_H */

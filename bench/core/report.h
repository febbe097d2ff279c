/*
 * The printer of measurements: a line of text for people, rows of a table for programs.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdio.h>

#include "measure.h"

/* A column of the table, and its value in one row; "": unknown, or meaningless for this device. */
struct field {
    const char *name;
    bool is_text;
    char value[200];
};
enum { MOST_FIELDS = 40 };
/* Fills the fields of a row; returns how many there are.  All rows have the same ones. */
int report_fields(const struct measurement *m, struct field fields[MOST_FIELDS]);

/* Comma-separated values, where neither names nor values have commas. */
void report_csv_head(FILE *file);
void report_csv_row(FILE *file, const struct measurement *m);

/* Prints a line for a problem in all its ways: microseconds for a step of a layer, the same for the
 * opponent, their ratios, rate and memory. */
void report_line(const struct measurement *list, int n);

/* Geometric means of the ratios, by type, mode and way. */
struct means {
    struct mean {
        char name[64];
        int n[2]; /* number of problems with one layer and direction, and of deeper ones */
        double logarithms[2], least;
        char worst[200]; /* the problem of the least ratio */
    } list[24];
    int n;
};
void means_add(struct means *means, const struct measurement *m);
void means_print(const struct means *means);

#endif /* BENCH_REPORT_H */

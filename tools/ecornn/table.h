/*
 * The table of comma-separated values to which "ecornn bench --csv" adds what it measured.
 */
#ifndef ECORNN_TABLE_H
#define ECORNN_TABLE_H

#include <stdbool.h>

/* One run of one problem. */
struct table_row {
    char device[64], problem[256];
    int threads;
    double seconds, low, high, flops;
    double bytes;  /* that the run reads and writes at least */
    double memory; /* bytes of workspace and reserve */
};

/* Adds a row to a file, which has the head of such a table or is made here. */
bool table_append(const char *path, const struct table_row *row);

#endif /* ECORNN_TABLE_H */

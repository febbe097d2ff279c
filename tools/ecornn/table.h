/*
 * What was measured, as a table of comma-separated values: bench writes it, plot draws it, and so
 * may any program.
 */
#ifndef ECORNN_TABLE_H
#define ECORNN_TABLE_H

#include <stdbool.h>

/* Of a run, and what it is plotted over; bytes: what it reads and writes at least. */
struct table_row {
    char device[64], problem[256];
    int threads;
    double seconds, low, high, flops, bytes;
    double memory; /* bytes of workspace and reserve */
};
struct table {
    struct table_row *row;
    int n, room;
};

/* Adds a row to a file, that has the head of such a table or is not there yet. */
bool table_append(const char *path, const struct table_row *row);
/* Adds what files hold; says which line is wrong. */
bool table_read(struct table *table, const char *path);
void table_free(struct table *table);

#endif /* ECORNN_TABLE_H */

/*
 * The command line of charlm.
 */
#ifndef CHARLM_OPTIONS_H
#define CHARLM_OPTIONS_H

#include "util.h"

struct options {
    const char *cell, *device, *resume, *save; /* cell NULL: lstm, or what the resumed file says */
    const char *prompt;
    long hidden, layers, embedding; /* 0: not given */
    long steps, sample;             /* steps -1: not given */
    long save_every;                /* 0: not given */
    long seed;
    uint64_t memory;                            /* 0: not given */
    double seconds, dropout, rate, temperature; /* seconds 0: not given */
    char *const *files;
    int file_count;
    bool help;
};

bool options_parse(struct options *options, int count, char **arguments, struct complaint *why);
void options_print_help(void);

#endif /* CHARLM_OPTIONS_H */

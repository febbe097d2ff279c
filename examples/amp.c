/*
 * An amplifier by a model of it: raw F32 samples from standard input to standard output, in blocks
 * of 64. The model is a C file; nothing else is needed:
 *
 *     python -m ecornn export --weights clean.nam -o net.c
 *     cc -O3 -march=native amp.c net.c -o amp
 */
#include <stdio.h>

#include "net.h"

enum { BLOCK = 64 };

int main(void)
{
    float x[BLOCK], y[BLOCK]; /* one channel */
    struct net net;
    if (net_sizes().input != 1 || net_sizes().output != 1)
        return fputs("the model must have one input and one output\n", stderr), 1;
    net_reset(&net);
    for (size_t n; (n = fread(x, sizeof *x, BLOCK, stdin)) > 0;) {
        net_run(&net, x, y, (int)n);
        if (fwrite(y, sizeof *y, n, stdout) != n)
            return 1;
    }
    return ferror(stdin) != 0;
}

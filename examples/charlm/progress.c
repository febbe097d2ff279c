/*
 * Progress on standard output.
 */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

static const double TERMINAL_SECONDS = 0.25, FILE_SECONDS = 10; /* between two prints */
static const double FORGET = 0.05; /* weight of a new window in the running average */

struct progress progress_start(void)
{
    const double now = clock_seconds();
    return (struct progress){.start = now,
                             .printed = now,
                             .bits = -1,
                             .held_bits = -1,
                             .terminal = isatty(STDOUT_FILENO) == 1};
}

void progress_add(struct progress *progress, double bits, double characters)
{
    progress->bits = progress->bits < 0 ? bits : progress->bits + FORGET * (bits - progress->bits);
    progress->characters += characters;
}

void progress_print(struct progress *progress, bool always)
{
    const double now = clock_seconds(), elapsed = now - progress->start;
    const double pause = progress->terminal ? TERMINAL_SECONDS : FILE_SECONDS;
    if (!always && now - progress->printed < pause)
        return;
    const double fraction = progress->fraction < 1e-4 ? 1e-4 : progress->fraction;
    const long left = (long)(elapsed * (1 - fraction) / fraction + 0.5);
    char held[32] = "";
    if (progress->held_bits >= 0)
        snprintf(held, sizeof held, "  held-out %.3f", progress->held_bits);
    printf("%sstep %ld  bits/char %.3f%s  %.0f char/s  %ld:%02ld left%s",
           progress->terminal ? "\r" : "", progress->step, progress->bits, held,
           progress->characters / (elapsed > 0 ? elapsed : 1), left / 60, left % 60,
           progress->terminal ? "  \x1b[K" : "\n");
    fflush(stdout);
    progress->pending = progress->terminal;
    progress->printed = now;
}

void progress_end(struct progress *progress)
{
    if (progress->pending)
        printf("\n");
    progress->pending = false;
}

/*
 * ecornn bench --versus: beside ONNX Runtime and PyTorch, where Python has them; the script of
 * bench does it.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1 /* dladdr */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/core/say.h"
#include "command.h"

/* Threads of the device, which must be a CPU; 0, and said so. */
static int find_threads(const struct options *options)
{
    const char *name = options->device != NULL ? options->device : "cpu";
    ecornn_device_info info = {.threads = 0};
    ecornn_device *device = NULL;
    if (strncmp(name, "cpu", 3) != 0)
        say("--versus measures CPUs, not %s", name);
    else if (ecornn_device_open(&device, name) != ECORNN_OK ||
             ecornn_device_query(device, &info) != ECORNN_OK)
        say("%s", ecornn_error_detail());
    ecornn_device_close(device);
    return info.threads;
}

/* The file of the library that this command runs with. */
static const char *find_library(void)
{
    static Dl_info here;
    const char *(*const function)(void) = ecornn_version;
    void *address;
    memcpy(&address, &function, sizeof address); /* an object's pointer is no function's in C */
    return dladdr(address, &here) != 0 ? here.dli_fname : "libecornn.so";
}

int versus_run(const struct options *options)
{
    enum { BEFORE = 8 };
    char threads[16], seconds[32];
    struct problems problems;
    if (options->cell != NULL || options->csv != NULL || options->json) {
        say("--versus is for built-in cells, and prints a table: not with --cell, --csv, --json");
        return 2;
    }
    const int count = find_threads(options);
    if (count == 0 || !problems_read(&problems, options))
        return 1;
    const char **words = calloc((size_t)problems.n + BEFORE + 1, sizeof *words);
    snprintf(threads, sizeof threads, "%d", count);
    snprintf(seconds, sizeof seconds, "%g", options->seconds > 0 ? options->seconds : 1);
    const char *const first[BEFORE] = {"python3",   ECORNN_PEERS, "--library", find_library(),
                                       "--threads", threads,      "--seconds", seconds};
    if (words != NULL) {
        memcpy(words, first, sizeof first);
        for (int k = 0; k < problems.n; k++)
            words[BEFORE + k] = problems.list[k].text;
        fflush(stdout);
        if (access(ECORNN_PEERS, R_OK) == 0)
            execvp(words[0], (char *const *)(uintptr_t)words);
        say("%s %s: %s", words[0], ECORNN_PEERS, strerror(errno));
    }
    free(words);
    problems_free(&problems);
    return 1;
}

/*
 * How many CPUs the control groups of the process grant it.
 */
#include "cpu/run/quota.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/os.h"

enum { PATH = 512 };

/* Reads the numbers in a file of a control group; false if it is missing or says "max" or -1. */
static bool read_numbers(const char *path, double *first, double *second)
{
    FILE *file = eco_os_read_text(path);
    if (!file)
        return false;
    const int n = fscanf(file, "%lf %lf", first, second);
    fclose(file);
    return n >= 1 && *first > 0;
}

/* CPUs granted by the group in that directory, at most `cpus`. */
static double least_of(const char *folder, double cpus)
{
    char path[PATH + 32];
    double quota, period = 0, unused;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    if (read_numbers(path, &quota, &period) && period > 0 && quota / period < cpus)
        cpus = quota / period;
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!read_numbers(path, &quota, &unused))
        return cpus;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (read_numbers(path, &period, &unused) && quota / period < cpus)
        cpus = quota / period;
    return cpus;
}

/* A group has at most what its parents have; base: where the hierarchy is mounted. */
static double least_around(const char *base, const char *group, double cpus)
{
    char folder[PATH];
    snprintf(folder, sizeof folder, "%s%s", base, group);
    for (;;) {
        cpus = least_of(folder, cpus);
        char *slash = strrchr(folder, '/');
        if (!slash || strlen(folder) <= strlen(base))
            return cpus;
        *slash = 0;
    }
}

/* Does a list like "cpu,cpuacct" contain cpu? */
static bool names_cpu(const char *list, const char *end)
{
    for (; list < end; list += strcspn(list, ",:") + 1)
        if (strcspn(list, ",:") == 3 && strncmp(list, "cpu", 3) == 0)
            return true;
    return false;
}

/* Lines of /proc/self/cgroup are NUMBER:CONTROLLERS:GROUP; version 2 has no controllers there. */
int eco_cpu_quota(const char *root)
{
    char line[PATH], path[PATH], base[PATH];
    double cpus = INT32_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = eco_os_read_text(path);
    while (file && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        char *const first = strchr(line, ':'), *const second =
                                                   first ? strchr(first + 1, ':') : NULL;
        if (!second || (second != first + 1 && !names_cpu(first + 1, second)))
            continue;
        snprintf(base, sizeof base, "%s/sys/fs/cgroup%s", root, second == first + 1 ? "" : "/cpu");
        cpus = least_around(base, second + 1, cpus);
    }
    if (file)
        fclose(file);
    return cpus < 1 ? 1 : cpus < INT32_MAX ? (int)cpus : INT32_MAX;
}

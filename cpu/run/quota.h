/*
 * What control groups grant a process.
 */
#ifndef ECO_QUOTA_H
#define ECO_QUOTA_H

/* Whole CPUs that the process's control groups grant, at least 1; INT32_MAX: no limit. root: "", or
 * a test's directory with its own /proc and /sys. */
int eco_cpu_quota(const char *root);

#endif /* ECO_QUOTA_H */

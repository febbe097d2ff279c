/*
 * What control groups grant a process.
 */
#ifndef ECO_QUOTA_H
#define ECO_QUOTA_H

/* CPUs that the process's control groups grant, whole ones, at least 1; INT32_MAX: no limit.
 * root: "", or where a test keeps its own /proc and /sys. */
int eco_cpu_quota(const char *root);

#endif /* ECO_QUOTA_H */

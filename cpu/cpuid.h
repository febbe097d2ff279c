/*
 * The machine, as far as the CPU backend must know it; the instruction sets are in isa.h, what
 * control groups grant in quota.h.
 */
#ifndef ECO_CPUID_H
#define ECO_CPUID_H

#include <stdbool.h>
#include <stddef.h>

/* The processor's name for people, cut to size bytes. */
void eco_cpu_name(char *name, size_t size);
/* Bytes of the second-level cache; 1 MiB where the system does not say. */
size_t eco_cpu_cache_bytes(void);
/* CPUs of the process's affinity mask, at least 1. */
int eco_cpu_affinity(void);
/* Three numbers like "2x1x4" in ECORNN_GRID: how tests want steps shared out; false: they do not.
 */
bool eco_cpu_grid_wanted(int grid[3]);
/* How often a waiting thread looks before it sleeps, after OMP_WAIT_POLICY. */
int eco_cpu_spins(void);

#endif /* ECO_CPUID_H */

/*
 * What the CPU backend must know of the machine; see also isa/isa.h and quota.h.
 */
#ifndef ECO_CPUID_H
#define ECO_CPUID_H

#include <stdbool.h>
#include <stddef.h>

#include "ecornn.h"

/* The processor's name for people, truncated to `size` bytes. */
void eco_cpu_name(char *name, size_t size);
/* Bytes of the second-level cache; 1 MiB if the system does not say. */
size_t eco_cpu_cache_bytes(void);
/* Bytes of the first-level data cache; 32 KiB if the system does not say. */
int32_t eco_cpu_first_bytes(void);
/* CPUs of the process's affinity mask, at least 1. */
int eco_cpu_affinity(void);
/* Reads ECORNN_GRID, for example "2x1x4", which tests use to divide steps. The grid stays as it is
 * if the variable is not set. ECORNN_BAD_ARGUMENT if it is invalid. */
struct eco_grid;
ecornn_status eco_cpu_grid_wanted(struct eco_grid *grid);
/* How often a waiting thread looks before it sleeps, by OMP_WAIT_POLICY. */
int eco_cpu_spins(void);

#endif /* ECO_CPUID_H */

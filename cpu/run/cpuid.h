/*
 * The machine, as far as the CPU backend must know it; the instruction sets are in isa/isa.h, what
 * control groups grant in quota.h.
 */
#ifndef ECO_CPUID_H
#define ECO_CPUID_H

#include <stdbool.h>
#include <stddef.h>

#include "ecornn.h"

/* The processor's name for people, cut to size bytes. */
void eco_cpu_name(char *name, size_t size);
/* Bytes of the second-level cache; 1 MiB where the system does not say. */
size_t eco_cpu_cache_bytes(void);
/* CPUs of the process's affinity mask, at least 1. */
int eco_cpu_affinity(void);
/* ECORNN_GRID, like "2x1x4": how tests want steps shared out; where it is not set the grid stays as
 * it is.  BAD_ARGUMENT: it is no such text. */
struct eco_grid;
ecornn_status eco_cpu_grid_wanted(struct eco_grid *grid);
/* How often a waiting thread looks before it sleeps, after OMP_WAIT_POLICY. */
int eco_cpu_spins(void);

#endif /* ECO_CPUID_H */

/*
 * The machine, as far as the CPU backend must know it; the instruction sets are in isa.h.
 */
#ifndef ECO_CPUID_H
#define ECO_CPUID_H

#include <stddef.h>

/* The processor's name for people, cut to size bytes. */
void eco_cpu_name(char *name, size_t size);
/* Bytes of the second-level cache; 1 MiB where the system does not say. */
size_t eco_cpu_cache_bytes(void);
/* CPUs the process may use, at least 1: its affinity mask, within its control groups' quota. */
int eco_cpu_count(void);

#endif /* ECO_CPUID_H */

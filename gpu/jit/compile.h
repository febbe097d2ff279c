/*
 * Compiles CUDA C++ at run time to machine code of one architecture, and keeps it on disk. Needs
 * neither a device nor CUDA's headers. Runs at plan creation only. A failure here is not an error:
 * functions return false and append the reason to `why`.
 */
#ifndef ECO_GPU_JIT_COMPILE_H
#define ECO_GPU_JIT_COMPILE_H

#include "common/problem.h"
#include "common/util.h"

/* A text to compile. It may include the headers listed in gpu.am, and itself as
 * gpu/cell/cells.inc. */
struct eco_source {
    const char *text;
    const char *architecture;   /* for example "sm_90a" */
    const char *const *options; /* in addition to the standard ones; ends with NULL. May be NULL */
};

/* Machine code; the caller releases data by eco_free. */
struct eco_code {
    void *data;
    size_t bytes;
    bool kept; /* it was found on disk */
};

/* compile.c: reads the code from disk, or compiles it and stores it there. */
bool eco_compile(const struct eco_source *source, struct eco_code *code, struct eco_text *why);

/* One of several texts. */
struct eco_compilation {
    struct eco_source source;
    struct eco_code code; /* set; without data if the text cannot be compiled */
    struct eco_text *why; /* texts may share it; it gets the first reason */
};
/* compile.c: compiles `n` texts side by side, on as many threads as there are processors. */
void eco_compile_all(struct eco_compilation *all, int n);

/* ---- the text of a cell, source_text.c ------------------------------------------------------- */

/* Are its fused and persistent kernels compiled at run time?  The module has those of built-in
 * cells, for plans without resets. */
static inline bool eco_is_compiled(const struct eco_problem *problem)
{
    return problem->cell->builtin < 0 || problem->resets;
}

/* A kernel for each stage of the problem's cell in one direction. To be freed by eco_free. NULL: no
 * memory. */
char *eco_cell_text(const struct eco_problem *problem, bool backward);

enum { ECO_KERNEL_NAME = ECO_MAX_NAME + 24 }; /* the cell's name and "_backward_7_kernel" */
/* The name of a stage's kernel in cell/stage_kernel.inc. */
void eco_cell_kernel_name(const struct ecornn_cell *cell, bool backward, int stage,
                          char name[ECO_KERNEL_NAME]);

/* Other texts, as print() writes them; it is called twice, the first time for the length. The
 * caller releases the text by eco_free. NULL: no memory. */
typedef void eco_print_function(const void *contents, struct eco_text *text);
char *eco_print_text(eco_print_function *print, const void *contents);
/* Prints the functions of the cell's first stages ("forward" or "backward"), and the lists of them
 * that cells of the module have. */
void eco_print_cell(const struct ecornn_cell *cell, const char *way, struct eco_text *text);
/* Prints what the cell compiler emits, and a name as C spells it. */
typedef size_t eco_emit_function(const struct ecornn_cell *cell, char *text, size_t size);
void eco_print_emitted(eco_emit_function *emit, const struct ecornn_cell *cell,
                       struct eco_text *text);
void eco_print_symbol(const char *name, struct eco_text *text);
/* Prints the macros that say which plans a kernel is for, see gpu/tile/rows.cuh. */
void eco_print_problem(const struct eco_problem *problem, struct eco_text *text);

/* ---- the compiler, nvrtc.c ------------------------------------------------------------------- */

/* Is there NVRTC? Opened on first use: ECORNN_NVRTC (a path; 0 for none), or the system's. */
bool eco_nvrtc_open(struct eco_text *why);
/* For example "13.0"; call after opening. */
void eco_nvrtc_version(struct eco_text *text);
bool eco_nvrtc_compile(const struct eco_source *source, struct eco_code *code,
                       struct eco_text *why);
/* Everything that the machine code depends on: version, options, the sum of the headers, text. */
void eco_nvrtc_key(const struct eco_source *source, struct eco_text *key);

/* ---- the disk, disk_cache.c ------------------------------------------------------------------ */

/* A directory of the user that no other user can enter. */
struct eco_cache {
    int folder;    /* a descriptor, or -1 */
    uint64_t most; /* limit for the bytes of all files; the least recently used are removed */
};

/* Opens ECORNN_CACHE (0: none), $XDG_CACHE_HOME/ecornn or ~/.cache/ecornn; creates it if
 * necessary. */
bool eco_cache_open(struct eco_cache *cache, struct eco_text *why);
void eco_cache_close(struct eco_cache *cache);
/* NULL if there is no intact file for the key. The caller releases the data by eco_free. */
void *eco_cache_get(const struct eco_cache *cache, const char *key, size_t *bytes);
/* False if it could not be stored; a partial file is removed. */
bool eco_cache_put(const struct eco_cache *cache, const char *key, const void *data, size_t bytes);

#endif /* ECO_GPU_JIT_COMPILE_H */

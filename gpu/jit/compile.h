/*
 * CUDA C++ compiled at run time to machine code of one architecture, and kept on disk.  Needs
 * neither a device nor CUDA's headers; all of it runs at plan creation only.  What fails here fails
 * no plan: functions return false and append the reason to `why`.
 */
#ifndef ECO_GPU_JIT_COMPILE_H
#define ECO_GPU_JIT_COMPILE_H

#include "common/cell/cell.h"
#include "common/util.h"

/* What is to be compiled.  The text may include the headers listed in gpu.am (cuda_embedded), and
 * itself as gpu/cell/cells.inc. */
struct eco_source {
    const char *text;
    const char *architecture;   /* "sm_90a" */
    const char *const *options; /* beside those of every text; ends with NULL.  NULL: none */
};

/* Machine code; the caller gives data to eco_free. */
struct eco_code {
    void *data;
    size_t bytes;
    bool kept; /* it was on disk */
};

/* compile.c: from the disk, else compiled and put there. */
bool eco_compile(const struct eco_source *source, struct eco_code *code, struct eco_text *why);

/* ---- the text of a cell, source_text.c ------------------------------------------------------- */

/* A kernel for each stage, for rows of that type.  The caller: eco_free.  NULL: no memory. */
char *eco_cell_text(const struct ecornn_cell *cell, ecornn_type rows, bool resets);

enum { ECO_KERNEL_NAME = ECO_MAX_NAME + 24 }; /* the cell's name and "_backward_7_kernel" */
/* As cell/stage_kernel.cuh calls the kernel of a stage. */
void eco_cell_kernel_name(const struct ecornn_cell *cell, bool backward, int stage,
                          char name[ECO_KERNEL_NAME]);

/* Of other texts.  What print() adds, once for its length; the caller: eco_free.  NULL: no memory.
 */
typedef void eco_print_function(const void *contents, struct eco_text *text);
char *eco_print_text(eco_print_function *print, const void *contents);
/* The functions of the cell's first stages, "forward" or "backward", and lists of them as the
 * module's cells have. */
void eco_print_cell(const struct ecornn_cell *cell, const char *way, struct eco_text *text);
/* "F32": behind ECO_ROWS_. */
const char *eco_type_macro(ecornn_type type);

/* ---- the compiler, nvrtc.c ------------------------------------------------------------------- */

/* Is there NVRTC?  Opened once, on demand: ECORNN_NVRTC (a path; 0: no), else by its name. */
bool eco_nvrtc_open(struct eco_text *why);
/* "13.0"; after it was opened. */
void eco_nvrtc_version(struct eco_text *text);
bool eco_nvrtc_compile(const struct eco_source *source, struct eco_code *code,
                       struct eco_text *why);
/* All that decides what compiling gives: version, options, headers, text. */
void eco_nvrtc_key(const struct eco_source *source, struct eco_text *key);

/* ---- the disk, disk_cache.c ------------------------------------------------------------------ */

/* A folder of ours that nobody else can enter. */
struct eco_cache {
    int folder;    /* open; -1: there is none */
    uint64_t most; /* bytes of all files: the oldest go first */
};

/* ECORNN_CACHE (a folder; 0: none), else $XDG_CACHE_HOME/ecornn, else ~/.cache/ecornn; made where
 * it is missing. */
bool eco_cache_open(struct eco_cache *cache, struct eco_text *why);
void eco_cache_close(struct eco_cache *cache);
/* NULL: nothing is kept under that key, or nothing that is whole.  The caller: eco_free. */
void *eco_cache_get(const struct eco_cache *cache, const char *key, size_t *bytes);
/* False: could not; nothing is left behind. */
bool eco_cache_put(const struct eco_cache *cache, const char *key, const void *data, size_t bytes);

#endif /* ECO_GPU_JIT_COMPILE_H */

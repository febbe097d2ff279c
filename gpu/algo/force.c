/*
 * The keys of ECORNN_FORCE that this backend knows, and the equivalent variables.
 */
#include "gpu/algo/force.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/force.h"
#include "common/util.h"
#include "gpu/gemm/grouped/args.h"
#include "gpu/fused_step/args.h"
#include "gpu/wide_step/wide_step.h"
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"

enum { VALUE = 32 };

bool eco_gpu_asked(struct eco_gpu_asking asking, char *value, size_t size)
{
    const char *asked = asking.variable != NULL ? eco_environment(asking.variable) : NULL;
    if (eco_force_text(asking.forced, asking.key, value, size))
        return true;
    if (asked == NULL || *asked == '\0')
        return false;
    value[0] = '\0';
    strncat(value, asked, size - 1);
    return true;
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The index of the word with these letters, or -1. */
static int word(const char *const words[], int n, const char *text, size_t letters)
{
    for (int i = 0; i < n; i++)
        if (strlen(words[i]) == letters && strncmp(words[i], text, letters) == 0)
            return i;
    return -1;
}

/* The i with value == least << i, i < n; or -1. */
static int power(int value, int least, int n)
{
    for (int i = 0; i < n; i++)
        if (value == least << i)
            return i;
    return -1;
}

/* Reads the numbers of "WORD:AxB" or "WORD:AxBxC"; false if the text is different. */
static bool numbers(const char *text, int n, int number[])
{
    const char *at = strchr(text, ':');
    for (int i = 0; at != NULL && i < n; i++) {
        char *end;
        const long value = strtol(at + 1, &end, 10);
        if (end == at + 1 || value < 0 || value > INT_MAX || *end != (i + 1 < n ? 'x' : '\0'))
            return false;
        number[i] = (int)value;
        at = end;
    }
    return at != NULL;
}

/* ---- the values of the keys ------------------------------------------------------------------ */

/* Divisions of algorithm persistent: "MAINLOOP:UNITSxBLOCKS". */
void eco_gpu_write_division(int place, struct eco_text *text)
{
    eco_text_add(text, "%s:%dx%d", eco_persistent_mainloops[ECO_PERSISTENT_MAINLOOP_OF(place)],
                 1 << ECO_PERSISTENT_SHIFT_OF(place), 1 << ECO_PERSISTENT_CLUSTER_LOG2_OF(place));
}

static bool read_division(const char *text, uint64_t *shapes)
{
    int number[2] = {0, 0};
    const int mainloop =
        word(eco_persistent_mainloops, ECO_PERSISTENT_MAINLOOPS, text, strcspn(text, ":"));
    if (mainloop < 0 || !numbers(text, 2, number))
        return false;
    const int units = power(number[0], 1 << ECO_PERSISTENT_SHIFT, ECO_PERSISTENT_SHIFTS),
              cluster_log2 = power(number[1], 1, ECO_PERSISTENT_CLUSTERS);
    if (units < 0 || cluster_log2 < 0)
        return false;
    *shapes =
        UINT64_C(1) << ECO_PERSISTENT_INDEX(units + ECO_PERSISTENT_SHIFT, cluster_log2, mainloop);
    return true;
}

static bool read_forward(const char *text, struct eco_gpu_force *force)
{
    force->divides[0] = true;
    return read_division(text, &force->shapes[0]);
}

static bool read_backward(const char *text, struct eco_gpu_force *force)
{
    force->steps_back = strcmp(text, "step") == 0;
    force->divides[1] = !force->steps_back;
    if (!force->steps_back)
        return read_division(text, &force->shapes[1]);
    force->shapes[1] = 0;
    return true;
}

static bool read_number(const char *text, int32_t *number)
{
    char *end;
    const long value = strtol(text, &end, 10);
    *number = value > 0 && value <= INT_MAX ? (int32_t)value : 0;
    return end != text && *end == '\0' && value >= 0 && value <= INT_MAX;
}

/* Forward and backward, unless backward has a key of its own. */
static bool read_groups(const char *text, struct eco_gpu_force *force)
{
    const bool is_number = read_number(text, &force->groups[0]) && force->groups[0] > 0;
    force->groups[1] = force->groups[1] > 0 ? force->groups[1] : force->groups[0];
    return is_number;
}

static bool read_groups_back(const char *text, struct eco_gpu_force *force)
{
    return read_number(text, &force->groups[1]) && force->groups[1] > 0;
}

static bool read_rows_of(const char *text, int least, int n, unsigned *shapes)
{
    int32_t rows;
    const int shape = read_number(text, &rows) ? power(rows, least, n) : -1;
    *shapes = shape < 0 ? 0 : 1u << shape;
    return shape >= 0;
}

/* "wgmma:ROWSxUNITS", the units of a cell with 3 or 4 accumulators */
static bool read_wide(const char *text, unsigned *shapes)
{
    int number[2] = {0, 0};
    *shapes = 0;
    if (!numbers(text, 2, number))
        return false;
    for (int shape = 0; shape < ECO_WIDE_SHAPES; shape++)
        if (number[0] == eco_wide_rows(shape) && number[1] == eco_wide_units(shape, ECO_WIDE_ACCS))
            *shapes = 1u << (ECO_FUSED_SHAPES + shape);
    return *shapes != 0;
}

static bool read_fused(const char *text, struct eco_gpu_force *force)
{
    if (strncmp(text, "wgmma:", strlen("wgmma:")) == 0)
        return read_wide(text, &force->fused);
    return read_rows_of(text, ECO_FUSED_N, ECO_FUSED_SHAPES, &force->fused);
}

static bool read_projected(const char *text, struct eco_gpu_force *force)
{
    return read_rows_of(text, ECO_FUSED_N, ECO_FUSED_SHAPES, &force->projected);
}

static bool read_grouped(const char *text, struct eco_gpu_force *force)
{
    int32_t rows = 0;
    const bool is_number = read_number(text, &rows);
    force->grouped =
        rows == 0 ? ECO_GROUPED_NEVER : power(rows, ECO_GROUPED_BACK_ROWS(0), ECO_GROUPED_SHAPES);
    return is_number && force->grouped != ECO_NOT_FORCED;
}

/* 0, 1 or 2: with prepared states of steps. Large products in F16 follow, without a key of their
 * own. */
static bool read_emulated_f32(const char *text, struct eco_gpu_force *force)
{
    force->emulated_f32 = *text == '0'   ? ECO_USE_NEVER
                          : *text == '2' ? ECO_USE_ALWAYS_PRESPLIT
                                         : ECO_USE_ALWAYS;
    force->scaled_f16 = force->emulated_f32;
    return true;
}

static bool read_scaled_f16(const char *text, struct eco_gpu_force *force)
{
    force->scaled_f16 = *text == '0' ? ECO_USE_NEVER : ECO_USE_ALWAYS;
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

static bool read_stream_k(const char *text, struct eco_gpu_force *force)
{
    force->stream_k = *text == '1';
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

/* "KIND:ROWSxCOLUMNSxBLOCKS" */
static bool read_step_tile(const char *text, struct eco_gpu_force *force)
{
    static const char *const kinds[ECO_EMULATED_KINDS] = {[ECO_EMULATED_SPLITTING] = "splitting",
                                                          [ECO_EMULATED_PRESPLIT] = "presplit",
                                                          [ECO_EMULATED_PRESPLIT_SINGLES] =
                                                              "scaled-f16"};
    int number[3] = {0, 0, 0};
    const int kind = word(kinds, ECO_EMULATED_KINDS, text, strcspn(text, ":"));
    force->forces_tile = true;
    force->step_tiles = (struct eco_emulated_choices){.kinds = 0};
    if (kind < 0 || !numbers(text, 3, number) || number[2] < 1 || number[2] > ECO_EMULATED_SLICES)
        return false;
    const int height = power(number[0], ECO_EMULATED_LEAST_ROWS, ECO_EMULATED_HEIGHTS),
              width = power(number[1], ECO_EMULATED_LEAST_COLUMNS, ECO_EMULATED_WIDTHS);
    if (height < 0 || width < 0)
        return false;
    force->step_tiles = (struct eco_emulated_choices){1u << kind, 1u << height, 1u << width,
                                                      1u << (number[2] - 1), true};
    return true;
}

/* Forward and backward, unless backward has a key of its own. */
static bool read_chunk(const char *text, struct eco_gpu_force *force)
{
    const bool is_number = read_number(text, &force->chunk[0]);
    force->chunk[1] = force->chunk[1] > 0 ? force->chunk[1] : force->chunk[0];
    return is_number;
}

static bool read_chunk_back(const char *text, struct eco_gpu_force *force)
{
    return read_number(text, &force->chunk[1]);
}

static bool read_wavefront(const char *text, struct eco_gpu_force *force)
{
    force->wavefront = strcmp(text, "0") == 0 ? ECO_USE_NEVER : ECO_USE_ALWAYS;
    return force->wavefront == ECO_USE_NEVER || strcmp(text, "1") == 0;
}

static bool read_rows(const char *text, struct eco_gpu_force *force)
{
    force->rows = strcmp(text, "padded") == 0 ? ECO_ROWS_PADDED : ECO_ROWS_DENSE;
    return force->rows == ECO_ROWS_PADDED || strcmp(text, "dense") == 0;
}

_Static_assert(ECO_GPU_LANES == 16, "the values of at-once");
static bool read_lanes(const char *text, int32_t *lanes)
{
    return read_number(text, lanes) && *lanes >= 1 && *lanes <= ECO_GPU_LANES;
}

/* For nets and several models. Checked here, so that every plan refuses an invalid value. */
static bool read_concurrent(const char *text, struct eco_gpu_force *force)
{
    int32_t lanes;
    (void)force;
    return read_lanes(text, &lanes);
}

int eco_gpu_forced_concurrent(const char *forced)
{
    char value[VALUE];
    int32_t lanes = 0;
    return eco_force_text(forced, "at-once", value, sizeof value) && read_lanes(value, &lanes)
               ? lanes
               : 0;
}

/* ---- the keys -------------------------------------------------------------------------------- */

/* Keys that have a variable. */
enum variable { NO_VARIABLE = -1, EMULATED_F32, CHUNK, WAVEFRONT, ROWS };
const char *const eco_gpu_variables[] = {[EMULATED_F32] = "ECORNN_EMULATED_F32",
                                         [CHUNK] = "ECORNN_CHUNK",
                                         [WAVEFRONT] = "ECORNN_WAVEFRONT",
                                         [ROWS] = "ECORNN_ROWS",
                                         NULL};

static const struct {
    const char *key;
    enum variable variable;
    bool (*read)(const char *text, struct eco_gpu_force *force);
    bool unsaid; /* choices.c prints it only if it is forced */
    const char *values;
} keys[] = {
    {"forward", NO_VARIABLE, read_forward, false, "MAINLOOP:UNITSxBLOCKS"},
    {"backward", NO_VARIABLE, read_backward, false, "MAINLOOP:UNITSxBLOCKS or step"},
    {"groups-back", NO_VARIABLE, read_groups_back, true, "1 or more"},
    {"groups", NO_VARIABLE, read_groups, true, "1 or more"},
    {"fused", NO_VARIABLE, read_fused, false, "8, 16, 32 or wgmma:ROWSxUNITS"},
    {"projection", NO_VARIABLE, read_projected, false, "8, 16 or 32"},
    {"grouped", NO_VARIABLE, read_grouped, true, "0, 8, 16 or 32"},
    {"emulated-f32", EMULATED_F32, read_emulated_f32, true, "0, 1 or 2"},
    {"scaled-f16", NO_VARIABLE, read_scaled_f16, true, "0 or 1"},
    {"stream-k", NO_VARIABLE, read_stream_k, true, "0 or 1"},
    {"step-tile", NO_VARIABLE, read_step_tile, true, "KIND:ROWSxCOLUMNSxBLOCKS"},
    {"chunk-back", NO_VARIABLE, read_chunk_back, false, "0 or more"},
    {"chunk", CHUNK, read_chunk, false, "0 or more"},
    {"wavefront", WAVEFRONT, read_wavefront, false, "0 or 1"},
    {"rows", ROWS, read_rows, false, "padded or dense"},
    {"at-once", NO_VARIABLE, read_concurrent, true, "1 to 16"},
};
enum { KEYS = sizeof keys / sizeof *keys };

static bool asked(const struct eco_problem *problem, int k, char value[VALUE])
{
    const char *variable =
        keys[k].variable == NO_VARIABLE ? NULL : eco_gpu_variables[keys[k].variable];
    return eco_gpu_asked((struct eco_gpu_asking){problem->forced, keys[k].key, variable}, value,
                         VALUE);
}

void eco_gpu_write_unsaid(const struct eco_problem *problem, struct eco_text *text)
{
    char value[VALUE];
    for (int k = 0; k < KEYS; k++)
        if (keys[k].unsaid && asked(problem, k, value))
            eco_text_add(text, ",%s=%s", keys[k].key, value);
}

struct eco_gpu_force eco_gpu_force(const struct eco_problem *problem)
{
    struct eco_gpu_force force = {.shapes = {UINT64_MAX, UINT64_MAX},
                                  .fused = UINT_MAX,
                                  .projected = UINT_MAX,
                                  .grouped = ECO_NOT_FORCED,
                                  .stream_k = ECO_NOT_FORCED,
                                  .step_tiles = ECO_EMULATED_ANY(UINT_MAX)};
    struct eco_text all = {force.text, sizeof force.text, 0};
    for (int k = 0; k < KEYS; k++) {
        char value[VALUE];
        if (!asked(problem, k, value))
            continue;
        eco_text_add(&all, "%s%s=%s", all.length > 0 ? "," : "", keys[k].key, value);
        if (!keys[k].read(value, &force) && force.wrong[0] == '\0')
            eco_text_add(&(struct eco_text){force.wrong, sizeof force.wrong, 0},
                         "%s=%s is none of the values of that key: %s", keys[k].key, value,
                         keys[k].values);
    }
    return force;
}

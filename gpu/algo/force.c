/*
 * The keys of ECORNN_FORCE that this backend knows, and the equivalent variables.
 */
#include "gpu/algo/force.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/gemm/grouped/args.h"
#include "gpu/fused_step/args.h"
#include "gpu/wide_step/wide_step.h"
#include "gpu/persistent/persistent.h"
#include "gpu/run/run.h"

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
    eco_text_add(text, "%s:%dx%d", eco_persistent_mainloops[eco_persistent_mainloop_of(place)],
                 1 << eco_persistent_shift_of(place), 1 << eco_persistent_cluster_log2_of(place));
}

static bool read_division(const char *text, int32_t *place)
{
    int number[2] = {0, 0};
    const int mainloop =
        word(eco_persistent_mainloops, ECO_PERSISTENT_MAINLOOPS, text, strcspn(text, ":"));
    if (mainloop < 0 || !numbers(text, 2, number))
        return false;
    const int units = power(number[0], 1 << ECO_PERSISTENT_SHIFT, ECO_PERSISTENT_SHIFTS),
              cluster_log2 = power(number[1], 1, ECO_PERSISTENT_CLUSTERS);
    *place = ECO_PERSISTENT_INDEX(units + ECO_PERSISTENT_SHIFT, cluster_log2, mainloop);
    return units >= 0 && cluster_log2 >= 0;
}

static bool read_backward(const char *text, int32_t *place)
{
    *place = ECO_FORCED_STEP;
    return strcmp(text, "step") == 0 || read_division(text, place);
}

/* 8, 16 or 32: the shape with this number of rows. */
static bool read_shape(const char *text, int32_t *shape)
{
    *shape = power(atoi(text), ECO_FUSED_N, ECO_FUSED_SHAPES);
    return *shape >= 0 && strspn(text, "0123456789") == strlen(text);
}

/* "wgmma:ROWSxUNITS", the units of a cell with 3 or 4 accumulators */
static bool read_fused(const char *text, int32_t *value)
{
    int number[2] = {0, 0};
    if (strncmp(text, "wgmma:", strlen("wgmma:")) != 0)
        return read_shape(text, value);
    if (!numbers(text, 2, number))
        return false;
    for (int shape = ECO_WIDE_SHAPES - 1; shape >= 0; shape--)
        if (number[0] == eco_wide_rows(shape) &&
            number[1] == eco_wide_units(shape, ECO_WIDE_ACCS)) {
            *value = ECO_FUSED_SHAPES + shape;
            return true;
        }
    return false;
}

_Static_assert(ECO_FUSED_N == ECO_GROUPED_BACK_ROWS(0) &&
                   (int)ECO_FUSED_SHAPES == (int)ECO_GROUPED_SHAPES,
               "both are 8, 16 or 32 rows");
static bool read_grouped(const char *text, int32_t *shape)
{
    *shape = ECO_GROUPED_NEVER;
    return strcmp(text, "0") == 0 || read_shape(text, shape);
}

static bool read_rows(const char *text, int32_t *rows)
{
    *rows = strcmp(text, "padded") == 0 ? ECO_ROWS_PADDED - 1 : ECO_ROWS_DENSE - 1;
    return *rows == ECO_ROWS_PADDED - 1 || strcmp(text, "dense") == 0;
}

/* "KIND:ROWSxCOLUMNSxBLOCKS": indices of the four, a byte each. */
static bool read_step_tile(const char *text, int32_t *value)
{
    static const char *const kinds[ECO_EMULATED_KINDS] = {[ECO_EMULATED_SPLITTING] = "splitting",
                                                          [ECO_EMULATED_PRESPLIT] = "presplit",
                                                          [ECO_EMULATED_PRESPLIT_SINGLES] =
                                                              "scaled-f16"};
    int number[3] = {0, 0, 0};
    const int kind = word(kinds, ECO_EMULATED_KINDS, text, strcspn(text, ":"));
    if (kind < 0 || !numbers(text, 3, number) || number[2] < 1 || number[2] > ECO_EMULATED_SLICES)
        return false;
    const int height = power(number[0], ECO_EMULATED_LEAST_ROWS, ECO_EMULATED_HEIGHTS),
              width = power(number[1], ECO_EMULATED_LEAST_COLUMNS, ECO_EMULATED_WIDTHS);
    if (height < 0 || width < 0)
        return false;
    *value = kind << 24 | height << 16 | width << 8 | (number[2] - 1);
    return true;
}

struct eco_emulated_choices eco_gpu_step_tiles(const struct eco_problem *problem)
{
    const int32_t tile = eco_forced(problem, ECO_FORCE_STEP_TILE, ECO_NOT_FORCED);
    if (tile < 0)
        return ECO_EMULATED_ANY(UINT_MAX);
    return (struct eco_emulated_choices){1u << (tile >> 24), 1u << (tile >> 16 & 255),
                                         1u << (tile >> 8 & 255), 1u << (tile & 255), true};
}

/* ---- the keys -------------------------------------------------------------------------------- */

#define NUMBER(variable, key, least, most, unsaid)                                                 \
    {                                                                                              \
        variable, ECO_FORCE_##key, least, most, NULL, NULL, unsaid                                 \
    }
#define TEXT(variable, key, read, values, unsaid)                                                  \
    {                                                                                              \
        variable, ECO_FORCE_##key, 0, 0, read, values, unsaid                                      \
    }
const struct eco_force_key eco_gpu_keys[] = {
    TEXT(NULL, FORWARD, read_division, "MAINLOOP:UNITSxBLOCKS", false),
    TEXT(NULL, BACKWARD, read_backward, "MAINLOOP:UNITSxBLOCKS or step", false),
    NUMBER(NULL, GROUPS_BACK, 1, INT32_MAX, true),
    NUMBER(NULL, GROUPS, 1, INT32_MAX, true),
    TEXT(NULL, FUSED, read_fused, "8, 16, 32 or wgmma:ROWSxUNITS", false),
    TEXT(NULL, PROJECTION, read_shape, "8, 16 or 32", false),
    TEXT(NULL, GROUPED, read_grouped, "0, 8, 16 or 32", true),
    NUMBER("ECORNN_EMULATED_F32", EMULATED_F32, 0, 2, true),
    NUMBER(NULL, SCALED_F16, 0, 1, true),
    NUMBER(NULL, STREAM_K, 0, 1, true),
    TEXT(NULL, STEP_TILE, read_step_tile, "KIND:ROWSxCOLUMNSxBLOCKS", true),
    NUMBER(NULL, CHUNK_BACK, 0, INT32_MAX, false),
    NUMBER("ECORNN_CHUNK", CHUNK, 0, INT32_MAX, false),
    NUMBER("ECORNN_WAVEFRONT", WAVEFRONT, 0, 1, false),
    TEXT("ECORNN_ROWS", ROWS, read_rows, "padded or dense", false),
    NUMBER(NULL, AT_ONCE, 1, ECO_GPU_LANES, true), /* for nets and several models */
    {.key = ECO_FORCED_KEYS},
};

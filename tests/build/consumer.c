/*
 * An application as a user would write it: built against an installed ecornn (installcheck.sh), it
 * runs one LSTM forward and looks at the result.  It must not know anything of the source tree.
 */
#include <ecornn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 5, BATCH = 3, INPUT = 4, HIDDEN = 6 };

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ecornn_error_detail());
    return EXIT_FAILURE;
}

/* y is written everywhere, inside the LSTM's range, and not 0. */
static int plausible(const float *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(y[i]) < 1.0f) || y[i] == 0)
            return 0;
    return 1;
}

/* Some weights. */
static ecornn_status pack(const ecornn_plan *plan, int count, size_t elements, void *weights)
{
    const void *params[64];
    float *block = malloc(elements * sizeof *block);
    ecornn_status status = block && count <= 64 ? ECORNN_OK : ECORNN_NO_MEMORY;
    for (size_t i = 0; block && i < elements; i++)
        block[i] = (float)(i % 11) / 20 - 0.2f;
    for (int k = 0; status == ECORNN_OK && k < count; k++) {
        ecornn_param param = {.size = sizeof param};
        status = ecornn_param_get(plan, k, &param);
        params[k] = block + param.offset;
    }
    if (status == ECORNN_OK)
        status = ecornn_pack(plan, params, NULL, weights, NULL);
    free(block);
    return status;
}

static int run(ecornn_device *device, const ecornn_plan *plan)
{
    ecornn_sizes sizes = {.size = sizeof sizes};
    ecornn_plan_sizes(plan, &sizes);
    float *x = ecornn_alloc(device, STEPS * BATCH * INPUT * sizeof *x);  /* [T,N,I] */
    float *y = ecornn_alloc(device, STEPS * BATCH * HIDDEN * sizeof *y); /* [T,N,H] */
    void *weights = ecornn_alloc(device, sizes.weight_bytes);
    void *workspace = ecornn_alloc(device, sizes.workspace_bytes);
    int result = EXIT_FAILURE;
    if (x && y && weights && (workspace || !sizes.workspace_bytes)) {
        for (int i = 0; i < STEPS * BATCH * INPUT; i++)
            x[i] = (float)(i % 7) - 3.0f;
        for (int i = 0; i < STEPS * BATCH * HIDDEN; i++)
            y[i] = NAN;
        const ecornn_io io = {
            .size = sizeof io, .x = x, .y = y, .weights = weights, .workspace = workspace};
        if (pack(plan, sizes.param_count, sizes.param_elements, weights) != ECORNN_OK)
            fail("pack");
        else if (ecornn_forward(plan, STEPS, BATCH, &io) != ECORNN_OK)
            fail("forward");
        else if (!plausible(y, STEPS * BATCH * HIDDEN))
            fprintf(stderr, "y is wrong\n");
        else
            result = EXIT_SUCCESS;
    }
    ecornn_free(device, workspace);
    ecornn_free(device, weights);
    ecornn_free(device, y);
    ecornn_free(device, x);
    return result;
}

int main(void)
{
    ecornn_device *device = NULL;
    ecornn_plan *plan = NULL;
    ecornn_cell *cell = NULL;
    if (ecornn_cell_parse(&cell, "lstm") != ECORNN_OK)
        return fail("cell");
    const ecornn_desc desc = {.size = sizeof desc,
                              .cell = cell,
                              .input = INPUT,
                              .hidden = HIDDEN,
                              .steps = STEPS,
                              .batch = BATCH};
    if (strncmp(ecornn_version(), ECORNN_VERSION_STRING, strlen(ECORNN_VERSION_STRING)) != 0)
        return fail("header and library are of different versions");
    if (ecornn_device_open(&device, "cpu") != ECORNN_OK)
        return fail("device");
    int result = EXIT_FAILURE;
    if (ecornn_plan_create_desc(&plan, device, &desc) != ECORNN_OK)
        fail("plan");
    else
        result = run(device, plan);
    ecornn_plan_free(plan);
    ecornn_device_close(device);
    if (result == EXIT_SUCCESS)
        printf("%s\n", ecornn_version());
    return result;
}

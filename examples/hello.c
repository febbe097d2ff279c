/* An LSTM over one sequence: describe once, plan once, run; prints its answer to an impulse. */
#include <ecornn.h>
#include <stdio.h>
#include <stdlib.h>

static void check(ecornn_status status)
{
    if (status != ECORNN_OK)
        puts(ecornn_error_detail()), exit(1);
}

int main(void)
{
    static float x[20][1][8] = {{{1}}}, y[20][1][16],
                 block[1600]; /* [T,N,I], [T,N,H], parameters */
    const void *params[12];
    ecornn_device *device;
    ecornn_desc desc;
    ecornn_plan *plan;
    ecornn_sizes sizes;
    check(ecornn_device_open(&device, "cpu"));
    check(ecornn_desc_parse(&desc, "lstm/T20/N1/I8/H16", NULL));
    check(ecornn_plan_create(&plan, device, &desc));
    ecornn_plan_sizes(plan, &sizes);
    for (size_t k = 0; k < sizes.params; k++) /* yours would come from a file */
        block[k] = 0.1f * (float)((int)(k % 7) - 3);
    for (int k = 0; k < ecornn_param_count(plan); k++) {
        ecornn_param param;
        check(ecornn_param_get(plan, k, &param));
        params[k] = block + param.offset;
    }
    void *weights = ecornn_alloc(device, sizes.weights);
    void *workspace = ecornn_alloc(device, sizes.workspace);
    check(ecornn_pack(plan, params, weights, NULL));
    ecornn_io io = {.size = sizeof io,
                    .steps = ECORNN_ALL,
                    .batch = ECORNN_ALL,
                    .x = x,
                    .y = y,
                    .weights = weights,
                    .workspace = workspace};
    check(ecornn_forward(plan, &io));
    for (int t = 0; t < 20; t++)
        printf("%2d %8.5f\n", t, (double)y[t][0][0]);
    return 0; /* lengths.c shows what to free */
}

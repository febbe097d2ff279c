/* An LSTM over one sequence: plan once, run many times.  Prints its answer to an impulse. */
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
    static float x[20][1][8] = {{{1}}}, y[20][1][16]; /* [T,N,I], [T,N,H] */
    static float W[4][16][8], R[4][16][16], b[4][16]; /* gates i f g o; yours come from a file */
    const void *params[12];
    ecornn_plan *plan;
    ecornn_sizes sizes = {.size = sizeof sizes};
    for (int k = 0; k < 4; k++)
        params[k] = W[k], params[4 + k] = R[k], params[8 + k] = b[k], W[k][0][0] = 1;
    check(ecornn_plan_create(&plan, NULL, "lstm/T20/N1/I8/H16", NULL));
    check(ecornn_plan_sizes(plan, &sizes));
    void *weights = aligned_alloc(sizes.alignment, sizes.weight_bytes);
    void *workspace = aligned_alloc(sizes.alignment, sizes.workspace_bytes);
    check(ecornn_pack(plan, params, NULL, weights, NULL));
    ecornn_io io = {.size = sizeof io, .x = x, .y = y, .weights = weights, .workspace = workspace};
    check(ecornn_forward(plan, 20, 1, &io));
    for (int t = 0; t < 20; t++)
        printf("%2d %8.5f\n", t, (double)y[t][0][0]);
    return 0; /* lengths.c shows what to free */
}

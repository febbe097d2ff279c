/*
 * Errors of F32: ours and cuDNN's against ours in F64, with the same numbers; see gpu.h.
 */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char system_name[] = "cudnn";
static const char *const part_name[GPU_PARTS] = {"y", "dx", "dweights"};

static double *room(size_t elements)
{
    double *array = malloc((elements + 1) * sizeof *array);
    if (!array)
        gpu_check(cudaErrorMemoryAllocation, "results on the host");
    return array;
}

static void make_results(struct gpu_results *results, const ecornn_desc *desc, size_t params)
{
    const bool training = (desc->flags & ECORNN_TRAINING) != 0;
    *results =
        (struct gpu_results){.elements = {gpu_y_elements(desc), training ? gpu_x_elements(desc) : 0,
                                          training ? params : 0}};
    for (int part = 0; part < GPU_PARTS; part++)
        results->part[part] = room(results->elements[part]);
}

static void free_results(struct gpu_results *results)
{
    for (int part = 0; part < GPU_PARTS; part++)
        free(results->part[part]);
}

/* A block of our parameters, on the host or the device, in cuDNN's order. */
static void export(const struct gpu_ours *ours, const char *problem, const void *block, double *to,
                   size_t elements)
{
    const size_t element = gpu_element(ours->param_type);
    char *host = malloc(ours->sizes.params * element), *out = malloc(elements * element);
    if (!host || !out)
        gpu_check(cudaErrorMemoryAllocation, "parameters on the host");
    gpu_check(cudaMemcpy(host, block, ours->sizes.params * element, cudaMemcpyDefault), "download");
    gpu_check_ours(ecornn_export(ours->plan, system_name, host, out, ours->param_type, elements),
                   problem);
    gpu_download(to, out, ours->param_type, elements);
    free(host);
    free(out);
}

static bool run_ours(struct gpu_ours *ours, const char *problem, struct gpu_results *results,
                     cudaStream_t stream)
{
    const ecornn_type type = ours->param_type; /* F32 or F64, as that of rows */
    const bool good = gpu_ours_queue(ours, stream) && cudaStreamSynchronize(stream) == cudaSuccess;
    gpu_download(results->part[GPU_Y], ours->io.y, type, results->elements[GPU_Y]);
    if (!good || !ours->training)
        return good;
    gpu_download(results->part[GPU_DX], ours->gradient.dx, type, results->elements[GPU_DX]);
    export(ours, problem, ours->dblock, results->part[GPU_DPARAMS], results->elements[GPU_DPARAMS]);
    return true;
}

/* ---- errors ---------------------------------------------------------------------------------- */

struct error {
    double norm, most; /* of what is wrong over that of what is right; the largest of both */
};

/* counts: 0 where an element is to be left out; NULL: all count. */
static struct error error_of(const double *is, const double *should, const double *counts, size_t n)
{
    double wrong = 0, right = 0, most_wrong = 0, most_right = 0;
    for (size_t i = 0; i < n; i++) {
        const double e = counts && counts[i] == 0 ? 0 : is[i] - should[i];
        wrong += e * e;
        right += should[i] * should[i];
        most_wrong = !(fabs(e) <= most_wrong) ? fabs(e) : most_wrong;
        most_right = fabs(should[i]) > most_right ? fabs(should[i]) : most_right;
    }
    return (struct error){sqrt(wrong / right), most_wrong / most_right};
}

/* Everything that is compared of one problem. */
struct sides {
    struct gpu_results truth, ours, theirs;
    double *params; /* in cuDNN's order */
    double *counts; /* which of those are ours: of two biases that are added, one */
};

/* The plan in this type, run once; the first time also what both sides share. */
static bool run_type(struct sides *sides, ecornn_device *device, const char *problem,
                     const ecornn_desc *desc, struct gpu_results *results, cudaStream_t stream)
{
    struct gpu_ours ours = {.device = device, .packs = true};
    size_t params;
    gpu_ours_make(&ours, problem, desc);
    gpu_check_ours(ecornn_import_size(ours.plan, system_name, &params), problem);
    make_results(results, desc, params);
    if (!sides->params) {
        double *ones = room(ours.sizes.params);
        sides->params = room(params);
        sides->counts = room(params);
        for (size_t i = 0; i < ours.sizes.params; i++)
            ones[i] = 1;
        export(&ours, problem, ours.block, sides->params, params);
        export(&ours, problem, ones, sides->counts, params);
        free(ones);
    }
    const bool good = run_ours(&ours, problem, results, stream);
    gpu_ours_free(&ours);
    return good;
}

static void print(const char *problem, const struct sides *sides)
{
    printf("%-36s", problem);
    for (int part = 0; part < GPU_PARTS && sides->truth.elements[part] > 0; part++) {
        const double *counts = part == GPU_DPARAMS ? sides->counts : NULL;
        const double *truth = sides->truth.part[part];
        const size_t n = sides->truth.elements[part];
        const struct error ours = error_of(sides->ours.part[part], truth, counts, n);
        const struct error theirs = error_of(sides->theirs.part[part], truth, counts, n);
        printf(" | %s %.2e cuDNN %.2e ratio %.3f most %.1e %.1e", part_name[part], ours.norm,
               theirs.norm, ours.norm / theirs.norm, ours.most, theirs.most);
    }
}

/* cuDNN in F64: do both compute the same? */
static void print_agreement(struct sides *sides, const ecornn_desc *exact, const char *cell,
                            cudaStream_t stream)
{
    double worst = 0;
    if (!cudnn_run(exact, cell, sides->params, &sides->theirs, stream)) {
        printf(" | cuDNN has no F64\n");
        return;
    }
    for (int part = 0; part < GPU_PARTS && sides->truth.elements[part] > 0; part++) {
        const struct error error =
            error_of(sides->theirs.part[part], sides->truth.part[part],
                     part == GPU_DPARAMS ? sides->counts : NULL, sides->truth.elements[part]);
        worst = !(error.norm <= worst) ? error.norm : worst;
    }
    printf(" | F64 of both %.0e\n", worst);
}

void gpu_measure_error(ecornn_device *device, const struct gpu_case *one, cudaStream_t stream)
{
    const ecornn_desc *desc = &one->desc;
    struct sides sides = {0};
    ecornn_desc exact = *desc;
    exact.type = exact.param_type = ECORNN_F64;
    exact.flags &= ~(uint32_t)ECORNN_FAST_MATH;
    if (desc->type != ECORNN_F32 || desc->param_type != ECORNN_F32) {
        fprintf(stderr, "bench_gpu: %s: errors are those of F32\n", one->problem);
        return;
    }
    bool good = run_type(&sides, device, one->problem, &exact, &sides.truth, stream) &&
                run_type(&sides, device, one->problem, desc, &sides.ours, stream);
    make_results(&sides.theirs, desc, sides.truth.elements[GPU_DPARAMS]);
    good = good && cudnn_run(desc, one->cell, sides.params, &sides.theirs, stream);
    if (good) {
        print(one->problem, &sides);
        print_agreement(&sides, &exact, one->cell, stream);
    } else {
        printf("%-36s nothing to compare\n", one->problem);
    }
    fflush(stdout);
    free_results(&sides.truth);
    free_results(&sides.ours);
    free_results(&sides.theirs);
    free(sides.params);
    free(sides.counts);
}

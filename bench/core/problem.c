/*
 * Problem strings and random data.
 */
#include "problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "say.h"
#include "bench/core/named.h"

static const char UNIFORM[] = "/lengths:uniform", RESETS[] = "/resets:";
/* A real program finds its input outside the inner caches.  So do runs that take several inputs in
 * turn, which have at most this many bytes together. */
static const size_t SETS_BYTES = (size_t)64 << 20;
enum { SETS_MAX = 8 };

/* Makes "/resets" of "/resets:3".  False: 3 is no number. */
static bool take_resets(struct problem *problem, char *text)
{
    char *part = strstr(text, RESETS), *end;
    problem->resets = -1;
    if (!part)
        return true;
    part += sizeof RESETS - 2; /* the colon */
    problem->resets = strtod(part + 1, &end);
    const bool good = end > part + 1 && problem->resets >= 0 && (*end == '/' || *end == '\0');
    if (good)
        memmove(part, end, strlen(end) + 1);
    return good;
}

bool problem_parse(struct problem *problem, const char *text, const ecornn_cell *cell)
{
    char rest[sizeof problem->text];
    *problem = (struct problem){.most_sets = SETS_MAX};
    if ((size_t)snprintf(problem->text, sizeof problem->text, "%s", text) >= sizeof rest)
        return say("the problem has %zu characters, at most %zu are possible", strlen(text),
                   sizeof rest - 1);
    strcpy(rest, problem->text);
    snprintf(problem->cell, sizeof problem->cell, "%.*s", (int)strcspn(rest, "/"), rest);
    char *lengths = strstr(rest, UNIFORM);
    if (lengths) {
        problem->uniform = true;
        memmove(lengths, lengths + strlen(UNIFORM), strlen(lengths + strlen(UNIFORM)) + 1);
    }
    if (!take_resets(problem, rest))
        return say("%s: /resets: needs a percentage", problem->text);
    problem->desc.size = sizeof problem->desc;
    if (ecornn_desc_parse(&problem->desc, rest, cell) != ECORNN_OK)
        return say("%s: %s", problem->text, ecornn_error_detail());
    const ecornn_desc *desc = &problem->desc;
    problem->training = (desc->flags & ECORNN_TRAINING) != 0;
    problem->streaming = desc->steps == 1 && !problem->training;
    problem->directions = (desc->flags & ECORNN_BIDIRECTIONAL) ? 2 : 1;
    problem->width = problem->directions * (desc->proj ? desc->proj : desc->hidden);
    problem->type = desc->type;
    problem->param_type = desc->param_type           ? desc->param_type
                          : desc->type == ECORNN_F64 ? ECORNN_F64
                                                     : ECORNN_F32;
    problem->weight_type = desc->weight_type ? desc->weight_type : desc->type;
    problem->element = type_bytes(problem->type);
    problem->param_element = type_bytes(problem->param_type);
    return true;
}

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t random_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Numbers repeat after this many, at other positions in the rows of a matrix: large arrays would
 * take seconds to draw. */
enum { PERIOD = (1 << 20) + 7 };

void *random_array(ecornn_type type, size_t count, double bound, uint64_t *state)
{
    const size_t element = type_bytes(type), drawn = count < PERIOD ? count : PERIOD;
    char *array = malloc(count * element);
    for (size_t k = 0; array && k < drawn; k++)
        type_set(array, k, type, bound * ((double)(random_bits(state) >> 11) * 0x1p-52 - 1));
    for (size_t have = drawn; array && have < count; have += drawn)
        memcpy(array + have * element, array,
               (count - have < drawn ? count - have : drawn) * element);
    return array;
}

static bool draw_lengths(struct problem *problem, uint64_t *state)
{
    const ecornn_desc *desc = &problem->desc;
    problem->rows = (double)desc->steps * desc->batch;
    if (!problem->uniform)
        return true;
    problem->rows = 0;
    problem->lengths = malloc((size_t)desc->batch * sizeof *problem->lengths);
    for (int32_t n = 0; problem->lengths && n < desc->batch; n++) {
        problem->lengths[n] = 1 + (int32_t)(random_bits(state) % (uint64_t)desc->steps);
        problem->rows += problem->lengths[n];
    }
    return problem->lengths != NULL;
}

static bool draw_resets(struct problem *problem, uint64_t *state)
{
    if (problem->resets < 0)
        return true;
    problem->reset = malloc(problem->reset_rows);
    for (size_t k = 0; problem->reset && k < problem->reset_rows; k++)
        problem->reset[k] =
            (double)(random_bits(state) >> 11) * 0x1p-53 * 100 < problem->resets ? 1 : 0;
    return problem->reset != NULL;
}

/* The elements of all matrices.  Each is used once per row, in a multiplication and an addition. */
static double matrix_elements(const ecornn_plan *plan)
{
    double elements = 0;
    for (int k = 0; k < count_of_params(plan); k++) {
        ecornn_param param = {.size = sizeof param};
        if (ecornn_param_get(plan, k, &param) == ECORNN_OK &&
            (strstr(param.name, ".W.") || strstr(param.name, ".R.") || strstr(param.name, "proj")))
            elements += (double)param.rows * param.cols;
    }
    return elements;
}

bool problem_fill(struct problem *problem, const ecornn_plan *plan, uint64_t seed)
{
    const ecornn_desc *desc = &problem->desc;
    const size_t models = desc->models > 1 ? (size_t)desc->models : 1,
                 rows = (size_t)desc->steps * (size_t)desc->batch;
    ecornn_sizes sizes = {.size = sizeof sizes};
    ecornn_plan_sizes(plan, &sizes);
    problem->reset_rows = rows * (desc->flags & ECORNN_SHARED_INPUT ? 1 : models);
    problem->x_elements = problem->reset_rows * (size_t)desc->input;
    problem->y_elements = models * rows * (size_t)problem->width;
    problem->param_elements = sizes.param_elements;
    const size_t fit = SETS_BYTES / (problem->x_elements * problem->element);
    problem->sets = fit < 1 ? 1 : fit > (size_t)problem->most_sets ? problem->most_sets : (int)fit;
    problem->x = random_array(problem->type, problem->x_elements * (size_t)problem->sets, 1, &seed);
    problem->dy = random_array(problem->type, problem->y_elements, 1, &seed);
    problem->params =
        random_array(problem->param_type, sizes.param_elements, 1 / sqrt(desc->hidden), &seed);
    const bool good = draw_lengths(problem, &seed) && draw_resets(problem, &seed) && problem->x &&
                      problem->dy && problem->params;
    if (!good)
        say("%s: no memory for its data", problem->text);
    problem->flops = 2 * problem->rows * matrix_elements(plan) * (problem->training ? 3 : 1);
    return good;
}

void problem_free(struct problem *problem)
{
    free(problem->x);
    free(problem->dy);
    free(problem->params);
    free(problem->lengths);
    free(problem->reset);
    *problem = (struct problem){.uniform = false};
}

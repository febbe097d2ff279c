/*
 * The optimiser.  The decays are 0.9 and 0.99: the squares' average forgets faster than Adam's
 * usual 0.999, which suits runs of a few thousand steps.
 */
#include "adam.h"

#include <math.h>
#include <stdlib.h>

enum { PIECES = 64 }; /* of a sum, whose order must not depend on the threads */

static const float MEAN_DECAY = 0.9f, SQUARE_DECAY = 0.99f, EPSILON = 1e-8f;

bool adam_create(struct adam *adam, size_t count, struct complaint *why)
{
    *adam = (struct adam){.count = count};
    adam->mean = calloc(count, sizeof(float));
    adam->square = calloc(count, sizeof(float));
    if (adam->mean && adam->square)
        return true;
    adam_free(adam);
    return complain(why, "no memory for the optimiser of %zu parameters", count);
}

void adam_free(struct adam *adam)
{
    free(adam->mean);
    free(adam->square);
    *adam = (struct adam){0};
}

static double norm_of(const float *a, size_t count)
{
    double piece[PIECES], sum = 0;
#pragma omp parallel for schedule(static)
    for (int p = 0; p < PIECES; p++) {
        const size_t begin = count * (size_t)p / PIECES, end = count * ((size_t)p + 1) / PIECES;
        double square = 0;
        for (size_t k = begin; k < end; k++)
            square += (double)a[k] * (double)a[k];
        piece[p] = square;
    }
    for (int p = 0; p < PIECES; p++)
        sum += piece[p];
    return sqrt(sum);
}

void adam_step(struct adam *adam, float *theta, const float *dtheta, float rate, float clip)
{
    const double norm = norm_of(dtheta, adam->count);
    const float scale = norm > (double)clip ? clip / (float)norm : 1;
    adam->steps++;
    const float mean_weight = 1 / (1 - powf(MEAN_DECAY, (float)adam->steps));
    const float square_weight = 1 / (1 - powf(SQUARE_DECAY, (float)adam->steps));
    float *const restrict mean = adam->mean, *const restrict square = adam->square;
#pragma omp parallel for simd schedule(static)
    for (size_t k = 0; k < adam->count; k++) {
        const float d = scale * dtheta[k];
        mean[k] = MEAN_DECAY * mean[k] + (1 - MEAN_DECAY) * d;
        square[k] = SQUARE_DECAY * square[k] + (1 - SQUARE_DECAY) * d * d;
        theta[k] -= rate * mean_weight * mean[k] / (sqrtf(square_weight * square[k]) + EPSILON);
    }
}

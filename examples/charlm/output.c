/*
 * What lies around the recurrent layers: the embedding before and the softmax layer behind, over a
 * CBLAS.  Rows are the T*N characters of a window.
 */
#include "model.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

void embedding_gather(const struct model *model, const struct window *window)
{
    const size_t E = (size_t)model->shape.embedding;
    const size_t rows = (size_t)window->steps * (size_t)window->batch;
    for (size_t row = 0; row < rows; row++)
        memcpy(model->x.host + row * E, model->embedding + window->now[row] * E, E * sizeof(float));
}

void embedding_scatter(const struct model *model, const struct window *window)
{
    const size_t E = (size_t)model->shape.embedding;
    const size_t rows = (size_t)window->steps * (size_t)window->batch;
    memset(model->dembedding, 0, (size_t)model->shape.alphabet * E * sizeof(float));
    for (size_t row = 0; row < rows; row++) {
        float *to = model->dembedding + window->now[row] * E;
        const float *from = model->dx.host + row * E;
        for (size_t e = 0; e < E; e++)
            to[e] += from[e];
    }
}

void output_forward(const struct model *model, size_t rows)
{
    const int V = model->shape.alphabet, H = model->shape.hidden;
    for (size_t row = 0; row < rows; row++)
        memcpy(model->logits + row * (size_t)V, model->bias, (size_t)V * sizeof(float));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, V, H, 1, model->y.host, H,
                model->weight, H, 1, model->logits, V);
}

void output_backward(const struct model *model, size_t rows)
{
    const int V = model->shape.alphabet, H = model->shape.hidden;
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, V, H, (int)rows, 1, model->logits, V,
                model->y.host, H, 0, model->dweight, H);
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, H, V, 1, model->logits, V,
                model->weight, H, 0, model->dy.host, H);
    memset(model->dbias, 0, (size_t)V * sizeof(float));
    for (size_t row = 0; row < rows; row++)
        for (int v = 0; v < V; v++)
            model->dbias[v] += model->logits[row * (size_t)V + (size_t)v];
}

/* Cross-entropy of one row in nats; z [V] becomes scale * (softmax - one at the target). */
static double loss_of_row(float *z, int V, int target, float scale)
{
    float highest = z[0], sum = 0;
    for (int v = 1; v < V; v++)
        highest = z[v] > highest ? z[v] : highest;
    const float target_logit = z[target] - highest;
    for (int v = 0; v < V; v++) {
        z[v] = expf(z[v] - highest);
        sum += z[v];
    }
    for (int v = 0; v < V; v++)
        z[v] *= scale / sum;
    z[target] -= scale;
    return log((double)sum) - (double)target_logit;
}

double model_loss(struct model *model, const struct window *window)
{
    const int rows = window->steps * window->batch, V = model->shape.alphabet;
    double nats = 0;
#pragma omp parallel for schedule(static)
    for (int row = 0; row < rows; row++)
        model->losses[row] = loss_of_row(model->logits + (size_t)row * (size_t)V, V,
                                         window->next[row], 1 / (float)rows);
    for (int row = 0; row < rows; row++) /* in order: the same sum for any number of threads */
        nats += model->losses[row];
    return nats / log(2);
}

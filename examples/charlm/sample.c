/*
 * Sampling: a second plan for one step of one row, with the trained model's numbers.
 */
#include "sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "train.h"

/* A place of the alphabet, drawn by the softmax of logits / temperature. */
static int draw(const float *logits, int V, float temperature, uint64_t *random)
{
    float weight[256], highest = logits[0], sum = 0;
    for (int v = 1; v < V; v++)
        highest = logits[v] > highest ? logits[v] : highest;
    for (int v = 0; v < V; v++)
        sum += weight[v] = expf((logits[v] - highest) / temperature);
    float left = random_uniform(random) * sum;
    for (int v = 0; v < V - 1; v++)
        if ((left -= weight[v]) < 0)
            return v;
    return V - 1;
}

/* A terminal shows no more than text. */
static void print_byte(unsigned char byte)
{
    const bool harmless = byte == '\n' || byte == '\t' || (byte >= 0x20 && byte != 0x7f);
    putchar(harmless ? byte : '?');
}

static bool print_characters(struct model *model, const struct alphabet *alphabet,
                             const struct sampling *sampling, struct complaint *why)
{
    const int newline = alphabet_place(alphabet, '\n');
    unsigned char place = (unsigned char)(newline < 0 ? 0 : newline);
    uint64_t random = sampling->seed;
    const char *prompt = sampling->prompt;
    for (long k = 0; k < sampling->characters && !train_interrupted(); k++) {
        const struct window window = {.now = &place, .steps = 1, .batch = 1};
        if (!model_forward(model, &model->carry, &window, why))
            return false;
        while (*prompt && alphabet_place(alphabet, (unsigned char)*prompt) < 0)
            prompt++; /* a character the model has never seen */
        place = (unsigned char)(*prompt ? alphabet_place(alphabet, (unsigned char)*prompt++)
                                        : draw(model->logits, alphabet->size, sampling->temperature,
                                               &random));
        print_byte(alphabet->byte[place]);
    }
    putchar('\n');
    return true;
}

bool sample(const struct model *model, const struct alphabet *alphabet,
            const struct sampling *sampling, struct complaint *why)
{
    struct model single;
    struct model_shape shape = model->shape;
    shape.steps = shape.batch = 1;
    shape.training = false;
    bool good = model_plan(&single, model->device, &shape, why) && model_allocate(&single, why);
    if (good) {
        memcpy(single.theta, model->theta, model->params * sizeof(float));
        good = model_pack(&single, why) && print_characters(&single, alphabet, sampling, why);
    }
    model_free(&single);
    return good;
}

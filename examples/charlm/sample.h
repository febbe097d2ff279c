/*
 * Text that a trained model makes up, character by character.
 */
#ifndef CHARLM_SAMPLE_H
#define CHARLM_SAMPLE_H

#include "model.h"
#include "text.h"

struct sampling {
    long characters;
    float temperature; /* below 1: safer, above: wilder */
    uint64_t seed;
    const char *prompt; /* what the text begins with, counted among the characters */
};

/* Prints to standard output.  Begins as if a line had just ended, with the prompt. */
bool sample(const struct model *model, const struct alphabet *alphabet,
            const struct sampling *sampling, struct complaint *why);

#endif /* CHARLM_SAMPLE_H */

/*
 * A trained model in a safetensors file: its tensors, and in the metadata what it takes to build
 * the same model again.
 */
#ifndef CHARLM_CHECKPOINT_H
#define CHARLM_CHECKPOINT_H

#include "model.h"
#include "safetensors.h"
#include "text.h"

struct checkpoint {
    const char *cell_name, *cell_text; /* text "": a built-in cell.  Not owned */
    struct alphabet alphabet;
    long hidden, layers, embedding, step;
};

/* The metadata of a file, which must outlive the result. */
bool checkpoint_read(struct checkpoint *checkpoint, const struct safetensors *file,
                     struct complaint *why);
/* Whether the file has exactly the tensors of a planned model, shapes included: asked before memory
 * is taken for shapes that only the metadata claims. */
bool checkpoint_check(const struct safetensors *file, const struct model *model,
                      struct complaint *why);
/* Copies the tensors to theta; false if a number is not finite. */
bool checkpoint_load(struct model *model, const struct safetensors *file, struct complaint *why);
/* Whether what checkpoint_save writes can be loaded, and its size: asked before the first step, of
 * a planned model.  Every check of the functions above is made. */
bool checkpoint_preview(const struct checkpoint *checkpoint, const struct model *model,
                        uint64_t *bytes, struct complaint *why);
/* False, and the old file stays, where a number is not finite too: nobody could load it. */
bool checkpoint_save(const struct checkpoint *checkpoint, const struct model *model,
                     const char *path, struct complaint *why);

#endif /* CHARLM_CHECKPOINT_H */

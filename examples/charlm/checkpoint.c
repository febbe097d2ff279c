/*
 * Models to and from safetensors files.  The list of a model's tensors is made in one place, for
 * checking, loading and saving.
 */
#include "checkpoint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FORMAT[] = "ecornn charlm 1";

/* A number of the metadata and its limits. */
struct fact {
    const char *key;
    long limits[2];
    size_t offset; /* in struct checkpoint */
};
static const struct fact facts[] = {
    {"hidden", {1, 1 << 16}, offsetof(struct checkpoint, hidden)},
    {"layers", {1, 1 << 10}, offsetof(struct checkpoint, layers)},
    {"embedding", {1, 1 << 16}, offsetof(struct checkpoint, embedding)},
    {"step", {0, 1L << 40}, offsetof(struct checkpoint, step)},
};
enum { FACTS = sizeof facts / sizeof *facts };

static const char *value_of(const struct safetensors *file, const char *key, struct complaint *why)
{
    const char *value = safetensors_value(file, key);
    if (!value)
        complain(why, "the metadata has no '%s': not a file of charlm", key);
    return value;
}

bool checkpoint_read(struct checkpoint *checkpoint, const struct safetensors *file,
                     struct complaint *why)
{
    const char *format = value_of(file, "format", why), *value = NULL;
    if (!format)
        return false;
    if (strcmp(format, FORMAT) != 0)
        return complain(why, "format is '%.60s', must be '%s'", format, FORMAT);
    for (size_t k = 0; k < FACTS; k++) {
        long *to = (long *)(void *)((char *)checkpoint + facts[k].offset);
        if (!(value = value_of(file, facts[k].key, why)) ||
            !number_parse(to, facts[k].key, value, facts[k].limits, why))
            return false;
    }
    if (!(checkpoint->cell_name = value_of(file, "cell", why)) ||
        !(checkpoint->cell_text = value_of(file, "cell_text", why)) ||
        !(value = value_of(file, "alphabet", why)))
        return false;
    if (!alphabet_parse(&checkpoint->alphabet, value))
        return complain(why, "alphabet is '%.60s', must be 1 to 256 rising bytes in hexadecimal",
                        value);
    return true;
}

/* Into tensors [ecornn_param_count + 3]; returns how many.  The data need not be there yet. */
static size_t list_tensors(const struct model *model, struct tensor_source *tensors)
{
    const uint64_t V = (uint64_t)model->shape.alphabet, E = (uint64_t)model->shape.embedding;
    const uint64_t H = (uint64_t)model->shape.hidden;
    const struct tensor_source others[] = {{"embedding.weight", {V, E}, 2, model->embedding},
                                           {"output.weight", {V, H}, 2, model->weight},
                                           {"output.bias", {V, 1}, 1, model->bias}};
    size_t count = 0;
    for (int k = 0; k < ecornn_param_count(model->plan); k++) {
        ecornn_param param;
        if (ecornn_param_get(model->plan, k, &param) != ECORNN_OK)
            continue;
        struct tensor_source *tensor = &tensors[count++];
        snprintf(tensor->name, sizeof tensor->name, "rnn.%s", param.name);
        tensor->shape[0] = (uint64_t)param.rows;
        tensor->shape[1] = (uint64_t)param.cols;
        tensor->rank = param.cols > 1 ? 2 : 1;
        tensor->data = model->theta ? model->theta + param.offset : NULL;
    }
    memcpy(tensors + count, others, sizeof others);
    return count + sizeof others / sizeof *others;
}

static struct tensor_source *make_list(const struct model *model, size_t *count,
                                       struct complaint *why)
{
    struct tensor_source *tensors =
        calloc((size_t)ecornn_param_count(model->plan) + 3, sizeof *tensors);
    if (tensors)
        *count = list_tensors(model, tensors);
    else
        complain(why, "no memory for a list of tensors");
    return tensors;
}

static bool check_tensor(const struct safetensors *file, const struct tensor_source *expected,
                         struct complaint *why)
{
    const struct tensor *tensor = safetensors_find(file, expected->name);
    if (!tensor)
        return complain(why, "there is no tensor '%s'", expected->name);
    if (tensor->rank != expected->rank)
        return complain(why, "tensor '%s' has %d dimensions, must have %d", tensor->name,
                        tensor->rank, expected->rank);
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->shape[d] != expected->shape[d])
            return complain(why, "tensor '%s' has dimension %d of %llu, must be %llu", tensor->name,
                            d, (unsigned long long)tensor->shape[d],
                            (unsigned long long)expected->shape[d]);
    return true;
}

bool checkpoint_check(const struct safetensors *file, const struct model *model,
                      struct complaint *why)
{
    size_t count = 0;
    struct tensor_source *tensors = make_list(model, &count, why);
    bool good = tensors != NULL;
    for (size_t k = 0; good && k < count; k++)
        good = check_tensor(file, &tensors[k], why);
    if (good && file->tensor_count != count)
        good = complain(why, "the file has %zu tensors, must have %zu", file->tensor_count, count);
    free(tensors);
    return good;
}

static bool check_finite(const char *name, const float *data, size_t count, struct complaint *why)
{
    for (size_t k = 0; k < count; k++)
        if (!isfinite(data[k]))
            return complain(why, "tensor '%s' has element %zu of %g, must be finite", name, k,
                            (double)data[k]);
    return true;
}

bool checkpoint_load(struct model *model, const struct safetensors *file, struct complaint *why)
{
    size_t count = 0;
    struct tensor_source *tensors = make_list(model, &count, why);
    bool good = tensors != NULL;
    for (size_t k = 0; good && k < count; k++) {
        const struct tensor *tensor = safetensors_find(file, tensors[k].name);
        float *to = model->theta + (tensors[k].data - model->theta);
        const size_t elements = (size_t)(tensor->end - tensor->begin) / sizeof(float);
        safetensors_copy(file, tensor, to);
        good = check_finite(tensor->name, to, elements, why);
    }
    free(tensors);
    return good;
}

/* What goes into a file.  The strings that it points to. */
struct content {
    struct safetensors_content all;
    struct metadata metadata[FACTS + 4];
    struct tensor_source *tensors;
    char numbers[FACTS][24], alphabet[513];
};

static bool content_make(struct content *content, const struct checkpoint *checkpoint,
                         const struct model *model, struct complaint *why)
{
    const struct metadata texts[] = {{"format", FORMAT},
                                     {"cell", checkpoint->cell_name},
                                     {"cell_text", checkpoint->cell_text},
                                     {"alphabet", content->alphabet}};
    memcpy(content->metadata, texts, sizeof texts);
    alphabet_print(&checkpoint->alphabet, content->alphabet);
    for (size_t k = 0; k < FACTS; k++) {
        char *number = content->numbers[k];
        const long *from = (const long *)(const void *)((const char *)checkpoint + facts[k].offset);
        snprintf(number, sizeof content->numbers[k], "%ld", *from);
        content->metadata[4 + k] = (struct metadata){facts[k].key, number};
    }
    content->all =
        (struct safetensors_content){.metadata = content->metadata, .metadata_count = FACTS + 4};
    content->tensors = make_list(model, &content->all.tensor_count, why);
    content->all.tensors = content->tensors;
    return content->tensors != NULL;
}

bool checkpoint_preview(const struct checkpoint *checkpoint, const struct model *model,
                        uint64_t *bytes, struct complaint *why)
{
    struct content content;
    struct safetensors file = {0};
    struct checkpoint again;
    struct complaint reason = {{0}};
    if (!content_make(&content, checkpoint, model, why))
        return false;
    const bool good = safetensors_preview(&file, &content.all, bytes, &reason) &&
                      checkpoint_read(&again, &file, &reason) &&
                      checkpoint_check(&file, model, &reason);
    safetensors_free(&file);
    free(content.tensors);
    return good ||
           complain(why, "the model could be saved, but not read again: %.300s", reason.text);
}

bool checkpoint_save(const struct checkpoint *checkpoint, const struct model *model,
                     const char *path, struct complaint *why)
{
    struct content content;
    if (!content_make(&content, checkpoint, model, why))
        return false;
    bool good = true;
    for (size_t k = 0; good && k < content.all.tensor_count; k++) {
        const struct tensor_source *tensor = &content.tensors[k];
        const uint64_t columns = tensor->rank == 2 ? tensor->shape[1] : 1;
        good = check_finite(tensor->name, tensor->data, (size_t)(tensor->shape[0] * columns), why);
    }
    good = good && safetensors_write(path, &content.all, why);
    free(content.tensors);
    return good;
}

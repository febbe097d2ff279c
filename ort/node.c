/*
 * Reads nodes, attributes and types of tensors.
 */
#include "ort/node.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool refuse(struct reason *reason, const char *format, ...)
{
    if (!reason->text[0]) {
        va_list list;
        va_start(list, format);
        vsnprintf(reason->text, sizeof reason->text, format, list);
        va_end(list);
    }
    return false;
}

bool passed(const struct ort_api *api, ort_status *status, struct reason *reason)
{
    if (!status)
        return true;
    refuse(reason, "%s", api->error_message(status));
    api->release_status(status);
    return false;
}

static bool read_infos(const struct node *node, const ort_node *handle, bool outputs,
                       const ort_value_info **infos, size_t most, size_t *count,
                       struct reason *reason)
{
    const struct ort_api *const api = node->api;
    if (!passed(api, (outputs ? api->node_output_count : api->node_input_count)(handle, count),
                reason))
        return false;
    if (*count > most)
        return refuse(reason, "it has %zu %s", *count, outputs ? "outputs" : "inputs");
    return passed(api, (outputs ? api->node_outputs : api->node_inputs)(handle, infos, *count),
                  reason);
}

/* ONNX Runtime has an info with an empty name where an input is left out. */
static bool drop_unnamed(const struct node *node, const ort_value_info **infos, size_t count,
                         struct reason *reason)
{
    for (size_t i = 0; i < count; i++) {
        const char *name = "";
        if (infos[i] && !info_name(node->api, infos[i], &name, reason))
            return false;
        if (!*name)
            infos[i] = NULL;
    }
    return true;
}

bool node_read(struct node *node, const struct ort_api *api, const ort_node *handle,
               struct reason *reason)
{
    *node = (struct node){.api = api, .name = "", .operator_name = "", .domain = ""};
    if (!passed(api, api->node_name(handle, &node->name), reason) ||
        !passed(api, api->node_operator(handle, &node->operator_name), reason) ||
        !passed(api, api->node_domain(handle, &node->domain), reason) ||
        !passed(api, api->attribute_count(handle, &node->attributes), reason))
        return false;
    if (node->attributes > MOST_ATTRIBUTES)
        return refuse(reason, "it has %zu attributes", node->attributes);
    return passed(api, api->attributes(handle, node->attribute, node->attributes), reason) &&
           read_infos(node, handle, false, node->input, MOST_INPUTS, &node->inputs, reason) &&
           read_infos(node, handle, true, node->output, MOST_OUTPUTS, &node->outputs, reason) &&
           drop_unnamed(node, node->input, node->inputs, reason) &&
           drop_unnamed(node, node->output, node->outputs, reason);
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Reads up to `bytes`, and says how many there were. */
static bool read_attribute(const struct node *node, const char *name, enum ort_kind kind,
                           void *data, size_t *bytes, struct reason *reason)
{
    const struct ort_api *const api = node->api;
    const size_t most = *bytes;
    *bytes = 0;
    for (size_t i = 0; i < node->attributes; i++) {
        const char *its = NULL;
        int is = 0;
        if (!passed(api, api->attribute_name(node->attribute[i], &its), reason))
            return false;
        if (strcmp(its, name) != 0)
            continue;
        if (!passed(api, api->attribute_kind(node->attribute[i], &is), reason))
            return false;
        if (is != (int)kind)
            return refuse(reason, "attribute %s is of kind %d, must be %d", name, is, (int)kind);
        return passed(api, api->read_attribute(node->attribute[i], is, data, most, bytes), reason);
    }
    return true;
}

bool node_int(const struct node *node, const char *name, int64_t *value, struct reason *reason)
{
    size_t bytes = sizeof *value;
    return read_attribute(node, name, ORT_INT, value, &bytes, reason);
}

bool node_float(const struct node *node, const char *name, float *value, struct reason *reason)
{
    size_t bytes = sizeof *value;
    return read_attribute(node, name, ORT_FLOAT, value, &bytes, reason);
}

bool node_floats(const struct node *node, const char *name, float *values, size_t most,
                 size_t *count, struct reason *reason)
{
    size_t bytes = most * sizeof *values;
    const bool done = read_attribute(node, name, ORT_FLOATS, values, &bytes, reason);
    *count = bytes / sizeof *values;
    return done;
}

bool node_text(const struct node *node, const char *name, enum ort_kind kind, char *text,
               size_t *bytes, struct reason *reason)
{
    *bytes = MOST_TEXT - 1;
    if (!read_attribute(node, name, kind, text, bytes, reason))
        return false;
    if (*bytes)
        text[*bytes] = 0;
    return true;
}

/* ---- types ----------------------------------------------------------------------------------- */

static bool read_type(const struct ort_api *api, const ort_tensor_type *type, struct tensor *tensor,
                      struct reason *reason)
{
    if (!passed(api, api->element(type, &tensor->element), reason) ||
        !passed(api, api->rank(type, &tensor->rank), reason))
        return false;
    if (tensor->rank > MOST_RANK)
        return refuse(reason, "a tensor has %zu dimensions", tensor->rank);
    return passed(api, api->dimensions(type, tensor->size, tensor->rank), reason);
}

bool node_input(const struct node *node, size_t index, struct tensor *tensor, bool *constant,
                struct reason *reason)
{
    const struct ort_api *const api = node->api;
    const ort_value_info *const info = index < node->inputs ? node->input[index] : NULL;
    const ort_type *type = NULL;
    const ort_tensor_type *its = NULL;
    *tensor = (struct tensor){0};
    *constant = false;
    if (!info)
        return true;
    if (!passed(api, api->is_constant(info, constant), reason) ||
        !passed(api, api->type(info, &type), reason))
        return false;
    if (type && !passed(api, api->tensor_type(type, &its), reason))
        return false;
    if (!its)
        return refuse(reason, "input %zu is no tensor", index);
    return read_type(api, its, tensor, reason);
}

bool info_name(const struct ort_api *api, const ort_value_info *info, const char **name,
               struct reason *reason)
{
    return passed(api, api->name(info, name), reason);
}

bool value_read(const struct ort_api *api, const ort_value *value, struct tensor *tensor,
                struct reason *reason)
{
    ort_tensor_type *type = NULL;
    *tensor = (struct tensor){0};
    if (!passed(api, api->value_type(value, &type), reason))
        return false;
    const bool read = read_type(api, type, tensor, reason);
    api->release_tensor_type(type);
    return read && passed(api, api->data(value, &tensor->data), reason);
}

/*
 * Reads nodes, attributes and types of tensors.
 */
#include <stdarg.h>
#include <stdio.h>

#include "ort/layer.h"

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

bool refuse_status(struct reason *reason, ecornn_status status)
{
    const char *const detail = ecornn_error_detail();
    return refuse(reason, "%s", *detail ? detail : ecornn_status_name(status));
}

bool passed(const struct ort_api *api, ort_status *status, struct reason *reason)
{
    if (!status)
        return true;
    refuse(reason, "%s", api->error_message(status));
    api->release_status(status);
    return false;
}

static bool read_names(const struct ort_api *api, const ort_value_info *const *infos, size_t count,
                       const char **names, struct reason *reason)
{
    for (size_t i = 0; i < count; i++) {
        names[i] = "";
        if (infos[i] && !passed(api, api->name(infos[i], &names[i]), reason))
            return false;
    }
    return true;
}

bool node_read(struct node *node, const struct ort_api *api, const ort_node *handle,
               struct reason *reason)
{
    *node = (struct node){.api = api, .handle = handle, .name = "", .operator_name = ""};
    if (!passed(api, api->node_name(handle, &node->name), reason) ||
        !passed(api, api->node_operator(handle, &node->operator_name), reason) ||
        !passed(api, api->node_domain(handle, &node->domain), reason) ||
        !passed(api, api->node_input_count(handle, &node->inputs), reason) ||
        !passed(api, api->node_output_count(handle, &node->outputs), reason))
        return false;
    if (node->inputs > MOST_INPUTS || node->outputs > MOST_OUTPUTS)
        return refuse(reason, "it has %zu inputs and %zu outputs", node->inputs, node->outputs);
    return passed(api, api->node_inputs(handle, node->input, node->inputs), reason) &&
           passed(api, api->node_outputs(handle, node->output, node->outputs), reason) &&
           read_names(api, node->input, node->inputs, node->input_name, reason) &&
           read_names(api, node->output, node->outputs, node->output_name, reason);
}

/* ---- attributes ------------------------------------------------------------------------------ */

bool node_list(const struct node *node, const char *name, int kind, void *data, size_t *bytes,
               struct reason *reason)
{
    const struct ort_api *const api = node->api;
    const ort_attribute *attribute = NULL;
    const size_t most = *bytes;
    *bytes = 0;
    /* One that is not there is NULL, or in some versions a failure. */
    ort_status *const status = api->attribute(node->handle, name, &attribute);
    if (status)
        api->release_status(status);
    if (status || !attribute)
        return true;
    if (!passed(api, api->read_attribute(attribute, kind, data, most, bytes), reason))
        return false;
    if (kind == ORT_STRING && *bytes < most)
        ((char *)data)[*bytes] = 0;
    return true;
}

bool node_int(const struct node *node, const char *name, int64_t *value, struct reason *reason)
{
    size_t bytes = sizeof *value;
    return node_list(node, name, ORT_INT, value, &bytes, reason);
}

bool node_float(const struct node *node, const char *name, float *value, struct reason *reason)
{
    size_t bytes = sizeof *value;
    return node_list(node, name, ORT_FLOAT, value, &bytes, reason);
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

bool node_input(const struct node *node, size_t index, struct tensor *tensor, struct reason *reason)
{
    const struct ort_api *const api = node->api;
    const bool given = index < node->inputs && *node->input_name[index];
    const ort_value_info *const info = given ? node->input[index] : NULL;
    const ort_type *type = NULL;
    const ort_tensor_type *its = NULL;
    const ort_value *value = NULL;
    bool constant = false;
    *tensor = (struct tensor){0};
    if (!info)
        return true;
    if (!passed(api, api->is_constant(info, &constant), reason))
        return false;
    if (constant)
        return passed(api, api->initialiser(info, &value), reason) &&
               value_read(api, value, tensor, reason);
    if (!passed(api, api->type(info, &type), reason) ||
        (type && !passed(api, api->tensor_type(type, &its), reason)))
        return false;
    return its ? read_type(api, its, tensor, reason)
               : refuse(reason, "input %zu is no tensor", index);
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

bool tensor_check(const struct tensor *tensor, const char *name, int element, const int64_t *sizes,
                  size_t rank, struct reason *reason)
{
    if (tensor->element != element || tensor->rank != rank)
        return refuse(reason, "%s is of ONNX's type %d with %zu dimensions, must be %d with %zu",
                      name, tensor->element, tensor->rank, element, rank);
    for (size_t i = 0; i < rank; i++)
        if (tensor->size[i] != sizes[i])
            return refuse(reason, "dimension %zu of %s is %lld, must be %lld", i, name,
                          (long long)tensor->size[i], (long long)sizes[i]);
    return true;
}

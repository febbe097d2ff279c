/*
 * LinearAttention, of ONNX and of com.microsoft.
 */
#ifndef ECO_ORT_ATTENTION_H
#define ECO_ORT_ATTENTION_H

#include "ort/layer.h"

bool attention_describe(struct layer *layer, struct reason *reason);
bool attention_run(struct layer *layer, ort_context *context, struct reason *reason);

#endif /* ECO_ORT_ATTENTION_H */

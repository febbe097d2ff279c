/*
 * LSTM, GRU and RNN.
 */
#ifndef ECO_ORT_RECURRENT_H
#define ECO_ORT_RECURRENT_H

#include "ort/layer.h"

bool recurrent_describe(struct layer *layer, struct reason *reason);
bool recurrent_run(struct layer *layer, ort_context *context, struct reason *reason);

#endif /* ECO_ORT_RECURRENT_H */

/*
 * The operators that this provider knows.
 */
#include <string.h>

#include "ort/attention.h"
#include "ort/recurrent.h"

const struct op ops[] = {
    {"", "LSTM", recurrent_describe, recurrent_run},
    {"", "GRU", recurrent_describe, recurrent_run},
    {"", "RNN", recurrent_describe, recurrent_run},
    {"", "LinearAttention", attention_describe, attention_run},
    {"com.microsoft", "LinearAttention", attention_describe, attention_run},
    {0},
};

const struct op *find_op(const char *domain, const char *name)
{
    domain = strcmp(domain, "ai.onnx") == 0 ? "" : domain;
    for (const struct op *op = ops; op->name; op++)
        if (strcmp(op->domain, domain) == 0 && strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

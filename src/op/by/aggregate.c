/* aggregate.c - partial aggregates: one row out per task (states, not results); the caller merges them in order. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_aggregate;
const struct sk_op_ops sk_op_by_aggregate = {.name = "aggregate", .props = 0, .n_inputs_min = 1, .n_inputs_max = 1};

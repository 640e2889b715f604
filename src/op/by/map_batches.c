/* map_batches.c - a user function over batches. It may change the number of rows, and sees the batch: nothing can be promised. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_map_batches;
const struct sk_op_ops sk_op_by_map_batches = {.name = "map_batches", .props = 0, .n_inputs_min = 1, .n_inputs_max = 1};

/* count.c - how many rows: one row out per task; the caller adds them up. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_count;
const struct sk_op_ops sk_op_by_count = {.name = "count", .props = 0, .n_inputs_min = 1, .n_inputs_max = 1};

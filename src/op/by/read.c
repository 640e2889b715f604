/* read.c - rows from outside (files, ranges, items): each unit of the source is one task. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_read;
const struct sk_op_ops sk_op_by_read = {.name = "read", .props = SK_OP_SOURCE, .n_inputs_min = 0, .n_inputs_max = 0};

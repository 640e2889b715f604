/* union.c - several inputs, one after another. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_union;
const struct sk_op_ops sk_op_by_union = {.name = "union", .props = SK_OP_UNION, .n_inputs_min = 1, .n_inputs_max = UINT32_MAX};

/* add_column.c - one more column, computed from a batch: it must be as long as the batch, but may depend on all of it. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_add_column;
const struct sk_op_ops sk_op_by_add_column = {.name = "add_column", .props = SK_OP_ONE_TO_ONE, .n_inputs_min = 1, .n_inputs_max = 1};

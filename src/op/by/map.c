/* map.c - a user function from row to row. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_map;
const struct sk_op_ops sk_op_by_map = {.name = "map", .props = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

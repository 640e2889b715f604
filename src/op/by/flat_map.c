/* flat_map.c - a user function from a row to any number of rows. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_flat_map;
const struct sk_op_ops sk_op_by_flat_map = {.name = "flat_map", .props = SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

/* conform.c - the same rows in a schema that holds them exactly: other types, columns of nulls that other inputs of a union have. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_conform;
const struct sk_op_ops sk_op_by_conform = {
    .name = "conform", .props = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

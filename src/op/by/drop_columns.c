/* drop_columns.c - all columns but some. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_drop_columns;
const struct sk_op_ops sk_op_by_drop_columns = {
    .name = "drop_columns", .props = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

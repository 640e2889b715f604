/* select_columns.c - some columns, in the order asked for. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_select_columns;
const struct sk_op_ops sk_op_by_select_columns = {
    .name = "select_columns", .props = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

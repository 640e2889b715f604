/* rename_columns.c - the same columns by other names. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_rename_columns;
const struct sk_op_ops sk_op_by_rename_columns = {
    .name = "rename_columns", .props = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

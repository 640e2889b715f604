/* zip_rows.c - the rows of several inputs side by side. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_zip_rows;
const struct sk_op_ops sk_op_by_zip_rows = {
    .name = "zip_rows", .props = SK_OP_BY_ROW, .n_inputs_min = 2, .n_inputs_max = SK_PLAN_SIDES_MAX};

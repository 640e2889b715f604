/* split_rows.c - the rows of one side of a train and test split. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_split_rows;
const struct sk_op_ops sk_op_by_split_rows = {
    .name = "split_rows", .props = SK_OP_NO_MORE | SK_OP_NO_FUSE, .n_inputs_min = 1, .n_inputs_max = 1};

/* repartition.c - the same rows in blocks of so many rows. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_repartition;
const struct sk_op_ops sk_op_by_repartition = {
    .name = "repartition", .props = SK_OP_ONE_TO_ONE | SK_OP_NO_FUSE, .n_inputs_min = 1, .n_inputs_max = 1};

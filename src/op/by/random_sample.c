/* random_sample.c - each row with a probability. Which rows depends on their place in the task, so not on the row alone. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_random_sample;
const struct sk_op_ops sk_op_by_random_sample = {
    .name = "random_sample", .props = SK_OP_NO_MORE | SK_OP_NUMBERED, .n_inputs_min = 1, .n_inputs_max = 1};

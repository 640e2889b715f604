/* project.c - new columns from expressions over the old ones: as many rows, in the same order. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_project;
const struct sk_op_ops sk_op_by_project = {.name = "project", .props = SK_OP_ONE_TO_ONE, .n_inputs_min = 1, .n_inputs_max = 1};

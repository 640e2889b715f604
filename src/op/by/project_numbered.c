/* project_numbered.c - project with an expression that numbers the rows of its task. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_project_numbered;
const struct sk_op_ops sk_op_by_project_numbered = {
    .name = "project_numbered", .props = SK_OP_ONE_TO_ONE | SK_OP_NUMBERED, .n_inputs_min = 1, .n_inputs_max = 1};

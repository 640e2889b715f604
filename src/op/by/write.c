/* write.c - rows to files or elsewhere. Its output rows are reports of what was written, one or more a task. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_write;
const struct sk_op_ops sk_op_by_write = {.name = "write", .props = SK_OP_WRITES | SK_OP_NUMBERED, .n_inputs_min = 1, .n_inputs_max = 1};

/* limit.c - the first n rows. No task: exec counts rows on references, and tells the stage before where it may stop. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_limit;
const struct sk_op_ops sk_op_by_limit = {.name = "limit", .props = SK_OP_LIMIT | SK_OP_NO_MORE, .n_inputs_min = 1, .n_inputs_max = 1};

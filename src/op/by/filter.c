/* filter.c - the rows for which a function or expression is true. */
#include "op/op.h"

extern const struct sk_op_ops sk_op_by_filter;
const struct sk_op_ops sk_op_by_filter = {.name = "filter", .props = SK_OP_NO_MORE | SK_OP_BY_ROW, .n_inputs_min = 1, .n_inputs_max = 1};

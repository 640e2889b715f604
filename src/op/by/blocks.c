/* blocks.c - blocks that exist already. They are passed on as they are, or read by the stage after. */
#include "op/op.h"

static sk_rc check(const struct sk_plan_node *node, struct sk_err *err) {
    if (node->d.n_units) return SK_ERR(err, SK_EINVAL, "has %u units; a source over blocks has none", node->d.n_units);
    return SK_OK;
}

extern const struct sk_op_ops sk_op_by_blocks;
const struct sk_op_ops sk_op_by_blocks = {.name = "blocks", .props = SK_OP_SOURCE, .n_inputs_min = 0, .n_inputs_max = 0, .check = check};

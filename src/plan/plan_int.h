/* plan_int.h - shared inside the plan layer: the tree of vertices that the rules rewrite.
 *
 * The logical DAG is expanded into a tree first (a node with two consumers gives two vertices and
 * is computed twice: streaming it to both would have to buffer for the slower one), so every vertex
 * has one consumer and a rule needs to look no further than its parent. */
#ifndef SK_PLAN_INT_H
#define SK_PLAN_INT_H

#include "base/arena.h"
#include "base/containers/vec.h"
#include "plan/plan.h"

#define SK_PLAN_STAGES_MAX 4096u /* vertices: doubling unions would grow without end */
#define SK_VERT_NONE UINT32_MAX

struct sk_plan {
    /* in their own memory: sk_plan_get pointers stay valid while the plan grows */
    SK_VEC(struct sk_plan_node *) nodes;
    struct sk_arena mem;
    uint32_t left_out; /* SK_RULE_* */
};

struct sk_vert {
    enum sk_stage_kind kind;
    bool dead;       /* merged into another one */
    uint32_t parent; /* consumer; SK_VERT_NONE: the root */
    uint32_t n_in, *in;
    uint32_t n_nodes, *nodes; /* first to last */
    int64_t cap_rows, limit;
    uint32_t props;
};

struct sk_tree {
    const struct sk_plan *plan;
    SK_VEC(struct sk_vert) v;
    uint32_t root;
    struct sk_arena *mem;
};

/* Properties of a then b as one operator. */
static inline uint32_t sk_props_chain(uint32_t a, uint32_t b) {
    const uint32_t both = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW;
    const uint32_t any = SK_OP_SOURCE | SK_OP_WRITES | SK_OP_NO_FUSE | SK_OP_LIMIT | SK_OP_UNION |
                         SK_OP_PACKS | SK_OP_EXCHANGE | SK_OP_MERGE;
    /* a one-to-one operator gives no more rows than it takes, too */
    const uint32_t few = SK_OP_ONE_TO_ONE | SK_OP_NO_MORE;
    uint32_t p = (a & b & both) | ((a | b) & any);
    return (a & few) && (b & few) && !(p & SK_OP_ONE_TO_ONE) ? p | SK_OP_NO_MORE : p;
}

void sk_rule_limit(struct sk_tree *t); /* cannot fail: rewires only */
sk_rc sk_rule_fuse(struct sk_tree *t, struct sk_err *err) SK_MUST_USE;
#endif

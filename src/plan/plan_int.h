/* plan_int.h - shared inside the plan layer: the tree of vertices that the rules rewrite.
 *
 * The logical DAG is first expanded into a tree: a node with two consumers gives two vertices and
 * is computed twice (streaming it to both would have to buffer for the slower one). So every vertex
 * has one consumer, and a rule needs only a vertex and its parent. */
#ifndef SK_PLAN_INT_H
#define SK_PLAN_INT_H

#include "base/arena.h"
#include "base/containers/vec.h"
#include "plan/plan.h"

/* most vertices: a chain of unions of a node with itself doubles the tree each time */
#define SK_PLAN_STAGES_MAX 4096u
#define SK_VERT_NONE UINT32_MAX

struct sk_plan {
    /* Each node lies in memory of its own, so that pointers from sk_plan_get stay valid while the
     * plan grows. */
    SK_VEC(struct sk_plan_node *) nodes;
    struct sk_arena mem;
    uint32_t left_out; /* SK_RULE_* bits of the rules that are not applied */
};

struct sk_vert {
    enum sk_stage_kind kind;
    bool dead;       /* merged into another vertex */
    uint32_t parent; /* the consumer; SK_VERT_NONE for the root */
    uint32_t n_in, *in;
    uint32_t n_nodes, *nodes; /* fused nodes, first to last */
    int64_t cap_rows, limit;
    uint32_t props;
};

struct sk_tree {
    const struct sk_plan *plan;
    SK_VEC(struct sk_vert) v;
    uint32_t root;
    struct sk_arena *mem;
};

/* Returns the properties of operator a followed by b, as one operator. */
static inline uint32_t sk_props_chain(uint32_t a, uint32_t b) {
    const uint32_t both = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW;
    const uint32_t any = SK_OP_SOURCE | SK_OP_WRITES | SK_OP_NO_FUSE | SK_OP_LIMIT | SK_OP_UNION |
                         SK_OP_PACKS | SK_OP_EXCHANGE | SK_OP_MERGE;
    /* ONE_TO_ONE implies NO_MORE */
    const uint32_t few = SK_OP_ONE_TO_ONE | SK_OP_NO_MORE;
    uint32_t p = (a & b & both) | ((a | b) & any);
    return (a & few) && (b & few) && !(p & SK_OP_ONE_TO_ONE) ? p | SK_OP_NO_MORE : p;
}

void sk_rule_limit(struct sk_tree *t); /* cannot fail, since it only rewires vertices */
sk_rc sk_rule_fuse(struct sk_tree *t, struct sk_err *err) SK_MUST_USE;
#endif

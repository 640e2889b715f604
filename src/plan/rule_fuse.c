/* rule_fuse.c - the rule that fuses neighbouring operators with the same resources: one task runs
 * them, without a block between them.
 *
 * The operators of a task call each other, one level deeper for each, so a chain of thousands
 * becomes several stages.
 *
 * Two neighbours fuse if both are tasks (not actors, not existing blocks), have the same shape,
 * concurrency, retries and max_calls, and neither is NO_FUSE. A writer that needs a number of rows
 * at once is not fused. An operator that gives packs is the last of its stage, an exchange the
 * first. The properties of the fused stage follow from its parts (sk_props_chain); its cap is that
 * of the last part. */
#include "plan/plan_int.h"

#define FUSED_MAX 64u

static bool same(struct sk_times a, struct sk_times b) {
    return a.given == b.given && (!a.given || a.n == b.n);
}

static bool fits(const struct sk_tree *t, const struct sk_vert *a, const struct sk_vert *b) {
    if (a->kind != SK_STAGE_TASKS || b->kind != SK_STAGE_TASKS || b->n_in != 1 ||
        a->n_nodes + b->n_nodes > FUSED_MAX || ((a->props | b->props) & SK_OP_NO_FUSE) ||
        (a->props & SK_OP_PACKS) || (b->props & SK_OP_EXCHANGE))
        return false;
    const struct sk_node_desc *x = &t->plan->nodes.p[a->nodes[0]]->d,
                              *y = &t->plan->nodes.p[b->nodes[0]]->d;
    if ((b->props & SK_OP_WRITES) && y->batch_rows > 0)
        /* such a writer puts rows of several tasks into one file, so exec coalesces blocks before
         * it */
        return false;
    return x->shape == y->shape && x->cpu_e4 == y->cpu_e4 && x->gpu_e4 == y->gpu_e4 &&
           x->max_tasks == y->max_tasks && same(x->retries, y->retries) &&
           x->max_calls == y->max_calls;
}

/* Merges vertex a into its consumer b. false: out of memory. */
static bool merge(struct sk_tree *t, uint32_t ai, uint32_t bi) {
    struct sk_vert *a = &t->v.p[ai], *b = &t->v.p[bi];
    uint32_t *nodes = sk_arena_alloc(t->mem, (a->n_nodes + b->n_nodes) * sizeof *nodes);
    if (!nodes) return false;
    memcpy(nodes, a->nodes, a->n_nodes * sizeof *nodes);
    memcpy(nodes + a->n_nodes, b->nodes, b->n_nodes * sizeof *nodes);
    b->nodes = nodes;
    b->n_nodes += a->n_nodes;
    b->props = sk_props_chain(a->props, b->props);
    b->in = a->in;
    b->n_in = a->n_in;
    for (uint32_t i = 0; i < b->n_in; i++) t->v.p[b->in[i]].parent = bi;
    a->dead = true;
    return true;
}

sk_rc sk_rule_fuse(struct sk_tree *t, struct sk_err *err) {
    for (uint32_t i = 0; i < t->v.n; i++)
        while (!t->v.p[i].dead && t->v.p[i].n_in == 1 &&
               fits(t, &t->v.p[t->v.p[i].in[0]], &t->v.p[i]))
            if (!merge(t, t->v.p[i].in[0], i)) return SK_ERR(err, SK_ENOMEM, "fuse operators");
    return SK_OK;
}

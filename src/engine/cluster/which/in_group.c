/* in_group.c - the book of a cluster: the bundle of a placement group that a task gets. */
#include "engine/cluster/book_int.h"

struct sk_bgroup *sk_bgroup_of(const struct sk_book *b, uint64_t id) {
    SK_LIST_EACH (it, &b->groups)
        if (sk_bgroup_in(it)->id == id) return sk_bgroup_in(it);
    return NULL;
}

struct sk_bnode *sk_bgroup_node(struct sk_book *b, const struct sk_bgroup *g,
                                const struct sk_btask *t, const struct sk_which_task *w,
                                uint32_t *bundle) {
    const struct sk_bshape *s = b->shapes.p[t->shape];
    struct sk_bnode *best = NULL;
    struct sk_which_node of_best = {0};
    for (uint32_t i = 0; i < g->n; i++) {
        struct sk_bnode *n = sk_bnode_of(b, g->b[i].node);
        if ((s->bundle >= 0 && i != (uint32_t)s->bundle) || !n || !n->alive || n->draining)
            continue;
        if (t->node_only && n->number != t->wish) continue;
        struct sk_which_node x[] = {of_best, b->which.p[n->number - 1]};
        x[1].alive = true;
        x[1].total = g->b[i].total;
        x[1].used = g->b[i].used;
        x[1].held = g->b[i].kept;
        if (sk_which_node(w, x, 2) != 1) continue;
        of_best = x[1];
        best = n;
        *bundle = i;
    }
    SK_DCHECK(!best || best->alive);
    return best;
}

void sk_bgroup_take(struct sk_bgroup *g, const struct sk_btask *t, uint32_t node,
                    const struct sk_res *need, int sign) {
    SK_DCHECK(sign == 1 || sign == -1);
    SK_ASSERT(!g || t->bundle < g->n);
    /* A task on an earlier node of the bundle takes nothing of it where it is now. */
    if (!g || g->b[t->bundle].node != node) return;
    sk_res_add(&g->b[t->bundle].used, need, sign);
    if (t->is_init) sk_res_add(&g->b[t->bundle].kept, need, sign);
    SK_DCHECK(g->b[t->bundle].kept.amount[SK_RES_CPU] <= g->b[t->bundle].used.amount[SK_RES_CPU]);
}

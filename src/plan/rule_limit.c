/* rule_limit.c - the rule that applies a limit (first n rows) as early as possible and caps the
 * tasks before it.
 *
 * A limit moves above ONE_TO_ONE operators, which keep number and order of rows. Of neighbouring
 * limits only the smaller one stays. The stage before the final limit gets cap_rows: its tasks may
 * stop after so many rows, since more are not used. The cap passes through a union to all its
 * inputs, but never above an exchange, whose tasks need all rows. A limit does not move above an
 * operator that writes, and does not cap it, since all its rows have to be written. */
#include "plan/plan_int.h"

static void replace_in(struct sk_tree *t, uint32_t parent, uint32_t was, uint32_t now) {
    if (parent == SK_VERT_NONE) {
        t->root = now;
        return;
    }
    struct sk_vert *p = &t->v.p[parent];
    for (uint32_t i = 0; i < p->n_in; i++)
        if (p->in[i] == was) p->in[i] = now;
}

static bool may_pass(const struct sk_vert *x) {
    return (x->kind == SK_STAGE_TASKS || x->kind == SK_STAGE_ACTORS) && x->n_in == 1 &&
           (x->props & SK_OP_ONE_TO_ONE) && !(x->props & (SK_OP_WRITES | SK_OP_EXCHANGE));
}

/* Moves the limit at li one step towards the sources; false: it can go no further. */
static bool lift(struct sk_tree *t, uint32_t li) {
    struct sk_vert *l = &t->v.p[li];
    uint32_t xi = l->in[0];
    struct sk_vert *x = &t->v.p[xi];
    if (x->kind == SK_STAGE_LIMIT) {
        l->limit = SK_MIN(l->limit, x->limit);
        l->in[0] = x->in[0];
        t->v.p[x->in[0]].parent = li;
        x->dead = true;
        return true;
    }
    if (!may_pass(x)) return false;
    replace_in(t, l->parent, li, xi);
    x->parent = l->parent;
    l->in[0] = x->in[0];
    t->v.p[x->in[0]].parent = li;
    x->in[0] = li;
    l->parent = xi;
    return true;
}

static void cap(struct sk_tree *t, uint32_t vi, int64_t rows) {
    struct sk_vert *v = &t->v.p[vi];
    if (v->kind == SK_STAGE_UNION) {
        for (uint32_t i = 0; i < v->n_in; i++) cap(t, v->in[i], rows);
    } else if ((v->kind == SK_STAGE_TASKS || v->kind == SK_STAGE_ACTORS) &&
               !(v->props & SK_OP_WRITES)) {
        v->cap_rows = rows;
    }
}

void sk_rule_limit(struct sk_tree *t) {
    /* limits nearer to the output are moved first, so that they absorb those above */
    for (uint32_t i = 0; i < t->v.n; i++)
        while (t->v.p[i].kind == SK_STAGE_LIMIT && !t->v.p[i].dead && lift(t, i));
    for (uint32_t i = 0; i < t->v.n; i++)
        if (t->v.p[i].kind == SK_STAGE_LIMIT && !t->v.p[i].dead)
            cap(t, t->v.p[i].in[0], t->v.p[i].limit);
}

/* need.c - what tasks and actors need, as shapes: those of this process, and those that nodes hand
 * on. Called with the lock held. Cost: a comparison with each shape, and with each environment. */
#include "engine/guest/guest_int.h"

#include <stdlib.h>

sk_rc sk_gneed_intern(struct sk_ghost *x, struct sk_bytes b, uint32_t *out, struct sk_err *err) {
    uint32_t i = 0;
    while (i < x->envs.n &&
           (x->envs.p[i]->len != b.n || (b.n && memcmp(x->envs.p[i]->data, b.p, b.n) != 0)))
        i++;
    SK_DCHECK(x->g.ops->env);
    *out = i + 1;
    if (i < x->envs.n) return SK_OK;
    struct sk_gval *v = sk_gval_new(0, b);
    struct sk_gorder o = {
        .kind = SK_GORDER_ENV, .id = i + 1, .def_n = b.n, .def = sk_memdup(TAG, b.p, b.n)};
    if (v && o.def && sk_vec_push(&x->envs, TAG, v)) {
        sk_ghost_order(x, o);
        return SK_OK;
    }
    sk_gval_unref(x, v);
    sk_free(o.def);
    return SK_ERR(err, SK_ENOMEM, "environment of %zu bytes", b.n);
}

static bool same_need(const struct sk_need *a, const struct sk_need *b) {
    return a->env == b->env && a->where == b->where && a->group == b->group &&
           (!a->group || a->bundle == b->bundle) && !a->capture == !b->capture &&
           !memcmp(&a->res, &b->res, sizeof a->res);
}

sk_rc sk_gneed_shape(struct sk_ghost *x, const struct sk_need *n, sk_shape *out,
                     struct sk_err *err) {
    if ((n->group && !x->g.ops->group) || n->more || (n->env && !x->g.ops->env))
        return SK_ERR(err, SK_ENOSYS, "this engine has no %s",
                      n->more  ? "such resources"
                      : n->env ? "environments of tasks"
                               : "placement groups");
    if (n->env > x->envs.n || n->where > x->envs.n)
        return SK_ERR(err, SK_EINVAL, "no such environment");
    sk_rc rc =
        n->group ? sk_ggroup_check(x, n, err) : SK_ERR(err, SK_EINFEASIBLE, "there is no node");
    for (uint32_t i = 0; !n->group && rc != SK_OK && i < x->nodes.n; i++)
        if (x->nodes.p[i].alive) rc = sk_res_check(&n->res, &x->nodes.p[i].total, &x->names, err);
    uint32_t i = 0;
    while (rc == SK_OK && i < x->shapes.n && !same_need(&x->shapes.p[i], n)) i++;
    if (rc == SK_OK && i == x->shapes.n && !sk_vec_push(&x->shapes, TAG, *n))
        rc = SK_ERR(err, SK_ENOMEM, "shape");
    if (rc == SK_OK) *out = i + 1;
    return rc;
}

sk_rc sk_gneed_of_node(struct sk_ghost *x, const struct sk_foreign_need *n, sk_shape *out,
                       struct sk_err *err) {
    struct sk_need need = {.res = n->res};
    SK_ASSERT(x->g.refs);
    if (n->env.n) SK_TRY(sk_gneed_intern(x, n->env, &need.env, err));
    if (n->where.n) SK_TRY(sk_gneed_intern(x, n->where, &need.where, err));
    return sk_gneed_shape(x, &need, out, err);
}

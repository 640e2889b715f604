/* group.c - placement groups of the inline engine: one task runs at a time, so a group has its bundles when the machine could hold them, and that is
 * all there is to reserve. What asks for a removed group is refused. An environment of its own would need a process of its own. */
#include "engine/inline/inline_int.h"

struct sk_igroup {
    struct sk_list link;
    uint64_t id, ready_oid;
    uint32_t n, strategy;
    bool ready;
    struct sk_name *name;
    struct sk_res b[];
};

static struct sk_igroup *group_of(struct sk_list *it) { return sk_container_of(it, struct sk_igroup, link); }

static struct sk_igroup *find(struct sk_inline *x, uint64_t id) {
    SK_LIST_EACH (it, &x->groups)
        if (group_of(it)->id == id) return group_of(it);
    return NULL;
}

static bool fits(const struct sk_res *need, const struct sk_res *have) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > have->amount[i]) return false;
    return true;
}

sk_rc sk_inline_need(struct sk_engine *e, const struct sk_need *n, sk_shape *out, struct sk_err *err) {
    struct sk_inline *x = sk_container_of(e, struct sk_inline, e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_igroup *g = n->group ? find(x, n->group) : NULL;
    if (n->env) rc = SK_ERR(err, SK_EINVAL, "environment %u is not defined", n->env);
    else if (n->group && !g) rc = SK_ERR(err, SK_EGROUP, "the placement group was removed");
    else if (g && (n->bundle < -1 || n->bundle >= (int32_t)g->n))
        rc = SK_ERR(err, SK_EINVAL, "the placement group has bundles 0 to %u, and no bundle %d", g->n - 1, n->bundle);
    bool ok = !g;
    for (uint32_t i = 0; g && rc == SK_OK && i < g->n; i++) ok |= (n->bundle < 0 || n->bundle == (int32_t)i) && fits(&n->res, &g->b[i]);
    if (rc == SK_OK && !ok) rc = SK_ERR(err, SK_EINFEASIBLE, "a task or actor asks for more than a bundle of its placement group holds");
    sk_inline_unlock(x);
    return rc == SK_OK ? e->ops->shape(e, &n->res, out, err) : rc;
}

sk_rc sk_inline_env_define(struct sk_engine *e, struct sk_bytes env, uint32_t *out, struct sk_err *err) {
    (void)e, (void)env, (void)out;
    return SK_ERR(err, SK_ENOSYS,
                  "a runtime_env of one task or actor needs a process of its own, and the inline engine has none; use the local one");
}

sk_rc sk_inline_group_create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out, sk_oid *ready, struct sk_err *err) {
    struct sk_inline *x = sk_container_of(e, struct sk_inline, e);
    struct sk_res sum = {.amount = {0}};
    if (!s->n) return SK_ERR(err, SK_EINVAL, "a placement group needs a bundle");
    struct sk_igroup *g = sk_calloc(TAG, sizeof *g + s->n * sizeof g->b[0]);
    struct sk_blob *val = NULL;
    sk_rc rc = SK_OK;
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group");
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t r = 0; r < SK_RES_MAX; r++) sum.amount[r] += s->bundles[i].amount[r];
    memcpy(g->b, s->bundles, s->n * sizeof g->b[0]);
    g->n = s->n;
    g->strategy = s->strategy;
    sk_inline_lock(x);
    g->ready = fits(&sum, &x->total) && !(s->strategy == SK_GROUP_STRICT_SPREAD && s->n > 1);
    g->id = x->next_id++;
    g->ready_oid = x->next_id++;
    if (x->closed) rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    if (rc == SK_OK)
        rc = sk_names_add(&x->group_names, "placement group", (struct sk_bytes){s->space, s->space ? strlen(s->space) : 0},
                          (struct sk_bytes){s->name, s->name ? strlen(s->name) : 0}, (struct sk_bytes){NULL, 0}, g, &g->name, err);
    if (rc == SK_OK && g->ready) rc = sk_blob_bytes(x, SK_KIND_GROUP_READY, (struct sk_bytes){&g->id, 8}, &val, err);
    if (rc == SK_OK) rc = sk_iobj_new(x, g->ready_oid, val, NULL, 0, err);
    if (rc == SK_OK && (rc = sk_own_hold(x->own, g->ready_oid, err)) != SK_OK) {
        sk_iobj_unref(x, g->ready_oid);
        val = NULL;
    }
    if (rc == SK_OK) {
        sk_list_init(&g->link);
        sk_list_push_back(&x->groups, &g->link);
        *out = g->id;
        *ready = (sk_oid){g->ready_oid};
    } else {
        sk_blob_unref(x, val);
        sk_name_free(&g->name);
        sk_free(g);
    }
    sk_inline_unlock(x);
    return rc;
}

sk_rc sk_inline_group_remove(struct sk_engine *e, uint64_t id, struct sk_err *err) {
    struct sk_inline *x = sk_container_of(e, struct sk_inline, e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_igroup *g = find(x, id);
    if (!g) {
        rc = SK_ERR(err, SK_ENOENT, "there is no such placement group (any more)");
    } else {
        struct sk_iobj *o = sk_own_get(x->own, g->ready_oid);
        if (o && !o->val) (void)!sk_blob_engine_error(x, SK_EGROUP, "the placement group was removed before it had its bundles", &o->val);
        sk_own_unhold(x->own, g->ready_oid);
        sk_list_del(&g->link);
        sk_name_free(&g->name);
        sk_free(g);
        sk_iobj_drain(x);
    }
    sk_inline_unlock(x);
    return rc;
}

size_t sk_inline_groups(struct sk_engine *e, void *buf, size_t cap) {
    struct sk_inline *x = sk_container_of(e, struct sk_inline, e);
    uint8_t *to = buf;
    size_t need = 0;
    sk_inline_lock(x);
    for (int pass = 0; pass < 2; pass++) {
        SK_LIST_EACH (it, &x->groups) {
            const struct sk_igroup *g = group_of(it);
            struct sk_bytes name = g->name ? g->name->name : (struct sk_bytes){"", 0}, space = g->name ? g->name->space : name;
            struct sk_group_row row = {.id = g->id,
                                       .n = g->n,
                                       .strategy = g->strategy,
                                       .state = g->ready,
                                       .text_n = (uint32_t)SK_ALIGN(name.n + space.n + 2, 8),
                                       .reserved_ns = g->ready ? 0 : -1};
            if (!pass) {
                need += sizeof row + row.text_n + g->n * sizeof g->b[0];
                continue;
            }
            memcpy(to, &row, sizeof row);
            to += sizeof row;
            memset(to, 0, row.text_n);
            if (name.n) memcpy(to, name.p, name.n);
            if (space.n) memcpy(to + name.n + 1, space.p, space.n);
            memcpy(to + row.text_n, g->b, g->n * sizeof g->b[0]);
            to += row.text_n + g->n * sizeof g->b[0];
        }
        if (need > cap) break;
    }
    sk_inline_unlock(x);
    return need;
}

void sk_inline_groups_free(struct sk_inline *x) {
    SK_LIST_EACH_SAFE (it, tmp, &x->groups) {
        sk_name_free(&group_of(it)->name);
        sk_free(group_of(it));
    }
    sk_list_init(&x->groups);
}

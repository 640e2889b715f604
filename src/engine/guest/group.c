/* group.c - placement groups of a guest engine: their names, rows and `ready` objects. The guest
 * reserves the bundles (SK_NEWS_GROUP), and runs tasks in them.
 *
 * A group has two ids: its own, and the next one, of its `ready` object, which the engine holds. */
#include "engine/guest/guest_int.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/wire.h"

static struct sk_ggroup *group_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_ggroup, link);
}

/* NULL: there is none */
static struct sk_ggroup *find(const struct sk_ghost *x, uint64_t id) {
    SK_LIST_EACH (it, &x->groups)
        if (group_of(it)->id == id) return group_of(it);
    return NULL;
}

static void group_free(struct sk_ggroup *g) {
    sk_name_free(&g->name);
    sk_free(g);
}

/* What the guest has to know, in one block: the spec, and what it points to. */
static struct sk_group_spec *copy_of(const struct sk_group_spec *s) {
    size_t n = s->n, wheres = s->wheres ? n * sizeof *s->wheres : 0;
    struct sk_group_spec *c = sk_calloc(TAG, sizeof *c + n * sizeof *s->bundles + wheres);
    if (!c) return NULL;
    struct sk_res *bundles = (struct sk_res *)(void *)(c + 1);
    memcpy(bundles, s->bundles, n * sizeof *bundles);
    *c = (struct sk_group_spec){.bundles = bundles, .n = s->n, .strategy = s->strategy};
    if (wheres) c->wheres = memcpy(bundles + n, s->wheres, wheres);
    return c;
}

sk_rc sk_ggroup_create(struct sk_ghost *x, const struct sk_group_spec *s, uint64_t *out,
                       sk_oid *ready, struct sk_err *err) {
    uint64_t id = x->next_id;
    if (!s->n) return SK_ERR(err, SK_EINVAL, "a placement group needs a bundle");
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            if (s->bundles[i].amount[r] < 0)
                return SK_ERR(err, SK_EINVAL, "bundle %u asks for a negative amount", i);
        if (s->wheres && s->wheres[i] > x->envs.n)
            return SK_ERR(err, SK_EINVAL, "bundle %u: no such choice of nodes", i);
    }
    struct sk_ggroup *g =
        sk_calloc(TAG, sizeof *g + s->n * (sizeof g->bundle[0] + sizeof g->node[0]));
    struct sk_group_spec *spec = copy_of(s);
    sk_rc rc = g && spec ? SK_OK : SK_ERR(err, SK_ENOMEM, "placement group");
    if (rc == SK_OK)
        rc = sk_names_add(&x->group_names, "placement group", sk_text(s->space), sk_text(s->name),
                          (struct sk_bytes){NULL, 0}, g, &g->name, err);
    if (rc == SK_OK) rc = sk_gobj_new(x, id + 1, 0, NULL, NULL, 0, err);
    if (rc == SK_OK && (rc = sk_own_hold(x->own, id + 1, err)) != SK_OK) sk_gobj_unref(x, id + 1);
    if (rc != SK_OK) {
        if (g) group_free(g);
        sk_free(spec);
        return rc;
    }
    x->next_id += 2;
    g->id = id;
    g->n = s->n;
    g->strategy = s->strategy;
    g->since_ns = sk_now_ns();
    g->reserved_ns = -1;
    g->bundle = (struct sk_res *)(void *)(g + 1);
    g->node = (uint32_t *)(void *)(g->bundle + g->n);
    memcpy(g->bundle, s->bundles, g->n * sizeof *g->bundle);
    sk_list_init(&g->link);
    sk_list_push_back(&x->groups, &g->link);
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_GROUP, .id = id, .def = spec});
    *out = id;
    *ready = (sk_oid){id + 1};
    return SK_OK;
}

/* Gives the `ready` object its value. */
static void set_ready(struct sk_ghost *x, const struct sk_ggroup *g, struct sk_gval *v) {
    struct sk_gobj *o = sk_own_get(x->own, g->id + 1);
    if (!v) abort(); /* no memory: a get of the object would never return */
    SK_ASSERT(o && !sk_gobj_there(o) && !sk_id_place(g->id));
    o->val = v;
    sk_gtask_exists(x, g->id + 1, o);
}

sk_rc sk_ggroup_remove(struct sk_ghost *x, uint64_t id, struct sk_err *err) {
    struct sk_ggroup *g = find(x, id);
    if (sk_id_place(id))
        return SK_ERR(err, SK_EINVAL,
                      "a task made the placement group: remove it in a task of the same node");
    if (!g) return SK_ERR(err, SK_ENOENT, "there is no such placement group (any more)");
    sk_list_del(&g->link);
    if (g->reserved_ns < 0)
        set_ready(
            x, g,
            sk_gval_error(SK_EGROUP, "the placement group was removed before it had its bundles"));
    sk_own_unhold(x->own, id + 1);
    sk_gobj_drain(x);
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_UNGROUP, .id = id});
    group_free(g);
    pthread_cond_broadcast(&x->moved);
    return SK_OK;
}

void sk_ggroup_news(struct sk_ghost *x, const struct sk_guest_news *w) {
    struct sk_ggroup *g = find(x, w->id);
    uint32_t there = 0;
    if (!g) return;
    SK_ASSERT(w->n == g->n);
    memcpy(g->node, w->nodes, g->n * sizeof *g->node);
    for (uint32_t i = 0; i < g->n; i++) there += g->node[i] != 0;
    g->ready = there == g->n;
    SK_DCHECK(there <= g->n);
    if (!g->ready || g->reserved_ns >= 0) return;
    g->reserved_ns = sk_now_ns() - g->since_ns;
    set_ready(x, g, sk_gval_new(SK_KIND_GROUP_READY, (struct sk_bytes){&g->id, sizeof g->id}));
}

size_t sk_ggroups_write(struct sk_ghost *x, void *buf, size_t cap) {
    struct sk_wr w = sk_wr_init(buf, cap);
    SK_LIST_EACH (it, &x->groups) {
        const struct sk_ggroup *g = group_of(it);
        struct sk_group_row row = {.id = g->id,
                                   .n = g->n,
                                   .strategy = g->strategy,
                                   .state = g->ready,
                                   .reserved_ns = g->reserved_ns};
        sk_group_row_write(&w, row, g->name, g->bundle, g->node);
    }
    return w.n;
}

sk_rc sk_ggroup_check(const struct sk_ghost *x, const struct sk_need *n, struct sk_err *err) {
    const struct sk_ggroup *g = find(x, n->group);
    if (sk_id_place(n->group))
        return SK_ERR(err, SK_EINFEASIBLE,
                      "a task made the placement group: what is in it can be submitted by tasks of "
                      "the same node only");
    if (!g) return SK_ERR(err, SK_EGROUP, "the placement group was removed");
    if (n->bundle < -1 || (n->bundle >= 0 && (uint32_t)n->bundle >= g->n))
        return SK_ERR(err, SK_EINVAL, "the placement group has bundles 0 to %u, and no bundle %d",
                      g->n - 1, n->bundle);
    for (uint32_t i = 0; i < g->n; i++) {
        bool fits = n->bundle < 0 || i == (uint32_t)n->bundle;
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            fits = fits && n->res.amount[r] <= g->bundle[i].amount[r];
        if (fits) return SK_OK;
    }
    return SK_ERR(err, SK_EINFEASIBLE,
                  "a task or actor asks for more than %s of its placement group holds",
                  n->bundle < 0 ? "any bundle" : "the bundle");
}

void sk_ggroups_free(struct sk_ghost *x) {
    for (struct sk_list *it; (it = sk_list_first(&x->groups));) {
        sk_list_del(it);
        group_free(group_of(it));
    }
}

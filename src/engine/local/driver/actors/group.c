/* group.c - placement groups and process environments of the local engine. Runs with the lock held.
 *
 * engine/place decides which group gets which bundles. This file has the groups' `ready` objects,
 * names and ends: tasks and actors that run in a removed group are killed and not run again; those
 * that wait for the group fail with SK_EGROUP. Invariant: a group in l->groups.all is also in
 * place.groups. Cost: a walk over the groups, of which there are few. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/books/group_row.h"
#include "engine/local/driver/local_int.h"

static struct sk_lgroup *group_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_lgroup, link);
}

static struct sk_lgroup *find(struct sk_local *l, uint64_t id) {
    SK_LIST_EACH (it, &l->groups.all)
        if (group_of(it)->id == id) return group_of(it);
    return NULL;
}

/* Says which bundles of another engine's group are here. */
static void settle(struct sk_local *l, struct sk_place_group *g, const bool *elsewhere) {
    SK_ASSERT(elsewhere);
    for (uint32_t i = 0; i < g->n; i++)
        if (!g->b[i].there) sk_place_bundle_elsewhere(&l->place, g, i, elsewhere[i]);
}

sk_rc sk_lgroup_create(struct sk_local *l, uint32_t proc, uint64_t base,
                       const struct sk_lgroup_spec *s, struct sk_err *err) {
    struct sk_obj *o = NULL;
    const struct sk_lgroup *known = s->id ? find(l, s->id) : NULL;
    if (known && known->place->n != s->n)
        return SK_ERR(err, SK_EINVAL, "the placement group has %u bundles", known->place->n);
    if (known) {
        settle(l, known->place, s->elsewhere);
        return SK_OK;
    }
    struct sk_lgroup *g = sk_calloc(SK_TAG_ENGINE, sizeof *g);
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group");
    bool apart = s->strategy == SK_GROUP_STRICT_SPREAD && !s->id;
    sk_rc rc = sk_place_group_add(&l->place, s->id ? s->id : base, s->bundles, s->n, apart,
                                  &g->place, err);
    if (rc == SK_OK)
        rc = sk_names_add(&l->groups.names, "placement group", s->space, s->name,
                          (struct sk_bytes){NULL, 0}, g, &g->name, err);
    if (rc == SK_OK && !s->id) rc = sk_obj_new(l, base + 1, proc, &o, err);
    if (rc == SK_OK && !s->id && (rc = sk_own_hold(l->own, base + 1, err)) != SK_OK) {
        /* drops the caller's reference, since the caller gets an error */
        SK_IGNORE(sk_own_unref(l->own, base + 1, proc, 1, NULL));
        sk_obj_drain(l);
    }
    if (rc != SK_OK) {
        if (g->place) sk_place_group_remove(&l->place, g->place);
        sk_name_free(&g->name);
        sk_free(g);
        return rc;
    }
    g->id = s->id ? s->id : base;
    g->ready = s->id ? 0 : base + 1;
    if (s->id) settle(l, g->place, s->elsewhere);
    g->strategy = s->strategy;
    g->since_ns = sk_now_ns();
    g->reserved_ns = -1;
    sk_list_init(&g->link);
    sk_list_push_back(&l->groups.all, &g->link);
    return SK_OK;
}

static void set_ready(struct sk_local *l, uint64_t oid, uint32_t kind, const void *p, size_t n) {
    struct sk_val v = {.kind = kind, .where = SK_V_INLINE, .len = n};
    sk_obj_set(l, oid, SK_PROC_DRIVER, &v, p, (struct sk_ids){NULL, 0});
}

void sk_lgroup_ready(struct sk_local *l, const struct sk_place_group *place) {
    struct sk_lgroup *g = find(l, place->id);
    if (!g) return;
    g->reserved_ns = sk_now_ns() - g->since_ns;
    if (g->ready) set_ready(l, g->ready, SK_KIND_GROUP_READY, &g->id, sizeof g->id);
}

sk_rc sk_lgroup_remove(struct sk_local *l, uint64_t id, struct sk_err *err) {
    struct sk_lgroup *g = find(l, id);
    if (!g) return SK_ERR(err, SK_ENOENT, "there is no such placement group (any more)");
    sk_list_del(&g->link);
    sk_name_free(&g->name);
    bool was_ready = g->place->ready;
    for (uint32_t i = 0; i < l->pool.n_used; i++) { /* kill the workers that run in the group */
        struct sk_lworker *w = l->pool.workers[i];
        if (!w || w->place.in != g->place) continue;
        if (w->actor) sk_actor_ends(w->actor);
        sk_driver_link_kill(l, w, "its placement group was removed");
    }
    sk_place_group_remove(&l->place, g->place);
    g->place = NULL;
    SK_LIST_EACH_SAFE (it, tmp, &l->actors.all) { /* actors that have no worker yet */
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
        if (a->state != SK_A_DEAD && !a->worker && sk_place_shape_dead(&l->place, a->shape))
            sk_actor_dead(l, a, "its placement group was removed");
    }
    if (!was_ready && g->ready) {
        struct sk_inl *e =
            sk_engine_error(SK_EGROUP, "the placement group was removed before it had its bundles");
        set_ready(l, g->ready, SK_KIND_ENGINE_ERROR, e ? (void *)e->bytes : (void *)"",
                  e ? e->len : 0);
        sk_inl_drop(e);
    }
    if (g->ready) sk_own_unhold(l->own, g->ready);
    sk_free(g);
    sk_obj_drain(l);
    return SK_OK;
}

size_t sk_lgroups_write(struct sk_local *l, void *buf, size_t cap) {
    struct sk_wr w = sk_wr_init(buf, cap);
    SK_LIST_EACH (it, &l->groups.all) {
        const struct sk_lgroup *g = group_of(it);
        sk_group_row_here(&w,
                          (struct sk_group_row){
                              .id = g->id, .strategy = g->strategy, .reserved_ns = g->reserved_ns},
                          g->name, g->place);
    }
    return w.n;
}

void sk_lgroups_init(struct sk_local *l) {
    sk_list_init(&l->groups.all);
    sk_list_init(&l->groups.names);
}

void sk_lgroups_free(struct sk_local *l) {
    SK_LIST_EACH_SAFE (it, tmp, &l->groups.all) {
        sk_name_free(&group_of(it)->name);
        sk_free(group_of(it));
    }
    for (uint32_t i = 0; i < l->groups.envs.n; i++)
        sk_free((void *)(uintptr_t)l->groups.envs.p[i].p);
    sk_vec_free(&l->groups.envs);
}

sk_rc sk_env_define(struct sk_local *l, struct sk_bytes env, uint32_t *out, struct sk_err *err) {
    for (uint32_t i = 0; i < l->groups.envs.n; i++)
        if (l->groups.envs.p[i].n == env.n && !memcmp(l->groups.envs.p[i].p, env.p, env.n)) {
            *out = i + 1;
            return SK_OK;
        }
    void *copy = sk_memdup(SK_TAG_ENGINE, env.p, env.n);
    if (!copy || !sk_vec_push(&l->groups.envs, SK_TAG_ENGINE, ((struct sk_bytes){copy, env.n}))) {
        sk_free(copy);
        return SK_ERR(err, SK_ENOMEM, "no memory for an environment of %zu bytes", env.n);
    }
    *out = l->groups.envs.n;
    return SK_OK;
}

sk_rc sk_more_define(struct sk_local *l, const struct sk_amount *a, uint32_t n, uint32_t *out,
                     struct sk_err *err) {
    SK_TRY(sk_res_check_more(a, n, l->place.more_total, &l->names, err));
    return sk_place_more(&l->place, a, n, out, err);
}

static size_t write_more(struct sk_local *l, uint64_t more, void *buf, size_t cap) {
    size_t n = more > UINT32_MAX ? 0
                                 : sk_place_more_read(&l->place, (uint32_t)more, buf,
                                                      cap / sizeof(struct sk_amount));
    return n * sizeof(struct sk_amount);
}
static size_t write_groups(struct sk_local *l, uint64_t unused, void *buf, size_t cap) {
    (void)unused;
    return sk_lgroups_write(l, buf, cap);
}

/* Whether another engine made the group, of which this one has the bundles that are here. */
static bool is_foreign(const struct sk_local *l, uint64_t id) {
    return sk_id_place(id) != sk_id_place(l->id_base);
}

/* Of a node of several: a group that a task makes is reserved here, where the driver does not know
 * of it, so one that can never fit is an error. */
static sk_rc check_fits_node(const struct sk_local *l, const struct sk_lgroup_spec *s,
                             struct sk_err *err) {
    static const char why[] = "a placement group that a task makes is reserved on the task's own "
                              "node; make it in the driver";
    struct sk_res sum = {0};
    if (!sk_id_place(l->id_base)) return SK_OK;
    if (s->strategy == SK_GROUP_STRICT_SPREAD && s->n > 1)
        return SK_ERR(err, SK_EINFEASIBLE, "STRICT_SPREAD: %s", why);
    for (uint32_t i = 0; i < s->n; i++)
        for (uint32_t r = 0; r < SK_RES_MAX; r++) sum.amount[r] += s->bundles[i].amount[r];
    sk_rc rc = sk_res_check(&sum, &l->place.total, &l->names, err);
    if (rc != SK_OK) sk_err_prefix(err, "%s: ", why);
    return rc;
}

sk_rc sk_need_shape(struct sk_local *l, const struct sk_need *n, sk_shape *out,
                    struct sk_err *err) {
    if (n->group && is_foreign(l, n->group) && !find(l, n->group))
        return SK_ERR(err, SK_EINFEASIBLE,
                      "this node has no bundle of the placement group, or it was removed: what a "
                      "task submits runs on the task's own node");
    if (n->env > l->groups.envs.n)
        return SK_ERR(err, SK_EINVAL, "environment %u is not defined", n->env);
    if (!n->group) SK_TRY(sk_res_check(&n->res, &l->place.total, &l->names, err));
    return n->group ? sk_place_need_in(&l->place, n, out, err)
                    : sk_place_need(&l->place, n, out, err);
}

void sk_lgroup_handle(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r) {
    static const char damaged[] = "a request of a worker is damaged";
    struct sk_err err;
    sk_rc rc = SK_OK;
    uint64_t id = type == SK_M_GROUP ? sk_rd_u64(r) : 0, req = sk_rd_u64(r);
    if (type == SK_M_GROUP) {
        struct sk_lgroup_spec s = {.strategy = sk_rd_u32(r)};
        s.n = sk_rd_u32(r);
        s.name = sk_rd_bytes(r);
        s.space = sk_rd_bytes(r);
        sk_rd_align(r, 8);
        s.bundles = sk_rd_raw(r, (size_t)s.n * sizeof *s.bundles);
        if (!r->bad && !sk_driver_link_fresh_ids(l, w, id)) return;
        rc = r->bad ? SK_ERR(&err, SK_ECORRUPT, damaged) : check_fits_node(l, &s, &err);
        if (rc == SK_OK) rc = sk_lgroup_create(l, w->proc, id, &s, &err);
    } else if (type == SK_M_MORE) {
        uint64_t n = sk_rd_u64(r);
        uint32_t more = 0;
        const struct sk_amount *a = n > UINT32_MAX / sizeof *a ? NULL : sk_rd_raw(r, n * sizeof *a);
        rc = r->bad || !a ? SK_ERR(&err, SK_ECORRUPT, damaged)
                          : sk_more_define(l, a, (uint32_t)n, &more, &err);
        id = more;
    } else if (type == SK_M_MOREREAD) {
        sk_driver_link_list(l, w, req, write_more, sk_rd_u64(r));
        return;
    } else if (type == SK_M_UNGROUP) {
        uint64_t gone = sk_rd_u64(r);
        if (r->bad) rc = SK_ERR(&err, SK_ECORRUPT, damaged);
        else if (is_foreign(l, gone))
            rc =
                SK_ERR(&err, SK_EINVAL,
                       "this node has not made the placement group: remove it in the driver, or in "
                       "a task of the node that has made it");
        else rc = sk_lgroup_remove(l, gone, &err);
    } else if (type == SK_M_DEFENV) {
        uint32_t env = 0;
        struct sk_bytes b = sk_rd_bytes(r);
        rc = r->bad ? SK_ERR(&err, SK_ECORRUPT, damaged) : sk_env_define(l, b, &env, &err);
        id = env;
    } else {
        sk_driver_link_list(l, w, req, write_groups, 0);
        return;
    }
    sk_driver_link_answer(l, w, req, rc, id, &err);
}

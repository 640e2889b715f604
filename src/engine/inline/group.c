/* group.c - placement groups of the inline engine: created, listed, removed. A task that runs in
 * a removed group cannot be stopped here; it runs on as if it were in no group. There are no
 * environments, which would need processes. */
#include <stdlib.h>

#include "engine/books/group_row.h"
#include "engine/inline/inline_int.h"

static struct sk_igroup *group_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_igroup, link);
}

sk_rc sk_inline_need(struct sk_engine *e, const struct sk_need *n, sk_shape *out,
                     struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    if (n->env) return SK_ERR(err, SK_EINVAL, "environment %u is not defined", n->env);
    if (!n->group) SK_TRY(sk_res_check(&n->res, &x->place.total, &x->names_of_res, err));
    sk_inline_lock(x);
    sk_rc rc =
        n->group ? sk_place_need_in(&x->place, n, out, err) : sk_place_need(&x->place, n, out, err);
    sk_inline_unlock(x);
    return rc;
}

static sk_rc create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                    sk_oid *ready, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    if (s->id) return SK_ERR(err, SK_ENOSYS, "a group of another engine needs the local engine");
    struct sk_igroup *g = sk_calloc(TAG, sizeof *g);
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group");
    sk_inline_lock(x);
    g->id = x->next_id++;
    g->ready_oid = x->next_id++;
    g->strategy = s->strategy;
    sk_rc rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down") : SK_OK;
    if (rc == SK_OK)
        rc = sk_place_group_add(&x->place, g->id, s->bundles, s->n,
                                s->strategy == SK_GROUP_STRICT_SPREAD, &g->place, err);
    if (rc == SK_OK)
        rc = sk_names_add(&x->group_names, "placement group", sk_text(s->space), sk_text(s->name),
                          (struct sk_bytes){NULL, 0}, g, &g->name, err);
    if (rc == SK_OK) rc = sk_iobj_new(x, g->ready_oid, NULL, NULL, 0, err);
    if (rc == SK_OK && (rc = sk_own_hold(x->own, g->ready_oid, err)) != SK_OK)
        sk_iobj_unref(x, g->ready_oid);
    if (rc == SK_OK) {
        sk_list_init(&g->link);
        sk_list_push_back(&x->groups, &g->link);
        *out = g->id;
        *ready = (sk_oid){g->ready_oid};
        sk_inline_groups_ready(x);
    } else {
        if (g->place) sk_place_group_remove(&x->place, g->place);
        sk_name_free(&g->name);
        sk_free(g);
    }
    sk_inline_unlock(x);
    return rc;
}

/* Ends the actors in a removed group, and their calls. A constructor that is still queued is ended
 * by the thread that would run it (is_of_the_dead in run.c). */
static void end_actors(struct sk_inline *x) {
    uint64_t key;
    void *v;
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &v);) {
        struct sk_iactor *a = v;
        struct sk_blob *why = NULL;
        if (a->dead || a->holds.state == SK_W_NONE ||
            !sk_place_shape_dead(&x->place, a->init->shape))
            continue;
        if (sk_blob_engine_error(x, SK_EACTOR, "the actor is dead: its placement group was removed",
                                 &why) != SK_OK)
            abort();
        a->n_calls++; /* this count keeps the actor while its calls end */
        sk_iactor_die(x, a, why);
        a->n_calls--;
        sk_iactor_maybe_end(x, a);
        i = 0; /* starts again: the map may have changed */
    }
}

static sk_rc group_remove(struct sk_engine *e, uint64_t id, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_igroup *g = sk_inline_group(x, id);
    if (!g) {
        rc = SK_ERR(err, SK_ENOENT, "there is no such placement group (any more)");
    } else {
        struct sk_iobj *o = sk_own_get(x->own, g->ready_oid);
        sk_list_del(&g->link);
        sk_place_group_remove(&x->place, g->place);
        /* without memory for these 60 bytes a waiter would wait for ever */
        if (!o->val &&
            sk_blob_engine_error(x, SK_EGROUP,
                                 "the placement group was removed before it had its bundles",
                                 &o->val) != SK_OK)
            abort();
        sk_own_unhold(x->own, g->ready_oid);
        sk_name_free(&g->name);
        sk_free(g);
        end_actors(x);
        sk_inline_groups_ready(x);
        sk_iobj_drain(x);
        pthread_cond_broadcast(&x->cv);
    }
    sk_inline_unlock(x);
    return rc;
}

static size_t list(struct sk_engine *e, void *buf, size_t cap) {
    struct sk_inline *x = sk_inline_of(e);
    struct sk_wr w = sk_wr_init(buf, cap);
    sk_inline_lock(x);
    SK_LIST_EACH (it, &x->groups) {
        const struct sk_igroup *g = group_of(it);
        sk_group_row_here(&w,
                          (struct sk_group_row){.id = g->id,
                                                .strategy = g->strategy,
                                                .reserved_ns = g->place->ready ? 0 : -1},
                          g->name, g->place);
    }
    sk_inline_unlock(x);
    return w.n;
}

void sk_inline_groups_free(struct sk_inline *x) {
    SK_LIST_EACH_SAFE (it, tmp, &x->groups) {
        sk_name_free(&group_of(it)->name);
        sk_free(group_of(it));
    }
    sk_list_init(&x->groups);
}

const struct sk_groups_ops sk_inline_group_ops = {
    .create = create, .remove = group_remove, .list = list};

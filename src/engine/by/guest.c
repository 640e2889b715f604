/* guest.c - gives the contract of engine.h to an engine that is written in another language
 * (guest.h; those in Python come through py/guest/guest.c). This file has the public calls;
 * objects, tasks and the thread that talks to the guest are in engine/guest/.
 *
 * Not here: placement groups and rows of state of a guest that has none: these side tables are
 * NULL. Calls only queue orders; the one call that enters the guest is `get` of a value
 * that lies with the guest. So a thread that holds a lock of the guest's language, or waits for
 * one, may make any other call. Cost: what the guest takes, and about 1 us a call besides. */
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "engine/actors.h"
#include "engine/conf.h"
#include "engine/custom.h"
#include "engine/envs.h"
#include "engine/guest/guest_int.h"
#include "engine/cluster/nodes.h"
#include "engine/cluster/which/where.h"
#include "engine/streams.h"
#include "engine/watch.h"

static struct sk_ghost *of(struct sk_engine *e) { return sk_container_of(e, struct sk_ghost, e); }

static sk_rc begin(struct sk_ghost *x, struct sk_err *err) {
    pthread_mutex_lock(&x->mu);
    if (x->closing) return SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    if (x->broken.code) {
        if (err) *err = x->broken;
        return x->broken.code;
    }
    return SK_OK;
}

static sk_rc end(struct sk_ghost *x, sk_rc rc) {
    SK_DCHECK(!x->draining); /* whoever drains objects comes back before the lock is dropped */
    pthread_mutex_unlock(&x->mu);
    return rc;
}

/* Waits until the host's thread signals a change. */
static sk_rc await_change_unlocked(struct sk_ghost *x, int64_t deadline_ns, struct sk_err *err) {
    struct timespec ts = {.tv_sec = deadline_ns / SK_SEC, .tv_nsec = deadline_ns % SK_SEC};
    if (x->closing) return SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    if (deadline_ns != INT64_MAX && sk_now_ns() >= deadline_ns) return SK_ETIMEOUT;
    if (deadline_ns == INT64_MAX) pthread_cond_wait(&x->moved, &x->mu);
    else (void)pthread_cond_timedwait(&x->moved, &x->mu, &ts);
    return SK_OK;
}

/* ---- functions, shapes, nodes ---------------------------------------------------------------- */

static sk_rc op_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                       struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc != SK_OK || sk_map_get(&x->fns, fn.v)) return end(x, rc);
    struct sk_gorder o = {
        .kind = SK_GORDER_DEFINE, .id = fn.v, .def_n = def.n, .def = sk_memdup(TAG, def.p, def.n)};
    char *kept = sk_strdup(TAG, name ? name : "?");
    o.name = sk_strdup(TAG, name ? name : "?");
    if (!fn.v) rc = SK_ERR(err, SK_EINVAL, "function id 0");
    else if (!o.def || !o.name || !kept || sk_map_put(&x->fns, fn.v, kept) != SK_OK)
        rc = SK_ERR(err, SK_ENOMEM, "function %s", name);
    if (rc == SK_OK) {
        sk_ghost_order(x, o);
        return end(x, SK_OK);
    }
    sk_free(o.def);
    sk_free(o.name);
    sk_free(kept);
    return end(x, rc);
}

static sk_rc op_shape(struct sk_engine *e, const struct sk_need *n, sk_shape *out,
                      struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gneed_shape(x, n, out, err);
    return end(x, rc);
}

static sk_rc op_env_define(struct sk_engine *e, struct sk_bytes env, uint32_t *out,
                           struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gneed_intern(x, env, out, err);
    return end(x, rc);
}

static sk_rc op_where_define(struct sk_engine *e, struct sk_bytes where, uint32_t *out,
                             struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK && !sk_where_n(where))
        rc = SK_ERR(err, SK_EINVAL, "%zu bytes are no choice of nodes", where.n);
    if (rc == SK_OK) rc = sk_gneed_intern(x, where, out, err);
    return end(x, rc);
}

static sk_rc op_res_index(struct sk_engine *e, const char *name, uint32_t *out,
                          struct sk_err *err) {
    return sk_res_index(name, &of(e)->names, out, err);
}
/* A node tells its amounts as struct sk_res, so there are none beyond it. */
static sk_rc op_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out,
                     struct sk_err *err) {
    (void)e, (void)a, (void)n, (void)out;
    return SK_ERR(err, SK_EINFEASIBLE, "this engine has at most %d custom resources",
                  SK_RES_MAX - SK_RES_CUSTOM);
}
static size_t op_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    (void)e, (void)more, (void)out, (void)cap;
    return 0;
}

/* The bytes of objects on each node are counted here, because a guest does not know which of its
 * values are still referenced. */
static sk_rc op_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                      struct sk_err *err) {
    struct sk_ghost *x = of(e);
    SK_TRY(end(x, begin(x, err)));
    if (x->g.nodes_now) SK_TRY(sk_ghost_ask_nodes(x, err));
    sk_rc rc = begin(x, err);
    if (rc != SK_OK) return end(x, rc);
    *n = x->nodes.n;
    memcpy(out, x->nodes.p, SK_MIN(cap, *n) * sizeof *out);
    uint32_t cursor = 0;
    uint64_t id;
    void *data;
    while (*n <= cap && sk_own_each(x->own, &cursor, &id, &data)) {
        const struct sk_gobj *o = data;
        for (size_t i = 0; i < *n; i++)
            if (o->handle && out[i].number == o->node) out[i].resident_bytes += o->size;
    }
    return end(x, SK_OK);
}

/* ---- tasks, actors --------------------------------------------------------------------------- */

static sk_rc op_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first,
                       sk_tid *tid, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gref_submit(x, s, first, tid, err);
    return end(x, rc);
}

static sk_rc op_cancel(struct sk_engine *e, sk_tid tid, uint32_t flags, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc != SK_OK) return end(x, rc);
    sk_gtask_cancel(x, tid.v, flags);
    return end(x, SK_OK);
}

static sk_rc op_actor_create(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out,
                             sk_oid *ready, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gactor_create(x, spec, out, ready, err);
    return end(x, rc);
}

static sk_rc op_actor_end(struct sk_engine *e, sk_aid aid, bool no_restart, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gactor_end(x, aid.v, no_restart, err);
    return end(x, rc);
}

/* ---- objects --------------------------------------------------------------------------------- */

static sk_rc op_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    (void)e;
    struct sk_gval *v = sk_gval_new(0, (struct sk_bytes){NULL, len});
    if (!v) return SK_ERR(err, SK_ENOMEM, "value of %zu bytes", len);
    *out = (struct sk_buf){(uint8_t *)(uintptr_t)v->data, len, (uintptr_t)v};
    return SK_OK;
}

static void op_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    /* the token is a pointer that op_buf_alloc() has stored */
    sk_gval_unref(of(e), (struct sk_gval *)(uintptr_t)b->token); /* NOLINT */
    *b = (struct sk_buf){0};
}

static sk_rc op_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                    struct sk_err *err) {
    struct sk_ghost *x = of(e);
    struct sk_gval *v = p->buf ? (struct sk_gval *)(uintptr_t)p->buf->token
                               : sk_gval_new(p->kind, p->bytes); /* NOLINT: a pointer */
    if (!v) return SK_ERR(err, SK_ENOMEM, "value of %zu bytes", p->bytes.n);
    if (p->buf) v->len = SK_MIN(p->buf_len, v->len);
    v->kind = p->kind;
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gobj_new(x, x->next_id, 0, v, p->contains, p->n_contains, err);
    if (rc == SK_OK) out->v = x->next_id++;
    else sk_gval_unref(x, v);
    return end(x, rc);
}

/* Makes a view of an object that exists. The lock is dropped while the guest is asked; the
 * object is held meanwhile. */
static sk_rc view_of_unlocked(struct sk_ghost *x, sk_oid id, int64_t deadline_ns,
                              struct sk_view *out, struct sk_err *err) {
    struct sk_gobj *o = sk_own_get(x->own, id.v);
    struct sk_gval *v = o->val ? sk_gval_ref(o->val) : NULL;
    if (!v) {
        struct sk_guest_value g = {0};
        void *handle = o->handle;
        SK_TRY(sk_own_hold(x->own, id.v, err));
        pthread_mutex_unlock(&x->mu);
        sk_rc rc = x->g.ops->fetch(x->g.ctx, handle, deadline_ns, &g, err);
        if (rc == SK_OK && !(v = sk_gval_new(g.kind, (struct sk_bytes){NULL, 0}))) {
            x->g.ops->let_go(x->g.ctx, g.token);
            rc = SK_ERR(err, SK_ENOMEM, "view");
        }
        pthread_mutex_lock(&x->mu);
        sk_own_unhold(x->own, id.v);
        sk_gobj_drain(x);
        if (rc != SK_OK) return rc;
        v->data = g.bytes.p;
        v->len = g.bytes.n;
        v->token = g.token;
    }
    *out = (struct sk_view){v->data, v->len, v->kind, id, (uintptr_t)v};
    return SK_OK;
}

static sk_rc find(struct sk_ghost *x, sk_oid id, struct sk_gobj **out, struct sk_err *err) {
    *out = sk_own_get(x->own, id.v);
    if (*out) return SK_OK;
    if (sk_id_place(id.v))
        return SK_ERR(
            err, SK_ELOST,
            "object %llx belongs to the engine of a node, and there is no reference to it "
            "here",
            (unsigned long long)id.v);
    return SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)", (unsigned long long)id.v);
}

static void op_view_release(struct sk_engine *e, struct sk_view *v) {
    if (v->token)
        sk_gval_unref(
            of(e), (struct sk_gval *)(uintptr_t)v->token); /* NOLINT: view_of_unlocked's pointer */
    *v = (struct sk_view){0};
}

static sk_rc op_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                    struct sk_view *out, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    struct sk_gobj *o;
    size_t got = 0;
    sk_rc rc = begin(x, err);
    for (size_t i = 0; i < n && rc == SK_OK;) {
        rc = find(x, ids[i], &o, err);
        if (rc == SK_OK && sk_gobj_there(o)) i++;
        else if (rc == SK_OK) rc = await_change_unlocked(x, deadline_ns, err);
    }
    for (; rc == SK_OK && got < n; got += rc == SK_OK) {
        /* the object can be gone only if the caller has released it meanwhile */
        rc = find(x, ids[got], &o, err);
        if (rc == SK_OK) rc = view_of_unlocked(x, ids[got], deadline_ns, &out[got], err);
    }
    (void)end(x, rc);
    while (rc != SK_OK && got) op_view_release(e, &out[--got]);
    return rc;
}

static sk_rc op_wait(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                     int64_t deadline_ns, bool *ready, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    if (want > n) return SK_ERR(err, SK_EINVAL, "wait for %zu of %zu objects", want, n);
    sk_rc rc = begin(x, err);
    while (rc == SK_OK) {
        size_t have = 0;
        for (size_t i = 0; i < n && rc == SK_OK; i++) {
            struct sk_gobj *o;
            rc = find(x, ids[i], &o, err);
            ready[i] = rc == SK_OK && sk_gobj_there(o);
            have += ready[i];
        }
        if (rc != SK_OK || have >= want) break;
        rc = await_change_unlocked(x, deadline_ns, err);
    }
    return end(x, rc);
}

static void op_retain(struct sk_engine *e, sk_oid o) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    sk_gref_retain(x, o.v);
    pthread_mutex_unlock(&x->mu);
}

static void op_release(struct sk_engine *e, sk_oid o) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    sk_gref_release(x, o.v);
    pthread_mutex_unlock(&x->mu);
}

static sk_rc op_drive(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns,
                      struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    while (rc == SK_OK && !done(arg)) rc = await_change_unlocked(x, deadline_ns, err);
    return end(x, rc);
}

/* ---- nodes that come and go ------------------------------------------------------------------ */

/* Has the guest asked for its nodes soon; rows that are older than this call are not taken. */
static uint64_t want_rows(struct sk_ghost *x) {
    x->woken = true;
    pthread_cond_signal(&x->todo);
    return ++x->ask_made;
}

/* Waits until the rows of nodes are younger than this call. */
static sk_rc new_rows(struct sk_ghost *x, struct sk_err *err) {
    sk_rc rc = begin(x, err);
    uint64_t mine = want_rows(x);
    while (rc == SK_OK && x->ask_done < mine) rc = await_change_unlocked(x, INT64_MAX, err);
    return end(x, rc);
}

static sk_rc op_join(struct sk_engine *e, const char *address, uint32_t *number,
                     struct sk_err *err) {
    struct sk_ghost *x = of(e);
    SK_TRY(end(x, begin(x, err)));
    SK_TRY(x->g.ops->join(x->g.ctx, address, number, err));
    return new_rows(x, err);
}

static sk_rc op_drain(struct sk_engine *e, uint32_t number, int64_t deadline_ns,
                      struct sk_err *err) {
    struct sk_ghost *x = of(e);
    SK_TRY(end(x, begin(x, err)));
    SK_TRY(x->g.ops->drain(x->g.ctx, number, deadline_ns, err));
    sk_rc rc = begin(x, err); /* a sink may call this, so it does not wait for the host's thread */
    for (uint32_t i = 0; i < x->nodes.n; i++)
        if (x->nodes.p[i].number == number) x->nodes.p[i].draining = true;
    (void)want_rows(x);
    return end(x, rc);
}

static sk_rc op_give_up(struct sk_engine *e, const char *why, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    SK_TRY(end(x, begin(x, err)));
    x->g.ops->give_up(x->g.ctx, why);
    return SK_OK;
}

static const struct sk_nodes_ops nodes_ops = {op_join, op_drain, op_give_up};

/* ---- actors.h -------------------------------------------------------------------------------- */

static sk_rc op_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out,
                           sk_oid *ready, struct sk_bytes *meta, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc != SK_OK) return end(x, rc);
    struct sk_bytes in = sk_text(space), about;
    uint64_t id;
    rc = sk_gname_find(x, in, sk_text(name), &id, &about, err);
    if (rc != SK_OK) return end(x, rc);
    void *copy = sk_memdup(TAG, about.p, about.n);
    if (!copy) {
        sk_gref_release(x, id);
        sk_gref_release(x, id - 1);
        return end(x, SK_ERR(err, SK_ENOMEM, "actor %s", name));
    }
    out->v = id;
    ready->v = id - 1;
    *meta = (struct sk_bytes){copy, about.n};
    return end(x, SK_OK);
}
static size_t op_actor_names(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    size_t n = sk_names_write(&x->actor_names, buf, cap);
    pthread_mutex_unlock(&x->mu);
    return n;
}
static sk_rc op_actor_leave(struct sk_engine *e, struct sk_err *err) {
    (void)e;
    return SK_ERR(err, SK_EINVAL, "this process runs no actor");
}

/* ---- groups.h -------------------------------------------------------------------------------- */

static sk_rc op_group_create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                             sk_oid *ready, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_ggroup_create(x, s, out, ready, err);
    return end(x, rc);
}
static sk_rc op_group_remove(struct sk_engine *e, uint64_t group, struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_ggroup_remove(x, group, err);
    /* what the group had is free when this call is over */
    for (uint64_t mine = x->n_ordered; rc == SK_OK && x->n_carried < mine;)
        rc = await_change_unlocked(x, INT64_MAX, err);
    return end(x, rc);
}
static size_t op_groups(struct sk_engine *e, void *buf, size_t cap) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    size_t n = sk_ggroups_write(x, buf, cap);
    pthread_mutex_unlock(&x->mu);
    return n;
}

/* ---- watch.h --------------------------------------------------------------------------------- */

static sk_rc op_watch(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w,
                      struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gwatch_add(x, o.v, stream.v, w, err);
    return end(x, rc);
}
static bool op_unwatch(struct sk_engine *e, struct sk_watch *w) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    bool was = sk_gwatch_remove(x, w);
    pthread_mutex_unlock(&x->mu);
    return was;
}

/* ---- streams.h ------------------------------------------------------------------------------- */

/* Takes the next yield, or waits for it. */
static sk_rc stream(struct sk_engine *e, sk_tid t, int64_t deadline_ns, sk_oid *out,
                    struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc;
    pthread_mutex_lock(&x->mu); /* also of an engine that is broken: its tasks have ended */
    while ((rc = sk_gstream_take(x, t.v, out, err)) == SK_EAGAIN) {
        rc = await_change_unlocked(x, deadline_ns, err);
        if (rc != SK_OK) break;
    }
    return end(x, rc);
}
static sk_rc op_stream_next(struct sk_engine *e, sk_tid t, int64_t deadline_ns, sk_oid *out,
                            struct sk_err *err) {
    out->v = 0;
    return stream(e, t, deadline_ns, out, err);
}
static sk_rc op_stream_wait(struct sk_engine *e, sk_tid t, int64_t deadline_ns,
                            struct sk_err *err) {
    return stream(e, t, deadline_ns, NULL, err);
}
static sk_rc op_stream_end(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out,
                           struct sk_err *err) {
    struct sk_ghost *x = of(e);
    sk_rc rc = begin(x, err);
    if (rc == SK_OK) rc = sk_gstream_end(x, t.v, kind, out, err);
    return end(x, rc);
}
static void op_stream_drop(struct sk_engine *e, sk_tid t) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    sk_gstream_drop(x, t.v);
    pthread_mutex_unlock(&x->mu);
}

/* ---- open, close ----------------------------------------------------------------------------- */

extern const struct sk_engine_class sk_engine_by_guest;
static const struct sk_engine_ops ops = {
    .define = op_define,
    .shape = op_shape,
    .submit = op_submit,
    .cancel = op_cancel,
    .actor_create = op_actor_create,
    .actor_end = op_actor_end,
    .put = op_put,
    .get = op_get,
    .wait = op_wait,
    .retain = op_retain,
    .release = op_release,
    .buf_alloc = op_buf_alloc,
    .buf_abort = op_buf_abort,
    .view_release = op_view_release,
    .drive = op_drive,
    .nodes = op_nodes,
};

static const struct sk_custom_ops custom = {
    .index = op_res_index, .more = op_more, .more_read = op_more_read};
static const struct sk_actors_ops actors = {
    .find = op_actor_find, .names = op_actor_names, .leave = op_actor_leave};
static const struct sk_groups_ops groups = {
    .create = op_group_create, .remove = op_group_remove, .list = op_groups};
static const struct sk_watch_ops watch = {.add = op_watch, .remove = op_unwatch};
static const struct sk_envs_ops envs = {.define = op_env_define};
static const struct sk_wheres_ops wheres = {.define = op_where_define};
static const struct sk_streams_ops streams = {
    .next = op_stream_next, .wait = op_stream_wait, .end = op_stream_end, .drop = op_stream_drop};

/* Gives all handles back to the guest. */
static void drop_handles(struct sk_ghost *x) {
    uint32_t cursor = 0;
    uint64_t key;
    void *val;
    while (sk_own_each(x->own, &cursor, &key, &val)) {
        struct sk_gobj *o = val;
        if (o->handle) x->g.ops->drop(x->g.ctx, o->handle);
        o->handle = NULL;
    }
    for (uint32_t i = 0; i < x->orders.n; i++) {
        struct sk_gorder *o = &x->orders.p[i];
        if (o->kind == SK_GORDER_DROP) x->g.ops->drop(x->g.ctx, o->handle);
    }
}

static void forget(struct sk_ghost *x) {
    uint64_t key;
    void *val;
    uint32_t cursor = 0;
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) sk_gactor_free(x, val);
    while (sk_own_each(x->own, &cursor, &key, &val)) {
        struct sk_gobj *o = val;
        sk_gval_unref(x, o->val);
        for (struct sk_gwaits *w = o->waits, *next; w; w = next) {
            next = w->next;
            sk_free(w);
        }
        sk_free(o);
    }
    for (uint32_t i = 0; i < x->orders.n; i++) {
        sk_free(x->orders.p[i].name);
        sk_free(x->orders.p[i].def);
        sk_gval_unref(x, x->orders.p[i].val);
    }
    sk_gref_forget(x);
    sk_ggroups_free(x);
    for (uint32_t i = 0; sk_map_next(&x->fns, &i, &key, &val);) sk_free(val);
    for (uint32_t i = 0; sk_map_next(&x->streams, &i, &key, &val);) sk_gstream_free(x, val);
    sk_own_destroy(x->own);
    sk_map_deinit(&x->fns);
    sk_map_deinit(&x->tasks);
    sk_map_deinit(&x->actors);
    sk_map_deinit(&x->streams);
    sk_map_deinit(&x->watches);
    sk_vec_free(&x->orders);
    sk_vec_free(&x->out);
    sk_vec_free(&x->shapes);
    for (uint32_t i = 0; i < x->envs.n; i++) sk_gval_unref(x, x->envs.p[i]);
    sk_vec_free(&x->envs);
    sk_vec_free(&x->nodes);
    sk_res_names_deinit(&x->names);
    sk_gshow_free(x);
    pthread_mutex_destroy(&x->mu);
    pthread_cond_destroy(&x->todo);
    pthread_cond_destroy(&x->moved);
    sk_free(x);
}

/* Closes the engine. The only threads still inside its calls are waiting, and their waits end now.
 * Each task gets its last event. */
static void close_guest(struct sk_engine *e) {
    struct sk_ghost *x = of(e);
    pthread_mutex_lock(&x->mu);
    x->closing = true;
    pthread_cond_signal(&x->todo);
    pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->mu);
    SK_ASSERT(pthread_join(x->thread, NULL) == 0);
    pthread_mutex_lock(&x->mu);
    for (struct sk_list *it; (it = sk_list_first(&x->told)) || (it = sk_list_first(&x->waiting));)
        sk_gtask_fail(x, sk_container_of(it, struct sk_gtask, link), SK_ECLOSED,
                      "the engine is shut down");
    sk_gwatch_tell_all(x); /* what has no task, such as the end of a dropped stream */
    sk_gobj_drain(x);
    pthread_mutex_unlock(&x->mu);
    (void)sk_ghost_deliver(x);
    drop_handles(x);
    (void)!sk_ghost_ask_nodes(x, NULL);
    sk_gshow_last(x);
    x->g.ops->end(x->g.ctx);
    SK_ASSERT(!x->tasks.n);
    forget(x);
}

static sk_rc open_guest(const struct sk_engine_conf *conf, struct sk_engine **out,
                        struct sk_err *err) {
    if (!conf->guest) return SK_ERR(err, SK_EINVAL, "guest engine: there is no guest");
    struct sk_ghost *x = sk_calloc(TAG, sizeof *x);
    pthread_condattr_t ca;
    if (!x) return SK_ERR(err, SK_ENOMEM, "guest engine");
    x->e = (struct sk_engine){.cls = &sk_engine_by_guest,
                              .ops = &ops,
                              .nodes = conf->guest->ops->join ? &nodes_ops : NULL,
                              .custom = &custom,
                              .streams = &streams,
                              .watch = &watch,
                              .state = conf->guest->ops->ask ? &sk_gtold_state : NULL,
                              .usage = conf->guest->ops->ask ? &sk_gtold_usage : NULL,
                              .groups = conf->guest->ops->group ? &groups : NULL,
                              .actors = conf->guest->actors ? &actors : NULL,
                              .envs = conf->guest->ops->env ? &envs : NULL,
                              .wheres = conf->guest->wheres ? &wheres : NULL,
                              .no_notes = !conf->guest->notes,
                              .no_parts = !conf->guest->parts,
                              .no_inner = !conf->guest->refs};
    x->g = *conf->guest;
    x->task_retries = conf->task_retries;
    x->hook = conf->named;
    x->hook_ctx = conf->named_ctx;
    x->next_id = 1;
    sk_gshow_init(x);
    sk_list_init(&x->waiting);
    sk_list_init(&x->told);
    sk_list_init(&x->actor_names);
    sk_list_init(&x->groups);
    sk_list_init(&x->group_names);
    sk_map_init(&x->fns, TAG);
    sk_map_init(&x->tasks, TAG);
    sk_map_init(&x->actors, TAG);
    sk_map_init(&x->streams, TAG);
    sk_map_init(&x->abroad, TAG);
    sk_map_init(&x->named, TAG);
    sk_map_init(&x->watches, TAG);
    pthread_mutex_init(&x->mu, NULL);
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&x->todo, &ca);
    pthread_cond_init(&x->moved, &ca);
    pthread_condattr_destroy(&ca);
    sk_rc rc = sk_res_names_init(&x->names, conf->custom_names, conf->n_custom, err);
    if (rc == SK_OK) rc = sk_own_create(&x->own, err);
    x->g.ops->begin(x->g.ctx, sk_ghost_wake, x);
    if (rc == SK_OK) rc = sk_ghost_ask_nodes(x, err);
    x->asked_ns = sk_now_ns();
    if (rc == SK_OK) rc = sk_gshow_open(x, conf, err);
    if (rc == SK_OK && pthread_create(&x->thread, NULL, sk_ghost_loop, x) != 0)
        rc = SK_ERR(err, SK_ENOMEM, "guest engine: no thread");
    if (rc == SK_OK) {
        *out = &x->e;
        return SK_OK;
    }
    x->g.ops->end(x->g.ctx);
    if (x->own) forget(x);
    else {
        sk_gshow_free(x);
        sk_free(x);
    }
    return rc;
}

const struct sk_engine_class sk_engine_by_guest = {
    .name = "guest", .open = open_guest, .close = close_guest};

/* calls_side.c - the local engine's side contracts in the driver: streams, names, custom
 * resources, placement groups, environments, watches, windows, moves, memory of graphs, host. */
#include "base/mem.h"
#include "engine/local/driver/calls/calls.h"
#include "engine/place/res.h"

/* ---- streams.h ---- */

struct stream_wait {
    struct sk_local *l;
    uint64_t tid, oid;
    sk_rc rc;
};
static bool stream_done(void *arg) {
    struct stream_wait *w = arg;
    struct sk_ltask *t = sk_map_get(&w->l->tasks, w->tid);
    w->rc = t ? sk_stream_take(w->l, t, SK_PROC_DRIVER, &w->oid) : SK_EDONE;
    return w->rc != SK_EAGAIN;
}

static sk_rc l_stream_next(struct sk_engine *e, sk_tid t, int64_t deadline, sk_oid *out,
                           struct sk_err *err) {
    struct stream_wait w = {sk_local_of(e), t.v, 0, SK_OK};
    sk_driver_lock(e);
    sk_rc rc = sk_driver_wait_unlocked(
        sk_local_of(e), stream_done, &w, deadline,
        &(struct sk_waited){.verb = "the next value of a stream", .tid = t.v});
    sk_driver_unlock(e);
    if (rc == SK_ECLOSED) return sk_driver_closed(err);
    if (rc != SK_OK) return SK_ERR(err, rc, "the time is over");
    if (w.oid) *out = (sk_oid){w.oid};
    if (w.rc == SK_EDONE) return SK_EDONE;
    return w.rc == SK_OK ? SK_OK
                         : SK_ERR(err, w.rc,
                                  w.rc == SK_ETASK
                                      ? "the task failed"
                                      : "the task failed, and there was no memory to record how");
}

static bool stream_stirs(void *arg) {
    const struct stream_wait *w = arg;
    return sk_stream_stirs(sk_map_get(&w->l->tasks, w->tid));
}

static sk_rc l_stream_wait(struct sk_engine *e, sk_tid t, int64_t deadline, struct sk_err *err) {
    struct stream_wait w = {sk_local_of(e), t.v, 0, SK_OK};
    sk_driver_lock(e);
    sk_rc rc = stream_stirs(&w)
                   ? SK_OK
                   : sk_driver_wait_unlocked(
                         sk_local_of(e), stream_stirs, &w, deadline,
                         &(struct sk_waited){.verb = "the next value of a stream", .tid = t.v});
    if (rc == SK_OK && sk_stream_at_end(sk_map_get(&sk_local_of(e)->tasks, t.v))) rc = SK_EDONE;
    sk_driver_unlock(e);
    if (rc == SK_ECLOSED) return sk_driver_closed(err);
    return rc == SK_OK || rc == SK_EDONE ? rc : SK_ERR(err, rc, "the time is over");
}

static sk_rc l_stream_end(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out,
                          struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    uint64_t id = sk_new_ids(l, 1);
    sk_rc rc =
        l->closing ? sk_driver_closed(err) : sk_stream_end(l, t.v, id, SK_PROC_DRIVER, kind, err);
    if (rc == SK_OK) *out = (sk_oid){id};
    sk_driver_unlock(e);
    return rc;
}

static void l_stream_drop(struct sk_engine *e, sk_tid t) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    struct sk_ltask *k = l->closing ? NULL : sk_map_get(&l->tasks, t.v);
    if (k && sk_ltask_is_stream(k) && !k->sink) sk_stream_drop(l, k);
    sk_driver_unlock(e);
}

static void l_stream_taken(struct sk_engine *e, sk_tid t, uint32_t n) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    struct sk_ltask *k = l->closing ? NULL : sk_map_get(&l->tasks, t.v);
    if (k && sk_ltask_is_stream(k) && k->sink) sk_stream_release(l, k, n);
    sk_driver_unlock(e);
}

const struct sk_streams_ops sk_driver_streams = {.next = l_stream_next,
                                                 .wait = l_stream_wait,
                                                 .end = l_stream_end,
                                                 .drop = l_stream_drop,
                                                 .taken = l_stream_taken};

/* ---- watch.h ---- */

static sk_rc l_watch(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w,
                     struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    sk_rc rc = l->closing ? sk_driver_closed(err) : sk_req_watch(l, NULL, 0, o.v, stream.v, w, err);
    sk_driver_unlock(e);
    return rc;
}

static bool l_unwatch(struct sk_engine *e, struct sk_watch *w) {
    sk_driver_lock(e);
    /* the request; 0 after the callback was called */
    struct sk_req *q = (struct sk_req *)(uintptr_t)w->id;
    if (q) sk_req_free(sk_local_of(e), q);
    sk_obj_drain(sk_local_of(e)); /* the watch may have held the last reference to the object */
    w->id = 0;
    sk_driver_unlock(e);
    return q != NULL;
}

const struct sk_watch_ops sk_driver_watch = {.add = l_watch, .remove = l_unwatch};

/* ---- actors.h ---- */

static sk_rc l_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out,
                          sk_oid *ready, struct sk_bytes *meta, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    struct sk_lactor *a = NULL;
    sk_rc rc = l->closing
                   ? sk_driver_closed(err)
                   : sk_actor_find(l, SK_PROC_DRIVER, sk_text(space), sk_text(name), &a, err);
    if (rc == SK_OK) {
        SK_ASSERT(a);
        *out = (sk_aid){a->id};
        *ready = (sk_oid){a->id - 1};
        void *copy = sk_memdup(SK_TAG_ENGINE, a->name->meta.p, a->name->meta.n);
        if (copy) {
            *meta = (struct sk_bytes){copy, a->name->meta.n};
        } else {
            SK_IGNORE(sk_own_unref(l->own, out->v, SK_PROC_DRIVER, 1, NULL));
            SK_IGNORE(sk_own_unref(l->own, ready->v, SK_PROC_DRIVER, 1, NULL));
            sk_obj_drain(l);
            rc = SK_ERR(err, SK_ENOMEM, "no memory to find an actor");
        }
    }
    sk_driver_unlock(e);
    return rc;
}
static size_t l_actor_names(struct sk_engine *e, char *buf, size_t cap) {
    sk_driver_lock(e);
    size_t n =
        sk_local_of(e)->closing ? 0 : sk_names_write(&sk_local_of(e)->actors.names, buf, cap);
    sk_driver_unlock(e);
    return n;
}

static sk_rc l_actor_leave(struct sk_engine *e, struct sk_err *err) {
    (void)e;
    return SK_ERR(err, SK_EINVAL, "this process runs no actor");
}

const struct sk_actors_ops sk_driver_actors = {
    .find = l_actor_find, .names = l_actor_names, .leave = l_actor_leave};

/* ---- custom.h ---- */

static sk_rc l_res_index(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err) {
    return sk_res_index(name, &sk_local_of(e)->names, out, err);
}

static sk_rc l_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out,
                    struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc = sk_local_of(e)->closing ? sk_driver_closed(err)
                                       : sk_more_define(sk_local_of(e), a, n, out, err);
    sk_driver_unlock(e);
    return rc;
}
static size_t l_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    sk_driver_lock(e);
    size_t n = sk_place_more_read(&sk_local_of(e)->place, more, out, cap);
    sk_driver_unlock(e);
    return n;
}

const struct sk_custom_ops sk_driver_custom = {
    .index = l_res_index, .more = l_more, .more_read = l_more_read};

/* ---- groups.h ---- */

static sk_rc l_group_create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                            sk_oid *ready, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct sk_lgroup_spec spec = {.bundles = s->bundles,
                                  .n = s->n,
                                  .strategy = s->strategy,
                                  .id = s->id,
                                  .elsewhere = s->elsewhere,
                                  .space = sk_text(s->space),
                                  .name = sk_text(s->name)};
    sk_driver_lock(e);
    uint64_t base = sk_new_ids(l, 2);
    sk_rc rc =
        l->closing ? sk_driver_closed(err) : sk_lgroup_create(l, SK_PROC_DRIVER, base, &spec, err);
    if (rc == SK_OK) {
        *out = s->id ? s->id : base;
        *ready = (sk_oid){s->id ? 0 : base + 1};
        sk_loop_dispatch(l);
    }
    sk_driver_unlock(e);
    return rc;
}
static sk_rc l_group_remove(struct sk_engine *e, uint64_t group, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    sk_rc rc = l->closing ? sk_driver_closed(err) : sk_lgroup_remove(l, group, err);
    if (rc == SK_OK) sk_loop_dispatch(l);
    sk_driver_unlock(e);
    return rc;
}
static size_t l_groups(struct sk_engine *e, void *buf, size_t cap) {
    sk_driver_lock(e);
    size_t n = sk_local_of(e)->closing ? 0 : sk_lgroups_write(sk_local_of(e), buf, cap);
    sk_driver_unlock(e);
    return n;
}

const struct sk_groups_ops sk_driver_groups = {
    .create = l_group_create, .remove = l_group_remove, .list = l_groups};

/* ---- envs.h, windows.h, moves.h, host.h ---- */

static sk_rc l_env_define(struct sk_engine *e, struct sk_bytes env, uint32_t *out,
                          struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc = sk_local_of(e)->closing ? sk_driver_closed(err)
                                       : sk_env_define(sk_local_of(e), env, out, err);
    sk_driver_unlock(e);
    return rc;
}

const struct sk_envs_ops sk_driver_envs = {.define = l_env_define};

static void l_buf_warm(struct sk_engine *e, void *at, size_t len) {
    struct sk_local *l = sk_local_of(e);
    sk_seg_warm(&l->data_seg, (sk_off)((uint8_t *)at - l->data_seg.base), len);
}

static sk_rc l_window(struct sk_engine *e, const void *data, size_t len, bool own, void **at,
                      struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    return sk_seg_window(&l->data_seg, (sk_off)((const uint8_t *)data - l->data_seg.base), len, own,
                         at, err);
}

static sk_rc l_file(struct sk_engine *e, const void *data, size_t len, int *fd, uint64_t *at,
                    struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    return sk_seg_file(&l->data_seg, (sk_off)((const uint8_t *)data - l->data_seg.base), len, fd,
                       at, err);
}

const struct sk_windows_ops sk_driver_windows = {
    .open = l_window, .file = l_file, .warm = l_buf_warm};

static sk_rc l_follow(struct sk_engine *e, struct sk_sink *s, struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc =
        sk_local_of(e)->closing ? sk_driver_closed(err) : sk_moves_follow(sk_local_of(e), s, err);
    sk_driver_unlock(e);
    return rc;
}

static void l_unfollow(struct sk_engine *e, struct sk_sink *s) {
    sk_driver_lock(e);
    sk_moves_unfollow(sk_local_of(e), s);
    sk_driver_unlock(e);
}

const struct sk_moves_ops sk_driver_moves = {.follow = l_follow, .unfollow = l_unfollow};

/* ---- channels.h ---- */

static uint8_t *l_memory(struct sk_engine *e, uint64_t *size) {
    const struct sk_local *l = sk_local_of(e);
    *size = l->data_seg.size + l->data_seg.tail;
    return l->data_seg.base;
}

static sk_rc l_attend(struct sk_engine *e, struct sk_err *err) {
    (void)e, (void)err;
    return SK_OK;
}

static sk_rc l_graph_open(struct sk_engine *e, uint64_t *graph, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    sk_rc rc = l->closing ? sk_driver_closed(err) : sk_lgraph_open(l, SK_PROC_DRIVER, graph, err);
    sk_driver_unlock(e);
    return rc;
}

static sk_rc l_graph_alloc(struct sk_engine *e, uint64_t graph, uint64_t len, sk_off *off,
                           uint64_t *cap, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct sk_buf b;
    SK_TRY(sk_driver_buf_alloc(e, SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN), &b, err));
    sk_driver_lock(e);
    sk_rc rc = l->closing ? sk_driver_closed(err) : sk_lgraph_own(l, graph, b.token, b.len, err);
    sk_driver_unlock(e);
    if (rc == SK_OK) *off = b.token, *cap = b.len;
    return rc;
}

static void l_graph_free(struct sk_engine *e, uint64_t graph, sk_off off) {
    sk_driver_lock(e);
    if (!sk_local_of(e)->closing) sk_lgraph_free(sk_local_of(e), graph, off);
    sk_driver_unlock(e);
}

static void l_graph_close(struct sk_engine *e, uint64_t graph) {
    sk_driver_lock(e);
    if (!sk_local_of(e)->closing) sk_lgraph_close(sk_local_of(e), SK_PROC_DRIVER, graph);
    sk_driver_unlock(e);
}

static uint32_t l_graphs_living(struct sk_engine *e) {
    sk_driver_lock(e);
    uint32_t n = sk_lgraphs_living(sk_local_of(e));
    sk_driver_unlock(e);
    return n;
}

static sk_rc l_promise(struct sk_engine *e, sk_oid *out, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    uint64_t id = sk_new_ids(l, 1);
    sk_rc rc = l->closing ? sk_driver_closed(err) : sk_promise_new(l, SK_PROC_DRIVER, id, err);
    if (rc == SK_OK) *out = (sk_oid){id};
    sk_driver_unlock(e);
    return rc;
}

static sk_rc l_keep(struct sk_engine *e, sk_oid o, const struct sk_payload *p, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct sk_buf big = {0}, *buf = p->buf;
    size_t len = buf ? p->buf_len : p->bytes.n;
    struct sk_val v = {.kind = p->kind, .where = SK_V_INLINE, .len = len};
    SK_ASSERT(!p->keep);
    if (!buf && len > SK_INLINE_MAX) {
        SK_TRY(sk_driver_buf_alloc(e, len, &big, err));
        memcpy(big.data, p->bytes.p, len);
        buf = &big;
    }
    size_t own = (size_t)SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN),
           have = buf ? (size_t)SK_ALIGN(SK_MAX(buf->len, 1), SK_STORE_ALIGN) : 0;
    if (buf) v.where = SK_V_STORE, v.off = buf->token, v.len = SK_MAX(len, 1);
    sk_driver_lock(e);
    sk_rc rc = l->closing ? sk_driver_closed(err) : SK_OK;
    if (rc == SK_OK &&
        !sk_promise_keep(l, SK_PROC_DRIVER, o.v, &v, p->bytes.p,
                         (struct sk_ids){(const uint64_t *)p->contains, p->n_contains}))
        rc = SK_ERR(err, SK_ENOENT, "this value was given before");
    if (rc != SK_OK) own = 0; /* no part of the buffer belongs to the object */
    if (buf && have > own)
        SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, v.off + own, have - own, NULL));
    if (buf) buf->data = NULL;
    if (rc == SK_OK) {
        sk_obj_drain(l);
        /* the thread that waits for the value may be the driving one, asleep on this bell */
        sk_bell_ring(&l->ctl->bell[0]);
    }
    sk_driver_unlock(e);
    return rc;
}

const struct sk_channels_ops sk_driver_channels = {.memory = l_memory,
                                                   .attend = l_attend,
                                                   .open = l_graph_open,
                                                   .alloc = l_graph_alloc,
                                                   .free = l_graph_free,
                                                   .close = l_graph_close,
                                                   .living = l_graphs_living,
                                                   .promise = l_promise,
                                                   .keep = l_keep};

static sk_rc l_preload(struct sk_engine *e, struct sk_bytes note, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    sk_rc rc = l->closing ? sk_driver_closed(err) : SK_OK;
    if (rc == SK_OK && !l->pool.server_dead) rc = sk_forksrv_note(&l->forksrv, note.p, note.n, err);
    sk_driver_unlock(e);
    return rc;
}

const struct sk_host_ops sk_driver_host = {.preload = l_preload};

/* local.c - the local engine: worker processes and a shared-memory store on this machine, the loop in the user's process. This file is the
 * public side: every call takes the lock, works on the structures of engine/local/, and drives the loop in place when it has
 * to wait (a synchronous call costs one round trip and no thread switch).
 *
 * Who drives: one caller at a time (l->driving); other callers wait on l->turn and look again after each progress; the loop thread drives
 * when nobody else does. ctl->who tells the workers whose bell to ring. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/local_int.h"
#include "engine/res.h"

#define SPIN_NS 50000
#define PUMP_EVERY 64
#define INTERRUPT_NS 100000000
#define TELL_NS 10000000 /* a wait of so long is worth words */
#define LINEAGE_BYTES (UINT64_C(64) << 20)

static struct sk_local *L(struct sk_engine *e) { return sk_container_of(e, struct sk_local, base); }

/* A short spin first: the loop holds the lock for microseconds, a futex sleep costs 34. */
static _Thread_local int depth; /* how often this thread holds an engine's lock */

void sk_space_no_waiting(void) { depth = 1; }

static void lock(struct sk_engine *e) {
    struct sk_local *l = L(e);
    depth++;
    for (int i = 0; i < 200; i++) {
        if (pthread_mutex_trylock(&l->mu) == 0) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&l->mu);
}
static void unlock(struct sk_engine *e) {
    depth--;
    pthread_mutex_unlock(&L(e)->mu);
}

static sk_rc closed(struct sk_err *err) { return SK_ERR(err, SK_ECLOSED, "the engine is shut down"); }

/* ---- waiting ------------------------------------------------------------------------------------------------------------------ */

struct waited { /* for what; told to who looks on when it takes long */
    const char *verb;
    const sk_oid *ids;
    size_t n;
    uint64_t tid; /* a stream */
};

/* Lock held (once). Returns with the lock held. */
static sk_rc drive(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline, const struct waited *w);
static sk_rc drive_until(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline, const struct waited *w) {
    l->space.n_inside++;
    sk_rc rc = drive(l, done, arg, deadline, w);
    l->space.n_inside--;
    return rc;
}

static sk_rc drive(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline, const struct waited *w) {
    sk_rc rc = SK_OK;
    bool told = false;
    for (;;) {
        if (l->closing) return SK_ECLOSED;
        if (done(arg)) return SK_OK;
        if (!l->driving) break;
        if (deadline != INT64_MAX && sk_now_ns() >= deadline) return SK_ETIMEOUT;
        struct timespec ts;
        int64_t until = SK_MIN(deadline, sk_now_ns() + 100000000);
        ts.tv_sec = until / 1000000000;
        ts.tv_nsec = until % 1000000000;
        l->n_callers++;
        pthread_cond_timedwait(&l->turn, &l->mu, &ts);
        l->n_callers--;
    }
    l->driving = true;
    int64_t began = INT64_MAX;
    atomic_store_explicit(&l->ctl->who, 0, memory_order_seq_cst);
    for (;;) {
        uint32_t seen = sk_bell_seq(&l->ctl->bell[0]);
        uint64_t before = l->progress;
        uint32_t n = sk_loop_pump(l);
        sk_space_step(l);
        sk_loop_dispatch(l);
        if ((n || l->progress != before) && l->n_callers) pthread_cond_broadcast(&l->turn);
        if (l->closing) {
            rc = SK_ECLOSED;
            break;
        }
        if (done(arg)) break;
        int64_t now = sk_now_ns();
        if (now >= deadline) {
            rc = SK_ETIMEOUT;
            break;
        }
        if (n) continue;
        struct sk_pace_view view = sk_loop_view(l, now, n);
        struct sk_pace_sleep s = sk_pace_caller(&view, l->n_cpu, l->spin_ns, deadline);
        if (began == INT64_MAX) began = now;
        if (now - began >= TELL_NS) {
            sk_state_waits(l, w->verb, w->ids, w->n, w->tid);
            told = true;
            began = now;
        }
        s.until_ns = SK_MIN(s.until_ns, began + (told ? 10 : 1) * TELL_NS);
        pthread_mutex_unlock(&l->mu);
        (void)sk_bell_wait(&l->ctl->bell[0], seen, s.spin_ns, s.until_ns);
        pthread_mutex_lock(&l->mu);
    }
    if (told) atomic_store(&l->ctl->waits_ns, rc == SK_ETIMEOUT ? sk_now_ns() : 0); /* it may go on: a layer above waits in slices */
    l->driving = false;
    atomic_store_explicit(&l->ctl->who, 1, memory_order_seq_cst);
    if (sk_loop_pump(l)) sk_loop_dispatch(l); /* who rang the old bell published before we turned the switch */
    if (l->n_callers) pthread_cond_broadcast(&l->turn);
    return rc;
}

static sk_rc l_drive(struct sk_engine *e, bool (*done)(void *), void *arg, int64_t deadline, struct sk_err *err) {
    lock(e);
    sk_rc rc = drive_until(L(e), done, arg, deadline, &(struct waited){.verb = "drives a pipeline"});
    unlock(e);
    if (rc == SK_ECLOSED) return closed(err);
    if (rc == SK_ETIMEOUT) return SK_ERR(err, rc, "the time is over");
    return rc;
}

/* ---- functions, shapes ------------------------------------------------------------------------------------------------------------ */

static sk_rc l_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def, struct sk_err *err) {
    lock(e);
    sk_rc rc = L(e)->closing ? closed(err) : sk_fn_define(L(e), fn.v, (struct sk_bytes){name, strlen(name)}, def, err);
    unlock(e);
    return rc;
}

static sk_rc l_shape(struct sk_engine *e, const struct sk_res *r, sk_shape *out, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    sk_rc rc = sk_res_check(r, &l->place.total, &l->names, err);
    if (rc == SK_OK) rc = sk_place_shape(&l->place, r, out, err);
    unlock(e);
    return rc;
}

static sk_rc l_res_index(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err) {
    return sk_res_index(name, &L(e)->names, out, err);
}

static void l_resources(struct sk_engine *e, struct sk_res *total, struct sk_res *avail) {
    lock(e);
    *total = L(e)->place.total;
    *avail = L(e)->place.avail;
    unlock(e);
}

/* ---- tasks -------------------------------------------------------------------------------------------------------------------------- */

/* Spec into a buffer: on the stack when small, else from the heap (*heap to free). */
static struct sk_bytes encode(const struct sk_task_spec *s, uint8_t *stack, size_t cap, uint8_t **heap) {
    struct sk_wr w = sk_wr_init(stack, cap);
    *heap = NULL;
    sk_spec_write(&w, s);
    if (sk_wr_ok(&w)) return (struct sk_bytes){stack, w.n};
    *heap = sk_alloc(SK_TAG_ENGINE, w.n);
    if (!*heap) return (struct sk_bytes){NULL, 0};
    w = sk_wr_init(*heap, w.n);
    sk_spec_write(&w, s);
    return (struct sk_bytes){*heap, w.n};
}

/* A submission under way: its spec in bytes, the lock, and the first of its ids. */
struct submission {
    struct sk_bytes spec;
    uint64_t base;
    uint8_t stack[1024], *heap;
};

/* Takes the lock when it returns SK_OK; then, and only then, submission_end. */
static sk_rc submission_begin(struct sk_engine *e, const struct sk_task_spec *s, uint32_t n_ids, struct submission *m, struct sk_err *err) {
    struct sk_local *l = L(e);
    m->spec = encode(s, m->stack, sizeof m->stack, &m->heap);
    if (!m->spec.p) return SK_ERR(err, SK_ENOMEM, "no memory for a task or actor");
    lock(e);
    if (l->closing) {
        unlock(e);
        sk_free(m->heap);
        return closed(err);
    }
    m->base = l->next_id + 1;
    l->next_id += n_ids;
    l->now_ns = sk_now_ns();
    return SK_OK;
}

static void submission_end(struct sk_engine *e, struct submission *m) {
    unlock(e);
    sk_free(m->heap);
}

static sk_rc l_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid, struct sk_err *err) {
    struct sk_local *l = L(e);
    struct submission m;
    SK_TRY(submission_begin(e, s, 1 + (s->n_returns == SK_STREAMING ? 0 : s->n_returns), &m, err));
    sk_rc rc = s->max_pending ? sk_actor_may_call(l, s->actor.v, SK_PROC_DRIVER, s->max_pending, err) : SK_OK;
    if (rc == SK_OK) rc = sk_ltask_submit(l, SK_PROC_DRIVER, 0, m.base, m.spec.p, m.spec.n, s->sink, err);
    if (rc == SK_OK) {
        if (first) *first = (sk_oid){m.base + 1};
        if (tid) *tid = (sk_tid){m.base};
        /* Somebody submits many and waits for none yet: keep the workers fed without waking the loop thread. */
        if (!l->driving && ++l->n_submits % PUMP_EVERY == 0) sk_loop_pump(l);
        sk_loop_dispatch_at(l, l->now_ns);
    }
    submission_end(e, &m);
    return rc;
}

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

static sk_rc l_stream_next(struct sk_engine *e, sk_tid t, int64_t deadline, sk_oid *out, struct sk_err *err) {
    struct stream_wait w = {L(e), t.v, 0, SK_OK};
    lock(e);
    sk_rc rc = drive_until(L(e), stream_done, &w, deadline, &(struct waited){.verb = "the next value of a stream", .tid = t.v});
    unlock(e);
    if (rc == SK_ECLOSED) return closed(err);
    if (rc != SK_OK) return SK_ERR(err, rc, "the time is over");
    if (w.oid) *out = (sk_oid){w.oid};
    if (w.rc == SK_EDONE) return SK_EDONE;
    return w.rc == SK_OK
               ? SK_OK
               : SK_ERR(err, w.rc, w.rc == SK_ETASK ? "the task failed" : "the task failed, and there was no memory to record how");
}

static bool stream_stirs(void *arg) {
    const struct stream_wait *w = arg;
    return sk_stream_stirs(sk_map_get(&w->l->tasks, w->tid));
}

static sk_rc l_stream_wait(struct sk_engine *e, sk_tid t, int64_t deadline, struct sk_err *err) {
    struct stream_wait w = {L(e), t.v, 0, SK_OK};
    lock(e);
    sk_rc rc = stream_stirs(&w)
                   ? SK_OK
                   : drive_until(L(e), stream_stirs, &w, deadline, &(struct waited){.verb = "the next value of a stream", .tid = t.v});
    if (rc == SK_OK && sk_stream_at_end(sk_map_get(&L(e)->tasks, t.v))) rc = SK_EDONE;
    unlock(e);
    if (rc == SK_ECLOSED) return closed(err);
    return rc == SK_OK || rc == SK_EDONE ? rc : SK_ERR(err, rc, "the time is over");
}

static sk_rc l_stream_end(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    uint64_t id = l->next_id + 1;
    sk_rc rc = l->closing ? closed(err) : sk_stream_end(l, t.v, id, SK_PROC_DRIVER, kind, err);
    if (rc == SK_OK) {
        l->next_id = id;
        *out = (sk_oid){id};
    }
    unlock(e);
    return rc;
}

static sk_rc l_watch(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    sk_rc rc = l->closing ? closed(err) : sk_req_watch(l, NULL, 0, o.v, stream.v, w, err);
    unlock(e);
    return rc;
}

static bool l_unwatch(struct sk_engine *e, struct sk_watch *w) {
    lock(e);
    struct sk_req *q = (struct sk_req *)(uintptr_t)w->id; /* 0 once it was called */
    if (q) sk_req_free(L(e), q);
    sk_obj_drain(L(e)); /* it may have been the last that held the object */
    w->id = 0;
    unlock(e);
    return q != NULL;
}

static void l_stream_drop(struct sk_engine *e, sk_tid t) {
    struct sk_local *l = L(e);
    lock(e);
    struct sk_ltask *k = l->closing ? NULL : sk_map_get(&l->tasks, t.v);
    if (k && k->is_stream && !k->sink) sk_stream_drop(l, k);
    unlock(e);
}

static sk_rc l_cancel(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    sk_rc rc = SK_OK;
    if (l->closing) rc = closed(err);
    else sk_ltask_cancel_by(l, t.v, flags);
    unlock(e);
    return rc;
}

/* ---- actors --------------------------------------------------------------------------------------------------------------------------- */

static sk_rc l_actor_create(struct sk_engine *e, const struct sk_actor_spec *s, sk_aid *out, sk_oid *ready, struct sk_err *err) {
    struct sk_local *l = L(e);
    struct sk_task_spec init = s->init;
    init.n_returns = 1;
    init.actor = (sk_aid){0};
    struct submission m;
    SK_TRY(submission_begin(e, &init, 3, &m, err));
    struct sk_aspec as = sk_aspec_of(s);
    sk_rc rc = sk_actor_create(l, SK_PROC_DRIVER, m.base, m.spec.p, m.spec.n, &as, err);
    if (rc == SK_OK) {
        *ready = (sk_oid){m.base + 1};
        *out = (sk_aid){m.base + 2};
        sk_loop_dispatch(l);
    }
    submission_end(e, &m);
    return rc;
}

static sk_rc l_actor_kill(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    struct sk_obj *o = l->closing ? NULL : sk_obj_get(l, a.v);
    struct sk_lactor *x = o && o->state == SK_O_ACTOR ? o->u.actor : NULL;
    if (x && x->state != SK_A_DEAD) {
        if (no_restart) {
            /* Calls that are on its worker end when the worker's death is reported; those that wait end now. */
            struct sk_lworker *w = x->worker;
            x->stopping = x->no_restart = true;
            sk_name_free(&x->name);
            if (w) {
                sk_pool_kill(l, w, "The actor is dead because it was killed by `ray.kill`");
                sk_actor_fail_calls(l, x, "it was killed by `ray.kill`");
            } else {
                sk_actor_dead(l, x, "it was killed by `ray.kill`");
            }
        } else if (x->worker) {
            x->asked = true;
            sk_pool_kill(l, x->worker, "kill(no_restart=False) was called on its actor");
        } else if (x->restarts_left == 0) {
            sk_actor_dead(l, x, "it was killed by `ray.kill`");
        } else { /* it has no process yet: a life less all the same */
            x->asked = true;
            if (x->restarts_left > 0) x->restarts_left--;
        }
        sk_obj_drain(l);
    }
    unlock(e);
    return x ? SK_OK : SK_ERR(err, SK_ENOENT, "no such actor");
}

static sk_rc l_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out, sk_oid *ready, struct sk_bytes *meta,
                          struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    struct sk_lactor *a = NULL;
    sk_rc rc = l->closing ? closed(err)
                          : sk_actor_find(l, SK_PROC_DRIVER, (struct sk_bytes){space ? space : "", space ? strlen(space) : 0},
                                          (struct sk_bytes){name, strlen(name)}, &a, err);
    if (rc == SK_OK) {
        *out = (sk_aid){a->id};
        *ready = (sk_oid){a->id - 1};
        void *copy = sk_memdup(SK_TAG_ENGINE, a->name->meta.n ? a->name->meta.p : "", a->name->meta.n ? a->name->meta.n : 1);
        if (copy) {
            *meta = (struct sk_bytes){copy, a->name->meta.n};
        } else {
            SK_IGNORE(sk_own_unref(l->own, out->v, SK_PROC_DRIVER, 1, NULL));
            SK_IGNORE(sk_own_unref(l->own, ready->v, SK_PROC_DRIVER, 1, NULL));
            sk_obj_drain(l);
            rc = SK_ERR(err, SK_ENOMEM, "no memory to find an actor");
        }
    }
    unlock(e);
    return rc;
}
static sk_rc l_need(struct sk_engine *e, const struct sk_need *n, sk_shape *out, struct sk_err *err) {
    lock(e);
    sk_rc rc = L(e)->closing ? closed(err) : sk_need_shape(L(e), n, out, err);
    unlock(e);
    return rc;
}
static sk_rc l_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out, struct sk_err *err) {
    lock(e);
    sk_rc rc = L(e)->closing ? closed(err) : sk_more_define(L(e), a, n, out, err);
    unlock(e);
    return rc;
}
static size_t l_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    lock(e);
    size_t n = sk_place_more_read(&L(e)->place, more, out, cap);
    unlock(e);
    return n;
}
static sk_rc l_env_define(struct sk_engine *e, struct sk_bytes env, uint32_t *out, struct sk_err *err) {
    lock(e);
    sk_rc rc = L(e)->closing ? closed(err) : sk_env_define(L(e), env, out, err);
    unlock(e);
    return rc;
}
static sk_rc l_group_create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out, sk_oid *ready, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    uint64_t base = l->next_id + 1;
    l->next_id += 2;
    sk_rc rc = l->closing ? closed(err)
                          : sk_lgroup_create(l, SK_PROC_DRIVER, base, s->bundles, s->n, s->strategy,
                                             (struct sk_bytes){s->space, s->space ? strlen(s->space) : 0},
                                             (struct sk_bytes){s->name, s->name ? strlen(s->name) : 0}, err);
    if (rc == SK_OK) {
        *out = base;
        *ready = (sk_oid){base + 1};
        sk_loop_dispatch(l);
    }
    unlock(e);
    return rc;
}
static sk_rc l_group_remove(struct sk_engine *e, uint64_t group, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    sk_rc rc = l->closing ? closed(err) : sk_lgroup_remove(l, group, err);
    if (rc == SK_OK) sk_loop_dispatch(l);
    unlock(e);
    return rc;
}
static size_t l_groups(struct sk_engine *e, void *buf, size_t cap) {
    lock(e);
    size_t n = L(e)->closing ? 0 : sk_lgroups_write(L(e), buf, cap);
    unlock(e);
    return n;
}
static size_t l_actor_names(struct sk_engine *e, char *buf, size_t cap) {
    lock(e);
    size_t n = L(e)->closing ? 0 : sk_names_write(&L(e)->names_of_actors, buf, cap);
    unlock(e);
    return n;
}

/* ---- objects ---------------------------------------------------------------------------------------------------------------------------- */

static void l_addref(struct sk_engine *e, sk_oid o) {
    lock(e);
    if (!L(e)->closing) SK_IGNORE(sk_own_ref(L(e)->own, o.v, SK_PROC_DRIVER, 1, NULL));
    unlock(e);
}
static void l_release(struct sk_engine *e, sk_oid o) {
    struct sk_local *l = L(e);
    lock(e);
    if (!l->closing && sk_own_unref(l->own, o.v, SK_PROC_DRIVER, 1, NULL) == SK_OK) sk_obj_drain(l);
    unlock(e);
}
static void l_actor_addref(struct sk_engine *e, sk_aid a) { l_addref(e, (sk_oid){a.v}); }
static void l_actor_release(struct sk_engine *e, sk_aid a) { l_release(e, (sk_oid){a.v}); }

static bool room_done(void *arg) { return ((struct sk_room *)arg)->rc != SK_EAGAIN; }

static sk_rc wait_for_room(struct sk_local *l, uint64_t len, sk_off *off, struct sk_err *err) {
    struct sk_room r = {.len = len, .min = len, .rc = SK_EAGAIN, .err = err};
    sk_list_push_back(&l->space.rooms, &r.link);
    sk_bell_ring(&l->ctl->bell[0]); /* another caller may be driving, asleep */
    sk_rc rc;
    bool stop = false;
    while ((rc = drive_until(l, room_done, &r, sk_now_ns() + INTERRUPT_NS, &(struct waited){.verb = "room in the object store"})) ==
               SK_ETIMEOUT &&
           !stop) {
        l->space.n_inside++; /* still waiting */
        unlock(&l->base);
        stop = l->interrupted && l->interrupted(l->interrupted_ctx);
        lock(&l->base);
        l->space.n_inside--;
    }
    sk_list_del(&r.link);
    if (rc != SK_OK && r.rc == SK_OK && !l->closing) SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, r.off, len, NULL));
    if (rc == SK_ETIMEOUT) return SK_ERR(err, SK_ECANCEL, "interrupted while waiting for room in the store");
    if (rc != SK_OK) return closed(err);
    if (r.rc == SK_OK) *off = r.off;
    return r.rc;
}

static sk_rc l_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    struct sk_local *l = L(e);
    sk_off off = 0;
    sk_rc rc = SK_EFULL;
    len = SK_MAX(len, 1);
    lock(e);
    bool may_wait = l->space.spill && depth == 1 && len <= l->data_seg.size;
    if (l->closing) rc = closed(err);
    else if (!may_wait || sk_list_empty(&l->space.rooms)) rc = sk_space_alloc(l, SK_PROC_DRIVER, len, &off, err);
    if (rc == SK_EFULL) rc = may_wait ? wait_for_room(l, len, &off, err) : sk_space_overflow(l, SK_PROC_DRIVER, len, &off, err);
    unlock(e);
    if (rc == SK_OK) *out = (struct sk_buf){l->data_seg.base + off, len, off};
    return rc;
}
static void l_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct sk_local *l = L(e);
    lock(e);
    if (!l->closing && b->data) SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, b->token, SK_MAX(b->len, 1), NULL));
    b->data = NULL;
    unlock(e);
}

static void l_buf_warm(struct sk_engine *e, void *at, size_t len) {
    struct sk_local *l = L(e);
    sk_seg_warm(&l->data_seg, (sk_off)((uint8_t *)at - l->data_seg.base), len);
}

static sk_rc l_window(struct sk_engine *e, const void *data, size_t len, bool own, void **at, struct sk_err *err) {
    struct sk_local *l = L(e);
    return sk_seg_window(&l->data_seg, (sk_off)((const uint8_t *)data - l->data_seg.base), len, own, at, err);
}

static sk_rc l_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err) {
    struct sk_local *l = L(e);
    struct sk_buf big = {0};
    const struct sk_buf *buf = p->buf;
    size_t len = buf ? p->buf_len : p->bytes.n;
    if (!buf && len > SK_INLINE_MAX) {
        SK_TRY(l_buf_alloc(e, len, &big, err));
        memcpy(big.data, p->bytes.p, len);
        buf = &big;
    }
    lock(e);
    struct sk_obj *o = NULL;
    sk_rc rc = l->closing ? closed(err) : sk_obj_new(l, l->next_id + 1, SK_PROC_DRIVER, &o, err);
    if (rc == SK_OK) {
        l->next_id++;
        o->kind = p->kind;
        o->len = len;
        if (buf) {
            o->where = SK_V_STORE;
            o->u.off = buf->token;
            size_t al = (size_t)SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN), have = (size_t)SK_ALIGN(SK_MAX(buf->len, 1), SK_STORE_ALIGN);
            rc = sk_store_commit(l->store, SK_PROC_DRIVER, buf->token, SK_MAX(len, 1), err);
            if (rc != SK_OK) SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, buf->token, have, NULL));
            else if (have > al) SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, buf->token + al, have - al, NULL));
        } else {
            o->where = SK_V_INLINE;
            o->u.inl = sk_inl_new(p->bytes.p, len);
            if (!o->u.inl) rc = SK_ERR(err, SK_ENOMEM, "no memory for a value of %zu bytes", len);
        }
        if (rc == SK_OK) {
            o->state = SK_O_READY;
            if (buf) sk_obj_home(SK_PROC_DRIVER, buf->token);
            if (buf && SK_FAULT("store.lose")) o->gone = true;
            if (buf) sk_space_sealed(l, o);
            if (p->n_contains) rc = sk_own_contains(l->own, o->id, (const uint64_t *)p->contains, p->n_contains, err);
            if (rc == SK_OK && p->keep) {
                rc = sk_store_pin(l->store, SK_PROC_DRIVER, o->u.off);
                if (rc == SK_OK) *p->keep = (struct sk_view){buf->data, len, o->kind, {o->id}, o->u.off << 1 | 1};
                else rc = SK_ERR(err, rc, "put: no memory to note what is held");
            }
        }
        if (rc == SK_OK) *out = (sk_oid){o->id};
        else {
            SK_IGNORE(sk_own_unref(l->own, o->id, SK_PROC_DRIVER, 1, NULL));
            sk_obj_drain(l);
        }
    } else if (buf) {
        SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, buf->token, SK_MAX(buf->len, 1), NULL));
    }
    if (p->buf) p->buf->data = NULL;
    unlock(e);
    return rc;
}

struct get_wait {
    struct sk_local *l;
    const sk_oid *ids;
    size_t n, at; /* ids[0..at) exist */
    sk_rc rc;
    uint64_t n_lost; /* as of `at` */
    struct sk_getter get;
};
static bool get_done(void *arg) {
    struct get_wait *w = arg;
    if (w->n_lost != w->l->n_lost) w->at = 0;
    w->n_lost = w->l->n_lost;
    if (w->get.refused != SK_OK) {
        w->rc = w->get.refused;
        return true;
    }
    bool disk = false; /* all that are on disk are asked for, then it waits */
    for (size_t i = w->at; i < w->n; i++) {
        struct sk_obj *o = sk_obj_get(w->l, w->ids[i].v);
        if (!o) {
            w->rc = SK_ELOST;
            return true;
        }
        if (SK_UNLIKELY(o->gone)) {
            uint64_t n_spilled = w->l->space.n_out;
            sk_recover_lost(w->l, o->id);
            sk_loop_dispatch(w->l); /* may find at once that it cannot be made again: READY, an error */
            if (n_spilled != w->l->space.n_out) {
                w->at = 0;
                return false;
            }
        }
        if (o->state == SK_O_PENDING) return false;
        if (SK_UNLIKELY(o->state == SK_O_READY && o->where == SK_V_DISK)) disk = true, sk_space_want(w->l, o);
        if (!disk) w->at = i + 1;
    }
    return !disk;
}

static void view_drop(struct sk_local *l, struct sk_view *v) {
    l->space.n_eased++;
    if (v->token & 1) (void)sk_store_unpin(l->store, SK_PROC_DRIVER, v->token >> 1);
    else if (v->token) sk_inl_drop((struct sk_inl *)(uintptr_t)v->token);
    v->token = 0;
    v->data = NULL;
}

static sk_rc l_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline, struct sk_view *out, struct sk_err *err) {
    struct sk_local *l = L(e);
    struct get_wait w = {.l = l, .ids = ids, .n = n};
    lock(e);
    sk_rc rc = l->closing ? SK_ECLOSED : SK_OK;
    if (rc == SK_OK && !get_done(&w)) {
        w.get = (struct sk_getter){.ids = (const uint64_t *)ids, .n = n};
        sk_list_push_back(&l->space.gets, &w.get.link);
        if (!sk_list_empty(&l->space.restores)) sk_bell_ring(&l->ctl->bell[0]); /* another caller may be driving, asleep */
        do { /* again: something may be lost, or spilled, after it was seen */
            rc = drive_until(l, get_done, &w, deadline, &(struct waited){"get()", ids, n, 0});
            if (l->space.n_disk) w.at = 0;
        } while (rc == SK_OK && !get_done(&w));
        sk_list_del(&w.get.link);
        l->space.n_eased++;
    }
    if (rc == SK_OK) rc = w.rc;
    for (size_t i = 0; rc == SK_OK && i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, ids[i].v);
        out[i] = (struct sk_view){.kind = o->kind, .oid = ids[i], .len = o->len};
        if (o->state == SK_O_ACTOR) continue;
        SK_ASSERT(o->where != SK_V_DISK); /* get_done saw it in the store a moment ago */
        if (o->where == SK_V_STORE) {
            if (sk_store_pin(l->store, SK_PROC_DRIVER, o->u.off) != SK_OK) {
                while (i-- > 0) view_drop(l, &out[i]);
                rc = SK_ENOMEM;
                break;
            }
            if (o->st) sk_space_used(l, o);
            out[i].data = l->data_seg.base + o->u.off;
            out[i].token = o->u.off << 1 | 1;
        } else if (o->u.inl) {
            o->u.inl->refs++;
            out[i].data = o->u.inl->bytes;
            out[i].token = (uint64_t)(uintptr_t)o->u.inl;
        } else {
            out[i].len = 0;
            out[i].data = (const uint8_t *)"";
        }
    }
    unlock(e);
    if (rc == SK_ECLOSED) return closed(err);
    if (rc == SK_ENOMEM) return SK_ERR(err, rc, "get: no memory to note what is held");
    if (w.get.refused != SK_OK && rc == w.get.refused) return SK_ERR(err, rc, "get: %s", l->space.refuse_msg);
    if (rc == SK_ETIMEOUT) return SK_ERR(err, rc, "get: the time is over, %zu of %zu objects exist", w.at, n);
    if (rc == SK_ELOST)
        return SK_ERR(err, rc, "get: object %llu does not exist any more: its last reference was released",
                      (unsigned long long)ids[w.at].v);
    return rc;
}

static void l_view_release(struct sk_engine *e, struct sk_view *v) {
    struct sk_local *l = L(e);
    if (!v->token) return;
    lock(e);
    if (!l->closing) view_drop(l, v);
    unlock(e);
    v->token = 0;
    v->data = NULL;
}

struct wait_wait {
    struct sk_local *l;
    const sk_oid *ids;
    size_t n, want, n_ready;
    uint64_t seen;
    bool *ready, fresh;
};
static bool wait_done(void *arg) {
    struct wait_wait *w = arg;
    if (w->fresh && w->seen == w->l->progress) return false;
    w->fresh = true;
    w->seen = w->l->progress;
    for (size_t i = 0; i < w->n; i++) {
        if (w->ready[i]) continue;
        struct sk_obj *o = sk_obj_get(w->l, w->ids[i].v);
        if (!o || o->state != SK_O_PENDING) {
            w->ready[i] = true;
            w->n_ready++;
        }
    }
    return w->n_ready >= w->want;
}

static sk_rc l_wait(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want, int64_t deadline, bool *ready, struct sk_err *err) {
    struct sk_local *l = L(e);
    struct wait_wait w = {l, ids, n, SK_MIN(want, n), 0, 0, ready, false};
    memset(ready, 0, n * sizeof *ready);
    lock(e);
    sk_rc rc = l->closing      ? SK_ECLOSED
               : wait_done(&w) ? SK_OK
                               : drive_until(l, wait_done, &w, deadline, &(struct waited){"wait()", ids, n, 0});
    unlock(e);
    if (rc == SK_ECLOSED) return closed(err);
    if (rc == SK_ETIMEOUT) return SK_ERR(err, rc, "wait: the time is over");
    return rc;
}

/* ---- the rest ------------------------------------------------------------------------------------------------------------------------------ */

static sk_rc l_preload(struct sk_engine *e, struct sk_bytes note, struct sk_err *err) {
    struct sk_local *l = L(e);
    lock(e);
    sk_rc rc = l->closing ? closed(err) : SK_OK;
    if (rc == SK_OK && !l->srv_dead) rc = sk_forksrv_note(&l->srv, note.p, note.n, err);
    unlock(e);
    return rc;
}

static size_t l_references(struct sk_engine *e, struct sk_reference *out, size_t cap) {
    struct sk_local *l = L(e);
    size_t n = 0;
    uint64_t id;
    void *o;
    lock(e);
    for (uint32_t c = 0; !l->closing && sk_own_each(l->own, &c, &id, &o);) {
        const struct sk_obj *x = o, *next = sk_obj_get(l, id + 1);
        if (x->state == SK_O_ACTOR || (next && next->state == SK_O_ACTOR)) continue; /* an actor, its `ready` */
        if (n < cap) out[n] = (struct sk_reference){{id}, sk_own_borrowed(l->own, id, SK_PROC_DRIVER), sk_own_count(l->own, id)};
        n++;
    }
    unlock(e);
    return n;
}

static size_t l_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    struct sk_local *l = L(e);
    size_t n = 0;
    lock(e);
    for (uint32_t i = 0; i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (!w) continue;
        if (n < cap) out[n] = (struct sk_worker_info){w->pid, i, sk_pool_worker_state(w), w->n_done};
        n++;
    }
    unlock(e);
    return n;
}

static size_t l_status(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_local *l = L(e);
    struct sk_store_stats s;
    struct sk_spill_stats d = {0};
    lock(e);
    sk_store_get_stats(l->store, &s);
    if (l->space.spill) sk_spill_get_stats(l->space.spill, &d);
    int n = snprintf(
        buf, cap,
        "workers %u\nworkers_idle %u\ntasks_known %u\ntasks_ready %u\ntasks_done %llu\nretries %llu\nworker_deaths %llu\nobjects %llu\n"
        "objects_lost %llu\nreruns %llu\nlineage_tasks %llu\nlineage_bytes %llu\n"
        "store_size_bytes %llu\nstore_sealed_bytes %llu\nstore_leased_bytes %llu\nstore_warm_bytes %llu\nstore_peak_bytes %llu\nstore_pins "
        "%llu\nheap_bytes %lld\nspilled_objects %llu\nspilled_bytes %llu\nrestored_objects %llu\nrestored_bytes %llu\n"
        "spill_objects_on_disk %llu\nspill_object_bytes_on_disk %llu\nspill_disk_bytes %llu\nspill_quota_bytes %llu\nspill_failures %llu\n"
        "overflow_objects %llu\noverflow_bytes %llu\noverflow_bytes_on_disk %llu\n"
        "spill_objects_damaged %llu\nmemory_limit_bytes %llu\nmemory_used_bytes %llu\nmemory_heap_bytes %llu\nmemory_stops %llu\n"
        "memory_kernel_kills %llu\nmemory_alone %u\n",
        l->n_live, l->place.n_idle, l->tasks.n, l->place.n_ready, (unsigned long long)l->n_tasks_done, (unsigned long long)l->n_retries,
        (unsigned long long)l->n_worker_deaths, (unsigned long long)sk_own_n(l->own), (unsigned long long)l->n_lost,
        (unsigned long long)l->n_reruns, (unsigned long long)sk_lineage_n(l->lin), (unsigned long long)sk_lineage_bytes(l->lin),
        (unsigned long long)s.size_bytes, (unsigned long long)s.sealed_bytes, (unsigned long long)s.leased_bytes,
        (unsigned long long)s.warm_bytes, (unsigned long long)s.peak_bytes, (unsigned long long)s.n_pins,
        (long long)sk_mem_bytes(SK_TAG_ENGINE), (unsigned long long)d.n_written, (unsigned long long)d.written_bytes,
        (unsigned long long)d.n_read, (unsigned long long)d.read_bytes, (unsigned long long)l->space.n_disk,
        (unsigned long long)l->space.disk_object_bytes, (unsigned long long)d.disk_bytes, (unsigned long long)d.quota_bytes,
        (unsigned long long)d.n_failed, (unsigned long long)l->space.n_overflow, (unsigned long long)l->space.overflow_bytes,
        (unsigned long long)sk_store_overflow_used(l->store), (unsigned long long)l->space.n_spoiled,
        (unsigned long long)l->mem.limit_bytes, (unsigned long long)l->mem.used_bytes, (unsigned long long)l->mem.heap_bytes,
        (unsigned long long)l->mem.n_stopped, (unsigned long long)l->mem.n_kernel_killed, l->mem.n_alone);
    unlock(e);
    return (size_t)n + 1;
}

static size_t l_state(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_local *l = L(e);
    lock(e);
    if (!l->closing && !l->driving) {
        sk_loop_pump(l); /* what has ended is told as such */
        sk_loop_dispatch(l);
    }
    size_t n = l->closing ? 0 : sk_state_write(l, what, buf, cap);
    unlock(e);
    return n;
}

static sk_rc l_memory(struct sk_engine *e, struct sk_memory_info *out, struct sk_memory_worker *w, size_t cap, size_t *n,
                      struct sk_err *err) {
    lock(e);
    sk_rc rc = L(e)->closing ? closed(err) : sk_lmem_info(L(e), out, w, cap, n, err);
    unlock(e);
    return rc;
}

static void free_all(struct sk_local *l) {
    uint64_t k;
    void *v;
    sk_space_close(l);
    sk_lmem_close(l);
    if (l->own) {
        sk_obj_drain(l);
        for (uint32_t c = 0; sk_own_each(l->own, &c, &k, &v);) {
            struct sk_obj *o = v;
            if (o->state == SK_O_READY && o->where == SK_V_INLINE) sk_inl_drop(o->u.inl);
            sk_free(o->st);
            for (struct sk_dep *d = o->deps; d;) {
                struct sk_dep *next = d->next;
                sk_free(d);
                d = next;
            }
            sk_free(o);
        }
    }
    if (l->lin) {
        for (uint32_t c = 0; sk_lineage_each(l->lin, &c, &k, &v);) {
            struct sk_ltask *t = v;
            t->kept = false;
            if (sk_map_get(&l->tasks, t->id) != t) sk_ltask_free(l, t);
        }
        sk_lineage_destroy(l->lin);
    }
    sk_vec_free(&l->lost);
    sk_vec_free(&l->relics);
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &k, &v);) {
        struct sk_ltask *t = v;
        sk_recover_free(t);
        sk_inl_drop(t->end_inl);
        for (struct sk_dep *d = t->stream_waiters; d;) {
            struct sk_dep *next = d->next;
            sk_free(d);
            d = next;
        }
        sk_vec_free(&t->yields);
        sk_vec_free(&t->note_hash);
        sk_free(t);
    }
    for (uint32_t i = 0; sk_map_next(&l->fns, &i, &k, &v);) {
        struct sk_fn *f = v;
        sk_free(f->name);
        sk_free(f->def);
        sk_free(f);
    }
    while (!sk_list_empty(&l->actors)) {
        struct sk_lactor *a = sk_container_of(l->actors.next, struct sk_lactor, link);
        sk_list_del(&a->link);
        sk_name_free(&a->name);
        sk_actor_free(a);
    }
    for (uint32_t i = 0; i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (!w) continue;
        sk_list_splice(&w->reqs, &w->watches);
        while (!sk_list_empty(&w->reqs)) {
            struct sk_list *it = w->reqs.next;
            sk_list_del(it);
            sk_free(sk_container_of(it, struct sk_req, link));
        }
        for (uint32_t j = 0; j < w->out.n; j++) sk_free(w->out.p[j]);
        sk_vec_free(&w->out);
        sk_vec_free(&w->big);
        sk_map_deinit(&w->known);
        sk_free(w->mem.story);
        sk_free(w);
    }
    sk_lgroups_free(l);
    sk_history_free(&l->past);
    sk_map_deinit(&l->tasks);
    sk_map_deinit(&l->fns);
    sk_place_deinit(&l->place);
    if (l->own) sk_own_destroy(l->own);
    struct sk_store_stats st = {0};
    if (l->store) {
        sk_store_get_stats(l->store, &st);
        sk_store_destroy(l->store);
    }
    sk_seg_close(&l->ctl_seg);
    if (st.n_pins) { /* views are out: their pages stay mapped (rule 7), only the descriptor goes */
        if (l->data_seg.fd >= 0) close(l->data_seg.fd);
    } else {
        sk_seg_close(&l->data_seg);
    }
    for (char *const *a = l->argv; a && *a; a++) sk_free(*a);
    for (char *const *a = l->env; a && *a; a++) sk_free(*a);
    sk_free((void *)l->argv);
    sk_free((void *)l->env);
    sk_res_names_deinit(&l->names);
    sk_free(l->workers);
    sk_free(l->note.p);
    pthread_cond_destroy(&l->turn);
    pthread_mutex_destroy(&l->mu);
    sk_free(l);
}

static void l_close(struct sk_engine *e) {
    struct sk_local *l = L(e);
    lock(e);
    l->closing = true;
    pthread_cond_broadcast(&l->turn);
    sk_bell_ring(&l->ctl->bell[0]);
    while (l->driving || l->n_callers) { /* callers on other threads leave first */
        pthread_cond_broadcast(&l->turn);
        unlock(e);
        sched_yield();
        lock(e);
    }
    while (!sk_list_empty(&l->watches)) sk_req_fire(l, sk_container_of(l->watches.next, struct sk_req, link));
    unlock(e);
    sk_look_close();
    sk_pool_stop(l);
    free_all(l);
}

static const struct sk_engine_ops ops = {
    .name = "local",
    .close = l_close,
    .fn_define = l_define,
    .shape = l_shape,
    .res_index = l_res_index,
    .resources = l_resources,
    .submit = l_submit,
    .stream_next = l_stream_next,
    .stream_drop = l_stream_drop,
    .stream_wait = l_stream_wait,
    .stream_end = l_stream_end,
    .cancel = l_cancel,
    .actor_create = l_actor_create,
    .actor_kill = l_actor_kill,
    .actor_addref = l_actor_addref,
    .actor_release = l_actor_release,
    .actor_find = l_actor_find,
    .actor_names = l_actor_names,
    .need = l_need,
    .more = l_more,
    .more_read = l_more_read,
    .env_define = l_env_define,
    .group_create = l_group_create,
    .group_remove = l_group_remove,
    .groups = l_groups,
    .buf_alloc = l_buf_alloc,
    .buf_abort = l_buf_abort,
    .buf_warm = l_buf_warm,
    .window = l_window,
    .put = l_put,
    .get = l_get,
    .view_release = l_view_release,
    .wait = l_wait,
    .addref = l_addref,
    .release = l_release,
    .watch = l_watch,
    .unwatch = l_unwatch,
    .drive = l_drive,
    .lock = lock,
    .unlock = unlock,
    .preload = l_preload,
    .references = l_references,
    .workers = l_workers,
    .status = l_status,
    .state = l_state,
    .memory = l_memory,
};

static char **copy_strings(char *const *v) {
    size_t n = 0;
    while (v[n]) n++;
    char **c = sk_calloc(SK_TAG_ENGINE, (n + 1) * sizeof *c);
    for (size_t i = 0; c && i < n; i++)
        if (!(c[i] = sk_strdup(SK_TAG_ENGINE, v[i]))) {
            while (i-- > 0) sk_free(c[i]);
            sk_free(c);
            return NULL;
        }
    return c;
}

static sk_rc l_open(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err) {
    if (!conf->spawn_argv || !conf->spawn_argv[0])
        return SK_ERR(err, SK_EINVAL, "the local engine needs spawn_argv: the command of its fork server");
    struct sk_local *l = sk_calloc(SK_TAG_ENGINE, sizeof *l);
    if (!l) return SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    l->base = (struct sk_engine){&ops, SK_CAP_PROCESSES | SK_CAP_ZERO_COPY | SK_CAP_KILL | SK_CAP_DRIVER |
                                           (conf->n_spill_dirs ? SK_CAP_SPILL : 0)};
    l->ctl_seg = l->data_seg = SK_SEG_EMPTY;
    l->wake_fd = l->srv.sock = -1;
    pthread_mutexattr_t ma;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_settype(&ma, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&l->mu, &ma);
    pthread_mutexattr_destroy(&ma);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&l->turn, &ca);
    pthread_condattr_destroy(&ca);
    sk_map_init(&l->tasks, SK_TAG_ENGINE);
    sk_map_init(&l->fns, SK_TAG_ENGINE);
    sk_list_init(&l->actors);
    sk_list_init(&l->due);
    sk_list_init(&l->names_of_actors);
    sk_list_init(&l->names_of_groups);
    sk_list_init(&l->groups);
    sk_list_init(&l->watches);
    sk_space_init(l);
    l->n_cpu = conf->total.amount[SK_RES_CPU] / SK_RES_UNIT;
    l->max_workers = conf->max_workers ? SK_MIN(conf->max_workers, 65536) : 1024; /* a slot that is never used costs nothing */
    l->n_slots = l->max_workers;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    l->spin_ns = conf->spin_ns >= 0 ? conf->spin_ns : cores > 1 ? SPIN_NS : 0;
    l->idle_reap_ns = conf->idle_reap_ns ? conf->idle_reap_ns : INT64_C(30000000000);
    sk_rc rc = sk_place_init(&l->place, &conf->total, err);
    if (rc != SK_OK) goto out;
    l->place.deep_above = SK_MIN(16 + 4 * (uint32_t)SK_MAX(l->n_cpu, 0), l->max_workers / 2);
    l->argv = copy_strings(conf->spawn_argv);
    l->env = conf->spawn_env ? copy_strings(conf->spawn_env) : NULL;
    l->workers = sk_calloc(SK_TAG_ENGINE, l->n_slots * sizeof *l->workers);
    if (!l->argv || (conf->spawn_env && !l->env) || !l->workers) {
        rc = SK_ERR(err, SK_ENOMEM, "no memory for the engine");
        goto out;
    }
    SK_GO(sk_res_names_init(&l->names, conf->custom_names, conf->n_custom, err));
    SK_GO(sk_place_more_init(&l->place, conf->more, sk_res_n_more(&l->names), err));
    if (conf->preload.n && rc == SK_OK) {
        l->note.p = sk_memdup(SK_TAG_ENGINE, conf->preload.p, conf->preload.n);
        l->note.n = conf->preload.n;
        if (!l->note.p) rc = SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    }
    if (rc != SK_OK) goto out;
    SK_GO(sk_own_create(&l->own, err));
    l->interrupted = conf->interrupted;
    l->interrupted_ctx = conf->interrupted_ctx;
    l->named = conf->named;
    l->named_ctx = conf->named_ctx;
    l->task_retries = conf->task_retries;
    l->lineage_bytes = conf->lineage_bytes ? conf->lineage_bytes : LINEAGE_BYTES;
    SK_GO(sk_lineage_create(&l->lin, l->lineage_bytes, err));
    SK_GO(sk_seg_create(&l->ctl_seg, "skate-ctl", 4096 + l->n_slots * sk_slot_stride(), false, err));
    SK_GO(sk_seg_create(&l->data_seg, "skate-data", SK_ALIGN(SK_MAX(conf->store_bytes, 1u << 20), 4096), true, err));
    SK_GO(sk_store_create(&l->store, l->data_seg.size, err));
    SK_GO(sk_space_open(l, conf, err));
    l->ctl = (struct sk_ctl *)(void *)l->ctl_seg.base;
    l->ctl->magic = SK_CTL_MAGIC;
    l->ctl->version = SK_CTL_VERSION;
    l->ctl->n_slots = l->n_slots;
    l->ctl->driver_pid = getpid();
    l->ctl->ring_size = SK_RING_SIZE;
    l->ctl->data_size = l->data_seg.size;
    l->ctl->slot_stride = sk_slot_stride();
    atomic_store(&l->ctl->who, 1);
    SK_GO(sk_lmem_open(l, conf, err));
    SK_GO(sk_pool_start(l, err));
    sk_look_open(l->ctl_seg.base, l->ctl_seg.size, NULL);
    *out = &l->base;
    return SK_OK;
out:
    sk_pool_stop(l);
    free_all(l);
    return rc;
}

const struct sk_engine_class sk_engine_by_local = {.name = "local", .open = l_open};

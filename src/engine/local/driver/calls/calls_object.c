/* calls_object.c - objects as the driver's own code uses them: buffers, put, get, wait,
 * references. A get waits until lost values are made again and spilled ones are read. */
#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "engine/local/driver/calls/calls.h"

#define INTERRUPT_NS 100000000

void sk_driver_retain(struct sk_engine *e, sk_oid o) {
    sk_driver_lock(e);
    if (!sk_local_of(e)->closing)
        SK_IGNORE(sk_own_ref(sk_local_of(e)->own, o.v, SK_PROC_DRIVER, 1, NULL));
    sk_driver_unlock(e);
}
void sk_driver_release(struct sk_engine *e, sk_oid o) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    if (!l->closing && sk_own_unref(l->own, o.v, SK_PROC_DRIVER, 1, NULL) == SK_OK) sk_obj_drain(l);
    sk_driver_unlock(e);
}

static bool room_done(void *arg) { return ((struct sk_mem_wait *)arg)->rc != SK_EAGAIN; }

static sk_rc wait_for_room_unlocked(struct sk_local *l, uint64_t len, sk_off *off,
                                    struct sk_err *err) {
    struct sk_mem_wait r = {.len = len, .min = len, .rc = SK_EAGAIN, .err = err};
    sk_space_await(l, &r);
    sk_rc rc;
    bool stop = false;
    while ((rc = sk_driver_wait_unlocked(
                l, room_done, &r, sk_now_ns() + INTERRUPT_NS,
                &(struct sk_waited){.verb = "room in the object store"})) == SK_ETIMEOUT &&
           !stop) {
        sk_space_caller_waits(l, true); /* this caller still waits */
        sk_driver_unlock(&l->base);
        stop = l->hooks.interrupted && l->hooks.interrupted(l->hooks.interrupted_ctx);
        sk_driver_lock(&l->base);
        sk_space_caller_waits(l, false);
    }
    sk_list_del(&r.link);
    if (rc != SK_OK && r.rc == SK_OK && !l->closing)
        SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, r.off, len, NULL));
    if (rc == SK_ETIMEOUT)
        return SK_ERR(err, SK_ECANCEL, "interrupted while waiting for room in the store");
    if (rc != SK_OK) return sk_driver_closed(err);
    if (r.rc == SK_OK) *off = r.off;
    return r.rc;
}

static sk_rc alloc(struct sk_engine *e, size_t len, bool no_wait, struct sk_buf *out,
                   struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_off off = 0;
    sk_rc rc = SK_EFULL;
    len = SK_MAX(len, 1);
    sk_driver_lock(e);
    bool may_wait = !no_wait && l->space.spill && sk_space_depth == 1 && len <= l->data_seg.size;
    if (l->closing) rc = sk_driver_closed(err);
    else if (!may_wait || sk_list_empty(&l->space.mem_waits))
        rc = sk_space_alloc(l, SK_PROC_DRIVER, len, &off, err);
    if (rc == SK_EFULL)
        rc = may_wait ? wait_for_room_unlocked(l, len, &off, err)
                      : sk_space_overflow(l, SK_PROC_DRIVER, len, &off, err);
    sk_driver_unlock(e);
    SK_DCHECK(rc != SK_OK || off + len <= l->data_seg.size + l->data_seg.tail);
    if (rc == SK_OK) *out = (struct sk_buf){l->data_seg.base + off, len, off};
    return rc;
}
sk_rc sk_driver_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    return alloc(e, len, false, out, err);
}
void sk_driver_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    if (!l->closing && b->data)
        SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, b->token, SK_MAX(b->len, 1), NULL));
    b->data = NULL;
    sk_driver_unlock(e);
}

/* Gives the bytes of a buffer back that no object has taken over. */
static void buf_drop(struct sk_local *l, const struct sk_buf *buf) {
    SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, buf->token,
                               (size_t)SK_ALIGN(SK_MAX(buf->len, 1), SK_STORE_ALIGN), NULL));
}

/* Gives a PENDING object the value of a payload; buf: where its bytes are, if they are in the
 * store. The caller holds the object. */
static sk_rc fill(struct sk_local *l, struct sk_obj *o, const struct sk_payload *p,
                  const struct sk_buf *buf, size_t len, struct sk_err *err) {
    struct sk_inl *value = NULL;
    sk_rc rc = SK_OK;
    if (buf) {
        size_t al = (size_t)SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN),
               have = (size_t)SK_ALIGN(SK_MAX(buf->len, 1), SK_STORE_ALIGN);
        SK_ASSERT(al <= have);
        rc = sk_store_commit(l->store, SK_PROC_DRIVER, buf->token, SK_MAX(len, 1), err);
        if (rc != SK_OK) buf_drop(l, buf);
        else if (have > al)
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, buf->token + al, have - al, NULL));
    } else {
        value = sk_inl_new(p->bytes.p, len);
        if (!value) rc = SK_ERR(err, SK_ENOMEM, "no memory for a value of %zu bytes", len);
    }
    if (rc != SK_OK) return rc;
    if (buf) sk_obj_set_stored(l, o, SK_PROC_DRIVER, p->kind, buf->token, len);
    else sk_obj_set_inline(l, o, p->kind, value);
    sk_inl_drop(value);
    const uint64_t *in = (const uint64_t *)(const void *)p->contains;
    sk_obj_meet(l, in, p->n_contains);
    if (p->n_contains) rc = sk_own_contains(l->own, o->id, in, p->n_contains, err);
    if (rc != SK_OK || !p->keep) return rc;
    SK_ASSERT(buf); /* only a value in the store can be pinned */
    rc = sk_store_pin(l->store, SK_PROC_DRIVER, o->u.off);
    if (rc != SK_OK) return SK_ERR(err, rc, "put: no memory to note what is held");
    *p->keep = (struct sk_view){buf->data, len, o->kind, {o->id}, o->u.off << 1 | 1};
    return SK_OK;
}

/* Copies the bytes of a payload into the store, if they are in no buffer and too long for an inline
 * value. *buf: where they are then, or NULL. */
static sk_rc into_store(struct sk_engine *e, const struct sk_payload *p, struct sk_buf *big,
                        const struct sk_buf **buf, size_t *len, struct sk_err *err) {
    *buf = p->buf;
    *len = p->buf ? p->buf_len : p->bytes.n;
    if (p->buf || *len <= SK_INLINE_MAX) return SK_OK;
    SK_TRY(alloc(e, *len, p->no_wait, big, err));
    memcpy(big->data, p->bytes.p, *len);
    *buf = big;
    return SK_OK;
}

sk_rc sk_driver_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                    struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct sk_buf big = {0};
    const struct sk_buf *buf;
    size_t len;
    SK_TRY(into_store(e, p, &big, &buf, &len, err));
    sk_driver_lock(e);
    struct sk_obj *o = NULL;
    sk_rc rc = l->closing ? sk_driver_closed(err)
                          : sk_obj_new(l, sk_new_ids(l, 1), SK_PROC_DRIVER, &o, err);
    if (rc == SK_OK) {
        SK_ASSERT(o);
        rc = fill(l, o, p, buf, len, err);
        if (rc == SK_OK) {
            *out = (sk_oid){o->id};
            sk_show_alone(l);
        } else {
            SK_IGNORE(sk_own_unref(l->own, o->id, SK_PROC_DRIVER, 1, NULL));
        }
        if (rc != SK_OK || l->foreign.met.n) sk_obj_drain(l);
    } else if (buf) buf_drop(l, buf);
    if (p->buf) p->buf->data = NULL;
    sk_driver_unlock(e);
    return rc;
}

/* ---- foreign.h ---- */

/* The server after the last: foreign objects that still exist are nobody's. */
static void nobody(struct sk_foreign *f, sk_oid o) { (void)f, (void)o; }
static void nobody_called(struct sk_foreign *f, const struct sk_task_spec *s,
                          const struct sk_foreign_need *need, struct sk_bytes def, sk_oid first) {
    (void)f, (void)s, (void)need, (void)def, (void)first;
}
static void nobody_made(struct sk_foreign *f, uint64_t ask, const struct sk_actor_spec *s,
                        const struct sk_foreign_need *need, struct sk_bytes def) {
    (void)f, (void)ask, (void)s, (void)need, (void)def;
}
static bool nobody_here(struct sk_foreign *f, struct sk_bytes where) {
    (void)f, (void)where;
    return true;
}
static void nobody_killed(struct sk_foreign *f, sk_aid a, bool no_restart) {
    (void)f, (void)a, (void)no_restart;
}
static void nobody_cancelled(struct sk_foreign *f, sk_oid o, uint32_t flags) {
    (void)f, (void)o, (void)flags;
}
static void nobody_took(struct sk_foreign *f, sk_oid first, uint32_t n) {
    (void)f, (void)first, (void)n;
}
static void nobody_asked(struct sk_foreign *f, uint64_t ask, const struct sk_foreign_name *n) {
    (void)f, (void)ask, (void)n;
}
static void nobody_queued(struct sk_foreign *f) { (void)f; }
static struct sk_foreign no_server = {.held = nobody,
                                      .queued = nobody_queued,
                                      .wanted = nobody,
                                      .dropped = nobody,
                                      .called = nobody_called,
                                      .made = nobody_made,
                                      .here = nobody_here,
                                      .cancelled = nobody_cancelled,
                                      .taken = nobody_took,
                                      .asked = nobody_asked,
                                      .killed = nobody_killed};

static sk_rc l_serve(struct sk_engine *e, struct sk_foreign *f, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    sk_rc rc = !f                  ? SK_OK
               : l->closing        ? sk_driver_closed(err)
               : l->foreign.server ? SK_ERR(err, SK_EEXIST, "foreign objects have a server already")
                                   : SK_OK;
    if (rc == SK_OK && (f || l->foreign.server)) l->foreign.server = f ? f : &no_server;
    sk_driver_unlock(e);
    return rc;
}

static sk_rc l_bring(struct sk_engine *e, sk_oid id, const struct sk_payload *p,
                     struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct sk_buf big = {0};
    const struct sk_buf *buf;
    size_t len;
    SK_TRY(into_store(e, p, &big, &buf, &len, err));
    sk_driver_lock(e);
    struct sk_obj *o = l->closing ? NULL : sk_obj_get(l, id.v);
    sk_rc rc = SK_OK;
    if (l->closing) rc = sk_driver_closed(err);
    else if (!o || !o->foreign) rc = SK_ERR(err, SK_ENOENT, "no reference to the object exists");
    else if (o->state != SK_O_PENDING) rc = SK_ERR(err, SK_EEXIST, "the object has a value");
    else rc = sk_own_hold(l->own, id.v, err); /* its last waiter may be its last holder */
    if (rc == SK_OK) {
        SK_ASSERT(o);
        rc = fill(l, o, p, buf, len, err);
        sk_own_unhold(l->own, id.v);
        sk_obj_drain(l);
        sk_loop_dispatch_at(l, l->now_ns);
    } else if (buf) buf_drop(l, buf);
    if (p->buf) p->buf->data = NULL;
    sk_driver_unlock(e);
    return rc;
}

static void l_ended(struct sk_engine *e, sk_oid first) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    if (!l->closing) {
        sk_abroad_ended(l, first.v);
        sk_obj_drain(l);
        sk_loop_dispatch_at(l, l->now_ns);
    }
    sk_driver_unlock(e);
}

static uint32_t l_hand_over(struct sk_engine *e, int64_t cpu, bool *waits) {
    struct sk_local *l = sk_local_of(e);
    uint32_t left = 0;
    sk_driver_lock(e);
    *waits = false;
    if (!l->closing) left = sk_abroad_hand_over(l, cpu, sk_now_ns(), waits);
    if (!l->closing) sk_obj_drain(l);
    sk_driver_unlock(e);
    return left;
}

static void l_yielded(struct sk_engine *e, sk_oid first, sk_oid o) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    if (!l->closing) {
        sk_abroad_yielded(l, first.v, o.v);
        sk_obj_drain(l);
        sk_loop_dispatch_at(l, l->now_ns);
    }
    sk_driver_unlock(e);
}

static void l_answer(struct sk_engine *e, uint64_t ask, sk_rc rc, sk_aid a, struct sk_bytes bytes) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    if (!l->closing) {
        l->now_ns = sk_now_ns();
        sk_named_answer(l, ask, rc, a, bytes);
        sk_obj_drain(l);
        sk_loop_dispatch(l);
    }
    sk_driver_unlock(e);
}

const struct sk_foreign_ops sk_driver_foreign = {.serve = l_serve,
                                                 .bring = l_bring,
                                                 .yielded = l_yielded,
                                                 .ended = l_ended,
                                                 .answer = l_answer,
                                                 .hand_over = l_hand_over};

struct get_wait {
    struct sk_local *l;
    const sk_oid *ids;
    size_t n, at; /* ids[0..at) are known to exist */
    sk_rc rc;
    uint64_t n_lost; /* value of l->n_lost when `at` was computed */
    struct sk_get_wait get;
};
static bool get_done(void *arg) {
    struct get_wait *w = arg;
    if (w->n_lost != w->l->n_lost) w->at = 0;
    w->n_lost = w->l->n_lost;
    if (w->get.refused != SK_OK) {
        w->rc = w->get.refused;
        return true;
    }
    /* true if a value is on disk; all of these are requested before the caller waits */
    bool disk = false;
    for (size_t i = w->at; i < w->n; i++) {
        struct sk_obj *o = sk_obj_get(w->l, w->ids[i].v);
        if (!o) {
            w->rc = SK_ELOST;
            return true;
        }
        if (SK_UNLIKELY(o->gone)) {
            uint64_t n_spilled = w->l->stored.n_out;
            sk_recover_lost(w->l, o->id);
            /* the object may turn out at once to be impossible to make again; then it is READY,
             * with an error */
            sk_loop_dispatch(w->l);
            if (n_spilled != w->l->stored.n_out) {
                w->at = 0;
                return false;
            }
        }
        if (o->state == SK_O_PENDING) return false;
        if (SK_UNLIKELY(o->state == SK_O_READY && o->where == SK_V_DISK))
            disk = true, sk_stored_want(w->l, o);
        if (!disk) w->at = i + 1;
    }
    return !disk;
}

static void view_drop(struct sk_local *l, struct sk_view *v) {
    sk_space_released(l);
    if (v->token & 1) (void)sk_store_unpin(l->store, SK_PROC_DRIVER, v->token >> 1);
    else if (v->token) sk_inl_drop((struct sk_inl *)(uintptr_t)v->token);
    v->token = 0;
    v->data = NULL;
}

sk_rc sk_driver_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline,
                    struct sk_view *out, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct get_wait w = {.l = l, .ids = ids, .n = n};
    sk_driver_lock(e);
    sk_rc rc = l->closing ? SK_ECLOSED : SK_OK;
    if (rc == SK_OK && !get_done(&w)) {
        w.get = (struct sk_get_wait){.ids = (const uint64_t *)ids, .n = n};
        sk_space_get_begins(l, &w.get);
        do { /* the check is repeated, since a value may be lost or spilled after it was seen */
            rc = sk_driver_wait_unlocked(l, get_done, &w, deadline,
                                         &(struct sk_waited){"get()", ids, n, 0});
            if (l->stored.n_disk) w.at = 0;
        } while (rc == SK_OK && !get_done(&w));
        sk_space_get_over(l, &w.get);
    }
    if (rc == SK_OK) rc = w.rc;
    for (size_t i = 0; rc == SK_OK && i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, ids[i].v);
        SK_DCHECK(o && o->state != SK_O_PENDING && !o->gone);
        out[i] = (struct sk_view){.kind = o->kind, .oid = ids[i], .len = o->len};
        if (o->state == SK_O_ACTOR) continue;
        SK_ASSERT(o->where != SK_V_DISK); /* get_done has just seen the value in the store */
        if (o->where == SK_V_STORE) {
            if (sk_store_pin(l->store, SK_PROC_DRIVER, o->u.off) != SK_OK) {
                while (i-- > 0) view_drop(l, &out[i]);
                rc = SK_ENOMEM;
                break;
            }
            if (o->st) sk_stored_used(l, o);
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
    sk_driver_unlock(e);
    if (rc == SK_ECLOSED) return sk_driver_closed(err);
    if (rc == SK_ENOMEM) return SK_ERR(err, rc, "get: no memory to note what is held");
    if (w.get.refused != SK_OK && rc == w.get.refused)
        return SK_ERR(err, rc, "get: %s", l->space.refuse_msg);
    if (rc == SK_ETIMEOUT)
        return SK_ERR(err, rc, "get: the time is over, %zu of %zu objects exist", w.at, n);
    if (rc == SK_ELOST)
        return SK_ERR(err, rc,
                      "get: object %llu does not exist any more: its last reference was released",
                      (unsigned long long)ids[w.at].v);
    return rc;
}

void sk_driver_view_release(struct sk_engine *e, struct sk_view *v) {
    struct sk_local *l = sk_local_of(e);
    if (!v->token) return;
    sk_driver_lock(e);
    if (!l->closing) view_drop(l, v);
    sk_driver_unlock(e);
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

sk_rc sk_driver_wait_for(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                         int64_t deadline, bool *ready, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct wait_wait w = {l, ids, n, SK_MIN(want, n), 0, 0, ready, false};
    memset(ready, 0, n * sizeof *ready);
    sk_driver_lock(e);
    sk_rc rc = l->closing      ? SK_ECLOSED
               : wait_done(&w) ? SK_OK
                               : sk_driver_wait_unlocked(l, wait_done, &w, deadline,
                                                         &(struct sk_waited){"wait()", ids, n, 0});
    sk_driver_unlock(e);
    if (rc == SK_ECLOSED) return sk_driver_closed(err);
    if (rc == SK_ETIMEOUT) return SK_ERR(err, rc, "wait: the time is over");
    return rc;
}

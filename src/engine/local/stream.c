/* stream.c - yields of streaming tasks: recorded as they come, taken by their reader, credit for more, stopped. Runs with the lock held.
 *
 * Invariant: a retry repeats the yields that are there (checked by a hash of their notes) and only then adds to them; what nobody takes is released
 * when the stream is dropped. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/local_int.h"

static void send_credit(struct sk_local *l, struct sk_ltask *t) {
    if (t->state != SK_T_SENT || !t->worker || !t->spec.stream_window) return;
    struct {
        uint32_t type, pad;
        uint64_t tid, n;
    } m = {SK_M_CREDIT, 0, t->id, t->n_released};
    (void)sk_pool_reply(l, t->worker, &m, sizeof m);
}

/* A task at the end of its window waits, as one in get does: it gives its CPU back. Any credit lets it go on. */
static void go_on(struct sk_local *l, struct sk_ltask *t) {
    struct sk_lworker *w = t->worker;
    if (w && t->spec.stream_window && sk_list_empty(&w->reqs)) sk_req_go_on(l, w);
}

/* A started one, at its next yield. */
static void ask_to_stop(struct sk_lworker *w, struct sk_ltask *t) {
    uint64_t want = t->id << 2 | SK_CLAIM_STARTED;
    (void)atomic_compare_exchange_strong(&w->sh->claims[t->claim], &want, t->id << 2 | SK_CLAIM_CANCELLED); /* not: asked already */
    sk_bell_ring(&w->sh->bell);                                                                             /* it may wait for credit */
}

void sk_stream_ask_to_stop(struct sk_local *l, struct sk_ltask *t) {
    ask_to_stop(t->worker, t);
    go_on(l, t);
}

void sk_stream_release(struct sk_local *l, struct sk_ltask *t, uint32_t n) {
    t->n_released += n;
    send_credit(l, t);
    go_on(l, t);
}

void sk_stream_wake(struct sk_local *l, struct sk_ltask *t) {
    l->progress++;
    while (t->stream_waiters && sk_stream_stirs(t))
        sk_dep_tell(l, t->stream_waiters); /* of several, each gets what is there, or waits on */
}

void sk_stream_drop(struct sk_local *l, struct sk_ltask *t) {
    t->dropped = true;
    for (uint32_t i = t->n_taken; i < t->yields.n; i++) SK_IGNORE(sk_own_unref(l->own, t->yields.p[i], SK_PROC_DRIVER, 1, NULL));
    t->n_taken = t->yields.n;
    if (t->end_error) SK_IGNORE(sk_own_unref(l->own, t->end_error, SK_PROC_DRIVER, 1, NULL));
    t->end_error = 0;
    t->stream_done = 1;
    sk_stream_wake(l, t); /* another thread of its process may be waiting: end of the stream */
    if (t->state == SK_T_FINISHED) sk_ltask_free(l, t);
    else if (!t->remake) sk_ltask_cancel(l, t, false);
    sk_obj_drain(l);
}

bool sk_stream_at_end(const struct sk_ltask *t) { return !t || (t->n_taken == t->yields.n && !t->end_error && t->end_rc == SK_OK); }
bool sk_stream_stirs(const struct sk_ltask *t) { return !t || t->n_taken < t->yields.n || t->stream_done; }

static void set_end(struct sk_local *l, struct sk_ltask *t) {
    struct sk_obj *o = t->end_oid ? sk_obj_get(l, t->end_oid) : NULL;
    if (!o || o->state != SK_O_PENDING) return;
    o->kind = t->end_kind;
    o->where = SK_V_INLINE;
    o->u.inl = t->end_inl; /* NULL: no bytes */
    if (t->end_inl) t->end_inl->refs++;
    o->len = t->end_inl ? t->end_inl->len : 0;
    sk_obj_ready(l, o);
}

void sk_stream_ended(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind, struct sk_inl *why) {
    if (t->sink || t->remake) return;
    if (failed) {
        t->end_failed = true;
        t->end_kind = kind;
        t->end_inl = why;
        if (why) why->refs++;
    }
    set_end(l, t);
}

sk_rc sk_stream_end(struct sk_local *l, uint64_t tid, uint64_t oid, uint32_t proc, uint32_t kind, struct sk_err *err) {
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    struct sk_obj *o = NULL;
    if (!t || !t->is_stream || t->sink) return SK_ERR(err, SK_ENOENT, "this stream was dropped");
    if (t->end_oid) return SK_ERR(err, SK_EEXIST, "the end of a stream was asked for before");
    SK_TRY(sk_obj_new(l, oid, proc, &o, err));
    o->stream_end = true;
    t->end_oid = oid;
    if (!t->end_failed) t->end_kind = kind;
    if (t->state == SK_T_FINISHED) set_end(l, t);
    return SK_OK;
}

sk_rc sk_stream_take(struct sk_local *l, struct sk_ltask *t, uint32_t proc, uint64_t *oid) {
    sk_rc rc = SK_OK;
    uint64_t id = 0;
    if (t->n_taken < t->yields.n) {
        id = t->yields.p[t->n_taken++];
    } else if (!t->stream_done) {
        return SK_EAGAIN;
    } else if (t->end_error) {
        id = t->end_error;
        t->end_error = 0;
        rc = SK_ETASK;
    } else if (t->end_rc != SK_OK) {
        return t->end_rc;
    } else {
        return SK_EDONE;
    }
    if (proc != SK_PROC_DRIVER) {
        SK_IGNORE(sk_own_ref(l->own, id, proc, 1, NULL));
        SK_IGNORE(sk_own_unref(l->own, id, SK_PROC_DRIVER, 1, NULL));
    }
    *oid = id;
    if (rc == SK_OK) sk_stream_release(l, t, 1);
    return rc;
}

/* What it says from now on is ignored; the task fails when it has stopped: until then it reads its arguments. */
static void stop_stream(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, const char *why) {
    t->cancelled = true;
    ask_to_stop(w, t);
    if (!t->actor) sk_pool_kill_task(l, t, why);
}

void sk_stream_yielded(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint32_t attempt = sk_rd_u32(r);
    uint64_t tid = sk_rd_u64(r);
    uint32_t index = sk_rd_u32(r);
    struct sk_bytes note = sk_rd_bytes(r);
    struct sk_val v;
    struct sk_ids in;
    const void *b = sk_rd_val_ids(r, &v, &in);
    if (r->bad) return;
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    if (t && (t->worker != w || t->attempt != attempt || t->state != SK_T_SENT || t->differs || t->lost_yield ||
              (!t->remake && (t->dropped || (t->cancelled && t->sink)))))
        t = NULL;
    uint64_t h = sk_hash(note.p, note.n), id = 0;
    if (t && t->spec.stream_window && !t->remake && index + 1 >= t->n_released + t->spec.stream_window) sk_req_block(l, w);
    if (t && index < t->n_yielded) { /* a retry repeats what is there */
        if (t->note_hash.p[index] != h) {
            t->differs = index + 1;
            stop_stream(l, t, w, "its task gave other output than before");
        } else if (t->aside && v.where != SK_V_NONE) {
            id = sk_recover_remade(t, index);
        }
        t = NULL;
    }
    if (t && (v.where == SK_V_NONE || t->remake)) t = NULL; /* a repeat that the engine does not know: nothing to record */
    struct sk_obj *o = NULL;
    if (t) {
        id = ++l->next_id;
        if (!sk_vec_reserve(&t->yields, SK_TAG_ENGINE, t->yields.n + 1) ||
            !sk_vec_reserve(&t->note_hash, SK_TAG_ENGINE, t->n_yielded + 1) ||
            sk_obj_new(l, id, SK_PROC_DRIVER, &o, NULL) != SK_OK) { /* a stream with a hole would be a lie */
            id = 0;
            t->lost_yield = true;
            stop_stream(l, t, w, "there is no memory left to record its output");
        }
    }
    if (o) o->why = (uint8_t)sk_recover_why(t);
    if (v.where != SK_V_NONE) sk_obj_set(l, id, w->proc, &v, b, in);
    if (!t || !id) return;
    t->note_hash.p[t->n_yielded] = h;
    t->note_hash.n = ++t->n_yielded;
    t->yields.p[t->yields.n++] = id;
    if (v.where == SK_V_STORE || in.n) sk_recover_yielded(l, t, o);
    if (t->sink) {
        struct sk_event ev = {.kind = SK_EV_YIELDED, .index = index, .oid = {id}, .size_bytes = v.len, .note = note};
        sk_ltask_emit(t, &ev);
    } else {
        sk_stream_wake(l, t);
    }
}

/* stream.c - a stream of yields as its reader sees it: takes, waits, credit for more yields, the
 * end. Runs with the lock held.
 *
 * Not here: the reports of yields (yield.c). Invariant: each yield is taken once, in order, and
 * credit is given only for yields that were taken. */
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"

static void send_credit(struct sk_local *l, struct sk_ltask *t) {
    if (t->state != SK_T_SENT || !t->spec.stream_window) return;
    struct {
        uint32_t type, pad;
        uint64_t tid, n;
    } m = {SK_M_CREDIT, 0, t->id, t->n_released};
    (void)sk_driver_link_reply(l, t->worker, &m, sizeof m);
}

/* A task that has filled its window waits, like a task in get: it gives its CPU back. Any credit
 * lets the task go on. */
static void go_on(struct sk_local *l, struct sk_ltask *t) {
    struct sk_lworker *w = t->worker;
    if (w && t->spec.stream_window && sk_list_empty(&w->reqs)) sk_worker_goes_on(l, w);
}

/* Asks a task that has started to stop at its next yield. */
static void ask_to_stop(struct sk_lworker *w, struct sk_ltask *t) {
    uint64_t want = t->id << 2 | SK_CLAIM_STARTED;
    /* fails if the task has been asked already */
    (void)atomic_compare_exchange_strong(&w->sh->claims[t->claim], &want,
                                         t->id << 2 | SK_CLAIM_CANCELLED);
    /* wakes the worker, which may be waiting for credit */
    sk_bell_ring(&w->sh->bell);
}

void sk_stream_ask_to_stop(struct sk_local *l, struct sk_ltask *t) {
    ask_to_stop(t->worker, t);
    go_on(l, t);
}

void sk_stream_release(struct sk_local *l, struct sk_ltask *t, uint32_t n) {
    SK_DCHECK(sk_ltask_is_stream(t));
    t->n_released += n;
    if (SK_UNLIKELY(t->kind == SK_TASK_ABROAD) && t->spec.stream_window)
        l->foreign.server->taken(l->foreign.server, (sk_oid){t->id + 1}, t->n_released);
    send_credit(l, t);
    go_on(l, t);
}

void sk_stream_wake(struct sk_local *l, struct sk_ltask *t) {
    sk_progressed(l);
    while (t->stream_waiters && sk_stream_stirs(t))
        /* each wait takes the yields that are there, or goes on waiting */
        sk_dep_tell(l, t->stream_waiters);
}

void sk_stream_over(struct sk_local *l, struct sk_ltask *t) {
    if (t->stream == SK_STREAM_OPEN) t->stream = SK_STREAM_OVER;
    sk_stream_wake(l, t);
}

bool sk_stream_at_end(const struct sk_ltask *t) {
    return !t || (t->n_taken == t->yields.n && !t->end_error && t->end_rc == SK_OK);
}
bool sk_stream_stirs(const struct sk_ltask *t) {
    return !t || t->n_taken < t->yields.n || t->stream != SK_STREAM_OPEN;
}

static void set_end(struct sk_local *l, struct sk_ltask *t) {
    struct sk_obj *o = t->end_oid ? sk_obj_get(l, t->end_oid) : NULL;
    if (o && o->state == SK_O_PENDING) sk_obj_set_inline(l, o, t->end_kind, t->end_inl);
}

void sk_stream_ended(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind,
                     struct sk_inl *why) {
    if (t->sink || t->remake) return;
    if (failed) {
        t->end_failed = true;
        t->end_kind = kind;
        t->end_inl = why;
        if (why) why->refs++;
    }
    set_end(l, t);
}

sk_rc sk_stream_end(struct sk_local *l, uint64_t tid, uint64_t oid, uint32_t proc, uint32_t kind,
                    struct sk_err *err) {
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    struct sk_obj *o = NULL;
    if (!t || !sk_ltask_is_stream(t) || t->sink)
        return SK_ERR(err, SK_ENOENT, "this stream was dropped");
    if (t->end_oid) return SK_ERR(err, SK_EEXIST, "the end of a stream was asked for before");
    SK_TRY(sk_obj_new(l, oid, proc, &o, err));
    o->stream_end = true;
    t->end_oid = oid;
    if (!t->end_failed) t->end_kind = kind;
    if (sk_ltask_over(t) && !(t->kind == SK_TASK_ABROAD && t->stream == SK_STREAM_OPEN))
        set_end(l, t);
    return SK_OK;
}

sk_rc sk_stream_take(struct sk_local *l, struct sk_ltask *t, uint32_t proc, uint64_t *oid) {
    sk_rc rc = SK_OK;
    uint64_t id = 0;
    SK_DCHECK(sk_ltask_is_stream(t) && !t->sink && t->n_taken <= t->yields.n);
    if (t->n_taken < t->yields.n) {
        id = t->yields.p[t->n_taken++];
    } else if (t->stream == SK_STREAM_OPEN) {
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

void sk_stream_fail_rest(struct sk_local *l, struct sk_ltask *t, uint32_t kind,
                         struct sk_inl *value) {
    for (uint32_t i = 0; i < t->yields.n; i++) {
        struct sk_obj *o = sk_obj_get(l, t->yields.p[i]);
        if (o && o->state == SK_O_PENDING) sk_obj_set_inline(l, o, kind, value);
    }
}

/* ---- streams of other engines ---------------------------------------------------------------- */

void sk_stream_came(struct sk_local *l, struct sk_ltask *t, uint64_t oid) {
    SK_ASSERT(t->kind == SK_TASK_ABROAD && t->stream == SK_STREAM_OPEN);
    if (oid && sk_vec_push(&t->yields, SK_TAG_ENGINE, oid)) {
        t->n_yielded++;
        sk_stream_wake(l, t);
        return;
    }
    t->end_rc = SK_ENOMEM; /* what follows must not look as if this one had never been */
    if (oid) SK_IGNORE(sk_own_unref(l->own, oid, SK_PROC_DRIVER, 1, NULL));
}

void sk_stream_closed(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind,
                      struct sk_inl *why) {
    SK_ASSERT(t->kind == SK_TASK_ABROAD && t->stream == SK_STREAM_OPEN && !t->end_error);
    if (failed) {
        t->end_error =
            sk_obj_error(l, kind, why ? (void *)why->bytes : (void *)"", why ? why->len : 0);
        if (!t->end_error) t->end_rc = SK_ENOMEM;
    }
    sk_stream_ended(l, t, failed, kind, why);
    sk_stream_over(l, t);
}

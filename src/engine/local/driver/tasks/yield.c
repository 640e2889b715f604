/* yield.c - yields of streaming tasks as workers report them, and the end of a stream that nobody
 * reads. Runs with the lock held.
 *
 * Invariant: a retry repeats the yields that exist (checked by a hash of their notes) and only
 * then adds to them; yields that are not taken are released when the stream is dropped. */
#include "base/hash.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"

void sk_stream_drop(struct sk_local *l, struct sk_ltask *t) {
    /* the task's credit is unlimited already; adding to it would overflow */
    if (t->stream == SK_STREAM_DROPPED) return;
    if (SK_UNLIKELY(t->kind == SK_TASK_ABROAD) && t->stream == SK_STREAM_OPEN)
        l->foreign.server->taken(l->foreign.server, (sk_oid){t->id + 1}, UINT32_MAX);
    t->stream = SK_STREAM_DROPPED;
    SK_DCHECK(sk_ltask_is_stream(t) && !t->sink && t->n_taken <= t->yields.n);
    for (uint32_t i = t->n_taken; i < t->yields.n; i++)
        SK_IGNORE(sk_own_unref(l->own, t->yields.p[i], SK_PROC_DRIVER, 1, NULL));
    t->n_taken = t->yields.n;
    if (t->end_error) SK_IGNORE(sk_own_unref(l->own, t->end_error, SK_PROC_DRIVER, 1, NULL));
    t->end_error = 0;
    /* another thread of the reader may be waiting: it gets the end of the stream */
    sk_stream_wake(l, t);
    if (!sk_ltask_over(t)) {
        /* the task runs to its end, as in Ray, for its side effects */
        if (!t->remake) sk_stream_release(l, t, UINT32_MAX / 2);
    } else if (t->state == SK_T_ENDED) {
        /* otherwise sk_ltask_end, a caller of this function, frees the task */
        sk_ltask_free(l, t);
    }
    sk_obj_drain(l);
}

/* Stops a stream: its later reports are ignored. The task fails only when it has stopped, because
 * it reads its arguments until then. */
static void stop_stream(struct sk_local *l, struct sk_ltask *t, enum sk_tstop stop,
                        const char *why) {
    sk_ltask_stop_for(t, stop);
    sk_stream_ask_to_stop(l, t);
    if (!t->actor) sk_driver_link_kill_task(l, t, why);
}

/* Lets the sink follow a yield (moves.h), also a yield that was lost and made again. The object may
 * be gone already, if the waiter has released it at once. */
static void followed(struct sk_local *l, uint64_t id, const struct sk_sink *sink) {
    struct sk_obj *o = sk_obj_get(l, id);
    if (o && o->state == SK_O_READY && o->where == SK_V_STORE) sk_stored_follow(l, o, sink);
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
    if (t &&
        (t->worker != w || t->attempt != attempt || t->state != SK_T_SENT ||
         t->stop > SK_STOP_CANCELLED ||
         (!t->remake && (t->stream == SK_STREAM_DROPPED || (sk_ltask_cancelled(t) && t->sink)))))
        t = NULL;
    uint64_t h = sk_hash(note.p, note.n), id = 0;
    const struct sk_sink *sink = t ? t->sink : NULL;
    if (t && t->spec.stream_window && !t->remake &&
        index + 1 >= t->n_released + t->spec.stream_window)
        sk_worker_waits(l, w);
    if (t && index < t->n_yielded) { /* a retry repeats yields that exist */
        SK_DCHECK(t->note_hash.n == t->n_yielded);
        if (t->note_hash.p[index] != h) {
            t->differs = index;
            stop_stream(l, t, SK_STOP_DIFFERS, "its task gave other output than before");
        } else if (t->extra && v.where != SK_V_NONE) {
            id = sk_recover_remade(t, index);
        }
        t = NULL;
    }
    /* a repeated yield need not be recorded */
    if (t && (v.where == SK_V_NONE || t->remake)) t = NULL;
    struct sk_obj *o = NULL;
    if (t) {
        id = sk_new_ids(l, 1);
        if (!sk_vec_reserve(&t->yields, SK_TAG_ENGINE, t->yields.n + 1) ||
            !sk_vec_reserve(&t->note_hash, SK_TAG_ENGINE, t->n_yielded + 1) ||
            sk_obj_new(l, id, SK_PROC_DRIVER, &o, NULL) != SK_OK) {
            /* the stream is stopped, because it must not have a missing yield */
            id = 0;
            stop_stream(l, t, SK_STOP_LOST_YIELD, "there is no memory left to record its output");
        }
    }
    if (o) sk_recover_makes(o, t);
    if (v.where != SK_V_NONE) sk_obj_set(l, id, w->proc, &v, b, in);
    if (sink && id && v.where == SK_V_STORE) followed(l, id, sink);
    if (!t || !id) return;
    /* room for both was reserved above */
    SK_ASSERT(t->n_yielded < t->note_hash.cap && t->yields.n < t->yields.cap);
    t->note_hash.p[t->n_yielded] = h;
    t->note_hash.n = ++t->n_yielded;
    t->yields.p[t->yields.n++] = id;
    if (v.where == SK_V_STORE || in.n) sk_recover_yielded(l, t, o);
    if (t->sink) {
        struct sk_event ev = {
            .kind = SK_EV_YIELDED, .index = index, .oid = {id}, .size_bytes = v.len, .note = note};
        sk_ltask_emit(t, &ev);
    } else {
        sk_stream_wake(l, t);
    }
}

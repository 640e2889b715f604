/* life.c - the ends of objects, tasks and actors in the inline engine: of an object that nothing
 * refers to, a task that is over, an actor without handles or calls. Runs with the lock held.
 *
 * This is one file because each of these ends may cause the others: the last reference to an
 * actor's `ready` ends the actor, which ends its calls, which hold arguments. Invariant: a task in
 * the table holds its arguments until it is finished; the constructor of an actor holds them as
 * long as the actor may restart. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/inline/inline_int.h"

void sk_itask_emit(struct sk_itask *t, enum sk_event_kind kind, uint64_t oid, uint64_t size,
                   struct sk_bytes note, int64_t run_ns) {
    if (!t->sink) return;
    struct sk_event ev = {.kind = kind,
                          .task = {t->id},
                          .tag = t->sink_tag,
                          .attempt = t->p.t.attempt,
                          .index = t->n_reported,
                          .oid = {oid},
                          .size_bytes = size,
                          .node = 1,
                          .note = note,
                          .run_ns = run_ns,
                          .err = kind == SK_EV_FAILED ? &t->fail : NULL};
    t->sink->on_events(t->sink, &ev, 1);
}

/* ---- objects --------------------------------------------------------------------------------- */

sk_rc sk_iobj_new(struct sk_inline *x, uint64_t id, struct sk_blob *val, const sk_oid *in,
                  uint32_t n_in, struct sk_err *err) {
    struct sk_iobj *o = sk_alloc(TAG, sizeof *o);
    if (!o) return SK_ERR(err, SK_ENOMEM, "object");
    o->val = val;
    sk_rc rc = sk_own_add(x->own, id, ME, o, err);
    if (rc == SK_OK && n_in) {
        rc = sk_own_contains(x->own, id, (const uint64_t *)(const void *)in, n_in, err);
        if (rc != SK_OK) {
            o->val = NULL; /* the caller keeps its reference to the value */
            SK_ASSERT(sk_own_unref(x->own, id, ME, 1, NULL) == SK_OK);
            sk_iobj_drain(x);
            return rc;
        }
    }
    if (rc != SK_OK) sk_free(o);
    return rc;
}

void sk_iobj_unref(struct sk_inline *x, uint64_t id) {
    /* if the caller gives back more references than it has, that is ignored */
    if (id && sk_own_has(x->own, id)) (void)!sk_own_unref(x->own, id, ME, 1, NULL);
    sk_iobj_drain(x);
}

void sk_iobj_drain(struct sk_inline *x) {
    uint64_t id;
    void *data;
    if (x->draining) return;
    x->draining = true;
    while (sk_own_next_freed(x->own, &id, &data)) {
        struct sk_iobj *o = data;
        sk_blob_unref(x, o->val);
        sk_free(o);
        /* the id of an actor is that of its `ready` plus one */
        struct sk_iactor *a = sk_map_get(&x->actors, id + 1);
        if (a) {
            a->ready_gone = true;
            sk_iactor_maybe_end(x, a);
        }
    }
    x->draining = false;
}

/* ---- tasks ----------------------------------------------------------------------------------- */

void sk_ival_drop(struct sk_inline *x, struct sk_ival *v) {
    for (uint32_t i = 0; i < v->n_in; i++) sk_own_unhold(x->own, v->in[i]);
    sk_free(v->in);
    sk_blob_unref(x, v->b);
    *v = (struct sk_ival){0};
    sk_iobj_drain(x);
}

void sk_itask_drop_attempt(struct sk_inline *x, struct sk_itask *t) {
    for (uint32_t i = 0; t->ret && i < t->n_ret; i++) sk_ival_drop(x, &t->ret[i]);
    sk_blob_unref(x, t->error);
    t->error = NULL;
    t->note_n = 0;
}

static void drop_args(struct sk_inline *x, struct sk_itask *t) {
    for (uint32_t i = 0; i < t->p.t.n_args; i++) {
        if (t->refs && t->refs[i]) sk_own_unhold(x->own, t->refs[i]);
        if (t->vals) sk_blob_unref(x, t->vals[i]);
    }
    for (uint32_t i = 0; i < t->n_held; i++) sk_own_unhold(x->own, t->held[i]);
    t->p.t.n_args = 0;
    t->n_held = 0;
    sk_iobj_drain(x);
}

void sk_itask_free(struct sk_inline *x, struct sk_itask *t) {
    sk_map_del(&x->tasks, t->id);
    sk_itask_drop_attempt(x, t);
    drop_args(x, t);
    sk_free(t->name);
    sk_free(t->views);
    sk_free(t->vals);
    sk_free(t->refs);
    sk_free(t->parts);
    sk_free(t->held);
    sk_free(t->ret);
    sk_vec_free(&t->yields);
    sk_vec_free(&t->notes);
    sk_free(t);
}

static void call_ended(struct sk_inline *x, struct sk_itask *t) {
    struct sk_iactor *a = t->actor;
    if (!a) return;
    a->n_calls--;
    if (t->running) a->busy = false;
    sk_iactor_maybe_end(x, a);
}

/* Ends the task for good. `error` is taken over; NULL: the task succeeded. */
void sk_itask_finish(struct sk_inline *x, struct sk_itask *t, struct sk_blob *error,
                     int64_t run_ns) {
    uint64_t ev_oid = 0;
    t->finished = true;
    sk_istate_ended(x, t, error, t->start_ns ? t->start_ns + run_ns : sk_now_ns());
    x->n_done++;
    for (uint32_t i = 0; i < t->n_ret; i++) {
        struct sk_iobj *o = sk_own_get(x->own, t->first + i);
        /* nothing refers to the return any more; or the task is a constructor that ran again, and
         * the `ready` object has its value already */
        if (!o || o->val) continue;
        if (error) {
            o->val = sk_blob_ref(error);
            if (!ev_oid && t->sink && sk_own_ref(x->own, t->first + i, ME, 1, NULL) == SK_OK)
                ev_oid = t->first + i;
        } else {
            o->val = t->ret[i].b;
            t->ret[i].b = NULL;
            if (t->ret[i].n_in && sk_own_contains(x->own, t->first + i, t->ret[i].in,
                                                  t->ret[i].n_in, NULL) == SK_ENOMEM) {
                sk_blob_unref(x, o->val);
                if (sk_blob_engine_error(x, SK_ENOMEM,
                                         "no memory to record the references in a value",
                                         &o->val) != SK_OK)
                    abort();
            }
        }
    }
    if (error && !ev_oid && (t->sink || t->streaming) && !t->stream_dropped) {
        uint64_t id = x->next_id++;
        if (sk_iobj_new(x, id, error, NULL, 0, NULL) == SK_OK) {
            sk_blob_ref(error);
            ev_oid = id;
        }
    }
    if (t->is_init) {
        /* The constructor counts as a call until the end: calls that end with the actor, and the
         * sink, may hold the last references to the actor, and so to t. */
        struct sk_iactor *a = t->actor;
        sk_itask_drop_attempt(x, t);
        if (error) sk_iactor_die(x, a, sk_blob_ref(error));
        else a->started = true;
        /* the actor was killed while its constructor ran */
        if (!error && a->dead && !sk_vec_push(&x->gone, TAG, a->id)) abort();
        sk_itask_emit(t, error ? SK_EV_FAILED : SK_EV_DONE, ev_oid, 0,
                      (struct sk_bytes){t->note, t->note_n}, run_ns);
        a->n_calls--;
        if (t->running) a->busy = false;
        t->running = false;
        sk_iactor_maybe_end(x, a); /* this call may free t */
    } else {
        drop_args(x, t);
        call_ended(x, t);
        sk_itask_emit(t, error ? SK_EV_FAILED : SK_EV_DONE, t->sink ? ev_oid : 0, 0,
                      (struct sk_bytes){t->note, t->note_n}, run_ns);
        t->running = false;
        if (t->streaming && !t->sink && !t->stream_dropped) {
            t->stream_error = ev_oid;
            sk_itask_drop_attempt(x, t);
        } else {
            sk_itask_free(x, t);
        }
    }
    sk_blob_unref(x, error);
    pthread_cond_broadcast(&x->cv);
}

void sk_itask_finish_code(struct sk_inline *x, struct sk_itask *t, sk_rc code, const char *msg) {
    struct sk_blob *b = NULL;
    /* no memory for 200 bytes: a waiter would wait for ever */
    if (sk_blob_engine_error(x, code, msg, &b) != SK_OK) abort();
    sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s", msg);
    if (t->queued) {
        sk_list_del(&t->node);
        t->queued = false;
    }
    sk_itask_finish(x, t, b, 0);
}

/* ---- actors ---------------------------------------------------------------------------------- */

void sk_iactor_die(struct sk_inline *x, struct sk_iactor *a, struct sk_blob *why) {
    if (a->dead) {
        sk_blob_unref(x, why);
        return;
    }
    a->dead = true;
    a->why = why;
    sk_name_free(&a->name);
    if (a->detached) sk_own_unhold(x->own, a->ready);
    a->detached = false;
    sk_inline_give_back(x, &a->holds);
    if (a->started && !sk_vec_push(&x->gone, TAG, a->id)) abort();
    struct sk_list calls; /* the actor's calls; empty at the end */
    sk_list_init(&calls);
    SK_LIST_EACH_SAFE (it, tmp, &x->queue) {
        const struct sk_itask *t = sk_container_of(it, struct sk_itask, node);
        if (t->actor != a || t->is_init) continue;
        sk_list_del(it);
        sk_list_push_back(&calls, it);
    }
    /* the end of one call may end others */
    for (struct sk_list *it; (it = sk_list_first(&calls));) {
        struct sk_itask *t = sk_container_of(it, struct sk_itask, node);
        sk_list_del(it);
        t->queued = false;
        int32_t code = SK_ETASK;
        if (why->kind == SK_KIND_ENGINE_ERROR) memcpy(&code, why->data, 4);
        sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s: its actor is dead", t->name);
        sk_itask_finish(x, t, sk_blob_ref(why), 0);
    }
    /* no call points to this list head any more */
    SK_ASSERT(sk_list_empty(&calls)); /* NOLINT(clang-analyzer-core.StackAddressEscape) */
}

/* Ends an actor when the last handle is gone and every call is done: its state and its record
 * are freed, since no reference to `ready` is left that could lead to it. */
void sk_iactor_maybe_end(struct sk_inline *x, struct sk_iactor *a) {
    if (a->n_handles || !a->ready_gone || a->n_calls || a->busy) return;
    if (!a->dead) {
        struct sk_blob *why = NULL;
        if (sk_blob_engine_error(x, SK_EACTOR, "the actor ended: its last handle is gone", &why) !=
            SK_OK)
            abort();
        sk_iactor_die(x, a, why);
    }
    sk_istate_actor_gone(x, a);
    struct sk_itask *init = a->init;
    a->init = NULL;
    sk_map_del(&x->actors, a->id);
    sk_blob_unref(x, a->why);
    sk_free(a);
    if (init) sk_itask_free(x, init);
}

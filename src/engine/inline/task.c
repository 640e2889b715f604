/* task.c - tasks of the inline engine from their making to their end, and the end of actors, which is the end of their calls.
 *
 * Not here: running them (run.c). Invariant: a task in the table holds its arguments until it is finished; the constructor of an actor holds them
 * as long as the actor may restart. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/inline/inline_int.h"

sk_rc sk_itask_make(struct sk_inline *x, const struct sk_task_spec *s, uint32_t n_ret, uint64_t first, struct sk_itask **out,
                    struct sk_err *err) {
    if (s->n_returns != SK_STREAMING && s->n_returns > SK_MAX_RETURNS)
        return SK_ERR(err, SK_EINVAL, "%u returns (at most %d)", s->n_returns, SK_MAX_RETURNS);
    if (!sk_place_shape_known(&x->place, s->shape)) return SK_ERR(err, SK_EINVAL, "no such shape");
    const char *name = sk_map_get(&x->fns, s->fn.v);
    if (!name) return SK_ERR(err, SK_EINVAL, "function %s is not defined", s->name ? s->name : "?");
    sk_rc rc = SK_OK;
    struct sk_itask *t = sk_calloc(TAG, sizeof *t);
    if (!t) return SK_ERR(err, SK_ENOMEM, "task");
    *t = (struct sk_itask){.e = x,
                           .id = x->next_id,
                           .first = first,
                           .streaming = s->n_returns == SK_STREAMING,
                           .n_ret = n_ret,
                           .retry_exceptions = s->retry_exceptions,
                           .retries_left = s->max_retries == SK_RETRIES_DEFAULT ? x->task_retries : s->max_retries,
                           .shape = s->shape,
                           .parent = s->parent.v,
                           .submit_ns = sk_now_ns(),
                           .sink = s->sink,
                           .sink_tag = s->sink_tag};
    sk_list_init(&t->node);
    sk_place_worker_init(&t->holds);
    uint32_t n = s->n_args;
    t->name = sk_strdup(TAG, s->name ? s->name : name);
    t->views = sk_calloc(TAG, (n + 1) * sizeof *t->views);
    t->vals = sk_calloc(TAG, (n + 1) * sizeof(struct sk_blob *));
    t->refs = sk_calloc(TAG, (n + 1) * sizeof *t->refs);
    t->held = sk_calloc(TAG, (s->n_contains + 1) * sizeof *t->held);
    t->ret = sk_calloc(TAG, (n_ret + 1) * sizeof *t->ret);
    t->p = (struct sk_task_priv){
        .t = {.engine = &x->e, .id = {t->id}, .fn = s->fn, .actor = s->actor, .args = t->views, .n_returns = s->n_returns, .name = t->name},
        .ops = &sk_inline_task_ops};
    if (!t->name || !t->views || !t->vals || !t->refs || !t->held || !t->ret) {
        rc = SK_ERR(err, SK_ENOMEM, "task %s", name);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct sk_arg *a = &s->args[i];
        if (a->ref.v) {
            SK_GO(sk_own_hold(x->own, a->ref.v, err));
            t->refs[i] = a->ref.v;
        } else if (a->bytes.n > SK_INLINE_MAX) {
            rc = SK_ERR(err, SK_EINVAL, "task %s: argument %u has %zu bytes; put it first", t->name, i, a->bytes.n);
            goto out;
        } else {
            SK_GO(sk_blob_bytes(x, a->kind, a->bytes, &t->vals[i], err));
        }
        t->p.t.n_args++;
    }
    for (uint32_t i = 0; i < s->n_contains; i++) {
        SK_GO(sk_own_hold(x->own, s->contains[i].v, err));
        t->held[t->n_held++] = s->contains[i].v;
    }
    SK_GO(sk_map_put(&x->tasks, t->id, t));
    x->next_id++;
    *out = t;
    return SK_OK;
out:
    sk_itask_free(x, t);
    return rc;
}

void sk_itask_enqueue(struct sk_inline *x, struct sk_itask *t) {
    t->queued = true;
    sk_list_push_back(&x->queue, &t->node);
    pthread_cond_broadcast(&x->cv);
}

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
    sk_free(t->held);
    sk_free(t->ret);
    sk_vec_free(&t->yields);
    sk_vec_free(&t->notes);
    sk_free(t);
}

void sk_itask_emit(struct sk_itask *t, enum sk_event_kind kind, uint64_t oid, uint64_t size, struct sk_bytes note, int64_t run_ns) {
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

static void call_ended(struct sk_inline *x, struct sk_itask *t) {
    struct sk_iactor *a = t->actor;
    if (!a) return;
    a->n_calls--;
    if (t->running) a->busy = false;
    sk_iactor_maybe_end(x, a);
}

/* The task is over for good. `error` (taken) is NULL when it succeeded. */
void sk_itask_finish(struct sk_inline *x, struct sk_itask *t, struct sk_blob *error, int64_t run_ns) {
    uint64_t ev_oid = 0;
    t->finished = true;
    sk_istate_ended(x, t, error, t->start_ns ? t->start_ns + run_ns : sk_now_ns());
    x->n_done++;
    for (uint32_t i = 0; i < t->n_ret; i++) {
        struct sk_iobj *o = sk_own_get(x->own, t->first + i);
        if (!o || o->val) /* nobody wants it any more; or a restarted constructor, whose `ready` is there */
            continue;
        if (error) {
            o->val = sk_blob_ref(error);
            if (!ev_oid && t->sink && sk_own_ref(x->own, t->first + i, ME, 1, NULL) == SK_OK) ev_oid = t->first + i;
        } else {
            o->val = t->ret[i].b;
            t->ret[i].b = NULL;
            if (t->ret[i].n_in && sk_own_contains(x->own, t->first + i, t->ret[i].in, t->ret[i].n_in, NULL) == SK_ENOMEM) {
                sk_blob_unref(x, o->val);
                if (sk_blob_engine_error(x, SK_ENOMEM, "no memory to record the references in a value", &o->val) != SK_OK) abort();
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
    if (t->is_init) { /* its call counts until the end: calls that end with it, and the sink, may be the last that hold the actor, and so t */
        struct sk_iactor *a = t->actor;
        sk_itask_drop_attempt(x, t);
        if (error) sk_iactor_die(x, a, sk_blob_ref(error));
        else a->started = true;
        if (!error && a->dead && !sk_vec_push(&x->gone, TAG, a->id)) abort(); /* killed while its constructor ran */
        sk_itask_emit(t, error ? SK_EV_FAILED : SK_EV_DONE, ev_oid, 0, (struct sk_bytes){t->note, t->note_n}, run_ns);
        a->n_calls--;
        if (t->running) a->busy = false;
        t->running = false;
        sk_iactor_maybe_end(x, a); /* may free t */
    } else {
        drop_args(x, t);
        call_ended(x, t);
        sk_itask_emit(t, error ? SK_EV_FAILED : SK_EV_DONE, t->sink ? ev_oid : 0, 0, (struct sk_bytes){t->note, t->note_n}, run_ns);
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
    if (sk_blob_engine_error(x, code, msg, &b) != SK_OK) abort(); /* a waiter would wait for ever: no memory for 200 bytes */
    sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s", msg);
    if (t->queued) {
        sk_list_del(&t->node);
        t->queued = false;
    }
    sk_itask_finish(x, t, b, 0);
}

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
    struct sk_list calls; /* empty again in the end */
    sk_list_init(&calls);
    SK_LIST_EACH_SAFE (it, tmp, &x->queue) {
        const struct sk_itask *t = sk_container_of(it, struct sk_itask, node);
        if (t->actor != a || t->is_init) continue;
        sk_list_del(it);
        sk_list_push_back(&calls, it);
    }
    for (struct sk_list *it; (it = sk_list_first(&calls));) { /* the end of one may end others */
        struct sk_itask *t = sk_container_of(it, struct sk_itask, node);
        sk_list_del(it);
        t->queued = false;
        int32_t code = SK_ETASK;
        if (why->kind == SK_KIND_ENGINE_ERROR) memcpy(&code, why->data, 4);
        sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s: its actor is dead", t->name);
        sk_itask_finish(x, t, sk_blob_ref(why), 0);
    }
    SK_ASSERT(sk_list_empty(&calls)); /* NOLINT(clang-analyzer-core.StackAddressEscape): nothing points to it any more */
}

/* Last handle gone and every call done: the state goes. The record stays while refs to `ready` could name it: never, so it goes too. */
void sk_iactor_maybe_end(struct sk_inline *x, struct sk_iactor *a) {
    if (a->n_handles || !a->ready_gone || a->n_calls || a->busy) return;
    if (!a->dead) {
        struct sk_blob *why = NULL;
        if (sk_blob_engine_error(x, SK_EACTOR, "the actor ended: its last handle is gone", &why) != SK_OK) abort();
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

/* submit.c - tasks are made and queued, or refused; and cancelled while they wait. */
#include <stdio.h>

#include "base/clock.h"
#include "engine/inline/inline_int.h"

sk_rc sk_itask_make(struct sk_inline *x, const struct sk_task_spec *s, uint32_t n_ret,
                    uint64_t first, struct sk_itask **out, struct sk_err *err) {
    if (s->n_returns != SK_STREAMING && s->n_returns > SK_MAX_RETURNS)
        return SK_ERR(err, SK_EINVAL, "%u returns (at most %d)", s->n_returns, SK_MAX_RETURNS);
    if (!sk_place_shape_known(&x->place, s->shape)) return SK_ERR(err, SK_EINVAL, "no such shape");
    SK_TRY(sk_spec_check(s, s->node == SK_INLINE_NODE, err));
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
                           .retries_left = s->max_retries == SK_RETRIES_DEFAULT ? x->task_retries
                                                                                : s->max_retries,
                           .shape = s->shape,
                           .parent = sk_task_opts_of(s)->parent.v,
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
    t->p = (struct sk_task_priv){.t = {.engine = &x->e,
                                       .id = {t->id},
                                       .fn = s->fn,
                                       .actor = s->actor,
                                       .args = t->views,
                                       .n_returns = s->n_returns,
                                       .name = t->name},
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
            if (a->part && !t->parts) t->parts = sk_calloc(TAG, n * sizeof *t->parts);
            if (a->part && !t->parts) {
                rc = SK_ERR(err, SK_ENOMEM, "task %s", name);
                goto out;
            }
            if (a->part) t->parts[i] = (struct sk_ipart){true, a->offset, a->length};
        } else if (a->bytes.n > SK_INLINE_MAX) {
            rc = SK_ERR(err, SK_EINVAL, "task %s: argument %u has %zu bytes; put it first", t->name,
                        i, a->bytes.n);
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

sk_rc sk_inline_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first,
                       sk_tid *tid, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    struct sk_itask *t = NULL;
    sk_rc rc = SK_OK;
    uint32_t n_ret = s->n_returns == SK_STREAMING ? 0 : s->n_returns, made = 0;
    sk_inline_lock(x);
    uint64_t base = x->next_id;
    struct sk_iactor *a = s->actor.v ? sk_map_get(&x->actors, s->actor.v) : NULL;
    if (x->closed) {
        rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
        goto out;
    }
    const struct sk_task_opts *opts = sk_task_opts_of(s);
    if (s->actor.v)
        SK_GO(sk_call_check(a, a ? a->n_calls - !a->started : 0, opts->max_pending, err));
    x->next_id += n_ret;
    for (; made < n_ret; made++) SK_GO(sk_iobj_new(x, base + made, NULL, NULL, 0, err));
    SK_GO(sk_itask_make(x, s, n_ret, base, &t, err));
    if (n_ret && first) first->v = base;
    if (tid) tid->v = t->id;
    if (a) {
        t->actor = a;
        a->n_calls++;
        if (!t->retries_left) t->retries_left = a->max_task_retries;
        if (a->dead) {
            int32_t code = SK_ETASK;
            if (a->why->kind == SK_KIND_ENGINE_ERROR) memcpy(&code, a->why->data, 4);
            sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s: its actor is dead", t->name);
            sk_itask_finish(x, t, sk_blob_ref(a->why), 0);
            goto out;
        }
    }
    if (opts->refused) sk_itask_finish_code(x, t, SK_EINFEASIBLE, opts->refused);
    else sk_itask_enqueue(x, t);
out:
    if (rc != SK_OK)
        while (made) sk_iobj_unref(x, base + --made);
    sk_inline_unlock(x);
    return rc;
}

/* Tasks here either wait for their children or end before them, so there are no children to
 * cancel. */
sk_rc sk_inline_cancel(struct sk_engine *e, sk_tid tid, uint32_t flags, struct sk_err *err) {
    (void)flags;
    (void)err;
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
    if (t && !t->finished && !t->is_init) {
        t->cancelled = true;
        char msg[256];
        snprintf(msg, sizeof msg, "task %s was cancelled", t->name);
        if (t->queued) sk_itask_finish_code(x, t, SK_ECANCEL, msg);
    }
    sk_inline_unlock(x);
    return SK_OK;
}

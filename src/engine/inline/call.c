/* call.c - the calls of a running task of the inline engine: its returns, yields, error and
 * note. These functions are called without the lock and take it. */
#include "base/hash.h"
#include "engine/inline/inline_int.h"

static struct sk_itask *task_of(struct sk_task *t) {
    return sk_container_of(sk_container_of(t, struct sk_task_priv, t), struct sk_itask, p);
}

static sk_rc t_ret(struct sk_task *pt, uint32_t i, const struct sk_payload *p, struct sk_err *err) {
    struct sk_itask *t = task_of(pt);
    struct sk_inline *x = t->e;
    struct sk_ival v = {0};
    sk_inline_lock(x);
    sk_rc rc = sk_blob_payload(x, p, &v.b, err);
    if (rc == SK_OK && t->ret[i].b)
        rc = SK_ERR(err, SK_EINVAL, "task %s: return %u is set twice", t->name, i);
    if (rc == SK_OK && p->n_contains &&
        !(v.in = sk_memdup(TAG, p->contains, p->n_contains * sizeof *v.in)))
        rc = SK_ERR(err, SK_ENOMEM, "task %s: return %u", t->name, i);
    for (; rc == SK_OK && v.n_in < p->n_contains; v.n_in += rc == SK_OK)
        rc = sk_own_hold(x->own, v.in[v.n_in], err);
    if (rc == SK_OK) t->ret[i] = v;
    else sk_ival_drop(x, &v);
    sk_inline_unlock(x);
    return rc;
}

static sk_rc t_yield(struct sk_task *pt, const struct sk_payload *p, struct sk_err *err) {
    struct sk_itask *t = task_of(pt);
    struct sk_inline *x = t->e;
    struct sk_blob *b = NULL;
    uint64_t h = sk_hash(p->note.p, p->note.n);
    sk_inline_lock(x);
    sk_rc rc = sk_blob_payload(x, p, &b, err);
    if (rc == SK_OK && t->cancelled)
        rc = SK_ERR(err, SK_ECANCEL, "task %s: nobody wants the rest", t->name);
    uint32_t i = pt->n_yielded;
    if (rc == SK_OK && i < t->n_reported) {
        /* this is a retry that has not reached the point where the last attempt stopped */
        if (t->notes.p[i] != h)
            rc = SK_ERR(err, SK_ECORRUPT,
                        "task %s: attempt %u made another value %u than the attempt before",
                        t->name, pt->attempt, i);
        else pt->n_yielded++;
        sk_blob_unref(x, b);
        sk_inline_unlock(x);
        return rc;
    }
    uint64_t id = x->next_id++;
    if (rc == SK_OK && (!sk_vec_reserve(&t->notes, TAG, t->notes.n + 1) ||
                        !sk_vec_reserve(&t->yields, TAG, t->yields.n + 1)))
        rc = SK_ERR(err, SK_ENOMEM, "task %s: yield %u", t->name, i);
    size_t len = b ? b->len : 0;
    if (rc == SK_OK) rc = sk_iobj_new(x, id, b, p->contains, p->n_contains, err);
    if (rc == SK_OK) {
        t->notes.p[t->notes.n++] = h;
        pt->n_yielded++;
        if (t->sink) sk_itask_emit(t, SK_EV_YIELDED, id, len, p->note, 0);
        else if (t->stream_dropped) sk_iobj_unref(x, id);
        else t->yields.p[t->yields.n++] = id;
        t->n_reported++;
        pthread_cond_broadcast(&x->cv);
    } else {
        sk_blob_unref(x, b);
    }
    sk_inline_unlock(x);
    return rc;
}

static uint32_t t_skip(const struct sk_task *pt) {
    /* only this thread writes n_reported while the task runs */
    return sk_container_of(pt, const struct sk_itask, p.t)->n_reported;
}

static sk_rc t_fail(struct sk_task *pt, const struct sk_payload *p, struct sk_err *err) {
    struct sk_itask *t = task_of(pt);
    struct sk_blob *b = NULL;
    sk_inline_lock(t->e);
    sk_rc rc = sk_blob_payload(t->e, p, &b, err);
    if (rc == SK_OK && !t->error) t->error = b;
    else sk_blob_unref(t->e, b);
    sk_inline_unlock(t->e);
    return rc;
}

static void t_note(struct sk_task *pt, struct sk_bytes note) {
    struct sk_itask *t = task_of(pt);
    t->note_n = (uint32_t)note.n;
    memcpy(t->note, note.p, note.n);
}

static struct sk_view t_keep_arg(struct sk_task *pt, uint32_t i) {
    struct sk_itask *t = task_of(pt);
    struct sk_view v = t->views[i];
    t->views[i].token = 0;
    return v;
}

static bool t_cancelled(const struct sk_task *pt) {
    return sk_container_of(pt, const struct sk_itask, p.t)->cancelled;
}

const struct sk_task_ops sk_inline_task_ops = {.ret = t_ret,
                                               .yield = t_yield,
                                               .skip = t_skip,
                                               .fail = t_fail,
                                               .note = t_note,
                                               .keep_arg = t_keep_arg,
                                               /* the inline engine has no async tasks */
                                               .end = NULL,
                                               .cancelled = t_cancelled};

/* stream.c - streams of the inline engine: yields are taken in order. The task runs to its end
 * when its stream is first read. */
#include "engine/inline/inline_int.h"

static sk_rc op_stream_next(struct sk_engine *e, sk_tid tid, int64_t deadline_ns, sk_oid *out,
                            struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    for (;;) {
        struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
        if (!t) {
            rc = SK_EDONE;
            break;
        }
        if (t->n_taken < t->yields.n) {
            out->v = t->yields.p[t->n_taken++];
            break;
        }
        if (t->finished && t->stream_error) {
            out->v = t->stream_error;
            t->stream_error = 0;
            rc = SK_ERR(err, t->fail.code ? t->fail.code : SK_ETASK, "%s", t->fail.msg);
            break;
        }
        if (t->finished) {
            sk_itask_free(x, t);
            rc = SK_EDONE;
            break;
        }
        rc = sk_inline_step_unlocked(x, deadline_ns, t->name, err);
        if (rc != SK_OK) break;
    }
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_stream_wait(struct sk_engine *e, sk_tid tid, int64_t deadline_ns,
                            struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    struct sk_itask *t;
    sk_inline_lock(x);
    while (rc == SK_OK && (t = sk_map_get(&x->tasks, tid.v)) != NULL && t->n_taken == t->yields.n &&
           !t->finished)
        rc = sk_inline_step_unlocked(x, deadline_ns, t->name, err);
    if (rc == SK_OK && (!t || (t->n_taken == t->yields.n && !t->stream_error))) rc = SK_EDONE;
    sk_inline_unlock(x);
    return rc;
}

/* As end() of streams.h; runs the task to its end. */
static sk_rc op_stream_end(struct sk_engine *e, sk_tid tid, uint32_t kind, sk_oid *out,
                           struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    struct sk_itask *t;
    struct sk_blob *b = NULL;
    sk_inline_lock(x);
    while (rc == SK_OK && (t = sk_map_get(&x->tasks, tid.v)) != NULL && !t->finished)
        rc = sk_inline_step_unlocked(x, INT64_MAX, t->name, err);
    if (rc == SK_OK && !t) rc = SK_ERR(err, SK_ENOENT, "this stream was dropped");
    struct sk_iobj *o = rc == SK_OK && t->stream_error ? sk_own_get(x->own, t->stream_error) : NULL;
    if (o) b = sk_blob_ref(o->val);
    else if (rc == SK_OK) rc = sk_blob_bytes(x, kind, (struct sk_bytes){"", 0}, &b, err);
    if (rc == SK_OK) rc = sk_iobj_new(x, x->next_id, b, NULL, 0, err);
    if (rc == SK_OK) *out = (sk_oid){x->next_id++};
    else sk_blob_unref(x, b);
    sk_inline_unlock(x);
    return rc;
}

static void op_stream_drop(struct sk_engine *e, sk_tid tid) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
    if (t && t->streaming && !t->stream_dropped) {
        while (t->n_taken < t->yields.n) sk_iobj_unref(x, t->yields.p[t->n_taken++]);
        sk_iobj_unref(x, t->stream_error);
        t->stream_error = 0;
        if (t->finished) sk_itask_free(x, t);
        else t->stream_dropped = true;
    }
    sk_inline_unlock(x);
}

const struct sk_streams_ops sk_inline_streams = {
    .next = op_stream_next, .wait = op_stream_wait, .end = op_stream_end, .drop = op_stream_drop};

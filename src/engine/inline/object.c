/* object.c - the calls about objects of the inline engine: put, get, wait, references. A thread
 * that waits runs tasks meanwhile. */
#include "engine/inline/inline_int.h"

sk_rc sk_inline_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    struct sk_blob *b = NULL;
    sk_inline_lock(x);
    sk_rc rc = sk_blob_new(x, 0, len, &b, err);
    sk_inline_unlock(x);
    if (rc == SK_OK) *out = (struct sk_buf){b->data, len, (uintptr_t)b};
    return rc;
}

void sk_inline_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    sk_blob_unref(x, (struct sk_blob *)(uintptr_t)b->token);
    sk_inline_unlock(x);
    *b = (struct sk_buf){0};
}

sk_rc sk_inline_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                    struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    struct sk_blob *b = NULL;
    sk_inline_lock(x);
    sk_rc rc = sk_blob_payload(x, p, &b, err);
    if (rc == SK_OK && x->closed) rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    uint64_t id = x->next_id++;
    if (rc == SK_OK) rc = sk_iobj_new(x, id, b, p->contains, p->n_contains, err);
    if (rc == SK_OK) out->v = id;
    else sk_blob_unref(x, b);
    sk_inline_unlock(x);
    return rc;
}

sk_rc sk_inline_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                    struct sk_view *out, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    for (size_t i = 0; i < n && rc == SK_OK;) {
        struct sk_iobj *o = sk_own_get(x->own, ids[i].v);
        if (!o)
            rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down")
                           : SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)",
                                    (unsigned long long)ids[i].v);
        else if (o->val) i++;
        else rc = sk_inline_step_unlocked(x, deadline_ns, "get", err);
    }
    /* an object that existed can be gone only if the caller has released it meanwhile */
    for (size_t i = 0; rc == SK_OK && i < n; i++)
        if (!sk_iobj_val(x, ids[i].v))
            rc = SK_ERR(err, SK_ELOST, "object %llx was released during the get",
                        (unsigned long long)ids[i].v);
    for (size_t i = 0; rc == SK_OK && i < n; i++)
        out[i] = sk_blob_view(sk_blob_ref(sk_iobj_val(x, ids[i].v)), ids[i].v);
    sk_inline_unlock(x);
    return rc;
}

void sk_inline_view_release(struct sk_engine *e, struct sk_view *v) {
    struct sk_inline *x = sk_inline_of(e);
    if (v->token) {
        sk_inline_lock(x);
        sk_blob_unref(x, (struct sk_blob *)(uintptr_t)v->token);
        sk_inline_unlock(x);
    }
    *v = (struct sk_view){0};
}

sk_rc sk_inline_await(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                      int64_t deadline_ns, bool *ready, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    if (want > n) return SK_ERR(err, SK_EINVAL, "wait for %zu of %zu objects", want, n);
    sk_inline_lock(x);
    for (;;) {
        size_t have = 0;
        for (size_t i = 0; i < n && rc == SK_OK; i++) {
            struct sk_iobj *o = sk_own_get(x->own, ids[i].v);
            if (!o)
                rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down")
                               : SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)",
                                        (unsigned long long)ids[i].v);
            ready[i] = o && o->val;
            have += ready[i];
        }
        if (rc != SK_OK || have >= want) break;
        rc = sk_inline_step_unlocked(x, deadline_ns, "wait", err);
        if (rc != SK_OK) break; /* a failed step changes nothing, so ready[] is right */
    }
    sk_inline_unlock(x);
    return rc;
}

void sk_inline_retain(struct sk_engine *e, sk_oid o) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    struct sk_iactor *a = sk_map_get(&x->actors, o.v);
    if (a) a->n_handles++;
    /* if the object is gone, the next get says so */
    else (void)!sk_own_ref(x->own, o.v, ME, 1, NULL);
    sk_inline_unlock(x);
}

void sk_inline_release(struct sk_engine *e, sk_oid o) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    struct sk_iactor *a = sk_map_get(&x->actors, o.v);
    if (!a) {
        sk_iobj_unref(x, o.v);
    } else if (a->n_handles) {
        a->n_handles--;
        sk_iactor_maybe_end(x, a);
    }
    sk_inline_unlock(x);
}

static uint64_t inner_count(struct sk_engine *e, const sk_oid *ids, size_t n) {
    struct sk_inline *x = sk_inline_of(e);
    uint64_t sum = 0;
    sk_inline_lock(x);
    for (size_t i = 0; i < n; i++) sum += sk_own_n_inner(x->own, ids[i].v);
    sk_inline_unlock(x);
    return sum;
}
const struct sk_inner_ops sk_inline_inner = {.count = inner_count};

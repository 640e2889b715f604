/* blob.c - values of the inline engine: bytes counted by views and objects. Runs with the lock
 * held.
 *
 * Invariant: x->bytes is the sum of all living values larger than SK_INLINE_MAX. Cost: one
 * allocation a value. */
#include "engine/inline/inline_int.h"

sk_rc sk_blob_new(struct sk_inline *x, uint32_t kind, size_t len, struct sk_blob **out,
                  struct sk_err *err) {
    if (x->store_bytes && len > SK_INLINE_MAX && x->bytes + len > x->store_bytes)
        return SK_ERR(err, SK_EFULL,
                      "object store is full: %zu bytes wanted, %llu of %llu used%s; the inline "
                      "engine does not spill: raise object_store_memory, or "
                      "release references",
                      len, (unsigned long long)x->bytes, (unsigned long long)x->store_bytes,
                      len > x->store_bytes ? "; larger than the store" : "");
    struct sk_blob *b = sk_alloc(TAG, sizeof *b + 63 + len);
    if (!b) return SK_ERR(err, SK_ENOMEM, "value of %zu bytes", len);
    atomic_init(&b->refs, 1);
    b->kind = kind;
    b->len = b->cap = len;
    b->data = (uint8_t *)SK_ALIGN((uintptr_t)(b + 1), 64);
    if (len > SK_INLINE_MAX) x->bytes += len;
    *out = b;
    return SK_OK;
}

void sk_blob_unref(struct sk_inline *x, struct sk_blob *b) {
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
    if (b->cap > SK_INLINE_MAX) x->bytes -= b->cap;
    sk_free(b);
}

struct sk_blob *sk_blob_ref(struct sk_blob *b) {
    atomic_fetch_add(&b->refs, 1);
    return b;
}

sk_rc sk_blob_bytes(struct sk_inline *x, uint32_t kind, struct sk_bytes v, struct sk_blob **out,
                    struct sk_err *err) {
    SK_TRY(sk_blob_new(x, kind, v.n, out, err));
    if (v.n) memcpy((*out)->data, v.p, v.n);
    return SK_OK;
}

/* Makes the value of a payload, whose buffer is taken over on every path. */
sk_rc sk_blob_payload(struct sk_inline *x, const struct sk_payload *p, struct sk_blob **out,
                      struct sk_err *err) {
    if (!p->buf) return sk_blob_bytes(x, p->kind, p->bytes, out, err);
    /* the token is a pointer that buf_alloc() has stored */
    struct sk_blob *b = (struct sk_blob *)(uintptr_t)p->buf->token; /* NOLINT */
    b->kind = p->kind;
    b->len = SK_MIN(p->buf_len, b->cap);
    *out = b;
    return SK_OK;
}

sk_rc sk_blob_engine_error(struct sk_inline *x, sk_rc code, const char *msg, struct sk_blob **out) {
    size_t n = strlen(msg) + 1;
    SK_TRY(sk_blob_new(x, SK_KIND_ENGINE_ERROR, n + 4, out, NULL));
    int32_t c = code;
    memcpy((*out)->data, &c, 4);
    memcpy((*out)->data + 4, msg, n);
    return SK_OK;
}

struct sk_view sk_blob_view(struct sk_blob *b, uint64_t oid) {
    return (struct sk_view){b->data, b->len, b->kind, {oid}, (uintptr_t)b};
}

/* object.c - the public C API: objects. A skate_value holds an sk_view and a skate_buf an sk_buf,
 * both by value, with the number of their engine. */
#include <stdio.h>

#include "api/api_int.h"
#include "engine/windows.h"

enum { WARM = 64 << 10 };
struct value { /* what skate_value.priv holds */
    const uint8_t *data;
    size_t len;
    uint32_t kind, engine; /* the number's low half, which is all of it */
    sk_oid oid;
    uint64_t token;
};
struct buf { /* what skate_buf.priv holds; its length is skate_buf.size */
    uint8_t *data;
    uint64_t engine, token;
};
_Static_assert(sizeof(struct value) <= sizeof(uint64_t[5]), "a view fits");
_Static_assert(sizeof(struct buf) <= sizeof(uint64_t[3]), "a buffer fits");

int skate_put(const void *data, size_t size, skate_ref *out) {
    struct sk_engine *e = sk_api_engine();
    if (!e) return SK_ECLOSED;
    SK_API_GIVEN("skate_put", out);
    if (size) SK_API_GIVEN("skate_put", data);
    struct sk_payload p = {.kind = KIND_BYTES, .bytes = {size ? data : "", size}};
    sk_oid o;
    SK_TRY(e->ops->put(e, &p, &o, sk_api_err()));
    out->id = o.v;
    return SK_OK;
}

int skate_buf_alloc(size_t size, struct skate_buf *out) {
    struct sk_engine *e = sk_api_engine();
    if (!e) return SK_ECLOSED;
    SK_API_GIVEN("skate_buf_alloc", out);
    struct sk_buf b;
    SK_TRY(e->ops->buf_alloc(e, size, &b, sk_api_err()));
    /* the pages are made present as huge pages first, since page faults of 4 KiB would cost more
     * than the writing */
    if (size > WARM && e->windows) e->windows->warm(e, b.data, size);
    struct buf x = {b.data, sk_api_number(e), b.token};
    *out = (struct skate_buf){.data = b.data, .size = size};
    memcpy(out->priv, &x, sizeof x);
    return SK_OK;
}

/* Opens a buffer; *e: its engine, NULL if that was closed. */
static struct sk_buf buf_of(const struct skate_buf *b, struct sk_engine **e) {
    struct buf x;
    memcpy(&x, b->priv, sizeof x);
    *e = b->data ? sk_api_numbered(x.engine) : NULL;
    return (struct sk_buf){x.data, b->size, x.token};
}

bool sk_api_buf_of(const struct skate_buf *b, size_t used, struct sk_buf *out) {
    struct sk_engine *e;
    *out = buf_of(b, &e);
    if (b->data && used <= b->size) return true;
    SK_ERR(sk_api_err(), SK_EINVAL,
           "a buffer of %zu bytes (used: %zu) that is not open or too small", b->size, used);
    return false;
}

int skate_buf_seal(struct skate_buf *b, size_t used, skate_ref *out) {
    struct sk_engine *e;
    SK_API_GIVEN("skate_buf_seal", b);
    SK_API_GIVEN("skate_buf_seal", out);
    struct sk_buf x = buf_of(b, &e);
    if (!sk_api_buf_of(b, used, &x)) return SK_EINVAL;
    if (!e)
        return sk_api_forked() ? sk_api_closed()
                               : SK_ERR(sk_api_err(), SK_ECLOSED,
                                        "skate_buf_seal: the engine of the buffer was closed");
    struct sk_payload p = {.kind = KIND_BYTES, .buf = &x, .buf_len = used};
    sk_oid o;
    b->data = NULL;
    SK_TRY(e->ops->put(e, &p, &o, sk_api_err()));
    out->id = o.v;
    return SK_OK;
}

int skate_return_buf(struct skate_task *t, size_t i, struct skate_buf *b, size_t used) {
    struct sk_buf x;
    SK_API_GIVEN("skate_return_buf", t);
    SK_API_GIVEN("skate_return_buf", b);
    if (!sk_api_buf_of(b, used, &x)) return SK_EINVAL;
    if (t->graph) { /* a value of a graph lies in the graph's memory */
        sk_rc rc = t->graph->set(t->graph, i, b->data, used, sk_api_err());
        skate_buf_abort(b);
        return rc;
    }
    struct sk_payload p = {.kind = KIND_BYTES, .buf = &x, .buf_len = used};
    b->data = NULL;
    return sk_task_return(t->t, i > UINT32_MAX ? UINT32_MAX : (uint32_t)i, &p, sk_api_err());
}

void skate_buf_abort(struct skate_buf *b) {
    struct sk_engine *e;
    if (!b) return;
    struct sk_buf x = buf_of(b, &e);
    b->data = NULL;
    if (e) e->ops->buf_abort(e, &x);
}

sk_rc sk_api_failure(const struct sk_view *v, struct sk_err *err) {
    int32_t code = SK_ETASK;
    const char *text = (const char *)v->data;
    size_t n = v->len;
    if ((v->kind == SK_KIND_ENGINE_ERROR || v->kind == KIND_FAILURE) && n >= 4) {
        memcpy(&code, text, 4);
        text += 4;
        n -= 4;
    }
    return SK_ERR(err, code < 0 ? code : SK_ETASK, "%.*s", (int)SK_MIN(n, 1000), text);
}

int skate_get(skate_ref r, int64_t timeout_ms, struct skate_value *out) {
    struct sk_engine *e = sk_api_engine_of(r.id);
    if (!e) return SK_ECLOSED;
    SK_API_GIVEN("skate_get", out);
    struct sk_view v;
    sk_oid o = {r.id};
    SK_TRY(e->ops->get(e, &o, 1, sk_api_deadline(timeout_ms), &v, sk_api_err()));
    if (SK_KIND_IS_ERROR(v.kind)) {
        sk_rc rc = sk_api_failure(&v, sk_api_err());
        e->ops->view_release(e, &v);
        return rc;
    }
    struct value x = {v.data, v.len, v.kind, (uint32_t)sk_api_number(e), v.oid, v.token};
    *out = (struct skate_value){.data = v.data, .size = v.len};
    memcpy(out->priv, &x, sizeof x);
    return SK_OK;
}

void skate_value_release(struct skate_value *v) {
    struct value x;
    if (!v || !v->data) return;
    memcpy(&x, v->priv, sizeof x);
    v->data = NULL;
    v->size = 0;
    struct sk_engine *e = sk_api_numbered(x.engine);
    struct sk_view view = {x.data, x.len, x.kind, x.oid, x.token};
    if (e) e->ops->view_release(e, &view);
}

int skate_wait(const skate_ref *r, size_t n, size_t want, int64_t timeout_ms, bool *ready) {
    _Static_assert(sizeof(skate_ref) == sizeof(sk_oid), "the same thing");
    struct sk_engine *e = NULL;
    if (n) SK_API_GIVEN("skate_wait", r);
    if (n) SK_API_GIVEN("skate_wait", ready);
    for (size_t i = 0; i < n; i++) SK_TRY(sk_api_join(&e, r[i].id));
    if (!e && !(e = sk_api_engine())) return SK_ECLOSED;
    return e->ops->wait(e, (const sk_oid *)(const void *)r, n, want, sk_api_deadline(timeout_ms),
                        ready, sk_api_err());
}

void skate_release(skate_ref r) {
    struct sk_engine *e = r.id ? sk_api_engine_of(r.id) : NULL;
    if (e) e->ops->release(e, (sk_oid){r.id});
}

/* gen.c - the public C API: streams of values, which tasks yield. */
#include "api/call.h"
#include "engine/streams.h"

static sk_rc submit(struct sk_api_call *c, const struct skate_call_opts *o, skate_gen *out) {
    sk_tid t;
    if (!c->e->streams) return SK_ERR(sk_api_err(), SK_ENOSYS, "this engine has no streams");
    c->s.n_returns = SK_STREAMING;
    c->opts.stream_window = o ? o->window : 0;
    SK_TRY(c->e->ops->submit(c->e, &c->s, NULL, &t, sk_api_err()));
    out->id = t.v;
    return SK_OK;
}

int skate_gen_submit(const char *name, const struct skate_arg *args, size_t n_args,
                     const struct skate_call_opts *o, skate_gen *out) {
    struct sk_api_call c;
    SK_API_GIVEN("skate_gen_submit", out);
    SK_TRY(sk_api_call_begin(&c, 0, name, args, n_args, o));
    c.s.max_retries = sk_api_retries(o, SK_API_DEFAULT_RETRIES);
    sk_rc rc = o ? sk_api_call_shape(&c, o, 1) : SK_OK;
    if (rc == SK_OK) rc = submit(&c, o, out);
    sk_api_call_end(&c);
    return rc;
}

int skate_gen_call(skate_actor a, const char *name, const struct skate_arg *args, size_t n_args,
                   const struct skate_call_opts *o, skate_gen *out) {
    struct sk_api_call c;
    SK_API_GIVEN("skate_gen_call", out);
    if (!a.id) return SK_ERR(sk_api_err(), SK_EINVAL, "skate_gen_call: no actor");
    SK_TRY(sk_api_call_begin(&c, a.id, name, args, n_args, o));
    c.s.actor = (sk_aid){a.id};
    c.s.max_retries = sk_api_retries(o, 0);
    sk_rc rc = submit(&c, o, out);
    sk_api_call_end(&c);
    return rc;
}

/* Returns the engine if it can have made the stream. */
static struct sk_engine *engine_of(skate_gen g, const char *call) {
    struct sk_engine *e = sk_api_engine_of(g.id);
    if (e && (!g.id || !e->streams)) {
        SK_ERR(sk_api_err(), SK_EINVAL, "%s: no stream", call);
        return NULL;
    }
    return e;
}

int skate_gen_next(skate_gen g, int64_t timeout_ms, skate_ref *out) {
    SK_API_GIVEN("skate_gen_next", out);
    struct sk_engine *e = engine_of(g, "skate_gen_next");
    struct sk_view v;
    sk_oid o = {0};
    if (!e) return sk_api_err()->code;
    sk_rc rc = e->streams->next(e, (sk_tid){g.id}, sk_api_deadline(timeout_ms), &o, sk_api_err());
    if (rc == SK_EDONE) return SK_ERR(sk_api_err(), rc, "the stream is over");
    if (rc == SK_OK) out->id = o.v;
    if (rc == SK_OK || !o.v) return rc;
    struct sk_err unused; /* the object is the task's failure */
    if (e->ops->get(e, &o, 1, INT64_MAX, &v, &unused) == SK_OK) {
        rc = sk_api_failure(&v, sk_api_err());
        e->ops->view_release(e, &v);
    }
    e->ops->release(e, o);
    return rc;
}

int skate_gen_cancel(skate_gen g, unsigned flags) {
    struct sk_engine *e = engine_of(g, "skate_gen_cancel");
    return e ? sk_api_cancel(e, g.id, flags) : sk_api_err()->code;
}

void skate_gen_drop(skate_gen g) {
    struct sk_engine *e = g.id ? sk_api_engine_of(g.id) : NULL;
    if (!e || !e->streams) return;
    /* a stream that is dropped only would run to its end */
    struct sk_err unused;
    SK_IGNORE(e->ops->cancel(e, (sk_tid){g.id}, 0, &unused));
    e->streams->drop(e, (sk_tid){g.id});
}

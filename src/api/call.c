/* call.c - the public C API: what all submits have in common: arguments and options in the engine's
 * form.
 *
 * Arguments too large for a message are put into the store first and passed by reference. A handle
 * of an actor is passed as 16 bytes, together with a reference to its `ready` object, which keeps
 * the actor alive (rule 8 of engine.h). */
#include "api/call.h"
#include "base/mem.h"

void sk_api_call_end(struct sk_api_call *c) {
    for (uint32_t i = 0; i < c->n_own; i++) c->e->ops->release(c->e, c->own[i]);
    sk_free(c->heap);
}

static sk_rc one_arg(struct sk_api_call *c, const struct skate_arg *a, struct sk_arg *out) {
    if (a->size && !a->data)
        return SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu has %zu bytes at NULL",
                      (size_t)(out - c->args), a->size);
    if (a->ref.id) {
        *out = (struct sk_arg){.ref = {a->ref.id}};
    } else if (a->actor.id) {
        *out = (struct sk_arg){.kind = KIND_ACTOR, .bytes = {&a->actor, sizeof a->actor}};
        c->refs[c->s.n_contains++] = (sk_oid){a->actor.ready};
    } else if (a->size <= SK_INLINE_MAX) {
        *out = (struct sk_arg){.kind = KIND_BYTES, .bytes = {a->size ? a->data : "", a->size}};
    } else {
        struct sk_payload p = {.kind = KIND_BYTES, .bytes = {a->data, a->size}};
        SK_TRY(c->e->ops->put(c->e, &p, &out->ref, sk_api_err()));
        c->own[c->n_own++] = out->ref;
    }
    return SK_OK;
}

/* Finds the engine of a call: that of the objects that it is given, or the thread's. */
static sk_rc engine_of(uint64_t actor, const struct skate_arg *args, size_t n,
                       const struct skate_call_opts *o, struct sk_engine **out) {
    struct sk_engine *e = NULL;
    SK_TRY(sk_api_join(&e, actor));
    for (size_t i = 0; i < n; i++)
        SK_TRY(sk_api_join(&e, args[i].ref.id ? args[i].ref.id : args[i].actor.id));
    if (o) SK_TRY(sk_api_join(&e, o->group.id));
    *out = e ? e : sk_api_engine();
    return *out ? SK_OK : SK_ECLOSED;
}

sk_rc sk_api_call_begin(struct sk_api_call *c, uint64_t actor, const char *name,
                        const struct skate_arg *args, size_t n, const struct skate_call_opts *o) {
    memset(c, 0, offsetof(struct sk_api_call, stack_args));
    c->heap = NULL;
    c->n_own = 0;
    SK_TRY(sk_api_sized(name ? name : "a call", o, sizeof *o, sk_api_err()));
    if (n && !args) return SK_ERR(sk_api_err(), SK_EINVAL, "%zu arguments at NULL", n);
    if (n > UINT32_MAX / 64) return SK_ERR(sk_api_err(), SK_EINVAL, "%zu arguments", n);
    SK_TRY(engine_of(actor, args, n, o, &c->e));
    SK_TRY(sk_api_define(c->e, name, &c->s.fn));
    c->args = c->stack_args;
    c->refs = c->stack_refs;
    c->own = c->stack_own;
    if (n > SK_API_ON_STACK) {
        c->heap = sk_alloc(SK_TAG_ENGINE, n * (sizeof *c->args + 2 * sizeof(sk_oid)));
        if (!c->heap) return SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for %zu arguments", n);
        c->args = c->heap;
        c->refs = (sk_oid *)(void *)(c->args + n);
        c->own = c->refs + n;
    }
    memset(c->args, 0, n * sizeof *c->args);
    c->s.args = c->args;
    c->s.contains = c->refs;
    c->s.n_args = (uint32_t)n;
    for (size_t i = 0; i < n; i++) {
        sk_rc rc = one_arg(c, &args[i], &c->args[i]);
        if (rc != SK_OK) {
            sk_api_call_end(c);
            return rc;
        }
    }
    if (o) c->s.retry_exceptions = o->retry_failures;
    c->s.opts = &c->opts;
    c->opts.parent = sk_api_current();
    return SK_OK;
}

sk_rc sk_api_call_shape(struct sk_api_call *c, const struct skate_call_opts *o, double cpus) {
    struct sk_api_amounts a = {.cpus = cpus};
    if (o)
        a = (struct sk_api_amounts){o->cpus < 0   ? 0
                                    : o->cpus > 0 ? o->cpus
                                                  : cpus,
                                    o->gpus,
                                    o->resources,
                                    o->n_resources,
                                    o->group.id,
                                    o->bundle};
    return sk_api_shape(c->e, &a, &c->s.shape, sk_api_err());
}

int32_t sk_api_retries(const struct skate_call_opts *o, int32_t otherwise) {
    return !o || o->max_retries == 0 ? otherwise : o->max_retries == -2 ? 0 : o->max_retries;
}

sk_rc sk_api_call_submit(struct sk_api_call *c, size_t n_returns, skate_ref *returns) {
    sk_oid first = {0};
    if (n_returns > SK_MAX_RETURNS)
        return SK_ERR(sk_api_err(), SK_EINVAL, "%zu results (at most %d)", n_returns,
                      SK_MAX_RETURNS);
    if (n_returns && !returns)
        return SK_ERR(sk_api_err(), SK_EINVAL, "%zu results into NULL", n_returns);
    c->s.n_returns = (uint32_t)n_returns;
    SK_TRY(c->e->ops->submit(c->e, &c->s, &first, NULL, sk_api_err()));
    for (size_t i = 0; i < n_returns; i++) returns[i].id = first.v + i;
    return SK_OK;
}

sk_rc sk_api_cancel(struct sk_engine *e, uint64_t id, unsigned flags) {
    _Static_assert(SKATE_CANCEL_FORCE == (int)SK_CANCEL_FORCE, "the same flags");
    _Static_assert(SKATE_CANCEL_CHILDREN == (int)SK_CANCEL_CHILDREN, "the same flags");
    if (flags & ~(unsigned)(SKATE_CANCEL_FORCE | SKATE_CANCEL_CHILDREN))
        return SK_ERR(sk_api_err(), SK_EINVAL, "cancel: flags %#x are unknown", flags);
    return e->ops->cancel(e, (sk_tid){id}, flags, sk_api_err());
}

/* task.c - the public C API: submitting tasks, actors, and what a running task may do.
 *
 * Arguments too large for a message are put into the store first and passed by reference. A handle
 * of an actor is passed as 16 bytes, together with a reference to its `ready` object, which keeps
 * the actor alive (rule 8 of engine.h). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api_int.h"
#include "base/mem.h"

enum { ON_STACK = 16, DEFAULT_RETRIES = 3 };

/* ---- submitting tasks ------------------------------------------------------------------------ */

struct call { /* arguments of a submit in the engine's form */
    struct sk_engine *e;
    struct sk_task_spec s;
    struct sk_arg stack_args[ON_STACK], *args;
    sk_oid stack_refs[ON_STACK], *refs; /* `ready` objects of actor handles among the arguments */
    /* large arguments put into the store; released after the submit */
    sk_oid stack_own[ON_STACK], *own;
    uint32_t n_own;
    void *heap;
};

static void call_end(struct call *c) {
    for (uint32_t i = 0; i < c->n_own; i++) c->e->ops->release(c->e, c->own[i]);
    sk_free(c->heap);
}

static sk_rc one_arg(struct call *c, const struct skate_arg *a, struct sk_arg *out) {
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

sk_rc sk_api_shape(struct sk_engine *e, double cpus, double gpus, double resource, sk_shape *out,
                   struct sk_err *err) {
    if (!(cpus <= 1e6 && gpus >= 0 && gpus <= 1e6 && resource >= 0 && resource <= 1e12))
        return SK_ERR(err, SK_EINVAL,
                      "%g cpus, %g gpus and %g of the resource are asked for: out of range", cpus,
                      gpus, resource);
    if (resource > 0 && !sk_api_resource())
        return SK_ERR(err, SK_EINFEASIBLE,
                      "a resource is asked for, but skate_init was given none");
    struct sk_res r = {.amount = {[SK_RES_CPU] = (int64_t)(SK_MAX(cpus, 0) * SK_RES_UNIT + 0.5),
                                  [SK_RES_GPU] = (int64_t)(gpus * SK_RES_UNIT + 0.5)}};
    if (resource > 0) r.amount[sk_api_resource()] = (int64_t)(resource * SK_RES_UNIT + 0.5);
    return sk_shape_of(e, &r, out, err);
}

/* cpus: the default. */
static sk_rc shape_of(struct sk_engine *e, const struct skate_call_opts *o, double cpus,
                      sk_shape *out) {
    if (o) cpus = o->cpus < 0 ? 0 : o->cpus > 0 ? o->cpus : cpus;
    return sk_api_shape(e, cpus, 0, o ? o->resource : 0, out, sk_api_err());
}

static sk_rc call_begin(struct call *c, const char *name, const struct skate_arg *args, size_t n,
                        const struct skate_call_opts *o) {
    memset(c, 0, offsetof(struct call, stack_args));
    c->heap = NULL;
    c->n_own = 0;
    if (!(c->e = sk_api_engine())) return SK_ECLOSED;
    if (n > UINT32_MAX / 64) return SK_ERR(sk_api_err(), SK_EINVAL, "%zu arguments", n);
    SK_TRY(sk_api_define(c->e, name, &c->s.fn));
    c->args = c->stack_args;
    c->refs = c->stack_refs;
    c->own = c->stack_own;
    if (n > ON_STACK) {
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
            call_end(c);
            return rc;
        }
    }
    if (o) c->s.retry_exceptions = o->retry_failures;
    return SK_OK;
}

static int32_t retries(const struct skate_call_opts *o, int32_t otherwise) {
    return !o || o->max_retries == 0 ? otherwise : o->max_retries == -2 ? 0 : o->max_retries;
}

static sk_rc submit(struct call *c, size_t n_returns, skate_ref *returns) {
    sk_oid first = {0};
    sk_rc rc =
        n_returns > SK_MAX_RETURNS
            ? SK_ERR(sk_api_err(), SK_EINVAL, "%zu results (at most %d)", n_returns, SK_MAX_RETURNS)
            : SK_OK;
    c->s.n_returns = (uint32_t)n_returns;
    if (rc == SK_OK) rc = c->e->ops->submit(c->e, &c->s, &first, NULL, sk_api_err());
    if (rc == SK_OK)
        for (size_t i = 0; i < n_returns; i++) returns[i].id = first.v + i;
    return rc;
}

int skate_submit(const char *name, const struct skate_arg *args, size_t n_args, size_t n_returns,
                 const struct skate_call_opts *o, skate_ref *returns) {
    struct call c;
    SK_TRY(call_begin(&c, name, args, n_args, o));
    c.s.max_retries = retries(o, DEFAULT_RETRIES);
    sk_rc rc = o ? shape_of(c.e, o, 1, &c.s.shape) : SK_OK;
    if (rc == SK_OK) rc = submit(&c, n_returns, returns);
    call_end(&c);
    return rc;
}

/* ---- actors and their calls ------------------------------------------------------------------ */

int skate_actor_create(const char *name, const struct skate_arg *args, size_t n_args,
                       const struct skate_call_opts *o, skate_actor *out) {
    struct call c;
    SK_TRY(call_begin(&c, name, args, n_args, o));
    struct sk_actor_spec s = {.max_restarts = o ? o->max_restarts : 0, .max_task_retries = 0};
    sk_aid a;
    sk_oid ready;
    sk_rc rc = shape_of(c.e, o, 0, &c.s.shape);
    s.init = c.s;
    s.init.n_returns = 1;
    if (rc == SK_OK) rc = c.e->ops->actor_create(c.e, &s, &a, &ready, sk_api_err());
    if (rc == SK_OK) *out = (skate_actor){a.v, ready.v};
    call_end(&c);
    return rc;
}

int skate_actor_call(skate_actor a, const char *name, const struct skate_arg *args, size_t n_args,
                     size_t n_returns, const struct skate_call_opts *o, skate_ref *returns) {
    struct call c;
    SK_TRY(call_begin(&c, name, args, n_args, o));
    c.s.actor = (sk_aid){a.id};
    c.s.max_retries = retries(o, 0);
    sk_rc rc = a.id ? submit(&c, n_returns, returns) : SK_ERR(sk_api_err(), SK_EINVAL, "no actor");
    call_end(&c);
    return rc;
}

void skate_actor_release(skate_actor a) {
    struct sk_engine *e = a.id ? sk_api_engine() : NULL;
    if (!e) return;
    sk_actor_release(e, (sk_aid){a.id});
    e->ops->release(e, (sk_oid){a.ready});
}

int skate_actor_kill(skate_actor a) {
    struct sk_engine *e = sk_api_engine();
    return e ? e->ops->actor_end(e, (sk_aid){a.id}, true, sk_api_err()) : SK_ECLOSED;
}

/* ---- calls inside a task function ------------------------------------------------------------ */

size_t skate_n_args(const struct skate_task *t) { return t->t->n_args; }
size_t skate_n_returns(const struct skate_task *t) { return t->t->n_returns; }

const void *skate_arg_data(const struct skate_task *t, size_t i, size_t *size) {
    if (i >= t->t->n_args) {
        SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu of %u", i, t->t->n_args);
        return NULL;
    }
    if (size) *size = t->t->args[i].len;
    return t->t->args[i].data ? t->t->args[i].data : (const void *)"";
}

int skate_arg_copy(const struct skate_task *t, size_t i, void *to, size_t size) {
    size_t n;
    const void *p = skate_arg_data(t, i, &n);
    if (!p) return SK_EINVAL;
    if (n != size)
        return SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu has %zu bytes, not %zu", i, n, size);
    if (n) memcpy(to, p, n);
    return SK_OK;
}

int skate_arg_actor(const struct skate_task *t, size_t i, skate_actor *out) {
    if (i >= t->t->n_args || t->t->args[i].kind != KIND_ACTOR)
        return SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu is no handle of an actor", i);
    SK_TRY(skate_arg_copy(t, i, out, sizeof *out));
    sk_actor_retain(t->t->engine, (sk_aid){out->id});
    t->t->engine->ops->retain(t->t->engine, (sk_oid){out->ready});
    return SK_OK;
}

int skate_return(struct skate_task *t, size_t i, const void *data, size_t size) {
    struct sk_payload p = {.kind = KIND_BYTES, .bytes = {size ? data : "", size}};
    return sk_task_return(t->t, i > UINT32_MAX ? UINT32_MAX : (uint32_t)i, &p, sk_api_err());
}

int skate_fail(struct skate_task *t, const char *fmt, ...) {
    char buf[4 + 1000];
    int32_t code = SK_ETASK;
    va_list ap;
    va_start(ap, fmt);
    if (t->batch) { /* the operator decides what a failure of its function does */
        vsnprintf(buf, sizeof buf, fmt, ap);
        va_end(ap);
        return SK_ERR(sk_api_err(), SK_ETASK, "%s", buf);
    }
    int n = vsnprintf(buf + 4, sizeof buf - 4, fmt, ap);
    va_end(ap);
    memcpy(buf, &code, 4);
    struct sk_payload p = {.kind = KIND_FAILURE,
                           .bytes = {buf, 4 + SK_MIN((size_t)SK_MAX(n, 0), sizeof buf - 5)}};
    if (sk_task_fail(t->t, &p, sk_api_err()) == SK_OK) t->failed = true;
    return SK_ETASK;
}

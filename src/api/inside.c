/* inside.c - the public C API: what a running task may do. */
#include <stdarg.h>
#include <stdio.h>

#include "api/api_int.h"

size_t skate_n_args(const struct skate_task *t) { return t ? t->t->n_args : 0; }
size_t skate_n_returns(const struct skate_task *t) {
    return !t || t->t->n_returns == SK_STREAMING ? 0 : t->t->n_returns;
}

const void *skate_arg_data(const struct skate_task *t, size_t i, size_t *size) {
    if (!t) {
        SK_ERR(sk_api_err(), SK_EINVAL, "skate_arg_data: t is NULL");
        return NULL;
    }
    if (i >= t->t->n_args) {
        SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu of %u", i, t->t->n_args);
        return NULL;
    }
    if (size) *size = t->t->args[i].len;
    return t->t->args[i].data ? t->t->args[i].data : (const void *)"";
}

int skate_arg_copy(const struct skate_task *t, size_t i, void *to, size_t size) {
    size_t n;
    if (size) SK_API_GIVEN("skate_arg_copy", to);
    const void *p = skate_arg_data(t, i, &n);
    if (!p) return SK_EINVAL;
    if (n != size)
        return SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu has %zu bytes, not %zu", i, n, size);
    if (n) memcpy(to, p, n);
    return SK_OK;
}

int skate_arg_actor(const struct skate_task *t, size_t i, skate_actor *out) {
    SK_API_GIVEN("skate_arg_actor", t);
    SK_API_GIVEN("skate_arg_actor", out);
    if (i >= t->t->n_args || t->t->args[i].kind != KIND_ACTOR)
        return SK_ERR(sk_api_err(), SK_EINVAL, "argument %zu is no handle of an actor", i);
    SK_TRY(skate_arg_copy(t, i, out, sizeof *out));
    sk_actor_retain(t->t->engine, (sk_aid){out->id});
    t->t->engine->ops->retain(t->t->engine, (sk_oid){out->ready});
    return SK_OK;
}

int skate_return(struct skate_task *t, size_t i, const void *data, size_t size) {
    SK_API_GIVEN("skate_return", t);
    if (size) SK_API_GIVEN("skate_return", data);
    if (t->graph) return t->graph->set(t->graph, i, data, size, sk_api_err());
    struct sk_payload p = {.kind = KIND_BYTES, .bytes = {size ? data : "", size}};
    return sk_task_return(t->t, i > UINT32_MAX ? UINT32_MAX : (uint32_t)i, &p, sk_api_err());
}

static sk_rc not_a_stream(const struct skate_task *t) {
    return SK_ERR(sk_api_err(), SK_EINVAL, "task %s yields, but was not submitted as a stream",
                  t->t->name);
}

int skate_fail(struct skate_task *t, const char *fmt, ...) {
    char buf[4 + 1000];
    int32_t code = SK_ETASK;
    va_list ap;
    SK_API_GIVEN("skate_fail", t);
    SK_API_GIVEN("skate_fail", fmt);
    va_start(ap, fmt);
    if (t->batch || t->graph) { /* the operator or the graph decides what a failure does */
        vsnprintf(buf, sizeof buf, fmt, ap);
        va_end(ap);
        t->failed = t->graph != NULL;
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

size_t skate_gpus(const struct skate_task *t, uint32_t *gpus, size_t cap) {
    size_t n = 0;
    for (uint32_t i = 0; t && i < 16; i++) /* the higher bits are devices of another kind */
        if (t->t->gpus >> i & 1) {
            if (n < cap && gpus) gpus[n] = i;
            n++;
        }
    return n;
}

int skate_yield(struct skate_task *t, const void *data, size_t size) {
    SK_API_GIVEN("skate_yield", t);
    if (size) SK_API_GIVEN("skate_yield", data);
    if (t->t->n_returns != SK_STREAMING) return not_a_stream(t);
    struct sk_payload p = {.kind = KIND_BYTES, .bytes = {size ? data : "", size}};
    return sk_task_yield(t->t, &p, sk_api_err());
}

int skate_yield_buf(struct skate_task *t, struct skate_buf *b, size_t used) {
    struct sk_buf x;
    SK_API_GIVEN("skate_yield_buf", t);
    SK_API_GIVEN("skate_yield_buf", b);
    if (!sk_api_buf_of(b, used, &x)) return SK_EINVAL;
    if (t->t->n_returns != SK_STREAMING) return not_a_stream(t);
    struct sk_payload p = {.kind = KIND_BYTES, .buf = &x, .buf_len = used};
    b->data = NULL;
    return sk_task_yield(t->t, &p, sk_api_err());
}

bool skate_cancelled(const struct skate_task *t) {
    if (!t || !sk_task_cancelled(t->t)) return false;
    (void)sk_task_interrupt(t->t); /* the engine need not send the signal again */
    return true;
}

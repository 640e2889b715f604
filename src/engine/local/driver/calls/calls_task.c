/* calls_task.c - functions, shapes, tasks and actors as the driver's own code asks for them.
 * Each call takes the lock, works on the structures of this folder, and lets the loop dispatch. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/driver/calls/calls.h"

#define PUMP_EVERY 64

sk_rc sk_driver_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                       struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc =
        sk_local_of(e)->closing
            ? sk_driver_closed(err)
            : sk_fn_define(sk_local_of(e), fn.v, (struct sk_bytes){name, strlen(name)}, def, err);
    sk_driver_unlock(e);
    return rc;
}

sk_rc sk_driver_shape(struct sk_engine *e, const struct sk_need *n, sk_shape *out,
                      struct sk_err *err) {
    sk_driver_lock(e);
    sk_rc rc = sk_local_of(e)->closing ? sk_driver_closed(err)
                                       : sk_need_shape(sk_local_of(e), n, out, err);
    sk_driver_unlock(e);
    return rc;
}

/* Encodes a spec: on the stack if it is small, else on the heap (the caller frees *heap). p
 * NULL: no memory. */
static struct sk_bytes encode(const struct sk_task_spec *s, uint8_t *stack, size_t cap,
                              uint8_t **heap) {
    struct sk_wr w = sk_wr_init(stack, cap);
    *heap = NULL;
    sk_spec_write(&w, s);
    if (sk_wr_ok(&w)) return (struct sk_bytes){stack, w.n};
    *heap = sk_alloc(SK_TAG_ENGINE, w.n);
    if (!*heap) return (struct sk_bytes){NULL, 0};
    w = sk_wr_init(*heap, w.n);
    sk_spec_write(&w, s);
    return (struct sk_bytes){*heap, w.n};
}

/* A submission under way: its encoded spec and the first of its ids. */
struct submission {
    struct sk_bytes spec;
    uint64_t base;
    uint8_t stack[1024], *heap;
};

/* If the function returns SK_OK, it has taken the lock, and submission_end must follow; otherwise
 * it has not taken the lock. */
static sk_rc submission_begin(struct sk_engine *e, const struct sk_task_spec *s, uint32_t n_ids,
                              struct submission *m, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    SK_TRY(sk_spec_check(s, s->node == SK_LOCAL_NODE, err));
    m->spec = encode(s, m->stack, sizeof m->stack, &m->heap);
    if (!m->spec.p) return SK_ERR(err, SK_ENOMEM, "no memory for a task or actor");
    sk_driver_lock(e);
    if (l->closing) {
        sk_driver_unlock(e);
        sk_free(m->heap);
        return sk_driver_closed(err);
    }
    m->base = sk_new_ids(l, n_ids);
    l->now_ns = sk_now_ns();
    return SK_OK;
}

static void submission_end(struct sk_engine *e, struct submission *m) {
    sk_driver_unlock(e);
    sk_free(m->heap);
}

sk_rc sk_driver_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first,
                       sk_tid *tid, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct submission m;
    SK_TRY(submission_begin(e, s, 1 + (s->n_returns == SK_STREAMING ? 0 : s->n_returns), &m, err));
    uint32_t max = sk_task_opts_of(s)->max_pending;
    sk_rc rc = max ? sk_actor_may_call(l, s->actor.v, SK_PROC_DRIVER, max, err) : SK_OK;
    if (rc == SK_OK)
        rc = sk_ltask_submit(l, SK_PROC_DRIVER, 0, m.base, m.spec.p, m.spec.n, s->sink, err);
    if (rc == SK_OK) {
        if (first) *first = (sk_oid){m.base + 1};
        if (tid) *tid = (sk_tid){m.base};
        /* The caller may be submitting many tasks without waiting for any: send tasks to the
         * workers here, without waking the loop thread. */
        if (!l->driving && ++l->stats.n_submits % PUMP_EVERY == 0) sk_loop_pump(l);
        sk_loop_dispatch_at(l, l->now_ns);
    }
    submission_end(e, &m);
    return rc;
}

sk_rc sk_driver_cancel(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    sk_rc rc = SK_OK;
    if (l->closing) rc = sk_driver_closed(err);
    else sk_ltask_cancel_by(l, t.v, flags);
    sk_driver_unlock(e);
    return rc;
}

/* ---- actors ---------------------------------------------------------------------------------- */

sk_rc sk_driver_actor_create(struct sk_engine *e, const struct sk_actor_spec *s, sk_aid *out,
                             sk_oid *ready, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    struct sk_task_spec init = s->init;
    init.n_returns = 1;
    init.actor = (sk_aid){0};
    struct submission m;
    SK_TRY(submission_begin(e, &init, 3, &m, err));
    struct sk_aspec as = sk_aspec_of(s);
    sk_rc rc = sk_actor_create(l, SK_PROC_DRIVER, m.base, m.spec.p, m.spec.n, &as, err);
    if (rc == SK_OK) {
        *ready = (sk_oid){m.base + 1};
        *out = (sk_aid){m.base + 2};
        sk_loop_dispatch(l);
    }
    submission_end(e, &m);
    return rc;
}

sk_rc sk_driver_actor_end(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err) {
    struct sk_local *l = sk_local_of(e);
    sk_driver_lock(e);
    struct sk_obj *o = l->closing ? NULL : sk_obj_get(l, a.v);
    struct sk_lactor *x = o && o->state == SK_O_ACTOR ? o->u.actor : NULL;
    if (x) sk_actor_kill(l, x, no_restart);
    sk_driver_unlock(e);
    return x ? SK_OK : SK_ERR(err, SK_ENOENT, "no such actor");
}

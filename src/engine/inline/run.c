/* run.c - runs tasks in the thread that waits: the choice of the next task, its run, and waits for
 * other threads. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/inline/inline_int.h"

static _Thread_local struct sk_itask *my_top; /* the innermost task on this thread's stack */

static bool runnable(struct sk_inline *x, const struct sk_itask *t) {
    /* the actor may have been killed while a call runs: that call ends first */
    if (t->actor && (t->actor->busy || (!t->is_init && !t->actor->started))) return false;
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        if (t->refs[i] && !sk_iobj_val(x, t->refs[i])) return false;
    bool holds = t->actor && (!t->is_init || t->actor->holds.state == SK_W_ACTOR);
    return holds || !sk_place_shape_at(&x->place, t->shape)->group ||
           sk_place_fits_now(&x->place, t->shape);
}

/* True if the task's placement group was removed. */
static bool is_of_the_dead(const struct sk_inline *x, const struct sk_itask *t) {
    return (!t->actor || t->is_init) && sk_place_shape_dead(&x->place, t->shape);
}

static struct sk_itask *pick(struct sk_inline *x) {
    struct sk_itask *cand[64];
    uint32_t n = 0;
    x->scan++;
    SK_LIST_EACH (it, &x->queue) {
        struct sk_itask *t = sk_container_of(it, struct sk_itask, node);
        /* calls run in order: only the first call of an actor in the queue may run */
        if (t->actor) {
            if (t->actor->scan == x->scan) continue;
            t->actor->scan = x->scan;
        }
        if (is_of_the_dead(x, t)) return t;
        if (!runnable(x, t)) continue;
        if (!x->rng) return t;
        cand[n++] = t;
        if (n == SK_COUNT(cand)) break;
    }
    if (!n) return NULL;
    x->rng ^= x->rng << 13;
    x->rng ^= x->rng >> 7;
    x->rng ^= x->rng << 17;
    return cand[x->rng % n];
}

/* Cuts the views of parts; an error value stays whole. False: a part is not within its value
 * (and no argument is an error, which would take precedence). */
static bool see_parts(struct sk_itask *t, struct sk_err *err) {
    char text[200];
    bool within = true;
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        if (SK_KIND_IS_ERROR(t->views[i].kind)) return true;
    for (uint32_t i = 0; i < t->p.t.n_args && within; i++) {
        const struct sk_ipart *p = &t->parts[i];
        if (!p->is) continue;
        within = sk_part_within(i, p->offset, p->length, t->views[i].len, text, sizeof text);
        if (!within) SK_IGNORE(SK_ERR(err, SK_EINVAL, "task %s: %s", t->name, text));
        t->views[i].data += within ? p->offset : 0;
        t->views[i].len = within ? (size_t)p->length : 0;
    }
    return within;
}

static void run_task_unlocked(struct sk_inline *x, struct sk_itask *t) {
    struct sk_err err = {0};
    sk_list_del(&t->node);
    t->queued = false;
    t->running = true;
    sk_inline_user_begins(x);
    if (t->actor) t->actor->busy = true;
    t->outer = my_top;
    my_top = t;
    if (!t->actor) sk_inline_hold(x, &t->holds, t->shape);
    else if (t->is_init && t->actor->holds.state == SK_W_NONE)
        sk_inline_hold(x, &t->actor->holds, t->shape);
    if (t->shape && (!t->actor || t->is_init)) {
        t->need = sk_place_need_of(&x->place, t->shape);
        t->need.bundle = (int32_t)(t->actor ? t->actor->holds : t->holds).bundle;
        t->p.t.need = &t->need;
    } else if (t->actor && !t->is_init) {
        t->p.t.need = t->actor->init->p.t.need;
    }
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        t->views[i] = sk_blob_view(
            sk_blob_ref(t->refs[i] ? sk_iobj_val(x, t->refs[i]) : t->vals[i]), t->refs[i]);
    bool within = SK_LIKELY(!t->parts) || see_parts(t, &err);
    t->p.t.n_yielded = 0;
    t->p.end_flags = 0;
    sk_itask_emit(t, SK_EV_STARTED, 0, 0, (struct sk_bytes){"", 0}, 0);
    SK_ASSERT(x->depth == 1);
    t->start_ns = sk_now_ns();
    sk_inline_unlock(x);
    sk_rc rc = within ? x->runner->run(x->runner->ctx, &t->p.t, &err) : err.code;
    int64_t run_ns = sk_now_ns() - t->start_ns;
    sk_inline_lock(x);
    sk_inline_user_ended(x);
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        if (t->views[i].token) sk_blob_unref(x, (struct sk_blob *)(uintptr_t)t->views[i].token);
    my_top = t->outer;
    sk_inline_give_back(x, &t->holds);

    struct sk_blob *error = t->error;
    t->error = NULL;
    if (error) sk_err_set(&t->fail, SK_ETASK, __FILE__, __LINE__, "task %s failed", t->name);
    for (uint32_t i = 0; rc == SK_OK && !error && i < t->n_ret; i++)
        if (!t->ret[i].b && !(t->is_init && t->p.t.attempt))
            rc = SK_ERR(&err, SK_ETASK, "task %s ended without its return %u", t->name, i);
    if (t->cancelled && (rc != SK_OK || error || t->streaming)) {
        sk_blob_unref(x, error);
        error = NULL;
        rc = SK_ERR(&err, SK_ECANCEL, "task %s was cancelled", t->name);
    }
    if (rc != SK_OK && !error) {
        t->fail = err;
        if (sk_blob_engine_error(x, rc, err.msg, &error) != SK_OK) abort();
    }
    if (error && t->actor && !t->is_init && t->p.end_flags & SK_END_EXIT_ACTOR) {
        struct sk_iactor *a = t->actor;
        struct sk_blob *why = NULL;
        static const char msg[] = "the actor is dead: exit_actor() was called in it";
        sk_err_set(&t->fail, SK_EACTOR, __FILE__, __LINE__, "%s", msg);
        sk_blob_unref(x, error);
        if (sk_blob_engine_error(x, SK_EACTOR, msg, &error) != SK_OK ||
            sk_blob_engine_error(x, SK_EACTOR, msg, &why) != SK_OK)
            abort();
        a->n_calls++; /* this count keeps the actor until it is dead */
        sk_itask_finish(x, t, error, run_ns);
        sk_iactor_die(x, a, why);
        a->n_calls--;
        sk_iactor_maybe_end(x, a);
        return;
    }
    if (error && !(t->p.end_flags & SK_END_FINAL) && !t->cancelled && !x->closed &&
        t->retry_exceptions && t->retries_left && t->fail.code != SK_ECORRUPT) {
        t->retries_left -= t->retries_left > 0;
        sk_istate_ended(x, t, error, t->start_ns + run_ns);
        sk_blob_unref(x, error);
        sk_itask_drop_attempt(x, t);
        t->p.t.attempt++;
        t->running = false;
        if (t->actor) t->actor->busy = false;
        sk_list_push_front(&x->queue, &t->node);
        t->queued = true;
        return;
    }
    sk_itask_finish(x, t, error, run_ns);
}

sk_rc sk_inline_step_unlocked(struct sk_inline *x, int64_t deadline_ns, const char *what,
                              struct sk_err *err) {
    if (x->closed) return SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    if (x->depth != 1) return SK_ERR(err, SK_EINVAL, "%s: waits with the engine's lock held", what);
    if (deadline_ns <= 0 || (deadline_ns != INT64_MAX && sk_now_ns() >= deadline_ns))
        return SK_ERR(err, SK_ETIMEOUT, "%s: timed out", what);
    /* As in other engines, a task that waits lends its CPU. */
    struct sk_place_worker *mine = !my_top         ? NULL
                                   : my_top->actor ? &my_top->actor->holds
                                                   : &my_top->holds;
    if (mine) sk_place_worker_block(&x->place, mine, true);
    uint32_t n_pending = x->place.n_groups_waiting;
    sk_inline_groups_ready(x);
    struct sk_itask *t = pick(x);
    sk_rc rc = SK_OK;
    if (t && is_of_the_dead(x, t))
        sk_itask_finish_code(x, t, SK_EGROUP, "the placement group of the task was removed");
    else if (t) run_task_unlocked(x, t);
    /* a group has got its bundles, for which the caller may be waiting */
    else if (x->place.n_groups_waiting < n_pending) rc = SK_OK;
    else if (sk_inline_others_run(x)) sk_inline_wait_unlocked(x, deadline_ns);
    else
        rc = SK_ERR(
            err, SK_ESTALL, "%s: waits for something that cannot happen (%s)", what,
            sk_inline_is_running() ? "it depends on the task that waits"
            : x->place.n_groups_waiting
                ? "no task makes it, or a placement group that cannot have its bundles holds it up"
                : "no task makes it");
    if (mine) sk_place_worker_block(&x->place, mine, false);
    return rc;
}

sk_rc sk_inline_drive(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns,
                      struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    while (rc == SK_OK && !done(arg)) rc = sk_inline_step_unlocked(x, deadline_ns, "drive", err);
    sk_inline_unlock(x);
    return rc;
}

/* run.c - the public calls of a run: start it, take its blocks, ask about it, stop it. No policy.
 *
 *     the engine's events --event.c--> step.c --act.c--> the engine
 *
 * This happens inside the engine's loop (a sink), so a pipeline moves whether or not its consumer
 * asks. Engine calls made there may deliver events at once (a submission that fails, a cancel):
 * such events wait in the inbox until the current step is done, so step.c is never entered half-way
 * (inbox.c). */
#include "base/clock.h"
#include "engine/moves.h"
#include "engine/state.h"
#include "exec/run/run_int.h"

#define TAG SK_TAG_EXEC
/* ns without an event after which the engine is asked about the state of the run's tasks */
#define QUIET_NS SK_SEC
/* With more tasks in the engine it is not asked, since they are short: statistics stay cheap. */
#define ASK_MOST 256u

/* ---- starting a run -------------------------------------------------------------------------- */

static sk_rc check_conf(const struct sk_node *sum, const struct sk_exec_conf *c,
                        const struct sk_policy **policy, struct sk_err *err) {
    if (!c->memory_bytes || !c->target_max_bytes)
        return SK_ERR(err, SK_EINVAL,
                      "run a pipeline: memory %llu, blocks of %llu bytes; want both > 0",
                      (unsigned long long)c->memory_bytes, (unsigned long long)c->target_max_bytes);
    *policy = c->policy ? sk_policy_find(c->policy) : sk_policy_default(sum->disk_limit_bytes > 0);
    return *policy ? SK_OK
                   : SK_ERR(err, SK_EINVAL, "run a pipeline: no scheduling policy is called '%s'",
                            c->policy);
}

static sk_rc check_units(const struct sk_exec *x, struct sk_err *err) {
    const struct sk_step *p = x->step;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct sk_sstage *s = &p->s[i];
        if (!sk_stage_runs(s) || s->n_inputs > 1 || s->gather || s->feed ||
            (!s->n_inputs && s->n_units != x->conf.n_skip))
            return SK_ERR(err, SK_EINVAL,
                          "run a pipeline: '%s' is not part of a chain over one source of %u "
                          "units, so units cannot be kept apart",
                          s->label, x->conf.n_skip);
    }
    return SK_OK;
}

static void limit(uint64_t most, int64_t *amount, bool *limited) {
    *limited = most && most < (uint64_t)*amount;
    if (*limited) *amount = (int64_t)most;
}

static sk_rc prepare(struct sk_exec *x, uint32_t root, const struct sk_policy *policy,
                     const struct sk_node *sum, struct sk_err *err) {
    struct sk_step_conf sc = {
        .memory_bytes = x->conf.memory_bytes,
        .store_bytes = sum->capacity_bytes,
        .target_min_bytes = x->conf.target_min_bytes,
        .target_max_bytes = x->conf.target_max_bytes,
        .consumer_blocks = x->conf.consumer_blocks,
        .preserve_order = x->conf.preserve_order || x->conf.keep_units,
        .keep_units = x->conf.keep_units,
        .skip_units = x->conf.skip_units,
        .moves = x->e->moves && sum->disk_limit_bytes > 0,
        .policy = policy,
        .gathers = x->conf.gathers,
        .no_parts = x->e->no_parts,
        .cpu_e4 = sum->total.amount[SK_RES_CPU],
        .gpu_e4 = sum->total.amount[SK_RES_GPU],
    };
    struct sk_res most;
    SK_TRY(sk_engine_most(x->e, &most, err));
    sc.node_cpu_e4 = most.amount[SK_RES_CPU];
    sc.node_gpu_e4 = most.amount[SK_RES_GPU];
    limit(x->conf.most_cpu_e4, &sc.cpu_e4, &sc.cpu_limited);
    limit(x->conf.most_gpu_e4, &sc.gpu_e4, &sc.gpu_limited);
    SK_TRY(sk_plan_stages(x->plan, root, &x->stages, err));
    SK_TRY(sk_step_create(x->plan, &x->stages, &sc, &x->step, err));
    SK_TRY(sk_step_feasible(x->step, err));
    if (x->conf.keep_units) SK_TRY(check_units(x, err));
    SK_TRY(sk_inbox_create(x->e, x, &sk_run_events, &x->inbox, err));
    SK_TRY(sk_run_show(x, err));
    if (sc.moves) SK_TRY(x->e->moves->follow(x->e, sk_inbox_sink(x->inbox), err));
    x->blobs = sk_calloc(TAG, x->stages.n * sizeof *x->blobs);
    x->actors = sk_calloc(TAG, x->stages.n * sizeof *x->actors);
    if (!x->blobs || !x->actors) return SK_ERR(err, SK_ENOMEM, "run of %u stages", x->stages.n);
    for (uint32_t i = 0; i < x->stages.n; i++) {
        if (x->step->s[i].kind == SK_STAGE_ACTORS &&
            !(x->actors[i] = sk_calloc(TAG, x->step->s[i].pool_max * sizeof **x->actors)))
            return SK_ERR(err, SK_ENOMEM, "pool of %u actors", x->step->s[i].pool_max);
        if (sk_stage_runs(&x->step->s[i]) && !x->step->s[i].feed)
            SK_TRY(sk_run_put_blob(x, i, err));
    }
    return SK_OK;
}

sk_rc sk_exec_start(struct sk_engine *e, const struct sk_plan *plan, uint32_t root,
                    const struct sk_exec_conf *conf, struct sk_exec **out, struct sk_err *err) {
    const struct sk_policy *policy;
    struct sk_exec_conf c = *conf;
    struct sk_node sum;
    SK_TRY(sk_engine_sum(e, &sum, err));
    sk_exec_choose(&c, sum.capacity_bytes);
    SK_TRY(check_conf(&sum, &c, &policy, err));
    struct sk_exec *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "run a pipeline");
    x->e = e;
    x->plan = plan;
    x->conf = c;
    x->conf.policy = policy->name;
    sk_rc rc = prepare(x, root, policy, &sum, err);
    if (rc == SK_OK) {
        struct sk_err serr = {0};
        sk_inbox_enter(x->inbox);
        sk_rc src = sk_step_start(x->step, sk_now_ns(), &serr);
        sk_run_show_begin(x, sk_now_ns());
        sk_run_settle(x, src, &serr);
        *out = x;
        sk_inbox_leave(x->inbox);
    } else {
        sk_exec_stop(&x);
    }
    return rc;
}

/* ---- the output blocks of a run -------------------------------------------------------------- */

static sk_rc timed_out(struct sk_exec *x, sk_rc rc, struct sk_err *err) {
    char text[800];
    if (rc == SK_ETIMEOUT) {
        sk_inbox_enter(x->inbox); /* another thread may drive the run meanwhile */
        sk_stall_text(x->step, sk_now_ns(), text, sizeof text);
        sk_inbox_leave(x->inbox);
        return SK_ERR(err, SK_ETIMEOUT, "no block within the time given: %s", text);
    }
    return rc;
}

sk_rc sk_exec_next(struct sk_exec *x, int64_t deadline_ns, struct sk_bref *out, sk_oid *bad,
                   struct sk_err *err) {
    const struct sk_engine_ops *ops = x->e->ops;
    for (;;) {
        struct sk_err serr = {0};
        struct sk_bref b = {0};
        sk_inbox_enter(x->inbox);
        sk_rc rc;
        if (x->failed) {
            /* The sweep is done here, not when the failure is reported: at that time the engine may
             * still be handling tasks and actors that the sweep removes. */
            sk_run_sweep(x);
            rc = sk_run_give_failure(x, bad, err);
        } else {
            rc = sk_step_take(x->step, sk_now_ns(), &b, &serr);
            if (rc != SK_EDONE && rc != SK_EAGAIN) sk_run_settle(x, rc, &serr);
            /* the block is taken even if a later launch failed; the next call reports that
             * failure */
            if (b.oid) {
                *out = b;
                rc = SK_OK;
            }
        }
        /* only an answer to a gather, or of a feed, can move the run: the engine has nothing to do
         */
        bool awaits = rc == SK_EAGAIN && sk_step_awaits(x->step);
        uint64_t calls = awaits ? sk_inbox_calls(x->inbox) : 0;
        sk_inbox_leave(x->inbox);
        if (rc != SK_EAGAIN) return rc;
        rc = awaits ? sk_inbox_await_call(x->inbox, calls, deadline_ns)
                    : ops->drive(x->e, sk_inbox_wakes, x->inbox, deadline_ns, err);
        if (rc != SK_OK) return timed_out(x, rc, err);
    }
}

/* ---- stopping a run -------------------------------------------------------------------------- */

void sk_exec_stop(struct sk_exec **px) {
    struct sk_exec *x = *px;
    *px = NULL;
    if (!x) return;
    struct sk_engine *e = x->e;
    struct sk_inbox *in = x->inbox;
    if (in) {
        sk_inbox_enter(in);
        sk_inbox_stop(in);
    }
    if (in) sk_run_show_end(x);
    if (x->step) {
        if (in) sk_run_sweep(x);
        for (uint32_t i = 0; i < x->step->acts.n; i++) /* actions of a step that failed half-way */
            if (x->step->acts.p[i].kind == SK_ACT_RELEASE)
                sk_run_release(e, (sk_oid){x->step->acts.p[i].id});
    }
    if (in) sk_inbox_leave(in);
    if (in && x->step && x->step->conf.moves) e->moves->unfollow(e, sk_inbox_sink(in));
    for (uint32_t i = 0; x->blobs && i < x->stages.n; i++) sk_run_release(e, x->blobs[i]);
    for (uint32_t i = 0; x->actors && i < x->stages.n; i++) sk_free(x->actors[i]);
    sk_run_release(e, x->bad);
    for (uint32_t i = x->next_failure; i < x->failures.n; i++)
        sk_run_release(e, x->failures.p[i].oid);
    if (in) sk_inbox_destroy(in);
    sk_free(x->blobs);
    sk_free(x->actors);
    sk_free(x->samples.rows);
    sk_free(x->shown);
    sk_free(x->buf);
    sk_vec_free(&x->args);
    sk_vec_free(&x->failures);
    sk_step_destroy(x->step);
    sk_stages_free(&x->stages);
    sk_free(x);
}

/* ---- statistics and state of a run ----------------------------------------------------------- */

sk_rc sk_exec_await_actors(struct sk_exec *x, int64_t deadline_ns, struct sk_err *err) {
    SK_VEC(sk_oid) ids = {0};
    sk_rc rc = SK_OK;
    sk_inbox_enter(x->inbox);
    for (uint32_t i = 0; i < x->step->n && rc == SK_OK && !x->failed; i++)
        for (uint32_t k = 0; k < x->step->s[i].n_actors && rc == SK_OK; k++) {
            sk_oid o = x->actors[i][k].ready;
            if (!o.v) continue;
            if (sk_vec_push(&ids, TAG, o)) x->e->ops->retain(x->e, o);
            else rc = SK_ERR(err, SK_ENOMEM, "pipeline: no memory to wait for its actors");
        }
    sk_inbox_leave(x->inbox);
    bool *ready = rc == SK_OK && ids.n ? sk_calloc(TAG, ids.n) : NULL;
    if (ready) rc = x->e->ops->wait(x->e, ids.p, ids.n, ids.n, deadline_ns, ready, err);
    else if (rc == SK_OK && ids.n)
        rc = SK_ERR(err, SK_ENOMEM, "pipeline: no memory to wait for its actors");
    for (uint32_t i = 0; i < ids.n; i++) sk_run_release(x->e, ids.p[i]);
    sk_free(ready);
    sk_vec_free(&ids);
    return rc;
}

sk_rc sk_exec_call(struct sk_exec *x, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg,
                   struct sk_err *err) {
    struct sk_err serr = {0};
    sk_inbox_enter(x->inbox);
    sk_rc rc = x->failed || x->step->done ? SK_EDONE : SK_OK;
    if (rc == SK_OK) {
        rc = sk_step_call(x->step, fn, arg, sk_now_ns(), &serr);
        sk_run_settle(x, rc, &serr);
        sk_inbox_called(x->inbox);
    }
    sk_inbox_leave(x->inbox);
    if (rc != SK_OK && err) *err = serr;
    return rc;
}

void sk_exec_fed(struct sk_exec *x, uint64_t ticket, const struct sk_fed *fed) {
    struct sk_err serr = {0};
    sk_inbox_enter(x->inbox);
    const struct sk_stask *t = sk_step_task(x->step, ticket);
    if (x->failed || !t) {
        if (fed->rc == SK_OK) sk_run_release(x->e, (sk_oid){fed->block.oid});
    } else if (fed->rc == SK_OK || fed->rc == SK_EDONE || t->cancelled) {
        struct sk_fed end = {.rc = SK_EDONE};
        bool moot = fed->rc != SK_OK && fed->rc != SK_EDONE; /* a failure that nobody waits for */
        sk_rc rc = sk_step_fed(x->step, ticket, moot ? &end : fed, sk_now_ns(), &serr);
        sk_run_settle(x, rc, &serr);
    } else {
        sk_run_fail(x, fed->rc, fed->err, (sk_oid){0});
    }
    sk_inbox_called(x->inbox);
    sk_inbox_leave(x->inbox);
}

void sk_exec_fail(struct sk_exec *x, sk_rc rc, const struct sk_err *err) {
    sk_inbox_enter(x->inbox);
    sk_run_fail(x, rc, err, (sk_oid){0});
    sk_inbox_called(x->inbox);
    sk_inbox_leave(x->inbox);
}

size_t sk_exec_samples(struct sk_exec *x, uint32_t *width, int64_t *out, size_t cap) {
    sk_inbox_enter(x->inbox);
    *width = x->samples.width;
    size_t n = (size_t)x->samples.n * *width;
    if (n <= cap) memcpy(out, x->samples.rows, n * sizeof *out);
    sk_inbox_leave(x->inbox);
    return n / *width;
}

/* Asks the engine which tasks have begun: one call for each task in the engine. */
static void ask_begun(struct sk_exec *x) {
    struct sk_step *st = x->step;
    st->asked = x->e->progress != NULL;
    for (uint32_t i = 0; st->asked && i < st->slots.n; i++) {
        struct sk_stask *t = st->slots.p[i];
        if (t && !t->over)
            t->begun_ns = t->user ? x->e->progress->began(x->e, (sk_tid){t->user}) : t->launch_ns;
    }
}

/* Writes what each stage waits for, including the engine's knowledge of the tasks. */
static void stall_text(struct sk_exec *x, int64_t now_ns, char *text, size_t cap) {
    ask_begun(x);
    sk_stall_text(x->step, now_ns, text, cap);
    x->step->asked = false;
}

int64_t sk_exec_quiet(struct sk_exec *x, char *text, size_t cap) {
    int64_t now = sk_now_ns();
    sk_inbox_enter(x->inbox);
    int64_t quiet = x->failed || x->step->done ? 0 : now - x->step->moved_ns;
    if (quiet >= QUIET_NS) stall_text(x, now, text, cap);
    else sk_stall_text(x->step, now, text, cap);
    sk_inbox_leave(x->inbox);
    return quiet;
}

void sk_run_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                  uint32_t cap) {
    if (!x->failed && !x->step->done) {
        sk_metrics_advance(x->step, sk_now_ns());
        if (x->step->n_flying <= ASK_MOST) ask_begun(x);
    }
    sk_metrics_get(x->step, s, ops, cap);
    x->step->asked = false;
    s->bad_rows = x->faults.bad_rows;
    s->errored_blocks = x->faults.errored_blocks;
}

uint32_t sk_exec_n_ops(const struct sk_exec *x) { return x->stages.n; }

void sk_exec_get_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                       uint32_t cap) {
    sk_inbox_enter(x->inbox);
    sk_run_stats(x, s, ops, cap);
    sk_inbox_leave(x->inbox);
}

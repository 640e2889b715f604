/* run.c - the doing half: events of the engine -> step -> calls of the engine. No policy.
 *
 * It runs inside the engine's loop (a sink), so a pipeline moves whether or not its consumer asks. Engine calls made from here may deliver events at once (a
 * submission that fails, a cancel): those wait in the inbox until the present step is done, so step.c never sees itself half-way (inbox.c).
 *
 * References: step.c holds one for each block in its queues and says when to give it back; a stage's blob and an actor's handle live as
 * long as the run.
 *
 * Cost: besides step.c one engine call a task and one a block. */
#include <stdio.h>

#include "base/clock.h"
#include "base/wire.h"
#include "engine/state.h"
#include "exec/exec_int.h"
#include "exec/verdict.h"

#define TAG SK_TAG_EXEC
#define QUIET_NS SK_SEC /* nothing came for so long: the engine is asked what its tasks do */

struct sk_exec {
    struct sk_engine *e;
    struct sk_step *step;
    struct sk_inbox *inbox;
    struct sk_stages stages;
    const struct sk_plan *plan;
    struct sk_exec_conf conf;
    sk_oid *blobs;                /* of each stage */
    struct sk_run_actor **actors; /* of each stage */
    bool failed, swept;
    sk_rc fail_rc;
    struct sk_err fail;
    sk_oid bad;
    SK_VEC(struct sk_aside) sides; /* from next_side on: not taken */
    uint32_t next_side;
    struct sk_faults faults;
    struct sk_flow_ring made, taken;
    uint8_t *buf;
    size_t buf_cap;
};

static void release(struct sk_engine *e, sk_oid o) {
    if (o.v) e->ops->release(e, o);
}

/* The first failure is the run's. `bad` (a reference, taken) is the error object. */
static void fail(struct sk_exec *x, sk_rc rc, const struct sk_err *err, sk_oid bad) {
    if (x->failed) {
        release(x->e, bad);
        return;
    }
    x->failed = true;
    x->fail_rc = rc == SK_OK ? SK_ETASK : rc;
    x->fail = *err;
    x->bad = bad;
}

/* ---- actions ------------------------------------------------------------------------------------------------------------------------- */

static const struct sk_node_desc *desc(const struct sk_exec *x, uint32_t stage) {
    return &sk_plan_get(x->plan, x->stages.s[stage].nodes[0])->d;
}

static const char *task_name(const struct sk_stask *t, char buf[40]) {
    if (t->seq == SK_NO_SEQ) return "a task ahead of its turn";
    snprintf(buf, 40, "task %llu", (unsigned long long)t->seq);
    return buf;
}

static void write_exec(struct sk_wr *w, const struct sk_exec *x, const struct sk_stask *t) {
    const struct sk_sstage *s = &x->step->s[t->stage];
    sk_wr_u64(w, t->seq);
    sk_wr_i64(w, s->cap_rows);
    sk_wr_u64(w, x->conf.target_max_bytes);
    if (s->source) sk_wr_bytes(w, s->units[t->unit].params.p, s->units[t->unit].params.n);
    else sk_wr_bytes(w, NULL, 0);
    sk_wr_u32(w, t->in.n);
    for (const struct sk_blk *b = t->in.head; b; b = b->next) {
        sk_wr_u64(w, b->ref.row0);
        sk_wr_u64(w, b->ref.n_rows);
        sk_wr_u32(w, b->side);
    }
}

/* The argument that says what this task is; *temp gets a reference to give back after submit when it had to be put. */
static sk_rc exec_arg(struct sk_exec *x, const struct sk_stask *t, struct sk_arg *out, sk_oid *temp, struct sk_err *err) {
    struct sk_wr w = sk_wr_init(x->buf, x->buf_cap);
    write_exec(&w, x, t);
    if (!sk_wr_ok(&w)) {
        uint8_t *p = sk_realloc(TAG, x->buf, w.n * 2);
        if (!p) return SK_ERR(err, SK_ENOMEM, "arguments of a task, %zu bytes", w.n);
        x->buf = p;
        x->buf_cap = w.n * 2;
        w = sk_wr_init(x->buf, x->buf_cap);
        write_exec(&w, x, t);
    }
    struct sk_bytes bytes = {w.p, w.n};
    if (w.n <= SK_INLINE_MAX) {
        *out = (struct sk_arg){.kind = SK_KIND_EXEC, .bytes = bytes};
        return SK_OK;
    }
    SK_TRY(x->e->ops->put(x->e, &(struct sk_payload){.kind = SK_KIND_EXEC, .bytes = bytes, .no_wait = true}, temp, err));
    *out = (struct sk_arg){.ref = *temp};
    return SK_OK;
}

static sk_rc do_launch(struct sk_exec *x, struct sk_stask *t, struct sk_err *err) {
    const struct sk_sstage *s = &x->step->s[t->stage];
    bool actor = s->kind == SK_STAGE_ACTORS;
    struct sk_arg args[2 + SK_BUNDLE_BLOCKS_MAX];
    uint32_t n = 0;
    sk_oid temp = {0};
    if (!actor) args[n++] = (struct sk_arg){.ref = x->blobs[t->stage]};
    SK_TRY(exec_arg(x, t, &args[n++], &temp, err));
    for (const struct sk_blk *b = t->in.head; b; b = b->next) args[n++] = (struct sk_arg){.ref = {b->ref.oid}};
    struct sk_task_spec spec = {
        .fn = actor ? x->conf.stage_call : x->conf.run_stage,
        .name = s->label,
        .args = args,
        .n_args = n,
        .n_returns = SK_STREAMING,
        .shape = actor ? 0 : desc(x, t->stage)->shape,
        .max_retries = sk_exec_retries(desc(x, t->stage)),
        .max_calls = actor ? 0 : desc(x, t->stage)->max_calls,
        .sink = sk_inbox_sink(x->inbox),
        .sink_tag = t->id,
    };
    if (actor) spec.actor = x->actors[t->stage][t->actor].aid;
    sk_tid tid = {0};
    sk_inbox_task(x->inbox);
    sk_rc rc = x->e->ops->submit(x->e, &spec, NULL, &tid, err);
    if (rc != SK_OK) {
        sk_inbox_no_task(x->inbox);
        char name[40];
        sk_err_prefix(err, "%s, %s", s->label, task_name(t, name));
    }
    t->user = tid.v;
    for (const struct sk_blk *b = t->in.head; b && rc == SK_OK; b = b->next) sk_flow_add(&x->taken, b->ref.oid, tid.v, 0);
    release(x->e, temp);
    return rc;
}

static sk_rc do_actor_create(struct sk_exec *x, uint32_t stage, uint32_t i, struct sk_err *err) {
    const struct sk_node_desc *d = desc(x, stage);
    struct sk_arg arg = {.ref = x->blobs[stage]};
    struct sk_actor_spec spec = {
        .init = {.fn = x->conf.stage_init, .name = x->step->s[stage].label, .args = &arg, .n_args = 1, .n_returns = 1, .shape = d->shape},
        .max_restarts = sk_exec_restarts(d),
        .max_task_retries = sk_exec_retries(d),
    };
    struct sk_run_actor *a = &x->actors[stage][i];
    sk_inbox_actor_gone(x->inbox, *a); /* it has died, and its place is taken */
    *a = (struct sk_run_actor){0};
    sk_rc rc = x->e->ops->actor_create(x->e, &spec, &a->aid, &a->ready, err);
    if (rc != SK_OK) {
        *a = (struct sk_run_actor){0};
        sk_err_prefix(err, "%s, actor %u", x->step->s[stage].label, i);
    }
    return rc;
}

static void do_actor_kill(struct sk_exec *x, uint32_t stage, uint32_t i) {
    sk_inbox_actor_gone(x->inbox, x->actors[stage][i]);
    x->actors[stage][i] = (struct sk_run_actor){0};
}

static void sweep_object(void *ctx, uint64_t oid) { release(((struct sk_exec *)ctx)->e, (sk_oid){oid}); }

static void sweep_task(void *ctx, struct sk_stask *t) {
    struct sk_exec *x = ctx;
    if (t->user) (void)!x->e->ops->cancel(x->e, (sk_tid){t->user}, false, NULL); /* over already: as wanted */
}

static void sweep_actor(void *ctx, uint32_t stage, uint32_t actor) { do_actor_kill(ctx, stage, actor); }

static void sweep(struct sk_exec *x) {
    if (x->swept) return;
    x->swept = true;
    sk_step_sweep(x->step, &(struct sk_sweep){sweep_object, sweep_task, sweep_actor, x});
    for (uint32_t i = 0; x->actors && i < x->stages.n; i++) /* those that died, whose places nobody took */
        for (uint32_t k = 0; x->actors[i] && k < x->step->s[i].pool_max; k++) do_actor_kill(x, i, k);
}

/* Does what step.c decided. After a failure only what gives or keeps references is still done. */
static void do_acts(struct sk_exec *x) {
    struct sk_err err = {0};
    for (uint32_t i = 0; i < x->step->acts.n; i++) {
        struct sk_act a = x->step->acts.p[i];
        struct sk_stask *t = NULL;
        sk_rc rc = SK_OK;
        switch (a.kind) {
        case SK_ACT_LAUNCH:
            t = x->failed ? NULL : sk_step_task(x->step, a.id);
            rc = t ? do_launch(x, t, &err) : SK_OK;
            break;
        case SK_ACT_CANCEL:
            t = sk_step_task(x->step, a.id);
            if (t) sweep_task(x, t);
            break;
        case SK_ACT_RELEASE: release(x->e, (sk_oid){a.id}); break;
        case SK_ACT_ADDREF: x->e->ops->retain(x->e, (sk_oid){a.id}); break;
        case SK_ACT_ACTOR_CREATE: rc = x->failed ? SK_OK : do_actor_create(x, a.stage, a.actor, &err); break;
        case SK_ACT_ACTOR_KILL: do_actor_kill(x, a.stage, a.actor); break;
        }
        if (rc != SK_OK) fail(x, rc, &err, (sk_oid){0});
    }
    x->step->acts.n = 0;
}

/* Who waits for what, with what the engine knows of the tasks. A call of the engine a task, so only for somebody who waits. */
static void stall_text(struct sk_exec *x, int64_t now_ns, char *text, size_t cap) {
    struct sk_step *st = x->step;
    st->asked = x->e->progress != NULL;
    for (uint32_t i = 0; st->asked && i < st->slots.n; i++)
        if (st->slots.p[i]) st->slots.p[i]->begun_ns = x->e->progress->began(x->e, (sk_tid){st->slots.p[i]->user});
    sk_stall_text(st, now_ns, text, cap);
    st->asked = false;
}

static void check_stall(struct sk_exec *x) {
    if (x->failed || !x->step->stalled) return;
    char text[800];
    struct sk_err err = {0};
    sk_stall_text(x->step, sk_now_ns(), text, sizeof text);
    sk_rc rc = SK_ERR(&err, SK_ESTALL, "the pipeline cannot go on (a bug in skate, please report it): %s", text);
    fail(x, rc, &err, (sk_oid){0});
}

/* A run that failed takes no more steps: it would launch. */
static void step(struct sk_exec *x, const struct sk_step_ev *ev) {
    struct sk_err err = {0};
    if (x->failed) {
        if (ev->kind == SK_SEV_YIELDED) release(x->e, (sk_oid){ev->block.oid});
        return;
    }
    sk_rc rc = sk_step_event(x->step, ev, sk_now_ns(), &err);
    if (rc != SK_OK) fail(x, rc, &err, (sk_oid){0});
}

/* After each step: its actions. What the engine says meanwhile waits in the inbox. */
static void settle(struct sk_exec *x, sk_rc rc, const struct sk_err *step_err) {
    if (rc != SK_OK) fail(x, rc, step_err, (sk_oid){0});
    do_acts(x);
    check_stall(x);
}

/* ---- beside the output ----------------------------------------------------------------------------------------------------------------- */

/* Takes oid. */
static void aside(struct sk_exec *x, struct sk_aside s) {
    struct sk_err err = {0};
    if (sk_vec_push(&x->sides, TAG, s)) return;
    release(x->e, s.oid);
    fail(x, SK_ERR(&err, SK_ENOMEM, "pipeline: no memory for an error to report"), &err, (sk_oid){0});
}

static void on_bad(struct sk_exec *x, const struct sk_stask *t, sk_oid oid, uint32_t bad) {
    aside(x, (struct sk_aside){.oid = oid, .stage = t->stage, .bad = bad});
    if (sk_exec_bad_rows(&x->conf, &x->faults, bad)) return;
    struct sk_err err = {0};
    sk_rc rc = SK_ERR(&err, SK_ETASK, "%llu rows failed, and %lld may (DataContext.max_errors)", (unsigned long long)x->faults.bad_rows,
                      (long long)x->conf.max_bad_rows);
    fail(x, rc, &err, (sk_oid){0});
}

sk_rc sk_exec_aside(struct sk_exec *x, struct sk_aside *out) {
    sk_inbox_enter(x->inbox);
    bool any = x->next_side < x->sides.n;
    if (any) *out = x->sides.p[x->next_side++];
    if (x->next_side == x->sides.n) x->next_side = x->sides.n = 0;
    sk_inbox_leave(x->inbox);
    return any ? SK_OK : SK_EAGAIN;
}

/* ---- events ------------------------------------------------------------------------------------------------------------------------------ */

static void on_yield(struct sk_exec *x, const struct sk_event *ev, struct sk_step_ev *out) {
    struct sk_block_note note;
    const struct sk_stask *t = sk_step_task(x->step, ev->tag);
    if (!t || ev->note.n < sizeof note || (memcpy(&note, ev->note.p, sizeof note), note.magic != SK_BLOCK_NOTE)) {
        struct sk_err err = {0};
        release(x->e, ev->oid);
        if (t && !t->cancelled) {
            char name[40];
            sk_rc rc =
                SK_ERR(&err, SK_ECORRUPT, "%s, %s: yielded a value that is no block", x->step->s[t->stage].label, task_name(t, name));
            fail(x, rc, &err, (sk_oid){0});
        }
        out->kind = SK_SEV_TICK;
        return;
    }
    if (note.bad) {
        out->kind = SK_SEV_TICK;
        if (t->cancelled || x->failed) release(x->e, ev->oid);
        else on_bad(x, t, ev->oid, note.bad);
        return;
    }
    out->kind = SK_SEV_YIELDED;
    out->block = (struct sk_bref){.oid = ev->oid.v, .n_rows = note.rows, .bytes = note.bytes, .schema = note.schema};
    out->cost = ev->size_bytes;
    sk_flow_add(&x->made, ev->oid.v, ev->task.v, sk_now_ns());
}

static void on_done(const struct sk_event *ev, struct sk_step_ev *out, struct sk_task_note_op *fused) {
    struct sk_task_note head;
    out->kind = SK_SEV_DONE;
    out->run_ns = ev->run_ns;
    if (ev->note.n < sizeof head) return;
    memcpy(&head, ev->note.p, sizeof head);
    uint64_t there = (ev->note.n - sizeof head) / sizeof *fused;
    if (head.magic != SK_TASK_NOTE) return;
    out->n_fused = (uint32_t)SK_MIN(SK_MIN((uint64_t)head.n, there), 16u);
    memcpy(fused, (const uint8_t *)ev->note.p + sizeof head, out->n_fused * sizeof *fused);
    out->fused = fused;
}

static void on_failed(struct sk_exec *x, const struct sk_event *ev, struct sk_step_ev *out) {
    const struct sk_stask *t = sk_step_task(x->step, ev->tag);
    out->kind = SK_SEV_FAILED;
    if (!t || t->cancelled || x->failed) {
        release(x->e, ev->oid);
        return;
    }
    struct sk_err err = {.code = SK_ETASK};
    if (ev->err) err = *ev->err;
    char name[40];
    sk_err_prefix(&err, "%s, %s", x->step->s[t->stage].label, task_name(t, name));
    struct sk_task_verdict v = sk_exec_failed(&x->conf, &x->faults, desc(x, t->stage), err.code);
    if (v.left_out) {
        out->kind = SK_SEV_DONE;
        out->actor_dead = v.actor_dead;
        aside(x, (struct sk_aside){.oid = ev->oid, .stage = t->stage, .err = err});
        return;
    }
    fail(x, err.code, &err, ev->oid);
}

static void take_event(struct sk_exec *x, const struct sk_event *ev) {
    struct sk_task_note_op fused[16];
    struct sk_step_ev out = {.kind = SK_SEV_TICK, .task = ev->tag, .attempt = ev->attempt};
    if (ev->kind == SK_EV_STARTED) return;
    if (ev->kind == SK_EV_YIELDED) on_yield(x, ev, &out);
    else if (ev->kind == SK_EV_DONE) on_done(ev, &out, fused);
    else on_failed(x, ev, &out);
    step(x, &out);
    settle(x, SK_OK, NULL);
}

static void lost_event(struct sk_exec *x) {
    struct sk_err err = {0};
    fail(x, SK_ERR(&err, SK_ENOMEM, "pipeline: no memory for an event"), &err, (sk_oid){0});
}

static bool stirs(struct sk_exec *x) { return x->failed || x->step->out.n || x->step->done; }

static const struct sk_inbox_run RUN = {.take = take_event, .lost = lost_event, .stirs = stirs};

/* ---- the public calls ---------------------------------------------------------------------------------------------------------------------- */

static void write_blob(struct sk_wr *w, const struct sk_plan *plan, const struct sk_stage *s) {
    sk_wr_u32(w, s->n_nodes);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sk_node_desc *d = &sk_plan_get(plan, s->nodes[i])->d;
        sk_wr_str(w, d->op->name);
        sk_wr_str(w, d->label);
        sk_wr_bytes(w, d->params.p, d->params.n);
    }
}

static sk_rc put_blob(struct sk_exec *x, uint32_t i, struct sk_err *err) {
    struct sk_wr w = sk_wr_init(NULL, 0);
    write_blob(&w, x->plan, &x->stages.s[i]);
    uint8_t *p = sk_alloc(TAG, w.n);
    if (!p) return SK_ERR(err, SK_ENOMEM, "%s: description of %zu bytes", x->stages.s[i].label, w.n);
    w = sk_wr_init(p, w.n);
    write_blob(&w, x->plan, &x->stages.s[i]);
    sk_rc rc = x->e->ops->put(x->e, &(struct sk_payload){.kind = SK_KIND_STAGE, .bytes = {p, w.n}, .no_wait = true}, &x->blobs[i], err);
    sk_free(p);
    return rc;
}

static sk_rc check_conf(const struct sk_node *sum, const struct sk_exec_conf *c, const struct sk_policy **policy, struct sk_err *err) {
    if (!c->memory_bytes || !c->target_max_bytes)
        return SK_ERR(err, SK_EINVAL, "run a pipeline: memory %llu, blocks of %llu bytes; want both > 0",
                      (unsigned long long)c->memory_bytes, (unsigned long long)c->target_max_bytes);
    *policy = c->policy ? sk_policy_find(c->policy) : sk_policy_default(sum->disk_limit_bytes > 0);
    return *policy ? SK_OK : SK_ERR(err, SK_EINVAL, "run a pipeline: no scheduling policy is called '%s'", c->policy);
}

static sk_rc check_units(const struct sk_exec *x, struct sk_err *err) {
    const struct sk_step *p = x->step;
    for (uint32_t i = 0; i < p->n; i++) {
        const struct sk_sstage *s = &p->s[i];
        if (!sk_stage_runs(s) || s->n_inputs > 1 || (!s->n_inputs && s->n_units != x->conf.n_skip))
            return SK_ERR(err, SK_EINVAL,
                          "run a pipeline: '%s' is not part of a chain over one source of %u units, so units cannot be kept apart",
                          s->label, x->conf.n_skip);
    }
    return SK_OK;
}

static void limit(uint64_t most, int64_t *amount, bool *limited) {
    *limited = most && most < (uint64_t)*amount;
    if (*limited) *amount = (int64_t)most;
}

static sk_rc prepare(struct sk_exec *x, uint32_t root, const struct sk_policy *policy, const struct sk_node *sum, struct sk_err *err) {
    struct sk_step_conf sc = {
        .memory_bytes = x->conf.memory_bytes,
        .target_min_bytes = x->conf.target_min_bytes,
        .target_max_bytes = x->conf.target_max_bytes,
        .consumer_blocks = x->conf.consumer_blocks,
        .preserve_order = x->conf.preserve_order || x->conf.keep_units,
        .keep_units = x->conf.keep_units,
        .skip_units = x->conf.skip_units,
        .policy = policy,
        .cpu_e4 = sum->total.amount[SK_RES_CPU],
        .gpu_e4 = sum->total.amount[SK_RES_GPU],
    };
    limit(x->conf.most_cpu_e4, &sc.cpu_e4, &sc.cpu_limited);
    limit(x->conf.most_gpu_e4, &sc.gpu_e4, &sc.gpu_limited);
    SK_TRY(sk_plan_stages(x->plan, root, &x->stages, err));
    SK_TRY(sk_step_create(x->plan, &x->stages, &sc, &x->step, err));
    SK_TRY(sk_step_feasible(x->step, err));
    if (x->conf.keep_units) SK_TRY(check_units(x, err));
    SK_TRY(sk_inbox_create(x->e, x, &RUN, &x->inbox, err));
    x->blobs = sk_calloc(TAG, x->stages.n * sizeof *x->blobs);
    x->actors = sk_calloc(TAG, x->stages.n * sizeof *x->actors);
    if (!x->blobs || !x->actors) return SK_ERR(err, SK_ENOMEM, "run of %u stages", x->stages.n);
    for (uint32_t i = 0; i < x->stages.n; i++) {
        if (x->step->s[i].kind == SK_STAGE_ACTORS && !(x->actors[i] = sk_calloc(TAG, x->step->s[i].pool_max * sizeof **x->actors)))
            return SK_ERR(err, SK_ENOMEM, "pool of %u actors", x->step->s[i].pool_max);
        if (sk_stage_runs(&x->step->s[i])) SK_TRY(put_blob(x, i, err));
    }
    return SK_OK;
}

sk_rc sk_exec_start(struct sk_engine *e, const struct sk_plan *plan, uint32_t root, const struct sk_exec_conf *conf, struct sk_exec **out,
                    struct sk_err *err) {
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
        settle(x, src, &serr);
        *out = x;
        sk_inbox_leave(x->inbox);
    } else {
        sk_exec_stop(&x);
    }
    return rc;
}

static sk_rc give_failure(struct sk_exec *x, sk_oid *bad, struct sk_err *err) {
    if (x->bad.v) x->e->ops->retain(x->e, x->bad);
    *bad = x->bad;
    if (err) *err = x->fail;
    return x->fail_rc;
}

static sk_rc timed_out(struct sk_exec *x, sk_rc rc, struct sk_err *err) {
    char text[800];
    if (rc == SK_ETIMEOUT) {
        sk_inbox_enter(x->inbox); /* another thread may drive on meanwhile */
        sk_stall_text(x->step, sk_now_ns(), text, sizeof text);
        sk_inbox_leave(x->inbox);
        return SK_ERR(err, SK_ETIMEOUT, "no block within the time given: %s", text);
    }
    return rc;
}

sk_rc sk_exec_next(struct sk_exec *x, int64_t deadline_ns, struct sk_bref *out, sk_oid *bad, struct sk_err *err) {
    const struct sk_engine_ops *ops = x->e->ops;
    for (;;) {
        struct sk_err serr = {0};
        struct sk_bref b = {0};
        sk_inbox_enter(x->inbox);
        sk_rc rc;
        if (x->failed) {
            sweep(x); /* not in the event that failed: it would take tasks and actors away under the engine's feet */
            rc = give_failure(x, bad, err);
        } else {
            rc = sk_step_take(x->step, sk_now_ns(), &b, &serr);
            if (rc != SK_EDONE && rc != SK_EAGAIN) settle(x, rc, &serr);
            if (b.oid) { /* taken, even when the launches after it failed: the next call says so */
                *out = b;
                rc = SK_OK;
            }
        }
        sk_inbox_leave(x->inbox);
        if (rc != SK_EAGAIN) return rc;
        rc = ops->drive(x->e, sk_inbox_stirs, x->inbox, deadline_ns, err);
        if (rc != SK_OK) return timed_out(x, rc, err);
    }
}

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
    if (x->step) {
        if (in) sweep(x);
        for (uint32_t i = 0; i < x->step->acts.n; i++) /* of a step that failed half-way */
            if (x->step->acts.p[i].kind == SK_ACT_RELEASE) release(e, (sk_oid){x->step->acts.p[i].id});
    }
    if (in) sk_inbox_leave(in);
    for (uint32_t i = 0; x->blobs && i < x->stages.n; i++) release(e, x->blobs[i]);
    for (uint32_t i = 0; x->actors && i < x->stages.n; i++) sk_free(x->actors[i]);
    release(e, x->bad);
    for (uint32_t i = x->next_side; i < x->sides.n; i++) release(e, x->sides.p[i].oid);
    if (in) sk_inbox_destroy(in);
    sk_free(x->blobs);
    sk_free(x->actors);
    sk_free(x->buf);
    sk_vec_free(&x->sides);
    sk_vec_free(&x->made.v);
    sk_vec_free(&x->taken.v);
    sk_step_destroy(x->step);
    sk_stages_free(&x->stages);
    sk_free(x);
}

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
    else if (rc == SK_OK && ids.n) rc = SK_ERR(err, SK_ENOMEM, "pipeline: no memory to wait for its actors");
    for (uint32_t i = 0; i < ids.n; i++) release(x->e, ids.p[i]);
    sk_free(ready);
    sk_vec_free(&ids);
    return rc;
}

size_t sk_exec_flows(struct sk_exec *x, bool taken, struct sk_flow *out, size_t cap) {
    sk_inbox_enter(x->inbox);
    size_t n = sk_flow_copy(taken ? &x->taken : &x->made, out, cap);
    sk_inbox_leave(x->inbox);
    return n;
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

void sk_exec_get_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops, uint32_t cap) {
    sk_inbox_enter(x->inbox);
    if (!x->failed && !x->step->done) sk_metrics_advance(x->step, sk_now_ns());
    sk_metrics_get(x->step, s, ops, cap);
    s->bad_rows = x->faults.bad_rows;
    s->errored_blocks = x->faults.errored_blocks;
    sk_inbox_leave(x->inbox);
}

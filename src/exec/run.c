/* run.c - the doing half: events of the engine -> step -> calls of the engine. No policy.
 *
 * It runs inside the engine's loop (a sink, under the engine's recursive lock), so a pipeline moves whether or not its consumer asks.
 * Engine calls made from here may deliver events at once (a submission that fails, a cancel): those wait in `pending` until the present
 * step is done, so step.c never sees itself half-way.
 *
 * References: step.c holds one for each block in its queues and says when to give it back; a stage's blob and an actor's handle live as
 * long as the run. The sink outlives the run until the engine has said the last word about each task (sk_exec_stop does not wait for
 * user code), which is why it is a separate allocation.
 *
 * Cost: besides step.c one engine call a task and one a block. */
#include <stdio.h>

#include "base/clock.h"
#include "base/wire.h"
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC
#define QUIET_NS SK_SEC /* nothing came for so long: the engine is asked what its tasks do */
#define TASK_RETRIES 3  /* deaths of its worker that one task survives, as Ray has it; also one call of a pool's actor */

struct run_sink {
    struct sk_sink base;
    struct sk_engine *e;
    struct sk_exec *x; /* NULL: stopped */
    uint64_t n_live;   /* tasks that will send a last event */
};

struct pending {
    struct sk_step_ev ev;
    struct sk_task_note_op fused[16];
};

struct run_actor {
    sk_aid aid;
    sk_oid ready;
};

struct sk_exec {
    struct sk_engine *e;
    struct sk_step *step;
    struct run_sink *sink;
    struct sk_stages stages;
    const struct sk_plan *plan;
    struct sk_exec_conf conf;
    sk_oid *blobs;                 /* of each stage */
    struct run_actor **actors;     /* of each stage */
    SK_VEC(struct run_actor) dead; /* their places are taken; let go outside of events: the engine may be about to end them */
    bool busy, failed, swept;
    sk_rc fail_rc;
    struct sk_err fail;
    sk_oid bad;
    SK_VEC(struct pending) pending;
    SK_VEC(struct sk_aside) sides; /* from next_side on: not taken */
    uint32_t next_side;
    uint64_t bad_rows, errored_blocks;
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
    SK_TRY(x->e->ops->put(x->e, &(struct sk_payload){.kind = SK_KIND_EXEC, .bytes = bytes}, temp, err));
    *out = (struct sk_arg){.ref = *temp};
    return SK_OK;
}

/* Deaths that a task or a call survives. Actors are started again for ever, but a batch that has ended so many of them will end the next one, too. */
static int32_t retries(const struct sk_node_desc *d) {
    if (d->retries.given) return d->retries.n;
    return d->pool_max && d->restarts.given && !d->restarts.n ? 0 : TASK_RETRIES;
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
        .max_retries = retries(desc(x, t->stage)),
        .max_calls = actor ? 0 : desc(x, t->stage)->max_calls,
        .sink = &x->sink->base,
        .sink_tag = t->id,
    };
    if (actor) spec.actor = x->actors[t->stage][t->actor].aid;
    sk_tid tid = {0};
    x->sink->n_live++;
    sk_rc rc = x->e->ops->submit(x->e, &spec, NULL, &tid, err);
    if (rc != SK_OK) {
        x->sink->n_live--;
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
        .max_restarts = d->restarts.given ? d->restarts.n : -1,
        .max_task_retries = retries(d),
    };
    struct run_actor *a = &x->actors[stage][i];
    if (a->aid.v && !sk_vec_push(&x->dead, TAG, *a))
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for one more actor", x->step->s[stage].label);
    *a = (struct run_actor){0};
    sk_rc rc = x->e->ops->actor_create(x->e, &spec, &a->aid, &a->ready, err);
    if (rc != SK_OK) {
        *a = (struct run_actor){0};
        sk_err_prefix(err, "%s, actor %u", x->step->s[stage].label, i);
    }
    return rc;
}

static void let_go(struct sk_exec *x, struct run_actor *a) {
    if (!a->aid.v) return;
    (void)!x->e->ops->actor_kill(x->e, a->aid, true, NULL); /* dead already: as wanted */
    release(x->e, a->ready);
    x->e->ops->actor_release(x->e, a->aid);
    *a = (struct run_actor){0};
}

static void do_actor_kill(struct sk_exec *x, uint32_t stage, uint32_t i) { let_go(x, &x->actors[stage][i]); }

static void bury(struct sk_exec *x) {
    while (x->dead.n) {
        struct run_actor a = x->dead.p[--x->dead.n];
        let_go(x, &a);
    }
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
    bury(x);
    for (uint32_t i = 0; i < x->stages.n; i++) /* those that died, whose places nobody took */
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
        case SK_ACT_ADDREF: x->e->ops->addref(x->e, (sk_oid){a.id}); break;
        case SK_ACT_ACTOR_CREATE: rc = x->failed ? SK_OK : do_actor_create(x, a.stage, a.actor, &err); break;
        case SK_ACT_ACTOR_KILL: do_actor_kill(x, a.stage, a.actor); break;
        }
        if (rc != SK_OK) fail(x, rc, &err, (sk_oid){0});
    }
    x->step->acts.n = 0;
}

/* The engine's rows of tasks, NULL: no memory. Locked, so that there are no more of them the second time. */
static uint8_t *task_rows(struct sk_engine *e, size_t *n) {
    *n = e->ops->state(e, SK_STATE_TASKS, NULL, 0);
    uint8_t *buf = sk_alloc(TAG, *n);
    if (buf) *n = e->ops->state(e, SK_STATE_TASKS, buf, *n);
    return buf;
}

/* Who waits for what, with what the engine knows of the tasks. Locked. Cost: 0.1 us a task that the engine knows, so only for somebody who waits. */
static void stall_text(struct sk_exec *x, int64_t now_ns, char *text, size_t cap) {
    struct sk_step *st = x->step;
    size_t n;
    uint8_t *rows = task_rows(x->e, &n);
    st->asked = rows != NULL;
    for (uint32_t i = 0; i < st->slots.n; i++)
        if (st->slots.p[i]) st->slots.p[i]->begun_ns = 0;
    struct sk_rd r = sk_rd_init(rows, rows ? n : 0);
    uint64_t left = sk_rd_u64(&r);
    (void)sk_rd_u64(&r);
    for (const void *p; left-- && (p = sk_rd_raw(&r, sizeof(struct sk_task_row))) != NULL; sk_rd_align(&r, 8)) {
        struct sk_task_row row;
        memcpy(&row, p, sizeof row);
        (void)sk_rd_raw(&r, (size_t)row.name_n + row.fn_n + row.error_n);
        for (uint32_t i = 0; row.state == SK_TS_RUNNING && i < st->slots.n; i++) {
            struct sk_stask *t = st->slots.p[i];
            if (t && t->user == row.id) t->begun_ns = row.start_ns ? row.start_ns : t->launch_ns;
        }
    }
    sk_free(rows);
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

/* After each step: its actions, then the events that came meanwhile, until nothing is left. */
static void settle(struct sk_exec *x, sk_rc rc, const struct sk_err *step_err) {
    if (rc != SK_OK) fail(x, rc, step_err, (sk_oid){0});
    x->busy = true;
    for (uint32_t next = 0;; next++) {
        do_acts(x);
        check_stall(x);
        if (next == x->pending.n) break;
        struct pending p = x->pending.p[next];
        p.ev.fused = p.fused;
        step(x, &p.ev);
    }
    x->pending.n = 0;
    x->busy = false;
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
    x->bad_rows += bad;
    if (x->conf.max_bad_rows < 0 || x->bad_rows <= (uint64_t)x->conf.max_bad_rows) return;
    struct sk_err err = {0};
    sk_rc rc = SK_ERR(&err, SK_ETASK, "%llu rows failed, and %lld may (DataContext.max_errors)", (unsigned long long)x->bad_rows,
                      (long long)x->conf.max_bad_rows);
    fail(x, rc, &err, (sk_oid){0});
}

sk_rc sk_exec_aside(struct sk_exec *x, struct sk_aside *out) {
    x->e->ops->lock(x->e);
    bool any = x->next_side < x->sides.n;
    if (any) *out = x->sides.p[x->next_side++];
    if (x->next_side == x->sides.n) x->next_side = x->sides.n = 0;
    x->e->ops->unlock(x->e);
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
    if (x->conf.max_errored_blocks < 0 || x->errored_blocks < (uint64_t)x->conf.max_errored_blocks) {
        x->errored_blocks++;
        out->kind = SK_SEV_DONE; /* the rest of its output is missing; what it has yielded stays */
        const struct sk_times *again = &desc(x, t->stage)->restarts;
        out->actor_dead = again->given && again->n >= 0 && (err.code == SK_EACTOR || err.code == SK_EOOM);
        aside(x, (struct sk_aside){.oid = ev->oid, .stage = t->stage, .err = err});
        return;
    }
    fail(x, err.code, &err, ev->oid);
}

static void stopped_event(struct run_sink *k, const struct sk_event *ev, bool last) {
    if (ev->kind == SK_EV_YIELDED || ev->kind == SK_EV_FAILED) release(k->e, ev->oid);
    if (last && !k->n_live) sk_free(k);
}

static void on_event(struct sk_sink *base, const struct sk_event *ev) {
    struct run_sink *k = sk_container_of(base, struct run_sink, base);
    bool last = ev->kind == SK_EV_DONE || ev->kind == SK_EV_FAILED;
    k->n_live -= last;
    struct sk_exec *x = k->x;
    if (!x) {
        stopped_event(k, ev, last);
        return;
    }
    if (ev->kind == SK_EV_STARTED) return;
    struct pending p = {.ev = {.task = ev->tag, .attempt = ev->attempt}};
    if (ev->kind == SK_EV_YIELDED) on_yield(x, ev, &p.ev);
    else if (ev->kind == SK_EV_DONE) on_done(ev, &p.ev, p.fused);
    else on_failed(x, ev, &p.ev);
    struct sk_err err = {0};
    if (!x->busy) {
        step(x, &p.ev);
        settle(x, SK_OK, NULL);
    } else if (!sk_vec_push(&x->pending, TAG, p)) {
        if (p.ev.kind == SK_SEV_YIELDED) release(x->e, (sk_oid){p.ev.block.oid});
        fail(x, SK_ERR(&err, SK_ENOMEM, "pipeline: no memory for an event"), &err, (sk_oid){0});
    }
}

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
    sk_rc rc = x->e->ops->put(x->e, &(struct sk_payload){.kind = SK_KIND_STAGE, .bytes = {p, w.n}}, &x->blobs[i], err);
    sk_free(p);
    return rc;
}

static sk_rc check_conf(const struct sk_engine *e, const struct sk_exec_conf *c, const struct sk_policy **policy, struct sk_err *err) {
    if (!c->memory_bytes || !c->target_max_bytes)
        return SK_ERR(err, SK_EINVAL, "run a pipeline: memory %llu, blocks of %llu bytes; want both > 0",
                      (unsigned long long)c->memory_bytes, (unsigned long long)c->target_max_bytes);
    *policy = sk_policy_find(c->policy ? c->policy : e->caps & SK_CAP_SPILL ? "adaptive" : "downstream");
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

static sk_rc prepare(struct sk_exec *x, uint32_t root, const struct sk_policy *policy, struct sk_err *err) {
    struct sk_res total, avail;
    x->e->ops->resources(x->e, &total, &avail);
    struct sk_step_conf sc = {
        .memory_bytes = x->conf.memory_bytes,
        .target_min_bytes = x->conf.target_min_bytes,
        .target_max_bytes = x->conf.target_max_bytes,
        .consumer_blocks = x->conf.consumer_blocks,
        .preserve_order = x->conf.preserve_order || x->conf.keep_units,
        .keep_units = x->conf.keep_units,
        .skip_units = x->conf.skip_units,
        .policy = policy,
        .cpu_e4 = total.amount[SK_RES_CPU],
        .gpu_e4 = total.amount[SK_RES_GPU],
    };
    limit(x->conf.most_cpu_e4, &sc.cpu_e4, &sc.cpu_limited);
    limit(x->conf.most_gpu_e4, &sc.gpu_e4, &sc.gpu_limited);
    SK_TRY(sk_plan_stages(x->plan, root, &x->stages, err));
    SK_TRY(sk_step_create(x->plan, &x->stages, &sc, &x->step, err));
    SK_TRY(sk_step_feasible(x->step, err));
    if (x->conf.keep_units) SK_TRY(check_units(x, err));
    x->sink = sk_calloc(TAG, sizeof *x->sink);
    x->blobs = sk_calloc(TAG, x->stages.n * sizeof *x->blobs);
    x->actors = sk_calloc(TAG, x->stages.n * sizeof *x->actors);
    if (!x->sink || !x->blobs || !x->actors) return SK_ERR(err, SK_ENOMEM, "run of %u stages", x->stages.n);
    *x->sink = (struct run_sink){.base = {on_event}, .e = x->e, .x = x};
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
    sk_exec_choose(&c);
    SK_TRY(check_conf(e, &c, &policy, err));
    struct sk_exec *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "run a pipeline");
    x->e = e;
    x->plan = plan;
    x->conf = c;
    x->conf.policy = policy->name;
    e->ops->lock(e);
    sk_rc rc = prepare(x, root, policy, err);
    if (rc == SK_OK) {
        struct sk_err serr = {0};
        x->busy = true; /* step_start makes no engine call; nothing can come yet */
        sk_rc src = sk_step_start(x->step, sk_now_ns(), &serr);
        settle(x, src, &serr);
        *out = x;
    } else {
        sk_exec_stop(&x);
    }
    e->ops->unlock(e);
    return rc;
}

static bool something(void *arg) {
    const struct sk_exec *x = arg;
    return x->failed || x->step->out.n || x->step->done;
}

static sk_rc give_failure(struct sk_exec *x, sk_oid *bad, struct sk_err *err) {
    if (x->bad.v) x->e->ops->addref(x->e, x->bad);
    *bad = x->bad;
    if (err) *err = x->fail;
    return x->fail_rc;
}

static sk_rc timed_out(struct sk_exec *x, sk_rc rc, struct sk_err *err) {
    char text[800];
    if (rc == SK_ETIMEOUT) {
        x->e->ops->lock(x->e); /* another thread may drive on meanwhile */
        sk_stall_text(x->step, sk_now_ns(), text, sizeof text);
        x->e->ops->unlock(x->e);
        return SK_ERR(err, SK_ETIMEOUT, "no block within the time given: %s", text);
    }
    return rc;
}

sk_rc sk_exec_next(struct sk_exec *x, int64_t deadline_ns, struct sk_bref *out, sk_oid *bad, struct sk_err *err) {
    const struct sk_engine_ops *ops = x->e->ops;
    for (;;) {
        struct sk_err serr = {0};
        struct sk_bref b = {0};
        ops->lock(x->e);
        sk_rc rc;
        bury(x);
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
        ops->unlock(x->e);
        if (rc != SK_EAGAIN) return rc;
        rc = ops->drive(x->e, something, x, deadline_ns, err);
        if (rc != SK_OK) return timed_out(x, rc, err);
    }
}

void sk_exec_stop(struct sk_exec **px) {
    struct sk_exec *x = *px;
    *px = NULL;
    if (!x) return;
    struct sk_engine *e = x->e;
    struct run_sink *k = x->sink;
    e->ops->lock(e);
    if (k) {
        k->x = NULL; /* from here on events only give back what they bring */
        k->n_live++; /* not freed by one of them meanwhile */
    }
    if (x->step) {
        if (k) sweep(x);
        for (uint32_t i = 0; i < x->step->acts.n; i++) /* of a step that failed half-way */
            if (x->step->acts.p[i].kind == SK_ACT_RELEASE) release(e, (sk_oid){x->step->acts.p[i].id});
    }
    for (uint32_t i = 0; x->blobs && i < x->stages.n; i++) release(e, x->blobs[i]);
    for (uint32_t i = 0; x->actors && i < x->stages.n; i++) sk_free(x->actors[i]);
    release(e, x->bad);
    for (uint32_t i = x->next_side; i < x->sides.n; i++) release(e, x->sides.p[i].oid);
    if (k && !--k->n_live) sk_free(k);
    e->ops->unlock(e);
    sk_free(x->blobs);
    sk_free(x->actors);
    sk_free(x->buf);
    sk_vec_free(&x->pending);
    sk_vec_free(&x->dead);
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
    x->e->ops->lock(x->e);
    for (uint32_t i = 0; i < x->step->n && rc == SK_OK && !x->failed; i++)
        for (uint32_t k = 0; k < x->step->s[i].n_actors && rc == SK_OK; k++) {
            sk_oid o = x->actors[i][k].ready;
            if (!o.v) continue;
            if (sk_vec_push(&ids, TAG, o)) x->e->ops->addref(x->e, o);
            else rc = SK_ERR(err, SK_ENOMEM, "pipeline: no memory to wait for its actors");
        }
    x->e->ops->unlock(x->e);
    bool *ready = rc == SK_OK && ids.n ? sk_calloc(TAG, ids.n) : NULL;
    if (ready) rc = x->e->ops->wait(x->e, ids.p, ids.n, ids.n, deadline_ns, ready, err);
    else if (rc == SK_OK && ids.n) rc = SK_ERR(err, SK_ENOMEM, "pipeline: no memory to wait for its actors");
    for (uint32_t i = 0; i < ids.n; i++) release(x->e, ids.p[i]);
    sk_free(ready);
    sk_vec_free(&ids);
    return rc;
}

size_t sk_exec_flows(struct sk_exec *x, bool taken, struct sk_flow *out, size_t cap) {
    x->e->ops->lock(x->e);
    size_t n = sk_flow_copy(taken ? &x->taken : &x->made, out, cap);
    x->e->ops->unlock(x->e);
    return n;
}

int64_t sk_exec_quiet(struct sk_exec *x, char *text, size_t cap) {
    int64_t now = sk_now_ns();
    x->e->ops->lock(x->e);
    int64_t quiet = x->failed || x->step->done ? 0 : now - x->step->moved_ns;
    if (quiet >= QUIET_NS) stall_text(x, now, text, cap);
    else sk_stall_text(x->step, now, text, cap);
    x->e->ops->unlock(x->e);
    return quiet;
}

void sk_exec_get_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops, uint32_t cap) {
    x->e->ops->lock(x->e);
    if (!x->failed && !x->step->done) sk_metrics_advance(x->step, sk_now_ns());
    sk_metrics_get(x->step, s, ops, cap);
    s->bad_rows = x->bad_rows;
    s->errored_blocks = x->errored_blocks;
    x->e->ops->unlock(x->e);
}

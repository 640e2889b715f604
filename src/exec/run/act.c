/* act.c - carries out on the engine what step.c decided: tasks are submitted and cancelled, actors
 * created and ended, references released. It decides nothing.
 *
 * References: step.c holds one for each block in its queues and says when to release it; a stage's
 * description and an actor's handle live as long as the run.
 *
 * Cost besides step.c: one engine call for each task and one for each block. */
#include "base/clock.h"
#include "exec/run/run_int.h"

#define TAG SK_TAG_EXEC

/* True if the engine gives the task only this part of the value. */
static bool is_part(const struct sk_exec *x, const struct sk_blk *b) {
    return b->part && !x->e->no_parts && b->ref.bytes < b->kept->blk->ref.bytes;
}

static struct sk_arg block_arg(const struct sk_exec *x, const struct sk_blk *b) {
    if (!is_part(x, b)) return (struct sk_arg){.ref = {b->ref.oid}};
    return (struct sk_arg){
        .ref = {b->ref.oid}, .part = true, .offset = b->ref.row0, .length = b->ref.bytes};
}

static void write_task(struct sk_wr *w, const struct sk_exec *x, const struct sk_stask *t) {
    const struct sk_sstage *s = &x->step->s[t->stage];
    struct sk_stage_task task = {.seq = t->seq,
                                 .cap_rows = s->cap_rows,
                                 .target_bytes = x->conf.target_max_bytes,
                                 .table_bytes = sk_stage_table_bytes(x->step, s),
                                 .hint = SK_MAX(t->hint, 1u),
                                 .n_blocks = t->in.n};
    if (s->source) task.unit = s->units[t->unit].params;
    sk_stage_task_write(w, &task);
    for (const struct sk_blk *b = t->in.head; b; b = b->next)
        sk_stage_block_write(
            w, &(struct sk_stage_block){is_part(x, b) ? 0 : b->ref.row0, b->ref.n_rows, b->side});
    if (t->say) s->gather->ops->write(s->gather, t->say, t->in.head, w);
}

/* Makes the argument that describes the task. If it is too large for a message, it is put into the
 * store, and *temp gets the reference, to be released after the submit. */
static sk_rc exec_arg(struct sk_exec *x, const struct sk_stask *t, struct sk_arg *out, sk_oid *temp,
                      struct sk_err *err) {
    struct sk_wr w = sk_wr_init(x->buf, x->buf_cap);
    write_task(&w, x, t);
    if (!sk_wr_ok(&w)) {
        uint8_t *p = sk_realloc(TAG, x->buf, w.n * 2);
        if (!p) return SK_ERR(err, SK_ENOMEM, "arguments of a task, %zu bytes", w.n);
        x->buf = p;
        x->buf_cap = w.n * 2;
        w = sk_wr_init(x->buf, x->buf_cap);
        write_task(&w, x, t);
    }
    struct sk_bytes bytes = {w.p, w.n};
    if (w.n <= SK_INLINE_MAX) {
        *out = (struct sk_arg){.kind = SK_KIND_EXEC, .bytes = bytes};
        return SK_OK;
    }
    SK_TRY(x->e->ops->put(
        x->e, &(struct sk_payload){.kind = SK_KIND_EXEC, .bytes = bytes, .no_wait = true}, temp,
        err));
    *out = (struct sk_arg){.ref = *temp};
    return SK_OK;
}

static sk_rc do_launch(struct sk_exec *x, struct sk_stask *t, struct sk_err *err) {
    const struct sk_sstage *s = &x->step->s[t->stage];
    bool actor = s->kind == SK_STAGE_ACTORS;
    if (s->feed) {
        s->feed->ask(s->feed, t->id);
        return SK_OK;
    }
    struct sk_arg some[2 + SK_BUNDLE_BLOCKS_MAX], *args = some;
    uint32_t n = 0;
    sk_oid temp = {0};
    if (t->in.n > SK_BUNDLE_BLOCKS_MAX) {
        if (!sk_vec_reserve(&x->args, TAG, (uint64_t)t->in.n + 2))
            return SK_ERR(err, SK_ENOMEM, "%u arguments of a task", t->in.n);
        args = x->args.p;
    }
    if (!actor) args[n++] = (struct sk_arg){.ref = x->blobs[t->stage]};
    SK_TRY(exec_arg(x, t, &args[n++], &temp, err));
    for (const struct sk_blk *b = t->in.head; b; b = b->next) args[n++] = block_arg(x, b);
    struct sk_task_opts opts = {.max_calls = actor ? 0 : sk_run_desc(x, t->stage)->max_calls};
    struct sk_task_spec spec = {
        .fn = actor ? x->conf.stage_call : x->conf.run_stage,
        .name = s->label,
        .args = args,
        .n_args = n,
        .n_returns = SK_STREAMING,
        .shape = actor ? 0 : sk_run_desc(x, t->stage)->shape,
        .max_retries = sk_exec_retries(sk_run_desc(x, t->stage)),
        .sink = sk_inbox_sink(x->inbox),
        .sink_tag = t->id,
        .opts = &opts,
    };
    if (actor) spec.actor = x->actors[t->stage][t->actor].aid;
    sk_tid tid = {0};
    sk_inbox_task(x->inbox);
    sk_rc rc = x->e->ops->submit(x->e, &spec, NULL, &tid, err);
    if (rc != SK_OK) {
        sk_inbox_no_task(x->inbox);
        char name[40];
        sk_err_prefix(err, "%s, %s", s->label, sk_run_task_name(t, name));
    }
    t->user = tid.v;
    for (const struct sk_blk *b = t->in.head; b && rc == SK_OK; b = b->next)
        sk_run_took(x, b->ref.oid, tid.v);
    sk_run_release(x->e, temp);
    return rc;
}

static sk_rc do_actor_create(struct sk_exec *x, uint32_t stage, uint32_t i, struct sk_err *err) {
    const struct sk_node_desc *d = sk_run_desc(x, stage);
    struct sk_arg arg = {.ref = x->blobs[stage]};
    struct sk_actor_spec spec = {
        .init = {.fn = x->conf.stage_init,
                 .name = x->step->s[stage].label,
                 .args = &arg,
                 .n_args = 1,
                 .n_returns = 1,
                 .shape = d->shape},
        .max_restarts = sk_exec_restarts(d),
        .max_task_retries = sk_exec_retries(d),
    };
    struct sk_run_actor *a = &x->actors[stage][i];
    sk_inbox_actor_gone(x->inbox, *a); /* the actor that had this place before has died */
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

static struct sk_bytes text(const char *s) { return (struct sk_bytes){s, strlen(s)}; }

static void write_stage(struct sk_wr *w, const struct sk_plan *plan, const struct sk_stage *s) {
    sk_stage_write(w, s->n_nodes);
    for (uint32_t i = 0; i < s->n_nodes; i++) {
        const struct sk_node_desc *d = &sk_plan_get(plan, s->nodes[i])->d;
        sk_stage_node_write(
            w, &(struct sk_stage_node){text(d->op->name), text(d->label), d->params, d->what});
    }
}

sk_rc sk_run_put_blob(struct sk_exec *x, uint32_t i, struct sk_err *err) {
    struct sk_wr w = sk_wr_init(NULL, 0);
    write_stage(&w, x->plan, &x->stages.s[i]);
    uint8_t *p = sk_alloc(TAG, w.n);
    if (!p)
        return SK_ERR(err, SK_ENOMEM, "%s: description of %zu bytes", x->stages.s[i].label, w.n);
    w = sk_wr_init(p, w.n);
    write_stage(&w, x->plan, &x->stages.s[i]);
    sk_rc rc = x->e->ops->put(
        x->e, &(struct sk_payload){.kind = SK_KIND_STAGE, .bytes = {p, w.n}, .no_wait = true},
        &x->blobs[i], err);
    sk_free(p);
    return rc;
}

static void sweep_object(void *ctx, uint64_t oid) {
    sk_run_release(((struct sk_exec *)ctx)->e, (sk_oid){oid});
}

static void sweep_task(void *ctx, struct sk_stask *t) {
    struct sk_exec *x = ctx;
    /* a failure means that the task is over already */
    if (t->user) (void)!x->e->ops->cancel(x->e, (sk_tid){t->user}, false, NULL);
}

static void sweep_actor(void *ctx, uint32_t stage, uint32_t actor) {
    do_actor_kill(ctx, stage, actor);
}

void sk_run_sweep(struct sk_exec *x) {
    if (x->swept) return;
    x->swept = true;
    sk_step_sweep(x->step, &(struct sk_sweep){sweep_object, sweep_task, sweep_actor, x});
    /* releases actors that died and have no successor */
    for (uint32_t i = 0; x->actors && i < x->stages.n; i++)
        for (uint32_t k = 0; x->actors[i] && k < x->step->s[i].pool_max; k++)
            do_actor_kill(x, i, k);
}

/* Carries out the actions of step.c. After a failure of the run only those that release or add
 * references. */
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
        case SK_ACT_RELEASE: sk_run_release(x->e, (sk_oid){a.id}); break;
        case SK_ACT_ADDREF: x->e->ops->retain(x->e, (sk_oid){a.id}); break;
        case SK_ACT_ACTOR_CREATE:
            rc = x->failed ? SK_OK : do_actor_create(x, a.stage, a.actor, &err);
            break;
        case SK_ACT_ACTOR_KILL: do_actor_kill(x, a.stage, a.actor); break;
        }
        if (rc != SK_OK) sk_run_fail(x, rc, &err, (sk_oid){0});
    }
    x->step->acts.n = 0;
}

static void check_stall(struct sk_exec *x) {
    if (x->failed || !x->step->stalled) return;
    char text[800];
    struct sk_err err = {0};
    sk_stall_text(x->step, sk_now_ns(), text, sizeof text);
    sk_rc rc = SK_ERR(&err, SK_ESTALL,
                      "the pipeline cannot go on (a bug in skate, please report it): %s", text);
    sk_run_fail(x, rc, &err, (sk_oid){0});
}

void sk_run_settle(struct sk_exec *x, sk_rc rc, const struct sk_err *step_err) {
    if (rc != SK_OK) sk_run_fail(x, rc, step_err, (sk_oid){0});
    do_acts(x);
    check_stall(x);
    sk_run_sample(x, x->step->now_ns);
}

/* launch.c - asks the policy and launches the chosen tasks, until the policy answers "nothing now".
 * Pure.
 *
 * The loop: pools are scaled, the view is made (view.c), the policy chooses (by/<name>.c), the task
 * is launched. Nothing is decided here; an impossible choice is a bug of the policy and ends the
 * process. Invariant afterwards: see exec.h; if it is broken, x->stalled is set. Cost: about 20 ns
 * a stage and round. */
#include "exec/exec_int.h"

/* Takes the input of task t: a unit or a ready input, with a place in the order; or a block ahead
 * of its turn, with no place yet. */
static sk_rc take_input(struct sk_step *x, uint32_t si, struct sk_stask *t, uint32_t *work,
                        struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_blk *ahead = sk_stage_next_ahead(s), *in = ahead ? sk_pool_get(&x->blks) : NULL;
    if (ahead && !in) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
    t->in_bytes = sk_stage_next_in_bytes(s);
    if (ahead) {
        sk_step_go_ahead(x, s, ahead, in, t);
        sk_list_push_back(&s->early, &t->link);
        return SK_OK;
    }
    if (!s->source && x->conf.keep_units) {
        uint64_t origin = s->ready->q.head->ref.origin;
        s->n_parts = s->next_seq && origin == s->part_of ? s->n_parts + 1 : 0;
        s->part_of = t->origin = origin;
        if (s->n_parts >> 20)
            return SK_ERR(err, SK_EINVAL,
                          "%s: a job that can be resumed has at most 1,048,576 tasks for a piece "
                          "of its source; read it in more pieces",
                          s->label);
        s->next_seq = (origin << 20 | s->n_parts) + 1;
        t->seq = s->next_seq - 1;
    } else if (s->source && x->conf.keep_units) {
        t->seq = s->next_unit;
        s->next_seq = t->seq + 1;
    } else if (s->ready && s->ready->inner) {
        t->seq = 0;
    } else {
        t->seq = s->next_seq++;
    }
    sk_list_push_back(s->ready && s->ready->inner ? &s->inner : &s->window, &t->link);
    if (s->source) {
        t->origin = t->unit = s->next_unit++;
        s->n_units += s->feed != NULL;
        sk_step_next_unit(x, s);
        return SK_OK;
    }
    struct sk_bundle *b = s->ready;
    SK_ASSERT(b);
    s->ready = b->next;
    if (!s->ready) s->ready_last = NULL;
    s->n_ready--;
    s->ready_bytes -= b->q.bytes;
    s->ready_rows -= b->q.rows;
    t->in = b->q;
    if (SK_UNLIKELY(s->gather)) {
        t->say = b->say;
        t->inner = b->inner;
        t->node = b->node;
        t->origin = b->origin;
        t->hint = b->hint;
        *work = b->work;
    }
    sk_pool_put(&x->bundles, b);
    sk_step_settle(x, si);
    return SK_OK;
}

static sk_rc launch(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_stask *t = sk_step_new_task(x);
    if (!t) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a task", s->label);
    t->stage = si;
    t->seq = SK_NO_SEQ;
    t->promise = sk_stage_est_out(x, s);
    t->unknown = !sk_stage_est_known(s);
    t->est_ns = (int64_t)s->est_ns;
    t->launch_ns = x->now_ns;
    t->node = SK_ANY_NODE;
    uint32_t work = 0;
    sk_rc rc = take_input(x, si, t, &work, err);
    if (rc != SK_OK) {
        sk_step_free_task(x, t);
        return rc;
    }
    sk_budget_reserve(&x->mem, t->promise);
    s->promise += t->promise;
    s->taken_cost += t->in.cost;
    if (SK_UNLIKELY(s->gather)) sk_gather_launched(s->gather, t, work);
    s->in_flight++;
    s->n_window++;
    s->n_unknown += t->unknown;
    x->n_flying++;
    x->n_asked += s->feed != NULL;
    x->n_feeding += s->feeder;
    x->feed_bytes += s->feeder ? t->promise : 0;
    if (s->kind == SK_STAGE_ACTORS) {
        t->actor = sk_pool_pick(s);
        SK_ASSERT(t->actor != SK_NO_STAGE);
        if (s->actors[t->actor].in_flight++ == 0) { /* an actor runs one call at a time */
            x->cpu.used += s->cpu_e4;
            x->cpu_actors += s->cpu_e4;
        }
    } else {
        x->cpu.used += s->cpu_e4;
        x->gpu.used += s->gpu_e4;
        x->cpu.queued_ns += (double)s->cpu_e4 * (double)t->est_ns;
        x->gpu.queued_ns += (double)s->gpu_e4 * (double)t->est_ns;
    }
    SK_TRY(sk_step_act(
        x, (struct sk_act){.kind = SK_ACT_LAUNCH, .stage = si, .actor = t->actor, .id = t->id},
        err));
    if (s->values && !t->hint && !t->inner)
        t->hint = x->s[s->parent].gather->ops->hint(x->s[s->parent].gather, s->which);
    return s->gather && s->gather->ops->refill ? s->gather->ops->refill(s->gather, err) : SK_OK;
}

static bool wanted(struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    return s->source
               ? sk_view_in_turn(x, si)
               : sk_stage_has_input(s) || s->open || (s->n_live < s->pool_min && sk_pools_fit(x));
}

static sk_rc scale_pools(struct sk_step *x, struct sk_err *err) {
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        if (s->kind == SK_STAGE_ACTORS)
            SK_TRY(sk_pool_scale(x, i, wanted(x, i), sk_stage_exhausted(s), sk_stage_has_input(s),
                                 err));
    }
    return SK_OK;
}

/* Notes what each stage waits for, for the statistics and for guards that ask for it. */
static void note_waits(struct sk_step *x) {
    /* ROOM, unless the stage is launched below */
    for (uint32_t i = 0; i < x->n; i++) x->s[i].stop = x->why[i] ? x->why[i] : SK_STOP_ROOM;
}

/* Ends idle actors of other pools, so that stage si can launch a task now. */
static sk_rc take_gpus(struct sk_step *x, const struct sk_sched_view *v, uint32_t si,
                       struct sk_err *err) {
    int64_t need = sk_turn_need(v, si);
    for (uint32_t p = 0; p < x->n; p++)
        if (sk_turn_gives(v, p, si)) SK_TRY(sk_pool_give_up(x, p, need, err));
    SK_ASSERT(x->gpu.total >= need);
    return x->s[si].kind == SK_STAGE_ACTORS ? sk_pool_scale(x, si, true, false, false, err) : SK_OK;
}

sk_rc sk_launch_all(struct sk_step *x, struct sk_err *err) {
    for (;;) {
        SK_TRY(scale_pools(x, err));
        if (x->done) break;
        struct sk_sched_view v;
        sk_view_look(x, &v);
        struct sk_choice c = x->conf.policy->choose(&v, x->policy_state);
        note_waits(x);
        if (c.op < 0) break;
        uint32_t si = (uint32_t)c.op;
        SK_ASSERT(si < x->n && (c.turn || !sk_guard_can(&v, si)));
        x->n_forced += c.forced;
        if (c.turn) SK_TRY(take_gpus(x, &v, si, err));
        SK_TRY(launch(x, si, err));
    }
    x->stalled = !x->done && !x->n_flying && !x->out.n && !sk_step_awaits(x);
    return SK_OK;
}

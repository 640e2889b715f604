/* launch.c - which tasks can run, which shall: the half of the step that looks at the whole pipeline. Pure.
 *
 * Loop: view of all stages -> policy -> launch, until the policy says no. Two exceptions keep the pipeline moving where estimates are wrong:
 *   forced: nothing runs and the consumer has nothing to take -> the most downstream stage that can run gets one task whatever it needs;
 *   drain:  a task has yielded more than it promised and memory is over the limit -> a stage that works blocks off, with nothing running in
 *           it or below it, gets one task (waiting for the surprising task could take for ever: it may never end by itself).
 * Invariant after it: see exec.h; broken, it sets x->stalled. Cost: about 20 ns a stage a round. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC
#define UNKNOWN_OUT 4u /* a task of unknown output is taken to yield up to so many blocks of the target size */

sk_rc sk_step_act(struct sk_step *x, struct sk_act a, struct sk_err *err) {
    return sk_vec_push(&x->acts, TAG, a) ? SK_OK : SK_ERR(err, SK_ENOMEM, "pipeline: no memory for an action");
}

void sk_step_next_unit(const struct sk_step *x, struct sk_sstage *s) {
    const uint8_t *skip = x->conf.skip_units;
    while (skip && s->next_unit < s->n_units && skip[s->next_unit]) s->next_unit++;
}

bool sk_step_open(const struct sk_step *x, uint32_t si) {
    if (!x->s[si].ordered) return true;
    for (uint32_t p = x->s[si].parent; p != SK_NO_STAGE && !sk_stage_runs(&x->s[p]); si = p, p = x->s[si].parent)
        if (x->s[p].kind == SK_STAGE_UNION && x->s[p].turn != x->s[si].which) return false;
    return true;
}

static bool has_input(const struct sk_sstage *s) {
    return s->source ? s->next_unit < s->n_units : s->n_ready > 0 || !sk_list_empty(&s->ahead);
}

/* The next task would start ahead of its turn: with this block. NULL: in order, or there is no next task. */
static struct sk_blk *next_ahead(const struct sk_sstage *s) {
    return s->source || s->n_ready || sk_list_empty(&s->ahead) ? NULL : sk_container_of(sk_list_first(&s->ahead), struct sk_blk, ahead);
}

/* Tasks ahead of their turn leave half of the window to those that all wait for. */
static bool window_full(const struct sk_sstage *s) { return s->n_window >= (next_ahead(s) ? SK_WINDOW_MAX / 2 : SK_WINDOW_MAX); }

static bool exhausted(const struct sk_sstage *s) /* will never launch again */ {
    return s->ended || s->cut || (!has_input(s) && (s->source || (s->input_ended && !s->open)));
}

static bool launched_out(const struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    if (sk_stage_runs(s)) return exhausted(s); /* its input has ended, so everything above it, too */
    for (uint32_t i = 0; i < s->n_inputs; i++)
        if (!launched_out(x, s->inputs[i])) return false;
    return true;
}

/* A later input of a union starts when the earlier ones have started all they have: no hole between them, no memory taken from them. One of several
 * side by side waits while it is ahead. */
static bool in_turn(struct sk_step *x, uint32_t si) {
    if (!x->n_joins) return true;
    for (uint32_t p = x->s[si].parent; p != SK_NO_STAGE; si = p, p = x->s[si].parent) {
        struct sk_sstage *u = &x->s[p];
        if (u->sides && sk_zip_ahead(x, u, x->s[si].which)) return false;
        if (u->kind != SK_STAGE_UNION) continue;
        while (u->frontier + 1 < u->n_inputs && launched_out(x, u->inputs[u->frontier])) u->frontier++;
        if (x->s[si].which > u->frontier) return false;
    }
    return true;
}

/* ---- can it run ---------------------------------------------------------------------------------------------------------------------- */

static bool est_known(const struct sk_sstage *s) {
    return sk_size_est_known(&s->size) || (s->sized && s->next_unit < s->n_units && s->units[s->next_unit].est_bytes >= 0);
}

static uint64_t next_in_bytes(const struct sk_sstage *s) {
    if (s->source)
        return s->next_unit < s->n_units && s->units[s->next_unit].est_bytes > 0 ? (uint64_t)s->units[s->next_unit].est_bytes : 0;
    const struct sk_blk *ahead = next_ahead(s);
    return s->ready ? s->ready->q.bytes : ahead ? ahead->ref.bytes : 0;
}

static uint64_t unknown_out(const struct sk_step *x) { return UNKNOWN_OUT * x->conf.target_max_bytes; }

/* Bytes that the next launch reserves; of a stage without input: what a usual task of it would. */
static uint64_t est_out(const struct sk_step *x, const struct sk_sstage *s) {
    if (!sk_stage_runs(s) || exhausted(s)) return 0;
    uint64_t in = next_in_bytes(s), out;
    if (s->sized && in && !s->size.in_bytes) out = in;
    else if (sk_size_est_known(&s->size)) out = sk_size_est_out(&s->size, in, s->first && !(s->sized && in) ? x->conf.target_max_bytes : 0);
    else if (est_known(s)) out = 0; /* a unit that says it is empty */
    else if (has_input(s))
        out = SK_MAX(SK_MIN(unknown_out(x), sk_budget_room(&x->mem) / 2), x->conf.target_max_bytes); /* half of what is left, if need be */
    else out = x->conf.target_max_bytes;
    return SK_MIN(out, x->mem.limit);
}

/* Of a stage whose output size is unknown one task runs until it is known, unless memory is so ample that it does not matter. */
static bool probe_waits(const struct sk_step *x, const struct sk_sstage *s) {
    return s->n_unknown > 0 && !est_known(s) && unknown_out(x) > sk_budget_room(&x->mem) / 2;
}

static bool consumer_full(const struct sk_step *x, const struct sk_sstage *s) {
    if (!s->feeder || !x->out.n) return false; /* a consumer that waits is no reason to wait for it */
    uint32_t most = x->conf.consumer_blocks;
    if (most && x->out.n + x->feed_held_n + x->n_feeding >= most) return true;
    uint64_t block = s->blocks_out ? s->bytes_out / s->blocks_out : x->conf.target_max_bytes;
    uint64_t share = SK_MAX(x->mem.limit / 4, 2 * block);
    return x->out.cost + x->feed_bytes + (est_known(s) ? est_out(x, s) : 0) > share;
}

/* Half of memory waits before a stage that is at work as fast as it can, and keeps it so for long: more would only take the room from others, and pages
 * from what functions hold in their processes. */
static bool reader_full(const struct sk_step *x, const struct sk_sstage *s) {
    const struct sk_sstage *p = s->parent == SK_NO_STAGE ? NULL : &x->s[s->parent];
    if (!p || !p->in_flight || p->wait != SK_WAIT_RESOURCE) return false;
    return s->held_cost + p->ready_bytes + s->promise + (est_known(s) ? est_out(x, s) : 0) > x->mem.limit / 2;
}

/* A column more is no growth. */
static bool grows(const struct sk_sstage *s, uint64_t out) {
    uint64_t in = next_in_bytes(s);
    return !est_known(s) || out > in + in / 16;
}

/* What starts ahead of its turn may lie about until then: not if it grows, unless one output of every stage behind it has room beside it. */
static bool too_large_to_go_ahead(const struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    uint64_t need = est_out(x, s);
    if (!next_ahead(s) || !grows(s, need)) return false;
    for (uint32_t i = si; i < x->n; i++) need += est_out(x, &x->s[i]);
    return need > sk_budget_room(&x->mem);
}

static bool slots_full(const struct sk_step *x, const struct sk_sstage *s) {
    bool ahead = false;
    if (s->cpu_e4 <= 0 && s->gpu_e4 <= 0)
        return s->in_flight >=
               SK_MAX((uint32_t)(4 * x->conf.cpu_e4 / SK_RES_UNIT), 16u); /* only custom resources: the engine knows how many run */
    if (s->gpu_e4 > x->gpu.total) return true; /* actors have them: queued behind those it would wait as long as they live */
    if (!sk_slots_admit(&x->cpu, s->cpu_e4, (int64_t)s->est_ns, s->in_flight, &ahead) ||
        !sk_slots_admit(&x->gpu, s->gpu_e4, (int64_t)s->est_ns, s->in_flight, &ahead))
        return true;
    /* What would only queue takes memory from what could run: only while half of it is free. */
    return ahead && x->mem.used + x->mem.reserved + est_out(x, s) > x->mem.limit / 2;
}

static bool actors_busy(const struct sk_step *x, const struct sk_sstage *s) {
    uint32_t i = sk_pool_pick(s);
    if (i == SK_NO_STAGE) return true;
    /* Before tasks, which are upstream of it more often than not and are queued ahead; pools among themselves take turns. */
    return s->actors[i].in_flight == 0 && x->cpu_actors && x->cpu_actors + s->cpu_e4 > x->cpu.total;
}

static enum sk_wait blocked(struct sk_step *x, uint32_t si) {
    struct sk_sstage *s = &x->s[si];
    if (!sk_stage_runs(s) || exhausted(s)) return SK_WAIT_OVER;
    if (!has_input(s)) return SK_WAIT_INPUT;
    if (window_full(s) || !in_turn(x, si)) return SK_WAIT_TURN;
    if (s->ramped) {
        if (s->tasks_done >= s->ramp) s->ramp *= 2;
        if (s->in_flight + s->held_n + (s->parent == SK_NO_STAGE ? 0 : x->s[s->parent].n_ready) >= s->ramp)
            return SK_WAIT_TURN; /* what is not worked off may never be needed */
    }
    if (s->max_tasks && s->in_flight >= s->max_tasks) return SK_WAIT_RESOURCE;
    if (s->kind == SK_STAGE_ACTORS ? actors_busy(x, s) : slots_full(x, s)) return SK_WAIT_RESOURCE;
    if (consumer_full(x, s)) return SK_WAIT_CONSUMER;
    return reader_full(x, s) || probe_waits(x, s) || too_large_to_go_ahead(x, si) ? SK_WAIT_MEMORY : SK_WAIT_NONE;
}

/* Room left for those downstream that take turns with it at the GPUs: they do not run beside it, so what it makes stays until it stops. */
static uint64_t turn_headroom(const struct sk_step *x, uint32_t si) {
    uint64_t sum = 0;
    for (uint32_t i = si + 1; x->s[si].gpu_e4 && i < x->n; i++)
        if (x->s[i].gpu_e4 && x->s[si].gpu_e4 + x->s[i].gpu_e4 > x->conf.gpu_e4) sum += est_out(x, &x->s[i]);
    return SK_MIN(sum, x->mem.limit / 2);
}

static void look(struct sk_step *x, struct sk_sched_view *v) {
    *v = (struct sk_sched_view){.n = x->n,
                                .op = x->view,
                                .memory_limit = x->mem.limit,
                                .memory_used = x->mem.used,
                                .memory_room = sk_budget_room(&x->mem),
                                .now_ns = x->now_ns,
                                .cpu_e4 = x->conf.cpu_e4,
                                .gpu_e4 = x->conf.gpu_e4};
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_sstage *s = &x->s[i];
        s->wait = blocked(x, i);
        x->view[i] = (struct sk_op_view){
            .source = s->first,
            .can_launch = s->wait == SK_WAIT_NONE,
            .in_blocks = s->n_ready + !sk_list_empty(&s->ahead),
            .in_bytes = s->ready_bytes,
            .out_bytes = s->held_cost + (s->feeder                  ? x->out.cost
                                         : s->parent != SK_NO_STAGE ? x->s[s->parent].ready_bytes
                                                                    : 0),
            .est_out_bytes = est_out(x, s) + turn_headroom(x, i),
            .grows = grows(s, est_out(x, s)),
            .promised = s->promise,
            .est_known = est_known(s),
            .running = s->in_flight,
            .units_left = s->source ? s->n_units - s->next_unit : 0,
            .est_ns = (int64_t)s->est_ns,
            .in_per_task = s->size.n ? (double)s->size.in_bytes / (double)s->size.n : 0,
            .out_per_in = s->size.in_bytes ? (double)s->size.out_bytes / (double)s->size.in_bytes : 0,
            .cpu_e4 = s->cpu_e4,
            .gpu_e4 = s->gpu_e4,
        };
        if (s->wait == SK_WAIT_NONE) s->wait = SK_WAIT_MEMORY; /* unless it is launched */
    }
}

/* ---- beyond the policy: turns at the GPUs, exceptions ------------------------------------------------------------------------------- */

/* What must not be with actors so that it can launch. */
static int64_t gpu_need(const struct sk_step *x, const struct sk_sstage *s) {
    return s->gpu_e4 + (s->kind == SK_STAGE_ACTORS ? sk_gpu_of_tasks(x) : 0);
}

/* Would it launch if it had GPUs that others keep? */
static bool lacks_gpu(struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    if (!s->gpu_e4 || x->gpu.total >= gpu_need(x, s) || (s->kind == SK_STAGE_ACTORS && s->n_live)) return false;
    return sk_stage_runs(s) && !exhausted(s) && has_input(s) && !window_full(s) && in_turn(x, si) && !consumer_full(x, s) &&
           !probe_waits(x, s);
}

/* May pool p end idle actors for stage `to`? Upstream ones that wait for memory may, and those without work that they could do now. */
static bool may_give(struct sk_step *x, uint32_t p, uint32_t to) {
    if (p == to || x->s[p].kind != SK_STAGE_ACTORS) return false;
    enum sk_wait w = p < to ? SK_WAIT_MEMORY : blocked(x, p);
    return w == SK_WAIT_INPUT || w == SK_WAIT_TURN || w == SK_WAIT_MEMORY || w == SK_WAIT_OVER;
}

/* Gives stage si, which lacks only GPUs, those of idle pools: *done, and it can launch a task now. */
static sk_rc give_gpus(struct sk_step *x, uint32_t si, bool *done, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    int64_t need = gpu_need(x, s), could = x->gpu.total;
    for (uint32_t p = 0; p < x->n; p++) could += may_give(x, p, si) ? sk_pool_idle_gpu(&x->s[p]) : 0;
    *done = could >= need;
    if (!*done) return SK_OK;
    for (uint32_t p = 0; p < x->n; p++)
        if (may_give(x, p, si)) SK_TRY(sk_pool_give_up(x, p, need, err));
    return s->kind == SK_STAGE_ACTORS ? sk_pool_scale(x, si, true, false, false, err) : SK_OK;
}

/* The most downstream stage that lacks GPUs and whose output fits gets those of idle pools, once nobody works or its input is a good part of
 * what there is: who takes turns at a GPU loads its model again each time. */
static sk_rc take_turn(struct sk_step *x, const struct sk_sched_view *v, int *who, struct sk_err *err) {
    for (uint32_t i = x->n; i-- > 0 && *who < 0;) {
        bool done = false;
        if (x->n_flying && x->s[i].ready_bytes < x->mem.limit / 4) continue;
        if (v->op[i].est_out_bytes > v->memory_room || !lacks_gpu(x, i)) continue;
        SK_TRY(give_gpus(x, i, &done, err));
        if (done) *who = (int)i;
    }
    return SK_OK;
}

static sk_rc exception(struct sk_step *x, const struct sk_sched_view *v, int *who, struct sk_err *err) {
    if (x->out.n) return SK_OK; /* the consumer is the one to move */
    bool idle = !x->n_flying;
    if (!idle && x->mem.used <= x->mem.limit) return SK_OK;
    for (uint32_t i = x->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        bool can = op->can_launch && (idle || (!op->source && !op->running));
        if (!can && idle && lacks_gpu(x, i)) SK_TRY(give_gpus(x, i, &can, err));
        if (can) {
            x->n_forced++;
            *who = (int)i;
            return SK_OK;
        }
        if (!idle && (op->source || op->running || op->in_blocks)) return SK_OK; /* what is below must move first */
    }
    return SK_OK;
}

/* ---- launching ------------------------------------------------------------------------------------------------------------------------ */

static struct sk_stask *new_task(struct sk_step *x) {
    if (!x->free_slots.n) { /* room for the slot's return, too */
        if (!sk_vec_reserve(&x->free_slots, TAG, x->slots.n + 1) || !sk_vec_push(&x->slots, TAG, NULL)) return NULL;
        x->free_slots.p[x->free_slots.n++] = x->slots.n - 1;
    }
    struct sk_stask *t = sk_pool_get(&x->tasks);
    if (!t) return NULL;
    uint32_t slot = sk_vec_pop(&x->free_slots);
    x->generation = x->generation + 1 < 0x7fffffff ? x->generation + 1 : 1;
    *t = (struct sk_stask){.id = (uint64_t)x->generation << 32 | slot};
    sk_list_init(&t->link);
    x->slots.p[slot] = t;
    return t;
}

/* Unit or bundle, and a place in the order; or a block ahead of its turn, and no place yet. */
static sk_rc take_input(struct sk_step *x, uint32_t si, struct sk_stask *t, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_blk *ahead = next_ahead(s), *in = ahead ? sk_pool_get(&x->blks) : NULL;
    if (ahead && !in) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
    t->in_bytes = next_in_bytes(s);
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
                          "%s: a job that can be resumed has at most 1,048,576 tasks for a piece of its source; read it in more pieces",
                          s->label);
        s->next_seq = (origin << 20 | s->n_parts) + 1;
        t->seq = s->next_seq - 1;
    } else if (s->source && x->conf.keep_units) {
        t->seq = s->next_unit;
        s->next_seq = t->seq + 1;
    } else {
        t->seq = s->next_seq++;
    }
    sk_list_push_back(&s->window, &t->link);
    if (s->source) {
        t->origin = t->unit = s->next_unit++;
        sk_step_next_unit(x, s);
        return SK_OK;
    }
    struct sk_bundle *b = s->ready;
    s->ready = b->next;
    if (!s->ready) s->ready_last = NULL;
    s->n_ready--;
    s->ready_bytes -= b->q.bytes;
    s->ready_rows -= b->q.rows;
    t->in = b->q;
    sk_pool_put(&x->bundles, b);
    sk_step_settle(x, si);
    return SK_OK;
}

static sk_rc launch(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_stask *t = new_task(x);
    if (!t) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a task", s->label);
    t->stage = si;
    t->seq = SK_NO_SEQ;
    t->promise = est_out(x, s);
    t->unknown = !est_known(s);
    t->est_ns = (int64_t)s->est_ns;
    t->launch_ns = x->now_ns;
    sk_rc rc = take_input(x, si, t, err);
    if (rc != SK_OK) {
        sk_step_free_task(x, t);
        return rc;
    }
    sk_budget_reserve(&x->mem, t->promise);
    s->promise += t->promise;
    s->in_flight++;
    s->n_window++;
    s->n_unknown += t->unknown;
    x->n_flying++;
    x->n_feeding += s->feeder;
    x->feed_bytes += s->feeder ? t->promise : 0;
    if (s->kind == SK_STAGE_ACTORS) {
        t->actor = sk_pool_pick(s);
        if (s->actors[t->actor].in_flight++ == 0) { /* it runs one call at a time */
            x->cpu.used += s->cpu_e4;
            x->cpu_actors += s->cpu_e4;
        }
    } else {
        x->cpu.used += s->cpu_e4;
        x->gpu.used += s->gpu_e4;
        x->cpu.queued_ns += (double)s->cpu_e4 * (double)t->est_ns;
        x->gpu.queued_ns += (double)s->gpu_e4 * (double)t->est_ns;
    }
    return sk_step_act(x, (struct sk_act){.kind = SK_ACT_LAUNCH, .stage = si, .actor = t->actor, .id = t->id}, err);
}

static bool wanted(struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    return s->source ? in_turn(x, si) : has_input(s) || s->open || (s->n_live < s->pool_min && sk_pools_fit(x));
}

sk_rc sk_launch_all(struct sk_step *x, struct sk_err *err) {
    for (;;) {
        for (uint32_t i = 0; i < x->n; i++)
            if (x->s[i].kind == SK_STAGE_ACTORS) SK_TRY(sk_pool_scale(x, i, wanted(x, i), exhausted(&x->s[i]), has_input(&x->s[i]), err));
        if (x->done) break;
        struct sk_sched_view v;
        look(x, &v);
        int i = x->conf.policy->choose(&v, x->policy_state);
        SK_ASSERT(i < 0 || ((uint32_t)i < x->n && v.op[i].can_launch));
        if (i < 0) SK_TRY(take_turn(x, &v, &i, err));
        if (i < 0) SK_TRY(exception(x, &v, &i, err));
        if (i < 0) break;
        SK_TRY(launch(x, (uint32_t)i, err));
    }
    x->stalled = !x->done && !x->n_flying && !x->out.n;
    return SK_OK;
}

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

bool sk_step_open(const struct sk_step *x, uint32_t si) {
    if (!x->conf.preserve_order) return true;
    for (uint32_t p = x->s[si].parent; p != SK_NO_STAGE && !sk_stage_runs(&x->s[p]); si = p, p = x->s[si].parent)
        if (x->s[p].kind == SK_STAGE_UNION && x->s[p].turn != x->s[si].which) return false;
    return true;
}

static bool has_input(const struct sk_sstage *s) { return s->source ? s->next_unit < s->n_units : s->n_ready > 0; }

static bool exhausted(const struct sk_sstage *s) /* will never launch again */
{
    return s->ended || s->cut || (!has_input(s) && (s->source || (s->input_ended && !s->open)));
}

static bool launched_out(const struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    if (sk_stage_runs(s)) return exhausted(s); /* its input has ended, so everything above it, too */
    for (uint32_t i = 0; i < s->n_inputs; i++)
        if (!launched_out(x, s->inputs[i])) return false;
    return true;
}

/* A later input of a union starts when the earlier ones have started all they have: no hole between them, no memory taken from them. */
static bool in_turn(struct sk_step *x, uint32_t si) {
    if (!x->n_unions) return true;
    for (uint32_t p = x->s[si].parent; p != SK_NO_STAGE; si = p, p = x->s[si].parent) {
        struct sk_sstage *u = &x->s[p];
        if (u->kind != SK_STAGE_UNION) continue;
        while (u->frontier + 1 < u->n_inputs && launched_out(x, u->inputs[u->frontier])) u->frontier++;
        if (x->s[si].which > u->frontier) return false;
    }
    return true;
}

/* ---- actors ------------------------------------------------------------------------------------------------------------------------ */

static sk_rc make_actor(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_ACTOR_CREATE, .stage = si, .actor = s->n_actors}, err));
    s->actors[s->n_actors++] = (struct sk_sactor){.state = SK_ACTOR_STARTING};
    s->n_starting++;
    x->gpu.total -= s->gpu_e4; /* for as long as it lives (its model is in there); CPUs only while a call runs */
    return SK_OK;
}

static void drop_actor(struct sk_step *x, uint32_t si, uint32_t i) {
    struct sk_sstage *s = &x->s[si];
    s->n_starting -= s->actors[i].state == SK_ACTOR_STARTING;
    s->actors[i].state = SK_ACTOR_GONE;
    x->gpu.total += s->gpu_e4;
}

/* A pool grows while its actors could all run at once, and leaves the GPUs that the largest task and pools that have not started need.
 * CPUs are shared in time: an idle actor keeps none, so stages that do not fit beside each other take turns. */
static bool room_to_grow(const struct sk_step *x, const struct sk_sstage *me) {
    int64_t gpu = 0, pools_gpu = 0, live = 0;
    for (uint32_t i = 0; i < me->n_actors; i++) live += me->actors[i].state != SK_ACTOR_GONE;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        if (s->ended || s->cut) continue;
        if (s->kind == SK_STAGE_TASKS) {
            gpu = SK_MAX(gpu, s->gpu_e4);
        } else if (s->kind == SK_STAGE_ACTORS && s->n_actors < s->pool_min) {
            pools_gpu += s->gpu_e4 * (s->pool_min - s->n_actors);
        }
    }
    return (live + 1) * me->cpu_e4 <= x->conf.cpu_e4 && x->gpu.total - me->gpu_e4 >= gpu + pools_gpu;
}

static uint32_t pick_actor(const struct sk_sstage *s) /* fewest in flight, then ready ones, lowest index; SK_NO_STAGE: all are busy */
{
    uint32_t best = SK_NO_STAGE, least = UINT32_MAX;
    for (uint32_t i = 0; i < s->n_actors; i++) {
        const struct sk_sactor *a = &s->actors[i];
        uint32_t most = a->state == SK_ACTOR_READY ? s->max_in_flight : a->state == SK_ACTOR_STARTING;
        uint32_t load = 2 * a->in_flight + (a->state == SK_ACTOR_STARTING);
        if (a->in_flight < most && load < least) {
            best = i;
            least = load;
        }
    }
    return best;
}

static sk_rc scale(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    if (exhausted(s)) {
        for (uint32_t i = 0; i < s->n_actors; i++)
            if (s->actors[i].state != SK_ACTOR_GONE && (!s->actors[i].in_flight || s->cut)) {
                SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_ACTOR_KILL, .stage = si, .actor = i}, err));
                drop_actor(x, si, i);
            }
        return SK_OK;
    }
    bool wanted = s->source ? in_turn(x, si) : has_input(s) || s->open;
    while (wanted && s->n_actors < s->pool_min) SK_TRY(make_actor(x, si, err));
    if (has_input(s) && s->n_actors >= s->pool_min && s->n_actors < s->pool_max && !s->n_starting && pick_actor(s) == SK_NO_STAGE &&
        room_to_grow(x, s))
        SK_TRY(make_actor(x, si, err));
    return SK_OK;
}

/* ---- can it run ---------------------------------------------------------------------------------------------------------------------- */

static bool est_known(const struct sk_sstage *s) {
    return sk_size_est_known(&s->size) || (s->sized && s->next_unit < s->n_units && s->units[s->next_unit].est_bytes >= 0);
}

static uint64_t next_in_bytes(const struct sk_sstage *s) {
    if (s->source)
        return s->next_unit < s->n_units && s->units[s->next_unit].est_bytes > 0 ? (uint64_t)s->units[s->next_unit].est_bytes : 0;
    return s->ready ? s->ready->q.bytes : 0;
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

static bool slots_full(const struct sk_step *x, const struct sk_sstage *s) {
    bool ahead = false;
    if (s->cpu_e4 <= 0 && s->gpu_e4 <= 0)
        return s->in_flight >=
               SK_MAX((uint32_t)(4 * x->conf.cpu_e4 / SK_RES_UNIT), 16u); /* only custom resources: the engine knows how many run */
    if (!sk_slots_admit(&x->cpu, s->cpu_e4, (int64_t)s->est_ns, s->in_flight, &ahead) ||
        !sk_slots_admit(&x->gpu, s->gpu_e4, (int64_t)s->est_ns, s->in_flight, &ahead))
        return true;
    /* What would only queue takes memory from what could run: only while half of it is free. */
    return ahead && x->mem.used + x->mem.reserved + est_out(x, s) > x->mem.limit / 2;
}

static bool actors_busy(const struct sk_step *x, const struct sk_sstage *s) {
    uint32_t i = pick_actor(s);
    if (i == SK_NO_STAGE) return true;
    /* Before tasks, which are upstream of it more often than not and are queued ahead; pools among themselves take turns. */
    return s->actors[i].in_flight == 0 && x->cpu_actors && x->cpu_actors + s->cpu_e4 > x->cpu.total;
}

static enum sk_wait blocked(struct sk_step *x, uint32_t si) {
    struct sk_sstage *s = &x->s[si];
    if (!sk_stage_runs(s) || exhausted(s)) return SK_WAIT_OVER;
    if (!has_input(s)) return SK_WAIT_INPUT;
    if (s->n_window >= SK_WINDOW_MAX || !in_turn(x, si)) return SK_WAIT_TURN;
    if (s->ramped) {
        if (s->tasks_done >= s->ramp) s->ramp *= 2;
        if (s->in_flight + s->held_n + (s->parent == SK_NO_STAGE ? 0 : x->s[s->parent].n_ready) >= s->ramp)
            return SK_WAIT_TURN; /* what is not worked off may never be needed */
    }
    if (s->max_tasks && s->in_flight >= s->max_tasks) return SK_WAIT_RESOURCE;
    if (s->kind == SK_STAGE_ACTORS ? actors_busy(x, s) : slots_full(x, s)) return SK_WAIT_RESOURCE;
    if (consumer_full(x, s)) return SK_WAIT_CONSUMER;
    return probe_waits(x, s) ? SK_WAIT_MEMORY : SK_WAIT_NONE;
}

static void look(struct sk_step *x, struct sk_sched_view *v) {
    *v = (struct sk_sched_view){.n = x->n,
                                .op = x->view,
                                .memory_limit = x->mem.limit,
                                .memory_room = sk_budget_room(&x->mem),
                                .now_ns = x->now_ns,
                                .free_cpu_e4 = x->cpu.total > x->cpu.used ? (uint64_t)(x->cpu.total - x->cpu.used) : 0};
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_sstage *s = &x->s[i];
        s->wait = blocked(x, i);
        x->view[i] = (struct sk_op_view){
            .source = s->first,
            .can_launch = s->wait == SK_WAIT_NONE,
            .in_blocks = s->n_ready,
            .in_bytes = s->ready_bytes,
            .out_bytes = s->held_cost + (s->feeder                  ? x->out.cost
                                         : s->parent != SK_NO_STAGE ? x->s[s->parent].ready_bytes
                                                                    : 0),
            .est_out_bytes = est_out(x, s),
            .est_known = est_known(s),
            .running = s->in_flight,
            .est_ns = (int64_t)s->est_ns,
            .cpu_e4 = s->cpu_e4,
            .gpu_e4 = s->gpu_e4,
        };
        if (s->wait == SK_WAIT_NONE) s->wait = SK_WAIT_MEMORY; /* unless it is launched */
    }
}

static int exception(struct sk_step *x, const struct sk_sched_view *v) {
    if (x->out.n) return -1; /* the consumer is the one to move */
    bool idle = !x->n_flying;
    if (!idle && x->mem.used <= x->mem.limit) return -1;
    for (uint32_t i = x->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        if (op->can_launch && (idle || (!op->source && !op->running))) {
            x->n_forced++;
            return (int)i;
        }
        if (!idle && (op->source || op->running || op->in_blocks)) return -1; /* what is below must move first */
    }
    return -1;
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

static void take_input(struct sk_step *x, struct sk_sstage *s, struct sk_stask *t) {
    t->in_bytes = next_in_bytes(s);
    if (s->source) {
        t->unit = s->next_unit++;
        return;
    }
    struct sk_bundle *b = s->ready;
    s->ready = b->next;
    if (!s->ready) s->ready_last = NULL;
    s->n_ready--;
    s->ready_bytes -= b->q.bytes;
    s->ready_rows -= b->q.rows;
    t->in = b->q;
    sk_pool_put(&x->bundles, b);
}

static sk_rc launch(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_stask *t = new_task(x);
    if (!t) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a task", s->label);
    t->stage = si;
    t->seq = s->next_seq++;
    t->promise = est_out(x, s);
    t->unknown = !est_known(s);
    t->est_ns = (int64_t)s->est_ns;
    take_input(x, s, t);
    sk_budget_reserve(&x->mem, t->promise);
    s->in_flight++;
    s->n_window++;
    s->n_unknown += t->unknown;
    x->n_flying++;
    x->n_feeding += s->feeder;
    x->feed_bytes += s->feeder ? t->promise : 0;
    sk_list_push_back(&s->window, &t->link);
    if (s->kind == SK_STAGE_ACTORS) {
        t->actor = pick_actor(s);
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

sk_rc sk_launch_all(struct sk_step *x, struct sk_err *err) {
    for (;;) {
        for (uint32_t i = 0; i < x->n; i++)
            if (x->s[i].kind == SK_STAGE_ACTORS) SK_TRY(scale(x, i, err));
        if (x->done) break;
        struct sk_sched_view v;
        look(x, &v);
        int i = x->conf.policy->choose(&v, x->policy_state);
        if (i < 0) i = exception(x, &v);
        if (i < 0) break;
        SK_ASSERT((uint32_t)i < x->n && v.op[i].can_launch);
        SK_TRY(launch(x, (uint32_t)i, err));
    }
    x->stalled = !x->done && !x->n_flying && !x->out.n;
    return SK_OK;
}

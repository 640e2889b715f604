/* view.c - makes a policy's view (policy.h) from the state of a run: facts and numbers, no
 * decision. Pure.
 *
 * Cost: about 15 ns a stage, each time. */
#include "exec/exec_int.h"

/* number of blocks of the target size that a task of unknown output is assumed to yield at most */
#define UNKNOWN_OUT 4u
#define TABLES 8 /* the tables of all tasks may have 1 / TABLES of memory */

bool sk_stage_has_input(const struct sk_sstage *s) {
    return s->source ? s->next_unit < s->n_units : s->n_ready > 0 || !sk_list_empty(&s->ahead);
}

struct sk_blk *sk_stage_next_ahead(const struct sk_sstage *s) {
    return s->source || s->n_ready || sk_list_empty(&s->ahead)
               ? NULL
               : sk_container_of(sk_list_first(&s->ahead), struct sk_blk, link);
}

bool sk_stage_exhausted(const struct sk_sstage *s) {
    return s->ended || s->cut ||
           (!sk_stage_has_input(s) &&
            (s->source || (s->input_ended && !s->open && (!s->gather || s->gather->spent))));
}

/* ---- unions and zips: whether it is the stage's turn ----------------------------------------- */

static bool launched_out(const struct sk_step *x, uint32_t si) {
    const struct sk_sstage *s = &x->s[si];
    /* the stage's input has ended, and so have all stages before it */
    if (sk_stage_runs(s)) return sk_stage_exhausted(s);
    for (uint32_t i = 0; i < s->n_inputs; i++)
        if (!launched_out(x, s->inputs[i])) return false;
    return true;
}

/* True if the earlier inputs of all unions downstream have started all their tasks. *lead: bytes by
 * which the stage is ahead of the inputs that it is zipped with. */
static bool place_among_inputs(struct sk_step *x, uint32_t si, uint64_t *lead) {
    bool in_turn = true;
    for (uint32_t p = x->s[si].parent; p != SK_NO_STAGE && in_turn; si = p, p = x->s[si].parent) {
        struct sk_sstage *u = &x->s[p];
        if (u->sides) *lead = SK_MAX(*lead, sk_zip_lead(u, x->s[si].which));
        if (u->kind != SK_STAGE_UNION) continue;
        while (u->frontier + 1 < u->n_inputs && launched_out(x, u->inputs[u->frontier]))
            u->frontier++;
        in_turn = x->s[si].which <= u->frontier;
    }
    return in_turn;
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static bool parks(const struct sk_sstage *s) { return s->gather && s->gather->parks; }

/* An inner task yields about as much as it takes. */
static bool inner_next(const struct sk_sstage *s) { return s->ready && s->ready->inner; }

bool sk_stage_est_known(const struct sk_sstage *s) {
    return sk_size_est_known(&s->size) || parks(s) || inner_next(s) ||
           (s->sized && s->next_unit < s->n_units && s->units[s->next_unit].est_bytes >= 0);
}

uint64_t sk_stage_next_in_bytes(const struct sk_sstage *s) {
    if (s->source)
        return !s->feed && s->next_unit < s->n_units && s->units[s->next_unit].est_bytes > 0
                   ? (uint64_t)s->units[s->next_unit].est_bytes
                   : 0;
    const struct sk_blk *ahead = sk_stage_next_ahead(s);
    return s->ready ? s->ready->q.bytes : ahead ? ahead->ref.bytes : 0;
}

static uint64_t unknown_out(const struct sk_step *x) {
    return UNKNOWN_OUT * x->conf.target_max_bytes;
}

uint64_t sk_stage_est_out(const struct sk_step *x, const struct sk_sstage *s) {
    if (!sk_stage_runs(s) || sk_stage_exhausted(s)) return 0;
    uint64_t in = sk_stage_next_in_bytes(s), out;
    if ((s->sized && in && !s->size.in_bytes) || inner_next(s)) out = in;
    else if (sk_size_est_known(&s->size))
        out = sk_size_est_out(&s->size, in,
                              s->first && !(s->sized && in) ? x->conf.target_max_bytes : 0);
    /* until a task has ended, the output is assumed to be as large as the input */
    else if (parks(s)) out = s->n_ready ? in : x->conf.target_max_bytes;
    /* the unit's own estimate says that it is empty */
    else if (sk_stage_est_known(s)) out = 0;
    /* reserve half of the room that is left, if the estimate is larger */
    else if (sk_stage_has_input(s))
        out = SK_MAX(SK_MIN(unknown_out(x), sk_budget_room(&x->mem) / 2), x->conf.target_max_bytes);
    else out = x->conf.target_max_bytes;
    return SK_MIN(out, x->mem.limit);
}

/* ---- slots ----------------------------------------------------------------------------------- */

uint32_t sk_stage_slots(const struct sk_step *x, const struct sk_sstage *s) {
    int64_t tasks =
        s->kind == SK_STAGE_ACTORS ? s->pool_max : x->conf.cpu_e4 / SK_MAX(s->cpu_e4, 1);
    if (s->kind == SK_STAGE_TASKS && s->cpu_e4 <= 0) tasks = x->conf.cpu_e4 / SK_RES_UNIT;
    if (s->max_tasks) tasks = SK_MIN(tasks, (int64_t)s->max_tasks);
    return (uint32_t)SK_MAX(tasks, 1);
}

uint64_t sk_stage_table_bytes(const struct sk_step *x, const struct sk_sstage *s) {
    return SK_MAX(x->mem.limit / TABLES / sk_stage_slots(x, s),
                  SK_MAX(x->conf.target_max_bytes / 2, 1));
}

/* True if a limit of the user leaves no CPUs for one more task. Nothing is queued behind such a
 * limit, since the engine would run it. */
static bool cpus_spent(const struct sk_step *x, const struct sk_sstage *s) {
    return x->cpu.strict && s->cpu_e4 > 0 && x->cpu.used + s->cpu_e4 > x->cpu.total;
}

static enum sk_slot slot_of_actors(const struct sk_step *x, const struct sk_sstage *s) {
    uint32_t i = sk_pool_pick(s);
    if (i == SK_NO_STAGE) return SK_SLOT_NONE;
    /* Actors get CPUs before tasks do, because tasks are mostly upstream of actors and are queued
     * ahead; pools of actors get the CPUs in turns. */
    bool full = cpus_spent(x, s) || (x->cpu_actors && x->cpu_actors + s->cpu_e4 > x->cpu.total);
    return full && s->actors[i].in_flight == 0 ? SK_SLOT_NONE : SK_SLOT_FREE;
}

static enum sk_slot slot(const struct sk_step *x, const struct sk_sstage *s) {
    if (s->kind == SK_STAGE_ACTORS) return slot_of_actors(x, s);
    if (s->cpu_e4 <= 0 && s->gpu_e4 <= 0) {
        /* only custom resources are needed: the engine knows how many can run */
        uint32_t most = SK_MAX((uint32_t)(4 * x->conf.cpu_e4 / SK_RES_UNIT), 16u);
        return s->in_flight >= most ? SK_SLOT_NONE : SK_SLOT_FREE;
    }
    /* actors hold the missing GPUs, and a task queued behind them would wait as long as they
     * live */
    if (s->gpu_e4 > x->gpu.total) return SK_SLOT_NONE;
    bool ahead = false, full = x->cpu.used + s->cpu_e4 > x->cpu.total;
    /* While the engine reads parts from disk, only one task with parts on disk is queued for each
     * slot; else CPUs would wait for the disk and the disk for CPUs. */
    int64_t est_ns = full && s->gather && sk_gather_reads(x, s) ? 0 : (int64_t)s->est_ns;
    if (!sk_slots_admit(&x->cpu, s->cpu_e4, est_ns, s->in_flight, &ahead) ||
        !sk_slots_admit(&x->gpu, s->gpu_e4, est_ns, s->in_flight, &ahead))
        return SK_SLOT_NONE;
    return ahead ? SK_SLOT_QUEUE : SK_SLOT_FREE;
}

/* ---- the view of a stage and of the run ------------------------------------------------------ */

void sk_view_init(struct sk_step *x) {
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        x->view[i] = (struct sk_op_view){.runs = sk_stage_runs(s),
                                         .source = s->first,
                                         .actors = s->kind == SK_STAGE_ACTORS,
                                         .feeder = s->feeder,
                                         .parent = s->parent,
                                         .cpu_e4 = s->cpu_e4,
                                         .gpu_e4 = s->gpu_e4,
                                         .over = !sk_stage_runs(s)};
    }
}

/* Parked values are input that no task has. Where they do not count as in memory, a launch needs
 * room for its input, too. */
static void look_at_parked(struct sk_step *x, struct sk_sched_view *v) {
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_op_view *op = &x->view[i];
        const struct sk_sstage *s = &x->s[i];
        const struct sk_gather *g = s->gather;
        if (!parks(s)) continue;
        op->in_bytes += g->rest;
        op->taken_bytes += g->sliced;
        v->memory_working += g->sliced;
        op->promised += g->reading + g->working;
        if (!x->conf.moves) continue;
        op->est_out += op->next_in_bytes +
                       (s->ready ? sk_gather_work(x, s->ready->work, op->next_in_bytes) : 0);
        op->grows = true; /* the input does not leave the memory that counts */
    }
}

/* If the stage that takes this stage's values waits for an answer (gather.h), this stage cannot
 * launch, whatever input it has. */
static void look_at_awaited(struct sk_step *x, struct sk_sched_view *v) {
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_op_view *op = &x->view[i];
        op->awaited = x->s[i].values && sk_gather_awaits(x, &x->s[i]);
        if (!op->awaited) continue;
        op->input = false;
        v->awaits = true;
    }
}

uint64_t sk_view_used(const struct sk_step *x) {
    uint64_t sliced = 0;
    if (!x->conf.moves || !x->parked) return x->mem.used;
    for (uint32_t i = 0; i < x->n; i++) sliced += x->s[i].gather ? x->s[i].gather->sliced : 0;
    return x->mem.used - x->parked + SK_MIN(sliced, x->parked);
}

static void look_at_stage(struct sk_step *x, uint32_t i) {
    const struct sk_sstage *s = &x->s[i];
    struct sk_op_view *op = &x->view[i];
    op->waited = sk_stage_wait(s);
    op->in_bytes = s->ready_bytes;
    op->in_blocks = s->n_ready + !sk_list_empty(&s->ahead);
    op->held_blocks = s->held_n;
    op->held_bytes = s->held_cost;
    op->out_bytes = s->held_cost;
    if (s->feeder) op->out_bytes += x->out.cost;
    else if (s->parent != SK_NO_STAGE) op->out_bytes += x->s[s->parent].ready_bytes;
    if (!op->runs) return;
    op->over = sk_stage_exhausted(s);
    op->input = sk_stage_has_input(s);
    op->ahead = sk_stage_next_ahead(s) != NULL;
    op->next_in_bytes = sk_stage_next_in_bytes(s);
    /* the other half of the window is left to tasks in order, for which all other tasks wait */
    op->window_full = s->n_window >= (op->ahead ? SK_WINDOW_MAX / 2 : SK_WINDOW_MAX);
    op->capped = s->max_tasks && s->in_flight >= s->max_tasks;
    op->cpus_spent = cpus_spent(x, s);
    op->lead_bytes = 0;
    op->in_turn = !x->n_several || place_among_inputs(x, i, &op->lead_bytes);
    op->slot = op->input ? slot(x, s) : SK_SLOT_NONE;
    op->ramp = s->ramped ? s->ramp : 0;
    op->block_bytes = s->blocks_out ? s->bytes_out / s->blocks_out : x->conf.target_max_bytes;
    op->taken_bytes = s->taken_cost;
    op->promised = s->promise;
    op->running = s->in_flight;
    op->units_left = s->source ? s->n_units - s->next_unit : 0;
    if (s->feed && op->units_left) op->units_left = UINT32_MAX;
    op->unknown = s->n_unknown;
    op->est_known = sk_stage_est_known(s);
    op->est_out = sk_stage_est_out(x, s);
    /* a small growth, such as one more column, does not count */
    op->grows = !op->est_known || op->est_out > op->next_in_bytes + op->next_in_bytes / 16;
    op->est_ns = (int64_t)s->est_ns;
    op->in_per_task = s->size.n ? (double)s->size.in_bytes / (double)s->size.n : 0;
    op->out_per_in = s->size.in_bytes ? (double)s->size.out_bytes / (double)s->size.in_bytes : 0;
    op->n_actors = op->actors && s->gpu_e4 ? sk_pool_taken(s) : 0;
    op->idle_gpu_e4 = op->actors && s->gpu_e4 ? sk_pool_idle_gpu(s) : 0;
}

void sk_view_look(struct sk_step *x, struct sk_sched_view *v) {
    uint64_t used = SK_UNLIKELY(x->n_parking) ? sk_view_used(x) : x->mem.used,
             taken = used + x->mem.reserved;
    *v = (struct sk_sched_view){
        .n = x->n,
        .op = x->view,
        .why = x->why,
        .memory_limit = x->mem.limit,
        .memory_used = used,
        .memory_disk = x->mem.disk - x->parked_disk,
        .memory_taken = taken,
        .memory_room = taken < x->mem.limit ? x->mem.limit - taken : 0,
        .unknown_bytes = unknown_out(x),
        .now_ns = x->now_ns,
        .cpu_e4 = x->conf.cpu_e4,
        .gpu_e4 = x->conf.gpu_e4,
        .gpu_left_e4 = x->gpu.total,
        .gpu_limited = x->gpu.strict,
        .task_gpu_e4 = x->conf.gpu_e4 ? sk_pools_task_gpu(x) : 0,
        .flying = x->n_flying,
        .out_blocks = x->out.n,
        .feed_blocks = x->out.n + x->feed_held_n + x->n_feeding,
        .feed_bytes = x->out.cost + x->feed_bytes,
        .consumer_blocks = x->conf.consumer_blocks,
    };
    for (uint32_t i = 0; i < x->n; i++) {
        look_at_stage(x, i);
        v->memory_working += x->view[i].taken_bytes;
    }
    v->memory_working += x->mem.reserved;
    if (SK_UNLIKELY(x->n_parking)) look_at_parked(x, v);
    if (SK_UNLIKELY(x->n_awaiting)) look_at_awaited(x, v);
}

bool sk_view_in_turn(struct sk_step *x, uint32_t si) {
    uint64_t lead = 0;
    return !x->n_several || (place_among_inputs(x, si, &lead) && lead <= x->mem.limit / 8);
}

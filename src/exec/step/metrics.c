/* metrics.c - accounts for wall time: between two events each stage runs, or waits for one named
 * reason. Pure. The bottleneck is the stage that had most of the exhausted resource over time.
 * While all CPUs are taken, each stage scores its share of them; a pool whose actors are all busy,
 * or a stage at its own limit, scores fully. The consumer scores while stages stop because of it,
 * and while nothing runs and blocks wait for it. Cost: about 3 ns for each stage and event. */
#include <math.h>

#include "exec/exec_int.h"

/* RECENT: tasks, or blocks of the consumer, whose mean time counts. FEW: blocks that tell too
 * little, since programs do much once. */
enum { RECENT = 16, FEW = 3 };

enum { WHY_NONE, WHY_CPU, WHY_GPU, WHY_ACTORS, WHY_CAP, WHY_CONSUMER };
static const char *const WHY[] = {"none", "cpu", "gpu", "actors", "max_tasks", "consumer"};

/* The stage's share of a resource that is exhausted; 0 if some of it is left. */
static double share(const struct sk_slots *r, int64_t amount, uint32_t n) {
    return amount > 0 && r->total > 0 && r->used >= r->total ? (double)amount * n / (double)r->used
                                                             : 0;
}

static double at_cap(const struct sk_step *x, const struct sk_sstage *s, uint32_t *why) {
    if (s->kind == SK_STAGE_ACTORS) {
        *why = WHY_ACTORS;
        return sk_stage_wait(s) == SK_WAIT_RESOURCE ? 1 : 0;
    }
    if (s->kind != SK_STAGE_TASKS || !s->in_flight) return 0;
    *why = WHY_CAP;
    if (sk_stage_wait(s) == SK_WAIT_RESOURCE && s->max_tasks && s->in_flight >= s->max_tasks)
        return 1;
    double cpu = share(&x->cpu, s->cpu_e4, s->in_flight),
           gpu = share(&x->gpu, s->gpu_e4, s->in_flight);
    *why = gpu > cpu ? WHY_GPU : WHY_CPU;
    return SK_MAX(cpu, gpu);
}

void sk_metrics_advance(struct sk_step *x, int64_t now_ns) {
    int64_t dt = now_ns - x->now_ns;
    if (dt <= 0) return; /* of a caller that read the clock before another one */
    x->now_ns = now_ns;
    /* blocks wait for the consumer and nothing runs: the time is the consumer's */
    bool consumer = x->out.n > 0, runs = false;
    for (uint32_t i = 0; i < x->n; i++) runs = runs || x->s[i].in_flight;
    consumer = consumer && !runs;
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_sstage *s = &x->s[i];
        enum sk_wait w = sk_stage_wait(s);
        /* all input of the stage is in running tasks */
        if (w == SK_WAIT_INPUT && s->in_flight) w = SK_WAIT_NONE;
        /* memory is full of blocks that the consumer has not taken */
        if (w == SK_WAIT_MEMORY && s->feeder && x->out.cost * 2 > x->mem.used) w = SK_WAIT_CONSUMER;
        s->wait_ns[w] += dt;
        s->busy_slot_ns += (double)dt * s->in_flight;
        struct sk_sstage *phase = &x->s[s->phase];
        if (s->in_flight && s->task_ns_total && phase->phase_seen_ns != now_ns) {
            phase->phase_live_ns += dt;
            phase->phase_seen_ns = now_ns;
        }
        consumer = consumer || (w == SK_WAIT_CONSUMER);
        uint32_t why = WHY_NONE;
        double c = at_cap(x, s, &why);
        if (c > 0) {
            s->score += c * (double)dt;
            s->score_why = why;
        }
    }
    if (consumer) x->consumer_score += (double)dt;
}

/* The bytes by which the time of a unit's task is expected. */
static double bytes_of(const struct sk_step *x, const struct sk_unit *u) {
    return SK_MAX((double)u->est_bytes, (double)x->conf.target_min_bytes);
}

static void count_units(const struct sk_step *x, struct sk_sstage *s) {
    bool known = true;
    for (uint32_t i = 0; i < s->n_units; i++) {
        if (x->conf.skip_units && x->conf.skip_units[i]) continue;
        s->n_todo++;
        s->open_bytes += bytes_of(x, &s->units[i]);
        known = known && s->units[i].est_bytes >= 0;
    }
    s->n_open = s->n_todo;
    if (!known) s->open_bytes = 0;
}

void sk_metrics_start(struct sk_step *x) {
    for (uint32_t i = 0; i < x->n; i++)
        if (x->s[i].source && !x->s[i].feed) count_units(x, &x->s[i]);
}

void sk_metrics_timed(struct sk_step *x, struct sk_sstage *s, const struct sk_stask *t,
                      int64_t run_ns) {
    struct sk_sstage *phase = &x->s[s->phase];
    s->task_ns_total += run_ns;
    s->task_ns_max = SK_MAX(s->task_ns_max, run_ns);
    /* half of the tasks so far: the first ones import modules and touch fresh memory */
    double n = SK_MIN((double)(s->size.n + 1) / 2, (double)RECENT);
    s->recent_ns += ((double)run_ns - s->recent_ns) / SK_MAX(n, 1);
    if (s->n_open && s->open_bytes > 0) {
        double bytes = bytes_of(x, &s->units[t->unit]);
        s->recent_bytes += (bytes - s->recent_bytes) / SK_MAX(n, 1);
        s->open_bytes -= bytes;
        s->n_open--;
    }
    if (!phase->phase_live_ns) phase->phase_live_ns = run_ns;
}

void sk_metrics_consumed(struct sk_step *x, int64_t ns) {
    x->n_timed++;
    double n = SK_MIN((double)x->n_timed / 2, (double)RECENT);
    x->row_ns += ((double)ns / (double)x->took_rows - x->row_ns) / SK_MAX(n, 1);
}

/* ---- what share.c estimates from ------------------------------------------------------------- */

/* Of the time of a stage's last operator, which packs its rows for a gather that parks, the part of
 * the rows that it yielded: it may yield one row for many. */
static double pack_ns(const struct sk_sstage *s) {
    if (!s->values || s->gather || !s->n_fused) return 0;
    const struct sk_task_note_op *pack = &s->fused[s->n_fused - 1];
    double in = s->n_fused > 1 ? (double)s->fused[s->n_fused - 2].rows_out : (double)s->rows_in,
           out = (double)pack->rows_out;
    return in > out ? (double)pack->ns * out / in : (double)pack->ns;
}

/* sk_share_op.size of a stage whose gather parks. */
static void size_of_task(const void *of, double all, double *in, double *work) {
    const struct sk_gather *g = of;
    uint32_t times = 0;
    uint64_t bytes = g->ops->task_bytes(g, (uint64_t)SK_MIN(SK_MAX(all, 1), 1e18), &times);
    *in = (double)bytes;
    *work = (double)sk_gather_work(g->x, times, bytes);
}

static struct sk_share_op facts_of(const struct sk_step *x, const struct sk_sstage *s) {
    bool gpu = s->kind == SK_STAGE_TASKS && s->gpu_e4 > 0;
    double slots = sk_stage_slots(x, s);
    if (s->kind == SK_STAGE_ACTORS && s->n_live) slots = s->n_live;
    if (gpu) slots = SK_MIN(slots, SK_MAX(floor((double)x->gpu.total / (double)s->gpu_e4), 1));
    struct sk_share_op o = {
        .parent = s->parent,
        .runs = sk_stage_runs(s),
        .over = sk_stage_exhausted(s),
        .waits = s->gather && s->gather->parks,
        .passes = s->gather && !s->gather->parks,
        .n_inputs = s->n_inputs,
        .n_fused = s->n_fused,
        .units = s->source && !s->feed ? (double)s->n_todo : -1,
        .larger =
            s->n_open && s->recent_bytes > 0 ? s->open_bytes / s->n_open / s->recent_bytes : 0,
        .limit = s->kind == SK_STAGE_LIMIT ? (double)s->limit : -1,
        .cpus = (double)s->cpu_e4 / SK_RES_UNIT,
        .slots = slots,
        .done = (double)s->size.n,
        .queued = s->n_ready,
        .came = (double)s->bytes_in,
        .done_in = (double)s->size.in_bytes,
        .out = (double)s->bytes_out,
        .rows_out = (double)s->rows_out,
        .done_ns = (double)s->task_ns_total,
        .recent_ns = s->recent_ns,
        .pack_ns = pack_ns(s),
    };
    if (o.waits && s->gather->ops->task_bytes) {
        o.size = size_of_task;
        o.of = s->gather;
    }
    if (o.waits && s->gather->whole)
        o.taken = o.came * (1 - (double)s->gather->rest / (double)s->gather->whole);
    for (uint32_t i = s->next_unit; s->kind == SK_STAGE_BLOCKS && i < s->n_blocks; i++) {
        o.out += (double)s->blocks[i].bytes; /* blocks that have not been passed on yet */
        o.rows_out += (double)s->blocks[i].n_rows;
    }
    return o;
}

static void estimate(const struct sk_step *x, struct sk_exec_stats *st) {
    for (uint32_t i = 0; i < x->n; i++) {
        x->facts[i] = facts_of(x, &x->s[i]);
        x->facts[i].live_ns = (double)x->s[i].phase_live_ns;
    }
    for (uint32_t i = 0; i < x->slots.n; i++) {
        const struct sk_stask *t = x->slots.p[i];
        if (!t || t->over || t->cancelled || t->inner) continue;
        struct sk_share_op *o = &x->facts[t->stage];
        o->running++;
        o->running_in += (double)t->in_bytes;
        o->out_done += (double)t->out_bytes; /* of the running ones, until the loop has ended */
        if (x->asked ? !t->begun_ns : o->begun >= o->slots) continue;
        double age = (double)(x->now_ns - (x->asked ? t->begun_ns : t->launch_ns));
        o->begun++;
        o->ages_ns += age;
        o->oldest_ns = SK_MAX(o->oldest_ns, age);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_share_op *o = &x->facts[i]; /* tasks count what their blocks take in the store */
        double done = (double)x->s[i].size.out_bytes, all = done + o->out_done;
        o->out_done = all > 0 ? o->out * done / all : 0;
    }
    struct sk_share_run r = {.op = x->facts,
                             .n = x->n,
                             .cpus = (double)x->conf.cpu_e4 / SK_RES_UNIT,
                             .task_bytes = (double)x->conf.target_min_bytes,
                             .memory = x->conf.moves ? (double)x->mem.limit : 0,
                             .store = (double)SK_MAX(x->conf.store_bytes, x->mem.limit),
                             .disk_ns = x->written ? (double)x->write_ns / (double)x->written : 0,
                             .now_ns = (double)st->wall_ns,
                             .taken_rows = (double)x->taken_rows,
                             .row_ns = x->n_timed < FEW ? 0 : x->row_ns};
    struct sk_share e = st->done ? (struct sk_share){.share = 1} : sk_share(&r);
    st->share = e.share;
    st->left_ns = e.left_ns;
    st->left_guess = e.guess;
}

/* ---- statistics for people ------------------------------------------------------------------- */

static void get_gather(const struct sk_gather *g, struct sk_exec_op_stats *o) {
    g->ops->stats(g, &o->gather);
    SK_LIST_EACH (it, &g->parked) o->queued_blocks++;
    o->queued_bytes += g->rest;
}

static void get_op(const struct sk_sstage *s, struct sk_exec_op_stats *o) {
    *o = (struct sk_exec_op_stats){
        .label = s->label,
        .kind = s->kind,
        .source = s->n_inputs == 0,
        .tasks_queued = s->feed     ? 0
                        : s->source ? s->n_units - s->next_unit
                                    : s->n_ready,
        .tasks_running = s->in_flight,
        .tasks_done = s->tasks_done,
        .retries = s->retries,
        .rows_in = s->rows_in,
        .bytes_in = s->bytes_in,
        .rows_out = s->rows_out,
        .bytes_out = s->bytes_out,
        .blocks_out = s->blocks_out,
        .queued_bytes = s->ready_bytes,
        .peak_queued_bytes = s->peak_queued_bytes,
        .task_ns_total = s->task_ns_total,
        .task_ns_max = s->task_ns_max,
        .wait_input_ns = s->wait_ns[SK_WAIT_INPUT],
        .wait_memory_ns = s->wait_ns[SK_WAIT_MEMORY],
        .wait_resource_ns = s->wait_ns[SK_WAIT_RESOURCE],
        .wait_consumer_ns = s->wait_ns[SK_WAIT_CONSUMER],
        .first_out_ns = s->first_out_ns,
        .total_units = s->source && !s->feed ? (int64_t)s->n_units : -1,
        .n_fused = sk_stage_runs(s) ? s->n_fused : 0,
    };
    for (const struct sk_bundle *b = s->ready; b; b = b->next) o->queued_blocks += b->q.n;
    o->queued_blocks += s->open ? s->open->q.n : 0;
    for (uint32_t k = 0; s->sides && k < s->n_inputs; k++) o->queued_blocks += s->sides[k].q.n;
    o->n_actors = s->n_live;
    memcpy(o->fused, s->fused, sizeof o->fused);
    if (s->gather) get_gather(s->gather, o);
}

void sk_metrics_get(const struct sk_step *x, struct sk_exec_stats *st, struct sk_exec_op_stats *ops,
                    uint32_t cap) {
    *st = (struct sk_exec_stats){.wall_ns = x->now_ns - x->start_ns,
                                 .memory_limit = x->mem.limit,
                                 .memory_now = x->mem.used,
                                 .memory_peak = x->mem.peak,
                                 .memory_disk = x->mem.disk,
                                 .memory_disk_peak = x->mem.disk_peak,
                                 .forced = x->n_forced,
                                 .bottleneck = UINT32_MAX,
                                 .bottleneck_why = WHY[WHY_NONE],
                                 .n_ops = x->n,
                                 .done = x->done && !x->out.n};
    double best = x->consumer_score;
    if (best > 0) st->bottleneck_why = WHY[WHY_CONSUMER];
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->s[i].score > best) {
            best = x->s[i].score;
            st->bottleneck = i;
            st->bottleneck_why = WHY[x->s[i].score_why];
        }
        if (i < cap) get_op(&x->s[i], &ops[i]);
    }
    estimate(x, st);
    for (uint32_t i = 0; i < SK_MIN(x->n, cap); i++)
        ops[i].tasks_expected = SK_MAX((uint64_t)(x->facts[i].tasks + 0.5), ops[i].tasks_done);
}

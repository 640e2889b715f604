/* show.c - what others can see of a run: its samples over time, and its state in the engine's view
 * (engine/view.h), if the engine has one. Nothing is decided by it. The engine calls `tick` about
 * every 100 ms, also while the run's own threads sleep. Cost of a tick: 1 us an operator. */
#include <stdio.h>

#include "base/clock.h"
#include "exec/run/run_int.h"

#define TAG SK_TAG_EXEC

static uint64_t rows_in(const struct sk_sstage *s) {
    if (s->n_inputs) return 0;
    return s->n_fused ? s->fused[0].rows_out : s->rows_out;
}

void sk_run_sample(struct sk_exec *x, int64_t now_ns) {
    const struct sk_step *st = x->step;
    int64_t t = now_ns - st->start_ns;
    if (t < x->samples.next_ns) return;
    int64_t *row = sk_samples_add(&x->samples, t);
    row[SK_VS_MEMORY] = (int64_t)st->mem.used;
    row[SK_VS_DISK] = (int64_t)st->mem.disk;
    row[SK_VS_ROWS_OUT] = (int64_t)st->s[st->n - 1].rows_out;
    row[SK_VS_ROWS_IN] = 0;
    for (uint32_t i = 0; i < st->n; i++) row[SK_VS_ROWS_IN] += (int64_t)rows_in(&st->s[i]);
    for (uint32_t i = 0; i < x->samples.width - SK_VS_N; i++)
        row[SK_VS_N + i] =
            (int64_t)(st->s[i].ready_bytes + (st->s[i].gather ? st->s[i].gather->rest : 0));
}

static void label(char *to, size_t cap, const char *text) {
    (void)snprintf(to, cap, "%s", text ? text : "?");
}

/* Writes the facts of operator i, which stay the same as long as the run goes on. */
static void describe(const struct sk_exec *x, uint32_t i, struct sk_view_op *o) {
    const struct sk_stage *s = &x->stages.s[i];
    label(o->label, sizeof o->label, s->label);
    o->kind = s->kind;
    o->n_inputs = SK_MIN(s->n_inputs, SK_VIEW_INPUTS);
    for (uint32_t k = 0; k < o->n_inputs; k++) o->inputs[k] = s->inputs[k];
    for (uint32_t k = 0; k < SK_MIN(s->n_nodes, SK_VIEW_FUSED); k++)
        label(o->fused[k].label, sizeof o->fused[k].label,
              sk_plan_get(x->plan, s->nodes[k])->d.label);
}

static void count(const struct sk_exec *x, uint32_t i, const struct sk_exec_op_stats *c,
                  struct sk_view_op *o) {
    o->running = c->tasks_running;
    o->queued = c->tasks_queued;
    o->done = c->tasks_done;
    o->total = c->total_units;
    o->retries = c->retries;
    o->actors = c->n_actors;
    o->rows_in = c->rows_in;
    o->rows_out = c->rows_out;
    o->bytes_in = c->bytes_in;
    o->bytes_out = c->bytes_out;
    o->blocks_out = c->blocks_out;
    o->queued_blocks = c->queued_blocks;
    o->queued_bytes = c->queued_bytes;
    o->peak_queued_bytes = c->peak_queued_bytes;
    o->busy_ns = c->task_ns_total;
    o->wait_input_ns = c->wait_input_ns;
    o->wait_memory_ns = c->wait_memory_ns;
    o->wait_resource_ns = c->wait_resource_ns;
    o->wait_consumer_ns = c->wait_consumer_ns;
    o->n_fused = SK_MIN(c->n_fused, SK_VIEW_FUSED);
    for (uint32_t k = 0; k < o->n_fused; k++) {
        o->fused[k].rows_out = c->fused[k].rows_out;
        o->fused[k].ns = (int64_t)c->fused[k].ns;
    }
    const struct sk_sstage *s = &x->step->s[i];
    o->phase = s->ended ? SK_VP_ENDED : s->input_ended ? SK_VP_REST : SK_VP_INPUT;
    label(o->by, sizeof o->by, c->gather.by ? c->gather.by : "");
    _Static_assert(sizeof o->gather == sizeof c->gather.n, "all of a gather's numbers");
    memcpy(o->gather, c->gather.n, sizeof o->gather);
}

/* Call between enter and leave. */
static void publish(struct sk_exec *x, uint32_t state) {
    struct sk_view_run *v = x->shown;
    struct sk_exec_op_stats ops[SK_VIEW_OPS];
    struct sk_exec_stats s;
    sk_run_stats(x, &s, ops, v->n_shown);
    v->wall_ns = s.wall_ns;
    v->state = state;
    v->share = s.share > 0 || s.left_ns >= 0 ? s.share : -1; /* see struct sk_exec_stats */
    v->left_ns = s.left_ns;
    v->bottleneck = s.bottleneck;
    label(v->why, sizeof v->why, s.bottleneck_why);
    v->memory_now = s.memory_now;
    v->memory_peak = s.memory_peak;
    v->memory_limit = s.memory_limit;
    v->memory_disk = s.memory_disk;
    v->bad_rows = s.bad_rows;
    v->errored_blocks = s.errored_blocks;
    for (uint32_t i = 0; i < v->n_shown; i++) count(x, i, &ops[i], &v->ops[i]);
    v->n_samples = x->samples.n;
    memcpy(v->samples, x->samples.rows,
           (size_t)v->n_samples * x->samples.width * sizeof *v->samples);
    x->e->view->publish(x->e, &x->viewed, v);
}

static uint32_t state_of(const struct sk_exec *x) {
    return x->failed                          ? SK_VIEW_FAILED
           : x->step->done && !x->step->out.n ? SK_VIEW_DONE
                                              : SK_VIEW_RUNNING;
}

static bool tick(struct sk_viewed *viewed, int64_t now_ns) {
    struct sk_exec *x = sk_container_of(viewed, struct sk_exec, viewed);
    if (!sk_inbox_try_enter(x->inbox)) return false;
    uint32_t state = state_of(x);
    if (state == SK_VIEW_RUNNING) sk_run_sample(x, now_ns);
    publish(x, state);
    sk_inbox_leave(x->inbox);
    return true;
}

sk_rc sk_run_show(struct sk_exec *x, struct sk_err *err) {
    uint32_t width = SK_VS_N + SK_MIN(x->stages.n, SK_VIEW_OPS);
    int64_t *rows = sk_alloc(TAG, SK_VIEW_SAMPLES * width * sizeof *rows);
    if (!rows) return SK_ERR(err, SK_ENOMEM, "run of %u stages", x->stages.n);
    sk_samples_init(&x->samples, rows, SK_VIEW_SAMPLES, width);
    if (x->e->view && !(x->shown = sk_calloc(TAG, sizeof *x->shown)))
        return SK_ERR(err, SK_ENOMEM, "run of %u stages", x->stages.n);
    return SK_OK;
}

void sk_run_show_begin(struct sk_exec *x, int64_t now_ns) {
    sk_run_sample(x, now_ns);
    if (!x->shown) return;
    *x->shown = (struct sk_view_run){.started_ns = x->step->start_ns,
                                     .n_ops = x->stages.n,
                                     .n_shown = SK_MIN(x->stages.n, SK_VIEW_OPS),
                                     .share = -1,
                                     .left_ns = -1};
    for (uint32_t i = 0; i < x->shown->n_shown; i++) describe(x, i, &x->shown->ops[i]);
    x->viewed.tick = tick;
    x->e->view->begin(x->e, &x->viewed);
    publish(x, state_of(x));
}

void sk_run_show_end(struct sk_exec *x) {
    if (!x->viewed.tick) return;
    uint32_t state = state_of(x);
    publish(x, state == SK_VIEW_RUNNING ? SK_VIEW_STOPPED : state);
    x->e->view->end(x->e, &x->viewed);
    x->viewed.tick = NULL;
}

void sk_run_made(struct sk_exec *x, uint64_t block, uint64_t task) {
    if (x->e->view) x->e->view->flow(x->e, block, task, sk_now_ns());
}

void sk_run_took(struct sk_exec *x, uint64_t block, uint64_t task) {
    if (x->e->view) x->e->view->flow(x->e, block, task, 0);
}

/* event.c - turns the engine's events about a run's tasks into events of step.c: notes of blocks
 * and tasks are parsed and checked. */
#include "base/clock.h"
#include "exec/run/run_int.h"

/* Takes a step, unless the run has failed: a step could launch tasks. */
static void step(struct sk_exec *x, const struct sk_step_ev *ev) {
    struct sk_err err = {0};
    if (x->failed) return;
    sk_rc rc = sk_step_event(x->step, ev, sk_now_ns(), &err);
    if (rc != SK_OK) sk_run_fail(x, rc, &err, (sk_oid){0});
}

/* Returns the task of an event while the run still waits for it; NULL when the task is over or
 * cancelled, or the run has failed. An engine without notes may end a task twice: its notes report
 * a failure before the last event arrives (notes.c). */
static const struct sk_stask *awaited(const struct sk_exec *x, const struct sk_event *ev) {
    const struct sk_stask *t = sk_step_task(x->step, ev->tag);
    return t && !t->over && !t->cancelled && !x->failed ? t : NULL;
}

union value_note {
    struct sk_value_note head;
    uint8_t bytes[SK_NOTE_MAX];
};

/* Parses the event as a value for a gather; false: it is none. Copies the note, which may be
 * unaligned, to `to`. */
static bool read_value(const struct sk_exec *x, const struct sk_event *ev, union value_note *to,
                       struct sk_step_ev *out) {
    const struct sk_value_note *h = &to->head;
    if (!x->conf.gathers || ev->note.n < sizeof *h || ev->note.n > SK_NOTE_MAX) return false;
    memcpy(to->bytes, ev->note.p, ev->note.n);
    if (h->magic != SK_VALUE_NOTE || !x->conf.gathers->note_ok(ev->note)) return false;
    out->kind = SK_SEV_YIELDED;
    out->block = (struct sk_bref){
        .oid = ev->oid.v, .n_rows = h->rows, .bytes = h->bytes, .schema = h->schema};
    out->cost = ev->size_bytes;
    out->note = h;
    return true;
}

static void on_yield(struct sk_exec *x, const struct sk_event *ev, union value_note *value,
                     struct sk_step_ev *out) {
    struct sk_block_note note;
    const struct sk_stask *t = awaited(x, ev);
    out->kind = SK_SEV_TICK;
    if (t && read_value(x, ev, value, out)) {
        sk_run_made(x, ev->oid.v, ev->task.v);
        return;
    }
    if (!t || ev->note.n < sizeof note ||
        (memcpy(&note, ev->note.p, sizeof note), note.magic != SK_BLOCK_NOTE)) {
        struct sk_err err = {0};
        char name[40];
        sk_run_release(x->e, ev->oid);
        if (!t) return;
        sk_rc rc = SK_ERR(&err, SK_ECORRUPT, "%s, %s: yielded a value that is no block",
                          x->step->s[t->stage].label, sk_run_task_name(t, name));
        sk_run_fail(x, rc, &err, (sk_oid){0});
        return;
    }
    if (note.bad) {
        sk_run_bad(x, t, ev->oid, note.bad);
        return;
    }
    out->kind = SK_SEV_YIELDED;
    out->block = (struct sk_bref){
        .oid = ev->oid.v, .n_rows = note.rows, .bytes = note.bytes, .schema = note.schema};
    out->cost = ev->size_bytes;
    sk_run_made(x, ev->oid.v, ev->task.v);
}

static void on_done(const struct sk_event *ev, struct sk_step_ev *out,
                    struct sk_task_note_op *fused) {
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
    const struct sk_stask *t = awaited(x, ev);
    out->kind = SK_SEV_FAILED;
    if (!t) {
        sk_run_release(x->e, ev->oid);
        return;
    }
    struct sk_err err = {.code = SK_ETASK};
    if (ev->err) err = *ev->err;
    if (sk_run_left_out(x, t, ev->oid, &err, ev->actor_lives, &out->actor_dead))
        out->kind = SK_SEV_DONE;
}

static void on_moved(const struct sk_event *ev, struct sk_step_ev *out) {
    out->kind = ev->kind == SK_EV_SPILLED ? SK_SEV_SPILLED : SK_SEV_RESTORED;
    out->block.oid = ev->oid.v;
    out->run_ns = ev->run_ns;
}

static void take_event(struct sk_exec *x, const struct sk_event *ev) {
    struct sk_task_note_op fused[16];
    struct sk_step_ev out = {.kind = SK_SEV_TICK, .task = ev->tag, .attempt = ev->attempt};
    if (ev->kind == SK_EV_STARTED) return;
    union value_note value;
    if (ev->kind == SK_EV_YIELDED) on_yield(x, ev, &value, &out);
    else if (ev->kind == SK_EV_DONE) on_done(ev, &out, fused);
    else if (ev->kind == SK_EV_SPILLED || ev->kind == SK_EV_RESTORED) on_moved(ev, &out);
    else on_failed(x, ev, &out);
    step(x, &out);
    sk_run_settle(x, SK_OK, NULL);
}

static void lost_event(struct sk_exec *x) {
    struct sk_err err = {0};
    sk_run_fail(x, SK_ERR(&err, SK_ENOMEM, "pipeline: no memory for an event"), &err, (sk_oid){0});
}

static bool wakes(struct sk_exec *x) {
    return x->failed || x->step->out.n || x->step->done || sk_step_awaits(x->step);
}

const struct sk_inbox_run sk_run_events = {.take = take_event, .lost = lost_event, .wakes = wakes};

/* share.c - estimates how much time a run still takes. Pure.
 *
 * Four steps:
 *   1. how many tasks each stage will have: a source knows it; any other stage has as many as its
 *      whole input gives, which follows from what its inputs have yielded for the tasks they have
 *      done; stages in front of a LIMIT have only those that it needs;
 *   2. how long a task takes: the mean of the done ones, by bytes where a source knows those of its
 *      units; of a stage that waits for all of its
 *      input, what the packing of that input took lets expect, and the time in which the disk reads
 *      what has no room in the store;
 *   3. how long the rest takes: the stages from one that waits to the next one form a phase, and
 *      phases follow each other. A phase takes as long as its CPUs, its disk, its slowest stage or
 *      the consumer need. Of a stage that waits as many tasks run at once as have room in memory;
 *   4. the same formula says how long the done work should have taken. What it took in truth, over
 *      that, is the factor by which the rest is longer, too: queues, disk, a loaded machine.
 *
 * A stage whose first tasks still run could take any time, so until they end there is no estimate,
 * unless the stage waits (2). The time of a stage that has not begun is a guess, and so is
 * that of reading from a disk that has written nothing yet, and the answer says so. The
 * share is that of time: passed / (passed + left). */
#include "exec/step/share.h"

#include <math.h>

/* The tasks of a stage that waits take this times as long as the packing of its input: 3 to 6, and,
 * if the stage has several inputs, 9 to 14 (bench/py/progress_error.py). */
#define REDUCE_PER_PACK 5.0
/* That guess counts like this number of done tasks. */
#define GUESS_TASKS 16.0
/* The factor of step 4 is within these bounds. */
#define SLOWER_LEAST 0.7
#define SLOWER_MOST 4.0
/* It moves slowly at the begin of a phase, as if this part of the phase's work had gone before. */
#define SLOWER_PART 0.2

static double at_least(double a, double b) { return a > b ? a : b; }
static double at_most(double a, double b) { return a < b ? a : b; }

/* ---- how many tasks -------------------------------------------------------------------------- */

struct size {
    double in, work; /* bytes of a task: of its input; for its work */
};
static struct size size_of(const struct sk_share_run *r, const struct sk_share_op *o) {
    struct size s = {r->task_bytes, 0};
    if (o->size && o->all_in > 0) o->size(o->of, o->all_in, &s.in, &s.work);
    return s;
}

static double expected_tasks(const struct sk_share_run *r, const struct sk_share_op *o) {
    double begun = o->done + o->running, begun_in = o->done_in + o->running_in;
    if (o->over) return begun;
    if (o->units >= 0) return at_least(o->units, begun);
    /* several reduces may take the same rows, so it counts how many of the rows no task has yet */
    if (o->taken > begun_in / 8 && begun > 0)
        return at_least((begun + o->queued) * o->all_in / o->taken, begun);
    if (!o->passes && begun > 0 && begun_in > 0)
        return at_least(o->all_in * begun / begun_in, begun);
    if (begun + o->queued > 0 && o->came > 0)
        return at_least((begun + o->queued) * o->all_in / o->came, 1);
    if (o->passes) return 0;
    return o->all_in > 0 ? ceil(o->all_in / at_least(size_of(r, o).in, 1)) : begun + o->queued;
}

static void expect(const struct sk_share_run *r, struct sk_share_op *o) {
    if (!o->runs) {
        bool cuts = o->limit >= 0 && o->all_in_rows > o->limit;
        double part = cuts ? o->limit / o->all_in_rows : 1;
        o->all_out = o->limit >= 0 || o->all_in > 0 ? o->all_in * part : o->out;
        o->all_rows = o->limit >= 0 || o->all_in > 0 ? o->all_in_rows * part : o->rows_out;
        return;
    }
    o->tasks = expected_tasks(r, o);
    if (o->passes) { /* its tasks change only a part of what flows through */
        double change = o->done > 0 ? (o->out_done - o->done_in) * o->tasks / o->done : 0;
        o->all_out = at_least(o->all_in + change, o->out);
        o->all_rows = o->all_in > 0 ? o->all_in_rows * at_most(o->all_out / o->all_in, 1) : 0;
        return;
    }
    o->all_out = o->done > 0      ? o->out_done * o->tasks / o->done
                 : o->running > 0 ? o->out * o->tasks / o->running
                                  : o->all_in;
    o->all_out = at_least(o->all_out, o->out);
    o->all_rows = o->out > 0 ? o->rows_out * o->all_out / o->out : o->all_in_rows;
}

/* Of the stages in front of a LIMIT only the part is needed that gives its rows. */
static void cut(const struct sk_share_run *r) {
    for (uint32_t i = r->n; i-- > 0;) {
        struct sk_share_op *o = &r->op[i];
        const struct sk_share_op *p = o->parent < r->n ? &r->op[o->parent] : NULL;
        o->part = !p || p->waits ? 1 : p->part;
        if (p && p->limit >= 0 && p->all_in_rows > p->limit) o->part *= p->limit / p->all_in_rows;
        o->tasks = at_least(o->tasks * o->part, o->done + (o->running > 0));
    }
}

static void count(const struct sk_share_run *r) {
    for (uint32_t i = 0; i < r->n; i++) {
        struct sk_share_op *o = &r->op[i];
        o->phase = 0;
        o->tasks = o->task_ns = o->all_in = o->all_in_rows = 0;
    }
    for (uint32_t i = 0; i < r->n; i++) {
        struct sk_share_op *o = &r->op[i];
        expect(r, o);
        o->phase += o->waits;
        if (o->parent >= r->n) continue;
        struct sk_share_op *p = &r->op[o->parent];
        p->phase = p->phase > o->phase ? p->phase : o->phase;
        p->all_in += o->all_out;
        p->all_in_rows += o->all_rows;
    }
    cut(r);
}

/* ---- how many at once, and what they read from disk ------------------------------------------ */

/* The bytes of a stage's whole input that will be on disk when its tasks begin: they fill the store
 * first. */
static double on_disk(const struct sk_share_run *r, const struct sk_share_op *o) {
    return o->waits && r->memory > 0 ? at_least(o->all_in - r->store, 0) : 0;
}

/* A task of a stage that waits has its input, its output and its work in memory; until one has
 * ended the scheduler takes the output to be as large as the input (view.c). */
static void fit(const struct sk_share_run *r, struct sk_share_op *o) {
    o->at_once = o->slots;
    o->read_ns = 0;
    if (!o->waits || r->memory <= 0 || o->tasks <= 0) return;
    double in = o->all_in / o->tasks, out = o->done > 0 ? o->out_done / o->done : in,
           one = in + out + size_of(r, o).work;
    if (one > 0) o->at_once = at_least(at_most(o->slots, floor(r->memory / one)), 1);
    o->read_ns = on_disk(r, o) * r->disk_ns / o->tasks;
}

/* ---- how long a task takes ------------------------------------------------------------------- */

/* The time of all tasks of a stage that waits, before they begin: what the packing of its input
 * lets expect, and, if other operators follow in its tasks, as long as all the work before it. */
static double guess_of_waiting(const struct sk_share_run *r, uint32_t i) {
    double pack = 0, work = 0;
    for (uint32_t k = 0; k < i; k++) {
        const struct sk_share_op *o = &r->op[k];
        if (o->phase + 1 != r->op[i].phase) continue;
        if (o->done > 0) pack += o->pack_ns * o->tasks / o->done;
        work += o->tasks * o->task_ns;
    }
    return REDUCE_PER_PACK * pack * (r->op[i].n_inputs > 1 ? 2 : 1) +
           (r->op[i].n_fused > 1 ? work : 0);
}

/* The first of these tasks are slower than the rest: the guess counts like some of them. A
 * task that runs will take half as long again as it has taken so far. */
static double task_of_waiting(const struct sk_share_run *r, uint32_t i) {
    const struct sk_share_op *o = &r->op[i];
    double guess = guess_of_waiting(r, i) / o->tasks + o->read_ns,
           weight = at_most(o->tasks / 8, GUESS_TASKS);
    if (o->done > 0) return (guess * weight + o->recent_ns * o->done) / (weight + o->done);
    return at_least(guess, (guess * weight + 1.5 * o->oldest_ns) / (weight + 1));
}

/* True if the tasks of a stage have begun and could still take any time. Of many tasks those that
 * run first, one for each worker, tell little: they import modules and touch fresh memory. */
static bool tells_nothing(const struct sk_share_op *o) {
    double first = o->tasks > 8 * o->slots ? o->slots : 0;
    return !o->waits && !o->passes && o->running > 0 && o->done <= first;
}

/* Returns false if a stage could take any time. */
static bool time_tasks(const struct sk_share_run *r, bool *guess) {
    double ns = 0, n = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        struct sk_share_op *o = &r->op[i];
        if (!o->runs || o->tasks <= 0) continue;
        fit(r, o);
        if (tells_nothing(o)) return false;
        *guess = *guess || (o->done <= 0 && !o->passes && (!o->waits || o->n_fused > 1));
        *guess = *guess || (o->done <= 0 && on_disk(r, o) > 0 && r->disk_ns <= 0);
        if (o->waits) o->task_ns = task_of_waiting(r, i);
        else if (o->done > 0) o->task_ns = o->recent_ns * (o->larger > 0 ? o->larger : 1);
        ns += o->done_ns;
        n += o->done;
    }
    for (uint32_t i = 0; i < r->n; i++) { /* the rest: as long as the usual task of the run */
        struct sk_share_op *o = &r->op[i];
        if (o->runs && !o->waits && o->done <= 0 && n > 0) o->task_ns = ns / n;
    }
    return n > 0;
}

/* ---- how long the rest takes ----------------------------------------------------------------- */

/* The part of the begun tasks that is done, in tasks. */
static double partly(const struct sk_share_op *o) {
    if (o->begun <= 0 || o->task_ns <= 0) return 0;
    return at_most(o->ages_ns / o->task_ns, 0.9 * o->begun);
}

/* The time that a stage needs for the tasks that are not done, if nothing else holds it back. */
static double rest_of(const struct sk_share_op *o) {
    double open = o->tasks - o->done, part = partly(o);
    if (open <= 0) return 0;
    double even = at_least(open - part, 0) / o->at_once;
    if (open <= 4 * o->at_once)
        even = at_least(even, ceil(open / o->at_once - 1e-9) - part / at_least(o->begun, 1));
    return even * o->task_ns;
}

struct phase {
    double rest, past; /* ns: of what is open, of what is done */
};

static struct phase of_phase(const struct sk_share_run *r, uint32_t phase) {
    struct phase cpu = {0}, disk = {0}, slowest = {0};
    for (uint32_t i = 0; i < r->n; i++) {
        const struct sk_share_op *o = &r->op[i];
        if (!o->runs || o->tasks <= 0 || o->phase != phase) continue;
        double tasks = at_least(o->tasks - o->done - partly(o), 0), open = tasks * o->task_ns;
        double past = o->done > 0 ? o->done_ns + partly(o) * o->task_ns : 0;
        disk.rest += tasks * o->read_ns;
        disk.past += o->done > 0 ? (o->done + partly(o)) * o->read_ns : 0;
        cpu.rest += open * o->cpus / r->cpus;
        cpu.past += past * o->cpus / r->cpus;
        slowest.rest = at_least(slowest.rest, rest_of(o));
        slowest.past = at_least(slowest.past, past / o->at_once);
    }
    return (struct phase){at_least(at_least(cpu.rest, disk.rest), slowest.rest),
                          at_least(at_least(cpu.past, disk.past), slowest.past)};
}

static double consumer_rest(const struct sk_share_run *r) {
    const struct sk_share_op *last = &r->op[r->n - 1];
    return at_least(last->all_rows - r->taken_rows, 0) * r->row_ns;
}

struct sk_share sk_share(const struct sk_share_run *r) {
    struct sk_share out = {.left_ns = -1};
    if (!r->n || r->cpus <= 0) return out;
    count(r);
    if (!time_tasks(r, &out.guess)) return out;
    double left = 0, slower = 1;
    uint32_t last = r->op[r->n - 1].phase;
    for (uint32_t p = 0; p <= last; p++) {
        struct phase f = of_phase(r, p);
        double before = SLOWER_PART * (f.past + f.rest); /* counts as work of the last factor */
        if (f.past > 0) slower = (r->op[p].live_ns + slower * before) / (f.past + before);
        slower = at_least(at_most(slower, SLOWER_MOST), SLOWER_LEAST);
        double rest = slower * f.rest;
        left += p == last ? at_least(rest, consumer_rest(r)) : rest;
    }
    if (!(left < 9e17)) return out; /* too long to be told */
    out.left_ns = (int64_t)left;
    out.share = r->now_ns > 0 ? at_most(r->now_ns / (r->now_ns + left), 0.999) : 0;
    return out;
}

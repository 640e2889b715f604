/* stall.c - says in words what each stage waits for: for a stall (a bug, or a plan that cannot
 * run), and for a user who asks why no output arrives. Pure. */
#include <stdarg.h>
#include <stdio.h>

#include "exec/exec_int.h"

struct text {
    char *p;
    size_t cap, n;
};

static void SK_PRINTF(2, 3) put(struct text *t, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n =
        vsnprintf(t->n < t->cap ? t->p + t->n : NULL, t->n < t->cap ? t->cap - t->n : 0, fmt, ap);
    va_end(ap);
    t->n += (size_t)SK_MAX(n, 0);
}

struct begun {
    uint32_t n;
    int64_t first_ns;
};

static void look(const struct sk_step *x, const struct sk_list *tasks, struct begun *b) {
    SK_LIST_EACH (it, tasks) {
        const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        if (t->over || (x->asked && !t->begun_ns)) continue;
        b->n++;
        b->first_ns = SK_MIN(b->first_ns, x->asked ? t->begun_ns : t->launch_ns);
    }
}

/* A launched task may wait in the engine, for a worker or behind another task: only the engine
 * knows. */
static void put_tasks(struct text *t, const struct sk_step *x, const struct sk_sstage *s,
                      int64_t now_ns) {
    struct begun b = {0, now_ns};
    look(x, &s->window, &b);
    look(x, &s->early, &b);
    look(x, &s->inner, &b);
    put(t, "%u %s", b.n, x->asked ? "running" : "launched");
    if (b.n) put(t, " (the longest for %.1f s)", (double)(now_ns - b.first_ns) / 1e9);
    if (x->asked && s->in_flight > b.n) put(t, ", %u sent but not begun", s->in_flight - b.n);
}

/* Writes why launch.c last launched no task of the stage: a guard's reason, or the policy's. */
static void put_wait(struct text *t, const struct sk_step *x, const struct sk_sstage *s) {
    static const char *const MORE[SK_STOP_N] = {
        [SK_STOP_ANSWER] = ": what takes its output awaits an answer from outside of the run",
        [SK_STOP_WINDOW] = ": too many tasks behind an earlier one that runs",
        [SK_STOP_TURN] = ": another input comes first",
        [SK_STOP_RAMP] = ": a limit below may not need it",
        [SK_STOP_CAP] = ": it runs as many tasks as it may",
        [SK_STOP_QUEUE] = ": it would only queue, and half of memory is taken",
        [SK_STOP_READER] = ": half of it waits before the next operator, which is busy",
        [SK_STOP_PROBE] = ": its first task will say how much it yields",
        [SK_STOP_EARLY] = ": what it makes out of order would have to be kept",
    };
    if (s->feed && s->in_flight) {
        put(t, ", waits for the block that this process makes");
        return;
    }
    switch (sk_stage_wait(s)) {
    case SK_WAIT_INPUT: put(t, ", waits for its input"); break;
    case SK_WAIT_MEMORY:
        put(t, ", waits for memory (%.1f of %.1f MiB in blocks, %.1f promised to tasks)",
            (double)x->mem.used / 1048576.0, (double)x->mem.limit / 1048576.0,
            (double)x->mem.reserved / 1048576.0);
        if (x->mem.disk) put(t, " and %.1f MiB on disk", (double)x->mem.disk / 1048576.0);
        break;
    case SK_WAIT_RESOURCE:
        put(t,
            s->kind == SK_STAGE_ACTORS ? ", waits for an actor"
                                       : ", waits for a free slot (cpu %g each)",
            (double)s->cpu_e4 / 1e4);
        break;
    case SK_WAIT_CONSUMER:
        put(t, ", waits for the consumer (%u blocks are ready)", x->out.n);
        break;
    case SK_WAIT_TURN: put(t, ", waits for its turn"); break;
    case SK_WAIT_NONE:
    case SK_WAIT_OVER:
    case SK_WAIT_N: put(t, ", has started all it has"); break;
    }
    if (MORE[s->stop]) put(t, "%s", MORE[s->stop]);
}

static void put_gather(struct text *t, const struct sk_gather *g) {
    char text[200];
    if (g->ops->text(g, text, sizeof text)) put(t, "%s, ", text);
}

static void put_stage(struct text *t, const struct sk_step *x, uint32_t i, int64_t now_ns) {
    const struct sk_sstage *s = &x->s[i];
    put(t, "%s%s: ", t->n ? "; " : "", s->label);
    if (s->ended) {
        put(t, "finished");
        return;
    }
    if (!sk_stage_runs(s)) {
        put(t, "waits for its input");
        return;
    }
    if (s->gather) put_gather(t, s->gather);
    put_tasks(t, x, s, now_ns);
    put(t, ", %llu done", (unsigned long long)s->tasks_done);
    if (s->n_starting) put(t, ", %u of %u actors starting", s->n_starting, s->n_live);
    put_wait(t, x, s);
    if (s->held_n)
        put(t, ", %llu blocks wait for task %llu", (unsigned long long)s->held_n,
            (unsigned long long)sk_container_of(s->window.next, struct sk_stask, link)->seq);
}

size_t sk_stall_text(const struct sk_step *x, int64_t now_ns, char *buf, size_t cap) {
    struct text t = {buf, cap, 0};
    if (cap) buf[0] = 0;
    for (uint32_t i = 0; i < x->n; i++) put_stage(&t, x, i, now_ns);
    return t.n;
}

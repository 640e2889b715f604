/* memory_sim.c - the rules of the memory budget on random machines: tasks that grow, actors, a
 * store that fills and spills, other programs.
 *
 * Each machine has CPUs, a limit, memory that other programs use, and tasks whose heap grows to a
 * peak at some rate, stays there, and ends. Memory is measured when the rules ask for it; a kill
 * takes some time (in some machines longer than a task is ever paused); a spill takes time by its
 * bandwidth. A task that grows while the rules say pause stops growing until a later measurement
 * lets it go on. The scheduler below is as simple as can be: it obeys sk_memory_launch. Checked:
 * - every run ends, and each task ends with a value or an error;
 * - no task is stopped while the memory used, less what is being freed, is within the limit, and
 *   none that is within its share;
 * - a task that may be run again fails only when it does not fit alone, or beside tasks that do
 *   not end; a task that cannot fit fails;
 * - no task is paused for longer than SK_MEMORY_PAUSE_NS and the time between two measurements;
 * - the memory used exceeds the limit by no more than what tasks can fill between two
 *   measurements and during a kill. */
#include <stdio.h>

#include "engine/rules/memory.h"
#include "test.h"

#define MB UINT64_C(1048576)
#define STEP_NS INT64_C(1000000)
#define FILL (UINT64_C(8) << 20) /* bytes in a step, all processes together: 8 GB/s */
enum { CPUS = 8, TASKS = 40, ACTORS = 3, RETRIES = 3 };
enum state { WAITS, WAITS_ALONE, RUNS, DONE, FAILED };

struct task {
    enum state state;
    uint64_t peak, rate;
    int64_t stay_ns;
    bool retriable, alone;
    uint32_t n_oom;
};
struct proc { /* a worker */
    bool up, actor, going;
    int32_t task; /* -1: idle */
    uint64_t heap, left_over;
    /* seen: its heap at the last measurement; ahead: growth that the rules expected when they
     * stopped it */
    uint64_t seen, ahead;
    bool held;
    int64_t since_ns, end_ns, gone_ns;
    bool beside;
};
struct world {
    struct sk_memory m;
    int64_t now, next_look;
    uint64_t limit, others, store, warm, store_want, spill_per_step;
    uint64_t fill; /* bytes that all growing processes fill in a step */
    struct task t[TASKS];
    struct proc p[CPUS + ACTORS];
    uint32_t n_tasks, n_cpus, n_procs;
    uint64_t n_looks, n_stops, n_alone, n_failed, n_holds, worst;
    int64_t held_ns; /* time since which a task is paused; 0: none is */
    int64_t kill_ns, last_stop;
};

static uint64_t used_of(const struct world *w) {
    uint64_t n = w->others + w->store + w->warm;
    for (uint32_t i = 0; i < w->n_procs; i++) n += w->p[i].up ? w->p[i].heap : 0;
    return n;
}

static bool running(const struct proc *p) {
    return p->up && !p->actor && !p->going && p->task >= 0;
}

static uint32_t others_run(const struct world *w, const struct proc *but) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->n_procs; i++)
        n += &w->p[i] != but && running(&w->p[i]) && !w->t[w->p[i].task].alone;
    return n;
}

static void make(struct world *w) {
    *w = (struct world){.now = 1, .m.every_ns = INT64_C(250000000)};
    w->limit = (256 + test_below(8192)) * MB;
    w->others = test_below(w->limit / 4 + 1);
    w->n_cpus = 1 + (uint32_t)test_below(CPUS);
    w->n_procs = w->n_cpus + (uint32_t)test_below(ACTORS + 1);
    w->n_tasks = 1 + (uint32_t)test_below(TASKS);
    w->kill_ns = (int64_t)test_below(test_below(8) ? 50 : 2000) * STEP_NS;
    w->spill_per_step = 1 * MB;
    w->fill = FILL;
    for (uint32_t i = w->n_cpus; i < w->n_procs; i++)
        w->p[i] = (struct proc){
            .up = true, .actor = true, .task = -1, .heap = test_below(w->limit / 8), .since_ns = 1};
    uint64_t hard = test_below(3); /* few, some, many that are large */
    for (uint32_t i = 0; i < w->n_tasks; i++) {
        struct task *t = &w->t[i];
        uint64_t most = test_below(4) < hard ? w->limit + w->limit / 4 : w->limit / 8;
        t->peak = 1 + test_below(most);
        uint64_t rate = test_below(test_below(2) ? FILL : FILL / 64);
        t->rate = SK_MAX(t->peak / 20000 + 1, rate); /* 20 s at most */
        t->stay_ns = (int64_t)test_below(400) * STEP_NS;
        t->retriable = test_below(8) != 0;
    }
}

static void launch(struct world *w) {
    for (;;) {
        struct sk_memory_run r = {.now_ns = w->now};
        int32_t next[2] = {-1, -1};
        for (uint32_t i = 0; i < w->n_tasks; i++) {
            enum state s = w->t[i].state;
            if (s == WAITS_ALONE) r.alone_waits = true;
            if ((s == WAITS || s == WAITS_ALONE) && next[s == WAITS_ALONE] < 0)
                next[s == WAITS_ALONE] = (int32_t)i;
        }
        for (uint32_t i = 0; i < w->n_procs; i++) {
            const struct proc *p = &w->p[i];
            if (!running(p)) continue;
            if (w->t[p->task].alone) r.alone_runs = true, r.alone_since_ns = p->since_ns;
            else r.n_running++;
        }
        enum sk_place_launch mode = sk_memory_free(&w->m, r.alone_waits || r.alone_runs)
                                        ? SK_LAUNCH_ALL
                                        : sk_memory_launch(&w->m, &r);
        int32_t t = mode == SK_LAUNCH_NONE ? -1 : next[mode == SK_LAUNCH_ALONE];
        uint32_t k = 0;
        while (k < w->n_cpus && ((w->p[k].up && w->p[k].task >= 0) || w->p[k].going)) k++;
        if (t < 0 || k == w->n_cpus) return;
        struct proc *p = &w->p[k];
        if (!p->up) *p = (struct proc){.up = true};
        p->task = t;
        p->since_ns = w->now;
        p->end_ns = 0;
        p->left_over = p->heap;
        w->t[t].state = RUNS;
        if (mode != SK_LAUNCH_ALL) sk_memory_launched(&w->m, w->now);
    }
}

static void gone(struct world *w, struct proc *p) {
    /* as memory.c of the local engine: the task is run again alone, or fails */
    struct task *t = p->task >= 0 ? &w->t[p->task] : NULL;
    if (t) {
        t->n_oom++;
        bool final = !t->retriable || (t->alone && !p->beside) || t->n_oom >= RETRIES;
        /* only a task that does not fit fails for good */
        if (final && t->retriable && !p->beside) {
            uint64_t rest = w->others + w->store;
            for (uint32_t i = 0; i < w->n_procs; i++)
                rest += w->p[i].up && &w->p[i] != p ? w->p[i].heap : 0;
            CHECK_MSG(t->peak + rest + FILL * 6 + p->ahead > w->limit,
                      "a task of %llu MB fails beside %llu MB, and %llu are allowed",
                      (unsigned long long)(t->peak / MB), (unsigned long long)(rest / MB),
                      (unsigned long long)(w->limit / MB));
        }
        t->state = final ? FAILED : WAITS_ALONE;
        w->n_failed += final;
        w->n_alone += !final;
        t->alone |= !final;
    }
    *p = (struct proc){.task = -1};
}

static void grow(struct world *w) {
    uint64_t room = w->fill;
    for (uint32_t i = 0; i < w->n_procs; i++) {
        struct proc *p = &w->p[i];
        if (!p->up) continue;
        if (p->going && w->now >= p->gone_ns) {
            gone(w, p);
            continue;
        }
        if (p->task < 0 || p->held) continue;
        struct task *t = &w->t[p->task];
        uint64_t goal = SK_MAX(t->peak, p->left_over);
        uint64_t n = SK_MIN(SK_MIN(t->rate, room), goal - SK_MIN(p->heap, goal));
        p->heap += n;
        room -= n;
        if (p->going || p->heap < goal) continue;
        if (!p->end_ns) p->end_ns = w->now + t->stay_ns;
        if (w->now < p->end_ns) continue;
        t->state = DONE;
        p->task = -1;
        /* the heap that the process did not give back */
        p->heap = test_below(2) ? p->heap / 16 : 0;
        w->store_want += test_below(4 * MB);
    }
}

static void store(struct world *w, uint64_t max) {
    /* objects are put, spilled if there are too many, or freed */
    uint64_t n = SK_MIN(w->store_want, MB);
    if (w->store + n <= max) {
        uint64_t reused = SK_MIN(n, w->warm);
        w->warm -= reused;
        w->store += n;
        w->store_want -= n;
    } else if (w->store > max) {
        n = SK_MIN(w->spill_per_step, w->store);
        w->store -= n;
        w->warm += n;
    }
    if (test_below(50) == 0) {
        n = test_below(w->store + 1);
        w->store -= n;
        w->warm += n;
    }
}

static uint64_t look(struct world *w) {
    struct sk_memory_proc v[CPUS + ACTORS];
    uint32_t who[CPUS + ACTORS], n = 0;
    uint64_t going = 0;
    w->n_looks++;
    for (uint32_t i = 0; i < w->n_procs; i++) {
        const struct proc *p = &w->p[i];
        if (!p->up) continue;
        const struct task *t = p->task >= 0 ? &w->t[p->task] : NULL;
        who[n] = i;
        v[n++] = (struct sk_memory_proc){.heap_bytes = p->heap,
                                         .grown_bytes = p->heap - SK_MIN(p->seen, p->heap),
                                         .since_ns = p->since_ns,
                                         .what = p->going   ? SK_MEMORY_GOING
                                                 : p->actor ? SK_MEMORY_ACTOR
                                                 : t        ? SK_MEMORY_BUSY
                                                            : SK_MEMORY_IDLE,
                                         .retriable = t && t->retriable,
                                         .alone = t && t->alone};
        if (p->going) going += p->heap;
    }
    struct sk_memory_view view = {.now_ns = w->now,
                                  .limit_bytes = w->limit,
                                  .used_bytes = used_of(w),
                                  .slack_bytes = w->limit / 16,
                                  .store_bytes = w->store,
                                  .warm_bytes = w->warm,
                                  .spills = true,
                                  .procs = v,
                                  .n_procs = n};
    struct sk_memory_plan plan;
    sk_memory_decide(&w->m, &view, &plan);
    CHECK_GT(plan.next_ns, w->now);
    w->next_look = plan.next_ns;
    CHECK_LE(plan.punch_bytes, w->warm);
    w->warm -= plan.punch_bytes;
    if (plan.leave >= 0) {
        struct proc *p = &w->p[who[plan.leave]];
        CHECK(!p->actor && p->task < 0);
        p->going = true;
        p->gone_ns = w->now + w->kill_ns;
    }
    if (plan.stop >= 0) {
        struct proc *p = &w->p[who[plan.stop]];
        CHECK_GT(view.used_bytes - going + w->m.ahead_bytes, w->limit);
        CHECK_GT(p->heap, plan.share_bytes);
        CHECK(!p->going && (p->actor || p->task >= 0));
        p->going = true;
        p->gone_ns = w->now + w->kill_ns;
        p->ahead = w->m.ahead_bytes;
        p->beside = others_run(w, p) > 0;
        w->n_stops++;
    }
    bool any = false;
    for (uint32_t i = 0; i < n; i++) { /* as memory.c of the local engine */
        struct proc *p = &w->p[who[i]];
        bool still = plan.pause && (v[i].grown_bytes || p->held);
        w->n_holds += still && !p->held && !p->going;
        p->held = still && (p->held || !p->going);
        any |= p->held;
        p->seen = p->heap;
    }
    w->held_ns = !any ? 0 : w->held_ns ? w->held_ns : w->now;
    return SK_MAX(plan.store_max_bytes, w->limit / 64);
}

static void simulate(uint64_t *looks, uint64_t *stops, uint64_t *alone, uint64_t *failed,
                     uint64_t *holds, double *worst) {
    static struct world w;
    make(&w);
    uint64_t store_max = UINT64_MAX;
    for (uint64_t step = 0;; step++) {
        CHECK_MSG(step < 2000000, "the run does not end: limit %llu MB, %u tasks",
                  (unsigned long long)(w.limit / MB), w.n_tasks);
        w.now += STEP_NS;
        grow(&w);
        store(&w, store_max);
        if (w.now >= w.next_look) store_max = look(&w);
        if (w.held_ns) CHECK_LE(w.now - w.held_ns, SK_MEMORY_PAUSE_NS);
        launch(&w);
        uint64_t used = used_of(&w);
        w.worst = SK_MAX(w.worst, used - SK_MIN(used, w.limit));
        uint32_t over = 0;
        for (uint32_t i = 0; i < w.n_tasks; i++)
            over += w.t[i].state == DONE || w.t[i].state == FAILED;
        if (over == w.n_tasks) break;
    }
    /* Two measurements and a kill, and the small excess that may wait; warm pages and idle
     * processes are given back one measurement earlier. */
    uint64_t may = (FILL + MB) * (uint64_t)(12 + w.kill_ns / STEP_NS) + w.limit / 32 +
                   w.limit / 64 + w.limit / 16;
    /* the actors, which do not grow here, take 3/8 */
    if (w.others + w.limit / 8 * 3 < w.limit)
        CHECK_MSG(w.worst <= may, "%llu MB over a limit of %llu",
                  (unsigned long long)(w.worst / MB), (unsigned long long)(w.limit / MB));
    for (uint32_t i = 0; i < w.n_tasks; i++)
        if (w.t[i].peak > w.limit + FILL * 60 + w.limit / 8) CHECK_EQ(w.t[i].state, FAILED);
    *looks += w.n_looks;
    *stops += w.n_stops;
    *alone += w.n_alone;
    *failed += w.n_failed;
    *holds += w.n_holds;
    *worst = SK_MAX(*worst, (double)w.worst / (double)w.limit);
}

TEST_SLOW(memory_random_machines, 120) {
    uint64_t looks = 0, stops = 0, alone = 0, failed = 0, holds = 0;
    double worst = 0;
    int n = test_rounds(100);
    for (int i = 0; i < n; i++) simulate(&looks, &stops, &alone, &failed, &holds, &worst);
    printf("# %d machines: %llu looks, %llu stops, %llu run again alone, %llu failed, %llu held; "
           "at worst %.0f %% of the limit above it\n",
           n, (unsigned long long)looks, (unsigned long long)stops, (unsigned long long)alone,
           (unsigned long long)failed, (unsigned long long)holds, worst * 100);
    CHECK_GT(stops, 0);
    CHECK_GT(alone, 0);
    CHECK_GT(failed, 0);
    CHECK_GT(holds, 0);
}

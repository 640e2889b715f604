/* memory.c - see memory.h. Cost: a measurement takes O(processes), a stop O(processes squared) at
 * worst. */
#include "engine/rules/memory.h"

/* assumed fastest rate at which a process fills memory; from it follows the least time until the
 * free memory is used up */
#define FILL_BYTES_PER_NS 8
#define LOOK_NS INT64_C(5000000)
/* least time between two measurements, for each process: measuring one costs 5 us */
#define LOOK_PROC_NS INT64_C(250000)

static bool counts(const struct sk_memory_proc *p) {
    return p->what == SK_MEMORY_BUSY || p->what == SK_MEMORY_ACTOR;
}

/* Returns the mark (memory.h): the estimated bytes that one more task will need. */
static uint64_t mark_of(const struct sk_memory_view *v) {
    uint64_t sum = 0, n = 0;
    for (uint32_t i = 0; i < v->n_procs; i++)
        if (v->procs[i].what == SK_MEMORY_BUSY) sum += v->procs[i].heap_bytes, n++;
    return SK_MIN(SK_MAX(n ? sum / n : 0, v->limit_bytes / 64), v->limit_bytes / 8);
}

/* The share of each process that asked for no memory: the level up to which it may grow. Memory
 * that processes below this level do not use is divided among the others. */
static uint64_t level_of(const struct sk_memory_view *v) {
    uint64_t heaps = 0, given = 0, level = 0;
    for (uint32_t i = 0; i < v->n_procs; i++) {
        const struct sk_memory_proc *p = &v->procs[i];
        heaps += p->heap_bytes;
        if (counts(p) && p->asked_bytes) given += SK_MIN(p->heap_bytes, p->asked_bytes);
    }
    uint64_t others = v->used_bytes - SK_MIN(heaps, v->used_bytes) + given;
    uint64_t room = v->limit_bytes - SK_MIN(others, v->limit_bytes);
    for (;;) {
        uint64_t left = room, n = 0;
        for (uint32_t i = 0; i < v->n_procs; i++) {
            const struct sk_memory_proc *p = &v->procs[i];
            if (p->what == SK_MEMORY_GOING || (counts(p) && p->asked_bytes)) continue;
            if (p->heap_bytes <= level || !counts(p)) left -= SK_MIN(p->heap_bytes, left);
            else n++;
        }
        uint64_t next = n ? left / n : level;
        if (next <= level) return level;
        level = next;
    }
}

static bool better(const struct sk_memory_proc *a, uint64_t over_a, const struct sk_memory_proc *b,
                   uint64_t over_b) {
    bool ra = a->retriable && !a->alone, rb = b->retriable && !b->alone;
    if (ra != rb) return ra;
    uint64_t d = over_a > over_b ? over_a - over_b : over_b - over_a;
    if (d > SK_MAX(over_a, over_b) / 8) return over_a > over_b;
    /* about the same excess: stopping the younger one loses less */
    return a->since_ns != b->since_ns ? a->since_ns > b->since_ns : over_a > over_b;
}

static void choose(const struct sk_memory_view *v, struct sk_memory_plan *out) {
    uint64_t sum = 0, n = 0, best_over = 0, level = level_of(v);
    for (uint32_t i = 0; i < v->n_procs; i++)
        if (counts(&v->procs[i])) sum += v->procs[i].heap_bytes, n++;
    if (sum < v->limit_bytes / 32) return; /* the workers use too little to be the cause */
    for (uint32_t i = 0; i < v->n_procs; i++) {
        const struct sk_memory_proc *p = &v->procs[i];
        uint64_t share = p->asked_bytes ? p->asked_bytes : level;
        if (!counts(p) || p->heap_bytes <= share) continue;
        /* stopping this process would free too little */
        if (p->heap_bytes < v->limit_bytes / 64 && p->heap_bytes < sum / (2 * n)) continue;
        uint64_t over = p->heap_bytes - share;
        if (out->stop >= 0 && !better(p, over, &v->procs[out->stop], best_over)) continue;
        out->stop = (int32_t)i;
        out->share_bytes = share;
        best_over = over;
    }
}

/* Called when more memory is used than allowed, or soon will be. */
static void over(struct sk_memory *m, const struct sk_memory_view *v, int64_t left,
                 struct sk_memory_plan *out) {
    left -= (int64_t)m->ahead_bytes;
    if (left >= 0) {
        m->over_since_ns = 0;
        return;
    }
    if (!m->over_since_ns) m->over_since_ns = v->now_ns;
    /* these may be enough, so no process is stopped yet */
    if (out->punch_bytes || out->leave >= 0) {
        out->next_ns = v->now_ns + LOOK_NS / 5;
        return;
    }
    bool small = (uint64_t)-left < v->slack_bytes / 2 && (uint64_t)-left < v->store_bytes;
    if (v->spills && small && v->now_ns - m->over_since_ns < SK_MEMORY_GRACE_NS) return;
    struct sk_memory_view soon = *v;
    soon.limit_bytes -= SK_MIN(m->ahead_bytes, soon.limit_bytes);
    choose(&soon, out);
}

/* Bytes by which heaps may grow until a stop that is decided now, or at the next measurement, has
 * taken effect. */
static uint64_t ahead_of(const struct sk_memory *m, const struct sk_memory_view *v) {
    uint64_t grown = 0;
    int64_t took = v->now_ns - m->looked_ns, late = SK_MAX(v->now_ns - m->due_ns, 0);
    if (!m->looked_ns || took <= 0) return 0;
    for (uint32_t i = 0; i < v->n_procs; i++)
        if (counts(&v->procs[i])) grown += v->procs[i].grown_bytes;
    double per_ns = (double)grown / (double)took;
    return SK_MIN((uint64_t)(per_ns * (double)(LOOK_NS + late + SK_MEMORY_STOP_NS)),
                  v->limit_bytes / 4);
}

/* True if growing processes are to be paused, because memory that is being freed would be free
 * too late. */
static bool pauses(struct sk_memory *m, const struct sk_memory_view *v, bool any_going) {
    int64_t real = (int64_t)v->limit_bytes - (int64_t)v->used_bytes + (int64_t)v->slack_bytes / 2;
    if (!any_going || real >= (int64_t)m->ahead_bytes) {
        m->paused_ns = 0;
        return false;
    }
    if (!m->paused_ns) m->paused_ns = v->now_ns;
    return v->now_ns - m->paused_ns < SK_MEMORY_PAUSE_NS;
}

void sk_memory_decide(struct sk_memory *m, const struct sk_memory_view *v,
                      struct sk_memory_plan *out) {
    uint64_t coming = 0, mark = mark_of(v);
    uint32_t n_busy = 0;
    for (uint32_t i = 0; i < v->n_procs; i++) {
        if (v->procs[i].what == SK_MEMORY_GOING) coming += v->procs[i].heap_bytes;
        n_busy += counts(&v->procs[i]);
    }
    bool was_paused = m->paused_ns && v->now_ns - m->paused_ns < SK_MEMORY_PAUSE_NS;
    /* paused processes do not grow, so the old value stays */
    if (!was_paused) m->ahead_bytes = ahead_of(m, v);
    m->looked_ns = v->now_ns;
    int64_t left =
        (int64_t)v->limit_bytes - (int64_t)(v->used_bytes - SK_MIN(coming, v->used_bytes));
    int64_t above = left - (int64_t)mark;
    m->limit_bytes = v->limit_bytes;
    m->left_bytes = left;
    m->low = above < (m->low ? (int64_t)mark / 2 : 0);
    *out = (struct sk_memory_plan){.store_max_bytes = UINT64_MAX, .stop = -1, .leave = -1};
    uint64_t has = v->store_bytes + v->warm_bytes;
    if (v->spills)
        out->store_max_bytes =
            above >= 0 ? has + (uint64_t)above : has - SK_MIN(has, (uint64_t)-above);
    if (above < 0) {
        out->punch_bytes = SK_MIN(v->warm_bytes, (uint64_t)-above);
        for (uint32_t i = 0; i < v->n_procs; i++) {
            const struct sk_memory_proc *p = &v->procs[i];
            if (p->what == SK_MEMORY_IDLE && p->heap_bytes > v->limit_bytes / 32 &&
                (out->leave < 0 || p->heap_bytes > v->procs[out->leave].heap_bytes))
                out->leave = (int32_t)i;
        }
    }
    int64_t fill = SK_MAX(left, 0) / FILL_BYTES_PER_NS,
            least = SK_MAX(LOOK_NS, LOOK_PROC_NS * v->n_procs);
    /* with no task running the pace is slower, but a task that begins may fill memory, too */
    out->next_ns = v->now_ns + SK_MAX(SK_MIN(fill, n_busy ? m->every_ns : 4 * m->every_ns), least);
    over(m, v, left, out);
    out->pause = pauses(m, v, coming || out->stop >= 0);
    if (out->pause) out->next_ns = v->now_ns + LOOK_NS / 5;
    m->due_ns = out->next_ns;
}

enum sk_place_launch sk_memory_launch(struct sk_memory *m, const struct sk_memory_run *r) {
    if (!r->alone_waits) m->drain_since_ns = 0;
    if (r->alone_runs) {
        bool calm = r->now_ns - r->alone_since_ns >= SK_MEMORY_CALM_NS &&
                    m->left_bytes > (int64_t)(m->limit_bytes / 4);
        return calm && !r->alone_waits ? SK_LAUNCH_ALL : SK_LAUNCH_NONE;
    }
    if (r->alone_waits) {
        if (!m->drain_since_ns) m->drain_since_ns = r->now_ns;
        int64_t waited = r->now_ns - m->drain_since_ns;
        /* The task that has to run alone cannot start, because others do not end: in one of every
         * two seconds one more of the other tasks may begin. */
        if (waited >= 2 * SK_MEMORY_DRAIN_NS && waited / SK_MEMORY_TRICKLE_NS % 2)
            return SK_LAUNCH_ONE;
        return r->n_running == 0 || waited >= SK_MEMORY_DRAIN_NS ? SK_LAUNCH_ALONE : SK_LAUNCH_NONE;
    }
    if (!m->low) return SK_LAUNCH_ALL;
    int64_t every = m->left_bytes < 0 ? 10 * SK_MEMORY_TRICKLE_NS : SK_MEMORY_TRICKLE_NS;
    return r->n_running == 0 || r->now_ns - m->began_ns >= every ? SK_LAUNCH_ONE : SK_LAUNCH_NONE;
}

void sk_memory_launched(struct sk_memory *m, int64_t now_ns) { m->began_ns = now_ns; }

uint64_t sk_memory_keep(uint64_t limit_bytes, uint64_t store_bytes, int64_t n_workers) {
    const uint64_t mib = UINT64_C(1) << 20, n = (uint64_t)SK_MAX(n_workers, 1);
    uint64_t most = SK_MIN(SK_MAX(store_bytes / 4 / n, 64 * mib), 512 * mib);
    return SK_MIN(SK_MAX(limit_bytes / 8 / n, mib), most);
}

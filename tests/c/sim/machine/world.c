/* world.c - the schedule of the simulated machine: which event happens next, to which process, and
 * which faults happen.
 *
 * Not here: any rule of the engine. While the driver waits (bell_wait), the world goes on step by
 * step until the driver's bell has rung or its time is over. While the driver works, worker
 * processes go on at the fault points that it passes. In a step, one of these happens: a process
 * runs to the next point where others can go on (it sleeps on its bell, or is preempted at a fault
 * point), a link sends, a packet arrives, a process starts or its end is reported, something
 * breaks. Each step is drawn from all that are possible now; when none is possible, the clock jumps
 * to the first that will be.
 *
 * A bell works like the real one: only a ring wakes a sleeper, so a wake-up that the engine wrongly
 * leaves out is missing here, too. A killed process stops for ever at the point that it had
 * reached: its heap memory is freed, and its published messages stay. Cost: 0.1 to 0.5 us a step
 * besides what the process does. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "sim/machine/sim_int.h"

#define TICK_NS 1500         /* a step takes between 1 ns and this */
#define STUCK_NS 60000000000 /* a run is stuck when only timers have fired for this long */
#define MAX_STEPS 5000000u

static struct sk_sim *the; /* the simulation of this process, for hooks and fibers */

/* ---- chance ---------------------------------------------------------------------------------- */

uint64_t sk_sim_below(struct sk_sim *s, uint64_t n) { return sk_rand_below(&s->rng, n); }
bool sk_sim_chance(struct sk_sim *s, uint32_t of_10000) {
    return of_10000 && sk_sim_below(s, 10000) < of_10000;
}
void sk_sim_mix(struct sk_sim *s, uint64_t x) {
    s->st.hash = (s->st.hash ^ x) * 0x100000001b3u + (s->st.hash >> 29);
}

bool sk_sim_fault(struct sk_sim *s, uint32_t of_10000) {
    if (s->calm || (s->conf.max_faults && s->n_faults >= s->conf.max_faults) ||
        !sk_sim_chance(s, of_10000))
        return false;
    s->n_faults++;
    return true;
}

/* ---- memory: segments, rings, what a process holds ------------------------------------------- */

/* Memory that is reused by the next simulation, because fresh pages cost more than the rest of a
 * short run. */
static struct area {
    uint8_t *p;
    size_t size;
    bool used;
} areas[3]; /* control, data, rings */

static uint8_t *area(struct area *a, size_t size) {
    if (a->used) return NULL;
    if (a->size < size) {
        if (a->p) munmap(a->p, a->size);
        a->p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
        a->size = a->p == MAP_FAILED ? 0 : size;
        if (!a->size) {
            a->p = NULL;
            return NULL;
        }
    }
    a->used = true;
    return a->p;
}

static uint8_t *m_seg_open(void *ctx, const char *label, size_t size) {
    (void)ctx;
    return area(&areas[strcmp(label, "skate-data") == 0], (size_t)SK_ALIGN(size, 4096));
}
static void m_seg_close(void *ctx, uint8_t *base) {
    (void)ctx;
    for (size_t i = 0; i < SK_COUNT(areas); i++)
        if (areas[i].p == base) areas[i].used = false;
}

static size_t rings_stride(void) { return SK_ALIGN(2 * (size_t)sk_ring_bytes(SK_RING_SIZE), 4096); }

static void mem_born(void *p) {
    struct sk_proc *v = the->cur;
    if (!v) return;
    if (v->n_mem == v->cap_mem) {
        v->cap_mem = SK_MAX(64, 2 * v->cap_mem);
        void *q =
            realloc(v->mem, v->cap_mem * sizeof *v->mem); /* NOLINT: under the ledger's own hook */
        if (!q) abort();
        v->mem = q;
    }
    v->mem[v->n_mem++] = p;
}
static void mem_gone(void *p) {
    struct sk_proc *v = the->cur;
    if (!v) return;
    for (uint32_t i = v->n_mem; i-- > 0;)
        if (v->mem[i] == p) {
            v->mem[i] = v->mem[--v->n_mem];
            return;
        }
}

static void mem_free_all(struct sk_proc *v) {
    SK_ASSERT(the->cur != v);
    for (uint32_t i = 0; i < v->n_mem; i++) sk_free(v->mem[i]);
    free(v->mem); /* NOLINT */
    v->mem = NULL;
    v->n_mem = v->cap_mem = 0;
}

/* ---- where values are ------------------------------------------------------------------------ */

/* Called when a value was sealed or read back from the driver's disk: records on which node it
 * is. */
static void m_sealed(void *ctx, uint32_t proc, uint64_t off) {
    struct sk_sim *s = ctx;
    void *node = sk_map_get(&s->nodes, proc);
    if (sk_map_put(&s->homes, off + 1, node ? node : (void *)1) != SK_OK) abort();
}

static void lose_values(struct sk_sim *s, uint32_t node) {
    SK_VEC(uint64_t) ids = {0};
    uint64_t id;
    void *data;
    for (uint32_t c = 0; sk_own_each(s->l->own, &c, &id, &data);) {
        const struct sk_obj *o = data;
        if (o->state != SK_O_READY || o->where != SK_V_STORE) continue;
        /* true: the value is lost already, and its bytes are mapped only because a process still
         * reads them */
        bool relic = false;
        for (uint32_t i = 0; i < s->l->recovery.relics.n; i++)
            relic |= s->l->recovery.relics.p[i].oid == id;
        if (relic) continue;
        if ((uintptr_t)sk_map_get(&s->homes, o->u.off + 1) == node + 1 &&
            !sk_vec_push(&ids, SK_TAG_ENGINE, id))
            abort();
    }
    for (uint32_t i = 0; i < ids.n; i++, s->st.n_values_lost++) sk_recover_lost(s->l, ids.p[i]);
    sk_vec_free(&ids);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void serve(void *arg) { sk_worker_engine_serve(((struct sk_proc *)arg)->c); }

/* Returns the task that the process runs; 0: none. */
static uint64_t running(const struct sk_proc *p) {
    const struct sk_list *first = p->c ? sk_list_first(&p->c->running) : NULL;
    return first ? sk_container_of(first, struct sk_running, link)->tid : 0;
}

static void report(struct sk_sim *s, uint32_t kind, const struct sk_proc *p, int32_t status) {
    struct sk_fork_report r = {.kind = kind,
                               .worker = p->slot,
                               .pid = kind == SK_FORK_FAILED ? 0 : p->pid,
                               .status = status};
    if (!sk_vec_push(&s->reports, SK_TAG_ENGINE, r)) abort();
}

static void m_spawn(void *ctx, uint32_t worker) {
    struct sk_sim *s = ctx;
    struct sk_proc *p = s->procs;
    while (p < s->procs + SK_SIM_PROCS && p->state != SK_P_FREE) p++;
    SK_ASSERT(p < s->procs + SK_SIM_PROCS);
    *p = (struct sk_proc){.state = SK_P_STARTING,
                          .slot = worker,
                          .node = (uint32_t)sk_sim_below(s, s->conf.n_nodes + 1),
                          .pid = ++s->next_pid,
                          .at_ns = sk_sim_now(s) + 50000 + (int64_t)sk_sim_below(s, 1000000),
                          .doom_ns = INT64_MAX,
                          .slow = sk_sim_chance(s, s->conf.slow)};
    s->st.n_spawns++;
}

static void start(struct sk_sim *s, struct sk_proc *p) {
    if (sk_sim_fault(s, s->conf.spawn_fails)) {
        s->st.n_spawns_failed++;
        report(s, SK_FORK_FAILED, p, EAGAIN);
        p->state = SK_P_FREE;
        return;
    }
    p->sh = sk_slot_at(s->l->ctl_seg.base, p->slot);
    p->proc = p->sh->proc;
    s->cur = p; /* memory taken from here on belongs to the process */
    struct sk_worker_engine *c = p->c = sk_calloc(SK_TAG_ENGINE, sizeof *c);
    if (!c) abort();
    c->ctl_seg = s->l->ctl_seg;
    c->data_seg = s->l->data_seg;
    c->ctl = s->l->ctl;
    sk_worker_engine_init(c, p->sh, p->pid, s->runner);
    s->cur = NULL;
    sk_rc rc;
    if (p->node && sk_map_put(&s->nodes, p->proc, (void *)(uintptr_t)(p->node + 1)) != SK_OK)
        abort();
    if (p->node) {
        p->rings = areas[2].p + p->slot * rings_stride();
        rc = sk_link_open(p);
    } else {
        rc = sk_ring_attach(&c->down, sk_slot_down(p->sh), SK_RING_SIZE, NULL);
        if (rc == SK_OK) rc = sk_ring_attach(&c->up, sk_slot_up(p->sh), SK_RING_SIZE, NULL);
    }
    if (rc == SK_OK) rc = sk_fiber_init(&p->fiber, serve, p);
    SK_ASSERT(rc == SK_OK);
    p->state = SK_P_LIVE;
    report(s, SK_FORK_STARTED, p, 0);
}

static void end(struct sk_sim *s, struct sk_proc *p, int32_t status) {
    if (s->conf.on_kill && status == SIGKILL)
        for (uint32_t i = 0; i < SK_CLAIMS; i++) {
            uint64_t c = atomic_load(&p->sh->claims[i]);
            if (c && (c & 3) != SK_CLAIM_TAKEN)
                s->conf.on_kill(s->conf.ctx, (sk_tid){c >> 2}, (c & 3) != SK_CLAIM_QUEUED);
        }
    sk_fiber_deinit(&p->fiber);
    mem_free_all(p);
    p->c = NULL;
    p->state = SK_P_DEAD;
    p->status = status;
    p->at_ns = sk_sim_now(s) + (int64_t)sk_sim_below(s, sk_sim_below(s, 4) ? 200000 : 20000000);
}

void sk_world_kill(struct sk_sim *s, struct sk_proc *p) {
    if (p->state != SK_P_LIVE) return;
    sk_sim_mix(s, UINT64_C(1) << 40 | p->proc);
    s->st.n_kills++;
    if (s->conf.trace)
        fprintf(stderr, "# %llu: process %u (slot %u, pid %d) is killed\n",
                (unsigned long long)s->st.steps, p->proc, p->slot, p->pid);
    end(s, p, SIGKILL);
}

static void m_kill(void *ctx, pid_t pid, int sig) {
    struct sk_sim *s = ctx;
    /* An interrupt is only a hint to user code, so the simulation delivers none. */
    if (sig != SIGKILL) return;
    for (struct sk_proc *p = s->procs; p < s->procs + SK_SIM_PROCS; p++)
        if (p->state == SK_P_LIVE && p->pid == pid && p->doom_ns == INT64_MAX)
            /* the process goes on until the signal arrives */
            p->doom_ns = sk_sim_now(s) + (int64_t)sk_sim_below(s, 50000);
}

static bool m_next(void *ctx, struct sk_fork_report *out) {
    struct sk_sim *s = ctx;
    if (!s->reports.n) return false;
    *out = s->reports.p[0];
    memmove(s->reports.p, s->reports.p + 1, --s->reports.n * sizeof *out);
    return true;
}

static void lose_node(struct sk_sim *s) {
    uint32_t node = 1 + (uint32_t)sk_sim_below(s, s->conf.n_nodes);
    s->st.n_nodes_lost++;
    int64_t found = sk_sim_now(s) + 1000000 + (int64_t)sk_sim_below(s, 50000000);
    for (struct sk_proc *p = s->procs; p < s->procs + SK_SIM_PROCS; p++) {
        if (p->node != node || p->state != SK_P_LIVE) continue;
        sk_world_kill(s, p);
        p->cut = true;
        p->at_ns = found;
    }
    lose_values(s, node);
}

/* Reports to the driver that a process has ended. All messages of the process have arrived
 * before. */
static void reported(struct sk_sim *s, struct sk_proc *p) {
    p->state = SK_P_FREE;
    if (p->node) sk_link_close(p);
    if (s->conf.bugs & SK_SIM_BUG_UNTOLD) return;
    report(s, SK_FORK_ENDED, p, p->status);
}

static void hear_reports(struct sk_sim *s) {
    s->in_world = false; /* the driver works now */
    s->waiting = false;
    pthread_mutex_lock(&s->l->mu);
    sk_host_reports(s->l);
    sk_loop_dispatch(s->l);
    pthread_mutex_unlock(&s->l->mu);
    s->waiting = true;
    s->in_world = true;
    sk_bell_ring(&s->l->ctl->bell[0]); /* as the watch thread does */
    s->moved_ns = sk_sim_now(s);
}

static void resume(struct sk_sim *s, struct sk_proc *p) {
    p->asleep = false;
    s->cur = p;
    s->in_world = false;
    sk_fiber_resume(&p->fiber);
    s->in_world = true;
    s->cur = NULL;
    p->ready_ns = sk_sim_now(s) + (p->slow ? (int64_t)sk_sim_below(s, 2000000) : 0);
    if (p->fiber.done) end(s, p, 0);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static bool awake(const struct sk_proc *p, int64_t now) {
    if (p->state != SK_P_LIVE || now < p->ready_ns) return false;
    if (!p->asleep || now >= p->until_ns || (p->spin && sk_bell_seq(p->bell) != p->seen))
        return true;
    return atomic_load_explicit(&p->bell->asleep, memory_order_relaxed) == 0;
}

static int64_t timer_of(const struct sk_proc *p) {
    int64_t at = INT64_MAX;
    if (p->state == SK_P_STARTING || p->state == SK_P_DEAD) at = p->at_ns;
    if (p->state == SK_P_LIVE) {
        at = p->doom_ns;
        bool up = !p->asleep || atomic_load_explicit(&p->bell->asleep, memory_order_relaxed) == 0 ||
                  (p->spin && sk_bell_seq(p->bell) != p->seen);
        at = SK_MIN(at, up ? p->ready_ns : SK_MAX(p->until_ns, p->ready_ns));
    }
    if (p->node && (p->state == SK_P_LIVE || p->state == SK_P_DEAD))
        at = SK_MIN(at, sk_link_timer(p));
    return at;
}

enum what { RESUME, START, DOOM, REPORT, LINK, ARRIVE, REPORTS, WORK };
struct choice {
    uint8_t what;
    uint32_t i;
};

static uint32_t choices(struct sk_sim *s, struct choice *c, uint32_t cap, bool workers_only) {
    int64_t now = sk_sim_now(s);
    uint32_t n = 0;
    for (uint32_t i = 0; i < SK_SIM_PROCS && n + 4 < cap; i++) {
        struct sk_proc *p = &s->procs[i];
        if (p->state == SK_P_FREE) continue;
        if (awake(p, now)) c[n++] = (struct choice){RESUME, i};
        if (p->state == SK_P_LIVE && now >= p->doom_ns) c[n++] = (struct choice){DOOM, i};
        if (p->state == SK_P_STARTING && now >= p->at_ns) c[n++] = (struct choice){START, i};
        if (workers_only) continue;
        if (p->state == SK_P_DEAD && now >= p->at_ns && (!p->node || sk_link_drained(p)))
            c[n++] = (struct choice){REPORT, i};
        if (p->node && (p->state == SK_P_LIVE || p->state == SK_P_DEAD) && sk_link_due(s, p))
            c[n++] = (struct choice){LINK, i};
    }
    if (now >= s->work.at_ns) c[n++] = (struct choice){WORK, 0};
    if (workers_only) return n;
    if (s->reports.n) c[n++] = (struct choice){REPORTS, 0};
    for (uint32_t i = 0; i < s->net.n && n < cap; i++)
        if (now >= s->net.p[i].at_ns) c[n++] = (struct choice){ARRIVE, i};
    return n;
}

static void say_step(const struct sk_sim *s, struct choice c, const struct sk_proc *p) {
    static const char *const names[] = {
        "runs",           "starts",           "is killed",         "is reported",
        "its link sends", "a packet arrives", "reports are heard", "the disk works"};
    if (c.what >= ARRIVE)
        fprintf(stderr, "# %llu, %.6f s: %s\n", (unsigned long long)s->st.steps,
                (double)sk_sim_now(s) / 1e9, names[c.what]);
    else
        fprintf(stderr, "# %llu, %.6f s: process %u %s, task %llx\n",
                (unsigned long long)s->st.steps, (double)sk_sim_now(s) / 1e9, p->proc,
                names[c.what], (unsigned long long)(running(p)));
}

static int64_t disk_ns(struct sk_sim *s) {
    return 20000 + (int64_t)sk_sim_below(s, sk_sim_below(s, 10) ? 500000 : 30000000);
}

static void m_work(void *ctx, bool (*turn)(void *arg), void *arg) {
    struct sk_sim *s = ctx;
    int64_t at = s->work.at_ns;
    s->work = (struct sk_sim_work){turn, arg, at == INT64_MAX ? sk_sim_now(s) + disk_ns(s) : at};
}
static void m_work_over(void *ctx, void *arg) {
    struct sk_sim *s = ctx;
    SK_ASSERT(s->work.at_ns == INT64_MAX || s->work.arg == arg);
    s->work.at_ns = INT64_MAX;
}

static void act(struct sk_sim *s, struct choice c) {
    struct sk_proc *p = c.what < ARRIVE ? &s->procs[c.i] : NULL;
    s->st.steps++;
    if (SK_UNLIKELY(s->conf.trace)) say_step(s, c, p);
    sk_sim_mix(s, (uint64_t)c.what << 32 | (c.what >= ARRIVE ? 0 : p->proc));
    switch ((enum what)c.what) {
    case RESUME: resume(s, p); break;
    case START: start(s, p); break;
    case DOOM: sk_world_kill(s, p); break;
    case REPORT: reported(s, p); break;
    case LINK: sk_link_send(s, p); break;
    case ARRIVE: sk_link_arrive(s, c.i); break;
    case REPORTS: hear_reports(s); break;
    case WORK:
        s->work.at_ns = s->work.turn(s->work.arg) ? sk_sim_now(s) + disk_ns(s) : INT64_MAX;
        break;
    }
}

static struct sk_proc *some_live(struct sk_sim *s) {
    struct sk_proc *live[SK_SIM_PROCS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < SK_SIM_PROCS; i++)
        if (s->procs[i].state == SK_P_LIVE) live[n++] = &s->procs[i];
    return n ? live[sk_sim_below(s, n)] : NULL;
}

static void rot(struct sk_sim *s) {
    uint64_t id;
    void *data;
    for (uint32_t c = 0; sk_own_each(s->l->own, &c, &id, &data);) {
        const struct sk_obj *o = data;
        if (o->state == SK_O_READY && o->where == SK_V_STORE && !o->gone && o->len)
            s->l->data_seg.base[o->u.off + sk_sim_below(s, o->len)] ^= 1;
    }
}

static void tick(struct sk_sim *s) {
    atomic_store_explicit(&s->now, sk_sim_now(s) + 1 + (int64_t)sk_sim_below(s, TICK_NS),
                          memory_order_relaxed);
}

/* Prints which process waits for what, for the report of a run that does not end. */
void sk_world_dump(struct sk_sim *s) {
    static const char *const p_names[] = {"free", "starting", "live", "dead"};
    uint64_t id;
    void *data;
    fprintf(stderr,
            "# simulation, seed %llu, step %llu, %.6f s; driver %s; packets %u, reports %u\n",
            (unsigned long long)s->conf.seed, (unsigned long long)s->st.steps,
            (double)sk_sim_now(s) / 1e9, s->waiting ? "waits" : "works", s->net.n, s->reports.n);
    for (const struct sk_proc *p = s->procs; p < s->procs + SK_SIM_PROCS; p++) {
        if (p->state == SK_P_FREE) continue;
        const struct sk_lworker *w =
            p->slot < s->l->pool.n_slots ? s->l->pool.workers[p->slot] : NULL;
        fprintf(stderr,
                "# process %u (slot %u, node %u): %s%s%s, runs task %llx; place %d, depth %u, "
                "blocked %d, dying %d\n",
                p->proc, p->slot, p->node, p_names[p->state],
                p->state == SK_P_LIVE && p->asleep ? ", asleep" : "", p->slow ? ", slow" : "",
                (unsigned long long)(running(p)), w ? (int)w->place.state : -1,
                w ? w->place.depth : 0, w ? w->place.blocked : 0, w ? w->dying : 0);
    }
    for (uint32_t i = 0; sk_map_next(&s->l->tasks, &i, &id, &data);) {
        const struct sk_ltask *t = data;
        fprintf(stderr,
                "# task %llx: %s, attempt %u, %u arguments missing, worker %u, yields %u, retries "
                "left %d%s%s%s\n",
                (unsigned long long)id, sk_tstates[t->state].name, t->attempt, t->n_unready,
                t->worker ? t->worker->proc : 0, t->n_yielded, t->retries_left,
                sk_ltask_cancelled(t) ? ", cancelled" : "",
                t->kind == SK_TASK_INIT ? ", a constructor"
                : t->actor              ? ", a call"
                                        : "",
                t->remake ? ", again" : "");
    }
    for (uint32_t c = 0; sk_own_each(s->l->own, &c, &id, &data);) {
        const struct sk_obj *o = data;
        fprintf(stderr, "# object %llx: %s, count %llu, driver %llu\n", (unsigned long long)id,
                o->state == SK_O_PENDING ? "pending"
                : o->state == SK_O_READY ? "ready"
                                         : "actor",
                (unsigned long long)sk_own_count(s->l->own, id),
                (unsigned long long)sk_own_borrowed(s->l->own, id, 0));
    }
}

static void stuck(struct sk_sim *s, const char *why) {
    sk_world_dump(s);
    if (s->conf.on_stuck) s->conf.on_stuck(s->conf.ctx, why);
    fprintf(stderr, "simulation, seed %llu: %s\n", (unsigned long long)s->conf.seed, why);
    abort();
}

/* Makes one step while the driver waits, not later than `until`. */
static void step(struct sk_sim *s, int64_t until) {
    struct choice c[256];
    s->in_world = true;
    tick(s);
    if (sk_sim_fault(s, s->conf.kill)) {
        struct sk_proc *p = some_live(s);
        if (p) sk_world_kill(s, p);
    }
    if (s->conf.n_nodes && sk_sim_fault(s, s->conf.node_lost)) lose_node(s);
    if ((s->conf.bugs & SK_SIM_BUG_ROT) && sk_sim_below(s, 500) == 0) rot(s);
    uint32_t n = choices(s, c, SK_COUNT(c), false);
    if (n) {
        act(s, c[sk_sim_below(s, n)]);
    } else {
        int64_t next = SK_MIN(until, s->work.at_ns), now = sk_sim_now(s);
        for (uint32_t i = 0; i < SK_SIM_PROCS; i++)
            if (s->procs[i].state != SK_P_FREE) next = SK_MIN(next, timer_of(&s->procs[i]));
        for (uint32_t i = 0; i < s->net.n; i++) next = SK_MIN(next, s->net.p[i].at_ns);
        if (next == INT64_MAX) stuck(s, "nothing can happen any more, and the driver waits");
        if (next > now) atomic_store_explicit(&s->now, next, memory_order_relaxed);
        s->st.steps++;
    }
    int64_t now = sk_sim_now(s);
    if (sk_pace_reap(&s->pace, now)) { /* as the driver's loop thread does */
        s->in_world = false;
        pthread_mutex_lock(&s->l->mu);
        sk_pool_reap(s->l, now);
        pthread_mutex_unlock(&s->l->mu);
    }
    s->in_world = false;
    if (s->st.steps > (s->conf.max_steps ? s->conf.max_steps : MAX_STEPS))
        stuck(s, "no end after very many steps: a livelock");
    if (now - s->moved_ns > STUCK_NS) stuck(s, "nothing moves any more but timers");
}

/* Lets workers take some steps while the driver is at a fault point. */
static void aside(struct sk_sim *s) {
    struct choice c[256];
    s->in_world = true;
    for (uint64_t k = 1 + sk_sim_below(s, 3); k > 0; k--) {
        tick(s);
        uint32_t n = choices(s, c, SK_COUNT(c), true);
        if (!n) break;
        act(s, c[sk_sim_below(s, n)]);
    }
    s->in_world = false;
}

/* ---- hooks ----------------------------------------------------------------------------------- */

static void early_args(struct sk_sim *s, const struct sk_proc *p) {
    struct sk_ltask *t = sk_map_get(&s->l->tasks, running(p));
    if (!t || !s->waiting) return;
    struct sk_proc *cur = s->cur;
    /* the driver does this: the memory is the driver's, and no worker runs meanwhile */
    s->cur = NULL;
    s->in_world = true;
    sk_ltask_let_args_go(s->l, t);
    sk_obj_drain(s->l);
    s->in_world = false;
    s->cur = cur;
}

static bool at_point(void *ctx, const char *name) {
    struct sk_sim *s = ctx;
    if (s->in_world || s->closing) return false;
    if (name[0] == 's' && strcmp(name, "store.lose") == 0) {
        if (!sk_sim_fault(s, s->conf.value_lost)) return false;
        s->st.n_values_lost++;
        return true;
    }
    if (s->cur) {
        if (name[0] == 'r' && strcmp(name, "ring.after_publish") == 0) s->moved_ns = sk_sim_now(s);
        if (SK_UNLIKELY(s->conf.bugs & SK_SIM_BUG_ARGS) && strcmp(name, "worker.before_run") == 0)
            early_args(s, s->cur);
        if (sk_sim_chance(s, s->conf.preempt)) sk_fiber_yield();
    } else if (sk_sim_chance(s, s->conf.preempt)) {
        aside(s);
    }
    return false;
}

static sk_rc m_bell_wait(void *ctx, struct sk_bell *b, uint32_t seen, int64_t until) {
    struct sk_sim *s = ctx;
    if (sk_bell_seq(b) != seen) return SK_OK;
    atomic_store(&b->asleep, seen << 1 | 1);
    if (s->cur) {
        struct sk_proc *p = s->cur;
        p->asleep = true;
        p->spin = sk_sim_below(s, 4) == 0;
        p->bell = b;
        p->seen = seen;
        p->until_ns = until;
        sk_fiber_yield();
    } else {
        bool spin = sk_sim_below(s, 4) == 0;
        s->waiting = true;
        do step(s, until);
        while (sk_sim_now(s) < until && atomic_load(&b->asleep) &&
               !(spin && sk_bell_seq(b) != seen));
        s->waiting = false;
    }
    atomic_store(&b->asleep, 0);
    return sk_bell_seq(b) != seen ? SK_OK : SK_ETIMEOUT;
}

void sk_sim_nap(int64_t ns) {
    struct sk_sim *s = the;
    int64_t until = sk_sim_now(s) + ns;
    if (!s->cur) {
        struct sk_bell b = {0};
        while (sk_sim_now(s) < until) (void)m_bell_wait(s, &b, 0, until);
        return;
    }
    struct sk_proc *p = s->cur;
    while (sk_sim_now(s) < until) { /* sleeps on a bell that is never rung */
        atomic_store(&s->nap.asleep, 1);
        p->asleep = true;
        p->spin = false;
        p->bell = &s->nap;
        p->until_ns = until;
        sk_fiber_yield();
    }
}

/* ---- beginning and end ----------------------------------------------------------------------- */

void sk_world_open(struct sk_sim *s) {
    SK_ASSERT(!the);
    sk_rand_init(&s->rng, s->conf.seed);
    the = s;
    s->next_pid = 1000;
    atomic_store(&s->now, 1000000000);
    s->moved_ns = s->pace.last_reap_ns = sk_sim_now(s);
    sk_map_init(&s->nodes, SK_TAG_ENGINE);
    sk_map_init(&s->homes, SK_TAG_ENGINE);
    s->machine = (struct sk_machine){.ctx = s,
                                     .seg_open = m_seg_open,
                                     .seg_close = m_seg_close,
                                     .bell_wait = m_bell_wait,
                                     .spawn = m_spawn,
                                     .kill = m_kill,
                                     .next = m_next,
                                     .work = m_work,
                                     .work_over = m_work_over,
                                     .sealed = m_sealed};
    sk_disk_hooks(&s->machine);
    s->work.at_ns = INT64_MAX;
    sk_machine_set(&s->machine);
    sk_clock_virtual(&s->now);
    sk_mem_watch(mem_born, mem_gone);
    s->closing = true; /* the hooks do nothing until the engine is open */
    sk_fault_hook(at_point, s);
}

void sk_world_close(struct sk_sim *s) {
    for (struct sk_proc *p = s->procs; p < s->procs + SK_SIM_PROCS; p++) {
        if (p->state == SK_P_LIVE) {
            sk_fiber_deinit(&p->fiber);
            mem_free_all(p);
        }
        if (p->node && (p->state == SK_P_LIVE || p->state == SK_P_DEAD)) sk_link_close(p);
    }
    while (s->net.n) sk_packet_drop(s, s->net.n - 1);
    sk_vec_free(&s->net);
    sk_vec_free(&s->reports);
    sk_map_deinit(&s->nodes);
    sk_map_deinit(&s->homes);
    sk_disk_close(s);
    for (size_t i = 0; i < SK_COUNT(areas); i++) areas[i].used = false;
    sk_fault_hook(NULL, NULL);
    sk_mem_watch(NULL, NULL);
    sk_clock_virtual(NULL);
    sk_machine_set(NULL);
    the = NULL;
}

bool sk_world_rings(uint32_t n_slots) { return area(&areas[2], n_slots * rings_stride()) != NULL; }

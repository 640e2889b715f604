/* memory.c - the store and the heaps of the workers under one budget, in the local engine: measures
 * memory, and carries out the decisions of the rules. Runs with the lock held; the driving thread
 * measures at the intervals that the rules give.
 *
 * Not here: the rules (engine/rules/memory.c), reading the kernel's figures (ipc/sysmem.c). In a
 * simulation nothing is measured.
 *
 * The heap of a process is its anonymous memory less what it still shares with the fork server that
 * it came from. The shared part is measured exactly when the process is new and, as long as it is a
 * large part, every 10 s (20 ms a GB). Memory of the store counts once, by the pages that exist.
 * Cost of a measurement: 5 us a worker and 60 us for the machine; four a second while there is
 * plenty, one every 5 ms when little is left. */
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/conf.h"
#include "engine/local/driver/local_int.h"
#include "engine/rules/verdict.h"

#define EVERY_NS INT64_C(250000000)
#define EXACT_NS INT64_C(10000000000)
/* a kill in the kernel's count is taken as the cause of a worker's death for this time (ns) */
#define KILLED_NS INT64_C(2000000000)
/* most bytes punched at one measurement: 60 ms of small pages */
#define PUNCH_BYTES (UINT64_C(256) << 20)
#define PUNCH_LEAST (UINT64_C(64) << 10)
#define STORY 420u

static double mib(uint64_t n) { return (double)n / 1048576.0; }

/* ---- measuring ------------------------------------------------------------------------------- */

static void measure(struct sk_local *l, struct sk_lworker *w, int64_t now) {
    uint64_t anon, own;
    /* the process has ended: keep the last value until the end is reported */
    if (!sk_proc_anon(w->pid, &anon)) return;
    bool fresh = !w->mem.exact_ns;
    if (fresh || (now - w->mem.exact_ns > EXACT_NS && anon < 4 * w->mem.shared_bytes)) {
        if (sk_proc_own(w->pid, &own)) {
            /* this figure includes a share of the memory that the fork server shares with its
             * workers */
            uint64_t rest = anon - SK_MIN(own, anon);
            w->mem.shared_bytes = SK_MIN(rest + rest / l->pool.n_live, anon);
            w->mem.exact_ns = now;
        }
    }
    w->mem.heap_bytes = anon - SK_MIN(w->mem.shared_bytes, anon);
    w->mem.peak_bytes = SK_MAX(w->mem.peak_bytes, w->mem.heap_bytes);
}

static struct sk_ltask *task_on(const struct sk_lworker *w) {
    return sk_list_empty(&w->sent) ? NULL : sk_container_of(w->sent.next, struct sk_ltask, on);
}

static struct sk_memory_proc proc_of(struct sk_local *l, struct sk_lworker *w, int64_t now) {
    struct sk_memory_proc p = {.what = SK_MEMORY_IDLE, .since_ns = w->mem.since_ns};
    const struct sk_ltask *t = task_on(w);
    uint64_t runs = w->actor ? w->actor->id : t ? t->id : 0;
    if (runs != w->mem.task || !w->mem.since_ns) {
        w->mem.task = runs;
        w->mem.since_ns = p.since_ns = now;
        w->mem.peak_bytes = 0;
    }
    bool going = w->killed || w->dying || w->place.state == SK_W_NONE;
    uint64_t had = w->mem.heap_bytes;
    if (!going) measure(l, w, now);
    p.heap_bytes = w->mem.heap_bytes;
    p.grown_bytes = p.heap_bytes - SK_MIN(had, p.heap_bytes);
    if (going) {
        p.what = SK_MEMORY_GOING;
    } else if (w->place.state == SK_W_ACTOR && w->actor) {
        p.what = SK_MEMORY_ACTOR;
        p.retriable = w->actor->restarts_left != 0;
    } else if (w->place.state == SK_W_LEASED && t) {
        p.what = SK_MEMORY_BUSY;
        p.since_ns = w->place.since_ns;
        p.alone = sk_ltask_alone(t);
        p.retriable = t->spec.max_retries != 0 && l->mem.oom_retries >= 0;
    }
    if (p.what == SK_MEMORY_ACTOR || p.what == SK_MEMORY_BUSY)
        p.asked_bytes = (uint64_t)SK_MAX(
            sk_place_shape_at(&l->place, w->place.shape)->res.amount[SK_RES_MEMORY], 0);
    return p;
}

/* Measures all workers. False: no memory for the result. */
static bool sample(struct sk_local *l, int64_t now) {
    struct sk_lmem *m = &l->mem;
    m->procs.n = m->who.n = 0;
    m->heap_bytes = 0;
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (!w || w->pid <= 0 || !w->up) continue;
        if (!sk_vec_reserve(&m->procs, SK_TAG_ENGINE, m->procs.n + 1) ||
            !sk_vec_reserve(&m->who, SK_TAG_ENGINE, m->who.n + 1))
            return false;
        struct sk_memory_proc p = proc_of(l, w, now);
        m->procs.p[m->procs.n++] = p;
        m->who.p[m->who.n++] = w;
        m->heap_bytes += p.heap_bytes;
    }
    return true;
}

/* Finds the tightest budget. */
static void budget(struct sk_local *l, int64_t now) {
    struct sk_lmem *m = &l->mem;
    struct sk_err err;
    sk_rc rc = sk_sysmem_read(m->sys, m->permille, &m->machine, &err);
    if (rc != SK_OK && !m->failed)
        sk_log(SK_LOG_WARN, "memory_unknown rc=%s msg=\"%s\"", sk_rc_name(rc), err.msg);
    m->failed = rc != SK_OK;
    if (m->failed)
        m->machine = (struct sk_sysmem_now){.limit_bytes = INT64_MAX, .where = "unknown"};
    uint64_t n = sk_sysmem_oom_kills(m->sys);
    if (n != m->kills_seen) m->kills_ns = now;
    m->kills_seen = n;
    m->slack_bytes = m->machine.limit_bytes / SK_MAX(m->permille, 1u) * (1000 - m->permille);
    m->limit_bytes = m->machine.limit_bytes;
    m->used_bytes = m->machine.used_bytes;
    memcpy(m->where, m->machine.where, sizeof m->where);
    uint64_t mine = m->heap_bytes + sk_seg_present(&l->data_seg);
    if (!m->own_limit_bytes ||
        (int64_t)(m->own_limit_bytes - mine) >= (int64_t)(m->limit_bytes - m->used_bytes))
        return;
    m->slack_bytes = m->limit_bytes - SK_MIN(m->used_bytes, m->limit_bytes);
    m->limit_bytes = m->own_limit_bytes;
    m->used_bytes = mine;
    snprintf(m->where, sizeof m->where, "skate's own limit, memory_limit");
}

/* ---- acting ---------------------------------------------------------------------------------- */

static bool runs_alone(const struct sk_lworker *w) {
    const struct sk_ltask *t = task_on(w);
    return t && sk_ltask_alone(t);
}

static uint32_t n_running(const struct sk_local *l, const struct sk_lworker *but) {
    /* number of workers other than `but` that run a task which does not wait */
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        const struct sk_lworker *w = l->pool.workers[i];
        n +=
            w && w != but && w->place.state == SK_W_LEASED && sk_space_at_work(w) && !runs_alone(w);
    }
    return n;
}

const char *sk_lmem_story(const struct sk_lworker *w) {
    return w->mem.story ? w->mem.story : "it had used too much";
}

static void stop(struct sk_local *l, struct sk_lworker *w, const struct sk_memory_proc *p,
                 uint64_t share) {
    struct sk_lmem *m = &l->mem;
    uint64_t others = m->heap_bytes - SK_MIN(p->heap_bytes, m->heap_bytes),
             store = sk_seg_present(&l->data_seg);
    uint64_t rest = m->used_bytes - SK_MIN(m->heap_bytes + store, m->used_bytes);
    struct sk_ltask *t = task_on(w);
    w->mem.oom = true;
    w->mem.beside = n_running(l, w) > 0;
    if ((w->mem.story = sk_alloc(SK_TAG_ENGINE, STORY)) != NULL) {
        int n = snprintf(w->mem.story, STORY,
                         "it had grown to %.0f MiB and its share was %.0f, when %.0f of %.0f MiB "
                         "were used (%s): object store %.0f MiB, "
                         "%u other workers %.0f MiB",
                         mib(p->heap_bytes), mib(share), mib(m->used_bytes), mib(m->limit_bytes),
                         m->where, mib(store), m->who.n - 1, mib(others));
        if (rest > m->limit_bytes / 100 && n > 0 && (size_t)n < STORY)
            snprintf(w->mem.story + n, STORY - (size_t)n, ", this program and others %.0f MiB",
                     mib(rest));
    }
    m->n_stopped++;
    sk_log(SK_LOG_WARN, "memory_stop worker=%u pid=%d task=%llu msg=\"%s\"", w->slot, w->pid,
           (unsigned long long)w->mem.task, sk_lmem_story(w));
    if (t && !w->actor) sk_driver_link_kill_task(l, t, "memory was short");
    else sk_driver_link_kill(l, w, "memory was short");
}

/* Gives free pages of the store back; returns how many bytes. */
static uint64_t punch(struct sk_local *l, uint64_t bytes) {
    sk_off off = 0;
    uint64_t len, done = 0;
    while (done < SK_MIN(bytes, PUNCH_BYTES) &&
           sk_store_take_punch(l->store, PUNCH_LEAST, &off, &len)) {
        /* on failure the pages stay, and count as used at the next measurement */
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len, NULL));
        done += len;
    }
    return done;
}

/* Sends a signal to the process of a pidfd. The fork server is not used: it may be importing for
 * seconds, and this is a matter of milliseconds. */
static bool send_signal(int pidfd, int sig) {
    return syscall(SYS_pidfd_send_signal, pidfd, sig, NULL, 0) == 0;
}

static void let_go_on(struct sk_lworker *w) {
    if (!w->mem.paused) return;
    (void)send_signal(w->mem.pidfd, SIGCONT); /* fails if the process has ended */
    (void)close(w->mem.pidfd);
    w->mem.paused = false;
}

void sk_lmem_hold(struct sk_local *l, struct sk_lworker *w, bool still) {
    char state;
    pid_t parent;
    if (!still) let_go_on(w);
    if (!still || w->mem.paused || w->killed || w->dying || w->pid <= 0) return;
    int fd = (int)syscall(SYS_pidfd_open, w->pid, 0);
    if (fd < 0) return; /* the process has ended, or no descriptor is left: it is not paused then */
    /* The process may have ended unreported, and its pid may be a stranger's. This is checked
     * after the pidfd is open, so that only the checked process can be signalled. */
    bool ours = sk_proc_state(w->pid, &state, &parent) && parent == l->forksrv.pid &&
                state != 'T' && state != 't';
    w->mem.pidfd = fd;
    w->mem.paused = ours && send_signal(fd, SIGSTOP);
    if (!w->mem.paused) (void)close(fd);
}

void sk_lmem_look(struct sk_local *l, int64_t now) {
    struct sk_lmem *m = &l->mem;
    if (!m->sys) {
        m->next_ns = INT64_MAX;
        return;
    }
    if (!sample(l, now)) {
        m->next_ns = now + EVERY_NS;
        return;
    }
    budget(l, now);
    if (!m->stops) {
        m->next_ns = now + EVERY_NS;
        return;
    }
    struct sk_store_stats s;
    sk_store_get_stats(l->store, &s);
    struct sk_memory_view v = {.now_ns = now,
                               .limit_bytes = m->limit_bytes,
                               .used_bytes = m->used_bytes,
                               .slack_bytes = m->slack_bytes,
                               .store_bytes = s.leased_bytes + s.sealed_bytes,
                               .warm_bytes = s.warm_bytes > m->stuck_bytes ? s.warm_bytes : 0,
                               .spills = l->space.spill != NULL,
                               .procs = m->procs.p,
                               .n_procs = m->procs.n};
    struct sk_memory_plan plan;
    sk_memory_decide(&m->policy, &v, &plan);
    m->next_ns = plan.next_ns;
    uint64_t size = l->data_seg.size, floor = size / 8;
    sk_space_cap(l, plan.store_max_bytes < size ? SK_MAX(plan.store_max_bytes, floor) : 0);
    /* The rules stop no process as long as the store can give something back. */
    if (plan.punch_bytes) m->stuck_bytes = punch(l, plan.punch_bytes) ? 0 : s.warm_bytes;
    else if (!m->policy.low) m->stuck_bytes = 0;
    if (plan.leave >= 0)
        sk_driver_link_leave(l, m->who.p[plan.leave], "memory is short, and it was idle");
    if (plan.stop >= 0) stop(l, m->who.p[plan.stop], &m->procs.p[plan.stop], plan.share_bytes);
    for (uint32_t i = 0; i < m->who.n && (plan.pause || m->any_paused); i++)
        sk_lmem_hold(l, m->who.p[i],
                     plan.pause && (m->procs.p[i].grown_bytes || m->who.p[i]->mem.paused));
    m->any_paused = plan.pause;
}

/* ---- what may begin -------------------------------------------------------------------------- */

/* Takes back the tasks that are queued on workers, so that these tasks do not begin now. */
static void hold_back(struct sk_local *l) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (w && !w->actor && w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w);
    }
}

enum sk_place_launch sk_lmem_mode(struct sk_local *l) {
    struct sk_lmem *m = &l->mem;
    struct sk_memory_run r = {.now_ns = sk_now_ns(),
                              .n_running = n_running(l, NULL),
                              .alone_waits = l->place.n_alone > 0};
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        const struct sk_lworker *w = l->pool.workers[i];
        if (!w || w->place.state != SK_W_LEASED || !runs_alone(w) || !sk_space_at_work(w)) continue;
        r.alone_runs = true;
        r.alone_since_ns = SK_MAX(r.alone_since_ns, w->place.since_ns);
    }
    enum sk_place_launch mode = sk_memory_launch(&m->policy, &r);
    bool held = mode != SK_LAUNCH_ALL;
    if (held && !m->was_held) hold_back(l);
    m->was_held = held;
    return mode;
}

/* ---- deaths ---------------------------------------------------------------------------------- */

void sk_lmem_died(struct sk_local *l, struct sk_lworker *w, int status) {
    struct sk_lmem *m = &l->mem;
    if (w->mem.oom || w->killed || !m->sys || status == -1 || !WIFSIGNALED(status) ||
        WTERMSIG(status) != SIGKILL)
        return;
    int64_t now = sk_now_ns();
    uint64_t n = sk_sysmem_oom_kills(m->sys);
    if (n != m->kills_seen) m->kills_ns = now;
    m->kills_seen = n;
    if (!m->kills_ns || now - m->kills_ns > KILLED_NS) return;
    m->n_kernel_killed++;
    w->mem.oom = true;
    w->mem.beside = n_running(l, w) > 0;
    if ((w->mem.story = sk_alloc(SK_TAG_ENGINE, STORY)) != NULL)
        snprintf(w->mem.story, STORY,
                 "the kernel's out-of-memory killer ended it; it had grown to %.0f MiB or more, "
                 "and %.0f MiB is the limit (%s)",
                 mib(w->mem.peak_bytes), mib(m->limit_bytes), m->where);
}

void sk_lmem_gone(struct sk_lworker *w) {
    let_go_on(w); /* lets the process go on, and closes its pidfd */
    sk_free(w->mem.story);
    w->mem.story = NULL;
}

void sk_lmem_stopped(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t) {
    struct sk_lmem *m = &l->mem;
    char name[200], last[80], hand[520];
    struct sk_err err = {.msg = ""};
    sk_ltask_stopped_for_memory(t);
    struct sk_verdict_stop stop = {.n_stops = t->n_oom,
                                   .max_retries = t->spec.max_retries,
                                   .oom_retries = m->oom_retries,
                                   .alone = sk_ltask_alone(t),
                                   .beside = w->mem.beside};
    if (sk_verdict_memory(&stop, last, sizeof last)) {
        if (sk_ltask_run_alone(l, t, &err) == SK_OK) {
            sk_ltask_retry(l, t, SK_EOOM, sk_lmem_story(w));
            return;
        }
        snprintf(last, sizeof last, "It cannot run alone: %.50s.", err.msg);
    }
    (void)sk_driver_link_hand(w, hand, sizeof hand);
    sk_ltask_fail(l, t, SK_EOOM,
                  "task %s ran out of memory: %s%s\n%s\nGive it less at once (smaller batches or "
                  "blocks), say what it needs (memory=), or allow "
                  "more (memory_limit of init(), or the limit of the container)",
                  sk_ltask_name(l, t, name, sizeof name), sk_lmem_story(w), hand, last);
}

/* ---- for people ------------------------------------------------------------------------------ */

sk_rc sk_lmem_info(struct sk_local *l, struct sk_memory_info *out, struct sk_memory_worker *w,
                   size_t cap, size_t *n, struct sk_err *err) {
    struct sk_lmem *m = &l->mem;
    struct sk_store_stats s;
    int64_t now = sk_now_ns();
    if (!m->sys) return SK_ERR(err, SK_ENOSYS, "memory is not measured in a simulation");
    if (!sample(l, now)) return SK_ERR(err, SK_ENOMEM, "no memory to note what workers use");
    budget(l, now);
    sk_store_get_stats(l->store, &s);
    *out = (struct sk_memory_info){
        .limit_bytes = m->failed && !m->own_limit_bytes ? 0 : m->limit_bytes,
        .used_bytes = m->used_bytes,
        .store_limit_bytes = s.size_bytes,
        .store_may_bytes = l->space.cap_bytes ? l->space.cap_bytes : s.size_bytes,
        .store_used_bytes = s.leased_bytes + s.sealed_bytes,
        .store_present_bytes = sk_seg_present(&l->data_seg),
        .spilled_bytes = l->stored.disk_object_bytes,
        .heap_bytes = m->heap_bytes,
        .n_stopped = m->n_stopped,
        .n_kernel_killed = m->n_kernel_killed,
        .n_alone = l->n_alone};
    memcpy(out->where, m->where, sizeof out->where);
    if (!sk_proc_anon(getpid(), &out->driver_heap_bytes)) out->driver_heap_bytes = 0;
    *n = m->who.n;
    for (uint32_t i = 0; i < m->who.n && i < cap; i++) {
        const struct sk_lworker *x = m->who.p[i];
        const struct sk_memory_proc *p = &m->procs.p[i];
        const struct sk_ltask *t = x->actor ? x->actor->init : task_on(x);
        w[i] = (struct sk_memory_worker){.pid = x->pid,
                                         .number = x->slot,
                                         .heap_bytes = p->heap_bytes,
                                         .peak_bytes = SK_MAX(x->mem.peak_bytes, p->heap_bytes),
                                         .asked_bytes = p->asked_bytes,
                                         .busy = p->what == SK_MEMORY_BUSY ||
                                                 (x->actor && !sk_list_empty(&x->sent)),
                                         .is_actor = x->actor != NULL};
        char buf[200];
        if (t) snprintf(w[i].name, sizeof w[i].name, "%s", sk_ltask_name(l, t, buf, sizeof buf));
    }
    return SK_OK;
}

sk_rc sk_lmem_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) {
    struct sk_lmem *m = &l->mem;
    m->oom_retries = conf->oom_retries;
    m->own_limit_bytes = conf->memory_bytes;
    m->permille = conf->memory_permille ? SK_MIN(conf->memory_permille, 1000u) : 950;
    m->stops = conf->memory_every_ns >= 0;
    m->policy.every_ns = conf->memory_every_ns > 0 ? conf->memory_every_ns : EVERY_NS;
    m->next_ns = sk_machine_ ? INT64_MAX : 0;
    if (sk_machine_) return SK_OK;
    SK_TRY(sk_sysmem_create(&m->sys, NULL, err));
    m->kills_seen = sk_sysmem_oom_kills(m->sys);
    budget(l, sk_now_ns());
    l->ctl->heap_keep_bytes = sk_memory_keep(m->limit_bytes, l->data_seg.size, l->n_cpu);
    return SK_OK;
}

void sk_lmem_close(struct sk_local *l) {
    for (uint32_t i = 0; i < l->pool.n_used; i++)
        if (l->pool.workers[i]) sk_lmem_gone(l->pool.workers[i]);
    sk_sysmem_destroy(l->mem.sys);
    l->mem.sys = NULL;
    sk_vec_free(&l->mem.procs);
    sk_vec_free(&l->mem.who);
}

/* pool.c - the worker processes of the local engine and the fork server that makes them: started
 * when needed, checked, ended when idle. Runs with the lock held. Not here: receiving reports of
 * deaths (host.c), the end of a worker (death.c).
 *
 * A slot's rings are set up before its process exists, so tasks can be sent to a worker that is
 * still being forked. A slot is used again only after its process is known to be dead. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/host.h"
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"

#define LOOK_NS INT64_C(50000000) /* time (ns) between two checks for stopped processes */
/* bytes; an idle process that keeps more than this after giving memory back is ended */
#define GROWN_BYTES (UINT64_C(64) << 20)
#define IDLE_REAP_NS (30 * SK_SEC) /* default time after which idle workers end */
#define AGAIN_NS SK_SEC /* time (ns) until the next try after the system refused a process */
/* a process that was told to end and hangs in the user's exit handlers is killed after this time
 * (ns), if its slot or its memory is needed */
#define LEAVE_NS (5 * SK_SEC)

/* ---- the fork server ------------------------------------------------------------------------- */

static char **copy_strings(char *const *v) {
    size_t n = 0;
    while (v[n]) n++;
    char **c = sk_calloc(SK_TAG_ENGINE, (n + 1) * sizeof *c);
    for (size_t i = 0; c && i < n; i++)
        if (!(c[i] = sk_strdup(SK_TAG_ENGINE, v[i]))) {
            while (i-- > 0) sk_free(c[i]);
            sk_free(c);
            return NULL;
        }
    return c;
}

static void free_strings(char *const *v) {
    for (char *const *s = v; s && *s; s++) sk_free(*s);
    sk_free((void *)(uintptr_t)v);
}

sk_rc sk_pool_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) {
    struct sk_worker_pool *p = &l->pool;
    l->forksrv.sock = -1;
    /* an unused slot costs nothing */
    p->n_slots = conf->max_workers ? SK_MIN(conf->max_workers, 65536) : 1024;
    /* each process has 2^40 ids; those of an engine among others lie within its range */
    if (conf->id_base) p->n_slots = SK_MIN(p->n_slots, (uint32_t)(SK_ID_RANGE >> 40) - 1);
    p->idle_reap_ns = conf->idle_reap_ns ? conf->idle_reap_ns : IDLE_REAP_NS;
    p->workers = sk_calloc(SK_TAG_ENGINE, p->n_slots * sizeof *p->workers);
    p->spawn.argv = copy_strings(conf->spawn_argv);
    p->spawn.env = conf->spawn_env ? copy_strings(conf->spawn_env) : NULL;
    p->spawn.note.p =
        conf->preload.n ? sk_memdup(SK_TAG_ENGINE, conf->preload.p, conf->preload.n) : NULL;
    p->spawn.note.n = p->spawn.note.p ? conf->preload.n : 0;
    if (!p->workers || !p->spawn.argv || (conf->spawn_env && !p->spawn.env) ||
        (conf->preload.n && !p->spawn.note.p))
        return SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    return SK_OK;
}

void sk_pool_close(struct sk_local *l) {
    struct sk_worker_pool *p = &l->pool;
    for (uint32_t i = 0; i < p->n_used; i++)
        if (p->workers[i]) sk_driver_link_free(p->workers[i]);
    free_strings(p->spawn.argv);
    free_strings(p->spawn.env);
    sk_free(p->spawn.note.p);
    sk_free(p->workers);
}

bool sk_pool_fd_lost(const struct sk_local *l) {
    return !sk_machine_ && (sk_seg_lost(&l->ctl_seg) || sk_seg_lost(&l->data_seg) ||
                            sk_forksrv_lost(&l->forksrv) || sk_prints_lost(l->prints));
}

sk_rc sk_pool_server(struct sk_local *l, struct sk_err *err) {
    if (sk_pool_fd_lost(l)) return SK_ERR(err, SK_EDEAD, SK_FD_LOST);
    int keep[5] = {l->ctl_seg.fd, l->data_seg.fd}, n_keep = 2, hand = sk_prints_hand(l->prints);
    if (l->data_seg.tail) keep[n_keep++] = l->data_seg.tail_fd;
    if (hand >= 0) keep[n_keep++] = hand;
    bool record = l->show.s.record && l->show.s.w.seg.fd >= 0 && !sk_seg_lost(&l->show.s.w.seg);
    if (record) keep[n_keep++] = l->show.s.w.seg.fd;
    size_t n = 0;
    char *const *from = l->pool.spawn.env;
    extern char **environ;
    if (!from) from = environ;
    while (from[n]) n++;
    char ctl[160], view[SK_VIEW_PATH + 32];
    char **env = sk_calloc(SK_TAG_ENGINE, (n + 3) * sizeof *env);
    if (!env) return SK_ERR(err, SK_ENOMEM, "no memory for the environment of the fork server");
    memcpy(env, from, n * sizeof *env);
    snprintf(ctl, sizeof ctl, "SKATE_CTL=%d,%zu,%d,%zu,%d,%zu,%d", l->ctl_seg.fd, l->ctl_seg.size,
             l->data_seg.fd, l->data_seg.size, l->data_seg.tail_fd, l->data_seg.tail, hand);
    env[n] = ctl;
    if (record) {
        snprintf(view, sizeof view, "SKATE_VIEW=%d,%s", l->show.s.w.seg.fd, l->show.s.record);
        env[n + 1] = view;
    }
    sk_rc rc = sk_forksrv_start(&l->forksrv, l->pool.spawn.argv, env, keep, n_keep, err);
    sk_free(env);
    if (rc != SK_OK) return rc;
    l->pool.server_dead = false;
    l->pool.n_servers++;
    pthread_cond_broadcast(&l->server_up);
    if (l->pool.spawn.note.n)
        rc = sk_forksrv_note(&l->forksrv, l->pool.spawn.note.p, l->pool.spawn.note.n, err);
    return rc;
}

bool sk_pool_server_gone(struct sk_local *l) {
    l->pool.server_dead = true;
    return sk_forksrv_stop(&l->forksrv);
}

static void in_vain(struct sk_local *l, const char *why) {
    snprintf(l->pool.in_vain, sizeof l->pool.in_vain, "%.300s", why);
}

void sk_pool_take_in_vain(struct sk_local *l, char *why, size_t cap) {
    (void)snprintf(why, cap, "%s", l->pool.in_vain);
    l->pool.in_vain[0] = 0;
}

void sk_pool_server_failed(struct sk_local *l, bool by_itself, const char *why) {
    if (sk_pool_fd_lost(l)) {
        in_vain(l, SK_FD_LOST);
        return;
    }
    char how[sizeof l->pool.in_vain];
    uint32_t n = l->pool.starts.n + 1;
    if (n == 1) snprintf(how, sizeof how, "%.300s", why);
    else snprintf(how, sizeof how, "%.250s (%u times in a row)", why, n);
    if (!sk_starts_ended(&l->pool.starts, sk_now_ns(), by_itself)) in_vain(l, how);
}

/* ---- processes ------------------------------------------------------------------------------- */

bool sk_pool_any_up(const struct sk_local *l) {
    for (uint32_t i = 0; i < l->pool.n_used; i++)
        if (l->pool.workers[i] && l->pool.workers[i]->up) return true;
    return false;
}

void sk_pool_bad_start(struct sk_local *l, const char *why) {
    /* if some workers are up, they do all the work, see sk_pool_spawn */
    if (++l->pool.n_bad_starts < SK_BAD_STARTS || sk_pool_any_up(l)) return;
    /* tasks submitted later try again */
    l->pool.n_bad_starts = 0;
    in_vain(l, why);
}

void sk_pool_started(struct sk_local *l, struct sk_lworker *w, int32_t pid) {
    w->pid = pid;
    l->pool.refused.n = 0;
    if (w->killed) SK_IGNORE(sk_forksrv_kill(&l->forksrv, w->pid, SIGKILL, NULL));
}

void sk_pool_ended(struct sk_lworker *w, int32_t pid) {
    if (w->pid <= 0) w->pid = pid;
}

void sk_pool_refused(struct sk_local *l, struct sk_lworker *w, int32_t e) {
    struct sk_worker_pool *p = &l->pool;
    w->refused = e;
    if (p->n_live <= 1) return;
    p->refused.e = e; /* the work goes on with the other processes */
    p->refused.there = p->n_live - 1;
    if (++p->refused.n >= SK_BAD_STARTS) p->refused.again_ns = sk_now_ns() + AGAIN_NS;
}

void sk_pool_ready(struct sk_local *l, struct sk_lworker *w, int32_t pid) {
    w->up = true;
    w->pid = pid;
    l->pool.n_bad_starts = 0;
    sk_starts_ready(&l->pool.starts);
    if (w->place.state == SK_W_STARTING) sk_place_worker_up(&l->place, &w->place);
    /* the worker was stopped while it started */
    if (w->stopped && !w->killed) sk_place_worker_exclude(&l->place, &w->place, w->stopped = false);
}

void sk_pool_gone(struct sk_local *l, struct sk_lworker *w) {
    SK_ASSERT(l->pool.n_live > 0 && l->pool.workers[w->slot] == w);
    l->pool.workers[w->slot] = NULL;
    l->pool.n_live--;
    SK_DCHECK(l->pool.n_evicted >= w->evicted);
    l->pool.n_evicted -= w->evicted;
}

/* The limit of processes is reached, and the idle ones are of another kind than what waits
 * (place.h): tells the one that was idle longest to end. Only one worker at a time: the next is
 * told when this one has gone, if that still helps. */
static void evict(struct sk_local *l) {
    struct sk_list *cold = sk_list_last(&l->place.idle);
    if (!cold || l->pool.n_evicted) return;
    struct sk_lworker *w = sk_container_of(sk_container_of(cold, struct sk_place_worker, link),
                                           struct sk_lworker, place);
    sk_driver_link_leave(l, w, "another environment needs its place");
    w->evicted = true;
    l->pool.n_evicted++;
    SK_DCHECK(l->pool.n_evicted <= l->pool.n_live);
}

/* Kills processes that are late to end, if their place or their memory is needed; else exit
 * handlers of the user may take their time. */
static void kill_late_ones(struct sk_local *l, int64_t now) {
    uint64_t limit = l->mem.limit_bytes; /* 0: memory is not measured */
    bool needed = (l->pool.n_live >= sk_pool_limit(l) &&
                   (l->place.n_ready || !sk_list_empty(&l->actors.wanting))) ||
                  (limit && l->mem.used_bytes > limit - limit / 16);
    for (uint32_t i = 0; needed && i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (w && w->leave_ns && now - w->leave_ns > LEAVE_NS)
            sk_driver_link_kill(l, w, "it was told to end, and did not; others need its place");
    }
}

uint32_t sk_pool_limit(const struct sk_local *l) {
    if (SK_LIKELY(l->pool.refused.n < SK_BAD_STARTS) || sk_now_ns() >= l->pool.refused.again_ns)
        return l->pool.n_slots;
    return SK_MIN(l->pool.refused.there, l->pool.n_slots);
}

struct sk_lworker *sk_pool_spawn(struct sk_local *l) {
    if (l->closing) return NULL;
    if (l->pool.n_live >= sk_pool_limit(l)) {
        evict(l);
        return NULL;
    }
    if (l->pool.n_bad_starts >= SK_BAD_STARTS && sk_pool_any_up(l)) return NULL;
    struct sk_err err;
    if (sk_pool_fd_lost(l)) {
        /* the fork server cannot be asked, and the end of its processes would not be reported */
        in_vain(l, SK_FD_LOST);
        return NULL;
    }
    if (l->pool.server_dead) {
        /* the driving thread tries again soon as long as a task is ready */
        if (!sk_starts_may(&l->pool.starts, sk_now_ns())) return NULL;
        if (sk_pool_server(l, &err) != SK_OK) {
            sk_pool_server_failed(l, true, err.msg);
            return NULL;
        }
    }
    uint32_t i = 0;
    while (i < l->pool.n_slots && l->pool.workers[i]) i++;
    if (i == l->pool.n_slots) return NULL;
    struct sk_lworker *w = sk_calloc(SK_TAG_ENGINE, sizeof *w);
    if (!w) return NULL;
    w->slot = i;
    w->proc = ++l->pool.next_proc;
    w->sh = sk_slot_at(l->ctl_seg.base, i);
    memset(w->sh, 0, sizeof *w->sh);
    w->sh->proc = w->proc;
    sk_ring_create(&w->down, sk_slot_down(w->sh), SK_RING_SIZE);
    sk_ring_create(&w->up_ring, sk_slot_up(w->sh), SK_RING_SIZE);
    sk_list_init(&w->sent);
    sk_list_init(&w->reqs);
    sk_list_init(&w->watches);
    sk_map_init(&w->known, SK_TAG_ENGINE);
    sk_place_worker_init(&w->place);
    if (sk_forksrv_spawn(&l->forksrv, i, &err) != SK_OK) {
        sk_free(w);
        return NULL;
    }
    SK_ASSERT(!l->pool.workers[i] && l->pool.n_live < l->pool.n_slots);
    l->pool.workers[i] = w;
    l->pool.n_used = SK_MAX(l->pool.n_used, i + 1);
    atomic_store_explicit(&l->ctl->n_used, l->pool.n_used, memory_order_release);
    l->pool.n_live++;
    sk_place_worker_starting(&l->place, &w->place);
    return w;
}

static bool is_stopped(int32_t pid) {
    char state;
    pid_t parent;
    /* false if the process has ended, which will be reported */
    return sk_proc_state(pid, &state, &parent) && (state == 'T' || state == 't');
}

/* Finds stopped processes. A task that such a process has claimed is left there: the process may go
 * on, and may have done half of the task. A task that the process has not begun must not wait, and
 * its claim word can be taken back although the process is stopped. A process is suspected when the
 * same unbegun task is seen twice; only then the kernel is asked, so a healthy worker costs a load
 * of its claim word. */
void sk_pool_look(struct sk_local *l, int64_t now) {
    l->pool.look_ns = now + LOOK_NS;
    if (sk_machine_) return; /* a process of a simulation is never stopped: it is slow, or dead */
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (!w || w->killed || w->dying || w->pid <= 0 || w->mem.paused) continue;
        if (w->stopped) {
            /* a worker that is not up yet gets tasks again when its first message arrives */
            if (!w->up || is_stopped(w->pid)) continue;
            w->stopped = false;
            sk_place_worker_exclude(&l->place, &w->place, false);
            continue;
        }
        const struct sk_list *it = sk_list_first(&w->sent);
        struct sk_ltask *t = it ? sk_container_of(it, struct sk_ltask, on) : NULL;
        uint64_t head =
            t && w->up && atomic_load(&w->sh->claims[t->claim]) == (t->id << 2 | SK_CLAIM_QUEUED)
                ? t->id
            : w->place.state == SK_W_STARTING ? UINT64_MAX
                                              : 0;
        SK_DCHECK(l->pool.workers[i] == w && w->slot == i);
        bool again = head && head == w->head_seen;
        w->head_seen = head;
        if (!again || !is_stopped(w->pid)) continue;
        if (w->actor) {
            if (t && t->kind == SK_TASK_INIT)
                sk_driver_link_kill_task(
                    l, t, "it was stopped (SIGSTOP) before the constructor of its actor began");
            continue;
        }
        for (struct sk_list *x = w->sent.prev; x != &w->sent;) {
            struct sk_ltask *k = sk_container_of(x, struct sk_ltask, on);
            x = x->prev;
            (void)sk_ltask_take_back(l, w, k);
        }
        /* the process went on, and has begun the task */
        if (w->place.state != SK_W_IDLE && w->place.state != SK_W_STARTING) continue;
        sk_place_worker_exclude(&l->place, &w->place, w->stopped = true);
    }
}

void sk_pool_reap(struct sk_local *l, int64_t now) {
    kill_late_ones(l, now);
    for (uint32_t i = 0; i < l->pool.n_used; i++)
        if (l->pool.workers[i] && l->pool.workers[i]->interrupt)
            sk_driver_link_interrupt(l, l->pool.workers[i]);
    sk_space_give_back(l);
    /* Ends idle workers beyond the CPUs, and those that hold much memory. The list is most
     * recently used first, so the worker at its end was idle longest. */
    if (l->place.n_ready || !l->place.n_idle) return;
    bool spare = l->place.n_idle > (uint32_t)SK_MAX(l->n_cpu, 1);
    struct sk_list *last = sk_list_last(&l->place.idle);
    SK_LIST_EACH_SAFE (it, tmp, &l->place.idle) {
        struct sk_lworker *w = sk_container_of(sk_container_of(it, struct sk_place_worker, link),
                                               struct sk_lworker, place);
        if (!w->idle_since_ns) w->idle_since_ns = now;
        else if (((spare && it == last) || w->mem.heap_bytes > GROWN_BYTES) &&
                 now - w->idle_since_ns > l->pool.idle_reap_ns && !w->killed)
            sk_driver_link_leave(l, w, "it was idle");
    }
    /* gives back pages of the store that are not used and will not be used soon */
    for (sk_off off = 0;;) {
        uint64_t len;
        if (l->place.n_idle + l->place.n_starting != l->pool.n_live ||
            !sk_store_take_punch(l->store, 2u << 20, &off, &len))
            break;
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len, NULL));
    }
}

bool sk_pool_check(const struct sk_local *l) {
    const struct sk_worker_pool *p = &l->pool;
    uint32_t live = 0, evicted = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        const struct sk_lworker *w = p->workers[i];
        if (!w) continue;
        if (i >= p->n_used || w->slot != i || !w->proc || w->proc > p->next_proc ||
            w->sh->proc != w->proc)
            return false;
        for (uint32_t j = 0; j < i; j++)
            if (p->workers[j] && p->workers[j]->proc == w->proc) return false;
        live++;
        evicted += w->evicted;
    }
    return live == p->n_live && evicted == p->n_evicted && p->n_used <= p->n_slots &&
           sk_forksrv_check(&l->forksrv) &&
           atomic_load_explicit(&l->ctl->n_used, memory_order_relaxed) == p->n_used &&
           (!p->server_dead || l->forksrv.pid == 0);
}

/* pool.c - the worker processes of the local engine: started when needed, watched, fed, reaped. Runs with the lock held, except for the two
 * threads at the end: `loop` drives the engine when no caller does, `watch` sleeps on the fork server's socket and reports deaths.
 *
 * A slot's rings are formatted before its process exists, so work can be sent to a worker that is still being forked. A slot is used again
 * only after its process is known to be dead. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/local_int.h"

#define LOOK_NS INT64_C(50000000)        /* between two looks at who is stopped */
#define GROWN_BYTES (UINT64_C(64) << 20) /* an idle process that holds so much after it gave back what it could */
#define LEAVE_NS \
    (5 * SK_SEC) /* a process that was told to end, hangs in exit handlers of the user and is in the way is killed after that */

/* ---- processes ------------------------------------------------------------------------------------------------------------------ */

sk_rc sk_pool_server(struct sk_local *l, struct sk_err *err) {
    const int keep[3] = {l->ctl_seg.fd, l->data_seg.fd, l->data_seg.tail_fd};
    size_t n = 0;
    char *const *from = l->spawn.env;
    extern char **environ;
    if (!from) from = environ;
    while (from[n]) n++;
    char ctl[160];
    char **env = sk_calloc(SK_TAG_ENGINE, (n + 2) * sizeof *env);
    if (!env) return SK_ERR(err, SK_ENOMEM, "no memory for the environment of the fork server");
    memcpy(env, from, n * sizeof *env);
    snprintf(ctl, sizeof ctl, "SKATE_CTL=%d,%zu,%d,%zu,%d,%zu", keep[0], l->ctl_seg.size, keep[1], l->data_seg.size, keep[2],
             l->data_seg.tail);
    env[n] = ctl;
    sk_rc rc = sk_forksrv_start(&l->srv, l->spawn.argv, env, keep, l->data_seg.tail ? 3 : 2, err);
    sk_free(env);
    if (rc != SK_OK) return rc;
    l->srv_dead = false;
    uint64_t one = 1; /* the watch thread must look at the new socket */
    if (l->host.wake_fd >= 0 && write(l->host.wake_fd, &one, sizeof one) < 0) return SK_ERR_SYS(err, "waking the watch thread");
    if (l->spawn.note.n) rc = sk_forksrv_note(&l->srv, l->spawn.note.p, l->spawn.note.n, err);
    return rc;
}

bool sk_pool_any_up(const struct sk_local *l) {
    for (uint32_t i = 0; i < l->n_used; i++)
        if (l->workers[i] && l->workers[i]->up) return true;
    return false;
}

void sk_pool_bad_start(struct sk_local *l, const char *why) {
    if (++l->n_bad_starts < SK_BAD_STARTS || sk_pool_any_up(l)) return; /* with some up: they do all the work, see sk_pool_spawn */
    l->n_bad_starts = 0;                                                /* what is submitted later tries again */
    snprintf(l->in_vain, sizeof l->in_vain, "%.300s", why);
}

/* All processes are there, and the idle ones are of another kind than what waits (place.h): the coldest makes room. One at a time: the next one
 * when it has gone, if that is still of use. */
static void evict(struct sk_local *l) {
    struct sk_list *cold = sk_list_last(&l->place.idle);
    if (!cold || l->n_evicted) return;
    struct sk_lworker *w = sk_container_of(sk_container_of(cold, struct sk_place_worker, link), struct sk_lworker, place);
    sk_peer_leave(l, w, "another environment needs its place");
    w->evicted = true;
    l->n_evicted++;
    SK_DCHECK(l->n_evicted <= l->n_live);
}

/* As long as nobody needs their place or their memory, exit handlers of the user may take their time. */
static void kill_late_ones(struct sk_local *l, int64_t now) {
    uint64_t limit = l->mem.limit_bytes; /* 0: not looked at */
    bool needed = (l->n_live >= sk_pool_limit(l) && (l->place.n_ready || !sk_list_empty(&l->actors.wanting))) ||
                  (limit && l->mem.used_bytes > limit - limit / 16);
    for (uint32_t i = 0; needed && i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (w && w->leave_ns && now - w->leave_ns > LEAVE_NS) sk_peer_kill(l, w, "it was told to end, and did not; others need its place");
    }
}

uint32_t sk_pool_limit(const struct sk_local *l) {
    if (SK_LIKELY(l->refused.n < SK_BAD_STARTS) || sk_now_ns() >= l->refused.again_ns) return l->max_workers;
    return SK_MIN(l->refused.there, l->max_workers);
}

struct sk_lworker *sk_pool_spawn(struct sk_local *l) {
    if (l->closing) return NULL;
    if (l->n_live >= sk_pool_limit(l)) {
        evict(l);
        return NULL;
    }
    if (l->n_bad_starts >= SK_BAD_STARTS && sk_pool_any_up(l)) return NULL;
    struct sk_err err;
    if (l->srv_dead && sk_pool_server(l, &err) != SK_OK) {
        sk_pool_bad_start(l, err.msg);
        return NULL;
    }
    uint32_t i = 0;
    while (i < l->n_slots && l->workers[i]) i++;
    if (i == l->n_slots) return NULL;
    struct sk_lworker *w = sk_calloc(SK_TAG_ENGINE, sizeof *w);
    if (!w) return NULL;
    w->slot = i;
    w->proc = ++l->next_proc;
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
    if (sk_forksrv_spawn(&l->srv, i, &err) != SK_OK) {
        sk_free(w);
        return NULL;
    }
    SK_ASSERT(!l->workers[i] && l->n_live < l->n_slots);
    l->workers[i] = w;
    l->n_used = SK_MAX(l->n_used, i + 1);
    atomic_store_explicit(&l->ctl->n_used, l->n_used, memory_order_release);
    l->n_live++;
    sk_place_worker_starting(&l->place, &w->place);
    return w;
}

static bool is_stopped(int32_t pid) {
    char state;
    pid_t parent;
    return sk_proc_state(pid, &state, &parent) && (state == 'T' || state == 't'); /* gone: that will be reported */
}

/* What a stopped process has claimed waits for it: it may go on, and have done half. What it has not begun must not, and a claim word can be taken
 * back though its owner sleeps. Twice seen on the same task before anybody asks the kernel, so a healthy worker costs a load of its claim word. */
void sk_pool_look(struct sk_local *l, int64_t now) {
    l->look_ns = now + LOOK_NS;
    if (sk_machine_) return; /* a process of a simulation is slow, or dead */
    for (uint32_t i = 0; i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (!w || w->killed || w->dying || w->pid <= 0 || w->mem.paused) continue;
        if (w->aside) {
            if (!w->up || is_stopped(w->pid)) continue; /* not up: its first words bring it back */
            w->aside = false;
            sk_place_worker_aside(&l->place, &w->place, false);
            continue;
        }
        const struct sk_list *it = sk_list_first(&w->sent);
        struct sk_ltask *t = it ? sk_container_of(it, struct sk_ltask, on) : NULL;
        uint64_t head = t && w->up && atomic_load(&w->sh->claims[t->claim]) == (t->id << 2 | SK_CLAIM_QUEUED) ? t->id
                        : w->place.state == SK_W_STARTING                                                     ? UINT64_MAX
                                                                                                              : 0;
        SK_DCHECK(l->workers[i] == w && w->slot == i);
        bool again = head && head == w->head_seen;
        w->head_seen = head;
        if (!again || !is_stopped(w->pid)) continue;
        if (w->actor) {
            if (t && t->is_init) sk_peer_kill_task(l, t, "it was stopped (SIGSTOP) before the constructor of its actor began");
            continue;
        }
        for (struct sk_list *x = w->sent.prev; x != &w->sent;) {
            struct sk_ltask *k = sk_container_of(x, struct sk_ltask, on);
            x = x->prev;
            (void)sk_ltask_take_back(l, w, k);
        }
        if (w->place.state != SK_W_IDLE && w->place.state != SK_W_STARTING) continue; /* it went on, and began */
        sk_place_worker_aside(&l->place, &w->place, w->aside = true);
    }
}

void sk_pool_reap(struct sk_local *l, int64_t now) {
    kill_late_ones(l, now);
    for (uint32_t i = 0; i < l->n_used; i++)
        if (l->workers[i] && l->workers[i]->interrupt) sk_peer_interrupt(l, l->workers[i]);
    sk_space_give_back(l);
    /* Idle workers beyond the CPUs go, and those that hold much; the list is most recently used first, so the end of it is the coldest. */
    if (l->place.n_ready || !l->place.n_idle) return;
    bool spare = l->place.n_idle > (uint32_t)SK_MAX(l->n_cpu, 1);
    struct sk_list *last = sk_list_last(&l->place.idle);
    SK_LIST_EACH_SAFE (it, tmp, &l->place.idle) {
        struct sk_lworker *w = sk_container_of(sk_container_of(it, struct sk_place_worker, link), struct sk_lworker, place);
        if (!w->idle_since_ns) w->idle_since_ns = now;
        else if (((spare && it == last) || w->mem.heap_bytes > GROWN_BYTES) && now - w->idle_since_ns > l->idle_reap_ns && !w->killed)
            sk_peer_leave(l, w, "it was idle");
    }
    for (sk_off off = 0;;) { /* pages of the store that nobody uses and nobody will soon */
        uint64_t len;
        if (l->place.n_idle + l->place.n_starting != l->n_live || !sk_store_take_punch(l->store, 2u << 20, &off, &len)) break;
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len, NULL));
    }
}

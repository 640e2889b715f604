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
    (5 * SK_SEC)        /* a process that was told to end, hangs in exit handlers of the user and is in the way is killed after that */
#define AGAIN_NS SK_SEC /* after the system refused a process */
#define BAD_STARTS 8    /* so many processes in a row that end before they are ready: it is no accident */

/* ---- messages down ------------------------------------------------------------------------------------------------------------ */

sk_rc sk_pool_send(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len) {
    if (w->out.n) return SK_EAGAIN; /* keeps the order */
    if (len <= sk_ring_max_msg(&w->down)) {
        void *p = sk_ring_reserve(&w->down, len);
        if (!p) return SK_EAGAIN;
        memcpy(p, msg, len);
        sk_ring_commit(&w->down, len);
    } else {
        sk_off off;
        void *p = sk_ring_reserve(&w->down, 24);
        if (!p) return SK_EAGAIN;
        if (!sk_vec_reserve(&w->big, SK_TAG_ENGINE, w->big.n + 1)) return SK_ENOMEM;
        SK_TRY(sk_store_alloc(l->store, SK_PROC_DRIVER, len, &off, NULL));
        memcpy(l->data_seg.base + off, msg, len);
        sk_rc rc = sk_store_commit(l->store, SK_PROC_DRIVER, off, len, NULL);
        if (rc != SK_OK) {
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_DRIVER, off, len, NULL));
            return rc;
        }
        w->big.p[w->big.n++] = off;
        struct {
            uint32_t type, pad;
            uint64_t off, len;
        } m = {SK_M_BIG, 0, off, len};
        memcpy(p, &m, sizeof m);
        sk_ring_commit(&w->down, sizeof m);
    }
    sk_bell_ring(&w->sh->bell);
    return SK_OK;
}

/* Answers must not be lost: what does not fit now is kept, in order, until the worker has read. */
bool sk_pool_reply(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len) {
    sk_rc rc = w->dying ? SK_OK : sk_pool_send(l, w, msg, len);
    if (rc == SK_OK) return true;
    if (rc == SK_EFULL) return false; /* kept, it might wait for ever: for memory that this worker or who waits for it holds */
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, len + 8);
    if (p) {
        uint64_t n = len;
        memcpy(p, &n, 8);
        memcpy(p + 8, msg, len);
    }
    if (!p || !sk_vec_push(&w->out, SK_TAG_ENGINE, p)) {
        sk_free(p);
        sk_pool_kill(l, w, "there is no memory left to answer it");
    }
    return true;
}

void sk_pool_flush(struct sk_local *l, struct sk_lworker *w) {
    uint32_t n = w->out.n, i = 0;
    if (w->dying) return;
    w->out.n = 0; /* sk_pool_send refuses while something is kept */
    for (; i < n; i++) {
        uint64_t len;
        memcpy(&len, w->out.p[i], 8);
        if (sk_pool_send(l, w, w->out.p[i] + 8, (size_t)len) != SK_OK) break;
        sk_free(w->out.p[i]);
    }
    if (i && i < n) memmove(w->out.p, w->out.p + i, (n - i) * sizeof *w->out.p);
    w->out.n = n - i;
}

/* ---- processes ------------------------------------------------------------------------------------------------------------------ */

static sk_rc server_up(struct sk_local *l, struct sk_err *err) {
    const int keep[3] = {l->ctl_seg.fd, l->data_seg.fd, l->data_seg.tail_fd};
    size_t n = 0;
    char *const *from = l->env;
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
    sk_rc rc = sk_forksrv_start(&l->srv, l->argv, env, keep, l->data_seg.tail ? 3 : 2, err);
    sk_free(env);
    if (rc != SK_OK) return rc;
    l->srv_dead = false;
    uint64_t one = 1; /* the watch thread must look at the new socket */
    if (l->wake_fd >= 0 && write(l->wake_fd, &one, sizeof one) < 0) return SK_ERR_SYS(err, "waking the watch thread");
    if (l->note.n) rc = sk_forksrv_note(&l->srv, l->note.p, l->note.n, err);
    return rc;
}

static bool any_up(const struct sk_local *l) {
    for (uint32_t i = 0; i < l->n_used; i++)
        if (l->workers[i] && l->workers[i]->up) return true;
    return false;
}

void sk_pool_bad_start(struct sk_local *l, const char *why) {
    if (++l->n_bad_starts < BAD_STARTS || any_up(l)) return; /* with some up: they do all the work, see sk_pool_spawn */
    l->n_bad_starts = 0;                                     /* what is submitted later tries again */
    sk_loop_fail_waiting(l, SK_EDEAD, why);
}

/* All processes are there, and the idle ones are of another kind than what waits (place.h): the coldest makes room. One at a time: the next one
 * when it has gone, if that is still of use. */
static void evict(struct sk_local *l) {
    struct sk_list *cold = sk_list_last(&l->place.idle);
    if (!cold || l->n_evicted) return;
    struct sk_lworker *w = sk_container_of(sk_container_of(cold, struct sk_place_worker, link), struct sk_lworker, place);
    sk_pool_leave(l, w, "another environment needs its place");
    w->evicted = true;
    l->n_evicted++;
}

/* It looks who is meant. A signal between the moment when Python last looked for one and that at which it goes to sleep is seen after the sleep: so it
 * is sent again (sk_pool_reap) until the worker says that it has interrupted the task. */
void sk_pool_interrupt(struct sk_local *l, struct sk_lworker *w) {
    const struct sk_ltask *t = sk_map_get(&l->tasks, w->interrupt);
    if (!t || t->worker != w || t->state != SK_T_SENT || atomic_load_explicit(&w->sh->interrupted, memory_order_acquire) == t->id)
        w->interrupt = 0;
    else if (!w->killed && w->pid > 0) SK_IGNORE(sk_forksrv_kill(&l->srv, w->pid, SIGINT, NULL));
}

/* As long as nobody needs their place or their memory, exit handlers of the user may take their time. */
static void kill_late_ones(struct sk_local *l, int64_t now) {
    uint64_t limit = l->mem.limit_bytes; /* 0: not looked at */
    bool needed =
        (l->n_live >= sk_pool_limit(l) && (l->place.n_ready || l->n_homeless)) || (limit && l->mem.used_bytes > limit - limit / 16);
    for (uint32_t i = 0; needed && i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (w && w->leave_ns && now - w->leave_ns > LEAVE_NS) sk_pool_kill(l, w, "it was told to end, and did not; others need its place");
    }
}

uint32_t sk_pool_limit(const struct sk_local *l) {
    if (SK_LIKELY(l->refused.n < BAD_STARTS) || sk_now_ns() >= l->refused.again_ns) return l->max_workers;
    return SK_MIN(l->refused.there, l->max_workers);
}

struct sk_lworker *sk_pool_spawn(struct sk_local *l) {
    if (l->closing) return NULL;
    if (l->n_live >= sk_pool_limit(l)) {
        evict(l);
        return NULL;
    }
    if (l->n_bad_starts >= BAD_STARTS && any_up(l)) return NULL;
    struct sk_err err;
    if (l->srv_dead && server_up(l, &err) != SK_OK) {
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
    l->workers[i] = w;
    l->n_used = SK_MAX(l->n_used, i + 1);
    atomic_store_explicit(&l->ctl->n_used, l->n_used, memory_order_release);
    l->n_live++;
    sk_place_worker_starting(&l->place, &w->place);
    return w;
}

void sk_pool_kill(struct sk_local *l, struct sk_lworker *w, const char *why) {
    if (w->killed) return;
    w->killed = true;
    w->kill_why = why;
    if (w->pid > 0) SK_IGNORE(sk_forksrv_kill(&l->srv, w->pid, SIGKILL, NULL));
    /* Not started yet: killed when its STARTED report comes. Its death arrives as a report. */
    sk_pool_retire(l, w);
}

void sk_pool_kill_task(struct sk_local *l, struct sk_ltask *t, const char *why) {
    struct sk_lworker *w = t->worker;
    if (w->killed) return;
    w->kill_task = t->id;
    sk_pool_kill(l, w, why);
}

void sk_pool_retire(struct sk_local *l, struct sk_lworker *w) {
    if (w->killed && w->place.state == SK_W_IDLE) sk_place_worker_gone(&l->place, &w->place);
}

void sk_pool_leave(struct sk_local *l, struct sk_lworker *w, const char *why) {
    uint32_t m[2] = {SK_M_EXIT, 0};
    if (w->killed) return;
    sk_place_worker_gone(&l->place, &w->place);
    (void)sk_pool_reply(l, w, m, sizeof m);
    w->kill_why = why;
    w->leave_ns = sk_now_ns();
}

static void report(struct sk_local *l, const struct sk_fork_report *r) {
    struct sk_lworker *w = r->worker < l->n_slots ? l->workers[r->worker] : NULL;
    if (!w) return;
    if (r->kind == SK_FORK_STARTED) {
        w->pid = r->pid;
        l->refused.n = 0;
        if (w->killed) SK_IGNORE(sk_forksrv_kill(&l->srv, w->pid, SIGKILL, NULL));
    } else if (r->kind == SK_FORK_ENDED) {
        if (w->pid <= 0) w->pid = r->pid;
        sk_loop_worker_died(l, w, r->status, r->maxrss_bytes);
    } else if (r->kind == SK_FORK_FAILED) {
        w->refused = r->status;
        if (l->n_live > 1) { /* with the others the work goes on */
            l->refused.e = r->status;
            l->refused.there = l->n_live - 1;
            if (++l->refused.n >= BAD_STARTS) l->refused.again_ns = sk_now_ns() + AGAIN_NS;
        }
        sk_loop_worker_died(l, w, -1, 0);
    }
}

void sk_pool_reports(struct sk_local *l) {
    for (;;) {
        struct sk_fork_report r;
        sk_rc rc = sk_forksrv_next(&l->srv, &r, NULL);
        if (rc == SK_OK) {
            report(l, &r);
            continue;
        }
        if (rc == SK_EAGAIN) return;
        /* The server is gone, and the kernel has killed every worker with it. A new one is started with the next worker. */
        sk_forksrv_stop(&l->srv);
        l->srv_dead = true;
        bool none = !any_up(l);
        for (uint32_t i = 0; i < l->n_used; i++)
            if (l->workers[i]) sk_loop_worker_died(l, l->workers[i], -1, 0);
        if (none) sk_pool_bad_start(l, "the fork server ends before a worker is ready; its own messages, on stderr, say why");
        struct sk_err err;
        if (!l->closing && l->srv_dead && (!none || l->n_bad_starts))
            SK_IGNORE(server_up(l, &err)); /* refused: the next spawn tries again */
        return;
    }
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
        bool again = head && head == w->head_seen;
        w->head_seen = head;
        if (!again || !is_stopped(w->pid)) continue;
        if (w->actor) {
            if (t && t->is_init) sk_pool_kill_task(l, t, "it was stopped (SIGSTOP) before the constructor of its actor began");
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
        if (l->workers[i] && l->workers[i]->interrupt) sk_pool_interrupt(l, l->workers[i]);
    sk_space_give_back(l);
    /* Idle workers beyond the CPUs go, and those that hold much; the list is most recently used first, so the end of it is the coldest. */
    if (l->place.n_ready || !l->place.n_idle) return;
    bool spare = l->place.n_idle > (uint32_t)SK_MAX(l->n_cpu, 1);
    struct sk_list *last = sk_list_last(&l->place.idle);
    SK_LIST_EACH_SAFE (it, tmp, &l->place.idle) {
        struct sk_lworker *w = sk_container_of(sk_container_of(it, struct sk_place_worker, link), struct sk_lworker, place);
        if (!w->idle_since_ns) w->idle_since_ns = now;
        else if (((spare && it == last) || w->mem.heap_bytes > GROWN_BYTES) && now - w->idle_since_ns > l->idle_reap_ns && !w->killed)
            sk_pool_leave(l, w, "it was idle");
    }
    for (sk_off off = 0;;) { /* pages of the store that nobody uses and nobody will soon */
        uint64_t len;
        if (l->place.n_idle + l->place.n_starting != l->n_live || !sk_store_take_punch(l->store, 2u << 20, &off, &len)) break;
        SK_IGNORE(sk_seg_punch(&l->data_seg, off, (size_t)len, NULL));
    }
}

/* A dropped queue of a million tasks leaves tables of that size, and a heap in pieces. True: so it was twice in a row, the tables are small now, and
 * malloc should give back what it keeps. */
static bool shrink(struct sk_local *l) {
    bool roomy = sk_map_roomy(&l->tasks) || sk_own_roomy(l->own), twice = roomy && l->roomy;
    l->roomy = roomy && !twice;
    if (!twice) return false;
    sk_map_shrink(&l->tasks);
    sk_own_shrink(l->own);
    sk_lineage_shrink(l->lin);
    return true;
}

/* ---- threads ---------------------------------------------------------------------------------------------------------------------- */

static void *loop_main(void *arg) {
    struct sk_local *l = arg;
    sk_space_no_waiting();
    struct sk_pace pace = {.last_reap_ns = sk_now_ns()};
    pthread_mutex_lock(&l->mu);
    while (!l->closing) {
        uint32_t seen = sk_bell_seq(&l->ctl->bell[1]);
        uint32_t n = 0;
        if (!l->driving) {
            uint64_t before = l->progress;
            n = sk_loop_pump(l);
            sk_space_step(l);
            sk_loop_dispatch(l);
            if ((n || l->progress != before) && l->n_callers) pthread_cond_broadcast(&l->turn);
        }
        int64_t now = sk_now_ns();
        bool shrunk = false;
        if (sk_pace_reap(&pace, now)) {
            sk_pool_reap(l, now);
            shrunk = shrink(l);
        }
        struct sk_pace_view view = sk_loop_view(l, now, n);
        struct sk_pace_sleep s = sk_pace_thread(&pace, &view);
        pthread_mutex_unlock(&l->mu);
        if (shrunk) (void)malloc_trim(0);
        if (s.nap_ns) {
            struct timespec ts = {0, s.nap_ns};
            nanosleep(&ts, NULL);
        } else {
            (void)sk_bell_wait(&l->ctl->bell[1], seen, s.spin_ns, s.until_ns);
        }
        pthread_mutex_lock(&l->mu);
    }
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

static void *watch_main(void *arg) {
    struct sk_local *l = arg;
    sk_space_no_waiting();
    pthread_mutex_lock(&l->mu);
    for (;;) {
        struct pollfd p[2] = {{.fd = l->wake_fd, .events = POLLIN}, {.fd = l->srv.sock, .events = POLLIN}};
        pthread_mutex_unlock(&l->mu);
        int n = poll(p, 2, -1);
        pthread_mutex_lock(&l->mu);
        if (n < 0) p[0].revents = p[1].revents = 0; /* EINTR */
        if (l->closing) {
            pthread_mutex_unlock(&l->mu);
            return NULL;
        }
        if (p[1].revents) {
            sk_pool_reports(l);
            sk_loop_dispatch(l);
            if (l->n_callers) pthread_cond_broadcast(&l->turn);
            sk_bell_ring(&l->ctl->bell[0]);
            sk_bell_ring(&l->ctl->bell[1]);
        }
        if (p[0].revents) {
            uint64_t v;
            if (read(l->wake_fd, &v, sizeof v) < 0) v = 0;
        }
    }
}

sk_rc sk_pool_start(struct sk_local *l, struct sk_err *err) {
    SK_TRY(server_up(l, err));
    if (sk_machine_) return SK_OK; /* a simulation: whoever waits does what the threads do */
    l->wake_fd = SK_FAULT("pool.eventfd") ? (errno = EMFILE, -1) : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (l->wake_fd < 0) return SK_ERR_SYS(err, "eventfd");
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e = SK_FAULT("pool.thread") ? EAGAIN : pthread_create(&l->loop_thread, NULL, loop_main, l);
    if (e == 0 && (e = pthread_create(&l->watch_thread, NULL, watch_main, l)) != 0) {
        pthread_mutex_lock(&l->mu);
        l->closing = true;
        pthread_mutex_unlock(&l->mu);
        sk_bell_ring(&l->ctl->bell[1]);
        pthread_join(l->loop_thread, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) {
        errno = e;
        return SK_ERR_SYS(err, "starting the engine's threads (" SK_FORK_HINT ")");
    }
    l->threads_up = true;
    return SK_OK;
}

void sk_pool_stop(struct sk_local *l) {
    if (l->threads_up) {
        uint64_t one = 1;
        if (write(l->wake_fd, &one, sizeof one) < 0) sk_assert_fail("eventfd write", __FILE__, __LINE__);
        sk_bell_ring(&l->ctl->bell[1]);
        pthread_join(l->loop_thread, NULL);
        pthread_join(l->watch_thread, NULL);
        l->threads_up = false;
    }
    sk_forksrv_stop(&l->srv);
    if (l->wake_fd >= 0) close(l->wake_fd);
    l->wake_fd = -1;
}

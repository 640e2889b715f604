/* host.c - the engine's own threads, and the reports of the fork server. The thread `loop` drives
 * the engine when no caller does; `watch` sleeps on the fork server's socket and handles deaths.
 * Both hold the lock except while they sleep. A simulation has no such threads: the waiting code
 * does their work.
 *
 * Not here: making and ending worker processes (pool.c), the end of a worker (death.c). */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

/* ---- reports --------------------------------------------------------------------------------- */

static void report(struct sk_local *l, const struct sk_fork_report *r) {
    struct sk_lworker *w = r->worker < l->pool.n_slots ? l->pool.workers[r->worker] : NULL;
    if (!w) return;
    if (r->kind == SK_FORK_STARTED) {
        sk_pool_started(l, w, r->pid);
    } else if (r->kind == SK_FORK_ENDED) {
        sk_pool_ended(w, r->pid);
        /* the worker may have printed text that it had not counted yet */
        atomic_fetch_add_explicit(&l->ctl->printed, 1, memory_order_release);
        sk_loop_worker_died(l, w, r->status, r->maxrss_bytes);
    } else if (r->kind == SK_FORK_FAILED) {
        sk_pool_refused(l, w, r->status);
        sk_loop_worker_died(l, w, -1, 0);
    }
}

void sk_host_reports(struct sk_local *l) {
    for (;;) {
        struct sk_fork_report r;
        sk_rc rc = sk_forksrv_next(&l->forksrv, &r, NULL);
        if (rc == SK_OK) {
            report(l, &r);
            continue;
        }
        if (rc == SK_EAGAIN) return;
        /* The server is gone (or the user has closed its socket), and the kernel has killed
         * every worker with it. If workers had been ready, a new server is started now; otherwise
         * it is started when the next worker is needed. */
        bool by_itself = sk_pool_server_gone(l), none = !sk_pool_any_up(l);
        /* a sink that is told of the deaths may submit: workers with higher numbers belong to a
         * new server */
        uint32_t last = l->pool.next_proc;
        for (uint32_t i = 0; i < l->pool.n_used; i++)
            if (l->pool.workers[i] && l->pool.workers[i]->proc <= last)
                sk_loop_worker_died(l, l->pool.workers[i], -1, 0);
        if (none && by_itself)
            sk_pool_server_failed(l, true,
                                  "the fork server ends before a worker is ready; its own "
                                  "messages, on stderr, say why");
        else if (none)
            sk_pool_server_failed(l, false,
                                  "the fork server is killed before a worker is ready; a user may "
                                  "do so, and the kernel when memory is short (dmesg)");
        struct sk_err err;
        /* on failure the next spawn tries again */
        if (!none && !l->closing && l->pool.server_dead) SK_IGNORE(sk_pool_server(l, &err));
        return;
    }
}

/* ---- threads --------------------------------------------------------------------------------- */

/* A dropped queue of a million tasks leaves tables of that size, and a fragmented heap. Shrinks
 * the tables if they were too large twice in a row; true: the tables were shrunk, and malloc should
 * give back the memory that it keeps. */
static bool shrink(struct sk_local *l) {
    bool roomy = sk_map_roomy(&l->tasks) || sk_own_roomy(l->own), twice = roomy && l->host.roomy;
    l->host.roomy = roomy && !twice;
    if (!twice) return false;
    sk_map_shrink(&l->tasks);
    sk_own_shrink(l->own);
    sk_lineage_shrink(l->lin);
    return true;
}

static void *loop_main(void *arg) {
    struct sk_local *l = arg;
    sk_space_depth = 1; /* this thread is the engine's own, and never waits for room */
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
        if (!l->driving) sk_show_turn(l, now);
        bool shrunk = false;
        if (sk_pace_reap(&pace, now)) {
            sk_pool_reap(l, now);
            shrunk = shrink(l);
        }
        struct sk_pace_view view = sk_loop_view(l, now, n);
        struct sk_pace_sleep s = sk_pace_thread(&pace, &view);
        if (!l->driving && l->show.seen != l->progress)
            s.until_ns = SK_MIN(s.until_ns, l->show.next_ns); /* what is shown must not stay old */
        pthread_mutex_unlock(&l->mu);
        if (shrunk) sk_mem_trim();
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

/* A thread that is cancelled leaves its frames without cleaning up what AddressSanitizer has marked
 * around their variables, and AddressSanitizer then reports these marks as errors. */
#define NO_REDZONES __attribute__((no_sanitize_address))

/* The thread can be cancelled only in this poll(), where it holds nothing. A descriptor to wake the
 * thread would be one more descriptor that the user may close. */
NO_REDZONES static void watch_sleep(int sock) {
    int old;
    struct pollfd p = {.fd = sock, .events = POLLIN};
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    (void)poll(&p, 1, -1); /* sk_host_reports finds out about EINTR and a closed descriptor */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
}

NO_REDZONES static void *watch_main(void *arg) {
    struct sk_local *l = arg;
    int old;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    sk_space_depth = 1; /* this thread is the engine's own, and never waits for room */
    sk_viewer_warm(&l->show.s.w);
    pthread_mutex_lock(&l->mu);
    while (!l->closing) {
        if (l->pool.server_dead) {
            pthread_cond_wait(&l->server_up, &l->mu);
            continue;
        }
        int sock = l->forksrv.sock;
        pthread_mutex_unlock(&l->mu);
        watch_sleep(sock);
        pthread_mutex_lock(&l->mu);
        if (l->closing || l->pool.server_dead) continue;
        sk_host_reports(l);
        sk_loop_dispatch(l);
        if (l->n_callers) pthread_cond_broadcast(&l->turn);
        sk_bell_ring(&l->ctl->bell[0]);
        sk_bell_ring(&l->ctl->bell[1]);
    }
    pthread_mutex_unlock(&l->mu);
    return NULL;
}

sk_rc sk_host_start(struct sk_local *l, struct sk_err *err) {
    SK_TRY(sk_pool_server(l, err));
    if (sk_machine_) return SK_OK; /* a simulation: the code that waits does what the threads do */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int e =
        SK_FAULT("pool.thread") ? EAGAIN : pthread_create(&l->host.loop_thread, NULL, loop_main, l);
    if (e == 0 && (e = pthread_create(&l->host.watch_thread, NULL, watch_main, l)) != 0) {
        pthread_mutex_lock(&l->mu);
        l->closing = true;
        pthread_mutex_unlock(&l->mu);
        sk_bell_ring(&l->ctl->bell[1]);
        pthread_join(l->host.loop_thread, NULL);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e) {
        errno = e;
        return SK_ERR_SYS(err, "starting the engine's threads (" SK_FORK_HINT ")");
    }
    l->host.threads_up = true;
    return SK_OK;
}

void sk_host_stop(struct sk_local *l) {
    if (l->host.threads_up) {
        if (sk_pool_fd_lost(l)) fprintf(stderr, "skate: " SK_FD_LOST "\n");
        pthread_cond_broadcast(&l->server_up);
        pthread_cancel(l->host.watch_thread);
        sk_bell_ring(&l->ctl->bell[1]);
        pthread_join(l->host.loop_thread, NULL);
        pthread_join(l->host.watch_thread, NULL);
        l->host.threads_up = false;
    }
    sk_forksrv_stop(&l->forksrv);
}

/* death.c - what is left of a worker that ended: its last words are read, its tasks run again or fail, its counts, pins and leases go.
 * Runs with the lock held. Not here: noticing it (pool.c), restarting an actor (actor.c). */
#include <stdio.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/local_int.h"

size_t sk_worker_hand(const struct sk_lworker *w, char *buf, size_t cap) {
    struct sk_slot *s = w->sh;
    uint64_t task = atomic_load_explicit(&s->task, memory_order_relaxed);
    s->doing[sizeof s->doing - 1] = 0;
    if (cap) buf[0] = 0;
    if (!task || task != atomic_load_explicit(&s->hand, memory_order_relaxed) || !s->doing[0]) return 0;
    return (size_t)snprintf(buf, cap, "\nin %s", s->doing);
}

static void death_text(struct sk_lworker *w, int status, uint64_t maxrss, char *buf, size_t cap) {
    char how[400];
    if (w->refused) {
        (void)snprintf(buf, cap, "the system refuses a worker process: fork: %s (" SK_FORK_HINT ")", strerror(w->refused));
        return;
    }
    if (w->mem.oom) snprintf(how, sizeof how, "was stopped for memory: %.350s", sk_lmem_story(w));
    else if (w->kill_why) snprintf(how, sizeof how, "was stopped: %s", w->kill_why);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGKILL ? "; nobody but the kernel's out-of-memory killer or a user sends it" : "");
    else if (WIFEXITED(status)) snprintf(how, sizeof how, "exited with code %d", WEXITSTATUS(status));
    else snprintf(how, sizeof how, "disappeared with the fork server");
    size_t n = (size_t)snprintf(buf, cap, "worker process %d %s; peak memory %.0f MiB", w->pid, how, (double)maxrss / 1048576.0);
    w->sh->crash[sizeof w->sh->crash - 1] = 0;
    if (n < cap) n += sk_worker_hand(w, buf + n, cap - n);
    if (w->sh->crash[0] && n < cap) snprintf(buf + n, cap - n, "\n%.800s", w->sh->crash);
}

/* Nobody reads its streams any more. In batches: dropping one changes the map, and may end others. */
static void drop_streams(struct sk_local *l, uint32_t proc) {
    uint64_t ids[256], key;
    void *v;
    for (uint32_t n = SK_COUNT(ids); n == SK_COUNT(ids) && l->n_worker_streams;) {
        n = 0;
        for (uint32_t i = 0; n < SK_COUNT(ids) && sk_map_next(&l->tasks, &i, &key, &v);) {
            const struct sk_ltask *t = v;
            if (t->is_stream && !t->sink && t->owner == proc && !t->dropped) ids[n++] = key;
        }
        for (uint32_t i = 0; i < n; i++) {
            struct sk_ltask *t = sk_map_get(&l->tasks, ids[i]);
            if (t && !t->dropped) sk_stream_drop(l, t);
        }
    }
}

void sk_loop_worker_died(struct sk_local *l, struct sk_lworker *w, int status, uint64_t maxrss) {
    char why[1800];
    w->dying = true;
    SK_ASSERT(!l->pumping);
    l->pumping = true;
    sk_loop_pump_worker(l, w); /* what it said before it died counts */
    l->pumping = false;
    sk_lmem_died(l, w, status);
    death_text(w, status, maxrss, why, sizeof why);
    if (!w->refused && (!w->kill_why || w->sent.next != &w->sent)) l->n_worker_deaths++;
    sk_list_splice(&w->reqs, &w->watches);
    while (!sk_list_empty(&w->reqs)) sk_req_free(l, sk_container_of(w->reqs.next, struct sk_req, link));
    struct sk_lactor *a = w->actor;
    struct sk_list lost;
    sk_list_init(&lost);
    while (!sk_list_empty(&w->sent)) {
        struct sk_list *it = w->sent.next;
        struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        /* Looked at before anybody is told: a sink may submit, and the slot be used again. */
        uint64_t c = atomic_load_explicit(&w->sh->claims[t->claim], memory_order_acquire);
        t->was_started = c == (t->id << 2 | SK_CLAIM_STARTED) || c == (t->id << 2 | SK_CLAIM_CANCELLED);
        sk_list_del(it);
        sk_list_push_back(&lost, it);
    }
    /* Like a task that is only queued, an actor whose constructor was not begun goes elsewhere at no cost; so does all that was on a worker which
     * the engine killed for the sake of one task that had ended by then. */
    bool charged = a && !w->kill_task && (a->state == SK_A_ALIVE || w->killed || (a->placed && a->init->was_started));
    w->sh->pid = 0; /* may soon be another process's */
    l->workers[w->slot] = NULL;
    l->n_live--;
    l->n_evicted -= w->evicted;
    sk_place_worker_gone(&l->place, &w->place);
    sk_own_proc_dead(l->own, w->proc);
    sk_store_proc_dead(l->store, w->proc);
    sk_space_worker_gone(l, w);
    for (uint32_t i = 0; i < w->big.n; i++) sk_store_unref(l->store, w->big.p[i]);
    if (a) { /* not its actor any more, so it is not dead */
        a->worker = NULL;
        l->n_homeless++;
    }
    drop_streams(l, w->proc);
    struct sk_list again; /* method calls of an actor that restarts, in order */
    sk_list_init(&again);
    while (!sk_list_empty(&lost)) {
        struct sk_ltask *t = sk_container_of(lost.next, struct sk_ltask, on);
        sk_list_del(&t->on);
        t->worker = NULL;
        if (t->aside) sk_recover_left(l, t, NULL);
        bool started = t->was_started;
        if (started) {
            t->ran_on = w->pid;
            t->ran_slot = w->slot;
            if (atomic_load(&w->sh->task) == t->id) t->start_ns = atomic_load(&w->sh->since_ns);
        }
        char name[200];
        const char *tn = sk_ltask_name(l, t, name, sizeof name);
        if (t->cancelled) {
            sk_ltask_fail_cancelled(l, t);
        } else if (started && !t->actor && sk_place_shape_dead(&l->place, t->place.shape)) {
            sk_ltask_fail(l, t, SK_EGROUP, "the placement group of task %s was removed while it ran", tn);
        } else if (t->is_init) {
            /* Stays SENT until sk_actor_worker_died says what becomes of it: a call that fails here may make others try to place the actor. */
        } else if (t->actor) {
            bool restart = a && !a->no_restart && (!charged || a->restarts_left != 0);
            if (restart && (!charged || t->retries_left != 0 || (!started && sk_actor_call_waits(a, t)))) {
                if (started && charged && t->retries_left > 0) t->retries_left--;
                if (started) {
                    sk_state_attempt(l, t, SK_EACTOR, why);
                    t->attempt++;
                }
                t->state = SK_T_READY;
                sk_list_push_back(&again, &t->on);
            } else {
                sk_ltask_fail(l, t,
                              w->mem.oom                   ? SK_EOOM
                              : restart && t->spec.no_wait ? SK_EUNAVAIL
                                                           : SK_EACTOR,
                              "the actor died while task %s was on it%s: %s", tn, restart ? " (it is started again)" : "",
                              w->mem.oom ? sk_lmem_story(w) : why);
            }
        } else if (!started) {
            t->state = SK_T_READY;
            sk_place_push(&l->place, &t->place);
        } else if (w->kill_task && t->id != w->kill_task) {
            sk_ltask_retry(l, t, SK_EDEAD, why);
        } else if (w->mem.oom) {
            sk_lmem_stopped(l, w, t);
        } else if (t->retries_left != 0) {
            if (t->retries_left > 0) t->retries_left--;
            sk_ltask_retry(l, t, SK_EDEAD, why);
        } else {
            sk_ltask_fail(l, t, SK_EDEAD, "task %s, attempt %u: %s", tn, t->attempt + 1, why);
        }
    }
    if (a) {
        sk_actor_fail_hasty(l, a, why);
        while (!sk_list_empty(&again)) { /* in front of those not sent */
            struct sk_list *it = again.prev;
            sk_list_del(it);
            sk_list_push_front(&a->queue, it);
        }
        sk_actor_worker_died(l, a, charged, why);
    }
    bool existed = !w->refused;
    bool bad_start = !w->up && !w->killed && (w->refused ? !l->n_live : status != -1 || w->kill_why);
    sk_lmem_gone(w);
    sk_map_deinit(&w->known);
    for (uint32_t i = 0; i < w->out.n; i++) sk_free(w->out.p[i]);
    sk_vec_free(&w->out);
    sk_vec_free(&w->big);
    sk_free(w);
    if (bad_start) sk_pool_bad_start(l, why);
    sk_obj_drain(l);
    l->progress += existed; /* a process that the system refused changes nothing; `stuck` of loop.c waits while nothing does */
}

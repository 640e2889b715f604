/* death.c - the end of a worker: its last messages are read, its tasks run again or fail, its
 * counts, pins and leases are taken back. Runs with the lock held. Not here: noticing the death
 * (pool.c), the rules for the worker's tasks (engine/rules/verdict.c), restarting an actor
 * (actor.c). */
#include <stdio.h>
#include <sys/wait.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/local_int.h"
#include "engine/rules/verdict.h"

static void story_of(struct sk_lworker *w, const struct sk_verdict_worker *v, char *buf,
                     size_t cap) {
    if (w->refused)
        (void)snprintf(buf, cap, "the system refuses a worker process: fork: %s (" SK_FORK_HINT ")",
                       strerror(w->refused));
    else sk_verdict_text(v, buf, cap);
}

/* ---- what a dead worker leaves --------------------------------------------------------------- */

/* Drops the streams that the dead process read. These streams run on if the process left by exit;
 * otherwise they are cancelled. Works in batches, since dropping a stream changes the map and may
 * end other streams. */
static void drop_streams(struct sk_local *l, uint32_t proc, bool cancel) {
    uint64_t ids[256], key;
    void *v;
    for (uint32_t n = SK_COUNT(ids); n == SK_COUNT(ids) && l->n_worker_streams;) {
        n = 0;
        for (uint32_t i = 0; n < SK_COUNT(ids) && sk_map_next(&l->tasks, &i, &key, &v);) {
            const struct sk_ltask *t = v;
            if (sk_ltask_is_stream(t) && !t->sink && t->owner == proc &&
                t->stream != SK_STREAM_DROPPED)
                ids[n++] = key;
        }
        for (uint32_t i = 0; i < n; i++) {
            struct sk_ltask *t = sk_map_get(&l->tasks, ids[i]);
            if (t) sk_stream_drop(l, t);
            t = sk_map_get(&l->tasks, ids[i]);
            if (cancel && t) sk_ltask_cancel(l, t, false);
        }
    }
}

/* Moves the tasks on w to `lost`, in order. From now on these tasks are on no worker, so that no
 * code takes them back from w or kills w because of them. This is done before any sink is told: a
 * sink may submit a task, and the slot of w may be used again. */
static void collect(struct sk_lworker *w, struct sk_list *lost) {
    sk_list_init(lost);
    for (struct sk_list *it; (it = sk_list_first(&w->sent));) {
        struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        uint64_t c = atomic_load_explicit(&w->sh->claims[t->claim], memory_order_acquire);
        SK_ASSERT(t->worker == w && t->state == SK_T_SENT);
        t->was_started =
            c == (t->id << 2 | SK_CLAIM_STARTED) || c == (t->id << 2 | SK_CLAIM_CANCELLED);
        if (t->was_started)
            sk_state_ran(t, w,
                         atomic_load(&w->sh->task) == t->id ? atomic_load(&w->sh->since_ns)
                                                            : t->start_ns,
                         0);
        t->worker = NULL;
        sk_ltask_to(t, SK_T_LEFT);
        sk_list_del(it);
        sk_list_push_back(lost, it);
    }
}

/* Frees the slot, references, memory and place of w. */
static void let_all_go(struct sk_local *l, struct sk_lworker *w) {
    w->sh->pid = 0; /* the pid may soon be that of another process */
    sk_pool_gone(l, w);
    sk_place_worker_gone(&l->place, &w->place);
    sk_own_proc_dead(l->own, w->proc);
    sk_store_proc_dead(l->store, w->proc);
    sk_space_worker_gone(l, w);
    for (uint32_t i = 0; i < w->big.n; i++) sk_store_unref(l->store, w->big.p[i]);
    SK_DCHECK(!w->actor || w->actor->worker == w || !w->actor->worker);
    /* w->actor is NULL if the actor died before its process */
    if (w->actor) sk_actor_worker_gone(w->actor);
}

/* ---- the verdict is carried out -------------------------------------------------------------- */

struct inquest {
    struct sk_local *l;
    struct sk_lworker *w;
    struct sk_verdict_worker died;
    bool charged;         /* the death costs the worker's actor a restart */
    struct sk_list again; /* calls of its actor that run again, in order */
    const char *why;
};

static void fail(const struct inquest *q, struct sk_ltask *t, sk_rc rc, bool restarts) {
    char name[200];
    const char *tn = sk_ltask_name(q->l, t, name, sizeof name);
    t->actor_lives = restarts;
    if (t->actor)
        sk_ltask_fail(q->l, t, rc, "the actor died while task %s was on it%s: %s", tn,
                      restarts ? " (it is started again)" : "", q->died.oom ? q->died.oom : q->why);
    else if (rc == SK_EGROUP)
        sk_ltask_fail(q->l, t, rc, "the placement group of task %s was removed while it ran", tn);
    else sk_ltask_fail(q->l, t, rc, "task %s, attempt %u: %s", tn, t->attempt + 1, q->why);
}

static void again(struct inquest *q, struct sk_ltask *t, const struct sk_verdict *v) {
    if (v->charged) sk_ltask_charge(t);
    if (t->actor) {
        if (v->attempt) sk_ltask_next_attempt(q->l, t, SK_EACTOR, q->why);
        sk_ltask_to(t, SK_T_READY);
        sk_list_push_back(&q->again, &t->on);
    } else if (v->attempt) {
        sk_ltask_retry(q->l, t, SK_EDEAD, q->why);
    } else {
        sk_ltask_queue(q->l, t);
    }
}

static void task_lost(struct inquest *q, struct sk_ltask *t) {
    struct sk_local *l = q->l;
    struct sk_lactor *a = q->w->actor;
    SK_ASSERT(t->state == SK_T_LEFT); /* no other code ends or sends a task in this state */
    sk_list_del(&t->on);
    if (t->extra) sk_ltask_old_left(l, t, NULL);
    /* computed anew for each task: the end of one call may change the verdict about the next */
    struct sk_verdict_actor ac;
    if (a) ac = sk_actor_case(a);
    struct sk_verdict_task tc = sk_ltask_case(l, t);
    struct sk_verdict v = sk_verdict_task(&q->died, a ? &ac : NULL, q->charged, &tc);
    switch (v.what) {
    case SK_VERDICT_CANCELLED: sk_ltask_fail_cancelled(l, t); break;
    case SK_VERDICT_FAIL: fail(q, t, v.rc, a && sk_verdict_restarts(&ac, q->charged)); break;
    case SK_VERDICT_AGAIN: again(q, t, &v); break;
    case SK_VERDICT_MEMORY: sk_lmem_stopped(l, q->w, t); break;
    case SK_VERDICT_WITH_ACTOR:
        /* The task stays LEFT until sk_actor_worker_died decides: a call that fails here may
         * make other code try to place the actor. */
        break;
    }
}

/* Tells the graphs that w has died, and with it actor `a`; NULL: w had no actor, or its actor died
 * before. */
static void graphs_lost(const struct inquest *q, const struct sk_lactor *a) {
    uint64_t aid = a ? a->id : q->w->had_actor;
    bool restarts = false;
    if (a && a->state != SK_A_DEAD) {
        struct sk_verdict_actor ac = sk_actor_case(a);
        restarts = sk_verdict_restarts(&ac, q->charged);
    }
    if (aid) sk_lgraphs_actor_died(q->l, aid, q->died.oom ? q->died.oom : q->why, restarts);
}

static void actor_lost(struct inquest *q, struct sk_lactor *a) {
    sk_actor_fail_hasty(q->l, a, q->why);
    /* these calls go in front of the calls that were not sent */
    for (struct sk_list *it; (it = sk_list_last(&q->again));) {
        sk_list_del(it);
        sk_actor_call_again(a, it);
    }
    sk_actor_worker_died(q->l, a, q->charged, q->why);
}

void sk_loop_worker_died(struct sk_local *l, struct sk_lworker *w, int status, uint64_t maxrss) {
    char why[1800], doing[600];
    SK_ASSERT(!w->dying && l->pool.workers[w->slot] == w);
    SK_ASSERT(!l->pumping);
    sk_driver_link_dying(w);
    /* Set until everything is handled: a sink that submits meanwhile reads no messages, and frees
     * no actor that is about to be told of this death. */
    l->pumping = true;
    sk_loop_pump_worker(l, w); /* messages that the worker sent before its death count */
    sk_lmem_died(l, w, status);
    w->sh->crash[sizeof w->sh->crash - 1] = 0;
    (void)sk_driver_link_hand(w, doing, sizeof doing);
    struct inquest q = {.l = l,
                        .w = w,
                        .died = {.pid = w->pid,
                                 .refused = w->refused != 0,
                                 .status = status,
                                 .peak_bytes = maxrss,
                                 .up = w->up,
                                 .killed = w->killed,
                                 .kill_why = w->kill_why,
                                 .kill_task = w->kill_task,
                                 .oom = w->mem.oom ? sk_lmem_story(w) : NULL,
                                 .doing = doing,
                                 .last_words = w->sh->crash},
                        .why = why};
    story_of(w, &q.died, why, sizeof why);
    sk_state_worker_gone(l, w, &q.died, why);
    l->stats.n_worker_deaths += sk_verdict_counts(&q.died, !sk_list_empty(&w->sent));
    sk_reqs_worker_gone(l, w);
    struct sk_lactor *a = w->actor;
    struct sk_list lost;
    sk_list_init(&q.again);
    collect(w, &lost);
    if (a) {
        struct sk_verdict_actor ac = sk_actor_case(a);
        q.charged = sk_verdict_charged(&q.died, &ac);
    }
    let_all_go(l, w);
    drop_streams(l, w->proc, !WIFEXITED(status));
    for (struct sk_list *it; (it = sk_list_first(&lost));)
        task_lost(&q, sk_container_of(it, struct sk_ltask, on));
    /* before the actor's calls fail, so that code that is told of a failed call finds the graph
     * closed */
    graphs_lost(&q, a);
    if (a) actor_lost(&q, a);
    sk_lgraphs_proc_dead(l, w->proc, why);
    sk_promises_proc_dead(l, w->proc, why);
    bool existed = !w->refused, bad_start = sk_verdict_bad_start(&q.died, l->pool.n_live);
    SK_DCHECK(sk_list_empty(&w->sent) && sk_list_empty(&w->reqs) && sk_list_empty(&w->watches));
    sk_lmem_gone(w);
    sk_driver_link_free(w);
    if (bad_start) sk_pool_bad_start(l, why);
    sk_obj_drain(l);
    l->pumping = false;
    /* a process that the system refused to make does not count as progress: stuck() of loop.c acts
     * when there is no progress */
    if (existed) sk_progressed(l);
}

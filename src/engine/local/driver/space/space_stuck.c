/* space_stuck.c - steps against a standstill: a caller or task waits for memory of the store, or
 * for a value on disk, and there is no progress. Runs with the lock held.
 *
 * First, tasks that are queued on workers and have not begun are taken back, so that their
 * arguments can be evicted. Then the first waiter gets its bytes in the overflow. If that fails as
 * well, the first waiter gets an error with the reason. */
#include <stdio.h>

#include "base/clock.h"
#include "engine/local/driver/space/space_int.h"

/* time (ns) without progress, while the disk refuses, after which a waiter gets an error */
#define REFUSED_NS INT64_C(2000000000)
/* time (ns) without progress, while no running task could bring any, until an error is given */
#define ALONE_NS INT64_C(1000000000)
/* time (ns) without progress after which tasks queued on workers are taken back */
#define TAKE_BACK_NS INT64_C(20000000)
/* time (ns) without progress, while no running task could bring any, until the overflow is used */
#define OVERFLOW_NS INT64_C(40000000)
#define NEXT_NS INT64_C(100000000) /* time between two errors */

bool sk_space_at_work(const struct sk_lworker *w) {
    if (sk_list_empty(&w->sent)) return false;
    if (!w->actor || !w->actor->n_groups) return !w->place.blocked && !w->n_mem_waits;
    uint32_t n_waiting = w->n_mem_waits;
    SK_LIST_EACH (it, &w->reqs) n_waiting++;
    return w->actor->n_sent > n_waiting;
}

/* True if the user's code or a task is running that may release memory by itself. */
static bool others_may_release(const struct sk_local *l) {
    /* The driver's own code may release memory. Not that of a node of a cluster: what it holds for
     * others can be spilled, but for a part of the store. */
    bool driver = l->space.n_inside == 0 && !l->foreign.server;
    if (driver || l->place.n_starting) return true;
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        const struct sk_lworker *w = l->pool.workers[i];
        if (w && sk_space_at_work(w)) return true;
    }
    return false;
}

/* Puts tasks that workers have not begun back in line, so that their arguments can be evicted. */
static void take_back_queued(struct sk_local *l) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (w && w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w);
        if (!w || !w->actor) continue;
        for (struct sk_list *it = w->sent.prev; it != &w->sent;) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            it = it->prev;
            if (t->kind == SK_TASK_INIT || !sk_ltask_unsend(l, w, t)) continue;
            sk_actor_call_again(w->actor, &t->on);
            sk_space_hold_back(l);
        }
    }
}

/* Writes why there is no memory for `len` bytes. */
static void why_full(struct sk_local *l, uint64_t len, char *buf, size_t cap) {
    struct sk_err e = {.msg = ""};
    sk_off off;
    if (sk_space_alloc(l, SK_PROC_SPILL, len, &off, &e) == SK_OK) {
        /* there is enough memory now: gives it back */
        SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, off, len, NULL));
        snprintf(e.msg, sizeof e.msg, "the store was full");
    }
    if (l->space.disk_rc != SK_OK)
        snprintf(buf, cap, "%.400s; and nothing can be spilled: %.400s", e.msg, l->space.disk_msg);
    else
        snprintf(buf, cap,
                 "%.400s; the rest is in use: views, arguments of running tasks, and what is being "
                 "written cannot be spilled",
                 e.msg);
}

/* Gives the first waiter its bytes in the overflow. False: the overflow has no room, or the disk
 * refuses. */
static bool overflow_first(struct sk_local *l) {
    struct sk_list *it = sk_list_first(&l->space.mem_waits);
    if (it) {
        struct sk_mem_wait *r = sk_container_of(it, struct sk_mem_wait, link);
        if (sk_space_overflow(l, sk_space_proc_of(r), r->min, &r->off, NULL) != SK_OK) return false;
        r->got = r->min;
        sk_space_answer(l, r, SK_OK, NULL);
        return true;
    }
    return sk_space_read_over(l);
}

void sk_space_stuck(struct sk_local *l, int64_t now) {
    struct sk_space *sp = &l->space;
    uint64_t left = sk_store_free_bytes(l->store);
    if (left != sp->free_seen) {
        sp->free_seen = left;
        sp->progress_ns = sp->alone_ns = now;
        sp->taken_back = false;
        return;
    }
    if (sp->n_io) return;
    /* The readers of a graph wait for the graph itself, so none of them will release memory for it:
     * such a wait counts as one to which no running task can bring progress. */
    const struct sk_list *first = sk_list_first(&sp->mem_waits);
    bool alone = (first && sk_container_of(first, struct sk_mem_wait, link)->graph) ||
                 !others_may_release(l);
    if (!alone) sp->alone_ns = now;
    int64_t waited = now - sp->progress_ns;
    if (waited > TAKE_BACK_NS && !sp->taken_back) {
        sp->taken_back = true;
        sp->choose_after_ns = 0;
        take_back_queued(l);
        return;
    }
    /* No memory was released since a value last went to the overflow, and none will be released
     * during this wait. */
    bool still = alone && sp->overflow_released == sp->n_released;
    if ((still || now - sp->alone_ns > OVERFLOW_NS) && overflow_first(l)) {
        sp->progress_ns = sp->alone_ns = now;
        sp->overflow_released = sp->n_released;
        return;
    }
    if (now - sp->alone_ns <= ALONE_NS && (sp->disk_rc == SK_OK || waited <= REFUSED_NS)) return;
    /* instead of an error, take the memory that is lent to heaps, until the next measurement of
     * memory */
    if (lent_of(l)) {
        sp->cap_bytes = 0;
        sp->choose_after_ns = 0;
        return;
    }
    sp->progress_ns = now - REFUSED_NS + NEXT_NS;
    sp->alone_ns = now - ALONE_NS + NEXT_NS;
    char msg[1000];
    struct sk_list *it = sk_list_first(&sp->mem_waits);
    sk_rc rc = sp->disk_rc != SK_OK && sp->disk_rc != SK_ENOMEM ? sp->disk_rc : SK_EFULL;
    if (it) {
        struct sk_mem_wait *r = sk_container_of(it, struct sk_mem_wait, link);
        why_full(l, r->min, msg, sizeof msg);
        sk_space_answer(l, r, rc, msg);
    } else if ((it = sk_list_first(wanted_of(l)))) {
        why_full(l, SK_MAX(stored_of(it)->o->len, 1), msg, sizeof msg);
        sk_space_refuse(l, stored_of(it), rc, msg);
    }
}

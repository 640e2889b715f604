/* loop.c - the outgoing half of the driver's loop: tasks to workers, workers for tasks. Everything
 * here runs with the engine's lock held.
 *
 * It holds no policy: engine/place decides which task runs where, own.c which object lives; this
 * file moves things between them and the rings. The incoming half is messages.c. Cost of an
 * empty task: about 1 us for everything (submit, place, ring, done, free). */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

#define STALL_NS (10 * SK_SEC)

/* ---- tasks out ------------------------------------------------------------------------------- */

void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why) {
    for (struct sk_place_task *p; (p = sk_place_any(&l->place));) {
        struct sk_ltask *t = sk_container_of(p, struct sk_ltask, place);
        char name[200];
        SK_DCHECK(t->state == SK_T_READY && !t->actor);
        sk_place_unpush(&l->place, p);
        sk_ltask_fail(l, t, rc, "task %s cannot be run: %s", sk_ltask_name(l, t, name, sizeof name),
                      why);
    }
    for (struct sk_list *it; (it = sk_list_first(&l->actors.wanting));)
        sk_actor_dead(l, sk_container_of(it, struct sk_lactor, wants), why);
    sk_obj_drain(l);
}

/* True if the worker can go on only after it gets a task or its stream is read. */
static bool waits(const struct sk_lworker *w) {
    return w->place.blocked || (w->place.state == SK_W_ACTOR && sk_list_empty(&w->sent));
}

/* True if the worker's task is a stream that has filled its window, and whose reader is the
 * driver. (If its reader is a worker, that worker waits itself, or nothing is stuck.) */
static bool waits_for_driver(const struct sk_lworker *w) {
    const struct sk_list *head = sk_list_first(&w->sent);
    const struct sk_ltask *t = head ? sk_container_of(head, struct sk_ltask, on) : NULL;
    return t && w->place.blocked && t->spec.stream_window && t->owner == SK_PROC_DRIVER &&
           sk_list_empty(&w->reqs);
}

/* True if no more processes can be had and all existing ones wait, so that there would never be
 * progress again. The driver may still read a stream, unless it waits for something else and none
 * of its threads has read for STALL_NS. */
static bool stuck(struct sk_local *l, int64_t now) {
    bool driver = false;
    if (l->pool.n_live < sk_pool_limit(l) || l->place.n_idle || l->place.n_starting) return false;
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        const struct sk_lworker *w = l->pool.workers[i];
        if (w && !waits(w)) return false;
        driver |= w && waits_for_driver(w);
    }
    if (!driver) return true;
    if (!l->stall.since_ns || l->stall.progress != l->progress || !l->driving) {
        l->stall.since_ns = now;
        l->stall.progress = l->progress;
    }
    return now - l->stall.since_ns > STALL_NS;
}

static void fail_stuck(struct sk_local *l) {
    char why[400] = "all worker processes wait for the results of tasks that need one; nest less "
                    "deeply, or allow more workers";
    if (l->pool.n_live < l->pool.n_slots)
        (void)snprintf(why, sizeof why,
                       "all %u worker processes wait for the results of tasks that need one, and "
                       "the system refuses another: fork: %s (" SK_FORK_HINT
                       "); nest less deeply, or allow more processes",
                       l->pool.n_live, strerror(l->pool.refused.e));
    sk_loop_fail_waiting(l, SK_ESTALL, why);
}

/* Fails all tasks and actors that wait for workers, when no process can be started. The failure to
 * start was found in the middle of another step (of an actor, or of a worker's death) that may
 * still use the tasks that are freed here; hence the delay. */
static void fail_in_vain(struct sk_local *l) {
    if (SK_LIKELY(!l->pool.in_vain[0])) return;
    char why[sizeof l->pool.in_vain];
    sk_pool_take_in_vain(l, why, sizeof why);
    sk_loop_fail_waiting(l, SK_EDEAD, why);
}

/* Starts actors, oldest first. When one cannot start, actors of the same shape behind it are not
 * tried. True: there is an actor that lacks nothing but a process. */
static bool start_actors(struct sk_local *l) {
    bool wants_process = false;
    uint64_t asked = 0; /* actors up to this age were tried */
    sk_place_want(&l->place, 0, 0);
    for (struct sk_list *it = l->actors.wanting.next; it != &l->actors.wanting;) {
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, wants);
        if (a->order > asked) {
            asked = a->order;
            sk_actor_advance(l, a);
            /* the actor has left the list, maybe together with other actors */
            if (sk_list_empty(&a->wants)) {
                it = l->actors.wanting.next;
                continue;
            }
            if (sk_place_fits_now(&l->place, a->shape)) wants_process = true;
            else if (!l->place.want_order) sk_place_want(&l->place, a->order, a->shape);
        }
        it = it->next;
    }
    return wants_process;
}

void sk_loop_dispatch(struct sk_local *l) { sk_loop_dispatch_at(l, sk_now_ns()); }

static void dispatch(struct sk_local *l, int64_t now) {
    if (l->recovery.lost.n) sk_recover_run(l);
    sk_lmem_turn(l, now);
    if (SK_UNLIKELY(now >= l->pool.look_ns)) sk_pool_look(l, now);
    fail_in_vain(l);
    if (start_actors(l) && stuck(l, now)) fail_stuck(l);
    fail_in_vain(l);
    for (;;) {
        struct sk_place_pick pick;
        (void)sk_lmem_may_start(l);
        sk_place_pick(&l->place, now, &pick);
        if (pick.what == SK_PLACE_NOTHING) return;
        if (pick.what == SK_PLACE_GROUP) {
            sk_lgroup_ready(l, pick.group);
            continue;
        }
        if (pick.what == SK_PLACE_DEAD) {
            sk_ltask_fail(l, sk_container_of(pick.task, struct sk_ltask, place), SK_EGROUP,
                          "the placement group of the task was removed");
            continue;
        }
        if (pick.what == SK_PLACE_SPAWN) {
            if (sk_pool_spawn(l)) continue;
            fail_in_vain(l);
            if (l->place.n_ready && stuck(l, now)) fail_stuck(l);
            return;
        }
        struct sk_lworker *w = sk_container_of(pick.worker, struct sk_lworker, place);
        if (pick.what == SK_PLACE_RUN) {
            struct sk_ltask *t = sk_container_of(pick.task, struct sk_ltask, place);
            /* A worker with an actor gets no other tasks. */
            SK_ASSERT(!w->actor);
            sk_rc rc = sk_launch(l, t, w);
            if (l->place.launch != SK_LAUNCH_ALL) sk_memory_launched(&l->mem.policy, now);
            if (rc == SK_OK) {
                if (pick.spawn) (void)sk_pool_spawn(l);
                continue;
            }
            sk_place_done(&l->place, &w->place, -1, now);
            sk_driver_link_retire(l, w);
            if (rc == SK_EAGAIN && t->state != SK_T_READY) {
                /* an argument is lost, and the task waits for it */
                if (t->n_unready == 0) sk_ltask_ready(l, t);
                if (l->recovery.lost.n) sk_recover_run(l);
                continue;
            }
            if (rc == SK_EAGAIN) {
                /* the ring is full; the driving thread tries again soon as long as a task is
                 * ready */
                sk_place_push(&l->place, &t->place);
                return;
            }
            char name[200];
            sk_ltask_fail(l, t, rc, "task %s: no memory%s for the message with its arguments",
                          sk_ltask_name(l, t, name, sizeof name),
                          rc == SK_EFULL ? " in the object store" : "");
            continue;
        }
        /* STEAL: the task queued last is the least likely to start meanwhile. */
        bool got = false;
        for (struct sk_list *it = w->sent.prev; it != &w->sent && !got; it = it->prev) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            struct sk_list *prev = it->prev;
            got = sk_ltask_take_back(l, w, t);
            if (got) break;
            it = prev->next;
        }
        if (!got) return;
    }
}

void sk_loop_dispatch_at(struct sk_local *l, int64_t now) {
    dispatch(l, now);
    if (SK_UNLIKELY(l->foreign.server && l->n_nested && l->place.n_ready)) sk_abroad_queued(l);
}

struct sk_pace_view sk_loop_view(const struct sk_local *l, int64_t now_ns, uint32_t n_messages) {
    /* Computed at this point, since values that a caller finds lost or on disk after the last turn
     * are handled in the next turn, and nothing else wakes the loop for them. */
    SK_DCHECK(l->place.n_idle + l->place.n_starting <= l->pool.n_live);
    bool space = l->space.waiting || sk_space_awaited(l);
    return (struct sk_pace_view){.now_ns = now_ns,
                                 .n_messages = n_messages,
                                 .n_live = l->pool.n_live,
                                 .n_busy = l->pool.n_live - l->place.n_idle - l->place.n_starting,
                                 .waiting = l->place.n_ready ||
                                            !sk_list_empty(&l->actors.wanting) || space ||
                                            l->recovery.lost.n,
                                 .driven = l->driving,
                                 .large = l->tasks.mask >= SK_MAP_LARGE || sk_own_large(l->own)};
}

const struct sk_upcalls sk_upcalls = {.due = sk_ltask_due,
                                      .answer = sk_req_reply,
                                      .lost = sk_recover_lost,
                                      .relics = sk_recover_relics,
                                      .unkept = sk_recover_unkept,
                                      .ended = sk_recover_ended,
                                      .unreferenced = sk_actor_unreferenced,
                                      .call_ready = sk_actor_call_ready,
                                      .call_over = sk_actor_call_over,
                                      .advance = sk_actor_advance,
                                      .init_failed = sk_actor_init_failed,
                                      .came_back = sk_loop_dispatch,
                                      .full = sk_space_overflow};

/* actor.c - actors of the local engine: each has a worker of its own, gets calls in order of
 * submission, and may be restarted. Runs with the lock held.
 *
 *     STARTING --constructor done--> ALIVE --worker died, restarts left--> STARTING ... --> DEAD
 *
 * Calls wait in the list of their caller until their arguments exist. As in Ray, a call that waits
 * holds up the later calls of the same process; in an actor with concurrency groups it does not.
 * Then they wait in a->queue until there is room on the worker, at most a->depth at a time. When no
 * handle is left, an actor stops after its last call. An actor without a worker waits for one when
 * its constructor's arguments exist: l->actors.wanting has the oldest such actor of each shape, by
 * age; the others of that shape are listed behind it. Cost of a call: O(1), and a walk over the
 * processes that call; of a death: O(calls); of a turn of the loop: O(shapes that are waited for),
 * however many actors wait. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"
#include "engine/rules/verdict.h"

/* most calls with an argument on disk that are passed over in the search for a call to send */
#define PASS_MAX 1000u

/* Sets the actor's state. STARTING may follow STARTING: the process died before it was ready, and
 * the actor gets another one. */
static void to(struct sk_lactor *a, uint32_t state) {
    static const uint8_t NEXT[] = {[SK_A_STARTING] =
                                       1u << SK_A_STARTING | 1u << SK_A_ALIVE | 1u << SK_A_DEAD,
                                   [SK_A_ALIVE] = 1u << SK_A_STARTING | 1u << SK_A_DEAD,
                                   [SK_A_DEAD] = 0};
    SK_ASSERT(a->state < SK_COUNT(NEXT) && NEXT[a->state] >> state & 1);
    a->state = state;
}

static struct sk_ltask *call_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_ltask, on);
}

/* ---- calls ----------------------------------------------------------------------------------- */

#define OTHERS (UINT64_C(1) << 63)
static uint64_t who(const struct sk_ltask *t) {
    return t->spec.caller ? t->spec.caller | OTHERS : t->owner;
}
static struct sk_lcaller *caller_of(const struct sk_lactor *a, uint64_t by) {
    SK_LIST_EACH (it, &a->callers) {
        struct sk_lcaller *c = sk_container_of(it, struct sk_lcaller, link);
        if (c->who == by) return c;
    }
    return NULL;
}

static void caller_free(struct sk_lactor *a, struct sk_lcaller *c) {
    SK_DCHECK(a->n_callers > 0);
    sk_list_del(&c->link);
    a->n_callers--;
    sk_free(c);
}

static void queue(struct sk_lactor *a, struct sk_ltask *t) {
    SK_ASSERT(t->held && a->n_held > 0);
    sk_list_del(&t->on);
    t->held = false;
    a->n_held--;
    sk_list_push_back(&a->queue, &t->on);
}

static void let_on(struct sk_lactor *a, struct sk_lcaller *c) {
    for (struct sk_list *it; (it = sk_list_first(&c->held)) && call_of(it)->state == SK_T_READY;)
        queue(a, call_of(it));
}

bool sk_actor_call(struct sk_lactor *a, struct sk_ltask *t) {
    struct sk_lcaller *c = caller_of(a, who(t));
    if (!c) {
        if (!(c = sk_calloc(SK_TAG_ENGINE, sizeof *c))) return false;
        c->who = who(t);
        sk_list_init(&c->link);
        sk_list_init(&c->held);
        sk_list_push_back(&a->callers, &c->link);
        a->n_callers++;
    }
    SK_DCHECK(!t->actor && !t->caller && t->kind == SK_TASK_CALL);
    t->actor = a;
    t->caller = c;
    t->held = true;
    c->n++;
    a->n_tasks++;
    a->n_held++;
    sk_list_push_back(&c->held, &t->on);
    return true;
}

void sk_actor_call_ready(struct sk_ltask *t) {
    SK_ASSERT(t->held && t->actor);
    if (t->actor->n_groups) queue(t->actor, t);
    else let_on(t->actor, t->caller);
}

void sk_actor_call_over(struct sk_ltask *t) {
    struct sk_lactor *a = t->actor;
    struct sk_lcaller *c = t->caller;
    SK_ASSERT(c && c->n > 0 && a->n_tasks > 0);
    if (t->held) {
        SK_ASSERT(a->n_held > 0);
        a->n_held--;
        a->let_on = true;
    }
    t->held = false;
    t->caller = NULL;
    a->n_tasks--;
    SK_DCHECK(c->n > 1 || sk_list_empty(&c->held));
    /* the last caller's entry is kept for its next call */
    if (--c->n == 0 && a->n_callers > 1) caller_free(a, c);
}

void sk_actor_free(struct sk_lactor *a) {
    SK_LIST_EACH_SAFE (it, tmp, &a->callers)
        caller_free(a, sk_container_of(it, struct sk_lcaller, link));
    sk_inl_drop(a->dead_value);
    sk_free(a);
}

void sk_actors_init(struct sk_local *l) {
    sk_list_init(&l->actors.all);
    sk_list_init(&l->actors.wanting);
    sk_list_init(&l->actors.names);
}

void sk_actors_free(struct sk_local *l) {
    while (!sk_list_empty(&l->actors.all)) {
        struct sk_lactor *a = sk_container_of(l->actors.all.next, struct sk_lactor, link);
        sk_list_del(&a->link);
        sk_name_free(&a->name);
        sk_actor_free(a);
    }
}

/* ---- its life -------------------------------------------------------------------------------- */

sk_rc sk_actor_create(struct sk_local *l, uint32_t proc, uint64_t base, const uint8_t *spec,
                      size_t len, const struct sk_aspec *as, struct sk_err *err) {
    struct sk_ltask *t;
    struct sk_obj *o = NULL;
    /* ids: base is the constructor, base + 1 the `ready` object, base + 2 the actor */
    uint64_t aid = base + 2;
    SK_TRY(sk_aspec_check(as, err));
    struct sk_lactor *a = sk_calloc(SK_TAG_ENGINE, sizeof *a + as->n_groups * sizeof a->groups[0]);
    if (!a) return SK_ERR(err, SK_ENOMEM, "no memory for an actor");
    sk_rc rc =
        sk_names_add(&l->actors.names, "actor", as->space, as->name, as->meta, a, &a->name, err);
    if (rc == SK_OK) rc = sk_obj_new(l, aid, proc, &o, err);
    if (rc != SK_OK) {
        sk_name_free(&a->name);
        sk_free(a);
        return rc;
    }
    rc = sk_ltask_make(l, proc, 0, base, (struct sk_bytes){spec, len}, NULL, &t, err);
    if (rc != SK_OK) {
        SK_IGNORE(sk_own_unref(l->own, aid, proc, 1, NULL));
        sk_obj_drain(l);
        sk_name_free(&a->name);
        sk_free(a);
        return rc;
    }
    sk_obj_set_actor(o, a);
    a->id = aid;
    a->order = sk_place_order(&l->place);
    a->init = t;
    a->restarts_left = as->max_restarts;
    a->max_task_retries = as->max_task_retries;
    a->is_async = as->is_async;
    a->n_groups = as->n_groups;
    uint64_t depth = SK_PLACE_DEPTH_MAX;
    for (uint32_t i = 0; i < as->n_groups; i++) {
        a->groups[i] = as->groups[i];
        depth = SK_MAX(depth, (uint64_t)as->groups[i] * as->n_groups);
    }
    a->depth = (uint32_t)SK_MIN(depth, SK_ACTOR_DEPTH_MAX);
    a->shape = t->spec.shape;
    sk_list_init(&a->queue);
    sk_list_init(&a->callers);
    sk_list_init(&a->link);
    sk_list_init(&a->wants);
    sk_list_init(&a->alike);
    sk_list_push_back(&l->actors.all, &a->link);
    t->kind = SK_TASK_INIT;
    t->actor = a;
    sk_recover_says(o, SK_LOST_ACTOR);
    sk_recover_says(sk_obj_get(l, base + 1), SK_LOST_ACTOR);
    if (sk_own_contains(l->own, base + 1, &aid, 1, NULL) != SK_OK) {
        /* a handle inside a value travels as a reference to the `ready` object of its actor */
        sk_ltask_fail(l, t, SK_ENOMEM, "no memory to record an actor");
        return SK_OK;
    }
    a->detached = as->detached && sk_own_hold(l->own, base + 1, NULL) == SK_OK;
    /* of an engine that is served, the program of the server hears of it */
    if (l->hooks.named && !l->foreign.server && as->name.n && as->space.n &&
        *(const char *)as->space.p == '_')
        l->hooks.named(l->hooks.named_ctx, as->space, as->name);
    if (t->spec.refused.n) {
        sk_ltask_fail(l, t, SK_EINFEASIBLE, "%.*s", (int)t->spec.refused.n,
                      (const char *)t->spec.refused.p);
        return SK_OK;
    }
    if (sk_place_shape_dead(&l->place, a->shape)) {
        sk_ltask_fail(l, t, SK_EGROUP, "the placement group of the actor was removed");
        return SK_OK;
    }
    if (!sk_place_fits_ever(&l->place, a->shape)) {
        sk_ltask_fail(l, t, SK_EINFEASIBLE, "the actor asks for more than this machine was given");
        return SK_OK;
    }
    if (t->n_unready == 0) sk_ltask_ready(l, t);
    return SK_OK;
}

static struct sk_lactor *wanting(struct sk_list *it) {
    return sk_container_of(it, struct sk_lactor, wants);
}

static void insert_by_age(struct sk_list *list, struct sk_lactor *a) {
    struct sk_list *at = list;
    while (at->prev != list && wanting(at->prev)->order > a->order) at = at->prev;
    SK_DCHECK(at->prev == list || wanting(at->prev)->order < a->order);
    sk_list_insert_before(at, &a->wants);
}

static void want_worker(struct sk_local *l, struct sk_lactor *a) {
    if (!sk_list_empty(&a->wants)) return;
    SK_LIST_EACH (it, &l->actors.wanting) {
        struct sk_lactor *first = wanting(it);
        if (first->shape != a->shape) continue;
        if (first->order < a->order) {
            insert_by_age(&first->alike, a);
            return;
        }
        sk_list_del(it);
        sk_list_splice(&a->alike, &first->alike);
        sk_list_push_front(&a->alike, it);
        break;
    }
    insert_by_age(&l->actors.wanting, a);
}

static void want_none(struct sk_local *l, struct sk_lactor *a) {
    struct sk_list *it = sk_list_first(&a->alike);
    sk_list_del(&a->wants);
    if (!it) return;
    sk_list_del(it);
    sk_list_splice(&wanting(it)->alike, &a->alike);
    insert_by_age(&l->actors.wanting, wanting(it));
}

static void find_worker(struct sk_local *l, struct sk_lactor *a) {
    /* this function is called again when resources are given back */
    if (!sk_place_fits_now(&l->place, a->shape)) return;
    if (!sk_lmem_may_start(l)) return;
    struct sk_place_worker *idle = sk_place_idle_for(&l->place, a->shape);
    if (!idle) {
        if (l->place.n_starting == 0) (void)sk_pool_spawn(l);
        return;
    }
    struct sk_lworker *w = sk_container_of(idle, struct sk_lworker, place);
    SK_ASSERT(!w->actor && !w->killed && sk_list_empty(&w->sent));
    sk_place_worker_actor(&l->place, &w->place, a->shape);
    sk_driver_link_bind(w, a);
    a->worker = w;
    a->placed = false;
    want_none(l, a);
    if (l->place.launch != SK_LAUNCH_ALL) sk_memory_launched(&l->mem.policy, sk_now_ns());
}

void sk_actor_advance(struct sk_local *l, struct sk_lactor *a) {
    if (a->state == SK_A_DEAD) return;
    if (a->let_on && !a->n_groups)
        SK_LIST_EACH (it, &a->callers) let_on(a, sk_container_of(it, struct sk_lcaller, link));
    a->let_on = false;
    if (a->worker && a->worker->killed)
        /* This function is called again when the death is reported. Calls that are submitted
         * after kill() go to the next process. */
        return;
    if (a->stopping && sk_list_empty(&a->queue) && !a->n_held && a->n_sent == 0) {
        /* the process ends in order: the user's destructors and exit handlers run */
        a->leaving = true;
        sk_actor_dead(l, a, "its last handle was released");
        return;
    }
    if (!a->worker) {
        if (a->init->state != SK_T_READY) return;
        want_worker(l, a);
        find_worker(l, a);
        if (!a->worker) return;
    }
    if (!a->placed) {
        if (a->init->state != SK_T_READY) return;
        sk_rc rc = sk_launch(l, a->init, a->worker);
        /* an argument was lost for good */
        if (rc == SK_EAGAIN && a->init->state == SK_T_WAITING && a->init->n_unready == 0)
            sk_ltask_ready(l, a->init);
        if (rc == SK_EAGAIN) return;
        if (rc != SK_OK) {
            sk_ltask_fail(l, a->init, rc,
                          "the actor cannot be started: no memory%s for its arguments",
                          rc == SK_EFULL ? " in the object store" : "");
            return;
        }
        SK_DCHECK(a->n_sent == 0); /* the constructor is the first task on its worker */
        a->placed = true;
        a->n_sent++;
    }
    /* callers whose calls have to wait, because an earlier call of theirs is not ready any more */
    const struct sk_lcaller *held_up[8];
    uint32_t n_held_up = 0, n_passed = 0;
    for (struct sk_list *it = a->queue.next;
         a->state != SK_A_DEAD && it != &a->queue && a->n_sent < a->depth && a->worker;) {
        /* calls may be sent behind the constructor: the ring keeps the order */
        struct sk_ltask *t = call_of(it);
        if (a->n_sent && !a->n_groups && (a->worker->n_mem_waits || l->place.depth_cap)) {
            /* memory is short, and a call that is queued on the worker holds its arguments in
             * memory */
            sk_space_hold_back(l);
            return;
        }
        bool behind = false;
        for (uint32_t i = 0; i < n_held_up; i++) behind |= held_up[i] == t->caller;
        if (t->state != SK_T_READY || behind) {
            if (!a->n_groups && !behind) {
                if (a->n_callers == 1 || n_held_up == SK_COUNT(held_up)) return;
                held_up[n_held_up++] = t->caller;
            }
            if (++n_passed == PASS_MAX) return;
            it = it->next;
            continue;
        }
        struct sk_list *before = it->prev;
        sk_rc rc = sk_launch(l, t, a->worker);
        if (rc == SK_EAGAIN && t->state == SK_T_WAITING && t->n_unready == 0) sk_ltask_ready(l, t);
        if (rc == SK_EAGAIN) return;
        if (rc == SK_OK) a->n_sent++;
        else
            sk_ltask_fail(l, t, rc, "a call of an actor: no memory%s for its arguments",
                          rc == SK_EFULL ? " in the object store" : "");
        /* a call that fails may end others */
        it = a->state == SK_A_DEAD ? &a->queue : rc == SK_OK ? before->next : a->queue.next;
    }
}

sk_rc sk_actor_find(struct sk_local *l, uint32_t proc, struct sk_bytes space, struct sk_bytes name,
                    struct sk_lactor **out, struct sk_err *err) {
    struct sk_name *n = sk_names_find(&l->actors.names, space, name);
    struct sk_lactor *a = n ? n->owner : NULL;
    if (!a || sk_own_ref(l->own, a->id - 1, proc, 1, NULL) != SK_OK)
        return SK_ERR(err, SK_ENOENT, "there is no living actor named '%.*s'%s%.*s%s", (int)name.n,
                      (const char *)name.p, space.n ? " in namespace '" : "", (int)space.n,
                      (const char *)space.p, space.n ? "'" : "");
    /* the actor exists, because its `ready` object contains a reference to it */
    SK_IGNORE(sk_own_ref(l->own, a->id, proc, 1, NULL));
    *out = a;
    return SK_OK;
}

void sk_actor_found(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t actor,
                    struct sk_bytes bytes) {
    size_t cap = bytes.n + 64;
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) {
        sk_driver_link_kill(l, w, "there is no memory left to answer it");
        return;
    }
    struct sk_wr m = sk_wr_init(p, cap);
    sk_wr_u32(&m, SK_M_REPLY);
    sk_wr_u32(&m, SK_OK);
    sk_wr_u64(&m, req);
    if (actor) sk_wr_u64(&m, actor);
    sk_wr_bytes(&m, bytes.p, bytes.n);
    if (!sk_driver_link_reply(l, w, p, m.n))
        sk_driver_link_kill(l, w, "the object store is too full for an answer to it");
    sk_free(p);
}

void sk_actor_find_for(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                       struct sk_bytes space, struct sk_bytes name) {
    struct sk_lactor *a = NULL;
    struct sk_err err;
    sk_rc rc = sk_actor_find(l, w->proc, space, name, &a, &err);
    if (rc == SK_OK) sk_actor_found(l, w, req, a->id, a->name->meta);
    else sk_driver_link_error(l, w, req, rc, err.msg);
}

static size_t write_names(struct sk_local *l, uint64_t unused, void *buf, size_t cap) {
    (void)unused;
    return sk_names_write(&l->actors.names, buf, cap);
}
void sk_actor_names_for(struct sk_local *l, struct sk_lworker *w, uint64_t req) {
    sk_driver_link_list(l, w, req, write_names, 0);
}

/* The name is free; the server of the engine, if there is one, knows it, too. */
static void unname(struct sk_local *l, struct sk_lactor *a) {
    if (a->name && l->foreign.server)
        l->foreign.server->asked(l->foreign.server, 0,
                                 &(struct sk_foreign_name){.what = SK_NAME_FREE, .actor = {a->id}});
    sk_name_free(&a->name);
}

static void let_go(struct sk_local *l, struct sk_lactor *a) {
    unname(l, a);
    if (a->detached) sk_own_unhold(l->own, a->id - 1);
    a->detached = false;
}

void sk_actor_fail_calls(struct sk_local *l, struct sk_lactor *a, const char *why) {
    SK_LIST_EACH (it, &a->callers)
        sk_list_splice(&a->queue, &sk_container_of(it, struct sk_lcaller, link)->held);
    while (!sk_list_empty(&a->queue)) {
        struct sk_ltask *t = call_of(a->queue.next);
        if (a->dead_kind)
            sk_ltask_finish_error(l, t, a->dead_kind,
                                  a->dead_value ? (void *)a->dead_value->bytes : (void *)"",
                                  a->dead_value ? a->dead_value->len : 0);
        else sk_ltask_fail(l, t, SK_EACTOR, "the actor is dead: %s", why);
    }
}

void sk_actor_dead(struct sk_local *l, struct sk_lactor *a, const char *why) {
    if (a->state == SK_A_DEAD) return;
    to(a, SK_A_DEAD);
    let_go(l, a);
    want_none(l, a);
    snprintf(a->why, sizeof a->why, "%s", why);
    struct sk_lworker *w = a->worker;
    a->worker = NULL;
    if (w) {
        for (struct sk_list *it = w->sent.prev; it != &w->sent;) {
            /* calls that have not begun end with those in the queue, below */
            struct sk_ltask *t = call_of(it);
            it = it->prev;
            if (t->kind != SK_TASK_INIT && sk_ltask_unsend(l, w, t)) sk_actor_call_again(a, &t->on);
        }
        sk_driver_link_actor_dead(w, a->id);
        /* `why` is a static text here, since only an actor that ends in order reaches this line */
        if (a->leaving) sk_driver_link_leave(l, w, why);
        else sk_driver_link_kill(l, w, "its actor is dead");
    } else {
        /* the graphs waited for the actor's next process */
        sk_lgraphs_actor_died(l, a->id, why, false);
    }
    if (sk_ltask_over(a->init)) sk_ltask_let_args_go(l, a->init);
    else sk_ltask_fail(l, a->init, SK_EACTOR, "the actor died before it was ready: %s", why);
    sk_actor_fail_calls(l, a, why);
    while (a->watchers) sk_dep_tell(l, a->watchers);
    sk_progressed(l);
}

void sk_actor_init_failed(struct sk_local *l, struct sk_lactor *a, uint32_t kind,
                          struct sk_inl *error) {
    SK_ASSERT(a->state != SK_A_DEAD && !a->dead_value);
    a->dead_kind = kind; /* the actor's calls end with the same error */
    a->dead_value = error;
    sk_actor_dead(l, a, "its constructor failed");
}

void sk_actor_began(struct sk_lactor *a) {
    to(a, SK_A_ALIVE);
    a->asked = false;
}

void sk_actor_worker_gone(struct sk_lactor *a) { a->worker = NULL; }

void sk_actor_ends(struct sk_lactor *a) { a->stopping = a->no_restart = true; }

void sk_actor_leaves(struct sk_lactor *a) { a->leaving = true; }

void sk_actor_kill(struct sk_local *l, struct sk_lactor *a, bool no_restart) {
    if (a->state == SK_A_DEAD) return;
    if (no_restart) {
        /* Calls on its worker end when the worker's death is reported; waiting calls end now. */
        struct sk_lworker *w = a->worker;
        sk_actor_ends(a);
        unname(l, a);
        if (w) {
            static const char WHY[] = "The actor is dead because it was killed by `ray.kill`";
            /* From now on the actor answers no graph, even while its process still lives. */
            sk_lgraphs_actor_killed(l, a->id, WHY);
            sk_driver_link_kill(l, w, WHY);
            sk_actor_fail_calls(l, a, "it was killed by `ray.kill`");
        } else {
            sk_actor_dead(l, a, "it was killed by `ray.kill`");
        }
    } else if (a->worker) {
        a->asked = true;
        sk_driver_link_kill(l, a->worker, "kill(no_restart=False) was called on its actor");
    } else if (a->restarts_left == 0) {
        sk_actor_dead(l, a, "it was killed by `ray.kill`");
    } else { /* the actor has no process yet; the kill costs a restart all the same */
        a->asked = true;
        if (a->restarts_left > 0) a->restarts_left--;
    }
    sk_obj_drain(l);
}

sk_rc sk_actor_may_call(struct sk_local *l, uint64_t aid, uint32_t proc, uint32_t max,
                        struct sk_err *err) {
    const struct sk_obj *o = sk_obj_get(l, aid);
    const struct sk_lactor *a = o && o->state == SK_O_ACTOR ? o->u.actor : NULL;
    const struct sk_lcaller *c = a ? caller_of(a, proc) : NULL;
    /* a call of a dead actor is accepted, and ends with the reason of the death */
    return sk_call_check(true, c ? c->n : 0, max, err);
}

struct sk_verdict_actor sk_actor_case(const struct sk_lactor *a) {
    return (struct sk_verdict_actor){.alive = a->state == SK_A_ALIVE,
                                     .placed = a->placed,
                                     .begun = a->init->was_started,
                                     .no_restart = a->no_restart,
                                     .asked = a->asked,
                                     .between = a->state == SK_A_STARTING
                                                    ? a->init->attempt > 0
                                                    : a->worker && a->worker->killed,
                                     .restarts_left = a->restarts_left,
                                     .max_task_retries = a->max_task_retries};
}

/* Call when the process of a living actor has died: calls that were queued and not begun fail,
 * unless they may wait for the next process. Calls that are held for an argument are not touched:
 * they were not about to be sent. */
void sk_actor_fail_hasty(struct sk_local *l, struct sk_lactor *a, const char *why) {
    if (a->no_restart || a->restarts_left == 0) return; /* the calls end with the actor */
    struct sk_verdict_actor ac = sk_actor_case(a);
    struct sk_list hasty;
    sk_list_init(&hasty);
    for (struct sk_list *it = a->queue.next; it != &a->queue;) {
        struct sk_ltask *t = call_of(it);
        it = it->next;
        struct sk_verdict_task tc = sk_ltask_case(l, t);
        if (t->state != SK_T_READY || sk_verdict_call_waits(&ac, &tc)) continue;
        sk_list_del(&t->on);
        sk_list_push_back(&hasty, &t->on);
    }
    for (struct sk_list *it; (it = sk_list_first(&hasty));) /* a call that fails may end others */
        sk_ltask_fail(l, call_of(it), SK_EUNAVAIL,
                      "The actor is restarting; its process died before the call began: %s", why);
    /* no call points to this list head any more */
    SK_ASSERT(sk_list_empty(&hasty)); /* NOLINT(clang-analyzer-core.StackAddressEscape) */
}

void sk_actor_worker_died(struct sk_local *l, struct sk_lactor *a, bool charged, const char *why) {
    a->worker = NULL;
    a->n_sent = 0;
    a->placed = false;
    if (a->state == SK_A_DEAD) {
        /* a sink that was told of the end of a call has killed the actor: the calls that were to be
         * repeated end, too */
        sk_actor_fail_calls(l, a, a->why);
        return;
    }
    struct sk_verdict_actor ac = sk_actor_case(a);
    if (!sk_verdict_restarts(&ac, charged)) {
        sk_actor_dead(l, a, why);
        return;
    }
    if (charged && a->restarts_left > 0) a->restarts_left--;
    to(a, SK_A_STARTING);
    if (sk_ltask_over(a->init)) sk_ltask_reopened(l);
    if (a->init->state != SK_T_WAITING && a->init->state != SK_T_READY)
        /* the return object of the constructor keeps its first value */
        sk_ltask_to(a->init, SK_T_READY);
    /* the constructor had begun before: its earlier attempt goes into the history */
    if (a->init->start_ns && !a->init->end_ns) sk_state_attempt(l, a->init, SK_EACTOR, why);
    sk_state_not_run(a->init);
    sk_ltask_again(a->init, a->init->retries_left);
    sk_actor_advance(l, a);
}

/* Call when the last reference is gone: the calls already made are finished, then the actor
 * ends. */
void sk_actor_unreferenced(struct sk_local *l, struct sk_lactor *a) {
    a->stopping = a->unreferenced = true;
    unname(l, a);
    l->actors.n_unreferenced++;
    sk_actor_advance(l, a);
}

void sk_actor_sweep(struct sk_local *l) {
    if (!l->actors.n_unreferenced) return;
    SK_LIST_EACH_SAFE (it, tmp, &l->actors.all) {
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
        if (!a->unreferenced || a->state != SK_A_DEAD || a->n_tasks || !sk_ltask_over(a->init))
            continue;
        /* nothing points to the actor any more */
        SK_ASSERT(!a->worker && !a->name && sk_list_empty(&a->queue) && sk_list_empty(&a->wants));
        l->actors.n_unreferenced--;
        sk_state_actor_gone(l, a);
        sk_list_del(&a->link);
        sk_ltask_free(l, a->init);
        sk_actor_free(a);
    }
}

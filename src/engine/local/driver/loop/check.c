/* check.c - compares all structures of the driver, for tests: every list, count and back pointer
 * against the others. Runs with the lock held; changes nothing. Cost: a walk over everything,
 * several times. */
#include "engine/local/driver/local_int.h"

#define NEED(x)                 \
    do {                        \
        if (!(x)) return false; \
    } while (0)

static bool task_ok(const struct sk_local *l, const struct sk_ltask *t) {
    NEED(sk_map_get(&l->tasks, t->id) == t);
    NEED(t->state < SK_T_STATES && !t->worker == !sk_tstates[t->state].on_worker);
    NEED(t->holds_args == sk_tstates[t->state].holds_args || t->kind == SK_TASK_INIT);
    switch (t->state) {
    case SK_T_WAITING: NEED(t->n_unready > 0); break;
    case SK_T_READY: NEED(t->n_unready == 0); break;
    case SK_T_SENT: {
        const struct sk_lworker *w = t->worker;
        NEED(w && l->pool.workers[w->slot] == w && t->n_unready == 0);
        NEED(w->claimed[t->claim / 64] >> t->claim % 64 & 1);
        bool found = false;
        SK_LIST_EACH (it, &w->sent) found |= it == &t->on;
        NEED(found);
        break;
    }
    case SK_T_DONE:
    case SK_T_FAILED: NEED(t->kind == SK_TASK_INIT); break;
    case SK_T_ENDED:
        NEED(sk_ltask_is_stream(t) && !t->sink);
        break; /* tasks that are no streams of this kind are freed at their end */
    /* state LEFT lasts only until the code that took the task off its worker has decided */
    default: return false;
    }
    NEED(t->n_taken <= t->yields.n);
    if (!sk_ltask_is_stream(t) && !sk_ltask_over(t) && t->kind != SK_TASK_INIT)
        /* returns that are alive have no value yet */
        for (uint32_t i = 0; i < t->spec.n_returns; i++) {
            const struct sk_obj *o = sk_own_get(l->own, t->first + i);
            NEED(!o || (o->state == SK_O_PENDING && o->maker == t) || t->remake);
        }
    return true;
}

static bool is_group(const struct sk_local *l, uint64_t id) {
    SK_LIST_EACH (it, &l->groups.all)
        if (sk_container_of(it, struct sk_lgroup, link)->id == id) return true;
    return false;
}

static bool object_ok(struct sk_local *l, uint64_t id, const struct sk_obj *o) {
    NEED(o->id == id);
    if (o->state == SK_O_READY) NEED(!o->deps || o->where == SK_V_DISK);
    /* no task makes the `ready` object of a placement group */
    if (o->state == SK_O_PENDING && !o->maker && is_group(l, id - 1)) return true;
    if (o->state == SK_O_PENDING && !o->maker && (o->foreign || sk_promised(l, id))) return true;
    if (o->state == SK_O_PENDING && !l->recovery.lost.n && !o->stream_end)
        NEED(o->maker && sk_map_get(&l->tasks, o->maker->id) == o->maker);
    if (o->state == SK_O_ACTOR) NEED(o->u.actor->id == id && !o->u.actor->unreferenced);
    for (const struct sk_dep *d = o->deps; d; d = d->next) {
        NEED(*d->at == d && *d->more_at == d && !d->task != !d->req);
        if (d->task)
            NEED(d->task->state == SK_T_WAITING && sk_map_get(&l->tasks, d->task->id) == d->task);
    }
    return true;
}

static bool worker_ok(const struct sk_lworker *w) {
    uint32_t n = 0, claims = 0;
    SK_LIST_EACH (it, &w->sent) {
        const struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        NEED(t->worker == w && t->state == SK_T_SENT);
        n++;
    }
    for (uint32_t i = 0; i < SK_CLAIMS / 64; i++)
        claims += (uint32_t)__builtin_popcountll(w->claimed[i]);
    NEED(claims == n);
    if (w->place.state == SK_W_LEASED) NEED(w->place.depth == n);
    if (w->place.state == SK_W_IDLE || w->place.state == SK_W_STARTING) NEED(n == 0);
    if (w->actor)
        NEED(w->actor->worker == w && w->actor->n_sent == n && w->place.state == SK_W_ACTOR);
    NEED(sk_ring_check(&w->down));
    return true;
}

static bool actor_ok(const struct sk_local *l, const struct sk_lactor *a, uint32_t *want,
                     uint32_t *unreferenced) {
    uint32_t n = 0;
    SK_LIST_EACH (it, &a->queue) {
        const struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        NEED(t->actor == a && !t->held && (t->state == SK_T_WAITING || t->state == SK_T_READY));
        n++;
    }
    uint32_t held = 0, calls = 0, callers = 0;
    SK_LIST_EACH (i, &a->callers) {
        const struct sk_lcaller *c = sk_container_of(i, struct sk_lcaller, link);
        callers++;
        calls += c->n;
        SK_LIST_EACH (it, &c->held) {
            const struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            NEED(t->actor == a && t->caller == c && t->held &&
                 (t->state == SK_T_WAITING || t->state == SK_T_READY));
            /* a READY call is held only behind another one */
            NEED(t->state == SK_T_WAITING || (!a->n_groups && it != c->held.next));
            held++;
        }
    }
    NEED(held == a->n_held && calls == a->n_tasks && callers == a->n_callers);
    n += held;
    NEED(a->state != SK_A_DEAD || (n == 0 && !a->worker));
    NEED(a->n_tasks >= n);
    if (a->worker) NEED(l->pool.workers[a->worker->slot] == a->worker && a->worker->actor == a);
    NEED(a->init && sk_map_get(&l->tasks, a->init->id) == a->init && a->init->actor == a);
    bool wants = !a->worker && a->state == SK_A_STARTING && a->init->state == SK_T_READY;
    NEED(wants == !sk_list_empty(&a->wants) && (wants || sk_list_empty(&a->alike)));
    *want += wants;
    *unreferenced += a->unreferenced;
    return true;
}

static uint32_t wanting(const struct sk_list *list, sk_shape shape) {
    uint64_t before = 0;
    uint32_t n = 0;
    SK_LIST_EACH (it, list) {
        const struct sk_lactor *a = sk_container_of(it, struct sk_lactor, wants);
        if (a->order <= before || (shape && a->shape != shape)) return UINT32_MAX;
        before = a->order;
        n += 1 + wanting(&a->alike, a->shape);
    }
    return n;
}

bool sk_local_check(struct sk_local *l) {
    uint64_t id;
    void *v;
    uint32_t streams = 0, want = 0, unreferenced = 0, ready = 0, open = 0;
    NEED(sk_place_check(&l->place) && sk_own_check(l->own) && sk_lineage_check(l->lin) &&
         sk_store_check(l->store) && sk_map_check(&l->tasks));
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &id, &v);) {
        const struct sk_ltask *t = v;
        NEED(t->id == id && task_ok(l, t));
        streams += sk_ltask_is_stream(t) && !t->sink && t->owner != SK_PROC_DRIVER;
        ready += t->state == SK_T_READY && !t->actor;
        open += !sk_ltask_over(t);
    }
    for (uint32_t c = 0; sk_own_each(l->own, &c, &id, &v);) NEED(object_ok(l, id, v));
    for (uint32_t i = 0; i < l->pool.n_used; i++)
        NEED(!l->pool.workers[i] || worker_ok(l->pool.workers[i]));
    SK_LIST_EACH (it, &l->actors.all)
        NEED(actor_ok(l, sk_container_of(it, struct sk_lactor, link), &want, &unreferenced));
    NEED(sk_pool_check(l) && sk_stored_check(l) && sk_space_check(l) && sk_lgraphs_check(l));
    return streams == l->n_worker_streams && want == wanting(&l->actors.wanting, 0) &&
           unreferenced == l->actors.n_unreferenced && ready == l->place.n_ready &&
           open == l->n_open;
}

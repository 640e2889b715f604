/* loop.c - the host's thread of a guest engine: carries out orders, asks the guest what has
 * happened, and tells the sinks. It holds the lock for moments only.
 *
 * It sleeps until it is woken or, while the guest has tasks, for 0.1 ms at first and up to 5 ms.
 * Cost: a call of poll each time. */
#include "engine/guest/guest_int.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

#define NAP_NS (SK_MS / 10)
#define NAP_MAX_NS (5 * SK_MS)
#define ASK_NS SK_SEC /* time between two requests to the guest for its list of nodes */

void sk_ghost_wake(void *host) {
    struct sk_ghost *x = host;
    pthread_mutex_lock(&x->mu);
    x->woken = true;
    pthread_cond_signal(&x->todo);
    pthread_mutex_unlock(&x->mu);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Makes the guest's form of an argument. A large value of this process is put into the guest
 * once, and has a handle from then on. Only this thread gives handles to existing objects. */
static sk_rc value_of(struct sk_ghost *x, const struct sk_garg *a, struct sk_guest_value *out,
                      struct sk_err *err) {
    pthread_mutex_lock(&x->mu);
    struct sk_gobj *o = a->ref ? sk_own_get(x->own, a->ref) : NULL;
    pthread_mutex_unlock(&x->mu);
    const struct sk_gval *v = o ? o->val : a->val;
    void *handle = o ? o->handle : NULL;
    SK_ASSERT(v || handle);
    if (o && !handle && v->len > SK_GUEST_INLINE) {
        SK_TRY(x->g.ops->put(x->g.ctx, v->kind, (struct sk_bytes){v->data, v->len}, &handle, err));
        pthread_mutex_lock(&x->mu);
        o->handle = handle;
        pthread_mutex_unlock(&x->mu);
    }
    *out = handle ? (struct sk_guest_value){.handle = handle}
                  : (struct sk_guest_value){.kind = v->kind, .bytes = {v->data, v->len}};
    out->part = a->part;
    out->offset = a->offset;
    out->length = a->length;
    return SK_OK;
}

static void submit(struct sk_ghost *x, uint64_t id) {
    struct sk_err err = {0};
    pthread_mutex_lock(&x->mu);
    /* only this thread ends tasks that the guest has, so t stays valid without the lock */
    struct sk_gtask *t = sk_map_get(&x->tasks, id);
    /* an actor lives until its constructor has ended, and its options stay as they are */
    const struct sk_gactor *a = t && t->is_init ? sk_map_get(&x->actors, t->actor) : NULL;
    pthread_mutex_unlock(&x->mu);
    if (!t) return;
    struct sk_actor_opts opts = {0};
    if (a)
        opts = (struct sk_actor_opts){
            .is_async = a->is_async, .n_groups = a->n_groups, .groups = a->groups};
    struct sk_guest_value *args = sk_calloc(TAG, (t->n_args + 1) * sizeof *args);
    struct sk_guest_task g = {.task = t->id,
                              .actor = t->actor,
                              .fn = t->fn,
                              .name = t->name,
                              .is_init = t->is_init,
                              .n_returns = t->n_returns,
                              .need = t->actor && !t->is_init ? NULL : &t->need,
                              .max_retries = t->max_retries,
                              .retry_exceptions = t->retry_exceptions,
                              .max_calls = t->max_calls,
                              .window = t->window,
                              .node = t->node,
                              .node_only = t->node_only,
                              .opts = a ? &opts : NULL,
                              .max_task_retries = a ? a->max_task_retries : 0,
                              .group = t->group,
                              .no_wait = t->no_wait,
                              .caller = t->by ? t->by->who : 0,
                              .known = t->known,
                              .args = args,
                              .n_args = t->n_args};
    sk_rc rc = args ? SK_OK : SK_ERR(&err, SK_ENOMEM, "arguments of %s", t->name);
    for (uint32_t i = 0; rc == SK_OK && i < t->n_args; i++)
        rc = value_of(x, &t->args[i], &args[i], &err);
    if (rc == SK_OK) rc = x->g.ops->submit(x->g.ctx, &g, &err);
    sk_free(args);
    if (rc == SK_OK) return;
    pthread_mutex_lock(&x->mu);
    sk_gtask_fail(x, t, rc, err.msg);
    pthread_mutex_unlock(&x->mu);
}

static void carry_out(struct sk_ghost *x, struct sk_gorder *o) {
    const struct sk_guest_ops *g = x->g.ops;
    struct sk_err err = {0};
    switch (o->kind) {
    case SK_GORDER_DEFINE:
        /* on failure the tasks of the function fail with the reason */
        (void)!g->define(x->g.ctx, (sk_fid){o->id}, o->name, (struct sk_bytes){o->def, o->def_n},
                         &err);
        sk_free(o->name);
        sk_free(o->def);
        break;
    case SK_GORDER_ENV:
        g->env(x->g.ctx, (uint32_t)o->id, (struct sk_bytes){o->def, o->def_n});
        sk_free(o->def);
        break;
    case SK_GORDER_SUBMIT: submit(x, o->id); break;
    case SK_GORDER_CANCEL: g->cancel(x->g.ctx, o->id, o->flags); break;
    case SK_GORDER_TAKEN: g->taken(x->g.ctx, o->id, o->flags); break;
    case SK_GORDER_ACTOR_END: g->actor_end(x->g.ctx, o->id, o->how); break;
    case SK_GORDER_DROP: g->drop(x->g.ctx, o->handle); break;
    case SK_GORDER_GROUP: /* without memory its tasks fail, as if it had been removed */
        (void)!g->group(x->g.ctx, o->id, o->def, &err);
        sk_free(o->def);
        break;
    case SK_GORDER_UNGROUP: g->group_end(x->g.ctx, o->id); break;
    case SK_GORDER_HOLD:
    case SK_GORDER_UNHOLD:
    case SK_GORDER_THERE:
    case SK_GORDER_CALL:
    case SK_GORDER_YIELD:
    case SK_GORDER_TOOK:
    case SK_GORDER_ENDED:
    case SK_GORDER_KILL:
    case SK_GORDER_STOP:
    case SK_GORDER_NAMED: sk_gref_carry_out(x, o); break;
    }
}

/* Carries out all orders. True: there was at least one. */
static bool carry_out_all(struct sk_ghost *x) {
    pthread_mutex_lock(&x->mu);
    struct sk_gorder *now = x->orders.p;
    uint32_t n = x->orders.n;
    memset(&x->orders, 0, sizeof x->orders);
    pthread_mutex_unlock(&x->mu);
    for (uint32_t i = 0; i < n; i++) carry_out(x, &now[i]);
    sk_free(now);
    pthread_mutex_lock(&x->mu);
    x->n_carried += n;
    if (n) pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->mu);
    return n > 0;
}

/* ---- events ---------------------------------------------------------------------------------- */

static void tell(void *host, const struct sk_guest_event *ev) {
    struct sk_ghost *x = host;
    pthread_mutex_lock(&x->mu);
    if (ev->news) sk_gref_news(x, ev);
    else sk_gtask_event(x, ev);
    pthread_mutex_unlock(&x->mu);
}

bool sk_ghost_deliver(struct sk_ghost *x) {
    pthread_mutex_lock(&x->mu);
    struct sk_gout *now = x->out.p;
    uint32_t n = x->out.n;
    memset(&x->out, 0, sizeof x->out);
    pthread_mutex_unlock(&x->mu);
    for (uint32_t i = 0; i < n; i++) {
        now[i].ev.err = now[i].err;
        now[i].sink->on_events(now[i].sink, &now[i].ev, 1);
        sk_free(now[i].err);
        sk_free(now[i].note);
    }
    sk_free(now);
    return n > 0;
}

/* Ends all tasks with `err`, after the guest has failed. */
static void give_up(struct sk_ghost *x, const struct sk_err *err) {
    pthread_mutex_lock(&x->mu);
    if (!x->broken.code) x->broken = *err;
    for (struct sk_list *it; (it = sk_list_first(&x->told)) || (it = sk_list_first(&x->waiting));)
        sk_gtask_fail(x, sk_container_of(it, struct sk_gtask, link), x->broken.code, x->broken.msg);
    if (x->g.refs) sk_gref_lost(x, 0, x->broken.code, x->broken.msg);
    pthread_mutex_unlock(&x->mu);
}

sk_rc sk_ghost_ask_nodes(struct sk_ghost *x, struct sk_err *err) {
    struct sk_node few[16], *p = few;
    size_t n = 0, cap = SK_COUNT(few);
    pthread_mutex_lock(&x->mu);
    uint64_t request = x->ask_made;
    pthread_mutex_unlock(&x->mu);
    sk_rc rc = x->g.ops->nodes(x->g.ctx, p, cap, &n, err);
    while (rc == SK_OK && n > cap) {
        if (p != few) sk_free(p);
        cap = n;
        p = sk_alloc(TAG, cap * sizeof *p);
        rc = p ? x->g.ops->nodes(x->g.ctx, p, cap, &n, err)
               : SK_ERR(err, SK_ENOMEM, "rows of %zu nodes", n);
    }
    pthread_mutex_lock(&x->mu);
    x->ask_done = SK_MAX(x->ask_done, request);
    if (rc == SK_OK && !sk_vec_reserve(&x->nodes, TAG, n))
        rc = SK_ERR(err, SK_ENOMEM, "rows of %zu nodes", n);
    if (rc == SK_OK && request == x->ask_made) { /* else they are asked for again */
        memcpy(x->nodes.p, p, n * sizeof *p);
        x->nodes.n = (uint32_t)n;
    }
    pthread_cond_broadcast(&x->moved);
    pthread_mutex_unlock(&x->mu);
    if (p != few) sk_free(p);
    return rc;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Sleeps until there is an order or an event. False: the engine is closing. */
static bool nap(struct sk_ghost *x, int64_t *nap_ns, int64_t show_ns) {
    pthread_mutex_lock(&x->mu);
    int64_t now = sk_now_ns(), until = sk_list_empty(&x->told) ? now + ASK_NS : now + *nap_ns;
    until = SK_MIN(until, show_ns);
    while (!x->closing && !x->woken && !x->orders.n && !x->out.n && sk_now_ns() < until) {
        struct timespec ts = {.tv_sec = until / SK_SEC, .tv_nsec = until % SK_SEC};
        (void)pthread_cond_timedwait(&x->todo, &x->mu, &ts);
    }
    *nap_ns = SK_MIN(*nap_ns * 2, NAP_MAX_NS);
    x->woken = false;
    bool on = !x->closing;
    pthread_mutex_unlock(&x->mu);
    return on;
}

/* Shows the state if it is time. Gives the time at which to do that again. */
static int64_t show(struct sk_ghost *x) {
    int64_t next = sk_gshow_next(x);
    if (sk_now_ns() < next) return next;
    (void)!sk_ghost_ask_nodes(x, NULL); /* else the rows are those of before */
    return sk_gshow_tick(x);
}

void *sk_ghost_loop(void *host) {
    struct sk_ghost *x = host;
    struct sk_err err = {0};
    int64_t show_ns = show(x);
    for (int64_t nap_ns = NAP_NS; nap(x, &nap_ns, show_ns);) {
        bool busy = carry_out_all(x);
        if (x->broken.code == SK_OK && x->g.ops->poll(x->g.ctx, tell, x, &err) != SK_OK)
            give_up(x, &err);
        else if (x->broken.code) give_up(x, &x->broken);
        busy = sk_ghost_deliver(x) || busy;
        if (busy) {
            nap_ns = NAP_NS;
            pthread_mutex_lock(&x->mu);
            /* a sink may have brought about what a caller waits for */
            pthread_cond_broadcast(&x->moved);
            pthread_mutex_unlock(&x->mu);
        }
        show_ns = show(x);
        pthread_mutex_lock(&x->mu);
        bool wanted = x->ask_made != x->ask_done;
        pthread_mutex_unlock(&x->mu);
        if (!wanted && sk_now_ns() - x->asked_ns < ASK_NS) continue;
        x->asked_ns = sk_now_ns();
        if (sk_ghost_ask_nodes(x, &err) != SK_OK) give_up(x, &err);
    }
    return NULL;
}

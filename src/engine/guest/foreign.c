/* foreign.c - references between this process and the nodes of a guest (guest.h: sk_guest.refs).
 *
 * An object of a node has an entry here as long as something here refers to it, and is held there
 * meanwhile; its value comes with SK_NEWS_THERE. What a node holds of ours has one reference of
 * this process, under the node's name of it: its number, or the number that the node has given to a
 * return of its call. A node that holds an object of another node holds our entry of it. */
#include <stdlib.h>

#include "engine/guest/guest_int.h"

/* ---- entries of objects of nodes ------------------------------------------------------------- */

/* Makes an entry with one reference, of an object that its node knows to be held here. */
static bool enter(struct sk_ghost *x, uint64_t id) {
    SK_DCHECK(sk_gref_is_foreign(x, id) && !sk_own_has(x->own, id));
    if (sk_gobj_new(x, id, 0, NULL, NULL, 0, NULL) != SK_OK) return false;
    struct sk_gobj *o = sk_own_get(x->own, id);
    o->foreign = true;
    return true;
}

/* Makes an entry with one reference. False: no memory. */
static bool meet(struct sk_ghost *x, uint64_t id) {
    if (!enter(x, id)) return false;
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_HOLD, .id = id});
    return true;
}

bool sk_gref_take(struct sk_ghost *x, uint64_t id) {
    struct sk_gactor *a = sk_map_get(&x->actors, id);
    if (a) a->n_handles++;
    return a || sk_own_ref(x->own, id, ME, 1, NULL) == SK_OK ||
           (sk_gref_is_foreign(x, id) && meet(x, id));
}

void sk_gref_retain(struct sk_ghost *x, uint64_t id) {
    (void)!sk_gref_take(x, id); /* if the object is gone, the next get says so */
}

void sk_gref_release(struct sk_ghost *x, uint64_t id) {
    struct sk_gactor *a = sk_map_get(&x->actors, id);
    if (!a) sk_gobj_unref(x, id);
    else if (a->n_handles) {
        a->n_handles--;
        sk_gactor_maybe_end(x, a);
    }
}

/* Gives a pending object its value; takes val or handle over. */
static void set(struct sk_ghost *x, uint64_t id, struct sk_gobj *o, struct sk_gval *val,
                void *handle) {
    SK_ASSERT(!sk_gobj_there(o) && (val || handle));
    o->val = val;
    o->handle = handle;
    sk_gtask_exists(x, id, o);
}

/* ---- what nodes hold ------------------------------------------------------------------------- */

static struct sk_map *holder(struct sk_ghost *x, uint32_t node) {
    SK_ASSERT(node);
    while (x->holders.n < node) {
        if (!sk_vec_push(&x->holders, TAG, (struct sk_map){0})) abort();
        sk_map_init(&x->holders.p[x->holders.n - 1], TAG);
    }
    return &x->holders.p[node - 1];
}
/* Notes that the node holds object or actor `id`, with a reference that the caller has taken, and
 * tells it the value as soon as there is one. */
static void lend(struct sk_ghost *x, uint32_t node, uint64_t name, uint64_t id) {
    void *as = (void *)(uintptr_t)id; /* NOLINT: a number in a map */
    SK_DCHECK(!sk_gobj_held_as(x, node, name));
    if (sk_map_put(holder(x, node), name, as) != SK_OK) abort();
    struct sk_gobj *o = sk_map_get(&x->actors, id) ? NULL : sk_own_get(x->own, id);
    if (!o) return;
    if (sk_gobj_there(o)) {
        sk_gobj_say_there(x, node, name, NULL);
        return;
    }
    struct sk_gwaits *w = sk_calloc(TAG, sizeof *w);
    if (!w) abort();
    *w = (struct sk_gwaits){.w = {node, name}, .next = o->waits};
    o->waits = w;
}

static void held(struct sk_ghost *x, uint32_t node, uint64_t id) {
    if (sk_gobj_held_as(x, node, id)) return;
    if (sk_gref_take(x, id)) lend(x, node, id, id);
    else
        sk_gobj_say_there(x, node, id,
                          sk_gval_error(SK_ELOST,
                                        "the object does not exist any more: its last reference "
                                        "was released"));
}

static void unheld(struct sk_ghost *x, uint32_t node, uint64_t name) {
    uint64_t id = sk_gobj_held_as(x, node, name);
    if (!id) return;
    sk_map_del(holder(x, node), name);
    sk_gref_release(x, id);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Number of calls of a node's actor by this process that have not ended. */
static uint32_t n_abroad(const struct sk_ghost *x, uint64_t actor) {
    uint64_t first;
    void *val;
    uint32_t n = 0;
    for (uint32_t i = 0; sk_map_next(&x->abroad, &i, &first, &val);)
        n += ((const struct sk_gtask *)val)->actor == actor && !((struct sk_gtask *)val)->who;
    return n;
}

static sk_rc call_node(struct sk_ghost *x, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                       struct sk_err *err) {
    struct sk_gtask *t;
    const char *name = s->name ? s->name : "call";
    if (s->sink)
        return SK_ERR(err, SK_ENOSYS, "%s: a sink for a call of an actor that a task has made",
                      name);
    for (uint32_t i = 0; i < s->n_args; i++)
        if (s->args[i].part)
            return SK_ERR(err, SK_ENOSYS, "%s: a part of a value for an actor of a node", name);
    uint32_t max = sk_task_opts_of(s)->max_pending;
    SK_TRY(sk_call_check(true, max ? n_abroad(x, s->actor.v) : 0, max, err));
    /* a weak handle has no reference; the call has one until it ends */
    if (!sk_gref_take(x, s->actor.v)) return SK_ERR(err, SK_ENOMEM, "call of %s", name);
    uint32_t n = sk_foreign_n_names(s->n_returns), made = 0; /* a stream keeps its end itself */
    uint64_t base = x->next_id, id = base + n;
    sk_rc rc = SK_OK;
    x->next_id += n + 1;
    for (; made < n; made++) SK_GO(sk_gobj_new(x, base + made, id, NULL, NULL, 0, err));
    SK_GO(sk_gtask_make(x, s, id, base, &t, err));
    if (sk_map_put(&x->abroad, base, t) != SK_OK) {
        sk_gtask_free(x, t);
        SK_GO(SK_ERR(err, SK_ENOMEM, "call"));
    }
    for (uint32_t i = 0; i < n; i++) ((struct sk_gobj *)sk_own_get(x->own, base + i))->ret = true;
    for (uint32_t i = 0; i < t->n_args; i++) sk_list_del(&t->args[i].lack); /* it waits there */
    t->n_lacking = 0;
    t->abroad = t->told = true;
    t->who = sk_task_opts_of(s)->caller;
    t->max_retries = s->max_retries;
    sk_list_del(&t->link);
    sk_list_push_back(&x->told, &t->link);
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_CALL, .id = id});
    if (first) first->v = base;
    if (tid) tid->v = id;
out:
    while (rc != SK_OK && made) sk_gobj_unref(x, base + --made);
    if (rc != SK_OK) sk_gref_release(x, s->actor.v);
    return rc;
}

sk_rc sk_gref_submit(struct sk_ghost *x, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                     struct sk_err *err) {
    bool ours = !s->actor.v || sk_map_get(&x->actors, s->actor.v);
    return !ours && sk_gref_is_foreign(x, s->actor.v) ? call_node(x, s, first, tid, err)
                                                      : sk_gtask_submit(x, s, first, tid, err);
}

typedef SK_VEC(uint64_t) taken_ids;

static const char *name_of(const struct sk_ghost *x, const struct sk_task_spec *s) {
    const char *name = s->name ? s->name : sk_map_get(&x->fns, s->fn.v);
    return name ? name : "?";
}

/* Takes references to what a spec of a node names, until it is submitted. */
static sk_rc take_args(struct sk_ghost *x, const struct sk_task_spec *s, taken_ids *taken,
                       struct sk_err *err) {
    for (uint32_t i = 0; i < s->n_args; i++) {
        uint64_t id = s->args[i].ref.v;
        if (id && !sk_gref_take(x, id))
            return SK_ERR(err, SK_ELOST, "argument %u of %s does not exist any more", i,
                          name_of(x, s));
        if (id && !sk_vec_push(taken, TAG, id)) abort();
    }
    for (uint32_t i = 0; i < s->n_contains; i++)
        if (sk_gref_take(x, s->contains[i].v) && !sk_vec_push(taken, TAG, s->contains[i].v))
            abort();
    return SK_OK;
}

static void untake(struct sk_ghost *x, taken_ids *taken) {
    for (uint32_t i = 0; i < taken->n; i++) sk_gref_release(x, taken->p[i]);
    sk_vec_free(taken);
}

static sk_rc shape_of(struct sk_ghost *x, const struct sk_guest_news *w, sk_shape *out,
                      struct sk_err *err) {
    sk_rc rc = sk_gneed_of_node(x, w->need, out, err);
    if (rc != SK_OK) sk_err_prefix(err, "%s can never run here", name_of(x, w->spec));
    return rc;
}

/* A node makes an actor that it cannot hold. */
static void made(struct sk_ghost *x, uint32_t node, const struct sk_guest_news *w) {
    struct sk_actor_spec spec = *w->actor;
    struct sk_task_opts opts = {0};
    struct sk_err err = {0};
    taken_ids taken = {0};
    sk_aid a = {0};
    sk_oid ready;
    sk_rc rc = take_args(x, &spec.init, &taken, &err);
    if (rc == SK_OK) rc = shape_of(x, w, &spec.init.shape, &err);
    if (rc == SK_EINFEASIBLE) { /* its calls fail with this reason */
        opts.refused = sk_strdup(TAG, err.msg);
        spec.init.opts = &opts;
        rc = opts.refused ? SK_OK : SK_ENOMEM;
    }
    if (rc == SK_OK) rc = sk_gactor_create(x, &spec, &a, &ready, &err);
    sk_gname_made(x, node, w->id, rc, a.v, err.msg);
    sk_free((void *)(uintptr_t)opts.refused);
    untake(x, &taken);
}

/* A node calls an actor of this process, or of another node, or submits a task that it cannot
 * run. */
static void called(struct sk_ghost *x, uint32_t node, const struct sk_guest_news *w) {
    struct sk_task_opts opts = *sk_task_opts_of(w->spec);
    struct sk_task_spec spec = *w->spec, *s = &spec;
    struct sk_err err = {0};
    sk_oid first = {0};
    sk_tid tid = {0};
    taken_ids taken = {0};
    opts.caller = (uint64_t)node << 32 | (opts.caller & UINT32_MAX);
    spec.opts = &opts;
    sk_rc rc = take_args(x, s, &taken, &err);
    if (rc == SK_OK && w->need) rc = shape_of(x, w, &spec.shape, &err);
    if (rc == SK_OK) rc = sk_gref_submit(x, s, &first, &tid, &err);
    struct sk_gtask *t = rc == SK_OK ? sk_map_get(&x->tasks, tid.v) : NULL;
    if (t) {
        t->caller = node;
        t->caller_first = w->id;
    }
    if (rc == SK_OK && s->n_returns == SK_STREAMING) {
        rc = sk_gstream_lend(x, tid.v, node, w->id, &first, &err);
        if (rc != SK_OK) sk_gstream_drop(x, tid.v);
    }
    for (uint32_t i = 0; i < sk_foreign_n_names(s->n_returns); i++)
        if (rc == SK_OK) lend(x, node, w->id + i, first.v + i);
        else sk_gobj_say_there(x, node, w->id + i, sk_gval_error(rc, err.msg));
    if (!t)
        sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_ENDED, .id = w->id, .node = node});
    untake(x, &taken);
}

/* The call of a node with this first return; NULL: it has ended. */
static struct sk_gtask *call_of(const struct sk_ghost *x, uint32_t node, uint64_t first) {
    const struct sk_list *lists[] = {&x->waiting, &x->told};
    const struct sk_gobj *o = sk_own_get(x->own, sk_gobj_held_as(x, node, first));
    if (o) return sk_map_get(&x->tasks, o->task);
    for (uint32_t i = 0; i < SK_COUNT(lists); i++) /* a call that returns nothing */
        SK_LIST_EACH (it, lists[i]) {
            struct sk_gtask *t = sk_container_of(it, struct sk_gtask, link);
            if (t->caller == node && t->caller_first == first) return t;
        }
    return NULL;
}

static void stopped(struct sk_ghost *x, uint32_t node, const struct sk_guest_news *w) {
    const struct sk_gtask *t = sk_id_place(w->id) == w->place ? call_of(x, node, w->id) : NULL;
    if (t) sk_gtask_cancel(x, t->id, w->flags);
    else if (sk_id_place(w->id) != w->place) sk_gtask_cancel(x, w->id, w->flags);
}

static void ended(struct sk_ghost *x, const struct sk_guest_news *w) {
    struct sk_gtask *t = sk_map_get(&x->abroad, w->id);
    if (!t || sk_id_place(t->actor) != w->place) return;
    for (uint32_t i = 0; i < sk_foreign_n_names(t->n_returns); i++) {
        struct sk_gobj *o = sk_own_get(x->own, t->first + i);
        if (o && !sk_gobj_there(o))
            set(x, t->first + i, o, sk_gval_error(SK_ELOST, "the call has ended without a value"),
                NULL);
    }
    const struct sk_gobj *end = t->n_returns == SK_STREAMING ? sk_own_get(x->own, t->first) : NULL;
    if (end)
        sk_gstream_over(x, t->id, end->val && SK_KIND_IS_ERROR(end->val->kind) ? end->val : NULL);
    sk_gtask_over(x, t);
}

/* ---- streams --------------------------------------------------------------------------------- */

/* A stream of an actor of a node has yielded. */
static void yielded(struct sk_ghost *x, const struct sk_guest_news *w) {
    const struct sk_gtask *t = sk_map_get(&x->abroad, w->id);
    struct sk_gstream *s = t ? sk_map_get(&x->streams, t->id) : NULL;
    if (sk_own_has(x->own, w->of)) return; /* a wrong yield: the object is known here already */
    if (s && !s->over && enter(x, w->of)) sk_gstream_yielded(x, t->id, s, w->of);
    else sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_UNHOLD, .id = w->of});
}

static void took(struct sk_ghost *x, uint32_t node, const struct sk_guest_news *w) {
    /* the end of a stream that the node reads has a name of the node */
    const struct sk_gtask *t = sk_id_place(w->id) == w->place ? call_of(x, node, w->id) : NULL;
    if (t) sk_gstream_took(x, t->id, w->flags);
}

/* ---- news ------------------------------------------------------------------------------------ */

static void there(struct sk_ghost *x, uint32_t node, const struct sk_guest_news *w) {
    const struct sk_guest_value *v = &w->value;
    struct sk_gobj *o = sk_own_get(x->own, w->id);
    if (!o || sk_gobj_there(o) || !(o->foreign || o->ret)) {
        sk_ghost_drop(x, v->handle);
        return;
    }
    struct sk_gval *val = v->handle ? NULL : sk_gval_new(v->kind, v->bytes);
    if (!v->handle && !val) val = sk_gval_error(SK_ENOMEM, "no memory for a value");
    o->size = w->size;
    o->node = v->handle ? node : 0;
    set(x, w->id, o, val, v->handle);
}

void sk_gref_lost(struct sk_ghost *x, uint64_t place, sk_rc code, const char *why) {
    SK_VEC(uint64_t) ids = {0};
    uint32_t cursor = 0;
    uint64_t id;
    void *data;
    while (sk_own_each(x->own, &cursor, &id, &data)) {
        const struct sk_gobj *o = data;
        if (o->foreign && !sk_gobj_there(o) && (!place || sk_id_place(id) == place) &&
            !sk_vec_push(&ids, TAG, id))
            abort();
    }
    for (uint32_t i = 0; i < ids.n; i++) {
        struct sk_gobj *o = sk_own_get(x->own, ids.p[i]);
        if (o && !sk_gobj_there(o)) set(x, ids.p[i], o, sk_gval_error(code, why), NULL);
    }
    sk_vec_free(&ids);
}

static void lost(struct sk_ghost *x, uint32_t node, const struct sk_guest_news *w) {
    uint64_t key;
    void *val;
    SK_VEC(uint64_t) ids = {0}, unread = {0};
    struct sk_map was = *holder(x, node);
    sk_map_init(holder(x, node), TAG);
    struct sk_list *lists[] = {&x->waiting, &x->told};
    for (uint32_t i = 0; i < SK_COUNT(lists); i++)
        SK_LIST_EACH (it, lists[i]) {
            struct sk_gtask *t = sk_container_of(it, struct sk_gtask, link);
            if (t->caller == node) { /* it runs to its end, for its side effects */
                t->caller = 0;
                if (sk_map_get(&x->streams, t->id) && !sk_vec_push(&unread, TAG, t->id)) abort();
            }
            if (t->abroad && sk_id_place(t->actor) == w->place && !sk_vec_push(&ids, TAG, t->id))
                abort();
        }
    for (uint32_t i = 0; sk_map_next(&was, &i, &key, &val);) sk_gref_release(x, (uintptr_t)val);
    for (uint32_t i = 0; i < unread.n; i++) sk_gstream_drop(x, unread.p[i]);
    sk_vec_free(&unread);
    sk_gname_lost(x, node);
    sk_map_deinit(&was);
    for (uint32_t i = 0; i < ids.n; i++) {
        struct sk_gtask *t = sk_map_get(&x->tasks, ids.p[i]);
        if (t) sk_gtask_fail(x, t, SK_EACTOR, w->name);
    }
    sk_vec_free(&ids);
    sk_gref_lost(x, w->place, SK_ELOST, w->name);
}

static void defined(struct sk_ghost *x, const struct sk_guest_news *w) {
    if (sk_map_get(&x->fns, w->fn.v)) return;
    char *name = sk_strdup(TAG, w->name);
    if (!name || sk_map_put(&x->fns, w->fn.v, name) != SK_OK) sk_free(name); /* its calls fail */
}

void sk_gref_news(struct sk_ghost *x, const struct sk_guest_event *ev) {
    const struct sk_guest_news *w = ev->news;
    switch (w->kind) {
    case SK_NEWS_HELD: held(x, ev->node, w->id); break;
    case SK_NEWS_UNHELD: unheld(x, ev->node, w->id); break;
    case SK_NEWS_THERE: there(x, ev->node, w); break;
    case SK_NEWS_DEFINED: defined(x, w); break;
    case SK_NEWS_CALLED:
        if (w->actor) made(x, ev->node, w);
        else called(x, ev->node, w);
        break;
    case SK_NEWS_ENDED: ended(x, w); break;
    case SK_NEWS_YIELDED: yielded(x, w); break;
    case SK_NEWS_TOOK: took(x, ev->node, w); break;
    case SK_NEWS_KILLED: (void)!sk_gactor_end(x, w->id, w->no_restart, NULL); break;
    case SK_NEWS_NAME: sk_gname_asked(x, ev->node, w->id, w->asked); break;
    case SK_NEWS_STOPPED: stopped(x, ev->node, w); break;
    case SK_NEWS_LOST: lost(x, ev->node, w); break;
    case SK_NEWS_GROUP: sk_ggroup_news(x, w); break;
    }
    sk_gobj_drain(x); /* watches may have had the last references */
    pthread_cond_broadcast(&x->moved);
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* Tells a node a value that it holds. Only this thread takes the node's reference away. */
static void tell(struct sk_ghost *x, const struct sk_gorder *o) {
    struct sk_guest_value v = {0};
    struct sk_err err = {0};
    struct sk_gval *val = o->val;
    pthread_mutex_lock(&x->mu);
    uint64_t id = val ? 0 : sk_gobj_held_as(x, o->node, o->id);
    struct sk_gobj *obj = id ? sk_own_get(x->own, id) : NULL;
    void *handle = obj ? obj->handle : NULL;
    if (obj && !handle && obj->val) val = sk_gval_ref(obj->val);
    pthread_mutex_unlock(&x->mu);
    if (!val && !handle) return; /* it was let go of meanwhile */
    if (!handle && val->len > SK_INLINE_MAX && !SK_KIND_IS_ERROR(val->kind)) {
        SK_ASSERT(obj); /* a value of the order itself is an error */
        sk_rc rc = x->g.ops->put(x->g.ctx, val->kind, (struct sk_bytes){val->data, val->len},
                                 &handle, &err);
        if (rc == SK_OK) {
            pthread_mutex_lock(&x->mu);
            obj->handle = handle;
            pthread_mutex_unlock(&x->mu);
        } else {
            if (!o->val) sk_gval_unref(x, val);
            val = sk_gval_error(rc, err.msg);
        }
    }
    if (handle) v.handle = handle;
    else v = (struct sk_guest_value){.kind = val->kind, .bytes = {val->data, val->len}};
    x->g.refs->there(x->g.ctx, o->node, o->id, &v);
    if (val && val != o->val) sk_gval_unref(x, val);
}

/* Gives a node that reads a stream what was yielded. */
static void give_yield(struct sk_ghost *x, const struct sk_gorder *o) {
    pthread_mutex_lock(&x->mu);
    bool reads = sk_gobj_held_as(x, o->node, o->id) != 0; /* the end; else the node is lost */
    pthread_mutex_unlock(&x->mu);
    SK_ASSERT(o->of);
    if (reads) x->g.refs->yield(x->g.ctx, o->node, o->id, o->of);
    pthread_mutex_lock(&x->mu);
    if (reads && !sk_gobj_held_as(x, o->node, o->of))
        lend(x, o->node, o->of, o->of); /* THERE comes after it */
    else sk_gref_release(x, o->of); /* the node is lost, or has said HOLD before it could know */
    pthread_mutex_unlock(&x->mu);
}

static void call(struct sk_ghost *x, uint64_t id) {
    struct sk_err err = {0};
    pthread_mutex_lock(&x->mu);
    /* only this thread ends calls that are under way, and the values of arguments stay */
    struct sk_gtask *t = sk_map_get(&x->tasks, id);
    pthread_mutex_unlock(&x->mu);
    if (!t) return;
    struct sk_arg *args = sk_calloc(TAG, (t->n_args + 1) * sizeof *args);
    struct sk_task_opts opts = {.group = t->group,
                                .no_wait = t->no_wait,
                                .stream_window = t->window,
                                .caller = t->who,
                                .known_task = t->known};
    struct sk_task_spec s = {.fn = t->fn,
                             .name = t->name,
                             .args = args,
                             .n_args = t->n_args,
                             .contains = (const sk_oid *)(const void *)t->contains,
                             .n_contains = t->n_contains,
                             .n_returns = t->n_returns,
                             .actor = {t->actor},
                             .max_retries = t->max_retries,
                             .retry_exceptions = t->retry_exceptions,
                             .opts = &opts};
    sk_rc rc = args ? SK_OK : SK_ERR(&err, SK_ENOMEM, "arguments of %s", t->name);
    for (uint32_t i = 0; rc == SK_OK && i < t->n_args; i++) {
        const struct sk_garg *a = &t->args[i];
        args[i].ref.v = a->ref;
        if (a->ref) continue;
        args[i].kind = a->val->kind;
        args[i].bytes = (struct sk_bytes){a->val->data, a->val->len};
    }
    if (rc == SK_OK) rc = x->g.refs->call(x->g.ctx, &s, t->first, &err);
    sk_free(args);
    if (rc == SK_OK) return;
    pthread_mutex_lock(&x->mu);
    sk_gtask_fail(x, t, rc, err.msg);
    pthread_mutex_unlock(&x->mu);
}

void sk_gref_carry_out(struct sk_ghost *x, struct sk_gorder *o) {
    const struct sk_guest_ref_ops *r = x->g.refs;
    SK_ASSERT(r);
    switch (o->kind) {
    case SK_GORDER_HOLD: r->hold(x->g.ctx, o->id); break;
    case SK_GORDER_UNHOLD: r->unhold(x->g.ctx, o->id); break;
    case SK_GORDER_THERE: tell(x, o); break;
    case SK_GORDER_CALL: call(x, o->id); break;
    case SK_GORDER_YIELD: give_yield(x, o); break;
    case SK_GORDER_TOOK: r->took(x->g.ctx, o->of, o->id, o->flags); break;
    case SK_GORDER_ENDED: r->ended(x->g.ctx, o->node, o->id); break;
    case SK_GORDER_NAMED:
        r->named(x->g.ctx, o->node, o->id, o->rc, o->of, (struct sk_bytes){o->def, o->def_n});
        sk_free(o->def);
        break;
    case SK_GORDER_STOP: r->stop(x->g.ctx, o->of, o->id, o->flags); break;
    default: r->kill(x->g.ctx, o->id, o->flag); break;
    }
    sk_gval_unref(x, o->val);
}

void sk_gref_forget(struct sk_ghost *x) {
    sk_gname_forget(x);
    for (uint32_t i = 0; i < x->holders.n; i++) sk_map_deinit(&x->holders.p[i]);
    sk_vec_free(&x->holders);
    sk_map_deinit(&x->abroad);
}

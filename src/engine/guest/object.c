/* object.c - values and objects of a guest engine. Reference counts are kept here; large values are
 * in the guest's memory, behind handles. */
#include "engine/guest/guest_int.h"

#include <stdlib.h>

#include "engine/watch.h"

static struct sk_gval *val_alloc(uint32_t kind, size_t n) {
    struct sk_gval *v = sk_alloc(TAG, sizeof *v + 63 + n);
    if (!v) return NULL;
    atomic_init(&v->refs, 1);
    v->kind = kind;
    v->len = n;
    v->data = (uint8_t *)SK_ALIGN((uintptr_t)(v + 1), 64);
    v->token = NULL;
    return v;
}

struct sk_gval *sk_gval_new(uint32_t kind, struct sk_bytes b) {
    struct sk_gval *v = val_alloc(kind, b.n);
    if (v && b.n && b.p) memcpy((uint8_t *)(uintptr_t)v->data, b.p, b.n);
    return v;
}

struct sk_gval *sk_gval_error(sk_rc code, const char *text) {
    size_t n = strlen(text) + 1;
    struct sk_gval *v = val_alloc(SK_KIND_ENGINE_ERROR, n + 4);
    int32_t c = code;
    if (!v) abort(); /* no memory for some 200 bytes: a waiter would wait for ever */
    memcpy((uint8_t *)(uintptr_t)v->data, &c, 4);
    memcpy((uint8_t *)(uintptr_t)v->data + 4, text, n);
    return v;
}

struct sk_gval *sk_gval_ref(struct sk_gval *v) {
    atomic_fetch_add(&v->refs, 1);
    return v;
}

void sk_gval_unref(struct sk_ghost *x, struct sk_gval *v) {
    if (!v) return;
    uint32_t was = atomic_fetch_sub(&v->refs, 1);
    SK_ASSERT(was > 0);
    if (was != 1) return;
    if (v->token) x->g.ops->let_go(x->g.ctx, v->token);
    sk_free(v);
}

void sk_ghost_order(struct sk_ghost *x, struct sk_gorder o) {
    if (!sk_vec_push(&x->orders, TAG, o)) abort();
    x->n_ordered++;
    pthread_cond_signal(&x->todo);
}

/* ---- nodes that hold objects (foreign.c), and objects of nodes ------------------------------- */

uint64_t sk_gobj_held_as(const struct sk_ghost *x, uint32_t node, uint64_t name) {
    return node <= x->holders.n ? (uintptr_t)sk_map_get(&x->holders.p[node - 1], name) : 0;
}

void sk_gobj_say_there(struct sk_ghost *x, uint32_t node, uint64_t name, struct sk_gval *val) {
    sk_ghost_order(
        x, (struct sk_gorder){.kind = SK_GORDER_THERE, .id = name, .node = node, .val = val});
}

void sk_gobj_came(struct sk_ghost *x, uint64_t id, struct sk_gobj *o) {
    SK_DCHECK(sk_gobj_there(o));
    struct sk_gwaits *w = o->waits, *next;
    o->waits = NULL;
    for (; w; w = next) {
        next = w->next;
        if (sk_gobj_held_as(x, w->w.node, w->w.name) == id)
            sk_gobj_say_there(x, w->w.node, w->w.name, NULL);
        sk_free(w);
    }
}

/* Before an object is freed. */
static void let_go(struct sk_ghost *x, uint64_t id, struct sk_gobj *o) {
    for (struct sk_gwaits *w = o->waits, *next; w; w = next) {
        next = w->next;
        sk_free(w);
    }
    o->waits = NULL;
    /* returns of a call are let go of when it has ended */
    if (o->foreign || (o->ret && !sk_map_get(&x->tasks, o->task)))
        sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_UNHOLD, .id = id});
}

/* ---- objects --------------------------------------------------------------------------------- */

void sk_gobj_drain(struct sk_ghost *x) {
    uint64_t id;
    void *data;
    if (x->draining) return;
    x->draining = true;
    while (sk_own_next_freed(x->own, &id, &data)) {
        struct sk_gobj *o = data;
        /* fetched bytes belong to views only, so no lock of the guest is taken here */
        SK_ASSERT((!o->val || !o->val->token) && sk_list_empty(&o->lacking));
        sk_gval_unref(x, o->val);
        sk_ghost_drop(x, o->handle);
        let_go(x, id, o);
        sk_free(o);
        /* the id of an actor is that of its `ready` plus one */
        struct sk_gactor *a = sk_map_get(&x->actors, id + 1);
        if (!a) continue;
        a->ready_gone = true;
        sk_gactor_maybe_end(x, a);
    }
    x->draining = false;
}

sk_rc sk_gobj_new(struct sk_ghost *x, uint64_t id, uint64_t task, struct sk_gval *val,
                  const sk_oid *in, uint32_t n_in, struct sk_err *err) {
    struct sk_gobj *o = sk_calloc(TAG, sizeof *o);
    if (!o) return SK_ERR(err, SK_ENOMEM, "object");
    sk_rc rc = sk_own_add(x->own, id, ME, o, err);
    if (rc != SK_OK) {
        sk_free(o);
        return rc;
    }
    sk_list_init(&o->lacking);
    o->task = task;
    if (n_in && (rc = sk_own_contains(x->own, id, (const uint64_t *)(const void *)in, n_in, err)) !=
                    SK_OK) {
        sk_gobj_unref(x, id);
        return rc;
    }
    o->val = val;
    o->size = val ? val->len : 0;
    return SK_OK;
}

void sk_gobj_unref(struct sk_ghost *x, uint64_t id) {
    /* if the caller gives back more references than it has, that is ignored */
    if (id && sk_own_has(x->own, id)) (void)!sk_own_unref(x->own, id, ME, 1, NULL);
    sk_gobj_drain(x);
}

/* ---- watches ---------------------------------------------------------------------------------
 * Callbacks when an object exists, or when a stream without a sink has news (watch.h). A watch is
 * in the map under its object or the task of its stream until it is called or removed; it holds its
 * object meanwhile. */

struct gwatch { /* behind sk_watch.id */
    struct gwatch *next;
    struct sk_watch *w;
    uint64_t key; /* object or task: their ids are of the same space */
    bool stream;
};

sk_rc sk_gwatch_add(struct sk_ghost *x, uint64_t oid, uint64_t stream, struct sk_watch *w,
                    struct sk_err *err) {
    const struct sk_gobj *o = oid ? sk_own_get(x->own, oid) : NULL;
    w->id = 0;
    if (oid && !o) return SK_ERR(err, SK_ELOST, "the object does not exist (any more)");
    if (oid ? sk_gobj_there(o) : sk_gstream_take(x, stream, NULL, NULL) != SK_EAGAIN)
        return SK_EDONE;
    struct gwatch *g = sk_calloc(TAG, sizeof *g);
    if (!g) return SK_ERR(err, SK_ENOMEM, "watch");
    *g = (struct gwatch){.w = w, .key = oid ? oid : stream, .stream = !oid};
    g->next = sk_map_get(&x->watches, g->key);
    sk_rc rc = sk_map_put(&x->watches, g->key, g);
    if (rc == SK_OK && oid && (rc = sk_own_hold(x->own, oid, err)) != SK_OK) {
        if (g->next) rc = sk_map_put(&x->watches, g->key, g->next);
        else sk_map_del(&x->watches, g->key);
    }
    if (rc != SK_OK) {
        sk_free(g);
        return SK_ERR(err, SK_ENOMEM, "watch");
    }
    w->id = (uintptr_t)g;
    return SK_OK;
}

static void forget(struct sk_ghost *x, struct gwatch *g) {
    if (!g->stream) sk_own_unhold(x->own, g->key);
    g->w->id = 0;
    sk_free(g);
}

bool sk_gwatch_remove(struct sk_ghost *x, struct sk_watch *w) {
    struct gwatch *g = (struct gwatch *)(uintptr_t)w->id; /* NOLINT: the pointer of `add` */
    if (!g) return false;
    struct gwatch *at = sk_map_get(&x->watches, g->key);
    if (at == g && g->next) at = g->next;
    else if (at == g) at = NULL;
    else
        for (struct gwatch *p = at; p; p = p->next)
            if (p->next == g) p->next = g->next;
    if (!at) sk_map_del(&x->watches, g->key);
    else if (sk_map_put(&x->watches, g->key, at) != SK_OK) abort(); /* the key is there */
    forget(x, g);
    sk_gobj_drain(x); /* the watch may have had the last reference */
    return true;
}

void sk_gwatch_tell(struct sk_ghost *x, uint64_t key) {
    if (!x->watches.n) return;
    for (struct gwatch *g = sk_map_del(&x->watches, key), *next; g; g = next) {
        struct sk_watch *w = g->w;
        next = g->next;
        forget(x, g);
        w->fn(w);
    }
}

void sk_gwatch_tell_all(struct sk_ghost *x) {
    uint64_t key;
    void *g;
    for (uint32_t i = 0; x->watches.n && sk_map_next(&x->watches, &i, &key, &g); i = 0)
        sk_gwatch_tell(x, key);
}

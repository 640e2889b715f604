/* watch.c - callbacks when an object of a guest engine exists, or when a stream without a sink has
 * news (watch.h).
 *
 * Invariant: a watch is in the map under its object or the task of its stream until it is called or
 * removed; it holds its object meanwhile. */
#include <stdlib.h>

#include "engine/guest/guest_int.h"
#include "engine/watch.h"

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

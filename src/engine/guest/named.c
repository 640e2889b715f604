/* named.c - names of actors: those of this process's actors, and those that tasks on nodes have
 * given, which the nodes ask for. A name's owner is the number of its actor.
 *
 * Invariant: an actor that a node was told of has a reference of this process, to it and to its
 * `ready` object, until the node has said that it holds them (SK_NAME_GOT), or is lost. */
#include <stdlib.h>

#include "engine/guest/guest_int.h"

struct sk_gnamed { /* a name that a node has given */
    uint32_t node;
    struct sk_name *name;
};

void *sk_gname_owner(uint64_t actor) { return (void *)(uintptr_t)actor; } /* NOLINT: a number */

sk_rc sk_gname_find(struct sk_ghost *x, struct sk_bytes space, struct sk_bytes name,
                    uint64_t *actor, struct sk_bytes *meta, struct sk_err *err) {
    const struct sk_name *n = sk_names_find(&x->actor_names, space, name);
    uint64_t id = n ? (uintptr_t)n->owner : 0;
    bool there = id && sk_gref_take(x, id);
    if (there && !sk_gref_take(x, id - 1)) {
        sk_gref_release(x, id);
        there = false;
    }
    if (!there)
        return SK_ERR(err, SK_ENOENT, "there is no living actor named '%.*s'%s%.*s%s",
                      (int)SK_MIN(name.n, 200), (const char *)name.p,
                      space.n ? " in namespace '" : "", (int)SK_MIN(space.n, 200),
                      (const char *)space.p, space.n ? "'" : "");
    *actor = id;
    *meta = n->meta;
    return SK_OK;
}

/* ---- what nodes ask -------------------------------------------------------------------------- */

static void answer(struct sk_ghost *x, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                   struct sk_bytes bytes) {
    void *copy = sk_memdup(TAG, bytes.p, bytes.n);
    if (!copy) abort(); /* the node would wait for ever */
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_NAMED,
                                         .node = node,
                                         .id = ask,
                                         .rc = rc,
                                         .of = actor,
                                         .def = copy,
                                         .def_n = bytes.n});
}

static sk_rc find(struct sk_ghost *x, uint32_t node, uint64_t ask, const struct sk_foreign_name *n,
                  struct sk_err *err) {
    uint64_t actor;
    struct sk_bytes meta;
    SK_TRY(sk_gname_find(x, n->space, n->name, &actor, &meta, err));
    if (!sk_vec_push(&x->found, TAG, (struct sk_gfound){node, ask, actor})) abort();
    answer(x, node, ask, SK_OK, actor, meta);
    return SK_OK;
}

/* Tells the hook (conf.h, named) that an actor has this name, if its namespace begins with '_': a
 * node asks for a service of the program by such a name. */
static void serves(const struct sk_ghost *x, struct sk_bytes space, struct sk_bytes name) {
    if (x->hook && space.n && *(const char *)space.p == '_') x->hook(x->hook_ctx, space, name);
}

static sk_rc claim(struct sk_ghost *x, uint32_t node, uint64_t ask, const struct sk_foreign_name *n,
                   struct sk_err *err) {
    if (sk_map_get(&x->named, n->actor.v)) return SK_ERR(err, SK_EEXIST, "it has a name already");
    struct sk_gnamed *g = sk_calloc(TAG, sizeof *g);
    if (!g) return SK_ERR(err, SK_ENOMEM, "the name of an actor");
    sk_rc rc = sk_names_add(&x->actor_names, "actor", n->space, n->name, n->meta,
                            sk_gname_owner(n->actor.v), &g->name, err);
    if (rc == SK_OK) rc = sk_map_put(&x->named, n->actor.v, g);
    if (rc != SK_OK) {
        sk_name_free(&g->name);
        sk_free(g);
        return rc;
    }
    g->node = node;
    answer(x, node, ask, SK_OK, 0, (struct sk_bytes){0});
    serves(x, n->space, n->name);
    return SK_OK;
}

void sk_gname_made(struct sk_ghost *x, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                   const char *why) {
    const struct sk_gactor *a = rc == SK_OK ? sk_map_get(&x->actors, actor) : NULL;
    struct sk_bytes none = {0};
    if (rc != SK_OK) {
        answer(x, node, ask, rc, 0, (struct sk_bytes){why, strlen(why)});
        return;
    }
    if (!sk_vec_push(&x->found, TAG, (struct sk_gfound){node, ask, actor})) abort();
    answer(x, node, ask, SK_OK, actor, none);
    if (a && a->name) serves(x, a->name->space, a->name->name);
}

static void list(struct sk_ghost *x, uint32_t node, uint64_t ask) {
    size_t n = sk_names_write(&x->actor_names, NULL, 0);
    char *p = sk_alloc(TAG, n + 1);
    if (!p) abort(); /* as in `answer` */
    (void)sk_names_write(&x->actor_names, p, n);
    answer(x, node, ask, SK_OK, 0, (struct sk_bytes){p, n});
    sk_free(p);
}

static void unname(struct sk_ghost *x, uint64_t actor) {
    struct sk_gnamed *g = sk_map_del(&x->named, actor);
    if (g) sk_name_free(&g->name);
    sk_free(g);
}

/* Gives back what answers have kept for a node: for one answer, or (ask 0) for all. */
static void let_go(struct sk_ghost *x, uint32_t node, uint64_t ask) {
    for (uint32_t i = 0; i < x->found.n;) {
        struct sk_gfound f = x->found.p[i];
        if (f.node != node || (ask && f.ask != ask)) {
            i++;
            continue;
        }
        x->found.p[i] = x->found.p[--x->found.n];
        sk_gref_release(x, f.actor);
        sk_gref_release(x, f.actor - 1);
    }
}

void sk_gname_asked(struct sk_ghost *x, uint32_t node, uint64_t ask,
                    const struct sk_foreign_name *n) {
    struct sk_err err = {0};
    sk_rc rc = SK_OK;
    SK_DCHECK(node && n->what);
    switch (n->what) {
    case SK_NAME_FIND: rc = find(x, node, ask, n, &err); break;
    case SK_NAME_LIST: list(x, node, ask); break;
    case SK_NAME_CLAIM: rc = claim(x, node, ask, n, &err); break;
    case SK_NAME_FREE: unname(x, n->actor.v); break;
    default: let_go(x, node, ask); break; /* GOT */
    }
    if (rc != SK_OK) answer(x, node, ask, rc, 0, (struct sk_bytes){err.msg, strlen(err.msg)});
}

void sk_gname_lost(struct sk_ghost *x, uint32_t node) {
    uint64_t actor;
    void *val;
    SK_VEC(uint64_t) gone = {0};
    let_go(x, node, 0);
    for (uint32_t i = 0; sk_map_next(&x->named, &i, &actor, &val);)
        if (((struct sk_gnamed *)val)->node == node && !sk_vec_push(&gone, TAG, actor)) abort();
    for (uint32_t i = 0; i < gone.n; i++) unname(x, gone.p[i]);
    sk_vec_free(&gone);
}

void sk_gname_forget(struct sk_ghost *x) {
    uint64_t actor;
    void *val;
    for (uint32_t i = 0; sk_map_next(&x->named, &i, &actor, &val);) {
        sk_name_free(&((struct sk_gnamed *)val)->name);
        sk_free(val);
    }
    sk_map_deinit(&x->named);
    sk_vec_free(&x->found);
}

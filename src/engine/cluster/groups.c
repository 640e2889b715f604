/* groups.c - the book of a cluster: placement groups (contract: book.h). A bundle that has a node
 * counts in what is used there; tasks of the group count in the bundle (which/in_group.c).
 *
 * Cost: each launch looks at the groups that wait for bundles, and at each node for each. */
#include "engine/cluster/book_int.h"

#include <stdlib.h>

#include "engine/cluster/which/bundles.h"

/* ---- from the host --------------------------------------------------------------------------- */

sk_rc sk_book_group(struct sk_book *b, uint64_t id, const struct sk_group_spec *s,
                    struct sk_err *err) {
    SK_ASSERT(s->n && id && !sk_bgroup_of(b, id));
    struct sk_bgroup *g = sk_calloc(TAG, sizeof *g + s->n * sizeof g->b[0]);
    if (!g) return SK_ERR(err, SK_ENOMEM, "a placement group of %u bundles", s->n);
    g->id = id;
    g->n = g->n_missing = s->n;
    g->strategy = s->strategy;
    for (uint32_t i = 0; i < s->n; i++) {
        g->b[i].total = s->bundles[i];
        g->b[i].where = s->wheres ? s->wheres[i] : 0;
        SK_ASSERT(g->b[i].where <= b->envs.n);
    }
    sk_list_init(&g->link);
    sk_list_push_back(&b->groups, &g->link);
    b->n_groups_wait++;
    b->n_freed++;
    return SK_OK;
}

void sk_book_group_end(struct sk_book *b, uint64_t id) {
    struct sk_bgroup *g = sk_bgroup_of(b, id);
    struct sk_cmsg m = {.type = SK_CMSG_UNGROUP, .end.id = id};
    if (!g) return;
    for (uint32_t k = 0; k < g->told.n; k++) {
        struct sk_bnode *n = sk_bnode_of(b, g->told.p[k]);
        if (n->alive) sk_bnode_send(n, &m);
    }
    for (uint32_t i = 0; i < g->n; i++) {
        struct sk_bnode *n = sk_bnode_of(b, g->b[i].node);
        if (!n) continue;
        sk_res_add(&n->used, &g->b[i].total, -1);
        sk_res_add(&n->reserved, &g->b[i].total, -1);
        sk_res_add(&n->free, &g->b[i].total, 1); /* until the node says what is */
    }
    SK_ASSERT(b->n_groups_wait >= (g->n_missing > 0));
    b->n_groups_wait -= g->n_missing > 0;
    b->n_freed++;
    sk_list_del(&g->link);
    sk_vec_free(&g->told);
    sk_free(g);
}

/* ---- places ---------------------------------------------------------------------------------- */

struct look { /* what sk_bundles_place asks about */
    const struct sk_book *b;
    const struct sk_bgroup *g;
};

static bool may(const void *ctx, uint32_t bundle, uint32_t node) {
    const struct look *l = ctx;
    const struct sk_bnode *n = l->b->nodes.p[node];
    uint32_t where = l->g->b[bundle].where;
    if (!n->alive || n->draining) return false;
    const struct sk_bblob *x = where ? l->b->envs.p[where - 1] : NULL;
    return !x || sk_where_rank((struct sk_bytes){x->data, x->len}, n->labels) != UINT32_MAX;
}

/* What a group may take of a node: now, or, with `ever`, when all tasks there have ended. */
static struct sk_res room_of(const struct sk_bnode *n, bool ever) {
    struct sk_res room = n->total, used = ever ? n->reserved : sk_bnode_used(n);
    if (ever) sk_res_add(&used, &n->kept, 1);
    sk_res_add(&room, &used, -1);
    return room;
}

/* Finds nodes for all bundles that have none. Without memory there are none now: the next message
 * of a node has it tried again. */
static bool find(struct sk_book *b, const struct sk_bgroup *g, bool ever, uint32_t *at) {
    struct sk_res *room = sk_calloc(TAG, b->nodes.n * sizeof *room + 1), *all = NULL;
    struct look l = {b, g};
    if (!room || !(all = sk_calloc(TAG, g->n * sizeof *all))) {
        sk_free(room);
        return false;
    }
    for (uint32_t i = 0; i < b->nodes.n; i++) room[i] = room_of(b->nodes.p[i], ever);
    for (uint32_t i = 0; i < g->n; i++) {
        all[i] = g->b[i].total;
        at[i] = g->b[i].node ? g->b[i].node - 1 : SK_NO_NODE;
    }
    struct sk_bundles s = {.bundle = all,
                           .n = g->n,
                           .strategy = g->strategy,
                           .room = room,
                           .n_nodes = b->nodes.n,
                           .may = may,
                           .ctx = &l,
                           .at = at};
    bool good = sk_bundles_place(&s);
    sk_free(room);
    sk_free(all);
    return good;
}

/* Tells the host on which nodes the bundles are. */
static void tell(struct sk_book *b, const struct sk_bgroup *g) {
    struct sk_guest_news *w = sk_calloc(TAG, sizeof *w);
    uint32_t *nodes = sk_calloc(TAG, g->n * sizeof *nodes);
    if (!w || !nodes) abort();
    for (uint32_t i = 0; i < g->n; i++) nodes[i] = g->b[i].node;
    *w = (struct sk_guest_news){.kind = SK_NEWS_GROUP, .id = g->id, .nodes = nodes, .n = g->n};
    struct sk_btold *t = sk_book_told(b, (struct sk_guest_event){.kind = SK_EV_STARTED, .news = w});
    t->keep[0] = w;
    t->keep[1] = nodes;
}

/* Tells a node which bundles of the group it has. */
static void say(struct sk_bnode *n, struct sk_bgroup *g) {
    struct sk_res *all = sk_calloc(TAG, g->n * sizeof *all);
    uint8_t *here = sk_calloc(TAG, g->n);
    if (!all || !here) abort();
    for (uint32_t i = 0; i < g->n; i++) {
        all[i] = g->b[i].total;
        here[i] = g->b[i].node == n->number;
    }
    struct sk_cmsg m = {.type = SK_CMSG_GROUP,
                        .group = {.id = g->id,
                                  .n = g->n,
                                  .strategy = g->strategy,
                                  .bundles = {all, g->n * sizeof *all},
                                  .here = {here, g->n}}};
    sk_bnode_send(n, &m);
    n->n_runs++;
    bool known = false;
    for (uint32_t i = 0; i < g->told.n; i++) known = known || g->told.p[i] == n->number;
    if (!known && !sk_vec_push(&g->told, TAG, n->number)) abort();
    sk_free(all);
    sk_free(here);
}

static void reserve(struct sk_book *b, struct sk_bgroup *g, const uint32_t *at) {
    SK_ASSERT(g->n_missing);
    for (uint32_t k = 0; k < b->nodes.n; k++) {
        struct sk_bnode *n = b->nodes.p[k];
        bool any = false;
        for (uint32_t i = 0; i < g->n; i++) {
            SK_DCHECK(at[i] < b->nodes.n);
            if (g->b[i].node || at[i] != k) continue;
            SK_ASSERT(n->alive && !n->draining);
            any = true;
            g->b[i].node = n->number;
            sk_res_add(&n->used, &g->b[i].total, 1);
            sk_res_add(&n->reserved, &g->b[i].total, 1);
            for (int r = 0; r < SK_RES_MAX; r++)
                n->idle.amount[r] = SK_MAX(n->idle.amount[r] - g->b[i].total.amount[r], 0);
        }
        if (any) say(n, g);
    }
    g->n_missing = 0;
    b->n_groups_wait--;
    tell(b, g);
}

void sk_bgroups_step(struct sk_book *b) {
    uint32_t few[64], *at = few;
    bool saved = false;
    if (b->n_tried == b->n_freed) return;
    b->n_tried = b->n_freed;
    for (uint32_t i = 0; i < b->nodes.n; i++) b->nodes.p[i]->saved = (struct sk_res){0};
    if (!b->n_groups_wait) return;
    SK_LIST_EACH (it, &b->groups) {
        struct sk_bgroup *g = sk_bgroup_in(it);
        if (!g->n_missing) continue;
        if (g->n > SK_COUNT(few) && !(at = sk_alloc(TAG, g->n * sizeof *at))) return; /* see find */
        if (find(b, g, false, at)) reserve(b, g, at);
        else if (!saved && find(b, g, true, at)) {
            saved = true; /* the oldest that can have its bundles when tasks have ended */
            for (uint32_t i = 0; i < g->n; i++)
                if (!g->b[i].node) sk_res_add(&b->nodes.p[at[i]]->saved, &g->b[i].total, 1);
        }
        if (at != few) sk_free(at);
        at = few;
    }
}

void sk_bgroups_off(struct sk_book *b, struct sk_bnode *n) {
    SK_ASSERT(n->draining || !n->alive);
    SK_LIST_EACH (it, &b->groups) {
        struct sk_bgroup *g = sk_bgroup_in(it);
        uint32_t before = g->n_missing;
        for (uint32_t i = 0; i < g->n; i++) {
            if (g->b[i].node != n->number) continue;
            sk_res_add(&n->used, &g->b[i].total, -1);
            sk_res_add(&n->reserved, &g->b[i].total, -1);
            g->b[i].node = 0;
            g->b[i].used = g->b[i].kept = (struct sk_res){0};
            g->n_missing++;
        }
        b->n_groups_wait += !before && g->n_missing;
        b->n_freed++;
        if (g->n_missing > before) tell(b, g);
    }
}

/* ---- ending, checking ------------------------------------------------------------------------ */

void sk_bgroups_free(struct sk_book *b) {
    for (struct sk_list *it; (it = sk_list_first(&b->groups));) {
        sk_list_del(it);
        sk_vec_free(&sk_bgroup_in(it)->told);
        sk_free(sk_bgroup_in(it));
    }
}

bool sk_bgroups_check(const struct sk_book *b) {
    uint32_t waiting = 0;
    bool good = true;
    SK_LIST_EACH (it, &b->groups) {
        const struct sk_bgroup *g = sk_bgroup_in(it);
        uint32_t missing = 0;
        for (uint32_t i = 0; i < g->n; i++) {
            const struct sk_bnode *n = sk_bnode_of(b, g->b[i].node);
            int64_t cpu = 0;
            uint64_t key;
            void *val;
            missing += !n;
            good = good && (!n || (n->alive && !n->draining));
            for (uint32_t k = 0; n && sk_map_next(&b->seqs, &k, &key, &val);) {
                const struct sk_btask *t = val;
                const struct sk_bshape *s = b->shapes.p[t->shape];
                uint32_t at = t->is_init && t->actor->node && !t->actor->gone ? t->actor->node
                              : t->state == SK_B_SENT                         ? t->node
                                                                              : 0;
                if (at && at == n->number && s->group == g->id && t->bundle == i &&
                    (!t->actor || t->is_init))
                    cpu += s->need.amount[SK_RES_CPU];
            }
            good = good && cpu == g->b[i].used.amount[SK_RES_CPU];
        }
        good = good && missing == g->n_missing;
        waiting += missing > 0;
    }
    return good && waiting == b->n_groups_wait;
}

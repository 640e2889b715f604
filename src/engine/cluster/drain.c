/* drain.c - the book of a cluster: nodes that are to go away, which are emptied first (contract:
 * book.h).
 *
 * A value is safe if another node has it for certain. `copies` is not enough: it names nodes that
 * were told to read the value, too. So a node is ordered to bring it (BRING), and the value moves
 * when that node says that it has it (BROUGHT), or when its bytes have come to the driver. What has
 * to be moved is in the list `leaving` of its node, which is filled once at the start, and then
 * whenever a value comes to lie there. */
#include "engine/cluster/book_int.h"

#include <stdlib.h>

enum { MOVES = 16 }; /* most values of a node that are on their way, ... */
#define MOVE_BYTES \
    (64ull << 20) /* ... unless they have more bytes than this, which wait in memory */

sk_rc sk_book_drain(struct sk_book *b, uint32_t number, struct sk_err *err) {
    struct sk_bnode *n = sk_bnode_of(b, number);
    uint64_t key;
    void *val;
    if (!n || !n->alive) return SK_ERR(err, SK_ENOENT, "there is no node %u, or no more", number);
    if (n->draining) return SK_OK;
    n->draining = true;
    sk_bgroups_off(b, n);
    for (uint32_t i = 0; sk_map_next(&b->values, &i, &key, &val);)
        sk_bval_leave(b, (struct sk_bval *)val);
    (void)sk_bdrain_step(b); /* the next launch goes on */
    return SK_OK;
}

/* ---- moves ----------------------------------------------------------------------------------- */

static void begin_move(struct sk_book *b, struct sk_bval *v, uint32_t to) {
    struct sk_bnode *from = sk_bnode_of(b, v->node), *n = sk_bnode_of(b, to);
    SK_ASSERT(!v->move && from && from->draining && n != from);
    v->move = ++b->n_orders;
    v->move_to = to;
    from->n_moving++;
    from->moving_bytes += v->size;
    if (n) n->coming += v->size;
}

static void to_driver(struct sk_book *b, struct sk_bval *v) {
    SK_ASSERT(v->node && !v->mine);
    if (v->blob) { /* it was fetched by chance */
        v->mine = true;
        return;
    }
    begin_move(b, v, 0);
    sk_bval_ask(b, v);
}

/* Returns the node that the value goes to: one that was told to read it before, or the one with the
 * most room, in memory if there is some, else on disk. 0: the driver. */
static uint32_t place_for(const struct sk_book *b, const struct sk_bval *v) {
    uint32_t best = 0;
    bool best_memory = false;
    uint64_t best_room = 0;
    for (uint32_t i = 0; i < v->copies.n; i++)
        if (!sk_bnode_of(b, v->copies.p[i])->draining) return v->copies.p[i];
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        const struct sk_bnode *n = b->nodes.p[i];
        if (!n->alive || n->draining) continue;
        uint64_t taken = n->resident + n->coming + n->arrived;
        uint64_t room = n->capacity > taken ? n->capacity - taken : 0;
        bool memory = room >= v->size;
        if (!memory) {
            taken = n->disk + n->promised + n->coming + n->arrived;
            room = n->disk_limit > taken ? n->disk_limit - taken : 0;
        }
        if (room < v->size || (best && best_memory > memory)) continue;
        if (best && best_memory == memory && best_room >= room) continue;
        best = n->number;
        best_memory = memory;
        best_room = room;
    }
    return best;
}

static void move(struct sk_book *b, const struct sk_bnode *n, struct sk_bval *v) {
    if (!v || v->err || v->mine || v->move || v->node != n->number) return; /* it needs no more */
    uint32_t to = v->relay ? 0 : place_for(b, v);
    if (!to) {
        to_driver(b, v);
        return;
    }
    begin_move(b, v, to);
    sk_bval_copy(v, to);
    struct sk_cmsg m = {.type = SK_CMSG_BRING, .bring = {v->move, v->id, n->number}};
    sk_bnode_send(sk_bnode_of(b, to), &m);
}

void sk_bdrain_brought(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m) {
    struct sk_bval *v = sk_bval_of(b, m->brought.id);
    if (!v || v->move != m->brought.ask || v->move_to != n->number) return;
    uint32_t from = v->node;
    sk_bval_unmove(b, v);
    if (m->brought.rc == SK_OK) {
        n->arrived += v->size;
        b->n_moved++;
        sk_bval_settle(b, v, n->number);
        sk_bval_copy(v, from);
        return;
    }
    sk_bval_forget(b, v, n->number);
    if (m->brought.rc == SK_ENOENT) sk_bval_forget(b, v, from);
    else if (v->node && !v->mine && !v->err) to_driver(b, v); /* the two cannot reach each other */
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Moves one actor off the node, if one can be. */
static bool move_actor(struct sk_book *b, const struct sk_bnode *n) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);) {
        struct sk_bactor *a = val;
        if (a->node == n->number && sk_bactor_move(b, a))
            return true; /* the map may have changed */
    }
    return false;
}

bool sk_bdrain_step(struct sk_book *b) {
    bool moved = false;
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        struct sk_bnode *n = b->nodes.p[i];
        if (!n->alive || !n->draining) continue;
        while (n->leaving.n && n->n_moving < MOVES &&
               (!n->n_moving || n->moving_bytes < MOVE_BYTES))
            move(b, n, sk_bval_of(b, n->leaving.p[--n->leaving.n]));
        moved = moved || move_actor(b, n); /* one at a time: it takes room that others count on */
    }
    return moved;
}

bool sk_book_empty(const struct sk_book *b, uint32_t number) {
    const struct sk_bnode *n = sk_bnode_of(b, number);
    uint64_t key;
    void *val;
    if (!n || !n->alive) return true;
    if (!n->draining || n->leaving.n || n->n_moving || !sk_list_empty(&n->sent)) return false;
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);)
        if (((const struct sk_bactor *)val)->node == number &&
            !((const struct sk_bactor *)val)->gone)
            return false;
    for (uint32_t i = 0; sk_map_next(&b->values, &i, &key, &val);) {
        const struct sk_bval *v = val;
        if (v->node == number && v->stays) return false;
    }
    return !sk_brefs_busy(b, number);
}

/* ---- checking -------------------------------------------------------------------------------- */

struct sum { /* what moves from a node, and to it */
    uint32_t n;
    uint64_t bytes, coming;
};

bool sk_bdrain_check(const struct sk_book *b) {
    uint64_t key;
    void *val;
    bool good = true;
    struct sum *sum = sk_calloc(SK_TAG_TEST, (b->nodes.n + 1) * sizeof *sum); /* by node */
    if (!sum) abort();
    for (uint32_t i = 0; sk_map_next(&b->values, &i, &key, &val);) {
        const struct sk_bval *v = val;
        if (!v->move) continue;
        good = good && v->node && sk_bnode_of(b, v->node)->draining;
        sum[v->node].n++;
        sum[v->node].bytes += v->size;
        sum[v->move_to].coming += v->size;
    }
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        const struct sk_bnode *n = b->nodes.p[i];
        const struct sum *s = &sum[n->number];
        good = good && n->n_moving == s->n && n->moving_bytes == s->bytes && n->coming == s->coming;
    }
    sk_free(sum);
    for (uint32_t i = 0; sk_map_next(&b->actors, &i, &key, &val);) {
        const struct sk_bactor *a = val;
        const struct sk_bnode *at = sk_bnode_of(b, a->node);
        uint32_t n = 0;
        if (!at) continue;
        SK_LIST_EACH (it, &at->sent) {
            const struct sk_btask *t = sk_container_of(it, struct sk_btask, link);
            n += t->actor == a && !t->is_init;
        }
        good = good && n == a->n_sent;
    }
    return good;
}

/* ---- tasks of tasks ---------------------------------------------------------------------------
 *
 * They wait at their busy node while other nodes may have room. A node says in STATE how many it
 * has (n_spare). When nothing of the driver's can begin on another node that has whole CPUs free,
 * the node is told so (ROOM), and hands over as many of its tasks by CALL. Each is a task of the
 * driver from then on. An offer is only a hint: if nothing comes, the CPUs are offered again when
 * either node has said something new; if too much comes, it waits here for the first node with
 * room, which may be the one that it has come from. Cost: nothing while no node has such tasks. */

void sk_bspare_state(struct sk_book *b, struct sk_bnode *n, uint32_t n_spare) {
    SK_DCHECK(n->alive);
    n->offered = 0;
    n->n_spare = n_spare;
    if (!n_spare) return;
    b->spare = true;
    for (uint32_t i = 0; i < b->nodes.n; i++)
        if (b->nodes.p[i]->offered_to == n->number) b->nodes.p[i]->offered = 0;
}

/* The number of whole CPUs that nobody uses or was offered. */
static uint32_t free_cpus(const struct sk_bnode *n) {
    if (!n->alive || n->draining || n->n_spare) return 0;
    struct sk_res used = sk_bnode_used(n);
    int64_t cpu = n->total.amount[SK_RES_CPU] - used.amount[SK_RES_CPU];
    cpu = SK_MIN(cpu - n->saved.amount[SK_RES_CPU], n->free.amount[SK_RES_CPU]) - n->offered;
    return cpu < SK_RES_UNIT ? 0 : (uint32_t)SK_MIN(cpu / SK_RES_UNIT, UINT32_MAX);
}

void sk_bspare_offer(struct sk_book *b) {
    b->spare = false;
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        struct sk_bnode *n = b->nodes.p[i];
        if (!n->alive || !n->n_spare) continue;
        for (uint32_t k = 0; k < b->nodes.n && n->n_spare; k++) {
            struct sk_bnode *to = b->nodes.p[k];
            uint32_t cpus = free_cpus(to);
            if (!cpus) continue;
            cpus = SK_MIN(cpus, n->n_spare);
            struct sk_cmsg m = {.type = SK_CMSG_ROOM, .end = {(uint64_t)cpus * SK_RES_UNIT, 0}};
            sk_bnode_send(n, &m);
            n->n_spare -= cpus;
            to->offered += (int64_t)cpus * SK_RES_UNIT;
            to->offered_to = n->number;
        }
        b->spare = b->spare || n->n_spare;
    }
}

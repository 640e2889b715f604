/* values.c - the book of a cluster: values, which nodes have them, and messages to nodes (contract:
 * book_int.h). */
#include "engine/cluster/book_int.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- bytes ----------------------------------------------------------------------------------- */

struct sk_bblob *sk_bblob_new(uint32_t kind, struct sk_bytes bytes) {
    struct sk_bblob *b = sk_alloc_aligned(TAG, 64, SK_ALIGN(sizeof *b, 64) + bytes.n);
    if (!b) return NULL;
    *b = (struct sk_bblob){.kind = kind, .len = bytes.n};
    atomic_init(&b->refs, 1);
    b->data = (uint8_t *)b + SK_ALIGN(sizeof *b, 64);
    if (bytes.n && bytes.p) memcpy(b->data, bytes.p, bytes.n);
    return b;
}

void sk_bblob_unref(struct sk_bblob *b) {
    if (b && atomic_fetch_sub(&b->refs, 1) == 1) sk_free(b);
}

/* ---- values ---------------------------------------------------------------------------------- */

void sk_bval_leave(struct sk_book *b, const struct sk_bval *v) {
    struct sk_bnode *n = sk_bnode_of(b, v->node);
    if (!n || !n->draining || v->move || v->stays) return;
    SK_DCHECK(n->alive);
    if (!sk_vec_push(&n->leaving, TAG, v->id)) abort(); /* the value would be lost */
}

void sk_bval_unmove(struct sk_book *b, struct sk_bval *v) {
    struct sk_bnode *from = sk_bnode_of(b, v->node), *to = sk_bnode_of(b, v->move_to);
    if (!v->move) return;
    SK_ASSERT(from && from->n_moving > 0);
    from->n_moving--;
    from->moving_bytes -= v->size;
    if (to) to->coming -= v->size;
    v->move = 0;
    v->move_to = 0;
}

struct sk_bval *sk_bval_new(struct sk_book *b, uint64_t id) {
    SK_DCHECK(id && !sk_bval_of(b, id));
    struct sk_bval *v = sk_calloc(TAG, sizeof *v);
    if (!v || sk_map_put(&b->values, id, v) != SK_OK) abort(); /* a value would be lost */
    v->id = id;
    return v;
}

static void drop_at(struct sk_book *b, uint32_t node, uint64_t id) {
    SK_DCHECK(id);
    struct sk_bnode *n = sk_bnode_of(b, node);
    if (n && n->alive && !sk_vec_push(&n->drop, TAG, id)) abort();
}

void sk_bval_unref(struct sk_book *b, struct sk_bval *v) {
    SK_ASSERT(v->refs > 0);
    if (--v->refs) return;
    SK_ASSERT(!v->held && !v->n_fetching);
    sk_bval_unmove(b, v);
    drop_at(b, v->node, v->id);
    for (uint32_t i = 0; i < v->copies.n; i++) drop_at(b, v->copies.p[i], v->id);
    sk_map_del(&b->values, v->id);
    if (sk_lineage_knows(b->lineage, v->id)) {
        sk_lineage_gone(b->lineage, v->id, v->why);
        sk_blost_drain(b);
    }
    sk_bblob_unref(v->blob);
    sk_vec_free(&v->copies);
    sk_free(v->err);
    sk_free(v);
}

bool sk_bval_at(const struct sk_bval *v, uint32_t node) {
    for (uint32_t i = 0; i < v->copies.n; i++)
        if (v->copies.p[i] == node) return true;
    return v->node == node;
}

void sk_bval_copy(struct sk_bval *v, uint32_t node) {
    SK_DCHECK(node && !v->err);
    if (!sk_bval_at(v, node) && !sk_vec_push(&v->copies, TAG, node)) abort();
}

void sk_bval_fail(struct sk_book *b, struct sk_bval *v, sk_rc code, const char *text) {
    SK_DCHECK(code < 0 && text);
    if (!v->err && !(v->err = sk_calloc(TAG, sizeof *v->err))) abort();
    (void)!SK_ERR(v->err, code, "%s", text);
    b->recheck = true;
}

void sk_bval_settle(struct sk_book *b, struct sk_bval *v, uint32_t node) {
    if (v->node != node) {
        sk_bval_unmove(b, v);
        v->asked = v->relay = false; /* whoever waits for its bytes asks the other node */
        b->recheck = true;
    }
    v->node = node;
    for (uint32_t i = 0; i < v->copies.n; i++)
        if (v->copies.p[i] == node) v->copies.p[i--] = v->copies.p[--v->copies.n];
    sk_bval_leave(b, v);
}

void sk_bval_not_at(struct sk_book *b, struct sk_bval *v, uint32_t node) {
    uint32_t next = 0;
    for (uint32_t i = 0; i < v->copies.n; i++)
        if (v->copies.p[i] == node) v->copies.p[i--] = v->copies.p[--v->copies.n];
    if (v->move && v->move_to == node) { /* it has to go elsewhere */
        sk_bval_unmove(b, v);
        sk_bval_leave(b, v);
    }
    if (v->node != node) return;
    for (uint32_t i = 0; i < v->copies.n; i++)
        if (!next || sk_bnode_of(b, next)->draining) next = v->copies.p[i];
    sk_bval_settle(b, v, next);
}

void sk_bval_forget(struct sk_book *b, struct sk_bval *v, uint32_t node) {
    SK_DCHECK(v->refs > 0);
    bool had = v->node && v->node == node;
    drop_at(b, node, v->id);
    sk_bval_not_at(b, v, node);
    if (had && !sk_bval_there(v)) sk_blost_value(b, v);
}

void sk_bval_ask(struct sk_book *b, struct sk_bval *v) {
    SK_DCHECK(!v->blob || v->mine);
    if (!v->node || v->asked) return;
    struct sk_cmsg m = {.type = SK_CMSG_FETCH, .fetch = {.ask = v->id, .id = v->id}};
    sk_bnode_send(sk_bnode_of(b, v->node), &m);
    v->asked = true;
}

void sk_bval_relay(struct sk_book *b, struct sk_bval *v) {
    if (!sk_bval_there(v) || v->mine || v->relay) return;
    v->mine = v->blob != NULL; /* it was fetched by chance */
    v->relay = !v->mine;
    if (v->relay) sk_bval_ask(b, v);
}

/* ---- to nodes -------------------------------------------------------------------------------- */

void sk_bnode_send_drops(struct sk_bnode *n) {
    struct sk_cmsg m = {.type = SK_CMSG_DROP,
                        .drop = {n->drop.n, {n->drop.p, 8 * (size_t)n->drop.n}}};
    if (n->drop.n && sk_cmsg_put(&n->out, &m, NULL) != SK_OK) abort();
    n->drop.n = 0;
}

void sk_bnode_send(struct sk_bnode *n, const struct sk_cmsg *m) {
    if (!n->alive) return;
    SK_DCHECK(m->type >= SK_CMSG_HELLO && m->type <= SK_CMSG_LAST);
    sk_bnode_send_drops(n); /* first: a task that is sent now may have the value read again */
    if (sk_cmsg_put(&n->out, m, NULL) != SK_OK) abort();
}

static void blob_sent(void *ctx, void *owner) {
    (void)ctx;
    sk_bblob_unref(owner);
}

void sk_bnode_send_blob(struct sk_bnode *n, struct sk_cmsg *m, struct sk_bblob *blob) {
    SK_ASSERT(m->type == SK_CMSG_PUT && n->alive);
    struct sk_bytes b = {blob->data, blob->len};
    m->put.kind = blob->kind;
    if (b.n < SK_CMSG_LARGE) {
        m->put.bytes = b;
        sk_bnode_send(n, m);
        return;
    }
    sk_bnode_send_drops(n);
    atomic_fetch_add(&blob->refs, 1);
    if (sk_cmsg_put_apart(&n->out, m,
                          (struct sk_apart){.bytes = b, .release = blob_sent, .owner = blob},
                          NULL) != SK_OK)
        abort();
}

void sk_bnode_define(struct sk_book *b, struct sk_bnode *n, uint64_t fn) {
    const struct sk_bfn *f = sk_map_get(&b->fns, fn);
    SK_ASSERT(f);
    if (sk_map_get(&n->defined, fn)) return;
    struct sk_cmsg d = {.type = SK_CMSG_DEFINE,
                        .define = {fn, {f->name, strlen(f->name)}, {f->def, f->n}}};
    sk_bnode_send(n, &d);
    if (sk_map_put(&n->defined, fn, n) != SK_OK) abort();
}

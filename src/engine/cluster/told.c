/* told.c - the book of a cluster: what nodes are asked, and what they tell (contract: book.h). An
 * answer is checked before it is kept; its readers rely on that. */
#include "engine/cluster/book_int.h"

#include "engine/books/history.h"
#include "engine/usage.h"

static struct sk_bask *ask_of(const struct sk_book *b, uint64_t number) {
    for (uint32_t i = 0; i < b->asks.n; i++)
        if (b->asks.p[i].number == number) return &b->asks.p[i];
    return NULL;
}

uint64_t sk_book_ask(struct sk_book *b, uint32_t what) {
    struct sk_bask k = {.number = ++b->next_ask, .what = what};
    struct sk_cmsg m = {.type = SK_CMSG_ASK, .told = {k.number, what, 0, {"", 0}}};
    k.of = sk_calloc(TAG, (b->nodes.n + 1) * sizeof *k.of);
    if (!k.of) return k.number; /* as if there were no nodes */
    for (uint32_t i = 0; i < b->nodes.n; i++)
        if (b->nodes.p[i]->alive) k.of[k.n++].node = i + 1;
    k.n_left = k.n;
    SK_ASSERT(k.n <= b->nodes.n && !ask_of(b, k.number));
    if (!sk_vec_push(&b->asks, TAG, k)) {
        sk_free(k.of);
        return k.number;
    }
    for (uint32_t i = 0; i < k.n; i++) sk_bnode_send(sk_bnode_of(b, k.of[i].node), &m);
    return k.number;
}

bool sk_book_answered(const struct sk_book *b, uint64_t ask) {
    const struct sk_bask *k = ask_of(b, ask);
    return !k || !k->n_left;
}

static bool text_ends(const char *p, size_t n) { return memchr(p, 0, n) != NULL; }

static bool is_time(int64_t ns) { return ns >= 0 && ns <= SK_CMSG_NS_MAX; }
static bool is_error(uint32_t kind) { return !kind || SK_KIND_IS_ERROR(kind); }

/* Whether a row has only states, kinds and times that there are. */
static bool row_is_good(enum sk_state_what what, const struct sk_row *r) {
    switch (what) {
    case SK_STATE_TASKS:
        return r->task.state <= SK_TS_FAILED && r->task.kind <= SK_TK_METHOD && !r->task.more &&
               is_error(r->task.error_kind) && is_time(r->task.submit_ns) &&
               is_time(r->task.start_ns) && is_time(r->task.end_ns);
    case SK_STATE_ACTORS:
        return r->actor.state <= SK_AS_DEAD && !r->actor.more && is_error(r->actor.error_kind);
    case SK_STATE_OBJECTS:
        return r->object.where <= SK_OW_ACTOR && r->object.task_state <= SK_TS_FAILED &&
               r->object.of <= SK_OF_NOTHING;
    case SK_STATE_WORKERS:
        return r->worker.state <= 3 && r->worker.end <= SK_WE_MEMORY &&
               is_time(r->worker.since_ns) && is_time(r->worker.end_ns);
    }
    return false;
}

/* Whether the bytes are what was asked for. */
static bool well_formed(uint32_t what, struct sk_bytes b) {
    struct sk_rd r = sk_rd_init(b.p, b.n);
    struct sk_state_head head;
    struct sk_row row;
    if (!b.n || what == SK_ASK_STATUS) return true;
    if (what <= SK_STATE_WORKERS) {
        uint64_t i = 0;
        if (!sk_rows_head(&r, &head) || head.n > head.total) return false;
        while (i < head.n && sk_rows_next(&r, (enum sk_state_what)what, &row) &&
               row_is_good((enum sk_state_what)what, &row))
            i++;
        return i == head.n && sk_rd_end(&r);
    }
    struct sk_memory_info info;
    struct sk_memory_worker w;
    const void *p = sk_rd_raw(&r, sizeof info);
    if (what != SK_ASK_MEMORY || !p) return false;
    memcpy(&info, p, sizeof info);
    if (!text_ends(info.where, sizeof info.where)) return false;
    while (!sk_rd_end(&r)) {
        if (!(p = sk_rd_raw(&r, sizeof w))) return false;
        memcpy(&w, p, sizeof w);
        if (!text_ends(w.name, sizeof w.name)) return false;
    }
    return true;
}

sk_rc sk_btold_message(struct sk_book *b, const struct sk_bnode *n, const struct sk_cmsg *m,
                       struct sk_err *err) {
    struct sk_bask *k = ask_of(b, m->told.ask);
    if (!well_formed(m->told.what, m->told.bytes))
        return SK_ERR(err, SK_ECORRUPT, "node %s: what it tells of itself is damaged", n->name);
    if (!k) return SK_OK; /* the caller has given up */
    for (uint32_t i = 0; i < k->n; i++) {
        struct sk_banswer *a = &k->of[i];
        if (a->node != n->number) continue;
        if (a->over || m->told.what != k->what)
            return SK_ERR(err, SK_ECORRUPT, "node %s: it tells what it was not asked", n->name);
        SK_ASSERT(k->n_left > 0 && !a->blob);
        a->over = true;
        a->blob = sk_bblob_new(0, m->told.bytes); /* without memory, it tells nothing */
        k->n_left--;
    }
    return SK_OK;
}

void sk_btold_lost(struct sk_book *b, uint32_t node) {
    for (uint32_t i = 0; i < b->asks.n; i++)
        for (uint32_t j = 0; j < b->asks.p[i].n; j++) {
            struct sk_banswer *a = &b->asks.p[i].of[j];
            if (a->node != node || a->over) continue;
            SK_ASSERT(b->asks.p[i].n_left > 0);
            a->over = true;
            b->asks.p[i].n_left--;
        }
}

/* Gives the handles of values in place of their numbers. */
static void handles(const struct sk_book *b, struct sk_bblob *blob) {
    struct sk_rd r = sk_rd_init(blob->data, blob->len);
    struct sk_state_head head;
    struct sk_row row;
    if (!sk_rows_head(&r, &head)) return;
    for (uint64_t i = 0; i < head.n && sk_rows_next(&r, SK_STATE_OBJECTS, &row); i++) {
        if (row.object.of != SK_OF_VALUE) continue;
        row.object.id = (uintptr_t)sk_bval_of(b, row.object.id);
        sk_rows_change(blob->data, SK_STATE_OBJECTS, &row);
    }
}

static void ask_free(struct sk_bask *k) {
    for (uint32_t i = 0; i < k->n; i++) sk_bblob_unref(k->of[i].blob);
    sk_free(k->of);
}

void sk_book_answers(struct sk_book *b, uint64_t ask,
                     void (*told)(void *ctx, const struct sk_guest_told *t), void *ctx) {
    struct sk_bask *k = ask_of(b, ask);
    if (!k) return;
    SK_DCHECK(told && k->n_left <= k->n);
    for (uint32_t i = 0; i < k->n; i++) {
        struct sk_banswer *a = &k->of[i];
        struct sk_guest_told t = {.node = a->node, .silent = !a->over, .bytes = {"", 0}};
        if (a->blob && k->what == SK_STATE_OBJECTS) handles(b, a->blob);
        if (a->blob) t.bytes = (struct sk_bytes){a->blob->data, a->blob->len};
        if (a->blob || t.silent) told(ctx, &t); /* not of a lost node */
    }
    ask_free(k);
    *k = b->asks.p[--b->asks.n];
}

void sk_btold_free(struct sk_book *b) {
    for (uint32_t i = 0; i < b->asks.n; i++) ask_free(&b->asks.p[i]);
    sk_vec_free(&b->asks);
}

/* input.c - makes the inputs of a stage's tasks from the blocks that arrive: small neighbours are
 * coalesced, large blocks may go ahead of their turn. Pure.
 *
 * A block that is large enough to be a task's input by itself need not wait for its turn to be
 * processed, only to be passed on: it may go ahead to the next stage, and a placeholder stands in
 * the order for it and for the task that took it.
 *
 * Coalescing depends only on the data (bytes, rows and numbers of the blocks, in order), never on
 * time. Invariant: the first of the ready inputs is never a placeholder. Cost: O(1) a block. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

void sk_step_next_unit(const struct sk_step *x, struct sk_sstage *s) {
    const uint8_t *skip = x->conf.skip_units;
    while (skip && s->next_unit < s->n_units && skip[s->next_unit]) s->next_unit++;
}

void sk_step_push_ready(struct sk_sstage *s, struct sk_bundle *b) {
    b->next = NULL;
    if (s->ready_last) s->ready_last->next = b;
    else s->ready = b;
    s->ready_last = b;
}

void sk_step_close(struct sk_sstage *s) {
    if (!s->open) return;
    sk_step_push_ready(s, s->open);
    s->n_bundled += s->open->q.n;
    s->open = NULL;
    s->n_ready++;
}

void sk_step_settle(struct sk_step *x, uint32_t si) {
    struct sk_sstage *s = &x->s[si];
    for (struct sk_bundle *b; (b = s->ready) && b->early;) {
        sk_list_del(&b->early->link);
        b->early->seq = s->next_seq++;
        sk_list_push_back(&s->window, &b->early->link);
        s->ready = b->next;
        if (!s->ready) s->ready_last = NULL;
        sk_pool_put(&x->bundles, b);
    }
}

/* For a pool, which runs a model, one full batch is enough, or a whole block if there is no batch
 * size, however small. That keeps the actors evenly busy, and a death costs little. For a writer
 * the rows of one file are enough. */
bool sk_step_large(const struct sk_step *x, const struct sk_sstage *s, uint64_t bytes,
                   uint64_t rows) {
    uint64_t batch = s->batch_rows > 0 ? (uint64_t)s->batch_rows : 0;
    return rows >= batch && (bytes >= x->conf.target_min_bytes || s->kind == SK_STAGE_ACTORS ||
                             (s->writes && batch));
}

/* A few blocks stay as they were cut: a list of a hundred addresses in ten blocks means ten
 * downloads at once. Of many blocks a task takes no more than a 1024th of those that came before:
 * tasks grow, and the last ones still end together. */
bool sk_step_enough(const struct sk_step *x, const struct sk_sstage *s, uint32_t n, uint64_t bytes,
                    uint64_t rows) {
    bool many =
        n > s->n_bundled / 1024 && rows >= (s->batch_rows > 0 ? (uint64_t)s->batch_rows : 0);
    return (many && !s->writes) || sk_step_large(x, s, bytes, rows);
}

/* Coalesces small neighbours into one task's input: greedy, in order, by number, bytes and rows
 * only. */
sk_rc sk_step_coalesce(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b,
                       struct sk_err *err) {
    bool large = sk_step_large(x, s, b->ref.bytes, b->ref.n_rows);
    bool apart = s->open && x->conf.keep_units && s->open->q.tail->ref.origin != b->ref.origin;
    uint64_t most = SK_MAX(x->conf.target_max_bytes, x->conf.target_min_bytes);
    if (s->open && (large || apart || s->open->q.bytes + b->ref.bytes > most)) sk_step_close(s);
    if (!s->open) {
        s->open = sk_pool_get(&x->bundles);
        if (!s->open) {
            /* the run has failed, and the block is kept here for the sweep */
            sk_blkq_push(&x->out, b);
            return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
        }
        *s->open = (struct sk_bundle){0};
    }
    sk_blkq_push(&s->open->q, b);
    const struct sk_blkq *q = &s->open->q;
    if (large || q->n >= SK_BUNDLE_BLOCKS_MAX || sk_step_enough(x, s, q->n, q->bytes, q->rows))
        sk_step_close(s);
    return SK_OK;
}

/* ---- blocks that go ahead of the order ------------------------------------------------------- */

/* Offers block b of task t, which must wait for its turn, to the next stage: if it will be the
 * input of a task by itself, that task may start before. */
void sk_step_offer(struct sk_step *x, struct sk_stask *t, struct sk_blk *b) {
    const struct sk_sstage *s = &x->s[t->stage];
    if (s->parent == SK_NO_STAGE) return;
    struct sk_sstage *p = &x->s[s->parent];
    if (!p->early_ok || !sk_step_large(x, p, b->ref.bytes, b->ref.n_rows)) return;
    b->of = t;
    sk_list_push_back(&p->ahead, &b->link);
}

void sk_step_go_ahead(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_blk *in,
                      struct sk_stask *t) {
    struct sk_sstage *from = &x->s[b->of->stage];
    struct sk_blkq *q = &b->of->held;
    *in = (struct sk_blk){.ref = b->ref, .cost = b->cost, .on_disk = b->on_disk};
    sk_list_init(&in->link);
    sk_rc rc = in->cost && x->conf.moves ? sk_map_put(&x->by_oid, in->ref.oid, in) : SK_OK;
    SK_ASSERT(rc == SK_OK); /* the key exists, and replacing never fails */
    sk_blkq_push(&t->in, in);
    q->bytes -= b->ref.bytes;
    q->rows -= b->ref.n_rows;
    q->cost -= b->cost;
    from->held_cost -= b->cost;
    s->rows_in += b->ref.n_rows;
    s->bytes_in += b->ref.bytes;
    sk_list_del(&b->link);
    b->ref = (struct sk_bref){0};
    b->cost = 0;
    b->early = t;
}

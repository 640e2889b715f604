/* order.c - passes blocks in order from a stage to the next: through unions and limits, into
 * inputs, out to the consumer; and cancels what a limit cuts. Pure.
 *
 * Order: a stage's tasks are numbered as they are launched, and they are launched in the order of
 * their inputs. Blocks leave a stage in the order (task, yield): those of the first task in its
 * window are passed on at once, the other tasks hold theirs. So the input of a stage, the blocks
 * that are coalesced, and the place where a LIMIT cuts depend on the data and never on time.
 *
 * Every block is in exactly one queue: held by its task, in an input (open or ready), input of a
 * task, or out. When a block leaves the last queue, an action that releases its reference is made.
 *
 * Cost: about 0.1 us a block. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

static sk_rc flush(struct sk_step *x, uint32_t si, struct sk_err *err);
static sk_rc stage_end(struct sk_step *x, uint32_t si, struct sk_err *err);

bool sk_step_open(const struct sk_step *x, uint32_t si) {
    if (!x->s[si].ordered) return true;
    for (uint32_t p = x->s[si].parent; p != SK_NO_STAGE && !sk_stage_runs(&x->s[p]);
         si = p, p = x->s[si].parent)
        if (x->s[p].kind == SK_STAGE_UNION && x->s[p].turn != x->s[si].which) return false;
    return true;
}

/* ---- taking blocks in, and the turn of early blocks ------------------------------------------ */

/* Takes in a block of stage `from`, which is an input of s. */
static sk_rc take_in(struct sk_step *x, struct sk_sstage *s, const struct sk_sstage *from,
                     struct sk_blk *b, struct sk_err *err) {
    if (SK_UNLIKELY(s->gather)) return s->gather->ops->take(s->gather, from->which, b, err);
    s->rows_in += b->ref.n_rows;
    s->bytes_in += b->ref.bytes;
    s->ready_bytes += b->ref.bytes;
    s->ready_rows += b->ref.n_rows;
    s->peak_queued_bytes = SK_MAX(s->peak_queued_bytes, s->ready_bytes);
    return s->sides ? sk_zip_take_in(x, s, from->which, b, err) : sk_step_coalesce(x, s, b, err);
}

/* The turn of a block that went ahead has come: the task that took it gets its number. */
static sk_rc place_early(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_bundle *k = sk_pool_get(&x->bundles);
    struct sk_stask *t = b->early;
    sk_pool_put(&x->blks, b);
    if (!k) return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    *k = (struct sk_bundle){.early = t};
    sk_step_close(s);
    s->n_bundled++;
    sk_step_push_ready(s, k);
    sk_step_settle(x, si);
    return flush(x, si, err);
}

/* ---- cutting: rows behind a satisfied LIMIT are not needed ----------------------------------- */

static sk_rc cancel_task(struct sk_step *x, struct sk_stask *t, struct sk_err *err) {
    struct sk_sstage *s = &x->s[t->stage];
    s->n_window--;
    s->held_cost -= t->held.cost;
    s->held_n -= t->held.n;
    if (s->feeder) {
        x->feed_bytes -= t->held.cost;
        x->feed_held_n -= t->held.n;
    }
    SK_TRY(sk_step_drop_queue(x, &t->held, err));
    if (t->over) {
        sk_step_free_task(x, t);
        return SK_OK;
    }
    t->cancelled = true; /* the inputs stay in the budget until the engine has ended the task */
    sk_list_del(&t->link);
    sk_list_push_back(&x->cancelled, &t->link);
    return sk_step_act(x, (struct sk_act){.kind = SK_ACT_CANCEL, .id = t->id}, err);
}

static sk_rc cut(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    s->cut = s->ended = true;
    for (struct sk_list *it; (it = sk_list_first(&s->window)) || (it = sk_list_first(&s->inner));)
        SK_TRY(cancel_task(x, sk_container_of(it, struct sk_stask, link), err));
    SK_ASSERT(sk_list_empty(&s->early)); /* a stage that may be cut has no early tasks (early_ok) */
    sk_step_close(s);
    for (struct sk_bundle *b; (b = s->ready);) {
        SK_TRY(sk_step_drop_queue(x, &b->q, err));
        sk_gather_forget(s->gather, &b->say);
        s->ready = b->next;
        sk_pool_put(&x->bundles, b);
    }
    s->ready_last = NULL;
    s->n_ready = 0;
    s->ready_bytes = s->ready_rows = 0;
    for (uint32_t i = 0; s->sides && i < s->n_inputs; i++)
        SK_TRY(sk_step_drop_queue(x, &s->sides[i].q, err));
    if (s->gather) SK_TRY(s->gather->ops->drop(s->gather, err));
    for (uint32_t i = 0; i < s->n_inputs; i++)
        if (!x->s[s->inputs[i]].cut) SK_TRY(cut(x, s->inputs[i], err));
    return SK_OK;
}

sk_rc sk_order_inputs_done(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    for (uint32_t i = 0; i < s->n_inputs; i++) {
        if (!x->s[s->inputs[i]].cut) SK_TRY(cut(x, s->inputs[i], err));
        s->ready_bytes -= s->sides[i].q.bytes;
        s->ready_rows -= s->sides[i].q.rows;
        SK_TRY(sk_step_drop_queue(x, &s->sides[i].q, err));
    }
    s->input_ended = true;
    return sk_order_check_end(x, (uint32_t)(s - x->s), err);
}

/* ---- passing blocks to the next stage -------------------------------------------------------- */

static sk_rc push_down(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err);

sk_rc sk_order_limit_done(struct sk_step *x, uint32_t si, struct sk_err *err) {
    SK_TRY(cut(x, x->s[si].inputs[0], err));
    return stage_end(x, si, err);
}

static sk_rc through_limit(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    if (s->ended) return sk_step_drop(x, b, err);
    s->rows_in += b->ref.n_rows;
    s->bytes_in += b->ref.bytes;
    if (b->ref.n_rows > (uint64_t)s->left) b->ref = sk_bref_first(b->ref, (uint64_t)s->left);
    s->left -= (int64_t)b->ref.n_rows;
    bool enough = s->left == 0;
    s->rows_out += b->ref.n_rows;
    s->bytes_out += b->ref.bytes;
    s->blocks_out++;
    SK_TRY(push_down(x, si, b, err));
    return enough && !s->ended ? sk_order_limit_done(x, si, err) : SK_OK;
}

/* Passes a block of stage si, in order, to the next stage or to the consumer. */
static sk_rc push_down(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    if (s->first_out_ns < 0) s->first_out_ns = x->now_ns - x->start_ns;
    if (s->parent == SK_NO_STAGE) {
        sk_blkq_push(&x->out, b);
        return SK_OK;
    }
    struct sk_sstage *p = &x->s[s->parent];
    if (b->early) return place_early(x, s->parent, b, err);
    if (p->cut) return sk_step_drop(x, b, err);
    if (p->kind == SK_STAGE_LIMIT) return through_limit(x, s->parent, b, err);
    if (p->kind != SK_STAGE_UNION) return take_in(x, p, s, b, err);
    p->rows_in += b->ref.n_rows;
    p->rows_out += b->ref.n_rows;
    p->bytes_in += b->ref.bytes;
    p->bytes_out += b->ref.bytes;
    p->blocks_out++;
    return push_down(x, s->parent, b, err);
}

sk_rc sk_order_check_end(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    bool fed =
        s->source ? s->next_unit == s->n_units : s->input_ended && (!s->gather || s->gather->spent);
    return s->ended || !fed || s->ready || s->open || s->n_window ? SK_OK : stage_end(x, si, err);
}

/* Passes on all existing blocks of a stage at once, since they cost nothing. */
sk_rc sk_order_blocks(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    while (!s->cut && s->next_unit < s->n_blocks) {
        struct sk_blk *b = sk_pool_get(&x->blks);
        if (!b) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
        *b = (struct sk_blk){.ref = s->blocks[s->next_unit]};
        sk_list_init(&b->link);
        if (!sk_vec_reserve(&x->acts, TAG, x->acts.n + 2)) {
            sk_pool_put(&x->blks, b);
            return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
        }
        s->next_unit++;
        s->rows_out += b->ref.n_rows;
        s->bytes_out += b->ref.bytes;
        s->blocks_out++;
        SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_ADDREF, .id = b->ref.oid}, err));
        SK_TRY(push_down(x, si, b, err));
    }
    return s->ended ? SK_OK : stage_end(x, si, err);
}

/* Passes on the blocks that t holds. The stage may be cut meanwhile (a LIMIT downstream is
 * satisfied): then its tasks are gone, and *gone is set. */
static sk_rc pass_on(struct sk_step *x, uint32_t si, struct sk_stask *t, bool *gone,
                     struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    for (struct sk_blk *b; (b = sk_blkq_pop(&t->held));) {
        s->held_cost -= b->cost;
        s->held_n--;
        x->feed_bytes -= s->feeder ? b->cost : 0;
        x->feed_held_n -= s->feeder;
        SK_TRY(push_down(x, si, b, err));
        if (s->cut) {
            *gone = true;
            return SK_OK;
        }
    }
    if (t->over) {
        s->n_window--;
        sk_step_free_task(x, t);
        *gone = true;
    }
    return SK_OK;
}

/* Passes on all blocks that are in turn: those of the first task of the window, then of the next
 * one, and so on. */
static sk_rc flush(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    for (bool gone = sk_step_open(x, si); gone && !sk_list_empty(&s->window);) {
        gone = false;
        SK_TRY(pass_on(x, si, sk_container_of(sk_list_first(&s->window), struct sk_stask, link),
                       &gone, err));
    }
    return sk_order_check_end(x, si, err);
}

/* Passes on the blocks that may leave the stage after task t has yielded or ended. */
sk_rc sk_order_moved(struct sk_step *x, struct sk_stask *t, struct sk_err *err) {
    uint32_t si = t->stage;
    if (!x->s[si].ordered) {
        bool gone = false;
        SK_TRY(pass_on(x, si, t, &gone, err));
        return sk_order_check_end(x, si, err);
    }
    return sk_list_first(&x->s[si].window) == &t->link ? flush(x, si, err) : SK_OK;
}

/* Called when the stage's output comes in turn, as a later input of a union. */
static sk_rc opened(struct sk_step *x, uint32_t si, struct sk_err *err) {
    const struct sk_sstage *s = &x->s[si];
    if (s->ended) return SK_OK;
    switch (s->kind) {
    case SK_STAGE_BLOCKS: return sk_order_blocks(x, si, err);
    case SK_STAGE_UNION: return opened(x, s->inputs[s->turn], err);
    case SK_STAGE_LIMIT: return opened(x, s->inputs[0], err);
    case SK_STAGE_TASKS:
    case SK_STAGE_ACTORS: break;
    }
    return flush(x, si, err);
}

/* Ends stage si, which will give no more blocks. */
static sk_rc stage_end(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    s->ended = true;
    if (s->parent == SK_NO_STAGE) {
        x->done = true;
        return SK_OK;
    }
    struct sk_sstage *p = &x->s[s->parent];
    if (p->ended) return SK_OK;
    p->n_ended++;
    if (p->kind == SK_STAGE_LIMIT) return stage_end(x, s->parent, err);
    if (p->kind == SK_STAGE_UNION) {
        while (p->turn < p->n_inputs && x->s[p->inputs[p->turn]].ended) p->turn++;
        if (p->n_ended == p->n_inputs) return stage_end(x, s->parent, err);
        return sk_step_open(x, p->inputs[p->turn]) ? opened(x, p->inputs[p->turn], err) : SK_OK;
    }
    if (p->sides) SK_TRY(sk_zip_pair(x, p, err));
    if (p->n_ended < p->n_inputs) return SK_OK;
    p->input_ended = true;
    sk_step_close(p);
    if (p->gather) SK_TRY(p->gather->ops->ended(p->gather, err));
    return sk_order_check_end(x, s->parent, err);
}

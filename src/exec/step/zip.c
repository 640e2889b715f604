/* zip.c - the input of a stage that takes the rows of several inputs side by side, the same number
 * of each or in rounds with a number of rows of each (plan.h: parts). Pure.
 *
 * Each input has a queue, and all queues begin at the same row. A task takes the same rows of each:
 * whole blocks of the first input, as many as are worth a task, or fewer where that would be too
 * many blocks of another input. So the cuts depend on the blocks, and never on which input is
 * faster. A block is cut by reference; its cost stays with its last part.
 *
 * An input that is ahead of the others would fill memory that those need: its tasks wait
 * (sk_zip_lead, sk_guard_turn). The input that lacks rows never waits.
 *
 * Cost: at most SK_BUNDLE_BLOCKS_MAX blocks are visited for each block that arrives. */
#include <stdio.h>

#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

/* Sets *rows to the number of rows of the next task (0: none are left). Returns false if that is
 * not known before input s->lacks has more rows. */
static bool next_rows(const struct sk_step *x, struct sk_sstage *s, uint64_t *rows) {
    *rows = UINT64_MAX;
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        uint64_t sum = 0, bytes = 0;
        bool closed = false;
        uint32_t n = 0;
        for (const struct sk_blk *b = s->sides[k].q.head; b && !closed; b = b->next) {
            /* rows, not blocks: an empty block before a large one is no input of a task */
            closed = !k && sum && bytes + b->ref.bytes > x->conf.target_max_bytes;
            if (closed) break;
            sum += b->ref.n_rows;
            bytes += b->ref.bytes;
            closed = ++n == SK_BUNDLE_BLOCKS_MAX / s->n_inputs || sum >= *rows ||
                     (!k && sum && sk_step_enough(x, s, n, bytes, sum));
        }
        s->lacks = k;
        if (!closed && !x->s[s->inputs[k]].ended) return false;
        *rows = SK_MIN(*rows, sum);
    }
    s->lacks = SK_NO_STAGE;
    return true;
}

/* Cuts the first rows of q's first block off as a block of their own; the rest stays. */
static sk_rc split(struct sk_step *x, struct sk_blkq *q, uint64_t rows, struct sk_blk **out,
                   struct sk_err *err) {
    struct sk_blk *b = q->head, *part = sk_pool_get(&x->blks);
    if (!part) return SK_ERR(err, SK_ENOMEM, "zip: no memory for a block");
    *part = (struct sk_blk){.ref = sk_bref_first(b->ref, rows)};
    sk_list_init(&part->link);
    sk_rc rc = sk_step_act(x, (struct sk_act){.kind = SK_ACT_ADDREF, .id = b->ref.oid}, err);
    if (rc != SK_OK) {
        sk_pool_put(&x->blks, part);
        return rc;
    }
    b->ref.row0 += rows;
    b->ref.n_rows -= rows;
    b->ref.bytes -= part->ref.bytes;
    q->rows -= rows;
    q->bytes -= part->ref.bytes;
    *out = part;
    return SK_OK;
}

/* Moves `rows` rows of one input to the end of a task's input. */
static sk_rc take_rows(struct sk_step *x, struct sk_sstage *s, uint32_t side, uint64_t rows,
                       struct sk_blkq *to, struct sk_err *err) {
    struct sk_blkq *q = &s->sides[side].q;
    for (struct sk_blk *b; (b = q->head) && (rows || !b->ref.n_rows);) {
        if (b->ref.n_rows > rows) SK_TRY(split(x, q, rows, &b, err));
        else b = sk_blkq_pop(q);
        rows -= b->ref.n_rows;
        b->side = side;
        s->n_bundled += !side;
        sk_blkq_push(to, b);
    }
    return SK_OK;
}

/* Makes the input of a task of so many rows of each input. */
static sk_rc make_input(struct sk_step *x, struct sk_sstage *s, const uint64_t *rows,
                        struct sk_err *err) {
    struct sk_bundle *k = sk_pool_get(&x->bundles);
    if (!k) return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    *k = (struct sk_bundle){0};
    sk_step_push_ready(s, k);
    s->n_ready++;
    for (uint32_t i = 0; i < s->n_inputs; i++) SK_TRY(take_rows(x, s, i, rows[i], &k->q, err));
    return SK_OK;
}

static sk_rc make_equal(struct sk_step *x, struct sk_sstage *s, uint64_t rows, struct sk_err *err) {
    uint64_t each[SK_PLAN_SIDES_MAX] = {0};
    for (uint32_t i = 0; i < s->n_inputs; i++) each[i] = rows;
    return make_input(x, s, each, err);
}

static sk_rc mismatch(const struct sk_step *x, const struct sk_sstage *s, struct sk_err *err) {
    char text[200];
    size_t n = 0;
    for (uint32_t k = 0; k < s->n_inputs && n < sizeof text; k++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s%llu", k ? ", " : "",
                              x->s[s->inputs[k]].ended ? "" : "at least ",
                              (unsigned long long)s->sides[k].rows);
    return SK_ERR(err, SK_EINVAL, "%s: the sides have a different number of rows: %s", s->label,
                  text);
}

/* ---- rounds: a number of rows of each input -------------------------------------------------- */

/* Sets *whole to the number of rounds for which the first blocks of input k have rows, as many as
 * are worth a task; *all: these are all rows that the input has, and the last of them may be less
 * than a round. Returns false if that is not known before the input has more rows. */
static bool whole_rounds(const struct sk_step *x, const struct sk_sstage *s, uint32_t k,
                         uint64_t *whole, bool *all) {
    uint64_t sum = 0, bytes = 0, most = x->conf.target_max_bytes / s->n_inputs;
    uint32_t n = 0;
    bool closed = false;
    for (const struct sk_blk *b = s->sides[k].q.head; b && !closed; b = b->next) {
        sum += b->ref.n_rows;
        bytes += b->ref.bytes;
        closed = ++n == SK_BUNDLE_BLOCKS_MAX / s->n_inputs || (sum >= s->parts[k] && bytes >= most);
    }
    *whole = sum / s->parts[k];
    *all = !closed;
    return closed || x->s[s->inputs[k]].ended;
}

struct rounds { /* the next task of a mix */
    uint64_t n; /* number of rounds; 0: no rows are left */
    bool last;  /* an input lacks rows for its round, which ends the mix */
    bool tight; /* the blocks that one task may take have less than a round */
};

/* Returns false if the next task is not known before input s->lacks has more rows. */
static bool next_rounds(const struct sk_step *x, struct sk_sstage *s, struct rounds *r) {
    uint64_t most = UINT64_MAX, left = 0;
    *r = (struct rounds){0};
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        uint64_t whole;
        bool all;
        s->lacks = k;
        if (!whole_rounds(x, s, k, &whole, &all)) return false;
        uint64_t rows = s->sides[k].q.rows;
        if (all) left = SK_MAX(left, rows / s->parts[k] + (rows % s->parts[k] > 0));
        if (all && s->shortest && !whole) r->last = true;
        else if (!all || s->shortest) most = SK_MIN(most, whole);
        r->tight = r->tight || (!all && !whole);
    }
    s->lacks = SK_NO_STAGE;
    r->n = r->last ? 1 : most < UINT64_MAX ? most : left;
    return true;
}

static sk_rc mix(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct rounds r = {.n = 1};
    while (r.n && !s->input_ended && next_rounds(x, s, &r)) {
        uint64_t rows[SK_PLAN_SIDES_MAX] = {0}, sum = 0;
        bool columns = false;
        if (r.tight)
            return SK_ERR(err, SK_EINVAL,
                          "%s: the rows of a round are in more than %u blocks of an input: "
                          "repartition the inputs into larger blocks, or use weights that are a "
                          "ratio of smaller numbers",
                          s->label, SK_BUNDLE_BLOCKS_MAX / s->n_inputs);
        for (uint32_t k = 0; k < s->n_inputs; k++) {
            rows[k] = SK_MIN(r.n * s->parts[k], s->sides[k].q.rows);
            sum += rows[k];
            columns = columns || (s->sides[k].q.head && !s->n_bundled);
        }
        /* without rows at all, one task still has to pass the columns on */
        if (sum || columns) SK_TRY(make_input(x, s, rows, err));
        if (r.last) return sk_order_inputs_done(x, s, err);
    }
    return SK_OK;
}

sk_rc sk_zip_pair(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    if (s->parts) return mix(x, s, err);
    for (uint32_t k = 0; k < s->n_inputs; k++)
        for (uint32_t j = 0; x->s[s->inputs[k]].ended && j < s->n_inputs; j++)
            if (s->sides[j].rows > s->sides[k].rows) return mismatch(x, s, err);
    uint64_t rows;
    while (next_rows(x, s, &rows) && rows) SK_TRY(make_equal(x, s, rows, err));
    bool empty = s->lacks == SK_NO_STAGE && !s->sides[0].rows && s->sides[0].q.head;
    /* there are no rows at all, but one task still has to pass the columns on */
    return empty ? make_equal(x, s, 0, err) : SK_OK;
}

sk_rc sk_zip_take_in(struct sk_step *x, struct sk_sstage *s, uint32_t side, struct sk_blk *b,
                     struct sk_err *err) {
    struct sk_side *in = &s->sides[side];
    /* the block has no rows, and the columns are known from another one */
    if (!b->ref.n_rows && (in->rows || in->q.n || s->n_bundled)) {
        s->ready_bytes -= b->ref.bytes;
        return sk_step_drop(x, b, err);
    }
    in->rows += b->ref.n_rows;
    sk_blkq_push(&in->q, b);
    return sk_zip_pair(x, s, err);
}

uint64_t sk_zip_lead(const struct sk_sstage *s, uint32_t side) {
    return !s->n_ready && s->lacks != SK_NO_STAGE && s->lacks != side ? s->sides[side].q.bytes : 0;
}

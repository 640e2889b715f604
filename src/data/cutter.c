/* cutter.c - cuts batches into blocks. A batch is measured once; blocks of several batches are
 * joined from their plans where the types allow it, else row by row. */
#include "base/containers/vec.h"
#include "data/cutter.h"

#define TAG SK_TAG_EXEC

struct piece {
    struct sk_batch *batch;
    struct sk_block_plan *plan;
};
struct sk_cutter {
    uint64_t target, soon; /* soon: size of the next block, until it is the target */
    int64_t left;          /* rows that are still needed; -1: all */
    sk_cut_fn fn;
    void *ctx;
    SK_VEC(struct piece) held;
    uint64_t held_bytes;
    struct sk_batch *empty; /* the last batch without rows */
    bool some;              /* there were rows */
};

sk_rc sk_cutter_create(uint64_t target, int64_t cap, sk_cut_fn fn, void *ctx,
                       struct sk_cutter **out, struct sk_err *err) {
    struct sk_cutter *c = sk_calloc(TAG, sizeof *c);
    if (!c) return SK_ERR(err, SK_ENOMEM, "no memory to cut blocks");
    c->target = target;
    c->soon = SK_MAX(target / 16, 1);
    c->left = cap;
    c->fn = fn;
    c->ctx = ctx;
    *out = c;
    return SK_OK;
}

static void drop_held(struct sk_cutter *c) {
    for (uint32_t i = 0; i < c->held.n; i++) {
        sk_block_plan_free(c->held.p[i].plan);
        sk_batch_destroy(c->held.p[i].batch);
    }
    c->held.n = 0;
    c->held_bytes = 0;
}

void sk_cutter_destroy(struct sk_cutter *c) {
    if (!c) return;
    drop_held(c);
    sk_vec_free(&c->held);
    sk_batch_destroy(c->empty);
    sk_free(c);
}

/* Gives out the held pieces as one block whose type cannot be joined from plans. */
static sk_rc give_copy(struct sk_cutter *c, struct sk_err *err) {
    struct sk_batch **batches = sk_alloc(TAG, c->held.n * sizeof(struct sk_batch *)), *one;
    struct sk_block_plan *plan;
    uint64_t size;
    if (!batches) return SK_ERR(err, SK_ENOMEM, "no memory to join %u batches", c->held.n);
    for (uint32_t i = 0; i < c->held.n; i++) batches[i] = c->held.p[i].batch;
    sk_rc rc = sk_batch_concat(batches, c->held.n, &one, err);
    sk_free(batches);
    if (rc != SK_OK) return rc;
    rc = sk_block_measure(&one->schema->s, &one->array, &plan, &size, err);
    if (rc == SK_OK) {
        rc = c->fn(c->ctx, plan, err);
        sk_block_plan_free(plan);
    }
    sk_batch_destroy(one);
    return rc;
}

static sk_rc give(struct sk_cutter *c, struct sk_err *err) {
    sk_rc rc = SK_OK;
    if (c->held.n == 1) {
        rc = c->fn(c->ctx, c->held.p[0].plan, err);
    } else if (c->held.n) {
        const struct sk_block_plan **plans = sk_alloc(TAG, c->held.n * sizeof *plans);
        struct sk_block_plan *joined = NULL;
        if (!plans) return SK_ERR(err, SK_ENOMEM, "no memory to join %u batches", c->held.n);
        for (uint32_t i = 0; i < c->held.n; i++) plans[i] = c->held.p[i].plan;
        rc = sk_block_plan_join(plans, c->held.n, &joined, err);
        sk_free(plans);
        if (rc == SK_OK) rc = joined ? c->fn(c->ctx, joined, err) : give_copy(c, err);
        sk_block_plan_free(joined);
    }
    drop_held(c);
    return rc;
}

/* Measures the batch and holds it. Takes b over. */
static sk_rc hold(struct sk_cutter *c, struct sk_batch *b, uint64_t *bytes, struct sk_err *err) {
    struct piece p = {.batch = b};
    uint64_t size;
    sk_rc rc = sk_block_measure(&b->schema->s, &b->array, &p.plan, &size, err);
    if (rc == SK_OK && !sk_vec_push(&c->held, TAG, p)) {
        sk_block_plan_free(p.plan);
        rc = SK_ERR(err, SK_ENOMEM, "no memory to cut blocks");
    }
    if (rc != SK_OK) {
        sk_batch_destroy(b);
        return rc;
    }
    *bytes = sk_block_plan_sizes(p.plan).data_bytes;
    return SK_OK;
}

/* Gives out the last held piece, which is larger than a block, in even slices. */
static sk_rc give_slices(struct sk_cutter *c, uint64_t bytes, struct sk_err *err) {
    struct piece p = c->held.p[--c->held.n];
    sk_rc rc = give(c, err);
    int64_t n = p.batch->array.length, per;
    per = SK_MAX(1, (int64_t)((unsigned __int128)(uint64_t)n * c->target / bytes));
    int64_t k = (n + per - 1) / per;
    sk_block_plan_free(p.plan);
    for (int64_t i = 0; rc == SK_OK && i < k; i++) {
        struct sk_batch *b;
        uint64_t unused;
        int64_t from = i * n / k;
        rc = sk_batch_slice(p.batch, from, (i + 1) * n / k - from, &b, err);
        if (rc == SK_OK) rc = hold(c, b, &unused, err);
        if (rc == SK_OK) rc = give(c, err);
    }
    sk_batch_destroy(p.batch);
    return rc;
}

static sk_rc keep_empty(struct sk_cutter *c, struct sk_batch *b) {
    if (c->some) {
        sk_batch_destroy(b);
    } else {
        sk_batch_destroy(c->empty);
        c->empty = b;
    }
    return c->left == 0 ? SK_EDONE : SK_OK;
}

static bool same_schema(const struct sk_cutter *c, const struct sk_batch *b) {
    const struct sk_schema *s = c->held.p[0].batch->schema;
    return s == b->schema || sk_block_same_schema(&s->s, &b->schema->s);
}

static sk_rc add(struct sk_cutter *c, struct sk_batch *b, struct sk_err *err) {
    uint64_t bytes, before = c->held_bytes;
    bool other = c->held.n && !same_schema(c, b);
    SK_TRY(hold(c, b, &bytes, err));
    struct piece last = c->held.p[c->held.n - 1];
    if (c->target == 0) return give(c, err);
    if (c->held.n > 1 && (other || before + bytes > c->target)) {
        c->held.n--;
        sk_rc rc = give(c, err);
        c->held.p[c->held.n++] = last;
        if (rc != SK_OK) return rc;
        before = 0;
    }
    if (bytes > c->target && last.batch->array.length > 1) return give_slices(c, bytes, err);
    c->held_bytes = before + bytes;
    if (4 * c->held_bytes < 3 * c->soon) return SK_OK;
    c->soon = SK_MIN(2 * c->soon, c->target);
    return give(c, err);
}

sk_rc sk_cutter_push(struct sk_cutter *c, struct sk_batch *b, struct sk_err *err) {
    if (!b->array.length) return keep_empty(c, b);
    if (c->left >= 0 && b->array.length > c->left) {
        struct sk_batch *head;
        sk_rc rc = sk_batch_slice(b, 0, c->left, &head, err);
        sk_batch_destroy(b);
        if (rc != SK_OK) return rc;
        b = head;
        if (!b->array.length) return keep_empty(c, b);
    }
    if (c->left >= 0) c->left -= b->array.length;
    c->some = true;
    sk_rc rc = add(c, b, err);
    return rc == SK_OK && c->left == 0 ? SK_EDONE : rc;
}

sk_rc sk_cutter_end(struct sk_cutter *c, struct sk_err *err) {
    if (c->held.n) return give(c, err);
    if (c->some || !c->empty) return SK_OK;
    uint64_t unused;
    struct sk_batch *b = c->empty;
    c->empty = NULL;
    SK_TRY(hold(c, b, &unused, err));
    return give(c, err);
}

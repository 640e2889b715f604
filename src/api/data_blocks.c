/* data_blocks.c - existing blocks of a dataset: batches that this process puts into the store. */
#include "api/data_int.h"
#include "base/mem.h"

#define TAG SK_TAG_PLAN

static sk_rc write_block(struct sk_engine *e, const struct sk_block_plan *plan, struct sk_bref *out,
                         uint64_t *cost, struct sk_err *err) {
    struct sk_block_sizes z = sk_block_plan_sizes(plan);
    struct sk_buf buf;
    sk_oid oid;
    SK_TRY(e->ops->buf_alloc(e, z.total_bytes, &buf, err));
    sk_block_write(plan, buf.data);
    struct sk_payload p = {.kind = SK_KIND_BLOCK, .buf = &buf, .buf_len = z.total_bytes};
    SK_TRY(e->ops->put(e, &p, &oid, err));
    *out = (struct sk_bref){oid.v, 0, z.n_rows, z.data_bytes, 0, 0};
    *cost = z.total_bytes;
    return SK_OK;
}

sk_rc sk_data_put(struct sk_engine *e, const struct ArrowSchema *schema,
                  const struct ArrowArray *batch, struct sk_bref *out, uint64_t *cost,
                  struct sk_err *err) {
    struct sk_block_side none = {NULL, 0, NULL};
    struct sk_block_plan *plan;
    uint64_t size;
    if (batch) {
        SK_TRY(sk_block_check_batch(schema, batch, err));
        SK_TRY(sk_block_measure(schema, batch, &plan, &size, err));
    } else {
        SK_TRY(sk_block_measure_places(schema, &none, 1, NULL, 0, &plan, &size, err));
    }
    sk_rc rc = write_block(e, plan, out, cost, err);
    sk_block_plan_free(plan);
    return rc;
}

static sk_rc add(struct sk_dataset_blocks *b, struct sk_engine *e, const struct ArrowSchema *schema,
                 const struct ArrowArray *batch, struct sk_err *err) {
    uint64_t cost;
    if (b->n == b->cap) {
        uint32_t cap = 2 * b->cap + 8;
        struct sk_bref *refs = sk_realloc(TAG, b->refs, cap * sizeof *refs);
        if (!refs) return SK_ERR(err, SK_ENOMEM, "no memory for %u blocks", cap);
        b->refs = refs;
        b->cap = cap;
    }
    if (!b->schema) SK_TRY(sk_schema_nullable(schema, &b->schema, err));
    SK_TRY(sk_data_put(e, schema, batch, &b->refs[b->n], &cost, err));
    b->engine = sk_api_number(e);
    b->n++;
    return SK_OK;
}

sk_rc sk_dataset_blocks_put(struct sk_dataset_blocks *b, struct sk_engine *e,
                            const struct ArrowSchema *schema, struct ArrowArray *batch,
                            struct sk_err *err) {
    if (!batch->release)
        return SK_ERR(err, SK_EINVAL, "the array of a batch was released, or never filled");
    sk_rc rc = add(b, e, schema, batch, err);
    batch->release(batch);
    batch->release = NULL;
    return rc;
}

sk_rc sk_dataset_blocks_put_none(struct sk_dataset_blocks *b, struct sk_engine *e,
                                 const struct ArrowSchema *schema, struct sk_err *err) {
    return add(b, e, schema, NULL, err);
}

static void drop_blocks(struct sk_dataset_blocks *b) {
    struct sk_engine *e = b->n ? sk_api_numbered(b->engine) : NULL;
    for (uint32_t i = 0; e && i < b->n; i++) e->ops->release(e, (sk_oid){b->refs[i].oid});
    b->n = 0;
}

void sk_dataset_blocks_free(struct sk_dataset_blocks *b) {
    if (!b) return;
    drop_blocks(b);
    sk_schema_drop(b->schema);
    sk_free(b->refs);
    sk_free(b);
}

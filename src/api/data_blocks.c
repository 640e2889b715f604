/* data_blocks.c - existing blocks of a dataset: batches that this process puts into the store. */
#include <errno.h>

#include "api/data_int.h"
#include "base/mem.h"

#define TAG SK_TAG_PLAN

static sk_rc put(struct sk_dataset_blocks *b, struct sk_engine *e, const struct ArrowSchema *schema,
                 const struct sk_block_plan *plan, struct sk_err *err) {
    struct sk_block_sizes z = sk_block_plan_sizes(plan);
    struct sk_buf buf;
    sk_oid oid;
    if (b->n == b->cap) {
        uint32_t cap = 2 * b->cap + 8;
        struct sk_bref *refs = sk_realloc(TAG, b->refs, cap * sizeof *refs);
        if (!refs) return SK_ERR(err, SK_ENOMEM, "no memory for %u blocks", cap);
        b->refs = refs;
        b->cap = cap;
    }
    if (!b->schema) SK_TRY(sk_schema_nullable(schema, &b->schema, err));
    SK_TRY(e->ops->buf_alloc(e, z.total_bytes, &buf, err));
    sk_block_write(plan, buf.data);
    struct sk_payload p = {.kind = SK_KIND_BLOCK, .buf = &buf, .buf_len = z.total_bytes};
    SK_TRY(e->ops->put(e, &p, &oid, err));
    b->engine = sk_api_number(e);
    b->refs[b->n++] = (struct sk_bref){oid.v, 0, z.n_rows, z.data_bytes, 0, 0};
    return SK_OK;
}

sk_rc sk_dataset_blocks_put(struct sk_dataset_blocks *b, struct sk_engine *e,
                            const struct ArrowSchema *schema, struct ArrowArray *batch,
                            struct sk_err *err) {
    struct sk_block_plan *plan;
    uint64_t size;
    if (!batch->release)
        return SK_ERR(err, SK_EINVAL, "the array of a batch was released, or never filled");
    sk_rc rc = sk_block_check_batch(schema, batch, err);
    if (rc == SK_OK) rc = sk_block_measure(schema, batch, &plan, &size, err);
    if (rc == SK_OK) {
        rc = put(b, e, schema, plan, err);
        sk_block_plan_free(plan);
    }
    batch->release(batch);
    batch->release = NULL;
    return rc;
}

sk_rc sk_dataset_blocks_put_none(struct sk_dataset_blocks *b, struct sk_engine *e,
                                 const struct ArrowSchema *schema, struct sk_err *err) {
    struct sk_block_side none = {NULL, 0, NULL};
    struct sk_block_plan *plan;
    uint64_t size;
    SK_TRY(sk_block_measure_places(schema, &none, 1, NULL, 0, &plan, &size, err));
    sk_rc rc = put(b, e, schema, plan, err);
    sk_block_plan_free(plan);
    return rc;
}

static void drop_blocks(struct sk_dataset_blocks *b) {
    struct sk_engine *e = b->n ? sk_api_numbered(b->engine) : NULL;
    for (uint32_t i = 0; e && i < b->n; i++) e->ops->release(e, (sk_oid){b->refs[i].oid});
    b->n = 0;
}

static sk_rc stream_failed(struct ArrowArrayStream *s, int code, const char *call,
                           struct sk_err *err) {
    const char *why = s->get_last_error ? s->get_last_error(s) : NULL;
    return SK_ERR(err,
                  code == ENOMEM   ? SK_ENOMEM
                  : code == EINVAL ? SK_EINVAL
                                   : SK_EIO,
                  "the stream's %s failed: %s", call, why ? why : strerror(code));
}

sk_rc sk_dataset_blocks_fill(struct sk_dataset_blocks *b, struct sk_engine *e, struct sk_err *err) {
    struct ArrowArrayStream *s = &b->stream;
    struct ArrowSchema schema = {.release = NULL};
    struct ArrowArray a = {.release = NULL};
    if (b->failed)
        return SK_ERR(err, SK_EIO,
                      "the stream failed in an earlier run, and can be read only once: make a new "
                      "dataset of a new stream");
    if (!s->release) return SK_OK;
    int code = s->get_schema(s, &schema);
    sk_rc rc = code ? stream_failed(s, code, "get_schema", err) : SK_OK;
    if (rc == SK_OK && (!schema.release || !schema.format))
        rc = SK_ERR(err, SK_EINVAL, "the stream's get_schema gave no schema");
    while (rc == SK_OK) {
        a.release = NULL;
        code = s->get_next(s, &a);
        if (code) rc = stream_failed(s, code, "get_next", err);
        if (code || !a.release) break;
        rc = sk_dataset_blocks_put(b, e, &schema, &a, err);
    }
    if (rc == SK_OK && !b->n) rc = sk_dataset_blocks_put_none(b, e, &schema, err);
    if (schema.release) schema.release(&schema);
    s->release(s);
    s->release = NULL;
    if (rc != SK_OK) {
        b->failed = true;
        drop_blocks(b);
    }
    return rc;
}

void sk_dataset_blocks_free(struct sk_dataset_blocks *b) {
    if (!b) return;
    if (b->stream.release) b->stream.release(&b->stream);
    drop_blocks(b);
    sk_schema_drop(b->schema);
    sk_free(b->refs);
    sk_free(b);
}

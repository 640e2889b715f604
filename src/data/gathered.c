/* gathered.c - collects batches; see gathered.h. A single batch is given as it is. */
#include "data/gathered.h"

#define TAG SK_TAG_EXEC

static void drop(struct sk_gathered *g) {
    for (uint32_t i = 0; i < g->held.n; i++) sk_batch_destroy(g->held.p[i]);
    g->held.n = 0;
    g->bytes = 0;
}

void sk_gathered_reset(struct sk_gathered *g) {
    drop(g);
    sk_vec_free(&g->held);
    sk_batch_destroy(g->empty);
    sk_schema_drop(g->from);
    sk_schema_drop(g->to);
    *g = (struct sk_gathered){.some = false};
}

static sk_rc one(struct sk_gathered *g, struct sk_batch **out, struct sk_err *err) {
    if (g->held.n == 1) {
        *out = g->held.p[0];
        g->held.n = 0;
        g->bytes = 0;
        return SK_OK;
    }
    sk_rc rc = sk_batch_concat(g->held.p, g->held.n, out, err);
    drop(g);
    return rc;
}

static sk_rc differs(const struct sk_batch *a, const struct sk_batch *b, struct sk_err *err) {
    SK_TRY(sk_schema_changed(&a->schema->s, &b->schema->s, err));
    return SK_ERR(err, SK_EINVAL, "the schema changes between batches: its metadata or flags");
}

/* Gives the batch the nullable schema. */
static sk_rc loosen(struct sk_gathered *g, struct sk_batch *b, struct sk_err *err) {
    if (b->schema == g->to) return SK_OK;
    if (!g->from || (g->from != b->schema && !sk_block_same_schema(&g->from->s, &b->schema->s))) {
        struct sk_schema *to;
        SK_TRY(sk_schema_nullable(&b->schema->s, &to, err));
        if (g->to && sk_block_same_schema(&g->to->s, &to->s)) {
            sk_schema_drop(to);
            to = sk_schema_keep(g->to);
        }
        sk_schema_drop(g->from);
        sk_schema_drop(g->to);
        g->from = sk_schema_keep(b->schema);
        g->to = to;
    }
    sk_schema_drop(b->schema);
    b->schema = sk_schema_keep(g->to);
    return SK_OK;
}

sk_rc sk_gathered_add(struct sk_gathered *g, struct sk_batch *b, uint64_t most,
                      struct sk_batch **out, struct sk_err *err) {
    uint64_t bytes = 0;
    *out = NULL;
    sk_rc rc = loosen(g, b, err);
    if (rc != SK_OK) {
        sk_batch_destroy(b);
        return rc;
    }
    const struct sk_batch *other = g->held.n ? g->held.p[0] : NULL;
    if (!b->array.length) {
        sk_batch_destroy(g->empty);
        g->empty = b;
        return SK_OK;
    }
    rc = sk_data_nbytes(b, &bytes, err);
    if (rc == SK_OK && other && other->schema != b->schema &&
        !sk_block_same_schema(&other->schema->s, &b->schema->s))
        rc = differs(other, b, err);
    if (rc == SK_OK && g->held.n && g->bytes + bytes > most) rc = one(g, out, err);
    if (rc == SK_OK && !sk_vec_push(&g->held, TAG, b)) {
        sk_batch_destroy(*out);
        *out = NULL;
        rc = SK_ERR(err, SK_ENOMEM, "no memory to collect batches");
    }
    if (rc != SK_OK) {
        sk_batch_destroy(b);
        return rc;
    }
    g->bytes += bytes;
    g->some = true;
    return SK_OK;
}

sk_rc sk_gathered_rest(struct sk_gathered *g, struct sk_batch **out, struct sk_err *err) {
    *out = NULL;
    if (g->held.n) return one(g, out, err);
    if (!g->some && g->empty) {
        *out = g->empty;
        g->empty = NULL;
    }
    return SK_OK;
}

/* columns.c - picks columns of batches by name. */
#include "data/columns.h"
#include "base/mem.h"

#define TAG SK_TAG_EXEC

struct sk_columns {
    uint32_t n;
    char **names, **new_names; /* [n] */
    uint32_t *at;              /* [n]: indices in `from` */
    struct sk_schema *from, *to;
};

void sk_columns_write(struct sk_wr *w, uint32_t n, const char *const *names,
                      const char *const *new_names) {
    sk_wr_u32(w, n);
    for (uint32_t i = 0; i < n; i++) {
        sk_wr_str(w, names[i]);
        sk_wr_str(w, new_names ? new_names[i] : names[i]);
    }
}

static char *text(struct sk_rd *r) {
    struct sk_bytes b = sk_rd_bytes(r);
    char *s = sk_rd_ok(r) ? sk_alloc(TAG, b.n + 1) : NULL;
    if (s) {
        memcpy(s, b.p, b.n);
        s[b.n] = 0;
    }
    return s;
}

sk_rc sk_columns_read(struct sk_bytes wire, struct sk_columns **out, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(wire.p, wire.n);
    uint32_t n = sk_rd_u32(&r);
    if (!sk_rd_ok(&r) || n > wire.n)
        return SK_ERR(err, SK_ECORRUPT, "a list of columns is damaged");
    struct sk_columns *c = sk_calloc(TAG, sizeof *c);
    if (c) {
        c->names = sk_calloc(TAG, (n + 1) * sizeof *c->names);
        c->new_names = sk_calloc(TAG, (n + 1) * sizeof *c->new_names);
        c->at = sk_calloc(TAG, (n + 1) * sizeof *c->at);
    }
    bool ok = c && c->names && c->new_names && c->at;
    for (uint32_t i = 0; ok && i < n; i++) {
        c->n = i + 1;
        ok = (c->names[i] = text(&r)) && (c->new_names[i] = text(&r));
    }
    if (ok) {
        *out = c;
        return SK_OK;
    }
    sk_columns_destroy(c);
    return sk_rd_ok(&r) ? SK_ERR(err, SK_ENOMEM, "no memory for a list of %u columns", n)
                        : SK_ERR(err, SK_ECORRUPT, "a list of columns is damaged");
}

void sk_columns_destroy(struct sk_columns *c) {
    if (!c) return;
    for (uint32_t i = 0; c->names && c->new_names && i < c->n; i++) {
        sk_free(c->names[i]);
        sk_free(c->new_names[i]);
    }
    sk_free(c->names);
    sk_free(c->new_names);
    sk_free(c->at);
    sk_schema_drop(c->from);
    sk_schema_drop(c->to);
    sk_free(c);
}

uint32_t sk_columns_n(const struct sk_columns *c) { return c->n; }

/* Makes the schema of the result, for batches of schema `from`. */
static sk_rc adapt(struct sk_columns *c, struct sk_schema *from, struct sk_err *err) {
    struct ArrowSchema picked = from->s, *list = sk_alloc(TAG, (c->n + 1) * sizeof *list),
                       **children = sk_alloc(TAG, (c->n + 1) * sizeof *children);
    struct sk_schema *to = NULL;
    sk_rc rc = list && children ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for a schema");
    for (uint32_t i = 0; rc == SK_OK && i < c->n; i++) {
        int64_t at = sk_schema_find(&from->s, c->names[i]);
        if (at < 0) rc = sk_schema_no_column(&from->s, c->names[i], err);
        if (rc != SK_OK) break;
        c->at[i] = (uint32_t)at;
        list[i] = *from->s.children[at];
        list[i].name = c->new_names[i];
        children[i] = &list[i];
    }
    picked.children = children;
    picked.n_children = c->n;
    if (rc == SK_OK) rc = sk_schema_copy(&picked, &to, err);
    sk_free(list);
    sk_free(children);
    if (rc != SK_OK) return rc;
    sk_schema_drop(c->from);
    sk_schema_drop(c->to);
    c->from = sk_schema_keep(from);
    c->to = to;
    return SK_OK;
}

sk_rc sk_columns_pick(struct sk_columns *c, struct sk_batch *b, struct sk_batch **out,
                      struct sk_err *err) {
    sk_rc rc = SK_OK;
    if (!c->from || (c->from != b->schema && !sk_block_same_schema(&c->from->s, &b->schema->s)))
        rc = adapt(c, b->schema, err);
    if (rc == SK_OK) rc = sk_batch_columns(b, sk_schema_keep(c->to), c->at, out, err);
    sk_batch_destroy(b);
    return rc;
}

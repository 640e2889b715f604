/* groups.c - groups of rows of equal keys; see groups.h. */
#include "data/groups.h"
#include "base/mem.h"
#include "kernel/kernel.h"

#define TAG SK_TAG_EXEC

struct sk_groups {
    const char **names; /* [n]; into `wire` */
    struct sk_key *keys;
    uint32_t n;
    void *wire;
    uint32_t *start;
    uint64_t cap;
};

void sk_groups_write(struct sk_wr *w, const char *const *keys, uint32_t n) {
    sk_wr_u32(w, n);
    for (uint32_t i = 0; i < n; i++) sk_wr_bytes(w, keys[i], strlen(keys[i]) + 1);
}

sk_rc sk_groups_read(struct sk_bytes wire, struct sk_groups **out, struct sk_err *err) {
    struct sk_groups *g = sk_calloc(TAG, sizeof *g);
    void *copy = sk_memdup(TAG, wire.p, wire.n);
    struct sk_rd r = sk_rd_init(copy, copy ? wire.n : 0);
    uint32_t n = sk_rd_u32(&r);
    bool ok = sk_rd_ok(&r) && n <= wire.n;
    if (g) {
        g->wire = copy;
        g->n = n;
        g->names = ok ? sk_calloc(TAG, (n + 1) * sizeof *g->names) : NULL;
        g->keys = ok ? sk_calloc(TAG, (n + 1) * sizeof *g->keys) : NULL;
    } else {
        sk_free(copy);
    }
    bool memory = g && copy && (!ok || (g->names && g->keys));
    for (uint32_t i = 0; memory && ok && i < n; i++) {
        struct sk_bytes name = sk_rd_bytes(&r);
        ok = sk_rd_ok(&r) && name.n && !((const char *)name.p)[name.n - 1];
        g->names[i] = name.p;
    }
    if (memory && ok) {
        *out = g;
        return SK_OK;
    }
    sk_groups_destroy(g);
    return memory ? SK_ERR(err, SK_ECORRUPT, "a list of keys is damaged")
                  : SK_ERR(err, SK_ENOMEM, "no memory for a list of keys");
}

void sk_groups_destroy(struct sk_groups *g) {
    if (!g) return;
    sk_free(g->names);
    sk_free(g->keys);
    sk_free(g->wire);
    sk_free(g->start);
    sk_free(g);
}

static sk_rc open_keys(struct sk_groups *g, const struct sk_batch *b, struct sk_keys **out,
                       struct sk_err *err) {
    for (uint32_t i = 0; i < g->n; i++) {
        int64_t at = sk_schema_find(&b->schema->s, g->names[i]);
        if (at < 0) return sk_schema_no_column(&b->schema->s, g->names[i], err);
        g->keys[i].column = (uint32_t)at;
    }
    return sk_keys_create(&b->schema->s, &b->array, g->keys, g->n, out, err);
}

sk_rc sk_groups_find(struct sk_groups *g, const struct sk_batch *b, const uint32_t **start,
                     uint32_t *n, struct sk_err *err) {
    uint64_t rows = (uint64_t)b->array.length;
    struct sk_keys *keys = NULL;
    if (rows > g->cap || !g->start) {
        uint32_t *more = sk_realloc(TAG, g->start, (rows + 1) * sizeof *more);
        if (!more) return SK_ERR(err, SK_ENOMEM, "no memory to find groups");
        g->start = more;
        g->cap = rows;
    }
    *start = g->start;
    g->start[0] = 0;
    *n = rows ? 1 : 0;
    if (!g->n || !rows) return SK_OK;
    SK_TRY(open_keys(g, b, &keys, err));
    *n = (uint32_t)sk_group_starts(keys, g->start);
    sk_keys_destroy(keys);
    return SK_OK;
}

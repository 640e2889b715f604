/* what.c - the operations of an exchange on rows: the table of kinds, and the wire format of their
 * description. */
#include "base/wire.h"
#include "shuffle/work_int.h"

#define VERSION 4u

/* Assigns all rows, in the order of the keys, to parts; the number of rows of each part is
 * given. */
static sk_rc sort_parts(const struct sk_keys *keys, struct sk_parts *parts, struct sk_err *err) {
    uint64_t rows = sk_keys_rows(keys);
    uint32_t *part = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *part),
             *order = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *order);
    uint64_t *next = sk_memdup(SK_TAG_KERNEL, parts->start, parts->n * sizeof *next);
    sk_rc rc = part && order && next
                   ? sk_sort(keys, order, err)
                   : SK_ERR(err, SK_ENOMEM, "no memory to sort the parts of %llu rows",
                            (unsigned long long)rows);
    if (rc == SK_OK) {
        for (uint32_t p = 0; p < parts->n; p++)
            for (uint64_t i = parts->start[p]; i < parts->start[p + 1]; i++)
                part[parts->index[i]] = p;
        for (uint64_t i = 0; i < rows; i++) parts->index[next[part[order[i]]]++] = order[i];
    }
    sk_free(part);
    sk_free(order);
    sk_free(next);
    return rc;
}

static sk_rc by_hash(const struct sk_what *what, const struct sk_map_input *in,
                     struct sk_parts *parts, struct sk_err *err) {
    struct sk_keys *keys;
    SK_TRY(sk_what_keys(what, in->schema, in->array, &keys, err));
    sk_rc rc = sk_partition_hash(keys, 0, parts, err);
    if (rc == SK_OK && what->sorted) rc = sort_parts(keys, parts, err);
    sk_keys_destroy(keys);
    return rc;
}

static sk_rc by_chance(const struct sk_what *what, const struct sk_map_input *in,
                       struct sk_parts *parts, struct sk_err *err) {
    return sk_partition_random((uint64_t)in->array->length, in->row0, sk_draw(what->seed, in->seq),
                               parts, err);
}

/* Cuts the rows into pieces whose numbers of rows differ by at most one. The partition of the first
 * piece depends on the number of the map, so that maps with few rows fill all partitions alike. */
static sk_rc evenly(const struct sk_what *what, const struct sk_map_input *in,
                    struct sk_parts *parts, struct sk_err *err SK_UNUSED) {
    uint64_t rows = (uint64_t)in->array->length, n = what->n_partitions,
             turn = (in->seq + in->row0) % n, at = 0;
    for (uint64_t p = 0; p < n; p++) {
        uint64_t piece = (p + n - turn) % n, from = piece * rows / n, to = (piece + 1) * rows / n;
        parts->start[p] = at;
        for (uint64_t i = from; i < to; i++) parts->index[at++] = (uint32_t)i;
    }
    parts->start[n] = at;
    return SK_OK;
}

/* Permutes each partition by itself, so that the order does not depend on how many partitions a
 * reduce has (Fisher and Yates; since independent draws have assigned the rows to partitions, the
 * whole is a uniform permutation: Rao 1961). The places of one partition are behind those of the
 * other. */
static sk_rc in_random_order(const struct sk_what *what, const struct sk_reduce_input *in,
                             struct sk_row_at *places, uint64_t n, struct sk_err *err) {
    uint64_t at = 0;
    for (uint32_t p = in->first; p < in->end; p++) {
        uint32_t batch = 0;
        uint64_t from = at, seed = sk_draw(what->seed ^ UINT64_C(0x5ca1ab1e), p);
        for (uint32_t s = 0; s < in->n_slices; s++) {
            const struct sk_slice *slice = &in->slices[s];
            for (uint32_t b = 0; b < slice->n; b++, batch++)
                for (int64_t row = 0; !slice->columns_only && slice->partition + b == p &&
                                      row < slice->batches[b]->length;
                     row++)
                    places[at++] = (struct sk_row_at){batch, (uint32_t)row};
        }
        for (uint64_t i = at - from; i > 1; i--) {
            uint64_t j = (uint64_t)(((unsigned __int128)sk_draw(seed, i) * i) >> 64);
            struct sk_row_at swap = places[from + i - 1];
            places[from + i - 1] = places[from + j];
            places[from + j] = swap;
        }
    }
    return at == n ? SK_OK
                   : SK_ERR(err, SK_EINVAL, "%llu of %llu rows are of no partition of this reduce",
                            (unsigned long long)(n - at), (unsigned long long)n);
}

static sk_rc as_they_come(const struct sk_what *what SK_UNUSED, const struct sk_reduce_input *in,
                          struct sk_row_at *places, uint64_t n SK_UNUSED,
                          struct sk_err *err SK_UNUSED) {
    uint64_t at = 0;
    uint32_t batch = 0;
    for (uint32_t s = 0; s < in->n_slices; s++)
        for (uint32_t b = 0; b < in->slices[s].n; b++, batch++)
            for (int64_t row = 0;
                 !in->slices[s].columns_only && row < in->slices[s].batches[b]->length; row++)
                places[at++] = (struct sk_row_at){batch, (uint32_t)row};
    return SK_OK;
}

static sk_rc all_to_one(const struct sk_what *what SK_UNUSED, const struct sk_map_input *in,
                        struct sk_parts *parts, struct sk_err *err SK_UNUSED) {
    for (int64_t i = 0; i < in->array->length; i++) parts->index[i] = (uint32_t)i;
    for (uint32_t p = 0; p < parts->n; p++) parts->start[p + 1] = (uint64_t)in->array->length;
    return SK_OK;
}

static const struct sk_what_class classes[SK_WHAT_KINDS] = {
    [SK_WHAT_SORT] = {.name = "sort", .needs_keys = true, .runs = true},
    [SK_WHAT_RANDOM] = {.name = "random",
                        .tells_partitions = true,
                        .partition = by_chance,
                        .order = in_random_order},
    [SK_WHAT_HASH] = {.name = "hash",
                      .needs_keys = true,
                      .partition = by_hash,
                      .order = as_they_come},
    [SK_WHAT_EVEN] = {.name = "even", .partition = evenly, .order = as_they_come},
    [SK_WHAT_AGGREGATE] = {.name = "aggregate",
                           .runs = true,
                           .partition = all_to_one,
                           .reduce = sk_aggregating_create},
    [SK_WHAT_JOIN] = {.name = "join", .needs_keys = true, .reduce = sk_joining_create},
};

const struct sk_what_class *sk_what_class_of(enum sk_what_kind kind) { return &classes[kind]; }

sk_rc sk_what_kind_find(const char *name, enum sk_what_kind *out, struct sk_err *err) {
    for (unsigned i = 0; i < SK_WHAT_KINDS; i++) {
        if (strcmp(classes[i].name, name) != 0) continue;
        *out = (enum sk_what_kind)i;
        return SK_OK;
    }
    return SK_ERR(err, SK_EINVAL, "an exchange by '%.100s': there is no such kind", name);
}

/* ---- wire ---- */

static bool has_quantiles(const struct sk_agg *a) { return a->kind == SK_AGG_APPROX_QUANTILES; }

static void write_agg(struct sk_wr *o, const struct sk_agg *a) {
    uint64_t bits;
    sk_wr_u32(o, a->kind);
    sk_wr_u32(o, a->column);
    sk_wr_u32(o, (a->ignore_nulls ? 1u : 0) | (a->nan_is_null ? 2u : 0) | (a->wide ? 4u : 0) |
                     (a->flatten ? 8u : 0));
    sk_wr_u32(o, (uint32_t)a->ddof);
    sk_wr_u32(o, a->k);
    memcpy(&bits, &a->q, 8);
    sk_wr_u64(o, bits);
    for (uint32_t i = 0; has_quantiles(a) && i < a->k; i++) {
        memcpy(&bits, &a->qs[i], 8);
        sk_wr_u64(o, bits);
    }
    sk_wr_str(o, a->name);
    sk_wr_str(o, a->value_name);
}

static char *text_of(struct sk_bytes b) {
    char *copy = sk_alloc(SK_TAG_KERNEL, b.n + 1);
    if (!copy) return NULL;
    memcpy(copy, b.p, b.n);
    copy[b.n] = 0;
    return copy;
}

/* Reads an aggregate. SK_ENOMEM; SK_EINVAL: the description is damaged. */
static sk_rc read_agg(struct sk_rd *r, struct sk_agg *a) {
    uint64_t bits;
    a->kind = (enum sk_agg_kind)sk_rd_u32(r);
    a->column = sk_rd_u32(r);
    uint32_t flags = sk_rd_u32(r);
    a->ignore_nulls = flags & 1;
    a->nan_is_null = flags & 2;
    a->wide = flags & 4;
    a->flatten = flags & 8;
    a->ddof = (int32_t)sk_rd_u32(r);
    a->k = sk_rd_u32(r);
    bits = sk_rd_u64(r);
    memcpy(&a->q, &bits, 8);
    if (!sk_rd_ok(r) || a->kind >= SK_AGG_KINDS || (has_quantiles(a) && a->k > r->n))
        return SK_EINVAL;
    double *qs = has_quantiles(a) ? sk_alloc(SK_TAG_KERNEL, (a->k + 1) * sizeof *qs) : NULL;
    a->qs = qs;
    for (uint32_t i = 0; qs && i < a->k; i++) {
        bits = sk_rd_u64(r);
        memcpy(&qs[i], &bits, 8);
    }
    a->name = text_of(sk_rd_bytes(r));
    a->value_name = text_of(sk_rd_bytes(r));
    if (!sk_rd_ok(r)) return SK_EINVAL;
    return a->name && a->value_name && (qs || !has_quantiles(a)) ? SK_OK : SK_ENOMEM;
}

static sk_rc read_aggs(struct sk_rd *r, struct sk_what *w, struct sk_err *err) {
    uint32_t n = sk_rd_u32(r);
    if (!sk_rd_ok(r) || n > r->n) return SK_ERR(err, SK_EINVAL, "what an exchange does: damaged");
    w->aggs = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->aggs);
    sk_rc rc = w->aggs ? SK_OK : SK_ENOMEM;
    while (rc == SK_OK && w->n_aggs < n) rc = read_agg(r, &w->aggs[w->n_aggs++]);
    if (rc == SK_EINVAL) return SK_ERR(err, SK_EINVAL, "what an exchange does: damaged");
    return rc == SK_OK ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for %u aggregates", n);
}

size_t sk_what_write(const struct sk_what *w, void *buf, size_t cap) {
    struct sk_wr o = sk_wr_init(buf, cap);
    sk_wr_u32(&o, VERSION);
    sk_wr_u32(&o, w->kind);
    sk_wr_u32(&o, w->n_partitions);
    sk_wr_u32(&o, (w->groups ? 1u : 0) | (w->one_block ? 2u : 0) | (w->sorted ? 4u : 0) |
                      (w->own_reduce ? 8u : 0) | (w->firsts ? 16u : 0) |
                      (w->whole_groups ? 32u : 0));
    sk_wr_u64(&o, w->seed);
    sk_wr_u64(&o, w->limit);
    sk_wr_u32(&o, w->n_keys);
    for (uint32_t i = 0; i < w->n_keys; i++) {
        sk_wr_str(&o, w->keys[i].name);
        sk_wr_u32(&o, (w->keys[i].descending ? 1u : 0) | (w->keys[i].nulls_first ? 2u : 0));
    }
    sk_wr_u32(&o, w->n_aggs);
    for (uint32_t i = 0; i < w->n_aggs; i++) write_agg(&o, &w->aggs[i]);
    if (w->kind != SK_WHAT_JOIN) return o.n;
    sk_wr_u32(&o, w->join.kind);
    for (uint32_t i = 0; i < w->n_keys; i++) sk_wr_str(&o, w->join.right[i]);
    for (int s = 0; s < 2; s++) sk_wr_str(&o, w->join.suffix[s]);
    return o.n;
}

void sk_what_destroy(struct sk_what *w) {
    if (!w) return;
    for (uint32_t i = 0; i < w->n_keys; i++) sk_free(w->keys[i].name);
    sk_free(w->keys);
    for (uint32_t i = 0; i < w->n_aggs; i++) {
        sk_free((void *)(uintptr_t)w->aggs[i].name);
        sk_free((void *)(uintptr_t)w->aggs[i].value_name);
        sk_free((void *)(uintptr_t)w->aggs[i].qs);
    }
    sk_free(w->aggs);
    for (uint32_t i = 0; w->join.right && i < w->n_keys; i++) sk_free(w->join.right[i]);
    sk_free(w->join.right);
    for (int s = 0; s < 2; s++) sk_free(w->join.suffix[s]);
    sk_free(w);
}

static sk_rc read_join(struct sk_rd *r, struct sk_what *w, struct sk_err *err) {
    uint32_t kind = sk_rd_u32(r);
    if (!sk_rd_ok(r) || kind >= SK_JOIN_KINDS)
        return SK_ERR(err, SK_EINVAL, "what a join does: damaged");
    w->join.kind = (enum sk_join_kind)kind;
    w->join.right = sk_calloc(SK_TAG_KERNEL, w->n_keys * sizeof *w->join.right);
    bool ok = w->join.right != NULL;
    for (uint32_t i = 0; ok && i < w->n_keys; i++)
        ok = (w->join.right[i] = text_of(sk_rd_bytes(r))) != NULL;
    for (int s = 0; ok && s < 2; s++) ok = (w->join.suffix[s] = text_of(sk_rd_bytes(r))) != NULL;
    return ok ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for a join by %u keys", w->n_keys);
}

static sk_rc read_keys(struct sk_rd *r, struct sk_what *w, struct sk_err *err) {
    uint32_t n = sk_rd_u32(r);
    if (!sk_rd_ok(r) || n > r->n) return SK_ERR(err, SK_EINVAL, "what an exchange does: damaged");
    w->keys = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->keys);
    for (; w->keys && w->n_keys < n; w->n_keys++) {
        struct sk_bytes name = sk_rd_bytes(r);
        uint32_t flags = sk_rd_u32(r);
        char *copy = text_of(name);
        if (!copy) break;
        w->keys[w->n_keys] = (struct sk_what_key){copy, flags & 1, flags & 2};
    }
    return w->keys && w->n_keys == n ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for %u keys", n);
}

sk_rc sk_what_read(struct sk_bytes wire, struct sk_what **out, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(wire.p, wire.n);
    struct sk_what *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory for what an exchange does");
    uint32_t version = sk_rd_u32(&r), kind = sk_rd_u32(&r);
    w->n_partitions = sk_rd_u32(&r);
    uint32_t flags = sk_rd_u32(&r);
    w->groups = flags & 1;
    w->one_block = flags & 2;
    w->sorted = flags & 4;
    w->own_reduce = flags & 8;
    w->firsts = flags & 16;
    w->whole_groups = flags & 32;
    w->seed = sk_rd_u64(&r);
    w->limit = sk_rd_u64(&r);
    sk_rc rc = read_keys(&r, w, err);
    if (rc == SK_OK) rc = read_aggs(&r, w, err);
    if (rc == SK_OK && kind == SK_WHAT_JOIN) rc = read_join(&r, w, err);
    if (rc == SK_OK && (!sk_rd_ok(&r) || version != VERSION || kind >= SK_WHAT_KINDS))
        rc =
            SK_ERR(err, SK_EINVAL, "what an exchange does: damaged, or written by another version");
    if (rc == SK_OK && classes[kind].needs_keys && !w->n_keys)
        rc = SK_ERR(err, SK_EINVAL, "an exchange by %s: no key columns", classes[kind].name);
    if (rc == SK_OK && kind == SK_WHAT_AGGREGATE && !w->n_aggs)
        rc = SK_ERR(err, SK_EINVAL, "an exchange by aggregate: no aggregates");
    if (rc == SK_OK && classes[kind].partition && !w->n_partitions)
        rc = SK_ERR(err, SK_EINVAL, "an exchange by %s: no partitions", classes[kind].name);
    w->kind = (enum sk_what_kind)kind;
    if (rc == SK_OK) *out = w;
    else sk_what_destroy(w);
    return rc;
}

/* ---- keys ---- */

sk_rc sk_what_columns(const struct sk_what *what, const struct ArrowSchema *schema,
                      struct sk_key *out, struct sk_err *err) {
    for (uint32_t i = 0; i < what->n_keys; i++) {
        out[i] = (struct sk_key){0, what->keys[i].descending, what->keys[i].nulls_first};
        SK_TRY(sk_column_find(schema, what->keys[i].name, &out[i].column, err));
    }
    return SK_OK;
}

static sk_rc key_array(const struct sk_what *what, struct sk_key **out, struct sk_err *err) {
    *out = sk_alloc(SK_TAG_KERNEL, what->n_keys * sizeof **out);
    return *out ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for %u keys", what->n_keys);
}

sk_rc sk_what_keys(const struct sk_what *what, const struct ArrowSchema *schema,
                   const struct ArrowArray *array, struct sk_keys **out, struct sk_err *err) {
    struct sk_key *key;
    SK_TRY(key_array(what, &key, err));
    sk_rc rc = sk_what_columns(what, schema, key, err);
    if (rc == SK_OK) rc = sk_keys_create(schema, array, key, what->n_keys, out, err);
    sk_free(key);
    return rc;
}

sk_rc sk_what_first_keys(const struct sk_what *what, uint32_t n, const struct ArrowSchema *schema,
                         const struct ArrowArray *array, struct sk_keys **out, struct sk_err *err) {
    struct sk_key *key;
    SK_ASSERT(n <= what->n_keys);
    SK_TRY(key_array(what, &key, err));
    for (uint32_t i = 0; i < n; i++)
        key[i] = (struct sk_key){i, what->keys[i].descending, what->keys[i].nulls_first};
    sk_rc rc = sk_keys_create(schema, array, key, n, out, err);
    sk_free(key);
    return rc;
}

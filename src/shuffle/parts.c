/* parts.c - the map of an exchange whose partitions are known beforehand: it distributes the rows
 * of a batch over the partitions, with up to 120 partitions in a value. */
#include "shuffle/work_int.h"

struct parts {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_map_input in;
    struct sk_parts parts;
    uint32_t next; /* the next partition to plan */
};

/* ---- a sort whose bounds are given ---- */

/* Returns the number of rows, in sorted order, that are before bound b. */
static uint64_t before(const struct sk_keys *keys, const uint32_t *index,
                       const struct sk_keys *bounds, uint64_t b, bool descending) {
    uint64_t lo = 0, hi = sk_keys_rows(keys);
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int r = sk_keys_compare(keys, index[mid], bounds, b);
        if (r < 0 || (r == 0 && descending)) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static sk_rc cut_sorted(const struct sk_what *what, const struct sk_map_input *in,
                        const struct sk_keys *bounds, struct sk_parts *parts, struct sk_err *err) {
    struct sk_keys *first;
    struct sk_key key = {0, what->keys[0].descending, what->keys[0].nulls_first};
    SK_TRY(sk_column_find(in->schema, what->keys[0].name, &key.column, err));
    SK_TRY(sk_keys_create(in->schema, in->array, &key, 1, &first, err));
    sk_rc rc = sk_keys_match(first, bounds, err);
    if (rc == SK_OK && sk_keys_rows(bounds) + 1 != parts->n)
        rc = SK_ERR(err, SK_EINVAL, "%llu boundaries for %u partitions",
                    (unsigned long long)sk_keys_rows(bounds), parts->n);
    for (uint32_t p = 1; rc == SK_OK && p < parts->n; p++) {
        parts->start[p] = before(first, parts->index, bounds, p - 1, key.descending);
        if (parts->start[p] < parts->start[p - 1])
            rc = SK_ERR(err, SK_EINVAL, "boundary %u is out of order", p - 1);
    }
    sk_keys_destroy(first);
    return rc;
}

static sk_rc by_bounds(const struct sk_what *what, const struct sk_map_input *in,
                       struct sk_parts *parts, struct sk_err *err) {
    struct sk_keys *keys = NULL, *bounds = NULL;
    sk_rc rc;
    parts->start[0] = 0;
    parts->start[parts->n] = (uint64_t)in->array->length;
    SK_GO(sk_what_first_keys(what, 1, in->bounds_schema, in->bounds, &bounds, err));
    SK_GO(sk_what_keys(what, in->schema, in->array, &keys, err));
    SK_GO(sk_sort(keys, parts->index, err));
    SK_GO(cut_sorted(what, in, bounds, parts, err));
out:
    sk_keys_destroy(keys);
    sk_keys_destroy(bounds);
    return rc;
}

/* ---- values ---- */

static sk_rc add_part(struct parts *w, struct sk_value *v, uint32_t p, struct sk_err *err) {
    struct sk_value_part *part = &v->parts[p - v->first];
    struct sk_block_plan *plan;
    uint64_t from = w->parts.start[p], rows = w->parts.start[p + 1] - from, size;
    bool keeps = sk_what_class_of(w->what->kind)->tells_partitions;
    *part = (struct sk_value_part){.off = v->size, .rows = rows};
    /* if the batch has no rows, partition 0 gets an empty block with its schema */
    if (!rows && !keeps && (p || w->in.array->length)) return SK_OK;
    SK_TRY(sk_block_measure_rows(w->in.schema, w->in.array, w->parts.index + from, rows, &plan,
                                 &size, err));
    sk_value_add(v, plan);
    part->len = v->size - part->off;
    return SK_OK;
}

static sk_rc parts_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct parts *w = (void *)head;
    uint32_t values = SK_MAX(w->in.values, 1u), each = (w->parts.n + values - 1) / values;
    uint32_t n = SK_MIN(w->parts.n - w->next, SK_MIN(each, SK_VALUE_PARTS_MAX));
    if (!n) return SK_OK;
    struct sk_value *v = sk_value_create(SK_VALUE_PARTS, n, n);
    if (!v) return SK_ERR(err, SK_ENOMEM, "no memory for the parts of %u partitions", n);
    sk_rc rc = SK_OK;
    v->first = w->next;
    for (uint32_t i = 0; i < n && rc == SK_OK; i++) rc = add_part(w, v, v->first + i, err);
    if (rc) {
        sk_value_destroy(v);
        return rc;
    }
    w->next += n;
    *out = v;
    return SK_OK;
}

static void parts_destroy(struct sk_work *head) {
    struct parts *w = (void *)head;
    sk_free(w->parts.start);
    sk_free(w->parts.index);
    sk_free(w);
}

sk_rc sk_parts_create(const struct sk_what *what, const struct sk_map_input *in,
                      struct sk_work **out, struct sk_err *err) {
    struct parts *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to partition");
    sk_rc rc;
    w->head = (struct sk_work){parts_next, parts_destroy};
    w->what = what;
    w->in = *in;
    if (in->array->length > UINT32_MAX)
        SK_GO(SK_ERR(err, SK_EINVAL, "a batch of %lld rows; up to 2^32 - 1 are partitioned",
                     (long long)in->array->length));
    w->parts.n = what->n_partitions;
    w->parts.start =
        sk_calloc(SK_TAG_KERNEL, ((size_t)what->n_partitions + 1) * sizeof *w->parts.start);
    w->parts.index =
        sk_alloc_large(SK_TAG_KERNEL, (size_t)in->array->length * sizeof *w->parts.index);
    if (!w->parts.start || !w->parts.index)
        SK_GO(SK_ERR(err, SK_ENOMEM, "no memory to partition %lld rows",
                     (long long)in->array->length));
    SK_GO((in->bounds ? by_bounds : sk_what_class_of(what->kind)->partition)(what, in, &w->parts,
                                                                             err));
out:
    if (rc) parts_destroy(&w->head);
    else *out = &w->head;
    return rc;
}

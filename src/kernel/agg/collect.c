/* collect.c - aggregates that keep values.
 *
 * A list keeps the rows of its column as blocks, with the group of each, and puts them in the order
 * of their groups at the end; FIRST is a list of one value a group. All other aggregates need the
 * distinct values of a group and the count of each; an inner aggregation by (group, value) computes
 * them. Its result is sorted by both for quantiles, which are read off values and counts; else by
 * the group alone, so that values stay in the order in which they came first. Values of a type
 * without an order are told apart by their bytes (value_bytes.c): then that aggregation is by
 * (group, bytes), and the value is the FIRST of each. Memory: lists 4 bytes a row and the value;
 * the others what an aggregation takes for a distinct value of a group. */
#include <stdio.h>

#include "base/containers/vec.h"
#include "kernel/groupby.h"

struct sk_collect {
    struct sk_agg agg;
    /* column: type of the column of values; item: type of what is kept of them */
    struct ArrowSchema column;
    double *qs;
    char name[256], value_name[256];
    /* APPROX_QUANTILES of all rows: how many bits of each value are dropped; see settle() */
    bool adaptive;
    int drop;
    /* counted: the state has pairs of value and count, not a list of values */
    bool counted, by_bytes;
    /* columns of `batch`: group, value, count; of `bytes_batch`: group, bytes, count, value */
    struct ArrowSchema fields[3], *children[3], batch, bytes, *bytes_children[4], bytes_batch;
    uint32_t value_at; /* number of the column of values in the result of the inner aggregation */
    SK_VEC(bool) seen; /* FIRST: true for each group that has its value */
    /* types of a partial result: list<pair> or list<value> */
    struct ArrowSchema item, pair, *pair_children[2], of_pairs, *pairs_item[1], list, *list_item[1];
    struct ArrowSchema number, counts, *counts_item[1], counter, *counter_children[2], of_values;
    struct ArrowSchema one; /* FIRST */
    struct ArrowSchema top, top_pair, *top_item[1], top_value, *top_children[2];
    struct sk_groupby *values;
    SK_VEC(struct sk_held) blocks;
    SK_VEC(uint32_t) ids;
    uint64_t kept;       /* bytes of the blocks */
    struct sk_held held; /* the block that the last result points to */
    int32_t *offsets;
    void *numbers;
    uint8_t *valid;
    struct ArrowArray out, lists[2], inner, *out_children[2], *list_children[2][1],
        *inner_children[2];
    const void *buffers[2], *list_buffers[2], *none[1];
};

#define NO_MEMORY SK_ERR(err, SK_ENOMEM, "no memory to collect values")

/* ---- blocks in the kernel's own memory ------------------------------------------------------- */

sk_rc sk_held_make(struct sk_held *h, struct sk_block_plan *plan, uint64_t size,
                   struct sk_err *err) {
    *h = (struct sk_held){.bytes = sk_alloc_aligned(SK_TAG_KERNEL, SK_BLOCK_ALIGN, (size_t)size)};
    if (h->bytes) sk_block_write(plan, h->bytes);
    sk_block_plan_free(plan);
    if (!h->bytes)
        return SK_ERR(err, SK_ENOMEM, "no memory for a block of %llu bytes",
                      (unsigned long long)size);
    sk_rc rc = sk_block_export(h->bytes, (size_t)size, 0, UINT64_MAX,
                               (struct sk_block_owner){NULL, NULL}, &h->schema, &h->array, err);
    if (rc) sk_free(h->bytes);
    if (rc) *h = (struct sk_held){.bytes = NULL};
    return rc;
}

void sk_held_free(struct sk_held *h) {
    if (h->schema.release) h->schema.release(&h->schema);
    if (h->array.release) h->array.release(&h->array);
    sk_free(h->bytes);
    *h = (struct sk_held){.bytes = NULL};
}

/* ---- types ---- */

static struct ArrowSchema list_of(const char *name, struct ArrowSchema *item,
                                  struct ArrowSchema **place) {
    *place = item;
    return (struct ArrowSchema){.format = "+l",
                                .name = name,
                                .flags = ARROW_FLAG_NULLABLE,
                                .n_children = 1,
                                .children = place};
}

static void set_schemas(struct sk_collect *c, const struct ArrowSchema *column) {
    c->column = *column;
    c->item = *column;
    if (c->agg.kind == SK_AGG_APPROX_QUANTILES) c->item = (struct ArrowSchema){.format = "g"};
    c->item.name = "item";
    c->item.flags |= ARROW_FLAG_NULLABLE;
    c->number = (struct ArrowSchema){.format = "l", .name = "item", .flags = ARROW_FLAG_NULLABLE};
    c->fields[0] = (struct ArrowSchema){.format = "I", .name = "group"};
    c->fields[1] = c->item;
    c->fields[1].name = "value";
    c->fields[2] =
        (struct ArrowSchema){.format = "l", .name = "count", .flags = ARROW_FLAG_NULLABLE};
    for (int i = 0; i < 3; i++) c->children[i] = &c->fields[i];
    c->batch =
        (struct ArrowSchema){.format = "+s", .name = "", .n_children = 3, .children = c->children};
    c->bytes = (struct ArrowSchema){.format = "z", .name = "bytes"};
    c->bytes_children[0] = &c->fields[0];
    c->bytes_children[1] = &c->bytes;
    c->bytes_children[2] = &c->fields[2];
    c->bytes_children[3] = &c->fields[1];
    c->bytes_batch = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = 4, .children = c->bytes_children};
    c->pair_children[0] = &c->fields[1];
    c->pair_children[1] = &c->fields[2];
    c->pair = (struct ArrowSchema){.format = "+s",
                                   .name = "item",
                                   .flags = ARROW_FLAG_NULLABLE,
                                   .n_children = 2,
                                   .children = c->pair_children};
    c->of_pairs = list_of(c->name, &c->pair, c->pairs_item);
    c->top_value = c->fields[1];
    c->top_value.name = c->value_name;
    c->top_children[0] = &c->top_value;
    c->top_children[1] = &c->fields[2];
    c->top_pair = (struct ArrowSchema){.format = "+s",
                                       .name = "item",
                                       .flags = ARROW_FLAG_NULLABLE,
                                       .n_children = 2,
                                       .children = c->top_children};
    c->top = list_of(c->name, &c->top_pair, c->top_item);
    c->list = list_of(c->name, &c->item, c->list_item);
    c->of_values = c->list;
    c->of_values.name = "values";
    c->counts = list_of("counts", &c->number, c->counts_item);
    c->counter_children[0] = &c->of_values;
    c->counter_children[1] = &c->counts;
    c->counter = (struct ArrowSchema){.format = "+s",
                                      .name = c->name,
                                      .flags = ARROW_FLAG_NULLABLE,
                                      .n_children = 2,
                                      .children = c->counter_children};
    if (c->agg.kind == SK_AGG_QUANTILE)
        c->number =
            (struct ArrowSchema){.format = "g", .name = c->name, .flags = ARROW_FLAG_NULLABLE};
    if (c->agg.kind == SK_AGG_COUNT_DISTINCT) c->number.name = c->name;
    c->one = c->item;
    c->one.name = c->name;
}

const struct ArrowSchema *sk_collect_schema(const struct sk_collect *c, bool partial) {
    if (partial && c->counted) return &c->of_pairs;
    if (c->agg.kind == SK_AGG_TOP_K) return &c->top;
    if (c->agg.kind == SK_AGG_FIRST && !partial) return &c->one;
    if (!c->counted || c->agg.kind == SK_AGG_UNIQUE || c->agg.kind == SK_AGG_APPROX_QUANTILES)
        return &c->list;
    return c->agg.kind == SK_AGG_VALUE_COUNTER ? &c->counter : &c->number;
}

static sk_rc check(const struct sk_agg *agg, const struct ArrowSchema *column, struct sk_err *err) {
    const char *f = column->dictionary ? column->dictionary->format : column->format;
    bool several = agg->kind == SK_AGG_APPROX_QUANTILES,
         quantiles = agg->kind == SK_AGG_QUANTILE || several;
    if (!agg->name || strlen(agg->name) >= sizeof((struct sk_collect *)NULL)->name)
        return SK_ERR(err, SK_EINVAL, "an aggregate without a name, or one that is too long");
    for (uint32_t i = 0; quantiles && i < (several ? agg->k : 1); i++) {
        double q = several ? agg->qs[i] : agg->q;
        if (!(q >= 0 && q <= 1))
            return SK_ERR(err, SK_EINVAL, "'%s': quantile %g; from 0 to 1", agg->name, q);
    }
    if (!sk_agg_takes(agg->kind, f) || (agg->flatten && strcmp(f, "+l") != 0))
        return SK_ERR(
            err, SK_EINVAL,
            "'%s': this aggregate of column '%.200s' of Arrow format '%.50s' is not possible",
            agg->name, column->name ? column->name : "", f);
    return SK_OK;
}

static sk_rc create_values(struct sk_collect *c, struct sk_err *err) {
    static const uint32_t keys[2] = {0, 1};
    struct sk_agg aggs[2] = {
        {.kind = SK_AGG_SUM, .column = 2, .ignore_nulls = true, .name = "count"},
        {.kind = SK_AGG_FIRST, .column = 3, .name = "value"}};
    SK_TRY(sk_groupby_create(c->by_bytes ? &c->bytes_batch : &c->batch, keys, 2, aggs,
                             c->by_bytes ? 2 : 1, &c->values, err));
    c->values->zeros_as_seen = true;
    return SK_OK;
}

sk_rc sk_collect_create(const struct sk_agg *agg, const struct ArrowSchema *column, bool one,
                        struct sk_collect **out, struct sk_err *err) {
    struct sk_key_col type;
    SK_TRY(check(agg, column, err));
    if (agg->flatten) column = column->children[0];
    struct sk_collect *c = sk_calloc(SK_TAG_KERNEL, sizeof *c);
    if (!c) return NO_MEMORY;
    c->agg = *agg;
    c->adaptive = one && agg->kind == SK_AGG_APPROX_QUANTILES;
    if (c->adaptive) c->agg.ignore_nulls = true; /* a null stands for `drop` */
    snprintf(c->name, sizeof c->name, "%s", agg->name);
    snprintf(c->value_name, sizeof c->value_name, "%s",
             agg->value_name ? agg->value_name : "value");
    c->counted = sk_agg_facts(agg->kind)->state == SK_STATE_PAIRS;
    c->by_bytes = c->counted && !sk_key_type(&type, column->dictionary ? column->dictionary->format
                                                                       : column->format);
    c->value_at = c->by_bytes ? 3 : 1;
    set_schemas(c, column);
    sk_rc rc = c->counted ? create_values(c, err) : SK_OK;
    if (!rc && agg->kind == SK_AGG_APPROX_QUANTILES &&
        !(c->qs = sk_memdup(SK_TAG_KERNEL, agg->qs, agg->k * sizeof *c->qs)))
        rc = NO_MEMORY;
    if (rc) sk_collect_destroy(c);
    else *out = c;
    return rc;
}

static void drop_built(struct sk_collect *c) {
    sk_held_free(&c->held);
    sk_free(c->offsets);
    sk_free(c->numbers);
    sk_free(c->valid);
    c->offsets = NULL;
    c->numbers = NULL;
    c->valid = NULL;
}

void sk_collect_clear(struct sk_collect *c) {
    drop_built(c);
    for (uint32_t i = 0; i < c->blocks.n; i++) sk_held_free(&c->blocks.p[i]);
    sk_vec_free(&c->blocks);
    sk_vec_free(&c->ids);
    sk_vec_free(&c->seen);
    c->kept = 0;
    c->drop = 0;
    if (c->values) sk_groupby_clear(c->values);
}

uint64_t sk_collect_bytes(const struct sk_collect *c) {
    return c->counted ? sk_groupby_bytes(c->values, NULL)
                      : c->kept + 2 * sizeof(uint32_t) * (uint64_t)c->ids.n;
}

void sk_collect_destroy(struct sk_collect *c) {
    if (!c) return;
    sk_collect_clear(c);
    sk_groupby_destroy(c->values);
    sk_free(c->qs);
    sk_free(c);
}

/* ---- adding values
 * ---------------------------------------------------------------------------- */

/* Sets index[0, *n) to the rows that are not null (nor NaN, where NaN counts as null). */
static sk_rc rows_with_values(const struct sk_collect *c, const struct ArrowArray *batch,
                              uint32_t *index, uint64_t *n, struct sk_err *err) {
    const struct ArrowArray *v = batch->children[1];
    struct sk_key_col type;
    struct sk_keys *k = NULL;
    if (sk_key_type(&type, (c->item.dictionary ? c->item.dictionary : &c->item)->format))
        SK_TRY(sk_keys_create(&c->batch, batch, &(struct sk_key){.column = 1}, 1, &k, err));
    const uint8_t *bits =
        !k && v->null_count && v->n_buffers && c->item.format[1] != 'u' ? v->buffers[0] : NULL;
    *n = 0;
    for (int64_t i = 0; i < batch->length; i++) {
        int64_t at = k                                      ? sk_key_at(&k->col[0], (uint64_t)i)
                     : !bits || sk_bit(bits, v->offset + i) ? i
                                                            : -1;
        if (at >= 0 && !(k && c->agg.nan_is_null && sk_key_class(&k->col[0], at) == SK_CLASS_NAN))
            index[(*n)++] = (uint32_t)i;
    }
    sk_keys_destroy(k);
    return SK_OK;
}

/* FIRST: selects the first row of each group that has no value yet, of n rows. An id is below
 * 2^32. */
static sk_rc first_rows(struct sk_collect *c, const uint32_t *ids, uint32_t *index, uint64_t *n,
                        struct sk_err *err) {
    uint64_t kept = 0;
    for (uint64_t i = 0; i < *n; i++) {
        uint32_t group = ids[index[i]];
        while (c->seen.n <= group)
            if (!sk_vec_push(&c->seen, SK_TAG_KERNEL, false)) return NO_MEMORY;
        if (!c->seen.p[group]) index[kept++] = index[i];
        c->seen.p[group] = true;
    }
    *n = kept;
    return SK_OK;
}

/* Adds values of a type without order, which are told apart by their bytes. */
static sk_rc append_by_bytes(struct sk_collect *c, const struct ArrowArray *batch,
                             struct sk_err *err) {
    const void *none[1] = {NULL};
    int32_t *offsets;
    uint8_t *bytes;
    SK_TRY(sk_value_bytes(&c->fields[1], batch->children[1], &offsets, &bytes, err));
    const void *buffers[3] = {NULL, offsets, bytes};
    struct ArrowArray of_bytes = {.length = batch->length, .n_buffers = 3, .buffers = buffers},
                      *children[4] = {batch->children[0], &of_bytes, batch->children[2],
                                      batch->children[1]};
    struct ArrowArray all = {.length = batch->length,
                             .n_buffers = 1,
                             .buffers = none,
                             .n_children = 4,
                             .children = children};
    sk_rc rc = sk_groupby_update(c->values, &c->bytes_batch, &all, err);
    sk_free(offsets);
    sk_free(bytes);
    return rc;
}

static sk_rc append(struct sk_collect *c, const struct ArrowArray *batch, struct sk_err *err) {
    struct sk_block_plan *plan;
    struct sk_held h;
    uint64_t size, n = (uint64_t)batch->length;
    if (!n) return SK_OK;
    if (c->by_bytes) return append_by_bytes(c, batch, err);
    if (c->counted) return sk_groupby_update(c->values, &c->batch, batch, err);
    if (n > UINT32_MAX - c->ids.n)
        return SK_ERR(err, SK_EINVAL, "'%s': more than 2^32 - 1 values", c->name);
    SK_TRY(sk_block_measure(&c->batch, batch, &plan, &size, err));
    SK_TRY(sk_held_make(&h, plan, size, err));
    if (!sk_vec_reserve(&c->ids, SK_TAG_KERNEL, c->ids.n + n) ||
        !sk_vec_push(&c->blocks, SK_TAG_KERNEL, h)) {
        sk_held_free(&h);
        return NO_MEMORY;
    }
    memcpy(c->ids.p + c->ids.n, h.array.children[0]->buffers[1], n * sizeof *c->ids.p);
    c->ids.n += (uint32_t)n;
    c->kept += size;
    return SK_OK;
}

/* Adds values `v` to groups `ids`, each counts[i] times (NULL: once). */
static sk_rc add(struct sk_collect *c, struct ArrowArray v, const uint32_t *ids,
                 const int64_t *counts, struct sk_err *err) {
    const void *none[1] = {NULL}, *of_ids[2] = {NULL, ids}, *of_counts[2] = {NULL, counts};
    size_t n = (size_t)v.length;
    int64_t *ones = counts ? NULL : sk_alloc_large(SK_TAG_KERNEL, n * sizeof *ones);
    bool first = c->agg.kind == SK_AGG_FIRST, some_only = c->agg.ignore_nulls || first;
    uint32_t *index = some_only ? sk_alloc_large(SK_TAG_KERNEL, n * sizeof *index) : NULL;
    struct sk_held some = {.bytes = NULL};
    sk_rc rc;
    if ((!counts && !ones) || (some_only && !index)) SK_GO(NO_MEMORY);
    for (size_t i = 0; ones && i < n; i++) ones[i] = 1;
    if (ones) of_counts[1] = ones;
    struct ArrowArray group = {.length = v.length, .n_buffers = 2, .buffers = of_ids},
                      count = {.length = v.length, .n_buffers = 2, .buffers = of_counts};
    struct ArrowArray *children[3] = {&group, &v, &count};
    struct ArrowArray batch = {
        .length = v.length, .n_buffers = 1, .buffers = none, .n_children = 3, .children = children};
    uint64_t valid = n, size;
    struct sk_block_plan *plan;
    if (c->agg.ignore_nulls) SK_GO(rows_with_values(c, &batch, index, &valid, err));
    else
        for (uint32_t i = 0; first && i < n; i++) index[i] = i;
    if (first) SK_GO(first_rows(c, ids, index, &valid, err));
    if (valid < n) {
        SK_GO(sk_block_measure_rows(&c->batch, &batch, index, valid, &plan, &size, err));
        SK_GO(sk_held_make(&some, plan, size, err));
    }
    rc = append(c, valid < n ? &some.array : &batch, err);
out:
    sk_held_free(&some);
    sk_free(index);
    sk_free(ones);
    return rc;
}

static struct ArrowArray slice(const struct ArrowArray *a, int64_t offset, int64_t n) {
    struct ArrowArray v = *a;
    v.offset += offset;
    v.length = n;
    if (v.null_count > 0) v.null_count = -1;
    return v;
}

static double number_at(const struct sk_key_col *col, int64_t at) {
    const uint8_t *p = col->data + at * col->width;
    if (col->kind == SK_KEY_INT) return (double)sk_load_signed(p, col->width);
    return col->kind == SK_KEY_UINT ? (double)sk_load(p, col->width)
                                    : sk_float_value(p, col->width);
}

/* Rounds to the nearest double with 12 bits behind the leading one: one of 4,096 for each power of
 * two. */
static double coarse(double d) {
    const int drop = 52 - 12;
    uint64_t bits;
    double r;
    if (!__builtin_isfinite(d)) return d;
    memcpy(&bits, &d, 8);
    bits = (bits + (UINT64_C(1) << (drop - 1))) & ~((UINT64_C(1) << drop) - 1);
    memcpy(&r, &bits, 8);
    return __builtin_isfinite(r) ? r : d;
}

/* ---- quantiles of all rows: as many bits as fit ---------------------------------------------- */

enum { KEPT = 8192, DROP_MOST = 52 - 13, PIECE = 2 * KEPT };

static sk_rc order_values(struct sk_collect *c, uint64_t groups, struct sk_err *err);

static double cut(double d, int drop) {
    uint64_t bits;
    if (!__builtin_isfinite(d)) return d;
    memcpy(&bits, &d, 8);
    bits = bits >> drop << drop;
    memcpy(&d, &bits, 8);
    return d;
}

/* Returns the fewest bits, at least `drop`, without which at most KEPT of n sorted values are
 * distinct; at most DROP_MOST. */
static int bits_to_drop(const double *v, int64_t n, int drop) {
    int64_t differ[64] = {0}, distinct = 1; /* neighbours, by the highest bit that differs */
    int d = 64;
    for (int64_t i = 1; i < n; i++) {
        uint64_t a, b;
        memcpy(&a, &v[i - 1], 8);
        memcpy(&b, &v[i], 8);
        if (a != b) differ[63 - __builtin_clzll(a ^ b)]++;
    }
    while (d > drop && distinct + differ[d - 1] <= KEPT) distinct += differ[--d];
    return SK_MIN(d, DROP_MOST);
}

static sk_rc append(struct sk_collect *c, const struct ArrowArray *batch, struct sk_err *err);

/* Makes the values of all rows distinct in their first bits only, as few bits less as are needed
 * for at most KEPT values, at least `drop` bits less. So what is kept depends on nothing but the
 * values. The number of bits is the count of a null, which goes along in partial results. */
static sk_rc settle(struct sk_collect *c, int drop, struct sk_err *err) {
    const void *none[1] = {NULL}, *buffers[3][2] = {{NULL}};
    struct ArrowArray columns[3], *children[3];
    uint32_t *group = NULL;
    double *values = NULL;
    int64_t *counts = NULL;
    uint8_t *valid = NULL;
    sk_rc rc = order_values(c, 1, err);
    if (rc) return rc;
    const struct ArrowArray *held = &c->held.array;
    int64_t n = held->length - (c->drop > 0);
    const double *v = (const double *)held->children[1]->buffers[1] + held->children[1]->offset;
    drop = bits_to_drop(v, n, drop);
    if (!drop) goto out;
    group = sk_calloc(SK_TAG_KERNEL, (size_t)(n + 1) * sizeof *group);
    values = sk_alloc(SK_TAG_KERNEL, (size_t)(n + 1) * sizeof *values);
    counts = sk_alloc(SK_TAG_KERNEL, (size_t)(n + 1) * sizeof *counts);
    valid = sk_alloc(SK_TAG_KERNEL, (size_t)n / 8 + 1);
    if (!group || !values || !counts || !valid) SK_GO(NO_MEMORY);
    for (int64_t i = 0; i < n; i++) values[i] = cut(v[i], drop);
    memcpy(counts, (const int64_t *)held->children[2]->buffers[1] + held->children[2]->offset,
           (size_t)n * sizeof *counts);
    values[n] = 0;
    counts[n] = drop;
    memset(valid, 0xFF, (size_t)n / 8 + 1);
    valid[n / 8] &= (uint8_t)~(1u << (n & 7));
    buffers[0][1] = group;
    buffers[1][0] = valid;
    buffers[1][1] = values;
    buffers[2][1] = counts;
    for (int i = 0; i < 3; i++) {
        columns[i] = (struct ArrowArray){
            .length = n + 1, .null_count = i == 1, .n_buffers = 2, .buffers = buffers[i]};
        children[i] = &columns[i];
    }
    struct ArrowArray batch = {
        .length = n + 1, .n_buffers = 1, .buffers = none, .n_children = 3, .children = children};
    sk_groupby_clear(c->values);
    c->drop = drop;
    rc = append(c, &batch, err);
out:
    drop_built(c);
    sk_free(group);
    sk_free(values);
    sk_free(counts);
    sk_free(valid);
    return rc;
}

static bool is_full(const struct sk_collect *c) {
    return c->adaptive && c->drop < DROP_MOST &&
           sk_groupby_groups(c->values) > KEPT + (uint64_t)(c->drop > 0);
}

/* Returns how many bits are dropped in a partial result: the count of the null among its pairs. */
static int dropped(struct ArrowArray lists, const struct ArrowArray *values,
                   const int64_t *counts) {
    const int32_t *offsets = (const int32_t *)lists.buffers[1] + lists.offset;
    const uint8_t *valid = values->null_count ? values->buffers[0] : NULL;
    int64_t most = 0;
    for (int32_t i = offsets[0]; valid && i < offsets[lists.length]; i++)
        if (!sk_bit(valid, values->offset + i)) most = SK_MAX(most, counts[i]);
    return (int)SK_MIN(most, (int64_t)DROP_MOST);
}

static sk_rc add_coarse(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                        int64_t rows, const uint32_t *ids, struct sk_err *err) {
    const void *none[1] = {NULL};
    struct ArrowSchema *fields[1] = {&c->column},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray v = slice(column, offset, rows), *children[1] = {&v};
    struct ArrowArray batch = {
        .length = rows, .n_buffers = 1, .buffers = none, .n_children = 1, .children = children};
    struct sk_keys *k = NULL;
    double *d = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *d);
    uint8_t *valid = sk_calloc(SK_TAG_KERNEL, (size_t)rows / 8 + 1);
    const void *buffers[2] = {valid, d};
    sk_rc rc;
    if (!d || !valid) SK_GO(NO_MEMORY);
    SK_GO(sk_keys_create(&schema, &batch, &(struct sk_key){.column = 0}, 1, &k, err));
    for (int64_t i = 0; i < rows; i++) {
        int64_t at = sk_key_at(&k->col[0], (uint64_t)i);
        double is = at < 0 ? 0 : number_at(&k->col[0], at) + 0.0; /* 0.0 for -0.0 */
        d[i] = c->adaptive ? cut(is, c->drop) : coarse(is);
        valid[i / 8] |= (uint8_t)((at >= 0) << (i & 7));
    }
    rc = add(
        c,
        (struct ArrowArray){.length = rows, .null_count = -1, .n_buffers = 2, .buffers = buffers},
        ids, NULL, err);
out:
    sk_keys_destroy(k);
    sk_free(d);
    sk_free(valid);
    return rc;
}

/* Adds the items of lists to the groups of the lists. items: the array that has the items; counts:
 * how often each item counts, or NULL (once). */
static sk_rc add_items(struct sk_collect *c, struct ArrowArray lists, struct ArrowArray items,
                       const int64_t *counts, const uint32_t *ids, struct sk_err *err) {
    const int32_t *offsets = (const int32_t *)lists.buffers[1] + lists.offset;
    int64_t rows = lists.length;
    if (!rows || offsets[rows] == offsets[0]) return SK_OK;
    int64_t at = offsets[0], n = offsets[rows] - at;
    uint32_t *each = sk_alloc_large(SK_TAG_KERNEL, (size_t)n * sizeof *each);
    if (!each) return NO_MEMORY;
    for (int64_t i = 0; i < rows; i++)
        for (int32_t j = offsets[i]; j < offsets[i + 1]; j++) each[j - at] = ids[i];
    sk_rc rc = add(c, slice(&items, at, n), each, counts ? counts + at : NULL, err);
    sk_free(each);
    return rc;
}

sk_rc sk_collect_add(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                     int64_t rows, const uint32_t *ids, struct sk_err *err) {
    drop_built(c);
    if (c->agg.flatten)
        return add_items(c, slice(column, offset, rows), *column->children[0], NULL, ids, err);
    bool coarse = c->agg.kind == SK_AGG_APPROX_QUANTILES;
    for (int64_t at = 0, n; coarse && at < rows; at += n) {
        n = c->adaptive && c->drop < DROP_MOST ? SK_MIN(rows - at, (int64_t)PIECE) : rows - at;
        SK_TRY(add_coarse(c, column, offset + at, n, ids + at, err));
        if (is_full(c)) SK_TRY(settle(c, c->drop, err));
    }
    if (coarse) return SK_OK;
    return add(c, slice(column, offset, rows), ids, NULL, err);
}

sk_rc sk_collect_merge(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                       int64_t rows, const uint32_t *ids, struct sk_err *err) {
    const struct ArrowArray *child = column->children[0];
    struct ArrowArray lists = slice(column, offset, rows);
    drop_built(c);
    if (!c->counted) return add_items(c, lists, *child, NULL, ids, err);
    const struct ArrowArray *count = child->children[1];
    struct ArrowArray values = slice(child->children[0], child->offset, child->length);
    const int64_t *counts = (const int64_t *)count->buffers[1] + count->offset + child->offset;
    SK_TRY(add_items(c, lists, values, counts, ids, err));
    if (!c->adaptive) return SK_OK;
    int drop = SK_MAX(dropped(lists, &values, counts), c->drop);
    return drop || is_full(c) ? settle(c, drop, err) : SK_OK;
}

/* ---- results
 * ---------------------------------------------------------------------------------- */

/* Computes where the values of each group begin once they are in the order of the groups. */
static sk_rc set_offsets(struct sk_collect *c, const uint32_t *group, uint64_t n, uint64_t groups,
                         struct sk_err *err) {
    if (n > INT32_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "'%s': more than 2^31 values in one batch; aggregate fewer groups at a time",
                      c->name);
    c->offsets = sk_calloc(SK_TAG_KERNEL, (size_t)(groups + 1) * sizeof *c->offsets);
    if (!c->offsets) return NO_MEMORY;
    for (uint64_t i = 0; i < n; i++) c->offsets[group[i] + 1]++;
    for (uint64_t g = 0; g < groups; g++) c->offsets[g + 1] += c->offsets[g];
    return SK_OK;
}

/* Makes a block of a list's rows in the order of their groups. one: one row for each group, null if
 * the group has no value. */
static sk_rc order_list(struct sk_collect *c, bool one, uint64_t groups, struct sk_err *err) {
    sk_rc rc;
    uint64_t size, row = 0;
    struct sk_block_plan *plan;
    uint64_t rows = one ? groups : c->ids.n;
    struct sk_row_at *places = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *places);
    const struct ArrowArray **arrays = sk_alloc(SK_TAG_KERNEL, c->blocks.n * sizeof *arrays);
    int32_t *at = NULL;
    if (!places || !arrays) SK_GO(NO_MEMORY);
    SK_GO(set_offsets(c, c->ids.p, c->ids.n, groups, err));
    at = sk_memdup(SK_TAG_KERNEL, c->offsets, (size_t)(groups + 1) * sizeof *at);
    if (!at) SK_GO(NO_MEMORY);
    for (uint64_t g = 0; one && g < groups; g++) places[g] = (struct sk_row_at){SK_ROW_NONE, 0};
    for (uint32_t b = 0; b < c->blocks.n; b++) {
        arrays[b] = &c->blocks.p[b].array;
        for (int64_t i = 0; i < arrays[b]->length; i++) {
            uint32_t group = c->ids.p[row++];
            places[one ? (int64_t)group : at[group]++] = (struct sk_row_at){b, (uint32_t)i};
        }
    }
    SK_GO(sk_block_measure_places(&c->batch, &(struct sk_block_side){arrays, c->blocks.n, places},
                                  1, NULL, rows, &plan, &size, err));
    rc = sk_held_make(&c->held, plan, size, err);
out:
    sk_free(places);
    sk_free(arrays);
    sk_free(at);
    return rc;
}

/* Makes a block of the distinct values in the order of their groups. */
static sk_rc order_values(struct sk_collect *c, uint64_t groups, struct sk_err *err) {
    bool sorted = c->agg.kind == SK_AGG_QUANTILE || c->agg.kind == SK_AGG_APPROX_QUANTILES;
    struct sk_block_plan *plan;
    struct sk_held seen = {.bytes = NULL};
    uint32_t *index = NULL;
    int32_t *at = NULL;
    uint64_t size;
    sk_rc rc;
    SK_TRY(sk_groupby_build(c->values, sorted ? SK_RESULT_SORTED : SK_RESULT_AS_SEEN, err));
    SK_TRY(sk_groupby_measure_range(c->values, 0, sk_groupby_groups(c->values), &plan, &size, err));
    SK_TRY(sk_held_make(sorted ? &c->held : &seen, plan, size, err));
    const struct sk_held *h = sorted ? &c->held : &seen;
    const uint32_t *group = h->array.children[0]->buffers[1];
    uint64_t n = (uint64_t)h->array.length;
    SK_GO(set_offsets(c, group, n, groups, err));
    if (sorted) return SK_OK;
    index = sk_alloc_large(SK_TAG_KERNEL, (size_t)n * sizeof *index);
    at = sk_memdup(SK_TAG_KERNEL, c->offsets, (size_t)(groups + 1) * sizeof *at);
    if (!index || !at) SK_GO(NO_MEMORY);
    for (uint64_t i = 0; i < n; i++) index[at[group[i]]++] = (uint32_t)i;
    SK_GO(sk_block_measure_rows(&seen.schema, &seen.array, index, n, &plan, &size, err));
    rc = sk_held_make(&c->held, plan, size, err);
out:
    sk_held_free(&seen);
    sk_free(index);
    sk_free(at);
    return rc;
}

/* The value of rank `rank` among values [from, ...), value i counted counts[i] times. */
static double value_at(const struct sk_key_col *col, const int64_t *counts, int64_t from,
                       int64_t rank) {
    while (rank >= counts[from]) rank -= counts[from++];
    return number_at(col, sk_key_at(col, (uint64_t)from));
}

/* Computes the quantile of values [from, to), linear between neighbours by Arrow's formula. false:
 * the quantile is null. */
static bool quantile(const struct sk_collect *c, const struct sk_key_col *col,
                     const int64_t *counts, int64_t from, int64_t to, double *out) {
    int64_t n = 0, nans = 0, nulls = 0; /* NaN is left out, as Arrow does, or counts as null */
    for (int64_t i = from; i < to; i++) {
        enum sk_key_class class = sk_key_class(col, sk_key_at(col, (uint64_t)i));
        *(class == SK_CLASS_VALUE ? &n : class == SK_CLASS_NAN ? &nans : &nulls) += counts[i];
    }
    if (!n || ((nulls || (nans && c->agg.nan_is_null)) && !c->agg.ignore_nulls)) return false;
    double at = c->agg.q * (double)(n - 1);
    int64_t low = SK_MIN((int64_t)at, n - 1);
    double a = value_at(col, counts, from, low), part = at - (double)low;
    *out =
        part > 0 ? part * value_at(col, counts, from, SK_MIN(low + 1, n - 1)) + (1 - part) * a : a;
    return true;
}

static sk_rc build_numbers(struct sk_collect *c, uint64_t groups, struct sk_err *err) {
    c->numbers = sk_calloc(SK_TAG_KERNEL, (size_t)(groups + 1) * 8);
    c->valid = sk_calloc(SK_TAG_KERNEL, (size_t)groups / 8 + 1);
    if (!c->numbers || !c->valid) return NO_MEMORY;
    struct sk_keys *k = NULL;
    bool is_quantile = c->agg.kind == SK_AGG_QUANTILE;
    if (is_quantile)
        SK_TRY(sk_keys_create(&c->held.schema, &c->held.array, &(struct sk_key){.column = 1}, 1, &k,
                              err));
    const int64_t *counts = c->held.array.children[2]->buffers[1];
    for (uint64_t g = 0; g < groups; g++) {
        int64_t n = c->offsets[g + 1] - c->offsets[g];
        bool valid = true;
        if (is_quantile)
            valid = quantile(c, &k->col[0], counts, c->offsets[g], c->offsets[g + 1],
                             (double *)c->numbers + g);
        else ((int64_t *)c->numbers)[g] = n;
        c->valid[g / 8] |= (uint8_t)(valid << (g & 7));
    }
    sk_keys_destroy(k);
    c->buffers[0] = is_quantile ? c->valid : NULL;
    c->buffers[1] = c->numbers;
    c->out = (struct ArrowArray){.length = (int64_t)groups,
                                 .null_count = is_quantile ? -1 : 0,
                                 .n_buffers = 2,
                                 .buffers = c->buffers};
    return SK_OK;
}

/* Builds k quantiles for each group that has values, in the order of `qs`; null for a group
 * without. */
static sk_rc build_quantiles(struct sk_collect *c, uint64_t groups, struct sk_err *err) {
    struct sk_keys *k;
    int32_t *offsets = sk_calloc(SK_TAG_KERNEL, (size_t)(groups + 1) * sizeof *offsets);
    double *numbers = c->numbers =
        sk_calloc(SK_TAG_KERNEL, (size_t)groups * c->agg.k * sizeof *numbers);
    const int64_t *counts = c->held.array.children[2]->buffers[1];
    c->valid = sk_calloc(SK_TAG_KERNEL, (size_t)groups / 8 + 1);
    sk_rc rc = !offsets || !numbers || !c->valid ? NO_MEMORY : SK_OK;
    if (!rc && groups * c->agg.k > INT32_MAX)
        rc = SK_ERR(err, SK_EINVAL, "'%s': more than 2^31 quantiles in one batch", c->name);
    if (!rc)
        rc = sk_keys_create(&c->held.schema, &c->held.array, &(struct sk_key){.column = 1}, 1, &k,
                            err);
    if (rc) {
        sk_free(offsets);
        return rc;
    }
    for (uint64_t g = 0; g < groups; g++) {
        int64_t from = c->offsets[g], n = 0;
        for (int64_t i = from; i < c->offsets[g + 1]; i++)
            if (sk_key_class(&k->col[0], sk_key_at(&k->col[0], (uint64_t)i)) == SK_CLASS_VALUE)
                n += counts[i];
        offsets[g + 1] = offsets[g] + (n ? (int32_t)c->agg.k : 0);
        c->valid[g / 8] |= (uint8_t)((n > 0) << (g & 7));
        for (uint32_t i = 0; n && i < c->agg.k; i++)
            numbers[offsets[g] + (int32_t)i] =
                value_at(&k->col[0], counts, from, SK_MIN((int64_t)(c->qs[i] * (double)n), n - 1));
    }
    sk_keys_destroy(k);
    sk_free(c->offsets);
    c->offsets = offsets;
    c->buffers[0] = NULL;
    c->buffers[1] = numbers;
    c->inner =
        (struct ArrowArray){.length = offsets[groups], .n_buffers = 2, .buffers = c->buffers};
    return SK_OK;
}

/* Keeps only the k most frequent values of each group. */
static sk_rc keep_most(struct sk_collect *c, uint64_t groups, struct sk_err *err) {
    const int64_t *counts = c->held.array.children[2]->buffers[1];
    uint32_t n = 0,
             *best = sk_alloc_large(SK_TAG_KERNEL, (size_t)c->held.array.length * sizeof *best);
    struct sk_block_plan *plan;
    struct sk_held kept;
    uint64_t size;
    if (!best) return NO_MEMORY;
    for (uint64_t g = 0; g < groups; g++) {
        int32_t from = c->offsets[g],
                to = g + 1 < groups ? c->offsets[g + 1] : (int32_t)c->held.array.length;
        uint32_t first = n;
        c->offsets[g] = (int32_t)first;
        for (int32_t i = from; i < to; i++) {
            uint32_t at = n;
            while (at > first && counts[best[at - 1]] < counts[i]) at--;
            if (at - first >= c->agg.k) continue;
            if (n - first < c->agg.k) n++;
            memmove(best + at + 1, best + at, (n - 1 - at) * sizeof *best);
            best[at] = (uint32_t)i;
        }
    }
    c->offsets[groups] = (int32_t)n;
    sk_rc rc = sk_block_measure_rows(&c->held.schema, &c->held.array, best, n, &plan, &size, err);
    if (!rc) rc = sk_held_make(&kept, plan, size, err);
    sk_free(best);
    if (rc) return rc;
    sk_held_free(&c->held);
    c->held = kept;
    return SK_OK;
}

static struct ArrowArray list_array(struct sk_collect *c, int which, struct ArrowArray *child,
                                    int64_t groups) {
    c->list_children[which][0] = child;
    c->list_buffers[0] = NULL;
    c->list_buffers[1] = c->offsets;
    return (struct ArrowArray){.length = groups,
                               .n_buffers = 2,
                               .buffers = c->list_buffers,
                               .n_children = 1,
                               .children = c->list_children[which]};
}

sk_rc sk_collect_build(struct sk_collect *c, bool partial, uint64_t groups,
                       const struct ArrowArray **out, struct sk_err *err) {
    drop_built(c);
    bool one = c->agg.kind == SK_AGG_FIRST && !partial;
    SK_TRY(c->counted ? order_values(c, groups, err) : order_list(c, one, groups, err));
    if (!partial && c->agg.kind == SK_AGG_TOP_K) SK_TRY(keep_most(c, groups, err));
    struct ArrowArray **columns = c->held.array.children;
    int64_t n = (int64_t)groups;
    *out = &c->out;
    if (one) c->out = *columns[1];
    else if ((partial && c->counted) || c->agg.kind == SK_AGG_TOP_K) {
        c->inner_children[0] = columns[c->value_at];
        c->inner_children[1] = columns[2];
        c->inner = (struct ArrowArray){.length = c->held.array.length,
                                       .n_buffers = 1,
                                       .buffers = c->none,
                                       .n_children = 2,
                                       .children = c->inner_children};
        c->out = list_array(c, 0, &c->inner, n);
    } else if (c->agg.kind == SK_AGG_APPROX_QUANTILES) {
        SK_TRY(build_quantiles(c, groups, err));
        c->out = list_array(c, 0, &c->inner, n);
        c->list_buffers[0] = c->valid;
        c->out.null_count = -1;
    } else if (!c->counted || c->agg.kind == SK_AGG_UNIQUE)
        c->out = list_array(c, 0, columns[c->value_at], n);
    else if (c->agg.kind == SK_AGG_VALUE_COUNTER) {
        for (int i = 0; i < 2; i++) {
            c->lists[i] = list_array(c, i, columns[i ? 2 : c->value_at], n);
            c->out_children[i] = &c->lists[i];
        }
        c->out = (struct ArrowArray){.length = n,
                                     .n_buffers = 1,
                                     .buffers = c->none,
                                     .n_children = 2,
                                     .children = c->out_children};
    } else return build_numbers(c, groups, err);
    return SK_OK;
}

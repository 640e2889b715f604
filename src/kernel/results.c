/* results.c - makes the results of an aggregation: keys, gathered from the blocks of keys, and
 * columns of results or of states. The block layer lays them out. */
#include "kernel/groupby.h"

/* Sorts the groups by key: order[i] is the group at place i. */
static sk_rc sort_groups(struct sk_groupby *g, uint32_t *order, struct sk_err *err) {
    struct sk_block_plan *plan = NULL;
    struct sk_keys_block b = {.keys = NULL};
    uint64_t size;
    sk_rc rc;
    SK_TRY(sk_block_measure_places(&g->keys_schema,
                                   &(struct sk_block_side){g->out.blocks, g->blocks.n, g->place}, 1,
                                   NULL, g->n, &plan, &size, err));
    SK_TRY(sk_held_make(&b.held, plan, size, err));
    SK_GO(sk_keys_create(&b.held.schema, &b.held.array, g->all, g->n_keys, &b.keys, err));
    rc = sk_sort(b.keys, order, err);
out:
    sk_keys_block_drop(&b);
    return rc;
}

/* a column of variable-length bytes that is being made */
struct bytes {
    int32_t *offsets;
    uint8_t *p;
    size_t n, cap;
};

static sk_rc bytes_room(struct bytes *b, size_t more, const char *name, struct sk_err *err) {
    if (b->n + more > INT32_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "'%s': more than 2 GiB of states or texts in one batch; aggregate fewer "
                      "groups at a time",
                      name);
    if (b->p && b->n + more <= b->cap) return SK_OK;
    size_t cap = SK_MAX(b->n + more, 2 * b->cap + 256);
    uint8_t *p = sk_realloc(SK_TAG_KERNEL, b->p, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for column '%s'", name);
    b->p = p;
    b->cap = cap;
    return SK_OK;
}

static sk_rc encode_column(struct sk_groupby *g, const struct sk_agg_col *a, const uint32_t *order,
                           const void **buffers, struct sk_err *err) {
    struct bytes b = {.offsets = sk_alloc(SK_TAG_KERNEL, (size_t)(g->n + 1) * 4)};
    sk_rc rc = b.offsets ? SK_OK : SK_NO_GROUPS(g);
    for (uint64_t i = 0; rc == SK_OK && i < g->n; i++) {
        const uint8_t *state = a->states + (order ? order[i] : i) * a->size;
        b.offsets[i] = (int32_t)b.n;
        rc = bytes_room(&b, sk_agg_encoded_max(a, state), a->name, err);
        if (rc == SK_OK) b.n += sk_agg_encode(a, state, b.p + b.n);
    }
    if (b.offsets) b.offsets[g->n] = (int32_t)b.n;
    buffers[1] = b.offsets;
    buffers[2] = b.p;
    return rc;
}

static sk_rc put_value(const struct sk_agg_col *a, const struct sk_agg_value *v, uint64_t i,
                       uint8_t *valid, uint8_t *data, struct bytes *texts, struct sk_err *err) {
    uint32_t width = sk_agg_result_width(a);
    if (!v->null) valid[i / 8] |= (uint8_t)(1u << (i & 7));
    if (a->format[0] == 'b' && !a->format[1]) data[i / 8] |= (uint8_t)((v->raw[0] & 1) << (i & 7));
    else if (a->text && a->format[0] == 'w') {
        if (v->text.n) memcpy(data + i * a->width, v->text.p, v->text.n);
    } else if (a->text) {
        SK_TRY(bytes_room(texts, v->text.n, a->name, err));
        if (v->text.n) memcpy(texts->p + texts->n, v->text.p, v->text.n);
        texts->n += v->text.n;
        if (a->format[0] == 'U' || a->format[0] == 'Z')
            memcpy(data + 8 * (i + 1), &(int64_t){(int64_t)texts->n}, 8);
        else memcpy(data + 4 * (i + 1), &(int32_t){(int32_t)texts->n}, 4);
    } else if (width) memcpy(data + i * width, v->raw, width);
    return SK_OK;
}

static sk_rc finish_column(struct sk_groupby *g, const struct sk_agg_col *a, const uint32_t *order,
                           const void **buffers, int64_t *nulls, struct sk_err *err) {
    size_t each = a->format[0] == 'w' ? a->width : SK_MAX(sk_agg_result_width(a), 8);
    uint8_t *valid = sk_calloc(SK_TAG_KERNEL, (size_t)g->n / 8 + 1),
            *data = sk_calloc(SK_TAG_KERNEL, (size_t)(g->n + 1) * SK_MAX(each, 8));
    struct bytes texts = {.n = 0};
    sk_rc rc = valid && data ? SK_OK : SK_NO_GROUPS(g);
    *nulls = 0;
    for (uint64_t i = 0; rc == SK_OK && i < g->n; i++) {
        struct sk_agg_value v;
        rc = sk_agg_finish(a, a->states + (order ? order[i] : i) * a->size, &v, err);
        if (rc == SK_OK) rc = put_value(a, &v, i, valid, data, &texts, err);
        *nulls += v.null;
    }
    buffers[0] = valid;
    buffers[1] = data;
    buffers[2] = texts.p;
    return rc;
}

static bool room_for_built(struct sk_groupby *g) {
    struct sk_built *b = &g->out;
    b->columns = sk_calloc(SK_TAG_KERNEL, g->n_aggs * sizeof *b->columns);
    b->children = sk_calloc(SK_TAG_KERNEL, g->n_aggs * sizeof *b->children);
    b->buffers = sk_calloc(SK_TAG_KERNEL, 3 * g->n_aggs * sizeof *b->buffers);
    b->keys = sk_alloc(SK_TAG_KERNEL, (size_t)g->n * sizeof *b->keys);
    b->rows = sk_alloc(SK_TAG_KERNEL, (size_t)g->n * sizeof *b->rows);
    b->blocks = sk_calloc(SK_TAG_KERNEL, g->blocks.n * sizeof *b->blocks);
    b->groups = sk_alloc(SK_TAG_KERNEL, (size_t)g->n * sizeof *b->groups);
    b->picks = sk_calloc(SK_TAG_KERNEL, g->n_columns * sizeof *b->picks);
    return b->groups && b->columns && b->children && b->buffers && b->keys && b->rows &&
           b->blocks && b->picks;
}

static int64_t n_buffers_of(const char *f) {
    return f[0] == 'n' ? 0 : !f[1] && strchr("uUzZ", f[0]) ? 3 : 2;
}

static sk_rc build(struct sk_groupby *g, enum sk_result which, uint32_t *order,
                   struct sk_err *err) {
    struct sk_built *b = &g->out;
    bool partial = which == SK_RESULT_PARTIAL;
    if (!room_for_built(g)) return SK_NO_GROUPS(g);
    b->schema = &g->schema[partial];
    for (uint32_t i = 0; i < g->blocks.n; i++) b->blocks[i] = &g->blocks.p[i].held.array;
    if (g->n_keys && g->n && which == SK_RESULT_SORTED) SK_TRY(sort_groups(g, order, err));
    else order = NULL;
    for (uint64_t i = 0; i < g->n; i++) {
        b->keys[i] = g->place[order ? order[i] : i];
        b->rows[i] = (struct sk_row_at){0, (uint32_t)i};
        b->groups[i] = (struct sk_row_at){0, order ? order[i] : (uint32_t)i};
    }
    for (uint32_t i = 0; i < g->n_aggs; i++) {
        const struct sk_agg_col *a = &g->agg[i];
        const struct ArrowArray *built;
        int64_t nulls = 0;
        b->children[i] = &b->columns[i];
        if (g->collect[i]) {
            SK_TRY(sk_collect_build(g->collect[i], partial, g->n, &built, err));
            b->columns[i] = *built;
            continue;
        }
        SK_TRY(partial ? encode_column(g, a, order, b->buffers + 3 * i, err)
                       : finish_column(g, a, order, b->buffers + 3 * i, &nulls, err));
        const char *f = partial ? "z" : a->format;
        b->columns[i] = (struct ArrowArray){.length = (int64_t)g->n,
                                            .null_count = nulls,
                                            .n_buffers = n_buffers_of(f),
                                            .buffers = b->buffers + 3 * i};
    }
    b->array = (struct ArrowArray){.length = (int64_t)g->n,
                                   .n_buffers = 1,
                                   .buffers = b->none,
                                   .n_children = g->n_aggs,
                                   .children = b->children};
    for (uint32_t i = 0; i < g->n_keys; i++) b->picks[i] = (struct sk_block_pick){0, i};
    for (uint32_t i = 0; i < g->n_aggs; i++)
        b->picks[g->n_keys + i] = (struct sk_block_pick){g->collect[i] ? 2 : 1, i};
    return SK_OK;
}

sk_rc sk_groupby_build(struct sk_groupby *g, enum sk_result which, struct sk_err *err) {
    sk_built_drop(&g->out, g->n_aggs);
    uint32_t *order = sk_alloc_large(SK_TAG_KERNEL, (size_t)g->n * sizeof *order);
    if (!order) return SK_NO_GROUPS(g);
    sk_rc rc = build(g, which, order, err);
    sk_free(order);
    return rc;
}

sk_rc sk_groupby_measure_range(struct sk_groupby *g, uint64_t from, uint64_t n,
                               struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) {
    const struct ArrowArray *built = &g->out.array;
    SK_ASSERT(from + n <= g->n && g->out.schema);
    struct sk_block_side sides[3] = {{g->out.blocks, g->blocks.n, g->out.keys + from},
                                     {&built, 1, g->out.rows + from},
                                     {&built, 1, g->out.groups + from}};
    return sk_block_measure_places(g->out.schema, sides, 3, g->out.picks, n, plan, size, err);
}

sk_rc sk_groupby_measure(struct sk_groupby *g, bool partial, struct sk_block_plan **plan,
                         uint64_t *size, struct sk_err *err) {
    SK_TRY(sk_groupby_build(g, partial ? SK_RESULT_PARTIAL : SK_RESULT_SORTED, err));
    return sk_groupby_measure_range(g, 0, g->n, plan, size, err);
}

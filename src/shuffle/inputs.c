/* inputs.c - batches for cuts, merges and reduces, opened in place. */
#include "base/containers/vec.h"
#include "shuffle/inputs.h"
#include "shuffle/work_int.h"

#define TAG SK_TAG_KERNEL

struct opened { /* a batch that the caller gave, or one in a block */
    uint32_t side;
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    struct ArrowSchema own_schema;
    struct ArrowArray own_array;
};

struct sk_inputs {
    struct sk_what *what;
    SK_VEC(struct opened *) batches;
    SK_VEC(struct sk_slice) slices;
    SK_VEC(const uint32_t *) parts;
    const struct ArrowArray **list; /* the arrays of all batches, for the slices */
    const struct ArrowSchema **schemas;
    /* number of batches in slices; the bounds or the match reports are behind them */
    uint32_t n;
    bool given; /* some batches were given as structs, so the caller has cast them already */
    bool keys;  /* some slices are the cast keys of a join */
    bool beside;
};

sk_rc sk_inputs_create(struct sk_bytes what, struct sk_inputs **out, struct sk_err *err) {
    struct sk_inputs *in = sk_calloc(TAG, sizeof *in);
    if (!in) return SK_ERR(err, SK_ENOMEM, "no memory for the input of an exchange's task");
    sk_rc rc = sk_what_read(what, &in->what, err);
    if (rc) sk_free(in);
    else *out = in;
    return rc;
}

void sk_inputs_destroy(struct sk_inputs *in) {
    if (!in) return;
    for (uint32_t i = 0; i < in->batches.n; i++) {
        struct opened *b = in->batches.p[i];
        if (b->own_schema.release) b->own_schema.release(&b->own_schema);
        if (b->own_array.release) b->own_array.release(&b->own_array);
        sk_free(b);
    }
    sk_what_destroy(in->what);
    sk_vec_free(&in->batches);
    sk_vec_free(&in->slices);
    sk_vec_free(&in->parts);
    sk_free(in->list);
    sk_free(in->schemas);
    sk_free(in);
}

const struct sk_what *sk_inputs_what(const struct sk_inputs *in) { return in->what; }

/* ---- adding batches ---- */

sk_rc sk_inputs_slice(struct sk_inputs *in, const struct sk_input_slice *s, struct sk_err *err) {
    bool joins = in->what->kind == SK_WHAT_JOIN;
    struct sk_slice slice = {.run = s->run,
                             .partition = s->partition,
                             .side = joins ? s->side : 0,
                             .columns_only = s->columns_only};
    if (slice.side >= SK_JOIN_SIDES) return SK_ERR(err, SK_EINVAL, "side %u of a join", slice.side);
    in->keys |= slice.side >= SK_JOIN_KEYS;
    return sk_vec_push(&in->slices, TAG, slice) && sk_vec_push(&in->parts, TAG, s->parts)
               ? SK_OK
               : SK_ERR(err, SK_ENOMEM, "no memory for %u slices", in->slices.n);
}

void sk_inputs_beside(struct sk_inputs *in) { in->beside = true; }

static sk_rc push(struct sk_inputs *in, struct opened **out, struct sk_err *err) {
    struct opened *b = sk_calloc(TAG, sizeof *b);
    if (!b || !sk_vec_push(&in->batches, TAG, b)) {
        sk_free(b);
        return SK_ERR(err, SK_ENOMEM, "no memory for %u batches", in->batches.n);
    }
    if (!in->beside) {
        struct sk_slice *last = in->slices.n ? &in->slices.p[in->slices.n - 1] : NULL;
        if (last) last->n++, b->side = last->side;
        in->n++;
    }
    *out = b;
    return SK_OK;
}

sk_rc sk_inputs_batch(struct sk_inputs *in, const struct ArrowSchema *schema,
                      const struct ArrowArray *array, struct sk_err *err) {
    struct opened *b = NULL;
    SK_TRY(push(in, &b, err));
    b->schema = schema;
    b->array = array;
    in->given = true;
    return SK_OK;
}

sk_rc sk_inputs_blocks(struct sk_inputs *in, struct sk_bytes blocks, struct sk_err *err) {
    const uint8_t *p = blocks.p;
    for (size_t left = blocks.n; left;) {
        struct sk_block_info info;
        struct opened *b = NULL;
        SK_TRY(sk_block_info(p, left, &info, err));
        SK_TRY(push(in, &b, err));
        SK_TRY(sk_block_export(p, left, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                               &b->own_schema, &b->own_array, err));
        b->schema = &b->own_schema;
        b->array = &b->own_array;
        size_t step = SK_MIN((size_t)SK_ALIGN(info.total_bytes, SK_BLOCK_ALIGN), left);
        p += step;
        left -= step;
    }
    return SK_OK;
}

/* ---- do the batches fit together? ---- */

/* True if all batches of a side have one schema. first: that of each side; NULL: it has no batch.
 */
static bool of_one_schema(const struct sk_inputs *in,
                          const struct ArrowSchema *first[SK_JOIN_SIDES]) {
    bool same = true;
    memset(first, 0, SK_JOIN_SIDES * sizeof *first);
    for (uint32_t i = 0; i < in->n && same; i++) {
        const struct opened *b = in->batches.p[i];
        if (!first[b->side]) first[b->side] = b->schema;
        else same = sk_block_same_schema(first[b->side], b->schema);
    }
    return same;
}

/* In bounds the keys' columns have other names, and whether nulls are possible does not matter. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b) {
    struct ArrowSchema x = *a, y = *b;
    x.name = y.name = "";
    x.flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    y.flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    return sk_block_same_schema(&x, &y);
}

static sk_rc bounds_fit(const struct sk_inputs *in, bool *fit, struct sk_err *err) {
    const struct ArrowSchema *schema = in->batches.p[0]->schema,
                             *bounds = in->batches.p[in->n]->schema;
    *fit = true;
    for (uint32_t i = 0; i < in->what->n_keys && *fit; i++) {
        uint32_t column;
        SK_TRY(sk_column_find(schema, in->what->keys[i].name, &column, err));
        *fit = i < bounds->n_children && same_type(schema->children[column], bounds->children[i]);
    }
    return SK_OK;
}

/* Lays out the arrays to which the slices point, and behind them those that are of no slice. */
static sk_rc lay_out(struct sk_inputs *in, struct sk_err *err) {
    uint32_t n = in->batches.n;
    in->list = sk_alloc(TAG, (n + UINT64_C(1)) * sizeof *in->list);
    in->schemas = sk_alloc(TAG, (n + UINT64_C(1)) * sizeof *in->schemas);
    if (!in->list || !in->schemas) return SK_ERR(err, SK_ENOMEM, "no memory for %u batches", n);
    for (uint32_t i = 0; i < n; i++) {
        in->list[i] = in->batches.p[i]->array;
        in->schemas[i] = in->batches.p[i]->schema;
    }
    for (uint32_t i = 0, at = 0; i < in->slices.n; at += in->slices.p[i++].n) {
        in->slices.p[i].batches = in->list + at;
        in->slices.p[i].schemas = in->schemas + at;
    }
    return SK_OK;
}

/* An aggregation accepts batches of two schemas: rows and states. A join has one for each side. */
static bool go_together(const struct sk_inputs *in) {
    const struct ArrowSchema *sides[SK_JOIN_SIDES];
    if (in->what->kind == SK_WHAT_JOIN)
        return in->keys || (of_one_schema(in, sides) && sk_work_joins(in->what, sides));
    if (in->given) return true;
    return in->what->kind == SK_WHAT_AGGREGATE ? sk_work_aggregates(in->what, in->schemas, in->n)
                                               : of_one_schema(in, sides);
}

/* Says which schemas do not go together. */
static void say_misfit(const struct sk_inputs *in, struct sk_err *err) {
    const struct ArrowSchema *first[2 * SK_JOIN_SIDES] = {NULL}, *a = NULL, *b = NULL;
    bool joins = in->what->kind == SK_WHAT_JOIN, groups = in->what->kind == SK_WHAT_AGGREGATE;
    char of_a[400], of_b[400];
    for (uint32_t i = 0; i < in->n && !b; i++) {
        const struct opened *x = in->batches.p[i];
        uint32_t kind = 2 * x->side + (groups && sk_is_states(in->what, x->schema));
        if (!first[kind]) first[kind] = x->schema;
        else if (!sk_block_same_schema(first[kind], x->schema)) a = first[kind], b = x->schema;
    }
    bool keys = !b && joins;
    for (uint32_t i = 0; i < SK_COUNT(first) && !b; i++)
        if (first[i]) *(a ? &b : &a) = first[i];
    if (!b && in->n < in->batches.n) b = in->batches.p[in->n]->schema; /* bounds */
    if (!a || !b) {
        SK_ERR(err, SK_EINVAL, "one side of an exchange has no columns");
        return;
    }
    (void)sk_block_schema_text(a, of_a, sizeof of_a);
    (void)sk_block_schema_text(b, of_b, sizeof of_b);
    if (keys)
        SK_ERR(
            err, SK_EINVAL,
            "the keys of both sides have types of which no column holds all values, or a name is "
            "on both sides: (%s) and (%s). Cast the keys to one type, or give suffixes",
            of_a, of_b);
    else
        SK_ERR(err, SK_EINVAL,
               "the batches of an exchange have two schemas, (%s) and (%s)%s: cast them to one "
               "before it",
               of_a, of_b, strcmp(of_a, of_b) ? "" : ", whose metadata or flags differ");
}

/* ---- work ---- */

sk_rc sk_inputs_cut(struct sk_inputs *in, uint32_t n_partitions, bool *fits, struct sk_work **out,
                    struct sk_err *err) {
    const struct ArrowSchema *sides[SK_JOIN_SIDES];
    *out = NULL;
    *fits = in->given || of_one_schema(in, sides);
    for (uint32_t i = 0; i < in->slices.n; i++)
        if (in->slices.p[i].n != 1)
            return SK_ERR(err, SK_EINVAL, "a sample is one block, and this one has %u",
                          in->slices.p[i].n);
    if (!*fits) {
        say_misfit(in, err);
        return SK_OK;
    }
    SK_TRY(lay_out(in, err));
    return sk_work_cut(in->what, in->n ? in->batches.p[0]->schema : NULL, in->list, in->n,
                       n_partitions, out, err);
}

sk_rc sk_inputs_merge(struct sk_inputs *in, uint32_t first, uint32_t n, uint32_t values,
                      uint64_t target_bytes, bool *fits, struct sk_work **out, struct sk_err *err) {
    *out = NULL;
    SK_TRY(lay_out(in, err));
    *fits = go_together(in);
    if (!*fits) say_misfit(in, err);
    if (!*fits || !in->n) return SK_OK;
    return sk_work_merge(in->what,
                         &(struct sk_merge_input){.schema = in->batches.p[0]->schema,
                                                  .slices = in->slices.p,
                                                  .n_slices = in->slices.n,
                                                  .first = first,
                                                  .n = n,
                                                  .parts = in->parts.p,
                                                  .values = values,
                                                  .target_bytes = target_bytes},
                         out, err);
}

sk_rc sk_inputs_reduce(struct sk_inputs *in, const struct sk_reduce_input *how, bool *fits,
                       struct sk_work **out, struct sk_err *err) {
    bool joins = in->what->kind == SK_WHAT_JOIN;
    uint32_t n_beside = in->batches.n - in->n;
    const struct opened *bounds = n_beside && !joins ? in->batches.p[in->n] : NULL;
    *out = NULL;
    *fits = true;
    if (!in->n) return SK_OK;
    SK_TRY(lay_out(in, err));
    *fits = go_together(in);
    if (*fits && bounds && !in->given) SK_TRY(bounds_fit(in, fits, err));
    if (!*fits) {
        say_misfit(in, err);
        return SK_OK;
    }
    struct sk_reduce_input all = *how;
    all.schema = in->batches.p[0]->schema;
    all.slices = in->slices.p;
    all.n_slices = in->slices.n;
    all.bounds_schema = bounds ? bounds->schema : NULL;
    all.bounds = bounds ? bounds->array : NULL;
    all.n_reports = joins ? n_beside : 0;
    all.reports = in->list + in->n;
    all.report_schemas = in->schemas + in->n;
    return sk_work_reduce(in->what, &all, out, err);
}

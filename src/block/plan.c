/* plan.c - makes plans: determines which rows of which batches are wanted, starts the walk over
 * them (measure.c), and places each buffer in the block.
 *
 * There are three kinds of input: a whole batch; rows of a batch by an index; rows of several
 * batches by places, where columns may come from different sides. sk_block_nbytes is the same walk
 * without a plan. Cost: that of measure.c, and one check of each index or place. */
#include "block/block_int.h"

/* ---- the header of the batch ---- */

struct wanted { /* the wanted rows of a batch */
    bool all;
    const uint32_t *index;
    uint64_t n;
};

/* Makes a set of single rows as places, which take half the memory of ranges and are prefetched by
 * write.c. */
static sk_rc single_rows(struct sk_block_walk *w, const struct ArrowArray *a,
                         const struct wanted *wanted, struct sk_block_set *out) {
    struct sk_block_range *span = sk_block_extra_alloc(&w->extras, sizeof *span);
    struct sk_row_at *places = sk_block_extra_alloc(&w->extras, wanted->n * sizeof *places);
    if (!span || !places) return SK_BLOCK_NO_MEMORY(w);
    *span = (struct sk_block_range){0, a->length};
    for (uint64_t i = 0; i < wanted->n; i++) places[i] = (struct sk_row_at){0, wanted->index[i]};
    *out = (struct sk_block_set){
        .total = (int64_t)wanted->n, .n_ranges = (size_t)wanted->n, .places = places, .span = span};
    return SK_OK;
}

static sk_rc wanted_rows(struct sk_block_walk *w, const struct ArrowArray *a,
                         const struct wanted *wanted, struct sk_block_set *out) {
    struct sk_block_builder b = {.mem = NULL};
    sk_rc rc = SK_OK;
    if (wanted->all) {
        *out = (struct sk_block_set){.total = a->length, .n_ranges = 1, .one = {0, a->length}};
        return SK_OK;
    }
    uint64_t runs = 0; /* number of runs of neighbouring rows */
    uint32_t last = 0;
    for (uint64_t i = 0; i < wanted->n; i++) {
        last = SK_MAX(last, wanted->index[i]);
        runs += i == 0 || wanted->index[i] != wanted->index[i - 1] + 1;
    }
    if (wanted->n && last >= a->length)
        return SK_BLOCK_BAD(w, "encode block: row %u of %lld", last, (long long)a->length);
    if (runs > 1 && 4 * runs > wanted->n) return single_rows(w, a, wanted, out);
    for (uint64_t i = 0; rc == SK_OK && i < wanted->n; i++)
        if (!sk_block_builder_push(&b, 0, wanted->index[i], 1)) rc = SK_BLOCK_NO_MEMORY(w);
    *out = sk_block_builder_done(&b, &w->extras);
    return rc;
}

static sk_rc check_top(struct sk_block_walk *w, const struct ArrowArray *a) {
    if (a->length > 0 && a->offset >= 0 && a->null_count && a->n_buffers == 1 && a->buffers &&
        a->buffers[0] && sk_block_bits_count(a->buffers[0], a->offset, a->length) != a->length)
        return SK_BLOCK_BAD(
            w, "encode block: null rows at the top level (a struct column is not a record batch)");
    return SK_OK;
}

static sk_rc walk_batch(struct sk_block_walk *w, const struct ArrowSchema *s,
                        const struct ArrowArray *a, const struct wanted *wanted) {
    struct sk_block_set rows;
    sk_rc rc;
    SK_TRY(wanted_rows(w, a, wanted, &rows));
    SK_TRY(check_top(w, a));
    rc = sk_block_visit(w, s, (struct sk_block_nodes){&a, 1}, &rows);
    if (rc) sk_err_prefix(w->err, "encode block");
    return rc;
}

/* ---- choosing rows of several batches ---- */

/* Makes the set of a side's rows. The places are checked here, once for all columns. */
static sk_rc side_rows(struct sk_block_walk *w, const struct sk_block_side *side, uint64_t n,
                       struct sk_block_set *out) {
    struct sk_block_range *span = sk_block_extra_alloc(&w->extras, side->n * sizeof *span);
    if (!span) return SK_BLOCK_NO_MEMORY(w);
    for (uint32_t b = 0; b < side->n; b++) {
        const struct ArrowArray *a = side->arrays[b];
        int64_t end;
        if (a->length < 0 || a->offset < 0 || __builtin_add_overflow(a->length, a->offset, &end))
            return SK_BLOCK_BAD(w, "a batch of length %lld, offset %lld", (long long)a->length,
                                (long long)a->offset);
        SK_TRY(check_top(w, a));
        span[b] = (struct sk_block_range){a->offset, a->length};
    }
    bool nulls = false;
    for (uint64_t i = 0; i < n; i++) {
        struct sk_row_at p = side->places[i];
        if (p.run == SK_ROW_NONE) {
            nulls = true;
            continue;
        }
        if (p.run >= side->n)
            return SK_BLOCK_BAD(w, "row %llu is of batch %u of %u", (unsigned long long)i, p.run,
                                side->n);
        if (p.row >= span[p.run].n)
            return SK_BLOCK_BAD(w, "row %u of batch %u, which has %lld", p.row, p.run,
                                (long long)span[p.run].n);
    }
    *out = (struct sk_block_set){.total = (int64_t)n,
                                 .n_ranges = (size_t)n,
                                 .nulls = nulls,
                                 .places = side->places,
                                 .span = span};
    if (!n) out->places = NULL;
    return SK_OK;
}

static sk_rc side_column(struct sk_block_walk *w, const struct sk_block_side *side, uint32_t column,
                         struct sk_block_nodes *out) {
    const struct ArrowArray **a = sk_block_extra_alloc(&w->extras, side->n * sizeof *a);
    if (!a) return SK_BLOCK_NO_MEMORY(w);
    for (uint32_t b = 0; b < side->n; b++) {
        if (column >= side->arrays[b]->n_children)
            return SK_BLOCK_BAD(w, "column %u of batch %u, which has %lld", column, b,
                                (long long)side->arrays[b]->n_children);
        a[b] = side->arrays[b]->children[column];
    }
    *out = (struct sk_block_nodes){a, side->n};
    return SK_OK;
}

static sk_rc walk_sides(struct sk_block_walk *w, const struct ArrowSchema *s,
                        const struct sk_block_side *sides, uint32_t n_sides,
                        const struct sk_block_pick *picks, uint64_t n) {
    struct sk_block_set *rows = sk_block_extra_alloc(&w->extras, n_sides * sizeof *rows);
    if (!rows) return SK_BLOCK_NO_MEMORY(w);
    for (uint32_t i = 0; i < n_sides; i++) SK_TRY(side_rows(w, &sides[i], n, &rows[i]));
    struct sk_block_node *node = sk_block_put_node(w, (int64_t)n, 1);
    SK_DCHECK(node != NULL);
    SK_TRY(sk_block_put(w, (struct sk_block_op){.kind = SK_BLOCK_OP_ABSENT}));
    for (int64_t i = 0; i < s->n_children; i++) {
        struct sk_block_pick pick = picks ? picks[i] : (struct sk_block_pick){0, (uint32_t)i};
        struct sk_block_nodes in;
        if (pick.side >= n_sides)
            return SK_BLOCK_BAD(w, "column %lld is taken from side %u of %u", (long long)i,
                                pick.side, n_sides);
        SK_TRY(side_column(w, &sides[pick.side], pick.column, &in));
        SK_TRY(sk_block_visit_child(w, s, i, in, &rows[pick.side]));
    }
    return SK_OK;
}

sk_rc sk_block_nbytes(const struct ArrowSchema *schema, const struct ArrowArray *array,
                      uint64_t *out, struct sk_err *err) {
    struct sk_block_shape shape;
    struct sk_block_walk w = {.root = schema, .err = err};
    SK_TRY(sk_block_schema_measure(schema, &shape, err));
    sk_rc rc = walk_batch(&w, schema, array, &(struct wanted){.all = true});
    sk_block_extras_free(w.extras);
    if (rc == SK_OK) *out = w.data_bytes;
    return rc;
}

struct sk_block_plan *sk_block_plan_create(const struct ArrowSchema *schema, uint32_t n_nodes,
                                           uint32_t n_buffers, size_t n_parts) {
    size_t nodes = n_nodes * sizeof(struct sk_block_node),
           ops = n_buffers * sizeof(struct sk_block_op);
    size_t head = (size_t)SK_ALIGN(sizeof(struct sk_block_plan), 16);
    struct sk_block_plan *p = sk_alloc(SK_TAG_BLOCK, head + ops + nodes + n_parts * sizeof(void *));
    if (!p) return NULL;
    *p = (struct sk_block_plan){
        .schema = schema,
        .ops = (void *)((uint8_t *)p + head),
        .nodes = (void *)((uint8_t *)p + head + ops),
        .cap_ops = n_buffers,
        .n_parts = n_parts,
        .parts = (void *)((uint8_t *)p + head + ops + nodes),
    };
    return p;
}

bool sk_block_plan_place(struct sk_block_plan *p, uint64_t schema_len) {
    struct sk_block_hdr *h = &p->hdr;
    h->magic = SK_BLOCK_MAGIC;
    h->version = SK_BLOCK_VERSION;
    h->schema_off = sizeof *h;
    h->schema_len = schema_len;
    h->nodes_off = h->schema_off + h->schema_len;
    h->buffers_off = h->nodes_off + h->n_nodes * sizeof(struct sk_block_node);
    h->data_off =
        SK_ALIGN(h->buffers_off + h->n_buffers * sizeof(struct sk_block_span), SK_BLOCK_ALIGN);
    uint64_t at = h->data_off;
    for (uint32_t i = 0; i < h->n_buffers; i++) {
        if (!p->ops[i].len) continue;
        p->ops[i].off = at;
        if (p->ops[i].len > INT64_MAX - at - SK_BLOCK_ALIGN) return false;
        at = SK_ALIGN(at + p->ops[i].len, SK_BLOCK_ALIGN);
    }
    h->total_bytes = at;
    return true;
}

/* Creates an empty plan for a schema, which a walk fills; `finish` completes or frees the plan. */
static sk_rc begin(const struct ArrowSchema *schema, struct sk_block_shape *shape,
                   struct sk_block_walk *w, struct sk_err *err) {
    SK_TRY(sk_block_schema_measure(schema, shape, err));
    struct sk_block_plan *p = sk_block_plan_create(schema, shape->n_nodes, shape->n_buffers, 0);
    *w = (struct sk_block_walk){.plan = p, .root = schema, .err = err};
    return p ? SK_OK
             : SK_ERR(err, SK_ENOMEM, "encode block: no memory for a plan of %u fields",
                      shape->n_nodes);
}

static sk_rc finish(struct sk_block_walk *w, const struct sk_block_shape *shape, sk_rc rc,
                    uint64_t n_rows, struct sk_block_plan **plan, uint64_t *size) {
    struct sk_block_plan *p = w->plan;
    p->extras = w->extras;
    if (rc == SK_OK && !sk_block_plan_place(p, shape->schema_len))
        rc = SK_ERR(w->err, SK_EINVAL, "encode block: size overflows");
    if (rc) {
        sk_block_plan_free(p);
        return rc;
    }
    SK_DCHECK(p->hdr.n_nodes == shape->n_nodes);
    p->data_bytes = w->data_bytes;
    p->schema_crc = shape->crc;
    p->hdr.n_rows = n_rows;
    p->hdr.n_columns = (uint64_t)p->schema->n_children;
    *plan = p;
    *size = p->hdr.total_bytes;
    return SK_OK;
}

static sk_rc measure(const struct ArrowSchema *schema, const struct ArrowArray *array,
                     const struct wanted *wanted, struct sk_block_plan **plan, uint64_t *size,
                     struct sk_err *err) {
    struct sk_block_shape shape;
    struct sk_block_walk w;
    SK_TRY(begin(schema, &shape, &w, err));
    sk_rc rc = walk_batch(&w, schema, array, wanted);
    return finish(&w, &shape, rc, wanted->all ? (uint64_t)array->length : wanted->n, plan, size);
}

sk_rc sk_block_measure(const struct ArrowSchema *schema, const struct ArrowArray *array,
                       struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) {
    return measure(schema, array, &(struct wanted){.all = true}, plan, size, err);
}

sk_rc sk_block_measure_rows(const struct ArrowSchema *schema, const struct ArrowArray *array,
                            const uint32_t *index, uint64_t n, struct sk_block_plan **plan,
                            uint64_t *size, struct sk_err *err) {
    return measure(schema, array, &(struct wanted){false, index, n}, plan, size, err);
}

sk_rc sk_block_measure_places(const struct ArrowSchema *schema, const struct sk_block_side *sides,
                              uint32_t n_sides, const struct sk_block_pick *picks, uint64_t n,
                              struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) {
    struct sk_block_shape shape;
    struct sk_block_walk w;
    SK_TRY(begin(schema, &shape, &w, err));
    sk_rc rc = n > INT64_MAX ? SK_BLOCK_BAD(&w, "too many rows")
                             : walk_sides(&w, schema, sides, n_sides, picks, n);
    if (rc) sk_err_prefix(err, "gather");
    return finish(&w, &shape, rc, n, plan, size);
}

struct sk_block_sizes sk_block_plan_sizes(const struct sk_block_plan *p) {
    return (struct sk_block_sizes){p->hdr.n_rows, p->data_bytes, p->hdr.total_bytes, p->schema_crc};
}

/* ---- where the values of columns lie ---- */

static uint32_t nodes_of(const struct ArrowSchema *s) {
    uint32_t n = 1 + (s->dictionary ? nodes_of(s->dictionary) : 0);
    for (int64_t i = 0; i < s->n_children; i++) n += nodes_of(s->children[i]);
    return n;
}

/* Finds the values of the field at node `at`; for lists it descends to their numbers. */
static struct sk_block_values values_of(const struct sk_block_plan *p, const struct ArrowSchema *s,
                                        uint32_t at) {
    for (;; s = s->children[0], at++) {
        const struct sk_block_node *node = &p->nodes[at];
        struct sk_block_type t;
        /* the format is valid: measure has parsed it */
        SK_ASSERT(at < p->hdr.n_nodes && sk_block_type_parse(s->format, &t));
        if (s->dictionary || node->null_count || t.is_map) break;
        if (t.kind == SK_BLOCK_FIXED) {
            const struct sk_block_op *op = &p->ops[node->first_buffer + 1];
            return (struct sk_block_values){op->off, op->len};
        }
        if (t.kind != SK_BLOCK_LIST && t.kind != SK_BLOCK_FIXED_LIST) break;
    }
    return (struct sk_block_values){0, 0};
}

void sk_block_plan_values(const struct sk_block_plan *p, struct sk_block_values *out) {
    uint32_t at = 1; /* node 0 is the batch itself */
    SK_ASSERT(!p->n_parts);
    for (int64_t i = 0; i < p->schema->n_children; i++) {
        out[i] = values_of(p, p->schema->children[i], at);
        at += nodes_of(p->schema->children[i]);
    }
}

void sk_block_plan_free(struct sk_block_plan *p) {
    if (!p) return;
    sk_block_extras_free(p->extras);
    sk_free(p);
}

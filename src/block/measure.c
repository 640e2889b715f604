/* measure.c - one walk over schema and arrays that plans every output buffer; a walk without a plan
 * only counts bytes. plan.c starts the walk.
 *
 * The walk passes to each node the set of its wanted rows (see block_int.h). A slice is a set of
 * one range. A child's set follows from its parent's: shifted (struct), multiplied (fixed-size
 * list), looked up in offsets (list), gathered (list-view, dense union), searched (run ends). So
 * one rule for each type covers any nesting of slices, and rows of several batches. The walk checks
 * all that could make write() read out of bounds, as far as the C Data Interface allows (it has no
 * sizes of buffers); of a range's offsets only the first and the last are checked. Cost: ~100 ns a
 * column, plus one pass over unknown null counts, views, list-views, dense unions. */
#include "block/block_int.h"

#define NO_MEMORY SK_BLOCK_NO_MEMORY
#define BAD SK_BLOCK_BAD

static void *extra_alloc(struct sk_block_walk *w, size_t n) {
    return sk_block_extra_alloc(&w->extras, n);
}

/* ---- sets of rows in a child ---- */

static struct sk_block_set one_range(int64_t at, int64_t n) {
    return (struct sk_block_set){.total = n, .n_ranges = 1, .one = {at, n}};
}

static bool all_zero(struct sk_block_nodes in) {
    for (uint32_t b = 0; b < in.n; b++)
        if (in.a[b]->offset) return false;
    return true;
}

/* Turns rows of the arrays into rows of their buffers, by adding each array's offset. */
static sk_rc set_absolute(struct sk_block_walk *w, struct sk_block_nodes in,
                          const struct sk_block_set *set, struct sk_block_set *out) {
    struct sk_block_set s = *set;
    if (all_zero(in)) { /* without array offsets both sets are equal */
        *out = s;
        return SK_OK;
    }
    if (s.places) {
        struct sk_block_range *span = extra_alloc(w, in.n * sizeof *span);
        if (!span) return NO_MEMORY(w);
        for (uint32_t b = 0; b < in.n; b++)
            span[b] = (struct sk_block_range){s.span[b].at + in.a[b]->offset, s.span[b].n};
        s.span = span;
        *out = s;
        return SK_OK;
    }
    struct sk_block_range *to = &s.one;
    if (s.n_ranges > 1) s.many = to = extra_alloc(w, s.n_ranges * sizeof *to);
    if (!to) return NO_MEMORY(w);
    bool over = false;
    for (size_t i = 0; i < s.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(set, i);
        int64_t offset = p.from == SK_ROW_NONE || p.from >= in.n ? 0 : in.a[p.from]->offset;
        over |= __builtin_add_overflow(p.at, offset, &to[i].at);
        to[i].n = p.n;
    }
    if (over) return BAD(w, "length overflows");
    *out = s;
    return SK_OK;
}

/* Makes the set of rows of a fixed-size list's child: `mul` rows for each slot. */
static sk_rc set_multiply(struct sk_block_walk *w, const struct sk_block_set *in, int64_t mul,
                          struct sk_block_set *out) {
    struct sk_block_builder b = {.mem = NULL};
    sk_rc rc = SK_OK;
    bool over = false;
    for (size_t i = 0; i < in->n_ranges && rc == SK_OK && !over; i++) {
        struct sk_block_piece p = sk_block_piece(in, i);
        over = __builtin_mul_overflow(p.at, mul, &p.at) || __builtin_mul_overflow(p.n, mul, &p.n) ||
               p.n > INT64_MAX - b.set.total;
        if (!over && !sk_block_builder_push(&b, p.from, p.at, p.n)) rc = NO_MEMORY(w);
    }
    *out = sk_block_builder_done(&b, &w->extras);
    return over ? BAD(w, "length overflows") : rc;
}

/* ---- planning output buffers ---- */

sk_rc sk_block_put(struct sk_block_walk *w, struct sk_block_op op) {
    struct sk_block_plan *p = w->plan;
    if (op.len > INT64_MAX - w->data_bytes) return BAD(w, "size overflows");
    w->data_bytes += op.len;
    if (!p) return SK_OK;
    if (!op.len) op.kind = SK_BLOCK_OP_ABSENT;
    if (p->hdr.n_buffers == p->cap_ops) {
        uint32_t cap = 2 * p->cap_ops;
        struct sk_block_op *ops =
            p->cap_ops < UINT32_MAX / 4 ? extra_alloc(w, cap * sizeof *ops) : NULL;
        if (!ops) return NO_MEMORY(w);
        memcpy(ops, p->ops, p->hdr.n_buffers * sizeof *ops);
        p->ops = ops;
        p->cap_ops = cap;
    }
    p->ops[p->hdr.n_buffers++] = op;
    return SK_OK;
}

/* True if the set has rows of batch b. */
static bool reads(const struct sk_block_set *set, uint32_t b) {
    for (size_t i = 0; i < set->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(set, i);
        if (p.from == b && p.n) return true;
    }
    return false;
}

/* Allocates the op's inputs, one for each batch; the caller fills *inputs. */
static sk_rc op_inputs(struct sk_block_walk *w, struct sk_block_nodes in, struct sk_block_op *op,
                       struct sk_block_input **inputs) {
    *inputs = &op->one;
    if (in.n < 2) return SK_OK;
    *inputs = extra_alloc(w, in.n * sizeof **inputs);
    if (!*inputs) return NO_MEMORY(w);
    memset(*inputs, 0, in.n * sizeof **inputs);
    op->many = *inputs;
    return SK_OK;
}

static const void *buffer(const struct ArrowArray *a, int i) {
    return a->buffers ? a->buffers[i] : NULL;
}
static const void *bitmap(const struct ArrowArray *a) {
    return a->null_count ? buffer(a, 0) : NULL;
}

/* Sets src of each input to the batch's buffer i. The buffer must exist in each batch of which rows
 * are read, unless the op writes no bytes. */
static sk_rc op_input(struct sk_block_walk *w, struct sk_block_nodes in, int i,
                      struct sk_block_op *op, struct sk_block_input **inputs) {
    SK_TRY(op_inputs(w, in, op, inputs));
    for (uint32_t b = 0; b < in.n; b++) {
        (*inputs)[b].src = buffer(in.a[b], i);
        if (!(*inputs)[b].src && op->len && reads(&op->set, b))
            return BAD(w, "buffer %d is missing", i);
    }
    return SK_OK;
}

static sk_rc put_fixed(struct sk_block_walk *w, struct sk_block_nodes in, int i, int32_t width,
                       const struct sk_block_set *abs) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_COPY, .width = width, .set = *abs};
    struct sk_block_input *from;
    if (__builtin_mul_overflow((uint64_t)abs->total, (uint64_t)width, &op.len))
        return BAD(w, "size overflows");
    SK_TRY(op_input(w, in, i, &op, &from));
    /* src is moved to the batch's row 0, so that the address of a row takes one multiplication */
    for (uint32_t b = 0; abs->places && b < in.n; b++)
        if (from[b].src) from[b].src = (const uint8_t *)from[b].src + abs->span[b].at * width;
    return sk_block_put(w, op);
}

static uint64_t bitmap_bytes(int64_t n) { return ((uint64_t)n + 7) / 8; }

static int64_t count_nulls(const struct sk_block_set *abs, const struct sk_block_input *from) {
    int64_t nulls = 0;
    for (size_t i = 0; i < abs->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(abs, i);
        const uint8_t *bits = p.from == SK_ROW_NONE ? NULL : from[p.from].src;
        if (p.from == SK_ROW_NONE) nulls += p.n;
        else if (bits)
            nulls +=
                p.n == 1 ? !sk_block_bit(bits, p.at) : p.n - sk_block_bits_count(bits, p.at, p.n);
    }
    return nulls;
}

static sk_rc put_validity(struct sk_block_walk *w, struct sk_block_nodes in,
                          const struct sk_block_set *abs, int64_t *nulls) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_ABSENT, .set = *abs};
    struct sk_block_input *from;
    bool any = abs->nulls;
    SK_TRY(op_inputs(w, in, &op, &from));
    for (uint32_t b = 0; b < in.n; b++) {
        const struct ArrowArray *a = in.a[b];
        /* the array's null count is for all its rows, not only the wanted ones, so nulls have to be
         * counted again */
        from[b].src = bitmap(a);
        any |= from[b].src != NULL;
        if (!from[b].src && a->null_count > 0 && a->length)
            return BAD(w, "%lld nulls but no validity bitmap", (long long)a->null_count);
    }
    *nulls = any ? count_nulls(abs, from) : 0;
    if (*nulls) {
        op.kind = SK_BLOCK_OP_BITS;
        op.len = bitmap_bytes(abs->total);
    }
    return sk_block_put(w, op);
}

/* Walks the offsets of a variable-size type, and adds to `data` the ranges of bytes or child rows
 * to which they refer. */
static inline __attribute__((always_inline)) sk_rc walk_offsets(struct sk_block_walk *w,
                                                                const struct sk_block_op *op,
                                                                const struct sk_block_input *from,
                                                                int32_t width,
                                                                struct sk_block_builder *data) {
    const struct sk_block_set *set = &op->set;
    for (size_t i = 0; i < set->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(set, i);
        if (set->places && i + 24 < set->n_ranges) {
            struct sk_block_piece ahead = sk_block_piece(set, i + 24);
            if (ahead.from != SK_ROW_NONE)
                __builtin_prefetch((const uint8_t *)from[ahead.from].src + ahead.at * width);
        }
        if (!p.n || p.from == SK_ROW_NONE) continue;
        int64_t at = sk_block_int(from[p.from].src, width, p.at),
                to = sk_block_int(from[p.from].src, width, p.at + p.n);
        if (at < 0 || to < at)
            return BAD(w, "offsets run from %lld to %lld", (long long)at, (long long)to);
        if (!sk_block_builder_push(data, p.from, at, to - at)) return NO_MEMORY(w);
    }
    return SK_OK;
}

static sk_rc put_offsets(struct sk_block_walk *w, struct sk_block_nodes in, int32_t width,
                         const struct sk_block_set *abs, struct sk_block_builder *data) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_OFFSETS, .width = width, .set = *abs};
    struct sk_block_input *from;
    if (__builtin_mul_overflow((uint64_t)abs->total + 1, (uint64_t)width, &op.len))
        return BAD(w, "size overflows");
    SK_TRY(op_input(w, in, 1, &op, &from));
    if (width == 4) SK_TRY(walk_offsets(w, &op, from, 4, data));
    else SK_TRY(walk_offsets(w, &op, from, 8, data));
    if (width == 4 && data->set.total > INT32_MAX)
        return BAD(w, "more than 2 GiB of values behind 32-bit offsets; use the large type");
    return sk_block_put(w, op);
}

/* ---- the rule for each type ---- */

/* Makes *out: child i of each array. SK_ENOMEM. */
static sk_rc children(struct sk_block_walk *w, struct sk_block_nodes in, int64_t i,
                      struct sk_block_nodes *out) {
    *out = (struct sk_block_nodes){NULL, in.n};
    if (in.n == 1) {
        out->a = (const struct ArrowArray *const *)&in.a[0]->children[i];
        return SK_OK;
    }
    const struct ArrowArray **a = extra_alloc(w, in.n * sizeof *a);
    if (!a) return NO_MEMORY(w);
    for (uint32_t b = 0; b < in.n; b++) a[b] = in.a[b]->children[i];
    out->a = a;
    return SK_OK;
}

sk_rc sk_block_visit_child(struct sk_block_walk *w, const struct ArrowSchema *s, int64_t i,
                           struct sk_block_nodes in, const struct sk_block_set *rows) {
    sk_rc rc = sk_block_visit(w, s->children[i], in, rows);
    if (rc)
        sk_err_prefix(w->err, "%s '%s'", s == w->root ? "column" : "field",
                      s->children[i]->name ? s->children[i]->name : "");
    return rc;
}

static sk_rc visit_child(struct sk_block_walk *w, const struct ArrowSchema *s,
                         struct sk_block_nodes in, int64_t i, const struct sk_block_set *rows) {
    struct sk_block_nodes of;
    SK_TRY(children(w, in, i, &of));
    return sk_block_visit_child(w, s, i, of, rows);
}

/* Checks a text column of batch b that has no data buffer: its wanted rows must all be empty. */
static sk_rc check_no_bytes(struct sk_block_walk *w, const struct sk_block_op *op,
                            const struct sk_block_input *from, uint32_t b) {
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (p.from == b && p.n &&
            sk_block_int(from[b].src, op->width, p.at) !=
                sk_block_int(from[b].src, op->width, p.at + p.n))
            return BAD(w, "buffer 2 is missing");
    }
    return SK_OK;
}

static sk_rc visit_var(struct sk_block_walk *w, struct sk_block_nodes in, int32_t width,
                       const struct sk_block_set *abs) {
    struct sk_block_builder data = {.only_total = true};
    SK_TRY(put_offsets(w, in, width, abs, &data));
    struct sk_block_op op = {
        .kind = SK_BLOCK_OP_VAR_DATA, .width = width, .len = (uint64_t)data.set.total, .set = *abs};
    struct sk_block_input *from;
    SK_TRY(op_input(w, in, 1, &op, &from));
    for (uint32_t b = 0; b < in.n; b++) {
        from[b].aux = buffer(in.a[b], 2);
        if (!from[b].aux && op.len) SK_TRY(check_no_bytes(w, &op, from, b));
    }
    return sk_block_put(w, op);
}

static sk_rc visit_list(struct sk_block_walk *w, const struct ArrowSchema *s,
                        struct sk_block_nodes in, int32_t width, const struct sk_block_set *abs) {
    struct sk_block_builder b = {.mem = NULL};
    sk_rc rc = put_offsets(w, in, width, abs, &b);
    struct sk_block_set rows = sk_block_builder_done(&b, &w->extras);
    SK_TRY(rc);
    return visit_child(w, s, in, 0, &rows);
}

static sk_rc check_view(struct sk_block_walk *w, const struct ArrowArray *a, const uint8_t *view,
                        int32_t len) {
    const int64_t *sizes = a->buffers[a->n_buffers - 1];
    int64_t index = sk_block_i32(view, 2), at = sk_block_i32(view, 3), n = a->n_buffers - 3;
    if (len < 0 || index < 0 || index >= n || !sizes || at < 0 || at + len > sizes[index] ||
        !a->buffers[2 + index])
        return BAD(w,
                   "a view points outside the data (length %d, buffer %lld of %lld, offset %lld)",
                   len, (long long)index, (long long)n, (long long)at);
    return SK_OK;
}

/* Places the long values of a piece in data buffers, and adds the op of each buffer that is
 * full. */
static sk_rc walk_views(struct sk_block_walk *w, const struct ArrowArray *a, const uint8_t *valid,
                        struct sk_block_piece p, struct sk_block_op *op,
                        struct sk_block_chunk *chunk) {
    const uint8_t *views = a->buffers[1];
    for (int64_t j = p.at; j < p.at + p.n; j++) {
        int32_t len = sk_block_i32(views, 4 * j);
        if (SK_LIKELY(len >= 0 && len <= SK_BLOCK_VIEW_INLINE)) continue;
        if (valid && !sk_block_bit(valid, j)) continue;
        SK_TRY(check_view(w, a, views + 16 * j, len));
        int64_t index = chunk->index, used = chunk->used;
        sk_block_chunk_place(chunk, len);
        if (chunk->index == index) continue;
        op->arg = index;
        op->len = (uint64_t)used;
        SK_TRY(sk_block_put(w, *op));
    }
    return SK_OK;
}

/* Packs the long values of all rows, in row order, into as few data buffers as int32 offsets
 * allow. */
static sk_rc visit_view(struct sk_block_walk *w, struct sk_block_nodes in,
                        const struct sk_block_set *abs, int64_t nulls) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_VIEWS, .set = *abs};
    struct sk_block_input *from;
    struct sk_block_chunk chunk = {0, 0};
    if (__builtin_mul_overflow((uint64_t)abs->total, 16u, &op.len)) return BAD(w, "size overflows");
    SK_TRY(op_input(w, in, 1, &op, &from));
    for (uint32_t b = 0; b < in.n; b++) {
        from[b].src = nulls ? bitmap(in.a[b]) : NULL;
        from[b].array = in.a[b];
    }
    SK_TRY(sk_block_put(w, op));
    op.kind = SK_BLOCK_OP_VIEW_DATA;
    for (size_t i = 0; i < abs->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(abs, i);
        if (p.n && p.from != SK_ROW_NONE)
            SK_TRY(walk_views(w, in.a[p.from], from[p.from].src, p, &op, &chunk));
    }
    if (chunk.used) {
        op.arg = chunk.index;
        op.len = (uint64_t)chunk.used;
        SK_TRY(sk_block_put(w, op));
    }
    int64_t n = chunk.index + (chunk.used > 0);
    return sk_block_put(
        w, (struct sk_block_op){.kind = SK_BLOCK_OP_VIEW_SIZES, .arg = n, .len = 8 * (uint64_t)n});
}

static sk_rc list_view_rows(struct sk_block_walk *w, struct sk_block_nodes in,
                            const struct sk_block_op *op, const struct sk_block_input *from,
                            struct sk_block_builder *b) {
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (p.from == SK_ROW_NONE || !p.n) continue;
        const struct ArrowArray *a = in.a[p.from];
        int64_t child = a->children[0]->length;
        const void *offsets = buffer(a, 1);
        if (!offsets || !from[p.from].src) return BAD(w, "buffer %d is missing", offsets ? 2 : 1);
        for (int64_t j = p.at; j < p.at + p.n; j++) {
            if (from[p.from].aux && !sk_block_bit(from[p.from].aux, j)) continue;
            int64_t at = sk_block_int(offsets, op->width, j),
                    n = sk_block_int(from[p.from].src, op->width, j);
            if (at < 0 || n < 0 || n > child || at > child - n)
                return BAD(w, "a list-view of %lld values at %lld, the child has %lld",
                           (long long)n, (long long)at, (long long)child);
            if (!sk_block_builder_push(b, p.from, at, n)) return NO_MEMORY(w);
        }
    }
    if (op->width == 4 && b->set.total > INT32_MAX)
        return BAD(w, "more than 2^31 values behind 32-bit offsets; use the large type");
    return SK_OK;
}

static sk_rc visit_list_view(struct sk_block_walk *w, const struct ArrowSchema *s,
                             struct sk_block_nodes in, int32_t width,
                             const struct sk_block_set *abs, int64_t nulls) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_LIST_OFFSETS, .width = width, .set = *abs};
    struct sk_block_input *from;
    struct sk_block_builder b = {.mem = NULL};
    if (__builtin_mul_overflow((uint64_t)abs->total, (uint64_t)width, &op.len))
        return BAD(w, "size overflows");
    SK_TRY(op_input(w, in, 2, &op, &from));
    for (uint32_t i = 0; i < in.n; i++) from[i].aux = nulls ? bitmap(in.a[i]) : NULL;
    sk_rc rc = list_view_rows(w, in, &op, from, &b);
    struct sk_block_set rows = sk_block_builder_done(&b, &w->extras);
    SK_TRY(rc);
    SK_TRY(sk_block_put(w, op));
    op.kind = SK_BLOCK_OP_LIST_SIZES;
    SK_TRY(sk_block_put(w, op));
    return visit_child(w, s, in, 0, &rows);
}

static sk_rc put_types(struct sk_block_walk *w, struct sk_block_nodes in,
                       enum sk_block_op_kind kind, int32_t width, int64_t null_type,
                       const struct sk_block_set *abs) {
    struct sk_block_op op = {.kind = kind, .width = width, .set = *abs, .arg = null_type};
    struct sk_block_input *from;
    if (__builtin_mul_overflow((uint64_t)abs->total, (uint64_t)width, &op.len))
        return BAD(w, "size overflows");
    SK_TRY(op_input(w, in, 0, &op, &from));
    return sk_block_put(w, op);
}

/* Returns the type id of child 0, which rows of nulls get. */
static int64_t first_type(const uint8_t map[256]) {
    for (int64_t id = 0; id < 256; id++)
        if (!map[id]) return id;
    return 0;
}

static sk_rc dense_rows(struct sk_block_walk *w, struct sk_block_nodes in, const uint8_t map[256],
                        const struct sk_block_set *abs, struct sk_block_builder *b) {
    for (size_t i = 0; i < abs->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(abs, i);
        if (p.from == SK_ROW_NONE) {
            if (!sk_block_builder_push(&b[0], p.from, 0, p.n)) return NO_MEMORY(w);
            continue;
        }
        const uint8_t *types = p.n ? buffer(in.a[p.from], 0) : NULL;
        const void *offsets = p.n ? buffer(in.a[p.from], 1) : NULL;
        if (p.n && !offsets) return BAD(w, "buffer 1 is missing");
        for (int64_t j = p.at; j < p.at + p.n; j++) {
            SK_DCHECK(types && offsets);
            uint8_t id = types[j], c = map[id];
            if (c == 0xFF) return BAD(w, "a union has no type id %d", (int)(int8_t)id);
            int64_t at = sk_block_i32(offsets, j);
            if (at < 0 || at >= in.a[p.from]->children[c]->length)
                return BAD(w, "a union offset points outside its child");
            if (!sk_block_builder_push(&b[c], p.from, at, 1)) return NO_MEMORY(w);
            if (b[c].set.total > INT32_MAX)
                return BAD(w, "more than 2^31 values in a child of a dense union");
        }
    }
    return SK_OK;
}

static sk_rc visit_dense(struct sk_block_walk *w, const struct ArrowSchema *s,
                         struct sk_block_nodes in, const struct sk_block_set *abs) {
    uint8_t map[256];
    size_t n = (size_t)s->n_children,
           bytes = SK_MAX(n, 1) * (sizeof(struct sk_block_builder) + sizeof(struct sk_block_set));
    sk_block_union_map(s->format, map);
    SK_TRY(put_types(w, in, SK_BLOCK_OP_TYPES, 1, first_type(map), abs));
    SK_TRY(put_types(w, in, SK_BLOCK_OP_DENSE, 4, first_type(map), abs));
    struct sk_block_builder *b = extra_alloc(w, bytes);
    if (!b) return NO_MEMORY(w);
    memset(b, 0, bytes);
    struct sk_block_set *rows = (void *)(b + SK_MAX(n, 1));
    sk_rc rc = dense_rows(w, in, map, abs, b);
    for (size_t i = 0; i < n; i++) rows[i] = sk_block_builder_done(&b[i], &w->extras);
    SK_TRY(rc);
    for (size_t i = 0; i < n; i++) SK_TRY(visit_child(w, s, in, (int64_t)i, &rows[i]));
    return SK_OK;
}

static sk_rc visit_sparse(struct sk_block_walk *w, const struct ArrowSchema *s,
                          struct sk_block_nodes in, const struct sk_block_set *abs) {
    uint8_t map[256];
    sk_block_union_map(s->format, map);
    SK_TRY(put_types(w, in, SK_BLOCK_OP_TYPES, 1, first_type(map), abs));
    for (int64_t i = 0; i < s->n_children; i++) SK_TRY(visit_child(w, s, in, i, abs));
    return SK_OK;
}

static sk_rc run_rows(struct sk_block_walk *w, const struct sk_block_op *op,
                      const struct sk_block_input *from, struct sk_block_builder *b) {
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (!p.n) continue;
        if (p.from == SK_ROW_NONE) {
            /* all these rows of nulls become one run, so the child gets one row */
            if (!sk_block_builder_push(b, p.from, 0, 1)) return NO_MEMORY(w);
            continue;
        }
        const struct sk_block_input *in = &from[p.from];
        int64_t first = sk_block_run_find(in->src, op->width, in->n, p.at);
        int64_t last = sk_block_run_find(in->src, op->width, in->n, p.at + p.n - 1);
        if (last >= in->n) return BAD(w, "run ends stop before row %lld", (long long)(p.at + p.n));
        /* run ends must increase: write()'s loop takes one run a step, so this bounds it */
        for (int64_t k = first; k < last; k++)
            if (sk_block_int(in->src, op->width, k) >= sk_block_int(in->src, op->width, k + 1))
                return BAD(w, "run ends do not increase");
        if (!sk_block_builder_push(b, p.from, first, last - first + 1)) return NO_MEMORY(w);
    }
    int64_t max = op->width == 2 ? INT16_MAX : op->width == 4 ? INT32_MAX : INT64_MAX;
    if (SK_MAX(b->set.total, op->set.total) > max)
        return BAD(w, "too many rows for the type of the run ends");
    return SK_OK;
}

struct sk_block_node *sk_block_put_node(struct sk_block_walk *w, int64_t length,
                                        int32_t n_buffers) {
    struct sk_block_plan *p = w->plan;
    if (!p) return NULL;
    struct sk_block_node *node = &p->nodes[p->hdr.n_nodes++];
    *node = (struct sk_block_node){
        .length = length, .n_buffers = (uint32_t)n_buffers, .first_buffer = p->hdr.n_buffers};
    return node;
}

static sk_rc visit_runs(struct sk_block_walk *w, const struct ArrowSchema *s,
                        struct sk_block_nodes in, const struct sk_block_set *abs) {
    struct sk_block_type t;
    struct sk_block_builder b = {.mem = NULL};
    struct sk_block_op op = {.kind = SK_BLOCK_OP_RUN_ENDS, .set = *abs};
    struct sk_block_input *from;
    SK_ASSERT(sk_block_type_parse(s->children[0]->format, &t));
    op.width = t.width;
    SK_TRY(op_inputs(w, in, &op, &from));
    for (uint32_t i = 0; i < in.n; i++) {
        const struct ArrowArray *ends = in.a[i]->children[0];
        if (ends->n_buffers != 2 || ends->n_children || ends->length < 0 || ends->offset < 0 ||
            ends->length > INT64_MAX / 16 || ends->offset > INT64_MAX / 16 || ends->null_count > 0)
            return BAD(w, "malformed run ends");
        const void *src = buffer(ends, 1);
        if (!src && ends->length) return BAD(w, "buffer 1 is missing");
        from[i].src = src ? (const uint8_t *)src + ends->offset * op.width : NULL;
        from[i].n = ends->length;
    }
    sk_rc rc = run_rows(w, &op, from, &b);
    struct sk_block_set runs = sk_block_builder_done(&b, &w->extras);
    SK_TRY(rc);
    (void)sk_block_put_node(w, runs.total, 2);
    SK_TRY(sk_block_put(w, (struct sk_block_op){.kind = SK_BLOCK_OP_ABSENT}));
    op.len = (uint64_t)runs.total * (uint64_t)op.width;
    SK_TRY(sk_block_put(w, op));
    return visit_child(w, s, in, 1, &runs);
}

/* ---- columns with dictionaries ---- */

static sk_rc check_shape(struct sk_block_walk *w, const struct ArrowSchema *s,
                         const struct ArrowArray *a, const struct sk_block_type *t) {
    int64_t end;
    if (!a) return BAD(w, "the array is missing");
    if (a->length < 0 || a->offset < 0 || a->null_count < -1 ||
        __builtin_add_overflow(a->length, a->offset, &end))
        return BAD(w, "array of length %lld, offset %lld, %lld nulls", (long long)a->length,
                   (long long)a->offset, (long long)a->null_count);
    if (t->kind == SK_BLOCK_VIEW ? a->n_buffers < t->n_buffers : a->n_buffers != t->n_buffers)
        return BAD(w, "type '%s' with %lld buffers", s->format, (long long)a->n_buffers);
    if (a->n_buffers && !a->buffers) return BAD(w, "no buffers array");
    if (a->n_children != s->n_children || (a->n_children && !a->children))
        return BAD(w, "type '%s' has %lld children, the array %lld", s->format,
                   (long long)s->n_children, (long long)a->n_children);
    for (int64_t i = 0; i < a->n_children; i++)
        if (!a->children[i]) return BAD(w, "child %lld is missing", (long long)i);
    if (!s->dictionary != !a->dictionary)
        return BAD(w, "a dictionary is in the %s only", s->dictionary ? "schema" : "array");
    return SK_OK;
}

/* Checks that rows [at, at + n) of the array exist. */
static sk_rc check_rows(struct sk_block_walk *w, const struct ArrowArray *a, int64_t at,
                        int64_t n) {
    if (SK_LIKELY(n <= a->length && at <= a->length - n)) return SK_OK;
    return BAD(w, "%lld values, but its parent needs %lld", (long long)a->length,
               (long long)(at + n));
}

static sk_rc put_codes(struct sk_block_walk *w, const struct ArrowSchema *s,
                       const struct sk_block_type *t, struct sk_block_nodes in,
                       const struct sk_block_set *abs, const struct sk_block_unified *u) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_CODES,
                             .width = t->width,
                             .len = (uint64_t)abs->total * (uint64_t)t->width,
                             .set = *abs};
    struct sk_block_input *from;
    int bits = 8 * t->width - (strchr("csil", s->format[0]) != NULL);
    if (bits < 32 && u->values.total > INT64_C(1) << bits)
        return BAD(
            w, "%lld values in the dictionaries of %u batches are too many for codes of type '%s'",
            (long long)u->values.total, in.n, s->format);
    SK_TRY(op_input(w, in, 1, &op, &from));
    for (uint32_t b = 0; b < in.n; b++) {
        from[b].aux = u->map[b];
        from[b].n = in.a[b]->dictionary->length;
    }
    return sk_block_put(w, op);
}

/* Plans a column with a dictionary: that of one batch is copied whole; those of several batches
 * become one. */
static sk_rc visit_coded(struct sk_block_walk *w, const struct ArrowSchema *s,
                         const struct sk_block_type *t, struct sk_block_nodes in,
                         const struct sk_block_set *abs) {
    struct sk_block_unified u = {.same = true};
    struct sk_block_type values;
    const struct ArrowArray **a = extra_alloc(w, SK_MAX(in.n, 1) * sizeof *a);
    struct sk_block_nodes dicts = {a, in.n};
    if (!a) return NO_MEMORY(w);
    for (uint32_t b = 0; b < in.n; b++) a[b] = in.a[b]->dictionary;
    SK_ASSERT(sk_block_type_parse(s->dictionary->format, &values));
    if (in.n > 1) {
        for (uint32_t b = 0; b < in.n; b++) SK_TRY(check_shape(w, s->dictionary, a[b], &values));
        SK_TRY(sk_block_unify(&values, dicts, &w->extras, &u, w->err));
    }
    if (u.same) {
        u.values = one_range(0, in.n ? a[0]->length : 0);
        dicts.n = in.n > 0;
        SK_TRY(put_fixed(w, in, 1, t->width, abs));
    } else SK_TRY(put_codes(w, s, t, in, abs, &u));
    if (!in.n) u.values.n_ranges = 0;
    sk_rc rc = sk_block_visit(w, s->dictionary, dicts, &u.values);
    if (rc) sk_err_prefix(w->err, "dictionary");
    return rc;
}

/* ---- one node of the schema ---- */

static sk_rc check_arrays(struct sk_block_walk *w, const struct ArrowSchema *s,
                          struct sk_block_nodes in, const struct sk_block_type *t,
                          const struct sk_block_set *rows) {
    for (uint32_t b = 0; b < in.n; b++) {
        SK_TRY(check_shape(w, s, in.a[b], t));
        if (rows->places) SK_TRY(check_rows(w, in.a[b], rows->span[b].at, rows->span[b].n));
    }
    for (size_t i = 0; !rows->places && i < rows->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(rows, i);
        if (p.from != SK_ROW_NONE && p.n) SK_TRY(check_rows(w, in.a[p.from], p.at, p.n));
    }
    return SK_OK;
}

/* Plans a node of a type without children. */
static sk_rc visit_leaf(struct sk_block_walk *w, struct sk_block_nodes in,
                        const struct sk_block_type *t, const struct sk_block_set *abs,
                        int64_t nulls) {
    if (t->kind == SK_BLOCK_FIXED) return put_fixed(w, in, 1, t->width, abs);
    if (t->kind == SK_BLOCK_VAR) return visit_var(w, in, t->width, abs);
    if (t->kind == SK_BLOCK_VIEW) return visit_view(w, in, abs, nulls);
    if (t->kind == SK_BLOCK_NULL) return SK_OK;
    struct sk_block_op op = {
        .kind = SK_BLOCK_OP_BITS, .len = bitmap_bytes(abs->total), .set = *abs};
    struct sk_block_input *from;
    SK_ASSERT(t->kind == SK_BLOCK_BOOL);
    SK_TRY(op_input(w, in, 1, &op, &from));
    return sk_block_put(w, op);
}

sk_rc sk_block_visit(struct sk_block_walk *w, const struct ArrowSchema *s, struct sk_block_nodes in,
                     const struct sk_block_set *rows) {
    struct sk_block_type t;
    struct sk_block_set abs, inner;
    int64_t nulls = 0;
    /* the format is valid: sk_block_schema_measure has checked it */
    SK_ASSERT(s->format && sk_block_type_parse(s->format, &t));
    SK_TRY(check_arrays(w, s, in, &t, rows));
    SK_TRY(set_absolute(w, in, rows, &abs));
    struct sk_block_node *node = sk_block_put_node(w, rows->total, t.n_buffers);
    if (t.validity) SK_TRY(put_validity(w, in, &abs, &nulls));
    if (node) node->null_count = t.kind == SK_BLOCK_NULL ? rows->total : nulls;
    if (s->dictionary) return visit_coded(w, s, &t, in, &abs);
    switch (t.kind) {
    case SK_BLOCK_SPARSE: return visit_sparse(w, s, in, &abs);
    case SK_BLOCK_STRUCT:
        for (int64_t i = 0; i < s->n_children; i++) SK_TRY(visit_child(w, s, in, i, &abs));
        return SK_OK;
    case SK_BLOCK_FIXED_LIST:
        SK_TRY(set_multiply(w, &abs, t.width, &inner));
        return visit_child(w, s, in, 0, &inner);
    case SK_BLOCK_LIST: return visit_list(w, s, in, t.width, &abs);
    case SK_BLOCK_LIST_VIEW: return visit_list_view(w, s, in, t.width, &abs, nulls);
    case SK_BLOCK_DENSE: return visit_dense(w, s, in, &abs);
    case SK_BLOCK_RUNS: return visit_runs(w, s, in, &abs);
    default: break;
    }
    SK_TRY(visit_leaf(w, in, &t, &abs, nulls));
    if (node && t.kind == SK_BLOCK_VIEW)
        node->n_buffers = w->plan->hdr.n_buffers - node->first_buffer;
    return SK_OK;
}

/* measure.c - one walk over schema and array that plans every output buffer; the same walk without a plan is sk_block_nbytes.
 *
 * The walk carries the set of rows that are wanted of a node (see block_int.h). A slice is a set of one range; a child's set follows from
 * its parent's: shifted (struct), multiplied (fixed-size list), looked up in offsets (list), gathered (list-view, dense union), searched
 * (run ends). So one rule per type covers any nesting of slices. Checked: whatever a wrong producer could make write() read out of
 * bounds, as far as the C Data Interface lets one see (buffer sizes are not in it); offsets between the ends of a range are trusted.
 * Cost: ~100 ns a column, plus one pass over unknown null counts, views, list-views, dense unions. */
#include "block/block_int.h"

struct walk {
    struct sk_block_plan *plan; /* NULL: only count */
    const struct ArrowSchema *root;
    struct sk_block_extra *extras;
    struct sk_err *err;
    uint64_t data_bytes;
};

#define NO_MEMORY(w) SK_ERR((w)->err, SK_ENOMEM, "no memory for the encoding plan")
#define BAD(w, ...) SK_ERR((w)->err, SK_EINVAL, __VA_ARGS__)

static void *extra_alloc(struct walk *w, size_t n) {
    struct sk_block_extra *e = sk_alloc(SK_TAG_BLOCK, sizeof *e + n);
    if (!e) return NULL;
    e->next = w->extras;
    w->extras = e;
    return e + 1;
}

static void extras_free(struct sk_block_extra *e) {
    while (e) {
        struct sk_block_extra *next = e->next;
        sk_free(e);
        e = next;
    }
}

/* ---- row sets ---- */

static struct sk_block_set one_range(int64_t at, int64_t n) { return (struct sk_block_set){.total = n, .n_ranges = 1, .one = {at, n}}; }

/* Each range (at, n) -> (at * mul + add, n * mul). Values are bounded by array lengths that have been checked; mul may overflow. */
static sk_rc set_map(struct walk *w, const struct sk_block_set *in, int64_t mul, int64_t add, struct sk_block_set *out) {
    const struct sk_block_range *r = sk_block_ranges(in);
    struct sk_block_set s = {.n_ranges = in->n_ranges};
    struct sk_block_range *to = &s.one;
    if (mul == 1 && !add) { /* the ranges are shared */
        *out = *in;
        return SK_OK;
    }
    if (in->n_ranges > 1) {
        s.many = to = extra_alloc(w, in->n_ranges * sizeof *to);
        if (!to) return NO_MEMORY(w);
    }
    bool over = __builtin_mul_overflow(in->total, mul, &s.total);
    for (size_t i = 0; i < in->n_ranges; i++) {
        over |= __builtin_mul_overflow(r[i].at, mul, &to[i].at) || __builtin_add_overflow(to[i].at, add, &to[i].at);
        over |= __builtin_mul_overflow(r[i].n, mul, &to[i].n);
    }
    if (over) return BAD(w, "length overflows");
    *out = s;
    return SK_OK;
}

struct builder { /* collects ranges; merges neighbours, so the usual outcome is one range and no memory */
    struct sk_block_set set;
    struct sk_block_extra *mem; /* not yet in the walk's list */
    size_t cap;
    bool only_total; /* no ranges are kept */
};

static bool builder_push(struct builder *b, int64_t at, int64_t n) {
    struct sk_block_range *r = b->mem ? (void *)(b->mem + 1) : &b->set.one;
    SK_DCHECK(!b->mem == !b->cap && b->set.n_ranges <= SK_MAX(b->cap, 1));
    if (!n) return true;
    if (__builtin_add_overflow(b->set.total, n, &b->set.total)) return false;
    if (b->only_total) return true;
    if (b->set.n_ranges) {
        struct sk_block_range *last = &r[b->set.n_ranges - 1];
        if (last->at + last->n == at) {
            last->n += n;
            return true;
        }
    }
    if (b->set.n_ranges && b->set.n_ranges >= b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 16;
        struct sk_block_extra *mem = sk_realloc(SK_TAG_BLOCK, b->mem, sizeof *mem + cap * sizeof *r);
        if (!mem) return false;
        if (!b->mem) memcpy(mem + 1, &b->set.one, sizeof *r);
        b->mem = mem;
        b->cap = cap;
        r = (void *)(mem + 1);
    }
    r[b->set.n_ranges++] = (struct sk_block_range){at, n};
    return true;
}

static struct sk_block_set builder_done(struct walk *w, struct builder *b) {
    if (b->mem) {
        b->mem->next = w->extras;
        w->extras = b->mem;
        b->set.many = (void *)(b->mem + 1);
        if (b->set.n_ranges == 1) b->set.one = b->set.many[0];
        b->mem = NULL;
    }
    return b->set;
}

/* ---- output buffers ---- */

static sk_rc put(struct walk *w, struct sk_block_op op) {
    struct sk_block_plan *p = w->plan;
    if (op.len > INT64_MAX - w->data_bytes) return BAD(w, "size overflows");
    w->data_bytes += op.len;
    if (!p) return SK_OK;
    if (!op.len) op.kind = SK_BLOCK_OP_ABSENT;
    if (p->hdr.n_buffers == p->cap_ops) {
        uint32_t cap = 2 * p->cap_ops;
        struct sk_block_op *ops = p->cap_ops < UINT32_MAX / 4 ? extra_alloc(w, cap * sizeof *ops) : NULL;
        if (!ops) return NO_MEMORY(w);
        memcpy(ops, p->ops, p->hdr.n_buffers * sizeof *ops);
        p->ops = ops;
        p->cap_ops = cap;
    }
    p->ops[p->hdr.n_buffers++] = op;
    return SK_OK;
}

/* A buffer of the input that must be there when `need` bytes of it will be read. */
static sk_rc input(struct walk *w, const struct ArrowArray *a, int i, bool need, const void **out) {
    const void *p = a->buffers ? a->buffers[i] : NULL;
    if (need && !p) return BAD(w, "buffer %d is missing", i);
    *out = p;
    return SK_OK;
}

static sk_rc put_fixed(struct walk *w, const struct ArrowArray *a, int buffer, int32_t width, const struct sk_block_set *abs) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_COPY, .width = width, .set = *abs};
    if (__builtin_mul_overflow((uint64_t)abs->total, (uint64_t)width, &op.len)) return BAD(w, "size overflows");
    SK_TRY(input(w, a, buffer, op.len > 0, &op.src));
    return put(w, op);
}

static uint64_t bitmap_bytes(int64_t n) { return ((uint64_t)n + 7) / 8; }

static sk_rc put_validity(struct walk *w, const struct ArrowArray *a, const struct sk_block_set *abs, int64_t *nulls) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_ABSENT, .src = a->buffers ? a->buffers[0] : NULL, .set = *abs};
    const struct sk_block_range *r = sk_block_ranges(abs);
    *nulls = 0;
    if (!op.src) {
        if (a->null_count > 0 && a->length) return BAD(w, "%lld nulls but no validity bitmap", (long long)a->null_count);
    } else if (a->null_count != 0) { /* a count above zero is of the whole array, not of our rows: count again */
        *nulls = abs->total;
        for (size_t i = 0; i < abs->n_ranges; i++) *nulls -= sk_block_bits_count(op.src, r[i].at, r[i].n);
    }
    if (*nulls) {
        op.kind = SK_BLOCK_OP_BITS;
        op.len = bitmap_bytes(abs->total);
    }
    return put(w, op);
}

/* Offsets of var-size types: the buffer of total + 1 rebased offsets; `data` gets the ranges of bytes or child rows they span. */
static sk_rc put_offsets(struct walk *w, const struct ArrowArray *a, int32_t width, const struct sk_block_set *abs, struct builder *data) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_OFFSETS, .width = width, .set = *abs};
    const struct sk_block_range *r = sk_block_ranges(abs);
    if (__builtin_mul_overflow((uint64_t)abs->total + 1, (uint64_t)width, &op.len)) return BAD(w, "size overflows");
    SK_TRY(input(w, a, 1, abs->total > 0, &op.src));
    for (size_t i = 0; i < abs->n_ranges; i++) {
        if (!r[i].n) continue;
        int64_t from = sk_block_int(op.src, width, r[i].at), to = sk_block_int(op.src, width, r[i].at + r[i].n);
        if (from < 0 || to < from) return BAD(w, "offsets run from %lld to %lld", (long long)from, (long long)to);
        if (!builder_push(data, from, to - from)) return NO_MEMORY(w);
    }
    if (width == 4 && data->set.total > INT32_MAX) return BAD(w, "more than 2 GiB of values behind 32-bit offsets; use the large type");
    return put(w, op);
}

/* ---- a rule a type ---- */

static sk_rc visit(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, const struct sk_block_set *rows);

static sk_rc visit_child(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, int64_t i,
                         const struct sk_block_set *rows) {
    sk_rc rc = visit(w, s->children[i], a->children[i], rows);
    if (rc) sk_err_prefix(w->err, "%s '%s'", s == w->root ? "column" : "field", s->children[i]->name ? s->children[i]->name : "");
    return rc;
}

static sk_rc visit_var(struct walk *w, const struct ArrowArray *a, int32_t width, const struct sk_block_set *abs) {
    struct builder data = {.only_total = true};
    SK_TRY(put_offsets(w, a, width, abs, &data));
    struct sk_block_op op = {.kind = SK_BLOCK_OP_VAR_DATA, .width = width, .len = (uint64_t)data.set.total, .set = *abs};
    SK_TRY(input(w, a, 1, op.len > 0, &op.src));
    SK_TRY(input(w, a, 2, op.len > 0, &op.aux));
    return put(w, op);
}

static sk_rc visit_list(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, int32_t width,
                        const struct sk_block_set *abs) {
    struct builder b = {.mem = NULL};
    sk_rc rc = put_offsets(w, a, width, abs, &b);
    struct sk_block_set rows = builder_done(w, &b);
    SK_TRY(rc);
    return visit_child(w, s, a, 0, &rows);
}

static sk_rc check_view(struct walk *w, const struct ArrowArray *a, const uint8_t *view, const int64_t *sizes, int32_t len) {
    int64_t index = sk_block_i32(view, 2), at = sk_block_i32(view, 3), n = a->n_buffers - 3;
    if (len < 0 || index < 0 || index >= n || !sizes || at < 0 || at + len > sizes[index] || !a->buffers[2 + index])
        return BAD(w, "a view points outside the data (length %d, buffer %lld of %lld, offset %lld)", len, (long long)index, (long long)n,
                   (long long)at);
    return SK_OK;
}

/* The long values of all rows are packed in row order into as few data buffers as int32 offsets allow. */
static sk_rc visit_view(struct walk *w, const struct ArrowArray *a, const struct sk_block_set *abs, int64_t nulls) {
    const struct sk_block_range *r = sk_block_ranges(abs);
    const uint8_t *valid = nulls ? a->buffers[0] : NULL, *views;
    struct sk_block_op op = {.kind = SK_BLOCK_OP_VIEWS, .array = a, .set = *abs, .src = valid};
    struct sk_block_chunk chunk = {0, 0};
    const void *p = NULL;
    if (__builtin_mul_overflow((uint64_t)abs->total, 16u, &op.len)) return BAD(w, "size overflows");
    SK_TRY(input(w, a, 1, op.len > 0, &p));
    views = p;
    SK_TRY(put(w, op));
    op.kind = SK_BLOCK_OP_VIEW_DATA;
    for (size_t i = 0; views && i < abs->n_ranges; i++) {
        for (int64_t j = r[i].at; j < r[i].at + r[i].n; j++) {
            int32_t len = sk_block_i32(views, 4 * j);
            if (SK_LIKELY(len >= 0 && len <= SK_BLOCK_VIEW_INLINE)) continue;
            if (valid && !sk_block_bit(valid, j)) continue;
            SK_TRY(check_view(w, a, views + 16 * j, a->buffers[a->n_buffers - 1], len));
            int64_t index = chunk.index, used = chunk.used;
            sk_block_chunk_place(&chunk, len);
            if (chunk.index == index) continue;
            op.arg = index;
            op.len = (uint64_t)used;
            SK_TRY(put(w, op));
        }
    }
    if (chunk.used) {
        op.arg = chunk.index;
        op.len = (uint64_t)chunk.used;
        SK_TRY(put(w, op));
    }
    int64_t n = chunk.index + (chunk.used > 0);
    return put(w, (struct sk_block_op){.kind = SK_BLOCK_OP_VIEW_SIZES, .arg = n, .len = 8 * (uint64_t)n});
}

static sk_rc list_view_rows(struct walk *w, const struct ArrowArray *a, const struct sk_block_op *op, const void *offsets,
                            struct builder *b) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    int64_t child = a->children[0]->length;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        for (int64_t j = r[i].at; j < r[i].at + r[i].n; j++) {
            if (op->aux && !sk_block_bit(op->aux, j)) continue;
            int64_t at = sk_block_int(offsets, op->width, j), n = sk_block_int(op->src, op->width, j);
            if (at < 0 || n < 0 || n > child || at > child - n)
                return BAD(w, "a list-view of %lld values at %lld, the child has %lld", (long long)n, (long long)at, (long long)child);
            if (!builder_push(b, at, n)) return NO_MEMORY(w);
        }
    }
    if (op->width == 4 && b->set.total > INT32_MAX) return BAD(w, "more than 2^31 values behind 32-bit offsets; use the large type");
    return SK_OK;
}

static sk_rc visit_list_view(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, int32_t width,
                             const struct sk_block_set *abs, int64_t nulls) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_LIST_OFFSETS, .width = width, .set = *abs, .aux = nulls ? a->buffers[0] : NULL};
    struct builder b = {.mem = NULL};
    const void *offsets = NULL;
    if (__builtin_mul_overflow((uint64_t)abs->total, (uint64_t)width, &op.len)) return BAD(w, "size overflows");
    SK_TRY(input(w, a, 1, op.len > 0, &offsets));
    SK_TRY(input(w, a, 2, op.len > 0, &op.src));
    sk_rc rc = list_view_rows(w, a, &op, offsets, &b);
    struct sk_block_set rows = builder_done(w, &b);
    SK_TRY(rc);
    SK_TRY(put(w, op));
    op.kind = SK_BLOCK_OP_LIST_SIZES;
    SK_TRY(put(w, op));
    return visit_child(w, s, a, 0, &rows);
}

static sk_rc dense_rows(struct walk *w, const struct ArrowArray *a, const uint8_t map[256], const void *types, const void *offsets,
                        const struct sk_block_set *abs, struct builder *b) {
    const struct sk_block_range *r = sk_block_ranges(abs);
    for (size_t i = 0; i < abs->n_ranges; i++) {
        for (int64_t j = r[i].at; j < r[i].at + r[i].n; j++) {
            SK_DCHECK(types && offsets);
            uint8_t id = ((const uint8_t *)types)[j], c = map[id];
            if (c == 0xFF) return BAD(w, "a union has no type id %d", (int)(int8_t)id);
            int64_t at = sk_block_i32(offsets, j);
            if (at < 0 || at >= a->children[c]->length) return BAD(w, "a union offset points outside its child");
            if (!builder_push(&b[c], at, 1)) return NO_MEMORY(w);
            if (b[c].set.total > INT32_MAX) return BAD(w, "more than 2^31 values in a child of a dense union");
        }
    }
    return SK_OK;
}

static sk_rc visit_dense(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, const struct sk_block_set *abs) {
    struct sk_block_op op = {.kind = SK_BLOCK_OP_DENSE, .set = *abs};
    const void *offsets = NULL;
    uint8_t map[256];
    size_t n = (size_t)s->n_children, bytes = n * sizeof(struct builder);
    if (__builtin_mul_overflow((uint64_t)abs->total, 4u, &op.len)) return BAD(w, "size overflows");
    SK_TRY(input(w, a, 0, op.len > 0, &op.src));
    SK_TRY(input(w, a, 1, op.len > 0, &offsets));
    SK_TRY(put_fixed(w, a, 0, 1, abs));
    SK_TRY(put(w, op));
    struct builder *b = extra_alloc(w, bytes);
    if (!b) return NO_MEMORY(w);
    memset(b, 0, bytes);
    sk_block_union_map(s->format, map);
    sk_rc rc = dense_rows(w, a, map, op.src, offsets, abs, b);
    for (size_t i = 0; i < n; i++) (void)builder_done(w, &b[i]);
    SK_TRY(rc);
    for (size_t i = 0; i < n; i++) SK_TRY(visit_child(w, s, a, (int64_t)i, &b[i].set));
    return SK_OK;
}

static sk_rc run_rows(struct walk *w, const struct sk_block_op *op, struct builder *b) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        if (!r[i].n) continue;
        int64_t from = sk_block_run_find(op->src, op->width, op->arg, r[i].at);
        int64_t to = sk_block_run_find(op->src, op->width, op->arg, r[i].at + r[i].n - 1);
        if (to >= op->arg) return BAD(w, "run ends stop before row %lld", (long long)(r[i].at + r[i].n));
        for (int64_t k = from; k < to; k++) /* write() takes a run a step, so their order is what bounds it */
            if (sk_block_int(op->src, op->width, k) >= sk_block_int(op->src, op->width, k + 1)) return BAD(w, "run ends do not increase");
        if (!builder_push(b, from, to - from + 1)) return NO_MEMORY(w);
    }
    int64_t max = op->width == 2 ? INT16_MAX : op->width == 4 ? INT32_MAX : INT64_MAX;
    if (op->set.total > max) return BAD(w, "too many rows for the type of the run ends");
    return SK_OK;
}

/* NULL when only counting. There is a place for each field of the schema. */
static struct sk_block_node *put_node(struct walk *w, int64_t length, int32_t n_buffers) {
    struct sk_block_plan *p = w->plan;
    if (!p) return NULL;
    struct sk_block_node *node = &p->nodes[p->hdr.n_nodes++];
    *node = (struct sk_block_node){.length = length, .n_buffers = (uint32_t)n_buffers, .first_buffer = p->hdr.n_buffers};
    return node;
}

static sk_rc visit_runs(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, const struct sk_block_set *abs) {
    const struct ArrowArray *ends = a->children[0];
    struct sk_block_type t;
    struct builder b = {.mem = NULL};
    struct sk_block_op op = {.kind = SK_BLOCK_OP_RUN_ENDS, .set = *abs, .arg = ends->length};
    SK_ASSERT(sk_block_type_parse(s->children[0]->format, &t));
    op.width = t.width;
    if (ends->n_buffers != 2 || ends->n_children || ends->length < 0 || ends->offset < 0 || ends->null_count > 0)
        return BAD(w, "malformed run ends");
    SK_TRY(input(w, ends, 1, ends->length > 0, &op.src));
    if (op.src) op.src = (const uint8_t *)op.src + ends->offset * op.width;
    sk_rc rc = run_rows(w, &op, &b);
    struct sk_block_set runs = builder_done(w, &b);
    SK_TRY(rc);
    (void)put_node(w, runs.total, 2);
    SK_TRY(put(w, (struct sk_block_op){.kind = SK_BLOCK_OP_ABSENT}));
    op.len = (uint64_t)runs.total * (uint64_t)op.width;
    SK_TRY(put(w, op));
    return visit_child(w, s, a, 1, &runs);
}

/* ---- a node ---- */

static sk_rc check_array(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, const struct sk_block_type *t,
                         const struct sk_block_set *rows) {
    const struct sk_block_range *r = sk_block_ranges(rows);
    int64_t end;
    if (!a) return BAD(w, "the array is missing");
    if (a->length < 0 || a->offset < 0 || a->null_count < -1 || __builtin_add_overflow(a->length, a->offset, &end))
        return BAD(w, "array of length %lld, offset %lld, %lld nulls", (long long)a->length, (long long)a->offset,
                   (long long)a->null_count);
    if (t->kind == SK_BLOCK_VIEW ? a->n_buffers < t->n_buffers : a->n_buffers != t->n_buffers)
        return BAD(w, "type '%s' with %lld buffers", s->format, (long long)a->n_buffers);
    if (a->n_buffers && !a->buffers) return BAD(w, "no buffers array");
    if (a->n_children != s->n_children || (a->n_children && !a->children))
        return BAD(w, "type '%s' has %lld children, the array %lld", s->format, (long long)s->n_children, (long long)a->n_children);
    for (int64_t i = 0; i < a->n_children; i++)
        if (!a->children[i]) return BAD(w, "child %lld is missing", (long long)i);
    if (!s->dictionary != !a->dictionary) return BAD(w, "a dictionary is in the %s only", s->dictionary ? "schema" : "array");
    for (size_t i = 0; i < rows->n_ranges; i++)
        if (r[i].n > a->length || r[i].at > a->length - r[i].n)
            return BAD(w, "%lld values, but its parent needs %lld", (long long)a->length, (long long)(r[i].at + r[i].n));
    return SK_OK;
}

/* The types without children. */
static sk_rc visit_leaf(struct walk *w, const struct ArrowArray *a, const struct sk_block_type *t, const struct sk_block_set *abs,
                        int64_t nulls) {
    if (t->kind == SK_BLOCK_FIXED) return put_fixed(w, a, 1, t->width, abs);
    if (t->kind == SK_BLOCK_VAR) return visit_var(w, a, t->width, abs);
    if (t->kind == SK_BLOCK_VIEW) return visit_view(w, a, abs, nulls);
    if (t->kind == SK_BLOCK_NULL) return SK_OK;
    struct sk_block_op op = {.kind = SK_BLOCK_OP_BITS, .len = bitmap_bytes(abs->total), .set = *abs};
    SK_ASSERT(t->kind == SK_BLOCK_BOOL);
    SK_TRY(input(w, a, 1, op.len > 0, &op.src));
    return put(w, op);
}

static sk_rc visit(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, const struct sk_block_set *rows) {
    struct sk_block_type t;
    struct sk_block_set abs, inner;
    int64_t nulls = 0;
    SK_ASSERT(s->format && sk_block_type_parse(s->format, &t)); /* sk_block_schema_measure has been here */
    SK_TRY(check_array(w, s, a, &t, rows));
    SK_TRY(set_map(w, rows, 1, a->offset, &abs));
    struct sk_block_node *node = put_node(w, rows->total, t.n_buffers);
    if (t.validity) SK_TRY(put_validity(w, a, &abs, &nulls));
    if (node) node->null_count = t.kind == SK_BLOCK_NULL ? rows->total : nulls;
    switch (t.kind) {
    case SK_BLOCK_SPARSE: SK_TRY(put_fixed(w, a, 0, 1, &abs)); /* fall through */
    case SK_BLOCK_STRUCT:
        for (int64_t i = 0; i < s->n_children; i++) SK_TRY(visit_child(w, s, a, i, &abs));
        return SK_OK;
    case SK_BLOCK_FIXED_LIST: SK_TRY(set_map(w, &abs, t.width, 0, &inner)); return visit_child(w, s, a, 0, &inner);
    case SK_BLOCK_LIST: return visit_list(w, s, a, t.width, &abs);
    case SK_BLOCK_LIST_VIEW: return visit_list_view(w, s, a, t.width, &abs, nulls);
    case SK_BLOCK_DENSE: return visit_dense(w, s, a, &abs);
    case SK_BLOCK_RUNS: return visit_runs(w, s, a, &abs);
    default: break;
    }
    SK_TRY(visit_leaf(w, a, &t, &abs, nulls));
    if (node && t.kind == SK_BLOCK_VIEW) node->n_buffers = w->plan->hdr.n_buffers - node->first_buffer;
    if (!s->dictionary) return SK_OK;
    inner = one_range(0, a->dictionary->length);
    sk_rc rc = visit(w, s->dictionary, a->dictionary, &inner);
    if (rc) sk_err_prefix(w->err, "dictionary");
    return rc;
}

/* ---- the batch ---- */

struct wanted { /* rows of a batch */
    bool all;
    const uint32_t *index;
    uint64_t n;
};

static sk_rc wanted_rows(struct walk *w, const struct ArrowArray *a, const struct wanted *wanted, struct sk_block_set *out) {
    struct builder b = {.mem = NULL};
    sk_rc rc = SK_OK;
    if (wanted->all) {
        *out = one_range(0, a->length);
        return SK_OK;
    }
    for (uint64_t i = 0; rc == SK_OK && i < wanted->n; i++) {
        if (wanted->index[i] >= a->length) rc = BAD(w, "encode block: row %u of %lld", wanted->index[i], (long long)a->length);
        else if (!builder_push(&b, wanted->index[i], 1)) rc = NO_MEMORY(w);
    }
    *out = builder_done(w, &b);
    return rc;
}

static sk_rc walk_batch(struct walk *w, const struct ArrowSchema *s, const struct ArrowArray *a, const struct wanted *wanted) {
    struct sk_block_set rows;
    sk_rc rc;
    SK_TRY(wanted_rows(w, a, wanted, &rows));
    if (a->length > 0 && a->offset >= 0 && a->null_count && a->n_buffers == 1 && a->buffers && a->buffers[0] &&
        sk_block_bits_count(a->buffers[0], a->offset, a->length) != a->length)
        return BAD(w, "encode block: null rows at the top level (a struct column is not a record batch)");
    rc = visit(w, s, a, &rows);
    if (rc) sk_err_prefix(w->err, "encode block");
    return rc;
}

sk_rc sk_block_nbytes(const struct ArrowSchema *schema, const struct ArrowArray *array, uint64_t *out, struct sk_err *err) {
    struct sk_block_shape shape;
    struct walk w = {.root = schema, .err = err};
    SK_TRY(sk_block_schema_measure(schema, &shape, err));
    sk_rc rc = walk_batch(&w, schema, array, &(struct wanted){.all = true});
    extras_free(w.extras);
    if (rc == SK_OK) *out = w.data_bytes;
    return rc;
}

struct sk_block_plan *sk_block_plan_create(const struct ArrowSchema *schema, uint32_t n_nodes, uint32_t n_buffers, size_t n_parts) {
    size_t nodes = n_nodes * sizeof(struct sk_block_node), ops = n_buffers * sizeof(struct sk_block_op);
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

/* Places the sections and buffers; false: the size does not fit. */
bool sk_block_plan_place(struct sk_block_plan *p, uint64_t schema_len) {
    struct sk_block_hdr *h = &p->hdr;
    h->magic = SK_BLOCK_MAGIC;
    h->version = SK_BLOCK_VERSION;
    h->schema_off = sizeof *h;
    h->schema_len = schema_len;
    h->nodes_off = h->schema_off + h->schema_len;
    h->buffers_off = h->nodes_off + h->n_nodes * sizeof(struct sk_block_node);
    h->data_off = SK_ALIGN(h->buffers_off + h->n_buffers * sizeof(struct sk_block_span), SK_BLOCK_ALIGN);
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

static sk_rc measure(const struct ArrowSchema *schema, const struct ArrowArray *array, const struct wanted *wanted,
                     struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) {
    struct sk_block_shape shape;
    SK_TRY(sk_block_schema_measure(schema, &shape, err));
    struct sk_block_plan *p = sk_block_plan_create(schema, shape.n_nodes, shape.n_buffers, 0);
    struct walk w = {.plan = p, .root = schema, .err = err};
    if (!p) return SK_ERR(err, SK_ENOMEM, "encode block: no memory for a plan of %u fields", shape.n_nodes);
    sk_rc rc = walk_batch(&w, schema, array, wanted);
    p->extras = w.extras;
    if (rc == SK_OK && !sk_block_plan_place(p, shape.schema_len)) rc = SK_ERR(err, SK_EINVAL, "encode block: size overflows");
    if (rc) {
        sk_block_plan_free(p);
        return rc;
    }
    SK_DCHECK(p->hdr.n_nodes == shape.n_nodes);
    p->data_bytes = w.data_bytes;
    p->schema_crc = shape.crc;
    p->hdr.n_rows = wanted->all ? (uint64_t)array->length : wanted->n;
    p->hdr.n_columns = (uint64_t)array->n_children;
    *plan = p;
    *size = p->hdr.total_bytes;
    return SK_OK;
}

sk_rc sk_block_measure(const struct ArrowSchema *schema, const struct ArrowArray *array, struct sk_block_plan **plan, uint64_t *size,
                       struct sk_err *err) {
    return measure(schema, array, &(struct wanted){.all = true}, plan, size, err);
}

sk_rc sk_block_measure_rows(const struct ArrowSchema *schema, const struct ArrowArray *array, const uint32_t *index, uint64_t n,
                            struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) {
    return measure(schema, array, &(struct wanted){false, index, n}, plan, size, err);
}

struct sk_block_sizes sk_block_plan_sizes(const struct sk_block_plan *p) {
    return (struct sk_block_sizes){p->hdr.n_rows, p->data_bytes, p->hdr.total_bytes, p->schema_crc};
}

void sk_block_plan_free(struct sk_block_plan *p) {
    if (!p) return;
    extras_free(p->extras);
    sk_free(p);
}

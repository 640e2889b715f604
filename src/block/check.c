/* check.c - checks whether bytes are a block: header, schema, node and buffer tables are compared
 * with each other, before other code reads the bytes.
 *
 * Not here: the values (values.c checks them). write() has exactly one layout for a batch, and only
 * that is accepted: sections and buffers follow each other without gaps, and their lengths follow
 * from type and number of rows. Invariant: after SK_OK every access to tables and buffers of an
 * exported batch stays inside the bytes, except accesses through values (offsets, indices): of
 * offsets this file checks the first and the last only. Cost: ~50 ns a column. Recursion is bounded
 * by SK_BLOCK_MAX_DEPTH. */
#include "block/block_int.h"

struct cursor {
    const uint8_t *p;
    const struct sk_block_hdr *h;
    const struct sk_block_node *nodes;
    const struct sk_block_span *spans;
    const char *name;    /* name of the current field, for messages */
    uint64_t schema_at;  /* offset of the next schema record */
    uint32_t node, span; /* numbers of the next node and span */
    uint64_t data_at;
    bool values;
    struct sk_err *err;
};

#define CORRUPT(err, ...) SK_ERR(err, SK_ECORRUPT, "read block: " __VA_ARGS__)
#define BAD(c, what) \
    SK_ERR((c)->err, SK_ECORRUPT, "read block: field '%.100s': %s", (c)->name, what)

static sk_rc check_header(const uint8_t *p, size_t n, struct sk_err *err) {
    const struct sk_block_hdr *h = (const void *)p;
    if ((uintptr_t)p & 7) return SK_ERR(err, SK_EINVAL, "read block: bytes are not 8-byte aligned");
    if (n < sizeof *h) return CORRUPT(err, "%zu bytes, a header has %zu", n, sizeof *h);
    if (h->magic != SK_BLOCK_MAGIC) return CORRUPT(err, "bad magic %08x", h->magic);
    if (h->version != SK_BLOCK_VERSION)
        return CORRUPT(err, "version %u, this program reads %u", h->version, SK_BLOCK_VERSION);
    if (h->flags || h->hash || h->reserved) return CORRUPT(err, "unknown flags");
    if (h->total_bytes > n || h->total_bytes % SK_BLOCK_ALIGN)
        return CORRUPT(err, "%llu bytes, have %zu", (unsigned long long)h->total_bytes, n);
    if (h->n_rows > INT64_MAX || !h->n_nodes || !h->n_buffers) return CORRUPT(err, "bad counts");
    if (h->schema_off != sizeof *h || h->schema_len > h->total_bytes || h->schema_len % 8)
        return CORRUPT(err, "bad schema section");
    uint64_t nodes = h->schema_off + h->schema_len,
             spans = nodes + h->n_nodes * sizeof(struct sk_block_node);
    uint64_t data = SK_ALIGN(spans + h->n_buffers * sizeof(struct sk_block_span), SK_BLOCK_ALIGN);
    if (h->nodes_off != nodes || h->buffers_off != spans || h->data_off != data ||
        data > h->total_bytes)
        return CORRUPT(err, "sections do not fit");
    return SK_OK;
}

/* Reads the next schema record, node and buffers into *e. */
static sk_rc next_elem(struct cursor *c, struct sk_block_elem *e) {
    uint64_t left = c->h->schema_off + c->h->schema_len - c->schema_at, metadata;
    const struct sk_block_field *f = (const void *)(c->p + c->schema_at);
    if (left < sizeof *f || f->rec_len > left || f->rec_len % 8 || f->rec_len < sizeof *f ||
        c->node >= c->h->n_nodes)
        return BAD(c, "schema record does not fit");
    uint64_t room = f->rec_len - sizeof *f, strings = (uint64_t)f->format_len + f->name_len + 2;
    if (strings > room) return BAD(c, "schema strings do not fit");
    const char *format = (const char *)(f + 1), *name = format + f->format_len + 1;
    if (format[f->format_len] || name[f->name_len] || memchr(name, 0, f->name_len))
        return BAD(c, "schema strings do not end");
    c->name = name;
    if (memchr(format, 0, f->format_len) || !sk_block_type_parse(format, &e->type))
        return BAD(c, "unknown type");
    if (f->metadata_len != SK_BLOCK_NO_METADATA &&
        (f->metadata_len > room - strings ||
         !sk_block_metadata_len(name + f->name_len + 1, f->metadata_len, &metadata) ||
         metadata != f->metadata_len))
        return BAD(c, "bad metadata");
    if (e->type.n_children >= 0 && f->n_children != (uint32_t)e->type.n_children)
        return BAD(c, "wrong number of children");
    if (f->n_children > c->h->n_nodes || f->has_dictionary > 1 ||
        (f->has_dictionary && !e->type.index))
        return BAD(c, "bad schema record");
    c->schema_at += f->rec_len;
    e->format = format;
    e->name = name;
    e->field = f;
    e->node = &c->nodes[c->node++];
    e->spans = c->spans + c->span;
    e->block = c->p;
    return SK_OK;
}

static sk_rc take_spans(struct cursor *c, const struct sk_block_elem *e) {
    uint32_t n = e->node->n_buffers, want = (uint32_t)e->type.n_buffers;
    if (e->node->first_buffer != c->span || n > c->h->n_buffers - c->span ||
        (e->type.kind == SK_BLOCK_VIEW ? n < want : n != want))
        return BAD(c, "wrong number of buffers");
    c->span += n;
    for (uint32_t i = 0; i < n; i++) {
        const struct sk_block_span *s = &e->spans[i];
        if (s->off != (s->len ? c->data_at : 0) || s->len > c->h->total_bytes - c->data_at)
            return BAD(c, "buffer out of bounds");
        /* data_at stays within total_bytes, which is a multiple of the alignment */
        c->data_at += SK_ALIGN(s->len, SK_BLOCK_ALIGN);
    }
    return SK_OK;
}

/* True if buffer i has exactly n values of `width` bytes. */
static bool has(const struct sk_block_elem *e, uint32_t i, int64_t n, int32_t width) {
    uint64_t bytes;
    return !__builtin_mul_overflow((uint64_t)n, (uint64_t)width, &bytes) &&
           e->spans[i].len == bytes;
}

static uint64_t bitmap_bytes(int64_t n) { return ((uint64_t)n + 7) / 8; }

static sk_rc check_counts(struct cursor *c, const struct sk_block_elem *e, int64_t expect) {
    int64_t n = e->node->length, nulls = e->node->null_count;
    if (n < 0 || n == INT64_MAX || nulls < 0 || nulls > n)
        return BAD(c, "bad length or null count");
    if (expect >= 0 && n != expect) return BAD(c, "length differs from what the parent needs");
    if (e->type.validity && e->spans[0].len != (nulls ? bitmap_bytes(n) : 0))
        return BAD(c, "validity bitmap of the wrong size");
    if (!e->type.validity && nulls != (e->type.kind == SK_BLOCK_NULL ? n : 0))
        return BAD(c, "nulls without a bitmap");
    return SK_OK;
}

/* Checks the size of the offsets buffer, and its first and last offset; *end: the last one. */
static bool check_offsets(const struct sk_block_elem *e, int64_t *end) {
    int64_t n = e->node->length;
    if (!has(e, 1, n + 1, e->type.width)) return false;
    const void *p = sk_block_elem_buffer(e, 1);
    *end = sk_block_int(p, e->type.width, n);
    return sk_block_int(p, e->type.width, 0) == 0 && *end >= 0;
}

static bool check_view_buffers(const struct sk_block_elem *e) {
    uint32_t n = e->node->n_buffers - 3;
    if (!has(e, 1, e->node->length, 16) || !has(e, n + 2, n, 8)) return false;
    const void *sizes = sk_block_elem_buffer(e, n + 2);
    for (uint32_t i = 0; i < n; i++)
        if (e->spans[2 + i].len != (uint64_t)sk_block_i64(sizes, i) || !e->spans[2 + i].len)
            return false;
    return true;
}

static bool check_buffers(const struct sk_block_elem *e, int64_t *end) {
    int64_t n = e->node->length;
    switch (e->type.kind) {
    case SK_BLOCK_NULL:
    case SK_BLOCK_STRUCT:
    case SK_BLOCK_FIXED_LIST:
    case SK_BLOCK_RUNS: return true;
    case SK_BLOCK_BOOL: return e->spans[1].len == bitmap_bytes(n);
    case SK_BLOCK_FIXED: return has(e, 1, n, e->type.width);
    case SK_BLOCK_VAR: return check_offsets(e, end) && (uint64_t)*end == e->spans[2].len;
    case SK_BLOCK_LIST: return check_offsets(e, end);
    case SK_BLOCK_LIST_VIEW: return has(e, 1, n, e->type.width) && has(e, 2, n, e->type.width);
    case SK_BLOCK_SPARSE: return has(e, 0, n, 1);
    case SK_BLOCK_DENSE: return has(e, 0, n, 1) && has(e, 1, n, 4);
    case SK_BLOCK_VIEW: return check_view_buffers(e);
    }
    return false;
}

static sk_rc check_node(struct cursor *c, int64_t expect, unsigned depth, struct sk_block_elem *e);

static sk_rc check_child(struct cursor *c, int64_t expect, unsigned depth, int64_t *length) {
    struct sk_block_elem child;
    SK_TRY(check_node(c, expect, depth + 1, &child));
    if (length) *length = child.node->length;
    return SK_OK;
}

static sk_rc check_values(struct cursor *c, const struct sk_block_elem *e,
                          const int64_t *child_length) {
    const char *what = c->values ? sk_block_values_check(e, child_length) : NULL;
    c->name = e->name;
    return what ? BAD(c, what) : SK_OK;
}

static sk_rc __attribute__((noinline)) check_dense(struct cursor *c, const struct sk_block_elem *e,
                                                   unsigned depth) {
    /* this is a separate function, so that `length` is not on the stack while other types
     * recurse */
    int64_t length[128];
    SK_ASSERT(e->field->n_children <= 128);
    for (uint32_t i = 0; i < e->field->n_children; i++)
        SK_TRY(check_child(c, -1, depth, &length[i]));
    return check_values(c, e, length);
}

static sk_rc check_runs(struct cursor *c, const struct sk_block_elem *e, unsigned depth) {
    struct sk_block_elem ends;
    int64_t n = e->node->length;
    SK_TRY(check_node(c, -1, depth + 1, &ends));
    int64_t runs = ends.node->length;
    if (!ends.type.index || !strchr("sil", ends.type.index) || ends.field->has_dictionary ||
        ends.node->null_count)
        return BAD(c, "bad run ends");
    if (runs ? sk_block_int(sk_block_elem_buffer(&ends, 1), ends.type.width, runs - 1) != n : n)
        return BAD(c, "run ends do not reach the end");
    if (c->values)
        for (int64_t i = 0, at = 0; i < runs; i++) {
            int64_t to = sk_block_int(sk_block_elem_buffer(&ends, 1), ends.type.width, i);
            if (to <= at) return BAD(c, "run ends do not increase");
            at = to;
        }
    return check_child(c, runs, depth, NULL);
}

static sk_rc check_children(struct cursor *c, const struct sk_block_elem *e, int64_t end,
                            unsigned depth) {
    int64_t n = e->node->length, length = -1;
    switch (e->type.kind) {
    case SK_BLOCK_LIST: length = end; break;
    case SK_BLOCK_FIXED_LIST:
        if (__builtin_mul_overflow(n, (int64_t)e->type.width, &length))
            return BAD(c, "length overflows");
        break;
    case SK_BLOCK_STRUCT:
    case SK_BLOCK_SPARSE: length = n; break;
    case SK_BLOCK_DENSE: return check_dense(c, e, depth);
    case SK_BLOCK_RUNS: return check_runs(c, e, depth);
    default: break;
    }
    int64_t last = 0;
    for (uint32_t i = 0; i < e->field->n_children; i++)
        SK_TRY(check_child(c, length, depth, &last));
    if (e->type.is_map) { /* readers rely on the map's child being a struct of key and value */
        const struct sk_block_field *entries =
            (const void *)((const uint8_t *)e->field + e->field->rec_len);
        if (entries->n_children != 2 || strcmp((const char *)(entries + 1), "+s") != 0)
            return BAD(c, "bad map entries");
    }
    if (e->field->has_dictionary) SK_TRY(check_child(c, -1, depth, &last));
    return check_values(c, e, &last);
}

static sk_rc check_node(struct cursor *c, int64_t expect, unsigned depth, struct sk_block_elem *e) {
    int64_t end = 0;
    if (depth >= SK_BLOCK_MAX_DEPTH) return BAD(c, "nested too deep");
    SK_TRY(next_elem(c, e));
    SK_TRY(take_spans(c, e));
    SK_TRY(check_counts(c, e, expect));
    if (!check_buffers(e, &end)) return BAD(c, "buffer of the wrong size");
    return check_children(c, e, end, depth);
}

sk_rc sk_block_check(const uint8_t *p, size_t n, bool values, struct sk_err *err) {
    struct sk_block_elem top;
    SK_TRY(check_header(p, n, err));
    const struct sk_block_hdr *h = (const void *)p;
    struct cursor c = {
        .p = p,
        .h = h,
        .nodes = (const void *)(p + h->nodes_off),
        .spans = (const void *)(p + h->buffers_off),
        .name = "",
        .schema_at = h->schema_off,
        .data_at = h->data_off,
        .values = values,
        .err = err,
    };
    SK_TRY(check_node(&c, (int64_t)h->n_rows, 0, &top));
    if (top.type.kind != SK_BLOCK_STRUCT || top.node->null_count ||
        top.field->n_children != h->n_columns)
        return CORRUPT(err, "not a record batch");
    if (c.node != h->n_nodes || c.span != h->n_buffers || c.schema_at != h->nodes_off ||
        c.data_at != h->total_bytes)
        return CORRUPT(err, "bytes that belong to no field");
    return SK_OK;
}

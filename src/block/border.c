/* border.c - checks a record batch that came from outside skate, before code reads it that trusts
 * Arrow's invariants.
 *
 * The walk of measure.c checks the shape of all nodes and the values of views, list-views, dense
 * unions and run ends. This file adds the values that are otherwise trusted: every offset, every
 * dictionary index, every type id, and structs that were released or moved. The C Data Interface
 * has no sizes of buffers, so a buffer that is too short is not found. Cost: one pass over offsets,
 * indices and type ids. Recursion is bounded by SK_BLOCK_MAX_DEPTH, which measure.c checks. */
#include "block/block_int.h"

#define BAD(err, ...) SK_ERR(err, SK_EINVAL, __VA_ARGS__)

static const void *buffer(const struct ArrowArray *a, int i) { return a->buffers[i]; }

/* The rows of an array that its parent needs, as places in its buffers. */
struct rows {
    int64_t at, n;
};

/* Checks the offsets of the rows; *of: the rows of the child, or the bytes, that they need. */
static sk_rc check_offsets(const struct ArrowArray *a, int32_t width, struct rows r,
                           struct rows *of, struct sk_err *err) {
    const uint8_t *p = buffer(a, 1);
    *of = (struct rows){0, 0};
    if (!r.n) return SK_OK;
    if (!p) return BAD(err, "buffer 1 (offsets) is missing");
    int64_t at = of->at = sk_block_int(p, width, r.at), to;
    if (at < 0) return BAD(err, "the first offset is %lld", (long long)at);
    for (int64_t i = r.at + 1; i <= r.at + r.n; i++, at = to) {
        to = sk_block_int(p, width, i);
        if (to < at)
            return BAD(err, "offsets decrease from %lld to %lld at row %lld", (long long)at,
                       (long long)to, (long long)(i - 1 - a->offset));
    }
    of->n = at - of->at;
    return SK_OK;
}

static uint64_t index_at(const uint8_t *p, int32_t width, bool is_signed, int64_t i) {
    uint64_t v = 0; /* little-endian, as blocks are */
    SK_DCHECK(width > 0);
    memcpy(&v, p + i * width, (size_t)width);
    if (is_signed && width < 8 && v >> (8 * width - 1)) v |= UINT64_MAX << (8 * width);
    return v;
}

static sk_rc check_indices(const struct ArrowArray *a, const struct sk_block_type *t, struct rows r,
                           struct sk_err *err) {
    const uint8_t *p = buffer(a, 1), *valid = a->null_count ? buffer(a, 0) : NULL;
    bool is_signed = strchr("csil", t->index) != NULL;
    for (int64_t i = r.at; i < r.at + r.n; i++)
        if (index_at(p, t->width, is_signed, i) >= (uint64_t)a->dictionary->length &&
            (!valid || sk_block_bit(valid, i)))
            return BAD(err, "dictionary index %lld at row %lld, the dictionary has %lld values",
                       (long long)index_at(p, t->width, is_signed, i), (long long)(i - a->offset),
                       (long long)a->dictionary->length);
    return SK_OK;
}

static sk_rc check_types(const struct ArrowSchema *s, const struct ArrowArray *a, struct rows r,
                         struct sk_err *err) {
    const uint8_t *types = buffer(a, 0);
    uint8_t map[256];
    sk_block_union_map(s->format, map);
    if (r.n && !types) return BAD(err, "buffer 0 (type ids) is missing");
    for (int64_t i = r.at; i < r.at + r.n; i++)
        if (map[types[i]] == 0xFF) return BAD(err, "a union has no type id %d", (int8_t)types[i]);
    return SK_OK;
}

/* Checks the values of the rows; *of: the rows of each child that they need, relative to the
 * child. */
static sk_rc check_values(const struct ArrowSchema *s, const struct ArrowArray *a,
                          const struct sk_block_type *t, struct rows r, struct rows *of,
                          struct sk_err *err) {
    *of = (struct rows){0, INT64_MAX}; /* all that it has */
    switch (t->kind) {
    case SK_BLOCK_VAR:
        SK_TRY(check_offsets(a, t->width, r, of, err));
        return of->n && !buffer(a, 2) ? BAD(err, "buffer 2 (the text's bytes) is missing") : SK_OK;
    case SK_BLOCK_LIST: return check_offsets(a, t->width, r, of, err);
    case SK_BLOCK_FIXED:
        if (r.n && t->width && !buffer(a, 1)) return BAD(err, "buffer 1 is missing");
        return s->dictionary ? check_indices(a, t, r, err) : SK_OK;
    case SK_BLOCK_BOOL:
    case SK_BLOCK_VIEW:
    case SK_BLOCK_LIST_VIEW: return r.n && !buffer(a, 1) ? BAD(err, "buffer 1 is missing") : SK_OK;
    case SK_BLOCK_SPARSE: *of = r; return check_types(s, a, r, err);
    case SK_BLOCK_STRUCT: *of = r; return SK_OK;
    case SK_BLOCK_FIXED_LIST:
        *of = (struct rows){0, 0};
        return r.n && (__builtin_mul_overflow(r.at, t->width, &of->at) ||
                       __builtin_mul_overflow(r.n, t->width, &of->n))
                   ? BAD(err, "length overflows")
                   : SK_OK;
    default: return SK_OK;
    }
}

static sk_rc check(const struct ArrowSchema *s, const struct ArrowArray *a, struct rows r,
                   struct sk_err *err);

static sk_rc check_child(const struct ArrowSchema *s, const struct ArrowArray *a, struct rows r,
                         struct sk_err *err) {
    sk_rc rc = check(s, a, r, err);
    if (rc != SK_OK) sk_err_prefix(err, "'%s'", s->name ? s->name : "");
    return rc;
}

/* Checks rows [r.at, r.at + r.n) of an array; r.n INT64_MAX: all rows. */
static sk_rc check(const struct ArrowSchema *s, const struct ArrowArray *a, struct rows r,
                   struct sk_err *err) {
    struct sk_block_type t;
    struct rows of;
    SK_ASSERT(sk_block_type_parse(s->format, &t)); /* measure.c has parsed it */
    if (!a->release) return BAD(err, "the array was released or moved");
    if (!s->dictionary != !a->dictionary) /* run ends: measure.c does not look at it */
        return BAD(err, "a dictionary is in the %s only", s->dictionary ? "schema" : "array");
    if (a->null_count > a->length)
        return BAD(err, "%lld nulls in %lld rows", (long long)a->null_count, (long long)a->length);
    if (r.n == INT64_MAX) r.n = a->length;
    if (r.at > a->length || r.n > a->length - r.at)
        return BAD(err, "%lld values, but its parent needs those from %lld to %lld",
                   (long long)a->length, (long long)r.at, (long long)r.at + r.n);
    r.at += a->offset;
    SK_TRY(check_values(s, a, &t, r, &of, err));
    for (int64_t i = 0; i < s->n_children; i++)
        SK_TRY(check_child(s->children[i], a->children[i], of, err));
    return s->dictionary
               ? check_child(s->dictionary, a->dictionary, (struct rows){0, INT64_MAX}, err)
               : SK_OK;
}

sk_rc sk_block_check_batch(const struct ArrowSchema *schema, const struct ArrowArray *array,
                           struct sk_err *err) {
    uint64_t bytes;
    SK_TRY(sk_block_nbytes(schema, array, &bytes, err));
    if ((uint64_t)array->length >= SK_ROW_NONE)
        return BAD(err, "a batch of %lld rows; at most 2^32 - 2 are possible: make smaller batches",
                   (long long)array->length);
    return check(schema, array, (struct rows){0, INT64_MAX}, err);
}

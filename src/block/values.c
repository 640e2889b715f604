/* values.c - checks the values of one node, so that a reader that trusts Arrow's invariants stays
 * inside the node's buffers.
 *
 * Not checked: UTF-8, decimals, dates, since invalid ones do not make a reader leave the buffers.
 * check.c has checked the sizes already. Cost: one pass over offsets, views, ids, indices and
 * bitmaps. */
#include "block/block_int.h"

static const char *check_offsets(const struct sk_block_elem *e) {
    const void *p = sk_block_elem_buffer(e, 1);
    for (int64_t i = 0; i < e->node->length; i++)
        if (sk_block_int(p, e->type.width, i + 1) < sk_block_int(p, e->type.width, i))
            return "offsets decrease";
    return NULL; /* check.c has compared the last offset with the length of the data */
}

static const char *check_views(const struct sk_block_elem *e) {
    /* null slots are checked as well, since readers use the length in any slot */
    const uint8_t *v = sk_block_elem_buffer(e, 1);
    int64_t n_data = (int64_t)e->node->n_buffers - 3;
    for (int64_t i = 0; i < e->node->length; i++, v += 16) {
        int64_t len = sk_block_i32(v, 0), index = sk_block_i32(v, 2), at = sk_block_i32(v, 3);
        if (len < 0) return "a view of negative length";
        if (len <= SK_BLOCK_VIEW_INLINE) continue;
        if (index < 0 || index >= n_data || at < 0 ||
            (uint64_t)(at + len) > e->spans[2 + index].len)
            return "a view points outside the data";
        if (memcmp(v + 4, (const uint8_t *)sk_block_elem_buffer(e, (uint32_t)(2 + index)) + at,
                   4) != 0)
            return "a view's prefix is wrong";
    }
    return NULL;
}

static const char *check_list_views(const struct sk_block_elem *e, int64_t child) {
    const void *offsets = sk_block_elem_buffer(e, 1), *sizes = sk_block_elem_buffer(e, 2);
    for (int64_t i = 0; i < e->node->length; i++) {
        int64_t at = sk_block_int(offsets, e->type.width, i),
                n = sk_block_int(sizes, e->type.width, i);
        if (at < 0 || n < 0 || n > child || at > child - n)
            return "a list-view points outside its child";
    }
    return NULL;
}

static const char *check_union(const struct sk_block_elem *e, const int64_t *child_length) {
    const uint8_t *types = sk_block_elem_buffer(e, 0);
    const void *offsets = e->type.kind == SK_BLOCK_DENSE ? sk_block_elem_buffer(e, 1) : NULL;
    uint8_t map[256];
    sk_block_union_map(e->format, map);
    for (int64_t i = 0; i < e->node->length; i++) {
        uint8_t child = map[types[i]];
        if (child == 0xFF) return "a union has no such type id";
        if (!offsets) continue;
        int64_t at = sk_block_i32(offsets, i);
        if (at < 0 || at >= child_length[child]) return "a union offset points outside its child";
    }
    return NULL;
}

static uint64_t index_at(const struct sk_block_elem *e, const uint8_t *p, int64_t i) {
    /* as unsigned, negative indices become huge numbers, which the caller refuses */
    uint8_t b1;
    uint16_t b2;
    uint32_t b4;
    switch (e->type.index) {
    case 'c': memcpy(&b1, p + i, 1); return (uint64_t)(int8_t)b1;
    case 'C': memcpy(&b1, p + i, 1); return b1;
    case 's': memcpy(&b2, p + 2 * i, 2); return (uint64_t)(int16_t)b2;
    case 'S': memcpy(&b2, p + 2 * i, 2); return b2;
    case 'i': memcpy(&b4, p + 4 * i, 4); return (uint64_t)(int32_t)b4;
    case 'I': memcpy(&b4, p + 4 * i, 4); return b4;
    default: return (uint64_t)sk_block_i64(p, i);
    }
}

static const char *check_indices(const struct sk_block_elem *e, int64_t dictionary) {
    const uint8_t *p = sk_block_elem_buffer(e, 1),
                  *valid = e->node->null_count ? sk_block_elem_buffer(e, 0) : NULL;
    for (int64_t i = 0; i < e->node->length; i++)
        if (index_at(e, p, i) >= (uint64_t)dictionary && (!valid || sk_block_bit(valid, i)))
            return "a dictionary index out of bounds";
    return NULL;
}

const char *sk_block_values_check(const struct sk_block_elem *e, const int64_t *child_length) {
    int64_t n = e->node->length, nulls = e->node->null_count;
    if (e->type.validity && nulls &&
        sk_block_bits_count(sk_block_elem_buffer(e, 0), 0, n) != n - nulls)
        return "null count is wrong";
    switch (e->type.kind) {
    case SK_BLOCK_VAR:
    case SK_BLOCK_LIST: return check_offsets(e);
    case SK_BLOCK_VIEW: return check_views(e);
    case SK_BLOCK_LIST_VIEW: return check_list_views(e, child_length[0]);
    case SK_BLOCK_SPARSE:
    case SK_BLOCK_DENSE: return check_union(e, child_length);
    case SK_BLOCK_FIXED: return e->field->has_dictionary ? check_indices(e, child_length[0]) : NULL;
    default: return NULL;
    }
}

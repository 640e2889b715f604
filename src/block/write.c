/* write.c - a plan of measure.c replayed into the caller's buffer.
 *
 * Writes every byte of [dst, dst + size): headers, tables, data, and zeros between them, so equal batches give equal bytes whatever was in
 * the buffer. Cannot fail: what could go wrong was found by measure. Cost: one copy of fixed-size values and text (past the cache where it is large); a pass of a few cycles a
 * value for rebased offsets, views, list-views, unions. */
#include "base/copy.h"
#include "block/block_int.h"

/* Single rows from all over: `width` is a constant in each use, and the lines are asked for ahead of time. */
static inline __attribute__((always_inline)) void copy_rows(const struct sk_block_range *r, size_t n, const uint8_t *src, size_t width,
                                                            uint8_t *d) {
    for (size_t i = 0; i < n; i++) {
        if (i + 16 < n) __builtin_prefetch(src + (size_t)r[i + 16].at * width);
        const uint8_t *from = src + (size_t)r[i].at * width;
        for (int64_t j = 0; j < r[i].n; j++, d += width, from += width) memcpy(d, from, width);
    }
}

static void write_copy(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    if ((uint64_t)op->set.total < 4 * (uint64_t)op->set.n_ranges && op->set.n_ranges > 1) {
        switch (op->width) {
        case 1: copy_rows(r, op->set.n_ranges, op->src, 1, d); return;
        case 2: copy_rows(r, op->set.n_ranges, op->src, 2, d); return;
        case 4: copy_rows(r, op->set.n_ranges, op->src, 4, d); return;
        case 8: copy_rows(r, op->set.n_ranges, op->src, 8, d); return;
        case 16: copy_rows(r, op->set.n_ranges, op->src, 16, d); return;
        default: copy_rows(r, op->set.n_ranges, op->src, (size_t)op->width, d); return;
        }
    }
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        size_t n = (size_t)(r[i].n * op->width);
        if (n) sk_copy(d, (const uint8_t *)op->src + r[i].at * op->width, n);
        d += n;
    }
}

void sk_block_write_bits(const struct sk_block_op *op, uint8_t *d, int64_t at) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        sk_block_bits_append(d, at, op->src, r[i].at, r[i].n);
        at += r[i].n;
    }
}

/* Unsigned: an offset between the ends may be garbage, which must stay harmless here. */
static uint32_t write_offsets32(const struct sk_block_op *op, uint8_t *d, uint32_t sum) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    uint32_t *to = (uint32_t *)(void *)d;
    *to++ = sum;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        if (!r[i].n) continue;
        const uint8_t *from = (const uint8_t *)op->src + r[i].at * 4;
        uint32_t base = sum - (uint32_t)sk_block_i32(from, 0);
        if (base)
            for (int64_t j = 0; j < r[i].n; j++) to[j] = (uint32_t)sk_block_i32(from, j + 1) + base;
        else memcpy(to, from + 4, (size_t)r[i].n * 4);
        to += r[i].n;
        sum = to[-1];
    }
    return sum;
}

static uint64_t write_offsets64(const struct sk_block_op *op, uint8_t *d, uint64_t sum) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    uint64_t *to = (uint64_t *)(void *)d;
    *to++ = sum;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        if (!r[i].n) continue;
        const uint8_t *from = (const uint8_t *)op->src + r[i].at * 8;
        uint64_t base = sum - (uint64_t)sk_block_i64(from, 0);
        if (base)
            for (int64_t j = 0; j < r[i].n; j++) to[j] = (uint64_t)sk_block_i64(from, j + 1) + base;
        else memcpy(to, from + 8, (size_t)r[i].n * 8);
        to += r[i].n;
        sum = to[-1];
    }
    return sum;
}

uint64_t sk_block_write_offsets(const struct sk_block_op *op, uint8_t *d, uint64_t start) {
    return op->width == 4 ? write_offsets32(op, d, (uint32_t)start) : write_offsets64(op, d, start);
}

static void write_var(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        if (!r[i].n) continue;
        int64_t from = sk_block_int(op->src, op->width, r[i].at), to = sk_block_int(op->src, op->width, r[i].at + r[i].n);
        if (to > from) memcpy(d, (const uint8_t *)op->aux + from, (size_t)(to - from));
        d += to - from;
    }
}

static const uint8_t *view_bytes(const struct ArrowArray *a, const uint8_t *view) {
    return (const uint8_t *)a->buffers[2 + sk_block_i32(view, 2)] + sk_block_i32(view, 3);
}

static void write_views(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    const uint8_t *views = op->array->buffers[1], *valid = op->src;
    struct sk_block_chunk chunk = {0, 0};
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        for (int64_t j = r[i].at; j < r[i].at + r[i].n; j++, d += 16) {
            const uint8_t *v = views + 16 * j;
            int32_t len = sk_block_i32(v, 0);
            memset(d, 0, 16);
            if (valid && !sk_block_bit(valid, j)) continue;
            memcpy(d, &len, 4);
            if (len <= SK_BLOCK_VIEW_INLINE) {
                memcpy(d + 4, v + 4, (size_t)len); /* what follows the text in the slot stays zero */
                continue;
            }
            sk_block_chunk_place(&chunk, len);
            int32_t where[2] = {(int32_t)chunk.index, (int32_t)(chunk.used - len)};
            memcpy(d + 4, view_bytes(op->array, v), 4);
            memcpy(d + 8, where, 8);
        }
    }
}

static void write_view_data(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    const uint8_t *views = op->array->buffers[1], *valid = op->src;
    struct sk_block_chunk chunk = {0, 0};
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        for (int64_t j = r[i].at; j < r[i].at + r[i].n; j++) {
            const uint8_t *v = views + 16 * j;
            int32_t len = sk_block_i32(v, 0);
            if (len <= SK_BLOCK_VIEW_INLINE || (valid && !sk_block_bit(valid, j))) continue;
            sk_block_chunk_place(&chunk, len);
            if (chunk.index > op->arg) return;
            if (chunk.index == op->arg) memcpy(d + chunk.used - len, view_bytes(op->array, v), (size_t)len);
        }
    }
}

static void write_view_sizes(const struct sk_block_op *op, uint8_t *d) {
    for (int64_t i = 0; i < op->arg; i++) memcpy(d + 8 * i, &(op - op->arg + i)->len, 8);
}

static inline void write_int(uint8_t *d, int32_t width, int64_t v) { memcpy(d, &v, (size_t)width); /* little-endian: the low bytes */ }

/* `width` is a constant in each of the two uses: with a variable one a row costs 4 ns instead of 1. */
static inline void write_list_view_of(const struct sk_block_op *op, uint8_t *d, int32_t width) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    const bool want_sizes = op->kind == SK_BLOCK_OP_LIST_SIZES;
    int64_t sum = 0;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        for (int64_t j = r[i].at; j < r[i].at + r[i].n; j++, d += width) {
            int64_t n = op->aux && !sk_block_bit(op->aux, j) ? 0 : sk_block_int(op->src, width, j);
            write_int(d, width, want_sizes ? n : sum);
            sum += n;
        }
    }
}
static void write_list_view(const struct sk_block_op *op, uint8_t *d) {
    if (op->width == 4) write_list_view_of(op, d, 4);
    else write_list_view_of(op, d, 8);
}

static void write_dense(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    int32_t next[256] = {0};
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        const uint8_t *types = (const uint8_t *)op->src + r[i].at;
        for (int64_t j = 0; j < r[i].n; j++, d += 4) {
            int32_t at = next[types[j]]++;
            memcpy(d, &at, 4);
        }
    }
}

static void write_run_ends(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    int64_t sum = 0;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        int64_t end = r[i].at + r[i].n, upto = r[i].at;
        for (int64_t k = sk_block_run_find(op->src, op->width, op->arg, r[i].at); upto < end; k++, d += op->width) {
            upto = SK_MIN(end, sk_block_int(op->src, op->width, k));
            write_int(d, op->width, sum + upto - r[i].at);
        }
        sum += r[i].n;
    }
}

void sk_block_write_op(const struct sk_block_op *op, uint8_t *d) {
    switch (op->kind) {
    case SK_BLOCK_OP_ABSENT: return;
    case SK_BLOCK_OP_COPY: write_copy(op, d); return;
    case SK_BLOCK_OP_BITS: sk_block_write_bits(op, d, 0); return;
    case SK_BLOCK_OP_OFFSETS: sk_block_write_offsets(op, d, 0); return;
    case SK_BLOCK_OP_VAR_DATA: write_var(op, d); return;
    case SK_BLOCK_OP_VIEWS: write_views(op, d); return;
    case SK_BLOCK_OP_VIEW_DATA: write_view_data(op, d); return;
    case SK_BLOCK_OP_VIEW_SIZES: write_view_sizes(op, d); return;
    case SK_BLOCK_OP_LIST_OFFSETS:
    case SK_BLOCK_OP_LIST_SIZES: write_list_view(op, d); return;
    case SK_BLOCK_OP_DENSE: write_dense(op, d); return;
    case SK_BLOCK_OP_RUN_ENDS: write_run_ends(op, d); return;
    }
}

void sk_block_write(const struct sk_block_plan *plan, uint8_t *dst) {
    const struct sk_block_hdr *h = &plan->hdr;
    SK_ASSERT(((uintptr_t)dst & (SK_BLOCK_ALIGN - 1)) == 0);
    memcpy(dst, h, sizeof *h);
    uint8_t *end = sk_block_schema_write(plan->schema, dst + h->schema_off);
    SK_ASSERT(end == dst + h->nodes_off); /* else the schema changed since measure */
    memcpy(dst + h->nodes_off, plan->nodes, h->n_nodes * sizeof *plan->nodes);
    struct sk_block_span *span = (void *)(dst + h->buffers_off);
    for (uint32_t i = 0; i < h->n_buffers; i++) span[i] = (struct sk_block_span){plan->ops[i].off, plan->ops[i].len};
    end = (uint8_t *)(span + h->n_buffers);
    memset(end, 0, (size_t)(dst + h->data_off - end));
    for (uint32_t i = 0; i < h->n_buffers; i++) {
        const struct sk_block_op *op = &plan->ops[i];
        if (!op->len) continue;
        if (plan->n_parts) sk_block_write_joined(plan, i, dst + op->off);
        else sk_block_write_op(op, dst + op->off);
        memset(dst + op->off + op->len, 0, (size_t)(SK_ALIGN(op->len, SK_BLOCK_ALIGN) - op->len));
    }
}

/* write.c - executes a plan of measure.c into the caller's buffer.
 *
 * Writes every byte of [dst, dst + size): headers, tables, data, and zeros between them, so that
 * equal batches give equal bytes, whatever was in the buffer. Cannot fail, since measure has found
 * all errors. Cost: one copy of fixed-size values and text (past the CPU's cache if it is large); a
 * pass of a few cycles a value for rebased offsets, views, list-views, unions. */
#include "base/copy.h"
#include "block/block_int.h"

#define SK_ALWAYS static inline __attribute__((always_inline))
enum { AHEAD = 16 }; /* number of rows between a prefetch and the use of its data */

/* Copies short ranges of scattered rows, with prefetch; `width` is a constant at each call, for
 * speed. */
SK_ALWAYS void copy_rows(const struct sk_block_op *op, size_t width, uint8_t *d) {
    const struct sk_block_range *r = sk_block_ranges(&op->set);
    const uint8_t *src = sk_block_inputs(op)->src;
    size_t n = op->set.n_ranges;
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n) __builtin_prefetch(src + (size_t)r[i + AHEAD].at * width);
        const uint8_t *from = src + (size_t)r[i].at * width;
        for (int64_t j = 0; j < r[i].n; j++, d += width, from += width) memcpy(d, from, width);
    }
}

SK_ALWAYS void copy_places(const struct sk_block_op *op, size_t width, uint8_t *d) {
    const struct sk_block_input *in = sk_block_inputs(op);
    const struct sk_row_at *p = op->set.places;
    size_t n = op->set.n_ranges;
    for (size_t i = 0; i < n; i++, d += width) {
        if (i + AHEAD < n && p[i + AHEAD].run != SK_ROW_NONE) {
            const uint8_t *at =
                (const uint8_t *)in[p[i + AHEAD].run].src + p[i + AHEAD].row * width;
            __builtin_prefetch(at);
            if (width > 16) __builtin_prefetch(at + width - 1);
        }
        if (SK_LIKELY(p[i].run != SK_ROW_NONE))
            memcpy(d, (const uint8_t *)in[p[i].run].src + p[i].row * width, width);
        else memset(d, 0, width);
    }
}

SK_ALWAYS void copy_singles(const struct sk_block_op *op, size_t width, uint8_t *d) {
    if (op->set.places) copy_places(op, width, d);
    else copy_rows(op, width, d);
}

static void write_copy(const struct sk_block_op *op, uint8_t *d) {
    const struct sk_block_set *set = &op->set;
    if (set->places ||
        (!set->from && (uint64_t)set->total < 4 * (uint64_t)set->n_ranges && set->n_ranges > 1)) {
        switch (op->width) {
        case 1: copy_singles(op, 1, d); return;
        case 2: copy_singles(op, 2, d); return;
        case 4: copy_singles(op, 4, d); return;
        case 8: copy_singles(op, 8, d); return;
        case 16: copy_singles(op, 16, d); return;
        default: copy_singles(op, (size_t)op->width, d); return;
        }
    }
    for (size_t i = 0; i < set->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(set, i);
        size_t n = (size_t)(p.n * op->width);
        if (!n) continue;
        if (p.from == SK_ROW_NONE) memset(d, 0, n);
        else sk_copy(d, (const uint8_t *)sk_block_inputs(op)[p.from].src + p.at * op->width, n);
        d += n;
    }
}

static uint32_t code_of(const uint8_t *p, int32_t width) {
    uint64_t v = 0;
    memcpy(&v, p, (size_t)width);
    return v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
}

/* Writes the codes in the unified dictionary. A code in a null slot may be any number; 0 is written
 * for one that is beyond the dictionary. */
static void write_codes(const struct sk_block_op *op, uint8_t *d) {
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        const struct sk_block_input *in =
            p.from == SK_ROW_NONE ? NULL : &sk_block_inputs(op)[p.from];
        for (int64_t j = p.at; j < p.at + p.n; j++, d += op->width) {
            uint64_t code =
                in ? code_of((const uint8_t *)in->src + j * op->width, op->width) : UINT32_MAX;
            code = in && (int64_t)code < in->n ? ((const uint32_t *)in->aux)[code] : 0;
            memcpy(d, &code, (size_t)op->width);
        }
    }
}

static const uint8_t ones[64] = {[0 ... 63] = 0xff}, zeros[64];

static void bits_fill(uint8_t *d, int64_t at, const uint8_t *with, int64_t n) {
    for (int64_t k; n; at += k, n -= k) {
        k = SK_MIN(n, 512 - (at & 7));
        sk_block_bits_append(d, at, with, 0, k);
    }
}

/* Writes one bit for each place, a byte at a time. */
static void bits_places(const struct sk_block_op *op, uint8_t *d, int64_t at) {
    const struct sk_block_input *in = sk_block_inputs(op);
    uint8_t *to = d + (at >> 3), byte = at & 7 ? *to : 0;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        bool bit = p.from != SK_ROW_NONE && (!in[p.from].src || sk_block_bit(in[p.from].src, p.at));
        byte |= (uint8_t)(bit << (at & 7));
        if (++at & 7) continue;
        *to++ = byte;
        byte = 0;
    }
    if (at & 7) *to = byte;
}

void sk_block_write_bits(const struct sk_block_op *op, uint8_t *d, int64_t at) {
    if (op->set.places) {
        bits_places(op, d, at);
        return;
    }
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        const uint8_t *src = p.from == SK_ROW_NONE ? NULL : sk_block_inputs(op)[p.from].src;
        if (p.from == SK_ROW_NONE) bits_fill(d, at, zeros, p.n);
        else if (src) sk_block_bits_append(d, at, src, p.at, p.n);
        else bits_fill(d, at, ones, p.n);
        at += p.n;
    }
}

void sk_block_write_ones(uint8_t *d, int64_t at, int64_t n) { bits_fill(d, at, ones, n); }

/* Writes 32-bit offsets from `sum` on. The arithmetic is unsigned, since offsets inside a range are
 * not checked and may overflow, which must be harmless. */
static uint32_t write_offsets32(const struct sk_block_op *op, uint8_t *d, uint32_t sum) {
    uint32_t *to = (uint32_t *)(void *)d;
    *to++ = sum;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (!p.n) continue;
        const uint8_t *src = p.from == SK_ROW_NONE ? NULL : sk_block_inputs(op)[p.from].src,
                      *from = src ? src + p.at * 4 : NULL;
        uint32_t base = from ? sum - (uint32_t)sk_block_i32(from, 0) : 0;
        if (!from)
            for (int64_t j = 0; j < p.n; j++) to[j] = sum;
        else if (base || p.n < 8)
            for (int64_t j = 0; j < p.n; j++) to[j] = (uint32_t)sk_block_i32(from, j + 1) + base;
        else memcpy(to, from + 4, (size_t)p.n * 4);
        to += p.n;
        sum = to[-1];
    }
    return sum;
}

static uint64_t write_offsets64(const struct sk_block_op *op, uint8_t *d, uint64_t sum) {
    uint64_t *to = (uint64_t *)(void *)d;
    *to++ = sum;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (!p.n) continue;
        const uint8_t *src = p.from == SK_ROW_NONE ? NULL : sk_block_inputs(op)[p.from].src,
                      *from = src ? src + p.at * 8 : NULL;
        uint64_t base = from ? sum - (uint64_t)sk_block_i64(from, 0) : 0;
        if (!from)
            for (int64_t j = 0; j < p.n; j++) to[j] = sum;
        else if (base || p.n < 8)
            for (int64_t j = 0; j < p.n; j++) to[j] = (uint64_t)sk_block_i64(from, j + 1) + base;
        else memcpy(to, from + 8, (size_t)p.n * 8);
        to += p.n;
        sum = to[-1];
    }
    return sum;
}

uint64_t sk_block_write_offsets(const struct sk_block_op *op, uint8_t *d, uint64_t start) {
    return op->width == 4 ? write_offsets32(op, d, (uint32_t)start) : write_offsets64(op, d, start);
}

/* Copies short texts of scattered rows. Offsets are prefetched twice as many rows ahead as the
 * bytes, because they are needed for the prefetch of the bytes. */
SK_ALWAYS void var_places(const struct sk_block_op *op, int32_t width, uint8_t *d) {
    const struct sk_block_input *in = sk_block_inputs(op);
    const struct sk_block_set *set = &op->set;
    for (size_t i = 0; i < set->n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(set, i);
        if (i + 2 * AHEAD < set->n_ranges) {
            struct sk_block_piece far = sk_block_piece(set, i + 2 * AHEAD),
                                  near = sk_block_piece(set, i + AHEAD);
            if (far.from != SK_ROW_NONE)
                __builtin_prefetch((const uint8_t *)in[far.from].src + far.at * width);
            if (near.from != SK_ROW_NONE && in[near.from].aux) {
                const uint8_t *text = (const uint8_t *)in[near.from].aux +
                                      sk_block_int(in[near.from].src, width, near.at);
                __builtin_prefetch(text);
                __builtin_prefetch(text + 64);
            }
        }
        if (p.from == SK_ROW_NONE) continue;
        int64_t from = sk_block_int(in[p.from].src, width, p.at),
                to = sk_block_int(in[p.from].src, width, p.at + 1);
        if (to > from) memcpy(d, (const uint8_t *)in[p.from].aux + from, (size_t)(to - from));
        d += to - from;
    }
}

static void write_var(const struct sk_block_op *op, uint8_t *d) {
    if (op->set.places) {
        if (op->width == 4) var_places(op, 4, d);
        else var_places(op, 8, d);
        return;
    }
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (!p.n || p.from == SK_ROW_NONE) continue;
        const struct sk_block_input *in = &sk_block_inputs(op)[p.from];
        int64_t from = sk_block_int(in->src, op->width, p.at),
                to = sk_block_int(in->src, op->width, p.at + p.n);
        if (to > from) memcpy(d, (const uint8_t *)in->aux + from, (size_t)(to - from));
        d += to - from;
    }
}

static const uint8_t *view_bytes(const struct ArrowArray *a, const uint8_t *view) {
    return (const uint8_t *)a->buffers[2 + sk_block_i32(view, 2)] + sk_block_i32(view, 3);
}

static uint8_t *write_views_of(const struct sk_block_input *in, struct sk_block_piece p,
                               struct sk_block_chunk *chunk, uint8_t *d) {
    const uint8_t *views = in->array->buffers[1];
    for (int64_t j = p.at; j < p.at + p.n; j++, d += 16) {
        const uint8_t *v = views + 16 * j;
        int32_t len = sk_block_i32(v, 0);
        memset(d, 0, 16);
        if (in->src && !sk_block_bit(in->src, j)) continue;
        memcpy(d, &len, 4);
        if (len <= SK_BLOCK_VIEW_INLINE) {
            memcpy(d + 4, v + 4, (size_t)len); /* the rest of the slot stays zero */
            continue;
        }
        sk_block_chunk_place(chunk, len);
        int32_t where[2] = {(int32_t)chunk->index, (int32_t)(chunk->used - len)};
        memcpy(d + 4, view_bytes(in->array, v), 4);
        memcpy(d + 8, where, 8);
    }
    return d;
}

static void write_views(const struct sk_block_op *op, uint8_t *d) {
    struct sk_block_chunk chunk = {0, 0};
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (p.from != SK_ROW_NONE) {
            if (p.n) d = write_views_of(&sk_block_inputs(op)[p.from], p, &chunk, d);
            continue;
        }
        memset(d, 0, 16 * (size_t)p.n);
        d += 16 * p.n;
    }
}

static void write_view_data(const struct sk_block_op *op, uint8_t *d) {
    struct sk_block_chunk chunk = {0, 0};
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (!p.n || p.from == SK_ROW_NONE) continue;
        const struct sk_block_input *in = &sk_block_inputs(op)[p.from];
        const uint8_t *views = in->array->buffers[1];
        for (int64_t j = p.at; j < p.at + p.n; j++) {
            const uint8_t *v = views + 16 * j;
            int32_t len = sk_block_i32(v, 0);
            if (len <= SK_BLOCK_VIEW_INLINE || (in->src && !sk_block_bit(in->src, j))) continue;
            sk_block_chunk_place(&chunk, len);
            if (chunk.index > op->arg) return;
            if (chunk.index == op->arg)
                memcpy(d + chunk.used - len, view_bytes(in->array, v), (size_t)len);
        }
    }
}

static void write_view_sizes(const struct sk_block_op *op, uint8_t *d) {
    for (int64_t i = 0; i < op->arg; i++) memcpy(d + 8 * i, &(op - op->arg + i)->len, 8);
}

static inline void write_int(uint8_t *d, int32_t width, int64_t v) {
    memcpy(d, &v, (size_t)width); /* the low bytes of v, since the machine is little-endian */
}

/* Writes the offsets or sizes of a list-view. `width` is a constant at each call: a variable would
 * cost 4 ns a row instead of 1. */
SK_ALWAYS void write_list_view_of(const struct sk_block_op *op, uint8_t *d, int32_t width) {
    const bool want_sizes = op->kind == SK_BLOCK_OP_LIST_SIZES;
    int64_t sum = 0;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        const struct sk_block_input *in =
            p.from == SK_ROW_NONE ? NULL : &sk_block_inputs(op)[p.from];
        for (int64_t j = p.at; j < p.at + p.n; j++, d += width) {
            int64_t n =
                !in || (in->aux && !sk_block_bit(in->aux, j)) ? 0 : sk_block_int(in->src, width, j);
            write_int(d, width, want_sizes ? n : sum);
            sum += n;
        }
    }
}
static void write_list_view(const struct sk_block_op *op, uint8_t *d) {
    if (op->width == 4) write_list_view_of(op, d, 4);
    else write_list_view_of(op, d, 8);
}

/* Writes type ids or, for DENSE, the number of the next row of each type. */
static void write_types(const struct sk_block_op *op, uint8_t *d) {
    int32_t next[256] = {0};
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        const uint8_t *types = p.from == SK_ROW_NONE ? NULL : sk_block_inputs(op)[p.from].src;
        for (int64_t j = p.at; j < p.at + p.n; j++, d += op->width) {
            uint8_t type = types ? types[j] : (uint8_t)op->arg;
            int32_t at = next[type]++;
            if (op->kind == SK_BLOCK_OP_DENSE) memcpy(d, &at, 4);
            else *d = type;
        }
    }
}

static void write_run_ends(const struct sk_block_op *op, uint8_t *d) {
    int64_t sum = 0;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (p.from == SK_ROW_NONE) { /* the rows of nulls of a piece are one run */
            write_int(d, op->width, sum + p.n);
            d += op->width;
            sum += p.n;
            continue;
        }
        const struct sk_block_input *in = &sk_block_inputs(op)[p.from];
        int64_t end = p.at + p.n, upto = p.at;
        for (int64_t k = sk_block_run_find(in->src, op->width, in->n, p.at); upto < end;
             k++, d += op->width) {
            upto = SK_MIN(end, sk_block_int(in->src, op->width, k));
            write_int(d, op->width, sum + upto - p.at);
        }
        sum += p.n;
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
    case SK_BLOCK_OP_TYPES:
    case SK_BLOCK_OP_DENSE: write_types(op, d); return;
    case SK_BLOCK_OP_CODES: write_codes(op, d); return;
    case SK_BLOCK_OP_RUN_ENDS: write_run_ends(op, d); return;
    }
}

bool sk_block_plan_largest(const struct sk_block_plan *plan, struct sk_block_largest *out) {
    uint32_t k = 0;
    if (plan->n_parts || !plan->hdr.n_buffers) return false;
    for (uint32_t i = 1; i < plan->hdr.n_buffers; i++)
        if (plan->ops[i].len > plan->ops[k].len) k = i;
    const struct sk_block_op *op = &plan->ops[k];
    if (op->kind != SK_BLOCK_OP_COPY || op->many || op->set.places || op->set.from ||
        op->set.n_ranges != 1 || !op->one.src)
        return false;
    *out = (struct sk_block_largest){(const uint8_t *)op->one.src + op->set.one.at * op->width,
                                     op->off, op->len, k};
    return true;
}

/* Writes the block, but not the content of buffer `but`. */
static void write_but(const struct sk_block_plan *plan, uint8_t *dst, uint32_t but) {
    const struct sk_block_hdr *h = &plan->hdr;
    SK_ASSERT(((uintptr_t)dst & (SK_BLOCK_ALIGN - 1)) == 0);
    memcpy(dst, h, sizeof *h);
    uint8_t *end = sk_block_schema_write(plan->schema, dst + h->schema_off);
    SK_ASSERT(end == dst + h->nodes_off); /* this fails if the schema has changed since measure */
    memcpy(dst + h->nodes_off, plan->nodes, h->n_nodes * sizeof *plan->nodes);
    struct sk_block_span *span = (void *)(dst + h->buffers_off);
    for (uint32_t i = 0; i < h->n_buffers; i++)
        span[i] = (struct sk_block_span){plan->ops[i].off, plan->ops[i].len};
    end = (uint8_t *)(span + h->n_buffers);
    memset(end, 0, (size_t)(dst + h->data_off - end));
    for (uint32_t i = 0; i < h->n_buffers; i++) {
        const struct sk_block_op *op = &plan->ops[i];
        if (!op->len) continue;
        if (plan->n_parts) sk_block_write_joined(plan, i, dst + op->off);
        else if (i != but) sk_block_write_op(op, dst + op->off);
        memset(dst + op->off + op->len, 0, (size_t)(SK_ALIGN(op->len, SK_BLOCK_ALIGN) - op->len));
    }
}

void sk_block_write(const struct sk_block_plan *plan, uint8_t *dst) {
    write_but(plan, dst, UINT32_MAX);
}

void sk_block_write_around(const struct sk_block_plan *plan, uint8_t *dst,
                           const struct sk_block_largest *there) {
    SK_ASSERT(there->buffer < plan->hdr.n_buffers && plan->ops[there->buffer].off == there->off);
    write_but(plan, dst, there->buffer);
}

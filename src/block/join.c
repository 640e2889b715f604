/* join.c - one plan for the rows of several batches, one batch behind the other, so that many small
 * batches become one block without being concatenated first.
 *
 * The parts are plans of measure.c, of batches of one schema. Each buffer of the joined block
 * consists of the same buffer of each part in order: bytes and bitmaps are copied, and offsets are
 * increased by the sum of the earlier parts. So the bytes are those of a concatenated batch. Types
 * whose buffers refer to each other in another way (dictionaries, views, list-views, dense unions,
 * run ends) are refused, and the caller concatenates the batches. Cost: 20 ns for each buffer of
 * each part; the copies are those of write.c. */
#include "block/block_int.h"

static bool has_dictionary(const struct ArrowSchema *s) {
    if (s->dictionary) return true;
    for (int64_t i = 0; i < s->n_children; i++)
        if (has_dictionary(s->children[i])) return true;
    return false;
}

static bool joins(enum sk_block_op_kind k) { return k <= SK_BLOCK_OP_VAR_DATA; }

/* Counts the bytes or child rows between the first and last offset of a part's rows. */
static uint64_t spanned(const struct sk_block_op *op) {
    uint64_t sum = 0;
    for (size_t i = 0; i < op->set.n_ranges; i++) {
        struct sk_block_piece p = sk_block_piece(&op->set, i);
        if (!p.n || p.from == SK_ROW_NONE) continue;
        const void *offsets = sk_block_inputs(op)[p.from].src;
        sum += (uint64_t)(sk_block_int(offsets, op->width, p.at + p.n) -
                          sk_block_int(offsets, op->width, p.at));
    }
    return sum;
}

/* Plans buffer j of the joined block; false: the parts cannot be joined. */
static bool join_op(const struct sk_block_plan *const *parts, size_t n, uint32_t j,
                    struct sk_block_op *out) {
    uint64_t bytes = 0, rows = 0, span = 0;
    *out = (struct sk_block_op){.kind = SK_BLOCK_OP_ABSENT};
    for (size_t i = 0; i < n; i++) {
        const struct sk_block_op *op = &parts[i]->ops[j];
        rows += (uint64_t)op->set.total;
        bytes += op->len;
        if (op->kind == SK_BLOCK_OP_ABSENT) continue;
        if (!joins(op->kind) ||
            (out->kind != SK_BLOCK_OP_ABSENT && (out->kind != op->kind || out->width != op->width)))
            return false;
        out->kind = op->kind;
        out->width = op->width;
        if (op->kind == SK_BLOCK_OP_OFFSETS) span += spanned(op);
    }
    if (out->kind == SK_BLOCK_OP_BITS) bytes = (rows + 7) / 8;
    if (out->kind == SK_BLOCK_OP_OFFSETS) bytes = (rows + 1) * (uint64_t)out->width;
    /* too many bytes for 32-bit offsets: the caller then concatenates, which reports the error */
    if (out->kind == SK_BLOCK_OP_OFFSETS && out->width == 4 && span > INT32_MAX) return false;
    out->len = bytes;
    return true;
}

sk_rc sk_block_plan_join(const struct sk_block_plan *const *parts, size_t n,
                         struct sk_block_plan **plan, struct sk_err *err) {
    const struct sk_block_plan *first = parts[0];
    uint32_t n_ops = first->hdr.n_buffers, n_nodes = first->hdr.n_nodes;
    *plan = NULL;
    for (size_t i = 0; i < n; i++)
        if (parts[i]->n_parts || parts[i]->hdr.n_buffers != n_ops ||
            parts[i]->hdr.n_nodes != n_nodes)
            return SK_OK;
    if (has_dictionary(first->schema)) return SK_OK;
    struct sk_block_plan *p = sk_block_plan_create(first->schema, n_nodes, n_ops, n);
    if (!p) return SK_ERR(err, SK_ENOMEM, "encode block: no memory for a plan of %zu batches", n);
    p->hdr.n_nodes = n_nodes;
    p->schema_crc = first->schema_crc;
    p->hdr.n_buffers = n_ops;
    p->hdr.n_columns = first->hdr.n_columns;
    memcpy(p->nodes, first->nodes, n_nodes * sizeof *p->nodes);
    for (size_t i = 0; i < n; i++) {
        p->parts[i] = parts[i];
        p->hdr.n_rows += parts[i]->hdr.n_rows;
        for (uint32_t k = 0; i && k < n_nodes; k++) {
            p->nodes[k].length += parts[i]->nodes[k].length;
            p->nodes[k].null_count += parts[i]->nodes[k].null_count;
        }
    }
    bool ok = true;
    for (uint32_t j = 0; ok && j < n_ops; j++) {
        ok = join_op(parts, n, j, &p->ops[j]);
        p->data_bytes += p->ops[j].len;
    }
    if (!ok || !sk_block_plan_place(p, first->hdr.schema_len)) {
        sk_block_plan_free(p);
        return SK_OK;
    }
    *plan = p;
    return SK_OK;
}

void sk_block_write_joined(const struct sk_block_plan *plan, uint32_t j, uint8_t *d) {
    const struct sk_block_op *whole = &plan->ops[j];
    int64_t rows = 0;
    uint64_t sum = 0;
    for (size_t i = 0; i < plan->n_parts; i++) {
        const struct sk_block_op *op = &plan->parts[i]->ops[j];
        switch (whole->kind) {
        case SK_BLOCK_OP_BITS:
            /* if the part has no bitmap, all its rows are valid */
            if (op->kind == SK_BLOCK_OP_ABSENT) sk_block_write_ones(d, rows, op->set.total);
            else sk_block_write_bits(op, d, rows);
            break;
        case SK_BLOCK_OP_OFFSETS:
            sum = sk_block_write_offsets(op, d + rows * whole->width, sum);
            break;
        default: sk_block_write_op(op, d); d += op->len;
        }
        rows += op->set.total;
    }
}

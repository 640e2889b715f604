/* args.c - the arguments of a stage's tasks, written and read (layout: args.h). Pure. */
#include "exec/args.h"

void sk_stage_write(struct sk_wr *w, uint32_t n_nodes) { sk_wr_u32(w, n_nodes); }

void sk_stage_node_write(struct sk_wr *w, const struct sk_stage_node *node) {
    sk_wr_bytes(w, node->op.p, node->op.n);
    sk_wr_bytes(w, node->label.p, node->label.n);
    sk_wr_bytes(w, node->params.p, node->params.n);
    sk_wr_bytes(w, node->what.p, node->what.n);
}

uint32_t sk_stage_read(struct sk_rd *r) { return sk_rd_u32(r); }

struct sk_stage_node sk_stage_node_read(struct sk_rd *r) {
    struct sk_stage_node node;
    node.op = sk_rd_bytes(r);
    node.label = sk_rd_bytes(r);
    node.params = sk_rd_bytes(r);
    node.what = sk_rd_bytes(r);
    return node;
}

void sk_stage_task_write(struct sk_wr *w, const struct sk_stage_task *t) {
    sk_wr_u64(w, t->seq);
    sk_wr_i64(w, t->cap_rows);
    sk_wr_u64(w, t->target_bytes);
    sk_wr_u64(w, t->table_bytes);
    sk_wr_bytes(w, t->unit.p, t->unit.n);
    sk_wr_u32(w, t->hint);
    sk_wr_u32(w, t->n_blocks);
}

void sk_stage_block_write(struct sk_wr *w, const struct sk_stage_block *b) {
    sk_wr_u64(w, b->row0);
    sk_wr_u64(w, b->n_rows);
    sk_wr_u32(w, b->side);
}

struct sk_stage_task sk_stage_task_read(struct sk_rd *r) {
    struct sk_stage_task t;
    t.seq = sk_rd_u64(r);
    t.cap_rows = sk_rd_i64(r);
    t.target_bytes = sk_rd_u64(r);
    t.table_bytes = sk_rd_u64(r);
    t.unit = sk_rd_bytes(r);
    t.hint = sk_rd_u32(r);
    t.n_blocks = sk_rd_u32(r);
    return t;
}

struct sk_stage_block sk_stage_block_read(struct sk_rd *r) {
    struct sk_stage_block b;
    b.row0 = sk_rd_u64(r);
    b.n_rows = sk_rd_u64(r);
    b.side = sk_rd_u32(r);
    return b;
}

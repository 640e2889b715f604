/* args.h - the arguments of a stage's tasks: their layout, one writer and one reader.
 *
 * A task of a stage is called as run_stage(stage, task, blocks...), an actor's as
 * stage_call(task, blocks...): its constructor got the stage. `stage` says which operators run, and
 * is put once a run; `task` says what this task does. Behind them come the input blocks, or parts
 * of blocks, as references.
 *
 * Both are wire format (base/wire.h). A reader trusts no length: it checks once at its end, by
 * sk_rd_ok. Text and bytes are borrowed from what is read. */
#ifndef SK_EXEC_ARGS_H
#define SK_EXEC_ARGS_H

#include "base/wire.h"

/* kinds of values (engine/value.h) */
enum {
    SK_KIND_BLOCK = 0x20u, /* a block (block/block.h) */
    SK_KIND_PACK = 0x21u,  /* several, one behind the other (shuffle/pack.h) */
    SK_KIND_EXEC = 0x40u,  /* `task` */
    SK_KIND_STAGE = 0x41u  /* `stage` */
};

/* ---- stage: u32 nodes, then of each these fields, each with its length ---- */

struct sk_stage_node {
    struct sk_bytes op, label; /* names: of the operator, and for people */
    struct sk_bytes params;    /* what only the operator understands */
    struct sk_bytes what;      /* of the plan's node (struct sk_node_desc) */
};
void sk_stage_write(struct sk_wr *w, uint32_t n_nodes);
void sk_stage_node_write(struct sk_wr *w, const struct sk_stage_node *node);
uint32_t sk_stage_read(struct sk_rd *r); /* how many nodes follow */
struct sk_stage_node sk_stage_node_read(struct sk_rd *r);

/* ---- task: u64 seq, i64 cap_rows, u64 target_bytes, bytes unit, u32 hint, u32 n_blocks, then of
 * each block u64 row0, u64 n_rows, u32 side. What is behind it was written by the stage's gather
 * (exec/gather.h), and is read by whoever knows that gather. ---- */

#define SK_NO_SEQ UINT64_MAX /* seq of a task that starts ahead of its turn */

struct sk_stage_task {
    uint64_t seq;          /* number of the task in its stage: the same on every run */
    int64_t cap_rows;      /* it may stop after so many output rows; -1: never */
    uint64_t target_bytes; /* its output is cut into blocks of about so many */
    struct sk_bytes unit;  /* parameters of a source's unit; empty where there is none */
    uint32_t hint;         /* how its values are wanted, if a gather takes them; else 1 */
    uint32_t n_blocks;
};
struct sk_stage_block {
    /* of the block, the rows that are the task's. Of a part of a value that the engine brought
     * whole: row0 is the part's first byte */
    uint64_t row0, n_rows;
    uint32_t side; /* number of the stage's input that it is of */
};
void sk_stage_task_write(struct sk_wr *w, const struct sk_stage_task *t);
void sk_stage_block_write(struct sk_wr *w, const struct sk_stage_block *b);
struct sk_stage_task sk_stage_task_read(struct sk_rd *r);
struct sk_stage_block sk_stage_block_read(struct sk_rd *r);

#endif

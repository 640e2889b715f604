/* args.h - the arguments of a stage's tasks: their layout, one writer and one reader. A task of a
 * stage is called as run_stage(stage, task, blocks...), a task of an actor as stage_call(task,
 * blocks...), since the actor's constructor got `stage`. `stage` says which operators run, and is
 * put into the store once for each run; `task` describes this task. The input blocks, or parts of
 * blocks, follow as references. Both are in wire format (base/wire.h). A reader does not trust any
 * length: it calls sk_rd_ok once at its end. Texts and bytes point into the bytes that are read. */
#ifndef SK_EXEC_ARGS_H
#define SK_EXEC_ARGS_H

#include "base/wire.h"

/* kinds of values (engine/value.h) */
enum {
    SK_KIND_BLOCK = 0x20u, /* a block (block/block.h) */
    SK_KIND_PACK = 0x21u,  /* several blocks behind each other (shuffle/pack.h) */
    SK_KIND_EXEC = 0x40u,  /* `task`: the argument that describes a task */
    SK_KIND_STAGE = 0x41u  /* `stage`: the argument that describes a stage */
};

/* ---- stage: u32 number of nodes, then for each node these fields, each with its length ------- */

struct sk_stage_node {
    struct sk_bytes op, label; /* op: name of the operator; label: text for people */
    struct sk_bytes params;    /* parameters, which only the operator understands */
    struct sk_bytes what;      /* as in struct sk_node_desc */
};
void sk_stage_write(struct sk_wr *w, uint32_t n_nodes);
void sk_stage_node_write(struct sk_wr *w, const struct sk_stage_node *node);
uint32_t sk_stage_read(struct sk_rd *r); /* returns the number of nodes that follow */
struct sk_stage_node sk_stage_node_read(struct sk_rd *r);

/* Fields of `task`: u64 seq, i64 cap_rows, u64 target_bytes, u64 table_bytes, bytes unit, u32 hint,
 * u32 n_blocks, then for each block u64 row0, u64 n_rows, u32 side. The bytes behind these belong
 * to the stage's gather (exec/gather.h) and are read only by code that knows this gather. */

#define SK_NO_SEQ UINT64_MAX /* seq of a task that starts ahead of its turn (exec_int.h) */

struct sk_stage_task {
    uint64_t seq;          /* number of the task in its stage; equal in repeated runs of the plan */
    int64_t cap_rows;      /* the task may stop after this many output rows; -1: no limit */
    uint64_t target_bytes; /* approximate size of output blocks */
    uint64_t table_bytes;  /* memory that a table of the task may take, such as one of groups */
    struct sk_bytes unit;  /* parameters of a source's unit; empty if the task has none */
    /* form in which the next gather takes the task's values; 1 if there is no such gather */
    uint32_t hint;
    uint32_t n_blocks;
};
struct sk_stage_block {
    /* Rows [row0, row0 + n_rows) of the block belong to the task. If the engine brought only a part
     * of a value, row0 is the part's first byte. */
    uint64_t row0, n_rows;
    uint32_t side; /* number of the stage's input that the block belongs to */
};
void sk_stage_task_write(struct sk_wr *w, const struct sk_stage_task *t);
void sk_stage_block_write(struct sk_wr *w, const struct sk_stage_block *b);
struct sk_stage_task sk_stage_task_read(struct sk_rd *r);
struct sk_stage_block sk_stage_block_read(struct sk_rd *r);

#endif

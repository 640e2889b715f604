/* plan.h - the logical DAG, its rules, and the stages that come out of it.
 *
 * A plan is a list of nodes (operator + parameters + inputs) that is only ever appended to; it is
 * read-only to everybody who runs it. An operator is described by properties (struct sk_op; the
 * caller has them: python/skate/data/op): rules read properties, never names. Parameters that only
 * the worker understands (a pickled user function, a file list) are opaque bytes here.
 * `sk_plan_stages` applies the rules (limit, fuse) and gives the physical DAG that exec runs. */
#ifndef SK_PLAN_H
#define SK_PLAN_H

#include "base/base.h"
#include "base/err.h"

enum {                   /* properties of an operator */
       SK_OP_SOURCE = 1, /* no input; has units (each becomes one task) or existing blocks */
       /* as many rows out as in, in the same order (a limit may move above it) */
       SK_OP_ONE_TO_ONE = 2,
       SK_OP_NO_MORE = 4, /* at most as many rows out as in */
       /* output depends on single rows only: any batching gives the same rows */
       SK_OP_BY_ROW = 8,
       /* first n rows; done by exec on references, and as a cap inside the stage before it */
       SK_OP_LIMIT = 16,
       SK_OP_WRITES = 32, /* has effects outside; its output rows are reports */
       SK_OP_NO_FUSE = 64,
       /* output depends on the number of the task in its stage: tasks start in the order of their
        * inputs */
       SK_OP_NUMBERED = 256,
       SK_OP_UNION = 128, /* several inputs, one after another */
       SK_OP_ZIP =
           /* several inputs, side by side: it sees the same rows of each. One that is none of
            * UNION, ZIP and EXCHANGE has one input */
       512,
       SK_OP_PACKS =
           /* its blocks are packs (shuffle/pack.h): only an EXCHANGE or a MERGE takes them. Nothing
            * behind it fuses with it */
       1024,
       SK_OP_EXCHANGE =
           /* takes packs, all of each input, before it gives a block (struct sk_exchange_desc): it
            * fuses with nothing before it; what is behind it may */
       2048,
       SK_OP_MERGE =
           /* takes packs and, with PACKS, gives packs of the same partitions: so many of them
            * become one as the strategy says (shuffle/shuffle.h), none go through without a task */
       4096,
};

#define SK_PLAN_SIDES_MAX 64u /* inputs of SK_OP_ZIP and SK_OP_EXCHANGE */

struct sk_op {
    const char *name; /* what the worker finds it by */
    uint32_t props;
};

struct sk_unit { /* one piece of a source: becomes one task */
    struct sk_bytes params;
    int64_t est_rows, est_bytes; /* -1: unknown */
};

struct sk_bref { /* rows of a block that exists; the holder owns one reference to oid */
    uint64_t oid;
    uint64_t row0, n_rows;
    uint64_t bytes;
    /* unit of the source that it stems from; meaningful in runs that keep units apart */
    uint64_t origin;
    uint64_t schema; /* checksum of its schema, as its task said; 0: it existed before the run */
};

struct sk_times { /* how often; not given: as is usual there */
    bool given;
    int32_t n; /* -1: for ever */
};

struct sk_exchange_desc { /* of a node with SK_OP_EXCHANGE */
    /* its packs are runs (SK_PACK_RUN): a task that cuts them comes first. Else they list their
     * parts */
    bool cut;
    /* reduces wanted, 1 to SK_PARTITIONS_MAX; 0: as many as their sizes ask for */
    uint32_t n_partitions;
    /* Of several inputs: 1 + number of the one whose parts of a partition that is too large several
     * reduces may share, each of which has all parts of the others; their outputs, in order, are
     * that of one reduce. 0: of none; 1 + n_inputs: of each partition the one that has most rows in
     * it (of equal ones the first), which reduces are told. */
    uint32_t spread;
    /* Bit i: reduces that share input i tell which rows of the others have met something, and one
     * more, behind them, has all rows of the others and what was told. 0: the outputs of those that
     * share are all there is. */
    uint32_t tells;
    /* a reduce keeps tables in memory of its worker: as much as a block should have bytes, or less
     * where its input is small */
    bool tables;
};
#define SK_PARTITIONS_MAX (1u << 20)

struct sk_node_desc { /* what plan_add takes; everything is copied */
    const struct sk_op *op;
    const char *label; /* for people: "MapBatches(inc)" */
    struct sk_bytes params;
    const uint32_t *inputs;
    uint32_t n_inputs;
    /* of the engine: what one task takes, or one actor keeps for life (no CPUs: those it takes
     * while it runs) */
    uint32_t shape;
    int64_t cpu_e4, gpu_e4;      /* the same for explain and for the fusing rule */
    uint32_t pool_min, pool_max; /* pool_max > 0: actors */
    uint32_t max_in_flight;      /* tasks queued per actor, 0: default 2 */
    uint32_t max_tasks;          /* concurrency cap of a task stage, 0: none */
    /* of an actor of the pool; of a task or call after a death */
    struct sk_times restarts, retries;
    /* a worker leaves after so many tasks, 0: no limit; not of actors */
    uint32_t max_calls;
    int64_t limit; /* SK_OP_LIMIT */
    /* what the operator wants to see at once; 0: whole blocks. Only for explain and coalescing */
    int64_t batch_rows;
    const struct sk_unit *units; /* SOURCE */
    uint32_t n_units;
    /* SOURCE over existing blocks; references are the plan's (taken) */
    const struct sk_bref *blocks;
    uint32_t n_blocks;
    struct sk_exchange_desc exchange;
};

struct sk_plan_node { /* read-only */
    uint32_t id;
    struct sk_node_desc d;
};

struct sk_plan;
sk_rc sk_plan_create(struct sk_plan **out, struct sk_err *err) SK_MUST_USE;
/* release_block: called for each block reference when the plan dies (may be NULL). */
void sk_plan_destroy(struct sk_plan *p, void (*release_block)(void *ctx, uint64_t oid), void *ctx);
sk_rc sk_plan_add(struct sk_plan *p, const struct sk_node_desc *d, uint32_t *id,
                  struct sk_err *err) SK_MUST_USE;
/* Rules that sk_plan_stages is to leave out: for who wants to see that they change nothing but the
 * work. Default: none. */
enum { SK_RULE_LIMIT = 1, SK_RULE_FUSE = 2 };
void sk_plan_leave_out(struct sk_plan *p, uint32_t rules);
uint32_t sk_plan_n_nodes(const struct sk_plan *p);
const struct sk_plan_node *sk_plan_get(const struct sk_plan *p, uint32_t id);

/* ---- stages ---------------------------------------------------------------------------------- */

enum sk_stage_kind {
    SK_STAGE_BLOCKS,
    SK_STAGE_TASKS,
    SK_STAGE_ACTORS,
    SK_STAGE_LIMIT,
    SK_STAGE_UNION
};
struct sk_stage {
    enum sk_stage_kind kind;
    uint32_t n_nodes;
    const uint32_t *nodes; /* fused, first to last; nodes[0] may be a source */
    uint32_t n_inputs;
    const uint32_t *inputs; /* stage indices */
    int64_t cap_rows;       /* a task of it may stop after so many output rows; -1: none */
    int64_t limit;          /* LIMIT */
    bool writes;
    const char *label;                /* "ReadRange->MapBatches(inc)" */
    uint32_t props;                   /* of the whole chain: ONE_TO_ONE only if all are, ... */
    struct sk_exchange_desc exchange; /* of nodes[0] */
};
struct sk_stages {
    struct sk_stage *s; /* topological order; the last one is the output */
    uint32_t n;
    void *mem;
};
/* Everything that `root` needs, optimised. Rules, in order: limit (caps the stage before; moves
 * above ONE_TO_ONE, never above an exchange), fuse (neighbours with the same resources and
 * concurrency, both tasks, no NO_FUSE, single consumer, no packs between them). SK_EINVAL: packs
 * would be its output. */
sk_rc sk_plan_stages(const struct sk_plan *p, uint32_t root, struct sk_stages *out,
                     struct sk_err *err) SK_MUST_USE;
void sk_stages_free(struct sk_stages *s);
/* Logical and physical plan as an indented tree for people. Returns the length needed. */
size_t sk_plan_explain(const struct sk_plan *p, uint32_t root, char *buf, size_t cap);

#endif

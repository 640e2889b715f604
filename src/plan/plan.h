/* plan.h - the logical DAG, its rules, and the stages that result.
 *
 * A plan is a list of nodes (operator, parameters, inputs). Nodes are only appended, and code that
 * runs the plan only reads it. An operator is described by properties (struct sk_op;
 * python/skate/data/op declares them): rules read properties, never names. Parameters that only the
 * worker understands (a pickled user function, a list of files) are opaque bytes here.
 * sk_plan_stages applies the rules (limit, fuse) and gives the physical DAG that exec runs. */
#ifndef SK_PLAN_H
#define SK_PLAN_H

#include "base/base.h"
#include "base/err.h"

/* Properties of an operator. An operator without SOURCE, UNION, ZIP and EXCHANGE has one input. */
enum {
    /* no input; has units (each becomes one task), existing blocks, or a feed */
    SK_OP_SOURCE = 1,
    /* The output has as many rows as the input, in the same order (a limit may move above the
     * operator). */
    SK_OP_ONE_TO_ONE = 2,
    SK_OP_NO_MORE = 4, /* the output has at most as many rows as the input */
    SK_OP_BY_ROW = 8,  /* output depends on single rows only: any batching gives the same rows */
    /* Takes the first n rows: exec drops whole blocks by their references, and caps the tasks of
     * the stage before it. */
    SK_OP_LIMIT = 16,
    /* has effects outside of skate (files); its output rows are reports about them */
    SK_OP_WRITES = 32,
    SK_OP_NO_FUSE = 64, /* runs in a stage of its own */
    /* Output depends on the number of the task in its stage, so tasks are numbered in the order of
     * their inputs. */
    SK_OP_NUMBERED = 256,
    SK_OP_UNION = 128, /* several inputs, one after another */
    SK_OP_ZIP = 512,   /* several inputs, side by side: a task gets the same rows of each */
    /* The output blocks are packs (shuffle/pack.h), which only an EXCHANGE or a MERGE accepts. No
     * operator behind this one fuses with it. */
    SK_OP_PACKS = 1024,
    /* Takes packs, and gives no block before it has all packs of all inputs (struct
     * sk_exchange_desc). It fuses with no operator before it; operators behind it may fuse with
     * it. */
    SK_OP_EXCHANGE = 2048,
    /* Takes packs and (with PACKS) gives packs of the same partitions. The strategy says which
     * packs are merged (shuffle/shuffle.h); the others are passed on without a task. */
    SK_OP_MERGE = 4096,
};

#define SK_PLAN_SIDES_MAX 64u /* most inputs of a node with SK_OP_ZIP or SK_OP_EXCHANGE */

struct sk_op {
    const char *name; /* name by which a worker finds the operator */
    uint32_t props;
};

struct sk_unit { /* a piece of a source, which becomes one task */
    struct sk_bytes params;
    int64_t est_rows, est_bytes; /* estimates; -1: unknown */
};

struct sk_bref { /* some rows of an existing block; the struct owns one reference to oid */
    uint64_t oid;
    uint64_t row0, n_rows;
    uint64_t bytes;
    /* number of the source's unit from which the rows come; used in runs that keep units apart */
    uint64_t origin;
    /* checksum of the block's schema, reported by its task; 0: the block existed before the run */
    uint64_t schema;
};

struct sk_times { /* a number of repetitions; `given` false: the default applies */
    bool given;
    int32_t n; /* -1: without limit */
};

struct sk_feed;           /* exec/exec.h */
struct sk_shuffle_ops;    /* shuffle/shuffle.h */
struct sk_exchange_desc { /* properties of a node with SK_OP_EXCHANGE */
    /* The strategy that wires the exchange; NULL: the run's default. The plan only stores the
     * pointer, which must stay valid during all runs of the plan. */
    const struct sk_shuffle_ops *strategy;
    /* The exchange's packs are runs (SK_PACK_RUN), so a cut task comes before its reduces. False:
     * packs list their parts. */
    bool cut;
    /* Number of reduces, 1 to SK_PARTITIONS_MAX; 0: chosen by the size of the data. */
    uint32_t n_partitions;
    /* For exchanges of several inputs: if a partition is too large, several split reduces may share
     * its parts of one input, and each gets all parts of the other inputs; their outputs, in order,
     * are the output of one reduce. The value is 1 + the number of the shared input. 0: partitions
     * are not shared; 1 + n_inputs: in each partition the input with the most rows (on a tie the
     * first) is shared, and the reduces get its number. */
    uint32_t spread;
    /* Bit i: split reduces that share input i write match reports about rows of the other inputs,
     * and one more reduce, behind them, gets all rows of the other inputs and the reports, for the
     * unmatched rows. 0: the outputs of the split reduces are complete. */
    uint32_t tells;
    /* The reduces need memory of their workers for tables, about as large as an output block, or
     * smaller if their input is small. */
    bool tables;
};
#define SK_PARTITIONS_MAX (1u << 20)

struct sk_node_desc { /* the description of a node, for sk_plan_add, which copies everything */
    const struct sk_op *op;
    const char *label; /* shown to people: "MapBatches(inc)" */
    struct sk_bytes params;
    /* What the node's tasks do to blocks, for a worker that can run them without the operator's
     * code: struct sk_what of shuffle/work.h, opaque here. Empty: the operator's code is needed. */
    struct sk_bytes what;
    const uint32_t *inputs;
    uint32_t n_inputs;
    /* Of SK_OP_ZIP, for each input the rows that it gives in a round, each > 0: a task gets whole
     * rounds, and fewer rows only of an input that has ended. NULL: one row each, and the inputs
     * must have equally many. shortest: the first input that ends ends the operator; its last task
     * has a round that lacks rows. */
    const uint32_t *parts;
    bool shortest;
    /* Resources that one task takes, or that one actor keeps for its life (without its CPUs, which
     * it takes only while a call runs): a shape of the engine. */
    uint32_t shape;
    /* the CPUs and GPUs of `shape`, in 1/10,000, for explain and the fusing rule */
    int64_t cpu_e4, gpu_e4;
    uint32_t pool_min, pool_max; /* size of the pool of actors; pool_max 0: tasks */
    uint32_t max_in_flight;      /* tasks queued for each actor; 0: the default, 2 */
    uint32_t max_tasks;          /* most tasks of the stage at a time; 0: no limit */
    /* Number of restarts of an actor of the pool, and number of retries of a task or call, after a
     * death. */
    struct sk_times restarts, retries;
    /* A worker process ends after this number of tasks; 0: no limit. Not for actors. */
    uint32_t max_calls;
    int64_t limit; /* of SK_OP_LIMIT: number of rows */
    /* number of rows that the operator needs at once; 0: whole blocks. Only for explain and for
     * coalescing. */
    int64_t batch_rows;
    const struct sk_unit *units; /* of a SOURCE */
    uint32_t n_units;
    /* SOURCE over existing blocks: the blocks, whose references the plan takes over. */
    const struct sk_bref *blocks;
    uint32_t n_blocks;
    /* SOURCE whose blocks the process of the run makes when the run asks for them. The plan only
     * stores the pointer, which must stay valid during the run. One run of the plan uses it, and it
     * is the source of one stage. */
    struct sk_feed *feed;
    struct sk_exchange_desc exchange;
};

struct sk_plan_node { /* a node of the plan; read-only */
    uint32_t id;
    struct sk_node_desc d;
};

struct sk_plan;
sk_rc sk_plan_create(struct sk_plan **out, struct sk_err *err) SK_MUST_USE;
/* release_block is called for each block's reference when the plan is destroyed (may be NULL). */
void sk_plan_destroy(struct sk_plan *p, void (*release_block)(void *ctx, uint64_t oid), void *ctx);
sk_rc sk_plan_add(struct sk_plan *p, const struct sk_node_desc *d, uint32_t *id,
                  struct sk_err *err) SK_MUST_USE;
/* Rules that sk_plan_stages does not apply, for tests and comparisons: rules change the work, not
 * the result. Default: all are applied. */
enum { SK_RULE_LIMIT = 1, SK_RULE_FUSE = 2 };
void sk_plan_leave_out(struct sk_plan *p, uint32_t rules);
uint32_t sk_plan_n_nodes(const struct sk_plan *p);
const struct sk_plan_node *sk_plan_get(const struct sk_plan *p, uint32_t id);

/* ---- the stages of a plan -------------------------------------------------------------------- */

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
    const uint32_t *nodes; /* the fused nodes, first to last; nodes[0] may be a source */
    uint32_t n_inputs;
    const uint32_t *inputs; /* numbers of the input stages */
    int64_t cap_rows; /* a task of this stage may stop after this many output rows; -1: no limit */
    int64_t limit;    /* of a LIMIT: number of rows */
    bool writes;
    const char *label; /* label of all fused nodes: "ReadRange->MapBatches(inc)" */
    /* properties of the fused nodes as one operator: ONE_TO_ONE only if all nodes have it, and so
     * on */
    uint32_t props;
    struct sk_exchange_desc exchange; /* of nodes[0] */
};
struct sk_stages {
    struct sk_stage *s; /* the stages in topological order; the last one gives the output */
    uint32_t n;
    void *mem;
};
/* Makes the optimised stages of `root` and all nodes that it needs. The rules, in order: limit
 * (caps the stage before it; moves above ONE_TO_ONE, never above an exchange); fuse (of neighbours
 * with the same resources and concurrency, if both run as tasks, none is NO_FUSE, the first has one
 * consumer, and no packs go between them). SK_EINVAL: the output would be packs. */
sk_rc sk_plan_stages(const struct sk_plan *p, uint32_t root, struct sk_stages *out,
                     struct sk_err *err) SK_MUST_USE;
void sk_stages_free(struct sk_stages *s);
/* Writes the logical and the physical plan as indented trees for people. Returns the length
 * needed. */
size_t sk_plan_explain(const struct sk_plan *p, uint32_t root, char *buf, size_t cap);

#endif

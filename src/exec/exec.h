/* exec.h - the streaming batch scheduler (Streaming Batch Model, arXiv 2501.12407, 3-4): partition at a time, elastic resources,
 * intermediate data under one memory budget, order kept, recovery by the engine's retries.
 *
 * step.c is pure: events in, actions out, no clock, no engine. act.c does the actions on an engine from inside its loop (a sink), so the
 * pipeline moves whether or not the consumer is asking. Policies (which operator to launch next) are files in exec/by/.
 *
 * Actors keep their GPUs and custom resources for life, and take CPUs only while a call runs: stages that do not fit beside each other
 * share the CPUs in time, so a pool as large as the machine neither starves its own readers (ray#44687) nor leaves a CPU idle.
 *
 * Invariant, checked after each step: a task is running, or the consumer is the one to move, or the run has ended (done or failed).
 * Anything else is a stall: SK_ESTALL naming who waits for what. */
#ifndef SK_EXEC_H
#define SK_EXEC_H

#include "engine/engine.h"
#include "plan/plan.h"

/* Note of each yielded block (wire format, first bytes of sk_event.note): written by the worker, checked by event.c. */
struct sk_block_note {
    uint32_t magic; /* SK_BLOCK_NOTE */
    uint32_t bad;   /* 0: a block of the output. Else dead letters that stand for so many rows; rows and bytes are 0 then */
    uint64_t rows;
    uint64_t bytes;  /* sk_block_nbytes of the block */
    uint64_t schema; /* checksum of its schema (sk_block_sizes) */
};
enum { SK_BLOCK_NOTE = 0x4e424b53 };
/* Note of a finished stage task: magic, n, then per fused operator: rows_out, ns (worker time inside that operator), and counts. */
struct sk_task_note_op {
    uint64_t rows_out, ns;
    uint64_t io_retries; /* reads and writes that were tried again */
    uint64_t aside;      /* rows that its quicker way refused: images that Pillow decoded */
    uint64_t in_place;   /* blocks that were not copied: around an array that its function made in the store */
    uint64_t no_room;    /* such arrays for which the store had no room */
};
struct sk_task_note { /* n of them follow */
    uint32_t magic, n;
};
enum { SK_TASK_NOTE = 0x4e544b53 };

/* Note of each yielded pack, in the place of a block's note (of tasks of a stage with SK_OP_PACKS; of the cut task of an exchange). A pack is one value: whole
 * blocks (block.h), one a part, one behind the other, each at a multiple of 64 bytes from the value's beginning and as long as a multiple of 64; no head of
 * its own. The value is as long as `bytes` says. Dead letters of such a stage have a block's note. */
enum sk_pack_kind {
    /* Part i is of partition first + i; one without rows has no bytes. A task whose output has no rows gives one part that is an empty block, for its columns. */
    SK_PACK_PARTS = 1,
    /* Rows in the order of the keys, cut into pages (blocks) of about 32 KiB; no parts are listed. A run without rows has one page, an empty block. */
    SK_PACK_RUN,
    /* Of the run that the task yields next: a block with the key columns of each page's first row, and the page's rows, offset and length. */
    SK_PACK_SAMPLE,
    /* Of a cut task: which pages of run `run` belong to partitions first, first + 1, ...; behind its last partition come those of the next run, from partition 0
     * on. The value itself is empty. All partitions of each run, once, in any order. */
    SK_PACK_CUTS,
    /* Of a cut task, once or not at all: a block that goes to every reduce. */
    SK_PACK_BOUNDS,
    /* Of a reduce that has a share, once, before anything else: what goes to the one behind all that have a share of the same partitions. */
    SK_PACK_TOLD
};
struct sk_pack_note {
    uint32_t magic, kind;         /* SK_PACK_NOTE; enum sk_pack_kind */
    uint64_t rows, bytes, schema; /* of the whole value; schema as in a block's note */
    uint32_t first;               /* PARTS, CUTS: number of a partition */
    uint32_t run;                 /* CUTS: its sample's place among the cut task's blocks */
    uint32_t n, zero;             /* PARTS, CUTS: so many of these follow: */
};
struct sk_pack_part {     /* of PARTS; they lie one behind the other */
    uint32_t len64, rows; /* length in units of 64 bytes */
};
struct sk_pack_cut {                  /* of CUTS: whole pages; neighbours may share one. The page of a run without rows is of partition 0 */
    uint32_t off64, len64, row, rows; /* row: of its first row, in the run; rows: about, and more than 0 where it has any */
};
enum { SK_PACK_NOTE = 0x504b4b53, SK_PACK_PARTS_MAX = 120, SK_PACK_CUTS_MAX = 60 }; /* of a note: more are more yields */

struct sk_exec_conf {
    const char *shuffle;       /* strategy of exchanges (shuffle/by/); NULL: "auto" */
    const char *policy;        /* NULL: "adaptive" where the engine spills, else "downstream" */
    uint64_t memory_bytes;     /* budget for all blocks that exist or were promised; 0: chosen from the capacity of the nodes */
    uint64_t target_max_bytes; /* a task's output is cut here (128 MiB in Ray; smaller is affordable); told to the workers */
    uint64_t
        target_min_bytes; /* smaller neighbours are coalesced into one task's input, in order, by a rule that reads only bytes and rows; may be more than
                             target_max_bytes: many small blocks in, small blocks out */
    uint32_t consumer_blocks;      /* blocks that may wait for the consumer; 0: chosen from memory */
    sk_fid run_stage;              /* engine function that runs a stage. Arguments of a task: see below */
    sk_fid stage_init, stage_call; /* for actor stages: constructor and method */
    bool preserve_order;
    uint64_t most_cpu_e4, most_gpu_e4; /* what the run may take at once, of what the machine has; 0: all of it (1: nothing) */
    int64_t max_bad_rows;              /* rows in dead letters before the run fails; -1: any number */
    int64_t max_errored_blocks;        /* tasks that may fail, their further output missing; -1: any number */
    /* Resumable runs. keep_units: the plan is a chain over one source with units, and no task works on rows of two units; blocks say their unit, and leave
     * in the order of the units. Tasks are numbered by what they work on: a source's by unit, others by unit * 2^20 + place in it. skip_units: a byte a unit,
     * not 0: it is done; NULL: none is. Borrowed until the run is stopped. */
    bool keep_units;
    const uint8_t *skip_units;
    uint32_t n_skip;
};
/* Arguments of a stage task (tasks: run_stage; actors: stage_call, without arg 0, which the constructor got):
 *   [0] ref: stage blob = wire: u32 n_nodes, then per node: str op name, str label, bytes params   (put once per run)
 *   [1] inline bytes, kind SK_KIND_EXEC: wire: u64 task_seq (UINT64_MAX: not known yet, a task ahead of its turn), i64 cap_rows, u64 target_max_bytes, bytes unit params (sources; else empty),
 *       u32 n_blocks, u32 phase (enum sk_exec_phase), then per block: u64 row0, u64 n_rows, u32 number of the input that it is of; where there is a phase more: see below. At the
 *       end u32 values: of a stage whose blocks are packs so many values its packs (or its runs, each with its sample) should be in, each of as many neighbouring partitions (rows), more
 *       where one would have too many parts; else 1
 *   [2..] refs: the input blocks.
 *
 * Of a stage that begins with an exchange, where phase is CUT, REDUCE, SHARE or REST, or merges (MERGE):
 *   [1] per block there is more: u64 length, u32 run, u32 row; and row0 is a byte: the part is [row0, row0 + length) of the argument. run: number of the pack in the
 *       order (input, task, yield), from 0 on; of runs what `run` of their CUTS is. row: of the part's first row, in its run; of packs of partitions: the first partition that it has bytes of. Then, before
 *       values: u32 first partition, u32 partition behind the last one, u32 number of partitions in all, u32 1 + the input
 *       that several reduces of these partitions may share (0: none): the order of their rows begins with it. cap_rows is for what a reduce gives.
 *
 *   CUT     once, before all reduces, where the exchange cuts runs, and there are any. Blocks: the samples, in the order (input, task, yield); partitions 0 to n. It yields
 *           CUTS and BOUNDS only; operators fused behind the exchange do not see it.
 *   MERGE   each joins packs of the same partitions [first, behind the last), in the order (task, yield), or runs (0 to 0). Behind `row` of each block: bytes, u32 lengths of
 *           its parts in units of 64 bytes. It yields packs of these partitions, each of them once, or runs with their samples.
 *   SHARE   as REDUCE, for one share of the input that is shared: one of several, where these tell (struct sk_exchange_desc). It yields TOLD first, in the place of what depends on
 *           all shares. TOLD and what came before it must be the same whenever it runs.
 *   REST    behind them: the parts of all inputs but the shared one, of which it has the columns; and what each share told, in their order, with input number SK_SIDE_TOLD.
 *   REDUCE  each makes partitions [first, behind the last). Blocks: the bounds, if there are any, with input number SK_SIDE_BOUNDS; then the parts, in the order (input, task,
 *           yield), each a sequence of whole blocks. An input that has no rows for it has one part with n_rows 0, for its columns: its rows, if it has any, are no rows of
 *           this reduce. Without any pack of an input there is none of it. A reduce without rows gives one empty block, if the user asked for so many partitions, or nothing. */
enum { SK_KIND_EXEC = 0x40u, SK_KIND_STAGE = 0x41u /* kind of arg 0 */ };
enum sk_exec_phase { SK_PHASE_NONE, SK_PHASE_CUT, SK_PHASE_REDUCE, SK_PHASE_MERGE, SK_PHASE_SHARE, SK_PHASE_REST };
#define SK_SIDE_BOUNDS UINT32_MAX
#define SK_SIDE_TOLD (UINT32_MAX - 1)

struct sk_exec;
/* Checks feasibility (every stage can run at least once with what the machine has; pools fit together) before anything starts. The plan must
 * outlive the run (its blocks, too: the run takes references of its own as it passes them on); stop it before the engine is closed. */
sk_rc sk_exec_start(struct sk_engine *e, const struct sk_plan *plan, uint32_t root, const struct sk_exec_conf *conf, struct sk_exec **out,
                    struct sk_err *err) SK_MUST_USE;
/* Next output block in order; the caller owns the reference. SK_EDONE at the end; SK_ETIMEOUT; the job's failure (then *bad = error object
 * with a reference, or 0). Taking a block gives the pipeline a credit. */
sk_rc sk_exec_next(struct sk_exec *x, int64_t deadline_ns, struct sk_bref *out, sk_oid *bad, struct sk_err *err) SK_MUST_USE;
/* Waits until the constructors of all actors that were begun with the run have ended, however. SK_ETIMEOUT. */
sk_rc sk_exec_await_actors(struct sk_exec *x, int64_t deadline_ns, struct sk_err *err) SK_MUST_USE;
/* What came beside the output, in the order it came: dead letters (bad > 0: a block of them) and errors of tasks that were left out (bad 0). */
struct sk_aside {
    sk_oid oid; /* the caller owns the reference; 0: an error without an object, see err */
    uint32_t stage, bad;
    struct sk_err err;
};
sk_rc sk_exec_aside(struct sk_exec *x, struct sk_aside *out) SK_MUST_USE; /* SK_EAGAIN: none now. Also after the run has failed */
/* Stops: cancels tasks, kills pools, drops references. Idempotent; also frees. */
void sk_exec_stop(struct sk_exec **x);

struct sk_exec_op_stats {
    const char *label;
    uint32_t kind; /* enum sk_stage_kind */
    uint64_t tasks_queued, tasks_running, tasks_done,
        retries; /* running: launched and not over; some may wait in the engine for a worker */
    uint64_t rows_in, bytes_in, rows_out, bytes_out, blocks_out;
    uint64_t queued_blocks, queued_bytes, peak_queued_bytes;
    int64_t task_ns_total, task_ns_max;
    int64_t wait_input_ns, wait_memory_ns, wait_resource_ns,
        wait_consumer_ns; /* wall time in which the stage ran nothing because of it, or was at its cap */
    int64_t first_out_ns; /* since start; -1: none yet */
    uint32_t n_actors;
    int64_t total_units; /* tasks expected in all, -1 unknown */
    uint32_t n_fused;
    struct sk_task_note_op fused[16]; /* per fused operator */
    bool merges;                      /* it merges packs */
    /* Of a stage that begins with an exchange (else strategy is NULL): the strategy, and what it said last; packs that came, their bytes; once the input has ended
     * those on disk, the partitions, and bytes of the largest one; bytes that reduces took, and read from disk of them */
    const char *strategy;
    uint32_t values, merge;
    uint64_t packs, pack_bytes, disk_bytes, partitions, largest_bytes, taken_bytes, read_bytes;
};
struct sk_exec_stats {
    int64_t wall_ns;
    uint64_t memory_limit, memory_now, memory_peak; /* of blocks in memory */
    uint64_t memory_disk, forced;                   /* bytes of blocks on disk now; launches beyond what memory allowed */
    uint32_t bottleneck;                            /* stage index; UINT32_MAX: the consumer */
    const char *bottleneck_why;                     /* static text */
    uint32_t n_ops;
    bool done;
    uint64_t bad_rows, errored_blocks;
};
/* Time since anything came back from a task or the consumer took a block, in ns; who waits for what, in words, up to cap - 1 bytes. */
int64_t sk_exec_quiet(struct sk_exec *x, char *text, size_t cap);
void sk_exec_get_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops, uint32_t cap);

/* Blocks made (by which task, when the driver heard of it) and taken (by which task), in no order, the last SK_FLOWS_MAX of each; engine's ids. Returns
 * how many there are; they are written when they fit. */
enum { SK_FLOWS_MAX = 10000 };
struct sk_flow {
    uint64_t block, task;
    int64_t ns; /* of taken ones: 0 */
};
size_t sk_exec_flows(struct sk_exec *x, bool taken, struct sk_flow *out, size_t cap);

/* ---- policies (exec/by/<name>.c, see policy.h) --------------------------------------------------------------------------------------- */

const char *sk_policy_name(unsigned i); /* of the i-th of the table, ordered by name; NULL behind the last */

#endif

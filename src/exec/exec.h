/* exec.h - the streaming batch scheduler (Streaming Batch Model, arXiv 2501.12407, 3-4): partition
 * at a time, elastic resources, intermediate data under one memory budget, order kept, recovery by
 * the engine's retries.
 *
 * step.c is pure: events in, actions out, no clock, no engine. act.c does the actions on an engine
 * from inside its loop (a sink), so the pipeline moves whether or not the consumer is asking.
 * Policies (which operator to launch next) are files in exec/by/.
 *
 * Actors keep their GPUs and custom resources for life, and take CPUs only while a call runs:
 * stages that do not fit beside each other share the CPUs in time, so a pool as large as the
 * machine neither starves its own readers (ray#44687) nor leaves a CPU idle.
 *
 * Invariant, checked after each step: a task is running, or the consumer is the one to move, or the
 * run has ended (done or failed).
 * Anything else is a stall: SK_ESTALL naming who waits for what. */
#ifndef SK_EXEC_H
#define SK_EXEC_H

#include "engine/engine.h"
#include "exec/gather.h"
#include "plan/plan.h"

/* Note of each yielded block (wire format, first bytes of sk_event.note): written by the worker,
 * checked by event.c. Of a value for a gather: struct sk_value_note. */
struct sk_block_note {
    uint32_t magic; /* SK_BLOCK_NOTE */
    /* 0: a block of the output. Else dead letters that stand for so many rows; rows and bytes are 0
     * then */
    uint32_t bad;
    uint64_t rows;
    uint64_t bytes;  /* sk_block_nbytes of the block */
    uint64_t schema; /* checksum of its schema (sk_block_sizes) */
};
enum { SK_BLOCK_NOTE = 0x4e424b53 };
/* Note of a finished stage task: magic, n, then per fused operator: rows_out, ns (worker time
 * inside that operator), and counts. */
struct sk_task_note_op {
    uint64_t rows_out, ns;
    uint64_t io_retries; /* reads and writes that were tried again */
    uint64_t aside;      /* rows that its quicker way refused: images that Pillow decoded */
    /* blocks that were not copied: around an array that its function made in the store */
    uint64_t in_place;
    uint64_t no_room; /* such arrays for which the store had no room */
    uint64_t native; /* tasks that ran it without the operator's code: no interpreter was entered */
};
struct sk_task_note { /* n of them follow */
    uint32_t magic, n;
};
enum { SK_TASK_NOTE = 0x4e544b53 };

struct sk_exec_conf {
    /* who makes inputs of tasks out of parts of values (gather.h); NULL: nobody. Borrowed until the
     * run is stopped */
    const struct sk_gathers *gathers;
    const char *policy; /* NULL: "adaptive" where the engine spills, else "downstream" */
    /* budget for all blocks that exist or were promised; 0: chosen from the capacity of the
     * nodes */
    uint64_t memory_bytes;
    /* a task's output is cut here (128 MiB in Ray; smaller is affordable); told to the workers */
    uint64_t target_max_bytes;
    /* smaller neighbours are coalesced into one task's input, in order, by a rule that reads only
     * bytes and rows; may be more than target_max_bytes: many small blocks in, small blocks out */
    uint64_t target_min_bytes;
    /* blocks that may wait for the consumer; 0: chosen from memory */
    uint32_t consumer_blocks;
    /* engine function that runs a stage; arguments of a task: args.h */
    sk_fid run_stage;
    sk_fid stage_init, stage_call; /* for actor stages: constructor and method */
    bool preserve_order;
    /* what the run may take at once, of what the machine has; 0: all of it (1: nothing) */
    uint64_t most_cpu_e4, most_gpu_e4;
    /* rows in dead letters before the run fails; -1: any number */
    int64_t max_bad_rows;
    /* tasks that may fail, their further output missing; -1: any number */
    int64_t max_errored_blocks;
    /* Resumable runs. keep_units: the plan is a chain over one source with units, and no task works
     * on rows of two units; blocks say their unit, and leave in the order of the units. Tasks are
     * numbered by what they work on: a source's by unit, others by unit * 2^20 + place in it.
     * skip_units: a byte a unit,
     * not 0: it is done; NULL: none is. Borrowed until the run is stopped. */
    bool keep_units;
    const uint8_t *skip_units;
    uint32_t n_skip;
};
struct sk_exec;
/* Checks feasibility (every stage can run at least once with what the machine has; pools fit
 * together) before anything starts. The plan must outlive the run (its blocks, too: the run takes
 * references of its own as it passes them on); stop it before the engine is closed. */
sk_rc sk_exec_start(struct sk_engine *e, const struct sk_plan *plan, uint32_t root,
                    const struct sk_exec_conf *conf, struct sk_exec **out,
                    struct sk_err *err) SK_MUST_USE;
/* Next output block in order; the caller owns the reference. SK_EDONE at the end; SK_ETIMEOUT; the
 * job's failure (then *bad = error object with a reference, or 0). Taking a block gives the
 * pipeline a credit. */
sk_rc sk_exec_next(struct sk_exec *x, int64_t deadline_ns, struct sk_bref *out, sk_oid *bad,
                   struct sk_err *err) SK_MUST_USE;
/* Calls fn(arg) between two steps of the run, in its lock, from any thread: an answer that a gather
 * awaits (gather.h). fn is as pure as a gather; what it did to gathers is taken up, and tasks that
 * can begin are launched. An error of fn is the failure of the run. SK_EDONE: the run is over or
 * has failed, and fn was not called. */
sk_rc sk_exec_call(struct sk_exec *x, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg,
                   struct sk_err *err) SK_MUST_USE;
/* Waits until the constructors of all actors that were begun with the run have ended, however.
 * SK_ETIMEOUT. */
sk_rc sk_exec_await_actors(struct sk_exec *x, int64_t deadline_ns, struct sk_err *err) SK_MUST_USE;
/* What came beside the output, in the order it came: dead letters (bad > 0: a block of them) and
 * errors of tasks that were left out (bad 0). */
struct sk_aside {
    sk_oid oid; /* the caller owns the reference; 0: an error without an object, see err */
    uint32_t stage, bad;
    struct sk_err err;
};
/* SK_EAGAIN: none now. Also after the run has failed */
sk_rc sk_exec_aside(struct sk_exec *x, struct sk_aside *out) SK_MUST_USE;
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
        /* wall time in which the stage ran nothing because of it, or was at its cap */
        wait_consumer_ns;
    int64_t first_out_ns; /* since start; -1: none yet */
    uint32_t n_actors;
    int64_t total_units; /* tasks expected in all, -1 unknown */
    uint32_t n_fused;
    struct sk_task_note_op fused[16]; /* per fused operator */
    struct sk_gather_stats gather;    /* of a stage that has one */
};
struct sk_exec_stats {
    int64_t wall_ns;
    uint64_t memory_limit, memory_now, memory_peak; /* of blocks in memory */
    /* bytes of blocks on disk now; launches beyond what memory allowed */
    uint64_t memory_disk, forced;
    uint32_t bottleneck;        /* stage index; UINT32_MAX: the consumer */
    const char *bottleneck_why; /* static text */
    uint32_t n_ops;
    bool done;
    uint64_t bad_rows, errored_blocks;
};
/* Time since anything came back from a task or the consumer took a block, in ns; who waits for
 * what, in words, up to cap - 1 bytes. */
int64_t sk_exec_quiet(struct sk_exec *x, char *text, size_t cap);
void sk_exec_get_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                       uint32_t cap);

/* Blocks made (by which task, when the driver heard of it) and taken (by which task), in no order,
 * the last SK_FLOWS_MAX of each; engine's ids. Returns how many there are; they are written when
 * they fit. */
enum { SK_FLOWS_MAX = 10000 };
struct sk_flow {
    uint64_t block, task;
    int64_t ns; /* of taken ones: 0 */
};
size_t sk_exec_flows(struct sk_exec *x, bool taken, struct sk_flow *out, size_t cap);

/* ---- policies (exec/by/<name>.c, see policy.h) ----------------------------------------------- */

/* of the i-th of the table, ordered by name; NULL behind the last */
const char *sk_policy_name(unsigned i);

#endif

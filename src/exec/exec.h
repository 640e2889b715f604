/* exec.h - the streaming batch scheduler (Streaming Batch Model, arXiv 2501.12407, 3-4): tasks work
 * on one partition at a time, resources are elastic, intermediate data stay under one memory
 * budget, the order of rows is kept, and failures are handled by the engine's retries.
 *
 * step.c is pure: it turns events into actions, without clock or engine. act.c carries the actions
 * out on an engine from inside the engine's loop (a sink), so the pipeline moves even while the
 * consumer does not ask for blocks. Policies (which operator to launch next) are files in exec/by/.
 *
 * Actors keep their GPUs and custom resources for life, and take CPUs only while a call runs:
 * stages that do not fit beside each other share the CPUs in time, so a pool as large as the
 * machine neither starves its own readers (ray#44687) nor leaves a CPU idle.
 *
 * Invariant, checked after each step: a task is running, or the consumer has a block to take, or
 * the run has ended (done or failed). Anything else is a stall: SK_ESTALL, whose message says what
 * each stage waits for. */
#ifndef SK_EXEC_H
#define SK_EXEC_H

#include "engine/engine.h"
#include "exec/gather.h"
#include "plan/plan.h"

/* Note of each yielded block (wire format, the first bytes of sk_event.note). The worker writes it
 * and event.c checks it. A value for a gather has struct sk_value_note instead. */
struct sk_block_note {
    uint32_t magic; /* SK_BLOCK_NOTE */
    /* 0: the yield is a block of the output. Else it is a block of dead letters, which stands for
     * this number of rows; rows and bytes are 0 then. */
    uint32_t bad;
    uint64_t rows;
    uint64_t bytes;  /* sk_block_nbytes of the block */
    uint64_t schema; /* checksum of its schema (sk_block_sizes) */
};
enum { SK_BLOCK_NOTE = 0x4e424b53 };
/* Note of a finished stage task: magic, n, then n of these structs, one for each fused operator. ns
 * is the worker's time inside the operator. */
struct sk_task_note_op {
    uint64_t rows_out, ns;
    uint64_t io_retries; /* number of repeated reads and writes */
    /* rows that took the operator's slower way, such as images that Pillow decoded */
    uint64_t fallbacks;
    /* blocks that needed no copy, because the operator's function had made their array in the
     * store */
    uint64_t in_place;
    uint64_t no_room; /* arrays that would have been made in the store if it had had room */
    uint64_t native;  /* tasks that ran in C without the operator's Python code */
};
struct sk_task_note { /* followed by n structs sk_task_note_op */
    uint32_t magic, n;
};
enum { SK_TASK_NOTE = 0x4e544b53 };

/* A source whose blocks the process of the run makes itself (struct sk_node_desc.feed): the run
 * asks for one block at a time, when its policy, its memory and what takes the blocks have room for
 * one, as it launches the tasks of other sources. */
struct sk_feed {
    /* Asks for the next block. The answer is one call of sk_exec_fed with this ticket, from any
     * thread, but not from inside this call: it is made with the run's lock held, and maybe locks
     * of the engine, so it must not wait and must not call the run or the engine. */
    void (*ask)(struct sk_feed *f, uint64_t ticket);
};
struct sk_fed { /* the answer of a feed */
    /* SK_OK: a block; SK_EDONE: there are no more; else the run fails with this code and *err. */
    sk_rc rc;
    const struct sk_err *err;
    struct sk_bref block; /* the call takes the reference over */
    uint64_t cost;        /* its bytes in the store */
    int64_t ns;           /* time that it took to make */
};

struct sk_exec_conf {
    /* Makes the gathers of stages whose tasks take parts of values (gather.h); NULL: no stage has
     * one. Borrowed until the run is stopped. */
    const struct sk_gathers *gathers;
    const char *policy; /* NULL: "adaptive" if the engine spills, else "downstream" */
    /* Memory budget in bytes for all existing and promised blocks; 0: chosen from the capacity of
     * the nodes. */
    uint64_t memory_bytes;
    /* Size at which workers cut a task's output into blocks (128 MiB in Ray; smaller costs little
     * here). */
    uint64_t target_max_bytes;
    /* Neighbouring blocks smaller than this are coalesced, in order, into the input of one task, by
     * a rule that reads only bytes and rows. May be larger than target_max_bytes: then many small
     * blocks go in and small blocks come out. */
    uint64_t target_min_bytes;
    /* The most blocks that may wait for the consumer; 0: chosen from memory. */
    uint32_t consumer_blocks;
    /* Engine function that runs a stage's task. args.h has the arguments. */
    sk_fid run_stage;
    sk_fid stage_init, stage_call; /* for actor stages: constructor and method */
    bool preserve_order;
    /* The most CPUs and GPUs, in 1/10,000, that the run may use at a time; 0: all of the machine's.
     * 1 stands for none. */
    uint64_t most_cpu_e4, most_gpu_e4;
    /* The run fails when dead letters have more rows than this; -1: no limit. */
    int64_t max_bad_rows;
    /* The run fails when more tasks than this have failed; their missing output is left out. -1: no
     * limit. */
    int64_t max_errored_blocks;
    /* For resumable runs. keep_units: the plan is a chain over one source with units, and no task
     * works on rows of two units; each block names its unit, and blocks leave in the order of the
     * units. A source's task has the number of its unit, other tasks unit * 2^20 + their place in
     * the unit. skip_units: one byte for each unit, not 0 if the unit is done; NULL: none is done.
     * Borrowed until the run is stopped. */
    bool keep_units;
    const uint8_t *skip_units;
    uint32_t n_skip;
};
struct sk_exec;
/* Starts a run. Checks first that it can work: every stage can run at least once on the machine,
 * and the pools fit together. The plan must outlive the run; its blocks need not, since the run
 * takes references of its own when it passes them on. The run must be stopped before the engine is
 * closed. */
sk_rc sk_exec_start(struct sk_engine *e, const struct sk_plan *plan, uint32_t root,
                    const struct sk_exec_conf *conf, struct sk_exec **out,
                    struct sk_err *err) SK_MUST_USE;
/* Gives the next output block in order; the caller owns the reference. SK_EDONE: the run has ended;
 * SK_ETIMEOUT; or the failure of the run, with *bad = the error object, whose reference the caller
 * owns, or 0. Each block taken makes room for another one. */
sk_rc sk_exec_next(struct sk_exec *x, int64_t deadline_ns, struct sk_bref *out, sk_oid *bad,
                   struct sk_err *err) SK_MUST_USE;
/* Calls fn(arg) between two steps of the run, under its lock, from any thread: the way to give a
 * gather an answer that it waits for (gather.h). fn obeys the same rules as a gather; afterwards
 * its changes to gathers take effect and tasks that can begin are launched. If fn fails, the run
 * fails. SK_EDONE: the run is over or has failed, and fn was not called. */
sk_rc sk_exec_call(struct sk_exec *x, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg,
                   struct sk_err *err) SK_MUST_USE;
/* Answers a feed's ask; call it by any thread, before sk_exec_stop begins. The answer is dropped if
 * the block is not needed any more. The next ask may be made inside this call. */
void sk_exec_fed(struct sk_exec *x, uint64_t ticket, const struct sk_fed *fed);
/* Fails the run, unless it has failed, from any thread: a call of sk_exec_next that waits returns
 * with this failure. */
void sk_exec_fail(struct sk_exec *x, sk_rc rc, const struct sk_err *err);
/* Waits until the constructor of each actor that was created at the start of the run has succeeded
 * or failed. SK_ETIMEOUT. */
sk_rc sk_exec_await_actors(struct sk_exec *x, int64_t deadline_ns, struct sk_err *err) SK_MUST_USE;
/* A failure that did not end the run: a block of dead letters (bad: their number of rows), or the
 * error of a task whose output was left out (bad 0). */
struct sk_exec_failure {
    sk_oid oid; /* the caller owns the reference; 0: an error without an object, see err */
    uint32_t stage, bad;
    struct sk_err err;
};
/* Gives the next such failure, in order of arrival, also after the run has failed. SK_EAGAIN: there
 * is none now. */
sk_rc sk_exec_next_failure(struct sk_exec *x, struct sk_exec_failure *out) SK_MUST_USE;
/* Stops and frees the run: cancels tasks, ends the actors of its pools, releases references.
 * Idempotent. */
void sk_exec_stop(struct sk_exec **x);

struct sk_exec_op_stats {
    const char *label;
    uint32_t kind; /* enum sk_stage_kind */
    bool source;   /* it has no input */
    /* tasks_running: launched and not ended, including those that wait in the engine for a
     * worker */
    uint64_t tasks_queued, tasks_running, tasks_done, retries;
    uint64_t rows_in, bytes_in, rows_out, bytes_out, blocks_out;
    uint64_t queued_blocks, queued_bytes, peak_queued_bytes;
    int64_t task_ns_total, task_ns_max;
    /* wait_*_ns: wall time in which the stage ran no task, or was at its limit, for this reason */
    int64_t wait_input_ns, wait_memory_ns, wait_resource_ns, wait_consumer_ns;
    int64_t first_out_ns; /* ns from the start to the first output block; -1: there is none yet */
    uint32_t n_actors;
    int64_t total_units;     /* expected number of tasks; -1: unknown */
    uint64_t tasks_expected; /* in the whole run, as far as its input tells; >= tasks_done */
    uint32_t n_fused;
    struct sk_task_note_op fused[16]; /* counts of each fused operator */
    struct sk_gather_stats gather;    /* statistics of the stage's gather, if it has one */
};
struct sk_exec_stats {
    int64_t wall_ns;
    uint64_t memory_limit, memory_now, memory_peak; /* of blocks in memory */
    /* memory_disk: bytes of blocks on disk now; forced: number of launches that exceeded the memory
     * budget */
    uint64_t memory_disk, memory_disk_peak, forced;
    uint32_t bottleneck;        /* index of the slowest stage; UINT32_MAX: the consumer */
    const char *bottleneck_why; /* why that stage is the slowest; a static text */
    uint32_t n_ops;
    bool done;
    uint64_t bad_rows, errored_blocks;
    /* share: of the time of the whole run, the part that has passed; below 1 until all is done.
     * left_ns: the time that is left. Share 0 and left_ns -1: not known yet. left_guess: a stage
     * that counts has not begun, and nothing tells how long its tasks take, or how fast the disk is
     * that has their input. */
    double share;
    int64_t left_ns;
    bool left_guess;
};
/* Returns the time in ns since a task last reported or the consumer last took a block. Writes at
 * most cap - 1 bytes of text: what each stage waits for. */
int64_t sk_exec_quiet(struct sk_exec *x, char *text, size_t cap);
uint32_t sk_exec_n_ops(const struct sk_exec *x); /* the number of its operators */
void sk_exec_get_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                       uint32_t cap);

/* Writes the run's numbers over time (enum sk_view_sample of engine/view.h, then the bytes queued
 * for each operator): rows of *width numbers, if all of them fit into `cap` numbers. Returns the
 * number of rows. */
size_t sk_exec_samples(struct sk_exec *x, uint32_t *width, int64_t *out, size_t cap);

/* ---- policies (exec/by/<name>.c, see policy.h) ----------------------------------------------- */

/* The name of policy i, in the order of names; NULL behind the last one. */
const char *sk_policy_name(unsigned i);

#endif

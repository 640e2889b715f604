/* exec_int.h - shared inside the exec layer: the pure step, the budget, and the interfaces between
 * its files.
 *
 *     engine events --event.c--> sk_step_ev --step.c--> sk_act list --act.c--> engine calls
 *
 * All files are pure but inbox.c, notes.c and those that include run_int.h: no clock, no engine
 * call, no I/O; they allocate from pools only. Everything here is guarded by the run's lock
 * (inbox.c). Calls go one way between the files: step -> launch, order -> input, pools, zip, gather
 * -> parts, tables. These files call a stage's gather (gather.h), which calls gather.c.
 *
 * Tasks start in the order of their inputs. A task starts *ahead of its turn* if its input block
 * exists while earlier blocks are still missing; a placeholder then stands in the order for it. */
#ifndef SK_EXEC_INT_H
#define SK_EXEC_INT_H

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/pool.h"
#include "base/containers/vec.h"
#include "exec/args.h"
#include "exec/exec.h"
#include "exec/gather.h"
#include "exec/launch/guards.h"
#include "exec/step/share.h"

#define SK_NO_STAGE UINT32_MAX
/* the most blocks in the input of one task; inputs that a gather makes have no limit */
#define SK_BUNDLE_BLOCKS_MAX 128u
/* The most tasks of a stage that are launched and not finished in order. */
#define SK_WINDOW_MAX 4096u

/* ---- budget.c (pure): bytes, sizes, depth ---------------------------------------------------- */

struct sk_budget {
    /* used: bytes of blocks in memory; disk: of spilled blocks; reserved: promised to tasks. */
    uint64_t limit, used, disk, reserved;
    uint64_t peak, disk_peak; /* highest values of used and disk */
};
static inline uint64_t sk_budget_room(const struct sk_budget *b) {
    uint64_t taken = b->used + b->reserved;
    return taken < b->limit ? b->limit - taken : 0;
}
void sk_budget_reserve(struct sk_budget *b, uint64_t n);
void sk_budget_unreserve(struct sk_budget *b, uint64_t n);
/* Counts n new bytes. *promise shrinks by those bytes that it had promised. */
void sk_budget_use(struct sk_budget *b, uint64_t *promise, uint64_t n);
void sk_budget_give(struct sk_budget *b, uint64_t n);     /* n bytes were freed */
void sk_budget_spilled(struct sk_budget *b, uint64_t n);  /* n bytes went to disk */
void sk_budget_restored(struct sk_budget *b, uint64_t n); /* n bytes were restored */

/* Sets the fields that the caller has left 0. A block gets a quarter of memory at most, so that a
 * small store can hold several blocks. */
void sk_exec_choose(struct sk_exec_conf *c, uint64_t capacity_bytes);

/* Learned output size of a stage's tasks: the larger of the mean and a recent average; relative to
 * input bytes where inputs have sizes. */
struct sk_size_est {
    uint64_t n, in_bytes, out_bytes;
    double recent_ratio, recent_out;
};
void sk_size_est_add(struct sk_size_est *e, uint64_t in_bytes, uint64_t out_bytes);
static inline bool sk_size_est_known(const struct sk_size_est *e) { return e->n > 0; }
/* Estimated output bytes of a task, if an estimate is known. in_bytes 0: of a task with the usual
 * input. At first `prior` counts like one more measured task, so that a few tasks of little output
 * do not let hundreds start; it can only raise the estimate. */
uint64_t sk_size_est_out(const struct sk_size_est *e, uint64_t in_bytes, uint64_t prior);

/* One resource (CPUs or GPUs): its total, and what all tasks in the engine need, also queued
 * ones. */
struct sk_slots {
    int64_t total, used;
    /* The user limits the resource to less than the machine has. No tasks are queued then, since
     * the engine would run them at once. */
    bool strict;
    double queued_ns; /* sum over tasks in flight of amount * expected time in ns */
};
/* True if one more task that needs `amount` for about est_ns (0: unknown) may be given to the
 * engine. *ahead: the task would wait in the engine's queue. */
bool sk_slots_admit(const struct sk_slots *s, int64_t amount, int64_t est_ns, uint32_t n_same,
                    bool *ahead);

/* ---- blocks, bundles, tasks ------------------------------------------------------------------ */

/* Cuts r down to its first `rows` rows; r must have rows. */
static inline struct sk_bref sk_bref_first(struct sk_bref r, uint64_t rows) {
    r.bytes = (uint64_t)((double)r.bytes * (double)rows / (double)r.n_rows);
    r.n_rows = rows;
    return r;
}

struct sk_blkq {
    struct sk_blk *head, *tail;
    uint32_t n;
    uint64_t bytes, rows, cost;
};
void sk_blkq_push(struct sk_blkq *q, struct sk_blk *b);
struct sk_blk *sk_blkq_pop(struct sk_blkq *q); /* NULL: the queue is empty */

/* The input of one task; or, in the order of inputs, the placeholder of a task that started ahead
 * of its turn. */
struct sk_bundle {
    struct sk_bundle *next;
    struct sk_blkq q;
    struct sk_stask *early;
    /* For a stage with a gather: as given to sk_gather_task. */
    void *say;
    bool inner;
    uint32_t node, work, hint;
    uint64_t origin;
};

struct sk_side { /* one of several inputs whose rows are taken side by side */
    struct sk_blkq q;
    uint64_t rows; /* number of rows that have arrived so far */
};

/* A task, from its launch until its last block was passed on and the engine has reported its
 * end. */
struct sk_stask {
    /* The list that the task is in: its stage's window (by seq), the stage's list of tasks that
     * started ahead of their turn (seq SK_NO_SEQ), its list of inner tasks (seq 0), or the list of
     * cancelled tasks. */
    struct sk_list link;
    uint64_t id;   /* generation << 32 | slot; events name the task by this id */
    uint64_t user; /* used by act.c: the engine's task id; 0: not submitted, or a feed's ask */
    uint64_t seq, origin;
    uint32_t stage, actor, n_yields;
    uint32_t unit;           /* of a source's task */
    struct sk_blkq in, held; /* in: input blocks; held: yielded blocks whose turn has not come */
    uint64_t promise, in_bytes, out_bytes;
    int64_t est_ns, launch_ns;
    /* Time in ns when the task began to run; only known if the engine was asked (step.asked), for
     * stall.c. 0: not begun, or not known. */
    int64_t begun_ns;
    /* over: ended in the engine; unknown: its output size is a guess */
    bool over, cancelled, unknown;
    /* An inner task: its yields go back to its gather, and it has no place in the order. */
    bool inner;
    void *say;     /* opaque value that the stage's gather gave the task; NULL: none */
    uint32_t node; /* node where it should run, or SK_ANY_NODE */
    /* form in which the next stage's gather takes the task's values; 0 if it says none */
    uint32_t hint;
    /* Reserved bytes: `read` for parts that are read from disk for the task, `work` for its own
     * work. */
    uint64_t read, work;
};

/* STARTING: the constructor has not ended. One call may be sent already (the engine queues the
 * call, and fails it if the constructor fails); more calls follow after the first result, so that
 * an actor that starts slowly does not hold inputs. GONE with calls in flight: the actor died, and
 * the engine will report the end of each call. */
enum sk_actor_state { SK_ACTOR_STARTING = 1, SK_ACTOR_READY, SK_ACTOR_GONE };
struct sk_sactor {
    enum sk_actor_state state;
    uint32_t in_flight;
};

struct sk_sstage {
    /* ---- fixed after creation (topo.c) */
    enum sk_stage_kind kind;
    const char *label;
    /* parent: the stage that takes the output (SK_NO_STAGE: the output of the run); which: the
     * number of this input among the parent's inputs. */
    uint32_t parent, which;
    uint32_t n_inputs;
    const uint32_t *inputs;
    const struct sk_unit *units;
    /* of a source with a feed: the number of blocks that were asked for, and one more until the
     * feed says that there are no more */
    uint32_t n_units;
    const struct sk_bref *blocks;
    uint32_t n_blocks;
    struct sk_feed *feed; /* makes the source's blocks in place of tasks in the engine; or NULL */
    /* sized: est_bytes of a unit is an estimate of the task's output, since operators fused behind
     * the source do not add rows. */
    bool source, sized;
    /* No stage with tasks comes before this one: it is a source or reads existing blocks. */
    bool first;
    bool early_ok; /* tasks of this stage may start ahead of their turn */
    bool ordered;  /* blocks of this stage leave in order */
    /* feeder: no stage with tasks is between it and the consumer; ramped: a LIMIT is downstream. */
    bool feeder, ramped;
    bool may_cut; /* a LIMIT or a mix that may end early is downstream */
    int64_t cpu_e4, gpu_e4, cap_rows, limit, batch_rows;
    bool writes; /* tasks have effects outside of the run */
    bool values; /* output blocks are values for a gather */
    uint32_t pool_min, pool_max, max_in_flight, max_tasks;
    /* ---- input of the stage's tasks ---- */
    /* Inputs of the next tasks. The first one is never a placeholder. */
    struct sk_bundle *ready, *ready_last;
    /* Large blocks that the preceding stage holds until their turn. Each is enough input for a task
     * of this stage, which may start ahead of its turn. */
    struct sk_list ahead;
    struct sk_bundle *open; /* the input that is being made from coalesced blocks */
    uint32_t n_ready, next_unit;
    uint64_t ready_bytes, ready_rows;
    uint64_t n_bundled; /* number of blocks in all inputs made so far */
    /* [n_inputs] if the stage takes its inputs side by side, else NULL. */
    struct sk_side *sides;
    /* With sides: the input that the next task waits for, or SK_NO_STAGE; and what plan.h says of
     * parts. */
    uint32_t lacks;
    const uint32_t *parts;
    bool shortest;
    /* n_ended: number of inputs that have ended. For a UNION, turn: the input whose blocks pass
     * now; frontier: the last input that may start tasks. */
    uint32_t n_ended, turn, frontier;
    bool input_ended, ended;
    bool cut;     /* a LIMIT downstream is satisfied, or a mix has ended */
    int64_t left; /* LIMIT: number of rows that still pass */
    /* ---- tasks of the stage ---- */
    /* window: tasks in order; early: tasks that started ahead, without a number yet; inner: inner
     * tasks, which have no place in the order */
    struct sk_list window, early, inner;
    uint32_t n_window, in_flight, n_unknown;
    uint64_t next_seq, promise, held_cost, held_n;
    uint64_t taken_cost; /* cost of the inputs of this stage's tasks in the engine */
    /* With keep_units: the unit of the last launched input, and how many inputs of it were
     * launched. */
    uint64_t part_of, n_parts;
    uint32_t ramp;
    struct sk_size_est size;
    double est_ns;            /* learned time of a task; 0: unknown */
    double recent_ns;         /* mean time of about the last 16 tasks, for share.c; 0: unknown */
    struct sk_sactor *actors; /* pool_max entries */
    /* n_actors: used places in actors[]; n_live: not GONE; n_starting: STARTING */
    uint32_t n_actors, n_live, n_starting;
    /* Makes the inputs of this stage's tasks; NULL: inputs are made from blocks in order. */
    struct sk_gather *gather;
    /* ---- metrics of the stage ---- */
    enum sk_stop stop; /* why launch.c last launched no task of the stage */
    /* time at the stage's limit, weighted by its share of the exhausted resource */
    double score;
    int64_t wait_ns[SK_WAIT_N];
    double busy_slot_ns; /* integral over time of the number of tasks in flight */
    uint32_t score_why;
    uint64_t tasks_done, retries, rows_in, bytes_in, rows_out, bytes_out, blocks_out,
        peak_queued_bytes;
    int64_t task_ns_total, task_ns_max, first_out_ns;
    uint32_t n_fused;
    struct sk_task_note_op fused[16];
    /* Of a source: number of units to run, skipped ones left out; number of those that no task of
     * known time has read; the sum of their bytes, of which a unit counts for target_min_bytes at
     * least, as a usual task (0: not known); and the mean of that over the tasks of recent_ns. */
    uint32_t n_todo, n_open;
    double open_bytes, recent_bytes;
    uint32_t phase; /* number of stages whose gather parks, up to this one */
    /* Of the phase with the number of this stage: time in which tasks ran, of stages that have
     * finished one; and the time up to which it was counted. */
    int64_t phase_live_ns, phase_seen_ns;
};

/* ---- events and actions ---------------------------------------------------------------------- */

enum sk_step_ev_kind {
    SK_SEV_YIELDED = 1,
    SK_SEV_DONE,
    SK_SEV_FAILED,
    SK_SEV_TICK,
    SK_SEV_SPILLED,
    SK_SEV_RESTORED
};
struct sk_step_ev {
    enum sk_step_ev_kind kind;
    uint32_t attempt; /* attempt of the task */
    uint64_t task;    /* id of the task */
    /* YIELDED: the block, from row 0. SPILLED, RESTORED: only oid is set, and the block may belong
     * to something else than this run. */
    struct sk_bref block;
    uint64_t cost; /* YIELDED: bytes in the store */
    uint32_t node; /* YIELDED: node where the block was made */
    /* YIELDED: the note of a value for a gather; note_ok has accepted it, and it is valid during
     * the call. NULL: the yield is a block. */
    const struct sk_value_note *note;
    /* DONE: time in the worker; SPILLED: time in which the disk wrote the block; <= 0: unknown */
    int64_t run_ns;
    bool actor_dead; /* DONE: the task's actor has ended for good, together with the task */
    /* DONE: number of fused operators with counts; `fused` is valid during the call */
    uint32_t n_fused;
    const struct sk_task_note_op *fused;
};

enum sk_act_kind {
    SK_ACT_LAUNCH = 1,
    SK_ACT_CANCEL,
    SK_ACT_RELEASE,
    SK_ACT_ADDREF,
    SK_ACT_ACTOR_CREATE,
    SK_ACT_ACTOR_KILL
};
struct sk_act {
    enum sk_act_kind kind;
    uint32_t stage, actor;
    uint64_t id; /* id of a task (LAUNCH, CANCEL) or of an object (RELEASE, ADDREF) */
};

struct sk_step_conf {
    uint64_t memory_bytes, target_min_bytes, target_max_bytes;
    uint64_t store_bytes; /* size of the store, for the time left; 0: memory_bytes */
    uint32_t consumer_blocks;
    bool preserve_order, keep_units;
    const uint8_t *skip_units;
    int64_t cpu_e4, gpu_e4;
    bool cpu_limited, gpu_limited;    /* limited by the user to less than the machine has */
    int64_t node_cpu_e4, node_gpu_e4; /* the most that one node has; 0: not known */
    /* The engine will report SPILLED and RESTORED. If not, blocks are not looked up by id. */
    bool moves;
    const struct sk_policy *policy;
    const struct sk_gathers *gathers; /* makes gathers; NULL: no stage has one */
    uint32_t n_nodes;                 /* number of nodes; 0: one */
    bool no_parts;                    /* the engine can only give whole values to tasks */
};

struct sk_step {
    struct sk_step_conf conf;
    uint32_t n;
    struct sk_sstage *s;
    struct sk_budget mem;
    struct sk_slots cpu, gpu;
    int64_t cpu_actors; /* the part of cpu.used that running calls of actors have */
    struct sk_blkq out; /* blocks for the consumer, in order */
    /* Sums over all feeders: bytes of held blocks and of promised output; number of held blocks. */
    uint64_t feed_bytes, feed_held_n;
    /* n_several: stages with several inputs; n_flying: tasks in the engine; n_feeding: those of
     * feeders. */
    uint32_t n_several, n_flying, n_feeding;
    uint32_t n_asked;   /* those of n_flying that are asks of feeds, which are not in the engine */
    uint32_t n_parking; /* number of stages whose gather parks its values */
    /* number of stages whose gather may wait for an answer from outside of the run */
    uint32_t n_awaiting;
    bool done, stalled;
    struct sk_list cancelled; /* tasks that still run, but whose results are not needed */
    struct sk_pool blks, bundles, tasks;
    /* the blocks that count in the budget, by object id; empty unless conf.moves */
    struct sk_map by_oid;
    SK_VEC(struct sk_stask *) slots; /* tasks by slot; free slots are in free_slots */
    SK_VEC(uint32_t) free_slots;
    uint32_t generation;
    SK_VEC(struct sk_act) acts; /* actions of the last calls; the caller empties the list (n = 0) */
    /* view: input of the policy; why: the policy's answer for each stage */
    struct sk_op_view *view;
    enum sk_stop *why;
    void *policy_state;
    /* moved_ns: time of the last event, or when the consumer last took a block */
    int64_t start_ns, now_ns, moved_ns;
    /* The engine was asked which tasks have begun, for a text about a stall. */
    bool asked;
    double consumer_score;
    uint64_t n_steps, n_forced;
    uint64_t parked, parked_disk; /* cost of parked values in memory, and on disk */
    /* bytes that the disk has written of blocks of the run, and the time in which it did */
    uint64_t written, write_ns;
    /* took_ns: when the consumer took its last block, of took_rows rows, until it asks for the next
     * one; 0 after that. taken_rows: all rows that it took; row_ns: the time that it needs for one,
     * by the later half of its last 32 blocks, of n_timed in all. */
    int64_t took_ns;
    double row_ns;
    uint64_t took_rows, taken_rows, n_timed;
    struct sk_share_op *facts; /* [n], for share.c */
};

/* ---- topo.c */
sk_rc sk_step_create(const struct sk_plan *plan, const struct sk_stages *stages,
                     const struct sk_step_conf *conf, struct sk_step **out,
                     struct sk_err *err) SK_MUST_USE;
/* Frees the step. Call sk_step_sweep first, to give up the objects that it still holds. */
void sk_step_destroy(struct sk_step *x);
/* Checks that each stage can run on the machine's CPUs and GPUs. SK_EINFEASIBLE: the message has
 * the arithmetic. */
sk_rc sk_step_feasible(const struct sk_step *x, struct sk_err *err) SK_MUST_USE;

/* step.c. Each call may append to acts; the caller carries these actions out and empties the list.
 * The reference of a yielded block is taken over, even on failure. SK_ENOMEM: the run has failed,
 * and its state is still consistent enough for the sweep. */
sk_rc sk_step_start(struct sk_step *x, int64_t now_ns, struct sk_err *err) SK_MUST_USE;
sk_rc sk_step_event(struct sk_step *x, const struct sk_step_ev *ev, int64_t now_ns,
                    struct sk_err *err) SK_MUST_USE;
/* Takes the answer to a feed's ask, SK_OK or SK_EDONE; the reference of its block is taken over,
 * even on failure. */
sk_rc sk_step_fed(struct sk_step *x, uint64_t ticket, const struct sk_fed *fed, int64_t now_ns,
                  struct sk_err *err) SK_MUST_USE;
/* Runs fn(arg) for sk_exec_call, then launches what its changes allow. */
sk_rc sk_step_call(struct sk_step *x, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg,
                   int64_t now_ns, struct sk_err *err) SK_MUST_USE;
/* Gives the consumer the next block: SK_EAGAIN when there is none now, SK_EDONE at the end. */
sk_rc sk_step_take(struct sk_step *x, int64_t now_ns, struct sk_bref *out,
                   struct sk_err *err) SK_MUST_USE;

/* sweep.c: gives up everything that the run still holds, whether it succeeded or failed. Each
 * callback may be NULL. */
struct sk_sweep {
    void (*object)(void *ctx, uint64_t oid);
    void (*task)(void *ctx, struct sk_stask *t); /* a task that is still in the engine */
    void (*actor)(void *ctx, uint32_t stage, uint32_t actor);
    void *ctx;
};
void sk_step_sweep(struct sk_step *x, const struct sk_sweep *w);

/* ---- check.c */
/* True if all counters agree with a recount, and the budget with the queues. */
bool sk_step_check(const struct sk_step *x);

/* ---- tables.c: tasks, blocks, actions */
struct sk_stask *sk_step_task(const struct sk_step *x, uint64_t id); /* NULL: the task is over */
/* A new task, in no list and of no stage yet; NULL: no memory. */
struct sk_stask *sk_step_new_task(struct sk_step *x);
/* Frees a task with empty queues, which is in one list at most. */
void sk_step_free_task(struct sk_step *x, struct sk_stask *t);
sk_rc sk_step_act(struct sk_step *x, struct sk_act a, struct sk_err *err) SK_MUST_USE;
/* Removes a block's bytes from the budget; not for parts of values. */
void sk_step_forget(struct sk_step *x, const struct sk_blk *b);
/* Drops a block that is in no queue, or all blocks of a queue: releases the reference and removes
 * the bytes from the budget. */
sk_rc sk_step_drop(struct sk_step *x, struct sk_blk *b, struct sk_err *err);
sk_rc sk_step_drop_queue(struct sk_step *x, struct sk_blkq *q, struct sk_err *err);

/* ---- input.c: makes the inputs of a stage's tasks */
/* Moves next_unit past the units that are done already. */
void sk_step_next_unit(const struct sk_step *x, struct sk_sstage *s);
/* Adds b, the next block in order, to the input under construction. */
sk_rc sk_step_coalesce(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b,
                       struct sk_err *err);
/* Finishes the input under construction. */
void sk_step_close(struct sk_sstage *s);
void sk_step_push_ready(struct sk_sstage *s, struct sk_bundle *b); /* does not count b in n_ready */
/* Call when block b of task t has to wait for its turn. If b is large, it is offered to the next
 * stage, whose task may start ahead of its turn with it. */
void sk_step_offer(struct sk_step *x, struct sk_stask *t, struct sk_blk *b);
/* True if blocks are enough for a task: `large` for one block, whatever its neighbours; `enough`
 * for n neighbouring blocks that come next. */
bool sk_step_large(const struct sk_step *x, const struct sk_sstage *s, uint64_t bytes,
                   uint64_t rows);
bool sk_step_enough(const struct sk_step *x, const struct sk_sstage *s, uint32_t n, uint64_t bytes,
                    uint64_t rows);
/* Call after the first ready input was taken. If placeholders come next, their tasks get their
 * numbers. */
void sk_step_settle(struct sk_step *x, uint32_t si);
/* Gives the offered block b to task t ahead of its turn: *in becomes the task's input, and b stays
 * in the order as the placeholder. */
void sk_step_go_ahead(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_blk *in,
                      struct sk_stask *t);

/* zip.c: inputs side by side. SK_EINVAL: they have different numbers of rows, or too many blocks
 * for a round. */
sk_rc sk_zip_take_in(struct sk_step *x, struct sk_sstage *s, uint32_t side, struct sk_blk *b,
                     struct sk_err *err);
/* Call after an input has ended. */
sk_rc sk_zip_pair(struct sk_step *x, struct sk_sstage *s, struct sk_err *err);
/* Bytes of an input that wait for rows of another input. */
uint64_t sk_zip_lead(const struct sk_sstage *s, uint32_t side);

/* ---- parts.c: inputs of tasks that a gather makes (gather.c has the calls of gather.h) ------- */
static inline bool sk_task_has_parts(const struct sk_stask *t) {
    return t->in.head && t->in.head->part;
}
/* True if the next task has parts that are on disk. */
bool sk_gather_reads(const struct sk_step *x, const struct sk_sstage *s);
/* True if s->values, and the gather that takes the values waits for an answer from outside of the
 * run. */
bool sk_gather_awaits(const struct sk_step *x, const struct sk_sstage *s);
/* True if no task is in the engine, the consumer has no block to take, and a gather or the run
 * itself (of a feed) waits for an answer. */
bool sk_step_awaits(const struct sk_step *x);
/* Bytes that a task reserves for its work, as sk_gather_task.work demands. */
uint64_t sk_gather_work(const struct sk_step *x, uint32_t work, uint64_t in_bytes);
/* Reserves memory for the task's parts and work; call when the task has its input. */
void sk_gather_launched(struct sk_gather *g, struct sk_stask *t, uint32_t work);
/* Releases the memory that sk_gather_launched reserved; call while the task still has its input. */
void sk_gather_over(struct sk_gather *g, struct sk_stask *t);
/* Frees *say, which may be NULL, and sets it to NULL. */
void sk_gather_forget(const struct sk_gather *g, void **say);
/* Forgets a value that has no parts. */
void sk_gather_forget_value(struct sk_step *x, struct sk_kept *k);

/* ---- view.c: the view that a policy gets; facts about a stage's next task ---- */
void sk_view_init(struct sk_step *x); /* sets what is fixed for the run */
/* Writes the present state of the run to *v; valid until the state changes. */
void sk_view_look(struct sk_step *x, struct sk_sched_view *v);
/* Bytes that count as in memory: parked values, which may go to disk, do not count, but their parts
 * that tasks have do. */
uint64_t sk_view_used(const struct sk_step *x);
/* True if the stage is not behind an earlier input of a union, and not ahead of an input that it is
 * zipped with. */
bool sk_view_in_turn(struct sk_step *x, uint32_t si);
static inline bool sk_stage_runs(const struct sk_sstage *s) {
    return s->kind == SK_STAGE_TASKS || s->kind == SK_STAGE_ACTORS;
}
/* Returns the reason that last held the stage back, as the statistics name it. */
static inline enum sk_wait sk_stage_wait(const struct sk_sstage *s) { return sk_wait_of[s->stop]; }
bool sk_stage_has_input(const struct sk_sstage *s);
bool sk_stage_exhausted(const struct sk_sstage *s); /* the stage will never launch again */
/* The block with which the next task would start ahead of its turn; NULL: the next task is in
 * order, or there is no next task. */
struct sk_blk *sk_stage_next_ahead(const struct sk_sstage *s);
bool sk_stage_est_known(const struct sk_sstage *s);
uint64_t sk_stage_next_in_bytes(const struct sk_sstage *s);
/* Estimated output that the next launch reserves; for a stage without input, that of a usual
 * task. */
uint64_t sk_stage_est_out(const struct sk_step *x, const struct sk_sstage *s);
/* Number of tasks of the stage that can run at once; at least 1. */
uint32_t sk_stage_slots(const struct sk_step *x, const struct sk_sstage *s);
/* Memory that a table of one of these tasks may take: all of them together an eighth of the run's
 * memory, but each at least half a block. */
uint64_t sk_stage_table_bytes(const struct sk_step *x, const struct sk_sstage *s);

/* ---- order.c: blocks on their way from stage to stage */
/* Call when t has yielded or is over. */
sk_rc sk_order_moved(struct sk_step *x, struct sk_stask *t, struct sk_err *err);
/* Passes on all existing blocks of a stage at once, since they cost nothing. */
sk_rc sk_order_blocks(struct sk_step *x, uint32_t si, struct sk_err *err);
/* Ends the stage if no block will leave it any more. */
sk_rc sk_order_check_end(struct sk_step *x, uint32_t si, struct sk_err *err);
/* Ends the input of a stage that takes no more rows of any input. */
sk_rc sk_order_inputs_done(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) SK_MUST_USE;
/* Ends a satisfied LIMIT: further rows that reach it are not needed. */
sk_rc sk_order_limit_done(struct sk_step *x, uint32_t si, struct sk_err *err) SK_MUST_USE;
/* True if the stage's blocks may pass now: of the inputs of a UNION only one passes at a time. */
bool sk_step_open(const struct sk_step *x, uint32_t si);

/* launch.c: launches tasks as the policy chooses. */
sk_rc sk_launch_all(struct sk_step *x, struct sk_err *err) SK_MUST_USE;

/* ---- pools.c: actors of stages */
/* number of places in which no actor can be created now */
uint32_t sk_pool_taken(const struct sk_sstage *s);
/* Returns the actor that gets the next call: fewest calls in flight, then ready, then lowest index.
 * SK_NO_STAGE: all are busy. */
uint32_t sk_pool_pick(const struct sk_sstage *s);
/* True if all stages can have their GPUs at the same time, pools with their least number of
 * actors. */
bool sk_pools_fit(const struct sk_step *x);
/* Records that an actor has died for good; the engine reports the ends of its calls one by one. */
void sk_pool_lost(struct sk_step *x, uint32_t si, uint32_t i);
/* Creates and ends actors as the stage's state demands. wanted: the stage has input or will have it
 * soon; over: it will never launch again; has_input: it has input now. */
sk_rc sk_pool_scale(struct sk_step *x, uint32_t si, bool wanted, bool over, bool has_input,
                    struct sk_err *err) SK_MUST_USE;
int64_t sk_pool_idle_gpu(const struct sk_sstage *s); /* GPUs that idle actors of the stage keep */
/* GPUs reserved for tasks: those of the largest task in flight, which may be queued; under a limit
 * of the user, those of all tasks in flight. No actor may take them. */
int64_t sk_pools_task_gpu(const struct sk_step *x);
/* Ends idle actors until gpu_e4 are free. */
sk_rc sk_pool_give_up(struct sk_step *x, uint32_t si, int64_t gpu_e4,
                      struct sk_err *err) SK_MUST_USE;

/* stall.c: says in words what each stage waits for. */
size_t sk_stall_text(const struct sk_step *x, int64_t now_ns, char *buf, size_t cap);

/* ---- metrics.c */
/* Attributes the time since the last call to what each stage did or waited for. */
void sk_metrics_advance(struct sk_step *x, int64_t now_ns);
/* Counts the time of a task of the stage that is done. */
/* Call once, before the first launch. */
void sk_metrics_start(struct sk_step *x);
void sk_metrics_timed(struct sk_step *x, struct sk_sstage *s, const struct sk_stask *t,
                      int64_t run_ns);
/* Counts the time that the consumer spent on its last block. */
void sk_metrics_consumed(struct sk_step *x, int64_t ns);
void sk_metrics_get(const struct sk_step *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                    uint32_t cap);

/* notes.c: turns events of an engine without notes into events of an engine with notes. */
struct sk_notes {
    struct sk_map by_task;
    uint8_t last[SK_NOTE_MAX]; /* the note of the task that ended last */
};
/* Returns false if the event was a note, which is saved for the next event. Otherwise the caller
 * handles *ev, which may have become a failure with *err, and may point into k until the next
 * call. */
bool sk_notes_take(struct sk_notes *k, struct sk_engine *e, struct sk_event *ev,
                   struct sk_err *err);
void sk_notes_deinit(struct sk_notes *k);

/* inbox.c: lets one thread at a time into a run. Every access to the run is between enter and
 * leave. */
struct sk_run_actor {
    sk_aid aid;
    sk_oid ready;
};
struct sk_inbox_run { /* callbacks of the run, all called between enter and leave */
    void (*take)(struct sk_exec *x, const struct sk_event *ev);
    void (*lost)(struct sk_exec *x);  /* an event is lost, because there was no memory to copy it */
    bool (*wakes)(struct sk_exec *x); /* true if the run's owner should wake up */
};
struct sk_inbox;
sk_rc sk_inbox_create(struct sk_engine *e, struct sk_exec *x, const struct sk_inbox_run *run,
                      struct sk_inbox **out, struct sk_err *err) SK_MUST_USE;
void sk_inbox_enter(struct sk_inbox *in);
/* Like enter, but does not wait; false: another thread is inside. */
bool sk_inbox_try_enter(struct sk_inbox *in);
void sk_inbox_leave(struct sk_inbox *in);
/* Callback for ops.drive: true if the run's owner should wake up, or events wait to be taken. */
bool sk_inbox_wakes(void *inbox);
/* sk_inbox_calls: number of calls from outside of the engine so far (sk_exec_call, sk_exec_fed);
 * sk_inbox_called counts one more, and so does the next event after sk_inbox_calls;
 * sk_inbox_await_call waits until the number is larger than `seen` (SK_ETIMEOUT). The caller must
 * have read `seen` before it released the mutex, or it could miss a call. */
uint64_t sk_inbox_calls(struct sk_inbox *in);
void sk_inbox_called(struct sk_inbox *in);
sk_rc sk_inbox_await_call(struct sk_inbox *in, uint64_t seen, int64_t deadline_ns) SK_MUST_USE;
struct sk_sink *sk_inbox_sink(struct sk_inbox *in);
/* Call before a task is submitted with this sink, so that the inbox waits for the task's last
 * event. */
void sk_inbox_task(struct sk_inbox *in);
/* Undoes sk_inbox_task if the task was refused, so that no event will arrive. */
void sk_inbox_no_task(struct sk_inbox *in);
/* Ends the actor and releases its handles, after sk_inbox_leave. */
void sk_inbox_actor_gone(struct sk_inbox *in, struct sk_run_actor a);
/* Ignores all further events and only releases the references that they bring. */
void sk_inbox_stop(struct sk_inbox *in);
/* Call outside of enter and leave. The inbox is freed when its last task is over. */
void sk_inbox_destroy(struct sk_inbox *in);

#endif

/* exec_int.h - shared inside the exec layer: the pure step, the budget, and what run.c does with
 * them.
 *
 *     engine events --event.c--> sk_step_ev --step.c--> sk_act list --act.c--> engine calls
 *
 * All but inbox.c, notes.c and what includes run_int.h is pure: no clock, no engine call, no I/O;
 * they allocate from pools only. Everything in them belongs to one lock, the run's (inbox.c). Calls
 * go one way: step -> launch, order -> input, pools, zip, gather -> parts, tables; a stage's gather
 * (gather.h) is called by these, and calls gather.c. */
#ifndef SK_EXEC_INT_H
#define SK_EXEC_INT_H

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/pool.h"
#include "base/containers/vec.h"
#include "exec/exec.h"
#include "exec/gather.h"
#include "exec/launch/guards.h"

#define SK_NO_STAGE UINT32_MAX
#define SK_BUNDLE_BLOCKS_MAX 128u /* inputs of one task; of one that a gather makes: any number */
#define SK_NO_SEQ UINT64_MAX      /* number of a task that has started ahead of its turn */
/* tasks of a stage between the head of the order and the last one launched */
#define SK_WINDOW_MAX 4096u

/* ---- budget.c (pure): bytes, sizes, depth ---------------------------------------------------- */

struct sk_budget {
    /* used: blocks in memory; disk: those that were spilled; reserved: promised to tasks */
    uint64_t limit, used, disk, reserved;
    uint64_t peak; /* of used */
};
static inline uint64_t sk_budget_room(const struct sk_budget *b) {
    uint64_t taken = b->used + b->reserved;
    return taken < b->limit ? b->limit - taken : 0;
}
void sk_budget_reserve(struct sk_budget *b, uint64_t n);
void sk_budget_unreserve(struct sk_budget *b, uint64_t n);
/* n bytes exist now; *promise shrinks by what they take of it */
void sk_budget_use(struct sk_budget *b, uint64_t *promise, uint64_t n);
void sk_budget_give(struct sk_budget *b, uint64_t n);     /* n bytes are gone */
void sk_budget_spilled(struct sk_budget *b, uint64_t n);  /* n bytes went to disk */
void sk_budget_restored(struct sk_budget *b, uint64_t n); /* and came back */

/* What was left open. A block takes a quarter of memory at most: a small store holds several. */
void sk_exec_choose(struct sk_exec_conf *c, uint64_t capacity_bytes);

/* learned output of a stage: the larger of mean and recent, by input byte where inputs have
 * sizes */
struct sk_size_est {
    uint64_t n, in_bytes, out_bytes;
    double recent_ratio, recent_out;
};
void sk_size_est_add(struct sk_size_est *e, uint64_t in_bytes, uint64_t out_bytes);
static inline bool sk_size_est_known(const struct sk_size_est *e) { return e->n > 0; }
/* Known only; in_bytes 0: of a usual task. `prior` counts as one more task at first, so that a few
 * tasks that yield little do not let hundreds start; it only raises. */
uint64_t sk_size_est_out(const struct sk_size_est *e, uint64_t in_bytes, uint64_t prior);

struct sk_slots { /* one resource: how much of it tasks in flight ask for, queued ones included */
    int64_t total, used;
    /* total is a limit below what the machine has: nothing is queued ahead, for it would run */
    bool strict;
    double queued_ns; /* sum over tasks in flight of amount * expected time */
};
/* May one more task that takes `amount` and about est_ns (0: unknown) be handed to the engine?
 * *ahead: only as one that will wait. */
bool sk_slots_admit(const struct sk_slots *s, int64_t amount, int64_t est_ns, uint32_t n_same,
                    bool *ahead);

/* ---- blocks, bundles, tasks ------------------------------------------------------------------ */

/* The first `rows` of r's rows (of more than none), by reference. */
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
struct sk_blk *sk_blkq_pop(struct sk_blkq *q); /* NULL: empty */

struct sk_bundle { /* input of one task; or the place of a task that started ahead of its turn */
    struct sk_bundle *next;
    struct sk_blkq q;
    struct sk_stask *early;
    /* of a stage with a gather: as it said (sk_gather_task) */
    void *say;
    bool inner;
    uint32_t node, work, hint;
    uint64_t origin;
};

struct sk_side { /* one of several inputs whose rows are taken side by side */
    struct sk_blkq q;
    uint64_t rows; /* that have come in all */
};

/* from launch until its last block was passed on and the engine has said its last word */
struct sk_stask {
    /* in its stage's window, by seq; among those that started ahead of their turn (seq SK_NO_SEQ);
     * among the cancelled */
    struct sk_list link;
    uint64_t id;   /* generation << 32 | slot: what events name it by */
    uint64_t user; /* act.c: the engine's task id; 0: not submitted */
    uint64_t seq, origin;
    uint32_t stage, actor, n_yields;
    uint32_t unit;           /* of a source */
    struct sk_blkq in, held; /* inputs; yields whose turn has not come */
    uint64_t promise, in_bytes, out_bytes;
    int64_t est_ns, launch_ns;
    /* for stall.c, when the engine was asked (step.asked): 0, it had not begun */
    int64_t begun_ns;
    bool over, cancelled, unknown; /* over: done in the engine */
    /* its yields are its gather's, and it has no place in the order */
    bool inner;
    void *say;     /* what its gather says of it; NULL: it has none */
    uint32_t node; /* where it should run: SK_ANY_NODE */
    /* what the worker is told of how its values are wanted, by a gather; else 0 */
    uint32_t hint;
    /* bytes of parts that are read from disk for it; that it needs for its work: reserved */
    uint64_t read, work;
};

/* Calls may be sent before the constructor has ended (the engine queues them, and hands its failure
 * to them), but only one until something
 * came back: an actor that takes long to start should not sit on inputs. */
enum sk_actor_state {
    SK_ACTOR_STARTING = 1,
    SK_ACTOR_READY,
    SK_ACTOR_GONE
}; /* GONE with tasks in flight: it died, the engine is to say so of each */
struct sk_sactor {
    enum sk_actor_state state;
    uint32_t in_flight;
};

struct sk_sstage {
    /* fixed (topo.c) */
    enum sk_stage_kind kind;
    const char *label;
    /* consumer (SK_NO_STAGE: out) and the number of its input that this is */
    uint32_t parent, which;
    uint32_t n_inputs;
    const uint32_t *inputs;
    const struct sk_unit *units;
    uint32_t n_units;
    const struct sk_bref *blocks;
    uint32_t n_blocks;
    /* sized: est_bytes of its units says what a task of it yields (nothing fused to it may make
     * more rows) */
    bool source, sized;
    /* no task comes before it: it brings data in (a source, or it reads existing blocks) */
    bool first;
    bool early_ok; /* its tasks may start ahead of their turn */
    bool ordered;  /* its blocks leave in order */
    /* feeder: its blocks reach the consumer with no task between; ramped: a LIMIT is downstream */
    bool feeder, ramped;
    int64_t cpu_e4, gpu_e4, cap_rows, limit, batch_rows;
    bool writes; /* its tasks have effects outside */
    bool values; /* its blocks are values for a gather */
    uint32_t pool_min, pool_max, max_in_flight, max_tasks;
    /* input */
    struct sk_bundle *ready, *ready_last; /* the first one is never a place */
    /* large blocks that wait for their turn above: input enough for a task each */
    struct sk_list ahead;
    struct sk_bundle *open; /* being coalesced */
    uint32_t n_ready, next_unit;
    uint64_t ready_bytes, ready_rows;
    uint64_t n_bundled; /* blocks of the inputs that were made */
    /* [n_inputs] of a stage that takes several side by side, else NULL */
    struct sk_side *sides;
    /* of sides: the input that the next task waits for, or SK_NO_STAGE */
    uint32_t lacks;
    /* inputs that ended; UNION: whose turn it is, and the last input that may start */
    uint32_t n_ended, turn, frontier;
    bool input_ended, ended, cut; /* cut: a LIMIT below is satisfied */
    int64_t left;                 /* LIMIT: rows still to pass */
    /* tasks */
    struct sk_list window, early; /* in order; those whose place is not known yet */
    uint32_t n_window, in_flight, n_unknown;
    uint64_t next_seq, promise, held_cost, held_n;
    uint64_t taken_cost; /* input of its tasks in the engine */
    /* keep_units: the unit of the last bundle launched, and how many of it were */
    uint64_t part_of, n_parts;
    uint32_t ramp;
    struct sk_size_est size;
    double est_ns;                         /* learned time of a task, 0 unknown */
    struct sk_sactor *actors;              /* [pool_max] */
    uint32_t n_actors, n_live, n_starting; /* places used in actors[]; not gone; of them starting */
    /* that makes the inputs of its tasks; NULL: they are made as usual */
    struct sk_gather *gather;
    /* metrics */
    enum sk_stop stop; /* of the last look */
    double score;      /* time at its cap, weighted by its share of what was exhausted */
    int64_t wait_ns[SK_WAIT_N];
    double busy_slot_ns; /* integral of tasks in flight */
    uint32_t score_why;
    uint64_t tasks_done, retries, rows_in, bytes_in, rows_out, bytes_out, blocks_out,
        peak_queued_bytes;
    int64_t task_ns_total, task_ns_max, first_out_ns;
    uint32_t n_fused;
    struct sk_task_note_op fused[16];
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
    uint32_t attempt; /* of the task */
    uint64_t task;    /* id */
    /* YIELDED: row0 0; SPILLED, RESTORED: its oid, which may be none of the run's */
    struct sk_bref block;
    uint64_t cost; /* YIELDED: bytes in the store */
    uint32_t node; /* YIELDED: where it was made */
    /* YIELDED: it is a value for a gather, note_ok; valid during the call. NULL: a block */
    const struct sk_value_note *note;
    int64_t run_ns;   /* DONE: time in the worker; <= 0: unknown */
    bool actor_dead;  /* DONE: its actor ended with it, for good */
    uint32_t n_fused; /* DONE: per operator; valid during the call */
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
    uint64_t id; /* task id (LAUNCH, CANCEL), object (RELEASE, ADDREF) */
};

struct sk_step_conf {
    uint64_t memory_bytes, target_min_bytes, target_max_bytes;
    uint32_t consumer_blocks;
    bool preserve_order, keep_units;
    const uint8_t *skip_units;
    int64_t cpu_e4, gpu_e4;
    bool cpu_limited, gpu_limited;    /* less than the machine has */
    int64_t node_cpu_e4, node_gpu_e4; /* the most that one node has; 0: not known */
    /* SPILLED and RESTORED will come; without them no block need be found by its id */
    bool moves;
    const struct sk_policy *policy;
    const struct sk_gathers *gathers; /* who makes gathers; NULL: nobody */
    uint32_t n_nodes;                 /* 0: one */
    bool no_parts;                    /* the engine gives tasks whole values only */
};

struct sk_step {
    struct sk_step_conf conf;
    uint32_t n;
    struct sk_sstage *s;
    struct sk_budget mem;
    struct sk_slots cpu, gpu;
    int64_t cpu_actors;               /* of cpu.used: by calls of actors */
    struct sk_blkq out;               /* for the consumer, in order */
    uint64_t feed_bytes, feed_held_n; /* of feeders: held + promised bytes, held blocks */
    /* stages with several inputs; tasks in the engine; of these, of feeders */
    uint32_t n_several, n_flying, n_feeding;
    uint32_t n_parking; /* stages whose gather parks its values */
    bool done, stalled;
    struct sk_list cancelled; /* tasks that still run but whose results nobody wants */
    struct sk_pool blks, bundles, tasks;
    struct sk_map by_oid;            /* blocks of the budget; conf.moves */
    SK_VEC(struct sk_stask *) slots; /* by task id; free ones chain through free_slots */
    SK_VEC(uint32_t) free_slots;
    uint32_t generation;
    SK_VEC(struct sk_act) acts; /* made by the last calls; the caller empties it (n = 0) */
    struct sk_op_view *view;    /* what the policy sees, and what it says of each stage */
    enum sk_stop *why;
    void *policy_state;
    int64_t start_ns, now_ns, moved_ns; /* moved: the last event or block taken */
    /* the engine said which tasks have begun: for the text that follows */
    bool asked;
    double consumer_score;
    uint64_t n_steps, n_forced;
    uint64_t parked, parked_disk; /* cost of values that are parked: in memory, on disk */
};

/* flow.c */
struct sk_flow_ring {
    SK_VEC(struct sk_flow) v;
    uint64_t n; /* ever added */
};
void sk_flow_add(struct sk_flow_ring *r, uint64_t block, uint64_t task, int64_t ns);
size_t sk_flow_copy(const struct sk_flow_ring *r, struct sk_flow *out, size_t cap);

/* topo.c */
sk_rc sk_step_create(const struct sk_plan *plan, const struct sk_stages *stages,
                     const struct sk_step_conf *conf, struct sk_step **out,
                     struct sk_err *err) SK_MUST_USE;
/* what it still holds is forgotten: sk_step_sweep before */
void sk_step_destroy(struct sk_step *x);
/* Feasible on (cpu, gpu)? SK_EINFEASIBLE with the arithmetic. */
sk_rc sk_step_feasible(const struct sk_step *x, struct sk_err *err) SK_MUST_USE;

/* step.c: each call may append to acts; the caller does them and empties the list. A yielded
 * block's reference is taken in any case.
 * SK_ENOMEM: the run is over (the state stays sound for the sweep). */
sk_rc sk_step_start(struct sk_step *x, int64_t now_ns, struct sk_err *err) SK_MUST_USE;
sk_rc sk_step_event(struct sk_step *x, const struct sk_step_ev *ev, int64_t now_ns,
                    struct sk_err *err) SK_MUST_USE;
/* The consumer takes the next block: SK_EAGAIN when there is none now, SK_EDONE at the end. */
/* sk_exec_call */
sk_rc sk_step_call(struct sk_step *x, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg,
                   int64_t now_ns, struct sk_err *err) SK_MUST_USE;
sk_rc sk_step_take(struct sk_step *x, int64_t now_ns, struct sk_bref *out,
                   struct sk_err *err) SK_MUST_USE;

/* sweep.c: gives up everything held, for the end, however it came. Each callback may be NULL. */
struct sk_sweep {
    void (*object)(void *ctx, uint64_t oid);
    void (*task)(void *ctx, struct sk_stask *t); /* still in the engine */
    void (*actor)(void *ctx, uint32_t stage, uint32_t actor);
    void *ctx;
};
void sk_step_sweep(struct sk_step *x, const struct sk_sweep *w);

/* check.c */
/* counters against a recount; budget against the queues */
bool sk_step_check(const struct sk_step *x);

/* tables.c: tasks, blocks, actions */
struct sk_stask *sk_step_task(const struct sk_step *x, uint64_t id); /* NULL: over */
/* of no list, with no stage; NULL: no memory */
struct sk_stask *sk_step_new_task(struct sk_step *x);
/* of no list but one, with empty queues */
void sk_step_free_task(struct sk_step *x, struct sk_stask *t);
sk_rc sk_step_act(struct sk_step *x, struct sk_act a, struct sk_err *err) SK_MUST_USE;
/* its bytes leave the budget; of no part */
void sk_step_forget(struct sk_step *x, const struct sk_blk *b);
/* Of no queue: its reference goes back, its bytes leave the budget. And all of a queue. */
sk_rc sk_step_drop(struct sk_step *x, struct sk_blk *b, struct sk_err *err);
sk_rc sk_step_drop_queue(struct sk_step *x, struct sk_blkq *q, struct sk_err *err);

/* input.c: what a stage's tasks work on */
/* past those that are done */
void sk_step_next_unit(const struct sk_step *x, struct sk_sstage *s);
/* b comes next */
sk_rc sk_step_coalesce(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b,
                       struct sk_err *err);
/* what is being coalesced is a task's input now */
void sk_step_close(struct sk_sstage *s);
void sk_step_push_ready(struct sk_sstage *s, struct sk_bundle *b); /* does not count it */
void sk_step_offer(struct sk_step *x, struct sk_stask *t,
                   /* t's, that must wait for its turn: may be worked on before, if it is large */
                   struct sk_blk *b);
/* Is it worth a task? Of one block, whatever comes before or after it; of n neighbours that come
 * next. */
bool sk_step_large(const struct sk_step *x, const struct sk_sstage *s, uint64_t bytes,
                   uint64_t rows);
bool sk_step_enough(const struct sk_step *x, const struct sk_sstage *s, uint32_t n, uint64_t bytes,
                    uint64_t rows);
/* after the first ready bundle was taken: places behind it are filled */
void sk_step_settle(struct sk_step *x, uint32_t si);
void sk_step_go_ahead(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_blk *in,
                      struct sk_stask *t); /* b becomes t's place, *in its input */

/* zip.c: inputs side by side. SK_EINVAL: they have different numbers of rows. */
sk_rc sk_zip_take_in(struct sk_step *x, struct sk_sstage *s, uint32_t side, struct sk_blk *b,
                     struct sk_err *err);
/* after an input has ended */
sk_rc sk_zip_pair(struct sk_step *x, struct sk_sstage *s, struct sk_err *err);
/* bytes of an input that wait for rows of another one */
uint64_t sk_zip_lead(const struct sk_sstage *s, uint32_t side);

/* parts.c: what exec itself does for gathers; the rest is in gather.h, done by gather.c */
static inline bool sk_task_has_parts(const struct sk_stask *t) {
    return t->in.head && t->in.head->part;
}
/* the next task has parts that are on disk */
bool sk_gather_reads(const struct sk_step *x, const struct sk_sstage *s);
/* s->values: the gather that takes them awaits an answer from outside of the run */
bool sk_gather_awaits(const struct sk_step *x, const struct sk_sstage *s);
/* no task is in the engine, the consumer has nothing to take, and a gather awaits an answer */
bool sk_step_awaits(const struct sk_step *x);
/* that a task reserves, see struct sk_gather_task */
uint64_t sk_gather_work(const struct sk_step *x, uint32_t work, uint64_t in_bytes);
/* its input is taken */
void sk_gather_launched(struct sk_gather *g, struct sk_stask *t, uint32_t work);
/* its input is still there */
void sk_gather_over(struct sk_gather *g, struct sk_stask *t);
/* *say may be NULL, and is then */
void sk_gather_forget(const struct sk_gather *g, void **say);
/* without parts */
void sk_gather_forget_value(struct sk_step *x, struct sk_kept *k);

/* view.c: what a policy sees; facts about a stage's next task */
void sk_view_init(struct sk_step *x); /* what is fixed for the run */
/* as it is now; valid until the state changes */
void sk_view_look(struct sk_step *x, struct sk_sched_view *v);
/* What counts as in memory: not what is parked and may go to disk, but the parts of it that tasks
 * have. */
uint64_t sk_view_used(const struct sk_step *x);
/* no earlier input of a union, nor one that it is ahead of, comes first */
bool sk_view_in_turn(struct sk_step *x, uint32_t si);
static inline bool sk_stage_runs(const struct sk_sstage *s) {
    return s->kind == SK_STAGE_TASKS || s->kind == SK_STAGE_ACTORS;
}
/* as the last look at it said */
static inline enum sk_wait sk_stage_wait(const struct sk_sstage *s) { return sk_wait_of[s->stop]; }
bool sk_stage_has_input(const struct sk_sstage *s);
bool sk_stage_exhausted(const struct sk_sstage *s); /* it will never launch again */
struct sk_blk *sk_stage_next_ahead(
    /* the next task would start ahead of its turn: with this block. NULL: in order, or there is
     * none */
    const struct sk_sstage *s);
bool sk_stage_est_known(const struct sk_sstage *s);
uint64_t sk_stage_next_in_bytes(const struct sk_sstage *s);
uint64_t sk_stage_est_out(const struct sk_step *x,
                          /* that the next launch reserves; of a stage without input: what a usual
                           * task of it would */
                          const struct sk_sstage *s);

/* order.c: blocks on their way from stage to stage */
/* t has yielded, or is over */
sk_rc sk_order_moved(struct sk_step *x, struct sk_stask *t, struct sk_err *err);
/* existing ones: all at once, they cost nothing */
sk_rc sk_order_blocks(struct sk_step *x, uint32_t si, struct sk_err *err);
/* ends the stage if nothing will come out of it any more */
sk_rc sk_order_check_end(struct sk_step *x, uint32_t si, struct sk_err *err);
/* nobody wants what comes to it */
sk_rc sk_order_limit_done(struct sk_step *x, uint32_t si, struct sk_err *err) SK_MUST_USE;
/* its output is in turn (see UNION) */
bool sk_step_open(const struct sk_step *x, uint32_t si);

/* launch.c: does what the policy says */
sk_rc sk_launch_all(struct sk_step *x, struct sk_err *err) SK_MUST_USE;

/* pools.c: actors of stages */
uint32_t sk_pool_taken(const struct sk_sstage *s); /* places of it that cannot be filled now */
uint32_t
/* who gets the next call: fewest in flight, then ready, lowest index; SK_NO_STAGE: all are busy */
sk_pool_pick(const struct sk_sstage *s);
/* Have all stages GPUs at the same time, pools with their least number of actors? */
bool sk_pools_fit(const struct sk_step *x);
/* Makes and ends actors as the stage's state asks: wanted: has input or will soon; over: will never
 * launch again; has_input: now. */
/* an actor has died and is not started again; its calls end one by one */
void sk_pool_lost(struct sk_step *x, uint32_t si, uint32_t i);
sk_rc sk_pool_scale(struct sk_step *x, uint32_t si, bool wanted, bool over, bool has_input,
                    struct sk_err *err) SK_MUST_USE;
int64_t sk_pool_idle_gpu(const struct sk_sstage *s); /* GPUs that its idle actors keep */
int64_t sk_pools_task_gpu(const struct sk_step
                              /* that no actor may take: of the largest task in flight, which may be
                               * queued; of all, under a limit of the user's */
                              *x);
sk_rc sk_pool_give_up(struct sk_step *x, uint32_t si, int64_t gpu_e4,
                      struct sk_err *err) SK_MUST_USE; /* ends idle ones until so many are free */

/* stall.c: who waits for what, in words */
size_t sk_stall_text(const struct sk_step *x, int64_t now_ns, char *buf, size_t cap);

/* metrics.c */
/* attributes the time since the last call */
void sk_metrics_advance(struct sk_step *x, int64_t now_ns);
void sk_metrics_get(const struct sk_step *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                    uint32_t cap);

/* notes.c: the events of an engine without notes as those of one with them */
struct sk_notes {
    struct sk_map by_task;
    uint8_t last[SK_NOTE_MAX]; /* of the task that has ended */
};
/* false: it was a note, and is kept. Else *ev is to be taken, maybe as a failure with *err, and may
 * point into notes until the next call. */
bool sk_notes_take(struct sk_notes *k, struct sk_engine *e, struct sk_event *ev,
                   struct sk_err *err);
void sk_notes_deinit(struct sk_notes *k);

/* inbox.c: how a run is entered; every access to it is between enter and leave */
struct sk_run_actor {
    sk_aid aid;
    sk_oid ready;
};
struct sk_inbox_run { /* each called between enter and leave */
    void (*take)(struct sk_exec *x, const struct sk_event *ev);
    void (*lost)(struct sk_exec *x);  /* an event is lost, because there was no memory to copy it */
    bool (*wakes)(struct sk_exec *x); /* is there something that its owner should wake up for? */
};
struct sk_inbox;
sk_rc sk_inbox_create(struct sk_engine *e, struct sk_exec *x, const struct sk_inbox_run *run,
                      struct sk_inbox **out, struct sk_err *err) SK_MUST_USE;
void sk_inbox_enter(struct sk_inbox *in);
void sk_inbox_leave(struct sk_inbox *in);
bool sk_inbox_wakes(void *inbox); /* for ops.drive */
/* Calls of sk_exec_call until now; one more was made; waits until there are more than `seen` (read
 * before the mutex was let go, or one could be missed): SK_ETIMEOUT. */
uint64_t sk_inbox_calls(struct sk_inbox *in);
void sk_inbox_called(struct sk_inbox *in);
sk_rc sk_inbox_await_call(struct sk_inbox *in, uint64_t seen, int64_t deadline_ns) SK_MUST_USE;
struct sk_sink *sk_inbox_sink(struct sk_inbox *in);
/* a task is submitted with its sink; its last event will come */
void sk_inbox_task(struct sk_inbox *in);
/* or will not: it was refused */
void sk_inbox_no_task(struct sk_inbox *in);
/* is ended, and its handles let go, after leave */
void sk_inbox_actor_gone(struct sk_inbox *in, struct sk_run_actor a);
/* from here on events only give back what they bring */
void sk_inbox_stop(struct sk_inbox *in);
/* not entered. It stays until its last task is over */
void sk_inbox_destroy(struct sk_inbox *in);

#endif

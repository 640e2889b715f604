/* policy.h - the interface of a scheduling policy: what it sees of a run, and what it answers. A
 * file of exec/by/ needs nothing else.
 *
 * launch.c makes the view, asks the policy, launches what it says, and asks again until it says
 * "nothing now". The policy alone decides what holds a task back, and what is launched although
 * memory is short. It may call the common guards (guards.h). Only launches that are impossible are
 * not its decision: sk_guard_can. */
#ifndef SK_EXEC_POLICY_H
#define SK_EXEC_POLICY_H

#include "base/base.h"

/* What holds an operator back now: one for each guard. */
enum sk_stop {
    SK_STOP_NONE,  /* nothing: it may be launched */
    SK_STOP_OVER,  /* it has started all it will ever have */
    SK_STOP_INPUT, /* there is nothing to work on */
    /* what takes its values awaits an answer from outside of the run */
    SK_STOP_ANSWER,
    SK_STOP_WINDOW, /* so many of its tasks have started that no place in the order is left */
    /* an earlier input of a union comes first, or it is ahead of what it is zipped with */
    SK_STOP_TURN,
    SK_STOP_RAMP,     /* a LIMIT downstream may never need it */
    SK_STOP_CAP,      /* the user's limit of running tasks is reached */
    SK_STOP_SLOT,     /* no slot is free, or no actor */
    SK_STOP_QUEUE,    /* it would only queue, and memory is too short for that */
    SK_STOP_CONSUMER, /* the consumer has enough blocks to take */
    SK_STOP_READER,   /* half of memory waits before the next operator, which is busy */
    SK_STOP_PROBE,    /* its first task has to show how much it yields */
    /* It would start ahead of the order, and there is no room to keep its output until its turn. */
    SK_STOP_EARLY,
    SK_STOP_ROOM, /* set if the policy gives no other reason: its output has no room */
    SK_STOP_N
};

/* The reasons in the few words of the statistics. */
enum sk_wait {
    SK_WAIT_NONE,
    SK_WAIT_INPUT,
    SK_WAIT_MEMORY,
    SK_WAIT_RESOURCE,
    SK_WAIT_CONSUMER,
    SK_WAIT_TURN,
    SK_WAIT_OVER,
    SK_WAIT_N
};
extern const enum sk_wait sk_wait_of[SK_STOP_N];

/* QUEUE: the task would wait in the engine behind running ones. */
enum sk_slot { SK_SLOT_NONE, SK_SLOT_FREE, SK_SLOT_QUEUE };

struct sk_op_view { /* one stage; stages are in topological order */
    /* ---- fixed */
    /* runs: the stage has tasks; source: it brings data in; feeder: no stage with tasks is between
     * it and the consumer. */
    bool runs, source, actors, feeder;
    uint32_t parent;        /* index of its consumer; SK_NO_STAGE: the consumer of the run */
    int64_t cpu_e4, gpu_e4; /* of a task, or of an actor */
    /* ---- whether it can be launched */
    /* in_turn: no earlier input of a union has tasks to start. */
    bool over, input, window_full, capped, in_turn;
    /* what takes its values awaits an answer from outside of the run (gather.h); `input` is false
     * then */
    bool awaited;
    /* the run's limit of CPUs leaves none for one more task of it */
    bool cpus_spent;
    /* its next task would start ahead of its turn */
    bool ahead;
    /* For one more task; only set if there is input. */
    enum sk_slot slot;
    enum sk_wait waited; /* what it waited for at the last look */
    /* Limit of tasks and blocks under way above a LIMIT; 0: none. */
    uint32_t ramp;
    /* Bytes by which it is ahead of the inputs that it is zipped with; 0: it is not ahead. */
    uint64_t lead_bytes;
    /* ---- what it has, in blocks and bytes */
    /* ready input; next_in_bytes: the part of it that the next launch takes */
    uint64_t in_blocks, in_bytes, next_in_bytes;
    uint64_t held_blocks, held_bytes; /* yielded blocks that wait for their turn */
    /* Yielded and not taken by a task: held blocks, and those that wait before the next stage or
     * the consumer. */
    uint64_t out_bytes;
    uint64_t block_bytes;         /* of a usual block; the target size until there is one */
    uint64_t taken_bytes;         /* input of its running tasks */
    uint64_t promised;            /* output of its running tasks that is not yielded yet */
    uint32_t running, units_left; /* units_left: tasks of a source that have not been launched */
    uint32_t unknown;             /* running tasks whose output is a guess */
    /* ---- learned */
    /* grows: a launch yields more than it takes, by more than a sixteenth. */
    bool est_known, grows;
    uint64_t est_out; /* bytes that the next launch is expected to yield */
    int64_t est_ns;   /* time of a task in ns; 0: unknown */
    /* Input bytes of a task, and output bytes for each input byte; 0: unknown (sources). */
    double in_per_task, out_per_in;
    /* ---- GPUs of a pool */
    /* Places that are taken; a dead actor keeps its place until its calls have ended. */
    uint32_t n_actors;
    int64_t idle_gpu_e4; /* GPUs that its idle actors keep */
};

struct sk_sched_view {
    uint32_t n;
    const struct sk_op_view *op;
    /* [n], written by the policy: what holds each stage back; NONE: it could be launched. */
    enum sk_stop *why;
    /* used: bytes in memory; taken: used and promised bytes; room: what is left. */
    uint64_t memory_limit, memory_used, memory_taken, memory_room;
    /* Bytes that were spilled and are still wanted. */
    uint64_t memory_disk;
    /* Input of running tasks, and promised bytes, which must be in memory; waiting blocks could be
     * spilled. */
    uint64_t memory_working;
    uint64_t unknown_bytes; /* most bytes that a task of unknown output is assumed to yield */
    int64_t now_ns, cpu_e4, gpu_e4; /* of the machine */
    int64_t gpu_left_e4;            /* GPUs that actors do not have */
    /* The user limits GPUs to less than the machine has: no task is queued for them. */
    bool gpu_limited;
    /* GPUs that tasks in flight need and that no actor may take: see sk_pools_task_gpu. */
    int64_t task_gpu_e4;
    uint32_t flying; /* tasks in the engine */
    bool awaits;     /* an operator is awaited: the run goes on without being forced to */
    uint64_t out_blocks, feed_blocks,
        /* out: the consumer can take; feed: and those that come to it with no task between,
         * promised ones too */
        feed_bytes;
    uint32_t consumer_blocks; /* that may wait for the consumer; 0: by memory */
};

struct sk_choice {
    int op;      /* launch one task of this stage; -1: nothing now */
    bool turn;   /* first give it the GPUs of idle actors, of the pools that sk_turn_gives names */
    bool forced; /* memory does not allow it, but nothing else would go on; counted */
};

/* A policy is the default where blocks that do not fit are spilled, or where they must stay in
 * memory. */
enum { SK_DEFAULT_SPILLS = 1, SK_DEFAULT_STAYS = 2 };

struct sk_policy {
    const char *name;
    /* Chooses the next launch. Pure. If nothing runs and the consumer has nothing to take, it must
     * choose an operator that can be launched, if there is one (sk_choose_forced), or the run has
     * stalled. */
    struct sk_choice (*choose)(const struct sk_sched_view *v, void *state);
    size_t state_bytes;     /* bytes of state for each run, zeroed at its start */
    unsigned default_where; /* SK_DEFAULT_* bits: used where the user names no policy */
};

const struct sk_policy *sk_policy_find(const char *name); /* NULL: there is none */
const struct sk_policy *sk_policy_default(bool spills);

#endif

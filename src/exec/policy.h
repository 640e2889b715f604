/* policy.h - what a scheduling policy sees of a run and what it answers: the whole interface of a
 * file of exec/by/.
 *
 * launch.c makes the view, asks the policy, does what it says, and asks again until it says
 * "nothing now". There is no second opinion: what holds a task back, and what is launched although
 * memory is short, is the policy's decision. A policy that wants the guards of others calls them
 * (guards.h). Only what cannot be done at all is no decision: sk_guard_can. */
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
    SK_STOP_RAMP,     /* a LIMIT below may never need it */
    SK_STOP_CAP,      /* as many tasks as the user lets run */
    SK_STOP_SLOT,     /* no slot, or no actor, is free */
    SK_STOP_QUEUE,    /* it would only queue, and memory is short for that */
    SK_STOP_CONSUMER, /* the consumer has enough to take */
    SK_STOP_READER,   /* half of memory waits before the next operator, which is busy */
    SK_STOP_PROBE,    /* its first task will say how much it yields */
    /* ahead of the order, and there is no room to keep what it makes until its turn */
    SK_STOP_EARLY,
    SK_STOP_ROOM, /* the policy: its output has no room */
    SK_STOP_N
};

/* The same in the few words of the statistics. */
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

/* QUEUE: it would wait in the engine behind running ones */
enum sk_slot { SK_SLOT_NONE, SK_SLOT_FREE, SK_SLOT_QUEUE };

struct sk_op_view { /* of one stage, in topological order */
    /* fixed */
    bool runs, source, actors,
        /* runs: it has tasks; source: it brings data in; feeder: its blocks reach the consumer with
         * no task between */
        feeder;
    uint32_t parent;        /* index of its consumer; SK_NO_STAGE: the run's */
    int64_t cpu_e4, gpu_e4; /* of a task or an actor */
    /* can it be launched */
    /* in_turn: no earlier input of a union has tasks to start */
    bool over, input, window_full, capped, in_turn;
    /* what takes its values awaits an answer from outside of the run (gather.h) */
    bool awaited;
    /* the run's limit of CPUs leaves none for one more task of it */
    bool cpus_spent;
    /* its next task would start ahead of its turn */
    bool ahead;
    /* for one more task; looked at where there is input */
    enum sk_slot slot;
    enum sk_wait waited; /* as it was said at the last look */
    /* tasks and blocks that may be under way above a LIMIT; 0: any number */
    uint32_t ramp;
    /* by which it is ahead of what it is zipped with; 0: others wait for it */
    uint64_t lead_bytes;
    /* what it has, in blocks and bytes */
    uint64_t in_blocks, in_bytes, next_in_bytes; /* ready input; of it, the next launch's */
    uint64_t held_blocks, held_bytes;            /* yielded, and waiting for their turn */
    /* yielded and not taken by a task: held ones, and those that the next one or the consumer
     * has */
    uint64_t out_bytes;
    uint64_t block_bytes;         /* of one of its blocks; the target size until there is one */
    uint64_t taken_bytes;         /* input of its running tasks */
    uint64_t promised;            /* of its running tasks, not yet yielded */
    uint32_t running, units_left; /* units_left: tasks of a source that have not been launched */
    uint32_t unknown;             /* running tasks whose output is a guess */
    /* learned */
    /* grows: a launch yields more than it takes, by more than a sixteenth */
    bool est_known, grows;
    uint64_t est_out; /* bytes that the next launch will yield */
    int64_t est_ns;   /* time of a task; 0: unknown */
    /* input bytes of a task, and bytes out by byte in; 0: unknown (sources) */
    double in_per_task, out_per_in;
    /* a pool's GPUs */
    /* places that are taken: also by one that is gone, until its calls have ended */
    uint32_t n_actors;
    int64_t idle_gpu_e4; /* that its idle actors keep */
};

struct sk_sched_view {
    uint32_t n;
    const struct sk_op_view *op;
    /* [n], the policy's to write: what holds each one back; NONE: it could be launched */
    enum sk_stop *why;
    /* used: bytes in memory; taken: and promised ones; room: what is left */
    uint64_t memory_limit, memory_used, memory_taken, memory_room;
    /* bytes that were spilled and are still wanted */
    uint64_t memory_disk;
    /* input of running tasks, and promised bytes: what must be in memory; blocks that wait could be
     * spilled */
    uint64_t memory_working;
    uint64_t unknown_bytes;         /* that a task of unknown output is taken to yield at most */
    int64_t now_ns, cpu_e4, gpu_e4; /* of the machine */
    int64_t gpu_left_e4;            /* of these, not with actors */
    /* by the user, below what the machine has: no task is queued for them */
    bool gpu_limited;
    /* what tasks in flight need and no actor may take: see sk_pools_task_gpu */
    int64_t task_gpu_e4;
    uint32_t flying; /* tasks in the engine */
    uint64_t out_blocks, feed_blocks,
        /* out: the consumer can take; feed: and those that come to it with no task between,
         * promised ones too */
        feed_bytes;
    uint32_t consumer_blocks; /* that may wait for the consumer; 0: by memory */
};

struct sk_choice {
    int op;      /* launch one task of it; -1: nothing now */
    bool turn;   /* first it gets the GPUs of idle actors, of those that sk_turn_gives names */
    bool forced; /* memory does not allow it, and nothing else would go on: counted */
};

/* where blocks that do not fit are spilled; where they must stay within memory */
enum { SK_DEFAULT_SPILLS = 1, SK_DEFAULT_STAYS = 2 };

struct sk_policy {
    const char *name;
    /* Pure. If nothing runs and the consumer has nothing to take, an operator that can be launched
     * must be (sk_choose_forced), or the run has stalled. */
    struct sk_choice (*choose)(const struct sk_sched_view *v, void *state);
    size_t state_bytes;     /* per run, zeroed */
    unsigned default_where; /* SK_DEFAULT_*: who names no policy gets it */
};

const struct sk_policy *sk_policy_find(const char *name); /* NULL: there is none */
const struct sk_policy *sk_policy_default(bool spills);

#endif

/* policy.h - the interface of a scheduling policy: the view of a run that the policy gets, and the
 * choice that it returns. A policy (a file in exec/by/) needs no other header.
 *
 * launch.c makes the view, asks the policy which stage to launch, launches a task of it, and asks
 * again until the policy answers "nothing now". The policy alone decides what holds a task back,
 * and what is launched although memory is short. It may call the common guards (guards.h). Only
 * launches that are impossible are not its decision: sk_guard_can. */
#ifndef SK_EXEC_POLICY_H
#define SK_EXEC_POLICY_H

#include "base/base.h"

/* The reasons that hold an operator back now, one for each guard. "its" below means the
 * operator's. */
enum sk_stop {
    SK_STOP_NONE,  /* nothing: it may be launched */
    SK_STOP_OVER,  /* all of its tasks have started */
    SK_STOP_INPUT, /* there is no input */
    /* the stage that takes its values waits for an answer from outside of the run */
    SK_STOP_ANSWER,
    /* its window is full: too many of its tasks have started and are not in order yet */
    SK_STOP_WINDOW,
    /* an earlier input of a union comes first, or the operator is ahead of the inputs it is zipped
     * with */
    SK_STOP_TURN,
    SK_STOP_RAMP,     /* a LIMIT downstream may never need its output */
    SK_STOP_CAP,      /* the user's limit of running tasks is reached */
    SK_STOP_SLOT,     /* no slot is free, or no actor */
    SK_STOP_QUEUE,    /* its task would only wait in a queue, and memory is too short for that */
    SK_STOP_CONSUMER, /* the consumer has enough blocks to take */
    /* half of memory is filled with blocks for the next operator, which is busy */
    SK_STOP_READER,
    SK_STOP_PROBE, /* its first task has to show the size of the output first */
    /* The task would start ahead of its turn, and memory has no room to keep the output until
     * then. */
    SK_STOP_EARLY,
    /* its output has no room in memory; the default if the policy gives no other reason */
    SK_STOP_ROOM,
    SK_STOP_N
};

/* The reasons as the statistics group them. */
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
    /* ---- fixed for the run ---- */
    /* runs: the stage has tasks; source: it reads data from outside; feeder: no stage with tasks is
     * between it and the consumer. */
    bool runs, source, actors, feeder;
    uint32_t parent;        /* index of its consumer; SK_NO_STAGE: the consumer of the run */
    int64_t cpu_e4, gpu_e4; /* needs of a task or an actor, in 1/10,000 */
    /* ---- whether it can be launched */
    /* in_turn: all tasks of the earlier inputs of a union have started. */
    bool over, input, window_full, capped, in_turn;
    /* The stage that takes its values waits for an answer from outside of the run (gather.h);
     * `input` is false then. */
    bool awaited;
    /* the run's limit of CPUs leaves none for one more task of the stage */
    bool cpus_spent;
    /* the next task would start ahead of its turn */
    bool ahead;
    /* The state of the slots for one more task; set only if there is input. */
    enum sk_slot slot;
    enum sk_wait waited; /* what the stage waited for when it was last checked */
    /* The most tasks and blocks under way above a LIMIT; 0: no limit. */
    uint32_t ramp;
    /* Bytes by which the stage is ahead of the inputs that it is zipped with; 0: it is not
     * ahead. */
    uint64_t lead_bytes;
    /* ---- the stage's input and output, in blocks and bytes ---- */
    /* ready_*: input that is ready; next_in_bytes: the part of it that the next launch takes. */
    uint64_t in_blocks, in_bytes, next_in_bytes;
    uint64_t held_blocks, held_bytes; /* yielded blocks that wait for their turn */
    /* Output that no task has taken: held blocks, and blocks that wait before the next stage or the
     * consumer. */
    uint64_t out_bytes;
    /* size of a usual output block; the target size until there is one */
    uint64_t block_bytes;
    uint64_t taken_bytes; /* bytes of input of the running tasks */
    uint64_t promised;    /* estimated output that the running tasks have not yielded yet */
    /* units_left: number of tasks of a source that have not been launched; UINT32_MAX: not known */
    uint32_t running, units_left;
    uint32_t unknown; /* number of running tasks whose output size is a guess */
    /* ---- estimates from the tasks so far ---- */
    /* grows: a task yields more than it takes, by more than a sixteenth. */
    bool est_known, grows;
    uint64_t est_out; /* bytes that the next launch is expected to yield */
    int64_t est_ns;   /* estimated time of a task in ns; 0: unknown */
    /* in_bytes: input of a task; ratio: output bytes for each input byte. 0: unknown (sources). */
    double in_per_task, out_per_in;
    /* ---- GPUs of a pool */
    /* Number of actors, including the places of dead actors whose calls have not ended yet. */
    uint32_t n_actors;
    int64_t idle_gpu_e4; /* GPUs that idle actors of the stage keep */
};

struct sk_sched_view {
    uint32_t n;
    const struct sk_op_view *op;
    /* [n], written by the policy: what holds each stage back; SK_STOP_NONE: the stage could be
     * launched. */
    enum sk_stop *why;
    /* used: bytes in memory; taken: used and promised bytes; room: what is left. */
    uint64_t memory_limit, memory_used, memory_taken, memory_room;
    /* Bytes of blocks on disk that are still needed. */
    uint64_t memory_disk;
    /* Bytes that must be in memory: input of running tasks, and promised output. Waiting blocks
     * could be spilled instead. */
    uint64_t memory_working;
    uint64_t unknown_bytes; /* most bytes that a task of unknown output is assumed to yield */
    int64_t now_ns, cpu_e4, gpu_e4; /* of the machine */
    int64_t gpu_left_e4;            /* GPUs that no actor has */
    /* The user limits GPUs to less than the machine has, so no task is queued for them. */
    bool gpu_limited;
    /* GPUs reserved for tasks in flight, which no actor may take (sk_pools_task_gpu). */
    int64_t task_gpu_e4;
    uint32_t flying; /* tasks in the engine */
    /* a gather waits for an answer from outside, so the run need not force a launch */
    bool awaits;
    /* out: blocks and bytes that the consumer can take; feed: these, and what is held or promised
     * by stages with no task between them and the consumer. */
    uint64_t out_blocks, feed_blocks, feed_bytes;
    /* the most blocks that may wait for the consumer; 0: limited by memory only */
    uint32_t consumer_blocks;
};

struct sk_choice {
    int op;    /* index of the stage of which one task is launched; -1: none now */
    bool turn; /* first free GPUs by ending idle actors of the pools that sk_turn_gives names */
    /* the launch exceeds the memory budget, but nothing else could go on; such launches are
     * counted */
    bool forced;
};

/* Bits: the policy is the default on engines that spill, or on engines that keep all blocks in
 * memory. */
enum { SK_DEFAULT_SPILLS = 1, SK_DEFAULT_STAYS = 2 };

struct sk_policy {
    const char *name;
    /* Chooses the next launch. Pure. If nothing runs and the consumer has nothing to take, it must
     * choose an operator that can be launched, if there is one (sk_choose_forced), or the run has
     * stalled. */
    struct sk_choice (*choose)(const struct sk_sched_view *v, void *state);
    size_t state_bytes;     /* bytes of state of the policy for each run, zeroed at its start */
    unsigned default_where; /* SK_DEFAULT_* bits: where the policy is used if the user names none */
};

const struct sk_policy *sk_policy_find(const char *name); /* NULL: there is none */
const struct sk_policy *sk_policy_default(bool spills);

#endif

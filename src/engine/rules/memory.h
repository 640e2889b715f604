/* memory.h - one budget for the object store and the heaps of the worker processes (pure: no clock,
 * no ipc, no allocation).
 *
 * The budget is the tightest of what the user allows and what the machine or the cgroup has; `used`
 * is all memory that counts against it, whichever process uses it. As what is left falls, this
 * happens, in this order:
 *
 *     left <  mark   nothing new is launched while a task runs; free pages of the store go back to
 *                    the system; the store may take only what is left above the mark, and below it
 *                    writes objects to disk; large idle workers end
 *     left <  0      the process that has outgrown its share the most is stopped; processes whose
 *                    task can be run again come first
 *
 * The mark is what one more task needs: the mean heap of those that run, within 1/64 and 1/8 of the
 * budget.
 *
 * Heaps grow between measurements, and until a process that was stopped is gone. The bytes that
 * they may grow by until then (as fast as since the last measurement, for as long as measurements
 * are late, plus SK_MEMORY_STOP_NS) count as used already. When less than that is left and a
 * process is being stopped, growing processes are paused until its memory is free, for
 * SK_MEMORY_PAUSE_NS at most. Otherwise the kernel might act first, and it kills any process.
 *
 * The *share* of a process: the memory that others hold (the store, the rest of the machine,
 * processes that use little) is taken off the budget, and the remainder is divided evenly among the
 * processes that want more. What a task asked for with memory= is its share, whatever others use.
 *
 * A stopped task is run again *alone*: when no other task runs, or only tasks that have not ended
 * for SK_MEMORY_DRAIN_NS. While it runs and waits for nothing, no other task begins, until it has
 * been calm for SK_MEMORY_CALM_NS. If it is stopped once more, it fails for good. Everything that
 * is held back goes on after some time, so that tasks that wait for others without saying so (by
 * polling) cannot hang. */
#ifndef SK_MEMORY_H
#define SK_MEMORY_H

#include "base/base.h"
#include "engine/place/place.h"

/* assumed time from the signal until the memory is back */
#define SK_MEMORY_STOP_NS INT64_C(10000000)
/* longest pause: a process that takes longer to end hangs in the kernel */
#define SK_MEMORY_PAUSE_NS INT64_C(500000000)
#define SK_MEMORY_DRAIN_NS INT64_C(10000000000)
#define SK_MEMORY_CALM_NS INT64_C(10000000000)
/* while memory is low, one more task begins when none has begun for this long */
#define SK_MEMORY_TRICKLE_NS INT64_C(1000000000)
/* how long the use may be above the limit, within half of the slack, while objects are being
 * written to disk */
#define SK_MEMORY_GRACE_NS INT64_C(500000000)

enum sk_memory_what {
    SK_MEMORY_IDLE,
    SK_MEMORY_BUSY, /* the worker runs a task */
    SK_MEMORY_ACTOR,
    SK_MEMORY_GOING /* the process was stopped or is leaving: its memory will be free soon */
};
struct sk_memory_proc { /* the present state of a worker */
    uint64_t heap_bytes;
    uint64_t grown_bytes; /* growth since the last measurement */
    uint64_t asked_bytes; /* memory= of its task or actor; 0: not set */
    int64_t since_ns;     /* when its task or actor began */
    enum sk_memory_what what;
    bool retriable; /* the task can run again, so that stopping the process costs only time */
    bool alone;     /* the task runs alone, and fails when the process is stopped */
};

struct sk_memory_view {
    int64_t now_ns;
    uint64_t limit_bytes, used_bytes; /* limit and use of the tightest budget */
    uint64_t slack_bytes;             /* memory that exists beyond the limit */
    /* store: bytes in use; warm: bytes that are free but present */
    uint64_t store_bytes, warm_bytes;
    bool spills; /* objects can be spilled */
    const struct sk_memory_proc *procs;
    uint32_t n_procs;
};

struct sk_memory { /* all zero: nothing known yet */
    bool low;
    uint64_t limit_bytes;
    int64_t left_bytes;     /* at the last measurement */
    int64_t over_since_ns;  /* time since when too much memory is used; 0: it is not */
    int64_t drain_since_ns; /* time since when a task that has to run alone waits; 0: none waits */
    int64_t began_ns;       /* when a task was launched last while memory was low */
    int64_t every_ns;       /* longest time between two measurements */
    /* time of the last measurement, and time when the next was due; 0: none yet */
    int64_t looked_ns, due_ns;
    uint64_t ahead_bytes; /* bytes by which heaps may still grow until a stop takes effect */
    int64_t paused_ns;    /* time since when growing processes are paused; 0: they are not paused */
};

struct sk_memory_plan {
    uint64_t store_max_bytes; /* most bytes that the store may take; UINT64_MAX: no limit */
    uint64_t punch_bytes;     /* free bytes of the store whose pages go back to the system now */
    /* index of the process to stop, and of the idle process to end; -1: none */
    int32_t stop, leave;
    uint64_t share_bytes; /* share of the process `stop` */
    bool pause;           /* growing processes are paused until the next measurement */
    int64_t next_ns;      /* time of the next measurement */
};
void sk_memory_decide(struct sk_memory *m, const struct sk_memory_view *v,
                      struct sk_memory_plan *out);

struct sk_memory_run { /* the tasks that run and wait for nothing; actors do not count */
    int64_t now_ns;
    uint32_t n_running;     /* number of running tasks without the task that runs alone */
    bool alone_waits;       /* a task that has to run alone could begin */
    bool alone_runs;        /* a task runs alone, and waits for nothing */
    int64_t alone_since_ns; /* when the task that runs alone began */
};
/* True: the decision is SK_LAUNCH_ALL, and sk_memory_launch need not be called. */
static inline bool sk_memory_free(const struct sk_memory *m, bool any_alone) {
    return !m->low && !any_alone;
}
enum sk_place_launch sk_memory_launch(struct sk_memory *m, const struct sk_memory_run *r);
void sk_memory_launched(struct sk_memory *m, int64_t now_ns); /* a task has begun */

/* Bytes of freed memory that each of n workers may keep for its next task instead of giving them
 * back: writes to kept pages run at 12 GB/s instead of 1.2. All workers together keep an eighth of
 * the budget, since kept memory counts as that of the next task; beyond 64 MiB also no more than
 * a quarter of the store, since little room for data means that the program should be small.
 * 1 to 512 MiB. */
uint64_t sk_memory_keep(uint64_t limit_bytes, uint64_t store_bytes, int64_t n_workers);

#endif

/* memory.h - one budget for the object store and the heaps of the worker processes (pure: no clock,
 * no ipc, no allocation).
 *
 * The budget is the tightest of what the user allows and what the machine or the cgroup has; `used`
 * is all that is under it, whoever uses it. With what is left falling, in this order:
 *
 *     left <  mark   nothing new is launched while a task runs; free pages of the store go back to
 *                    the system; the store may take only what is left above the mark, and below it
 *                    writes objects to disk; large idle workers end
 *     left <  0      the process that has outgrown its share the most is stopped, those first whose
 *             task can be run again
 *
 * The mark is what one more task needs: the mean heap of those that run, within 1/64 and 1/8 of the
 * budget.
 *
 * Heaps grow while the rules are asked, and until a process that was stopped is gone: what they may
 * grow until then (as fast as since the last look, for as long as looks come late, and
 * SK_MEMORY_STOP_NS) counts as used already. When what is left does not hold that much and a
 * process is going, those that grow hold still until its memory is back, SK_MEMORY_PAUSE_NS at
 * most. Else the kernel, which kills whom it likes, may be faster.
 *
 * The *share*: what the others hold (store, the rest of the machine, processes that use little) is
 * taken off the budget, and what remains is divided evenly among the processes that want more. What
 * a task asked for with memory= is its share, whatever the others use.
 *
 * A stopped task is run again *alone*: when no other task runs, or only such that have not ended
 * for SK_MEMORY_DRAIN_NS. While it runs and waits for nothing, no other begins, until it has been
 * calm for SK_MEMORY_CALM_NS. Stopped once more, it has failed for good. Everything that is held
 * back goes on after some time, so that tasks which wait for others without saying so (by polling)
 * cannot hang. */
#ifndef SK_MEMORY_H
#define SK_MEMORY_H

#include "base/base.h"
#include "engine/place/place.h"

#define SK_MEMORY_STOP_NS INT64_C(10000000) /* from the signal until the memory is back */
/* a process that takes longer to go hangs in the kernel */
#define SK_MEMORY_PAUSE_NS INT64_C(500000000)
#define SK_MEMORY_DRAIN_NS INT64_C(10000000000)
#define SK_MEMORY_CALM_NS INT64_C(10000000000)
/* while memory is low one task more begins after so long without any */
#define SK_MEMORY_TRICKLE_NS INT64_C(1000000000)
/* an excess may wait so long for objects that are being written, within half of the slack */
#define SK_MEMORY_GRACE_NS INT64_C(500000000)

enum sk_memory_what {
    SK_MEMORY_IDLE,
    SK_MEMORY_BUSY, /* runs a task */
    SK_MEMORY_ACTOR,
    SK_MEMORY_GOING /* was stopped or is leaving: its memory comes back soon */
};
struct sk_memory_proc { /* a worker, now */
    uint64_t heap_bytes;
    uint64_t grown_bytes; /* since the last look */
    uint64_t asked_bytes; /* memory= of what it runs, 0: nothing was said */
    int64_t since_ns;     /* when that began */
    enum sk_memory_what what;
    bool retriable; /* stopping it costs time only */
    bool alone;     /* its task runs alone: it fails when it is stopped */
};

struct sk_memory_view {
    int64_t now_ns;
    uint64_t limit_bytes, used_bytes; /* of the tightest budget */
    uint64_t slack_bytes;             /* there is so much more than the limit */
    uint64_t store_bytes, warm_bytes; /* of the store: in use, and free but present */
    bool spills;                      /* objects can go to disk */
    const struct sk_memory_proc *procs;
    uint32_t n_procs;
};

struct sk_memory { /* zero: nothing known yet */
    bool low;
    uint64_t limit_bytes;
    int64_t left_bytes;        /* at the last look */
    int64_t over_since_ns;     /* 0: not over */
    int64_t drain_since_ns;    /* 0: none that is to run alone waits */
    int64_t began_ns;          /* of the last launch while low */
    int64_t every_ns;          /* longest time between two looks */
    int64_t looked_ns, due_ns; /* the last look, and when the next one was to be; 0: none yet */
    uint64_t ahead_bytes;      /* what heaps may grow until a stop has had its effect */
    int64_t paused_ns;         /* since when those that grow hold still; 0: they do not */
};

struct sk_memory_plan {
    uint64_t store_max_bytes; /* the store may take so much, UINT64_MAX: any */
    uint64_t punch_bytes;     /* of its free pages go back now */
    int32_t stop, leave;      /* index of a process, -1: none */
    uint64_t share_bytes;     /* of `stop` */
    bool pause;               /* those that grow hold still until the next look */
    int64_t next_ns;          /* look again then */
};
void sk_memory_decide(struct sk_memory *m, const struct sk_memory_view *v,
                      struct sk_memory_plan *out);

struct sk_memory_run { /* what runs, of tasks that wait for nothing; actors do not count */
    int64_t now_ns;
    uint32_t n_running;     /* the alone one not among them */
    bool alone_waits;       /* one that is to run alone could begin */
    bool alone_runs;        /* and waits for nothing */
    int64_t alone_since_ns; /* when it began */
};
static inline bool sk_memory_free(const struct sk_memory *m, bool any_alone) {
    return !m->low && !any_alone;
} /* SK_LAUNCH_ALL without asking */
enum sk_place_launch sk_memory_launch(struct sk_memory *m, const struct sk_memory_run *r);
void sk_memory_launched(struct sk_memory *m, int64_t now_ns); /* a task began */

/* Of what its tasks have freed each of n workers may keep so much for the next one (its pages are
 * there: 12 GB/s, not 1.2): an eighth of the budget by all of them, since it counts as that next
 * one's; and, beyond 64 MiB, a quarter of the store, since who gives data little room wants the
 * program small. 1 to 512 MiB. */
uint64_t sk_memory_keep(uint64_t limit_bytes, uint64_t store_bytes, int64_t n_workers);

#endif

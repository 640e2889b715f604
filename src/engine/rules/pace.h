/* pace.h - decides how long the thread that drives the local engine spins and sleeps (pure: no
 * clock, no ipc).
 *
 * Workers leave out the wake-up call while the driver is awake or will check its rings by itself
 * soon, and only the driver checks again a ring that was full: so as long as a message may arrive,
 * a sleep has a limit. Two kinds of threads drive: a caller that waits (get, wait, an iterator),
 * and the loop thread when no caller does. */
#ifndef SK_PACE_H
#define SK_PACE_H

#include "base/base.h"

/* a caller's longest sleep while workers may hold back their wake-up calls */
#define SK_PACE_TICK_NS INT64_C(1000000)
/* the loop thread's sleep while many short tasks finish, so that not each needs a wake-up call */
#define SK_PACE_NAP_NS INT64_C(300000)
/* time between two checks of idle workers and unused memory */
#define SK_PACE_REAP_NS INT64_C(1000000000)

struct sk_pace_view { /* the present state of the engine */
    int64_t now_ns;
    uint32_t n_messages; /* number of messages handled in this turn */
    uint32_t n_live;     /* number of workers */
    uint32_t n_busy;     /* number of workers that are neither idle nor starting */
    /* A task is ready or an actor has no worker, and a read of a ring or a new worker may change
     * that; or a caller waits for room. */
    bool waiting;
    bool driven; /* for the loop thread: a caller drives at the moment */
    bool large;  /* the tables of the engine are large and may have to be shrunk */
};

struct sk_pace {     /* state of the loop thread */
    int64_t last_ns; /* when messages arrived last */
    int64_t last_reap_ns;
};

struct sk_pace_sleep {
    int64_t nap_ns;   /* not 0: sleep for this time, even if bells ring */
    int64_t spin_ns;  /* nap_ns 0: spin for this time, waiting for the bell, */
    int64_t until_ns; /* and then sleep on the bell until this time */
};

/* Decides the sleep of a caller that handled no message in this turn. n_cpu: CPUs for tasks;
 * spin_ns: how long the caller may spin when a core is free. */
struct sk_pace_sleep sk_pace_caller(const struct sk_pace_view *v, int64_t n_cpu, int64_t spin_ns,
                                    int64_t deadline_ns);
/* Decides the sleep of the loop thread after a turn. */
struct sk_pace_sleep sk_pace_thread(struct sk_pace *p, const struct sk_pace_view *v);
/* True if it is time to check idle workers and unused memory. */
bool sk_pace_reap(struct sk_pace *p, int64_t now_ns);

#endif

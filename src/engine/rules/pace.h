/* pace.h - how long who drives the local engine sleeps, and how (pure: no clock, no ipc).
 *
 * Workers leave out the wake-up call while the driver is awake or will look anyway, and a ring that
 * was full is looked at again by nobody but us: so a sleep has an end as long as anything may come.
 * Two drive: a caller that waits (get, wait, an iterator), and the loop thread when no caller
 * does. */
#ifndef SK_PACE_H
#define SK_PACE_H

#include "base/base.h"

/* a caller's longest sleep while workers may hold back their wake-up calls */
#define SK_PACE_TICK_NS INT64_C(1000000)
/* the loop thread's pace while many short tasks finish: no wake-up call for each */
#define SK_PACE_NAP_NS INT64_C(300000)
#define SK_PACE_REAP_NS INT64_C(1000000000) /* between two looks at what is idle */

struct sk_pace_view { /* of the engine, now */
    int64_t now_ns;
    uint32_t n_messages; /* handled in this turn */
    uint32_t n_live;     /* workers */
    uint32_t n_busy;     /* of them neither idle nor starting */
    /* a task is ready or an actor has no worker: sent when a ring is read or a worker comes; or
     * somebody waits for room */
    bool waiting;
    bool driven; /* loop thread: a caller drives */
    bool large;  /* its tables are: to be made small again when nobody needs them so */
};

struct sk_pace {     /* of the loop thread */
    int64_t last_ns; /* when messages came */
    int64_t last_reap_ns;
};

struct sk_pace_sleep {
    int64_t nap_ns;   /* not 0: sleep so long, whatever the bell says */
    int64_t spin_ns;  /* else spin so long for the bell */
    int64_t until_ns; /* and sleep for it until then */
};

/* A caller that handled nothing in this turn. n_cpu: for tasks; spin_ns: how long it may spin when
 * a core is free. */
struct sk_pace_sleep sk_pace_caller(const struct sk_pace_view *v, int64_t n_cpu, int64_t spin_ns,
                                    int64_t deadline_ns);
/* The loop thread, after every turn. */
struct sk_pace_sleep sk_pace_thread(struct sk_pace *p, const struct sk_pace_view *v);
bool sk_pace_reap(struct sk_pace *p, int64_t now_ns); /* it is time to look at what is idle */

#endif

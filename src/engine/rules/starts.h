/* starts.h - when the next fork server is started after one that ended before a worker was ready,
 * and when no more is (pure: no clock, no ipc).
 *
 * One that was killed may do well next time, so it is tried again, later each time, until
 * SK_STARTS_PATIENCE_NS are over. One that ends by itself has said on stderr what is wrong with it
 * (a module that it cannot import, no such program), and would say it again: SK_STARTS_OWN of them
 * are enough. */
#ifndef SK_STARTS_H
#define SK_STARTS_H

#include "base/base.h"

#define SK_STARTS_PATIENCE_NS INT64_C(30000000000)
/* the first wait; each is twice the one before, */
#define SK_STARTS_WAIT_NS INT64_C(5000000)
#define SK_STARTS_WAIT_MAX_NS INT64_C(1000000000) /* and this the longest */
#define SK_STARTS_OWN 8u

/* of servers in a row, none of which had a worker that was ready; all 0: the last one had */
struct sk_starts {
    uint32_t n;       /* they are so many, */
    uint32_t n_own;   /* and so many of them ended by themselves */
    int64_t since_ns; /* the first of them ended */
    int64_t again_ns; /* the next is started then */
};

/* One more has ended. False: no more is started for what waits now, which fails; what is asked for
 * later begins anew. */
bool sk_starts_ended(struct sk_starts *s, int64_t now_ns, bool by_itself);
static inline bool sk_starts_may(const struct sk_starts *s, int64_t now_ns) {
    return now_ns >= s->again_ns;
}
/* a worker is */
static inline void sk_starts_ready(struct sk_starts *s) { *s = (struct sk_starts){0}; }

#endif

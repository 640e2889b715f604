/* starts.h - decides when a new fork server is started after a server that ended before any worker
 * was ready, and when the engine gives up (pure: no clock, no ipc).
 *
 * A fork server that was killed may do well next time, so another is started, after a longer
 * wait each time, for SK_STARTS_PATIENCE_NS in all. A fork server that ends by itself has said
 * on stderr what is wrong with it (a module that it cannot import, no such program), and would
 * say it again: after SK_STARTS_OWN such ends the engine gives up. */
#ifndef SK_STARTS_H
#define SK_STARTS_H

#include "base/base.h"

#define SK_STARTS_PATIENCE_NS INT64_C(30000000000)
/* the first wait; each further wait is twice as long */
#define SK_STARTS_WAIT_NS INT64_C(5000000)
#define SK_STARTS_WAIT_MAX_NS INT64_C(1000000000) /* the longest wait between two starts */
#define SK_STARTS_OWN 8u

/* Fork servers in a row that ended before any worker was ready. All fields are 0 when the last
 * server had a ready worker. */
struct sk_starts {
    uint32_t n;       /* number of fork servers in a row that ended before any worker was ready */
    uint32_t n_own;   /* number of these servers that ended by themselves */
    int64_t since_ns; /* when the first of them ended */
    int64_t again_ns; /* when the next one is started */
};

/* Call when a fork server has ended before any worker was ready. False: the engine gives up, and
 * tasks and actors that wait for a worker now fail; a later request begins anew. */
bool sk_starts_ended(struct sk_starts *s, int64_t now_ns, bool by_itself);
static inline bool sk_starts_may(const struct sk_starts *s, int64_t now_ns) {
    return now_ns >= s->again_ns;
}
/* Call when a worker has become ready. */
static inline void sk_starts_ready(struct sk_starts *s) { *s = (struct sk_starts){0}; }

#endif

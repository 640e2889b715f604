/* pool.h - worker processes: which is made, which goes.
 *
 * Calls: peer, send, space. */
#ifndef SK_LOCAL_POOL_H
#define SK_LOCAL_POOL_H

#include "engine/local/peer.h"

struct sk_local;
struct sk_lworker;
struct sk_err;

/* So many processes can be had: max_workers or, for a second after the system refused one several times in a row, as many as there were. */
uint32_t sk_pool_limit(const struct sk_local *l);
/* Asked when no idle worker will do. NULL: refused, or at the limit; there an idle one is told to make room, and its death asks again. */
struct sk_lworker *sk_pool_spawn(struct sk_local *l);
void sk_pool_bad_start(struct sk_local *l, const char *why); /* after several in a row what waits for workers fails, by the loop */
static inline uint32_t sk_pool_worker_state(const struct sk_lworker *w) { /* of sk_worker_info */
    return w->killed ? 3 : w->place.state == SK_W_STARTING ? 0 : w->place.state == SK_W_IDLE ? 1 : 2;
}
/* From time to time: what lies, not begun, on a worker whose process is stopped (SIGSTOP, a debugger) goes elsewhere. */
void sk_pool_look(struct sk_local *l, int64_t now_ns);
void sk_pool_reap(struct sk_local *l, int64_t now_ns);                    /* idle workers, leases, punching */
sk_rc sk_pool_server(struct sk_local *l, struct sk_err *err) SK_MUST_USE; /* a fork server */
bool sk_pool_any_up(const struct sk_local *l);
#define SK_BAD_STARTS 8 /* so many processes in a row that end before they are ready: it is no accident */

#endif

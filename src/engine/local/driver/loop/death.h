/* death.h - the end of a worker: takes back what it had, and decides about its tasks.
 *
 * Calls: actor, extent, functions, memory, messages, object, link, pool, promise, request, send,
 * space, state, task, yield. The code of this part may call these parts of the driver and no
 * others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_DEATH_H
#define SK_LOCAL_DEATH_H

#include "base/base.h"

struct sk_local;
struct sk_lworker;

void sk_loop_worker_died(struct sk_local *l, struct sk_lworker *w, int status, uint64_t maxrss);

#endif

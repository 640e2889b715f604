/* messages.h - the way in: what workers say.
 *
 * Calls: actor, extent, functions, group, object, link, pool, promise, recover, request, send,
 * space, spec, state, stream, submit, task, yield. */
#ifndef SK_LOCAL_MESSAGES_H
#define SK_LOCAL_MESSAGES_H

#include "base/base.h"

struct sk_local;
struct sk_lworker;

/* handle what is in the rings; returns messages handled */
uint32_t sk_loop_pump(struct sk_local *l);
uint32_t sk_loop_pump_worker(struct sk_local *l, struct sk_lworker *w);

#endif

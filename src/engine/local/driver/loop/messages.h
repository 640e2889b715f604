/* messages.h - reads and handles the messages that workers send.
 *
 * Calls: abroad, actor, extent, functions, group, link, named, object, pool, promise, recover,
 * request, send, space, spec, state, stream, submit, task, yield. The code of this part may call
 * these parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_MESSAGES_H
#define SK_LOCAL_MESSAGES_H

#include "base/base.h"

struct sk_local;
struct sk_lworker;

/* Handle the messages in the rings of all workers, or of one. Return the number of messages
 * handled. */
uint32_t sk_loop_pump(struct sk_local *l);
uint32_t sk_loop_pump_worker(struct sk_local *l, struct sk_lworker *w);

#endif

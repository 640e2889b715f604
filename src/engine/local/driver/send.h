/* send.h - a task onto a worker and off it again.
 *
 * Calls: part, link, stored. */
#ifndef SK_LOCAL_SEND_H
#define SK_LOCAL_SEND_H

#include "base/base.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;

/* Sends a task whose arguments exist: it is in w->sent. SK_EAGAIN: no room now. Else it can never be sent as things are; nothing was changed. */
sk_rc sk_ltask_send(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;
void sk_ltask_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, int64_t ran_ns); /* ran_ns < 0: it did not run */
/* Takes a not started task off w: READY, but in no queue. False: it has started. */
bool sk_ltask_unsend(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
void sk_ltask_old_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w); /* w reads its arguments no more; NULL: w is dead */
void sk_worker_waits(struct sk_local *l, struct sk_lworker *w);                       /* it waits: what is queued behind goes elsewhere */
void sk_worker_goes_on(struct sk_local *l,
                       struct sk_lworker *w); /* it waits no more: it has its CPU again, unless it awaits something else */
bool sk_ltask_take_back(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t); /* the same, and to be placed again */
void sk_ltask_take_back_all(struct sk_local *l, struct sk_lworker *w); /* what has not started on a worker without an actor */

#endif

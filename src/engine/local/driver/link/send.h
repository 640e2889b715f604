/* send.h - a task onto a worker and off it again.
 *
 * Calls: part, link, stored. */
#ifndef SK_LOCAL_SEND_H
#define SK_LOCAL_SEND_H

#include "base/base.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;

/* Sends a task whose arguments exist: it is in w->sent. SK_EAGAIN: no room now. Else it can never
 * be sent as things are; nothing was changed. */
sk_rc sk_ltask_send(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;
/* The task is off its worker. ran_ns < 0: it did not run. */
void sk_ltask_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, int64_t ran_ns);
/* Takes a task that has not started off w: it is READY, but in no queue. False: it has started. */
bool sk_ltask_unsend(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
/* The worker does not read lost arguments of t any more; w NULL: it is dead. */
void sk_ltask_old_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w);
/* The task on w waits for something: its CPU is given to others, and what is queued behind it goes
 * elsewhere. */
void sk_worker_waits(struct sk_local *l, struct sk_lworker *w);
/* The wait of a request is over: w has its CPU again, unless it awaits something else. */
void sk_worker_goes_on(struct sk_local *l, struct sk_lworker *w);
/* As sk_ltask_unsend, for a task of no actor, which is in line for a worker again. */
bool sk_ltask_take_back(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
/* The same for all tasks on w that have not started. w has no actor. */
void sk_ltask_take_back_all(struct sk_local *l, struct sk_lworker *w);

#endif

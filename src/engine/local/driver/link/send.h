/* send.h - sends a task to a worker, and takes it off again.
 *
 * Calls: part, link, stored. The code of this part may call these parts of the driver and no
 * others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_SEND_H
#define SK_LOCAL_SEND_H

#include "base/base.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;

/* Sends a task whose arguments exist, and links it in w->sent. SK_EAGAIN: there is no room now.
 * Any other error: the task cannot be sent now. Nothing changes on failure. */
sk_rc sk_ltask_send(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;
/* Removes a task from its worker's list and counts. ran_ns: the time that it ran; < 0: it did not
 * run. */
void sk_ltask_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, int64_t ran_ns);
/* Takes a task that has not started off w: the task is then READY, and in no queue. False: the task
 * has started. */
bool sk_ltask_unsend(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
/* Call when worker w no longer reads the lost arguments of t, or (w NULL) is dead. */
void sk_ltask_old_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w);
/* Call when the task on w begins to wait: its CPU is lent to others, and the tasks queued behind it
 * go elsewhere. */
void sk_worker_waits(struct sk_local *l, struct sk_lworker *w);
/* Call when a wait is over: w has its CPU again, unless it waits for something else. */
void sk_worker_goes_on(struct sk_local *l, struct sk_lworker *w);
/* Takes a task of no actor that has not started off w, and puts it in line for a worker again. */
bool sk_ltask_take_back(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
/* Takes all tasks that have not started off w, and puts them in line again. w has no actor. */
void sk_ltask_take_back_all(struct sk_local *l, struct sk_lworker *w);

#endif

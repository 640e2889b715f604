/* launch.h - checks a READY task for the last time, and sends it to its worker.
 *
 * Calls: recover, send, space, task. The code of this part may call these parts of the driver and
 * no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_LAUNCH_H
#define SK_LOCAL_LAUNCH_H

#include "base/base.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;

/* Checks the task and sends it, with the results of sk_ltask_send. SK_EAGAIN and a task that is not
 * READY any more: an argument is lost or on disk, and the task now waits for that argument. */
sk_rc sk_launch(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;

#endif

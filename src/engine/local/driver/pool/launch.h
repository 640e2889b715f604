/* launch.h - the last check of a READY task, and its send.
 *
 * Calls: recover, send, space, task. The code of this part may call these parts of the driver and
 * no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_LAUNCH_H
#define SK_LOCAL_LAUNCH_H

#include "base/base.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;

/* As sk_ltask_send. SK_EAGAIN with a task that is not READY: an argument is lost or on disk, and
 * the task now waits for it. */
sk_rc sk_launch(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;

#endif

/* launch.h - the last look at a READY task, then it is sent.
 *
 * Calls: recover, send, space, task. */
#ifndef SK_LOCAL_LAUNCH_H
#define SK_LOCAL_LAUNCH_H

#include "base/base.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;

/* As sk_ltask_send. SK_EAGAIN with a task that is not READY: an argument is lost or on disk, and it
 * waits for that. */
sk_rc sk_launch(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;

#endif

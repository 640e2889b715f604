/* moves.h - side contract: events when a value that a task yielded has been spilled to disk and
 * when it has been restored. An engine that never spills, or does not know it, has no such table.
 * Sinks that do not ask for these events cost nothing. */
#ifndef SK_MOVES_H
#define SK_MOVES_H

#include "engine/engine.h"

struct sk_moves_ops {
    /* From now on the sink gets SK_EV_SPILLED and SK_EV_RESTORED for values that its tasks
     * yield, alternately and in batches, as long as the value lives, even if only others hold it.
     * SK_ENOMEM; SK_ECLOSED. */
    sk_rc (*follow)(struct sk_engine *e, struct sk_sink *s, struct sk_err *err);
    /* Stops these events. After the return none is being delivered, and none will be. */
    void (*unfollow)(struct sk_engine *e, struct sk_sink *s);
};

#endif

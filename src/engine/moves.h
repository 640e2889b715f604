/* moves.h - side contract: to hear when a value that a task yielded has left memory for the disk,
 * and when it is back. An engine that never spills, or cannot tell, has none; nobody pays for it
 * who does not ask. */
#ifndef SK_MOVES_H
#define SK_MOVES_H

#include "engine/engine.h"

struct sk_moves_ops {
    /* Of what tasks with this sink yield from now on, the sink hears SK_EV_SPILLED and
     * SK_EV_RESTORED, in turns and in batches, as long as the value lives and whoever has it by
     * then. SK_ENOMEM; SK_ECLOSED. */
    sk_rc (*follow)(struct sk_engine *e, struct sk_sink *s, struct sk_err *err);
    /* when it returns no such event is under way, and none will come */
    void (*unfollow)(struct sk_engine *e, struct sk_sink *s);
};

#endif

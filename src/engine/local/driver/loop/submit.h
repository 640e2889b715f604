/* submit.h - accepts a task or a call, or ends it with the reason why not.
 *
 * Calls: abroad, actor, object, task. The code of this part may call these parts of the driver and
 * no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_SUBMIT_H
#define SK_LOCAL_SUBMIT_H

#include "engine/engine.h"

struct sk_local;
struct sk_sink;
struct sk_err;

/* Accepts a task or a call of process `proc`. level: depth of nesting, see place.h. */
sk_rc sk_ltask_submit(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base_id,
                      const uint8_t *spec, size_t len, struct sk_sink *sink, struct sk_err *err);

#endif

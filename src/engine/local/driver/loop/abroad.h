/* abroad.h - calls of actors that belong to other engines, and tasks that only another engine can
 * run (engine/foreign.h).
 *
 * Calls: group, object, recover, spec, stream, task, yield. The code of this part may call these
 * parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_ABROAD_H
#define SK_LOCAL_ABROAD_H

#include "engine/engine_int.h"
#include "engine/foreign.h"

struct sk_local;

/* As sk_need_shape, for a process of this engine: if there is a server, what this engine can never
 * run is no error, but a shape of which sk_place_fits_ever says so. */
sk_rc sk_abroad_shape(struct sk_local *l, const struct sk_need *n, sk_shape *out,
                      struct sk_err *err) SK_MUST_USE;
/* Hands a call of process `proc` to the server of foreign objects, if its actor is foreign, or a
 * task, if this engine can never run it. SK_EAGAIN: neither is so, or it takes parts of values,
 * which is an error. */
sk_rc sk_abroad_call(struct sk_local *l, uint32_t proc, uint64_t base, struct sk_bytes spec,
                     struct sk_err *err) SK_MUST_USE;
/* True if a task or an actor with this spec is one that this engine can never run, and the server
 * takes it. */
bool sk_abroad_for_others(const struct sk_local *l, struct sk_bytes spec);
/* Has an actor of which that is true made; the server answers `ask` (named.h). */
sk_rc sk_abroad_make(struct sk_local *l, uint32_t proc, uint64_t ask, struct sk_bytes spec,
                     const struct sk_aspec *as, struct sk_err *err) SK_MUST_USE;
/* Checks whether process `proc` may make a call of a foreign actor. SK_EPENDING: `max` of its calls
 * have not ended. */
sk_rc sk_abroad_may_call(const struct sk_local *l, uint64_t actor, uint32_t proc, uint32_t max,
                         struct sk_err *err) SK_MUST_USE;
/* Tasks wait for a worker: tells the server, unless it knows. */
void sk_abroad_queued(struct sk_local *l);
/* Does the work of hand_over of foreign.h. */
uint32_t sk_abroad_hand_over(struct sk_local *l, int64_t cpu, int64_t now, bool *waits);
/* A stream of such a call has yielded an object, or a call is over. */
void sk_abroad_yielded(struct sk_local *l, uint64_t first, uint64_t oid);
void sk_abroad_ended(struct sk_local *l, uint64_t first);
void sk_abroad_init(struct sk_local *l);
void sk_abroad_free(struct sk_local *l);

#endif

/* tell.h - the agent's part that answers ASK: what the engine of the node tells of itself (state.h,
 * usage.h), with the driver's numbers of what the driver has made here. Numbers of tasks that have
 * ended are known as long as the engine's history is. Thread-safety: as agent.h. */
#ifndef SK_CLUSTER_TELL_H
#define SK_CLUSTER_TELL_H

#include "base/containers/vec.h"
#include "engine/guest.h"
#include "engine/state.h"

struct sk_atell;
/* id_base: of the engine's ids (conf.h) */
sk_rc sk_atell_create(struct sk_atell **out, struct sk_engine *e, uint64_t id_base,
                      struct sk_err *err) SK_MUST_USE;
void sk_atell_free(struct sk_atell *t); /* NULL is fine */

/* The engine's task or actor `here` is the driver's `host`; attempt: the driver's number of the
 * engine's attempt 0. Cost: 50 ns. */
void sk_atell_known(struct sk_atell *t, uint64_t here, uint64_t host, uint32_t attempt);
/* Until the next answer: the engine's object `here` is what `of` and `as` say. */
void sk_atell_object(struct sk_atell *t, uint64_t here, enum sk_object_of of, uint64_t as);

/* The bytes of the answer, which live until the next call; what: enum sk_ask. What the engine
 * cannot tell is empty. */
struct sk_bytes sk_atell_answer(struct sk_atell *t, uint32_t what);

#endif

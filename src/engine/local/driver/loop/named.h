/* named.h - names of actors in an engine that is served (engine/foreign.h): the server knows them,
 * so a worker that looks for a name, or gives one, waits for its answer. It does, too, when it
 * makes an actor that another engine has to hold.
 *
 * Calls: abroad, actor, link, object, spec. The code of this part may call these parts of the
 * driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_NAMED_H
#define SK_LOCAL_NAMED_H

#include "engine/engine_int.h"
#include "engine/foreign.h"

struct sk_local;
struct sk_lworker;

void sk_named_init(struct sk_local *l);
void sk_named_free(struct sk_local *l);
/* Answer FIND and NAMES of a worker, now or later. */
void sk_named_find(struct sk_local *l, struct sk_lworker *w, uint64_t req, struct sk_bytes space,
                   struct sk_bytes name);
void sk_named_list(struct sk_local *l, struct sk_lworker *w, uint64_t req);
/* Asks for the name of an actor that worker w makes, which is made when the answer comes. how: its
 * options and its spec, as in the message. False: it has no name, or the engine has no
 * server. */
bool sk_named_claim(struct sk_local *l, struct sk_lworker *w, uint64_t base, uint64_t req,
                    const struct sk_aspec *as, struct sk_bytes how) SK_MUST_USE;
/* Has an actor made elsewhere that this engine can never hold. False: it can, or the engine has
 * no server. */
bool sk_named_make(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                   const struct sk_aspec *as, struct sk_bytes spec) SK_MUST_USE;
/* The answer of the server, see `answer` in foreign.h. */
void sk_named_answer(struct sk_local *l, uint64_t ask, sk_rc rc, sk_aid a, struct sk_bytes bytes);

#endif

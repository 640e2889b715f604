/* actors.h - side contract: actors by name. An engine without it has no names, no detached
 * actors, no concurrency groups and no event loops. */
#ifndef SK_ACTORS_H
#define SK_ACTORS_H

#include "engine/engine.h"

struct sk_actors_ops {
    /* Finds the living actor with a name. *out and *ready come with a reference each; the
     * caller frees meta->p (sk_free). SK_ENOENT: no living actor has the name. */
    sk_rc (*find)(struct sk_engine *e, const char *space, const char *name, sk_aid *out,
                  sk_oid *ready, struct sk_bytes *meta, struct sk_err *err);
    /* Writes namespace NUL name NUL for each living actor that has a name. Returns the length
     * needed. */
    size_t (*names)(struct sk_engine *e, char *buf, size_t cap);
    /* Called in the process of an actor, during a call or between calls: the actor ends in order
     * and does not restart. SK_EINVAL: this process runs no actor. */
    sk_rc (*leave)(struct sk_engine *e, struct sk_err *err);
};

#endif

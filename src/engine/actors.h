/* actors.h - side contract: actors by name. (What an engine without it lacks: names, detached
 * actors, concurrency groups, event loops.) */
#ifndef SK_ACTORS_H
#define SK_ACTORS_H

#include "engine/engine.h"

struct sk_actors_ops {
    /* The living actor of that name: *out and *ready come with a reference, meta->p is the caller's
     * (sk_free). SK_ENOENT. */
    sk_rc (*find)(struct sk_engine *e, const char *space, const char *name, sk_aid *out,
                  sk_oid *ready, struct sk_bytes *meta, struct sk_err *err);
    /* Of all living actors that have one: space NUL name NUL, ... Returns the length needed. */
    size_t (*names)(struct sk_engine *e, char *buf, size_t cap);
    /* In the process of an actor, outside of its calls too: it ends in order, without a restart.
     * SK_EINVAL: this process runs no actor. */
    sk_rc (*leave)(struct sk_engine *e, struct sk_err *err);
};

#endif

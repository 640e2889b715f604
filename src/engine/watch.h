/* watch.h - side contract: a callback when an object comes to exist. An engine that runs tasks
 * in its caller's thread has none: there the caller has to wait. */
#ifndef SK_WATCH_H
#define SK_WATCH_H

#include "engine/engine.h"

struct sk_watch {
    /* Called by any thread, with locks held: it must neither block nor call the engine. */
    void (*fn)(struct sk_watch *w);
    uint64_t id; /* private to the engine */
};

struct sk_watch_ops {
    /* Watches object o or, if o is 0, a stream. w->fn is called once: when the object exists (of a
     * stream: when streams.wait would return at once; of an actor, whose id is `o`: when it is dead
     * and will not start again), or when the engine closes. SK_EDONE: that is so already, and w->fn
     * will not be called. The watch of an actor does not keep it. w belongs to the engine until
     * the call, or until remove. A worker that watches counts as waiting: its CPU is lent to others
     * meanwhile. */
    sk_rc (*add)(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w,
                 struct sk_err *err);
    bool (*remove)(struct sk_engine *e, struct sk_watch *w); /* false: w->fn was called already */
};

#endif

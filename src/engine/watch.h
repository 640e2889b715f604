/* watch.h - side contract: to be called when an object exists. An engine that runs tasks in the
 * caller has none: its caller has to wait. */
#ifndef SK_WATCH_H
#define SK_WATCH_H

#include "engine/engine.h"

struct sk_watch {
    /* By any thread, with locks held: must neither block nor call the engine. */
    void (*fn)(struct sk_watch *w);
    uint64_t id; /* the engine's */
};

struct sk_watch_ops {
    /* Has w->fn called once, when the object exists (or when streams.wait would not wait, of the
     * stream, o being 0), or the engine closes. SK_EDONE: it is so already, nothing will be called.
     * w is the engine's until then, or until remove. A worker that watches is one that waits: its
     * CPU is lent to others meanwhile. */
    sk_rc (*add)(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w,
                 struct sk_err *err);
    bool (*remove)(struct sk_engine *e, struct sk_watch *w); /* false: fn was called */
};

#endif

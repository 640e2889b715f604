/* streams.h - side contract: the yields of a streaming task that was submitted without a sink,
 * taken one after the other by whoever has its task id. */
#ifndef SK_STREAMS_H
#define SK_STREAMS_H

#include "engine/engine.h"

struct sk_streams_ops {
    /* Next yield: SK_OK (*out holds a reference), SK_EDONE, SK_ETIMEOUT, or the task's failure
     * (*out = error object). */
    sk_rc (*next)(struct sk_engine *e, sk_tid t, int64_t deadline_ns, sk_oid *out,
                  struct sk_err *err);
    /* Until next would not wait: SK_OK, an item (or the failure) is there, and is not taken;
     * SK_EDONE, the end is; SK_ETIMEOUT. */
    sk_rc (*wait)(struct sk_engine *e, sk_tid t, int64_t deadline_ns, struct sk_err *err);
    /* An object (with a reference) that exists when the task has ended: empty, of this kind, or its
     * failure. Once a stream, before drop. */
    sk_rc (*end)(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out, struct sk_err *err);
    /* nobody will read the rest: it is released as it comes */
    void (*drop)(struct sk_engine *e, sk_tid t);
};

#endif

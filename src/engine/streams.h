/* streams.h - side contract: the yields of a streaming task that was submitted without a sink.
 * Any code that knows the task's id may take them, one after the other. */
#ifndef SK_STREAMS_H
#define SK_STREAMS_H

#include "engine/engine.h"

struct sk_streams_ops {
    /* Takes the next yield: SK_OK (*out holds a reference), SK_EDONE (the stream is over),
     * SK_ETIMEOUT, or the task's failure (*out is the error object). */
    sk_rc (*next)(struct sk_engine *e, sk_tid t, int64_t deadline_ns, sk_oid *out,
                  struct sk_err *err);
    /* Waits until a call of next() would return at once, and takes nothing. SK_OK: a yield or the
     * failure exists. SK_EDONE: the stream is over. SK_ETIMEOUT. */
    sk_rc (*wait)(struct sk_engine *e, sk_tid t, int64_t deadline_ns, struct sk_err *err);
    /* Gives an object (with a reference) that exists when the task has ended: an empty value of
     * this kind, or the task's failure. Call it once a stream, before drop. */
    sk_rc (*end)(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out, struct sk_err *err);
    /* Says that the rest of the stream will not be read: later yields are released when they
     * arrive. */
    void (*drop)(struct sk_engine *e, sk_tid t);
    /* Says that n more yields of a stream that was submitted with a sink and a window were taken.
     * Streams without a sink count what next() takes. NULL: such a stream has no window here. */
    void (*taken)(struct sk_engine *e, sk_tid t, uint32_t n);
};

#endif

/* stream.h - the reader's side of a stream of yields: taking, waiting, credit, the end.
 *
 * Calls: object, link, send. The code of this part may call these parts of the driver and no
 * others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_STREAM_H
#define SK_LOCAL_STREAM_H

#include "base/err.h"

struct sk_local;
struct sk_ltask;
struct sk_inl;
struct sk_err;

/* Takes the next yield of t for process proc: SK_OK (*oid), SK_EDONE, SK_EAGAIN, SK_ETASK (*oid
 * is the error). proc gets the reference. */
sk_rc sk_stream_take(struct sk_local *l, struct sk_ltask *t, uint32_t proc, uint64_t *oid);
/* Gives this error to all yields of t that do not exist yet. */
void sk_stream_fail_rest(struct sk_local *l, struct sk_ltask *t, uint32_t kind,
                         struct sk_inl *value);
/* Notes that the reader has used n yields: the task may make n more. */
void sk_stream_release(struct sk_local *l, struct sk_ltask *t, uint32_t n);
/* Tells all waits for the next yield of t that it exists. */
void sk_stream_wake(struct sk_local *l, struct sk_ltask *t);
/* True if asking for the next yield would not wait. t NULL: the stream is over. */
bool sk_stream_stirs(const struct sk_ltask *t);
/* Tells the reader that the stream has no more yields. */
void sk_stream_over(struct sk_local *l, struct sk_ltask *t);
/* For a stream for which sk_stream_stirs is true. True: the stream has no more yields, and has not
 * failed. */
bool sk_stream_at_end(const struct sk_ltask *t);
/* Does the work of sk_streams_ops.end (streams.h); the object gets the id `oid`. SK_ENOENT: there
 * is no such stream. */
sk_rc sk_stream_end(struct sk_local *l, uint64_t tid, uint64_t oid, uint32_t proc, uint32_t kind,
                    struct sk_err *err) SK_MUST_USE;
/* Ends the stream: with success (why NULL) or with this failure. */
void sk_stream_ended(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind,
                     struct sk_inl *why);
/* A stream of another engine (SK_TASK_ABROAD) has yielded an object, whose reference it takes; 0:
 * one for which there was no memory. */
void sk_stream_came(struct sk_local *l, struct sk_ltask *t, uint64_t oid);
/* It is over; failed: with this failure. */
void sk_stream_closed(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind,
                      struct sk_inl *why);
/* Asks a task that has started to stop, at its next yield. */
void sk_stream_ask_to_stop(struct sk_local *l, struct sk_ltask *t);

#endif

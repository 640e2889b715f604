/* stream.h - a stream of yields as its reader sees it.
 *
 * Calls: object, link, send. */
#ifndef SK_LOCAL_STREAM_H
#define SK_LOCAL_STREAM_H

#include "base/err.h"

struct sk_local;
struct sk_ltask;
struct sk_inl;
struct sk_err;

/* Next yield of t for process proc: SK_OK (*oid), SK_EDONE, SK_EAGAIN, SK_ETASK (*oid = error). The reference goes to proc. */
sk_rc sk_stream_take(struct sk_local *l, struct sk_ltask *t, uint32_t proc, uint64_t *oid);
void sk_stream_fail_rest(struct sk_local *l, struct sk_ltask *t, uint32_t kind, struct sk_inl *value); /* the others get this value */
void sk_stream_release(struct sk_local *l, struct sk_ltask *t, uint32_t n);
void sk_stream_wake(struct sk_local *l, struct sk_ltask *t); /* its readers */
bool sk_stream_stirs(const struct sk_ltask *t);              /* next would not wait; NULL: it is over */
void sk_stream_over(struct sk_local *l, struct sk_ltask *t); /* nothing more comes: its reader is told */
bool sk_stream_at_end(const struct sk_ltask *t);             /* of one that stirs: it has nothing more to give, nor a failure */
/* See engine.h; the object gets this id. SK_ENOENT: no such stream. */
sk_rc sk_stream_end(struct sk_local *l, uint64_t tid, uint64_t oid, uint32_t proc, uint32_t kind, struct sk_err *err) SK_MUST_USE;
/* It is over: well (why NULL), or with this failure. */
void sk_stream_ended(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind, struct sk_inl *why);
void sk_stream_ask_to_stop(struct sk_local *l, struct sk_ltask *t); /* any task that has started, at its next yield */

#endif

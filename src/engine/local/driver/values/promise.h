/* promise.h - objects whose value a process gives later: results of compiled graphs that were
 * passed on before they were there.
 *
 * Calls: object. */
#ifndef SK_LOCAL_PROMISE_H
#define SK_LOCAL_PROMISE_H

#include "base/err.h"
#include "base/containers/list.h"

struct sk_local;
struct sk_ids;
struct sk_val;

sk_rc sk_promise_new(struct sk_local *l, uint32_t proc, uint64_t id,
                     struct sk_err *err) SK_MUST_USE; /* of proc, which has a reference to it */
/* Its value, once; as sk_obj_set. One that nobody wants any more is thrown away. False: proc
 * promised no such object. */
bool sk_promise_keep(struct sk_local *l, uint32_t proc, uint64_t id, const struct sk_val *v,
                     const void *bytes, struct sk_ids in);
/* those that it has not kept are errors that say so */
void sk_promises_proc_dead(struct sk_local *l, uint32_t proc, const char *how);
void sk_promises_init(struct sk_local *l);
void sk_promises_free(struct sk_local *l);
bool sk_promised(const struct sk_local *l, uint64_t id); /* it is to be kept still; for check.c */

#endif

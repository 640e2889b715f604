/* promise.h - promised objects, whose value a process gives later: results of compiled graphs that
 * were passed on before they existed.
 *
 * Calls: object. The code of this part may call these parts of the driver and no others;
 * tests/shape.py reads this line. */
#ifndef SK_LOCAL_PROMISE_H
#define SK_LOCAL_PROMISE_H

#include "base/err.h"
#include "base/containers/list.h"

struct sk_local;
struct sk_ids;
struct sk_val;

/* Makes an object that proc promises, with a reference of proc. */
sk_rc sk_promise_new(struct sk_local *l, uint32_t proc, uint64_t id,
                     struct sk_err *err) SK_MUST_USE;
/* Gives a promised object its value, once, as sk_obj_set does. A value of an object that is gone is
 * thrown away. False: proc has promised no such object. */
bool sk_promise_keep(struct sk_local *l, uint32_t proc, uint64_t id, const struct sk_val *v,
                     const void *bytes, struct sk_ids in);
/* Gives the objects that proc promised and did not keep an error that says so. */
void sk_promises_proc_dead(struct sk_local *l, uint32_t proc, const char *how);
void sk_promises_init(struct sk_local *l);
void sk_promises_free(struct sk_local *l);
/* true if the process has not given the value yet; for check.c */
bool sk_promised(const struct sk_local *l, uint64_t id);

#endif

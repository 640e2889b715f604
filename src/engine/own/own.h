/* own.h - who owns which object: exact reference counts by process, and what becomes garbage when
 * one goes away. Pure: no clock, no ipc.
 *
 * An object (id != 0) lives while any of these is there:
 *   - references of the driver (proc 0) and borrows of workers (proc >= 1), counted by (process,
 *     object): a process can never give back more than it has, and its death gives back exactly
 *     what it had;
 *   - holds: the engine's own, for arguments of tasks that are not finally done;
 *   - an alive outer object whose value contains it.
 * An object whose count reaches zero leaves the table at once, with everything that only it
 * contained, and is queued: drain with sk_own_next_freed after each call and free the values there.
 * The walk is iterative (chains of 1e5 are fine). Objects that contain one another in a circle keep
 * each other alive; that takes an exchange through an actor, or a reference to the return of a task
 * that is not run yet, kept by a process and returned by another task (tests/c/model, own_limit_*).
 *
 * Cost: add + unref + drain about 30 ns; 56 bytes an object besides the map. Thread-safety: none;
 * the engine's lock guards it. */
#ifndef SK_OWN_H
#define SK_OWN_H

#include "base/base.h"
#include "base/err.h"

struct sk_own;

sk_rc sk_own_create(struct sk_own **out, struct sk_err *err) SK_MUST_USE;
/* queued and alive objects are forgotten: drain or walk them before */
void sk_own_destroy(struct sk_own *o);

/* New object with one reference by proc. SK_EINVAL: id is 0 or exists. SK_ENOMEM: nothing
 * changed. */
sk_rc sk_own_add(struct sk_own *o, uint64_t id, uint32_t proc, void *data,
                 struct sk_err *err) SK_MUST_USE;
/* Same, but an object that exists (its maker was run again) is left as it is: *added = false, no
 * reference is taken. */
sk_rc sk_own_add_once(struct sk_own *o, uint64_t id, uint32_t proc, void *data, bool *added,
                      struct sk_err *err) SK_MUST_USE;

/* SK_ENOENT: no such object. SK_EINVAL: gives back more than proc has, or the count would overflow.
 * Nothing changed on failure. */
sk_rc sk_own_ref(struct sk_own *o, uint64_t id, uint32_t proc, uint32_t n,
                 struct sk_err *err) SK_MUST_USE;
sk_rc sk_own_unref(struct sk_own *o, uint64_t id, uint32_t proc, uint32_t n,
                   struct sk_err *err) SK_MUST_USE;

sk_rc sk_own_hold(struct sk_own *o, uint64_t id, struct sk_err *err) SK_MUST_USE; /* SK_ENOENT */
/* without a hold: a bug of the engine (SK_ASSERT) */
void sk_own_unhold(struct sk_own *o, uint64_t id);

/* `outer` holds inner[0..n) as long as it lives; once an object (SK_EINVAL: again). SK_ENOENT: one
 * of them is not there. Duplicates count each; `outer` itself among them (a task can return a
 * reference to its own return) does not count. Nothing changed on failure. */
sk_rc sk_own_contains(struct sk_own *o, uint64_t outer, const uint64_t *inner, uint32_t n,
                      struct sk_err *err) SK_MUST_USE;

/* its value is gone: it holds nothing any more, and contains may be said anew */
void sk_own_uncontain(struct sk_own *o, uint64_t outer);
/* What `from` holds is held by `to` (which holds nothing yet) instead. */
void sk_own_pass_inner(struct sk_own *o, uint64_t from, uint64_t to);
/* mentions in its value; 0 when absent */
uint32_t sk_own_n_inner(const struct sk_own *o, uint64_t outer);

/* all borrows of proc (>= 1) go; its number may be used again */
void sk_own_proc_dead(struct sk_own *o, uint32_t proc);

bool sk_own_has(const struct sk_own *o, uint64_t id);
/* the data given to add; NULL when absent */
void *sk_own_get(const struct sk_own *o, uint64_t id);
/* references + borrows + holds + alive outers; 0 when absent */
uint64_t sk_own_count(const struct sk_own *o, uint64_t id);
/* held by that process */
uint64_t sk_own_borrowed(const struct sk_own *o, uint64_t id, uint32_t proc);
uint64_t sk_own_n(const struct sk_own *o); /* alive objects */

/* Next object that nothing holds any more, oldest first; false when there is none. */
bool sk_own_next_freed(struct sk_own *o, uint64_t *id, void **data);
/* Next alive object in no order, for shutdown and status: start with *cursor = 0; no other call
 * meanwhile. */
bool sk_own_each(const struct sk_own *o, uint32_t *cursor, uint64_t *id, void **data);

/* Many more objects were alive than are now; shrink gives that memory back, as far as it can. */
bool sk_own_roomy(const struct sk_own *o);
/* it has room for so many that it may be roomy one day */
bool sk_own_large(const struct sk_own *o);
void sk_own_shrink(struct sk_own *o);

/* Every count against a recount: borrows by process, contained-by, queue. */
bool sk_own_check(struct sk_own *o);

#endif

/* own.h - exact reference counts by process, and the objects that become garbage when a reference
 * goes away. Pure: no clock, no ipc.
 *
 * An object (id != 0) lives while any of these exists:
 *   - references of the driver (proc 0) or of workers (proc >= 1), counted by (process, object): a
 *     process can never give back more than it has, and its death gives back exactly what it had;
 *   - holds: the engine's own references, for arguments of tasks that are not finally done;
 *   - an outer object that is alive and whose value contains it.
 * An object whose count reaches zero leaves the table at once, with everything that only it
 * contained, and is queued: the caller drains the queue with sk_own_next_freed after each call and
 * frees the values. The walk is iterative (chains of 1e5 are fine). Objects that contain one
 * another in a circle keep each other alive. A circle takes an exchange through an actor, or a
 * reference to the return of a task that has not run yet, kept by a process and returned by another
 * task (tests/c/model, own_limit_*).
 *
 * Cost: add + unref + drain about 30 ns; 56 bytes an object besides the map. Thread-safety: none;
 * the engine's lock guards it. */
#ifndef SK_OWN_H
#define SK_OWN_H

#include "base/base.h"
#include "base/err.h"

struct sk_own;

sk_rc sk_own_create(struct sk_own **out, struct sk_err *err) SK_MUST_USE;
/* Frees the table. The caller drains the queued objects and walks the alive ones first. */
void sk_own_destroy(struct sk_own *o);

/* Makes an object with one reference of process proc. SK_EINVAL: the id is 0 or exists.
 * SK_ENOMEM: nothing changed. */
sk_rc sk_own_add(struct sk_own *o, uint64_t id, uint32_t proc, void *data,
                 struct sk_err *err) SK_MUST_USE;
/* Makes an object as sk_own_add does, unless it exists already (its task was run again): then
 * *added is false, and no reference is taken. */
sk_rc sk_own_add_once(struct sk_own *o, uint64_t id, uint32_t proc, void *data, bool *added,
                      struct sk_err *err) SK_MUST_USE;

/* Add or give back n references of proc. SK_ENOENT: there is no such object. SK_EINVAL: proc
 * would give back more than it has, or the count would overflow. Nothing changes on failure. */
sk_rc sk_own_ref(struct sk_own *o, uint64_t id, uint32_t proc, uint32_t n,
                 struct sk_err *err) SK_MUST_USE;
sk_rc sk_own_unref(struct sk_own *o, uint64_t id, uint32_t proc, uint32_t n,
                   struct sk_err *err) SK_MUST_USE;

/* SK_ENOENT: no such object */
sk_rc sk_own_hold(struct sk_own *o, uint64_t id, struct sk_err *err) SK_MUST_USE;
/* Giving back a hold that does not exist is a bug of the engine (SK_ASSERT). */
void sk_own_unhold(struct sk_own *o, uint64_t id);

/* `outer` holds inner[0..n) as long as it lives; once per object (again: SK_EINVAL). SK_ENOENT: an
 * inner object does not exist. Each duplicate counts. `outer` itself among the inner objects does
 * not count (a task can return a reference to its own return). Nothing changes on failure. */
sk_rc sk_own_contains(struct sk_own *o, uint64_t outer, const uint64_t *inner, uint32_t n,
                      struct sk_err *err) SK_MUST_USE;

/* Notes that the value of `outer` is gone: the object holds nothing any more, and sk_own_contains
 * may be called for it again. */
void sk_own_uncontain(struct sk_own *o, uint64_t outer);
/* Moves what `from` holds to `to`, which must hold nothing. */
void sk_own_pass_inner(struct sk_own *o, uint64_t from, uint64_t to);
/* number of references in the object's value, with duplicates; 0: no such object */
uint32_t sk_own_n_inner(const struct sk_own *o, uint64_t outer);

/* Gives all references of proc (>= 1) back. Its number may be used again. */
void sk_own_proc_dead(struct sk_own *o, uint32_t proc);

bool sk_own_has(const struct sk_own *o, uint64_t id);
/* the `data` that was given to sk_own_add; NULL: no such object */
void *sk_own_get(const struct sk_own *o, uint64_t id);
/* number of all references, holds and living outer objects; 0: no such object */
uint64_t sk_own_count(const struct sk_own *o, uint64_t id);
/* number of references of process proc */
uint64_t sk_own_borrowed(const struct sk_own *o, uint64_t id, uint32_t proc);
uint64_t sk_own_n(const struct sk_own *o); /* number of alive objects */

/* Takes the next object that nothing holds any more, oldest first; false when there is none. */
bool sk_own_next_freed(struct sk_own *o, uint64_t *id, void **data);
/* Walks the alive objects in no order, for shutdown and status: start with *cursor = 0 and make
 * no other call meanwhile. */
bool sk_own_each(const struct sk_own *o, uint32_t *cursor, uint64_t *id, void **data);

/* True if the table has room for many more objects than there are, so that sk_own_shrink would
 * give memory back. */
bool sk_own_roomy(const struct sk_own *o);
/* True if the table is so large that sk_own_roomy may become true one day. */
bool sk_own_large(const struct sk_own *o);
void sk_own_shrink(struct sk_own *o);

/* Recounts everything (references by process, contained objects, queue) and compares. For tests. */
bool sk_own_check(struct sk_own *o);

#endif

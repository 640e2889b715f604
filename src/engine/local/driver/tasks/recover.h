/* recover.h - lost values: keeps finished tasks (lineage) and runs them again to make lost values.
 *
 * Calls: moves, object, link, send, stored, stream, task. The code of this part may call these
 * parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_RECOVER_H
#define SK_LOCAL_RECOVER_H

#include "engine/local/driver/tasks/task.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_obj;

/* Marks the value of an object as lost; nothing happens if it has none in the store. Waits for
 * it, present and later, get the value that the next dispatch makes again, or an error value
 * with SK_ELOST and the reason. Views of the old bytes stay valid. */
void sk_recover_lost(struct sk_local *l, uint64_t oid);
/* Marks the value of o as lost, because its checksum was wrong when it was read from disk. */
void sk_recover_spoiled(struct sk_local *l, struct sk_obj *o);
sk_rc sk_recover_open(struct sk_local *l, uint64_t lineage_bytes, struct sk_err *err) SK_MUST_USE;
/* Frees lineage and the finished tasks that it keeps. */
void sk_recover_close(struct sk_local *l);
/* Submits the tasks that make lost objects again. */
void sk_recover_run(struct sk_local *l);
static inline enum sk_lost_why sk_recover_why(const struct sk_ltask *t) {
    /* The reason why an object that t made cannot be made again, for a task that lineage does not
     * keep. */
    return t->spec.actor              ? SK_LOST_ACTOR
           : t->let_go                ? (enum sk_lost_why)(t->let_go - 1)
           : t->spec.max_retries == 0 ? SK_LOST_RETRIES
                                      : SK_LOST_EVICTED;
}
/* Records the reason to give in an error if the value of o is lost and lineage knows no task that
 * makes it. */
static inline void sk_recover_says(struct sk_obj *o, enum sk_lost_why why) {
    o->why = (uint8_t)why;
}
/* Notes that t makes the new object o. */
static inline void sk_recover_makes(struct sk_obj *o, struct sk_ltask *t) {
    o->maker = t;
    sk_recover_says(o, sk_recover_why(t));
}
/* Called when a stream has yielded o for the first time. */
void sk_recover_yielded(struct sk_local *l, struct sk_ltask *t, struct sk_obj *o);
/* Call when a stream that runs again has yielded this index. Returns the object that the value is
 * for; 0: the value is not needed. */
uint64_t sk_recover_remade(struct sk_ltask *t, uint32_t index);
/* True if all lost yields for which t runs have been made. */
bool sk_recover_all_made(const struct sk_ltask *t);
/* Called when t has ended and still holds its arguments: lineage keeps t or, if t has run again, is
 * told that the run is over. */
void sk_recover_ended(struct sk_local *l, struct sk_ltask *t);
/* Called before a stream is sent: notes which of its yields are lost, so that this run has to
 * make them. */
sk_rc sk_recover_wanted(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;
/* *off: where in the store w still reads the bytes of a lost argument. False: w reads none. */
bool sk_recover_old(const struct sk_lworker *w, uint64_t oid, uint64_t *off);
/* Called when lineage no longer keeps t. */
void sk_recover_unkept(struct sk_local *l, struct sk_ltask *t);
/* Drops the references in lost values whose bytes are no longer read. */
void sk_recover_relics(struct sk_local *l);

#endif

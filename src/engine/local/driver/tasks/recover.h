/* recover.h - lost values: which tasks are kept for them, and how one is run again.
 *
 * Calls: moves, object, link, send, stored, stream, task. */
#ifndef SK_LOCAL_RECOVER_H
#define SK_LOCAL_RECOVER_H

#include "engine/local/driver/tasks/task.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_obj;

/* The bytes of this object are lost (nothing happens if it has none in the store). Whoever waits
 * for it, or asks from now on, gets the value that the next dispatch has made again, or an error
 * value with SK_ELOST and the reason. Views that are out keep their bytes. */
void sk_recover_lost(struct sk_local *l, uint64_t oid);
/* The same of o, whose bytes were wrong when they were read from disk. */
void sk_recover_spoiled(struct sk_local *l, struct sk_obj *o);
sk_rc sk_recover_open(struct sk_local *l, uint64_t lineage_bytes, struct sk_err *err) SK_MUST_USE;
/* Frees the finished tasks that lineage keeps, and lineage. */
void sk_recover_close(struct sk_local *l);
/* Submits the tasks that make lost objects again. */
void sk_recover_run(struct sk_local *l);
static inline enum sk_lost_why sk_recover_why(const struct sk_ltask *t) {
    /* of an object that it makes, as long as lineage does not keep it */
    return t->spec.actor              ? SK_LOST_ACTOR
           : t->let_go                ? (enum sk_lost_why)(t->let_go - 1)
           : t->spec.max_retries == 0 ? SK_LOST_RETRIES
                                      : SK_LOST_EVICTED;
}
/* What an error says if the value of o is lost and lineage knows no maker. */
static inline void sk_recover_says(struct sk_obj *o, enum sk_lost_why why) {
    o->why = (uint8_t)why;
}
/* t makes the new object o. */
static inline void sk_recover_makes(struct sk_obj *o, struct sk_ltask *t) {
    o->maker = t;
    sk_recover_says(o, sk_recover_why(t));
}
/* A stream has yielded o for the first time. */
void sk_recover_yielded(struct sk_local *l, struct sk_ltask *t, struct sk_obj *o);
/* A stream that runs again has yielded this index. The object that the value is for; 0: it is not
 * wanted. */
uint64_t sk_recover_remade(struct sk_ltask *t, uint32_t index);
/* True if all lost yields that t runs for have been made. */
bool sk_recover_all_made(const struct sk_ltask *t);
/* t has ended, and still holds its arguments: lineage keeps it, or hears that its run is over. */
void sk_recover_ended(struct sk_local *l, struct sk_ltask *t);
/* Before a stream is sent: notes which of its yields are lost, and so wanted from this run. */
sk_rc sk_recover_wanted(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;
/* Where in the store a worker still reads a lost argument. False: it does not. */
bool sk_recover_old(const struct sk_lworker *w, uint64_t oid, uint64_t *off);
/* Lineage does not keep t any more. */
void sk_recover_unkept(struct sk_local *l, struct sk_ltask *t);
/* Lets go of references in lost values whose bytes nobody reads any more. */
void sk_recover_relics(struct sk_local *l);

#endif

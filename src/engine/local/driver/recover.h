/* recover.h - lost values: which tasks are kept for them, and how one is run again.
 *
 * Calls: moves, object, link, send, stored, stream, task. */
#ifndef SK_LOCAL_RECOVER_H
#define SK_LOCAL_RECOVER_H

#include "engine/local/driver/task.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_obj;

/* The bytes of this object are lost (nothing happens if it has none in the store). Whoever waits for it, or asks from now on, gets the value
 * that the next dispatch has made again, or an error value with SK_ELOST and the reason. Views that are out keep their bytes. */
void sk_recover_lost(struct sk_local *l, uint64_t oid);
sk_rc sk_recover_open(struct sk_local *l, uint64_t lineage_bytes, struct sk_err *err) SK_MUST_USE;
void sk_recover_close(struct sk_local *l); /* with the finished tasks that lineage keeps */
void sk_recover_run(struct sk_local *l);   /* submits what makes lost objects again */
static inline enum sk_lost_why
sk_recover_why(const struct sk_ltask *t) { /* of an object that it makes, as long as lineage does not keep it */
    return t->spec.actor              ? SK_LOST_ACTOR
           : t->let_go                ? (enum sk_lost_why)(t->let_go - 1)
           : t->spec.max_retries == 0 ? SK_LOST_RETRIES
                                      : SK_LOST_EVICTED;
}
void sk_recover_yielded(struct sk_local *l, struct sk_ltask *t, struct sk_obj *o); /* the first time */
uint64_t sk_recover_remade(struct sk_ltask *t, uint32_t index); /* a yield came again: the object to give it to; 0: not wanted */
bool sk_recover_all_made(const struct sk_ltask *t);             /* the lost yields that it runs for */
void sk_recover_ended(struct sk_local *l, struct sk_ltask *t);  /* while its arguments are held: keep it, or note that its run is over */
sk_rc sk_recover_wanted(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;  /* before a stream is sent */
bool sk_recover_old(const struct sk_lworker *w, uint64_t oid, uint64_t *off); /* where w still reads a lost argument */
void sk_recover_unkept(struct sk_local *l, struct sk_ltask *t);               /* lineage let it go */
void sk_recover_relics(struct sk_local *l);                                   /* lets go of those that nobody reads any more */

#endif

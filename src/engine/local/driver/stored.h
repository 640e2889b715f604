/* stored.h - the entry of an object whose bytes are in the store or on disk.
 *
 * Calls: moves. */
#ifndef SK_LOCAL_STORED_H
#define SK_LOCAL_STORED_H

#include "base/list.h"
#include "store/store.h"

struct sk_local;
struct sk_obj;
struct sk_sink;

struct sk_stored {          /* of an object whose bytes are in the store or on disk */
    struct sk_list link;    /* l->space: lru or writing (in the store); restores, ahead, reading, or none (on disk) */
    struct sk_list sibling; /* ring of those that were written together, in order */
    struct sk_obj *o;
    struct sk_spill_at at;    /* its copy on disk */
    struct sk_spill_item *io; /* being written or read */
    uint64_t mark;
    uint32_t follower; /* who hears of it when it goes to disk or comes back (moves.h); 0: nobody */
    bool ahead;        /* it is in l->space.ahead */
    bool part;         /* of another object's copy on disk: a struct sk_stored_part (part.h) */
};

void sk_stored_new(struct sk_local *l, struct sk_obj *o);                             /* READY, in the store */
void sk_stored_gone(struct sk_local *l, struct sk_obj *o);                            /* about to be freed, or its value is lost */
void sk_stored_follow(struct sk_local *l, struct sk_obj *o, const struct sk_sink *s); /* a yield for this sink; o->st may not be there */
void sk_stored_used(struct sk_local *l, struct sk_obj *o);                            /* o->st is there: it goes last */
void sk_stored_on_disk(struct sk_local *l, uint64_t len);                             /* one more is */
void sk_stored_want(struct sk_local *l, struct sk_obj *o);                            /* back, if it is on disk */
void sk_stored_to_disk(struct sk_local *l, struct sk_stored *st);                     /* its copy is there: the bytes in the store go */
void sk_stored_back(struct sk_local *l, struct sk_stored *st, sk_off off);            /* they are at off again */

#endif

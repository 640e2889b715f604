/* stored.h - the entry of an object whose bytes are in the store or on disk.
 *
 * Calls: moves. */
#ifndef SK_LOCAL_STORED_H
#define SK_LOCAL_STORED_H

#include "base/containers/list.h"
#include "store/store.h"

struct sk_local;
struct sk_obj;
struct sk_sink;

/* Where its bytes are, and what is done with them. What may follow what is a table in stored.c:
 *
 *     LRU --begin_write--> WRITING --written, nobody uses it--> DISK --want--> WANTED
 *     --begin_read--> READING --back--> LRU
 *      ^ `----- has a copy on disk: to_disk ---------------------^ `--soon--> AHEAD
 *      --begin_read------^ `---- the write failed, or it is used ----' */
enum sk_stored_state {
    SK_STORED_LRU,     /* in the store, the longest unused first */
    SK_STORED_WRITING, /* in the store, and being written */
    SK_STORED_DISK,    /* on disk only; in no list */
    SK_STORED_AHEAD,   /* on disk; a task that is next in line will want it */
    SK_STORED_WANTED,  /* on disk; somebody waits for it, in this order */
    SK_STORED_READING, /* on disk, and being read */
    SK_STORED_STATES
};

struct sk_stored {          /* of an object whose bytes are in the store or on disk */
    struct sk_list link;    /* in l->stored.in[state] */
    struct sk_list sibling; /* ring of those that were written together, in order */
    struct sk_obj *o;
    struct sk_spill_at at;    /* its copy on disk */
    struct sk_spill_item *io; /* being written or read */
    uint64_t mark;            /* of space_mark.c */
    /* who hears of it when it goes to disk or comes back (moves.h); 0: nobody */
    uint32_t follower;
    uint8_t state; /* enum sk_stored_state */
    /* of another object's copy on disk: a struct sk_stored_part (part.h) */
    bool part;
};

struct sk_stored_all {                   /* stored.c */
    struct sk_list in[SK_STORED_STATES]; /* sk_stored.link */
    uint64_t n_disk, disk_object_bytes;  /* objects on disk only, and their bytes */
    uint64_t n_out;                      /* how often an object left the store */
};

void sk_stored_init(struct sk_local *l);
/* READY, in the store */
void sk_stored_new(struct sk_local *l, struct sk_obj *o);
/* about to be freed, or its value is lost */
void sk_stored_gone(struct sk_local *l, struct sk_obj *o);
/* a yield for this sink; o->st may not be there */
void sk_stored_follow(struct sk_local *l, struct sk_obj *o, const struct sk_sink *s);
/* o->st is there: it goes last */
void sk_stored_used(struct sk_local *l, struct sk_obj *o);
/* one more is */
void sk_stored_on_disk(struct sk_local *l, uint64_t len);
/* back, if it is on disk */
void sk_stored_want(struct sk_local *l, struct sk_obj *o);
/* the same, before those behind `after` */
void sk_stored_want_next(struct sk_local *l, struct sk_obj *o, struct sk_stored *after);
/* it will be wanted soon, if it is on disk */
void sk_stored_soon(struct sk_local *l, struct sk_obj *o);
/* of none of them any more */
void sk_stored_soon_over(struct sk_local *l);
void sk_stored_begin_write(struct sk_local *l, struct sk_stored *st, struct sk_spill_item *io);
/* Its write has ended. x: it has a copy there now, and was written behind `before` (or NULL); NULL:
 * the write failed. Where it goes follows. */
void sk_stored_written(struct sk_local *l, struct sk_stored *st, const struct sk_spill_item *x,
                       struct sk_stored *before);
/* it was to go, and stays in the store; last: as if just used */
void sk_stored_stay(struct sk_local *l, struct sk_stored *st, bool last);
/* its copy is there: the bytes in the store go */
void sk_stored_to_disk(struct sk_local *l, struct sk_stored *st);
void sk_stored_begin_read(struct sk_local *l, struct sk_stored *st);
void sk_stored_reads(struct sk_stored *st, struct sk_spill_item *io); /* by that job */
/* its read has ended, or it cannot be read: on disk */
void sk_stored_unwant(struct sk_local *l, struct sk_stored *st);
/* the disk is closed, and its jobs are freed */
void sk_stored_no_jobs(struct sk_local *l);
/* its bytes are at off of the store again */
void sk_stored_back(struct sk_local *l, struct sk_stored *st, sk_off off);
static inline void sk_stored_mark(struct sk_stored *st, uint64_t mark) {
    st->mark = SK_MAX(st->mark, mark);
}
bool sk_stored_check(const struct sk_local *l);

#endif

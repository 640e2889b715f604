/* stored.h - the entry of an object whose bytes are in the store or on disk.
 *
 * Calls: moves. The code of this part may call these parts of the driver and no others;
 * tests/shape.py reads this line. */
#ifndef SK_LOCAL_STORED_H
#define SK_LOCAL_STORED_H

#include "base/containers/list.h"
#include "store/store.h"

struct sk_local;
struct sk_obj;
struct sk_sink;

/* The states of a value's bytes: where they are, and what is being done with them. stored.c has the
 * table of allowed changes; docs/design/states.md draws it.
 *
 *     LRU --> WRITING       begin_write
 *     WRITING --> DISK      written, and nothing uses it
 *     WRITING --> LRU       the write failed, or the value is used
 *     LRU --> DISK          to_disk: the value has a copy on disk already
 *     DISK --> WANTED       want: something waits for it
 *     DISK --> AHEAD        soon: a task that is next in line will want it
 *     WANTED, AHEAD --> READING     begin_read
 *     READING --> LRU       back */
enum sk_stored_state {
    SK_STORED_LRU,     /* in the store, least recently used first */
    SK_STORED_WRITING, /* in the store, and being written */
    SK_STORED_DISK,    /* on disk only; in no list */
    SK_STORED_AHEAD,   /* on disk; a task that is next in line will need it */
    /* on disk, and a get or task waits for it; the list is in the order of these waits */
    SK_STORED_WANTED,
    SK_STORED_READING, /* on disk, and being read */
    SK_STORED_STATES
};

struct sk_stored {          /* the entry of an object whose bytes are in the store or on disk */
    struct sk_list link;    /* link in l->stored.in[state] */
    struct sk_list sibling; /* ring of the entries that were written together, in order */
    struct sk_obj *o;
    struct sk_spill_at at; /* the value's copy on disk */
    /* the item of the disk job while the value is being written or read */
    struct sk_spill_item *io;
    uint64_t mark; /* how much the value is needed; see space_mark.c */
    /* number of the sink that is told when the value is spilled or restored (moves.h); 0: none */
    uint32_t follower;
    uint8_t state; /* enum sk_stored_state */
    /* the object is a part of another object's copy on disk: a struct sk_stored_part (part.h) */
    bool part;
};

struct sk_stored_all {                   /* all entries; written by stored.c */
    struct sk_list in[SK_STORED_STATES]; /* lists of entries by state (sk_stored.link) */
    uint64_t n_disk, disk_object_bytes;  /* objects on disk only, and their bytes */
    uint64_t n_out; /* number of times that a value left the store for the disk */
};

void sk_stored_init(struct sk_local *l);
/* Makes the entry of o, which is READY and in the store. */
void sk_stored_new(struct sk_local *l, struct sk_obj *o);
/* Ends the entry of o, which is about to be freed, or whose value is lost. */
void sk_stored_gone(struct sk_local *l, struct sk_obj *o);
/* Notes that o is a yield of a task of this sink, which may follow the value (moves.h). o may have
 * no entry. */
void sk_stored_follow(struct sk_local *l, struct sk_obj *o, const struct sk_sink *s);
/* Notes that o was just used, so it is evicted last. o must have an entry. */
void sk_stored_used(struct sk_local *l, struct sk_obj *o);
/* counts one more value on disk */
void sk_stored_on_disk(struct sk_local *l, uint64_t len);
/* Puts o behind the wanted values, if it is on disk. */
void sk_stored_want(struct sk_local *l, struct sk_obj *o);
/* Puts o among the wanted values, directly behind `after`, if it is on disk. */
void sk_stored_want_next(struct sk_local *l, struct sk_obj *o, struct sk_stored *after);
/* Marks o as needed soon, if it is on disk. */
void sk_stored_soon(struct sk_local *l, struct sk_obj *o);
/* Takes the mark "needed soon" off all values. */
void sk_stored_soon_over(struct sk_local *l);
void sk_stored_begin_write(struct sk_local *l, struct sk_stored *st, struct sk_spill_item *io);
/* Notes that the write of st has ended. x: the copy on disk, written behind `before` (or NULL). x
 * NULL: the write failed. The caller decides what follows. */
void sk_stored_written(struct sk_local *l, struct sk_stored *st, const struct sk_spill_item *x,
                       struct sk_stored *before);
/* Keeps st, which was chosen for eviction, in the store; last: as if it had just been used. */
void sk_stored_stay(struct sk_local *l, struct sk_stored *st, bool last);
/* Frees the bytes of st in the store. st must have a copy on disk. */
void sk_stored_to_disk(struct sk_local *l, struct sk_stored *st);
void sk_stored_begin_read(struct sk_local *l, struct sk_stored *st);
/* Notes that the job of this item reads st. */
void sk_stored_reads(struct sk_stored *st, struct sk_spill_item *io);
/* Call when the read of st has failed, or cannot be made: st stays on disk only. */
void sk_stored_unwant(struct sk_local *l, struct sk_stored *st);
/* Called when the disk is closed and its jobs are freed. */
void sk_stored_no_jobs(struct sk_local *l);
/* Notes that the bytes of st are in the store again, at off. */
void sk_stored_back(struct sk_local *l, struct sk_stored *st, sk_off off);
static inline void sk_stored_mark(struct sk_stored *st, uint64_t mark) {
    st->mark = SK_MAX(st->mark, mark);
}
bool sk_stored_check(const struct sk_local *l);

#endif

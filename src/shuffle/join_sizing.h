/* join_sizing.h - how a join is done, by the bytes of its two sides: which of them is measured
 * before the run, and what becomes of it then. Pure functions of facts and sizes.
 *
 * A side that is small goes to where the blocks of the other one are (broadcast: the
 * fragment-replicate join of Epstein, Stonebraker and Wong, SIGMOD 1978; Spark's and Ray's name);
 * then nothing else is moved. Of a side that is too large for that a Bloom filter of its keys may
 * go there, and rows that meet nothing are left out before they are moved (Bratbergsengen, VLDB
 * 1984; Mackert and Lohman, VLDB 1986). What is decided follows from sizes of the data alone:
 * neither from workers, nor from memory or time. Tests: test_shuffle_sides.c. */
#ifndef SK_SIDES_H
#define SK_SIDES_H

#include "base/base.h"
#include "kernel/kernel.h"

enum { SK_SIDE_NONE = -1, SK_SIDE_LEFT = 0, SK_SIDE_RIGHT = 1 };

/* Whether blocks of this side may be joined one by one with the whole other one: the rows are those
 * of one join, in another order. The other side is what may be broadcast then. */
bool sk_side_by_block(enum sk_join_kind kind, int side);
/* Several tasks may share a partition: each has some rows of one side, in order, and all of the
 * other one. What they give, one behind the other, is what one task would give whose left side is
 * the shared one, but for rows of the other side that come out for having met something, or
 * nothing: a share cannot know. Bit i is set where there are such, if side i is shared: then the
 * tasks of shares tell what they met, and one task behind them gives these rows (sk_join_share,
 * sk_join_rest). */
unsigned sk_side_tells(enum sk_join_kind kind);
/* Whether nobody misses the rows of this side that meet nothing. */
bool sk_side_may_lack(enum sk_join_kind kind, int side);

struct sk_sides { /* what is known before anything has run */
    enum sk_join_kind kind;
    /* the user asks for a number of partitions, whose order the rows have: nothing is broadcast */
    bool parted;
    uint64_t limit_bytes; /* of what is broadcast, at most; 0: nothing is measured */
    struct {
        /* expected, by its sources; -1: nobody knows, also where what is between leaves out rows */
        int64_t bytes;
        /* nobody else takes what it is made of: so it runs once, also if it runs first */
        bool alone;
    } side[2];
};
/* The side that runs first, to be measured; SK_SIDE_NONE: neither may be worth it. */
int sk_sides_first(const struct sk_sides *z);

enum sk_side_use {
    /* its blocks, which are there now, go into the exchange as those of the other one do */
    SK_SIDE_MOVED,
    SK_SIDE_BROADCAST, /* all of it goes to each block of the other one; no exchange */
    /* it is moved, and a filter of its keys goes to the other side before that is */
    SK_SIDE_FILTERS,
};
struct sk_side_size { /* measured */
    uint64_t rows, bytes;
    /* it has some: a side without any, which has no rows, cannot be joined with by itself */
    bool columns;
};
enum sk_side_use sk_side_use(const struct sk_sides *z, int side,
                             const struct sk_side_size *measured);
#define SK_SIDE_FILTER_BITS 10u /* a key: of keys that are not there 1 in 100 passes */

#endif

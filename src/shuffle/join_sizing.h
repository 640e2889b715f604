/* join_sizing.h - how a join is done, by the bytes of its two sides: which side is measured before
 * the run, and how the measured side is then used. Pure functions of facts and sizes.
 *
 * A small side goes whole to where the blocks of the other side are (broadcast: the
 * fragment-replicate join of Epstein, Stonebraker and Wong, SIGMOD 1978; Spark's and Ray's name),
 * and then nothing else is moved. If a side is too large for that, a Bloom filter of its keys may
 * go there, and rows without a partner are left out before they are moved (Bratbergsengen, VLDB
 * 1984; Mackert and Lohman, VLDB 1986). The decision depends on sizes of the data alone, not on
 * workers, memory or time. Tests: test_shuffle_sides.c. */
#ifndef SK_SIDES_H
#define SK_SIDES_H

#include "base/base.h"
#include "kernel/kernel.h"

enum { SK_SIDE_NONE = -1, SK_SIDE_LEFT = 0, SK_SIDE_RIGHT = 1 };

/* True: each block of `side` may be joined by itself with the whole other side, and together these
 * joins give the rows of the one join, in another order. Then the other side may be broadcast. */
bool sk_side_by_block(enum sk_join_kind kind, int side);
/* Split reduces share a partition: each has some rows of one side, in order, and all rows of the
 * other side. Their outputs, one behind the other, are the output of one task whose left side is
 * the shared one. Missing are rows of the other side that are given out because they have a
 * partner, or have none: a split reduce cannot know that alone. Bit i is set where the join kind
 * has such rows if side i is shared. Then the split reduces report their matches, and one reduce
 * behind them gives these rows (sk_join_share, sk_join_rest). */
unsigned sk_side_tells(enum sk_join_kind kind);
/* True: the result does not need the rows of this side that have no partner. */
bool sk_side_may_lack(enum sk_join_kind kind, int side);

struct sk_sides { /* facts about a join that are known before anything has run */
    enum sk_join_kind kind;
    /* The user asked for a number of partitions, which fixes the order of the rows: nothing is
     * broadcast. */
    bool parted;
    uint64_t limit_bytes; /* the most bytes that are broadcast; 0: no side is measured */
    struct {
        /* estimate from the side's sources; -1: unknown, also where an operator behind the source
         * leaves out rows */
        int64_t bytes;
        /* No other operator reads the side's input, so that input runs only once even if the side
         * runs first. */
        bool alone;
    } side[2];
};
/* Returns the side that runs first and is measured; SK_SIDE_NONE: that would not pay for either. */
int sk_sides_first(const struct sk_sides *z);

enum sk_side_use {
    /* the side's blocks, which exist now, go into the exchange like those of the other side */
    SK_SIDE_MOVED,
    SK_SIDE_BROADCAST, /* all of it goes to each block of the other side; there is no exchange */
    /* the side goes into the exchange, after a filter of its keys has gone to the other side */
    SK_SIDE_FILTERS,
};
struct sk_side_size { /* as it was measured */
    uint64_t rows, bytes;
    /* The side has columns. A side without any, which then has no rows either, cannot be
     * broadcast. */
    bool columns;
};
enum sk_side_use sk_side_use(const struct sk_sides *z, int side,
                             const struct sk_side_size *measured);
#define SK_SIDE_FILTER_BITS 10u /* bits per key: about 1 % of the keys that are not there pass */

#endif

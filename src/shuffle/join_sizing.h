/* join_sizing.h - decides by the bytes of a join's two sides how the join is done: which side runs
 * first and is measured, and how that side is then used. Pure functions of facts and sizes.
 *
 * A small side is sent whole to the tasks that have the blocks of the other side (broadcast, as
 * Spark and Ray call it: the fragment-replicate join of Epstein, Stonebraker and Wong, SIGMOD
 * 1978), and the other side is not moved. If a side is too large for that, a Bloom filter of its
 * keys may be sent, and rows of the other side without a partner are dropped before they are moved
 * (Bratbergsengen, VLDB 1984; Mackert and Lohman, VLDB 1986). The decision depends on sizes of the
 * data alone, not on workers, memory or time. Tests: test_shuffle_sides.c. */
#ifndef SK_SIDES_H
#define SK_SIDES_H

#include "base/base.h"
#include "kernel/kernel.h"

enum { SK_SIDE_NONE = -1, SK_SIDE_LEFT = 0, SK_SIDE_RIGHT = 1 };

/* True: each block of `side` may be joined by itself with the whole other side, and these joins
 * together give the rows of the one join, in another order. Then the other side may be
 * broadcast. */
bool sk_side_by_block(enum sk_join_kind kind, int side);
/* Split reduces share a partition: each has some rows of one side, in order, and all rows of the
 * other side. Their outputs, one behind the other, are the output of one task whose left side is
 * the shared one. Rows of the other side whose output depends on whether they have a partner are
 * missing in these outputs, since a split reduce knows only its own matches. Bit i is set if the
 * join kind has such rows when side i is shared. Then the split reduces write match reports, and
 * one reduce behind them gives these rows (sk_join_share, sk_join_rest). */
unsigned sk_side_tells(enum sk_join_kind kind);
/* True if rows of this side without a partner are not needed for the result. */
bool sk_side_may_lack(enum sk_join_kind kind, int side);

struct sk_sides { /* facts about a join that are known before anything has run */
    enum sk_join_kind kind;
    /* The user asked for a number of partitions, which fixes the order of the rows: nothing is
     * broadcast. */
    bool parted;
    uint64_t limit_bytes; /* the most bytes that are broadcast; 0: no side is measured */
    struct {
        /* estimated bytes, from the side's sources; -1: unknown, also if an operator behind the
         * source drops rows */
        int64_t bytes;
        /* No other operator reads the side's input, so that input runs only once even if the side
         * runs first. */
        bool alone;
    } side[2];
};
/* Returns the side that runs first and is measured; SK_SIDE_NONE: neither, since it would cost more
 * than it saves. */
int sk_sides_first(const struct sk_sides *z);

enum sk_side_use {
    /* the side's blocks, which exist already, go into the exchange like those of the other side */
    SK_SIDE_MOVED,
    /* the whole side is sent to each task of the other side; there is no exchange */
    SK_SIDE_BROADCAST,
    /* the side goes into the exchange, after a filter of its keys has gone to the other side */
    SK_SIDE_FILTERS,
};
struct sk_side_size { /* the measured size of a side */
    uint64_t rows, bytes;
    /* True: the side has columns. A side without columns, which has no rows either, cannot be
     * broadcast. */
    bool columns;
};
enum sk_side_use sk_side_use(const struct sk_sides *z, int side,
                             const struct sk_side_size *measured);
/* bits per key: about 1 % of the keys that are not in the side pass the filter */
#define SK_SIDE_FILTER_BITS 10u

#endif

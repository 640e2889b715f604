/* shuffle.h - strategies of an exchange: how it is wired, apart from what is done to rows (work.h). Pure functions of sizes.
 *
 * A strategy says in how many values a map's packs are, and how many packs become one before reduces take them (Exoshuffle, SIGCOMM 2023, 3: the same shuffle as
 * different ways to cut and move blocks). Few values are few objects; but a pack in memory stays there while any reduce has a part of it, and is given back with
 * its last part, so several let memory go early. A merge reads and writes its packs once more, and makes fewer and longer parts of them: those that reduces read
 * from disk. Results do not depend on any of it. A strategy is a file in by/ that defines `const struct sk_shuffle_ops sk_shuffle_by_<name>`. */
#ifndef SK_SHUFFLE_H
#define SK_SHUFFLE_H

#include "base/base.h"

struct sk_shuffle_sizes {  /* as they are known when they are asked for */
    uint64_t memory_bytes; /* of the run */
    bool spills;           /* what does not fit goes to disk; else it has to fit */
    bool parts;            /* tasks can be given parts of values; else they get whole ones */
    bool runs;      /* packs are sorted runs: a merge takes those of neighbouring maps, whole, and cuts what comes of them into values */
    uint32_t slots; /* reduces that can run at once */
    uint64_t bytes; /* of all packs, about */
    uint64_t map_bytes;    /* of one map's, about */
    uint64_t reduce_bytes; /* of one reduce, about */
};

struct sk_shuffle_way {
    uint32_t values; /* that a map's packs are in: at least 1. Where runs are merged: 1 */
    uint32_t merge;  /* packs of the same partitions that become one; 0: they go to the reduces as they are */
    uint32_t merged; /* values that a merge's packs are in; 0: 1 */
};
#define SK_SHUFFLE_MERGE_MAX 4096u

struct sk_shuffle_ops {
    const char *name;
    bool merges; /* it may say so: else there is no stage for that in the plan */
    /* Asked for a map or a pack that could be merged, where sizes have changed by more than 1/32; pure. */
    struct sk_shuffle_way (*way)(const struct sk_shuffle_sizes *z);
    /* 0: as way says. Else so many packs are merged, however much that is, and also one alone: where merges are to move packs, to the nodes of a cluster (exec/sim). */
    uint32_t merge_all;
};

const struct sk_shuffle_ops *sk_shuffle_find(const char *name); /* NULL: there is none */
const char *sk_shuffle_name(unsigned i);                        /* of the i-th, ordered by name; NULL behind the last */
/* Packs of `bytes` each that a merge takes so that what is being gathered for all ranges is a quarter of memory at most; 0: fewer than two. */
uint32_t sk_shuffle_fan_in(const struct sk_shuffle_sizes *z, uint32_t ranges, uint64_t bytes);
/* Seconds that an exchange costs beside the work on its rows. Its figures: strategy.c. */
double sk_shuffle_cost(const struct sk_shuffle_sizes *z, struct sk_shuffle_way way);

#endif

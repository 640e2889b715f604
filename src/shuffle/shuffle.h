/* shuffle.h - strategies of an exchange: how it is wired, apart from what is done to rows (work.h). Pure functions of sizes.
 *
 * What a strategy decides today is in how many values a map's packs are (Exoshuffle, SIGCOMM 2023, 3: the same shuffle as different ways to cut and move blocks).
 * Few are few objects; but a pack in memory stays there while any reduce has a part of it, and is given back with its last part, so many of them let memory go
 * early. Merges are nodes of the plan (sk_node_desc.merge_blocks). A strategy is a file in by/ that defines `const struct sk_shuffle_ops sk_shuffle_by_<name>`. */
#ifndef SK_SHUFFLE_H
#define SK_SHUFFLE_H

#include "base/base.h"

struct sk_shuffle_sizes {  /* as they are known when a map starts */
    uint64_t memory_bytes; /* of the run */
    bool spills;           /* what does not fit goes to disk; else it has to fit */
    bool parts;            /* tasks can be given parts of values; else they get whole ones */
    uint64_t bytes;        /* of all packs, about */
    uint64_t map_bytes;    /* of one map's, about */
    uint64_t reduce_bytes; /* of one reduce, about */
};

struct sk_shuffle_ops {
    const char *name;
    uint32_t (*values)(const struct sk_shuffle_sizes *z); /* that a map's packs are in: at least 1 */
};

const struct sk_shuffle_ops *sk_shuffle_find(const char *name); /* NULL: there is none */
const char *sk_shuffle_name(unsigned i);                        /* of the i-th, ordered by name; NULL behind the last */
/* Seconds that an exchange costs beside the work on its rows, with so many values a map. Its figures: strategy.c. */
double sk_shuffle_cost(const struct sk_shuffle_sizes *z, uint32_t values);

#endif

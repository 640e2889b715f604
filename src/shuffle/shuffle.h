/* shuffle.h - strategies of an exchange: programs that say how it is wired, apart from what is done
 * to rows (work.h).
 *
 * An exchange moves rows from maps to reduces. A strategy is told of each pack that has come (its
 * partitions, bytes and node) and says which tasks to make next (Exoshuffle, SIGCOMM 2023, section
 * 3: a shuffle is a short program over tasks and values). It says
 *   - in how many values the packs of a map are to be (values): few values are few objects, but a
 *     value in memory stays there while any reduce has a part of it;
 *   - of each pack that comes, whether reduces take it as it is (pass), or it waits for others of
 *     the same partitions (hold), and when these become one (merge), and where; and whether that
 *     one waits for later packs in its turn (merge_again);
 *   - which partitions the next reduce takes (range), once all sizes are known, and on which node.
 * Results do not depend on the strategy: packs of a partition stay in the order of the maps, since
 * only neighbours in that order are merged. So a strategy may change its mind at any time.
 *
 * Pure: a strategy calls only the functions below and keeps its knowledge in its state. It runs
 * inside the run's lock, on any engine, and in simulations. A file by/x.c that defines `const
 * struct sk_shuffle_ops sk_shuffle_by_x` is found by the build (docs/design/exchange.md). */
#ifndef SK_SHUFFLE_H
#define SK_SHUFFLE_H

#include "base/base.h"

struct sk_shuffle; /* one input of an exchange: its maps and their packs */

struct sk_shuffle_sizes {  /* sizes known so far; estimates are rounded to 1/32 */
    uint64_t memory_bytes; /* memory budget of the run */
    bool spills; /* packs that do not fit into memory go to disk; false: everything must fit */
    bool parts;  /* tasks can be given parts of values; false: they always get whole values */
    /* The packs are sorted runs: a merge takes whole runs of neighbouring maps, and cuts its result
     * into values. */
    bool runs;
    bool merges;    /* the plan has a stage that can merge; false: all packs pass to the reduces */
    uint32_t slots; /* number of reduces that can run at once */
    uint32_t nodes; /* at least 1 */
    uint64_t bytes; /* estimated bytes of all packs */
    uint64_t map_bytes;    /* estimated bytes of the packs of one map */
    uint64_t reduce_bytes; /* estimated bytes that one reduce takes */
};

struct sk_shuffle_pack { /* a new pack; it comes behind the packs of earlier maps */
    uint32_t first, end; /* the pack has rows of partitions [first, end) only; a run has 0, 1 */
    uint32_t node;       /* node where the pack is, below sizes.nodes */
    uint64_t bytes;
};

struct sk_shuffle_group {
    /* Packs of the same partitions that wait to be merged; they are neighbours in the order of the
     * maps. n may be 0 while what comes back is being merged. Read-only. */
    uint32_t first, end, n;
    uint64_t bytes, back; /* back: bytes of those that have come back from a merge */
};

struct sk_shuffle_ranges { /* sizes of the n partitions, when all packs are there */
    uint32_t n;
    const uint64_t *bytes; /* [n] */
    uint64_t target, most; /* bytes that a reduce should take, and that it should not exceed */
};

/* What a strategy plans for given sizes; sk_shuffle_cost rates it. */
struct sk_shuffle_layout {
    uint32_t values; /* number of values for the packs of one map, unless runs are merged; >= 1 */
    uint32_t merge;  /* number of packs that one merge takes; 0: packs go to the reduces unmerged */
    uint32_t merged; /* number of values that a merge yields; 0 means 1 */
};
#define SK_SHUFFLE_MERGE_MAX 4096u

struct sk_shuffle_ops {
    const char *name;
    bool merges; /* the strategy may merge packs, so the plan gets a stage for that */
    /* Bytes of the strategy's state, one zeroed copy for each input of an exchange. */
    uint32_t state_bytes;
    void *arg; /* what sk_shuffle_arg returns, for strategies that are made at run time */
    /* Returns the plan for given sizes (pure). NULL: the strategy `auto` does not consider this
     * one. */
    struct sk_shuffle_layout (*layout)(const struct sk_shuffle_sizes *z);
    /* Only for a strategy that answers from outside of the run (told.h): begin is called when the
     * exchange is made (false: no memory); open is true if maps may begin. */
    bool (*begin)(struct sk_shuffle *s);
    bool (*open)(const struct sk_shuffle *s);
    /* Asked when a map is launched: the number of values for its packs, at least 1. */
    uint32_t (*values)(struct sk_shuffle *s);
    /* A pack has come. The strategy calls sk_shuffle_pass, or sk_shuffle_hold and perhaps
     * sk_shuffle_merge. If it calls none of these, or `came` is NULL, the pack passes to the
     * reduces. */
    void (*came)(struct sk_shuffle *s, const struct sk_shuffle_pack *p);
    /* No more packs will come. If this is NULL, and for groups that this call leaves: a group of
     * several packs is merged, a group of one pack passes. */
    void (*ended)(struct sk_shuffle *s);
    /* Returns the end of the range of partitions for the reduce that begins with `first`, and sets
     * its node. NULL: sk_shuffle_range and SK_SHUFFLE_ANY are used. If the user asked for a number
     * of partitions, and for sorted runs, each partition is one reduce and the returned end is
     * ignored. */
    uint32_t (*range)(struct sk_shuffle *s, const struct sk_shuffle_ranges *r, uint32_t first,
                      uint32_t *node);
};
#define SK_SHUFFLE_ANY UINT32_MAX /* as a node: where most of the task's input is, or any node */

/* ---- calls for strategies -------------------------------------------------------------------- */

/* The known sizes; the pointer is valid until the strategy returns. */
const struct sk_shuffle_sizes *sk_shuffle_sizes(struct sk_shuffle *s);
uint32_t sk_shuffle_side(const struct sk_shuffle *s); /* number of the input */
void *sk_shuffle_state(const struct sk_shuffle *s);
void *sk_shuffle_arg(const struct sk_shuffle *s);
uint64_t sk_shuffle_held(const struct sk_shuffle *s); /* bytes in all groups */

/* Passes the current pack to the reduces unmerged. Groups that have some of its partitions are
 * ended first: merged, or passed. */
void sk_shuffle_pass(struct sk_shuffle *s);
/* Puts the current pack into the group of its partitions. Other groups that have some of these
 * partitions are ended first; so is this group if a hot partition of it would become too large for
 * reduces to share it. `values` and `node` apply to the merge of this group, whatever causes it.
 * NULL: the pack could not be held (no memory, or no stage merges), and the run has noted the
 * error. */
const struct sk_shuffle_group *sk_shuffle_hold(struct sk_shuffle *s, uint32_t values,
                                               uint32_t node);
/* Makes a merge task of the group, even if it has one pack. *g becomes invalid. */
void sk_shuffle_merge(struct sk_shuffle *s, const struct sk_shuffle_group *g);
/* The same, but the group stays, and what the merge yields comes back to it, in front of packs that
 * came meanwhile; it passes if it has more than `most` bytes or the group was ended. Only merges if
 * two packs wait, one of which is new; while the group is being merged so, the next merge waits. */
void sk_shuffle_merge_again(struct sk_shuffle *s, const struct sk_shuffle_group *g, uint64_t most);
/* Passes the group's packs to the reduces unmerged. *g becomes invalid. */
void sk_shuffle_pass_group(struct sk_shuffle *s, const struct sk_shuffle_group *g);
/* The group of index i; NULL behind the last one. */
const struct sk_shuffle_group *sk_shuffle_group(const struct sk_shuffle *s, uint32_t i);

/* Returns the end of the longest range of partitions from `first` on that has about `target` bytes
 * and at most `most`. Empty partitions behind the range are included. */
uint32_t sk_shuffle_range(const struct sk_shuffle_ranges *r, uint32_t first);

/* ---- the table of all strategies ------------------------------------------------------------- */

const struct sk_shuffle_ops *sk_shuffle_find(const char *name); /* NULL: there is none */
const char *sk_shuffle_name(unsigned i); /* in the order of names; NULL behind the last one */
/* Returns how many packs of `bytes` each a merge should take, so that the packs waiting in all
 * ranges fill a quarter of memory at most; 0: fewer than two. */
uint32_t sk_shuffle_fan_in(const struct sk_shuffle_sizes *z, uint32_t ranges, uint64_t bytes);
/* Holds the current pack and merges its group when it has n packs, or when waiting packs fill a
 * quarter of memory. */
void sk_shuffle_gather(struct sk_shuffle *s, uint32_t n, uint32_t values, uint32_t node);
/* Returns the node for the range of pack p, if maps are cut into `ranges` ranges: the nodes in
 * turn. SK_SHUFFLE_ANY if there are fewer ranges than nodes. */
uint32_t sk_shuffle_home(const struct sk_shuffle_sizes *z, const struct sk_shuffle_pack *p,
                         uint32_t ranges);
/* Seconds that an exchange costs beside the work on its rows. strategy.c has the figures. */
double sk_shuffle_cost(const struct sk_shuffle_sizes *z, struct sk_shuffle_layout layout);

#endif

/* shuffle.h - strategies of an exchange: programs that say how it is wired, apart from what is done
 * to rows (work.h).
 *
 * An exchange moves rows from maps to reduces. A strategy is told what has come (packs: their
 * partitions, bytes and node) and says which tasks to make next (Exoshuffle, SIGCOMM
 * 2023, section 3: a shuffle is a short program over tasks and values). It says
 *   - in how many values the packs of a map are to be (values): few values are few objects, but a
 *     value in memory stays there while any reduce has a part of it;
 *   - of each pack that comes, whether reduces take it as it is (pass), or it waits for others of
 *     the same partitions (hold), and when these become one (merge), and where;
 *   - which partitions the next reduce takes (range), once all sizes are known, and on which node.
 * Results do not depend on it: packs of a partition stay in the order of the maps, since only
 * neighbours in that order are merged. So a strategy may change its mind at any time.
 *
 * Pure: a strategy calls nothing but what is below and keeps what it knows in its state. It runs
 * inside the run's lock, on any engine, and in simulations. A file by/x.c that defines `const
 * struct sk_shuffle_ops sk_shuffle_by_x` is found by the build (docs/design/exchange.md). */
#ifndef SK_SHUFFLE_H
#define SK_SHUFFLE_H

#include "base/base.h"

struct sk_shuffle; /* one input of an exchange: its maps, and what they gave */

struct sk_shuffle_sizes {  /* as they are known by now, to 1/32 */
    uint64_t memory_bytes; /* of the run */
    bool spills;           /* what does not fit goes to disk; else it has to fit */
    bool parts;            /* tasks can be given parts of values; else they get whole ones */
    /* packs are sorted runs: a merge takes those of neighbouring maps, whole, and cuts what comes
     * of them into values */
    bool runs;
    bool merges;           /* there is a stage that can merge: else all packs pass */
    uint32_t slots;        /* reduces that can run at once */
    uint32_t nodes;        /* at least 1 */
    uint64_t bytes;        /* of all packs, about */
    uint64_t map_bytes;    /* of one map's, about */
    uint64_t reduce_bytes; /* of one reduce, about */
};

struct sk_shuffle_pack { /* has come, behind those of earlier maps */
    uint32_t first, end; /* it has rows of partitions [first, end) only; a run: 0, 1 */
    uint32_t node;       /* where it is, below sizes.nodes */
    uint64_t bytes;
};

struct sk_shuffle_group {
    /* packs that wait to become one: of the same partitions, one behind the other in the order
     * of the maps. Read-only */
    uint32_t first, end, n;
    uint64_t bytes;
};

struct sk_shuffle_ranges { /* when all packs are there */
    uint32_t n;            /* partitions */
    const uint64_t *bytes; /* [n] */
    uint64_t target, most; /* bytes that a reduce should take; and should not exceed */
};

/* What a strategy intends for given sizes, for sk_shuffle_cost. */
struct sk_shuffle_layout {
    uint32_t values; /* that a map's packs are in, if they are not merged as runs: at least 1 */
    uint32_t merge;  /* packs that become one; 0: they go to the reduces as they are */
    uint32_t merged; /* values that a merge's packs are in; 0: 1 */
};
#define SK_SHUFFLE_MERGE_MAX 4096u

struct sk_shuffle_ops {
    const char *name;
    /* it may merge: the plan gets a stage for that */
    bool merges;
    /* of its state, zeroed, of each input of an exchange */
    uint32_t state_bytes;
    /* sk_shuffle_arg: of strategies that are made at run time */
    void *arg;
    /* pure; NULL: `auto` does not consider it */
    struct sk_shuffle_layout (*layout)(const struct sk_shuffle_sizes *z);
    /* Of a strategy that answers from outside of the run (told.h), else NULL. begin: the exchange
     * is made; false: no memory. open: maps may begin. */
    bool (*begin)(struct sk_shuffle *s);
    bool (*open)(const struct sk_shuffle *s);
    /* Asked when a map is handed out: values that its packs are to be in, at least 1. */
    uint32_t (*values)(struct sk_shuffle *s);
    /* A pack has come: sk_shuffle_pass, or sk_shuffle_hold and maybe sk_shuffle_merge. NULL, and
     * where it says neither: it passes. */
    void (*came)(struct sk_shuffle *s, const struct sk_shuffle_pack *p);
    /* No more will come. NULL: each group of several is merged, one pack alone passes; so is what
     * it leaves. */
    void (*ended)(struct sk_shuffle *s);
    /* Behind the last partition of the reduce that begins with `first`, and its node. NULL:
     * sk_shuffle_range, and SK_SHUFFLE_ANY. Where the user asked for a number of partitions, and of
     * sorted runs, each partition is a reduce, and what is returned is not looked at. */
    uint32_t (*range)(struct sk_shuffle *s, const struct sk_shuffle_ranges *r, uint32_t first,
                      uint32_t *node);
};
#define SK_SHUFFLE_ANY UINT32_MAX /* a node: where most of a task's input is, or any */

/* ---- what a strategy may ask and say --------------------------------------------------------- */

/* valid until the strategy returns */
const struct sk_shuffle_sizes *sk_shuffle_sizes(struct sk_shuffle *s);
uint32_t sk_shuffle_side(const struct sk_shuffle *s); /* number of the input */
void *sk_shuffle_state(const struct sk_shuffle *s);
void *sk_shuffle_arg(const struct sk_shuffle *s);
uint64_t sk_shuffle_held(const struct sk_shuffle *s); /* bytes in all groups */

/* The pack at hand goes to the reduces as it is. Groups that have some of its partitions are ended
 * before: merged, or passed. */
void sk_shuffle_pass(struct sk_shuffle *s);
/* It waits in the group of its partitions; other groups that have some of these are ended before,
 * and so is this one where a hot partition of it would be too large to be shared by
 * reduces. `values`, `node`: of the merge of this group, however it comes to it. NULL: it could not
 * be held (no memory; no stage merges), and the run knows. */
const struct sk_shuffle_group *sk_shuffle_hold(struct sk_shuffle *s, uint32_t values,
                                               uint32_t node);
/* becomes a task now, also of one pack; *g is no more */
void sk_shuffle_merge(struct sk_shuffle *s, const struct sk_shuffle_group *g);
/* its packs go to the reduces as they are; *g is no more */
void sk_shuffle_pass_group(struct sk_shuffle *s, const struct sk_shuffle_group *g);
/* the i-th; NULL behind the last */
const struct sk_shuffle_group *sk_shuffle_group(const struct sk_shuffle *s, uint32_t i);

/* The longest range from `first` on that is about `target`, and no more than `most`; partitions
 * without rows behind it go along. */
uint32_t sk_shuffle_range(const struct sk_shuffle_ranges *r, uint32_t first);

/* ---- all strategies -------------------------------------------------------------------------- */

const struct sk_shuffle_ops *sk_shuffle_find(const char *name); /* NULL: there is none */
/* of the i-th, ordered by name; NULL behind the last */
const char *sk_shuffle_name(unsigned i);
/* Packs of `bytes` each that a merge takes so that what is being gathered for all ranges is a
 * quarter of memory at most; 0: fewer than two. */
uint32_t sk_shuffle_fan_in(const struct sk_shuffle_sizes *z, uint32_t ranges, uint64_t bytes);
/* For strategies that gather packs of a range until there are n of them, or a quarter of memory is
 * full. */
void sk_shuffle_gather(struct sk_shuffle *s, uint32_t n, uint32_t values, uint32_t node);
/* The node of p's range, where maps are cut into so many ranges: one after the other.
 * SK_SHUFFLE_ANY where there are fewer ranges than nodes. */
uint32_t sk_shuffle_home(const struct sk_shuffle_sizes *z, const struct sk_shuffle_pack *p,
                         uint32_t ranges);
/* Seconds that an exchange costs beside the work on its rows. Its figures: strategy.c. */
double sk_shuffle_cost(const struct sk_shuffle_sizes *z, struct sk_shuffle_layout layout);

#endif

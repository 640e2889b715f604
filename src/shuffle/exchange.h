/* exchange.h - exchanges in a run of exec: who makes the inputs of merges, cuts and reduces (a
 * gather of exec, exec/gather.h), as a strategy says (shuffle.h).
 *
 *     maps --packs--> [merges --packs-->] exchange: [cut] -> reduces
 *
 * A caller of exec gives what sk_shuffle_gathers fills in as sk_exec_conf.gathers. Pure. */
#ifndef SK_SHUFFLE_EXCHANGE_H
#define SK_SHUFFLE_EXCHANGE_H

#include "exec/gather.h"
#include "shuffle/shuffle.h"

struct sk_gathers
/* NULL: a map's packs are in one value, and none are merged. *by is borrowed */
sk_shuffle_gathers(const struct sk_shuffle_ops *by);

/* What struct sk_gather_stats of such a stage has: `by` is the strategy, "" where there is none; of
 * a stage that merges sk_merges_name, and no numbers. */
extern const char sk_merges_name[];
enum sk_exchange_stat {
    SK_XSTAT_VALUES,     /* that the strategy asked for of the last map */
    SK_XSTAT_MERGE,      /* packs in one merge, at most by now; 0: none */
    SK_XSTAT_PACKS,      /* that came */
    SK_XSTAT_BYTES,      /* of them */
    SK_XSTAT_DISK,       /* of those on disk when all had come */
    SK_XSTAT_PARTITIONS, /* 0: not known yet */
    SK_XSTAT_LARGEST,    /* bytes of the largest partition */
    SK_XSTAT_TAKEN,      /* bytes that reduces took */
    SK_XSTAT_READ        /* of them, from disk */
};

/* For tests and simulations: what a task of an exchange is. NULL: it is none. */
struct sk_pack_task;
const struct sk_pack_task *sk_exchange_task(const void *say);
uint32_t sk_exchange_run(const struct sk_kept *k); /* number of a pack, see struct sk_pack_block */

#endif

/* exchange.h - exchanges in a run of exec: the gathers (exec/gather.h) that make the inputs of
 * merges, cuts and reduces; a strategy (shuffle.h) decides which packs are merged.
 *
 *     maps --packs--> [merges --packs-->] exchange: [cut] -> reduces
 *
 * A caller of exec sets sk_exec_conf.gathers to what sk_shuffle_gathers returns. Pure. */
#ifndef SK_SHUFFLE_EXCHANGE_H
#define SK_SHUFFLE_EXCHANGE_H

#include "exec/gather.h"
#include "shuffle/shuffle.h"

/* Returns the table for sk_exec_conf.gathers. by: the strategy (borrowed); NULL: each map gives one
 * value, and no packs are merged. */
struct sk_gathers sk_shuffle_gathers(const struct sk_shuffle_ops *by);

/* Indices into sk_gather_stats.n for an exchange, whose `by` is the strategy's name ("": none). For
 * a stage that merges packs `by` is sk_merges_name, and there are no numbers. */
extern const char sk_merges_name[];
enum sk_exchange_stat {
    SK_XSTAT_VALUES,     /* number of values per map that the strategy has chosen last */
    SK_XSTAT_MERGE,      /* the largest number of packs in one merge so far; 0: no merges */
    SK_XSTAT_PACKS,      /* number of packs that have arrived */
    SK_XSTAT_BYTES,      /* bytes of all packs that have arrived */
    SK_XSTAT_DISK,       /* bytes of packs that were on disk when the last pack arrived */
    SK_XSTAT_PARTITIONS, /* number of partitions; 0: not known yet */
    SK_XSTAT_LARGEST,    /* size of the largest partition in bytes */
    SK_XSTAT_TAKEN,      /* bytes that reduces read */
    SK_XSTAT_READ        /* bytes that reduces read from disk (a part of TAKEN) */
};

/* For tests and simulations: returns the description of an exchange's task from the opaque `say` of
 * a gather. NULL: the task does not belong to an exchange. */
struct sk_pack_task;
const struct sk_pack_task *sk_exchange_task(const void *say);
uint32_t sk_exchange_run(const struct sk_kept *k); /* see struct sk_pack_block.run */

#endif

/* exchange.h - exchanges in a run of exec: the gather (exec/gather.h) that makes the inputs of
 * merges, cuts and reduces, as a strategy says (shuffle.h).
 *
 *     maps --packs--> [merges --packs-->] exchange: [cut] -> reduces
 *
 * A caller of exec sets sk_exec_conf.gathers to what sk_shuffle_gathers returns. Pure. */
#ifndef SK_SHUFFLE_EXCHANGE_H
#define SK_SHUFFLE_EXCHANGE_H

#include "exec/gather.h"
#include "shuffle/shuffle.h"

/* by NULL: a map's packs are in one value, and none are merged. *by is borrowed. */
struct sk_gathers sk_shuffle_gathers(const struct sk_shuffle_ops *by);

/* What struct sk_gather_stats has for an exchange: `by` is the strategy's name ("": none), and
 * these numbers. For a stage that merges, `by` is sk_merges_name, and there are no numbers. */
extern const char sk_merges_name[];
enum sk_exchange_stat {
    SK_XSTAT_VALUES,     /* values that the strategy last asked a map for */
    SK_XSTAT_MERGE,      /* the most packs in one merge so far; 0: no merges */
    SK_XSTAT_PACKS,      /* packs that came */
    SK_XSTAT_BYTES,      /* bytes of these packs */
    SK_XSTAT_DISK,       /* bytes of the packs that were on disk when all had come */
    SK_XSTAT_PARTITIONS, /* 0: not known yet */
    SK_XSTAT_LARGEST,    /* bytes of the largest partition */
    SK_XSTAT_TAKEN,      /* bytes that reduces read */
    SK_XSTAT_READ        /* of these, bytes that were read from disk */
};

/* For tests and simulations: what a task of an exchange is told. NULL: the task is none of an
 * exchange. */
struct sk_pack_task;
const struct sk_pack_task *sk_exchange_task(const void *say);
uint32_t sk_exchange_run(const struct sk_kept *k); /* see struct sk_pack_block.run */

#endif

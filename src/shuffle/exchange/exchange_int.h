/* exchange_int.h - shared inside exchange/: packs, and the gathers in which they wait for merges
 * and for reduces.
 *
 *     exchange.c (packs come, and are cut) -> reduces.c (inputs of reduces) -> hot.c (partitions
 *     that several reduces share) -> sizes.c
 *     told.c (answers from outside) -> merges.c (what a strategy may say; inputs of merges) ->
 *     sizes.c          packs.c (notes, formats) */
#ifndef SK_SHUFFLE_EXCHANGE_INT_H
#define SK_SHUFFLE_EXCHANGE_INT_H

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "shuffle/exchange.h"
#include "shuffle/pack.h"
#include "shuffle/told.h"

#define TAG SK_TAG_EXEC

struct sk_pack { /* parsed note of a pack; lives as long as the pack's value */
    struct sk_kept kept;
    /* RUN: the run's sample, which the same gather holds until the cut task is made */
    struct sk_blk *sample;
    struct sk_pack **place; /* the pack's entry in the table of an exchange whose input has ended */
    /* kind: enum sk_pack_kind; the pack has parts of partitions first to first + n - 1 */
    uint32_t kind, first, n;
    uint32_t last; /* one behind the last partition of which the pack has bytes */
    /* run: number of the run in the exchange; told: number of partitions of the run for which cuts
     * were reported */
    uint32_t side, run, told;
    struct sk_pack_cut part[]; /* [n] */
};
static inline struct sk_pack *sk_pack_of(const struct sk_blk *b) {
    return sk_container_of(b->kept, struct sk_pack, kept);
}
static inline struct sk_blk *sk_pack_blk(const struct sk_pack *p) { return p->kept.blk; }
static inline uint64_t sk_pack_len(const struct sk_pack_cut *c) { return (uint64_t)c->len64 * 64; }

struct sk_exchange;
struct sk_merges;
struct sk_open_group;
struct sk_xtask { /* description of a task (sk_gather_task.say) */
    struct sk_pack_task t;
    /* The match report of a split reduce is stored in packs.p[share]; 0: the report has arrived, or
     * the task makes none. */
    uint32_t share;
    /* A merge whose yields come back: the group of its packs. NULL: another task, or nobody needs
     * the yields any more. */
    struct sk_open_group *group;
};
/* Makes the description of a task; NULL: out of memory. */
struct sk_xtask *sk_xtask_new(uint32_t phase, uint32_t first, uint32_t end, uint32_t n);

struct sk_shuffle { /* one input of an exchange, as its strategy sees it */
    const struct sk_shuffle_ops *by;
    struct sk_exchange *e;
    /* the stage that merges packs between the maps and the exchange; NULL: there is none */
    struct sk_merges *m;
    uint32_t side;
    struct sk_shuffle_sizes z;
    void *state;
    /* The members below are only valid while `came` of the strategy is called: the pack, and
     * whether the strategy has said what becomes of it. */
    struct sk_pack *now;
    bool said;
    sk_rc rc;
    struct sk_err *err;
    uint64_t merge; /* the most packs that one merge has taken so far */
};

struct sk_exchange {
    struct sk_gather g;
    const struct sk_shuffle_ops *by;
    uint32_t n_inputs;
    struct sk_shuffle *in; /* [n_inputs] */
    /* running: inputs of reduces are being made; false: packs still arrive, or the cut task runs */
    bool cut, running;
    bool tables; /* true: the reduces have tables in their workers' memory */
    /* wanted: number of partitions that the user has given (0: none); n: number of partitions that
     * exist */
    uint32_t wanted, n;
    /* 1 + the number of the input whose packs several reduces of one partition may share; 0: none;
     * 1 + n_inputs: for each partition the input that has the most rows of it. */
    uint32_t spread;
    /* Bit i: if reduces share input i, each reports its matches, and one more reduce follows them
     * (plan.h). */
    uint32_t tells;
    /* 1 + the input that is shared in the partitions of the task input made last; 0: none is
     * shared */
    uint32_t shared;
    /* next: the first partition for which not all reduces are made; piece: in that partition, the
     * first pack of the shared input that no reduce has. */
    uint32_t next, piece;
    uint32_t longest; /* number of parts of the pack with the most parts */
    /* one behind the last partition that a pack may have; 0: no pack has come, or packs are runs */
    uint32_t last;
    /* For the split reduces of partition `next`: packs.p[first_told] is the first match report (0:
     * there are none); untold: number of split reduces, made or being made, whose report is
     * missing. */
    uint32_t first_told, untold;
    uint64_t total;  /* bytes of all packs that have arrived */
    uint64_t target; /* bytes that one reduce should take */
    uint64_t *bytes; /* [n]: bytes of each partition */
    /* order[packs.n]: packs sorted by their first partition; at[n + 1]: where each partition's
     * packs begin in `order`. */
    uint32_t *order, *at;
    uint64_t values; /* statistics: number of values per map that the strategy has chosen last */
    /* Statistics in bytes. disk_bytes: of packs that were on disk when reduces began; taken: of all
     * parts that reduces read; taken_disk: of those parts that were on disk. */
    uint64_t disk_bytes, taken, taken_disk;
    uint32_t n_came; /* number of packs that have arrived */
    /* All packs; sorted by (side, arrival) once the input has ended, followed by the match reports.
     * NULL: the pack was dropped, or the report has not arrived. */
    SK_VEC(struct sk_pack *) packs;
    SK_VEC(uint32_t) found;
    struct sk_blk **pending; /* [n_inputs]: a held sample whose run has not arrived yet */
    /* [n_inputs]: the pack from which reduces without rows of this input get the columns */
    struct sk_pack **columns;
    struct sk_pack *bounds;
};

/* Packs of the same partitions that wait to be merged. No two groups have a partition in common. */
struct sk_open_group {
    struct sk_shuffle_group g;
    uint32_t values, node;
    SK_VEC(struct sk_pack *) packs;
    uint32_t n_back; /* the first packs, which have come back from a merge */
    /* ---- a merge whose yields come back ---- */
    struct sk_xtask *merging;      /* NULL: none runs */
    bool again;                    /* another one begins when it has ended */
    uint64_t most;                 /* yields of more bytes pass to the reduces */
    struct sk_blk *sample;         /* the held sample of a run that the merge has not yielded yet */
    SK_VEC(struct sk_pack *) back; /* held packs that the merge has yielded */
    /* A group that was ended while it merges: its place in `closed`. */
    struct sk_list link;
};
struct sk_merges { /* the gather of a stage that merges packs */
    struct sk_gather g;
    /* Number of packs that have arrived. A pack is numbered by its arrival (ref.origin); a merged
     * pack has the number of the first of its packs. */
    uint64_t came;
    uint64_t open_bytes;
    struct sk_blk *sample; /* the held sample of a run that has not arrived yet */
    SK_VEC(struct sk_open_group *) open;
    /* Ended groups whose merges still run: what these yield passes to the reduces. */
    struct sk_list closed;
    /* Packs on which the strategy answers later (told.h), in order of arrival, from next_late on;
     * late_bytes: their size. ending: the strategy is asked what becomes of the remaining packs. */
    SK_VEC(struct sk_pack *) late;
    uint32_t next_late;
    uint64_t late_bytes;
    bool ending;
};

extern const struct sk_gather_ops sk_exchange_ops, sk_merges_ops;
static inline struct sk_exchange *sk_exchange_of(const struct sk_gather *g) {
    return sk_container_of(g, struct sk_exchange, g);
}
static inline bool sk_exchange_spent(const struct sk_exchange *e) {
    return e->running && e->next == e->n;
} /* no more inputs will be made */

/* sizes.c */
/* Returns the largest size in bytes that a reduce should have, if its partitions allow that. */
uint64_t sk_exchange_most(const struct sk_exchange *e);
/* Returns the size in bytes that a reduce should have, if all packs together have `total` bytes. */
uint64_t sk_exchange_target(const struct sk_exchange *e, uint64_t total);
/* Bytes that a reduce will take, by what is known now, if all packs have `total` bytes in the end;
 * *work: as in sk_gather_task. */
uint64_t sk_exchange_reduce_bytes(const struct sk_exchange *e, uint64_t total, uint32_t *work);
/* approximate bytes of tables per byte of input: a group of a few numbers takes 100 to 200 bytes */
#define SK_REDUCE_TABLE 8u
/* Returns the part of p with partitions a to b - 1: whole blocks, one behind the other. */
struct sk_bref sk_pack_part_of(const struct sk_pack *p, uint32_t a, uint32_t b);

/* packs.c */
struct sk_kept *sk_pack_new(const struct sk_value_note *note);
void sk_pack_gone(struct sk_kept *k);
void sk_xtask_write(const struct sk_gather *g, const void *say, const struct sk_blk *in,
                    struct sk_wr *w);
void sk_xtask_forget(void *say);

/* reduces.c */
/* Starts to make reduces; called when all packs have arrived and the cuts of all runs are known. */
sk_rc sk_reduces_begin(struct sk_exchange *e, struct sk_err *err) SK_MUST_USE;
/* Prepares the input of the next reduce, if there is one. */
sk_rc sk_reduces_refill(struct sk_exchange *e, struct sk_err *err) SK_MUST_USE;

/* hot.c: about partitions a to b - 1, whose packs are listed in e->found */
/* Returns 1 + the input that several reduces may share; 0: none. */
uint32_t sk_hot_shared(const struct sk_exchange *e, uint32_t a, uint32_t b);
uint32_t sk_hot_piece_end(const struct sk_exchange *e, uint32_t a, uint32_t b);
bool sk_hot_tells(const struct sk_exchange *e, uint32_t a, uint32_t b);
/* Returns the index in `packs` for the match report of the split reduce that is being made; 0: out
 * of memory. */
uint32_t sk_hot_make_share(struct sk_exchange *e);
sk_rc sk_hot_add_told(struct sk_exchange *e, struct sk_err *err) SK_MUST_USE;
/* Stores the match report p of a split reduce; afterwards the next input may be made. */
void sk_hot_told(struct sk_exchange *e, struct sk_xtask *say, struct sk_pack *p);

/* merges.c */
uint32_t sk_shuffle_ask_values(struct sk_shuffle *s);
bool sk_merges_create(struct sk_gather **out);

#endif

/* exchange_int.h - shared inside exchange/: packs, what waits for merges and for reduces.
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

struct sk_pack { /* what the note of a pack says; lives as long as its value */
    struct sk_kept kept;
    struct sk_blk *sample;   /* RUN: held by the same gather, until the cut task has it */
    struct sk_pack **place;  /* in the table of an exchange whose input has ended */
    uint32_t kind, first, n; /* enum sk_pack_kind; parts of partitions first to first + n - 1 */
    uint32_t last;           /* behind the last partition with bytes of it */
    /* run: its number in the exchange; told: partitions that the cut task has said of it */
    uint32_t side, run, told;
    struct sk_pack_cut part[]; /* [n] */
};
static inline struct sk_pack *sk_pack_of(const struct sk_blk *b) {
    return sk_container_of(b->kept, struct sk_pack, kept);
}
static inline struct sk_blk *sk_pack_blk(const struct sk_pack *p) { return p->kept.blk; }
static inline uint64_t sk_pack_len(const struct sk_pack_cut *c) { return (uint64_t)c->len64 * 64; }

struct sk_xtask { /* what is said of a task (sk_gather_task.say) */
    struct sk_pack_task t;
    /* where what it has to tell goes: packs.p[share]; 0: it has told, or tells nothing */
    uint32_t share;
};
/* NULL: no memory */
struct sk_xtask *sk_xtask_new(uint32_t phase, uint32_t first, uint32_t end, uint32_t n);

struct sk_exchange;
struct sk_merges;
struct sk_shuffle { /* one input of an exchange, as its strategy sees it */
    const struct sk_shuffle_ops *by;
    struct sk_exchange *e;
    struct sk_merges *m; /* the stage between the maps and the exchange; NULL: none */
    uint32_t side;
    struct sk_shuffle_sizes z;
    void *state;
    /* while it is told of a pack: */
    struct sk_pack *now;
    bool said;
    sk_rc rc;
    struct sk_err *err;
    uint64_t merge; /* packs in one merge, at most */
};

struct sk_exchange {
    struct sk_gather g;
    const struct sk_shuffle_ops *by;
    uint32_t n_inputs;
    struct sk_shuffle *in; /* [n_inputs] */
    /* running: its reduces are being made; before, its input comes, or the cut task works */
    bool cut, running;
    bool tables;        /* its reduces keep tables in memory of their workers */
    uint32_t wanted, n; /* partitions: of the user, 0: any; that there are */
    /* spread: 1 + the input whose parts of one partition several reduces may share; 0: none; 1 +
     * inputs: that with most rows in it */
    uint32_t spread;
    /* bit i: reduces that share input i tell, and one comes behind them (plan.h) */
    uint32_t tells;
    /* the same of the partitions of the input that was made last: never more than inputs */
    uint32_t shared;
    /* first partition that not all reduces have that it needs; the first pack of `spread` that none
     * of them has */
    uint32_t next, piece;
    uint32_t longest; /* parts of the pack that has most */
    /* Of shares of `next`: packs.p[first_told] is what the first one tells, 0: there are none;
     * tasks, and inputs, that have not told. */
    uint32_t first_told, untold;
    uint64_t total;  /* bytes that came */
    uint64_t target; /* bytes that a reduce takes */
    uint64_t *bytes; /* [n] of each partition */
    /* [packs.n] packs by their first partition; [n + 1] where those of each begin */
    uint32_t *order, *at;
    uint64_t values; /* for statistics: that the strategy asked for last */
    uint64_t disk_bytes, taken,
        /* likewise: of packs on disk when reduces began; of parts that reduces took; of them from
         * disk */
        taken_disk;
    uint32_t n_came; /* packs of the input */
    /* In the order (side, arrival) once the input has ended, and behind them what shares told;
     * NULL: dropped, or not told yet. */
    SK_VEC(struct sk_pack *) packs;
    SK_VEC(uint32_t) found;
    struct sk_blk **pending; /* [n_inputs] held: a sample whose run has not come */
    /* [n_inputs] a pack that gives its columns to each reduce that has no rows of this input */
    struct sk_pack **columns;
    struct sk_pack *bounds;
};

/* packs of the same partitions that wait to be merged; no two groups have a partition in common */
struct sk_open_group {
    struct sk_shuffle_group g;
    uint32_t values, node;
    SK_VEC(struct sk_pack *) packs;
};
struct sk_merges { /* of a stage that merges packs */
    struct sk_gather g;
    /* packs; the number of one is its place in their order (ref.origin), that of a merged one the
     * place of its first */
    uint64_t came;
    uint64_t open_bytes;
    struct sk_blk *sample; /* held: of a run that has not come */
    SK_VEC(struct sk_open_group *) open;
    /* Packs on which the strategy answers later (told.h), in the order in which they came, from
     * next_late on; their bytes. ending: it is asked what becomes of the rest. */
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
/* bytes of a reduce, if that can be */
uint64_t sk_exchange_most(const struct sk_exchange *e);
/* bytes of a reduce, of so many in all */
uint64_t sk_exchange_target(const struct sk_exchange *e, uint64_t total);
struct sk_bref sk_pack_part_of(const struct sk_pack *p, uint32_t a,
                               /* its part of partitions a to b - 1: whole blocks, one behind the
                                * other */
                               uint32_t b);

/* packs.c */
struct sk_kept *sk_pack_new(const struct sk_value_note *note);
void sk_pack_gone(struct sk_kept *k);
void sk_xtask_write(const struct sk_gather *g, const void *say, const struct sk_blk *in,
                    struct sk_wr *w);
void sk_xtask_forget(void *say);

/* reduces.c */
/* all packs are there, and say which parts are whose */
sk_rc sk_reduces_begin(struct sk_exchange *e, struct sk_err *err) SK_MUST_USE;
/* the next reduce's input is ready, if there is one */
sk_rc sk_reduces_refill(struct sk_exchange *e, struct sk_err *err) SK_MUST_USE;

/* hot.c: of partitions a to b - 1, whose packs are in e->found */
/* 1 + the input that reduces may share; 0: none */
uint32_t sk_hot_shared(const struct sk_exchange *e, uint32_t a, uint32_t b);
uint32_t sk_hot_piece_end(const struct sk_exchange *e, uint32_t a, uint32_t b);
bool sk_hot_tells(const struct sk_exchange *e, uint32_t a, uint32_t b);
uint32_t sk_hot_make_share(struct sk_exchange *e); /* its number; 0: no memory */
sk_rc sk_hot_add_told(struct sk_exchange *e, struct sk_err *err) SK_MUST_USE;
/* a share has told; the next input may be made */
void sk_hot_told(struct sk_exchange *e, struct sk_xtask *say, struct sk_pack *p);

/* merges.c */
uint32_t sk_shuffle_ask_values(struct sk_shuffle *s);
bool sk_merges_create(struct sk_gather **out);

#endif

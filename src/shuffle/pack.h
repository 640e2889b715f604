/* pack.h - packs, and what a task of an exchange is told of them: the formats that the driver
 * (exchange/) and workers share.
 *
 * A pack is one value: whole blocks (block.h), one a part, one behind the other, each at a multiple
 * of 64 bytes from the value's beginning and as long as a multiple of 64; no head of its own. The
 * value is as long as the note of its yield says. Dead letters of a stage of packs have a block's
 * note. */
#ifndef SK_SHUFFLE_PACK_H
#define SK_SHUFFLE_PACK_H

#include "base/wire.h"
#include "exec/gather.h"

enum sk_pack_kind {
    /* Part i is of partition first + i; one without rows has no bytes. A task whose output has no
     * rows gives one part that is an empty block, for its columns. */
    SK_PACK_PARTS = 1,
    /* Rows in the order of the keys, cut into pages (blocks) of about 32 KiB; no parts are listed.
     * A run without rows has one page, an empty block. */
    SK_PACK_RUN,
    /* Of the run that the task yields next: a block with the key columns of each page's first row,
     * and the page's rows, offset and length. */
    SK_PACK_SAMPLE,
    /* Of a cut task: which pages of run `run` belong to partitions first, first + 1, ...; behind
     * its last partition come those of the next run, from partition 0 on. The value itself is
     * empty. All partitions of each run, once, in any order. */
    SK_PACK_CUTS,
    /* Of a cut task, once or not at all: a block that goes to every reduce. */
    SK_PACK_BOUNDS,
    /* Of a reduce that has a share, once, before anything else: what goes to the one behind all
     * that have a share of the same partitions. */
    SK_PACK_MATCH_REPORT
};
struct sk_pack_note {             /* begins as a struct sk_value_note does */
    uint32_t magic, kind;         /* SK_PACK_NOTE; enum sk_pack_kind */
    uint64_t rows, bytes, schema; /* of the whole value; schema as in a block's note */
    uint32_t first;               /* PARTS, CUTS: number of a partition */
    uint32_t run;                 /* CUTS: its sample's place among the cut task's blocks */
    uint32_t n, zero;             /* PARTS, CUTS: so many of these follow: */
};
struct sk_pack_part {     /* of PARTS; they lie one behind the other */
    uint32_t len64, rows; /* length in units of 64 bytes */
};
/* of CUTS: whole pages; neighbours may share one. The page of a run without rows is of partition
 * 0 */
struct sk_pack_cut {
    /* row: of its first row, in the run; rows: about, and more than 0 where it has any */
    uint32_t off64, len64, row, rows;
};
_Static_assert(offsetof(struct sk_pack_note, first) == sizeof(struct sk_value_note),
               "it begins as a struct sk_value_note does");
/* of a note: more are more yields */
enum { SK_PACK_NOTE = SK_VALUE_NOTE, SK_PACK_PARTS_MAX = 120, SK_PACK_CUTS_MAX = 60 };

bool sk_pack_note_ok(struct sk_bytes note); /* whole, and within its bounds */

/* ---- tasks --------------------------------------------------------------------------------------
 *
 *   CUT     once, before all reduces, where the exchange cuts runs, and there are any. Blocks: the
 *           samples, in the order (input, task, yield); partitions 0 to n. It yields CUTS and
 *           BOUNDS only; operators fused behind the exchange do not see it.
 *   MERGE   each joins packs of the same partitions [first, behind the last), in the order (task,
 *           yield), or runs (0 to 0). It yields packs of these partitions, each of them once, or
 *           runs with their samples, in as many values as its hint says.
 *   SPLIT   as REDUCE, for one share of the input that is shared: one of several, where these tell
 *           (struct sk_exchange_desc). It yields a report of matches first, in the place of what
 * depends on all shares. a report of matches and what came before it must be the same whenever it
 * runs. UNMATCHED behind them: the parts of all inputs but the shared one, of which it has the
 * columns; and what each share told, in their order, with input number SK_SIDE_REPORTS. REDUCE each
 * makes partitions [first, behind the last). Blocks: the bounds, if there are any, with input
 * number SK_SIDE_BOUNDS; then the parts, in the order (input, task, yield), each a sequence of
 * whole blocks. An input that has no rows for it has one part with n_rows 0, for its columns: its
 * rows, if it has any, are no rows of this reduce. Without any pack of an input there is none of
 * it. A reduce without rows gives one empty block, if the user asked for so many partitions, or
 * nothing.
 *
 * The hint of a task that gives packs: so many values these (or its runs, each with its sample)
 * should be in, each of as many neighbouring partitions (rows), more where one would have too many
 * parts. */
enum sk_pack_phase {
    SK_PHASE_NONE,
    SK_PHASE_CUT,
    SK_PHASE_REDUCE,
    SK_PHASE_MERGE,
    SK_PHASE_SPLIT_REDUCE,
    SK_PHASE_UNMATCHED
};
#define SK_SIDE_BOUNDS UINT32_MAX
#define SK_SIDE_REPORTS (UINT32_MAX - 1)
static inline bool sk_phase_reduces(uint32_t phase) {
    return phase == SK_PHASE_REDUCE || phase == SK_PHASE_SPLIT_REDUCE ||
           phase == SK_PHASE_UNMATCHED;
}

struct sk_pack_task {       /* what stands behind the argument of a task (exec.h): five u32 */
    uint32_t phase;         /* enum sk_pack_phase */
    uint32_t first, end, n; /* its partitions are first to end - 1 of n; of a merge n is 0 */
    /* 1 + the input that several reduces of these partitions may share (0: none): the order of
     * their rows begins with it */
    uint32_t shared;
};
struct sk_pack_block { /* and of each of its blocks: u64, u32, u32; of a merge bytes, too */
    uint64_t length;   /* the part is [row0, row0 + length) of the argument */
    /* number of the pack in the order (input, task, yield), from 0 on; of runs what `run` of their
     * CUTS is */
    uint32_t run;
    /* of the part's first row, in its run; of packs of partitions the first partition that it has
     * bytes of */
    uint32_t row;
    struct sk_bytes parts; /* MERGE: u32 lengths of its parts in units of 64 bytes */
};
void sk_pack_task_write(struct sk_wr *w, const struct sk_pack_task *t);
struct sk_pack_task sk_pack_task_read(struct sk_rd *r);
void sk_pack_block_write(struct sk_wr *w, uint32_t phase, const struct sk_pack_block *b);
struct sk_pack_block sk_pack_block_read(struct sk_rd *r, uint32_t phase);

#endif

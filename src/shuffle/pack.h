/* pack.h - the formats that the driver (exchange/) and the workers share: packs, their notes, and
 * the descriptions of an exchange's tasks.
 *
 * A pack is one value that consists of whole blocks (block.h), one for each part, without a header.
 * Each block begins at a multiple of 64 bytes from the value's beginning and is padded to a
 * multiple of 64. The note of the yield says how long the value is. Dead letters of a stage whose
 * output is packs have a block's note. */
#ifndef SK_SHUFFLE_PACK_H
#define SK_SHUFFLE_PACK_H

#include "base/wire.h"
#include "exec/gather.h"

enum sk_pack_kind {
    /* Part i has the rows of partition first + i; a part without rows has no bytes. A task whose
     * output has no rows yields one part with an empty block, for the columns. */
    SK_PACK_PARTS = 1,
    /* Rows in the order of the keys, cut into pages (blocks) of about 32 KiB. The note lists no
     * parts. A run without rows has one page, an empty block. */
    SK_PACK_RUN,
    /* A sample of the run that the task yields next: a block with the key columns of each page's
     * first row, and the number of rows, the offset and the length of each page. */
    SK_PACK_SAMPLE,
    /* From a cut task: which pages of run `run` belong to partitions first, first + 1, ...; behind
     * the run's last partition follow the partitions of the next run, from 0 on. The value itself
     * is empty. In all notes together each partition of each run occurs once, in any order. */
    SK_PACK_CUTS,
    /* From a cut task, at most once: a block that goes to every reduce. */
    SK_PACK_BOUNDS,
    /* From a split reduce, once, before its other yields: the match report for the reduce that
     * yields the unmatched rows of the same partitions. */
    SK_PACK_MATCH_REPORT
};
struct sk_pack_note {             /* the first members are those of struct sk_value_note */
    uint32_t magic, kind;         /* SK_PACK_NOTE; enum sk_pack_kind */
    uint64_t rows, bytes, schema; /* size of the whole value; schema as in a block's note */
    uint32_t first;               /* PARTS, CUTS: number of the first partition */
    uint32_t run;                 /* CUTS: index of the run's sample among the cut task's blocks */
    /* n: PARTS, CUTS: number of the structs that follow the note: struct sk_pack_part or
     * sk_pack_cut */
    uint32_t n, zero;
};
/* a part in the note of PARTS; the parts are one behind the other in the value */
struct sk_pack_part {
    uint32_t len64, rows; /* length in units of 64 bytes */
};
/* A cut in the note of CUTS: the whole pages that have rows of one partition; two neighbouring
 * partitions may have a page in common. The page of a run without rows belongs to partition 0. */
struct sk_pack_cut {
    /* row: index in the run of the first row of these pages; rows: estimated number of rows, above
     * 0 if there are any */
    uint32_t off64, len64, row, rows;
};
_Static_assert(offsetof(struct sk_pack_note, first) == sizeof(struct sk_value_note),
               "it begins as a struct sk_value_note does");
/* The most parts and cuts in one note; a task with more of them yields more values. */
enum { SK_PACK_NOTE = SK_VALUE_NOTE, SK_PACK_PARTS_MAX = 120, SK_PACK_CUTS_MAX = 60 };

/* True if the note is complete and its numbers are within their limits. */
bool sk_pack_note_ok(struct sk_bytes note);

/* ---- tasks --------------------------------------------------------------------------------------
 *
 *   CUT        Runs once, before all reduces, if the exchange cuts runs and there are any. Its
 *              blocks are the samples, in the order (input, task, yield); its partitions are 0 to
 *              n. It yields CUTS and BOUNDS only, which operators fused behind the exchange do not
 *              see.
 *   MERGE      Merges packs of the same partitions [first, end), in the order (task, yield), or
 *              runs (first and end are 0). It yields packs of these partitions, each partition
 *              once, or runs with their samples, in as many values as its hint says.
 *   REDUCE     Makes the output of partitions [first, end). Its blocks are the bounds, if there
 *              are any, with input number SK_SIDE_BOUNDS; then the parts, in the order (input,
 *              task, yield), each of which is a sequence of whole blocks.
 *   SPLIT      As REDUCE, but with only some of the packs of the input that several reduces of a
 *   REDUCE     hot partition share (`shared`), if these must report matches (struct
 *              sk_exchange_desc). It yields its match report first, in place of the rows that
 *              depend on all split reduces. The report and the yields before it must be the same
 *              in each attempt.
 *   UNMATCHED  One task behind the split reduces of a partition. It has the match report of each
 *              split reduce, in their order, with input number SK_SIDE_REPORTS; and the parts of
 *              all inputs but the shared one, of which it has the columns only.
 *
 * If an input has no rows for a reduce, the reduce gets one part of it with n_rows 0, for the
 * columns: rows in that part do not belong to this reduce. It gets no part of an input without
 * packs. A reduce without rows yields one empty block if the user has given a number of partitions,
 * else nothing.
 *
 * The hint of a task that yields packs says in how many values it should yield them (or in how many
 * runs, each with its sample). Each value has the same number of neighbouring partitions (each run
 * the same number of rows); there are more values if one would have too many parts. */
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

/* The description of an exchange's task, which follows the argument of a stage's task (exec.h):
 * five u32. */
struct sk_pack_task {
    uint32_t phase;         /* enum sk_pack_phase */
    uint32_t first, end, n; /* the task makes partitions [first, end) of n; for a merge n is 0 */
    /* 1 + the number of the input that several reduces of these partitions may share; 0: none. The
     * task's output is in the order of this input's rows. */
    uint32_t shared;
};
/* The description of each of the task's blocks follows: u64, u32, u32; for a merge also bytes. */
struct sk_pack_block {
    /* length in bytes: the part is [row0, row0 + length) of the argument's value */
    uint64_t length;
    /* For a pack of partitions its number, from 0 on, in the order (input, task, yield); for a run
     * the `run` of its CUTS. */
    uint32_t run;
    /* For a run: index in the run of the part's first row. For a pack of partitions: the first
     * partition of which the part has bytes. */
    uint32_t row;
    struct sk_bytes parts; /* MERGE: the lengths of its parts (u32), in units of 64 bytes */
};
void sk_pack_task_write(struct sk_wr *w, const struct sk_pack_task *t);
struct sk_pack_task sk_pack_task_read(struct sk_rd *r);
void sk_pack_block_write(struct sk_wr *w, uint32_t phase, const struct sk_pack_block *b);
struct sk_pack_block sk_pack_block_read(struct sk_rd *r, uint32_t phase);

#endif

/* work.h - what the tasks of an exchange do to blocks: a map makes packs or sorted runs of a batch,
 * a cut task says where runs are cut, a reduce makes batches of its slices. Pure functions over
 * Arrow batches in place: no engine, no Python, no files.
 *
 * *What* is done (struct sk_what) is written where the plan is made, travels in the parameters of
 * the operators, and is read once a task. How it is wired (which stages, how many reduces, which
 * slices) is exec's (docs/design/exchange.md). A piece of work gives values (struct sk_value), one
 * at a time, in an order that depends on the arguments alone; a value is measured first and written
 * then, into memory of the caller: the place that the store gives.
 *
 * Order, of keys and of what is equal: docs/design/kernels.md. Rows that are equal stay in the
 * order of (run, row); a hash partition has its rows in the order of (side, map, row). So a result
 * depends neither on workers nor on memory.
 *
 * Threads: a piece of work is one thread's; different ones run side by side. Errors: SK_EINVAL
 * names column and type; SK_ENOMEM; SK_ECORRUPT. */
#ifndef SK_WORK_H
#define SK_WORK_H

#include "base/base.h"
#include "base/err.h"
#include "block/block.h"
#include "kernel/kernel.h"

/* ---- what ---- */

/* Partitions of an exchange of whose user asks for no number: fine, so that none is large against
 * memory, and none has to be guessed before sizes are known. */
#define SK_WHAT_PARTITIONS 96
/* Rows that a map takes at a time: of so many times the bytes that a block may have. Fewer and
 * longer packs and runs are cheaper to merge; all of them are in memory twice while they are
 * written. */
#define SK_WHAT_MAP_BLOCKS 4

/* Adding one: a value here, a row in the table of what.c (how its rows are put into partitions, how
 * a reduce makes batches of its slices), the functions. */
enum sk_what_kind {
    /* runs in the order of the keys, merged. With bounds (sk_map_input): parts that are sorted, cut
     * where bounds lie */
    SK_WHAT_SORT,
    SK_WHAT_RANDOM, /* each row to a partition by chance, each partition in a random order */
    SK_WHAT_HASH,   /* equal keys to one partition, in the order of their maps */
    SK_WHAT_EVEN,   /* the rows of each map in n neighbouring pieces of as many rows */
    /* runs of rows, or of states that were made of rows, become a row a group, in the order of the
     * keys; without keys one partition has all */
    SK_WHAT_AGGREGATE,
    SK_WHAT_KINDS
};

struct sk_what_key {
    char *name; /* of a column; the first of that name */
    bool descending, nulls_first;
};

struct sk_what {
    enum sk_what_kind kind;
    uint32_t n_partitions; /* of a map's output; of runs: without a meaning */
    bool groups;           /* equal keys are never cut */
    /* HASH: the rows of a partition are in the order of the keys, and a reduce makes one
     * partition */
    bool sorted;
    /* what a reduce makes is one block; else blocks are of about the target's bytes */
    bool one_block;
    bool own_reduce; /* its reduces are the operator's own: sk_work_reduce is a part of them at most
                      */
    uint64_t seed;   /* RANDOM */
    uint64_t limit;  /* SORT: only the first so many rows are wanted; 0: all */
    uint32_t n_keys;
    struct sk_what_key *keys;
    uint32_t n_aggs; /* AGGREGATE */
    /* column: of the batches of rows, whose first columns are the keys; what it points to is its
     * own */
    struct sk_agg *aggs;
};
/* By its name in the table of what.c: "sort", "random", "hash", "even", "aggregate". SK_EINVAL. */
sk_rc sk_what_kind_find(const char *name, enum sk_what_kind *out, struct sk_err *err) SK_MUST_USE;
/* Wire (base/wire.h): u32 version (2), u32 kind, u32 partitions, u32 flags (1: groups, 2: one
 * block, 4: sorted), u64 seed, u64 limit, u32 keys, then of each: bytes name, u32 flags (1:
 * descending, 2: nulls first); u32 aggregates, of each: u32 kind, column, flags (1: ignore nulls,
 * 2: NaN is null, 4: wide, 8: flatten), ddof, k, u64 q and of quantiles k more (bits of doubles),
 * bytes name, bytes name of values. Returns the length needed; writes nothing where it is more than
 * cap. */
size_t sk_what_write(const struct sk_what *w, void *buf, size_t cap);
/* SK_EINVAL: not of this version, or damaged. */
sk_rc sk_what_read(struct sk_bytes wire, struct sk_what **out, struct sk_err *err) SK_MUST_USE;
void sk_what_destroy(struct sk_what *w); /* NULL is fine */

/* ---- values ---- */

enum sk_value_kind {
    SK_VALUE_BLOCK, /* of a reduce: one block */
    SK_VALUE_PARTS, /* parts of partitions first, first + 1, ...: at most SK_VALUE_PARTS_MAX */
    /* of the run that comes next: a row a page: its first row's keys ("0", "1", ...), then rows,
     * offset, length (uint64); and one of its last row: keys, 0, length of the run, 0 */
    SK_VALUE_SAMPLE,
    SK_VALUE_RUN, /* pages of about 32 KiB, in order; one without rows: one empty page */
    /* no bytes; parts of run `run` for partitions first, first + 1, ...: at most
     * SK_VALUE_CUTS_MAX */
    SK_VALUE_CUTS,
    /* n - 1 rows: keys ("0", "1", ...) and number of the run of the row at which a partition
     * begins */
    SK_VALUE_BOUNDS
};
#define SK_VALUE_PARTS_MAX 120u
#define SK_VALUE_CUTS_MAX 60u

struct sk_value_part {
    uint64_t off, len, row,
        /* off and len: multiples of 64, off from the value's begin; of CUTS: in the run, row is the
         * first one's, rows is about. len 0: nothing */
        rows;
};

struct sk_value { /* whole blocks one behind the other, each at a multiple of 64 bytes; read-only */
    enum sk_value_kind kind;
    uint32_t schema; /* checksum (struct sk_block_sizes); 0: no block */
    /* bytes: of data (sk_block_nbytes); size: what write fills, a multiple of 64 but of BLOCK */
    uint64_t rows, bytes, size;
    uint32_t first, run, n;
    struct sk_value_part *parts; /* [n], of PARTS and CUTS */
    uint32_t n_blocks;
    struct sk_block_plan **blocks;
    uint64_t *at; /* [n_blocks] where each begins */
    void *mem[3]; /* what the plans point to, freed with it */
};
/* dst: 64-byte aligned, v->size bytes. What the work was given must still be there. */
void sk_value_write(const struct sk_value *v, uint8_t *dst);
void sk_value_destroy(struct sk_value *v); /* NULL is fine */

/* ---- work ---- */

struct sk_work;
/* The next value, the caller's; *out NULL: that was the last one. After an error nothing more may
 * be asked. */
sk_rc sk_work_next(struct sk_work *w, struct sk_value **out, struct sk_err *err) SK_MUST_USE;
void sk_work_destroy(struct sk_work *w); /* NULL is fine */

struct sk_map_input { /* all of it outlives the work and its values */
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    /* number of the map: seeds what is drawn, and where the first piece of EVEN goes */
    uint64_t seq;
    /* in how many values the pack is to be, or in how many runs: neighbouring partitions,
     * neighbouring keys; 0: one */
    uint32_t values;
    /* rows that this map has had before: a map that gets more than it wants to hold makes several
     * packs or runs */
    uint64_t row0;
    /* SORT: NULL, or n_partitions - 1 values of the first key in its order, one column; a row that
     * equals one goes behind it, of a descending key before it: so the partitions are the same
     * ones, the other way round */
    const struct ArrowSchema *bounds_schema;
    const struct ArrowArray *bounds;
};
/* Of the whole batch: PARTS (more than `values` where its partitions need more), or SAMPLEs, each
 * with its RUN. Scratch: 16 to 32 bytes a row. */
sk_rc sk_work_map(const struct sk_what *what, const struct sk_map_input *in, struct sk_work **out,
                  struct sk_err *err) SK_MUST_USE;

struct sk_slice { /* batches of one map or run, in order; outlives the work and its values */
    const struct ArrowArray *const *batches;
    const struct ArrowSchema *const *schemas; /* AGGREGATE: of each batch; else unused */
    uint32_t n;
    bool columns_only; /* its rows, if it has any, are not wanted */
    uint32_t run;      /* of runs: its number, as the cut task had it */
    /* of the first batch, where partitions are told apart (SK_WHAT_RANDOM): then each batch is one
     * partition */
    uint32_t partition;
};
/* BOUNDS, then CUTS of each sample. samples: one a run in the order of runs, all of one schema.
 * Cuts follow the bytes of pages. */
sk_rc sk_work_cut(const struct sk_what *what, const struct ArrowSchema *schema,
                  const struct ArrowArray *const *samples, uint32_t n_runs, uint32_t n_partitions,
                  struct sk_work **out, struct sk_err *err) SK_MUST_USE;

struct sk_merge_input {               /* all of it outlives the work and its values */
    const struct ArrowSchema *schema; /* of all batches */
    /* whole packs of partitions [first, first + n), or runs, in order; columns_only, run and
     * partition are without meaning */
    const struct sk_slice *slices;
    uint32_t n_slices;
    uint32_t first, n;            /* n 0: runs */
    const uint32_t *const *parts; /* [n_slices][n]: not 0: the pack has a batch of this partition */
    uint32_t values;              /* in how many values the result is to be, as in sk_map_input */
};
/* PARTS of partitions [first, first + n), or SAMPLEs, each with its RUN. What reduces make of it is
 * what they make of the packs themselves. */
sk_rc sk_work_merge(const struct sk_what *what, const struct sk_merge_input *in,
                    struct sk_work **out, struct sk_err *err) SK_MUST_USE;

struct sk_reduce_input {
    const struct ArrowSchema *schema; /* of all batches */
    const struct sk_slice *slices;    /* in order of (side, map) */
    uint32_t n_slices;
    uint32_t first, end, n;                  /* makes partitions [first, end) of n */
    uint64_t target_bytes;                   /* of a block, about */
    const struct ArrowSchema *bounds_schema; /* of a sort that was cut: the BOUNDS; else NULL */
    const struct ArrowArray *bounds;
};
/* AGGREGATE: whether batches of these schemas can be reduced as they are. Else keys and values have
 * to be cast to one type each first; of states only what keeps values. Then the first batch of rows
 * (it may be empty) has the types of all. */
bool sk_work_aggregates(const struct sk_what *what, const struct ArrowSchema *const *schemas,
                        uint32_t n);
/* BLOCKs with the rows of these partitions. Where there is no row: one empty block, which keeps the
 * schema. A block is written before the next one is asked for. AGGREGATE: slices are sorted by the
 * keys; it works in about target_bytes of memory, but for a single group that needs more. */
sk_rc sk_work_reduce(const struct sk_what *what, const struct sk_reduce_input *in,
                     struct sk_work **out, struct sk_err *err) SK_MUST_USE;

/* ---- states: what a map of AGGREGATE makes of rows, where that is fewer; they go through
 * sk_work_map as rows do ---- */

struct sk_states;
/* For batches of rows or of states like this one, whose schema outlives it. all: it takes all rows.
 * SK_EINVAL: an aggregate cannot be of its column. */
sk_rc sk_states_create(const struct sk_what *what, const struct ArrowSchema *schema, bool all,
                       struct sk_states **out, struct sk_err *err) SK_MUST_USE;
/* Takes the first *taken rows of the batch (states: all; keys and what keeps values are of the
 * types that it was made for); the others, and all batches from now on, are to be sent as they are:
 * states of them would hardly be fewer (kernel.h). */
sk_rc sk_states_add(struct sk_states *s, const struct ArrowSchema *schema,
                    const struct ArrowArray *batch, uint64_t *taken,
                    struct sk_err *err) SK_MUST_USE;
/* The plan of all states as a batch, or of their results, sorted or in the order of the states
 * (kernel.h); s must stay as it is while the plan is used. SK_ERANGE: a sum that does not fit. */
sk_rc sk_states_measure(struct sk_states *s, enum sk_result which, struct sk_block_plan **plan,
                        uint64_t *size, struct sk_err *err) SK_MUST_USE;
uint64_t sk_states_rows(const struct sk_states *s); /* taken */
/* of memory, as sk_groupby_bytes; the batch of all states needs about as much again */
uint64_t sk_states_bytes(const struct sk_states *s);
void sk_states_destroy(struct sk_states *s); /* NULL is fine */

#endif

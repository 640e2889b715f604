/* work.h - the work of an exchange's tasks on blocks: a map makes packs or sorted runs of a batch,
 * a merge makes one pack or run of several, a cut task decides where runs are cut, a reduce makes
 * batches of its slices. Pure functions over Arrow batches in place: no engine, no Python, no
 * files.
 *
 * *What* is done (struct sk_what) is encoded when the plan is made, is sent in the parameters of
 * the operators, and is decoded once per task. The wiring (which stages, how many reduces, which
 * slices) is not decided here (docs/design/exchange.md). A piece of work makes values (struct
 * sk_value), one at a time, in an order that depends on the arguments alone; a value is first
 * measured and then written into the caller's memory, its final place in the store.
 *
 * The order of keys: docs/design/kernels.md. Rows with equal keys stay in the order of (run, row);
 * a hash partition has its rows in the order of (side, map, row). So a result depends neither on
 * workers nor on memory.
 *
 * Threads: one thread at a time uses a piece of work; different pieces of work may run side by
 * side. Errors: SK_EINVAL names column and type; SK_ENOMEM; SK_ECORRUPT. */
#ifndef SK_WORK_H
#define SK_WORK_H

#include "base/base.h"
#include "base/err.h"
#include "block/block.h"
#include "kernel/kernel.h"

/* ---- the description of what an exchange does ---- */

/* Default number of partitions of an exchange. It is large enough that partitions are small
 * compared to memory, so the number needs no estimate of the data's size. */
#define SK_WHAT_PARTITIONS 96
/* A map takes input of this many times the bytes that a block may have. Fewer and longer packs and
 * runs are cheaper to merge, but while a map writes its output, input and output are both in
 * memory. */
#define SK_WHAT_MAP_BLOCKS 4

/* To add a kind: add a value here and a row in the table of what.c (how rows are assigned to
 * partitions, how a reduce makes batches of its slices), and write the functions that the row
 * names. */
enum sk_what_kind {
    /* Maps make runs in the order of the keys, and reduces merge them. With bounds (sk_map_input),
     * maps make sorted parts that are cut at the bounds. */
    SK_WHAT_SORT,
    SK_WHAT_RANDOM, /* each row goes to a random partition; each partition gets a random order */
    SK_WHAT_HASH,   /* rows of equal keys go to one partition, in the order of their maps */
    SK_WHAT_EVEN,   /* the rows of each map are cut into n neighbouring pieces of equal size */
    /* Rows, or states made of rows, are grouped by key; each group gives one row, in the order of
     * the keys. Without keys one partition has all rows. */
    SK_WHAT_AGGREGATE,
    /* The rows of two sides that have equal keys, side by side. Reduces only: the maps of a join
     * are of kind HASH, each with the keys of its own side. */
    SK_WHAT_JOIN,
    SK_WHAT_KINDS
};

struct sk_what_key {
    char *name; /* name of a column; if several columns have that name, the first is meant */
    bool descending, nulls_first;
};

struct sk_what_join {
    enum sk_join_kind kind;
    char **right; /* [n_keys]: the key's columns on the right side; `keys` has those of the left */
    /* what is appended to names that both sides have, left and right; "": nothing */
    char *suffix[2];
};

struct sk_what {
    enum sk_what_kind kind;
    uint32_t n_partitions; /* number of partitions that a map makes; unused for runs */
    bool groups;           /* true: rows with equal keys always go to the same partition */
    /* SORT with `groups`: true: of the rows with equal keys only the first is kept */
    bool firsts;
    /* SORT with `groups`: true: a block of a reduce ends at the end of a group, however large that
     * is */
    bool whole_groups;
    /* HASH: true: rows of a partition are sorted by the keys, and each reduce makes one
     * partition */
    bool sorted;
    /* true: a reduce makes one block; false: blocks of about target_bytes */
    bool one_block;
    /* true: the operator has a reduce of its own, which may use sk_work_reduce */
    bool own_reduce;
    uint64_t seed;  /* RANDOM: seed of the draws */
    uint64_t limit; /* SORT: number of first rows that are wanted; 0: all rows */
    uint32_t n_keys;
    struct sk_what_key *keys;
    uint32_t n_aggs; /* AGGREGATE: number of aggregates */
    /* [n_aggs]. `column` of an aggregate is an index in batches of rows, whose first columns are
     * the keys. This struct owns the memory to which the aggregates point. */
    struct sk_agg *aggs;
    struct sk_what_join join; /* JOIN; what it points to is owned */
};
/* Finds a kind by its name in the table of what.c: "sort", "random", "hash", "even", "aggregate".
 * SK_EINVAL: no kind has this name. */
sk_rc sk_what_kind_find(const char *name, enum sk_what_kind *out, struct sk_err *err) SK_MUST_USE;
/* Writes the description in wire format (base/wire.h): u32 version (what.c), u32 kind, u32
 * partitions, u32 flags (1: groups, 2: one block, 4: sorted, 8: own reduce, 16: firsts, 32: whole
 * groups), u64 seed, u64 limit, u32 number of keys, then for each key: bytes name, u32 flags (1:
 * descending, 2: nulls first); u32 number of aggregates, for each: u32 kind, column, flags (1:
 * ignore nulls, 2: NaN is null, 4: wide, 8: flatten), ddof, k, u64 q and, for quantiles, k more u64
 * (bits of doubles), bytes name, bytes name of values; of a join also u32 kind, for each key bytes
 * name on the right side, and two bytes suffixes. Returns the length needed; writes nothing if that
 * is more than cap.
 */
size_t sk_what_write(const struct sk_what *w, void *buf, size_t cap);
/* Reads a description in wire format. SK_EINVAL: it has another version or is damaged. */
sk_rc sk_what_read(struct sk_bytes wire, struct sk_what **out, struct sk_err *err) SK_MUST_USE;
void sk_what_destroy(struct sk_what *w); /* NULL is fine */

/* ---- values: the results of a piece of work ---- */

enum sk_value_kind {
    SK_VALUE_BLOCK, /* a block of rows, made by a reduce */
    SK_VALUE_PARTS, /* blocks of partitions first, first + 1, ...: at most SK_VALUE_PARTS_MAX */
    /* The sample of the run that is the next value. It has one row for each page: the keys of the
     * page's first row (columns "0", "1", ...), and the page's number of rows, offset and length
     * (uint64). The last row has the keys of the run's last row, 0, the run's length, 0. */
    SK_VALUE_SAMPLE,
    /* a run: pages of about 32 KiB, in order; a run without rows has one empty page */
    SK_VALUE_RUN,
    /* A value without bytes, whose parts say which pages of run `run` belong to partitions first,
     * first + 1, ...: at most SK_VALUE_CUTS_MAX. */
    SK_VALUE_CUTS,
    /* n - 1 rows, each the first row of a partition: its keys ("0", "1", ...) and the number of its
     * run. */
    SK_VALUE_BOUNDS,
    /* One column of bool, "met": which rows of the side that is not shared have a partner in the
     * share of this reduce (SK_PART_SHARE). */
    SK_VALUE_MATCH_REPORT
};
#define SK_VALUE_PARTS_MAX 120u
#define SK_VALUE_CUTS_MAX 60u

struct sk_value_part {
    /* off and len are multiples of 64; off is counted from the value's beginning. In CUTS, off is
     * counted from the beginning of the run, row is the index of the first row and rows is an
     * estimate. len 0: the part is empty. */
    uint64_t off, len, row, rows;
};

/* a value: whole blocks, one behind the other, each at a multiple of 64 bytes; read-only */
struct sk_value {
    enum sk_value_kind kind;
    uint32_t schema; /* checksum of the schema (struct sk_block_sizes); 0: the value has no block */
    /* bytes: size of the data (sk_block_nbytes); size: bytes that sk_value_write fills, a multiple
     * of 64 except for BLOCK */
    uint64_t rows, bytes, size;
    uint32_t first, run, n;
    struct sk_value_part *parts; /* [n], only in PARTS and CUTS */
    uint32_t n_blocks;
    struct sk_block_plan **blocks;
    uint64_t *at; /* [n_blocks]: the offset of each block */
    void *mem[3]; /* memory to which the plans point, freed with the value */
};
/* Writes the value to dst, which is 64-byte aligned and has v->size bytes. The inputs of the work
 * must still exist. */
void sk_value_write(const struct sk_value *v, uint8_t *dst);
void sk_value_destroy(struct sk_value *v); /* NULL is fine */

/* ---- pieces of work ---- */

struct sk_work;
/* Makes the next value, which the caller owns; *out NULL: all values were made. After an error the
 * caller may only destroy the work. */
sk_rc sk_work_next(struct sk_work *w, struct sk_value **out, struct sk_err *err) SK_MUST_USE;
void sk_work_destroy(struct sk_work *w); /* NULL is fine */

/* input of a map; all that it points to must outlive the work and its values */
struct sk_map_input {
    const struct ArrowSchema *schema;
    const struct ArrowArray *array;
    /* Number of the map. It seeds random draws and, for EVEN, determines the partition of the first
     * piece. */
    uint64_t seq;
    /* In how many values the map's pack is divided, each with neighbouring partitions, or how many
     * runs the map makes, each of neighbouring keys; 0 means 1. */
    uint32_t values;
    /* Number of rows that earlier works of the same map had: a map with more rows than it should
     * hold in memory makes several packs or runs, one after the other. */
    uint64_t row0;
    /* SORT: NULL, or one column with n_partitions - 1 values of the first key, in the key's order.
     * A row equal to a bound goes behind the bound (for a descending key: before it, so that the
     * partitions are the same in reverse order). */
    const struct ArrowSchema *bounds_schema;
    const struct ArrowArray *bounds;
};
/* Starts a map, whose input is one batch. It makes PARTS (more than `values` of them if the
 * partitions need more), or SAMPLEs, each followed by its RUN. Scratch: 16 to 32 bytes for each
 * row. */
sk_rc sk_work_map(const struct sk_what *what, const struct sk_map_input *in, struct sk_work **out,
                  struct sk_err *err) SK_MUST_USE;

/* the batches of one map or run, in order; must outlive the work and its values */
struct sk_slice {
    const struct ArrowArray *const *batches;
    /* AGGREGATE: the schema of each batch; other kinds do not use this */
    const struct ArrowSchema *const *schemas;
    uint32_t n;
    bool columns_only; /* true: only the schema is needed, and rows are ignored */
    uint32_t run;      /* number of the run, as in the cut task; unused without runs */
    /* SK_WHAT_RANDOM, where each batch has the rows of one partition: number of the partition of
     * the first batch. */
    uint32_t partition;
    /* JOIN: the side of the batches, 0: left, 1: right; or SK_JOIN_KEYS + side: the columns of that
     * side's key alone, cast to the types that both sides have in common. Either both sides have
     * such slices, a batch for each of their batches, or none has. */
    uint32_t side;
};
#define SK_JOIN_KEYS 2u
#define SK_JOIN_SIDES 4u
/* Starts a cut task. It gives BOUNDS, then CUTS for each sample. `samples` has one sample for each
 * run, in the order of runs, all of one schema. Cuts are made by the bytes of pages. */
sk_rc sk_work_cut(const struct sk_what *what, const struct ArrowSchema *schema,
                  const struct ArrowArray *const *samples, uint32_t n_runs, uint32_t n_partitions,
                  struct sk_work **out, struct sk_err *err) SK_MUST_USE;

/* input of a merge; all that it points to must outlive the work and its values */
struct sk_merge_input {
    const struct ArrowSchema *schema; /* of all batches */
    /* Whole packs of partitions [first, first + n), or runs, in order. The slices' members
     * columns_only, run and partition are ignored. */
    const struct sk_slice *slices;
    uint32_t n_slices;
    uint32_t first, n; /* n 0: runs */
    /* [n_slices][n]: not 0 if the pack has a batch of this partition */
    const uint32_t *const *parts;
    uint32_t values;       /* number of values for the result, as in sk_map_input */
    uint64_t target_bytes; /* AGGREGATE: approximate bytes of memory for groups */
};
/* Starts a merge. It makes PARTS of partitions [first, first + n), or SAMPLEs, each followed by its
 * RUN. Reduces get the same rows from the merged packs as from the packs themselves. */
sk_rc sk_work_merge(const struct sk_what *what, const struct sk_merge_input *in,
                    struct sk_work **out, struct sk_err *err) SK_MUST_USE;

/* Several reduces of a join may share a partition (join_sizing.h: sk_side_tells). */
enum sk_reduce_part {
    SK_PART_ALL,   /* a reduce of all rows */
    SK_PART_SHARE, /* of a share of the shared side and all of the other; it reports matches first
                    */
    /* of the other side's rows that depend on the match reports of all shares; of the shared side
     * it has the columns only */
    SK_PART_UNMATCHED
};
struct sk_reduce_input {
    const struct ArrowSchema *schema; /* of all batches; JOIN: unused */
    const struct sk_slice *slices;    /* sorted by (side, map) */
    uint32_t n_slices;
    uint32_t first, end, n; /* the reduce makes partitions [first, end) of n */
    uint64_t target_bytes;  /* approximate size of a block */
    /* the BOUNDS of the cut task; NULL: there was no cut task */
    const struct ArrowSchema *bounds_schema;
    const struct ArrowArray *bounds;
    /* JOIN: shared: the side whose rows come first in the order, which several reduces may share;
     * reports: of SK_PART_UNMATCHED, the match reports of all shares */
    enum sk_reduce_part part;
    uint32_t shared, n_reports;
    const struct ArrowSchema *const *report_schemas;
    const struct ArrowArray *const *reports;
};
/* AGGREGATE: true if batches of these schemas can be reduced without casts. Otherwise the caller
 * first casts each key and each value to one type (in batches of states only the columns of stored
 * values); the first batch of rows, which may be empty, must then have these types. */
bool sk_work_aggregates(const struct sk_what *what, const struct ArrowSchema *const *schemas,
                        uint32_t n);
/* JOIN: true if batches of these schemas, one a side, can be joined as they are. Otherwise the
 * caller raises what is wrong with them (a key column is missing or has no order, names of columns
 * are there twice, types of keys that no type holds), or casts their keys (SK_JOIN_KEYS). The keys
 * are fit if, on both sides, they have one type (no extension type), or are integers of one
 * signedness, or if they need no cast to be compared: text with offsets of other widths, or a
 * dictionary of such values. The last does not hold if the result has one column for the keys of
 * both sides. */
bool sk_work_joins(const struct sk_what *what, const struct ArrowSchema *const sides[2]);
/* Starts a reduce. It gives BLOCKs with the rows of these partitions; without rows, one empty block
 * that keeps the schema. Each block must be written before the next one is requested. AGGREGATE:
 * the slices are sorted by the keys, and the reduce works in about target_bytes of memory, except
 * for a single group that needs more. JOIN: all batches of a side have one schema, and each side
 * has one; the order of rows is that of kernel.h with the shared side as its left side. A block has
 * up to 2^20 rows. The columns are those of sk_join_columns, all nullable and without metadata
 * beside that of extension types. Memory: that of the kernel's join, and 24 bytes for each row of a
 * block. */
sk_rc sk_work_reduce(const struct sk_what *what, const struct sk_reduce_input *in,
                     struct sk_work **out, struct sk_err *err) SK_MUST_USE;

/* ---- the columns of a join's result ---- */

struct sk_names { /* of the columns of a side */
    const char *const *name;
    uint32_t n;
};
struct sk_join_column {
    uint32_t side, column; /* the column of a side that it is made of */
    /* The index of its column in the key, if it stands for those of both sides (in a full_outer
     * join); -1: it is of its side alone. */
    int32_t of_key;
    const char *name;
};
struct sk_join_columns {
    uint32_t n;
    struct sk_join_column *column; /* [n] */
    bool whole;  /* each side has all columns of its key, and no name is there twice */
    char *names; /* memory of the names */
};
/* Finds the columns of a join: those of the left side, then those of the right side without its
 * key. In a right_outer join the left side is without its key instead. Semi and anti joins have the
 * columns of one side. Names that both sides have get the suffix of their side, except for columns
 * of the key. */
sk_rc sk_join_columns(const struct sk_what *what, const struct sk_names sides[2],
                      struct sk_join_columns *out, struct sk_err *err) SK_MUST_USE;
void sk_join_columns_free(struct sk_join_columns *c);

/* ---- states: partial aggregates, which a map of AGGREGATE makes of its rows if there are fewer of
 * them. States pass through sk_work_map as rows do. */

struct sk_states;
/* Makes an empty collection of states for batches with this schema, of rows or of states; the
 * schema must outlive it. SK_EINVAL: an aggregate does not fit its column's type. */
sk_rc sk_states_create(const struct sk_what *what, const struct ArrowSchema *schema,
                       struct sk_states **out, struct sk_err *err) SK_MUST_USE;
/* Looks at the keys of a batch of rows without adding them. Sets *worth to true if the rows looked
 * at so far have at most a quarter as many groups, by an estimate: then states are worth their
 * cost, and the caller adds these rows and all that follow. Else it keeps them, and sends them
 * unchanged if they become too many. */
sk_rc sk_states_judge(struct sk_states *s, const struct ArrowSchema *schema,
                      const struct ArrowArray *batch, bool *worth, struct sk_err *err) SK_MUST_USE;
/* True if the rows looked at are so few that they become states in any case: then a sum of ints in
 * one block and floats in another is exact, where a cast of the rows might not be. */
bool sk_states_few(const struct sk_states *s);
/* Adds a batch of rows, or of states; its keys and stored values must have the types of s. */
sk_rc sk_states_add(struct sk_states *s, const struct ArrowSchema *schema,
                    const struct ArrowArray *batch, struct sk_err *err) SK_MUST_USE;
/* Plans a batch of all states, or of their final results, sorted by key or in the order of the
 * states (kernel.h). s must not change while the plan is used. SK_ERANGE: a sum overflows. */
sk_rc sk_states_measure(struct sk_states *s, enum sk_result which, struct sk_block_plan **plan,
                        uint64_t *size, struct sk_err *err) SK_MUST_USE;
uint64_t sk_states_rows(const struct sk_states *s); /* number of rows that were added */
/* Returns the bytes of memory of s, as sk_groupby_bytes does; the batch of all states needs about
 * as much again. */
uint64_t sk_states_bytes(const struct sk_states *s);
void sk_states_destroy(struct sk_states *s); /* NULL is fine */

#endif

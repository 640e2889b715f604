/* kernel.h - contract of the kernel layer: the operations of exchanges, aggregations and joins on
 * rows. Pure functions over Arrow record batches in place; no Python, no engine.
 *
 * A batch is the pair of structs that sk_block_export makes (or any producer of the C Data
 * Interface). Offsets of the batch and of its columns are respected; values are trusted as readers
 * of Arrow trust them (call sk_block_validate first for bytes from untrusted sources). Rows are
 * counted from 0 within the batch; a batch may have at most UINT32_MAX rows, so an index is
 * uint32_t. Results are written to the caller's memory, or are a plan that sk_block_write writes
 * straight to its final place.
 *
 * The order of keys (docs/design/kernels.md): `nulls_first` says whether nulls are first or last,
 * and NaNs are between nulls and values, in ascending and descending order alike; -0.0 equals 0.0;
 * text and binary compare as unsigned bytes, false < true. Equal keys keep the order of their rows:
 * the sort is stable.
 *
 * Thread-safety: every function may run at the same time as any other; a struct sk_keys is only
 * read after its creation. Errors: SK_EINVAL names column and type; SK_ENOMEM. Scratch memory is
 * from sk_alloc; each function says how much it needs. */
#ifndef SK_KERNEL_H
#define SK_KERNEL_H

#include "base/base.h"
#include "base/err.h"
#include "base/rand.h"
#include "block/block.h"
#include "kernel/aggregates.h"

/* ---- keys (key.c, hash.c) ---- */

/* Finds the first column of that name. SK_EINVAL: there is none. */
sk_rc sk_column_find(const struct ArrowSchema *schema, const char *name, uint32_t *column,
                     struct sk_err *err) SK_MUST_USE;

struct sk_key {
    uint32_t column;
    bool descending, nulls_first;
};

/* The key columns of one batch, the most significant first. The types that can be keys: bool,
 * integers, floats, decimals, date, time, timestamp, duration, interval of months, (large) text and
 * binary and their views, fixed-size binary, null, and dictionaries of these. All other types,
 * tensors among them, give SK_EINVAL. Schema and array must outlive the keys. */
struct sk_keys;
/* True if values of this Arrow format can be keys. */
bool sk_can_be_key(const char *format);
sk_rc sk_keys_create(const struct ArrowSchema *schema, const struct ArrowArray *array,
                     const struct sk_key *key, uint32_t n_keys, struct sk_keys **out,
                     struct sk_err *err) SK_MUST_USE;
void sk_keys_destroy(struct sk_keys *k); /* NULL is fine */
uint64_t sk_keys_rows(const struct sk_keys *k);

/* Checks that keys a and b can be compared. SK_EINVAL: the number, types or directions of their
 * columns differ. A dictionary is treated as the type of its values; text types match whatever the
 * width of their offsets, and with views. */
sk_rc sk_keys_match(const struct sk_keys *a, const struct sk_keys *b,
                    struct sk_err *err) SK_MUST_USE;
/* Compares row i of a with row j of b, where a and b match: < 0, 0, > 0. */
int sk_keys_compare(const struct sk_keys *a, uint64_t i, const struct sk_keys *b, uint64_t j);
/* Returns the first bytes of a row's key as a number. If the prefixes of two rows (of matching
 * keys) differ, their order is that of the rows; if they are equal, compare the rows. */
uint64_t sk_keys_prefix(const struct sk_keys *k, uint64_t row);
/* Sets out[row] to a hash of the row's logical values alone: it does not depend on offsets,
 * dictionaries, widths of integers, floats or offsets, or on other rows. Equal rows have equal
 * hashes: all NaNs are equal, -0.0 equals 0.0, and nulls are equal. All 64 bits are well mixed. */
void sk_keys_hash(const struct sk_keys *k, uint64_t *out);

/* ---- sort (sort.c, radix.c) ---- */

/* Sets index[0, rows) to the numbers of the rows in sorted order; stable. Scratch: 32 bytes a
 * row. */
sk_rc sk_sort(const struct sk_keys *k, uint32_t *index, struct sk_err *err) SK_MUST_USE;
/* Sets index[0, *n) to the number of the first row of each key, in the order of the keys
 * (group.c). `index` needs room for all rows. */
sk_rc sk_sort_firsts(const struct sk_keys *k, uint32_t *index, uint64_t *n,
                     struct sk_err *err) SK_MUST_USE;

/* ---- merge (merge.c) ---- */

/* Merges n sorted runs; equal rows stay in the order of their runs. The rows of each run must be in
 * the order of its keys, and all keys must match (SK_EINVAL). Run r is the next n_batches[r]
 * batches, one after the other (NULL: each batch is a run). If `ranges` is given, only the rows
 * [from, to) of ranges[b] of batch b take part. `batches` and `ranges` must outlive the merge. */
struct sk_range {
    uint64_t from, to;
};
struct sk_merge;
sk_rc sk_merge_create(const struct sk_keys *const *batches, const struct sk_range *ranges,
                      const uint32_t *n_batches, uint32_t n_runs, struct sk_merge **out,
                      struct sk_err *err) SK_MUST_USE;
/* Writes the places of the next rows to `out`, at most cap; returns their number, which is less
 * than cap only at the end. The `run` of a place is the number of its batch. */
uint64_t sk_merge_next(struct sk_merge *m, struct sk_row_at *out, uint64_t cap);
void sk_merge_destroy(struct sk_merge *m); /* NULL is fine */

/* ---- cuts (cut.c) ---- */

/* Cuts n sorted runs with matching keys into `parts` partitions of their merged order (key, run,
 * row), which may separate equal keys. Partition p of run r is [cuts[r * (parts + 1) + p], cuts[r *
 * (parts + 1) + p + 1]). Partition p has the rows of rank [p * N / parts, (p + 1) * N / parts) of
 * all N. With `weight`, weights are used instead of ranks: weight[r][i] is the total weight (bytes;
 * or rows, if a run is the sample of a longer one) of the rows before row i of run r, and
 * weight[r][rows] that of the whole run. Cut p then is before the first row with at least p * W /
 * parts of the total weight W before it in the merged order. */
sk_rc sk_cut_ranks(const struct sk_keys *const *runs, uint32_t n, const uint64_t *const *weight,
                   uint32_t parts, uint64_t *cuts, struct sk_err *err) SK_MUST_USE;
/* Cuts the runs by given bounds, which are in order, into bounds->rows + 1 partitions: partition 0
 * has the rows before bound 0, and so on. With `at` NULL only keys are compared, and a row that
 * equals a bound goes behind it, as in sk_partition_range. Otherwise bound i is row at[i] of the
 * runs from which the bounds were made, and is the first row of its partition, even among equal
 * keys. `runs` then are pieces of those runs that begin at row row0[r] (NULL: at 0). */
sk_rc sk_cut_bounds(const struct sk_keys *const *runs, uint32_t n, const uint64_t *row0,
                    const struct sk_keys *bounds, const struct sk_row_at *at, uint64_t *cuts,
                    struct sk_err *err) SK_MUST_USE;

/* Rows are gathered by sk_block_measure_rows (by an index) and sk_block_measure_places (by places
 * in several batches; block.h), for any Arrow type; sk_block_write lays them out at their final
 * place. */

/* ---- partition (partition.c) ---- */

/* The rows grouped by partition: partition p has index[start[p], start[p + 1]), in the order of the
 * batch. */
struct sk_parts {
    uint32_t n;      /* number of partitions, > 0 */
    uint64_t *start; /* [n + 1], allocated by the caller */
    uint32_t *index; /* [rows], allocated by the caller */
};
/* Each of the following functions needs 4 bytes of scratch for each row; sk_partition_hash needs
 * 12. After a failure the content of `out` is undefined. */
/* Partitions by the hash of the keys. Each `level` uses other bits of the hash, so that a partition
 * of one level can be divided by another level. */
sk_rc sk_partition_hash(const struct sk_keys *k, uint32_t level, struct sk_parts *out,
                        struct sk_err *err) SK_MUST_USE;
/* Partitions by n - 1 bounds, which are the rows of `bounds` in the order of its keys. A row goes
 * to the partition behind the last bound that is not greater (so a row equal to a bound goes behind
 * the bound, as in Ray). SK_EINVAL: there are not n - 1 bounds, they are out of order, or their
 * types are not those of the keys. */
sk_rc sk_partition_range(const struct sk_keys *k, const struct sk_keys *bounds,
                         struct sk_parts *out, struct sk_err *err) SK_MUST_USE;
/* Partitions at random: by sk_draw of each row's number, row0 + row. The result does not depend on
 * how the rows are divided into batches. */
sk_rc sk_partition_random(uint64_t rows, uint64_t row0, uint64_t seed, struct sk_parts *out,
                          struct sk_err *err) SK_MUST_USE;
/* Partitions in turn: row i goes to partition (first + i) % n. */
sk_rc sk_partition_round_robin(uint64_t rows, uint64_t first, struct sk_parts *out,
                               struct sk_err *err) SK_MUST_USE;

/* ---- groups (group.c, groupby.c, agg.c) ---- */

/* Finds groups of equal keys in a sorted batch: start[i] is the first row of group i (`start` needs
 * room for as many groups as rows). Returns the number of groups. */
uint64_t sk_group_starts(const struct sk_keys *k, uint32_t *start);
/* Finds the first row of each key: sets index[0, *n) to the numbers of these rows, in the order of
 * the batch (`index` needs room for as many keys as rows), and ids[i] to the place in `index` of
 * the key of row i. Scratch: 8 bytes a row, 16 to 32 a key. (In the order of keys:
 * sk_sort_firsts.) */
sk_rc sk_first_rows(const struct sk_keys *k, uint32_t *index, uint32_t *ids, uint64_t *n,
                    struct sk_err *err) SK_MUST_USE;

/* Aggregates (aggregates.h has their table, docs/design/kernels.md the rules). Result types: COUNT
 * int64; SUM int64 of integers and bool (uint64 of uint64), double of floats, decimal(38, scale),
 * duration; MEAN, STD, MISSING_PCT, ZERO_PCT double; MIN, MAX, ABS_MAX the column's (a dictionary's
 * values, a view's text). The result of a group is null if the group has no value (COUNT: 0) or,
 * without ignore_nulls, if a value is null; COUNT and ZERO_PCT then count nulls as rows. STD of too
 * few values is NaN. A SUM that does not fit its type, and ABS_MAX of the least integer, give
 * SK_ERANGE when the result is made. */
/* Finds a kind of aggregate by its name in the table; false: there is none. */
bool sk_agg_kind_find(const char *name, enum sk_agg_kind *out);
/* True if the aggregate can work on a column of this Arrow format (for a dictionary: the format of
 * its values). */
bool sk_agg_takes(enum sk_agg_kind kind, const char *format);

#define SK_AGG_ROWS UINT32_MAX
struct sk_agg {
    enum sk_agg_kind kind;
    uint32_t column; /* number of the column; SK_AGG_ROWS: COUNT counts rows and reads no column */
    bool ignore_nulls;
    int32_t ddof;     /* of STD */
    double q;         /* QUANTILE: which quantile, from 0 to 1 */
    const char *name; /* name of the column of results; copied */
    uint32_t k;       /* TOP_K: number of values; APPROX_QUANTILES: number of quantiles */
    const double *qs; /* APPROX_QUANTILES: the quantiles, from 0 to 1; copied */
    bool nan_is_null; /* true: a NaN is treated as a null */
    /* TOP_K: name of the field of values in the result; NULL: "value". Copied */
    const char *value_name;
    bool wide; /* SUM of integers: decimal(38, 0), which holds the sum of any number of rows */
    /* true: aggregates the values inside of lists (Arrow format "+l"); only for aggregates that
     * store values */
    bool flatten;
};
/* Aggregates that store values, of any type. LIST: list, in the order of rows and merges. FIRST:
 * the first value; null if there is none. UNIQUE: list of each value once, in the order of first
 * occurrence. COUNT_DISTINCT: int64. VALUE_COUNTER: struct of lists `values`, as UNIQUE, and
 * `counts`. QUANTILE of integers and floats: double, exact, linear between neighbours (Arrow's
 * formula), of values that are not NaN. APPROX_QUANTILES: list of double, each the value of rank q
 * * n with a relative error of at most 2^-13 (0.012 %); no more than 4,096 values are kept for a
 * power of two. Without a key it is exact up to 8,192 distinct values. TOP_K: list of struct
 * (value, count), the most frequent first, equal counts as they came; exact, so it keeps each value
 * that there is. ignore_nulls leaves nulls out; a group without values has an empty list, 0, a null
 * quantile, null quantiles. */

/* An aggregation: it is updated with rows, and merges partial results of other aggregations, in any
 * order; then it makes a partial result or the result. Results do not depend on how rows were cut
 * into batches, on which aggregation took which batch, or on the order of merges, except for the
 * order of values in LIST, UNIQUE, VALUE_COUNTER, FIRST and equal counts of TOP_K. One thread at a
 * time may use it. Rows of equal keys form a group (all nulls are equal, all NaNs are equal, -0.0
 * equals 0.0); without keys all rows are one group. Memory: for each group its keys, its states (16
 * to 160 bytes each) and 32 bytes, and the stored values. `schema` is the schema of all batches and
 * must outlive the aggregation. */
struct sk_groupby;
sk_rc sk_groupby_create(const struct ArrowSchema *schema, const uint32_t *keys, uint32_t n_keys,
                        const struct sk_agg *aggs, uint32_t n_aggs, struct sk_groupby **out,
                        struct sk_err *err) SK_MUST_USE;
/* Adds a batch of rows with the aggregation's columns; `schema` belongs to this batch. After an
 * error only destroy and clear are allowed. */
sk_rc sk_groupby_update(struct sk_groupby *g, const struct ArrowSchema *schema,
                        const struct ArrowArray *batch, struct sk_err *err) SK_MUST_USE;
/* Adds the rows of a partial result of the same keys and aggregates. Its schema has the types of
 * the values from which its states were made, which may be narrower than g's (int if g has float;
 * null). Keys and stored values must have g's types. SK_ERANGE: a value is not exact in g's
 * type. */
sk_rc sk_groupby_merge(struct sk_groupby *g, const struct ArrowSchema *schema,
                       const struct ArrowArray *partial, struct sk_err *err) SK_MUST_USE;
/* Returns the number of rows added since the creation or the last clear. */
uint64_t sk_groupby_rows(const struct sk_groupby *g);
uint64_t sk_groupby_groups(const struct sk_groupby *g);
/* Returns an upper bound of the bytes that the groups need, computed alike on every machine:
 * sk_groupby_group_bytes for each group, plus the stored keys and values (*kept, which may be NULL,
 * gets the bytes of the stored values). A built result needs about as much again. */
uint64_t sk_groupby_bytes(const struct sk_groupby *g, uint64_t *kept);
uint64_t sk_groupby_group_bytes(const struct sk_groupby *g);
#define SK_STATE "state:"
/* Returns the schema of results: keys, then aggregates; it belongs to g. A partial result has one
 * column of bytes for each aggregate (a list for aggregates that store values), whose name is
 * "state:" followed by the Arrow format of the values. */
const struct ArrowSchema *sk_groupby_schema(const struct sk_groupby *g, bool partial);
/* Results. build makes the result; measure_range plans a batch of `n` of its rows from row `from`
 * on; measure does both, for all rows. g must not change while a plan is used. SORTED: sorted by
 * the keys, ascending, NaN and then null last. PARTIAL: the partial result, in the order in which
 * groups were first seen. AS_SEEN: the result in that order. */
enum sk_result { SK_RESULT_SORTED, SK_RESULT_PARTIAL, SK_RESULT_AS_SEEN };
sk_rc sk_groupby_build(struct sk_groupby *g, enum sk_result which, struct sk_err *err) SK_MUST_USE;
sk_rc sk_groupby_measure_range(struct sk_groupby *g, uint64_t from, uint64_t n,
                               struct sk_block_plan **plan, uint64_t *size,
                               struct sk_err *err) SK_MUST_USE;
sk_rc sk_groupby_measure(struct sk_groupby *g, bool partial, struct sk_block_plan **plan,
                         uint64_t *size, struct sk_err *err) SK_MUST_USE;
void sk_groupby_clear(struct sk_groupby *g);   /* removes all groups: g is as after its creation */
void sk_groupby_destroy(struct sk_groupby *g); /* NULL is fine */

/* ---- joins (join.c, bloom.c) ---- */

enum sk_join_kind {
    SK_JOIN_INNER,
    SK_JOIN_LEFT,
    SK_JOIN_RIGHT,
    SK_JOIN_FULL,
    SK_JOIN_LEFT_SEMI,
    SK_JOIN_LEFT_ANTI,
    SK_JOIN_RIGHT_SEMI,
    SK_JOIN_RIGHT_ANTI,
    SK_JOIN_KINDS
};
/* Finds a kind by its name: "inner", "left_outer", "right_outer", "full_outer", "left_semi",
 * "left_anti", "right_semi", "right_anti". false: there is none of this name. */
bool sk_join_kind_find(const char *name, enum sk_join_kind *out);
/* Returns the kind that gives the same rows if the left side is passed as the right one. */
enum sk_join_kind sk_join_kind_swapped(enum sk_join_kind kind);
/* Finds the rows of n_left and n_right batches whose keys are equal (all keys must match, else
 * SK_EINVAL; a side may have no batch). A null in any key column equals nothing; NaN equals NaN,
 * -0.0 equals 0.0. Memory, however often a key occurs: 4 bytes a row of the left, 12 of the right,
 * 9 a distinct key; during the creation also 32 to 48 a row of the side with fewer rows and 8 a row
 * of the largest batch. The keys must outlive the join. */
struct sk_join;
sk_rc sk_join_create(const struct sk_keys *const *left, uint32_t n_left,
                     const struct sk_keys *const *right, uint32_t n_right, enum sk_join_kind kind,
                     struct sk_join **out, struct sk_err *err) SK_MUST_USE;
/* Writes the places of the next rows of the result, at most cap; returns how many, fewer than cap
 * only at the end. For a side without a row the place is SK_ROW_NONE (in semi and anti joins
 * always, for the side that is not in the result). The order is by left row, then by right row;
 * right rows without a partner are last. sk_block_measure_places takes these places, with both
 * sides. */
uint64_t sk_join_next(struct sk_join *j, struct sk_row_at *left, struct sk_row_at *right,
                      uint64_t cap);
void sk_join_destroy(struct sk_join *j); /* NULL is fine */
/* Divides one join into several: joins of shares of the left side, each with the whole right side,
 * and a join of the rest behind them give together the result of the one join. sk_join_share,
 * called before the first sk_join_next, makes j the join of a share: it returns only pairs and left
 * rows, and sets in `met`, of (right rows + 7) / 8 bytes, one bit for each right row that has a
 * partner in the share. sk_join_rest takes the bitwise or of all `met` and makes the join of the
 * rest, which returns for RIGHT and FULL the right rows without a partner, for RIGHT_SEMI and
 * RIGHT_ANTI the whole result, for other kinds no rows. */
void sk_join_share(struct sk_join *j, uint8_t *met);
sk_rc sk_join_rest(const struct sk_keys *const *right, uint32_t n_right, enum sk_join_kind kind,
                   const uint8_t *met, struct sk_join **out, struct sk_err *err) SK_MUST_USE;

/* An estimate of the number of distinct keys, from their hashes (sk_keys_hash); all zero at first.
 * It is exact up to 1,024, and then off by about 4 %. */
enum { SK_DISTINCT_SLOTS = 2048 };
struct sk_distinct {
    uint32_t n, level; /* n: hashes in the table; each stands for 2^level keys */
    uint64_t hash[SK_DISTINCT_SLOTS];
};
void sk_distinct_add(struct sk_distinct *d, const uint64_t *hash, uint64_t n);
uint64_t sk_distinct_estimate(const struct sk_distinct *d);

/* A Bloom filter of hashes of keys (sk_keys_hash): plain bytes, zero at first; 8 to 10 bits a key.
 * Filters of parts of a side can be merged into the filter of the whole side if they have the same
 * size; rows may be dropped only by the filter of the whole side. */
size_t sk_bloom_bytes(uint64_t keys, uint32_t bits);
void sk_bloom_add(uint8_t *filter, size_t bytes, const uint64_t *hash, uint64_t n);
void sk_bloom_merge(uint8_t *filter, const uint8_t *other, size_t bytes);
/* Sets index[0, returned) to the numbers of the hashes that may be in the filter. A hash that was
 * added is always among them. */
uint64_t sk_bloom_select(const uint8_t *filter, size_t bytes, const uint64_t *hash, uint64_t n,
                         uint32_t *index);

/* Returns 64 random bits for a row number (splitmix64 as a counter-based generator), the same on
 * every machine. */
static inline uint64_t sk_draw(uint64_t seed, uint64_t row) {
    return sk_rand_mix(sk_rand_mix(seed) + row * UINT64_C(0x9e3779b97f4a7c15));
}

#endif

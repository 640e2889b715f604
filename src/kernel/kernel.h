/* kernel.h - contract of the kernel layer: what an exchange does to rows. Pure functions over Arrow
 * record batches in place; no Python, no engine.
 *
 * A batch is the pair of structs that sk_block_export gives (or any producer of the C Data
 * Interface): offsets of the batch and of its columns count, values are trusted as readers of Arrow
 * trust them (sk_block_validate for bytes of strangers). Rows are counted from 0 within the batch;
 * a batch has at most UINT32_MAX rows here, so an index is uint32_t. Results go to memory of the
 * caller, or are a plan that sk_block_write lays out at its final place.
 *
 * The order of keys (docs/design/kernels.md): nulls stand where `nulls_first` says and NaN between
 * them and the values, both for either direction; -0.0 equals 0.0; text and binary compare as
 * unsigned bytes, false < true. Equal keys keep the order of their rows: the sort is stable.
 *
 * Threads: every function may run beside any other; a struct sk_keys is only read once it is made.
 * Errors: SK_EINVAL names column and type; SK_ENOMEM. Scratch memory is that of sk_alloc, sizes are
 * said at each function. */
#ifndef SK_KERNEL_H
#define SK_KERNEL_H

#include "base/base.h"
#include "base/err.h"
#include "base/rand.h"
#include "block/block.h"

/* ---- keys (key.c, hash.c) ---- */

/* The first column of that name. SK_EINVAL: there is none. */
sk_rc sk_column_find(const struct ArrowSchema *schema, const char *name, uint32_t *column,
                     struct sk_err *err) SK_MUST_USE;

struct sk_key {
    uint32_t column;
    bool descending, nulls_first;
};

/* The key columns of one batch, the most significant first. Orderable: bool, integers, floats,
 * decimals, date, time, timestamp, duration, interval of months, (large) text and binary and their
 * views, fixed-size binary, null, and dictionaries of these. All others, tensors among them, are
 * SK_EINVAL. Schema and array must outlive it. */
struct sk_keys;
sk_rc sk_keys_create(const struct ArrowSchema *schema, const struct ArrowArray *array,
                     const struct sk_key *key, uint32_t n_keys, struct sk_keys **out,
                     struct sk_err *err) SK_MUST_USE;
void sk_keys_destroy(struct sk_keys *k); /* NULL is fine */
uint64_t sk_keys_rows(const struct sk_keys *k);

/* SK_EINVAL: a and b cannot be compared, because number, types or directions of their keys differ.
 * A dictionary is the type of its values; text is text whatever its offsets. */
sk_rc sk_keys_match(const struct sk_keys *a, const struct sk_keys *b,
                    struct sk_err *err) SK_MUST_USE;
/* Row i of a against row j of b, which match: < 0, 0, > 0. */
int sk_keys_compare(const struct sk_keys *a, uint64_t i, const struct sk_keys *b, uint64_t j);
/* The start of a row's key as a number: where two rows' differ (of keys that match), they are
 * ordered like the rows; else compare. */
uint64_t sk_keys_prefix(const struct sk_keys *k, uint64_t row);
/* out[row]: a function of the row's logical values alone, not of offsets, dictionaries, widths of
 * integers, floats or offsets, or other rows. Equal rows
 * have equal hashes: NaN is one value, -0.0 is 0.0, null is one value. All 64 bits are good. */
void sk_keys_hash(const struct sk_keys *k, uint64_t *out);

/* ---- sort (sort.c, radix.c) ---- */

/* index[0, rows): the rows in order, stable. Scratch: 32 bytes a row. */
sk_rc sk_sort(const struct sk_keys *k, uint32_t *index, struct sk_err *err) SK_MUST_USE;

/* ---- merge (merge.c) ---- */

/* The rows of n runs in order, equal ones in the order of their runs; each run's rows are in the
 * order of its keys, and the keys match (SK_EINVAL). Run r is the next n_batches[r] batches, one
 * after the other (NULL: each is one batch); of batch b only the rows [from, to) of ranges[b], if
 * ranges is given. `batches` and ranges must outlive it. */
struct sk_range {
    uint64_t from, to;
};
struct sk_merge;
sk_rc sk_merge_create(const struct sk_keys *const *batches, const struct sk_range *ranges,
                      const uint32_t *n_batches, uint32_t n_runs, struct sk_merge **out,
                      struct sk_err *err) SK_MUST_USE;
/* The next rows, at most cap; fewer only at the end. The run of a place is the number of its
 * batch. */
uint64_t sk_merge_next(struct sk_merge *m, struct sk_row_at *out, uint64_t cap);
void sk_merge_destroy(struct sk_merge *m); /* NULL is fine */

/* ---- cuts (cut.c) ---- */

/* Cuts n sorted runs, whose keys match, into `parts` pieces of their merged order (key, run, row),
 * which may part equal keys: partition p of run r is [cuts[r * (parts + 1) + p], cuts[r * (parts +
 * 1) + p + 1]). Partition p has the rows of rank [p * N / parts, (p + 1) * N / parts) of all N.
 * With weight, [r][0 .. rows]: what lies in front of each row of run r, and in all of it (bytes; or
 * rows, where a run is the sample of a longer one), cut p is in front of the first row that has at
 * least p * W / parts in front of it in the merged order. */
sk_rc sk_cut_ranks(const struct sk_keys *const *runs, uint32_t n, const uint64_t *const *weight,
                   uint32_t parts, uint64_t *cuts, struct sk_err *err) SK_MUST_USE;
/* The same by given bounds, which are in order: partition 0 is what comes before bound 0, and so
 * on, bounds->rows + 1 in all. at NULL: by keys alone; what equals a bound goes behind it, as in
 * sk_partition_range. Else bound i stands for the row at[i] of the runs that the bounds were made
 * of, which is the first of its partition, and equal keys are cut there; `runs` are pieces of them
 * that begin at row row0[r] (NULL: at 0). */
sk_rc sk_cut_bounds(const struct sk_keys *const *runs, uint32_t n, const uint64_t *row0,
                    const struct sk_keys *bounds, const struct sk_row_at *at, uint64_t *cuts,
                    struct sk_err *err) SK_MUST_USE;

/* Rows are gathered by sk_block_measure_rows (by an index) and sk_block_measure_places (by places
 * in several batches; block.h): any Arrow type, laid out by sk_block_write at their final place. */

/* ---- partition (partition.c) ---- */

/* Where the rows go: those of partition p are index[start[p], start[p + 1]), in the order of the
 * batch. */
struct sk_parts {
    uint32_t n;      /* partitions, > 0 */
    uint64_t *start; /* [n + 1] */
    uint32_t *index; /* [rows] */
};
/* All need 4 bytes a row of scratch; by hash 12. They leave `out` undefined when they fail. */
/* By the hash of the keys. Another `level` cuts what fell together at one level by fresh bits. */
sk_rc sk_partition_hash(const struct sk_keys *k, uint32_t level, struct sk_parts *out,
                        struct sk_err *err) SK_MUST_USE;
/* By n - 1 bounds, rows of `bounds` in the order of its keys: a row goes to the partition behind
 * the last bound that is not after it (one that equals a bound goes behind it, as in Ray).
 * SK_EINVAL: not n - 1 bounds, out of order, or of other types. */
sk_rc sk_partition_range(const struct sk_keys *k, const struct sk_keys *bounds,
                         struct sk_parts *out, struct sk_err *err) SK_MUST_USE;
/* By sk_draw of each row's number, row0 + row: independent of how the rows are cut into batches. */
sk_rc sk_partition_random(uint64_t rows, uint64_t row0, uint64_t seed, struct sk_parts *out,
                          struct sk_err *err) SK_MUST_USE;
/* Row i goes to (first + i) % n. */
sk_rc sk_partition_round_robin(uint64_t rows, uint64_t first, struct sk_parts *out,
                               struct sk_err *err) SK_MUST_USE;

/* ---- groups (group.c, groupby.c, agg.c) ---- */

/* Groups of equal keys in a sorted batch: start[i] is the first row of group i (room for as many as
 * rows). Returns how many there are. */
uint64_t sk_group_starts(const struct sk_keys *k, uint32_t *start);

/* Aggregates (docs/design/kernels.md has the rules). Result types: COUNT int64; SUM int64 of
 * integers and bool (uint64 of uint64), double of floats, decimal(38, scale), duration; MEAN, STD,
 * MISSING_PCT, ZERO_PCT double; MIN, MAX, ABS_MAX the column's (a dictionary's values, a view's
 * text). Null where there is no value (COUNT: 0), or, without ignore_nulls, where one is null;
 * COUNT and ZERO_PCT then count nulls as rows. STD of too few values: NaN. SUM that does not fit,
 * and ABS_MAX of the least integer, are SK_ERANGE when the result is made. */
enum sk_agg_kind {
    SK_AGG_COUNT,
    SK_AGG_SUM,
    SK_AGG_MIN,
    SK_AGG_MAX,
    SK_AGG_MEAN,
    SK_AGG_STD,
    SK_AGG_ABS_MAX,
    SK_AGG_MISSING_PCT, /* null or NaN */
    SK_AGG_ZERO_PCT,
    SK_AGG_LIST, /* from here on they keep values; not of SK_AGG_ROWS */
    SK_AGG_UNIQUE,
    SK_AGG_COUNT_DISTINCT,
    SK_AGG_VALUE_COUNTER,
    SK_AGG_QUANTILE,
    SK_AGG_APPROX_QUANTILES,
    SK_AGG_TOP_K,
};
/* By its name: "count", "sum", ...: the names above in small letters (APPROX_QUANTILES:
 * "approx_quantile", TOP_K: "approx_topk"). */
bool sk_agg_kind_find(const char *name, enum sk_agg_kind *out);

#define SK_AGG_ROWS UINT32_MAX
struct sk_agg {
    enum sk_agg_kind kind;
    uint32_t column; /* SK_AGG_ROWS: COUNT of rows */
    bool ignore_nulls;
    int32_t ddof;           /* STD */
    double q;               /* QUANTILE: from 0 to 1 */
    const char *name;       /* of the column of results; copied */
    uint32_t k;             /* TOP_K: how many; APPROX_QUANTILES: how many quantiles */
    const double *qs;       /* these; copied */
    bool nan_is_null;       /* NaN is taken for a null */
    const char *value_name; /* TOP_K: of the values in its result; NULL: "value". Copied */
};
/* Those that keep values. LIST: list of any type, in the order of rows and merges. UNIQUE: list of
 * each value once, in the order in which they came first.
 * COUNT_DISTINCT: int64. VALUE_COUNTER: struct of lists `values`, as UNIQUE, and `counts`. QUANTILE
 * of integers and floats: double, exact, linear between neighbours (Arrow's formula), of values
 * that are not NaN. APPROX_QUANTILES: list of double, each the value of rank q * n with a relative
 * error of at most 2^-13 (0.012 %); no more than 4,096 values are kept for a power of two. TOP_K:
 * list of struct (value, count), the most frequent first, equal counts as they came; exact, so it
 * keeps each value that there is. ignore_nulls leaves nulls out; a group without values has an
 * empty list, 0, a null quantile, null quantiles. */

/* An aggregation: update with rows, or merge partial results of others, in any order; then a
 * partial result or the result. No result but those that keep the order of values (LIST, UNIQUE,
 * VALUE_COUNTER, and equal counts of TOP_K) depends on how rows were cut into batches, on who took
 * which, or on the order of merges. Not for two threads
 * at once. Groups: as keys are equal (null is a group, NaN is one, -0.0 is 0.0); no keys: one group
 * of all rows.
 * Memory: keys, states (16 to 160 bytes each) and 32 bytes a group; what keeps values, these.
 * `schema` is that of all batches and must outlive it. */
struct sk_groupby;
sk_rc sk_groupby_create(const struct ArrowSchema *schema, const uint32_t *keys, uint32_t n_keys,
                        const struct sk_agg *aggs, uint32_t n_aggs, struct sk_groupby **out,
                        struct sk_err *err) SK_MUST_USE;
/* Rows of the schema; schema: the batch's own. After an error only destroy and clear are
 * allowed. */
sk_rc sk_groupby_update(struct sk_groupby *g, const struct ArrowSchema *schema,
                        const struct ArrowArray *batch, struct sk_err *err) SK_MUST_USE;
/* When combining does not pay: where groups / rows is above 0.8 after 64 Ki rows, a row costs more
 * to look up than to send as it is. */
/* Rows of a partial result of the same keys and aggregates. Its values may have been of narrower
 * types (int, where g's are float; null): its schema tells. Keys, and values of what keeps them,
 * are of g's types. SK_ERANGE: a value is not exact in g's type. */
sk_rc sk_groupby_merge(struct sk_groupby *g, const struct ArrowSchema *schema,
                       const struct ArrowArray *partial, struct sk_err *err) SK_MUST_USE;
uint64_t sk_groupby_rows(const struct sk_groupby *g); /* taken since it was made or cleared */
uint64_t sk_groupby_groups(const struct sk_groupby *g);
/* Bytes of memory that its groups need at most, by the same rule on every machine: group_bytes for
 * each, and what is kept of keys and values: *kept (may be NULL). A result that is built needs
 * about as much again. */
uint64_t sk_groupby_bytes(const struct sk_groupby *g, uint64_t *kept);
uint64_t sk_groupby_group_bytes(const struct sk_groupby *g);
#define SK_STATE "state:"
/* Keys, then aggregates; of a partial result one column of bytes each (of what keeps values a
 * list), whose name is "state:" and the Arrow format of the values. g's. */
const struct ArrowSchema *sk_groupby_schema(const struct sk_groupby *g, bool partial);
/* The plan of a batch of that schema; g must stay as it is while the plan is used. The result is
 * sorted by its keys, ascending, NaN and then null last; a partial result is in the order in which
 * groups were seen. Build makes it, measure_range plans `n` of its rows from row `from` on;
 * measure: both, of all. */
enum sk_result { SK_RESULT_SORTED, SK_RESULT_PARTIAL, SK_RESULT_AS_SEEN };
sk_rc sk_groupby_build(struct sk_groupby *g, enum sk_result which, struct sk_err *err) SK_MUST_USE;
sk_rc sk_groupby_measure_range(struct sk_groupby *g, uint64_t from, uint64_t n,
                               struct sk_block_plan **plan, uint64_t *size,
                               struct sk_err *err) SK_MUST_USE;
sk_rc sk_groupby_measure(struct sk_groupby *g, bool partial, struct sk_block_plan **plan,
                         uint64_t *size, struct sk_err *err) SK_MUST_USE;
void sk_groupby_clear(struct sk_groupby *g);   /* as new */
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
};
/* Rows of n_left and n_right batches whose keys are equal (all match, else SK_EINVAL; a side may
 * have no batch). A null in any key column meets nothing; NaN meets NaN, -0.0 meets 0.0. Memory: 4
 * bytes a row of the left, 12 of the right, 9 a distinct key; while it is made 32 to 48 a row of
 * the side with fewer rows and 8 a row of the largest batch; however often a key comes. The keys
 * must outlive it. */
struct sk_join;
sk_rc sk_join_create(const struct sk_keys *const *left, uint32_t n_left,
                     const struct sk_keys *const *right, uint32_t n_right, enum sk_join_kind kind,
                     struct sk_join **out, struct sk_err *err) SK_MUST_USE;
/* The next rows of the result, at most cap; fewer only at the end. Where a side has no row its
 * place is SK_ROW_NONE (semi and anti: always, on the other side). The order: by left row, then by
 * right row; then right rows that met nothing. What sk_block_measure_places takes, with both
 * sides. */
uint64_t sk_join_next(struct sk_join *j, struct sk_row_at *left, struct sk_row_at *right,
                      uint64_t cap);
void sk_join_destroy(struct sk_join *j); /* NULL is fine */
/* Joins of shares of the left side, each with all of the right one, give what one join gives: those
 * of the shares, one behind the other, and what is left. sk_join_share, before the first row is
 * asked for, makes it the join of a share: it gives pairs and left rows, and says which right rows
 * have met a left one: `met` gets a bit each, (right rows + 7) / 8 bytes. Of these, or-ed,
 * sk_join_rest makes the join of what is left: the right rows that RIGHT and FULL give for having
 * met nothing; all of RIGHT_SEMI and RIGHT_ANTI; none of others. */
void sk_join_share(struct sk_join *j, uint8_t *met);
sk_rc sk_join_rest(const struct sk_keys *const *right, uint32_t n_right, enum sk_join_kind kind,
                   const uint8_t *met, struct sk_join **out, struct sk_err *err) SK_MUST_USE;

/* A Bloom filter of hashes of keys (sk_keys_hash): plain bytes, zero at first; 8 to 10 bits a key.
 * Filters of parts of a side are merged into that of the whole if they are as large; only the whole
 * side's may be used to leave rows out. */
size_t sk_bloom_bytes(uint64_t keys, uint32_t bits);
void sk_bloom_add(uint8_t *filter, size_t bytes, const uint64_t *hash, uint64_t n);
void sk_bloom_merge(uint8_t *filter, const uint8_t *other, size_t bytes);
/* index[0, returned): which of the n hashes may be in it; never leaves out one that is. */
uint64_t sk_bloom_select(const uint8_t *filter, size_t bytes, const uint64_t *hash, uint64_t n,
                         uint32_t *index);

/* 64 random bits of a row number: splitmix64 as a counter-based generator. The same on every
 * machine. */
static inline uint64_t sk_draw(uint64_t seed, uint64_t row) {
    return sk_rand_mix(sk_rand_mix(seed) + row * UINT64_C(0x9e3779b97f4a7c15));
}

#endif

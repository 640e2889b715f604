/* block.h - contract of the block layer: an Arrow record batch in one buffer, in and out through
 * the Arrow C Data Interface.
 *
 * A block never asks anyone for memory: `measure` says how many bytes, the caller hands out a
 * buffer (of the store, or malloc), `write` fills it; a block that is read borrows its bytes.
 * Layout (all offsets from the start, little-endian, buffers 64-byte aligned):
 *
 *     header (magic "SKB1", version, flags, n_rows, n_columns, total_bytes, node count, buffer
 *     count, schema offset/len; 96 bytes)
 *     schema   flattened ArrowSchema tree, depth first: format, name, metadata, flags, n_children,
 *              has_dictionary
 *     nodes    flattened ArrowArray tree, same order: length, null_count, n_buffers, first buffer
 *              index
 *     buffers  table of (offset, length), length 0 and offset 0 = absent
 *     data     64-byte aligned buffers
 *
 * Every Arrow type: primitive, boolean, utf8/binary and large and view variants, fixed-size binary,
 * decimal, temporal, (large) list, list-view, fixed-size list, struct, map, union, dictionary,
 * run-end encoded, null, extension types (their metadata travels). Values and nulls are exact;
 * slices are normalised (offset 0) and carry only their own rows. Reading is zero-copy and
 * bounds-checked: a block from damaged bytes is SK_ECORRUPT, never a crash.
 *
 * Canonical: the bytes are a function of schema and values, not of how the input was sliced, padded
 * or over-allocated: padding and bits past the end are zero, a bitmap without nulls is dropped,
 * offsets start at 0. What this costs and where it ends:
 *   - views and list-views are gathered in row order, so rows that shared bytes (sliding windows,
 *     repeated strings) each get their own copy; null slots become empty. Dense unions are gathered
 *     too.
 *   - a dictionary is copied whole, unused values included; the runs of run-end encoding are kept
 *     (cut at the ends, never merged).
 *   - bytes under a null slot of other types (and children under a null struct or list slot) are
 *     copied as they are. */
#ifndef SK_BLOCK_H
#define SK_BLOCK_H

#include "base/base.h"
#include "base/err.h"

/* The C Data Interface, as specified by Apache Arrow (ABI, not code). */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif

#define SK_BLOCK_ALIGN 64u

#define SK_BLOCK_MAX_DEPTH                                                 \
    64u /* levels of nesting, the batch itself included; same as pyarrow's \
         */

/* Threads: every function may run at the same time as any other on other plans and structs; reading
 * shares bytes freely. */

/* Encoding plan of one batch: computed once by measure, used by write. Holds only pointers into the
 * array. */
struct sk_block_plan;
/* `array` is a struct array (a record batch); it and `schema` stay the caller's and must outlive
 * the plan. *size: bytes write will need.
 * SK_EINVAL: not a struct, null rows at top level, malformed input; the message names the
 * column. */
sk_rc sk_block_measure(const struct ArrowSchema *schema, const struct ArrowArray *array,
                       struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) SK_MUST_USE;
/* Fills dst (64-byte aligned, at least the measured size). Cannot fail. */
void sk_block_write(const struct sk_block_plan *plan, uint8_t *dst);
/* The buffer of the plan with the most bytes, if it is one piece of memory: where it lies, and
 * where in the block it goes. False: it is not. */
struct sk_block_largest {
    const void *src;
    uint64_t off, len;
    uint32_t buffer;
};
bool sk_block_plan_largest(const struct sk_block_plan *plan, struct sk_block_largest *out);
/* The same as write, for a dst at whose place `off` that buffer lies already. */
void sk_block_write_around(const struct sk_block_plan *plan, uint8_t *dst,
                           const struct sk_block_largest *there);
/* Where the values of each column go, [n_columns]: bytes [off, off + len) of the block, numbers of
 * one width in the order of the rows, if none is null; of lists the numbers in them.
 * off 0: the column is of another kind, has nulls at some level, or has no values. */
struct sk_block_values {
    uint64_t off, len;
};
void sk_block_plan_values(const struct sk_block_plan *plan, struct sk_block_values *out);
void sk_block_plan_free(struct sk_block_plan *plan);
/* The same for rows index[0], ..., index[n - 1] only, in this order; rows may repeat. SK_EINVAL,
 * too: an index that is no row. The index need not outlive
 * the plan. Memory: 8 bytes a row, or 16 a run of neighbouring rows where these are long. */
sk_rc sk_block_measure_rows(const struct ArrowSchema *schema, const struct ArrowArray *array,
                            const uint32_t *index, uint64_t n, struct sk_block_plan **plan,
                            uint64_t *size, struct sk_err *err) SK_MUST_USE;

/* Rows of several batches, in any order: row `row` of batch `run`; rows may repeat. run SK_ROW_NONE
 * is a row of nulls. */
struct sk_row_at {
    uint32_t run, row;
};
#define SK_ROW_NONE UINT32_MAX
/* n batches of one schema (n may be 0), and a place for each row of the result */
struct sk_block_side {
    const struct ArrowArray *const *arrays;
    uint32_t n;
    const struct sk_row_at *places;
};
struct sk_block_pick { /* where a column of the result comes from */
    uint32_t side, column;
};
/* The plan of a batch of n rows and `schema`, whose column i is column picks[i].column of
 * sides[picks[i].side], taken by that side's places: one side for a merge of runs, two for a join.
 * picks NULL: the columns of sides[0]. Types, children and dictionaries are those of `schema`
 * (names and nullability may differ; not checked beyond the number of buffers and children). A null
 * in a union is a null of its first type, one of run ends a run of null. Dictionaries that differ
 * between batches are unified: all their values in the order of batches, each once (values that are
 * nested are not compared, only put behind each other). Nothing is sorted, and no type changes:
 * more values than the codes can count are SK_EINVAL. All must outlive the plan, places too. Also
 * SK_EINVAL: a place that is no row, and what sk_block_measure says. Cost: fixed-width columns and
 * text are read and written once, asked for ahead; lists and fixed-size lists take 20 bytes a row
 * of scratch. */
sk_rc sk_block_measure_places(const struct ArrowSchema *schema, const struct sk_block_side *sides,
                              uint32_t n_sides, const struct sk_block_pick *picks, uint64_t n,
                              struct sk_block_plan **plan, uint64_t *size,
                              struct sk_err *err) SK_MUST_USE;

struct sk_block_sizes {
    /* data_bytes: what sk_block_nbytes says; total_bytes: what write needs */
    uint64_t n_rows, data_bytes, total_bytes;
    /* never 0; batches of one schema (names, types, nullability, metadata) have the same */
    uint32_t schema_crc;
};
struct sk_block_sizes sk_block_plan_sizes(const struct sk_block_plan *plan);
/* The plan of all rows of n > 0 batches of one schema, in order: write gives the bytes that a
 * concatenated batch would give. The parts must outlive it.
 * *plan NULL: this type cannot be joined (dictionaries, views, list-views, dense unions, run ends),
 * or is too large for its offsets. */
sk_rc sk_block_plan_join(const struct sk_block_plan *const *parts, size_t n,
                         struct sk_block_plan **plan, struct sk_err *err) SK_MUST_USE;

/* Data bytes of a batch as write would lay them out, without building anything (pure function of
 * values: used for cut points). */
sk_rc sk_block_nbytes(const struct ArrowSchema *schema, const struct ArrowArray *array,
                      uint64_t *out, struct sk_err *err) SK_MUST_USE;

struct sk_block_info {
    uint64_t n_rows, n_columns, total_bytes;
};
/* Validates header and tables, not values: whatever passes can be exported without reading outside
 * [p, p + n); cost O(columns). `p` is 8-byte aligned (else SK_EINVAL); n may be more than the
 * block. */
sk_rc sk_block_info(const uint8_t *p, size_t n, struct sk_block_info *out,
                    struct sk_err *err) SK_MUST_USE;

/* Validates the values too, as far as the memory safety of a reader that trusts Arrow's invariants
 * goes: offsets, views, union ids, dictionary indices, run ends, null counts; cost O(values). For
 * bytes from a file or from strangers, before export; blocks made by our own
 * workers do not need it. Not checked: UTF-8, decimal and calendar ranges. */
sk_rc sk_block_validate(const uint8_t *p, size_t n, struct sk_err *err) SK_MUST_USE;

/* Whoever keeps the bytes alive. `release` is called once, when the last exported array is
 * released, from any thread. */
struct sk_block_owner {
    void (*release)(void *ctx);
    void *ctx;
};
/* Exports rows [row0, row0 + n_rows) (n_rows = UINT64_MAX: to the end) without copying; `owner` is
 * taken (released also on failure). Both structs are filled, each with its own release; children
 * may be moved out and released in any order. The rows are cut by the offsets of the columns
 * (pyarrow refuses a batch whose top struct has an offset). */
sk_rc sk_block_export(const uint8_t *p, size_t n, uint64_t row0, uint64_t n_rows,
                      struct sk_block_owner owner, struct ArrowSchema *schema,
                      struct ArrowArray *array, struct sk_err *err) SK_MUST_USE;
/* Whether batches of these have the same names, types, nullability and metadata. */
bool sk_block_same_schema(const struct ArrowSchema *a, const struct ArrowSchema *b);
/* Schema only (no owner: strings are copied). */
sk_rc sk_block_export_schema(const uint8_t *p, size_t n, struct ArrowSchema *schema,
                             struct sk_err *err) SK_MUST_USE;

#endif

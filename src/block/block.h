/* block.h - contract of the block layer: an Arrow record batch in one buffer, in and out through
 * the Arrow C Data Interface.
 *
 * The block layer never allocates the bytes of a block: `measure` computes how many bytes are
 * needed, the caller provides a buffer (of the store, or from malloc), and `write` fills it; a
 * block is read in place, in the caller's bytes. Layout (all offsets from the start, little-endian,
 * buffers 64-byte aligned):
 *
 *     header   96 bytes: magic "SKB1", version, flags, n_rows, n_columns, total_bytes, node count,
 *              buffer count, schema offset and length
 *     schema   flattened ArrowSchema tree, depth first: format, name, metadata, flags, n_children,
 *              has_dictionary
 *     nodes    flattened ArrowArray tree, same order: length, null_count, n_buffers, first buffer
 *              index
 *     buffers  table of (offset, length), length 0 and offset 0 = absent
 *     data     64-byte aligned buffers
 *
 * Every Arrow type is supported: primitive, boolean, utf8/binary and large and view variants,
 * fixed-size binary, decimal, temporal, (large) list, list-view, fixed-size list, struct, map,
 * union, dictionary, run-end encoded, null, extension types (with their metadata). Values and nulls
 * are copied exactly; a slice becomes a batch with offset 0 that has only the slice's rows. Reading
 * is zero-copy and bounds-checked: damaged bytes give SK_ECORRUPT, never a crash.
 *
 * Blocks are canonical: their bytes depend on schema and values only, not on how the input was
 * sliced, padded or over-allocated. Padding and bits past the end are zero, a bitmap without nulls
 * is dropped, offsets start at 0. The costs and limits of this:
 * - views and list-views are gathered in row order, so rows that shared bytes (sliding windows,
 *   repeated strings) each get their own copy; null slots become empty. Dense unions are
 *   gathered too.
 * - a dictionary is copied whole, unused values included; the runs of run-end encoding stay as they
 *   are (cut at the ends, never merged).
 * - bytes under a null slot of other types (and children under a null struct or list slot) are
 *   copied as they are. */
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

/* most levels of nesting, counting the batch itself; pyarrow's limit */
#define SK_BLOCK_MAX_DEPTH 64u

/* Thread-safety: every function may run at the same time as any other on other plans and structs;
 * any number of threads may read the same bytes. */

/* The plan of a block, made by measure and executed by write. It has pointers into the arrays, no
 * copies of their bytes. */
struct sk_block_plan;
/* Plans a block of one record batch. `array` is a struct array; `array` and `schema` still belong
 * to the caller and must outlive the plan. *size: number of bytes that write needs. SK_EINVAL: not
 * a struct, null rows at the top level, malformed input; the message names the column. */
sk_rc sk_block_measure(const struct ArrowSchema *schema, const struct ArrowArray *array,
                       struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) SK_MUST_USE;
/* Writes the block to dst (64-byte aligned, at least the measured size). Cannot fail. */
void sk_block_write(const struct sk_block_plan *plan, uint8_t *dst);
/* Finds the plan's largest buffer, if its content is one piece of memory: where it lies (src), its
 * length, and its place in the block (off). false: the content is in several pieces. */
struct sk_block_largest {
    const void *src;
    uint64_t off, len;
    uint32_t buffer;
};
bool sk_block_plan_largest(const struct sk_block_plan *plan, struct sk_block_largest *out);
/* Like sk_block_write, but does not write that buffer, since dst has its bytes at `off` already. */
void sk_block_write_around(const struct sk_block_plan *plan, uint8_t *dst,
                           const struct sk_block_largest *there);
/* Finds where in the block the values of each column will be: out[n_columns] gets the byte range
 * [off, off + len) of a column of numbers of one width without nulls, or of the numbers in a column
 * of lists. off 0: the column is of another type, has nulls at some level, or has no values. */
struct sk_block_values {
    uint64_t off, len;
};
void sk_block_plan_values(const struct sk_block_plan *plan, struct sk_block_values *out);
void sk_block_plan_free(struct sk_block_plan *plan);
/* Like sk_block_measure, for rows index[0], ..., index[n - 1] only, in this order; rows may repeat.
 * Also SK_EINVAL for an index beyond the last row. The index may be freed before the plan. Memory
 * of the plan: 8 bytes a row, or 16 bytes for each run of neighbouring rows if runs are long. */
sk_rc sk_block_measure_rows(const struct ArrowSchema *schema, const struct ArrowArray *array,
                            const uint32_t *index, uint64_t n, struct sk_block_plan **plan,
                            uint64_t *size, struct sk_err *err) SK_MUST_USE;

/* A row among several batches: row `row` of batch `run`. run SK_ROW_NONE: a row of nulls. */
struct sk_row_at {
    uint32_t run, row;
};
#define SK_ROW_NONE UINT32_MAX
/* n batches of one schema (n may be 0), and for each row of the result the place from which it is
 * taken */
struct sk_block_side {
    const struct ArrowArray *const *arrays;
    uint32_t n;
    const struct sk_row_at *places;
};
struct sk_block_pick { /* the source of one column of the result */
    uint32_t side, column;
};
/* Plans a batch of n rows with `schema`. Column i of the batch is column picks[i].column of
 * sides[picks[i].side], with the rows of that side's places, in order; rows may repeat. A merge of
 * runs has one side, a join two. picks NULL: the columns of sides[0]. Types, children and
 * dictionaries are those of `schema` (names and nullability may differ; only the numbers of buffers
 * and children are checked). A null in a union becomes a null of its first type, a null in run-end
 * encoding a run of null. Dictionaries that differ between batches become one with the values of
 * all, in the order of the batches, each value once (nested values are not compared, only
 * concatenated). Values are not sorted and types do not change: more values than the type of the
 * codes can number give SK_EINVAL. All arguments, also the places, must outlive the plan. Also
 * SK_EINVAL: a place beyond a batch's last row, and the cases of sk_block_measure. Cost:
 * fixed-width columns and text are read once, with prefetch, and written once; lists and fixed-size
 * lists take 20 bytes a row of scratch memory. */
sk_rc sk_block_measure_places(const struct ArrowSchema *schema, const struct sk_block_side *sides,
                              uint32_t n_sides, const struct sk_block_pick *picks, uint64_t n,
                              struct sk_block_plan **plan, uint64_t *size,
                              struct sk_err *err) SK_MUST_USE;

struct sk_block_sizes {
    /* data_bytes: as computed by sk_block_nbytes; total_bytes: the size of the block, which write
     * needs. */
    uint64_t n_rows, data_bytes, total_bytes;
    /* Checksum of the schema, never 0; equal for batches of one schema (names, types, nullability,
     * metadata). */
    uint32_t schema_crc;
};
struct sk_block_sizes sk_block_plan_sizes(const struct sk_block_plan *plan);
/* Plans a block of all rows of n > 0 batches of one schema, in order; write then gives the same
 * bytes as for the concatenated batch. The plans in `parts` must outlive *plan. *plan NULL: the
 * type cannot be joined (dictionaries, views, list-views, dense unions, run ends), or is too large
 * for its offsets. */
sk_rc sk_block_plan_join(const struct sk_block_plan *const *parts, size_t n,
                         struct sk_block_plan **plan, struct sk_err *err) SK_MUST_USE;

/* Counts the data bytes that a block of the batch would have, without a plan. The result depends on
 * the values only, and is used to choose where output is cut. */
sk_rc sk_block_nbytes(const struct ArrowSchema *schema, const struct ArrowArray *array,
                      uint64_t *out, struct sk_err *err) SK_MUST_USE;

/* Checks a batch that came from outside skate: the schema, the shape of all arrays, and all values
 * on which the memory safety of later readers depends (offsets, views, type ids, dictionary
 * indices). SK_EINVAL; the message names the column. Not found: a buffer that is too short. Cost:
 * O(columns), plus one pass over offsets, views, type ids and indices. */
sk_rc sk_block_check_batch(const struct ArrowSchema *schema, const struct ArrowArray *array,
                           struct sk_err *err) SK_MUST_USE;

struct sk_block_info {
    uint64_t n_rows, n_columns, total_bytes;
};
/* Validates header and tables, not values: a block that passes can be exported without reading
 * outside [p, p + n). Cost: O(columns). `p` is 8-byte aligned (else SK_EINVAL); n may be more than
 * the block. */
sk_rc sk_block_info(const uint8_t *p, size_t n, struct sk_block_info *out,
                    struct sk_err *err) SK_MUST_USE;

/* Like sk_block_info, and also validates all values on which the memory safety of a reader depends
 * that trusts Arrow's invariants: offsets, views, union ids, dictionary indices, run ends, null
 * counts. Cost: O(values). Call it before the export of bytes from files or other untrusted
 * sources; blocks made by skate's own workers do not need it. Not checked: UTF-8, decimal and
 * calendar ranges. */
sk_rc sk_block_validate(const uint8_t *p, size_t n, struct sk_err *err) SK_MUST_USE;

/* Keeps the bytes of an exported block alive. `release` is called once, when the last exported
 * array is released, on any thread. */
struct sk_block_owner {
    void (*release)(void *ctx);
    void *ctx;
};
/* Exports rows [row0, row0 + n_rows) (n_rows = UINT64_MAX: to the end) without copying. The call
 * takes `owner` over, and releases it on failure, too. Both structs are filled, each with its own
 * release; children may be moved out and released in any order. A row0 > 0 becomes an offset of
 * each column (pyarrow refuses a batch whose top struct has an offset). */
sk_rc sk_block_export(const uint8_t *p, size_t n, uint64_t row0, uint64_t n_rows,
                      struct sk_block_owner owner, struct ArrowSchema *schema,
                      struct ArrowArray *array, struct sk_err *err) SK_MUST_USE;
/* True if the two schemas have the same names, types, nullability and metadata. */
bool sk_block_same_schema(const struct ArrowSchema *a, const struct ArrowSchema *b);
/* Writes the columns as text for an error message: k "l", v "+s"(x "g"). Returns its length, which
 * may be more than cap. */
size_t sk_block_schema_text(const struct ArrowSchema *s, char *buf, size_t cap);
/* Exports the schema only; it needs no owner, since strings are copied. */
sk_rc sk_block_export_schema(const uint8_t *p, size_t n, struct ArrowSchema *schema,
                             struct sk_err *err) SK_MUST_USE;

#endif

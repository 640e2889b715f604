/* batch.h - record batches that operators pass on: a schema and the columns, both counted, so that
 * slices and batches of one schema share them.
 *
 * A batch belongs to one thread. The Arrow structs that sk_batch_export makes are the consumer's:
 * they may be moved and released in any order, on any thread. */
#ifndef SK_DATA_BATCH_H
#define SK_DATA_BATCH_H

#include "base/base.h"
#include "base/err.h"
#include "block/block.h"

struct sk_schema { /* read-only; counted */
    struct ArrowSchema s;
    uint32_t refs;
};
/* Copies the schema. SK_EINVAL: it is not a struct ("+s"), or deeper than SK_BLOCK_MAX_DEPTH. */
sk_rc sk_schema_copy(const struct ArrowSchema *from, struct sk_schema **out,
                     struct sk_err *err) SK_MUST_USE;
/* Copies the schema with columns and fields that may all have nulls, and without the metadata of
 * the whole: schemas that differ in these only have equal copies. */
sk_rc sk_schema_nullable(const struct ArrowSchema *from, struct sk_schema **out,
                         struct sk_err *err) SK_MUST_USE;
struct sk_schema *sk_schema_keep(struct sk_schema *s); /* takes one more reference; returns s */
void sk_schema_drop(struct sk_schema *s);              /* NULL is fine */
/* Returns the index of the first column of that name; -1: there is none. */
int64_t sk_schema_find(const struct ArrowSchema *s, const char *name);
/* Returns SK_EINVAL with a message that there is no such column, and which there are. */
sk_rc sk_schema_no_column(const struct ArrowSchema *s, const char *name, struct sk_err *err);
/* SK_EINVAL if a batch of schema `is` does not have the schema `was`: the columns or types differ,
 * or a column may have nulls that could not before. The message names the column and both formats.
 * Metadata may differ. */
sk_rc sk_schema_changed(const struct ArrowSchema *was, const struct ArrowSchema *is,
                        struct sk_err *err) SK_MUST_USE;
/* Fills a plain copy of the schema, which the caller releases. */
sk_rc sk_schema_export(const struct ArrowSchema *from, struct ArrowSchema *out,
                       struct sk_err *err) SK_MUST_USE;

struct sk_shared; /* arrays that batches share */
struct sk_batch {
    struct sk_schema *schema;
    /* A struct array. Its children may have offsets; it has none itself. Valid while the batch
     * exists. */
    struct ArrowArray array;
    struct sk_shared *own; /* internal */
};
/* Makes a batch that takes over *array (array->release is NULL afterwards, also after a failure)
 * and one reference to schema. SK_EINVAL: the array is released, or its columns are not those of
 * the schema. Cost: O(columns). */
sk_rc sk_batch_take(struct sk_schema *schema, struct ArrowArray *array, struct sk_batch **out,
                    struct sk_err *err) SK_MUST_USE;
/* Makes a batch of rows [row, row + n) of b without copying bytes. */
sk_rc sk_batch_slice(const struct sk_batch *b, int64_t row, int64_t n, struct sk_batch **out,
                     struct sk_err *err) SK_MUST_USE;
/* Makes a batch of these columns of b, in this order, without copying bytes. schema: that of the
 * result; the call takes over one reference to it. */
sk_rc sk_batch_columns(const struct sk_batch *b, struct sk_schema *schema, const uint32_t *columns,
                       struct sk_batch **out, struct sk_err *err) SK_MUST_USE;
/* Copies all rows of n > 0 batches of one schema into one batch. */
sk_rc sk_batch_concat(struct sk_batch *const *batches, uint32_t n, struct sk_batch **out,
                      struct sk_err *err) SK_MUST_USE;
/* Copies the rows with these numbers, in this order, into a batch. */
sk_rc sk_batch_rows(const struct sk_batch *b, const uint32_t *rows, uint64_t n,
                    struct sk_batch **out, struct sk_err *err) SK_MUST_USE;
/* Makes a batch of a block's rows without copying; *owner is taken over, also after a failure. */
sk_rc sk_batch_open(const uint8_t *block, size_t n, uint64_t row0, uint64_t n_rows,
                    struct sk_block_owner owner, struct sk_batch **out,
                    struct sk_err *err) SK_MUST_USE;
/* Writes a planned block into memory of its own and makes a batch of it. The plan is freed. */
sk_rc sk_batch_of_plan(struct sk_block_plan *plan, uint64_t size, struct sk_batch **out,
                       struct sk_err *err) SK_MUST_USE;
/* Fills *out with an array that shares the batch's bytes, for a consumer that owns it. */
sk_rc sk_batch_export(const struct sk_batch *b, struct ArrowArray *out,
                      struct sk_err *err) SK_MUST_USE;
void sk_batch_destroy(struct sk_batch *b); /* NULL is fine */

#endif

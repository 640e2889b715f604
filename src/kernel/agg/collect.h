/* collect.h - aggregates that keep values: lists, distinct values, counters, exact quantiles;
 * inside the kernel layer only. */
#ifndef SK_COLLECT_H
#define SK_COLLECT_H

#include "kernel/kernel_int.h"

struct sk_held { /* a block in memory of the kernel's own, as a batch */
    uint8_t *bytes;
    struct ArrowSchema schema;
    struct ArrowArray array;
};
/* Writes the plan's block. Frees the plan, also after a failure. */
sk_rc sk_held_make(struct sk_held *h, struct sk_block_plan *plan, uint64_t size,
                   struct sk_err *err) SK_MUST_USE;
void sk_held_free(struct sk_held *h); /* a zeroed struct is fine */

/* value_bytes.c: the rows of an array as bytes, the same bytes for values that are equal as keys
 * are, whatever the type. The caller frees offsets and bytes. */
sk_rc sk_value_bytes(const struct ArrowSchema *s, const struct ArrowArray *a, int32_t **offsets,
                     uint8_t **bytes, struct sk_err *err) SK_MUST_USE;

struct sk_collect;
/* Makes a collection; `column` is the type of its column's values and must outlive it. one: all
 * rows are one group. */
sk_rc sk_collect_create(const struct sk_agg *agg, const struct ArrowSchema *column, bool one,
                        struct sk_collect **out, struct sk_err *err) SK_MUST_USE;
void sk_collect_destroy(struct sk_collect *c);
void sk_collect_clear(struct sk_collect *c);
/* The most bytes of memory that the kept values need. */
uint64_t sk_collect_bytes(const struct sk_collect *c);
/* The type of the column of results, or of partial results. */
const struct ArrowSchema *sk_collect_schema(const struct sk_collect *c, bool partial);
/* Adds row i of a column to group ids[i]: `add` a column of values, `merge` a column of partial
 * results. */
sk_rc sk_collect_add(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                     int64_t rows, const uint32_t *ids, struct sk_err *err) SK_MUST_USE;
sk_rc sk_collect_merge(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                       int64_t rows, const uint32_t *ids, struct sk_err *err) SK_MUST_USE;
/* Builds one row a group, in the order of the groups' numbers. *out stays valid until the next
 * build, change or clear. */
sk_rc sk_collect_build(struct sk_collect *c, bool partial, uint64_t groups,
                       const struct ArrowArray **out, struct sk_err *err) SK_MUST_USE;

#endif

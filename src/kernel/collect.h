/* collect.h - aggregates that keep values: lists, distinct values, counters, exact quantiles;
 * inside the kernel layer only. */
#ifndef SK_COLLECT_H
#define SK_COLLECT_H

#include "kernel/kernel_int.h"

struct sk_held { /* a block of our own, as a batch */
    uint8_t *bytes;
    struct ArrowSchema schema;
    struct ArrowArray array;
};
/* The plan is freed, also after a failure. */
sk_rc sk_held_make(struct sk_held *h, struct sk_block_plan *plan, uint64_t size,
                   struct sk_err *err) SK_MUST_USE;
void sk_held_free(struct sk_held *h); /* all zero is fine */

struct sk_collect;
/* column: the type of its values; it must outlive the collection. */
sk_rc sk_collect_create(const struct sk_agg *agg, const struct ArrowSchema *column,
                        struct sk_collect **out, struct sk_err *err) SK_MUST_USE;
void sk_collect_destroy(struct sk_collect *c);
void sk_collect_clear(struct sk_collect *c);
/* of memory that what is kept needs at most */
uint64_t sk_collect_bytes(const struct sk_collect *c);
/* The column of results, or of partial results. */
const struct ArrowSchema *sk_collect_schema(const struct sk_collect *c, bool partial);
/* Row i of a column goes to group ids[i]; a column of values, or one of partial results. */
sk_rc sk_collect_add(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                     int64_t rows, const uint32_t *ids, struct sk_err *err) SK_MUST_USE;
sk_rc sk_collect_merge(struct sk_collect *c, const struct ArrowArray *column, int64_t offset,
                       int64_t rows, const uint32_t *ids, struct sk_err *err) SK_MUST_USE;
/* One row a group, in the order of their numbers; the collection's until it is built, changed or
 * cleared again. */
sk_rc sk_collect_build(struct sk_collect *c, bool partial, uint64_t groups,
                       const struct ArrowArray **out, struct sk_err *err) SK_MUST_USE;

#endif

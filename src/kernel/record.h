/* record.h - side contract of the kernel layer: records of fixed width, one behind the other,
 * ordered by their first bytes. No Arrow, no blocks.
 *
 * The order is that of memcmp of the first `key` bytes; equal keys keep the order of their records.
 * A sort moves each record twice: into buckets that fit the cache (their bounds are quantiles of a
 * sample, so no distribution of keys is worse than another, but one with few values), then, inside
 * a bucket, an index of 8-byte prefixes is sorted by radix.c and the records are gathered to their
 * final place. Sorting an index of the whole and
 * gathering once is twice as slow: every record is a cache miss (docs/design/cloudsort.md has the
 * figures).
 *
 * Areas that are read and areas that are written must not overlap. n: records, at most UINT32_MAX.
 * Pure, no Python, no engine; functions may run beside
 * each other. Errors: SK_EINVAL (a width of 0, a key of 0 or wider than the record, too many
 * records), SK_ENOMEM. Scratch: sk_alloc. */
#ifndef SK_RECORD_H
#define SK_RECORD_H

#include "base/base.h"
#include "base/err.h"

struct sk_records {
    uint32_t width, key; /* bytes of a record; of its key */
};

/* out[0, n): the records of `in` in order. scratch: n records, overwritten; NULL: got here. Other
 * scratch: 32 bytes a record of a bucket (~10,000). */
sk_rc sk_records_sort(struct sk_records f, const void *in, size_t n, void *out, void *scratch,
                      struct sk_err *err) SK_MUST_USE;

/* Bounds are keys of f.key bytes in ascending order, one behind the other. Part p of n_bounds + 1
 * is what is at or behind bound p - 1 and before bound p. */
/* out[start[p], start[p + 1]): the records of part p, in the order of `in`. start: [n_bounds + 2].
 * Scratch: 4 bytes a record. SK_EINVAL: bounds are out of order. */
sk_rc sk_records_partition(struct sk_records f, const void *in, size_t n, const void *bounds,
                           size_t n_bounds, void *out, size_t *start,
                           struct sk_err *err) SK_MUST_USE;
/* The same of records that are in order: where the parts begin; nothing moves. */
void sk_records_cut(struct sk_records f, const void *sorted, size_t n, const void *bounds,
                    size_t n_bounds, size_t *start);
/* n_bounds keys to `bounds` that cut n records into n_bounds + 1 parts of about one size: quantiles
 * of all of them. `in` is a sample that may be reordered by its copy in scratch. n > 0. */
sk_rc sk_records_quantiles(struct sk_records f, const void *in, size_t n, void *bounds,
                           size_t n_bounds, struct sk_err *err) SK_MUST_USE;

/* k runs, each in order, as one; equal keys in the order of the runs. A loser tree; runs are read
 * front to back, once. */
struct sk_records_merge;
sk_rc sk_records_merge_create(struct sk_records f, const void *const *run, const size_t *n,
                              size_t k, struct sk_records_merge **out,
                              struct sk_err *err) SK_MUST_USE;
/* The next records, at most cap; fewer only at the end. */
size_t sk_records_merge_next(struct sk_records_merge *m, void *out, size_t cap);
void sk_records_merge_destroy(struct sk_records_merge *m); /* NULL is fine */

#endif

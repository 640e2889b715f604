/* record.h - side contract of the kernel layer: records of fixed width without gaps, ordered by
 * their first bytes. No Arrow, no blocks.
 *
 * The order is that of memcmp of the first `key` bytes; records of equal keys keep their order. A
 * sort moves each record twice. First records go into buckets that fit the CPU's cache; the bounds
 * of the buckets are quantiles of a sample, so any distribution of keys works well unless it has
 * only few distinct values. Then, inside a bucket, radix.c sorts an index of 8-byte prefixes, and
 * the records are gathered to their final place. Sorting one index of all records and gathering
 * once is twice as slow, since every record is then a cache miss (docs/design/cloudsort.md has the
 * figures).
 *
 * Inputs and outputs must not overlap. n counts records, at most UINT32_MAX. Pure, no Python, no
 * engine; functions may run at the same time. Errors: SK_EINVAL (width is 0, key is 0 or wider than
 * the record, too many records), SK_ENOMEM. Scratch memory is from sk_alloc. */
#ifndef SK_RECORD_H
#define SK_RECORD_H

#include "base/base.h"
#include "base/err.h"

struct sk_records {
    uint32_t width, key; /* bytes of a record, and of its key */
};

/* Sorts: out[0, n) gets the records of `in` in order. `scratch`: memory for n records, which is
 * overwritten; NULL: the call allocates it. Other scratch: 32 bytes for each record of a bucket
 * (~10,000). */
sk_rc sk_records_sort(struct sk_records f, const void *in, size_t n, void *out, void *scratch,
                      struct sk_err *err) SK_MUST_USE;

/* Bounds are keys of f.key bytes without gaps, in ascending order. Of the n_bounds + 1 parts, part
 * p has the records at or above bound p - 1 and below bound p. */
/* Partitions: out[start[p], start[p + 1]) gets the records of part p, in the order of `in`. `start`
 * has n_bounds + 2 entries. Scratch: 4 bytes a record. SK_EINVAL: bounds are out of order. */
sk_rc sk_records_partition(struct sk_records f, const void *in, size_t n, const void *bounds,
                           size_t n_bounds, void *out, size_t *start,
                           struct sk_err *err) SK_MUST_USE;
/* Finds where the parts of sorted records begin, without moving them. */
void sk_records_cut(struct sk_records f, const void *sorted, size_t n, const void *bounds,
                    size_t n_bounds, size_t *start);
/* Sets `bounds` to n_bounds keys that cut records into n_bounds + 1 parts of about equal size:
 * quantiles of all n > 0 records of `in`, usually a sample. */
sk_rc sk_records_quantiles(struct sk_records f, const void *in, size_t n, void *bounds,
                           size_t n_bounds, struct sk_err *err) SK_MUST_USE;

/* Merges k sorted runs by a loser tree; records with equal keys stay in the order of the runs. Runs
 * are read once, front to back. */
struct sk_records_merge;
sk_rc sk_records_merge_create(struct sk_records f, const void *const *run, const size_t *n,
                              size_t k, struct sk_records_merge **out,
                              struct sk_err *err) SK_MUST_USE;
/* Writes the next records to `out`, at most cap; returns their number, which is less than cap only
 * at the end. */
size_t sk_records_merge_next(struct sk_records_merge *m, void *out, size_t cap);
void sk_records_merge_destroy(struct sk_records_merge *m); /* NULL is fine */

#endif

/* groups.h - groups of rows of equal keys, in batches whose rows are in the order of the keys. */
#ifndef SK_DATA_GROUPS_H
#define SK_DATA_GROUPS_H

#include "data/data.h"

/* Wire format: u32 n, then the names of the key's columns, each with its length and a NUL. */
void sk_groups_write(struct sk_wr *w, const char *const *keys, uint32_t n);

struct sk_groups;
sk_rc sk_groups_read(struct sk_bytes wire, struct sk_groups **out, struct sk_err *err) SK_MUST_USE;
void sk_groups_destroy(struct sk_groups *g); /* NULL is fine */
/* Finds the groups of a batch: start[i] is the first row of group i, *n their number. The array is
 * valid until the next call. SK_EINVAL: a key's column is missing, or cannot be a key. */
sk_rc sk_groups_find(struct sk_groups *g, const struct sk_batch *b, const uint32_t **start,
                     uint32_t *n, struct sk_err *err) SK_MUST_USE;

#endif

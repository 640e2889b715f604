/* columns.h - picks columns of batches by name, maybe under new names. */
#ifndef SK_DATA_COLUMNS_H
#define SK_DATA_COLUMNS_H

#include "data/data.h"

/* Wire format: u32 n, then for each column: bytes name, bytes new name. */
void sk_columns_write(struct sk_wr *w, uint32_t n, const char *const *names,
                      const char *const *new_names);

struct sk_columns;
sk_rc sk_columns_read(struct sk_bytes wire, struct sk_columns **out,
                      struct sk_err *err) SK_MUST_USE;
uint32_t sk_columns_n(const struct sk_columns *c);
/* Makes a batch of the columns without copying bytes; b is destroyed. The schema is made once for
 * batches of one schema. SK_EINVAL: there is no such column; the message names those that there
 * are. */
sk_rc sk_columns_pick(struct sk_columns *c, struct sk_batch *b, struct sk_batch **out,
                      struct sk_err *err) SK_MUST_USE;
void sk_columns_destroy(struct sk_columns *c); /* NULL is fine */

#endif

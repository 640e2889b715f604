/* mapping.h - the map of an exchange as an operator does it: batches in, packs or runs out. */
#ifndef SK_DATA_MAPPING_H
#define SK_DATA_MAPPING_H

#include "data/data.h"

/* Maps one batch, which the call takes over, and yields what comes of it (shuffle/work.h). *row0:
 * number of rows that the task has mapped before; the batch's rows are added. */
sk_rc sk_data_map(struct sk_data_node *n, const struct sk_what *what, struct sk_batch *b,
                  uint64_t *row0, struct sk_err *err) SK_MUST_USE;

#endif

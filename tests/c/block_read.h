/* block_read.h - a reader of exported batches for tests. It touches every value that a consumer
 * would touch, and trusts Arrow's invariants as a consumer does. */
#ifndef BLOCK_READ_H
#define BLOCK_READ_H

#include "block/block.h"

/* Returns a hash of the schema's texts and of all rows in [offset, offset + length). Follows
 * offsets, views and dictionary indices as a reader does. */
uint64_t block_read(const struct ArrowSchema *s, const struct ArrowArray *a);

#endif

/* block_read.h - a reader of exported batches for tests: touches every value a consumer would,
 * trusting Arrow's invariants. */
#ifndef BLOCK_READ_H
#define BLOCK_READ_H

#include "block/block.h"

/* A hash of the schema's texts and of all rows in [offset, offset + length); reads each through
 * offsets, views, indices as readers do. */
uint64_t block_read(const struct ArrowSchema *s, const struct ArrowArray *a);

#endif

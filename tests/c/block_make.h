/* block_make.h - hand-made Arrow schemas and arrays for tests: plain structs on the test's stack or
 * in static memory. There is nothing to free. */
#ifndef BLOCK_MAKE_H
#define BLOCK_MAKE_H

#include "block/block.h"

struct made { /* one column or field: schema and array side by side */
    struct ArrowSchema schema;
    struct ArrowArray array;
    const void *buffers[8];
    struct ArrowSchema *schema_children[8];
    struct ArrowArray *array_children[8];
};

/* Makes a column without children. `length` counts rows from `offset` on. buffers: in Arrow's order
 * for the format; where the format has a validity buffer it comes first (NULL: no nulls). */
void make_leaf(struct made *m, const char *format, const char *name, int64_t length, int64_t offset,
               int n_buffers, const void *const *buffers);
#define MAKE_LEAF(m, format, name, length, offset, ...)            \
    make_leaf((m), (format), (name), (length), (offset),           \
              (int)SK_COUNT(((const void *const[]){__VA_ARGS__})), \
              (const void *const[]){__VA_ARGS__})
void make_child(struct made *m, struct made *child);
void make_dictionary(struct made *m, struct made *values);
/* Makes a record batch; its columns are added by make_child. */
void make_batch(struct made *m, int64_t length);

struct block {
    uint8_t *p;
    size_t n;
};
/* Writes the batch as a block: measures it, writes it over garbage and validates the result. Fails
 * the test on any error. Free the block with free_block. */
struct block make_block(const struct made *batch);
void free_block(struct block *b);

#endif

/* join_int.h - what keys.c and join.c share: the sides of a join with their keys. */
#ifndef SK_JOIN_INT_H
#define SK_JOIN_INT_H

#include "shuffle/work_int.h"

struct sk_join_side {
    const struct ArrowSchema *schema;
    const struct ArrowArray **batches; /* [n] */
    uint32_t n;
    uint64_t rows, bytes;
    /* The key's columns alone, batch by batch, in the types that both sides have in common. */
    struct ArrowSchema key_schema;
    const struct ArrowArray **key_batches; /* [n] */
    struct sk_keys **keys;                 /* [n] */
    void *mem[9];                          /* memory of all this */
    uint32_t n_mem;
    void **widened; /* [n_widened]: buffers of widened columns */
    uint32_t n_widened;
};

/* Opens both sides from the slices of a reduce. After an error, too, the sides have to be freed. */
sk_rc sk_join_sides_open(const struct sk_what *what, const struct sk_reduce_input *in,
                         struct sk_join_side sides[2], struct sk_err *err) SK_MUST_USE;
void sk_join_side_free(struct sk_join_side *side);

/* Returns the names of a schema's columns; .name NULL: no memory. Free it with sk_free. */
struct sk_names sk_schema_names(const struct ArrowSchema *schema);

/* Returns the length of that part of a field's metadata that belongs to an extension type, and
 * copies this part to `to`, if there is one. 0: the field has no extension type. */
size_t sk_type_metadata(const char *metadata, char *to);

#endif

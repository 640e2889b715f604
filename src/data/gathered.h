/* gathered.h - collects batches until they have about a number of bytes, and gives them as one
 * batch: few long packs and runs are cheaper than many short ones. */
#ifndef SK_DATA_GATHERED_H
#define SK_DATA_GATHERED_H

#include "base/containers/vec.h"
#include "data/data.h"

/* Batches may differ in which columns may have nulls, and in the metadata of their schemas: in the
 * batches that are given all columns may have nulls, and there is none (sk_schema_nullable). */
struct sk_gathered { /* all zero: empty */
    SK_VEC(struct sk_batch *) held;
    uint64_t bytes;
    struct sk_batch *empty; /* the last batch without rows */
    bool some;
    struct sk_schema *from, *to; /* of the batch that was added last, and its nullable one */
};
/* Takes b over. *out: the batches held so far as one, if b would make them more than `most` bytes;
 * else NULL. SK_EINVAL: b has another schema than the batches before it. */
sk_rc sk_gathered_add(struct sk_gathered *g, struct sk_batch *b, uint64_t most,
                      struct sk_batch **out, struct sk_err *err) SK_MUST_USE;
/* *out: the rest as one batch; an empty batch if there were no rows in all; else NULL. */
sk_rc sk_gathered_rest(struct sk_gathered *g, struct sk_batch **out,
                       struct sk_err *err) SK_MUST_USE;
void sk_gathered_reset(struct sk_gathered *g);

#endif

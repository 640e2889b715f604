/* simple.c - a value for each reduce (Hadoop, Spark): M x R objects. Where tasks get whole values only, nobody gets what is not his. */
#include "shuffle/shuffle.h"

#define MOST 1024u

static struct sk_shuffle_way way(const struct sk_shuffle_sizes *z) {
    uint64_t reduces = z->bytes / SK_MAX(z->reduce_bytes, 1) + 1;
    return (struct sk_shuffle_way){
        .values = (uint32_t)SK_MIN(SK_MAX(reduces, 96), MOST)}; /* as many as there are partitions where nobody asks for a number */
}

extern const struct sk_shuffle_ops sk_shuffle_by_simple;
const struct sk_shuffle_ops sk_shuffle_by_simple = {.name = "simple", .way = way};

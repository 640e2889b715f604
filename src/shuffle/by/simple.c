/* simple.c - a value for each reduce (Hadoop, Spark): M x R objects. Where tasks get whole values
 * only, nobody gets what is not his. */
#include "shuffle/shuffle.h"

#define LEAST 96u /* as many as there are partitions where nobody asks for a number */
#define MOST 1024u

static uint32_t reduces(const struct sk_shuffle_sizes *z) {
    uint64_t n = z->bytes / SK_MAX(z->reduce_bytes, 1) + 1;
    return (uint32_t)SK_MIN(SK_MAX(n, LEAST), MOST);
}

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    return (struct sk_shuffle_layout){.values = reduces(z)};
}

static uint32_t values(struct sk_shuffle *s) { return reduces(sk_shuffle_sizes(s)); }

extern const struct sk_shuffle_ops sk_shuffle_by_simple;
const struct sk_shuffle_ops sk_shuffle_by_simple = {
    .name = "simple", .layout = layout, .values = values};

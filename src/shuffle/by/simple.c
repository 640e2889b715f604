/* simple.c - a map gives one value per reduce (Hadoop, Spark): M x R objects. On an engine whose
 * tasks can only take whole values, no task then reads bytes that it does not need. */
#include "shuffle/shuffle.h"

#define LEAST 96u /* the number of partitions if the user gives none */
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

/* grouped.c - a map gives eight values, each of neighbouring partitions. A value is freed with its
 * last partition, so running reduces hold a quarter of a full memory. */
#include "shuffle/shuffle.h"

#define GROUPS 8u

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    (void)z;
    return (struct sk_shuffle_layout){.values = GROUPS};
}

static uint32_t values(struct sk_shuffle *s) {
    (void)s;
    return GROUPS;
}

extern const struct sk_shuffle_ops sk_shuffle_by_grouped;
const struct sk_shuffle_ops sk_shuffle_by_grouped = {
    .name = "grouped", .layout = layout, .values = values};

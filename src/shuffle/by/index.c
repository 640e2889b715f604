/* index.c - one value a map, of which each reduce has a part: M + R objects. The cheapest while the data fits memory. */
#include "shuffle/shuffle.h"

static uint32_t values(const struct sk_shuffle_sizes *z) {
    (void)z;
    return 1;
}

extern const struct sk_shuffle_ops sk_shuffle_by_index;
const struct sk_shuffle_ops sk_shuffle_by_index = {.name = "index", .values = values};

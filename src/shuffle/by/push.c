/* push.c - maps are cut by destination, and what comes for one is merged as it comes, while later maps run (Magnet, VLDB 2020). On one machine a destination is a
 * place where a reduce runs. Magnet keeps the maps' own blocks for when a merge is lost; here lineage makes them again, so they are let go. */
#include "shuffle/shuffle.h"

static struct sk_shuffle_way way(const struct sk_shuffle_sizes *z) {
    uint32_t to = SK_MIN(SK_MAX(z->slots, 1u), 64u), n = sk_shuffle_fan_in(z, to, z->map_bytes / to);
    return (struct sk_shuffle_way){.values = to, .merge = SK_MIN(SK_MAX(n, 2u), 16u), .merged = z->runs ? to : 1};
}

extern const struct sk_shuffle_ops sk_shuffle_by_push;
const struct sk_shuffle_ops sk_shuffle_by_push = {.name = "push", .merges = true, .way = way};

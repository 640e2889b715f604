/* push_star.c - a few values a map, each of a range of partitions that does not depend on how many reduces there will be; those of one range are merged as they come, and
 * let go (Cosco, Facebook's external shuffle; Exoshuffle's ES-push*). As push, but for the ranges: eight, so that memory comes back in eighths. */
#include "shuffle/shuffle.h"

#define RANGES 8u

static struct sk_shuffle_way way(const struct sk_shuffle_sizes *z) {
    uint32_t n = sk_shuffle_fan_in(z, RANGES, z->map_bytes / RANGES);
    return (struct sk_shuffle_way){.values = RANGES, .merge = SK_MIN(SK_MAX(n, 2u), 16u), .merged = z->runs ? RANGES : 1};
}

extern const struct sk_shuffle_ops sk_shuffle_by_push_star;
const struct sk_shuffle_ops sk_shuffle_by_push_star = {.name = "push_star", .merges = true, .way = way};

/* merge.c - whole outputs of maps are merged, as many as a quarter of memory has and forty at most, before reduces take them (Riffle, EuroSys 2018: N-way merges on a
 * node). A map is one value; what is merged is eight, so that it is let go early. Reduces read a part of M / N packs, each N times as long. */
#include "shuffle/shuffle.h"

static struct sk_shuffle_way way(const struct sk_shuffle_sizes *z) {
    uint32_t n = sk_shuffle_fan_in(z, 1, z->map_bytes);
    return (struct sk_shuffle_way){.values = 1, .merge = SK_MIN(SK_MAX(n, 2u), 40u), .merged = 8};
}

extern const struct sk_shuffle_ops sk_shuffle_by_merge;
const struct sk_shuffle_ops sk_shuffle_by_merge = {.name = "merge", .merges = true, .way = way};

/* two_level.c - maps are cut into few ranges, each small enough for memory to hold several; a range is merged as soon as as much of it has come as memory has room for,
 * round after round, and maps wait while merges are behind (Exoshuffle-CloudSort, 2022: 40 ranges, merges of 40 blocks). Then each range is reduced by itself.
 * The waiting is the scheduler's: a stage whose reader is behind stops at half of memory (sk_guard_reader). */
#include "shuffle/shuffle.h"

static struct sk_shuffle_way way(const struct sk_shuffle_sizes *z) {
    uint64_t ranges = SK_MIN(SK_MAX(4 * z->bytes / SK_MAX(z->memory_bytes, 1), 4), 48);
    uint32_t n = sk_shuffle_fan_in(z, (uint32_t)ranges, z->map_bytes / ranges);
    return (struct sk_shuffle_way){.values = (uint32_t)ranges, .merge = SK_MAX(n, 2u), .merged = z->runs ? (uint32_t)ranges : 1};
}

extern const struct sk_shuffle_ops sk_shuffle_by_two_level;
const struct sk_shuffle_ops sk_shuffle_by_two_level = {.name = "two_level", .merges = true, .way = way};

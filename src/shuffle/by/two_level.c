/* two_level.c - the output of maps is cut into few ranges of partitions, each so small that memory
 * can hold several. The packs of a range are merged whenever so many have arrived as its share of
 * memory can hold, and maps wait while merges are behind (Exoshuffle-CloudSort, 2022: 40 ranges,
 * merges of 40 blocks). Then each range is reduced by itself. The scheduler makes maps wait: a
 * stage whose reader is behind stops at half of memory (sk_guard_reader). */
#include "shuffle/shuffle.h"

static uint32_t ranges(const struct sk_shuffle_sizes *z) {
    return (uint32_t)SK_MIN(SK_MAX(4 * z->bytes / SK_MAX(z->memory_bytes, 1), 4), 48);
}

static uint32_t fan_in(const struct sk_shuffle_sizes *z) {
    uint32_t n = sk_shuffle_fan_in(z, ranges(z), z->map_bytes / ranges(z));
    return SK_MAX(n, 2u);
}

static uint32_t merged(const struct sk_shuffle_sizes *z) { return z->runs ? ranges(z) : 1; }

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    return (struct sk_shuffle_layout){.values = ranges(z), .merge = fan_in(z), .merged = merged(z)};
}

static uint32_t values(struct sk_shuffle *s) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    return z->runs && z->merges ? 1 : ranges(z);
}

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    sk_shuffle_gather(s, fan_in(z), merged(z), sk_shuffle_home(z, p, ranges(z)));
}

extern const struct sk_shuffle_ops sk_shuffle_by_two_level;
const struct sk_shuffle_ops sk_shuffle_by_two_level = {
    .name = "two_level", .merges = true, .layout = layout, .values = values, .came = came};

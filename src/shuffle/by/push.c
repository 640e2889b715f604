/* push.c - maps cut their output by destination, and the packs for a destination are merged there
 * while later maps run (Magnet, VLDB 2020). On one machine a destination is a slot of a reduce.
 * Magnet keeps the maps' own blocks in case a merge is lost; here lineage can make them again, so
 * they are freed. */
#include "shuffle/shuffle.h"

#define LEAST 2u
#define MOST 16u /* most packs of one merge */

static uint32_t destinations(const struct sk_shuffle_sizes *z) {
    return SK_MIN(SK_MAX(z->slots, 1u), 64u);
}

static uint32_t fan_in(const struct sk_shuffle_sizes *z) {
    uint32_t to = destinations(z), n = sk_shuffle_fan_in(z, to, z->map_bytes / to);
    return SK_MIN(SK_MAX(n, LEAST), MOST);
}

static uint32_t merged(const struct sk_shuffle_sizes *z) { return z->runs ? destinations(z) : 1; }

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    return (struct sk_shuffle_layout){
        .values = destinations(z), .merge = fan_in(z), .merged = merged(z)};
}

static uint32_t values(struct sk_shuffle *s) {
    /* whole runs are merged, because a map's ranges of keys differ from those of other maps */
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    return z->runs && z->merges ? 1 : destinations(z);
}

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    sk_shuffle_gather(s, fan_in(z), merged(z), sk_shuffle_home(z, p, destinations(z)));
}

extern const struct sk_shuffle_ops sk_shuffle_by_push;
const struct sk_shuffle_ops sk_shuffle_by_push = {
    .name = "push", .merges = true, .layout = layout, .values = values, .came = came};

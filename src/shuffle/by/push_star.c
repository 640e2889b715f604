/* push_star.c - a map gives eight values, each of a range of partitions that does not depend on the
 * number of reduces. Packs of one range are merged as they arrive, and freed (Cosco, Facebook's
 * external shuffle; Exoshuffle's ES-push*). Unlike push it has always eight ranges, so that memory
 * is freed in eighths. */
#include "shuffle/shuffle.h"

#define RANGES 8u
#define LEAST 2u
#define MOST 16u /* most packs of one merge */

static uint32_t fan_in(const struct sk_shuffle_sizes *z) {
    uint32_t n = sk_shuffle_fan_in(z, RANGES, z->map_bytes / RANGES);
    return SK_MIN(SK_MAX(n, LEAST), MOST);
}

static uint32_t merged(const struct sk_shuffle_sizes *z) { return z->runs ? RANGES : 1; }

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    return (struct sk_shuffle_layout){.values = RANGES, .merge = fan_in(z), .merged = merged(z)};
}

static uint32_t values(struct sk_shuffle *s) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    return z->runs && z->merges ? 1 : RANGES;
}

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    sk_shuffle_gather(s, fan_in(z), merged(z), sk_shuffle_home(z, p, RANGES));
}

extern const struct sk_shuffle_ops sk_shuffle_by_push_star;
const struct sk_shuffle_ops sk_shuffle_by_push_star = {
    .name = "push_star", .merges = true, .layout = layout, .values = values, .came = came};

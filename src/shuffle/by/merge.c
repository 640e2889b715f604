/* merge.c - whole outputs of N maps are merged before reduces read them: N is as many as fill a
 * quarter of memory, and at most forty (Riffle, EuroSys 2018: N-way merges on a node). A map gives
 * one value; a merge gives eight, so that its memory is freed early. Of M maps a reduce then reads
 * M / N parts, each N times as long as that of a map. */
#include "shuffle/shuffle.h"

#define MOST 40u
#define MERGED 8u

static uint32_t fan_in(const struct sk_shuffle_sizes *z) {
    uint32_t n = sk_shuffle_fan_in(z, 1, z->map_bytes);
    return SK_MIN(SK_MAX(n, 2u), MOST);
}

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    return (struct sk_shuffle_layout){.values = 1, .merge = fan_in(z), .merged = MERGED};
}

static uint32_t values(struct sk_shuffle *s) {
    (void)s;
    return 1;
}

/* Lets packs be merged; a merge runs on the node that has most of its packs. */
static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    (void)p;
    sk_shuffle_gather(s, fan_in(sk_shuffle_sizes(s)), MERGED, SK_SHUFFLE_ANY);
}

extern const struct sk_shuffle_ops sk_shuffle_by_merge;
const struct sk_shuffle_ops sk_shuffle_by_merge = {
    .name = "merge", .merges = true, .layout = layout, .values = values, .came = came};

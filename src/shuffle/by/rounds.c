/* rounds.c - maps run in rounds: the packs of maps wait until they fill a quarter of memory, and
 * then all are merged, one range of partitions after the other (the rounds of Exoshuffle's own
 * programs, SIGCOMM 2023, section 4.3). A reduce reads one part per round, however many maps there
 * are. Nothing is merged before a round is complete. */
#include "shuffle/shuffle.h"

#define RANGES 8u

static uint32_t merged(const struct sk_shuffle_sizes *z) { return z->runs ? RANGES : 1; }

static uint32_t values(struct sk_shuffle *s) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    return z->runs && z->merges ? 1 : RANGES;
}

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    sk_shuffle_hold(s, merged(z), sk_shuffle_home(z, p, RANGES));
    if (sk_shuffle_held(s) <= z->memory_bytes / 4) return;
    for (const struct sk_shuffle_group *g; (g = sk_shuffle_group(s, 0));) sk_shuffle_merge(s, g);
}

extern const struct sk_shuffle_ops sk_shuffle_by_rounds;
const struct sk_shuffle_ops sk_shuffle_by_rounds = {
    .name = "rounds", .merges = true, .values = values, .came = came};

/* streaming.c - the packs of a round of maps are merged with the state of their range, which is the
 * merge of all rounds before, into the next state; reduces read the last states and the last packs
 * (the streaming shuffle of Exoshuffle, SIGCOMM 2023, section 3). Where a merge combines rows, as
 * states of aggregates, a state has no more rows than there are groups, however many maps there
 * are. Other states grow with their rows, and each round copies them: so a state that is larger
 * than a round passes, and the next one begins empty. */
#include "shuffle/shuffle.h"

#define RANGES 8u
#define PACKS 32u /* of a range, in a round; more where these are little beside the state */

static uint32_t values(struct sk_shuffle *s) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    return z->runs && z->merges ? 1 : RANGES;
}

/* True if a group has a round of packs, which are not little beside its state. */
static bool is_round(const struct sk_shuffle_group *g) {
    return g->n > PACKS && 4 * (g->bytes - g->back) > g->back;
}

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s);
    const struct sk_shuffle_group *g =
        sk_shuffle_hold(s, z->runs ? RANGES : 1, sk_shuffle_home(z, p, RANGES));
    uint64_t round = z->memory_bytes / 8, waiting = 0;
    if (!g) return;
    if (is_round(g)) sk_shuffle_merge_again(s, g, z->runs ? round : round / RANGES);
    for (uint32_t i = 0; (g = sk_shuffle_group(s, i)); i++) waiting += g->bytes - g->back;
    for (uint32_t i = 0; waiting > round && (g = sk_shuffle_group(s, i)); i++)
        sk_shuffle_merge_again(s, g, z->runs ? round : round / RANGES);
}

/* While a merge ran, any number of packs may have come, if they are small. */
static void ended(struct sk_shuffle *s) {
    for (const struct sk_shuffle_group *g; (g = sk_shuffle_group(s, 0));)
        if (is_round(g)) sk_shuffle_merge(s, g);
        else sk_shuffle_pass_group(s, g);
}

extern const struct sk_shuffle_ops sk_shuffle_by_streaming;
const struct sk_shuffle_ops sk_shuffle_by_streaming = {
    .name = "streaming", .merges = true, .values = values, .came = came, .ended = ended};

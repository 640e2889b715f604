/* auto.c - the cheapest of the others for the sizes that are known by now (sk_shuffle_cost): asked for each map, so it may change its mind while sizes become known.
 * The default. Results do not depend on it. */
#include "shuffle/shuffle.h"

extern const struct sk_shuffle_ops sk_shuffle_by_auto;

static uint32_t values(const struct sk_shuffle_sizes *z) {
    uint32_t best = 1;
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        const struct sk_shuffle_ops *s = sk_shuffle_find(sk_shuffle_name(i));
        uint32_t v = s == &sk_shuffle_by_auto ? 1 : s->values(z);
        if (sk_shuffle_cost(z, v) < sk_shuffle_cost(z, best)) best = v;
    }
    return best;
}

const struct sk_shuffle_ops sk_shuffle_by_auto = {.name = "auto", .values = values};

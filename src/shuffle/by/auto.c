/* auto.c - the cheapest of the others for the sizes that are known by now (sk_shuffle_cost): asked again when sizes have changed, so it may change its mind while
 * sizes become known. The default. Results do not depend on it. */
#include "shuffle/shuffle.h"

extern const struct sk_shuffle_ops sk_shuffle_by_auto;

static struct sk_shuffle_way way(const struct sk_shuffle_sizes *z) {
    struct sk_shuffle_way best = {.values = 1};
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        const struct sk_shuffle_ops *s = sk_shuffle_find(sk_shuffle_name(i));
        struct sk_shuffle_way w = s == &sk_shuffle_by_auto ? best : s->way(z);
        if (sk_shuffle_cost(z, w) < sk_shuffle_cost(z, best)) best = w;
    }
    return best;
}

const struct sk_shuffle_ops sk_shuffle_by_auto = {.name = "auto", .merges = true, .way = way};

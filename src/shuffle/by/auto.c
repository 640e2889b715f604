/* auto.c - the default strategy: uses the strategy that is cheapest (sk_shuffle_cost) for the sizes
 * known so far, and chooses again when the sizes change. Results do not depend on the choice. */
#include "shuffle/shuffle.h"

extern const struct sk_shuffle_ops sk_shuffle_by_auto, sk_shuffle_by_index;

static const struct sk_shuffle_ops *cheapest(const struct sk_shuffle_sizes *z) {
    const struct sk_shuffle_ops *best = &sk_shuffle_by_index;
    double cost = sk_shuffle_cost(z, best->layout(z));
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        const struct sk_shuffle_ops *o = sk_shuffle_find(sk_shuffle_name(i));
        if (o == &sk_shuffle_by_auto || !o->layout || o->state_bytes) continue;
        double c = sk_shuffle_cost(z, o->layout(z));
        if (c < cost) best = o, cost = c;
    }
    return best;
}

struct state {
    const struct sk_shuffle_ops *chosen;
    struct sk_shuffle_sizes z; /* the sizes for which the strategy was chosen */
};

static const struct sk_shuffle_ops *chosen(struct sk_shuffle *s) {
    struct state *mine = sk_shuffle_state(s);
    const struct sk_shuffle_sizes *z = sk_shuffle_sizes(s), *was = &mine->z;
    /* the other sizes do not change during a run */
    bool same = z->bytes == was->bytes && z->map_bytes == was->map_bytes &&
                z->reduce_bytes == was->reduce_bytes;
    if (!mine->chosen || !same) *mine = (struct state){cheapest(z), *z};
    return mine->chosen;
}

static struct sk_shuffle_layout layout(const struct sk_shuffle_sizes *z) {
    return cheapest(z)->layout(z);
}

static uint32_t values(struct sk_shuffle *s) { return chosen(s)->values(s); }

static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    const struct sk_shuffle_ops *o = chosen(s);
    if (o->came) o->came(s, p);
}

const struct sk_shuffle_ops sk_shuffle_by_auto = {.name = "auto",
                                                  .merges = true,
                                                  .state_bytes = sizeof(struct state),
                                                  .layout = layout,
                                                  .values = values,
                                                  .came = came};

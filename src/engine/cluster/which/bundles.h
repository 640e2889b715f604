/* bundles.h - decides which nodes get the bundles of a placement group. Pure. */
#ifndef SK_CLUSTER_BUNDLES_H
#define SK_CLUSTER_BUNDLES_H

#include "engine/groups.h"

#define SK_NO_NODE UINT32_MAX

struct sk_bundles {
    const struct sk_res *bundle;
    uint32_t n, strategy; /* enum sk_group_strategy */
    struct sk_res *room;  /* of each node; changed */
    uint32_t n_nodes;
    /* may(ctx, i, k): whether bundle i may be on node k at all */
    bool (*may)(const void *ctx, uint32_t bundle, uint32_t node);
    const void *ctx;
    /* For each bundle, the index of its node. Those that have one keep it; the others, SK_NO_NODE,
     * are to get one. Its room does not count those that have one. */
    uint32_t *at;
};

/* Gives all bundles a node, or none (false; then `at` is as it was).
 *
 * STRICT_PACK: one node. PACK: as few nodes as a search finds that fills one after another, first
 * the one that takes most, and where the least is left. SPREAD: each bundle to the node with the
 * fewest of them, first those that have the fewest nodes to choose from; the same for PACK if the
 * other search fails. STRICT_SPREAD: a node for each. For the strict ones a way is found if there
 * is one; for the others, none may be found if the nodes are nearly full. */
bool sk_bundles_place(struct sk_bundles *b);

#endif

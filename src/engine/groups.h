/* groups.h - side contract: placement groups, bundles of resources that are reserved together. */
#ifndef SK_GROUPS_H
#define SK_GROUPS_H

#include "engine/engine.h"

enum sk_group_strategy {
    SK_GROUP_PACK,
    SK_GROUP_SPREAD,
    SK_GROUP_STRICT_PACK,
    SK_GROUP_STRICT_SPREAD
};
struct sk_group_spec {
    const struct sk_res *bundles;
    uint32_t n, strategy;
    const char *name, *space; /* as in sk_actor_opts */
    /* For each bundle, which nodes it may be on (sk_need.where); NULL: any. An engine of one node
     * takes no notice. */
    const uint32_t *wheres;
    /* Not 0: the part of a group of another engine that is on this node, under the id that it has
     * there; it has no `ready` object. elsewhere[i]: bundle i is on another node. If the engine has
     * the group already, it gets the bundles that were elsewhere and are here now. */
    uint64_t id;
    const bool *elsewhere;
};
struct sk_group_row {
    uint64_t id;
    uint32_t n, strategy, state, text_n; /* state: 0 pending, 1 ready */
    /* time that the group waited for its bundles; -1: it still waits */
    int64_t reserved_ns;
};

struct sk_groups_ops {
    /* Reserves bundles of resources, all or none. *ready (with a reference) gets a value when
     * the group has all of them. The group stays until it is removed. Tasks and actors that run in
     * a group when it is removed are killed and do not run again; those that wait for the group end
     * with SK_EGROUP. */
    sk_rc (*create)(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                    sk_oid *ready, struct sk_err *err);
    /* SK_ENOENT: there is no such group, or it was removed already */
    sk_rc (*remove)(struct sk_engine *e, uint64_t group, struct sk_err *err);
    /* Writes all groups as bytes: struct sk_group_row, its name and namespace (ended by NUL,
     * together padded to 8), n bundles of struct sk_res, n numbers of nodes (of 4 bytes, together
     * padded to 8; 0: the bundle is reserved nowhere that is known here). Returns the length
     * needed. */
    size_t (*list)(struct sk_engine *e, void *buf, size_t cap);
};

#endif

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
    const char *name, *space; /* as of an actor */
};
struct sk_group_row {
    uint64_t id;
    uint32_t n, strategy, state, text_n; /* state: 0 pending, 1 ready */
    int64_t reserved_ns;                 /* how long it waited; -1 while it does */
};

struct sk_groups_ops {
    /* Reserves bundles of resources, all or none; *ready (a reference) gets a value when it has
     * them. It stays until it is removed: then what runs in it is killed (tasks do not run again),
     * and what waits for it ends with SK_EGROUP. */
    sk_rc (*create)(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                    sk_oid *ready, struct sk_err *err);
    /* SK_ENOENT: removed already */
    sk_rc (*remove)(struct sk_engine *e, uint64_t group, struct sk_err *err);
    /* All groups as bytes: struct sk_group_row, its name and space (NUL-terminated, together padded
     * to 8), n bundles of struct sk_res. Returns the length needed. */
    size_t (*list)(struct sk_engine *e, void *buf, size_t cap);
};

#endif

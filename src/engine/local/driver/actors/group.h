/* group.h - placement groups, environments, sets of further custom resources.
 *
 * Calls: actor, object, link. The code of this part may call these parts of the driver and no
 * others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_GROUP_H
#define SK_LOCAL_GROUP_H

#include "engine/groups.h"
#include "engine/books/names.h"
#include "engine/place/place.h"

struct sk_local;
struct sk_lworker;
struct sk_place_group;
struct sk_rd;
struct sk_err;

struct sk_lgroup { /* a placement group */
    struct sk_list link;
    uint64_t id;
    uint64_t ready; /* its `ready` object, which the engine holds; 0: it has none */
    struct sk_place_group *place;
    struct sk_name *name;
    uint32_t strategy;
    int64_t since_ns, reserved_ns;
};

struct sk_lgroup_spec { /* a request for a group; borrowed */
    const struct sk_res *bundles;
    uint32_t n, strategy;
    struct sk_bytes space, name;
    uint64_t id;           /* as in sk_group_spec */
    const bool *elsewhere; /* the same */
};

void sk_lgroups_init(struct sk_local *l);
/* Makes a group with id `base`; its ready object has the id base + 1. Or, with s->id, the part of
 * another engine's group that is here. */
sk_rc sk_lgroup_create(struct sk_local *l, uint32_t proc, uint64_t base,
                       const struct sk_lgroup_spec *s, struct sk_err *err) SK_MUST_USE;
sk_rc sk_lgroup_remove(struct sk_local *l, uint64_t id, struct sk_err *err) SK_MUST_USE;
/* Call when the group has got its bundles: gives its `ready` object a value. */
void sk_lgroup_ready(struct sk_local *l, const struct sk_place_group *g);
size_t sk_lgroups_write(struct sk_local *l, void *buf, size_t cap);
void sk_lgroups_free(struct sk_local *l);
/* Handles the messages GROUP, UNGROUP, GROUPS, DEFENV, MORE and MOREREAD of a worker. */
void sk_lgroup_handle(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r);
sk_rc sk_env_define(struct sk_local *l, struct sk_bytes env, uint32_t *out,
                    struct sk_err *err) SK_MUST_USE;
sk_rc sk_more_define(struct sk_local *l, const struct sk_amount *a, uint32_t n, uint32_t *out,
                     struct sk_err *err) SK_MUST_USE;
sk_rc sk_need_shape(struct sk_local *l, const struct sk_need *n, sk_shape *out,
                    struct sk_err *err) SK_MUST_USE;

#endif

/* group.c - the public C API: placement groups. */
#include "api/api_int.h"
#include "base/mem.h"
#include "engine/groups.h"

enum { MOST_BUNDLES = 10000 };

/* A group that can never be ready is an error here: the engine would let it wait for ever. */
static sk_rc feasible(struct sk_engine *e, const struct sk_res *r, size_t n,
                      enum skate_group_strategy strategy) {
    struct sk_node all;
    if (strategy == SKATE_GROUP_STRICT_SPREAD && n > 1)
        return SK_ERR(sk_api_err(), SK_EINFEASIBLE,
                      "skate_group_create: %zu bundles on different machines, but there is one", n);
    SK_TRY(sk_engine_sum(e, &all, sk_api_err()));
    for (unsigned k = 0; k < SK_RES_MAX; k++) {
        double sum = 0, has = (double)all.total.amount[k];
        for (size_t i = 0; i < n; i++) sum += (double)r[i].amount[k];
        if (sum > has)
            return SK_ERR(
                sk_api_err(), SK_EINFEASIBLE,
                "skate_group_create: all bundles together ask for %g of %s, and skate_init "
                "was given %g",
                sum / SK_RES_UNIT,
                k == SK_RES_CPU   ? "the CPUs"
                : k == SK_RES_GPU ? "the GPUs"
                                  : "a resource",
                has / SK_RES_UNIT);
    }
    return SK_OK;
}

int skate_group_create(const struct skate_bundle *bundles, size_t n,
                       enum skate_group_strategy strategy, const char *name, skate_group *out) {
    _Static_assert(SKATE_GROUP_STRICT_SPREAD == (int)SK_GROUP_STRICT_SPREAD, "the same order");
    struct sk_engine *e = sk_api_engine();
    sk_oid ready;
    if (!e) return SK_ECLOSED;
    SK_API_GIVEN("skate_group_create", bundles);
    SK_API_GIVEN("skate_group_create", out);
    if (!n || n > MOST_BUNDLES || (unsigned)strategy > SKATE_GROUP_STRICT_SPREAD)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "skate_group_create: %zu bundles (1 to %d), strategy %d", n, MOST_BUNDLES,
                      (int)strategy);
    if (!e->groups) return SK_ERR(sk_api_err(), SK_ENOSYS, "this engine has no placement groups");
    struct sk_res *r = sk_calloc(SK_TAG_ENGINE, n * sizeof *r);
    if (!r) return SK_ERR(sk_api_err(), SK_ENOMEM, "no memory for %zu bundles", n);
    sk_rc rc = SK_OK;
    for (size_t i = 0; rc == SK_OK && i < n; i++) {
        struct sk_api_amounts a = {.cpus = bundles[i].cpus,
                                   .gpus = bundles[i].gpus,
                                   .resources = bundles[i].resources,
                                   .n_resources = bundles[i].n_resources};
        rc = sk_api_amounts(e, &a, &r[i], sk_api_err());
    }
    if (rc == SK_OK) rc = feasible(e, r, n, strategy);
    struct sk_group_spec s = {
        .bundles = r, .n = (uint32_t)n, .strategy = (uint32_t)strategy, .name = name};
    if (rc == SK_OK) rc = e->groups->create(e, &s, &out->id, &ready, sk_api_err());
    if (rc == SK_OK) out->ready.id = ready.v;
    sk_free(r);
    return rc;
}

int skate_group_wait(skate_group g, int64_t timeout_ms) {
    struct skate_value v;
    if (!sk_api_engine_of(g.id)) return SK_ECLOSED;
    if (!g.id) return SK_ERR(sk_api_err(), SK_EINVAL, "skate_group_wait: no group");
    SK_TRY(skate_get(g.ready, timeout_ms, &v));
    skate_value_release(&v);
    return SK_OK;
}

int skate_group_remove(skate_group g) {
    struct sk_engine *e = sk_api_engine_of(g.id);
    if (!e) return SK_ECLOSED;
    if (!g.id || !e->groups) return SK_ERR(sk_api_err(), SK_EINVAL, "skate_group_remove: no group");
    SK_TRY(e->groups->remove(e, g.id, sk_api_err()));
    skate_release(g.ready);
    return SK_OK;
}

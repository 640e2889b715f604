/* needs.c - the public C API: structs of options, and what tasks ask for in the engine's form. */
#include "api/api_int.h"
#include "engine/custom.h"
#include "engine/groups.h"

sk_rc sk_api_sized(const char *call, const void *opts, size_t known, struct sk_err *err) {
    size_t size = known;
    if (opts) memcpy(&size, opts, sizeof size);
    if (size == known) return SK_OK;
    return SK_ERR(err, SK_EINVAL,
                  "%s: the options begin with size %zu, and this library knows %zu: fill them from "
                  "SKATE_OPTS()",
                  call, size, known);
}

sk_rc sk_api_amounts(struct sk_engine *e, const struct sk_api_amounts *a, struct sk_res *out,
                     struct sk_err *err) {
    *out = (struct sk_res){0};
    if (!(a->cpus <= 1e6 && a->gpus >= 0 && a->gpus <= 1e6))
        return SK_ERR(err, SK_EINVAL, "%g cpus and %g gpus are asked for: out of range", a->cpus,
                      a->gpus);
    if (a->n_resources && !a->resources)
        return SK_ERR(err, SK_EINVAL, "%zu resources are asked for, but resources is NULL",
                      a->n_resources);
    out->amount[SK_RES_CPU] = (int64_t)(SK_MAX(a->cpus, 0) * SK_RES_UNIT + 0.5);
    out->amount[SK_RES_GPU] = (int64_t)(a->gpus * SK_RES_UNIT + 0.5);
    for (size_t i = 0; i < a->n_resources; i++) {
        const struct skate_resource *r = &a->resources[i];
        uint32_t at;
        if (!r->name || !(r->amount >= 0 && r->amount <= 1e12))
            return SK_ERR(err, SK_EINVAL,
                          "resource %zu ('%s'): amount %g is out of range, or the "
                          "name is NULL",
                          i, r->name ? r->name : "NULL", r->amount);
        if (!e->custom) return SK_ERR(err, SK_ENOSYS, "this engine has no resources by name");
        SK_TRY(e->custom->index(e, r->name, &at, err));
        SK_ASSERT(at < SK_RES_MAX); /* skate_init takes no more */
        out->amount[at] += (int64_t)(r->amount * SK_RES_UNIT + 0.5);
    }
    return SK_OK;
}

sk_rc sk_api_shape(struct sk_engine *e, const struct sk_api_amounts *a, sk_shape *out,
                   struct sk_err *err) {
    struct sk_need n = {.group = a->group, .bundle = a->group ? a->bundle : 0};
    if (a->group && !e->groups)
        return SK_ERR(err, SK_ENOSYS, "this engine has no placement groups");
    SK_TRY(sk_api_amounts(e, a, &n.res, err));
    return e->ops->shape(e, &n, out, err);
}

/* res.c - see res.h. */
#include "engine/res.h"

static const char *name_of(uint32_t i, char *const *names, uint32_t n_names) {
    static const char *const fixed[] = {"CPU", "GPU", "memory"};
    return i < SK_RES_CUSTOM ? fixed[i] : i - SK_RES_CUSTOM < n_names ? names[i - SK_RES_CUSTOM] : "?";
}

sk_rc sk_res_check(const struct sk_res *r, const struct sk_res *total, char *const *names, uint32_t n_names, struct sk_err *err) {
    static const char *const argument[] = {"num_cpus=...", "num_gpus=...", "_memory=..."};
    for (uint32_t i = 0; i < SK_RES_MAX; i++) {
        double unit = i == SK_RES_MEMORY ? 1 : SK_RES_UNIT;
        if (r->amount[i] < 0) return SK_ERR(err, SK_EINVAL, "a negative amount of %s", name_of(i, names, n_names));
        if (r->amount[i] > total->amount[i])
            return SK_ERR(err, SK_EINFEASIBLE,
                          "a task or actor asks for %g %s, but this machine was given %g; ask for less, or start with more: init(%s)",
                          (double)r->amount[i] / unit, name_of(i, names, n_names), (double)total->amount[i] / unit,
                          i < SK_RES_CUSTOM ? argument[i] : "resources={...}");
    }
    return SK_OK;
}

sk_rc sk_res_index(const char *name, char *const *names, uint32_t n_names, uint32_t *out, struct sk_err *err) {
    for (uint32_t i = 0; i < n_names; i++)
        if (!strcmp(names[i], name)) {
            *out = SK_RES_CUSTOM + i;
            return SK_OK;
        }
    return SK_ERR(err, SK_EINFEASIBLE,
                  "a task or actor asks for resource '%s', which this machine was not given; start with init(resources={\"%s\": n})", name,
                  name);
}

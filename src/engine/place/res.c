/* res.c - see res.h. */
#include "engine/place/res.h"

#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"

/* number of custom resources that have a place in sk_res */
enum { IN_RES = SK_RES_MAX - SK_RES_CUSTOM };

sk_rc sk_res_names_init(struct sk_res_names *s, const char *const *names, uint32_t n,
                        struct sk_err *err) {
    memset(s, 0, sizeof *s);
    sk_map_init(&s->by_hash, SK_TAG_ENGINE);
    s->name = sk_calloc(SK_TAG_ENGINE, (n + 1) * sizeof *s->name);
    for (; s->name && s->n < n; s->n++) {
        s->name[s->n] = sk_strdup(SK_TAG_ENGINE, names[s->n]);
        if (!s->name[s->n] || sk_map_put(&s->by_hash, sk_hash(names[s->n], strlen(names[s->n])) | 1,
                                         (void *)(uintptr_t)(s->n + 1)) != SK_OK)
            break;
    }
    if (s->name && s->n == n) return SK_OK;
    if (s->name) sk_free(s->name[s->n]);
    sk_res_names_deinit(s);
    return SK_ERR(err, SK_ENOMEM, "no memory for the names of %u resources", n);
}

void sk_res_names_deinit(struct sk_res_names *s) {
    SK_ASSERT(s->name || !s->n);
    for (uint32_t i = 0; i < s->n; i++) sk_free(s->name[i]);
    sk_free(s->name);
    sk_map_deinit(&s->by_hash);
    memset(s, 0, sizeof *s);
}

static const char *name_of(uint64_t i, const struct sk_res_names *names) {
    static const char *const fixed[] = {"CPU", "GPU", "memory"};
    return i < SK_RES_CUSTOM              ? fixed[i]
           : i - SK_RES_CUSTOM < names->n ? names->name[i - SK_RES_CUSTOM]
                                          : "?";
}

/* Writes an amount for messages: "2 CPU", "1.5 GiB of memory". */
static const char *amount_text(uint64_t i, int64_t amount, const struct sk_res_names *names,
                               char *buf, size_t cap) {
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)amount;
    uint32_t u = 0;
    if (i != SK_RES_MEMORY) {
        snprintf(buf, cap, "%g %s", v / SK_RES_UNIT, name_of(i, names));
        return buf;
    }
    while (v >= 1024 && u + 1 < SK_COUNT(unit)) v /= 1024, u++;
    snprintf(buf, cap, "%.*f %s of memory", u ? 1 : 0, v, unit[u]);
    return buf;
}

static sk_rc check(uint64_t i, int64_t amount, int64_t total, const struct sk_res_names *names,
                   struct sk_err *err) {
    static const char *const argument[] = {"num_cpus=...", "num_gpus=...", "_memory=..."};
    char asked[200], given[200];
    if (amount < 0) return SK_ERR(err, SK_EINVAL, "a negative amount of %s", name_of(i, names));
    if (amount <= total) return SK_OK;
    return SK_ERR(err, SK_EINFEASIBLE,
                  "a task or actor asks for %s, but this machine was given %s; ask for less, or "
                  "start with more: init(%s)",
                  amount_text(i, amount, names, asked, sizeof asked),
                  amount_text(i, total, names, given, sizeof given),
                  i < SK_RES_CUSTOM ? argument[i] : "resources={...}");
}

sk_rc sk_res_check(const struct sk_res *r, const struct sk_res *total,
                   const struct sk_res_names *names, struct sk_err *err) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        SK_TRY(check(i, r->amount[i], total->amount[i], names, err));
    return SK_OK;
}

sk_rc sk_res_check_more(const struct sk_amount *a, uint32_t n, const int64_t *total,
                        const struct sk_res_names *names, struct sk_err *err) {
    for (uint32_t i = 0; i < n; i++) {
        if (a[i].index < SK_RES_MAX || a[i].index - SK_RES_MAX >= sk_res_n_more(names) ||
            (i && a[i].index <= a[i - 1].index))
            return SK_ERR(err, SK_EINVAL,
                          "further resources: index %llu, which is none or out of order",
                          (unsigned long long)a[i].index);
        SK_TRY(check(a[i].index, a[i].amount, total[a[i].index - SK_RES_MAX], names, err));
    }
    return SK_OK;
}

uint32_t sk_res_devices(const struct sk_res_names *s) {
    static const char *const names[] = {"neuron_cores", "TPU", "NPU", "HPU", "RBLN", "METAX_GPU"};
    for (uint32_t i = 0; i < SK_MIN(s->n, (uint32_t)IN_RES); i++)
        for (size_t k = 0; k < SK_COUNT(names); k++)
            if (strcmp(s->name[i], names[k]) == 0) return SK_RES_CUSTOM + i;
    return 0;
}

sk_rc sk_res_index(const char *name, const struct sk_res_names *names, uint32_t *out,
                   struct sk_err *err) {
    uint32_t i = (uint32_t)(uintptr_t)sk_map_get(&names->by_hash, sk_hash(name, strlen(name)) | 1);
    /* the name is unknown, or two names have the same hash */
    if (!i || strcmp(names->name[i - 1], name) != 0)
        for (i = names->n; i && strcmp(names->name[i - 1], name) != 0;) i--;
    if (i) {
        SK_DCHECK(i <= names->n);
        *out = SK_RES_CUSTOM + i - 1;
        return SK_OK;
    }
    return SK_ERR(err, SK_EINFEASIBLE,
                  "a task or actor asks for resource '%s', which this machine was not given; start "
                  "with init(resources={\"%s\": n})",
                  name, name);
}

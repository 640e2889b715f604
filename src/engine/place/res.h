/* res.h - checks of amounts and names of resources, and their messages, for every engine (pure). */
#ifndef SK_RES_H
#define SK_RES_H

#include "base/containers/map.h"
#include "engine/engine.h"

struct sk_res_names { /* names of custom resources, in the order given to init */
    char **name;
    uint32_t n;
    struct sk_map by_hash; /* hash of the name -> index + 1 */
};
sk_rc sk_res_names_init(struct sk_res_names *s, const char *const *names, uint32_t n,
                        struct sk_err *err) SK_MUST_USE;
void sk_res_names_deinit(struct sk_res_names *s);
static inline uint32_t sk_res_n_more(const struct sk_res_names *s) {
    /* number of custom resources that have no place in sk_res */
    return s->n > SK_RES_MAX - SK_RES_CUSTOM ? s->n - (SK_RES_MAX - SK_RES_CUSTOM) : 0;
}

/* Checks that this machine can ever give `r`. SK_EINVAL; SK_EINFEASIBLE, with the amounts in the
 * message. */
sk_rc sk_res_check(const struct sk_res *r, const struct sk_res *total,
                   const struct sk_res_names *names, struct sk_err *err) SK_MUST_USE;
/* Checks amounts of custom resources that have no place in sk_res, sorted by index: the machine has
 * total[index - SK_RES_MAX]. */
sk_rc sk_res_check_more(const struct sk_amount *a, uint32_t n, const int64_t *total,
                        const struct sk_res_names *names, struct sk_err *err) SK_MUST_USE;
/* Index of the first custom resource below SK_RES_MAX that stands for devices, which are given
 * to tasks by their numbers; 0: there is none. */
uint32_t sk_res_devices(const struct sk_res_names *s);
sk_rc sk_res_index(const char *name, const struct sk_res_names *names, uint32_t *out,
                   struct sk_err *err) SK_MUST_USE;

#endif

/* custom.h - side contract: resources by names of the user's own. The first ones have a place in
 * sk_res, the others go by index and amount. */
#ifndef SK_CUSTOM_H
#define SK_CUSTOM_H

#include "engine/engine.h"

#define SK_MORE_TOTAL (UINT32_MAX - 1)
#define SK_MORE_FREE UINT32_MAX

struct sk_custom_ops {
    /* Index of a custom resource: in sk_res, or (SK_RES_MAX and up) of a sk_amount. */
    sk_rc (*index)(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err);
    /* Amounts of custom resources that have no place in sk_res as one number, for sk_need.more; by
     * rising index. Same amounts: same number.
     * SK_EINFEASIBLE: with the arithmetic. */
    sk_rc (*more)(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out,
                  struct sk_err *err);
    /* What is behind such a number, or SK_MORE_TOTAL, SK_MORE_FREE: returns how many. */
    size_t (*more_read)(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap);
};

#endif

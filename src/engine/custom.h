/* custom.h - side contract: resources with names that the user has chosen. The first few have a
 * place in sk_res, the others are written as index and amount (sk_amount). */
#ifndef SK_CUSTOM_H
#define SK_CUSTOM_H

#include "engine/engine.h"

#define SK_MORE_TOTAL (UINT32_MAX - 1)
#define SK_MORE_FREE UINT32_MAX

struct sk_custom_ops {
    /* Index of a custom resource: below SK_RES_MAX a place in sk_res, from there on the index of
     * an sk_amount. */
    sk_rc (*index)(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err);
    /* Interns a set of amounts of custom resources that have no place in sk_res, sorted by
     * index, for sk_need.more: equal sets get the same number. SK_EINFEASIBLE, with the amounts in
     * the message: no node has as much as the set asks for. */
    sk_rc (*more)(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out,
                  struct sk_err *err);
    /* Reads the set of a number, or of SK_MORE_TOTAL or SK_MORE_FREE (all that the engine has,
     * and what is free of it). Writes at most cap amounts; returns how many there are. */
    size_t (*more_read)(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap);
};

#endif

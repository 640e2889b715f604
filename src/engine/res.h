/* res.h - amounts and names of resources, as every engine checks and says them (pure). */
#ifndef SK_RES_H
#define SK_RES_H

#include "engine/engine.h"

/* A shape that this machine can ever run? SK_EINVAL, SK_EINFEASIBLE with the arithmetic. names[i]: of custom resource i. */
sk_rc sk_res_check(const struct sk_res *r, const struct sk_res *total, char *const *names, uint32_t n_names,
                   struct sk_err *err) SK_MUST_USE;
sk_rc sk_res_index(const char *name, char *const *names, uint32_t n_names, uint32_t *out, struct sk_err *err) SK_MUST_USE;

#endif

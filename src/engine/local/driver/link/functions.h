/* functions.h - the definitions of functions, by id.
 *
 * Calls: none. The code of this part may call no other part of the driver; tests/shape.py reads
 * this line. */
#ifndef SK_LOCAL_FUNCTIONS_H
#define SK_LOCAL_FUNCTIONS_H

#include "base/err.h"

struct sk_local;
struct sk_ltask;
struct sk_err;

struct sk_fn {
    uint64_t fid;
    char *name;
    uint8_t *def;
    size_t len;
};

void sk_fns_init(struct sk_local *l);
void sk_fns_free(struct sk_local *l);
sk_rc sk_fn_define(struct sk_local *l, uint64_t fid, struct sk_bytes name, struct sk_bytes def,
                   struct sk_err *err);
const char *sk_ltask_name(struct sk_local *l, const struct sk_ltask *t, char *buf, size_t cap);

#endif

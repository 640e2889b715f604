/* api_help.h - what the tests of the public C interface share. */
#ifndef SK_API_HELP_H
#define SK_API_HELP_H

#include "skate.h"
#include "test.h"

#define OK(x)                                                                       \
    do {                                                                            \
        int rc_ = (x);                                                              \
        CHECK_MSG(rc_ == 0, "%s: %s: %s", #x, skate_code_name(rc_), skate_error()); \
    } while (0)

/* Returns the value of an object and releases it. */
static inline int64_t number(skate_ref r) {
    struct skate_value v;
    int64_t x;
    OK(skate_get(r, 20000, &v));
    CHECK_EQ(v.size, 8);
    memcpy(&x, v.data, 8);
    skate_value_release(&v);
    skate_release(r);
    return x;
}
/* Returns the code of a failed object and releases it. */
static inline int failure_of(skate_ref r) {
    struct skate_value v;
    int rc = skate_get(r, 20000, &v);
    CHECK_LT(rc, 0);
    skate_release(r);
    return rc;
}

#endif

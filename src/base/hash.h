/* hash.h - FNV-1a over bytes: for short keys from trusted code (names, notes, amounts). It does not
 * withstand an adversary and is slow on large data. */
#ifndef SK_HASH_H
#define SK_HASH_H

#include "base/base.h"

static inline uint64_t sk_hash(const void *p, size_t n) {
    uint64_t h = UINT64_C(1469598103934665603);
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * UINT64_C(1099511628211);
    return h;
}

#endif

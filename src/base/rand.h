/* rand.h - xoshiro256** (Blackman and Vigna, public domain), seeded by splitmix64: for tests and
 * simulations. The same seed gives the same numbers on every machine. Not for secrets. A generator
 * belongs to its caller and is not thread-safe. */
#ifndef SK_RAND_H
#define SK_RAND_H

#include "base/base.h"

/* The finalizer of splitmix64, a bijection: neighbouring inputs give unrelated outputs. */
static inline uint64_t sk_rand_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

struct sk_rand {
    uint64_t s[4];
};

static inline void sk_rand_init(struct sk_rand *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) r->s[i] = sk_rand_mix(seed += UINT64_C(0x9e3779b97f4a7c15));
}

static inline uint64_t sk_rand_next(struct sk_rand *r) {
    uint64_t mid = r->s[1] * 5, out = ((mid << 7) | (mid >> 57)) * 9, t = r->s[1] << 17;
    r->s[2] ^= r->s[0];
    r->s[3] ^= r->s[1];
    r->s[1] ^= r->s[2];
    r->s[0] ^= r->s[3];
    r->s[2] ^= t;
    r->s[3] = (r->s[3] << 45) | (r->s[3] >> 19);
    return out;
}

/* A number in [0, n), for n > 0; probabilities differ by a fraction of at most n / 2^64. */
static inline uint64_t sk_rand_below(struct sk_rand *r, uint64_t n) {
    return (uint64_t)(((unsigned __int128)sk_rand_next(r) * n) >> 64);
}

#endif

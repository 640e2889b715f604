/* fsum.h - sums of floats that do not depend on the order of their terms; inside the kernel layer
 * only.
 *
 * Reproducible summation by absolute bins, after Demmel, Ahrens and Nguyen ("Efficient Reproducible
 * Floating Point Summation and BLAS", 2016), with whole numbers as bins: bin i counts units of
 * 2^(40 i - 2160). The bits of a term go to bins by their weight alone. A sum keeps K bins, from
 * that of its largest term down; everything below is dropped, from terms and sums alike. So a state
 * is a function of the set of terms: adding and merging are exact, associative and commutative. A
 * bin has 128 bits and takes 2^87 terms without a carry (a carry out of a bin that is dropped later
 * would make the order matter). Error: less than n * 2^(40 - 40 K) of the largest term; K = 3 for
 * sums, 4 for variances. The sum is rounded once, at the end. */
#ifndef SK_FSUM_H
#define SK_FSUM_H

#include "kernel/kernel_int.h"

typedef __int128 sk_i128;
typedef unsigned __int128 sk_u128;

enum { SK_FSUM_WIDTH = 40, SK_FSUM_BASE = 2160, SK_FSUM_NONE = -1 };
#define SK_FSUM_MASK ((UINT64_C(1) << SK_FSUM_WIDTH) - 1)

/* Shifts the bins so that bin[0] is the one of number `top`, which is not below *have. */
SK_INLINE void sk_fsum_raise(sk_i128 *bin, int k, int32_t *have, int32_t top) {
    int d = top - *have;
    for (int i = k - 1; i >= 0; i--) bin[i] = i >= d ? bin[i - d] : 0;
    *have = top;
}

/* Adds or subtracts m * 2^e; m > 0, e >= -2148. */
SK_INLINE void sk_fsum_add(sk_i128 *bin, int k, int32_t *top, bool minus, sk_u128 m, int e) {
    uint32_t at = (uint32_t)(e + SK_FSUM_BASE), low = at / SK_FSUM_WIDTH,
             shift = at % SK_FSUM_WIDTH;
    uint32_t bits = (uint64_t)(m >> 64) ? 128 - (uint32_t)__builtin_clzll((uint64_t)(m >> 64))
                                        : 64 - (uint32_t)__builtin_clzll((uint64_t)m);
    int32_t high = (int32_t)(low + (bits + shift - 1) / SK_FSUM_WIDTH);
    if (SK_UNLIKELY(high > *top)) sk_fsum_raise(bin, k, top, high);
    uint64_t digit = ((uint64_t)m << shift) & SK_FSUM_MASK;
    m >>= SK_FSUM_WIDTH - shift;
    for (int32_t i = *top - (int32_t)low;; i--) {
        if (i < k) bin[i] += minus ? -(sk_i128)digit : (sk_i128)digit;
        if (!m) return;
        digit = (uint64_t)m & SK_FSUM_MASK;
        m >>= SK_FSUM_WIDTH;
    }
}

/* Splits a finite double into m * 2^e and a sign; m is 0 for zero. */
SK_INLINE uint64_t sk_double_split(double d, bool *minus, int *e) {
    uint64_t bits;
    memcpy(&bits, &d, 8);
    *minus = bits >> 63;
    int exp = (int)(bits >> 52 & 0x7FF);
    *e = (exp ? exp : 1) - 1075;
    return (bits & ((UINT64_C(1) << 52) - 1)) | (uint64_t)(exp != 0) << 52;
}

void sk_fsum_merge(sk_i128 *bin, int k, int32_t *top, const sk_i128 *from, int32_t from_top);
/* The sum, rounded to the nearest double. */
double sk_fsum_value(const sk_i128 *bin, int k, int32_t top);
/* n * (sum of squares) - (sum)^2 of the same terms, rounded. x holds the sum and xx the sum of
 * squares, each in 4 bins. Never below 0. */
double sk_fsum_spread(uint64_t n, const sk_i128 *x, int32_t x_top, const sk_i128 *xx,
                      int32_t xx_top);

#endif

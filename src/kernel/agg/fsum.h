/* fsum.h - sums of floats that do not depend on the order of their terms; inside the kernel layer
 * only.
 *
 * Reproducible summation by absolute bins, after Demmel, Ahrens and Nguyen ("Efficient Reproducible
 * Floating Point Summation and BLAS", 2016), with whole numbers as bins: bin i counts units of
 * 2^(40 i - 2160). A term is rounded to the nearest multiple of each bin's unit, ties to even; its
 * digit in a bin is the difference from the multiple of the bin above. So digits lie between -2^39
 * and 2^39 and are a function of the term alone. A sum keeps K bins, from the highest in which a
 * term has a digit down; everything below is dropped, from terms and sums alike. So a state is a
 * function of the set of terms: adding and merging are exact, associative and commutative. A bin
 * has 128 bits and takes 2^88 terms without a carry (a carry out of a bin that is dropped later
 * would make the order matter). Error: less than n * 2^(40 - 40 K) of the largest term; K = 3 for
 * sums, 4 for variances. The sum is rounded once, at the end.
 *
 * The square of a double is two terms: the double nearest to it, and the rest, which is a double,
 * too. Squares of whole numbers and their sums have no bits below 1, so four bins hold them
 * exactly, in whatever digits they are added.
 *
 * Digits of a double cost few instructions: x + 1.5 * 2^52 units is x rounded to units, because
 * doubles of that size have no smaller ones, and the last bits of the sum are the digit. */
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
void sk_fsum_add(sk_i128 *bin, int k, int32_t *top, bool minus, sk_u128 m, int e);
/* Adds the square of m * 2^e as two terms; m > 0. */
void sk_fsum_add_square(sk_i128 *bin, int k, int32_t *top, uint64_t m, int e);

/* Tops with which digits are found as differences of doubles (sk_fsum_rounder). With squares from
 * SK_FSUM_SQUARES on, the square of a number below 2^-480, whose bits may be lost, has no digit. */
enum { SK_FSUM_FROM = 31, SK_FSUM_SQUARES = 33, SK_FSUM_TO = 78 };

/* The number that rounds a double to units of a bin when it is added: 1.5 * 2^52 units. */
SK_INLINE double sk_fsum_rounder(int32_t bin) {
    uint64_t bits = (uint64_t)(SK_FSUM_WIDTH * bin - SK_FSUM_BASE + 52 + 1023) << 52 | UINT64_C(1)
                                                                                           << 51;
    double d;
    memcpy(&d, &bits, 8);
    return d;
}
/* The greatest magnitude that has no digit above bin `top`: half a unit of the bin above. */
SK_INLINE double sk_fsum_limit(int32_t top) {
    uint64_t bits = (uint64_t)(SK_FSUM_WIDTH * (top + 1) - SK_FSUM_BASE - 1 + 1023) << 52;
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

SK_INLINE int64_t sk_fsum_digit(double rounded, double rounder) {
    int64_t a, b;
    memcpy(&a, &rounded, 8);
    memcpy(&b, &rounder, 8);
    return a - b;
}

/* Adds a double whose magnitude is at most sk_fsum_limit(top), to bins from `top` down, of which
 * the first `skip` get no digit; top from SK_FSUM_FROM to SK_FSUM_TO. */
SK_INLINE void sk_fsum_add_digits(sk_i128 *bin, int k, int32_t top, int skip, double x) {
    for (int i = skip; i < k; i++) {
        double rounder = sk_fsum_rounder(top - i), rounded = x + rounder;
        bin[i] += sk_fsum_digit(rounded, rounder);
        x -= rounded - rounder;
    }
}

/* The rest of x^2 behind h = x * x, exact for |x| from 2^-480 to 2^500 (Dekker's product where
 * there is no instruction for it). */
SK_INLINE double sk_square_rest(double x, double h) {
#ifdef __FP_FAST_FMA
    return __builtin_fma(x, x, -h);
#else
    double c = x * 0x1.0000002p27, high = c - (c - x), low = x - high;
    return low * low - ((h - high * high) - 2 * high * low);
#endif
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

/* fsum.c - terms of any size, and the value of the bins of a reproducible sum, computed with whole
 * numbers of 1,024 bits: only the last step rounds. */
#include "kernel/agg/fsum.h"

static uint32_t bits_of(sk_u128 m) {
    uint64_t high = (uint64_t)(m >> 64), low = (uint64_t)m;
    return high  ? 128 - (uint32_t)__builtin_clzll(high)
           : low ? 64 - (uint32_t)__builtin_clzll(low)
                 : 0;
}

void sk_fsum_add(sk_i128 *bin, int k, int32_t *top, bool minus, sk_u128 m, int e) {
    uint32_t at = (uint32_t)(e + SK_FSUM_BASE), low = at / SK_FSUM_WIDTH,
             shift = at % SK_FSUM_WIDTH;
    /* m * 2^e is at most 2^(bits_of(m - 1) + e), and a bin's limit is an odd power of two */
    int32_t high = (int32_t)(at + bits_of(m - 1)) / SK_FSUM_WIDTH;
    if (high > *top) sk_fsum_raise(bin, k, top, high);
    const int64_t half = INT64_C(1) << (SK_FSUM_WIDTH - 1);
    int64_t digit = (int64_t)(((uint64_t)m << shift) & SK_FSUM_MASK);
    int below = 0; /* sign of what the digits so far come to, without the carry */
    bool carry = false;
    m >>= SK_FSUM_WIDTH - shift;
    for (int32_t i = *top - (int32_t)low; digit || m || carry; i--) {
        digit += carry;
        carry = digit > half || (digit == half && (below > 0 || (!below && (m & 1))));
        digit -= carry ? 2 * half : 0;
        if (digit) below = digit > 0 ? 1 : -1;
        if (i < k) bin[i] += minus ? -digit : digit;
        digit = (int64_t)((uint64_t)m & SK_FSUM_MASK);
        m >>= SK_FSUM_WIDTH;
    }
}

void sk_fsum_add_square(sk_i128 *bin, int k, int32_t *top, uint64_t m, int e) {
    sk_u128 square = (sk_u128)m * m;
    uint32_t bits = bits_of(square), shift = bits > 53 ? bits - 53 : 0;
    sk_u128 near = square >> shift, rest = square - (near << shift);
    bool minus = shift && (rest << 1) + (near & 1) > (sk_u128)1 << shift;
    if (minus) rest = (++near << shift) - square;
    sk_fsum_add(bin, k, top, false, near, 2 * e + (int)shift);
    if (rest) sk_fsum_add(bin, k, top, minus, rest, 2 * e);
}

void sk_fsum_merge(sk_i128 *bin, int k, int32_t *top, const sk_i128 *from, int32_t from_top) {
    if (from_top > *top) sk_fsum_raise(bin, k, top, from_top);
    for (int i = 0; i < k && i + *top - from_top < k; i++) bin[i + *top - from_top] += from[i];
}

enum { LIMBS = 16 };
struct big { /* a number in two's complement, the lowest word first */
    uint64_t w[LIMBS];
};

static void big_add(struct big *a, const struct big *b) {
    unsigned carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        sk_u128 s = (sk_u128)a->w[i] + b->w[i] + carry;
        a->w[i] = (uint64_t)s;
        carry = (unsigned)(s >> 64);
    }
}

static void big_negate(struct big *a) {
    static const struct big one = {{1}};
    for (int i = 0; i < LIMBS; i++) a->w[i] = ~a->w[i];
    big_add(a, &one);
}

static bool big_minus(const struct big *a) { return a->w[LIMBS - 1] >> 63; }

static struct big big_shift(const struct big *a, unsigned n) { /* to the left */
    struct big r = {{0}};
    unsigned limbs = n / 64, bits = n % 64;
    for (unsigned i = limbs; i < LIMBS; i++) {
        r.w[i] = a->w[i - limbs] << bits;
        if (bits && i > limbs) r.w[i] |= a->w[i - limbs - 1] >> (64 - bits);
    }
    return r;
}

/* Product of two numbers that are not negative. Their product always fits here. */
static struct big big_times(const struct big *a, const struct big *b) {
    struct big r = {{0}};
    for (int i = 0; i < LIMBS; i++) {
        uint64_t carry = 0;
        for (int j = 0; a->w[i] && i + j < LIMBS; j++) {
            sk_u128 s = (sk_u128)a->w[i] * b->w[j] + r.w[i + j] + carry;
            r.w[i + j] = (uint64_t)s;
            carry = (uint64_t)(s >> 64);
        }
    }
    return r;
}

/* The sum of the bins, in units of the lowest bin. */
static struct big big_of(const sk_i128 *bin, int k) {
    struct big r = {{0}};
    for (int i = 0; i < k; i++) {
        struct big b;
        b.w[0] = (uint64_t)bin[i];
        b.w[1] = (uint64_t)(bin[i] >> 64);
        for (int j = 2; j < LIMBS; j++) b.w[j] = bin[i] < 0 ? UINT64_MAX : 0;
        b = big_shift(&b, (unsigned)(SK_FSUM_WIDTH * (k - 1 - i)));
        big_add(&r, &b);
    }
    return r;
}

/* Returns the 64 bits from bit i on. */
static uint64_t big_word(const struct big *a, int i) {
    int limb = i / 64, bits = i % 64;
    uint64_t v = a->w[limb] >> bits;
    return bits && limb + 1 < LIMBS ? v | a->w[limb + 1] << (64 - bits) : v;
}

/* True if a bit below bit n is set. */
static bool big_below(const struct big *a, int n) {
    int limb = 0;
    for (; n >= 64; n -= 64)
        if (a->w[limb++]) return true;
    return n > 0 && (a->w[limb] & ((UINT64_C(1) << n) - 1));
}

/* Rounds a * 2^e to the nearest double, ties to even. */
static double big_round(struct big a, int e) {
    bool minus = big_minus(&a);
    int limb = LIMBS - 1;
    if (minus) big_negate(&a);
    while (limb >= 0 && !a.w[limb]) limb--;
    if (limb < 0) return 0;
    int high = 64 * limb + 63 - __builtin_clzll(a.w[limb]),
        low = SK_MAX(high - 52, -1074 - e); /* low: the last bit that a double of this size has */
    if (low > high + 1) return minus ? -0.0 : 0;
    low = SK_MAX(low, 0);
    uint64_t m = low > high ? 0 : big_word(&a, low) & (UINT64_MAX >> (63 - (high - low)));
    if (low && (big_word(&a, low - 1) & 1) && (big_below(&a, low - 1) || (m & 1))) m++;
    double d = __builtin_ldexp((double)m, e + low);
    return minus ? -d : d;
}

static int exponent(int32_t top, int k) { return SK_FSUM_WIDTH * (top - (k - 1)) - SK_FSUM_BASE; }

/* Short cut for few terms: the sum fits 128 bits, conversion rounds to the nearest, and the result
 * is not subnormal. false: use the general way. */
static bool few(const sk_i128 *bin, int e, double *out) {
    const sk_i128 a = (sk_i128)1 << 46, b = (sk_i128)1 << 86;
    if (e < -1022 || bin[0] >= a || bin[0] <= -a || bin[1] >= b || bin[1] <= -b || bin[2] >= b ||
        bin[2] <= -b)
        return false;
    *out = __builtin_ldexp(
        (double)(bin[0] * ((sk_i128)1 << 80) + bin[1] * ((sk_i128)1 << 40) + bin[2]), e);
    return true;
}

double sk_fsum_value(const sk_i128 *bin, int k, int32_t top) {
    double d;
    if (top < 0) return 0;
    if (k == 3 && few(bin, exponent(top, k), &d)) return d;
    return big_round(big_of(bin, k), exponent(top, k));
}

double sk_fsum_spread(uint64_t n, const sk_i128 *x, int32_t x_top, const sk_i128 *xx,
                      int32_t xx_top) {
    struct big sum = big_of(x, 4), squares = big_of(xx, 4), count = {{n}};
    if (xx_top < 0) return 0;
    int e = 2 * exponent(x_top, 4), f = exponent(xx_top, 4);
    if (big_minus(&sum)) big_negate(&sum);
    sum = big_times(&sum, &sum);
    squares = big_times(&squares, &count);
    /* a shift by a few bins: the top of the squares follows from the top of the terms */
    if (e > f) sum = big_shift(&sum, (unsigned)(e - f));
    else squares = big_shift(&squares, (unsigned)(f - e));
    big_negate(&sum);
    big_add(&squares, &sum);
    return big_minus(&squares) ? 0 : big_round(squares, SK_MIN(e, f));
}

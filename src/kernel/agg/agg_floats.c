/* agg_floats.c - sums, moments, extremes and counts of floats where all rows are one group: the
 * same states as of agg.c, bit by bit, a block of rows at a time with vector instructions.
 *
 * A block whose values are all finite and raise no top bin needs no look at single values: digits
 * (fsum.h) are sums and differences of doubles, and null values are masked to zero. Every other
 * block is cleaned first: what is not finite becomes a flag, and tops are raised to the block's
 * largest value. Values near the ends of what doubles are go to the state one by one. AVX2 and FMA
 * are detected at run time; both ways give the same bits. */
#include "kernel/agg/agg.h"

enum { WORDS = 8, BLOCK = 64 * WORDS, LANES = 4, BINS = 4 };
typedef double doubles __attribute__((vector_size(8 * LANES)));
typedef int64_t longs __attribute__((vector_size(8 * LANES)));
typedef uint64_t ulongs __attribute__((vector_size(8 * LANES)));

bool sk_agg_plain;
bool sk_agg_wide(void) {
#if defined(__x86_64__)
    return !sk_agg_plain && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

struct floats {
    const struct sk_agg_col *a;
    struct sk_agg_head *h;
    sk_i128 *bin; /* of the sum; those of the squares begin at bin + BINS */
    int32_t squares_top;
    bool moments;
    double limit; /* a block is added at once if no magnitude is greater; below 0: none is */
    double rounder[BINS], squares_rounder[BINS];
};

/* Sums of the rounded values of a block, as bits: the digits, and the bits of each rounder as often
 * as there are values. */
struct digits {
    uint64_t sum[BINS], squares[BINS];
};

SK_INLINE void add_vector(ulongs *to, const double *rounder, int from, int bins,
                          const doubles *values) {
    doubles x = *values;
    for (int i = from; i < bins; i++) {
        doubles rounded = x + rounder[i];
        to[i] += (ulongs)rounded;
        x -= rounded - rounder[i];
    }
}

/* Sets *rest to the rests of squares h, as sk_square_rest() gives them. (Vectors are passed by
 * pointer: by value they would be passed in another way with AVX.) */
SK_INLINE void find_rest(const doubles *x, const doubles *h, bool fused, doubles *rest) {
    if (fused) {
        for (int i = 0; i < LANES; i++) (*rest)[i] = __builtin_fma((*x)[i], (*x)[i], -(*h)[i]);
        return;
    }
    doubles c = *x * 0x1.0000002p27, high = c - (c - *x), low = *x - high;
    *rest = low * low - ((*h - high * high) - 2 * high * low);
}

/* Returns false, and sums that mean nothing, if a magnitude is above the limit or NaN. */
SK_INLINE bool add_block(const struct floats *f, const double *x, const uint64_t *valid,
                         bool moments, bool fused, struct digits *out) {
    ulongs sum[BINS] = {{0}}, squares[BINS] = {{0}};
    longs good = ~(longs){0};
    const longs shift = {0, 1, 2, 3};
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i < 64; i += LANES) {
            doubles v;
            memcpy(&v, x + 64 * w + i, sizeof v);
            if (valid) {
                longs bits = (longs){0} + (int64_t)(valid[w] >> i);
                v = (doubles)((longs)v & -((bits >> shift) & 1));
            }
            good &= (doubles)((longs)v & INT64_MAX) <= (doubles){0} + f->limit;
            add_vector(sum, f->rounder, 0, moments ? 4 : 3, &v);
            if (!moments) continue;
            doubles square = v * v, rest;
            find_rest(&v, &square, fused, &rest);
            add_vector(squares, f->squares_rounder, 0, 4, &square);
            add_vector(squares, f->squares_rounder, 1, 4, &rest);
        }
    for (int i = 0; i < BINS; i++) {
        out->sum[i] = out->squares[i] = 0;
        for (int l = 0; l < LANES; l++) {
            out->sum[i] += (uint64_t)sum[i][l];
            out->squares[i] += (uint64_t)squares[i][l];
        }
    }
    return good[0] & good[1] & good[2] & good[3];
}

SK_INLINE bool add_either(const struct floats *f, const double *x, const uint64_t *valid,
                          bool fused, struct digits *out) {
    if (f->moments && valid) return add_block(f, x, valid, true, fused, out);
    if (f->moments) return add_block(f, x, NULL, true, fused, out);
    if (valid) return add_block(f, x, valid, false, fused, out);
    return add_block(f, x, NULL, false, fused, out);
}

SK_AGG_WIDE static bool add_wide(const struct floats *f, const double *x, const uint64_t *valid,
                                 struct digits *out) {
    return add_either(f, x, valid, true, out);
}
#ifdef __FP_FAST_FMA
enum { FUSED = true };
#else
enum { FUSED = false };
#endif
static bool add_plain(const struct floats *f, const double *x, const uint64_t *valid,
                      struct digits *out) {
    return add_either(f, x, valid, FUSED, out);
}

/* Sets the limit and the rounders for the tops that the state has. */
static void open(struct floats *f) {
    int32_t top = f->h->top, squares = f->squares_top;
    bool none = top == SK_FSUM_NONE || (f->moments && squares == SK_FSUM_NONE);
    f->limit = -1;
    if (none) {
        f->limit = 0;
        if (top == SK_FSUM_NONE) top = SK_FSUM_TO;
        if (squares == SK_FSUM_NONE) squares = SK_FSUM_TO;
    }
    if (!f->moments) squares = SK_FSUM_TO;
    if (top < SK_FSUM_FROM || top > SK_FSUM_TO || squares < SK_FSUM_SQUARES || squares > SK_FSUM_TO)
        return;
    for (int i = 0; i < BINS; i++) {
        f->rounder[i] = sk_fsum_rounder(top - i);
        f->squares_rounder[i] = sk_fsum_rounder(squares - i);
    }
    if (none) return;
    f->limit = sk_fsum_limit(top);
    if (!f->moments) return;
    /* the greatest number whose square, rounded, is at most the squares' limit */
    double most = __builtin_sqrt(sk_fsum_limit(squares));
    uint64_t bits;
    memcpy(&bits, &most, 8);
    bits += 1;
    do {
        memcpy(&most, &bits, 8);
        bits--;
    } while (most * most > sk_fsum_limit(squares));
    f->limit = SK_MIN(f->limit, most);
}

/* Adds a block, if no magnitude in it is above the limit. */
static bool at_once(struct floats *f, const double *x, const uint64_t *valid) {
    struct digits d;
    bool good = sk_agg_wide() ? add_wide(f, x, valid, &d) : add_plain(f, x, valid, &d);
    for (int i = 0; good && i < (f->moments ? 4 : 3); i++) {
        uint64_t bits;
        memcpy(&bits, &f->rounder[i], 8);
        f->bin[i] += (int64_t)(d.sum[i] - BLOCK * bits);
        if (!f->moments) continue;
        memcpy(&bits, &f->squares_rounder[i], 8);
        f->bin[BINS + i] += (int64_t)(d.squares[i] - (i ? 2u : 1u) * BLOCK * bits);
    }
    return good;
}

static void add_one(struct floats *f, double x) {
    bool minus;
    int e;
    uint64_t m = sk_double_split(x, &minus, &e);
    if (!m) return;
    sk_fsum_add(f->bin, f->moments ? 4 : 3, &f->h->top, minus, m, e);
    if (f->moments) sk_fsum_add_square(f->bin + BINS, 4, &f->squares_top, m, e);
}

/* Adds the values of a block one by one or, once tops are raised to the largest, at once. Returns
 * the number of NaNs. */
static int64_t add_cleaned(struct floats *f, const double *x, const uint64_t *valid) {
    double clean[BLOCK];
    int64_t nans = 0;
    int most = 0;
    for (int i = 0; i < BLOCK; i++) {
        bool skip = valid && !(valid[i / 64] >> (i & 63) & 1);
        clean[i] = skip || !__builtin_isfinite(x[i]) ? 0 : x[i];
        if (__builtin_fabs(clean[i]) > __builtin_fabs(clean[most])) most = i;
        if (skip) continue;
        nans += x[i] != x[i];
        if (__builtin_isinf(x[i])) f->h->flags |= x[i] > 0 ? SK_AGG_INF : SK_AGG_MINUS_INF;
    }
    add_one(f, clean[most]);
    clean[most] = 0;
    open(f);
    if (at_once(f, clean, NULL)) return nans;
    for (int i = 0; i < BLOCK; i++) add_one(f, clean[i]);
    return nans;
}

/* The rows [row, row + BLOCK) of a column as doubles; in `to`, where they are not in place. Behind
 * the last row come zeros, which are as valid as others. Returns the number of values. */
static int64_t load_block(const struct sk_key_col *c, int64_t row, int64_t rows, double *to,
                          const double **x, uint64_t *valid) {
    int64_t n = SK_MIN(rows - row, (int64_t)BLOCK), at = c->offset + row, values = n;
    SK_DCHECK(n >= 0);
    const uint8_t *p = c->data + at * c->width;
    *x = (const double *)(const void *)p;
    if (c->width != 8 || n < BLOCK) {
        if (c->width == 4)
            for (int64_t i = 0; i < n; i++) to[i] = sk_float_value(p + 4 * i, 4);
        else
            for (int64_t i = 0; i < n; i++) to[i] = sk_float_value(p + i * c->width, c->width);
        for (int64_t i = n; i < BLOCK; i++) to[i] = 0;
        *x = to;
    }
    if (!c->valid) return n;
    for (int w = 0; w < WORDS; w++) {
        valid[w] = UINT64_MAX;
        int64_t first = 64 * w, bits = SK_MIN(n - first, (int64_t)64);
        if (bits == 64) valid[w] = sk_load_bits(c->valid, at + first);
        for (int64_t i = 0; i < bits && bits < 64; i++)
            if (!sk_bit(c->valid, at + first + i)) valid[w] ^= UINT64_C(1) << i;
        values -= 64 - __builtin_popcountll(valid[w]);
    }
    return values;
}

/* ---- extremes and counts --------------------------------------------------------------------- */

struct seen {
    doubles best[2]; /* two that do not wait for each other */
    longs nans;      /* minus the number of NaNs and nulls */
};

/* A null is taken for a NaN, which is no extreme. */
SK_INLINE void see_block(struct seen *s, const double *x, const uint64_t *valid, bool least) {
    const longs shift = {0, 1, 2, 3}, nan = (longs)((doubles){0} + __builtin_nan(""));
    for (int w = 0; w < WORDS; w++)
        for (int i = 0; i < 64; i += LANES) {
            doubles v, *best = &s->best[i / LANES % 2];
            memcpy(&v, x + 64 * w + i, sizeof v);
            if (valid) {
                longs bits = (longs){0} + (int64_t)(valid[w] >> i), on = -((bits >> shift) & 1);
                v = (doubles)(((longs)v & on) | (nan & ~on));
            }
            longs better = least ? v < *best : v > *best;
            s->nans += v != v;
            *best = (doubles)(((longs)v & better) | ((longs)*best & ~better));
        }
}

SK_INLINE void see_either(struct seen *s, const double *x, const uint64_t *valid, bool least) {
    if (least && valid) see_block(s, x, valid, true);
    else if (least) see_block(s, x, NULL, true);
    else if (valid) see_block(s, x, valid, false);
    else see_block(s, x, NULL, false);
}
static void see_plain(struct seen *s, const double *x, const uint64_t *valid, bool least) {
    see_either(s, x, valid, least);
}
SK_AGG_WIDE static void see_wide(struct seen *s, const double *x, const uint64_t *valid,
                                 bool least) {
    see_either(s, x, valid, least);
}

double sk_agg_floats_scan(const struct sk_key_col *c, uint64_t rows, bool least, int64_t *values,
                          int64_t *nans) {
    double worst = least ? __builtin_inf() : -__builtin_inf();
    struct seen s = {.best = {(doubles){0} + worst, (doubles){0} + worst}};
    *values = *nans = 0;
    for (int64_t row = 0; row < (int64_t)rows; row += BLOCK) {
        double block[BLOCK];
        uint64_t valid[WORDS];
        const double *x;
        int64_t here = SK_MIN((int64_t)rows - row, (int64_t)BLOCK),
                n = load_block(c, row, (int64_t)rows, block, &x, valid);
        /* what is behind the last row, is null */
        if (here < BLOCK)
            for (int64_t i = 0; i < BLOCK; i++) {
                if (i < here && (n == here || (valid[i / 64] >> (i & 63) & 1))) continue;
                block[i] = __builtin_nan("");
            }
        const uint64_t *mask = n < here && here == BLOCK ? valid : NULL;
        if (sk_agg_wide()) see_wide(&s, x, mask, least);
        else see_plain(&s, x, mask, least);
        *nans -= BLOCK - n; /* nulls, and what is behind the last row */
        *values += n;
    }
    for (int l = 0; l < LANES; l++) *nans -= s.nans[l];
    *values -= *nans;
    for (int i = 0; i < 2; i++)
        for (int l = 0; l < LANES; l++) {
            double v = s.best[i][l];
            worst = (least ? v < worst : v > worst) ? v : worst;
        }
    return worst;
}

void sk_agg_floats_update(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows) {
    struct sk_agg_head *h = (void *)a->states;
    sk_i128 *bin = (sk_i128 *)(void *)(a->states + sizeof *h);
    struct floats f = {.a = a, .h = h, .bin = bin, .moments = a->state == SK_STATE_MOMENTS};
    f.squares_top = f.moments ? (int32_t)bin[2 * BINS] : SK_FSUM_NONE;
    int64_t nans = 0, values = 0;
    open(&f);
    for (int64_t row = 0; row < (int64_t)rows; row += BLOCK) {
        double block[BLOCK];
        uint64_t valid[WORDS];
        const double *x;
        int64_t n = load_block(c, row, (int64_t)rows, block, &x, valid);
        const uint64_t *mask = n < SK_MIN((int64_t)rows - row, (int64_t)BLOCK) ? valid : NULL;
        if (!at_once(&f, x, mask)) nans += add_cleaned(&f, x, mask);
        values += n;
    }
    if (f.moments) bin[2 * BINS] = f.squares_top;
    bool nulls = values < (int64_t)rows || (nans && a->agg.nan_is_null);
    h->flags |= nulls ? SK_AGG_NULLS : 0;
    h->flags |= nans && !a->agg.nan_is_null ? SK_AGG_NAN : 0;
    h->n += values - (a->agg.nan_is_null ? nans : 0);
}

/* agg_one.c - counts, sums of integers, least and greatest numbers where all rows are one group:
 * the same states as of agg.c, without a look at a group for each row. 0.3 to 1 ns a value. */
#include "kernel/agg/agg.h"

struct one {
    /* n: number of values; nulls, nans: numbers of rows that are not values */
    int64_t n, nulls, nans;
    sk_i128 sum;
    sk_u128 squares, squares_high; /* units of 1 and of 2^64 */
    double best_double;
    /* the best value so far as a 64-bit number; signed numbers have the sign bit flipped */
    uint64_t best;
};

/* The rows of a column of integers, 64 at a time: the bits of the rows that are valid. */
SK_INLINE uint64_t valid_bits(const struct sk_key_col *c, int64_t row, int64_t n) {
    uint64_t w = UINT64_MAX >> (64 - n);
    if (!c->valid) return w;
    if (n == 64) return sk_load_bits(c->valid, c->offset + row);
    for (int64_t i = 0; i < n; i++)
        if (!sk_bit(c->valid, c->offset + row + i)) w ^= UINT64_C(1) << i;
    return w;
}

/* Integers are summed after adding 2^63, so that no number is negative. Each is split into halves
 * of 32 bits; with fewer than 2^32 values neither sum of halves leaves 64 bits. */
struct halves {
    uint64_t high, low;
    sk_u128 squares, squares_high;
};

/* Adds n integers of which some are valid, or all. */
SK_INLINE void add_integers(struct halves *to, const uint8_t *p, int64_t n, uint64_t valid,
                            bool all, bool moments, uint32_t width, bool is_signed) {
    const uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0;
    struct halves h = *to;
    for (int64_t i = 0; i < n; i++) {
        uint64_t on = all ? UINT64_MAX : -(valid >> i & 1),
                 m = is_signed ? (uint64_t)sk_load_signed(p + i * width, width)
                               : sk_load(p + i * width, width),
                 v = (flip ^ m) & on;
        h.high += v >> 32;
        h.low += v & UINT32_MAX;
        if (!moments) continue;
        m = (is_signed && (int64_t)m < 0 ? -m : m) & on;
        sk_u128 square = (sk_u128)m * m;
        h.squares += (uint64_t)square;
        if (width == 8) h.squares_high += square >> 64;
    }
    *to = h;
}

SK_INLINE void sum_rows(const struct sk_key_col *c, bool moments, uint32_t width, bool is_signed,
                        int64_t rows, struct one *o) {
    const uint8_t *p = c->data + c->offset * width;
    struct halves h = {0};
    if (!c->valid) {
        add_integers(&h, p, rows, 0, true, moments, width, is_signed);
        o->n = rows;
    }
    for (int64_t row = 0; c->valid && row < rows; row += 64, p += 64 * width) {
        int64_t n = SK_MIN(rows - row, (int64_t)64);
        uint64_t valid = valid_bits(c, row, n);
        o->n += __builtin_popcountll(valid);
        if (valid == UINT64_MAX) add_integers(&h, p, 64, 0, true, moments, width, is_signed);
        else add_integers(&h, p, n, valid, false, moments, width, is_signed);
    }
    o->sum = ((sk_i128)h.high << 32) + h.low - (is_signed ? (sk_i128)o->n << 63 : 0);
    o->squares = h.squares;
    o->squares_high = h.squares_high;
}

SK_INLINE void sum_integers(const struct sk_key_col *c, bool moments, int64_t rows, struct one *o) {
    bool is_signed = c->kind == SK_KEY_INT;
    if (c->width == 8 && is_signed) sum_rows(c, moments, 8, true, rows, o);
    else if (c->width == 4 && is_signed) sum_rows(c, moments, 4, true, rows, o);
    else sum_rows(c, moments, c->width, is_signed, rows, o);
}

/* Returns the least, or the greatest, of n numbers; first: one of those that are valid, which
 * stands for those that are not. Two results do not wait for each other. */
#define EXTREME_OF(type)                                                    \
    {                                                                       \
        type a, v, u, one;                                                  \
        memcpy(&one, p + first * sizeof one, sizeof one);                   \
        type b = a = one;                                                   \
        if (n % 2) memcpy(&v, p + (n - 1) * sizeof v, sizeof v);            \
        if (n % 2 && (all || valid >> (n - 1) & 1)) b = v;                  \
        for (size_t i = 0; i < n / 2; i++) {                                \
            memcpy(&v, p + i * sizeof v, sizeof v);                         \
            memcpy(&u, p + (n / 2 + i) * sizeof u, sizeof u);               \
            if (!all) {                                                     \
                type on = (type) - (type)(valid >> i & 1);                  \
                type also = (type) - (type)(valid >> (n / 2 + i) & 1);      \
                v = (type)((v & on) | (one & ~on));                         \
                u = (type)((u & also) | (one & ~also));                     \
            }                                                               \
            a = (least ? v < a : v > a) ? v : a;                            \
            b = (least ? u < b : u > b) ? u : b;                            \
        }                                                                   \
        return (uint64_t)(int64_t)((least ? a < b : a > b) ? a : b) ^ flip; \
    }
SK_INLINE uint64_t extreme_of(const uint8_t *p, size_t n, uint64_t valid, bool all, uint32_t width,
                              bool is_signed, bool least, uint64_t flip) {
    size_t first = all ? 0 : (size_t)__builtin_ctzll(valid);
    switch (is_signed ? width : width + 16) {
    case 1: EXTREME_OF(int8_t)
    case 2: EXTREME_OF(int16_t)
    case 4: EXTREME_OF(int32_t)
    case 8: EXTREME_OF(int64_t)
    case 17: EXTREME_OF(uint8_t)
    case 18: EXTREME_OF(uint16_t)
    case 20: EXTREME_OF(uint32_t)
    default: EXTREME_OF(uint64_t)
    }
}

SK_INLINE void find_extreme(const struct sk_key_col *c, bool least, int64_t rows, struct one *o) {
    enum { PIECE = 4096 };
    const uint8_t *p = c->data + c->offset * c->width;
    bool is_signed = c->kind == SK_KEY_INT;
    const uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0;
    o->best = least ? UINT64_MAX : 0;
    for (int64_t row = 0, n; row < rows; row += n, p += n * c->width) {
        n = SK_MIN(rows - row, (int64_t)(c->valid ? 64 : PIECE));
        uint64_t valid = c->valid ? valid_bits(c, row, n) : UINT64_MAX, best;
        int64_t values = c->valid ? __builtin_popcountll(valid) : n;
        o->n += values;
        if (!values) continue;
        if (values == n) best = extreme_of(p, (size_t)n, 0, true, c->width, is_signed, least, flip);
        else best = extreme_of(p, (size_t)n, valid, false, c->width, is_signed, least, flip);
        if (least ? best < o->best : best > o->best) o->best = best;
    }
}

SK_INLINE void scan_integers(const struct sk_agg_col *a, const struct sk_key_col *c, int64_t rows,
                             struct one *o) {
    if (a->state == SK_STATE_VALUE && a->agg.kind == SK_AGG_MIN) find_extreme(c, true, rows, o);
    else if (a->state == SK_STATE_VALUE) find_extreme(c, false, rows, o);
    else if (a->state == SK_STATE_MOMENTS) sum_integers(c, true, rows, o);
    else sum_integers(c, false, rows, o);
}
static void scan_plain(const struct sk_agg_col *a, const struct sk_key_col *c, int64_t rows,
                       struct one *o) {
    scan_integers(a, c, rows, o);
}
SK_AGG_WIDE static void scan_wide(const struct sk_agg_col *a, const struct sk_key_col *c,
                                  int64_t rows, struct one *o) {
    scan_integers(a, c, rows, o);
}

static void scan(const struct sk_agg_col *a, const struct sk_key_col *c, int64_t rows,
                 struct one *o) {
    if (c->kind == SK_KEY_FLOAT)
        o->best_double =
            sk_agg_floats_scan(c, (uint64_t)rows, a->agg.kind == SK_AGG_MIN, &o->n, &o->nans);
    else if (sk_agg_wide()) scan_wide(a, c, rows, o);
    else scan_plain(a, c, rows, o);
    o->nulls = rows - o->n - o->nans;
}

static void add_moments(uint8_t *state, const struct one *o) {
    struct sk_agg_head *h = (void *)state;
    sk_i128 *bin = (sk_i128 *)(void *)(state + sizeof *h);
    int32_t top = (int32_t)bin[8];
    bool minus = o->sum < 0;
    if (o->sum) sk_fsum_add(bin, 4, &h->top, minus, (sk_u128)(minus ? -o->sum : o->sum), 0);
    if (o->squares_high) sk_fsum_add(bin + 4, 4, &top, false, o->squares_high, 64);
    if (o->squares) sk_fsum_add(bin + 4, 4, &top, false, o->squares, 0);
    bin[8] = top;
}

bool sk_agg_one_fits(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                     uint64_t groups) {
    if (!c) return groups == 1;
    bool whole = c->kind == SK_KEY_INT || c->kind == SK_KEY_UINT,
         number = whole || c->kind == SK_KEY_FLOAT;
    return groups == 1 && rows && rows <= UINT32_MAX && number && !c->code &&
           (a->state == SK_STATE_COUNT || a->state == SK_STATE_SUM ||
            (a->state == SK_STATE_MOMENTS && !(whole && a->scale)) || a->agg.kind == SK_AGG_MIN ||
            a->agg.kind == SK_AGG_MAX);
}

bool sk_agg_one_update(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows) {
    struct sk_agg_head *h = (void *)a->states;
    struct one o = {.n = 0};
    uint8_t raw[8];
    if (!c) {
        h->n += (int64_t)rows;
        return true;
    }
    if (c->kind == SK_KEY_FLOAT && (a->state == SK_STATE_SUM || a->state == SK_STATE_MOMENTS)) {
        sk_agg_floats_update(a, c, rows);
        return true;
    }
    scan(a, c, (int64_t)rows, &o);
    if (a->agg.nan_is_null) {
        o.nulls += o.nans;
        o.nans = 0;
    }
    h->flags |= o.nulls ? SK_AGG_NULLS : 0;
    if (a->state == SK_STATE_COUNT) {
        h->n += o.n + o.nans + (a->agg.ignore_nulls ? 0 : o.nulls);
        return true;
    }
    if (a->state == SK_STATE_SUM) {
        *(sk_i128 *)(void *)(a->states + sizeof *h) += o.sum;
        h->n += o.n;
        return true;
    }
    if (a->state == SK_STATE_MOMENTS) {
        add_moments(a->states, &o);
        h->n += o.n;
        return true;
    }
    h->flags |= o.nans ? SK_AGG_NAN : 0;
    if (!o.n) return true;
    float single = (float)o.best_double;
    _Float16 half = (_Float16)o.best_double;
    if (c->kind == SK_KEY_FLOAT)
        memcpy(raw,
               c->width == 8   ? (void *)&o.best_double
               : c->width == 4 ? (void *)&single
                               : (void *)&half,
               c->width);
    else {
        if (c->kind == SK_KEY_INT) o.best ^= UINT64_C(1) << 63;
        memcpy(raw, &o.best, 8);
    }
    /* the best value as a one-row column, which stands for all rows */
    struct sk_key_col best = *c;
    best.data = raw;
    best.valid = NULL;
    best.offset = 0;
    if (!sk_agg_update(a, &best, &(uint32_t){0}, 1, UINT64_MAX)) return false;
    h->n += o.n - 1;
    return true;
}

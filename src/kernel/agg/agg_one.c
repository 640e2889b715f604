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

/* Integers are summed after adding 2^63, so that no number is negative. Each is split into halves
 * of 32 bits; with fewer than 2^32 values neither sum of halves leaves 64 bits. */
SK_INLINE void add_integers(const struct sk_key_col *c, enum sk_agg_state is, uint32_t width,
                            bool is_signed, bool nulls, bool least, int64_t rows, struct one *o) {
    const uint8_t *p = c->data + c->offset * width;
    const uint64_t flip = is_signed ? UINT64_C(1) << 63 : 0;
    uint64_t high = 0, low = 0, best[4]; /* four accumulators that do not wait for each other */
    sk_u128 squares = 0, squares_high = 0;
    int64_t none = 0;
    for (int i = 0; i < 4; i++) best[i] = least ? UINT64_MAX : 0;
#pragma GCC unroll 4
    for (int64_t i = 0; i < rows; i++) {
        if (nulls && !sk_bit(c->valid, c->offset + i)) {
            none++;
            continue;
        }
        uint64_t is_at = is_signed ? (uint64_t)sk_load_signed(p + i * width, width)
                                   : sk_load(p + i * width, width),
                 v = flip ^ is_at, *to = &best[i % 4];
        if (is == SK_STATE_VALUE) *to = (least ? v < *to : v > *to) ? v : *to;
        else {
            high += v >> 32;
            low += v & UINT32_MAX;
        }
        if (is == SK_STATE_MOMENTS) {
            uint64_t m = is_signed && (int64_t)is_at < 0 ? -is_at : is_at;
            sk_u128 square = (sk_u128)m * m;
            squares += (uint64_t)square;
            if (width == 8) squares_high += square >> 64;
        }
    }
    for (int i = 1; i < 4; i++)
        if (least ? best[i] < best[0] : best[i] > best[0]) best[0] = best[i];
    o->n = rows - none;
    o->sum = ((sk_i128)high << 32) + low - (is_signed ? (sk_i128)o->n << 63 : 0);
    o->best = best[0];
    o->squares = squares;
    o->squares_high = squares_high;
}

SK_INLINE void add_floats(const struct sk_key_col *c, uint32_t width, bool nulls, bool least,
                          int64_t rows, struct one *o) {
    const uint8_t *p = c->data + c->offset * width;
    double best = least ? __builtin_inf() : -__builtin_inf();
    int64_t n = 0, nans = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (nulls && !sk_bit(c->valid, c->offset + i)) continue;
        double v = sk_float_value(p + i * width, width);
        best = (least ? v < best : v > best) ? v : best;
        nans += v != v;
        n++;
    }
    o->n = n - nans;
    o->nans = nans;
    o->best_double = best;
}

SK_INLINE void scan_integers(const struct sk_key_col *c, enum sk_agg_state is, bool least,
                             int64_t rows, struct one *o) {
    bool nulls = c->valid != NULL, is_signed = c->kind == SK_KEY_INT;
    if (c->width == 8 && is_signed && !nulls) add_integers(c, is, 8, true, false, least, rows, o);
    else if (c->width == 8 && is_signed) add_integers(c, is, 8, true, true, least, rows, o);
    else add_integers(c, is, c->width, is_signed, nulls, least, rows, o);
}

static void scan(const struct sk_agg_col *a, const struct sk_key_col *c, int64_t rows,
                 struct one *o) {
    bool nulls = c->valid != NULL, least = a->agg.kind == SK_AGG_MIN;
    if (c->kind == SK_KEY_FLOAT) {
        if (c->width == 8 && !nulls && least) add_floats(c, 8, false, true, rows, o);
        else if (c->width == 8 && !nulls) add_floats(c, 8, false, false, rows, o);
        else add_floats(c, c->width, nulls, least, rows, o);
    } else if (a->state == SK_STATE_VALUE && least) scan_integers(c, SK_STATE_VALUE, true, rows, o);
    else if (a->state == SK_STATE_VALUE) scan_integers(c, SK_STATE_VALUE, false, rows, o);
    else if (a->state == SK_STATE_MOMENTS) scan_integers(c, SK_STATE_MOMENTS, false, rows, o);
    else scan_integers(c, SK_STATE_SUM, false, rows, o);
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

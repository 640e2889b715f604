/* agg.c - the state that each aggregate keeps for a group, and its result.
 *
 * Rules (docs/design/kernels.md): NaN is a value, so it is counted and makes sums, means and
 * deviations NaN; but min, max and abs_max ignore it while there are other values. Whole numbers
 * are summed in 128 bits; floats by fsum.h. Cost: 3 to 10 ns a row and aggregate while states fit
 * the cache. */
#include <stdio.h>
#include <stdlib.h>

#include "kernel/agg/agg.h"

enum { AHEAD = 12 };
static const uint64_t sign = UINT64_C(1) << 63;

/* ---- which aggregate is possible on which type ----------------------------------------------- */

static const struct sk_agg_facts facts[] = {
#define ROW(kind, name, takes, state, result, finish) \
    [SK_AGG_##kind] = {name, takes, SK_STATE_##state, SK_GIVES_##result},
    SK_AGGREGATES(ROW)
#undef ROW
};

const struct sk_agg_facts *sk_agg_facts(enum sk_agg_kind kind) { return &facts[kind]; }

bool sk_agg_kind_find(const char *name, enum sk_agg_kind *out) {
    for (size_t i = 0; i < SK_COUNT(facts); i++) {
        if (strcmp(facts[i].name, name) != 0) continue;
        *out = (enum sk_agg_kind)i;
        return true;
    }
    return false;
}

/* Returns the bit of enum sk_agg_takes for a type whose values have an order. */
static unsigned family_of(const char *f, const struct sk_key_col *c) {
    if (f[0] == 'd') return c->width == 32 ? SK_TAKES_DECIMALS_256 : SK_TAKES_DECIMALS;
    if (!strncmp(f, "tD", 2)) return SK_TAKES_DURATIONS;
    if (f[0] == 'b') return SK_TAKES_BOOL;
    return !f[1] && strchr("cCsSiIlLefg", f[0]) ? SK_TAKES_NUMBERS : SK_TAKES_ORDERED;
}

bool sk_agg_takes(enum sk_agg_kind kind, const char *format) {
    struct sk_key_col c = {.kind = SK_KEY_NULL};
    unsigned takes = facts[kind].takes;
    if (!sk_key_type(&c, format)) return takes == SK_TAKES_ALL;
    unsigned family = family_of(format, &c);
    return c.kind == SK_KEY_NULL || (takes & family) == family;
}

static void set_format(struct sk_agg_col *a, const char *f) {
    char *out = a->format;
    size_t n = sizeof a->format;
    enum sk_agg_gives r = facts[a->agg.kind].result;
    bool whole = a->kind != SK_KEY_FLOAT, positive = a->kind == SK_KEY_UINT && a->width == 8;
    if (a->kind == SK_KEY_NULL && (r == SK_GIVES_SUM || r == SK_GIVES_SAME)) snprintf(out, n, "n");
    else if (r == SK_GIVES_SAME) snprintf(out, n, "%.95s", f[0] == 'v' ? f + 1 : f);
    else if (r == SK_GIVES_INT64) snprintf(out, n, "l");
    else if (r != SK_GIVES_SUM || !whole) snprintf(out, n, "g");
    else if (f[0] == 't') snprintf(out, n, "%.40s", f);
    else if (f[0] == 'd' || a->agg.wide) snprintf(out, n, "d:38,%d", a->scale);
    else snprintf(out, n, positive ? "L" : "l");
}

static uint32_t body_of(const struct sk_agg_col *a) {
    switch (facts[a->agg.kind].state) {
    /* the sum, the sum of squares, and the top bin of the squares */
    case SK_STATE_MOMENTS: return 9;
    case SK_STATE_SUM: return a->kind == SK_KEY_FLOAT ? 3 : a->kind == SK_KEY_DECIMAL ? 2 : 1;
    case SK_STATE_SHARE: return 1;
    case SK_STATE_VALUE: return a->text ? 1 : 2;
    default: return 0;
    }
}

sk_rc sk_agg_col_init(struct sk_agg_col *a, const struct sk_agg *agg, const struct ArrowSchema *s,
                      struct sk_err *err) {
    const struct ArrowSchema *values = s && s->dictionary ? s->dictionary : s;
    const char *f = values ? values->format : "n";
    struct sk_key_col c = {.kind = SK_KEY_NULL};
    const struct sk_agg_facts *is = &facts[agg->kind];
    bool ordered = sk_key_type(&c, f);
    *a = (struct sk_agg_col){.agg = *agg, .state = is->state};
    if (!agg->name || strlen(agg->name) >= sizeof a->name)
        return SK_ERR(err, SK_EINVAL, "an aggregate without a name, or one of more than %zu bytes",
                      sizeof a->name - 1);
    snprintf(a->name, sizeof a->name, "%s", agg->name);
    a->agg.name = a->name;
    a->nested = !ordered;
    if (!sk_agg_takes(agg->kind, f) || (!s && is->state != SK_STATE_COUNT))
        return SK_ERR(err, SK_EINVAL,
                      "'%s': %s of column '%.200s' of Arrow format '%.50s' is not possible",
                      a->name, is->name, s && s->name ? s->name : "", f);
    a->kind = c.kind;
    a->width = c.width;
    a->n_words = c.n_words;
    a->text = is->state == SK_STATE_VALUE && c.kind >= SK_KEY_FIXED;
    if (f[0] == 'd') a->scale = atoi(strchr(f, ',') + 1);
    set_format(a, f);
    bool typed = is->state == SK_STATE_SUM || is->state == SK_STATE_VALUE;
    snprintf(a->source, sizeof a->source, "%.95s", !typed ? "n" : f[0] == 'v' ? f + 1 : f);
    a->body = body_of(a);
    a->size = sizeof(struct sk_agg_head) + 16 * a->body;
    return SK_OK;
}

void sk_agg_zero(const struct sk_agg_col *a, uint8_t *state) {
    memset(state, 0, a->size);
    ((struct sk_agg_head *)(void *)state)->top = SK_FSUM_NONE;
    if (a->state == SK_STATE_MOMENTS) {
        sk_i128 none = SK_FSUM_NONE;
        memcpy(state + 16 + 16 * 8, &none, 16);
    }
}

/* ---- values as numbers ---- */

SK_INLINE sk_i128 *body(uint8_t *state) {
    return (sk_i128 *)(void *)(state + sizeof(struct sk_agg_head));
}
static const sk_i128 *body_const(const uint8_t *state) {
    return (const sk_i128 *)(const void *)(state + sizeof(struct sk_agg_head));
}

SK_INLINE sk_i128 whole_of(const struct sk_key_col *c, enum sk_key_kind kind, uint32_t width,
                           int64_t at) {
    sk_i128 v;
    switch (kind) {
    case SK_KEY_BOOL: return sk_bit(c->data, at);
    case SK_KEY_INT: return sk_load_signed(c->data + at * width, width);
    case SK_KEY_UINT: return sk_load(c->data + at * width, width);
    default: memcpy(&v, c->data + at * width, 16); return v;
    }
}

static double power_of_ten(int32_t n) {
    double p = 1;
    for (int32_t i = 0; i < n || i < -n; i++) p *= 10;
    return n < 0 ? 1 / p : p;
}

/* True if d is NaN or infinite; the state's flags then record that. */
SK_INLINE bool is_odd(struct sk_agg_head *h, double d) {
    if (SK_LIKELY(__builtin_isfinite(d))) return false;
    h->flags |= __builtin_isnan(d) ? SK_AGG_NAN : d > 0 ? SK_AGG_INF : SK_AGG_MINUS_INF;
    return true;
}

SK_INLINE void add_double(struct sk_agg_head *h, sk_i128 *bin, int k, double d) {
    bool minus;
    int e;
    if (SK_LIKELY(h->top >= SK_FSUM_FROM && h->top <= SK_FSUM_TO &&
                  __builtin_fabs(d) <= sk_fsum_limit(h->top))) {
        sk_fsum_add_digits(bin, k, h->top, 0, d);
        return;
    }
    if (is_odd(h, d)) return;
    uint64_t m = sk_double_split(d, &minus, &e);
    if (m) sk_fsum_add(bin, k, &h->top, minus, m, e);
}

/* Adds a double and its square. */
static void add_both(struct sk_agg_head *h, sk_i128 *bin, double d) {
    bool minus;
    int e;
    int32_t top = (int32_t)bin[8];
    double square = d * d;
    if (SK_LIKELY(h->top >= SK_FSUM_FROM && h->top <= SK_FSUM_TO && top >= SK_FSUM_SQUARES &&
                  top <= SK_FSUM_TO && __builtin_fabs(d) <= sk_fsum_limit(h->top) &&
                  square <= sk_fsum_limit(top))) {
        sk_fsum_add_digits(bin, 4, h->top, 0, d);
        sk_fsum_add_digits(bin + 4, 4, top, 0, square);
        sk_fsum_add_digits(bin + 4, 4, top, 1, sk_square_rest(d, square));
        return;
    }
    uint64_t m = sk_double_split(d, &minus, &e);
    if (is_odd(h, d) || !m) return;
    sk_fsum_add(bin, 4, &h->top, minus, m, e);
    sk_fsum_add_square(bin + 4, 4, &top, m, e);
    bin[8] = top;
}

/* Adds a whole number beyond 2^53 and its square. */
static void add_large(struct sk_agg_head *h, sk_i128 *bin, bool minus, uint64_t m) {
    int32_t top = (int32_t)bin[8];
    sk_fsum_add(bin, 4, &h->top, minus, m, 0);
    sk_fsum_add(bin + 4, 4, &top, false, (sk_u128)m * m, 0);
    bin[8] = top;
}

static void add_std(const struct sk_agg_col *a, const struct sk_key_col *c, struct sk_agg_head *h,
                    sk_i128 *bin, int64_t at) {
    double d;
    if (a->kind == SK_KEY_INT || a->kind == SK_KEY_UINT) {
        sk_i128 v = whole_of(c, a->kind, a->width, at);
        const sk_i128 exact = (sk_i128)1 << 53;
        if (!a->scale && (v > exact || v < -exact)) {
            add_large(h, bin, v < 0, (uint64_t)(v < 0 ? -v : v));
            return;
        }
        d = (double)v / (a->scale ? power_of_ten(a->scale) : 1);
    } else if (a->kind == SK_KEY_DECIMAL)
        d = (double)whole_of(c, a->kind, a->width, at) / power_of_ten(a->scale);
    else d = sk_float_value(c->data + at * a->width, a->width);
    add_both(h, bin, d);
}

/* ---- extremes ---- */

/* Words that are ordered like the values or, for ABS_MAX, like their magnitudes. */
static void extreme_words(const struct sk_agg_col *a, const struct sk_key_col *c, int64_t at,
                          uint64_t w[4]) {
    uint32_t here;
    memset(w, 0, 32);
    for (uint32_t i = 0; i < c->n_words; i++)
        w[i] = sk_key_word(c, c->kind, c->width, at, i, &here);
    if (a->agg.kind != SK_AGG_ABS_MAX || c->kind == SK_KEY_UINT) return;
    if (c->kind == SK_KEY_FLOAT) {
        /* turn the words into those of the positive number */
        if (!(w[0] & sign)) w[0] = ~w[0] | sign;
        return;
    }
    w[0] ^= sign;
    if (w[0] & sign) { /* a negative number: negate it, from the lowest word up */
        bool carry = true;
        for (uint32_t i = c->n_words; i-- > 0;) {
            w[i] = ~w[i] + carry;
            carry &= !w[i];
        }
    }
}

static int compare_words(const uint64_t *a, const uint64_t *b) {
    for (int i = 0; i < 4; i++)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

static bool better(const struct sk_agg_col *a, int r) {
    return a->agg.kind == SK_AGG_MIN ? r < 0 : r > 0;
}

static void take_words(const struct sk_agg_col *a, uint8_t *state, const uint64_t *w, int64_t n) {
    struct sk_agg_head *h = (void *)state;
    uint64_t *is = (uint64_t *)(void *)body(state);
    uint64_t have[4] = {is[0], is[1], is[2], is[3]};
    if (n && (!h->n || better(a, compare_words(w, have)))) memcpy(is, w, 32);
    h->n += n;
}

static bool take_text(const struct sk_agg_col *a, uint8_t *state, struct sk_bytes b, int64_t n) {
    struct sk_agg_text *t = (void *)state;
    int r = 0;
    if (n && t->head.n) {
        r = memcmp(b.p, t->p, SK_MIN(b.n, t->n));
        if (!r) r = (b.n > t->n) - (b.n < t->n);
    }
    if (n && (!t->head.n || better(a, r))) {
        if (b.n > t->cap || !t->p) {
            uint8_t *p = sk_realloc(SK_TAG_KERNEL, t->p, b.n + b.n / 2 + 8);
            if (!p) return false;
            t->p = p;
            t->cap = (uint32_t)(b.n + b.n / 2 + 8);
        }
        memcpy(t->p, b.p, b.n);
        t->n = (uint32_t)b.n;
    }
    t->head.n += n;
    return true;
}

/* ---- adding rows to states ---- */

/* Adds row `at` of the column, which is not null, to a state. false: no memory. */
SK_INLINE bool take(const struct sk_agg_col *a, const struct sk_key_col *c, enum sk_agg_state is,
                    enum sk_key_kind type, uint32_t width, uint8_t *state, int64_t at) {
    struct sk_agg_head *h = (void *)state;
    uint64_t w[4];
    sk_i128 *sum = body(state);
    switch (is) {
    case SK_STATE_SUM:
        h->n++;
        if (type == SK_KEY_FLOAT)
            add_double(h, sum, 3, sk_float_value(c->data + at * width, width));
        /* the value is added in two halves, so that the sum overflows in no order of terms */
        else if (type == SK_KEY_DECIMAL) {
            sk_i128 v = whole_of(c, type, width, at);
            sum[0] += (uint64_t)v;
            sum[1] += v >> 64;
        } else *sum += whole_of(c, type, width, at);
        return true;
    case SK_STATE_MOMENTS:
        h->n++;
        add_std(a, c, h, sum, at);
        return true;
    case SK_STATE_SHARE:
        h->n++;
        if (a->agg.kind == SK_AGG_MISSING_PCT) *sum += sk_key_class(c, at) != SK_CLASS_VALUE;
        else if (type == SK_KEY_FLOAT) *sum += sk_float_value(c->data + at * width, width) == 0;
        else *sum += !whole_of(c, type, width, at);
        return true;
    case SK_STATE_VALUE:
        if (sk_key_class(c, at) != SK_CLASS_VALUE) {
            h->flags |= SK_AGG_NAN;
            return true;
        }
        if (a->text) return take_text(a, state, sk_key_bytes(c, at), 1);
        extreme_words(a, c, at, w);
        take_words(a, state, w, 1);
        return true;
    default: h->n++; return true;
    }
}

static void take_null(const struct sk_agg_col *a, uint8_t *state) {
    struct sk_agg_head *h = (void *)state;
    h->flags |= SK_AGG_NULLS;
    if (a->agg.kind == SK_AGG_MISSING_PCT) ++*body(state);
    h->n += a->agg.kind == SK_AGG_MISSING_PCT ||
            (!a->agg.ignore_nulls && (a->state == SK_STATE_COUNT || a->state == SK_STATE_SHARE));
}

SK_INLINE bool update_rows(const struct sk_agg_col *a, const struct sk_key_col *c,
                           enum sk_agg_state is, enum sk_key_kind type, uint32_t width,
                           const uint32_t *ids, uint64_t rows) {
    uint8_t *states = a->states;
    size_t size = a->size;
    bool nan_is_null = a->agg.nan_is_null;
    for (uint64_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows) __builtin_prefetch(states + ids[i + AHEAD] * size, 1);
        int64_t at = sk_key_at(c, i);
        if (type == SK_KEY_FLOAT && nan_is_null && sk_key_class(c, at) == SK_CLASS_NAN) at = -1;
        if (at < 0) take_null(a, states + ids[i] * size);
        else if (!take(a, c, is, type, width, states + ids[i] * size, at)) return false;
    }
    return true;
}

bool sk_agg_needs_ids(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                      uint64_t groups) {
    return !sk_agg_one_fits(a, c, rows, groups);
}

bool sk_agg_update(const struct sk_agg_col *a, const struct sk_key_col *c, const uint32_t *ids,
                   uint64_t rows, uint64_t groups) {
    if (sk_agg_one_fits(a, c, rows, groups)) return sk_agg_one_update(a, c, rows);
    if (!c) {
        for (uint64_t i = 0; i < rows; i++)
            ((struct sk_agg_head *)(void *)(a->states + ids[i] * a->size))->n++;
        return true;
    }
    if (sk_agg_sum_fits(a, c, rows, groups)) return sk_agg_sum_update(a, c, ids, rows, groups);
    if (a->state == SK_STATE_COUNT)
        return update_rows(a, c, SK_STATE_COUNT,
                           c->kind == SK_KEY_FLOAT ? SK_KEY_FLOAT : SK_KEY_BOOL, 1, ids, rows);
    if (a->state == SK_STATE_SUM) {
        if (a->kind == SK_KEY_INT && a->width == 8)
            return update_rows(a, c, SK_STATE_SUM, SK_KEY_INT, 8, ids, rows);
        if (a->kind == SK_KEY_FLOAT && a->width == 8)
            return update_rows(a, c, SK_STATE_SUM, SK_KEY_FLOAT, 8, ids, rows);
    }
    return update_rows(a, c, a->state, a->kind, a->width, ids, rows);
}

/* ---- merging states ---- */

bool sk_agg_merge(const struct sk_agg_col *a, uint8_t *to, const uint8_t *from) {
    struct sk_agg_head *h = (void *)to;
    const struct sk_agg_head *g = (const void *)from;
    sk_i128 *x = body(to);
    const sk_i128 *y = body_const(from);
    h->flags |= g->flags;
    if (a->state == SK_STATE_VALUE) {
        const struct sk_agg_text *t = (const void *)from;
        if (a->text) return take_text(a, to, (struct sk_bytes){t->p, t->n}, g->n);
        uint64_t w[4];
        memcpy(w, y, 32);
        take_words(a, to, w, g->n);
        return true;
    }
    h->n += g->n;
    if (a->state == SK_STATE_MOMENTS) {
        int32_t top = (int32_t)x[8];
        sk_fsum_merge(x, 4, &h->top, y, g->top);
        sk_fsum_merge(x + 4, 4, &top, y + 4, (int32_t)y[8]);
        x[8] = top;
    } else if (a->body == 3) sk_fsum_merge(x, 3, &h->top, y, g->top);
    else
        for (uint32_t i = 0; i < a->body; i++) x[i] += y[i];
    return true;
}

/* ---- encoding states ------------------------------------------------------------------------- */

static uint8_t *put_number(uint8_t *out, sk_i128 v) {
    /* each number is a byte with its length, then that many bytes; missing high bytes repeat the
     * sign */
    uint8_t n = 0;
    while (n < 16 && (n ? v >> (8 * n - 1) != 0 && v >> (8 * n - 1) != -1 : v != 0)) n++;
    *out++ = n;
    memcpy(out, &v, n);
    return out + n;
}

static bool get_number(struct sk_bytes *b, sk_i128 *v) {
    const uint8_t *p = b->p;
    if (!b->n || p[0] > 16 || b->n < 1u + p[0]) return false;
    *v = p[0] && p[p[0]] & 0x80 ? -1 : 0;
    memcpy(v, p + 1, p[0]);
    *b = (struct sk_bytes){p + 1 + p[0], b->n - 1 - p[0]};
    return true;
}

size_t sk_agg_encoded_max(const struct sk_agg_col *a, const uint8_t *state) {
    return 1 + 17 * (2 + (size_t)a->body) +
           (a->text ? ((const struct sk_agg_text *)(const void *)state)->n : 0);
}

size_t sk_agg_encode(const struct sk_agg_col *a, const uint8_t *state, uint8_t *out) {
    const struct sk_agg_head *h = (const void *)state;
    uint8_t *p = out;
    *p++ = (uint8_t)h->flags;
    p = put_number(p, h->n);
    if (a->text) {
        const struct sk_agg_text *t = (const void *)state;
        if (t->n) memcpy(p, t->p, t->n);
        return (size_t)(p + t->n - out);
    }
    p = put_number(p, h->top);
    for (uint32_t i = 0; i < a->body; i++) p = put_number(p, body_const(state)[i]);
    return (size_t)(p - out);
}

bool sk_agg_decode(const struct sk_agg_col *a, struct sk_bytes b, uint8_t *state) {
    struct sk_agg_head *h = (void *)state;
    sk_i128 n, top;
    if (!b.n) return false;
    memset(state, 0, a->size);
    h->flags = *(const uint8_t *)b.p;
    b = (struct sk_bytes){(const uint8_t *)b.p + 1, b.n - 1};
    if (!get_number(&b, &n)) return false;
    h->n = (int64_t)n;
    if (a->text) {
        struct sk_agg_text *t = (void *)state;
        t->p = (uint8_t *)(uintptr_t)b.p;
        t->n = (uint32_t)b.n;
        return b.n <= UINT32_MAX;
    }
    if (!get_number(&b, &top)) return false;
    h->top = (int32_t)top;
    for (uint32_t i = 0; i < a->body; i++)
        if (!get_number(&b, &body(state)[i])) return false;
    return !b.n;
}

/* ---- the result of a state ---- */

uint32_t sk_agg_result_width(const struct sk_agg_col *a) {
    if (a->text || a->format[0] == 'n') return 0;
    if (facts[a->agg.kind].result == SK_GIVES_SAME) return a->width;
    return a->format[0] == 'd' ? 16 : 8;
}

static sk_rc overflow(const struct sk_agg_col *a, struct sk_err *err) {
    const char *type = !strcmp(a->format, "l")   ? "int64"
                       : !strcmp(a->format, "L") ? "uint64"
                       : a->format[0] == 'd'     ? "decimal128"
                                                 : "its type";
    return SK_ERR(
        err, SK_ERANGE,
        "%s: a group's %s is more than %s holds; cast the column to float64 or to a decimal before",
        a->name, a->state == SK_STATE_SUM ? "sum" : "largest value", type);
}

static double odd_or(const struct sk_agg_head *h, double d) {
    bool both = (h->flags & SK_AGG_INF) && (h->flags & SK_AGG_MINUS_INF);
    if ((h->flags & SK_AGG_NAN) || both) return __builtin_nan("");
    return h->flags & SK_AGG_INF         ? __builtin_inf()
           : h->flags & SK_AGG_MINUS_INF ? -__builtin_inf()
                                         : d;
}

static void set_double(struct sk_agg_value *out, double d) { memcpy(out->raw, &d, 8); }

/* Sets *v to the sum of whole numbers. false: the sum does not fit into 128 bits, and *v is its
 * upper half. */
static bool whole_sum(const struct sk_agg_col *a, const sk_i128 *x, sk_i128 *v) {
    *v = *x;
    if (a->kind != SK_KEY_DECIMAL) return true;
    sk_i128 high = x[1] + (x[0] >> 64);
    *v = high;
    if (high != (int64_t)high) return false;
    *v = (sk_i128)((sk_u128)high << 64 | (uint64_t)x[0]);
    return true;
}

static sk_rc finish_count(const struct sk_agg_col *a SK_UNUSED, const uint8_t *state,
                          struct sk_agg_value *out, struct sk_err *err SK_UNUSED) {
    memcpy(out->raw, &((const struct sk_agg_head *)(const void *)state)->n, 8);
    return SK_OK;
}

static sk_rc finish_share(const struct sk_agg_col *a SK_UNUSED, const uint8_t *state,
                          struct sk_agg_value *out, struct sk_err *err SK_UNUSED) {
    const struct sk_agg_head *h = (const void *)state;
    set_double(out, (double)*body_const(state) / (double)h->n * 100);
    return SK_OK;
}

static sk_rc finish_sum(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                        struct sk_err *err) {
    const struct sk_agg_head *h = (const void *)state;
    const sk_i128 *x = body_const(state);
    sk_i128 v, most = 1;
    if (a->kind == SK_KEY_FLOAT) {
        set_double(out, odd_or(h, sk_fsum_value(x, 3, h->top)));
        return SK_OK;
    }
    for (int i = 0; i < 38; i++) most *= 10;
    bool fit = whole_sum(a, x, &v);
    if (a->format[0] == 'd') fit = fit && v < most && v > -most;
    else fit = a->format[0] == 'L' ? v == (sk_i128)(uint64_t)v : v == (sk_i128)(int64_t)v;
    memcpy(out->raw, &v, 16);
    return fit ? SK_OK : overflow(a, err);
}

static sk_rc finish_mean(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                         struct sk_err *err SK_UNUSED) {
    const struct sk_agg_head *h = (const void *)state;
    const sk_i128 *x = body_const(state);
    sk_i128 v;
    double d;
    if (a->kind == SK_KEY_FLOAT) d = odd_or(h, sk_fsum_value(x, 3, h->top));
    else if (whole_sum(a, x, &v)) d = (double)v / power_of_ten(a->scale);
    else d = (double)v * 0x1p64 / power_of_ten(a->scale);
    set_double(out, d / (double)h->n);
    return SK_OK;
}

/* NaN if there are too few values, or if one of them is not finite. */
static double variance(const struct sk_agg_col *a, const uint8_t *state) {
    const struct sk_agg_head *h = (const void *)state;
    const sk_i128 *x = body_const(state);
    int64_t degrees = h->n - a->agg.ddof;
    if (degrees <= 0 || (h->flags & (SK_AGG_NAN | SK_AGG_INF | SK_AGG_MINUS_INF)))
        return __builtin_nan("");
    return sk_fsum_spread((uint64_t)h->n, x, h->top, x + 4, (int32_t)x[8]) / (double)h->n /
           (double)degrees;
}

static sk_rc finish_std(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                        struct sk_err *err SK_UNUSED) {
    set_double(out, __builtin_sqrt(variance(a, state)));
    return SK_OK;
}

static sk_rc finish_var(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                        struct sk_err *err SK_UNUSED) {
    set_double(out, variance(a, state));
    return SK_OK;
}

/* Turns words back into a value. */
static sk_rc finish_value(const struct sk_agg_col *a, const uint8_t *state,
                          struct sk_agg_value *out, struct sk_err *err) {
    const struct sk_agg_head *h = (const void *)state;
    uint64_t w[4];
    unsigned up = 64 - 8 * a->width;
    if (a->text) {
        const struct sk_agg_text *t = (const void *)state;
        out->text = (struct sk_bytes){t->p, t->n};
        return SK_OK;
    }
    memcpy(w, body_const(state), 32);
    if (!h->n)
        w[0] = (a->width == 2   ? UINT64_C(0x7E00) << 48
                : a->width == 4 ? UINT64_C(0x7FC00000) << 32
                                : UINT64_C(0x7FF8) << 48) |
               sign; /* the state has only seen NaN */
    bool magnitude =
        a->agg.kind == SK_AGG_ABS_MAX && (a->kind == SK_KEY_INT || a->kind == SK_KEY_DECIMAL);
    if (magnitude && w[0] & sign) return overflow(a, err);
    switch (a->kind) {
    case SK_KEY_BOOL: out->raw[0] = (uint8_t)(w[0] >> 63); return SK_OK;
    case SK_KEY_INT: w[0] = (magnitude ? w[0] : w[0] ^ sign) >> up; break;
    case SK_KEY_UINT: w[0] >>= up; break;
    case SK_KEY_FLOAT: w[0] = (w[0] & sign ? w[0] ^ sign : ~w[0]) >> up; break;
    default:
        if (!magnitude) w[0] ^= sign;
        for (uint32_t i = 0; i < a->n_words; i++)
            memcpy(out->raw + 8 * i, &w[a->n_words - 1 - i], 8);
        return SK_OK;
    }
    memcpy(out->raw, w, 8);
    return SK_OK;
}

static sk_rc finish_kept(const struct sk_agg_col *a, const uint8_t *state SK_UNUSED,
                         struct sk_agg_value *out SK_UNUSED, struct sk_err *err) {
    return SK_ERR(err, SK_EINVAL, "'%s': an aggregate that keeps values has no states", a->name);
}

static sk_rc (*const finishes[])(const struct sk_agg_col *a, const uint8_t *state,
                                 struct sk_agg_value *out, struct sk_err *err) = {
#define ROW(kind, name, takes, state, result, finish) [SK_AGG_##kind] = finish_##finish,
    SK_AGGREGATES(ROW)
#undef ROW
};

sk_rc sk_agg_finish(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                    struct sk_err *err) {
    const struct sk_agg_head *h = (const void *)state;
    bool counts = a->state == SK_STATE_COUNT,
         of_nan = a->state == SK_STATE_VALUE && (h->flags & SK_AGG_NAN);
    *out = (struct sk_agg_value){.null = true};
    if (!h->n && !counts && !of_nan) return SK_OK;
    if (!a->agg.ignore_nulls && (h->flags & SK_AGG_NULLS) && !counts && a->state != SK_STATE_SHARE)
        return SK_OK;
    out->null = false;
    return finishes[a->agg.kind](a, state, out, err);
}

/* ---- converting states from one type to a wider one ---- */

/* Returns how many units of `to` make one unit of `from`. For durations and times; the unit is the
 * letter behind "tD", "ts" or "tt" in the format. */
static sk_i128 units(const char *to, const char *from) {
    static const char all[] = "smun";
    const char *a = strchr(all, to[0] == 't' && to[1] ? to[2] : 's'),
               *b = strchr(all, from[0] == 't' && from[1] ? from[2] : 's');
    sk_i128 n = 1;
    for (; a && b && b < a; b++) n *= 1000;
    return n;
}

static sk_rc inexact(const struct sk_agg_col *to, struct sk_err *err) {
    return SK_ERR(err, SK_ERANGE,
                  "%s: a value of one block is not exact in Arrow format '%s' of another; cast the "
                  "column before",
                  to->name, to->source);
}

/* Converts a whole number from from's scale and unit to to's. false: that is not exact or
 * overflows. */
static bool rescale(const struct sk_agg_col *to, const struct sk_agg_col *from, sk_i128 *v) {
    sk_i128 by = units(to->source, from->source);
    if (to->scale < from->scale) return false;
    for (int32_t i = from->scale; i < to->scale; i++)
        if (__builtin_mul_overflow(by, (sk_i128)10, &by)) return false;
    return !__builtin_mul_overflow(*v, by, v);
}

static sk_rc lift_sum(const struct sk_agg_col *to, const struct sk_agg_col *from, const sk_i128 *x,
                      struct sk_agg_head *h, sk_i128 *y, struct sk_err *err) {
    sk_i128 v;
    if (from->kind == SK_KEY_FLOAT) { /* a float of another width */
        memcpy(y, x, 3 * sizeof *y);
        return to->kind == SK_KEY_FLOAT ? SK_OK : inexact(to, err);
    }
    if (!whole_sum(from, x, &v)) return inexact(to, err);
    if (to->kind == SK_KEY_FLOAT) {
        h->top = SK_FSUM_NONE;
        if (from->scale) add_double(h, y, 3, (double)v / power_of_ten(from->scale));
        else if (v) sk_fsum_add(y, 3, &h->top, v < 0, v < 0 ? -(sk_u128)v : (sk_u128)v, 0);
        return SK_OK;
    }
    if (!rescale(to, from, &v)) return inexact(to, err);
    y[0] = to->body == 2 ? (sk_i128)(uint64_t)v : v;
    if (to->body == 2) y[1] = v >> 64;
    return SK_OK;
}

/* Writes a whole number as a value of to's type. false: the number does not fit. */
static bool put_whole(const struct sk_agg_col *to, sk_i128 v, uint8_t *raw) {
    double d = (double)v;
    float f = (float)d;
    _Float16 half = (_Float16)d;
    if (to->kind == SK_KEY_FLOAT) {
        memcpy(raw,
               to->width == 8   ? (void *)&d
               : to->width == 4 ? (void *)&f
                                : (void *)&half,
               to->width);
        return __builtin_fabs(d) < 0x1p126 && (sk_i128)sk_float_value(raw, to->width) == v;
    }
    memcpy(raw, &v, SK_MIN(to->width, 16u));
    unsigned up = 128 - 8 * SK_MIN(to->width, 16u);
    return to->width <= 16 && (to->kind == SK_KEY_UINT ? v >= 0 && !(up && v >> (128 - up))
                                                       : (sk_i128)((sk_u128)v << up) >> up == v);
}

static sk_rc lift_extreme(const struct sk_agg_col *to, const struct sk_agg_col *from,
                          const uint8_t *state, uint8_t *out, struct sk_err *err) {
    struct sk_agg_value value = {.null = false};
    struct sk_key_col c = {.kind = to->kind, .width = to->width, .n_words = to->n_words};
    uint8_t raw[32] = {0};
    uint64_t w[4];
    const struct sk_agg_head *h = (const void *)state;
    bool numbers = to->kind > SK_KEY_NULL && to->kind < SK_KEY_FIXED && from->kind < SK_KEY_FIXED &&
                   to->width && from->width;
    if (!numbers || (to->kind != SK_KEY_DECIMAL && to->width > 8) ||
        (from->kind != SK_KEY_DECIMAL && from->width > 8))
        return inexact(to, err);
    SK_TRY(finish_value(from, state, &value, err));
    if (from->kind == SK_KEY_FLOAT) {
        double d = sk_float_value(value.raw, from->width);
        float f = (float)d;
        if (to->kind != SK_KEY_FLOAT || to->width < 4) return inexact(to, err);
        memcpy(raw, to->width == 8 ? (void *)&d : (void *)&f, to->width);
    } else {
        sk_i128 v;
        struct sk_key_col of = {.kind = from->kind, .width = from->width, .data = value.raw};
        if (from->width > 16) return inexact(to, err);
        v = whole_of(&of, from->kind, from->width, 0);
        if (to->kind == SK_KEY_FLOAT && from->scale)
            memcpy(raw, &(double){(double)v / power_of_ten(from->scale)}, 8);
        else if ((to->kind != SK_KEY_FLOAT && !rescale(to, from, &v)) || !put_whole(to, v, raw))
            return inexact(to, err);
    }
    c.data = raw;
    extreme_words(to, &c, 0, w);
    take_words(to, out, w, h->n);
    return SK_OK;
}

sk_rc sk_agg_lift(const struct sk_agg_col *to, const struct sk_agg_col *from, const uint8_t *state,
                  uint8_t *out, struct sk_err *err) {
    const struct sk_agg_head *h = (const void *)state;
    struct sk_agg_head *made = (void *)out;
    bool extreme = to->state == SK_STATE_VALUE;
    if (from->kind != SK_KEY_NULL && to->text != from->text)
        return SK_ERR(err, SK_EINVAL,
                      "%s: values of Arrow formats '%s' and '%s' do not go together", to->name,
                      from->source, to->source);
    sk_agg_zero(to, out);
    if (from->kind != SK_KEY_NULL && to->text) memcpy(out, state, sizeof(struct sk_agg_text));
    else if (h->n && extreme) SK_TRY(lift_extreme(to, from, state, out, err));
    else if (h->n) {
        made->top = h->top;
        SK_TRY(lift_sum(to, from, body_const(state), made, body(out), err));
    }
    made->n = h->n;
    made->flags = h->flags;
    return SK_OK;
}

/* agg_sum.c - sums and means of doubles where groups are few: the same states as of agg.c, bit by
 * bit, at a third of the cost.
 *
 * Each group has a lane: a whole 64-bit number for each bin of its state (fsum.h), and the rounders
 * of these bins. A term that a lane cannot take (it raises the top bin, is infinite, or the bins
 * have no rounders) goes to the state in the usual way. Memory: 64 bytes a group. */
#include "kernel/agg/agg.h"

enum { BINS = 3, GROUPS_MOST = 1024, ROWS_PER_GROUP = 16 };
/* terms that a lane takes before it is added to its state: digits have 39 bits and a sign */
enum { CHUNK = 1 << 22 };

struct lane {
    double limit; /* the lane takes terms of magnitudes up to it; below 0: none */
    double rounder[BINS];
    int64_t digit[BINS], n;
};

struct sums {
    const struct sk_agg_col *a;
    const struct sk_key_col *c;
    const uint32_t *ids;
    struct lane *lanes;
};

static void lane_open(struct lane *l, int32_t top) {
    *l = (struct lane){.limit = -1};
    if (top < SK_FSUM_FROM || top > SK_FSUM_TO) return;
    l->limit = sk_fsum_limit(top);
    for (int i = 0; i < BINS; i++) l->rounder[i] = sk_fsum_rounder(top - i);
}

static void lane_flush(struct lane *l, uint8_t *state) {
    struct sk_agg_head *h = (void *)state;
    sk_i128 *bin = (sk_i128 *)(void *)(state + sizeof *h);
    h->n += l->n;
    for (int i = 0; i < BINS; i++) bin[i] += l->digit[i];
    l->n = l->digit[0] = l->digit[1] = l->digit[2] = 0;
}

/* A term that the group's lane does not take. */
static bool take_odd(const struct sums *s, struct lane *l, uint32_t group, uint64_t row, double x) {
    uint8_t *state = s->a->states + group * s->a->size;
    struct sk_agg_head *h = (void *)state;
    struct sk_key_col one = *s->c;
    if (x != x) {
        h->flags |= s->a->agg.nan_is_null ? SK_AGG_NULLS : SK_AGG_NAN;
        h->n += !s->a->agg.nan_is_null;
        return true;
    }
    lane_flush(l, state);
    one.offset += (int64_t)row;
    bool ok = sk_agg_update(s->a, &one, &group, 1, UINT64_MAX);
    lane_open(l, h->top);
    return ok;
}

SK_INLINE void take(struct lane *l, double x) {
    for (int i = 0; i < BINS; i++) {
        double rounded = x + l->rounder[i];
        l->digit[i] += sk_fsum_digit(rounded, l->rounder[i]);
        x -= rounded - l->rounder[i];
    }
    l->n++;
}

SK_INLINE bool take_rows(const struct sums *s, bool nulls, uint64_t row, uint64_t end) {
    const struct sk_key_col *c = s->c;
    for (; row < end; row++) {
        uint32_t group = s->ids[row];
        struct lane *l = &s->lanes[group];
        int64_t at = c->offset + (int64_t)row;
        if (nulls && !sk_bit(c->valid, at)) {
            ((struct sk_agg_head *)(void *)(s->a->states + group * s->a->size))->flags |=
                SK_AGG_NULLS;
            continue;
        }
        double x = sk_float_value(c->data + 8 * at, 8);
        if (SK_LIKELY(__builtin_fabs(x) <= l->limit)) take(l, x);
        else if (!take_odd(s, l, group, row, x)) return false;
    }
    return true;
}

bool sk_agg_sum_fits(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                     uint64_t groups) {
    return a->state == SK_STATE_SUM && a->kind == SK_KEY_FLOAT && a->width == 8 && !c->code &&
           groups <= GROUPS_MOST && rows >= ROWS_PER_GROUP * groups;
}

bool sk_agg_sum_update(const struct sk_agg_col *a, const struct sk_key_col *c, const uint32_t *ids,
                       uint64_t rows, uint64_t groups) {
    struct sums s = {a, c, ids, sk_alloc(SK_TAG_KERNEL, groups * sizeof *s.lanes)};
    bool ok = s.lanes != NULL;
    for (uint64_t g = 0; ok && g < groups; g++)
        lane_open(&s.lanes[g],
                  ((const struct sk_agg_head *)(const void *)(a->states + g * a->size))->top);
    for (uint64_t row = 0; ok && row < rows; row += CHUNK) {
        uint64_t end = SK_MIN(rows, row + CHUNK);
        ok = c->valid ? take_rows(&s, true, row, end) : take_rows(&s, false, row, end);
        for (uint64_t g = 0; ok && g < groups; g++)
            lane_flush(&s.lanes[g], a->states + g * a->size);
    }
    sk_free(s.lanes);
    return ok;
}

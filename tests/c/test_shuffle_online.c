/* test_shuffle_online.c - rounds of an online aggregation, and its bounds: against textbooks, a
 * second way to compute them, and samples of known populations. */
#include <math.h>

#include "shuffle/online.h"
#include "test.h"

TEST(units_are_all_pieces_and_rounds_double) {
    static const uint32_t N[] = {1, 2, 3, 10, 49, 50, 51, 99, 300, 2232, 100000, UINT32_MAX / 3};
    static const uint32_t SLOTS[] = {0, 1, 2, 8, 64, 1000};
    for (unsigned i = 0; i < SK_COUNT(N); i++)
        for (unsigned k = 0; k < SK_COUNT(SLOTS); k++) {
            uint32_t n = N[i], at = 0, rounds = 0, begin = 0, before = 0, units = 0,
                     most = SK_MAX(16u, 2 * SLOTS[k]);
            struct sk_online_unit u;
            while ((u = sk_online_unit(n, SLOTS[k], at)).pieces) {
                CHECK(u.pieces <= n - at);
                at += u.pieces;
                units++;
                CHECK_EQ(u.bounds, begin * UINT64_C(2) < n &&
                                       (begin ? 2 * (uint64_t)begin : (n + UINT64_C(49)) / 50) < n);
                if (!u.ends) continue;
                CHECK_LE(units, most);
                /* enough tasks for all slots */
                CHECK(at == n || at - begin <= most || units >= most / 2);
                if (!rounds) CHECK_EQ(at, (n + UINT64_C(49)) / 50);
                else CHECK(at == n ? at <= 2 * (uint64_t)before : at == 2 * before);
                before = begin = at;
                units = 0;
                rounds++;
            }
            CHECK_EQ(at, n);
            CHECK(before == n && rounds <= 7);
        }
}

TEST(quantiles_of_student_are_those_of_tables) {
    static const struct {
        double p;
        uint32_t degrees;
        double t;
    } WANT[] = {{0.95, 1, 12.7062},    {0.95, 2, 4.30265},     {0.95, 3, 3.18245},
                {0.95, 5, 2.57058},    {0.95, 10, 2.22814},    {0.95, 30, 2.04227},
                {0.99, 1, 63.6567},    {0.99, 4, 4.60409},     {0.5, 7, 0.711142},
                {0.999, 20, 3.849516}, {0.95, 1000, 1.962339}, {0.95, 4000000000u, 1.960541}};
    for (unsigned i = 0; i < SK_COUNT(WANT); i++) {
        double t = sk_student_t(WANT[i].p, WANT[i].degrees);
        CHECK_MSG(fabs(t / WANT[i].t - 1) < 1e-4, "%g of %u degrees: %g", WANT[i].p,
                  WANT[i].degrees, t);
    }
}

/* ---- bounds ---- */

enum { GROUPS = 4, PIECES = 400 };
static double value[2][GROUPS][PIECES]; /* [sum, count][group][piece] */

static double noise(void) { return (double)test_below(2000001) / 1e6 - 1; } /* -1 to 1 */

/* Makes a population with groups of different sizes, one of which is not in all pieces. */
static void populate(void) {
    for (int g = 0; g < GROUPS; g++)
        for (int p = 0; p < PIECES; p++) {
            double count = g == 3 && test_below(3) ? 0 : floor((10 << g) * (1 + noise() / 2) + 1);
            value[1][g][p] = count;
            value[0][g][p] = count * (5 + noise() + g);
        }
}

static void shuffle(void) {
    for (int p = PIECES - 1; p > 0; p--) {
        int q = (int)test_below((uint64_t)p + 1);
        for (int c = 0; c < 2; c++)
            for (int g = 0; g < GROUPS; g++) {
                double was = value[c][g][p];
                value[c][g][p] = value[c][g][q];
                value[c][g][q] = was;
            }
    }
}

struct sums {
    double a[GROUPS], b[GROUPS], aa[GROUPS], ab[GROUPS], bb[GROUPS];
};

static void add_unit(struct sums *s, uint32_t from, uint32_t n) {
    double a[GROUPS] = {0}, b[GROUPS] = {0}, aa[GROUPS], ab[GROUPS], bb[GROUPS];
    for (int g = 0; g < GROUPS; g++)
        for (uint32_t p = from; p < from + n; p++) {
            a[g] += value[0][g][p];
            b[g] += value[1][g][p];
        }
    sk_online_products(GROUPS, a, b, n, aa, ab, bb);
    for (int g = 0; g < GROUPS; g++) {
        s->a[g] += a[g];
        s->b[g] += b[g];
        s->aa[g] += aa[g];
        s->ab[g] += ab[g];
        s->bb[g] += bb[g];
    }
}

static double whole(int c, int g) {
    double sum = 0;
    for (int p = 0; p < PIECES; p++) sum += value[c][g][p];
    return sum;
}

/* Units of one piece: Cochran's formulas, as deviations from the mean. */
TEST(bounds_of_units_of_one_piece_are_cochrans) {
    populate();
    shuffle();
    struct sums s = {.a = {0}};
    uint32_t n = 37;
    for (uint32_t p = 0; p < n; p++) add_unit(&s, p, 1);
    struct sk_online_seen z = {.pieces = PIECES, .seen = n, .units = n, .confidence = 0.9};
    double total[GROUPS], bound[GROUPS], ratio[GROUPS], t = sk_student_t(0.9, n - 1);
    sk_online_totals(&z, GROUPS, s.a, s.aa, total, bound);
    sk_online_ratios(&z, GROUPS, s.a, s.b, s.aa, s.ab, s.bb, ratio);
    for (int g = 0; g < GROUPS; g++) {
        double mean = s.a[g] / n, r = s.a[g] / s.b[g], var = 0, var_r = 0;
        for (uint32_t p = 0; p < n; p++) {
            double y = value[0][g][p], x = value[1][g][p];
            var += (y - mean) * (y - mean) / (n - 1);
            var_r += (y - r * x) * (y - r * x) / (n - 1);
        }
        double want = t * PIECES * sqrt(var / n * (1 - (double)n / PIECES)),
               want_r = t / (s.b[g] / n) * sqrt(var_r / n * (1 - (double)n / PIECES));
        CHECK_MSG(fabs(bound[g] / want - 1) < 1e-9, "%g, not %g", bound[g], want);
        CHECK_MSG(fabs(ratio[g] / want_r - 1) < 1e-6, "%g, not %g", ratio[g], want_r);
        CHECK(fabs(total[g] / (mean * PIECES) - 1) < 1e-12);
    }
}

/* Runs many random orders as the driver would: intervals of 95 % are right about as often, whatever
 * the units consist of; a result is never further from the whole than the remaining pieces allow;
 * the last result is exact. */
TEST(intervals_hold_as_often_as_they_say) {
    uint64_t held[2] = {0}, all[2] = {0};
    populate();
    for (int turn = 0; turn < test_rounds(1200); turn++) {
        struct sums s = {.a = {0}};
        struct sk_online_seen z = {.pieces = PIECES, .confidence = 0.95};
        uint32_t at = 0;
        struct sk_online_unit u;
        shuffle();
        while ((u = sk_online_unit(PIECES, 4, at)).pieces) {
            double total[GROUPS], bound[GROUPS], ratio[GROUPS];
            add_unit(&s, at, u.pieces);
            at += u.pieces;
            z.seen = at;
            z.units++;
            if (!u.ends) continue;
            sk_online_totals(&z, GROUPS, s.a, s.aa, total, bound);
            sk_online_ratios(&z, GROUPS, s.a, s.b, s.aa, s.ab, s.bb, ratio);
            for (int g = 0; g < GROUPS; g++) {
                double want = whole(0, g), mean = want / whole(1, g);
                if (at == PIECES) {
                    CHECK(bound[g] == 0 && ratio[g] == 0 && fabs(total[g] / want - 1) < 1e-12);
                    continue;
                }
                held[0] += fabs(total[g] - want) <= bound[g];
                all[0]++;
                if (s.b[g] == 0) continue; /* not seen yet */
                held[1] += fabs(s.a[g] / s.b[g] - mean) <= ratio[g];
                all[1]++;
            }
        }
    }
    for (int k = 0; k < 2; k++) {
        /* a ratio's variance is right for large samples only (Cochran, 6.8): that of few
         * pieces, most without the group, comes out small */
        double share = (double)held[k] / (double)all[k];
        CHECK_MSG(share > (k ? 0.91 : 0.93) && share < 0.97, "%s: %.4f of %llu hold",
                  k ? "means" : "totals", share, (unsigned long long)all[k]);
    }
}

TEST(no_value_and_a_single_unit_have_no_bound) {
    struct sk_online_seen z = {.pieces = 10, .seen = 3, .units = 1, .confidence = 0.95};
    double a[2] = {4, NAN}, aa[2], ab[2], bb[2], total[2], bound[2];
    sk_online_products(2, a, a, 3, aa, ab, bb);
    CHECK(aa[0] == 16.0 / 3 && isnan(aa[1]) && isnan(ab[1]));
    sk_online_totals(&z, 2, a, aa, total, bound);
    CHECK(isnan(bound[0]) && total[0] == 4 * (10.0 / 3) && isnan(total[1]));
    z.units = 2;
    z.seen = 5;
    sk_online_totals(&z, 2, a, aa, total, bound);
    CHECK(bound[0] > 0 && isnan(bound[1]));
}

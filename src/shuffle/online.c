/* online.c - rounds of an online aggregation, and bounds of its results (online.h). Pure. */
#include "shuffle/online.h"

#include <math.h>

#define FIRST 50u /* the first round is so many-th of the pieces */
/* Of a round, at least, as long as it has so many pieces; twice the slots where that is more: none
 * waits for one long task. */
#define UNITS 16u
/* of freedom: beyond, t is that of the normal distribution to 1 in 1,000 */
#define MOST_DEGREES 4096u

struct sk_online_unit sk_online_unit(uint32_t n, uint32_t slots, uint32_t at) {
    uint64_t begin = 0, end = ((uint64_t)n + FIRST - 1) / FIRST;
    if (at >= n) return (struct sk_online_unit){.pieces = 0};
    while (end <= at) {
        begin = end;
        end = SK_MIN(2 * end, n);
    }
    uint64_t units = SK_MAX(UNITS, 2 * (uint64_t)slots), each = (end - begin + units - 1) / units,
             pieces = SK_MIN(each, end - at);
    return (struct sk_online_unit){
        .pieces = (uint32_t)pieces, .ends = at + pieces == end, .bounds = end < n};
}

/* Its probability is a finite sum where the degrees are a whole number (Abramowitz and Stegun,
 * 26.7.3 and 26.7.4), in which t = sqrt(degrees) tan(angle). */
static double student(double angle, uint32_t degrees) {
    double c2 = cos(angle) * cos(angle), term = degrees % 2 ? cos(angle) : 1, sum = 0;
    for (uint32_t k = degrees % 2 ? 3 : 2; k <= degrees; k += 2) {
        sum += term;
        term *= c2 * (k - 1) / k;
    }
    return degrees % 2 ? M_2_PI * (angle + sin(angle) * sum) : sin(angle) * sum;
}

double sk_student_t(double probability, uint32_t degrees) {
    double low = 0, high = M_PI_2;
    SK_ASSERT(probability > 0 && probability < 1 && degrees > 0);
    degrees = SK_MIN(degrees, MOST_DEGREES);
    for (int i = 0; i < 64; i++) {
        double mid = (low + high) / 2;
        if (student(mid, degrees) < probability) low = mid;
        else high = mid;
    }
    return sqrt(degrees) * tan(low);
}

void sk_online_products(uint64_t groups, const double *a, const double *b, uint32_t pieces,
                        double *aa, double *ab, double *bb) {
    double of = 1.0 / pieces;
    for (uint64_t i = 0; i < groups; i++) aa[i] = a[i] * a[i] * of;
    for (uint64_t i = 0; b && i < groups; i++) {
        ab[i] = a[i] * b[i] * of;
        bb[i] = b[i] * b[i] * of;
    }
}

/* A bound is this times the root of the sum over units of pieces x (a's distance of its mean a
 * piece)^2: t, the variance of a mean of `seen` pieces, and that few are left. Units of several
 * pieces vary less a piece by their number, which weighs them, so the sum's mean over (units - 1)
 * is the variance of a piece whatever units are made of. */
static double width(const struct sk_online_seen *z) {
    double n = z->seen, left = 1 - n / z->pieces;
    if (z->seen >= z->pieces) return 0;
    if (z->units < 2) return NAN;
    return sk_student_t(z->confidence, z->units - 1) * sqrt(left / n / (z->units - 1));
}

static double root(double sum) { return sqrt(sum < 0 ? 0 : sum); } /* below 0 by rounding only */

void sk_online_totals(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *aa, double *total, double *bound) {
    double w = width(z), n = z->seen, all = z->pieces;
    for (uint64_t i = 0; i < groups; i++) {
        double sum = a[i];
        bound[i] = w == 0 ? 0 : w * all * root(aa[i] - sum * sum / n);
        total[i] = sum * (all / n);
    }
}

void sk_online_ratios(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *b, const double *aa, const double *ab, const double *bb,
                      double *bound) {
    double w = width(z), n = z->seen;
    for (uint64_t i = 0; i < groups; i++) {
        double r = a[i] / b[i];
        bound[i] = w == 0 ? 0 : w * (n / b[i]) * root(aa[i] - 2 * r * ab[i] + r * r * bb[i]);
    }
}

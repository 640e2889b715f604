/* online.c - the rounds of an online aggregation and the bounds of its results (online.h). Pure. */
#include "shuffle/online.h"

#include <math.h>

#define FIRST 50u /* the first round has 1/FIRST of the pieces */
/* A round has at least this many units, if it has as many pieces, and at least two per slot, so
 * that no round waits for one long task. */
#define UNITS 16u
/* Degrees of freedom. Beyond this many, t equals that of the normal distribution to 1 in 1,000. */
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

/* Computes Student's distribution as a function of the angle, where t = sqrt(degrees) * tan(angle):
 * a finite sum for whole degrees of freedom (Abramowitz and Stegun, 26.7.3 and 26.7.4). */
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

/* Returns the factor of a bound. A bound is this factor times the root of the sum, over all units,
 * of pieces * (distance between the unit's mean per piece and the mean of all)^2. The factor is a
 * product of three: Student's t; the variance of a mean of `seen` pieces; and a correction for how
 * few pieces are left. A unit's mean per piece varies less the more pieces the unit has, and the
 * weight `pieces` compensates for that: the sum divided by (units - 1) estimates the variance of
 * one piece, however pieces are grouped in units. */
static double width(const struct sk_online_seen *z) {
    double n = z->seen, left = 1 - n / z->pieces;
    if (z->seen >= z->pieces) return 0;
    if (z->units < 2) return NAN;
    return sk_student_t(z->confidence, z->units - 1) * sqrt(left / n / (z->units - 1));
}

/* Returns the root of a sum, which can be below 0 only by rounding. */
static double root(double sum) { return sqrt(sum < 0 ? 0 : sum); }

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

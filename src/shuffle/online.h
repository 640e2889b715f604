/* online.h - online aggregation (Hellerstein, Haas and Wang, SIGMOD 1997): aggregates of an input
 * are shown while it is still being read. These functions say which pieces form a unit, after which
 * units a result is shown, and how exact the result is. Pure functions of numbers; aggregate.c
 * merges the states, first those of each unit, in its task.
 *
 * Pieces (files, row groups, ranges) are read in a random order, so the pieces read so far are a
 * sample, without replacement, of all pieces. A task reads a *unit*, some successive pieces of that
 * order, which is a sample by itself: from the differences between units follows how much the whole
 * input may differ from them (random groups: Mahalanobis 1946; Wolter, Introduction to Variance
 * Estimation, 2nd ed., 2.2 and 2.4; totals and ratios: Cochran, Sampling Techniques, 3rd ed., 9.2
 * and 6.4). A result is shown after each round, and each round is twice as long as the one before,
 * so few results are computed. Tests: test_shuffle_online.c. */
#ifndef SK_ONLINE_H
#define SK_ONLINE_H

#include "base/base.h"

struct sk_online_unit {
    uint32_t pieces; /* number of pieces that the unit's task reads; 0: no pieces are left */
    bool ends;       /* a result is shown behind this unit */
    /* True: the unit's contribution to the bounds is needed. False in the last round, whose result
     * is exact. */
    bool bounds;
};
/* Returns the unit that begins behind the first `at` of n pieces. slots: number of tasks that can
 * run at once. The first round has a fiftieth of all pieces. */
struct sk_online_unit sk_online_unit(uint32_t n, uint32_t slots, uint32_t at);

struct sk_online_seen {
    /* pieces: number of all pieces; seen: how many of them were read, in `units` units */
    uint32_t pieces, seen, units;
    /* the probability, between 0 and 1, with which a value shall be within its bound */
    double confidence;
};
/* Computes what a unit adds to the sums from which bounds are computed, for each of its groups: a *
 * a / pieces and, if b is not NULL, a * b / pieces and b * b / pieces. NaN (no value) stays NaN. */
void sk_online_products(uint64_t groups, const double *a, const double *b, uint32_t pieces,
                        double *aa, double *ab, double *bb);
/* From counts or sums `a` of the pieces seen, and the sums of their `aa`: estimates the total of
 * the whole input, and half the width of the estimate's confidence interval (NaN if only one unit
 * was seen). An output may be the array a. */
void sk_online_totals(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *aa, double *total, double *bound);
/* Like sk_online_totals, for means, which are sums a divided by counts b. */
void sk_online_ratios(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *b, const double *aa, const double *ab, const double *bb,
                      double *bound);
/* Returns t such that a variable with Student's distribution is in [-t, t] with this
 * probability. */
double sk_student_t(double probability, uint32_t degrees);

#endif

/* online.h - online aggregation (Hellerstein, Haas and Wang, SIGMOD 1997): aggregates of an input
 * while it is still being read. This says which pieces form a unit, after which units a result is
 * shown, and how exact that result is. Pure functions of numbers; aggregate.c merges the states,
 * first in the tasks of the units.
 *
 * Pieces (files, row groups, ranges) are read in a random order, so the pieces seen so far are a
 * sample of the whole without replacement. A task reads a *unit*, some neighbours in that order,
 * which is a sample by itself: how much the units differ from one another says how much the whole
 * may differ from them (random groups: Mahalanobis 1946; Wolter, Introduction to Variance
 * Estimation, 2nd ed., 2.2 and 2.4; totals and ratios: Cochran, Sampling Techniques, 3rd ed., 9.2
 * and 6.4). Each round is twice as long as the one before; so all results before the last cost no
 * more than as many results of the last round as there are rounds. Tests: test_shuffle_online.c. */
#ifndef SK_ONLINE_H
#define SK_ONLINE_H

#include "base/base.h"

struct sk_online_unit {
    uint32_t pieces; /* number of pieces that the unit's task reads; 0: no pieces are left */
    bool ends;       /* a result is shown behind this unit */
    /* The unit's contribution to the bounds is wanted; false in the last round, whose result is
     * exact. */
    bool bounds;
};
/* Returns the unit that begins behind `at` of n pieces. slots: how many tasks can run at once. The
 * first round has a fiftieth of all pieces. */
struct sk_online_unit sk_online_unit(uint32_t n, uint32_t slots, uint32_t at);

struct sk_online_seen {
    /* pieces: of the whole; seen: how many of them were read, in `units` units */
    uint32_t pieces, seen, units;
    double confidence; /* wanted probability that a value is within its bound, between 0 and 1 */
};
/* Computes what a unit adds to the sums that the bounds follow from, for each of its groups:
 * a * a / pieces and, if b is not NULL, a * b / pieces and b * b / pieces. NaN (no value) stays
 * NaN. */
void sk_online_products(uint64_t groups, const double *a, const double *b, uint32_t pieces,
                        double *aa, double *ab, double *bb);
/* From counts or sums a, and the sums of their aa: estimates the total of the whole, and half
 * the width of its confidence interval (NaN if only one unit was seen). An output may be the
 * array a. */
void sk_online_totals(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *aa, double *total, double *bound);
/* The same for means, which are sums a over counts b. */
void sk_online_ratios(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *b, const double *aa, const double *ab, const double *bb,
                      double *bound);
/* Returns the t for which |t| of Student's distribution stays below it with this probability. */
double sk_student_t(double probability, uint32_t degrees);

#endif

/* online.h - online aggregation (Hellerstein, Haas and Wang, SIGMOD 1997): aggregates of an input
 * while it is read. In which units its pieces are worked off, after which of them there is a
 * result, and what that is worth. Pure functions of numbers; states are merged by aggregate.c, in
 * the tasks of units first.
 *
 * Pieces (files, row groups, ranges) come in a random order, so those that were seen are a sample
 * of the whole without replacement. A task has a *unit* of neighbours in that order, which is a
 * sample
 * by itself: how far the units are apart says how far the whole may be from them (random groups:
 * Mahalanobis 1946; Wolter, Introduction to Variance Estimation, 2nd ed., 2.2 and 2.4; totals and
 * ratios: Cochran, Sampling Techniques, 3rd ed., 9.2 and 6.4). Rounds are twice as long each, so
 * all results before the last cost less than as many as there are rounds of the last. Tests:
 * test_shuffle_online.c. */
#ifndef SK_ONLINE_H
#define SK_ONLINE_H

#include "base/base.h"

struct sk_online_unit {
    uint32_t pieces; /* that a task works off; 0: there are no more */
    bool ends;       /* a result comes behind it */
    /* what it adds to bounds is wanted: not of units of the last round, whose result is exact */
    bool bounds;
};
/* The unit that begins behind `at` pieces of n. slots: tasks that can run at once. The first round
 * is a fiftieth of all. */
struct sk_online_unit sk_online_unit(uint32_t n, uint32_t slots, uint32_t at);

struct sk_online_seen {
    uint32_t pieces, seen, units; /* of the whole; that were seen, in so many units */
    double confidence;            /* that a value is within its bound: between 0 and 1 */
};
/* What a unit adds to the sums that bounds are worked out from, of each group that it has: a a /
 * pieces, and, where b is not NULL, a b and b b / pieces. NaN (no value) stays NaN. */
void sk_online_products(uint64_t groups, const double *a, const double *b, uint32_t pieces,
                        double *aa, double *ab, double *bb);
/* Of counts and sums a, and the sum of their aa: the estimate of the whole, and half the width of
 * its confidence interval; NaN: a single unit was seen. Either may be a's place. */
void sk_online_totals(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *aa, double *total, double *bound);
/* The same of means, sums a over counts b. */
void sk_online_ratios(const struct sk_online_seen *z, uint64_t groups, const double *a,
                      const double *b, const double *aa, const double *ab, const double *bb,
                      double *bound);
/* The value that |t| of Student's distribution is below with this probability. */
double sk_student_t(double probability, uint32_t degrees);

#endif

/* samples.h - a book of numbers over time: at most `cap` rows, evenly spaced. When it is full,
 * every second row is dropped, and from then on rows are added half as often: so the book of an
 * hour and the book of a second have about as many rows. Pure: the caller has the clock. */
#ifndef SK_SAMPLES_H
#define SK_SAMPLES_H

#include "base/base.h"

struct sk_samples {
    uint32_t n, cap, width; /* rows, most rows, and numbers in each row */
    int64_t every_ns;       /* time between two rows */
    int64_t next_ns;        /* no row is due before this time */
    int64_t *rows;          /* borrowed: room for cap * width numbers */
};
void sk_samples_init(struct sk_samples *b, int64_t *rows, uint32_t cap, uint32_t width);
/* Adds a row at time t_ns, which is at least next_ns, and not less than 0. Returns the row; only
 * its first number, the time, is set. Cost: 10 ns, and 1 us when every second row is dropped. */
int64_t *sk_samples_add(struct sk_samples *b, int64_t t_ns);

#endif

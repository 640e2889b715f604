/* test_base_samples.c - the book of numbers over time. */
#include "base/containers/samples.h"
#include "test.h"

enum { CAP = 256, WIDTH = 7 };
static int64_t rows[CAP * WIDTH];

TEST(samples_stay_evenly_spaced_and_begin_with_the_run) {
    struct sk_samples b;
    sk_samples_init(&b, rows, CAP, WIDTH);
    int64_t tick = 3000000, end = 0;
    uint64_t added = 0;
    for (int64_t t = 0; t < INT64_C(100000000000); t += tick) {
        if (t < b.next_ns) continue;
        int64_t *row = sk_samples_add(&b, t);
        for (uint32_t i = 1; i < WIDTH; i++) row[i] = t * i;
        end = t;
        added++;
        CHECK_LE(b.n, CAP);
        CHECK_GE(b.n, added < CAP ? added : CAP / 2);
    }
    CHECK_EQ(b.every_ns, INT64_C(640000000)); /* 20 ms, doubled five times */
    CHECK_EQ(rows[0], 0);
    CHECK_EQ(rows[(b.n - 1) * WIDTH], end);
    for (uint32_t i = 0; i < b.n; i++) {
        const int64_t *row = rows + i * WIDTH;
        for (uint32_t k = 1; k < WIDTH; k++) CHECK_EQ(row[k], row[0] * k);
        if (i) CHECK_LE(llabs(row[0] - row[-WIDTH] - b.every_ns), 2 * tick);
    }
}

TEST(samples_that_come_late_do_not_pile_up) {
    struct sk_samples b;
    sk_samples_init(&b, rows, CAP, WIDTH);
    for (int64_t t = 0; t < INT64_C(3600000000000); t += INT64_C(1000000000) + 7)
        if (t >= b.next_ns) (void)sk_samples_add(&b, t);
    CHECK_GE(b.n, CAP / 2);
    CHECK_LE(b.n, CAP);
    for (uint32_t i = 1; i < b.n; i++) CHECK_GT(rows[i * WIDTH], rows[(i - 1) * WIDTH]);
}

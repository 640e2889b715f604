/* test_exec_samples.c - the book of a run's numbers over time. */
#include "exec/exec_int.h"
#include "test.h"

TEST(samples_stay_evenly_spaced_and_begin_with_the_run) {
    struct sk_samples *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    const uint32_t width = 7;
    sk_samples_init(b, width);
    int64_t tick = 3000000, end = 0;
    uint64_t added = 0;
    for (int64_t t = 0; t < INT64_C(100000000000); t += tick) {
        if (t < b->next_ns) continue;
        int64_t *row = sk_samples_add(b, t);
        for (uint32_t i = 1; i < width; i++) row[i] = t * i;
        end = t;
        added++;
        CHECK_LE(b->n, SK_VIEW_SAMPLES);
        CHECK_GE(b->n, added < SK_VIEW_SAMPLES ? added : SK_VIEW_SAMPLES / 2);
    }
    CHECK_EQ(b->every_ns, INT64_C(640000000)); /* 20 ms, doubled five times */
    CHECK_EQ(b->rows[0], 0);
    CHECK_EQ(b->rows[(b->n - 1) * width], end);
    for (uint32_t i = 0; i < b->n; i++) {
        const int64_t *row = b->rows + i * width;
        for (uint32_t k = 1; k < width; k++) CHECK_EQ(row[k], row[0] * k);
        if (i) CHECK_LE(llabs(row[0] - row[-(int)width] - b->every_ns), 2 * tick);
    }
    sk_free(b);
}

TEST(samples_that_come_late_do_not_pile_up) {
    struct sk_samples *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    sk_samples_init(b, SK_VS_N + 1);
    for (int64_t t = 0; t < INT64_C(3600000000000); t += INT64_C(1000000000) + 7)
        if (t >= b->next_ns) (void)sk_samples_add(b, t)[0];
    CHECK_GT(b->n, SK_VIEW_SAMPLES / 2 - 1);
    CHECK_LE(b->n, SK_VIEW_SAMPLES);
    for (uint32_t i = 1; i < b->n; i++)
        CHECK_GT(b->rows[i * b->width], b->rows[(i - 1) * b->width]);
    sk_free(b);
}

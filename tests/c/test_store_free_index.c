/* test_store_free_index.c - bins and treaps against plain scans. */
#include "store/store_int.h"
#include "test.h"

TEST(bins_are_monotonic_and_cover_the_range) {
    uint32_t last = 0;
    for (uint64_t len = 64; len <= SK_STORE_MAX; len += SK_ALIGN(len / 200 + 1, 64)) {
        uint32_t row, sub;
        sk_bin_of(len, &row, &sub);
        CHECK(row < SK_BIN_ROWS && sub < SK_BIN_SUB);
        CHECK(row * SK_BIN_SUB + sub >= last);
        last = row * SK_BIN_SUB + sub;
    }
    uint32_t row, sub;
    sk_bin_of(SK_STORE_MAX, &row, &sub);
    CHECK(row < SK_BIN_ROWS);
}

TEST(bins_find_what_a_scan_finds) {
    enum { N = 200 };
    static struct sk_bins b;
    static struct sk_ext x[N];
    bool in[N] = {0};
    for (int step = 0; step < 60000; step++) {
        size_t i = test_below(N);
        if (in[i]) {
            sk_bins_del(&b, &x[i]);
        } else {
            x[i] = (struct sk_ext){.off = i * 64,
                                   .len = 64 * (1 + test_below(UINT64_C(1) << test_below(20)))};
            sk_bins_add(&b, &x[i]);
        }
        in[i] = !in[i];
        uint64_t len = 64 * (1 + test_below(UINT64_C(1) << test_below(20))), largest = 0,
                 fits = UINT64_MAX;
        for (int j = 0; j < N; j++) {
            if (!in[j]) continue;
            largest = SK_MAX(largest, x[j].len);
            if (x[j].len >= len) fits = SK_MIN(fits, x[j].len);
        }
        const struct sk_ext *got = sk_bins_find(&b, len, UINT32_MAX);
        CHECK_EQ(got != NULL, fits != UINT64_MAX);
        if (got) {
            CHECK(in[got - x] && got->len >= len);
            CHECK(got->len <= fits + fits / 16); /* good fit: a bin is 3 % wide */
        }
        CHECK_EQ(sk_bins_largest(&b), largest);
        uint32_t row = SK_BIN_ROWS - 1, sub = SK_BIN_SUB - 1;
        CHECK_EQ(sk_bins_top(&b, &row, &sub) != NULL, largest != 0);
    }
}

TEST(spans_find_what_a_scan_finds) {
    enum { N = 300 };
    static struct sk_span node[N];
    struct sk_spans t = {0};
    bool in[N] = {0};
    for (int step = 0; step < 30000; step++) {
        size_t i = test_below(N);
        if (in[i]) {
            CHECK(sk_spans_del(&t, node[i].off) == &node[i]);
        } else {
            node[i] = (struct sk_span){.off = i * 1000, .len = 1 + test_below(1000)};
            sk_spans_add(&t, &node[i]);
        }
        in[i] = !in[i];
        uint64_t len = 1 + test_below(1000), off = test_below(N * 1000);
        const struct sk_span *fit = NULL, *floor = NULL;
        for (int j = 0; j < N; j++) {
            if (!in[j]) continue;
            if (!fit && node[j].len >= len) fit = &node[j];
            if (node[j].off <= off) floor = &node[j];
        }
        CHECK(sk_spans_first_fit(&t, len) == fit);
        CHECK(sk_spans_floor(&t, off) == floor);
        if (step % 64 == 0) CHECK(sk_spans_check(&t));
    }
}

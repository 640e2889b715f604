/* test_kernel_distinct.c - the estimate of distinct keys beside the true number. */
#include "kernel_make.h"
#include "test.h"

static uint64_t hash_of(uint64_t key) { return sk_draw(1, key); }

/* Adds `rows` hashes of keys 0 to keys - 1, by chance or in turn, in batches of any length. */
static void add(struct sk_distinct *d, uint64_t rows, uint64_t keys, bool turn, bool *seen) {
    enum { BATCH = 5000 };
    uint64_t hash[BATCH], n = 0;
    for (uint64_t i = 0; i < rows; i++) {
        uint64_t key = turn ? i % keys : test_below(keys);
        seen[key] = true;
        hash[n++] = hash_of(key);
        if (n < BATCH && i + 1 < rows && test_below(3000)) continue;
        sk_distinct_add(d, hash, n);
        n = 0;
    }
}

TEST(distinct_keys_are_counted_or_nearly_so) {
    enum { KEYS = 3000000 };
    struct sk_distinct *d = sk_alloc(SK_TAG_TEST, sizeof *d);
    bool *seen = sk_alloc(SK_TAG_TEST, KEYS);
    static const uint64_t keys[] = {1, 2, 1000, 1024, 1025, 10000, 300000, KEYS};
    for (size_t k = 0; k < SK_COUNT(keys); k++)
        for (int turn = 0; turn < 2; turn++) {
            memset(d, 0, sizeof *d);
            memset(seen, 0, KEYS);
            uint64_t rows = keys[k] / 2 + test_below(keys[k] * 2), n = 0;
            add(d, rows, keys[k], turn, seen);
            for (uint64_t i = 0; i < keys[k]; i++) n += seen[i];
            uint64_t got = sk_distinct_estimate(d), off = got > n ? got - n : n - got;
            CHECK_MSG(off * 6 <= n && (n > 1024 || !off), "%llu, not %llu", (unsigned long long)got,
                      (unsigned long long)n);
            add(d, keys[k], keys[k], true, seen); /* all of them */
            got = sk_distinct_estimate(d);
            add(d, rows, keys[k], turn, seen); /* nothing new */
            CHECK_EQ(sk_distinct_estimate(d), got);
        }
    sk_free(seen);
    sk_free(d);
}

/* A hash of 0 marks a free slot: it is not counted, and does no harm. */
TEST(a_hash_of_zero_is_left_out) {
    struct sk_distinct *d = sk_calloc(SK_TAG_TEST, sizeof *d);
    uint64_t hash[] = {0, 7, 0, 7, UINT64_MAX};
    sk_distinct_add(d, hash, SK_COUNT(hash));
    CHECK_EQ(sk_distinct_estimate(d), 2);
    sk_free(d);
}

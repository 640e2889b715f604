/* test_base_map.c - the id map against a direct-indexed array, its removal by shifting, and refused
 * memory. */
#include "base/clock.h"
#include "base/containers/map.h"
#include "test.h"

static uint64_t key_of(int shape, uint64_t i) {
    switch (shape) {
    case 0: return i + 1;                       /* sequential */
    case 1: return (i + 1) << 20;               /* aligned */
    case 2: return (i + 1) << 48 | 7;           /* high bits only */
    case 3: return (i % 7 + 1) << 40 | (i + 1); /* packed fields */
    default: return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;
    }
}

static void against_array(int shape) {
    enum { KEYS = 700 };
    static int cell[KEYS];
    int *model[KEYS] = {0};
    uint32_t n = 0;
    struct sk_map m;
    sk_map_init(&m, SK_TAG_TEST);
    int rounds = test_rounds(test_sanitized() ? 5000 : 20000);
    for (int round = 0; round < rounds; round++) {
        uint64_t i = test_below(KEYS), key = key_of(shape, i);
        /* Phases of growth and of shrinking, so that both long and short probe runs occur. */
        bool add = test_below(100) < (round / 2500 % 2 ? 35u : 65u);
        if (add) {
            int *val = &cell[test_below(KEYS)];
            CHECK_OK(sk_map_put(&m, key, val));
            n += !model[i];
            model[i] = val;
        } else {
            CHECK(sk_map_del(&m, key) == model[i]);
            n -= model[i] != NULL;
            model[i] = NULL;
        }
        CHECK_EQ(m.n, n);
        uint64_t j = test_below(KEYS);
        CHECK(sk_map_get(&m, key_of(shape, j)) == model[j]);
        if (round % 64 == 0) CHECK(sk_map_check(&m));
    }
    uint32_t seen = 0;
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&m, &i, &key, &val);) {
        seen++;
        CHECK(sk_map_get(&m, key) == val);
    }
    CHECK_EQ(seen, n);
    for (uint64_t j = 0; j < KEYS; j++) CHECK(sk_map_get(&m, key_of(shape, j)) == model[j]);
    sk_map_deinit(&m);
}

TEST(map_model_sequential) { against_array(0); }
TEST(map_model_aligned) { against_array(1); }
TEST(map_model_high_bits) { against_array(2); }
TEST(map_model_packed) { against_array(3); }
TEST(map_model_scattered) { against_array(4); }

TEST(map_empty) {
    struct sk_map m;
    sk_map_init(&m, SK_TAG_TEST);
    CHECK(!sk_map_get(&m, 1) && !sk_map_del(&m, 1) && !sk_map_get(&m, 0) && !sk_map_del(&m, 0));
    uint32_t i = 0;
    CHECK(!sk_map_next(&m, &i, NULL, NULL));
    CHECK(sk_map_check(&m));
    CHECK_OK(sk_map_put(&m, 5, &m));
    CHECK(!sk_map_get(&m, 0)); /* free slots have key 0: they must not answer */
    sk_map_clear(&m);
    CHECK(m.n == 0 && !sk_map_get(&m, 5));
    sk_map_deinit(&m);
    sk_map_deinit(&m);
}

TEST(map_reserve_then_no_allocation) {
    struct sk_map m;
    sk_map_init(&m, SK_TAG_TEST);
    CHECK_OK(sk_map_reserve(&m, 1000));
    sk_mem_fail_at(1);
    for (uint64_t k = 1; k <= 1000; k++) CHECK_OK(sk_map_put(&m, k, &m));
    CHECK(!sk_mem_failed());
    sk_mem_fail_at(0);
    CHECK(sk_map_check(&m));
    sk_map_deinit(&m);
}

TEST(map_shrinks) {
    struct sk_map m;
    sk_map_init(&m, SK_TAG_TEST);
    sk_map_shrink(&m);
    CHECK(!m.slot);
    for (uint64_t i = 1; i <= 100000; i++) CHECK_OK(sk_map_put(&m, i, (void *)(uintptr_t)i));
    CHECK(!sk_map_roomy(&m));
    sk_map_shrink(&m);
    for (uint64_t i = 101; i <= 100000; i++) CHECK(sk_map_del(&m, i));
    CHECK(sk_map_roomy(&m));
    sk_mem_fail_at(1);
    sk_map_shrink(&m); /* without memory the map stays unchanged */
    sk_mem_fail_at(0);
    CHECK(sk_map_roomy(&m) && sk_map_check(&m));
    sk_map_shrink(&m);
    CHECK(!sk_map_roomy(&m) && sk_map_check(&m));
    CHECK_LE(m.mask, 511);
    for (uint64_t i = 1; i <= 200; i++)
        CHECK(sk_map_get(&m, i) == (i <= 100 ? (void *)(uintptr_t)i : NULL));
    sk_map_deinit(&m);
}

TEST(map_refused_memory_changes_nothing) {
    for (int64_t nth = 1;; nth++) {
        struct sk_map m;
        sk_map_init(&m, SK_TAG_TEST);
        sk_mem_fail_at(nth);
        for (uint64_t k = 1; k <= 200; k++) {
            sk_rc rc = sk_map_put(&m, k, &m);
            if (rc == SK_OK) continue;
            CHECK_RC(rc, SK_ENOMEM);
            CHECK_EQ(m.n, k - 1);
            CHECK(!sk_map_get(&m, k) && sk_map_check(&m));
            CHECK_OK(sk_map_put(&m, k, &m)); /* only one allocation failed */
        }
        CHECK_EQ(m.n, 200);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        sk_map_deinit(&m);
        if (!hit) {
            CHECK_GT(nth, 3); /* first table and several growths */
            break;
        }
    }
}

/* Checks the cost on which the map's users rely (a get, a put and a del for each task), with a
 * limit that also a busy machine keeps. */
TEST(map_is_fast) {
    if (test_sanitized()) test_skip("timing under a sanitizer");
    enum { LIVE = 4096, OPS = 1000000 };
    struct sk_map m;
    sk_map_init(&m, SK_TAG_TEST);
    uintptr_t sum = 0;
    int64_t best = INT64_MAX;
    for (int lap = 0; lap < 5; lap++) {
        int64_t begin = sk_thread_cpu_ns();
        for (uint64_t k = 1; k <= OPS; k++) {
            CHECK_OK(sk_map_put(&m, k, &m));
            sum += (uintptr_t)sk_map_get(&m, k > LIVE / 2 ? k - LIVE / 2 : k);
            if (k > LIVE) sk_map_del(&m, k - LIVE);
        }
        best = SK_MIN(best, sk_thread_cpu_ns() - begin);
        sk_map_clear(&m);
    }
    CHECK(sum != 0);
    double ns = (double)best / OPS;
    printf("# put+get+del of a live id among %d: %.1f ns\n", LIVE, ns);
    CHECK_MSG(ns < 150, "put+get+del took %.1f ns", ns);
    sk_map_deinit(&m);
}

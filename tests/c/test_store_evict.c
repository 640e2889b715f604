/* test_store_evict.c - victims by example, and against a selection sort with exact fractions. */
#include <stdlib.h>

#include "store/store.h"
#include "test.h"

#define MB 1000000u

TEST(evict_by_hand) {
    struct sk_evict_cand c[] = {
        /* spill: 20 ns/B */
        {.id = 1,
         .bytes = 10 * MB,
         .last_use_ns = 5,
         .remake_ns = INT64_MAX,
         .write_bytes_per_s = 100 * MB},
        /* drop: 5 ns/B */
        {.id = 2,
         .bytes = 10 * MB,
         .last_use_ns = 9,
         .remake_ns = 50 * MB,
         .write_bytes_per_s = 100 * MB},
        /* spill, older */
        {.id = 3,
         .bytes = 10 * MB,
         .last_use_ns = 4,
         .remake_ns = INT64_MAX,
         .write_bytes_per_s = 100 * MB},
        {.id = 4,
         .bytes = 10 * MB,
         .last_use_ns = 1,
         .remake_ns = 0,
         .write_bytes_per_s = 100 * MB,
         .pinned = true},
        /* impossible */
        {.id = 5,
         .bytes = 10 * MB,
         .last_use_ns = 1,
         .remake_ns = INT64_MAX,
         .write_bytes_per_s = 0},
        /* gains nothing */
        {.id = 6, .bytes = 0, .remake_ns = 0, .write_bytes_per_s = 1},
    };
    enum sk_evict_how how[6];
    CHECK_EQ(sk_evict_choose(c, 6, 1, how), 10 * MB);
    const enum sk_evict_how one[6] = {0, SK_EVICT_DROP, 0, 0, 0, 0};
    CHECK(memcmp(how, one, sizeof how) == 0);
    CHECK_EQ(sk_evict_choose(c, 6, 11 * MB, how), 20 * MB);
    const enum sk_evict_how two[6] = {0, SK_EVICT_DROP, SK_EVICT_SPILL, 0, 0, 0};
    CHECK(memcmp(how, two, sizeof how) == 0);
    CHECK_EQ(sk_evict_choose(c, 6, UINT64_MAX, how), 30 * MB);
    const enum sk_evict_how all[6] = {SK_EVICT_SPILL, SK_EVICT_DROP, SK_EVICT_SPILL, 0, 0, 0};
    CHECK(memcmp(how, all, sizeof how) == 0);
    CHECK_EQ(sk_evict_choose(c, 6, 0, how), 0);
    for (int i = 0; i < 6; i++) CHECK_EQ(how[i], SK_EVICT_KEEP);
    CHECK_EQ(sk_evict_choose(c, 0, 100, how), 0);
}

TEST(evict_soon_goes_last) {
    struct sk_evict_cand c[] = {
        /* the oldest value, which costs nothing to evict */
        {.bytes = 10 * MB,
         .last_use_ns = 1,
         .remake_ns = 0,
         .write_bytes_per_s = 100 * MB,
         .soon = true},
        {.bytes = 10 * MB, .last_use_ns = 9, .remake_ns = INT64_MAX, .write_bytes_per_s = 100 * MB},
    };
    enum sk_evict_how how[2];
    CHECK_EQ(sk_evict_choose(c, 2, 1, how), 10 * MB);
    CHECK_EQ(how[0], SK_EVICT_KEEP);
    CHECK_EQ(how[1], SK_EVICT_SPILL);
    CHECK_EQ(sk_evict_choose(c, 2, 11 * MB, how), 20 * MB);
    CHECK_EQ(how[0], SK_EVICT_DROP);
}

TEST(evict_drop_wins_a_tie_with_spill) {
    /* both 2 ns/B */
    struct sk_evict_cand c = {.bytes = 1000, .remake_ns = 2000, .write_bytes_per_s = 1000 * MB};
    enum sk_evict_how how;
    CHECK_EQ(sk_evict_choose(&c, 1, 1, &how), 1000);
    CHECK_EQ(how, SK_EVICT_DROP);
    c.remake_ns = 2001;
    CHECK_EQ(sk_evict_choose(&c, 1, 1, &how), 1000);
    CHECK_EQ(how, SK_EVICT_SPILL);
}

TEST(evict_extreme_numbers) {
    struct sk_evict_cand c[3] = {
        {.bytes = UINT64_MAX, .remake_ns = INT64_MAX - 1, .write_bytes_per_s = UINT64_MAX},
        {.bytes = 1, .remake_ns = -5, .write_bytes_per_s = 1},
        {.bytes = UINT64_MAX, .remake_ns = INT64_MAX, .write_bytes_per_s = 1},
    };
    enum sk_evict_how how[3];
    CHECK_EQ(sk_evict_choose(c, 3, UINT64_MAX, how), UINT64_MAX); /* the sum saturates */
    CHECK_EQ(how[1], SK_EVICT_DROP);                              /* free of cost */
    CHECK_EQ(how[0], SK_EVICT_SPILL);
    CHECK_EQ(how[2], SK_EVICT_KEEP);
}

struct frac {
    unsigned __int128 num, den;
    enum sk_evict_how how;
};

static struct frac naive_price(const struct sk_evict_cand *c) {
    struct frac best = {0, 1, SK_EVICT_KEEP};
    if (c->pinned || !c->bytes) return best;
    if (c->remake_ns != INT64_MAX)
        best = (struct frac){(unsigned __int128)c->remake_ns, c->bytes, SK_EVICT_DROP};
    if (c->write_bytes_per_s) {
        struct frac s = {2000000000u, c->write_bytes_per_s, SK_EVICT_SPILL};
        if (best.how == SK_EVICT_KEEP || s.num * best.den < best.num * s.den) best = s;
    }
    return best;
}

TEST(evict_random_against_selection_sort) {
    enum { N = 60 };
    for (int round = 0; round < test_rounds(3000); round++) {
        struct sk_evict_cand c[N];
        enum sk_evict_how how[N + 1], want[N] = {0};
        size_t n = test_below(N + 1);
        uint64_t sum = 0, narrow = test_below(2);
        for (size_t i = 0; i < n; i++) {
            c[i] = (struct sk_evict_cand){
                .id = i,
                .bytes = test_below(narrow ? 4 : 100000),
                .last_use_ns = (int64_t)test_below(narrow ? 3 : 1000),
                .remake_ns =
                    test_below(3) == 0 ? INT64_MAX : (int64_t)test_below(narrow ? 4 : 1000000),
                .write_bytes_per_s = test_below(3) == 0 ? 0
                                     : narrow           ? 1000000000u * (1 + test_below(2))
                                                        : test_below(4000000000u),
                .pinned = test_below(5) == 0,
                .soon = test_below(3) == 0,
            };
            sum += c[i].bytes;
        }
        uint64_t need = test_below(sum + 2), covered = 0;
        while (covered < need) {
            size_t best = SIZE_MAX;
            for (size_t i = 0; i < n; i++) {
                struct frac p = naive_price(&c[i]);
                if (want[i] || p.how == SK_EVICT_KEEP) continue;
                if (best == SIZE_MAX) {
                    best = i;
                    continue;
                }
                struct frac b = naive_price(&c[best]);
                unsigned __int128 l = p.num * b.den, r = b.num * p.den;
                if (c[i].soon != c[best].soon
                        ? c[best].soon
                        : l < r || (l == r && c[i].last_use_ns < c[best].last_use_ns))
                    best = i;
            }
            if (best == SIZE_MAX) break;
            want[best] = naive_price(&c[best]).how;
            covered += c[best].bytes;
        }
        how[n] = (enum sk_evict_how)0x5a5a5a5a;
        CHECK_EQ(sk_evict_choose(c, n, need, how), covered);
        CHECK(memcmp(how, want, n * sizeof how[0]) == 0);
        CHECK_EQ((uint32_t)how[n], 0x5a5a5a5au); /* nothing is written behind the end */
    }
}

/* test_block_sampler.c - the order in which rows of a stream are given out: each row once; it
 * depends on seed, epoch and number of the row, not on the batches; a sampler that resumes at any
 * row gives the same order. */
#include "base/rand.h"
#include "block/sampler.h"
#include "test.h"

enum { MOST = 4000 };

struct stream {         /* the rows that a sampler gave out */
    uint32_t row[MOST]; /* [i]: number in the stream of row i */
    uint64_t n, most_held;
};

/* Adds rows [begin, total) in batches of up to `cut` rows; takes up to `ask` rows at a time. */
static void play(const struct sk_sampler_conf *c, uint64_t total, uint64_t cut, uint64_t ask,
                 struct stream *out) {
    struct sk_err err = {.code = 0};
    struct sk_sampler *s;
    uint64_t first[MOST], left[MOST] = {0}, at = sk_sampler_begin(c), held = 0;
    struct sk_row_at places[64];
    out->n = out->most_held = 0;
    CHECK_OK_ERR(sk_sampler_create(c, &s, &err), &err);
    CHECK(at <= c->start);
    for (;;) {
        uint64_t want = 1 + test_below(ask), n = want;
        while (sk_sampler_wants(s, want)) {
            uint32_t slot;
            uint64_t k = test_below(cut + 1);
            k = SK_MIN(k, total - SK_MIN(at, total));
            if (at >= total) {
                sk_sampler_end(s);
                continue;
            }
            CHECK_OK_ERR(sk_sampler_add(s, k, &slot, &err), &err);
            CHECK_EQ(slot == UINT32_MAX, !k);
            if (!k) continue;
            CHECK_EQ(left[slot], 0);
            first[slot] = at;
            left[slot] = k;
            at += k;
            held += k;
            out->most_held = SK_MAX(out->most_held, held);
        }
        CHECK_OK_ERR(sk_sampler_next(s, places, &n, &err), &err);
        CHECK_MSG(n == want || at >= total, "%llu of %llu rows before the end",
                  (unsigned long long)n, (unsigned long long)want);
        for (uint64_t i = 0; i < n; i++) {
            CHECK(places[i].row < left[places[i].run]);
            out->row[out->n++] = (uint32_t)(first[places[i].run] + places[i].row);
        }
        for (uint32_t slot; (slot = sk_sampler_let_go(s)) != UINT32_MAX; left[slot] = 0) {
            CHECK(left[slot]);
            held -= left[slot];
        }
        if (!n) break;
    }
    CHECK_EQ(held, 0);
    CHECK_EQ(sk_sampler_position(s), c->start + out->n);
    sk_sampler_destroy(s);
}

TEST(sampler_gives_each_row_once_wherever_batches_end_and_wherever_it_begins) {
    static struct stream whole, other;
    for (int round = 0; round < test_rounds(60); round++) {
        uint64_t total = test_below(MOST), window = test_below(3) ? 1 + test_below(700) : 0;
        struct sk_sampler_conf c = {.window = window, .seed = test_rand(), .epoch = test_below(3)};
        bool seen[MOST] = {false};
        play(&c, total, 1 + test_below(300), 64, &whole);
        CHECK_EQ(whole.n, total);
        for (uint64_t i = 0; i < total; i++) {
            CHECK(whole.row[i] < total && !seen[whole.row[i]]);
            seen[whole.row[i]] = true;
            if (!window) CHECK_EQ(whole.row[i], i);
        }
        c.start = test_below(4) ? test_below(total + 1) : total;
        play(&c, total, 1 + test_below(300), 64, &other);
        CHECK_EQ(other.n, total - c.start);
        CHECK_MEM_EQ(other.row, whole.row + c.start, other.n * sizeof *other.row);
    }
}

TEST(sampler_holds_three_windows_at_most) {
    static struct stream s;
    for (int round = 0; round < test_rounds(20); round++) {
        struct sk_sampler_conf c = {.window = 100 + test_below(200), .seed = test_rand()};
        play(&c, MOST, 20, 10, &s);
        CHECK_MSG(s.most_held <= 3 * c.window + 40, "%llu rows held, window %llu",
                  (unsigned long long)s.most_held, (unsigned long long)c.window);
    }
}

TEST(sampler_orders_differ_by_seed_and_epoch_and_each_is_as_likely) {
    enum { N = 5, ROUNDS = 24000 };
    static struct stream a, b;
    uint32_t at[N][N] = {{0}};
    struct sk_sampler_conf c = {.window = 500, .seed = 1};
    play(&c, 1000, 100, 64, &a);
    c.epoch = 1;
    play(&c, 1000, 100, 64, &b);
    CHECK(memcmp(a.row, b.row, 1000 * sizeof *a.row) != 0);
    c = (struct sk_sampler_conf){.window = 500, .seed = 2};
    play(&c, 1000, 100, 64, &b);
    CHECK(memcmp(a.row, b.row, 1000 * sizeof *a.row) != 0);
    for (uint64_t i = 0; i < ROUNDS; i++) { /* all rows in one window */
        c = (struct sk_sampler_conf){.window = N, .seed = 7, .epoch = i};
        play(&c, N, N, N, &a);
        for (uint32_t k = 0; k < N; k++) at[a.row[k]][k]++;
    }
    double chi2 = 0; /* 16 degrees of freedom: over 45 once in 10,000 */
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            chi2 += (at[i][k] - ROUNDS / (double)N) * (at[i][k] - ROUNDS / (double)N) /
                    (ROUNDS / (double)N);
    CHECK_MSG(chi2 < 45, "chi square %.1f", chi2);
}

TEST(sampler_refuses_what_it_cannot_count) {
    struct sk_err err = {.code = 0};
    struct sk_sampler *s;
    uint32_t slot;
    CHECK_EQ(sk_sampler_create(&(struct sk_sampler_conf){.window = UINT32_MAX}, &s, &err),
             SK_EINVAL);
    CHECK_OK(sk_sampler_create(&(struct sk_sampler_conf){.window = 0}, &s, &err));
    CHECK_EQ(sk_sampler_add(s, UINT32_MAX, &slot, &err), SK_EINVAL);
    sk_sampler_end(s);
    CHECK_EQ(sk_sampler_add(s, 1, &slot, &err), SK_EINVAL);
    sk_sampler_destroy(s);
    sk_sampler_destroy(NULL);
}

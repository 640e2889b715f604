/* test_engine_pace.c - how long the thread that drives the engine spins and sleeps, by example. */
#include "engine/rules/pace.h"
#include "test.h"

#define T0 INT64_C(5000000000)
#define SPIN INT64_C(50000)

/* Nothing can happen without a wake-up call. */
TEST(pace_caller_idle) {
    struct sk_pace_view v = {.now_ns = T0, .n_live = 3};
    struct sk_pace_sleep s = sk_pace_caller(&v, 2, SPIN, INT64_MAX);
    CHECK_EQ(s.until_ns, INT64_MAX);
    CHECK_EQ(s.spin_ns, SPIN);
    CHECK_EQ(s.nap_ns, 0);
    CHECK_EQ(sk_pace_caller(&v, 2, SPIN, T0 + 7).until_ns, T0 + 7);
}

/* The caller wakes up regularly while workers run or tasks wait, but not after the deadline. */
TEST(pace_caller_ticks) {
    struct sk_pace_view v = {.now_ns = T0, .n_live = 3, .n_busy = 1};
    CHECK_EQ(sk_pace_caller(&v, 2, SPIN, INT64_MAX).until_ns, T0 + SK_PACE_TICK_NS + SPIN);
    CHECK_EQ(sk_pace_caller(&v, 2, SPIN, T0 + 7).until_ns, T0 + 7);
    v = (struct sk_pace_view){.now_ns = T0, .waiting = true};
    CHECK_EQ(sk_pace_caller(&v, 2, 0, INT64_MAX).until_ns, T0 + SK_PACE_TICK_NS);
}

TEST(pace_caller_spins_on_a_free_core) {
    struct sk_pace_view v = {.now_ns = T0, .n_live = 3, .n_busy = 2};
    struct sk_pace_sleep s = sk_pace_caller(&v, 2, SPIN, INT64_MAX);
    CHECK_EQ(s.spin_ns, 0);
    CHECK_EQ(s.until_ns, T0 + SK_PACE_TICK_NS);
    CHECK_EQ(sk_pace_caller(&v, 3, SPIN, INT64_MAX).spin_ns, SPIN);
    v.n_busy = 0;
    CHECK_EQ(sk_pace_caller(&v, 0, SPIN, INT64_MAX).spin_ns, SPIN); /* no CPU was given to tasks */
}

TEST(pace_thread_ticks) {
    struct sk_pace p = {0};
    struct sk_pace_view v = {.now_ns = T0};
    /* without workers no message can arrive */
    CHECK_EQ(sk_pace_thread(&p, &v).until_ns, INT64_MAX);
    v.n_live = 2;
    CHECK_EQ(sk_pace_thread(&p, &v).until_ns, T0 + SK_PACE_REAP_NS);
    v.n_busy = 1;
    CHECK_EQ(sk_pace_thread(&p, &v).until_ns, T0 + 10 * SK_PACE_TICK_NS);
    v.driven = true; /* a caller looks */
    CHECK_EQ(sk_pace_thread(&p, &v).until_ns, T0 + SK_PACE_REAP_NS);
    v = (struct sk_pace_view){.now_ns = T0, .waiting = true};
    CHECK_EQ(sk_pace_thread(&p, &v).until_ns, T0 + 10 * SK_PACE_TICK_NS);
    CHECK_EQ(p.last_ns, 0);
}

TEST(pace_thread_naps_in_a_storm) {
    struct sk_pace p = {0};
    struct sk_pace_view v = {.now_ns = T0, .n_live = 2, .n_busy = 1, .n_messages = 9};
    CHECK_EQ(sk_pace_thread(&p, &v).nap_ns, 0); /* the first for long: the bell wakes at the next */
    v.now_ns += 4 * SK_PACE_NAP_NS - 1;
    CHECK_EQ(sk_pace_thread(&p, &v).nap_ns, SK_PACE_NAP_NS);
    v.now_ns += SK_PACE_NAP_NS;
    v.n_messages = 0; /* after a nap without messages the thread sleeps on the bell again */
    CHECK_EQ(sk_pace_thread(&p, &v).nap_ns, 0);
    v.n_messages = 1;
    CHECK_EQ(sk_pace_thread(&p, &v).nap_ns, SK_PACE_NAP_NS);
    v.now_ns += 4 * SK_PACE_NAP_NS;
    CHECK_EQ(sk_pace_thread(&p, &v).nap_ns, 0);
}

TEST(pace_reap) {
    struct sk_pace p = {.last_reap_ns = T0};
    CHECK(!sk_pace_reap(&p, T0 + SK_PACE_REAP_NS - 1));
    CHECK(sk_pace_reap(&p, T0 + SK_PACE_REAP_NS));
    CHECK(!sk_pace_reap(&p, T0 + SK_PACE_REAP_NS));
    CHECK(sk_pace_reap(&p, T0 + 2 * SK_PACE_REAP_NS));
}

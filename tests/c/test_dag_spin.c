/* test_dag_spin.c - whether waits spin or sleep, with simulated partners: quick, slow, changing, on
 * a core of their own and on this thread's core. */
#include "dag/spin.h"
#include "test.h"

#define US INT64_C(1000)

/* Makes n waits that take `spun` ns if the wait spins and `slept` ns if it sleeps. Returns how many
 * slept at once. */
static int waits(struct sk_spin *s, int n, int64_t spun, int64_t slept) {
    int out = 0;
    for (int i = 0; i < n; i++) {
        bool spins = sk_spin_budget(s) > 0;
        out += !spins;
        sk_spin_learn(s, spins ? spun : slept);
    }
    return out;
}

TEST(spin_for_a_quick_partner) {
    struct sk_spin s = sk_spin_of(SK_SPIN_CAP_NS);
    CHECK_LE(waits(&s, 1280, 1 * US, 40 * US), 10); /* the probes */
    CHECK_LE(waits(&s, 1280, 20 * US, 60 * US), 11);
}

TEST(sleep_for_a_slow_partner) {
    struct sk_spin s = sk_spin_of(SK_SPIN_CAP_NS);
    (void)waits(&s, 20, 1000 * US, 1000 * US);
    CHECK_GE(waits(&s, 1280, 1000 * US, 1000 * US), 1270); /* the probes: a cap of CPU in 128 ms */
}

TEST(sleep_where_the_partner_needs_this_core) {
    struct sk_spin s = sk_spin_of(SK_SPIN_CAP_NS);
    (void)waits(&s, 300, 60 * US, 2 * US);
    CHECK_GE(waits(&s, 1280, 60 * US, 2 * US), 1270);
    (void)waits(&s, 1280, 1 * US, 40 * US); /* from here on the machine is free again */
    CHECK_LE(waits(&s, 1280, 1 * US, 40 * US), 11);
}

TEST(a_pause_is_forgotten) {
    struct sk_spin s = sk_spin_of(SK_SPIN_CAP_NS);
    (void)waits(&s, 200, 1 * US, 40 * US);
    (void)waits(&s, 1, 3600 * INT64_C(1000000000), 0);
    CHECK_LE(waits(&s, 100, 1 * US, 40 * US), 1);
    (void)waits(&s, 50, 5000 * US, 5000 * US); /* idle for long */
    CHECK_LE(waits(&s, 100, 1 * US, 40 * US), 20);
}

TEST(never_and_always) {
    struct sk_spin never = sk_spin_of(0), always = sk_spin_of(INT64_MAX);
    CHECK_EQ(waits(&never, 1000, 1, 1), 1000);
    CHECK_EQ(waits(&always, 1000, 3600 * SK_SPIN_CAP_NS, 0), 0);
}

TEST(means_stay_within_bounds) {
    struct sk_spin s = sk_spin_of(1 + (int64_t)test_below(SK_SPIN_CAP_NS));
    for (int i = 0, n = test_rounds(100000); i < n; i++) {
        int64_t b = sk_spin_budget(&s);
        CHECK(b == 0 || b == s.cap_ns);
        sk_spin_learn(&s, (int64_t)test_below(UINT64_C(1) << test_below(62)));
        CHECK(s.slept_ns >= 0 && s.slept_ns <= s.cap_ns && s.spun_ns >= 0 && s.spun_ns <= s.cap_ns);
        CHECK(s.long_part >= 0 && s.long_part <= SK_SPIN_ONE);
    }
}

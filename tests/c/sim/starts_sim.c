/* starts_sim.c - fork servers that end at random, and a loop that checks at random moments: which
 * starts are repeated, how often and for how long.
 *
 * The rules are compared with a naive model that stores the whole history of a series of starts. A
 * task that waits for a worker must fail if and only if enough servers in turn have ended by
 * themselves, or the time is over. No server is started too early or much too late, and there are
 * never more servers than a machine can bear. */
#include "base/clock.h"
#include "engine/rules/starts.h"
#include "test.h"

enum { MOST = 400 };
struct row {
    int64_t end_ns[MOST];
    bool own[MOST];
    uint32_t n;
};

static uint32_t owns(const struct row *r) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n; i++) n += r->own[i];
    return n;
}

TEST(starts_against_a_model) {
    uint64_t gave_up_own = 0, gave_up_late = 0, became_ready = 0, most = 0;
    for (int round = 0, rounds = test_rounds(2000); round < rounds; round++) {
        struct sk_starts s = {0};
        struct row r = {0};
        int64_t now = (int64_t)test_below(1000 * (uint64_t)SK_SEC),
                look = 1 + (int64_t)test_below(20 * (uint64_t)SK_MS);
        uint64_t own_of = test_below(3) == 0 ? 0 : 1 + test_below(40),
                 ready_of = 20 + test_below(400), life = 1 + test_below(SK_SEC);
        for (int step = 0; step < 300; step++) {
            CHECK(sk_starts_may(&s, now));
            int64_t started = now;
            now += (int64_t)test_below(life); /* it lives so long */
            if (test_below(ready_of) == 0) {
                sk_starts_ready(&s);
                r.n = 0;
                became_ready++;
                continue;
            }
            CHECK_LT(r.n, MOST);
            r.own[r.n] = own_of && test_below(own_of) == 0;
            r.end_ns[r.n++] = now;
            bool again = sk_starts_ended(&s, now, r.own[r.n - 1]),
                 late = now - r.end_ns[0] >= SK_STARTS_PATIENCE_NS;
            CHECK_EQ(again, owns(&r) < SK_STARTS_OWN && !late);
            if (!again) {
                gave_up_own += !late;
                gave_up_late += late;
                CHECK_LE(started - r.end_ns[0],
                         /* no task waits much longer than promised */
                         SK_STARTS_PATIENCE_NS + SK_STARTS_WAIT_MAX_NS + look);
                /* 8 quick ones, then one a second */
                CHECK_LE(r.n, 50);
                most = SK_MAX(most, r.n);
                r.n = 0;
                continue;
            }
            int64_t wait = r.n > 1 ? SK_MIN(SK_STARTS_WAIT_MAX_NS,
                                            SK_STARTS_WAIT_NS << SK_MIN(r.n - 1, 30))
                                   : SK_STARTS_WAIT_NS,
                    until = now + wait;
            CHECK(!sk_starts_may(&s, until - 1) && sk_starts_may(&s, until));
            do now += look; /* the loop does not sleep until then: it checks at other times, too */
            while (!sk_starts_may(&s, now));
            CHECK_LT(now, until + look);
        }
    }
    CHECK(gave_up_own && gave_up_late && became_ready && most > 30);
}

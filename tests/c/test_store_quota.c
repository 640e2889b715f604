/* test_store_quota.c - a byte budget against plain signed arithmetic. */
#include "store/store.h"
#include "test.h"

TEST(quota_by_hand) {
    struct sk_quota q = {.limit = 100};
    CHECK(sk_quota_reserve(&q, 60));
    CHECK(!sk_quota_reserve(&q, 41));
    CHECK_EQ(sk_quota_room(&q), 40);
    CHECK(sk_quota_reserve(&q, 40));
    CHECK(sk_quota_reserve(&q, 0));
    CHECK(!sk_quota_reserve(&q, 1));
    sk_quota_use(&q, 60, 90); /* more bytes are used than were promised */
    CHECK_EQ(q.used, 90);
    CHECK_EQ(q.reserved, 40);
    CHECK_EQ(sk_quota_room(&q), 0); /* 130 of 100 are used: the difference must not wrap */
    sk_quota_unreserve(&q, 40);
    CHECK_EQ(sk_quota_room(&q), 10);
    sk_quota_use(&q, 0, 1000);
    CHECK_EQ(sk_quota_room(&q), 0);
    sk_quota_unuse(&q, 1090);
    CHECK_EQ(sk_quota_room(&q), 100);
}

TEST(quota_extremes_do_not_wrap) {
    struct sk_quota q = {.limit = UINT64_MAX};
    CHECK(sk_quota_reserve(&q, UINT64_MAX));
    CHECK(!sk_quota_reserve(&q, 1));
    sk_quota_use(&q, UINT64_MAX, UINT64_MAX);
    CHECK_EQ(sk_quota_room(&q), 0);
    CHECK(!sk_quota_reserve(&q, UINT64_MAX));
    q = (struct sk_quota){.limit = 10, .used = UINT64_MAX - 1, .reserved = 5};
    CHECK_EQ(sk_quota_room(&q), 0);
}

TEST(quota_random_against_signed_arithmetic) {
    for (int round = 0; round < test_rounds(200); round++) {
        struct sk_quota q = {.limit = test_below(2000)};
        int64_t limit = (int64_t)q.limit, reserved = 0, used = 0;
        for (int step = 0; step < 500; step++) {
            int64_t n = (int64_t)test_below(300);
            switch (test_below(4)) {
            case 0: {
                bool ok = limit - used - reserved >= n || n == 0;
                CHECK_EQ(sk_quota_reserve(&q, (uint64_t)n), ok);
                reserved += ok ? n : 0;
                break;
            }
            case 1:
                n = SK_MIN(n, reserved);
                sk_quota_unreserve(&q, (uint64_t)n);
                reserved -= n;
                break;
            case 2: {
                int64_t from = (int64_t)test_below((uint64_t)SK_MIN(n, reserved) + 1);
                sk_quota_use(&q, (uint64_t)from, (uint64_t)n);
                reserved -= from;
                used += n;
                break;
            }
            default:
                n = SK_MIN(n, used);
                sk_quota_unuse(&q, (uint64_t)n);
                used -= n;
            }
            CHECK_EQ((int64_t)q.used, used);
            CHECK_EQ((int64_t)q.reserved, reserved);
            CHECK_EQ((int64_t)sk_quota_room(&q), SK_MAX(limit - used - reserved, 0));
        }
    }
}

/* test_shuffle_strategy.c - strategies by name, and which one auto takes. */
#include "shuffle/shuffle.h"
#include "test.h"

#define MB (UINT64_C(1) << 20)

static uint32_t values(const char *name, struct sk_shuffle_sizes z) { return sk_shuffle_find(name)->values(&z); }

static struct sk_shuffle_sizes sizes(uint64_t mb) { /* in a memory of 1 GiB */
    return (struct sk_shuffle_sizes){1024 * MB, true, true, mb * MB, 64 * MB, 32 * MB};
}

TEST(strategies_have_names) {
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        CHECK_STR_EQ(sk_shuffle_find(sk_shuffle_name(i))->name, sk_shuffle_name(i));
        for (uint64_t mb = 0; mb < 1000000; mb = 3 * mb + 1) CHECK_GE(values(sk_shuffle_name(i), sizes(mb)), 1);
    }
    CHECK(!sk_shuffle_find("no such one") && !sk_shuffle_find(NULL));
}

TEST(auto_has_one_value_a_map_while_memory_holds_all_and_a_few_beyond) {
    CHECK_EQ(values("auto", sizes(100)), 1);
    CHECK_EQ(values("auto", sizes(1000)), 1);
    CHECK_EQ(values("auto", sizes(1100)), 8);
    CHECK_EQ(values("auto", sizes(100000)), 8);
    struct sk_shuffle_sizes z = sizes(4000);
    z.spills = false; /* it has to fit, and nothing is read from disk */
    CHECK_EQ(values("auto", z), 1);
    z.parts = false; /* whole values only */
    CHECK_GT(values("auto", z), 8);
}

TEST(auto_is_never_dearer_than_another_one) {
    for (uint64_t mb = 1; mb < 10000000; mb *= 3)
        for (int k = 0; k < 4; k++)
            for (unsigned i = 0; sk_shuffle_name(i); i++) {
                struct sk_shuffle_sizes z = sizes(mb);
                z.spills = k & 1;
                z.parts = k & 2;
                CHECK(sk_shuffle_cost(&z, values("auto", z)) <= sk_shuffle_cost(&z, values(sk_shuffle_name(i), z)));
            }
}

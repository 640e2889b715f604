/* test_store_pin.c - pins keep bytes, and a death drops exactly the pins of the dead process. */
#include "store/store.h"
#include "test.h"

static struct sk_store *make(void) {
    struct sk_store *st = NULL;
    CHECK_EQ(sk_store_create(&st, 1 << 20, NULL), SK_OK);
    return st;
}

static sk_off object(struct sk_store *st, uint64_t len) {
    sk_off off = 0;
    CHECK_EQ(sk_store_alloc(st, 0, len, &off, NULL), SK_OK);
    CHECK_EQ(sk_store_commit(st, 0, off, len, NULL), SK_OK);
    return off;
}

static uint64_t sealed(const struct sk_store *st) {
    struct sk_store_stats s;
    sk_store_get_stats(st, &s);
    CHECK(sk_store_check(st));
    return s.sealed_bytes;
}

static uint64_t n_pins(const struct sk_store *st) {
    struct sk_store_stats s;
    sk_store_get_stats(st, &s);
    return s.n_pins;
}

TEST(pin_outlives_the_last_reference) {
    struct sk_store *st = make();
    sk_off a = object(st, 64);
    CHECK_EQ(sk_store_pin(st, 2, a), SK_OK);
    CHECK_EQ(sk_store_pin(st, 2, a), SK_OK);
    CHECK_EQ(sk_store_pin(st, 0, a), SK_OK);
    CHECK_EQ(n_pins(st), 3);
    CHECK_EQ(sk_store_pins(st, a), 3);
    sk_store_unref(st, a);
    CHECK_EQ(sealed(st), 64);
    CHECK(sk_store_unpin(st, 2, a));
    CHECK(!sk_store_unpin(st, 3, a));
    CHECK(sk_store_unpin(st, 0, a));
    CHECK(!sk_store_unpin(st, 0, a));
    CHECK_EQ(sealed(st), 64);
    CHECK(sk_store_unpin(st, 2, a));
    CHECK_EQ(sealed(st), 0);
    CHECK(!sk_store_unpin(st, 2, a));
    CHECK_EQ(n_pins(st), 0);
    sk_store_destroy(st);
}

TEST(pin_goes_before_the_reference) {
    struct sk_store *st = make();
    sk_off a = object(st, 64);
    CHECK_EQ(sk_store_pin(st, 1, a), SK_OK);
    CHECK(sk_store_unpin(st, 1, a));
    CHECK_EQ(sealed(st), 64);
    sk_store_unref(st, a);
    CHECK_EQ(sealed(st), 0);
    sk_store_destroy(st);
}

TEST(pin_can_be_turned_back_into_a_reference) {
    struct sk_store *st = make();
    sk_off a = object(st, 64);
    CHECK_EQ(sk_store_pin(st, 1, a), SK_OK);
    sk_store_unref(st, a);
    sk_store_ref(st, a);
    CHECK(sk_store_unpin(st, 1, a));
    CHECK_EQ(sealed(st), 64);
    sk_store_unref(st, a);
    CHECK_EQ(sealed(st), 0);
    sk_store_destroy(st);
}

TEST(pin_death_drops_exactly_its_own) {
    struct sk_store *st = make();
    sk_off o[10], l;
    for (uint32_t i = 0; i < 10; i++) {
        o[i] = object(st, 1000);
        for (uint32_t p = 0; p <= 4; p++)
            for (uint32_t k = 0; k < p; k++) CHECK_EQ(sk_store_pin(st, p, o[i]), SK_OK);
    }
    CHECK_EQ(sk_store_alloc(st, 3, 5000, &l, NULL), SK_OK);
    CHECK_EQ(n_pins(st), 100);
    for (int i = 0; i < 10; i++) sk_store_unref(st, o[i]);
    sk_store_proc_dead(st, 3);
    CHECK_EQ(n_pins(st), 70);
    CHECK_EQ(sealed(st), 10240);
    sk_store_proc_dead(st, 3); /* again: nothing */
    sk_store_proc_dead(st, 17);
    CHECK(!sk_store_unpin(st, 3, o[0]));
    CHECK_EQ(sk_store_commit(st, 3, l, 64, NULL), SK_EINVAL);
    sk_store_proc_dead(st, 1);
    sk_store_proc_dead(st, 4);
    CHECK_EQ(sealed(st), 10240);
    sk_store_proc_dead(st, 2);
    CHECK_EQ(sealed(st), 0);
    CHECK_EQ(n_pins(st), 0);
    /* All memory is one warm run again, and the process number can be reused. */
    CHECK_EQ(sk_store_alloc(st, 3, 10240 + 5056, &l, NULL), SK_OK);
    CHECK_EQ(l, 0);
    CHECK(sk_store_check(st));
    sk_store_destroy(st);
}

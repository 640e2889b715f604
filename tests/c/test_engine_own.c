/* test_engine_own.c - ownership and reference counts by example. Random operations against
 * recomputed reachability: sim/own_sim.c. */
#include "base/clock.h"
#include "engine/own/own.h"
#include "test.h"

static struct sk_own *make(void) {
    struct sk_own *o = NULL;
    CHECK_OK(sk_own_create(&o, NULL));
    return o;
}

static int tag_of[16];

static void add(struct sk_own *o, uint64_t id, uint32_t proc) {
    CHECK_OK(sk_own_add(o, id, proc, &tag_of[id % 16], NULL));
    CHECK(sk_own_check(o));
}

/* Checks that the next freed object is `id`, with its data. */
static void freed(struct sk_own *o, uint64_t id) {
    uint64_t got = 0;
    void *data = NULL;
    CHECK(sk_own_next_freed(o, &got, &data));
    CHECK_EQ(got, id);
    CHECK(data == &tag_of[id % 16]);
    CHECK(!sk_own_has(o, id));
    CHECK(sk_own_check(o));
}

static void none_freed(struct sk_own *o) {
    uint64_t id = 77;
    void *data = NULL;
    CHECK(!sk_own_next_freed(o, &id, &data));
    CHECK_EQ(id, 77);
    CHECK(sk_own_check(o));
}

TEST(own_one_reference) {
    struct sk_own *o = make();
    none_freed(o);
    add(o, 5, 0);
    CHECK(sk_own_has(o, 5));
    CHECK(sk_own_get(o, 5) == &tag_of[5]);
    CHECK(sk_own_get(o, 6) == NULL && !sk_own_has(o, 0));
    CHECK_EQ(sk_own_n(o), 1);
    none_freed(o);
    CHECK_OK(sk_own_ref(o, 5, 0, 3, NULL));
    CHECK_EQ(sk_own_count(o, 5), 4);
    CHECK_OK(sk_own_unref(o, 5, 0, 4, NULL));
    freed(o, 5);
    none_freed(o);
    CHECK_RC(sk_own_unref(o, 5, 0, 1, NULL), SK_ENOENT);
    add(o, 5, 2); /* the id may be used again */
    sk_own_destroy(o);
    sk_own_destroy(NULL);
}

TEST(own_add_again) {
    struct sk_own *o = make();
    struct sk_err err;
    bool added = false;
    CHECK_OK(sk_own_add_once(o, 9, 1, &tag_of[9], &added, NULL));
    CHECK(added);
    CHECK_OK(sk_own_add_once(o, 9, 1, NULL, &added, NULL));
    CHECK(!added);
    CHECK_EQ(sk_own_count(o, 9), 1);
    CHECK(sk_own_get(o, 9) == &tag_of[9]);
    CHECK_RC(sk_own_add(o, 9, 1, NULL, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "9");
    CHECK_RC(sk_own_add(o, 0, 1, NULL, &err), SK_EINVAL);
    CHECK_OK(sk_own_unref(o, 9, 1, 1, NULL));
    freed(o, 9);
    sk_own_destroy(o);
}

TEST(own_processes_give_back_only_what_they_have) {
    struct sk_own *o = make();
    struct sk_err err;
    add(o, 1, 0);
    CHECK_OK(sk_own_ref(o, 1, 3, 2, NULL));
    CHECK_OK(sk_own_ref(o, 1, 4, 1, NULL));
    CHECK_RC(sk_own_unref(o, 1, 3, 3, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "process 3 gives back 3 references to object 1 but has 2");
    CHECK_RC(sk_own_unref(o, 1, 7, 1, &err), SK_EINVAL);
    CHECK_RC(sk_own_unref(o, 1, 0, 2, &err), SK_EINVAL);
    CHECK_RC(sk_own_ref(o, 2, 3, 1, &err), SK_ENOENT);
    CHECK_RC(sk_own_hold(o, 2, &err), SK_ENOENT);
    CHECK_EQ(sk_own_count(o, 1), 4);
    CHECK_EQ(sk_own_borrowed(o, 1, 3), 2);
    CHECK_EQ(sk_own_borrowed(o, 1, 0), 1);
    CHECK_OK(sk_own_unref(o, 1, 3, 0, NULL));
    CHECK_OK(sk_own_ref(o, 1, 8, 0, NULL));
    CHECK_OK(sk_own_unref(o, 1, 3, 2, NULL));
    CHECK_EQ(sk_own_borrowed(o, 1, 3), 0);
    CHECK_OK(sk_own_unref(o, 1, 0, 1, NULL));
    none_freed(o);
    CHECK_OK(sk_own_unref(o, 1, 4, 1, NULL));
    freed(o, 1);
    sk_own_destroy(o);
}

TEST(own_death_gives_back_exactly_its_own) {
    struct sk_own *o = make();
    for (uint64_t id = 1; id <= 8; id++) {
        add(o, id, (uint32_t)(id % 2 ? 1 : 2));
        CHECK_OK(sk_own_ref(o, id, 1, (uint32_t)id, NULL));
    }
    CHECK_OK(sk_own_ref(o, 3, 2, 1, NULL));
    CHECK_OK(sk_own_ref(o, 5, 0, 1, NULL));
    CHECK_OK(sk_own_hold(o, 7, NULL));
    sk_own_proc_dead(o, 1);
    freed(o, 1); /* 3 by 2, 5 by the driver, 7 held, even ones by 2 */
    none_freed(o);
    sk_own_proc_dead(o, 1);
    sk_own_proc_dead(o, 55);
    none_freed(o);
    CHECK_RC(sk_own_unref(o, 3, 1, 1, NULL), SK_EINVAL);
    sk_own_unhold(o, 7);
    freed(o, 7);
    CHECK_OK(sk_own_ref(o, 3, 1, 1, NULL)); /* the number is in use again */
    sk_own_proc_dead(o, 2);
    uint64_t id, seen = 0;
    void *data;
    while (sk_own_next_freed(o, &id, &data)) seen |= UINT64_C(1) << id;
    CHECK_EQ(seen, (1 << 2) | (1 << 4) | (1 << 6) | (1 << 8));
    CHECK_EQ(sk_own_n(o), 2);
    sk_own_destroy(o);
}

TEST(own_outer_holds_inner) {
    struct sk_own *o = make();
    struct sk_err err;
    for (uint64_t id = 1; id <= 4; id++) add(o, id, 0);
    const uint64_t in_1[] = {2, 3, 3}, in_2[] = {3}, gone[] = {2, 9};
    CHECK_RC(sk_own_contains(o, 1, gone, 2, &err), SK_ENOENT);
    CHECK_RC(sk_own_contains(o, 9, in_2, 1, &err), SK_ENOENT);
    CHECK_EQ(sk_own_count(o, 2), 1);
    CHECK_OK(sk_own_contains(o, 1, NULL, 0, NULL));
    CHECK_OK(sk_own_contains(o, 1, in_1, 3, NULL));
    CHECK_RC(sk_own_contains(o, 1, in_2, 1, &err), SK_EINVAL);
    CHECK_OK(sk_own_contains(o, 2, in_2, 1, NULL));
    CHECK_EQ(sk_own_count(o, 3), 4);
    CHECK(sk_own_check(o));
    CHECK_OK(sk_own_unref(o, 3, 0, 1, NULL));
    CHECK_OK(sk_own_unref(o, 2, 0, 1, NULL));
    none_freed(o);
    CHECK_OK(sk_own_hold(o, 2, NULL));
    CHECK_OK(sk_own_unref(o, 1, 0, 1, NULL));
    freed(o, 1);
    none_freed(o);
    sk_own_unhold(o, 2);
    freed(o, 2);
    freed(o, 3);
    none_freed(o);
    CHECK_EQ(sk_own_n(o), 1);
    sk_own_destroy(o);
}

/* An object that contains a reference to itself: the other references in it must be counted, too.
 * (Found by tests/c/model.) */
TEST(own_names_itself) {
    struct sk_own *o = make();
    for (uint64_t id = 1; id <= 2; id++) add(o, id, 0);
    const uint64_t both[] = {1, 2, 1}, self[] = {2};
    CHECK_OK(sk_own_contains(o, 1, both, 3, NULL));
    CHECK_OK(sk_own_contains(o, 2, self, 1, NULL));
    CHECK_RC(sk_own_contains(o, 2, self, 1, NULL), SK_EINVAL); /* again */
    CHECK_EQ(sk_own_n_inner(o, 1), 1);
    CHECK_EQ(sk_own_count(o, 1), 1);
    CHECK_OK(sk_own_unref(o, 2, 0, 1, NULL));
    none_freed(o);
    CHECK(sk_own_check(o));
    CHECK_OK(sk_own_unref(o, 1, 0, 1, NULL));
    freed(o, 1);
    freed(o, 2);
    none_freed(o);
    CHECK_EQ(sk_own_n(o), 0);
    sk_own_destroy(o);
}

TEST(own_freed_inside_is_gone_before_the_drain) {
    struct sk_own *o = make();
    add(o, 1, 0);
    add(o, 2, 0);
    CHECK_OK(sk_own_contains(o, 1, (const uint64_t[]){2}, 1, NULL));
    CHECK_OK(sk_own_unref(o, 2, 0, 1, NULL));
    CHECK_OK(sk_own_unref(o, 1, 0, 1, NULL));
    CHECK_RC(sk_own_ref(o, 2, 0, 1, NULL), SK_ENOENT);
    add(o, 2, 0); /* a new object of that name while the old one waits in the queue */
    freed(o, 1);
    uint64_t id;
    void *data;
    CHECK(sk_own_next_freed(o, &id, &data));
    CHECK_EQ(id, 2);
    CHECK(sk_own_has(o, 2));
    CHECK(sk_own_check(o));
    sk_own_destroy(o);
}

TEST(own_chain_of_100000_needs_no_stack) {
    enum { N = 100000 };
    struct sk_own *o = make();
    for (uint64_t id = 1; id <= N; id++) {
        CHECK_OK(sk_own_add(o, id, 1, NULL, NULL));
        uint64_t inner = id - 1;
        if (inner) CHECK_OK(sk_own_contains(o, id, &inner, 1, NULL));
    }
    CHECK(sk_own_check(o));
    for (uint64_t id = 1; id < N; id++) CHECK_OK(sk_own_unref(o, id, 1, 1, NULL));
    none_freed(o);
    sk_own_proc_dead(o, 1);
    CHECK(sk_own_check(o));
    uint64_t id, want = N;
    void *data;
    for (; sk_own_next_freed(o, &id, &data); want--) CHECK_EQ(id, want);
    CHECK_EQ(want, 0);
    CHECK_EQ(sk_own_n(o), 0);
    sk_own_destroy(o);
}

TEST(own_each_sees_all_alive) {
    struct sk_own *o = make();
    for (uint64_t id = 1; id <= 60; id++) add(o, id, 0);
    for (uint64_t id = 1; id <= 60; id += 3) CHECK_OK(sk_own_unref(o, id, 0, 1, NULL));
    uint64_t id, seen = 0;
    void *data;
    for (uint32_t c = 0; sk_own_each(o, &c, &id, &data);) {
        CHECK(data == &tag_of[id % 16] && id % 3 != 1 && !(seen >> id & 1));
        seen |= UINT64_C(1) << id;
    }
    CHECK_EQ(__builtin_popcountll(seen), 40);
    sk_own_destroy(o);
}

/* Runs a small program with all operations. false: the creation was refused memory. */
static bool program(int *refused) {
    struct sk_own *o = NULL;
    sk_rc rc = sk_own_create(&o, NULL);
    if (rc != SK_OK) {
        CHECK_EQ(rc, SK_ENOMEM);
        ++*refused;
        return false;
    }
#define DO(call)                                    \
    do {                                            \
        uint64_t n_ = sk_own_n(o);                  \
        sk_rc rc_ = (call);                         \
        CHECK(sk_own_check(o));                     \
        if (rc_ == SK_ENOMEM) {                     \
            CHECK_EQ(sk_own_n(o), n_);              \
            ++*refused;                             \
            rc_ = (call); /* the hook fails once */ \
        }                                           \
        CHECK_OK(rc_);                              \
    } while (0)
    for (uint64_t id = 1; id <= 100; id++) {
        DO(sk_own_add(o, id, (uint32_t)(id % 4), NULL, NULL));
        DO(sk_own_ref(o, id, 5, 2, NULL));
        if (id > 2) DO(sk_own_contains(o, id, (const uint64_t[]){id - 1, id - 2}, 2, NULL));
    }
    for (uint32_t p = 1; p <= 5; p++) sk_own_proc_dead(o, p);
    CHECK(sk_own_check(o));
    sk_own_destroy(o);
    return true;
}

TEST(own_refused_memory_changes_nothing) {
    int total = 0;
    for (int64_t nth = 1;; nth++) {
        int refused = 0;
        sk_mem_fail_at(nth);
        (void)program(&refused);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(refused, hit);
        CHECK_EQ(sk_mem_bytes(SK_TAG_ENGINE), 0);
        total += refused;
        if (!hit) break;
    }
    CHECK_GE(total, 10);
}

TEST_LARGE(own_is_fast, 60) {
    enum { N = 100000 };
    struct sk_own *o = make();
    uint64_t id;
    void *data;
    for (uint64_t i = 1; i <= N; i++) /* alive beside */
        CHECK_OK(sk_own_add(o, i, 0, NULL, NULL));
    int64_t best = INT64_MAX;
    for (int round = 0; round < 3; round++) {
        int64_t t0 = test_cpu_ns();
        for (uint64_t i = N + 1; i <= 5 * N; i++) {
            CHECK_OK(sk_own_add(o, i, 0, NULL, NULL));
            CHECK_OK(sk_own_unref(o, i, 0, 1, NULL));
            while (sk_own_next_freed(o, &id, &data));
        }
        best = SK_MIN(best, (test_cpu_ns() - t0) / (4 * N));
    }
    printf("# add + unref + drain: %lld ns with %d alive\n", (long long)best, N);
    /* 60 is the aim; this only detects another order of growth */
    CHECK(test_sanitized() || best < 1000);
    sk_own_destroy(o);
}

TEST(own_uncontain) {
    /* the value of an object is lost: the references inside are released; the object stays and may
     * get another value */
    struct sk_own *o = make();
    for (uint64_t id = 1; id <= 4; id++) add(o, id, 0);
    uint64_t in[] = {2, 3, 2};
    CHECK_OK(sk_own_contains(o, 1, in, 3, NULL));
    CHECK_EQ(sk_own_n_inner(o, 1), 3);
    CHECK_OK(sk_own_unref(o, 2, 0, 1, NULL));
    none_freed(o);
    sk_own_uncontain(o, 1);
    freed(o, 2);
    none_freed(o);
    CHECK_EQ(sk_own_n_inner(o, 1), 0);
    CHECK_EQ(sk_own_count(o, 3), 1);
    sk_own_uncontain(o, 1);
    sk_own_uncontain(o, 99);
    in[0] = 4;
    CHECK_OK(sk_own_contains(o, 1, in, 1, NULL));
    CHECK_OK(sk_own_unref(o, 4, 0, 1, NULL));
    CHECK_OK(sk_own_unref(o, 1, 0, 1, NULL));
    freed(o, 1);
    freed(o, 4);
    sk_own_destroy(o);
}

TEST(own_pass_inner) {
    /* the value is lost, but a process still reads it: another object holds its inner references
     * from now on */
    struct sk_own *o = make();
    for (uint64_t id = 1; id <= 3; id++) add(o, id, 0);
    uint64_t in[] = {2, 2};
    CHECK_OK(sk_own_contains(o, 1, in, 2, NULL));
    CHECK_OK(sk_own_unref(o, 2, 0, 1, NULL));
    sk_own_pass_inner(o, 1, 3);
    CHECK(sk_own_check(o));
    CHECK_EQ(sk_own_n_inner(o, 1), 0);
    CHECK_EQ(sk_own_n_inner(o, 3), 2);
    CHECK_OK(sk_own_unref(o, 1, 0, 1, NULL));
    freed(o, 1);
    none_freed(o);
    CHECK_OK(sk_own_unref(o, 3, 0, 1, NULL));
    freed(o, 3);
    freed(o, 2);
    add(o, 4, 0);
    add(o, 5, 0);
    sk_own_pass_inner(o, 4, 5); /* nothing to pass on */
    CHECK_EQ(sk_own_n_inner(o, 5), 0);
    for (uint64_t id = 4; id <= 5; id++) {
        CHECK_OK(sk_own_unref(o, id, 0, 1, NULL));
        freed(o, id);
    }
    sk_own_destroy(o);
}

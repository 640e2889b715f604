/* test_engine_lineage.c - which tasks lineage keeps to remake lost objects, by example. Random
 * graphs against a naive model: sim/lineage_sim.c. Through the local engine:
 * test_engine_recover.c. */
#include "base/clock.h"
#include "engine/own/lineage.h"
#include "test.h"

enum { BIG = 1 << 30 };

static struct sk_lineage *make(uint64_t budget) {
    struct sk_lineage *l = NULL;
    CHECK_OK(sk_lineage_create(&l, budget, NULL));
    return l;
}

/* Adds task `id` with its id as data, 100 bytes; the lists end with 0. */
static void add_full(struct sk_lineage *l, uint64_t id, int32_t retries, bool open,
                     const uint64_t *args, const uint64_t *rets) {
    struct sk_lineage_task t = {.id = id,
                                .args = args,
                                .returns = rets,
                                .bytes = 100,
                                .retries = retries,
                                .open = open,
                                .data = (void *)(uintptr_t)id};
    while (args[t.n_args]) t.n_args++;
    while (rets[t.n_returns]) t.n_returns++;
    CHECK_OK(sk_lineage_add(l, &t, NULL));
    CHECK(sk_lineage_check(l));
}
#define IDS(...) ((const uint64_t[]){__VA_ARGS__})
static void add(struct sk_lineage *l, uint64_t id, const uint64_t *args, const uint64_t *rets) {
    add_full(l, id, 3, false, args, rets);
}

static void gone(struct sk_lineage *l, uint64_t oid) {
    sk_lineage_gone(l, oid, SK_LOST_PUT);
    CHECK(sk_lineage_check(l));
}

/* Checks that next_free returns exactly these, in this order; 0 ends the list. */
static void freed(struct sk_lineage *l, const uint64_t *want) {
    uint64_t id;
    void *data;
    for (; *want; want++) {
        CHECK(sk_lineage_next_free(l, &id, &data));
        CHECK_EQ(id, *want);
        CHECK_EQ((uintptr_t)data, id);
    }
    CHECK(!sk_lineage_next_free(l, &id, &data));
}

/* Checks that lost(oid) returns these objects and tasks, in this order. */
static void remade(struct sk_lineage *l, uint64_t oid, const uint64_t *objects,
                   const uint64_t *tasks) {
    enum sk_lost_why why = SK_LOST_PUT;
    uint64_t culprit = 0, id;
    void *data;
    int32_t retries;
    CHECK(sk_lineage_lost(l, oid, &why, &culprit));
    for (; *objects; objects++) {
        CHECK(sk_lineage_next_object(l, &id));
        CHECK_EQ(id, *objects);
    }
    CHECK(!sk_lineage_next_object(l, &id));
    for (; *tasks; tasks++) {
        CHECK(sk_lineage_next_task(l, &id, &data, &retries));
        CHECK_EQ(id, *tasks);
        CHECK_EQ((uintptr_t)data, id);
    }
    CHECK(!sk_lineage_next_task(l, &id, &data, &retries));
    CHECK(sk_lineage_check(l));
}

static void hopeless(struct sk_lineage *l, uint64_t oid, enum sk_lost_why given,
                     enum sk_lost_why want, uint64_t want_culprit) {
    enum sk_lost_why why = given;
    uint64_t culprit = 0;
    CHECK(!sk_lineage_lost(l, oid, &why, &culprit));
    CHECK_EQ(why, want);
    CHECK_EQ(culprit, want_culprit);
    CHECK(sk_lineage_check(l));
}

TEST(lineage_one_task) {
    struct sk_lineage *l = make(BIG);
    add(l, 1, IDS(0), IDS(11, 12, 0));
    CHECK_EQ(sk_lineage_n(l), 1);
    CHECK_EQ(sk_lineage_bytes(l), 100);
    CHECK_EQ((uintptr_t)sk_lineage_maker(l, 12), 1);
    CHECK(sk_lineage_maker(l, 1) == NULL && sk_lineage_maker(l, 13) == NULL);
    gone(l, 11);
    freed(l, IDS(0));
    CHECK(!sk_lineage_knows(l, 11));
    gone(l, 11); /* an unknown id has no effect */
    gone(l, 12);
    freed(l, IDS(1, 0));
    CHECK_EQ(sk_lineage_bytes(l), 0);
    add(l, 1, IDS(0), IDS(0)); /* nothing needs it */
    freed(l, IDS(1, 0));
    sk_lineage_destroy(l);
    sk_lineage_destroy(NULL);
}

TEST(lineage_refuses) {
    struct sk_lineage *l = make(BIG);
    add(l, 1, IDS(0), IDS(11, 0));
    add(l, 2, IDS(11, 0), IDS(21, 0));
    gone(l, 11);
    struct sk_lineage_task t = {
        .id = 3, .args = IDS(11), .n_args = 1, .returns = IDS(31), .n_returns = 1, .retries = 1};
    CHECK_RC(sk_lineage_add(l, &t, NULL), SK_EINVAL); /* out of scope */
    t.args = IDS(5);
    t.returns = IDS(21);
    CHECK_RC(sk_lineage_add(l, &t, NULL), SK_EINVAL); /* made by 2 */
    t.returns = IDS(31);
    t.retries = 0;
    CHECK_RC(sk_lineage_add(l, &t, NULL), SK_EINVAL);
    t.retries = 1;
    t.id = 2;
    CHECK_RC(sk_lineage_add(l, &t, NULL), SK_EINVAL);
    t.id = 0;
    CHECK_RC(sk_lineage_add(l, &t, NULL), SK_EINVAL);
    CHECK_RC(sk_lineage_return(l, 1, 21, 0, NULL), SK_EINVAL);
    CHECK(!sk_lineage_knows(l, 5) && !sk_lineage_knows(l, 31));
    CHECK(sk_lineage_check(l));
    sk_lineage_destroy(l);
}

TEST(lineage_holds_nothing_but_keeps_what_remakes) {
    struct sk_lineage *l = make(BIG);
    add(l, 1, IDS(0), IDS(11, 0));
    add(l, 2, IDS(11, 0), IDS(21, 0));
    add(l, 3, IDS(21, 11, 21, 0), IDS(31, 0)); /* an argument may occur twice */
    gone(l, 11);
    gone(l, 21);
    freed(l, IDS(0));
    CHECK_EQ(sk_lineage_n(l), 3);
    remade(l, 31, IDS(21, 11, 0), IDS(1, 2, 3, 0)); /* arguments first */
    remade(l, 31, IDS(0), IDS(0));                  /* under way */
    sk_lineage_done(l, 1, 2);
    sk_lineage_done(l, 2, 2);
    gone(l, 11);
    gone(l, 21);
    sk_lineage_done(l, 3, 2);
    CHECK(sk_lineage_check(l));
    remade(l, 31, IDS(21, 11, 0), IDS(1, 2, 3, 0));
    /* the object is not needed any more: the tasks that make it are dropped from lineage */
    gone(l, 31);
    gone(l, 11);
    gone(l, 21);
    freed(l, IDS(3, 2, 1, 0));
    CHECK_EQ(sk_lineage_n(l), 0);
    sk_lineage_done(l, 3, 1);
    sk_lineage_destroy(l);
}

TEST(lineage_only_what_is_missing) {
    struct sk_lineage *l = make(BIG);
    add(l, 1, IDS(0), IDS(11, 12, 0));
    add(l, 2, IDS(11, 0), IDS(21, 0));
    add(l, 3, IDS(12, 21, 0), IDS(31, 0));
    gone(l, 21);
    remade(l, 31, IDS(21, 0), IDS(2, 3, 0)); /* 11 and 12 are in scope */
    remade(l, 11, IDS(0), IDS(1, 0));        /* lost, too */
    remade(l, 12, IDS(0), IDS(0));           /* comes with it */
    sk_lineage_destroy(l);
}

TEST(lineage_reasons) {
    struct sk_lineage *l = make(BIG);
    hopeless(l, 5, SK_LOST_PUT, SK_LOST_PUT, 5); /* unknown: as the caller says */
    hopeless(l, 6, SK_LOST_ACTOR, SK_LOST_ACTOR, 6);
    add(l, 1, IDS(5, 0), IDS(11, 0));
    add(l, 2, IDS(11, 6, 0), IDS(21, 0));
    add(l, 3, IDS(21, 0), IDS(31, 0));
    gone(l, 21);
    gone(l, 5); /* put() and gone: task 1 cannot run again, but 11 is there, so 2 and 3 can */
    freed(l, IDS(1, 0));
    hopeless(l, 11, SK_LOST_PUT, SK_LOST_PUT, 5); /* lost: now 2 and 3 cannot either */
    freed(l, IDS(2, 3, 0));
    hopeless(l, 31, SK_LOST_EVICTED, SK_LOST_PUT, 5);
    gone(l, 31);
    gone(l, 11);
    CHECK(!sk_lineage_knows(l, 31) && !sk_lineage_knows(l, 11) && !sk_lineage_knows(l, 5));
    add(l, 4, IDS(6, 0), IDS(41, 0));
    sk_lineage_gone(l, 6, SK_LOST_ACTOR);
    freed(l, IDS(4, 0));
    hopeless(l, 41, SK_LOST_PUT, SK_LOST_ACTOR, 6);
    sk_lineage_destroy(l);
}

TEST(lineage_retries) {
    struct sk_lineage *l = make(BIG);
    add_full(l, 1, 1, false, IDS(0), IDS(11, 0));
    add_full(l, 2, -1, false, IDS(11, 0), IDS(21, 0));
    enum sk_lost_why why;
    uint64_t culprit, id;
    void *data;
    int32_t retries;
    for (int i = 0; i < 5; i++) {
        CHECK(sk_lineage_lost(l, 21, &why, &culprit));
        CHECK(sk_lineage_next_task(l, &id, &data, &retries));
        CHECK(id == 2 && retries == -1);
        sk_lineage_done(l, 2, retries);
    }
    gone(l, 11);
    CHECK(sk_lineage_lost(l, 21, &why, &culprit));
    CHECK(sk_lineage_next_object(l, &id) && id == 11);
    CHECK(sk_lineage_next_task(l, &id, &data, &retries));
    CHECK(id == 1 && retries == 0);
    CHECK(sk_lineage_next_task(l, &id, &data, &retries));
    CHECK(sk_lineage_check(l));
    sk_lineage_done(l, 1, 0); /* the last time */
    sk_lineage_done(l, 2, -1);
    freed(l, IDS(1, 0));
    CHECK_EQ(sk_lineage_n(l), 1);
    gone(l, 11);
    freed(l, IDS(2, 0));
    hopeless(l, 21, SK_LOST_PUT, SK_LOST_RETRIES, 11);
    sk_lineage_destroy(l);
}

TEST(lineage_budget) {
    struct sk_lineage *l = make(350);
    for (uint64_t i = 1; i <= 3; i++)
        add(l, i, i > 1 ? IDS(10 * i - 9, 0) : IDS(0), (const uint64_t[]){10 * i + 1, 0});
    add(l, 9, IDS(0), IDS(91, 0)); /* 400 > 350: the oldest goes; 11 is in scope, so 2 stays */
    freed(l, IDS(1, 0));
    hopeless(l, 11, SK_LOST_PUT, SK_LOST_EVICTED, 11);
    freed(l, IDS(2, 0)); /* its argument is lost for good */
    CHECK_EQ(sk_lineage_n(l), 2);
    struct sk_lineage_task t = {.id = 7,
                                .args = IDS(91),
                                .n_args = 1,
                                .returns = IDS(71),
                                .n_returns = 1,
                                .retries = 1,
                                .bytes = 351,
                                .data = (void *)7};
    CHECK_OK(sk_lineage_add(l, &t, NULL)); /* a task that does not fit alone drops no other */
    freed(l, IDS(7, 0));
    hopeless(l, 71, SK_LOST_PUT, SK_LOST_EVICTED, 71);
    CHECK_EQ(sk_lineage_n(l), 2);
    CHECK_EQ(sk_lineage_n_evicted(l), 2);
    t = (struct sk_lineage_task){.id = 8,
                                 .args = IDS(91),
                                 .n_args = 1,
                                 .returns = IDS(81),
                                 .n_returns = 1,
                                 .retries = 1,
                                 .bytes = 351,
                                 .open = true,
                                 .data = (void *)8};
    /* a running task is counted but not dropped; the others are */
    CHECK_OK(sk_lineage_add(l, &t, NULL));
    freed(l, IDS(3, 9, 0));
    sk_lineage_done(l, 8, 1);
    freed(l, IDS(8, 0));
    CHECK(sk_lineage_check(l));
    CHECK_EQ(sk_lineage_bytes(l), 0);
    sk_lineage_destroy(l);
}

TEST(lineage_counts_what_tasks_share) {
    struct sk_lineage *l = make(350);
    add(l, 1, IDS(0), IDS(11, 0));
    add(l, 2, IDS(0), IDS(21, 0));
    sk_lineage_charge(l, 150);
    CHECK(sk_lineage_check(l));
    CHECK_EQ(sk_lineage_bytes(l), 350);
    freed(l, IDS(0));
    sk_lineage_charge(l, 1); /* the oldest task goes */
    CHECK(sk_lineage_check(l));
    freed(l, IDS(1, 0));
    CHECK_EQ(sk_lineage_bytes(l), 251);
    gone(l, 21);
    freed(l, IDS(2, 0));
    sk_lineage_charge(l, -151);
    CHECK(sk_lineage_check(l));
    CHECK_EQ(sk_lineage_bytes(l), 0);
    sk_lineage_destroy(l);
}

TEST(lineage_evicts_downstream_of_what_is_gone) {
    struct sk_lineage *l = make(350);
    add(l, 1, IDS(0), IDS(11, 0));
    add(l, 2, IDS(11, 0), IDS(21, 0));
    add(l, 3, IDS(21, 0), IDS(31, 0));
    gone(l, 11);
    gone(l, 21);
    add(l, 4, IDS(0), IDS(41, 0)); /* 1 is dropped, so 2 and 3 are useless */
    freed(l, IDS(1, 2, 3, 0));
    hopeless(l, 31, SK_LOST_PUT, SK_LOST_EVICTED, 11);
    CHECK_EQ(sk_lineage_n(l), 1);
    sk_lineage_destroy(l);
}

TEST(lineage_stream) {
    struct sk_lineage *l = make(BIG);
    add_full(l, 1, 3, true, IDS(5, 0), IDS(11, 0));
    gone(l, 11); /* nothing of it is needed, but more comes */
    freed(l, IDS(0));
    CHECK_OK(sk_lineage_return(l, 1, 12, 8, NULL));
    CHECK_EQ(sk_lineage_bytes(l), 108);
    add(l, 2, IDS(12, 0), IDS(21, 0));
    gone(l, 12);
    CHECK_OK(sk_lineage_return(l, 1, 13, 8, NULL));
    CHECK(sk_lineage_check(l));
    remade(l, 13, IDS(0), IDS(0));        /* its maker is running: reported again when it ends */
    remade(l, 21, IDS(12, 0), IDS(2, 0)); /* 12 in scope again */
    sk_lineage_done(l, 1, 3);
    remade(l, 13, IDS(0), IDS(1, 0));
    sk_lineage_done(l, 1, 2);
    sk_lineage_done(l, 2, 2);
    gone(l, 12);
    gone(l, 13);
    freed(l, IDS(0));
    gone(l, 21);
    freed(l, IDS(2, 1, 0));
    CHECK_OK(sk_lineage_return(l, 1, 14, 8, NULL)); /* forgotten meanwhile */
    hopeless(l, 14, SK_LOST_PUT, SK_LOST_EVICTED, 14);
    gone(l, 14);
    CHECK(!sk_lineage_knows(l, 14));
    sk_lineage_destroy(l);
}

TEST_LARGE(lineage_long_chain, 60) {
    enum { N = 100000 };
    struct sk_lineage *l = make((uint64_t)1 << 40);
    for (uint64_t i = 1; i <= N; i++) { /* task i: object i - 1 -> i */
        struct sk_lineage_task t = {.id = i,
                                    .args = (const uint64_t[]){i - 1},
                                    .n_args = i > 1,
                                    .returns = &i,
                                    .n_returns = 1,
                                    .retries = -1,
                                    .bytes = 1};
        CHECK_OK(sk_lineage_add(l, &t, NULL));
        if (i > 1) sk_lineage_gone(l, i - 1, SK_LOST_PUT);
    }
    CHECK_EQ(sk_lineage_n(l), N);
    enum sk_lost_why why;
    uint64_t culprit, id, n = 0;
    void *data;
    int32_t retries;
    CHECK(sk_lineage_lost(l, N, &why, &culprit));
    while (sk_lineage_next_object(l, &id)) n++;
    CHECK_EQ(n, N - 1);
    for (uint64_t i = 1; i <= N; i++)
        CHECK(sk_lineage_next_task(l, &id, &data, &retries) && id == i);
    for (uint64_t i = 1; i <= N; i++) sk_lineage_done(l, i, -1);
    for (uint64_t i = 1; i < N; i++) sk_lineage_gone(l, i, SK_LOST_PUT);
    CHECK(sk_lineage_check(l));
    /* From the far end: all are dropped as useless. */
    sk_lineage_gone(l, N, SK_LOST_PUT);
    for (n = 0; sk_lineage_next_free(l, &id, &data);) n++;
    CHECK_EQ(n, N);
    /* From the near end: all are dropped as hopeless. */
    for (uint64_t i = 1; i <= N; i++) {
        struct sk_lineage_task t = {.id = i,
                                    .args = (const uint64_t[]){i == 1 ? N + 1 : i - 1},
                                    .n_args = 1,
                                    .returns = &i,
                                    .n_returns = 1,
                                    .retries = -1,
                                    .bytes = 1};
        CHECK_OK(sk_lineage_add(l, &t, NULL));
        if (i > 1) sk_lineage_gone(l, i - 1, SK_LOST_PUT);
    }
    sk_lineage_gone(l, N + 1, SK_LOST_PUT);
    for (n = 0; sk_lineage_next_free(l, &id, &data);) n++;
    CHECK_EQ(n, N);
    hopeless(l, N, SK_LOST_EVICTED, SK_LOST_PUT, N + 1);
    sk_lineage_destroy(l);
}

TEST(lineage_no_memory) {
    for (int64_t n = 1;; n++) {
        struct sk_lineage *l = make(BIG);
        add(l, 1, IDS(0), IDS(11, 0));
        uint64_t args[40], rets[40];
        for (uint64_t i = 0; i < 40; i++) args[i] = 1000 + i, rets[i] = 2000 + i;
        struct sk_lineage_task t = {.id = 2,
                                    .args = args,
                                    .n_args = 40,
                                    .returns = rets,
                                    .n_returns = 40,
                                    .retries = 1,
                                    .bytes = 1,
                                    .open = true};
        sk_mem_fail_at(n);
        sk_rc rc = sk_lineage_add(l, &t, NULL);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, hit ? SK_ENOMEM : SK_OK);
        CHECK(sk_lineage_check(l));
        CHECK_EQ(sk_lineage_n(l), hit ? 1 : 2);
        CHECK_EQ(sk_lineage_knows(l, 1000), !hit);
        sk_lineage_destroy(l);
        if (!hit) {
            CHECK(n > 2);
            break;
        }
    }
    for (int64_t n = 1;; n++) {
        struct sk_lineage *l = NULL;
        sk_mem_fail_at(n);
        sk_rc rc = sk_lineage_create(&l, 1, NULL);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, hit ? SK_ENOMEM : SK_OK);
        sk_lineage_destroy(l);
        if (!hit) break;
    }
}

TEST(lineage_speed) { /* a number for the header, and a guard against something quadratic */
    struct sk_lineage *l = make(BIG);
    int64_t best = INT64_MAX;
    for (int k = 0; k < 5; k++) {
        enum { N = 20000 };
        int64_t t0 = test_cpu_ns();
        for (uint64_t i = 0; i < N; i++) {
            uint64_t arg = 1000000 + i, ret = 2000000 + i, id;
            void *data;
            struct sk_lineage_task t = {.id = 1 + i,
                                        .args = &arg,
                                        .n_args = 1,
                                        .returns = &ret,
                                        .n_returns = 1,
                                        .retries = 1,
                                        .bytes = 1};
            CHECK_OK(sk_lineage_add(l, &t, NULL));
            sk_lineage_gone(l, ret, SK_LOST_PUT);
            CHECK(sk_lineage_next_free(l, &id, &data));
        }
        best = SK_MIN(best, (test_cpu_ns() - t0) / N);
    }
    printf("# add + gone + free: %lld ns\n", (long long)best);
    CHECK_EQ(sk_lineage_n(l), 0);
    if (!test_sanitized()) CHECK_LT(best, 5000);
    sk_lineage_destroy(l);
}

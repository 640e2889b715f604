/* test_exec_share.c - the estimate of share.c from facts that the test gives, one at a time; how
 * good it is over whole runs: time_left_of_known_runs in sim/exec_sim.c. */
#include <math.h>

#include "exec/step/share.h"
#include "test.h"

#define S 1e9
static const struct sk_share_op NONE = {.parent = UINT32_MAX, .units = -1, .limit = -1};

/* A stage with tasks of one second each and blocks of 100 bytes and 10 rows. */
static struct sk_share_op stage(double done, double begun, double came) {
    struct sk_share_op o = NONE;
    o.runs = true;
    o.cpus = 1;
    o.slots = 4;
    o.n_fused = 1;
    o.done = done;
    o.running = o.begun = begun;
    o.queued = came - done - begun;
    o.came = came * 100;
    o.done_in = done * 100;
    o.running_in = begun * 100;
    o.out = o.out_done = done * 100;
    o.rows_out = done * 10;
    o.done_ns = done * S;
    o.recent_ns = done > 0 ? S : 0;
    o.ages_ns = begun * S / 2;
    o.oldest_ns = begun > 0 ? S / 2 : 0;
    return o;
}

static struct sk_share_op source(double done, double begun, double units) {
    struct sk_share_op o = stage(done, begun, units);
    o.units = units;
    o.came = o.done_in = o.running_in = 0;
    return o;
}

/* memory 0: all has room; the store is a little larger; disk_s: seconds in which the disk reads a
 * byte */
static struct sk_share ask_in(struct sk_share_op *op, uint32_t n, double now_s, double memory,
                              double disk_s) {
    for (uint32_t i = 0; i + 1 < n; i++)
        if (op[i].parent == UINT32_MAX) op[i].parent = i + 1;
    struct sk_share_run r = {.op = op,
                             .n = n,
                             .cpus = 4,
                             .task_bytes = 100,
                             .now_ns = now_s * S,
                             .memory = memory,
                             .store = memory + memory / 9,
                             .disk_ns = disk_s * S};
    if (op[0].live_ns <= 0) op[0].live_ns = now_s * S;
    return sk_share(&r);
}

static struct sk_share ask(struct sk_share_op *op, uint32_t n, double now_s) {
    return ask_in(op, n, now_s, 0, 0);
}

static double left(struct sk_share a) { return (double)a.left_ns / S; }
static bool near(double a, double b) { return fabs(a - b) < 0.02 * b + 1e-6; }
#define CHECK_NEAR(a, b) CHECK_MSG(near(a, b), "%g, not %g", (double)(a), (double)(b))

TEST(nothing_is_known_before_a_task_is_done) {
    struct sk_share_op op[] = {source(0, 4, 100)};
    struct sk_share a = ask(op, 1, 1);
    CHECK_EQ(a.left_ns, -1);
    CHECK(a.share <= 0);
    CHECK_EQ(ask(op, 0, 1).left_ns, -1);
    op[0] = source(4, 4, 100); /* the first one of each worker is slower than the others */
    CHECK_EQ(ask(op, 1, 2).left_ns, -1);
    op[0] = source(5, 4, 100);
    CHECK_GT(ask(op, 1, 2).left_ns, 0);
    struct sk_share_op empty[] = {source(0, 0, 0)}; /* a run without tasks */
    CHECK_EQ(ask(empty, 1, 1).left_ns, -1);
}

TEST(a_source_knows_its_tasks) {
    struct sk_share_op op[] = {source(40, 4, 100)};
    struct sk_share a = ask(op, 1, 10.5);
    CHECK_NEAR(left(a), 14.5); /* 60 tasks, 4 of them half done, 4 at a time */
    CHECK_NEAR(a.share, 10.5 / 25);
    CHECK(!a.guess);
}

TEST(larger_units_take_longer) {
    struct sk_share_op op[] = {source(40, 0, 100)};
    op[0].larger = 4;
    CHECK_NEAR(left(ask(op, 1, 10)), 60);
}

TEST(inputs_that_are_read_are_not_the_work) {
    struct sk_share_op op[] = {source(100, 0, 100), stage(8, 4, 100)};
    op[0].over = true;
    op[0].done_ns = S;
    op[0].recent_ns = S / 100;
    struct sk_share a = ask(op, 2, 2.75);
    CHECK_NEAR(left(a), 22.5);
    CHECK(a.share < 0.15);
}

TEST(a_stage_gets_what_its_inputs_still_give) {
    /* half of the input has come; a task of the source takes a tenth of a second */
    struct sk_share_op op[] = {source(50, 0, 100), stage(20, 4, 50)};
    op[0].done_ns = 5 * S;
    op[0].recent_ns = S / 10;
    CHECK_NEAR(left(ask(op, 2, 6.75)), (78 + 5) / 4.0);
    /* the source yields a tenth: fewer tasks follow */
    op[0].out = op[0].out_done = 500;
    op[0].live_ns = 2.25 * S;
    op[1] = stage(4, 0, 5);
    CHECK_NEAR(left(ask(op, 2, 2.25)), (6 + 5) / 4.0);
}

TEST(the_last_tasks_take_their_time) {
    struct sk_share_op op[] = {source(96, 2, 98)};
    op[0].over = true;
    CHECK_NEAR(left(ask(op, 1, 24.25)), 0.5);
    op[0].ages_ns = 20 * S; /* it should have ended long ago: soon */
    CHECK_NEAR(left(ask(op, 1, 24.45)), 0.1);
    op[0] = source(1, 0, 2); /* one after the other, whatever the number of CPUs */
    op[0].slots = 1;
    CHECK_NEAR(left(ask(op, 1, 1)), 1);
}

TEST(few_slots_hold_a_run_back) {
    struct sk_share_op op[] = {source(100, 0, 100), stage(20, 0, 100)};
    op[0].over = true;
    op[0].done_ns = S;
    op[0].recent_ns = S / 100;
    op[1].slots = 2; /* actors */
    CHECK_NEAR(left(ask(op, 2, 10)), 40);
}

TEST(an_exchange_is_expected_from_its_packing) {
    struct sk_share_op op[] = {source(50, 0, 100), stage(0, 0, 50)};
    op[0].pack_ns = 10 * S;
    op[1].waits = true;
    struct sk_share a = ask(op, 2, 12.5);
    CHECK_NEAR(left(a), 12.5 + 5 * 20 / 4.0);
    CHECK(!a.guess);
    op[1].n_fused = 2; /* other operators follow in its tasks: as long again as all before it */
    a = ask(op, 2, 12.5);
    CHECK_NEAR(left(a), 12.5 + 25 + 25);
    CHECK(a.guess);
}

struct size {
    double parts, work;
};
static void size_of(const void *of, double all, double *in, double *work) {
    const struct size *s = of;
    *in = all / s->parts;
    *work = s->work;
}

/* Half of 10,000 bytes have come, of which tasks take 400 each, with an output of 400; by the
 * packing of their input they take 100 s in all. Returns the time of these tasks. guess: whether
 * the answer has to say that it is one, because the disk has not shown how fast it is. */
static double reduces(double memory, double disk_s, double work, bool guess) {
    struct size size = {.parts = 25, .work = work};
    struct sk_share_op op[] = {source(50, 0, 100), stage(0, 0, 50)};
    op[0].pack_ns = 10 * S;
    op[1].waits = true;
    op[1].queued = 0;
    op[1].size = size_of;
    op[1].of = &size;
    struct sk_share a = ask_in(op, 2, 12.5, memory, disk_s);
    CHECK_NEAR(op[1].tasks, 25);
    CHECK_EQ(a.guess, guess);
    return left(a) - 12.5;
}

TEST(as_many_tasks_run_at_once_as_have_room) {
    CHECK_NEAR(reduces(0, 0, 0, false), 25);
    CHECK_NEAR(reduces(3200, 0, 0, true), 25);
    CHECK_NEAR(reduces(3199, 0, 0, true), 100 / 3.0);
    CHECK_NEAR(reduces(1599, 0, 0, true), 100);
    CHECK_NEAR(reduces(3200, 0, 1, true), 100 / 3.0); /* tables */
    CHECK_NEAR(reduces(10, 0, 0, true), 100); /* the scheduler lets one run, whatever it needs */
}

TEST(what_has_no_room_is_read_from_disk) {
    CHECK_NEAR(reduces(900, 0.01, 0, false), 100 + 90); /* one at a time: it reads, then it works */
    CHECK_NEAR(reduces(20000, 0.01, 0, false), 25);     /* all stays in memory */
    CHECK_NEAR(reduces(3600, 0.001, 0, false), (100 + 6) / 4); /* the others work meanwhile */
    CHECK_NEAR(reduces(3600, 0.1, 0, false), 600);             /* there is one disk for all */
}

TEST(tasks_that_yield_little_need_less_room) {
    struct sk_share_op op[] = {source(50, 0, 50), stage(20, 0, 20)};
    op[0].over = op[1].waits = true;
    op[0].live_ns = 12.5 * S;
    op[1].taken = 2000; /* of 5,000 bytes */
    op[1].live_ns = 20 * S;
    double all = 30 / (1 + 50 / 8.0 / 20); /* packing took no time, which counts, too */
    CHECK_NEAR(left(ask_in(op, 2, 32.5, 300, 0)), all);
    op[1].out_done = 0;
    op[1].live_ns = 20 * S / 3;
    CHECK_NEAR(left(ask_in(op, 2, 19.2, 300, 0)), all / 3);
}

TEST(several_reduces_may_take_the_same_rows) {
    struct sk_share_op op[] = {source(50, 0, 50), stage(20, 0, 20)};
    op[0].over = true;
    op[1].waits = true;
    op[1].done_in = 4000; /* of 5,000 bytes, of which 1,000 are done */
    op[1].taken = 1000;
    op[0].pack_ns = 20 * S; /* it expects a second for each of 100 tasks */
    op[0].live_ns = 12.5 * S;
    op[1].live_ns = 5 * S;
    CHECK_NEAR(left(ask(op, 2, 17.5)), 20);
}

TEST(a_stage_passes_on_what_its_tasks_leave) {
    struct sk_share_op op[] = {source(50, 0, 50), stage(1, 0, 0), stage(0, 0, 0)};
    op[0].over = op[1].over = true;
    op[1].passes = true; /* one merge took 100 of the 5,000 bytes and made 80 of them */
    op[1].out = op[1].out_done = 80;
    op[1].done_ns = op[1].recent_ns = 0;
    op[2].waits = true;
    ask(op, 3, 12.5);
    CHECK_NEAR(op[2].all_in, 4980);
    op[1].done_in = 0; /* no merge has run */
    op[1].done = op[1].out = op[1].out_done = 0;
    ask(op, 3, 12.5);
    CHECK_NEAR(op[2].all_in, 5000);
}

TEST(a_stage_that_has_not_begun_is_a_guess) {
    struct sk_share_op op[] = {source(10, 0, 10), source(0, 0, 30), NONE};
    op[0].parent = 2;
    op[0].over = true;
    op[1].parent = 2; /* a union, whose inputs come one after the other */
    struct sk_share a = ask(op, 3, 2.5);
    CHECK_NEAR(left(a), 7.5);
    CHECK(a.guess);
    op[1] = source(1, 0, 30);
    op[1].parent = 2;
    CHECK(!ask(op, 3, 2.75).guess);
}

TEST(a_limit_needs_only_its_rows) {
    struct sk_share_op op[] = {source(40, 0, 1000), NONE};
    op[1].limit = 800; /* of 10,000 rows */
    CHECK_NEAR(left(ask(op, 2, 10)), 10);
}

TEST(the_consumer_may_be_the_slowest) {
    struct sk_share_op op[] = {source(40, 0, 100)};
    op[0].live_ns = 10 * S;
    struct sk_share_run r = {
        .op = op, .n = 1, .cpus = 4, .now_ns = 20 * S, .taken_rows = 200, .row_ns = S / 10};
    CHECK_NEAR(left(sk_share(&r)), 80);
}

TEST(a_run_that_was_slower_than_its_tasks_stays_so) {
    struct sk_share_op op[] = {source(40, 0, 100)};
    CHECK_NEAR(left(ask(op, 1, 20)), 25); /* of 15 at full speed */
}

/* Random facts, also impossible ones: a number, in its range. */
TEST(any_facts_give_a_number) {
    for (int i = 0; i < 20000; i++) {
        struct sk_share_op op[4];
        struct size sizes = {(double)(test_rand() % 3), (double)(test_rand() % 1000)};
        uint32_t n = 1 + (uint32_t)(test_rand() % 4);
        for (uint32_t k = 0; k < n; k++) {
            double v[12];
            for (int j = 0; j < 12; j++)
                v[j] = test_rand() % 3 ? (double)(test_rand() % 1000) : test_rand() % 2 ? 0 : 1e18;
            uint64_t r = test_rand();
            op[k] = (struct sk_share_op){.parent = k + 1 < n ? k + 1 : UINT32_MAX,
                                         .runs = r & 1,
                                         .over = r & 2,
                                         .waits = r & 4,
                                         .passes = r & 8,
                                         .n_fused = 1 + (r >> 4 & 1),
                                         .units = r & 32 ? v[0] : -1,
                                         .limit = r & 64 ? v[1] : -1,
                                         .larger = r & 2048 ? v[2] : 0,
                                         .cpus = (double)(r >> 8 & 1),
                                         .slots = 1 + (double)(r >> 9 & 3),
                                         .done = v[2],
                                         .running = v[3],
                                         .begun = v[3],
                                         .queued = v[4],
                                         .came = v[5],
                                         .done_in = v[6],
                                         .running_in = v[7],
                                         .out = v[8],
                                         .out_done = v[8],
                                         .rows_out = v[9],
                                         .done_ns = v[10],
                                         .recent_ns = v[10],
                                         .ages_ns = v[11],
                                         .oldest_ns = v[11],
                                         .pack_ns = v[0],
                                         .live_ns = v[1],
                                         .size = r & 1024 ? size_of : NULL,
                                         .of = &sizes};
        }
        struct sk_share_run r = {.op = op,
                                 .n = n,
                                 .cpus = 4,
                                 .task_bytes = (double)(test_rand() % 3),
                                 .now_ns = (double)(test_rand() % 1000),
                                 .memory = (double)(test_rand() % 1000),
                                 .store = (double)(test_rand() % 1000),
                                 .disk_ns = (double)(test_rand() % 3),
                                 .taken_rows = (double)(test_rand() % 3),
                                 .row_ns = (double)(test_rand() % 1000)};
        struct sk_share a = sk_share(&r);
        CHECK_MSG(a.share >= 0 && a.share < 1, "%g", a.share);
        CHECK(a.left_ns >= 0 || (a.left_ns == -1 && a.share <= 0));
    }
}

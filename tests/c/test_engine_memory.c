/* test_engine_memory.c - the rules of the memory budget (engine/rules/memory.c), by example. */
#include "engine/rules/memory.h"
#include "test.h"

#define MB UINT64_C(1048576)
#define T0 INT64_C(5000000000)
#define EVERY INT64_C(250000000)

static struct sk_memory m;
static struct sk_memory_plan plan;
static struct sk_memory_proc procs[16];
static uint32_t n_procs;

static void begin(void) {
    m = (struct sk_memory){.every_ns = EVERY};
    memset(procs, 0, sizeof procs);
    n_procs = 0;
}
static struct sk_memory_proc *add(enum sk_memory_what what, uint64_t mb) {
    procs[n_procs] = (struct sk_memory_proc){
        .heap_bytes = mb * MB, .what = what, .since_ns = T0, .retriable = true};
    return &procs[n_procs++];
}
static void decide(uint64_t limit_mb, uint64_t used_mb, uint64_t store_mb, uint64_t warm_mb,
                   int64_t now) {
    struct sk_memory_view v = {.now_ns = now,
                               .limit_bytes = limit_mb * MB,
                               .used_bytes = used_mb * MB,
                               .slack_bytes = limit_mb * MB / 16,
                               .store_bytes = store_mb * MB,
                               .warm_bytes = warm_mb * MB,
                               .spills = true,
                               .procs = procs,
                               .n_procs = n_procs};
    sk_memory_decide(&m, &v, &plan);
}

TEST(memory_plenty) {
    begin();
    add(SK_MEMORY_BUSY, 100);
    add(SK_MEMORY_IDLE, 100);
    decide(8000, 300, 100, 50, T0);
    CHECK(!m.low);
    CHECK_EQ(plan.stop, -1);
    CHECK_EQ(plan.leave, -1);
    CHECK_EQ(plan.punch_bytes, 0);
    CHECK_EQ(plan.next_ns, T0 + EVERY);
    /* memory above the mark of 1/64 */
    CHECK_EQ(plan.store_max_bytes, (100 + 50 + 7700 - 125) * MB);
    n_procs = 0;
    decide(80000, 300, 100, 50, T0); /* if no task runs, measurements are four times as rare */
    CHECK_EQ(plan.next_ns, T0 + 4 * EVERY);
}

TEST(memory_looks_more_often_when_little_is_left) {
    begin();
    add(SK_MEMORY_BUSY, 100);
    decide(1000, 920, 0, 0, T0);
    CHECK_LE(plan.next_ns - T0, INT64_C(11000000)); /* 80 MiB at 8 GB/s */
    CHECK_GE(plan.next_ns - T0, INT64_C(5000000));
    for (int i = 0; i < 15; i++) add(SK_MEMORY_IDLE, 1);
    decide(1000, 1000, 0, 0, T0);
    CHECK_GE(plan.next_ns - T0, INT64_C(4000000)); /* 16 measurements of a process cost 80 us */
}

TEST(memory_low_gives_back_in_order) {
    begin();
    add(SK_MEMORY_BUSY, 200); /* the mark: 1/8 of 1000 at most */
    add(SK_MEMORY_IDLE, 20);
    add(SK_MEMORY_IDLE, 90);
    decide(1000, 900, 300, 40, T0);
    CHECK(m.low);
    CHECK_EQ(plan.punch_bytes, 25 * MB);
    CHECK_EQ(plan.leave, 2);
    CHECK_EQ(plan.stop, -1);
    CHECK_EQ(plan.store_max_bytes, (300 + 40 - 25) * MB);
    decide(1000, 830, 300, 40, T0); /* not on and off at the mark itself */
    CHECK(m.low);
    decide(1000, 800, 300, 40, T0);
    CHECK(!m.low);
}

TEST(memory_stops_the_one_above_its_share) {
    begin();
    add(SK_MEMORY_BUSY, 100);
    add(SK_MEMORY_BUSY, 700);
    add(SK_MEMORY_BUSY, 120);
    decide(1000, 1020, 100, 0, T0);
    CHECK_EQ(plan.stop, -1); /* a small excess waits for objects to be written */
    decide(1000, 1020, 100, 0, T0 + SK_MEMORY_GRACE_NS);
    CHECK_EQ(plan.stop, 1);
    /* memory that the others do not use belongs to its share */
    CHECK_EQ(plan.share_bytes, (1000 - 100 - 100 - 120) * MB);
    decide(1000, 1200, 100, 0, T0); /* a large excess does not wait */
    CHECK_EQ(plan.stop, 1);
    procs[1].what = SK_MEMORY_GOING; /* its memory counts as free already */
    decide(1000, 1200, 100, 0, T0);
    CHECK_EQ(plan.stop, -1);
}

TEST(memory_those_that_grow_hold_still_until_a_stop_has_had_its_effect) {
    begin();
    for (int i = 0; i < 3; i++) add(SK_MEMORY_BUSY, 50);
    decide(400, 200, 0, 0, T0);
    int64_t now = m.due_ns;
    for (int i = 0; i < 3; i++) procs[i].heap_bytes += 50 * MB, procs[i].grown_bytes = 50 * MB;
    /* 50 are left, and 150 were used in these 25 ms: more will be used until a process is gone */
    decide(400, 350, 0, 0, now);
    CHECK(plan.stop >= 0 && plan.pause);
    CHECK_GE(m.ahead_bytes, 80 * MB);
    CHECK_LE(plan.next_ns - now, INT64_C(1000000));
    procs[plan.stop].what = SK_MEMORY_GOING;
    for (int i = 0; i < 3; i++) procs[i].grown_bytes = 0; /* they were held */
    decide(400, 350, 0, 0, now + 1000000);
    CHECK_EQ(plan.stop, -1); /* the memory that is being freed is enough */
    CHECK(plan.pause);
    /* the kernel has the memory back, but the death is not reported yet */
    decide(400, 250, 0, 0, now + 2000000);
    CHECK(!plan.pause && !m.paused_ns);
}

TEST(memory_a_process_that_does_not_go_holds_nobody_up) {
    begin();
    add(SK_MEMORY_BUSY, 100), add(SK_MEMORY_GOING, 200);
    decide(400, 390, 0, 0, T0);
    procs[0].grown_bytes = 50 * MB;
    decide(400, 395, 0, 0, T0 + 10000000);
    CHECK(plan.pause);
    for (int64_t t = T0 + 11000000; plan.pause; t += 1000000) {
        procs[0].grown_bytes = 0;
        decide(400, 395, 0, 0, t);
        CHECK_LE(t, T0 + 11000000 + SK_MEMORY_PAUSE_NS);
    }
}

TEST(memory_what_was_asked_for_is_the_share) {
    begin();
    add(SK_MEMORY_BUSY, 500)->asked_bytes = 550 * MB;
    add(SK_MEMORY_BUSY, 350)->asked_bytes = 100 * MB;
    add(SK_MEMORY_BUSY, 200);
    decide(1000, 1050, 0, 0, T0);
    CHECK_EQ(plan.stop, 1); /* 250 above; the third one 50 */
    CHECK_EQ(plan.share_bytes, 100 * MB);
    procs[1].retriable = false;
    decide(1000, 1050, 0, 0, T0);
    CHECK_EQ(plan.stop, 1); /* the others are within theirs */
    procs[2].heap_bytes = 450 * MB;
    decide(1000, 1300, 0, 0, T0);
    /* above the 400 that the two were not promised, and only time is lost */
    CHECK_EQ(plan.stop, 2);
}

TEST(memory_retriable_first_young_on_ties) {
    begin();
    struct sk_memory_proc *actor = add(SK_MEMORY_ACTOR, 500);
    actor->retriable = false;
    actor->since_ns = T0 - 1000;
    add(SK_MEMORY_BUSY, 350);
    add(SK_MEMORY_BUSY, 50);
    decide(800, 900, 0, 0, T0);
    CHECK_EQ(plan.stop, 0); /* 350 is no more than its share: (800 - 50) / 2 = 375 */
    procs[1].heap_bytes = 400 * MB;
    decide(800, 950, 0, 0, T0);
    CHECK_EQ(plan.stop, 1); /* above its share, and can be run again */
    procs[1].alone = true;  /* not once more */
    decide(800, 950, 0, 0, T0);
    CHECK_EQ(plan.stop, 0);
    begin();
    for (int i = 0; i < 4; i++)
        add(SK_MEMORY_BUSY, 300 + (uint64_t)i)->since_ns = T0 + (i == 2 ? 5 : 0);
    decide(1000, 1206, 0, 0, T0);
    CHECK_EQ(plan.stop, 2);
}

TEST(memory_that_others_use_stops_nobody) {
    begin();
    add(SK_MEMORY_BUSY, 20);
    add(SK_MEMORY_BUSY, 20);
    decide(10000, 10500, 0, 0, T0);
    CHECK(m.low);
    CHECK_EQ(plan.stop, -1);
    /* and the work goes on */
    CHECK_EQ(sk_memory_launch(&m, &(struct sk_memory_run){.now_ns = T0}), SK_LAUNCH_ONE);
}

/* Over the limit, but free pages of the store and idle processes have enough memory. */
TEST(memory_free_pages_first) {
    begin();
    add(SK_MEMORY_BUSY, 500);
    decide(1000, 1200, 100, 400, T0);
    CHECK_EQ(plan.stop, -1);
    CHECK_EQ(plan.punch_bytes, 325 * MB);
    CHECK_LE(plan.next_ns, T0 + INT64_C(1000000));
    decide(1000, 875, 100, 75, T0);
    CHECK_EQ(plan.stop, -1);
}

TEST(memory_kept_by_workers) {
    const uint64_t mib = 1 << 20, gib = UINT64_C(1) << 30;
    CHECK_EQ(sk_memory_keep(24 * gib, 7 * gib, 2), 512 * mib);
    CHECK_EQ(sk_memory_keep(24 * gib, 2 * gib, 2), 256 * mib);
    CHECK_EQ(sk_memory_keep(24 * gib, 400 * mib, 2), 64 * mib); /* a small store: a small program */
    CHECK_EQ(sk_memory_keep(160 * mib, 7 * gib, 2), 10 * mib);
    CHECK_EQ(sk_memory_keep(64 * mib, 7 * gib, 64), mib);
    CHECK_EQ(sk_memory_keep(INT64_MAX, INT64_MAX, 0), 512 * mib); /* no CPUs, no limit */
}

TEST(memory_launch) {
    begin();
    struct sk_memory_run r = {.now_ns = T0, .n_running = 2};
    CHECK(sk_memory_free(&m, false));
    CHECK(!sk_memory_free(&m, true));
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ALL);
    m.low = true;
    m.left_bytes = 1;
    sk_memory_launched(&m, T0);
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_NONE);
    r.now_ns += SK_MEMORY_TRICKLE_NS; /* a caller that polls later may start another one */
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ONE);
    m.left_bytes = -1;
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_NONE);
    r.n_running = 0;
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ONE);
}

TEST(memory_launch_alone) {
    begin();
    struct sk_memory_run r = {.now_ns = T0, .n_running = 1, .alone_waits = true};
    m.left_bytes = 1 << 30;
    m.limit_bytes = 1 << 30;
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_NONE); /* other tasks have to end first */
    r.n_running = 0;
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ALONE);
    r = (struct sk_memory_run){.now_ns = T0 + 5, .alone_runs = true, .alone_since_ns = T0};
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_NONE);
    r.now_ns = T0 + SK_MEMORY_CALM_NS; /* long enough, and there is room */
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ALL);
    m.left_bytes = 1;
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_NONE);
    r.alone_runs = false; /* the task that runs alone waits for others, so these may run */
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ALL);
    /* a task that does not end */
    r = (struct sk_memory_run){.now_ns = T0, .n_running = 1, .alone_waits = true};
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_NONE);
    r.now_ns += SK_MEMORY_DRAIN_NS;
    CHECK_EQ(sk_memory_launch(&m, &r), SK_LAUNCH_ALONE);
    bool others = false;
    for (int i = 0; i < 4; i++) { /* and finds no CPU beside it: neither waits for ever */
        r.now_ns += SK_MEMORY_DRAIN_NS / 2 + 2 * SK_MEMORY_TRICKLE_NS;
        others |= sk_memory_launch(&m, &r) == SK_LAUNCH_ONE;
    }
    CHECK(others);
}

/* test_exec_feed.c - sources with a feed, whose blocks the process of the run makes: when the state
 * machine asks for a block, and what it does with the answers. The test is the feed. */
#include "exec_rig.h"

static struct rig R;
static struct sk_feed feed; /* the rig carries out no action, so it is never called */
static const struct sk_op FED = {.name = "stream", .props = SK_OP_SOURCE | SK_OP_NO_FUSE};

static uint32_t fed_source(void) {
    return rig_add(&R, &FED, (struct sk_node_desc){.label = "F", .feed = &feed}, NULL, 0);
}

static uint32_t limit(uint32_t in, int64_t rows) {
    return rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = rows}, &in, 1);
}

/* Answers ask number `seq` of a stage: with a block, or (bytes 0) that there are no more. */
static void answer(uint64_t ticket, uint64_t rows, uint64_t bytes) {
    struct sk_err err = {0};
    struct sk_fed f = {.rc = bytes ? SK_OK : SK_EDONE, .cost = bytes, .ns = 1000};
    CHECK(ticket);
    if (bytes) {
        f.block = (struct sk_bref){.oid = ++R.next_oid, .n_rows = rows, .bytes = bytes};
        R.live++;
    }
    for (uint32_t i = 0; i < R.launched.n; i++)
        if (R.launched.p[i] == ticket) R.launched.p[i] = 0;
    R.now += 1000000;
    CHECK_OK_ERR(sk_step_fed(R.x, ticket, &f, R.now, &err), &err);
    rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_TICK}); /* carries the actions out */
}

TEST(a_feed_is_asked_for_one_block_at_a_time) {
    rig_begin(&R);
    rig_start(&R, fed_source());
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_EQ(rig_flying(&R, 0), 1);
        CHECK(!R.x->stalled && sk_step_awaits(R.x));
        answer(rig_task(&R, 0, i), 10 + i, 100);
        CHECK(!sk_step_awaits(R.x)); /* the consumer has a block to take */
        CHECK(rig_take(&R, 10 + i));
    }
    CHECK(!R.x->done);
    answer(rig_task(&R, 0, 5), 0, 0);
    CHECK(R.x->done && !R.x->n_flying && !rig_take(&R, 0));
    rig_end(&R);
}

TEST(a_feed_is_asked_only_as_far_as_the_consumer_takes) {
    rig_begin(&R);
    R.conf.memory_bytes = 10000; /* a quarter of it may wait for the consumer */
    R.conf.target_max_bytes = R.conf.target_min_bytes = 100;
    rig_start(&R, fed_source());
    uint64_t i = 0;
    for (; rig_flying(&R, 0) && i < 1000; i++) answer(rig_task(&R, 0, i), 1, 100);
    CHECK(i >= 20 && i <= 25);
    char text[400];
    sk_stall_text(R.x, R.now, text, sizeof text);
    CHECK_STR_HAS(text, "waits for the consumer");
    for (int k = 0; k < 50; k++) { /* each block that is taken makes room for another one */
        CHECK(rig_take(&R, 1));
        CHECK_EQ(rig_flying(&R, 0), 1);
        answer(rig_task(&R, 0, i++), 1, 100);
        CHECK_EQ(rig_flying(&R, 0), 0);
    }
    CHECK_LE(R.x->mem.peak, 2600);
    rig_end(&R);
}

TEST(a_feed_is_asked_only_as_far_as_memory_goes) {
    rig_begin(&R);
    R.conf.memory_bytes = 10000;
    R.conf.target_max_bytes = R.conf.target_min_bytes = 100;
    rig_start(&R, rig_map(&R, fed_source()));
    uint64_t i = 0;
    for (; rig_flying(&R, 0) && i < 1000; i++) answer(rig_task(&R, 0, i), 1, 100);
    CHECK(i >= 40 && i <= 100); /* half of memory waits before the map, whose slots are taken */
    CHECK_LE(R.x->mem.peak, 10000);
    CHECK_EQ(rig_flying(&R, 0), 0);
    uint64_t before = i;
    for (uint64_t k = 0; k < 60; k++) {
        rig_yield(&R, rig_task(&R, 1, k), 1, 100);
        rig_done(&R, rig_task(&R, 1, k), 1000000);
        CHECK(rig_take(&R, 1));
        while (rig_flying(&R, 0)) answer(rig_task(&R, 0, i++), 1, 100);
        CHECK_LE(R.x->mem.peak, 10000);
    }
    CHECK(i - before >= 55 && i - before <= 65);
    rig_end(&R);
}

TEST(a_limit_ends_the_asking) {
    rig_begin(&R);
    rig_start(&R, limit(fed_source(), 25));
    uint64_t asks = 0;
    while (!R.x->done) {
        CHECK_EQ(rig_flying(&R, 0), 1);
        answer(rig_task(&R, 0, asks++), 10, 100);
        if (R.x->done) break;
        CHECK(rig_take(&R, 10));
    }
    CHECK_EQ(asks, 3);
    CHECK(R.x->done && !R.x->n_flying && rig_take(&R, 5));
    rig_end(&R);
}

/* A block for each CPU and one more wait before the map, and no more, however many came before. */
TEST(a_limit_behind_a_map_keeps_the_asking_short) {
    rig_begin(&R);
    rig_start(&R, limit(rig_map(&R, fed_source()), 100000));
    uint64_t i = 0, peak = 0;
    for (uint64_t k = 0; k < 200; k++) {
        while (rig_flying(&R, 0)) answer(rig_task(&R, 0, i++), 1, 10);
        peak = SK_MAX(peak, R.x->s[1].n_ready);
        rig_yield(&R, rig_task(&R, 1, k), 1, 10);
        rig_done(&R, rig_task(&R, 1, k), 1000000);
        CHECK(rig_take(&R, 1));
    }
    CHECK_EQ(peak, 5);
    rig_end(&R);
}

/* An ask is under way when the limit behind a map is reached: its answer is dropped. */
TEST(an_answer_that_nobody_needs_is_dropped) {
    for (int end = 0; end < 2; end++) {
        rig_begin(&R);
        rig_start(&R, limit(rig_map(&R, fed_source()), 5));
        answer(rig_task(&R, 0, 0), 10, 100);
        rig_yield(&R, rig_task(&R, 1, 0), 1, 100);
        rig_done(&R, rig_task(&R, 1, 0), 1);
        CHECK(rig_take(&R, 1));
        answer(rig_task(&R, 0, 1), 10, 100);
        uint64_t late = rig_task(&R, 0, 2);
        CHECK(late);
        rig_yield(&R, rig_task(&R, 1, 1), 10, 100);
        CHECK(R.x->done && R.x->n_asked == 1);
        CHECK(rig_take(&R, 4));
        answer(late, 10, end ? 0 : 100);
        CHECK(!R.x->n_asked && !rig_flying(&R, 0));
        answer(late, 10, 100); /* a ticket that is over */
        rig_end(&R);
    }
}

TEST(what_comes_behind_a_feed_in_a_union_waits_for_its_end) {
    rig_begin(&R);
    uint32_t in[2] = {fed_source(), rig_source(&R, 3, 10)};
    rig_start(&R, rig_add(&R, &RIG_UNION, (struct sk_node_desc){0}, in, 2));
    uint32_t f = R.x->s[2].inputs[0], s = R.x->s[2].inputs[1];
    answer(rig_task(&R, f, 0), 1, 5);
    CHECK(!rig_flying(&R, s) && rig_flying(&R, f) && rig_take(&R, 1));
    answer(rig_task(&R, f, 1), 0, 0);
    CHECK_EQ(rig_flying(&R, s), 3);
    for (uint64_t i = 0; i < 3; i++) rig_done(&R, rig_task(&R, s, i), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(a_feed_that_ends_or_is_left_at_once) {
    for (int asks = 0; asks < 2; asks++) {
        rig_begin(&R);
        rig_start(&R, rig_map(&R, fed_source()));
        struct sk_exec_stats st;
        struct sk_exec_op_stats op[2];
        sk_metrics_get(R.x, &st, op, 2);
        CHECK_EQ(op[0].total_units, -1);
        CHECK_EQ(op[0].tasks_queued, 0);
        CHECK_EQ(op[0].tasks_running, 1);
        if (asks) answer(rig_task(&R, 0, 0), 0, 0);
        CHECK_EQ(R.x->done, asks);
        rig_end(&R); /* also with an ask under way */
    }
}

TEST(plans_that_a_feed_cannot_be_part_of) {
    static const struct sk_op fuses = {.name = "stream", .props = SK_OP_SOURCE};
    struct sk_err err;
    struct sk_unit unit = {{"", 0}, -1, -1};
    struct sk_stages st;
    uint32_t id;
    rig_begin(&R);
    struct sk_node_desc d = {.op = &FED, .label = "F", .feed = &feed, .units = &unit, .n_units = 1};
    CHECK_RC(sk_plan_add(R.plan, &d, &id, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "several of units, blocks and a feed");
    d = (struct sk_node_desc){.op = &fuses, .label = "F", .feed = &feed};
    CHECK_RC(sk_plan_add(R.plan, &d, &id, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "a feed runs in no worker");
    uint32_t f = fed_source(), both[2] = {f, f};
    d = (struct sk_node_desc){.op = &RIG_MAPB, .feed = &feed, .inputs = &f, .n_inputs = 1};
    CHECK_RC(sk_plan_add(R.plan, &d, &id, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "only a source has units, blocks or a feed");
    uint32_t u = rig_add(&R, &RIG_UNION, (struct sk_node_desc){0}, both, 2);
    CHECK_RC(sk_plan_stages(R.plan, u, &st, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "F is used twice, and can be read only once");
    char text[200];
    (void)sk_plan_explain(R.plan, f, text, sizeof text);
    CHECK_STR_HAS(text, "F  read by this process as the run goes");
    rig_start(&R, f);
    rig_end(&R);
}

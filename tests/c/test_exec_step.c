/* test_exec_step.c - the state machine by hand: order, coalescing, LIMIT, UNION, the consumer,
 * actors, cancelling. The test sets the time. */
#include "exec_rig.h"

static struct rig R;

static uint32_t in_blocks(uint32_t stage, uint64_t seq) {
    const struct sk_stask *t = sk_step_task(R.x, rig_task(&R, stage, seq));
    CHECK(t);
    return t->in.n;
}

TEST(later_tasks_wait_for_their_turn) {
    rig_begin(&R);
    rig_start(&R, rig_source(&R, 3, 10));
    CHECK_EQ(rig_flying(&R, 0), 3);
    rig_yield(&R, rig_task(&R, 0, 1), 11, 5);
    rig_done(&R, rig_task(&R, 0, 2), 1);
    CHECK(!rig_take(&R, 0));
    rig_yield(&R, rig_task(&R, 0, 0), 1, 5);
    CHECK(rig_take(&R, 1)); /* the block can be taken while its task still runs */
    CHECK(!rig_take(&R, 0));
    rig_yield(&R, rig_task(&R, 0, 0), 2, 5);
    rig_done(&R, rig_task(&R, 0, 0), 1);
    CHECK(rig_take(&R, 2) && rig_take(&R, 11));
    CHECK(!R.x->done);
    rig_done(&R, rig_task(&R, 0, 1), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(any_order_when_asked_for) {
    rig_begin(&R);
    R.conf.preserve_order = false;
    rig_start(&R, rig_source(&R, 3, 10));
    rig_yield(&R, rig_task(&R, 0, 2), 22, 5);
    CHECK(rig_take(&R, 22));
    rig_done(&R, rig_task(&R, 0, 2), 1);
    rig_yield(&R, rig_task(&R, 0, 1), 11, 5);
    CHECK(rig_take(&R, 11));
    rig_done(&R, rig_task(&R, 0, 0), 1);
    CHECK(!R.x->done);
    rig_done(&R, rig_task(&R, 0, 1), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(small_neighbours_are_coalesced) {
    rig_begin(&R);
    rig_start(&R, rig_map(&R, rig_source(&R, 1, 10)));
    R.x->s[1].n_bundled = 10240; /* so many blocks have arrived before */
    const uint64_t bytes[] = {1, 1, 1, 2, 5, 2, 2, 2, 1, 1};
    uint64_t t = rig_task(&R, 0, 0);
    for (uint32_t i = 0; i < SK_COUNT(bytes); i++) rig_yield(&R, t, 1, bytes[i]);
    CHECK_EQ(in_blocks(1, 0), 3); /* 1 1 1 */
    CHECK_EQ(in_blocks(1, 1), 1); /* a task gets 2 blocks, since the next one is large */
    CHECK_EQ(in_blocks(1, 2), 1); /* 5 goes alone */
    CHECK_EQ(in_blocks(1, 3), 2); /* 2 2 */
    CHECK_EQ(in_blocks(1, 4), 2); /* 2 1 */
    CHECK_EQ(R.x->s[1].next_seq, 5);
    rig_done(&R, t, 1);
    CHECK_EQ(in_blocks(1, 5), 1); /* a task gets 1 block, since no more can arrive */
    rig_end(&R);
}

TEST(few_small_blocks_are_a_task_each_and_many_are_not) {
    rig_begin(&R);
    R.conf.target_min_bytes = R.conf.target_max_bytes = 1000;
    rig_start(&R, rig_map(&R, rig_source(&R, 1, 10)));
    uint64_t t = rig_task(&R, 0, 0), before = 0, tasks;
    for (uint32_t i = 0; i < 5000; i++) rig_yield(&R, t, 1, 1);
    for (tasks = 0; before < 4990; tasks++) {
        uint64_t id = rig_task(&R, 1, tasks);
        CHECK_EQ(sk_step_task(R.x, id)->in.n, 1 + before / 1024);
        before += 1 + before / 1024;
        rig_done(&R, id, 1);
    }
    CHECK_LT(tasks, 2500);
    rig_end(&R);
}

TEST(batches_of_rows_are_waited_for) {
    rig_begin(&R);
    R.conf.target_max_bytes = 100;
    uint32_t in = rig_source(&R, 1, 10);
    rig_start(&R, rig_add(&R, &RIG_MAPB, (struct sk_node_desc){.cpu_e4 = 10000, .batch_rows = 10},
                          &in, 1));
    uint64_t t = rig_task(&R, 0, 0);
    for (int i = 0; i < 4; i++) rig_yield(&R, t, 4, 20);
    CHECK_EQ(in_blocks(1, 0), 3); /* 12 rows */
    rig_yield(&R, t, 50, 90);
    CHECK_EQ(in_blocks(1, 1), 1); /* 4 rows: the next is large enough to go alone */
    CHECK_EQ(in_blocks(1, 2), 1);
    rig_end(&R);
}

TEST(limit_cuts_cancels_and_gives_back) {
    rig_begin(&R);
    uint32_t m = rig_map(&R, rig_source(&R, 40, 10));
    rig_start(&R, rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 5}, &m, 1));
    CHECK_EQ(rig_flying(&R, 0), 4); /* one task for each CPU, since a limit is downstream */
    for (uint32_t i = 0; i < 4; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 3, 5);
        rig_done(&R, rig_task(&R, 0, i), 1);
    }
    rig_yield(&R, rig_task(&R, 1, 1), 3, 5); /* not its turn */
    rig_yield(&R, rig_task(&R, 1, 0), 3, 5);
    CHECK(!R.x->done);
    rig_done(&R, rig_task(&R, 1, 0), 1);
    CHECK(R.x->done);
    CHECK_GT(R.n_cancelled, 0);
    CHECK(rig_take(&R, 3) && rig_take(&R, 2));
    CHECK_RC(sk_step_take(R.x, R.now, &(struct sk_bref){0}, NULL), SK_EDONE);
    uint32_t flying = R.x->n_flying;
    CHECK_EQ(flying, R.n_cancelled);
    for (uint32_t i = 0; i < R.launched.n; i++)
        if (R.launched.p[i]) {
            rig_yield(&R, R.launched.p[i], 1, 5); /* this yield crossed the cancel */
            rig_fail(&R, R.launched.p[i]);
        }
    CHECK_EQ(R.x->n_flying, 0);
    CHECK_EQ(R.live, 0);
    rig_end(&R);
}

/* The result has the first block without its rows, for the columns. */
TEST(limit_zero_gives_the_columns) {
    rig_begin(&R);
    uint32_t s = rig_source(&R, 40, 10);
    rig_start(&R, rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 0}, &s, 1));
    CHECK_EQ(rig_flying(&R, 0), 4);
    rig_done(&R, rig_task(&R, 0, 0), 1); /* no block at all */
    CHECK(!R.x->done);
    rig_yield(&R, rig_task(&R, 0, 1), 3, 5);
    CHECK(R.x->done);
    CHECK_GT(R.n_cancelled, 0);
    CHECK(rig_take(&R, 0));
    CHECK_RC(sk_step_take(R.x, R.now, &(struct sk_bref){0}, NULL), SK_EDONE);
    for (uint32_t i = 0; i < R.launched.n; i++)
        if (R.launched.p[i]) rig_fail(&R, R.launched.p[i]);
    CHECK_EQ(R.live, 0);
    rig_end(&R);
}

TEST(limit_over_blocks_takes_only_what_it_needs) {
    rig_begin(&R);
    struct sk_bref b[100];
    for (uint32_t i = 0; i < 100; i++) b[i] = (struct sk_bref){i + 1, 10, 4, 40, 0, 0};
    uint32_t s =
        rig_add(&R, &RIG_READ, (struct sk_node_desc){.blocks = b, .n_blocks = 100}, NULL, 0);
    rig_start(&R, rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 10}, &s, 1));
    CHECK_EQ(R.live, 3);
    CHECK_EQ(R.x->mem.used, 0); /* the blocks existed before the run, so they do not count */
    CHECK(rig_take(&R, 4) && rig_take(&R, 4) && rig_take(&R, 2));
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(union_in_order_and_started_ahead) {
    rig_begin(&R);
    uint32_t in[3] = {rig_source(&R, 2, 10), rig_source(&R, 2, 10), 0};
    struct sk_bref b[2] = {{1, 0, 7, 10, 0, 0}, {2, 0, 8, 10, 0, 0}};
    in[2] = rig_add(&R, &RIG_READ, (struct sk_node_desc){.blocks = b, .n_blocks = 2}, NULL, 0);
    rig_start(&R, rig_add(&R, &RIG_UNION, (struct sk_node_desc){0}, in, 3));
    const uint32_t first = R.x->s[3].inputs[0], second = R.x->s[3].inputs[1];
    CHECK_EQ(rig_flying(&R, first), 2);
    CHECK_EQ(rig_flying(&R, second), 2); /* the first input has started all its tasks */
    rig_yield(&R, rig_task(&R, second, 0), 5, 5);
    rig_done(&R, rig_task(&R, second, 0), 1);
    CHECK(!rig_take(&R, 0));
    rig_yield(&R, rig_task(&R, first, 0), 1, 5);
    CHECK(rig_take(&R, 1));
    rig_done(&R, rig_task(&R, first, 0), 1);
    rig_done(&R, rig_task(&R, first, 1), 1);
    CHECK(rig_take(&R, 5)); /* its turn has come */
    rig_done(&R, rig_task(&R, second, 1), 1);
    CHECK(rig_take(&R, 7) && rig_take(&R, 8));
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(union_of_empty_things_ends) {
    rig_begin(&R);
    uint32_t in[3] = {rig_source(&R, 0, 10), rig_source(&R, 1, 10), rig_source(&R, 0, 10)};
    rig_start(&R, rig_map(&R, rig_add(&R, &RIG_UNION, (struct sk_node_desc){0}, in, 3)));
    CHECK(!R.x->done);
    rig_done(&R, rig_task(&R, R.x->s[3].inputs[1], 0), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

/* Starts a plan of two sources and a zip; *a, *b: the stages of the sources. */
static void start_zip(uint32_t n_units, uint32_t *a, uint32_t *b) {
    uint32_t in[2] = {rig_source(&R, n_units, 10), rig_source(&R, n_units, 10)};
    rig_start(&R,
              rig_add(&R, &RIG_ZIP, (struct sk_node_desc){.label = "Z", .cpu_e4 = 10000}, in, 2));
    *a = R.x->s[2].inputs[0];
    *b = R.x->s[2].inputs[1];
}

/* Returns the input of a task as text: "side:row0+rows ...". */
static const char *input_of(uint64_t task) {
    static char text[200];
    size_t n = 0;
    text[0] = 0;
    for (const struct sk_blk *b = sk_step_task(R.x, task)->in.head; b; b = b->next)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u:%llu+%llu", n ? " " : "", b->side,
                              (unsigned long long)b->ref.row0, (unsigned long long)b->ref.n_rows);
    return text;
}

TEST(rows_side_by_side_are_cut_by_reference) {
    for (uint32_t first = 0; first < 4; first++) {
        /* without order: whichever block arrives first */
        uint32_t s[2];
        rig_begin(&R);
        R.conf.preserve_order = first < 2;
        start_zip(2, &s[0], &s[1]);
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t k = (first + i) % 2;
            uint64_t late = rig_task(&R, s[k], 0), soon = rig_task(&R, s[k], 1);
            rig_yield(&R, soon, k ? 2 : 4, 4); /* its rows are behind those of the other task */
            rig_done(&R, soon, 1);
            rig_yield(&R, late, k ? 9 : 7, 4);
            rig_done(&R, late, 1);
        }
        CHECK_STR_EQ(input_of(rig_task(&R, 2, 0)), "0:0+7 1:0+7");
        CHECK_STR_EQ(input_of(rig_task(&R, 2, 1)), "0:0+4 1:7+2 1:0+2");
        for (uint64_t i = 0; i < 2; i++) rig_done(&R, rig_task(&R, 2, i), 1);
        CHECK(R.x->done);
        CHECK_EQ(R.live, 0);
        rig_end(&R);
    }
}

TEST(rows_side_by_side_that_differ_are_an_error) {
    uint32_t a, b;
    rig_begin(&R);
    start_zip(1, &a, &b);
    rig_yield(&R, rig_task(&R, a, 0), 3, 4);
    rig_yield(&R, rig_task(&R, b, 0), 5, 4);
    rig_done(&R, rig_task(&R, b, 0), 1);
    struct sk_err err = {0};
    struct sk_step_ev done = {.kind = SK_SEV_DONE, .task = rig_task(&R, a, 0), .run_ns = 1};
    CHECK_EQ(sk_step_event(R.x, &done, R.now, &err), SK_EINVAL);
    CHECK_MSG(strstr(err.msg, "different number of rows: 3, 5"), "%s", err.msg);
    R.live += R.x->acts.n - 2 * R.x->acts.n; /* what that step gave back */
    R.x->acts.n = 0;
    rig_end(&R);
}

TEST(nothing_side_by_side_with_nothing_has_columns) {
    uint32_t a, b;
    rig_begin(&R);
    start_zip(2, &a, &b);
    for (uint64_t i = 0; i < 2; i++) {
        rig_yield(&R, rig_task(&R, a, i), 0, 0);
        rig_done(&R, rig_task(&R, a, i), 1);
        rig_yield(&R, rig_task(&R, b, i), 0, 0);
        rig_done(&R, rig_task(&R, b, i), 1);
    }
    CHECK_STR_EQ(input_of(rig_task(&R, 2, 0)), "0:0+0 1:0+0");
    rig_done(&R, rig_task(&R, 2, 0), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

/* The first block has the columns and no rows, and the next one is larger than a task's input. */
TEST(rows_side_by_side_behind_an_empty_block) {
    uint32_t a, b;
    rig_begin(&R);
    start_zip(1, &a, &b);
    rig_yield(&R, rig_task(&R, a, 0), 0, 0);
    rig_yield(&R, rig_task(&R, a, 0), 50, 100);
    rig_yield(&R, rig_task(&R, b, 0), 50, 4);
    rig_done(&R, rig_task(&R, a, 0), 1);
    rig_done(&R, rig_task(&R, b, 0), 1);
    CHECK_STR_EQ(input_of(rig_task(&R, 2, 0)), "0:0+0 0:0+50 1:0+50");
    rig_done(&R, rig_task(&R, 2, 0), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

/* Starts a plan of two sources whose rows come in rounds of 2 and 3. */
static void start_mix(uint32_t n_units, bool shortest, uint32_t *a, uint32_t *b) {
    static const uint32_t parts[2] = {2, 3};
    uint32_t in[2] = {rig_source(&R, n_units, 10), rig_source(&R, n_units, 10)};
    struct sk_node_desc d = {.label = "M", .cpu_e4 = 10000, .parts = parts, .shortest = shortest};
    rig_start(&R, rig_add(&R, &RIG_ZIP, d, in, 2));
    *a = R.x->s[2].inputs[0];
    *b = R.x->s[2].inputs[1];
}

static void give(uint32_t stage, uint64_t task, uint64_t rows) {
    rig_yield(&R, rig_task(&R, stage, task), rows, 4);
    rig_done(&R, rig_task(&R, stage, task), 1);
}

TEST(a_mix_takes_whole_rounds_and_what_is_left) {
    for (uint32_t first = 0; first < 2; first++) { /* whichever input arrives first */
        uint32_t in[2];
        rig_begin(&R);
        start_mix(1, false, &in[0], &in[1]);
        give(in[first], 0, first ? 10 : 9);
        CHECK_EQ(R.x->s[2].n_ready, 0);
        CHECK_EQ(R.x->s[2].lacks, !first);
        give(in[!first], 0, first ? 9 : 10);
        CHECK_STR_EQ(input_of(rig_task(&R, 2, 0)), "0:0+6 1:0+9");
        CHECK_STR_EQ(input_of(rig_task(&R, 2, 1)), "0:6+3 1:9+1"); /* what is left */
        for (uint64_t i = 0; i < 2; i++) rig_done(&R, rig_task(&R, 2, i), 1);
        CHECK(R.x->done);
        CHECK_EQ(R.live, 0);
        rig_end(&R);
    }
}

TEST(a_mix_ends_with_its_shortest_input) {
    uint32_t a, b;
    rig_begin(&R);
    start_mix(3, true, &a, &b);
    give(b, 0, 50);
    for (uint64_t i = 0; i < 3; i++) give(a, i, 1);
    /* one whole round, then one that lacks a row; the other tasks of b are cut */
    CHECK(!R.x->done);
    CHECK(R.x->s[b].cut);
    CHECK_STR_EQ(input_of(rig_task(&R, 2, 0)), "0:0+1 0:0+1 1:0+3");
    CHECK_STR_EQ(input_of(rig_task(&R, 2, 1)), "0:0+1 1:3+3");
    for (uint64_t i = 0; i < 2; i++) rig_done(&R, rig_task(&R, 2, i), 1);
    CHECK(R.x->done);
    CHECK_EQ(R.x->s[2].ready_bytes, 0);
    rig_end(&R);
}

TEST(a_mix_of_nothing_has_columns) {
    uint32_t a, b;
    rig_begin(&R);
    start_mix(1, true, &a, &b);
    give(a, 0, 0);
    give(b, 0, 0);
    CHECK_STR_EQ(input_of(rig_task(&R, 2, 0)), "0:0+0 1:0+0");
    rig_done(&R, rig_task(&R, 2, 0), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(what_a_zip_drops_is_not_queued) {
    /* a bug: such input stayed counted, so a policy saw more and more waiting input */
    uint32_t a, b;
    rig_begin(&R);
    start_zip(2, &a, &b);
    for (uint64_t i = 0; i < 2; i++) {
        /* the first of the blocks without rows is kept, for the columns */
        rig_yield(&R, rig_task(&R, a, i), 0, 4);
        rig_done(&R, rig_task(&R, a, i), 1);
        rig_yield(&R, rig_task(&R, b, i), 0, 4);
        rig_done(&R, rig_task(&R, b, i), 1);
    }
    CHECK_EQ(R.x->s[2].ready_bytes, 0);
    rig_done(&R, rig_task(&R, 2, 0), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(an_input_that_is_ahead_waits_for_the_others) {
    rig_begin(&R);
    R.conf.memory_bytes = 800;
    struct sk_unit units[40];
    for (uint32_t i = 0; i < SK_COUNT(units); i++) units[i] = (struct sk_unit){{"", 0}, -1, 10};
    uint32_t in[2];
    for (uint32_t k = 0; k < 2; k++) /* the second one has one task at a time, and it takes long */
        in[k] = rig_add(&R, &RIG_READ,
                        (struct sk_node_desc){
                            .cpu_e4 = 10000, .units = units, .n_units = 40, .max_tasks = k ? 1 : 3},
                        NULL, 0);
    rig_start(&R,
              rig_add(&R, &RIG_ZIP, (struct sk_node_desc){.label = "Z", .cpu_e4 = 10000}, in, 2));
    uint32_t a = R.x->s[2].inputs[0], n = 0;
    for (uint64_t t; (t = rig_task(&R, a, n)); n++) {
        rig_yield(&R, t, 1, 10);
        rig_done(&R, t, 1000000000);
    }
    CHECK_LE(R.x->s[2].sides[0].q.bytes, 800 / 8 + 3 * 10);
    CHECK_EQ(sk_stage_wait(&R.x->s[a]), SK_WAIT_TURN);
    rig_end(&R);
}

TEST(a_slow_consumer_stops_the_last_stage) {
    rig_begin(&R);
    R.conf.consumer_blocks = 3;
    rig_start(&R, rig_source(&R, 100, 10));
    for (uint32_t i = 0; i < 20; i++)
        if (rig_task(&R, 0, i)) {
            rig_yield(&R, rig_task(&R, 0, i), i, 5);
            rig_done(&R, rig_task(&R, 0, i), 1);
        }
    uint64_t launched = R.x->s[0].next_seq;
    CHECK_EQ(rig_flying(&R, 0), 0);
    CHECK_LT(launched, 20);
    CHECK(!R.x->stalled); /* only the consumer can free memory, so this is not a stall */
    CHECK_EQ(sk_stage_wait(&R.x->s[0]), SK_WAIT_CONSUMER);
    for (uint64_t i = 0; i < launched - 2; i++) CHECK(rig_take(&R, i));
    CHECK_EQ(rig_flying(&R, 0), 1); /* two blocks wait, one is expected */
    struct sk_exec_stats st;
    struct sk_exec_op_stats op;
    R.now += 1000000000;
    sk_metrics_advance(R.x, R.now);
    sk_metrics_get(R.x, &st, &op, 1);
    CHECK_GE(op.wait_consumer_ns, 1000000000);
    CHECK_EQ(st.bottleneck, UINT32_MAX);
    CHECK_STR_EQ(st.bottleneck_why, "consumer");
    rig_end(&R);
}

TEST(half_of_memory_waits_before_a_busy_stage_and_no_more) {
    rig_begin(&R);
    R.conf.memory_bytes = 1000;
    R.conf.target_max_bytes = 100;
    uint32_t in = rig_source(&R, 100, 100);
    rig_start(&R, rig_add(&R, &RIG_MAPB,
                          (struct sk_node_desc){.cpu_e4 = 10000, .pool_min = 1, .pool_max = 1}, &in,
                          1));
    uint64_t most = 0;
    for (uint32_t i = 0; i < 100 && rig_task(&R, 0, i); i++) { /* its only actor does not finish */
        rig_yield(&R, rig_task(&R, 0, i), 1, 100);
        rig_done(&R, rig_task(&R, 0, i), 1000000);
        most = SK_MAX(most, R.x->s[1].ready_bytes);
    }
    CHECK_EQ(rig_flying(&R, 0), 0);
    CHECK_EQ(most, 500);
    CHECK_EQ(sk_stage_wait(&R.x->s[0]), SK_WAIT_MEMORY);
    CHECK(!R.x->stalled);
    struct sk_exec_stats st;
    struct sk_exec_op_stats op[2];
    sk_metrics_advance(R.x, R.now += 1000000000);
    sk_metrics_get(R.x, &st, op, 2);
    CHECK_EQ(st.bottleneck, 1);
    for (uint32_t i = 0; !R.x->done; i++) {
        for (uint32_t k = 0; k < R.launched.n; k++)
            if (R.launched.p[k]) {
                rig_yield(&R, R.launched.p[k], 1, 10);
                rig_done(&R, R.launched.p[k], 1000000);
            }
        while (R.x->out.n) rig_take(&R, 1);
        CHECK_LT(i, 1000);
    }
    rig_end(&R);
}

TEST(pool_starts_at_once_and_grows_when_busy) {
    rig_begin(&R);
    uint32_t in = rig_source(&R, 30, 10);
    rig_start(&R, rig_add(&R, &RIG_MAPB,
                          (struct sk_node_desc){.cpu_e4 = 10000, .pool_min = 1, .pool_max = 9}, &in,
                          1));
    CHECK_EQ(R.n_created, 1); /* its model loads while the first input is read */
    for (uint32_t i = 0; i < 4; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 5);
        rig_done(&R, rig_task(&R, 0, i), 1000000);
    }
    CHECK_EQ(R.n_created, 1);
    CHECK_EQ(rig_flying(&R, 1), 1); /* the actor has not ended a call yet: it gets one call */
    rig_yield(&R, rig_task(&R, 1, 0), 1, 5);
    CHECK_EQ(R.n_created, 2); /* the actor is busy with two calls, and input is waiting */
    CHECK_EQ(rig_flying(&R, 1), 3);
    rig_yield(&R, rig_task(&R, 1, 2), 1, 5); /* the second actor is ready, too */
    CHECK_EQ(rig_flying(&R, 1), 4);
    for (uint32_t i = 4; i < 30; i++)
        if (rig_task(&R, 0, i)) {
            rig_yield(&R, rig_task(&R, 0, i), 1, 5);
            rig_done(&R, rig_task(&R, 0, i), 1000000);
        }
    for (uint32_t i = 3; i < 20; i++) {
        uint64_t id = rig_task(&R, 1, i);
        if (id) rig_yield(&R, id, 1, 5);
        /* 4 CPUs: one stays for the source's tasks */
        CHECK_LE(R.n_created, R.x->s[0].ended ? 4 : 3);
    }
    CHECK_GE(R.n_created, 3);
    while (!R.x->done)
        for (uint32_t i = 0; i < R.launched.n; i++)
            if (R.launched.p[i]) {
                rig_yield(&R, R.launched.p[i], 1, 5);
                rig_done(&R, R.launched.p[i], 1000000);
                while (R.x->out.n) rig_take(&R, 1);
            }
    CHECK_EQ(R.n_killed, R.n_created);
    CHECK_EQ(R.x->cpu.total, 40000);
    rig_end(&R);
}

TEST(calls_go_to_the_actor_with_the_fewest) {
    rig_begin(&R);
    uint32_t in = rig_source(&R, 8, 10);
    rig_start(&R, rig_add(&R, &RIG_MAPB,
                          (struct sk_node_desc){.pool_min = 3, .pool_max = 3, .max_in_flight = 2},
                          &in, 1));
    for (uint32_t i = 0; i < 8; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 5);
        rig_done(&R, rig_task(&R, 0, i), 1);
    }
    CHECK_EQ(rig_flying(&R, 1), 3);
    for (uint64_t i = 0; i < 3; i++) CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, i))->actor, i);
    rig_done(&R, rig_task(&R, 1, 1), 1); /* actor 1 has ended a call and is idle: it gets two */
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, 3))->actor, 1);
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, 4))->actor, 1);
    CHECK_EQ(rig_task(&R, 1, 5), 0);
    rig_yield(&R, rig_task(&R, 1, 2), 1, 5);
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, 5))->actor, 2);
    rig_end(&R);
}

TEST(large_blocks_are_worked_on_ahead_of_their_turn_and_seen_in_it) {
    rig_begin(&R);
    rig_start(&R, rig_map(&R, rig_source(&R, 3, 1000)));
    R.x->s[1].n_bundled = 10240; /* small ones are coalesced */
    uint64_t big = R.conf.target_min_bytes, id;
    /* a block of the second task; that of the first has not arrived */
    rig_yield(&R, rig_task(&R, 0, 1), 2, big);
    CHECK_EQ(rig_flying(&R, 1), 1);
    id = R.launched.p[R.launched.n - 1];
    CHECK_EQ(sk_step_task(R.x, id)->seq, SK_NO_SEQ);
    rig_yield(&R, id, 2, big);
    rig_done(&R, id, 1);
    /* the block is too small for a task: it waits for its turn */
    rig_yield(&R, rig_task(&R, 0, 1), 1, 1);
    rig_done(&R, rig_task(&R, 0, 1), 1);
    CHECK_EQ(rig_flying(&R, 1), 0);
    CHECK(!R.x->out.n);
    rig_yield(&R, rig_task(&R, 0, 0), 1, big);
    rig_done(&R, rig_task(&R, 0, 0), 1);
    CHECK_EQ(rig_flying(&R, 1), 1); /* that of the first block */
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, 0))->seq, 0);
    CHECK_EQ(sk_step_task(R.x, id)->seq, 1); /* placed behind it */
    rig_yield(&R, rig_task(&R, 1, 0), 1, big);
    CHECK(rig_take(&R, 1));
    CHECK(!R.x->out.n);
    rig_done(&R, rig_task(&R, 1, 0), 1);
    CHECK(rig_take(&R, 2));
    rig_done(&R, rig_task(&R, 0, 2), 1);
    rig_yield(&R, rig_task(&R, 1, 2), 1, 1);
    rig_done(&R, rig_task(&R, 1, 2), 1);
    CHECK(rig_take(&R, 1));
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(those_ahead_leave_room_in_the_window_for_the_head) {
    rig_begin(&R);
    rig_start(&R, rig_map(&R, rig_source(&R, 2, 1000)));
    uint64_t big = R.conf.target_min_bytes, head = rig_task(&R, 0, 0), later = rig_task(&R, 0, 1);
    for (uint32_t i = 0; i < SK_WINDOW_MAX; i++) {
        /* each task ends at once, but its place in the order is not known */
        rig_yield(&R, later, 1, big);
        if (i < SK_WINDOW_MAX / 2) {
            CHECK_EQ(rig_flying(&R, 1), 1);
            rig_done(&R, R.launched.p[R.launched.n - 1], 1);
        }
    }
    CHECK_EQ(rig_flying(&R, 1), 0);
    CHECK_EQ(R.x->s[1].n_window, SK_WINDOW_MAX / 2);
    rig_yield(&R, head, 1, big);
    CHECK_EQ(rig_flying(&R, 1), 1); /* the block for which all others wait */
    rig_done(&R, rig_task(&R, 1, 0), 1);
    rig_done(&R, head, 1);
    /* the rest in order */
    for (uint64_t i = SK_WINDOW_MAX / 2 + 1; i <= SK_WINDOW_MAX; i++)
        rig_done(&R, rig_task(&R, 1, i), 1);
    CHECK_EQ(R.x->s[1].n_window, 0);
    rig_end(&R);
}

TEST(pools_that_do_not_fit_beside_each_other_take_turns) {
    rig_begin(&R);
    R.conf.gpu_e4 = 10000;
    uint32_t in = rig_source(&R, 2, 10);
    in = rig_add(&R, &RIG_MAPB,
                 (struct sk_node_desc){.label = "A", .gpu_e4 = 10000, .pool_min = 1, .pool_max = 1},
                 &in, 1);
    rig_start(&R, rig_add(&R, &RIG_MAPB,
                          (struct sk_node_desc){
                              .label = "B", .gpu_e4 = 10000, .pool_min = 1, .pool_max = 1},
                          &in, 1));
    CHECK_OK(sk_step_feasible(R.x, NULL));
    rig_yield(&R, rig_task(&R, 0, 0), 1, 5);
    rig_done(&R, rig_task(&R, 0, 0), 1);
    CHECK_EQ(R.n_created, 1);
    rig_yield(&R, rig_task(&R, 1, 0), 1, 5);
    rig_done(&R, rig_task(&R, 1, 0), 1);
    CHECK_EQ(R.n_killed, 0); /* A is idle and B has input, but the source still works for A */
    rig_yield(&R, rig_task(&R, 0, 1), 1, 5);
    rig_done(&R, rig_task(&R, 0, 1), 1);
    CHECK_EQ(rig_task(&R, 2, 0), 0);
    rig_yield(&R, rig_task(&R, 1, 1), 1, 5);
    rig_done(&R, rig_task(&R, 1, 1), 1);
    CHECK_EQ(R.n_killed, 1);
    CHECK_EQ(R.n_created, 2);
    CHECK_EQ(rig_flying(&R, 2), 1);
    rig_done(&R, rig_task(&R, 2, 0), 1);
    rig_done(&R, rig_task(&R, 2, 1), 1);
    CHECK(R.x->done);
    rig_end(&R);
}

TEST(impossible_pipelines_are_named_with_the_arithmetic) {
    struct sk_err err = {0};
    rig_begin(&R);
    uint32_t in = rig_source(&R, 8, 10);
    uint32_t m = rig_add(
        &R, &RIG_MAPB,
        (struct sk_node_desc){.label = "A", .cpu_e4 = 10000, .pool_min = 3, .pool_max = 3}, &in, 1);
    m = rig_add(&R, &RIG_MAPB,
                (struct sk_node_desc){.label = "B", .cpu_e4 = 5000, .pool_min = 2, .pool_max = 3},
                &m, 1);
    CHECK_OK(sk_plan_stages(R.plan, m, &R.st, &err));
    CHECK_OK(sk_step_create(R.plan, &R.st, &R.conf, &R.x, &err));
    /* ray#44687: pools as large as the machine share the CPUs with the tasks that read for them */
    CHECK_OK(sk_step_feasible(R.x, &err));
    R.x->conf.cpu_e4 = 5000;
    CHECK_RC(sk_step_feasible(R.x, &err), SK_EINFEASIBLE);
    CHECK_STR_HAS(err.msg, "needs 1 task x 1 CPU = 1 CPUs at the same time, the machine has 0.5; "
                           "use a smaller num_cpus");
    R.x->conf.cpu_e4 = 50000;
    R.x->conf.node_cpu_e4 = 10000; /* five nodes of one */
    CHECK_OK(sk_step_feasible(R.x, &err));
    R.x->conf.node_cpu_e4 = 7500;
    CHECK_RC(sk_step_feasible(R.x, &err), SK_EINFEASIBLE);
    CHECK_STR_HAS(
        err.msg,
        "needs 1 CPUs at the same place, and no node has more than 0.75; use a smaller num_cpus");
    R.x->conf.node_cpu_e4 = 10000;
    R.x->s[0].gpu_e4 = 10000;
    R.x->conf.gpu_e4 = 0;
    CHECK_RC(sk_step_feasible(R.x, &err), SK_EINFEASIBLE);
    CHECK_STR_HAS(err.msg, "R needs 1 task x 1 GPU = 1 GPUs at the same time, the machine has 0; "
                           "use a smaller num_gpus");
    rig_end(&R);
}

TEST(stall_text_names_who_waits_for_what) {
    rig_begin(&R);
    rig_start(&R, rig_map(&R, rig_source(&R, 3, 10)));
    rig_yield(&R, rig_task(&R, 0, 1), 1, 5);
    char text[500];
    size_t n = sk_stall_text(R.x, R.now + 2000000000, text, sizeof text);
    CHECK_EQ(n, strlen(text));
    CHECK_STR_HAS(text, "R: 3 launched (the longest for 2.0 s), 0 done, has started all it has, 1 "
                        "blocks wait for task 0; M: 1 launched (the longest "
                        "for 2.0 s), 0 done, waits for its input");
    /* and the engine said that two have begun, one of them later than it was launched */
    R.x->asked = true;
    R.x->slots.p[(uint32_t)rig_task(&R, 0, 0)]->begun_ns = R.now + 500000000;
    R.x->slots.p[(uint32_t)rig_task(&R, 0, 2)]->begun_ns = R.now + 1000000000;
    sk_stall_text(R.x, R.now + 2000000000, text, sizeof text);
    CHECK_STR_HAS(text, "R: 2 running (the longest for 1.5 s), 1 sent but not begun, 0 done");
    CHECK_STR_HAS(text, "M: 0 running, 1 sent but not begun, 0 done");
    rig_end(&R);
}

TEST(every_allocation_may_fail_and_the_sweep_finds_all) {
    for (int64_t nth = 1;; nth++) {
        struct sk_err err = {0};
        rig_begin(&R);
        uint32_t in[2] = {rig_source(&R, 70, 5), rig_source(&R, 3, -1)}, m;
        struct sk_bref b[3] = {{1, 0, 7, 10, 0, 0}, {2, 0, 8, 10, 0, 0}, {3, 0, 1, 1, 0, 0}};
        in[1] = rig_add(&R, &RIG_READ, (struct sk_node_desc){.blocks = b, .n_blocks = 3}, NULL, 0);
        m = rig_add(&R, &RIG_UNION, (struct sk_node_desc){0}, in, 2);
        m = rig_add(&R, &RIG_MAPB, (struct sk_node_desc){.pool_min = 1, .pool_max = 2}, &m, 1);
        m = rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 150}, &m, 1);
        CHECK_OK(sk_plan_stages(R.plan, m, &R.st, &err));
        sk_mem_fail_at(nth);
        sk_rc rc = sk_step_create(R.plan, &R.st, &R.conf, &R.x, &err);
        if (rc != SK_OK) {
            R.x = NULL;
        } else {
            rc = sk_step_start(R.x, 0, &err);
            uint64_t seen = 0, ids[300], n = 0;
            for (int round = 0; rc == SK_OK && !R.x->done && round < 400; round++) {
                for (; seen < R.x->acts.n && n < 300; seen++)
                    if (R.x->acts.p[seen].kind == SK_ACT_LAUNCH) ids[n++] = R.x->acts.p[seen].id;
                uint64_t id = (uint64_t)round / 2 < n ? ids[round / 2] : 0;
                struct sk_step_ev ev = {
                    .kind = round % 2 ? SK_SEV_DONE : SK_SEV_YIELDED,
                    .task = id,
                    .block = {.oid = 1000 + (uint64_t)round, .row0 = 0, .n_rows = 3, .bytes = 5},
                    .cost = 5};
                if (id && ev.kind == SK_SEV_YIELDED) R.live++;
                if (id) rc = sk_step_event(R.x, &ev, round, &err);
            }
        }
        bool failed = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, failed ? SK_ENOMEM : SK_OK);
        if (R.x) {
            for (uint32_t i = 0; i < R.x->acts.n; i++)
                R.live += (R.x->acts.p[i].kind == SK_ACT_ADDREF) -
                          (uint64_t)(R.x->acts.p[i].kind == SK_ACT_RELEASE);
            rig_end(&R);
        } else {
            sk_stages_free(&R.st);
            sk_plan_destroy(R.plan, NULL, NULL);
        }
        CHECK_EQ(sk_mem_blocks(SK_TAG_EXEC), 0);
        if (!failed) break;
    }
}

TEST(many_blocks_smaller_than_a_task_is_worth_are_taken_together_however_small_blocks_must_be) {
    rig_begin(&R);
    R.conf.target_min_bytes = 100;
    R.conf.target_max_bytes = 10; /* each block is larger than a stage may yield */
    rig_start(&R, rig_map(&R, rig_source(&R, 1, 10)));
    R.x->s[1].n_bundled = 10240;
    uint64_t t = rig_task(&R, 0, 0);
    for (uint32_t i = 0; i < 4; i++) rig_yield(&R, t, 1, 20);
    CHECK_EQ(rig_flying(&R, 1), 0);
    rig_yield(&R, t, 1, 20); /* 100 */
    CHECK_EQ(rig_flying(&R, 1), 1);
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, 0))->in.n, 5);
    rig_yield(&R, t, 1, 90);
    rig_yield(&R, t, 1, 20); /* 110 would be more than either bound: two tasks */
    rig_done(&R, t, 1);
    CHECK_EQ(rig_flying(&R, 1), 3);
    for (uint64_t i = 0; i < 3; i++) rig_done(&R, rig_task(&R, 1, i), 1);
    CHECK_RC(sk_step_take(R.x, R.now, &(struct sk_bref){0}, NULL), SK_EDONE);
    rig_end(&R);
}

TEST(units_that_are_done_already_are_not_expected) {
    uint8_t done[40] = {0};
    memset(done, 1, 20);
    rig_begin(&R);
    R.conf.keep_units = true;
    R.conf.skip_units = done;
    rig_start(&R, rig_source(&R, SK_COUNT(done), 10));
    struct sk_exec_stats st;
    struct sk_exec_op_stats op;
    sk_metrics_get(R.x, &st, &op, 1);
    CHECK(op.tasks_queued > 0);
    CHECK_EQ(op.tasks_expected, 20);
    for (uint64_t i = 20; i < SK_COUNT(done); i++) rig_done(&R, rig_task(&R, 0, i), 1);
    CHECK_RC(sk_step_take(R.x, R.now, &(struct sk_bref){0}, NULL), SK_EDONE);
    rig_end(&R);
}

TEST(units_are_kept_apart_and_numbered_by_what_they_are) {
    static const uint8_t done[6] = {1, 0, 0, 1, 0, 1};
    rig_begin(&R);
    R.conf.keep_units = true;
    R.conf.skip_units = done;
    R.conf.target_min_bytes = 50;
    R.conf.target_max_bytes = 100;
    rig_start(&R, rig_map(&R, rig_source(&R, 6, 10)));
    R.x->s[1].n_bundled = 10240;
    CHECK(!rig_task(&R, 0, 0) && rig_task(&R, 0, 1) && rig_task(&R, 0, 2) && !rig_task(&R, 0, 3) &&
          rig_task(&R, 0, 4) && !rig_task(&R, 0, 5));
    uint64_t one = rig_task(&R, 0, 1), two = rig_task(&R, 0, 2), four = rig_task(&R, 0, 4);
    rig_yield(&R, one, 4, 20);
    rig_yield(&R, one, 4, 40); /* enough together */
    rig_yield(&R, one, 1, 10);
    rig_yield(&R, two, 2, 90); /* the block is large, but not the next in order: it waits */
    CHECK_EQ(rig_flying(&R, 1), 1);
    CHECK(rig_task(&R, 1, 1ull << 20));
    rig_done(&R, one, 1);
    rig_done(&R, two, 1);
    uint64_t a = rig_task(&R, 1, 1ull << 20), b = rig_task(&R, 1, (1ull << 20) + 1),
             c = rig_task(&R, 1, 2ull << 20);
    CHECK(a && b && c); /* the small rest of unit 1 does not wait for blocks of unit 2 */
    CHECK_EQ(sk_step_task(R.x, b)->in.n, 1);
    rig_yield(&R, four, 1, 10);
    rig_done(&R, four, 1); /* the last unit: no more input follows, so the rest is launched */
    uint64_t d = rig_task(&R, 1, 4ull << 20);
    CHECK(d);
    const uint64_t tasks[] = {d, c, b, a}, origin[] = {1, 1, 2, 4};
    for (uint32_t i = 0; i < 4; i++) {
        rig_yield(&R, tasks[i], 1, 8);
        rig_done(&R, tasks[i], 1);
    }
    for (uint32_t i = 0; i < 4; i++) {
        struct sk_bref out;
        CHECK_OK(sk_step_take(R.x, R.now, &out, NULL));
        CHECK_EQ(out.origin, origin[i]);
        R.live--;
    }
    CHECK_RC(sk_step_take(R.x, R.now, &(struct sk_bref){0}, NULL), SK_EDONE);
    rig_end(&R);
}

TEST(a_piece_of_a_source_has_so_many_tasks_and_no_more) {
    static const uint8_t done[1] = {0};
    rig_begin(&R);
    R.conf.keep_units = true;
    R.conf.skip_units = done;
    rig_start(&R, rig_map(&R, rig_source(&R, 1, 10)));
    uint64_t t = rig_task(&R, 0, 0);
    rig_yield(&R, t, 1, 5);
    CHECK_EQ(rig_flying(&R, 1), 1);
    R.x->s[1].n_parts = (1 << 20) - 1; /* so many have come */
    struct sk_err err = {0};
    struct sk_step_ev ev = {.kind = SK_SEV_YIELDED,
                            .task = t,
                            .block = {.oid = ++R.next_oid, .n_rows = 1, .bytes = 5},
                            .cost = 5};
    R.live++;
    CHECK_EQ(sk_step_event(R.x, &ev, R.now, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "at most 1,048,576 tasks for a piece of its source");
    rig_end(&R);
}

TEST(a_place_is_taken_until_the_calls_of_its_dead_actor_have_ended) {
    struct sk_sactor a[3] = {/* the second can be filled */
                             {.state = SK_ACTOR_GONE, .in_flight = 2},
                             {.state = SK_ACTOR_GONE},
                             {.state = SK_ACTOR_READY}};
    struct sk_sstage s = {.actors = a, .n_actors = 3, .n_live = 1};
    CHECK_EQ(sk_pool_taken(&s), 2);
    a[0].in_flight = 0;
    CHECK_EQ(sk_pool_taken(&s), 1);
}

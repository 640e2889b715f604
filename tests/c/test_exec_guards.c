/* test_exec_guards.c - each guard by itself over a view, policies that use guards, and which policy
 * is the default. */
#include "exec/launch/guards.h"
#include "exec/exec.h"
#include "test.h"

enum { READ, MAP, N };

struct look {
    struct sk_op_view op[N];
    enum sk_stop why[N];
    struct sk_sched_view v;
    uint64_t state[8];
};

/* Makes a view of a source and a map, both with input and a free slot, and 1,000 bytes of free
 * memory. */
static struct look *look(void) {
    static struct look l;
    l = (struct look){0};
    for (uint32_t i = 0; i < N; i++)
        l.op[i] = (struct sk_op_view){.runs = true,
                                      .source = i == READ,
                                      .feeder = i == MAP,
                                      .parent = i == READ ? MAP : UINT32_MAX,
                                      .cpu_e4 = 10000,
                                      .input = true,
                                      .in_turn = true,
                                      .slot = SK_SLOT_FREE,
                                      .est_known = true,
                                      .est_out = 100,
                                      .block_bytes = 100};
    l.v = (struct sk_sched_view){.n = N,
                                 .op = l.op,
                                 .why = l.why,
                                 .memory_limit = 1000,
                                 .memory_room = 1000,
                                 .unknown_bytes = 400,
                                 .now_ns = 1,
                                 .cpu_e4 = 80000,
                                 .gpu_e4 = 10000,
                                 .gpu_left_e4 = 10000};
    return &l;
}

static struct sk_choice choose(struct look *l, const char *name) {
    const struct sk_policy *p = sk_policy_find(name);
    CHECK(p && p->state_bytes <= sizeof l->state);
    return p->choose(&l->v, l->state);
}

TEST(what_cannot_be_done_is_no_decision) {
    struct look *l = look();
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_NONE);
    l->op[MAP].slot = SK_SLOT_QUEUE;
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_NONE);
    l->op[MAP].slot = SK_SLOT_NONE;
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_SLOT);
    l->op[MAP].capped = true;
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_CAP);
    l->op[MAP].window_full = true;
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_WINDOW);
    l->op[MAP].input = false;
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_INPUT);
    l->op[MAP].over = true;
    CHECK_EQ(sk_guard_can(&l->v, MAP), SK_STOP_OVER);
}

TEST(inputs_of_a_join_have_turns) {
    struct look *l = look();
    CHECK_EQ(sk_guard_turn(&l->v, READ), SK_STOP_NONE);
    l->op[READ].lead_bytes = 125; /* an eighth of memory */
    CHECK_EQ(sk_guard_turn(&l->v, READ), SK_STOP_NONE);
    l->op[READ].lead_bytes = 126;
    CHECK_EQ(sk_guard_turn(&l->v, READ), SK_STOP_TURN);
    l->op[READ].lead_bytes = 0;
    l->op[READ].in_turn = false;
    CHECK_EQ(sk_guard_turn(&l->v, READ), SK_STOP_TURN);
}

TEST(above_a_limit_few_are_under_way) {
    struct look *l = look();
    l->op[READ].running = 1;
    l->op[READ].held_blocks = 1;
    l->op[MAP].in_blocks = 1;
    CHECK_EQ(sk_guard_ramp(&l->v, READ), SK_STOP_NONE); /* no limit below */
    l->op[READ].ramp = 4;
    CHECK_EQ(sk_guard_ramp(&l->v, READ), SK_STOP_NONE);
    l->op[READ].ramp = 3;
    CHECK_EQ(sk_guard_ramp(&l->v, READ), SK_STOP_RAMP);
}

TEST(what_would_only_queue_needs_half_of_memory) {
    struct look *l = look();
    l->v.memory_taken = 401;
    CHECK_EQ(sk_guard_queue(&l->v, MAP), SK_STOP_NONE);
    l->op[MAP].slot = SK_SLOT_QUEUE;
    CHECK_EQ(sk_guard_queue(&l->v, MAP), SK_STOP_QUEUE);
    l->v.memory_taken = 400;
    CHECK_EQ(sk_guard_queue(&l->v, MAP), SK_STOP_NONE);
}

TEST(the_consumer_has_a_quarter_or_two_blocks_or_what_it_was_given) {
    struct look *l = look();
    l->v.feed_bytes = 151;
    CHECK_EQ(sk_guard_consumer(&l->v, MAP), SK_STOP_NONE); /* it waits */
    l->v.out_blocks = l->v.feed_blocks = 1;
    CHECK_EQ(sk_guard_consumer(&l->v, MAP), SK_STOP_CONSUMER);
    CHECK_EQ(sk_guard_consumer(&l->v, READ), SK_STOP_NONE);
    l->v.feed_bytes = 150;
    CHECK_EQ(sk_guard_consumer(&l->v, MAP), SK_STOP_NONE);
    l->op[MAP].block_bytes = 300;
    l->v.feed_bytes = 500;
    CHECK_EQ(sk_guard_consumer(&l->v, MAP), SK_STOP_NONE);
    l->v.consumer_blocks = 1;
    CHECK_EQ(sk_guard_consumer(&l->v, MAP), SK_STOP_CONSUMER);
}

TEST(half_of_memory_waits_before_a_busy_operator) {
    struct look *l = look();
    l->op[MAP].in_bytes = 401;
    CHECK_EQ(sk_guard_reader(&l->v, READ), SK_STOP_NONE);
    l->op[MAP].running = 1;
    CHECK_EQ(sk_guard_reader(&l->v, READ), SK_STOP_NONE);
    l->op[MAP].waited = SK_WAIT_RESOURCE;
    CHECK_EQ(sk_guard_reader(&l->v, READ), SK_STOP_READER);
    CHECK_EQ(sk_guard_reader(&l->v, MAP), SK_STOP_NONE); /* only the consumer reads its output */
    l->op[MAP].in_bytes = 400;
    CHECK_EQ(sk_guard_reader(&l->v, READ), SK_STOP_NONE);
}

TEST(one_probe_unless_memory_is_ample) {
    struct look *l = look();
    l->op[READ].unknown = 1;
    l->v.memory_room = 799;
    CHECK_EQ(sk_guard_probe(&l->v, READ), SK_STOP_NONE);
    l->op[READ].est_known = false;
    CHECK_EQ(sk_guard_probe(&l->v, READ), SK_STOP_PROBE);
    l->v.memory_room = 800;
    CHECK_EQ(sk_guard_probe(&l->v, READ), SK_STOP_NONE);
}

TEST(ahead_of_the_order_what_grows_needs_room_behind_it) {
    struct look *l = look();
    l->op[READ].ahead = true;
    l->v.memory_room = 299;
    CHECK_EQ(sk_guard_early(&l->v, READ), SK_STOP_NONE);
    l->op[READ].grows = true;
    /* its own 100 and 100 of each operator from it on */
    CHECK_EQ(sk_guard_early(&l->v, READ), SK_STOP_EARLY);
    l->v.memory_room = 300;
    CHECK_EQ(sk_guard_early(&l->v, READ), SK_STOP_NONE);
}

TEST(the_reason_told_is_whose_turn_it_is_before_what_is_full) {
    struct look *l = look();
    l->op[MAP].slot = SK_SLOT_NONE;
    l->op[MAP].ramp = 1;
    l->op[MAP].running = 1;
    sk_guards_full(&l->v);
    CHECK_EQ(l->why[MAP], SK_STOP_RAMP);
    CHECK_EQ(l->why[READ], SK_STOP_NONE);
    sk_guards_bare(&l->v);
    CHECK_EQ(l->why[MAP], SK_STOP_SLOT);
    l->op[READ].slot = SK_SLOT_QUEUE;
    sk_guards_bare(&l->v);
    CHECK_EQ(l->why[READ], SK_STOP_SLOT);
}

TEST(every_reason_has_a_word) {
    for (int s = SK_STOP_OVER; s < SK_STOP_N; s++) CHECK(sk_wait_of[s] != SK_WAIT_NONE);
    CHECK_EQ(sk_wait_of[SK_STOP_NONE], SK_WAIT_NONE);
}

TEST(gpus_of_idle_pools_go_to_who_lacks_only_them) {
    struct look *l = look();
    l->op[READ].actors = l->op[MAP].actors = true;
    l->op[READ].gpu_e4 = l->op[MAP].gpu_e4 = 10000;
    l->op[READ].n_actors = 1;
    l->v.gpu_left_e4 = 0;
    l->op[MAP].slot = SK_SLOT_NONE;
    sk_guards_full(&l->v);
    CHECK_EQ(sk_choose_turn(&l->v).op, -1); /* it is at work */
    l->op[READ].idle_gpu_e4 = 10000;
    struct sk_choice c = sk_choose_turn(&l->v);
    CHECK(c.op == MAP && c.turn && !c.forced);
    l->op[MAP].capped = true; /* the user's limits hold here, too */
    CHECK_EQ(sk_choose_turn(&l->v).op, -1);
    l->op[MAP].capped = false;
    l->op[MAP].cpus_spent = true;
    CHECK_EQ(sk_choose_turn(&l->v).op, -1);
    l->op[MAP].cpus_spent = false;
    CHECK(sk_turn_gives(&l->v, READ, MAP) && !sk_turn_gives(&l->v, MAP, MAP));
    l->v.flying = 1; /* other tasks run: a stop only for a good part of memory */
    CHECK_EQ(sk_choose_turn(&l->v).op, -1);
    l->op[MAP].in_bytes = 250;
    CHECK_EQ(sk_choose_turn(&l->v).op, MAP);
    /* its output stays in memory while the other stage has no GPU */
    CHECK_EQ(sk_need(&l->v, READ), 200);
    l->v.memory_room = 99;
    CHECK_EQ(sk_choose_turn(&l->v).op, -1);
    l->v.flying = 0;
    c = sk_choose_forced(&l->v);
    CHECK(c.op == MAP && c.turn && c.forced);
    /* a task may be queued for the GPU: an actor leaves it to that task; another task does not */
    l->v.task_gpu_e4 = 5000;
    CHECK_EQ(sk_turn_need(&l->v, MAP), 15000);
    l->op[MAP].actors = false;
    CHECK_EQ(sk_turn_need(&l->v, MAP), 10000);
    l->v.gpu_limited = true; /* it would run beside the other one */
    CHECK_EQ(sk_turn_need(&l->v, MAP), 15000);
}

TEST(exceptions_are_for_who_would_wait_for_ever) {
    struct look *l = look();
    sk_guards_full(&l->v);
    CHECK_EQ(sk_choose_forced(&l->v).op, MAP);
    l->v.out_blocks = 1; /* only the consumer can free memory */
    CHECK_EQ(sk_choose_forced(&l->v).op, -1);
    l->v.out_blocks = 0;
    l->v.flying = 1;
    CHECK_EQ(sk_choose_forced(&l->v).op, -1);
    l->v.memory_used = 1000;
    CHECK_EQ(sk_choose_drain(&l->v).op, -1);
    l->v.memory_used = 1001;
    CHECK(sk_choose_drain(&l->v).op == MAP && sk_choose_drain(&l->v).forced);
    l->op[MAP].running = 1; /* one at a time */
    CHECK_EQ(sk_choose_drain(&l->v).op, -1);
}

TEST(blocks_that_wait_make_room_for_what_is_on_disk_and_not_for_more) {
    struct look *l = look();
    l->v.memory_room = 300;
    l->op[MAP].next_in_bytes = 100;
    CHECK_EQ(sk_room(&l->v, MAP), 300);
    CHECK_EQ(sk_room(&l->v, READ), 300);
    l->v.memory_disk = 200;
    l->v.memory_working = 400;
    CHECK_EQ(sk_room(&l->v, MAP), 500); /* of 1000, besides the running tasks and its own input */
    CHECK_EQ(sk_room(&l->v, READ), 100);
    l->v.memory_disk = 301;
    CHECK_EQ(sk_room(&l->v, READ), 0);
    l->v.memory_working = 950;
    CHECK_EQ(sk_room(&l->v, MAP), 0);
}

TEST(near_the_end_the_longest_way_comes_first) {
    struct look *l = look();
    l->v.memory_limit = l->v.memory_room = 1 << 20;
    l->op[READ].est_ns = 1000000000;
    l->op[READ].units_left = 1;
    l->op[READ].est_out = 1000;
    l->op[MAP].est_ns = 200000000;
    l->op[MAP].in_bytes = 2000;
    l->op[MAP].in_per_task = 100;
    l->op[MAP].out_per_in = 1;
    /* 1 + 30 * 0.2 = 7 s for 8 slots; the last unit and the tasks behind it take 1.2 s */
    CHECK_EQ(choose(l, "adaptive").op, READ);
    l->op[MAP].in_bytes = 6000; /* 15 s for 8 slots */
    CHECK_EQ(choose(l, "adaptive").op, MAP);
    l->op[MAP].in_bytes = 2000;
    l->v.memory_room = 1050; /* its output, but not one of the other stage beside it */
    CHECK_EQ(choose(l, "adaptive").op, MAP);
    l->v.memory_room = 1 << 20;
    l->op[MAP].est_ns = 0; /* not known */
    CHECK_EQ(choose(l, "adaptive").op, MAP);
}

TEST(what_is_no_larger_than_its_input_needs_no_room) {
    /* the size of the actual input counts, not the mean, if blocks have different sizes */
    struct look *l = look();
    l->v.memory_used = 1000;
    l->v.memory_room = 0;
    l->v.flying = 1;
    l->op[READ].input = false;
    l->op[MAP].in_bytes = 800;
    l->op[MAP].in_per_task = 100;
    CHECK_EQ(choose(l, "adaptive").op, MAP);
    l->op[MAP].grows = true;
    CHECK_EQ(choose(l, "adaptive").op, -1);
}

TEST(published_policies_ask_none_of_our_guards) {
    static const char *const NAME[] = {"paper", "pessimistic", "reservation"};
    for (uint32_t k = 0; k < SK_COUNT(NAME); k++) {
        struct look *l = look();
        l->op[READ].input = false;
        l->op[MAP].ramp = 1;
        l->op[MAP].held_blocks = 9;
        l->v.out_blocks = l->v.feed_blocks = 9;
        l->v.consumer_blocks = 1;
        CHECK_EQ(choose(l, NAME[k]).op, MAP);
        CHECK_EQ(choose(l, "downstream").op, -1);
        l->op[MAP].slot = SK_SLOT_QUEUE; /* nothing is queued behind running tasks */
        CHECK_EQ(choose(l, NAME[k]).op, -1);
    }
}

TEST(ray_deals_memory_by_shares) {
    struct look *l = look();
    l->v.flying = 1;
    /* neither holds memory: the downstream one is chosen */
    CHECK_EQ(choose(l, "reservation").op, MAP);
    l->op[MAP].out_bytes = 200;
    CHECK_EQ(choose(l, "reservation").op, READ); /* it holds less */
    /* its share is 125 for tasks; the memory that no operator has reserved is divided */
    l->op[READ].promised = 400;
    CHECK_EQ(choose(l, "reservation").op, MAP);
    l->op[MAP].promised = 400;
    CHECK_EQ(choose(l, "reservation").op, -1);
    l->v.flying = 0; /* if no task runs, any task may be launched */
    CHECK(choose(l, "reservation").forced);
}

TEST(who_names_no_policy_gets_the_default_of_the_place) {
    CHECK_STR_EQ(sk_policy_default(true)->name, "adaptive");
    CHECK_STR_EQ(sk_policy_default(false)->name, "downstream");
    CHECK(!sk_policy_find("paperr"));
    for (unsigned i = 0; sk_policy_name(i); i++)
        CHECK(sk_policy_find(sk_policy_name(i)) && sk_policy_find(sk_policy_name(i))->choose);
    CHECK(sk_policy_find(NULL) == NULL);
}

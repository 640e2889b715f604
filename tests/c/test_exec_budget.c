/* test_exec_budget.c - promises, learned sizes, probing, headroom, and how deep the engine's queues
 * are filled. */
#include "exec_rig.h"

static struct rig R;

TEST(promise_turns_into_use_and_the_rest_comes_back) {
    struct sk_budget b = {.limit = 100};
    uint64_t promise = 60;
    sk_budget_reserve(&b, promise);
    CHECK_EQ(sk_budget_room(&b), 40);
    sk_budget_use(&b, &promise, 25);
    CHECK_EQ(promise, 35);
    CHECK_EQ(sk_budget_room(&b), 40);
    sk_budget_use(&b, &promise, 50); /* a surprise of 15 */
    CHECK_EQ(promise, 0);
    CHECK_EQ(b.reserved, 0);
    CHECK_EQ(sk_budget_room(&b), 25);
    sk_budget_use(&b, &promise, 80);
    CHECK_EQ(sk_budget_room(&b), 0);
    sk_budget_give(&b, 155);
    CHECK_EQ(b.used, 0);
    CHECK_EQ(b.peak, 155);
}

TEST(tables_of_all_tasks_have_an_eighth_of_memory) {
    rig_begin(&R);
    R.conf.memory_bytes = 64 << 20;
    R.conf.target_max_bytes = 1 << 20;
    R.conf.cpu_e4 = 4 * SK_RES_UNIT;
    rig_start(&R, rig_map(&R, rig_source(&R, 1, -1)));
    CHECK_EQ(sk_stage_slots(R.x, &R.x->s[0]), 4);
    CHECK_EQ(sk_stage_table_bytes(R.x, &R.x->s[0]), 2 << 20);
    R.x->conf.target_max_bytes = 16 << 20; /* but at least half a block */
    CHECK_EQ(sk_stage_table_bytes(R.x, &R.x->s[0]), 8 << 20);
    R.x->s[0].max_tasks = 1;
    R.x->conf.target_max_bytes = 0;
    CHECK_EQ(sk_stage_table_bytes(R.x, &R.x->s[0]), 8 << 20);
    rig_end(&R);
}

static void told(struct rig *r, enum sk_step_ev_kind kind, uint64_t oid) {
    rig_event(r, (struct sk_step_ev){.kind = kind, .block = {.oid = oid}});
}

TEST(what_was_spilled_is_not_in_memory) {
    rig_begin(&R);
    R.conf.memory_bytes = 1000;
    rig_start(&R, rig_map(&R, rig_source(&R, 1, -1)));
    uint64_t task = rig_task(&R, 0, 0);
    rig_yield(&R, task, 1, 50);
    rig_yield(&R, task, 1, 70);
    CHECK_EQ(R.x->mem.used, 120);
    told(&R, SK_SEV_SPILLED, R.next_oid);
    CHECK_EQ(R.x->mem.used, 50);
    CHECK_EQ(R.x->mem.disk, 70);
    told(&R, SK_SEV_SPILLED, R.next_oid); /* said twice */
    told(&R, SK_SEV_SPILLED, 99999);      /* none of the run's */
    CHECK_EQ(R.x->mem.disk, 70);
    told(&R, SK_SEV_RESTORED, R.next_oid);
    CHECK_EQ(R.x->mem.used, 120);
    CHECK_EQ(R.x->mem.disk, 0);
    told(&R, SK_SEV_SPILLED, R.next_oid);
    rig_done(&R, rig_task(&R, 1, 1), 1000); /* its input stays where it is: on disk */
    CHECK_EQ(R.x->mem.disk, 0);
    CHECK_EQ(R.x->mem.used, 50);
    CHECK_EQ(R.x->mem.peak, 120);
    rig_end(&R);
}

TEST(what_is_on_disk_is_worked_off_as_far_as_running_tasks_leave_room) {
    rig_begin(&R);
    R.conf.memory_bytes = 40;
    R.conf.target_max_bytes = 10;
    rig_start(&R, rig_map(&R, rig_source(&R, 1, 10)));
    uint64_t task = rig_task(&R, 0, 0);
    /* more output than expected: more than twice the memory */
    for (int i = 0; i < 9; i++) rig_yield(&R, task, 1, 10);
    uint64_t newest = R.next_oid;
    for (uint32_t i = 0; i < 3; i++) {
        rig_yield(&R, rig_task(&R, 1, i), 1, 10);
        rig_done(&R, rig_task(&R, 1, i), 1000);
        CHECK(rig_take(&R, 1));
    }
    uint64_t forced = R.x->n_forced;
    CHECK_GT(forced, 0);
    CHECK_EQ(rig_flying(&R, 1), 1); /* 60 in a memory of 40: one task at a time, as an exception */
    for (uint64_t oid = newest; oid > newest - 4; oid--) told(&R, SK_SEV_SPILLED, oid);
    CHECK_EQ(R.x->mem.disk, 40);
    CHECK_EQ(rig_flying(&R, 1), 2); /* 10 and 10 of each */
    CHECK_EQ(R.x->n_forced, forced);
    rig_end(&R);
}

TEST(sizes_are_the_larger_of_mean_and_recent) {
    struct sk_size_est e = {0};
    CHECK(!sk_size_est_known(&e));
    sk_size_est_add(&e, 100, 200);
    CHECK_EQ(sk_size_est_out(&e, 50, 0), 100);
    CHECK_EQ(sk_size_est_out(&e, 0, 0), 200);
    for (int i = 0; i < 9; i++) sk_size_est_add(&e, 100, 0);
    CHECK_EQ(sk_size_est_out(&e, 100, 0), 20); /* the mean of all; the recent outputs are smaller */
    sk_size_est_add(&e, 100, 500);
    CHECK_GT(sk_size_est_out(&e, 100, 0), 100); /* recent */
    /* the first outputs are empty: the prior estimate is used for a while */
    struct sk_size_est z = {0};
    for (uint64_t n = 1; n < 8; n++) {
        sk_size_est_add(&z, 100, 0);
        CHECK_EQ(sk_size_est_out(&z, 100, 1000), (1000 + (n + 1) / 2) / (n + 1));
    }
    sk_size_est_add(&z, 100, 0);
    CHECK_EQ(sk_size_est_out(&z, 100, 1000), 0);
    sk_size_est_add(&z, 100, 7000);
    CHECK_EQ(sk_size_est_out(&z, 100, 1000), 2100);
    struct sk_size_est u = {0}; /* inputs without sizes */
    sk_size_est_add(&u, 0, 10);
    sk_size_est_add(&u, 0, 30);
    CHECK_EQ(sk_size_est_out(&u, 77, 0), 20);
}

TEST(queues_are_deep_for_short_tasks_only) {
    bool ahead = false;
    struct sk_slots s = {.total = 40000, .used = 30000};
    CHECK(sk_slots_admit(&s, 10000, 0, 3, &ahead) && !ahead);
    s.used = 40000;
    /* the duration is unknown: twice the slots are filled */
    CHECK(sk_slots_admit(&s, 10000, 0, 4, &ahead) && ahead);
    CHECK(!sk_slots_admit(&s, 10000, 100000000, 4, &ahead)); /* long: none */
    s.used = 80000;
    CHECK(!sk_slots_admit(&s, 10000, 0, 8, &ahead));
    s.queued_ns = 80000 * 10e3; /* 10 us each */
    CHECK(sk_slots_admit(&s, 10000, 10000, 8, &ahead));
    CHECK(!sk_slots_admit(&s, 10000, 10000, 4 * 64, &ahead));
    s.queued_ns = 80000 * 1e6; /* tasks of 1 ms: 2 ms of work are queued for each slot */
    CHECK(!sk_slots_admit(&s, 10000, 1000000, 8, &ahead));
    ahead = false;
    CHECK(sk_slots_admit(&s, 0, 0, 1000, &ahead) && !ahead);
}

TEST(one_probe_until_the_size_is_known) {
    rig_begin(&R);
    /* blocks of up to 6: a task of unknown size is expected to yield four */
    R.conf.memory_bytes = 40;
    rig_start(&R, rig_source(&R, 100, -1));
    CHECK_EQ(rig_flying(&R, 0), 1);
    CHECK_EQ(sk_stage_wait(&R.x->s[0]), SK_WAIT_MEMORY);
    rig_yield(&R, rig_task(&R, 0, 0), 1, 5);
    CHECK_EQ(rig_flying(&R, 0), 1);
    rig_done(&R, rig_task(&R, 0, 0), 1000000);
    /* 5 wait for the consumer and 5 are expected: the source's share is a quarter, or two blocks */
    CHECK_EQ(rig_flying(&R, 0), 1);
    CHECK(rig_take(&R, 1));
    CHECK_EQ(rig_flying(&R, 0), 4);
    CHECK_EQ(R.x->mem.reserved, 20);
    rig_end(&R);
}

TEST(ample_memory_needs_no_probe) {
    rig_begin(&R);
    R.conf.memory_bytes = 1000;
    rig_start(&R, rig_source(&R, 100, -1));
    CHECK_EQ(rig_flying(&R, 0), 8); /* twice the slots, since the tasks may be short */
    rig_end(&R);
}

TEST(estimates_of_units_are_known_sizes) {
    rig_begin(&R);
    R.conf.memory_bytes = 40;
    rig_start(&R, rig_source(&R, 100, 10));
    CHECK_EQ(rig_flying(&R, 0), 4);
    rig_end(&R);
}

TEST(sources_leave_headroom_and_downstream_uses_it) {
    rig_begin(&R);
    R.conf.memory_bytes = 35;
    R.conf.target_max_bytes = 10;
    rig_start(&R, rig_map(&R, rig_source(&R, 100, 10)));
    CHECK_EQ(rig_flying(&R, 0), 2); /* 10 + 10, and a block of 10 stays for the map */
    rig_yield(&R, rig_task(&R, 0, 0), 1, 10);
    CHECK_EQ(rig_flying(&R, 1), 1);
    CHECK_EQ(R.x->mem.used + R.x->mem.reserved, 30);
    rig_done(&R, rig_task(&R, 0, 0), 100000000);
    CHECK_EQ(rig_flying(&R, 0), 1);
    rig_yield(&R, rig_task(&R, 1, 0), 1, 10);
    rig_done(&R, rig_task(&R, 1, 0), 100000000);
    CHECK(rig_take(&R, 1));
    CHECK_EQ(rig_flying(&R, 0), 2);
    rig_end(&R);
}

TEST(a_task_larger_than_memory_runs_alone) {
    rig_begin(&R);
    R.conf.memory_bytes = 10;
    rig_start(&R, rig_map(&R, rig_source(&R, 3, 50)));
    CHECK_EQ(rig_flying(&R, 0), 1);
    for (int i = 0; i < 10; i++) rig_yield(&R, rig_task(&R, 0, 0), 1, 5);
    /* over the limit unexpectedly: tasks that free memory still run, one at a time */
    CHECK_EQ(rig_flying(&R, 1), 1);
    rig_done(&R, rig_task(&R, 0, 0), 1);
    CHECK_EQ(rig_flying(&R, 0), 0);
    for (uint32_t i = 0; i < 10; i++) {
        CHECK_EQ(rig_flying(&R, 1), 1);
        rig_yield(&R, rig_task(&R, 1, i), 1, 5);
        rig_done(&R, rig_task(&R, 1, i), 1);
        CHECK(rig_take(&R, 1));
    }
    CHECK_EQ(rig_flying(&R, 0), 1);
    CHECK(!R.x->stalled);
    rig_end(&R);
}

TEST(bottleneck_is_who_holds_the_cpus) {
    rig_begin(&R);
    rig_start(&R, rig_map(&R, rig_source(&R, 200, 5)));
    for (int round = 0; round < 60; round++) {
        for (uint32_t i = 0; i < R.launched.n; i++) {
            uint64_t id = R.launched.p[i];
            if (!id) continue;
            bool map = sk_step_task(R.x, id)->stage == 1;
            if (map && round % 10) continue; /* maps take ten times as long */
            rig_yield(&R, id, 1, 5);
            rig_done(&R, id, map ? 10000000 : 1000000);
            while (R.x->out.n) rig_take(&R, 1);
        }
        R.now += 1000000;
    }
    struct sk_exec_stats st;
    struct sk_exec_op_stats op[2];
    sk_metrics_get(R.x, &st, op, 2);
    CHECK_EQ(st.bottleneck, 1);
    CHECK_STR_EQ(st.bottleneck_why, "cpu");
    CHECK_GT(op[1].wait_resource_ns, 0);
    CHECK_EQ(op[0].total_units, 200);
    CHECK_EQ(op[0].blocks_out, op[0].tasks_done);
    CHECK_EQ(op[1].rows_in, op[0].rows_out);
    CHECK_GT(op[1].first_out_ns, op[0].first_out_ns);
    rig_end(&R);
}

TEST(what_is_left_open_is_chosen_from_the_store) {
    struct sk_exec_conf c = {.target_max_bytes = 16 << 20, .target_min_bytes = 1 << 20};
    sk_exec_choose(&c, 64 << 20);
    CHECK_EQ(c.memory_bytes, 60 << 20);
    CHECK_EQ(c.target_max_bytes, 15 << 20);
    CHECK_EQ(c.target_min_bytes, 1 << 20);
    c = (struct sk_exec_conf){.memory_bytes = 100, .target_max_bytes = 80, .target_min_bytes = 7};
    sk_exec_choose(&c, 1 << 20); /* values that the user gave stay */
    CHECK_EQ(c.memory_bytes, 100);
    CHECK_EQ(c.target_max_bytes, 80);
    CHECK_EQ(c.target_min_bytes, 7);
}

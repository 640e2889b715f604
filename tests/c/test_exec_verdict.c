/* test_exec_verdict.c - what becomes of a run when something in it fails. */
#include "exec/run/verdict.h"
#include "test.h"

TEST(tasks_survive_three_deaths_or_what_was_said) {
    struct sk_node_desc d = {0};
    CHECK_EQ(sk_exec_retries(&d), 3);
    d.retries = (struct sk_times){.given = true, .n = 0};
    CHECK_EQ(sk_exec_retries(&d), 0);
    d.retries.n = -1;
    CHECK_EQ(sk_exec_retries(&d), -1);
}

TEST(actors_are_started_again_for_ever_and_their_calls_three_times) {
    struct sk_node_desc d = {.pool_max = 2};
    CHECK_EQ(sk_exec_restarts(&d), -1);
    CHECK_EQ(sk_exec_retries(&d), 3);
    d.restarts = (struct sk_times){.given = true, .n = 5};
    CHECK_EQ(sk_exec_restarts(&d), 5);
    CHECK_EQ(sk_exec_retries(&d), 3);
    d.restarts.n = 0; /* no restart is left */
    CHECK_EQ(sk_exec_restarts(&d), 0);
    CHECK_EQ(sk_exec_retries(&d), 0);
    d.retries = (struct sk_times){.given = true, .n = 7};
    CHECK_EQ(sk_exec_retries(&d), 7);
}

TEST(bad_rows_up_to_the_number) {
    struct sk_exec_conf c = {.max_bad_rows = 5};
    struct sk_faults f = {0};
    CHECK(sk_exec_bad_rows(&c, &f, 3));
    CHECK(sk_exec_bad_rows(&c, &f, 2));
    CHECK(!sk_exec_bad_rows(&c, &f, 1));
    CHECK_EQ(f.bad_rows, 6);
    c.max_bad_rows = -1;
    CHECK(sk_exec_bad_rows(&c, &f, 1000));
    c.max_bad_rows = 0;
    f = (struct sk_faults){0};
    CHECK(!sk_exec_bad_rows(&c, &f, 1));
}

TEST(failed_tasks_up_to_the_number) {
    struct sk_exec_conf c = {.max_errored_blocks = 1};
    struct sk_node_desc d = {0};
    struct sk_faults f = {0};
    CHECK(sk_exec_failed(&c, &f, &d, SK_ETASK, false).left_out);
    CHECK(!sk_exec_failed(&c, &f, &d, SK_ETASK, false).left_out);
    /* the failure that ends the run is not counted among the skipped ones */
    CHECK_EQ(f.errored_blocks, 1);
    c.max_errored_blocks = -1;
    CHECK(sk_exec_failed(&c, &f, &d, SK_ETASK, false).left_out);
    c.max_errored_blocks = 0;
    f = (struct sk_faults){0};
    CHECK(!sk_exec_failed(&c, &f, &d, SK_ETASK, false).left_out);
}

TEST(an_actor_that_is_not_started_again_is_gone) {
    struct sk_exec_conf c = {.max_errored_blocks = -1};
    struct sk_node_desc d = {.pool_max = 1};
    struct sk_faults f = {0};
    CHECK(!sk_exec_failed(&c, &f, &d, SK_EACTOR, false).actor_dead); /* restarts are unlimited */
    d.restarts = (struct sk_times){.given = true, .n = 2};
    CHECK(sk_exec_failed(&c, &f, &d, SK_EACTOR, false).actor_dead);
    CHECK(sk_exec_failed(&c, &f, &d, SK_EOOM, false).actor_dead);
    /* one of its two restarts was left */
    CHECK(!sk_exec_failed(&c, &f, &d, SK_EACTOR, true).actor_dead);
    /* its batch failed, but the actor lives */
    CHECK(!sk_exec_failed(&c, &f, &d, SK_ETASK, false).actor_dead);
    d.restarts.n = -1;
    CHECK(!sk_exec_failed(&c, &f, &d, SK_EACTOR, false).actor_dead);
}

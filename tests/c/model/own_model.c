/* own_model.c - checks ownership: every run of the protocol within bounds is correct (own_proto.h),
 * and every seeded bug is found.
 *
 * SK_TEST_ROUNDS=n (./dev soak): n times as many random runs within the larger bounds, and wider
 * bounds for all runs: see within(). SK_MODEL_FACTOR=n:
 * instead all runs, shortest first, up to n million states for each correct protocol (1 takes a
 * minute; 200 takes 20 GB). */
#include "own_proto.h"

static uint64_t factor(void) {
    const char *s = getenv("SK_MODEL_FACTOR");
    return s ? strtoull(s, NULL, 10) : 0;
}

static void run(const struct own_cfg *cfg, uint64_t states, struct mc_result *r) {
    struct mc_model m = own_proto;
    m.arg = cfg;
    own_proto_init(cfg);
    mc_run(&m, states, r);
    own_proto_exit();
    printf("# %s: %llu states, %llu steps, %llu ends, depth %u, %s, %.1f s, %.0f steps a second\n",
           cfg->name, (unsigned long long)r->states, (unsigned long long)r->steps,
           (unsigned long long)r->ends, r->depth,
           r->all        ? "all of them"
           : r->wrong[0] ? "stopped"
                         : "bounded",
           r->seconds, (double)r->steps / r->seconds);
}

static void walks(const struct own_cfg *cfg, uint64_t n, struct mc_result *r) {
    struct mc_model m = own_proto;
    m.arg = cfg;
    own_proto_init(cfg);
    mc_walks(&m, n, r);
    own_proto_exit();
    printf("# %s: %llu runs by chance, %llu steps (%llu looked at), longest %u, %.1f s, %.0f steps "
           "a second\n",
           cfg->name, (unsigned long long)r->ends, (unsigned long long)r->states,
           (unsigned long long)r->steps, r->depth, r->seconds, (double)r->steps / r->seconds);
}

static void print_way(const struct mc_result *r) {
    const char *p = r->way;
    for (; *p; p += strcspn(p, "\n") + 1) printf("#   %.*s\n", (int)strcspn(p, "\n"), p);
    printf("#   => %s\n", r->wrong);
}

/* Checks a correct protocol: all states within the bounds `small`, and random runs within `large`,
 * or (SK_MODEL_FACTOR) its first millions of states. */
static void holds(struct own_cfg small, struct own_cfg large) {
    struct mc_result *r = sk_calloc(SK_TAG_TEST, sizeof *r);
    uint64_t n = factor();
    CHECK(r);
    large.name = small.name;
    run(&small, test_sanitized() ? 20000 : 2000000, r);
    if (!r->wrong[0]) CHECK(test_sanitized() || (r->all && r->ends > 10 && r->states > 5000));
    if (!r->wrong[0]) walks(&large, (uint64_t)test_rounds(test_sanitized() ? 300 : 3000), r);
    if (!r->wrong[0] && n) run(&large, n * 1000000, r);
    if (r->wrong[0]) print_way(r);
    CHECK_MSG(!r->wrong[0], "%s: %s, after %u steps (above)", small.name, r->wrong, r->way_len);
    sk_free(r);
}

/* Checks that the bug is found, with `what` in the message, and that without the bug a search of
 * the same size finds nothing. */
static void finds(struct own_cfg cfg, enum own_bug bug, const char *what) {
    struct mc_result *r = sk_calloc(SK_TAG_TEST, sizeof *r);
    CHECK(r);
    cfg.bug = bug;
    run(&cfg, 3000000, r);
    print_way(r);
    CHECK_MSG(r->wrong[0], "%s: the bug was not found in %llu states", cfg.name,
              (unsigned long long)r->states);
    CHECK_STR_HAS(r->wrong, what);
    uint64_t seen = r->states;
    cfg.bug = OWN_RIGHT;
    run(&cfg, seen + 1, r);
    if (r->wrong[0]) print_way(r);
    CHECK_MSG(!r->wrong[0], "%s without the bug: %s", cfg.name, r->wrong);
    sk_free(r);
}

/* ---- the right protocol ---------------------------------------------------------------------- */

#define CFG(...) ((struct own_cfg){__VA_ARGS__})

/* The bounds within which all runs are checked: `wide` in a soak. Those of each day have every kind
 * of step that the wide ones have, in at most three fifths of the states. */
static struct own_cfg within(struct own_cfg narrow, struct own_cfg wide) {
    narrow.name = wide.name;
    return test_rounds(1) > 1 ? wide : narrow;
}

TEST_SLOW(own_model_nesting, 300) {
    holds(within(CFG(.n_workers = 2, .n_objs = 4, .n_tasks = 1, .puts = 2, .gets = 1, .inner = 2,
                     .by_value = true),
                 CFG(.name = "nested values", .n_workers = 2, .n_objs = 4, .n_tasks = 2, .puts = 1,
                     .gets = 1, .inner = 2, .by_value = true)),
          CFG(.n_workers = 2, .n_objs = 5, .n_tasks = 2, .puts = 2, .gets = 2, .inner = 2,
              .by_value = true));
}

TEST_SLOW(own_model_borrowed_onward, 300) {
    holds(CFG(.name = "borrowed onward", .n_workers = 2, .n_objs = 4, .n_tasks = 2, .puts = 1,
              .inner = 1, .nested_submit = true),
          CFG(.n_workers = 3, .n_objs = 5, .n_tasks = 3, .puts = 2, .gets = 1, .inner = 1,
              .nested_submit = true));
}

TEST_SLOW(own_model_three_workers, 300) {
    holds(CFG(.name = "three workers", .n_workers = 3, .n_objs = 3, .n_tasks = 2, .puts = 1,
              .gets = 1, .inner = 1),
          CFG(.n_workers = 3, .n_objs = 4, .n_tasks = 3, .puts = 1, .gets = 1, .inner = 1,
              .nested_submit = true));
}

TEST_SLOW(own_model_streams, 300) {
    holds(CFG(.name = "streams", .n_workers = 2, .n_objs = 3, .n_tasks = 2, .deaths = 1, .inner = 1,
              .yields = 1, .nested_submit = true),
          CFG(.n_workers = 2, .n_objs = 5, .n_tasks = 3, .puts = 1, .deaths = 1, .inner = 1,
              .yields = 2, .retries = 1, .nested_submit = true));
}

TEST_SLOW(own_model_window, 300) {
    holds(within(CFG(.n_workers = 2, .n_objs = 2, .n_tasks = 2, .deaths = 1, .yields = 2,
                     .window = 1, .nested_submit = true),
                 CFG(.name = "streams with a window", .n_workers = 2, .n_objs = 3, .n_tasks = 2,
                     .deaths = 1, .yields = 2, .window = 1, .nested_submit = true)),
          CFG(.n_workers = 2, .n_objs = 6, .n_tasks = 3, .gets = 1, .deaths = 1, .losses = 1,
              .cancels = 1, .inner = 1, .yields = 2, .window = 1, .retries = 1, .budget = 3,
              .nested_submit = true, .by_value = true));
}

TEST_SLOW(own_model_attempts, 300) {
    holds(within(CFG(.n_workers = 2, .n_objs = 3, .n_tasks = 2, .deaths = 1, .raises = 1,
                     .inner = 1, .retries = 1, .late = true),
                 CFG(.name = "attempts", .n_workers = 2, .n_objs = 3, .n_tasks = 2, .deaths = 2,
                     .raises = 1, .inner = 1, .retries = 2, .late = true)),
          CFG(.n_workers = 2, .n_objs = 4, .n_tasks = 2, .puts = 1, .gets = 1, .deaths = 2,
              .raises = 1, .inner = 1, .yields = 2, .retries = 2, .late = true));
}

TEST_SLOW(own_model_cancel, 300) {
    holds(within(CFG(.n_workers = 1, .n_objs = 3, .n_tasks = 2, .deaths = 1, .cancels = 1,
                     .inner = 1, .yields = 1, .retries = 1, .by_value = true),
                 CFG(.name = "cancelled", .n_workers = 2, .n_objs = 3, .n_tasks = 2, .deaths = 1,
                     .cancels = 1, .inner = 1, .yields = 1, .retries = 1, .by_value = true)),
          CFG(.n_workers = 2, .n_objs = 5, .n_tasks = 3, .puts = 1, .gets = 1, .deaths = 1,
              .losses = 1, .cancels = 2, .inner = 1, .yields = 2, .retries = 1, .budget = 3,
              .by_value = true, .nested_submit = true));
}

TEST_SLOW(own_model_actor, 300) {
    holds(within(CFG(.n_workers = 2, .n_objs = 2, .n_tasks = 2, .puts = 1, .deaths = 1, .inner = 1,
                     .actor = true),
                 CFG(.name = "an actor", .n_workers = 2, .n_objs = 3, .n_tasks = 2, .deaths = 1,
                     .inner = 1, .actor = true)),
          CFG(.n_workers = 3, .n_objs = 5, .n_tasks = 3, .puts = 1, .gets = 1, .deaths = 1,
              .inner = 1, .retries = 1, .actor = true, .nested_submit = true));
}

TEST_SLOW(own_model_lineage, 300) {
    holds(CFG(.name = "lost values", .n_workers = 2, .n_objs = 3, .n_tasks = 2, .deaths = 1,
              .losses = 1, .inner = 1, .retries = 1, .budget = 2, .by_value = true),
          CFG(.n_workers = 2, .n_objs = 4, .n_tasks = 3, .puts = 1, .gets = 1, .deaths = 1,
              .losses = 2, .inner = 1, .retries = 1, .budget = 3, .by_value = true));
}

TEST_SLOW(own_model_lineage_pairs, 300) {
    holds(within(CFG(.n_workers = 1, .n_objs = 4, .n_tasks = 2, .losses = 1, .inner = 1,
                     .retries = 1, .budget = 2, .by_value = true, .pairs = true),
                 CFG(.name = "one of two lost", .n_workers = 2, .n_objs = 4, .n_tasks = 2,
                     .losses = 1, .inner = 1, .retries = 1, .budget = 2, .by_value = true,
                     .pairs = true)),
          CFG(.n_workers = 2, .n_objs = 6, .n_tasks = 3, .gets = 1, .deaths = 1, .losses = 2,
              .cancels = 1, .inner = 1, .retries = 2, .budget = 3, .by_value = true,
              .pairs = true));
}

TEST_SLOW(own_model_lineage_streams, 300) {
    holds(within(CFG(.n_workers = 1, .n_objs = 3, .n_tasks = 1, .puts = 1, .deaths = 1, .losses = 1,
                     .inner = 1, .yields = 2, .retries = 1, .budget = 2, .by_value = true),
                 CFG(.name = "lost yields", .n_workers = 2, .n_objs = 3, .n_tasks = 1, .puts = 1,
                     .deaths = 1, .losses = 1, .inner = 1, .yields = 2, .retries = 1, .budget = 2,
                     .by_value = true)),
          CFG(.n_workers = 2, .n_objs = 5, .n_tasks = 2, .puts = 1, .deaths = 1, .losses = 2,
              .inner = 1, .yields = 2, .retries = 2, .budget = 3, .by_value = true));
}

TEST_SLOW(own_model_lineage_budget, 300) {
    holds(CFG(.name = "a small budget", .n_workers = 1, .n_objs = 3, .n_tasks = 3, .losses = 1,
              .retries = 1, .budget = 1, .by_value = true),
          CFG(.n_workers = 2, .n_objs = 4, .n_tasks = 4, .losses = 2, .inner = 1, .yields = 1,
              .retries = 2, .budget = 2, .by_value = true));
}

/* ---- the six reference-counting bugs of Ray (papers.md 1.1.4), and four of ours -------------- */

TEST_SLOW(own_bug_borrow_is_a_flag, 60) {
    finds((struct own_cfg){.name = "#19910, borrow is a flag",
                           .n_workers = 1,
                           .n_objs = 3,
                           .n_tasks = 2,
                           .puts = 1,
                           .inner = 1},
          OWN_BORROW_IS_A_FLAG, "was freed");
}

TEST_SLOW(own_bug_put_loses_inner, 60) {
    finds((struct own_cfg){.name = "#30341, put loses inner references",
                           .n_workers = 1,
                           .n_objs = 4,
                           .n_tasks = 1,
                           .puts = 2,
                           .inner = 1},
          OWN_PUT_LOSES_INNER, "was freed");
}

TEST_SLOW(own_bug_argument_in_result, 60) {
    finds((struct own_cfg){.name = "#17553, argument in the result",
                           .n_workers = 1,
                           .n_objs = 2,
                           .n_tasks = 1,
                           .puts = 1,
                           .inner = 1},
          OWN_ARGUMENT_IN_RESULT, "was freed");
}

TEST_SLOW(own_bug_out_of_order, 60) {
    finds((struct own_cfg){.name = "#19734, nested in nested, out of order",
                           .n_workers = 1,
                           .n_objs = 3,
                           .n_tasks = 1,
                           .puts = 2,
                           .gets = 1,
                           .inner = 1},
          OWN_OUT_OF_ORDER, "was freed");
}

TEST_SLOW(own_bug_handle_no_borrow, 60) {
    finds((struct own_cfg){.name = "#9049, a handle is no borrow",
                           .n_workers = 2,
                           .n_objs = 2,
                           .n_tasks = 1,
                           .actor = true,
                           .inner = 1},
          OWN_HANDLE_NO_BORROW, "was freed");
}

TEST_SLOW(own_bug_only_from_the_caller, 60) {
    finds((struct own_cfg){.name = "PR #63025, passed beside the tree of calls",
                           .n_workers = 1,
                           .n_objs = 3,
                           .n_tasks = 1,
                           .puts = 2,
                           .gets = 1,
                           .inner = 1},
          OWN_ONLY_FROM_THE_CALLER, "was freed");
}

TEST_SLOW(own_bug_result_given_back_early, 60) {
    finds((struct own_cfg){.name = "result given back before the report",
                           .n_workers = 1,
                           .n_objs = 2,
                           .n_tasks = 1,
                           .puts = 1,
                           .inner = 1},
          OWN_RESULT_GIVEN_BACK_EARLY, "was freed");
}

TEST_SLOW(own_bug_no_fence, 60) {
    finds((struct own_cfg){.name = "no fence",
                           .n_workers = 2,
                           .n_objs = 1,
                           .n_tasks = 1,
                           .deaths = 1,
                           .retries = 1,
                           .late = true},
          OWN_NO_FENCE, "takes a report of attempt");
}

TEST_SLOW(own_bug_stream_outlives_reader, 60) {
    finds((struct own_cfg){.name = "a stream outlives its reader",
                           .n_workers = 2,
                           .n_objs = 2,
                           .n_tasks = 2,
                           .deaths = 1,
                           .yields = 1,
                           .nested_submit = true},
          OWN_STREAM_OUTLIVES_READER, "is kept");
}

TEST_SLOW(own_bug_task_does_not_hold, 60) {
    finds((struct own_cfg){.name = "a task does not hold its arguments",
                           .n_workers = 1,
                           .n_objs = 2,
                           .n_tasks = 1,
                           .puts = 1},
          OWN_TASK_DOES_NOT_HOLD, "was freed");
}

TEST_SLOW(own_bug_plan_before_drain, 60) {
    /* ours until this model found it: recover_argument_that_only_the_lost_value_held */
    finds((struct own_cfg){.name = "plans before it is told what is gone",
                           .n_workers = 1,
                           .n_objs = 2,
                           .n_tasks = 2,
                           .puts = 0,
                           .losses = 1,
                           .inner = 1,
                           .retries = 1,
                           .budget = 2,
                           .by_value = true},
          OWN_PLAN_BEFORE_DRAIN, "an argument is gone");
}

TEST_SLOW(own_bug_pending_not_awaited, 60) { /* likewise: recover_argument_that_is_not_there_yet */
    finds((struct own_cfg){.name = "the maker of an argument is still at work",
                           .n_workers = 1,
                           .n_objs = 2,
                           .n_tasks = 2,
                           .losses = 1,
                           .retries = 1,
                           .budget = 2},
          OWN_PENDING_NOT_AWAITED, "though it can be made again");
}

/* ---- what the protocol does not do ----------------------------------------------------------- */

static void is_a_limit(struct own_cfg cfg, const char *what) {
    struct mc_result *r = sk_calloc(SK_TAG_TEST, sizeof *r);
    CHECK(r);
    run(&cfg, 3000000, r);
    print_way(r);
    CHECK_STR_HAS(r->wrong, what);
    sk_free(r);
}

TEST_SLOW(own_limit_circle_of_values, 60) {
    is_a_limit((struct own_cfg){.name = "values that contain one another",
                                .n_workers = 1,
                                .n_objs = 3,
                                .n_tasks = 3,
                                .inner = 1,
                                .circles = true},
               "is kept");
}

TEST_SLOW(own_limit_circle_through_an_actor, 60) { /* as in Ray, which documents it */
    is_a_limit((struct own_cfg){.name = "an actor that holds what contains its handle",
                                .n_workers = 2,
                                .n_objs = 3,
                                .n_tasks = 1,
                                .puts = 1,
                                .inner = 1,
                                .actor = true,
                                .actor_keeps = true},
               "is kept");
}

TEST_SLOW(own_limit_lost_under_a_reader, 60) {
    /* the store must not lose what is pinned; it does not spill it */
    is_a_limit((struct own_cfg){.name = "lost while it is read",
                                .bug = OWN_LOST_UNDER_A_READER,
                                .n_workers = 1,
                                .n_objs = 3,
                                .n_tasks = 2,
                                .puts = 1,
                                .losses = 1,
                                .inner = 1,
                                .retries = 1,
                                .budget = 2,
                                .by_value = true},
               "was freed");
}

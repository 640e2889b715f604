/* own_model.c - ownership, checked: every run of the protocol within bounds (own_proto.h), and every seeded bug found.
 *
 * SK_MODEL_FACTOR=n: up to n times the states for each of the right protocols (default 1; 20 is minutes). */
#include "own_proto.h"

static uint64_t factor(void) {
    const char *s = getenv("SK_MODEL_FACTOR");
    uint64_t n = s ? strtoull(s, NULL, 10) : 1;
    return n ? n : 1;
}

static void run(const struct own_cfg *cfg, uint64_t states, struct mc_result *r) {
    struct mc_model m = own_proto;
    m.arg = cfg;
    own_proto_init(cfg);
    mc_run(&m, (struct mc_limits){.states = states}, r);
    own_proto_exit();
    printf("# %s: %llu states, %llu steps, %llu ends, depth %u, %s, %.1f s, %.0f steps a second\n", cfg->name, (unsigned long long)r->states,
           (unsigned long long)r->steps, (unsigned long long)r->ends, r->depth, r->all ? "all of them" : r->wrong[0] ? "stopped" : "bounded",
           r->seconds, (double)r->steps / r->seconds);
}


static void print_way(const struct mc_result *r) {
    const char *p = r->way;
    for (; *p; p += strcspn(p, "\n") + 1) printf("#   %.*s\n", (int)strcspn(p, "\n"), p);
    printf("#   => %s\n", r->wrong);
}

static void holds(const struct own_cfg *cfg, uint64_t states) {
    struct mc_result *r = sk_calloc(SK_TAG_TEST, sizeof *r);
    CHECK(r);
    run(cfg, (test_sanitized() ? states / 10 : states) * factor(), r);
    if (r->wrong[0]) print_way(r);
    CHECK_MSG(!r->wrong[0], "%s: %s, after %u steps (above)", cfg->name, r->wrong, r->way_len);
    CHECK(r->ends > 0 && r->depth > 10);
    sk_free(r);
}

/* The bug is found, as `what`, and the same bounds without it are clean as far as the search for it went. */
static void finds(struct own_cfg cfg, enum own_bug bug, const char *what) {
    struct mc_result *r = sk_calloc(SK_TAG_TEST, sizeof *r);
    CHECK(r);
    cfg.bug = bug;
    run(&cfg, 3000000, r);
    print_way(r);
    CHECK_MSG(r->wrong[0], "%s: the bug was not found in %llu states", cfg.name, (unsigned long long)r->states);
    CHECK_STR_HAS(r->wrong, what);
    uint64_t seen = r->states;
    cfg.bug = OWN_RIGHT;
    run(&cfg, seen + 1, r);
    if (r->wrong[0]) print_way(r);
    CHECK_MSG(!r->wrong[0], "%s without the bug: %s", cfg.name, r->wrong);
    sk_free(r);
}


static uint8_t env8(const char *name, uint8_t d) { const char *s = getenv(name); return s ? (uint8_t)atoi(s) : d; }
TEST_SLOW(own_model_try, 600) {
    struct own_cfg c = {.name = "try", .n_workers = env8("W", 2), .n_objs = env8("O", 3), .n_tasks = env8("T", 1), .puts = env8("P", 1), .gets = env8("G", 1), .inner = env8("I", 1),
      .deaths = env8("D", 0), .losses = env8("L", 0), .raises = env8("R", 0), .yields = env8("Y", 0), .retries = env8("RE", 0), .budget = env8("B", 0), .by_value = env8("V", 0),
      .actor = env8("A", 0), .actor_keeps = env8("AK", 0), .nested_submit = env8("N", 0), .late = env8("LATE", 0), .worker_puts_only = env8("WP", 0), .no_driver_get = env8("ND", 0)};
    holds(&c, (uint64_t)env8("MS", 5) * 100000);
}

/* ---- the six reference-counting bugs of Ray (papers.md 1.1.4), and four of ours ------------------------------------------------------- */

TEST_SLOW(own_bug_borrow_is_a_flag, 60) {
    finds((struct own_cfg){.name = "#19910, borrow is a flag", .n_workers = 1, .n_objs = 3, .n_tasks = 2, .puts = 1, .inner = 1},
          OWN_BORROW_IS_A_FLAG, "was freed");
}

TEST_SLOW(own_bug_put_loses_inner, 60) {
    finds((struct own_cfg){.name = "#30341, put loses inner references", .n_workers = 1, .n_objs = 4, .n_tasks = 1, .puts = 2, .inner = 1},
          OWN_PUT_LOSES_INNER, "was freed");
}

TEST_SLOW(own_bug_argument_in_result, 60) {
    finds((struct own_cfg){.name = "#17553, argument in the result", .n_workers = 1, .n_objs = 2, .n_tasks = 1, .puts = 1, .inner = 1},
          OWN_ARGUMENT_IN_RESULT, "was freed");
}

TEST_SLOW(own_bug_out_of_order, 60) {
    finds((struct own_cfg){.name = "#19734, nested in nested, out of order", .n_workers = 1, .n_objs = 3, .n_tasks = 1, .puts = 2, .gets = 1, .inner = 1},
          OWN_OUT_OF_ORDER, "was freed");
}

TEST_SLOW(own_bug_handle_no_borrow, 60) {
    finds((struct own_cfg){.name = "#9049, a handle is no borrow", .n_workers = 2, .n_objs = 2, .n_tasks = 1, .actor = true, .inner = 1},
          OWN_HANDLE_NO_BORROW, "was freed");
}

TEST_SLOW(own_bug_only_from_the_caller, 60) {
    finds((struct own_cfg){.name = "PR #63025, passed beside the tree of calls", .n_workers = 1, .n_objs = 3, .n_tasks = 1, .puts = 2, .gets = 1, .inner = 1},
          OWN_ONLY_FROM_THE_CALLER, "was freed");
}

TEST_SLOW(own_bug_result_given_back_early, 60) {
    finds((struct own_cfg){.name = "result given back before the report", .n_workers = 1, .n_objs = 2, .n_tasks = 1, .puts = 1, .inner = 1},
          OWN_RESULT_GIVEN_BACK_EARLY, "was freed");
}

TEST_SLOW(own_bug_no_fence, 60) {
    finds((struct own_cfg){.name = "no fence", .n_workers = 2, .n_objs = 1, .n_tasks = 1, .deaths = 1, .retries = 1, .late = true}, OWN_NO_FENCE,
          "takes a report of attempt");
}

TEST_SLOW(own_bug_stream_outlives_reader, 60) {
    finds((struct own_cfg){.name = "a stream outlives its reader", .n_workers = 2, .n_objs = 2, .n_tasks = 2, .deaths = 1, .yields = 1, .nested_submit = true},
          OWN_STREAM_OUTLIVES_READER, "");
}

TEST_SLOW(own_bug_task_does_not_hold, 60) {
    finds((struct own_cfg){.name = "a task does not hold its arguments", .n_workers = 1, .n_objs = 2, .n_tasks = 1, .puts = 1},
          OWN_TASK_DOES_NOT_HOLD, "was freed");
}

/* test_exec_chain.c - the policy that frees memory fastest. */
#include "exec/launch/guards.h"
#include "test.h"

enum { READ, SLOW, FAST, N };

static struct sk_op_view op[N];
static enum sk_stop why[N];
static struct sk_sched_view v = {.n = N,
                                 .op = op,
                                 .why = why,
                                 .memory_limit = 1000,
                                 .memory_room = 1000,
                                 .flying = 1,
                                 .cpu_e4 = 40000};

static int choose(void) { return sk_policy_find("chain")->choose(&v, NULL).op; }

/* Makes a view of a source, an operator that halves 100 bytes in a second, and behind it one that
 * reduces 100 bytes to a tenth in 0.1 s. */
static void look(void) {
    for (uint32_t i = 0; i < N; i++)
        op[i] = (struct sk_op_view){.runs = true,
                                    .source = i == READ,
                                    .parent = i + 1 < N ? i + 1 : UINT32_MAX,
                                    .cpu_e4 = 10000,
                                    .input = true,
                                    .in_turn = true,
                                    .slot = SK_SLOT_FREE,
                                    .est_known = true,
                                    .est_out = 100,
                                    .in_per_task = i == READ ? 0 : 100,
                                    .est_ns = i == FAST ? 100000000 : 1000000000,
                                    .out_per_in = i == FAST ? 0.1 : 0.5};
    v.memory_room = 1000;
}

TEST(who_frees_most_a_second_goes_first) {
    look();
    CHECK_EQ(choose(), FAST);
    /* its output is larger than its input, and no operator behind it makes up for that */
    op[FAST].out_per_in = 3;
    CHECK_EQ(choose(), SLOW);
    op[FAST].out_per_in = 0.1;
    op[FAST].est_ns = INT64_C(100000000000);
    CHECK_EQ(choose(), SLOW);
}

TEST(a_step_that_frees_nothing_has_the_slope_of_what_it_leads_to) {
    look();
    op[FAST].est_ns = 1000000000;
    op[FAST].out_per_in = 0.9; /* it frees a tenth of its input in a second */
    op[SLOW].out_per_in = 1;   /* nothing by itself */
    /* together with the operators behind it, it frees a tenth in two seconds */
    CHECK_EQ(choose(), FAST);
    op[SLOW].out_per_in = 0.7; /* three tenths in a second */
    CHECK_EQ(choose(), SLOW);
}

TEST(who_was_never_measured_goes_first_and_sources_last) {
    look();
    op[SLOW].est_ns = 0;
    CHECK_EQ(choose(), SLOW);
    op[SLOW].input = op[FAST].input = false;
    CHECK_EQ(choose(), READ);
    v.memory_room = 299; /* room for its output and one output of each operator behind it */
    CHECK_EQ(choose(), -1);
}

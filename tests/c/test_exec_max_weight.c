/* test_exec_max_weight.c - the policy that serves the longest queue, weighted by its rate. */
#include "exec/launch/guards.h"
#include "test.h"

enum { READ, FIRST, SECOND, N };

static struct sk_op_view op[N];
static enum sk_stop why[N];
static struct sk_sched_view v = {.n = N,
                                 .op = op,
                                 .why = why,
                                 .memory_limit = 1000,
                                 .memory_room = 1000,
                                 .flying = 1,
                                 .cpu_e4 = 40000};

static int choose(void) { return sk_policy_find("max_weight")->choose(&v, NULL).op; }

/* Makes a view of a source and two operators of equal speed, whose outputs are as large as their
 * inputs. */
static void look(uint64_t first, uint64_t second) {
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
                                    .est_ns = 1000000000,
                                    .out_per_in = 1};
    op[FIRST].in_bytes = first;
    op[SECOND].in_bytes = second;
    v.memory_room = 1000;
}

TEST(the_longest_queue_goes_first_less_the_queue_that_it_feeds) {
    look(500, 200);
    CHECK_EQ(choose(), FIRST); /* 500 - 200 against 200 */
    look(300, 200);
    CHECK_EQ(choose(), SECOND); /* 300 - 200 against 200 */
    op[FIRST].out_per_in = 0.1;
    CHECK_EQ(choose(), FIRST); /* 300 - 20 against 200 */
}

TEST(a_fast_operator_weighs_more) {
    look(300, 100);
    CHECK_EQ(choose(), FIRST);
    op[SECOND].est_ns = 100000000;
    CHECK_EQ(choose(), SECOND);
}

TEST(of_equal_weights_the_one_downstream_goes_first) {
    look(400, 200);
    CHECK_EQ(choose(), SECOND);
}

TEST(an_operator_without_a_measure_goes_first_and_sources_last) {
    look(0, 900);
    op[FIRST].est_ns = 0;
    CHECK_EQ(choose(), FIRST);
    op[FIRST].input = op[SECOND].input = false;
    CHECK_EQ(choose(), READ);
    v.memory_room = 299; /* room for its output and one output of each operator behind it */
    CHECK_EQ(choose(), -1);
}

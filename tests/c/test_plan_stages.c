/* test_plan_stages.c - adding nodes, the limit and fuse rules, topological order, explain. */
#include "plan/plan_int.h"
#include "test.h"

static const struct sk_op READ = {.name = "read", .props = SK_OP_SOURCE};
static const struct sk_op MAPB = {.name = "map_batches"};
static const struct sk_op MAP = {.name = "map", .props = SK_OP_ONE_TO_ONE | SK_OP_BY_ROW};
static const struct sk_op FILTER = {.name = "filter", .props = SK_OP_NO_MORE | SK_OP_BY_ROW};
static const struct sk_op LIMIT = {.name = "limit", .props = SK_OP_LIMIT | SK_OP_NO_MORE};
static const struct sk_op WRITE = {.name = "write", .props = SK_OP_WRITES};
static const struct sk_op ZIP = {.name = "zip_rows", .props = SK_OP_ZIP};
static const struct sk_op UNION = {.name = "union", .props = SK_OP_UNION};
static const struct sk_op CUTS = {.name = "map_packs", .props = SK_OP_PACKS};
static const struct sk_op MERGE = {.name = "merge", .props = SK_OP_PACKS | SK_OP_MERGE},
                          MERGE_OF_BLOCKS = {.name = "merge", .props = SK_OP_MERGE};
static const struct sk_op EXCHANGE = {.name = "reduce", .props = SK_OP_EXCHANGE};

static struct sk_plan *P;

static uint32_t add(const struct sk_op *op, struct sk_node_desc d, uint32_t in) {
    struct sk_err err = {0};
    uint32_t id = 99;
    d.op = op;
    d.inputs = &in;
    d.n_inputs = !(op->props & SK_OP_SOURCE);
    CHECK_OK_ERR(sk_plan_add(P, &d, &id, &err), &err);
    return id;
}

static uint32_t source(const char *label) {
    struct sk_unit u[2] = {{{"ab", 2}, 10, 1000}, {{"c", 1}, 5, -1}};
    return add(&READ,
               (struct sk_node_desc){.label = label, .cpu_e4 = 10000, .units = u, .n_units = 2}, 0);
}

static uint32_t map(const struct sk_op *op, const char *label, uint32_t in) {
    return add(op, (struct sk_node_desc){.label = label, .cpu_e4 = 10000}, in);
}

static uint32_t limit(int64_t n, uint32_t in) {
    return add(&LIMIT, (struct sk_node_desc){.limit = n}, in);
}

static struct sk_stages stages(uint32_t root) {
    struct sk_err err = {0};
    struct sk_stages s;
    CHECK_OK_ERR(sk_plan_stages(P, root, &s, &err), &err);
    for (uint32_t i = 0; i < s.n; i++)
        for (uint32_t k = 0; k < s.s[i].n_inputs; k++) CHECK_LT(s.s[i].inputs[k], i);
    return s;
}

static void begin(void) { CHECK_OK(sk_plan_create(&P, NULL)); }

static void end(void) { sk_plan_destroy(P, NULL, NULL); }

TEST(nodes_are_copied) {
    begin();
    char label[] = "Read(x)", params[] = "param", unit[] = "u0";
    struct sk_unit u = {{unit, 2}, 1, 2};
    uint32_t id = add(
        &READ,
        (struct sk_node_desc){.label = label, .params = {params, 5}, .units = &u, .n_units = 1}, 0);
    memset(label, 'z', 7);
    memset(params, 'z', 5);
    memset(unit, 'z', 2);
    u.est_rows = 77;
    for (int i = 0; i < 500; i++) id = map(&MAP, "m", i ? id : 0);
    const struct sk_plan_node *n = sk_plan_get(P, 0);
    CHECK_STR_EQ(n->d.label, "Read(x)");
    CHECK_MEM_EQ(n->d.params.p, "param", 5);
    CHECK_MEM_EQ(n->d.units[0].params.p, "u0", 2);
    CHECK_EQ(n->d.units[0].est_rows, 1);
    CHECK_EQ(sk_plan_n_nodes(P), 501);
    CHECK(!sk_plan_get(P, 501));
    end();
}

TEST(bad_nodes_change_nothing) {
    begin();
    struct sk_err err = {0};
    uint32_t id, in = 0, bad = 7;
    struct sk_unit u = {{"", 0}, 0, 0};
    struct sk_node_desc d[] = {
        {.op = NULL},
        {.op = &MAP},                                /* no input */
        {.op = &MAP, .inputs = &bad, .n_inputs = 1}, /* no such node */
        {.op = &LIMIT, .inputs = &in, .n_inputs = 1, .limit = -1},
        {.op = &MAP, .inputs = &in, .n_inputs = 1, .units = &u, .n_units = 1},
        {.op = &READ, .inputs = &in, .n_inputs = 1}, /* a source with an input */
        {.op = &UNION},
        {.op = &ZIP, .inputs = &in, .n_inputs = 1},
        {.op = &MAPB, .inputs = &in, .n_inputs = 1, .pool_min = 3, .pool_max = 2},
        {.op = &LIMIT, .inputs = &in, .n_inputs = 1, .pool_min = 1, .pool_max = 2},
        {.op = &MAP, .inputs = &in, .n_inputs = 1, .cpu_e4 = -5},
    };
    source("r");
    size_t bytes = P->mem.bytes;
    for (uint32_t i = 0; i < SK_COUNT(d); i++) {
        err.msg[0] = 0;
        CHECK_RC(sk_plan_add(P, &d[i], &id, &err), SK_EINVAL);
        CHECK(err.msg[0]);
        CHECK_EQ(sk_plan_n_nodes(P), 1);
        CHECK_EQ(P->mem.bytes, bytes);
    }
    end();
}

TEST(neighbours_with_same_resources_fuse) {
    begin();
    uint32_t id = source("Read");
    id = map(&MAPB, "MapBatches(f)", id);
    id = map(&MAP, "Map(g)", id);
    id = add(&MAP, (struct sk_node_desc){.label = "Big", .cpu_e4 = 20000, .shape = 3}, id);
    id =
        add(&MAPB,
            (struct sk_node_desc){.label = "Actors", .cpu_e4 = 10000, .pool_min = 1, .pool_max = 2},
            id);
    id = map(&FILTER, "Filter", id);
    struct sk_stages s = stages(map(&MAP, "Map(h)", id));
    CHECK_EQ(s.n, 4);
    CHECK_STR_EQ(s.s[0].label, "Read->MapBatches(f)->Map(g)");
    CHECK_EQ(s.s[0].n_nodes, 3);
    CHECK_EQ(s.s[0].nodes[2], 2);
    CHECK_EQ(s.s[0].props & (SK_OP_SOURCE | SK_OP_ONE_TO_ONE), SK_OP_SOURCE);
    CHECK_STR_EQ(s.s[1].label, "Big");
    CHECK_EQ(s.s[2].kind, SK_STAGE_ACTORS);
    CHECK_STR_EQ(s.s[3].label, "Filter->Map(h)");
    CHECK_EQ(s.s[3].props, SK_OP_NO_MORE | SK_OP_BY_ROW);
    CHECK_EQ(s.s[3].inputs[0], 2);
    sk_stages_free(&s);
    end();
}

/* In a task each operator calls the one above it, so the stack limits the length of a stage. */
TEST(a_long_chain_is_several_stages) {
    begin();
    uint32_t id = source("Read");
    for (int i = 0; i < 1500; i++) id = map(&MAP, "m", id);
    struct sk_stages s = stages(id);
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.n; i++) {
        CHECK(s.s[i].n_nodes <= 64);
        CHECK_EQ(s.s[i].n_inputs, i ? 1 : 0);
        n += s.s[i].n_nodes;
    }
    CHECK_EQ(n, 1501);
    CHECK_EQ(s.n, (1501 + 63) / 64);
    sk_stages_free(&s);
    static char text[1 << 18];
    CHECK(sk_plan_explain(P, id, text, sizeof text) < sizeof text);
    end();
}

TEST(limit_moves_above_one_to_one_and_caps) {
    begin();
    uint32_t id = map(&FILTER, "F", source("R"));
    id = limit(50, id);
    id = map(&MAP, "M1", id);
    id = map(&MAP, "M2", id);
    id = limit(7, id);
    struct sk_stages s = stages(map(&MAPB, "B", id));
    CHECK_EQ(s.n, 3); /* R->F | limit 7 | M1->M2->B */
    CHECK_STR_EQ(s.s[0].label, "R->F");
    CHECK_EQ(s.s[0].cap_rows, 7);
    CHECK_EQ(s.s[1].kind, SK_STAGE_LIMIT);
    CHECK_EQ(s.s[1].limit, 7);
    CHECK_STR_EQ(s.s[2].label, "M1->M2->B");
    CHECK_EQ(s.s[2].cap_rows, -1);
    sk_stages_free(&s);
    end();
}

TEST(limit_stays_below_what_it_must_not_cut) {
    begin();
    uint32_t id = add(&WRITE, (struct sk_node_desc){.label = "W", .cpu_e4 = 10000},
                      map(&MAPB, "B", source("R")));
    struct sk_stages s = stages(limit(3, id));
    CHECK_EQ(s.n, 2);
    CHECK(s.s[0].writes);
    CHECK_EQ(s.s[0].cap_rows, -1); /* all is written */
    CHECK_EQ(s.s[1].limit, 3);
    sk_stages_free(&s);
    s = stages(limit(3, map(&MAPB, "B", source("R"))));
    CHECK_EQ(s.n, 2);
    CHECK_EQ(s.s[0].cap_rows, 3);
    sk_stages_free(&s);
    end();
}

TEST(an_exchange_is_a_map_merges_and_a_reduce) {
    begin();
    uint32_t id = map(&CUTS, "Cut", map(&MAPB, "B", source("R")));
    id = add(&MERGE, (struct sk_node_desc){.label = "Merge", .cpu_e4 = 10000}, id);
    id = add(&EXCHANGE,
             (struct sk_node_desc){.label = "Reduce", .cpu_e4 = 10000, .exchange = {.cut = true}},
             id);
    id = map(&MAP, "M", id);
    struct sk_stages s = stages(id);
    CHECK_EQ(s.n, 3);
    CHECK_STR_EQ(s.s[0].label, "R->B->Cut");
    CHECK_STR_EQ(s.s[1].label, "Merge");
    CHECK(s.s[1].props & SK_OP_MERGE);
    CHECK_STR_EQ(s.s[2].label, "Reduce->M"); /* operators behind the exchange fuse with it */
    CHECK(s.s[2].exchange.cut);
    CHECK_EQ(s.s[2].props & (SK_OP_EXCHANGE | SK_OP_PACKS), SK_OP_EXCHANGE);
    sk_stages_free(&s);
    id = map(&CUTS, "Cut2", id);
    id = add(
        &EXCHANGE,
        (struct sk_node_desc){.label = "Reduce2", .cpu_e4 = 10000, .exchange = {.n_partitions = 5}},
        id);
    s = stages(limit(3, map(&MAP, "M2", id)));
    CHECK_EQ(s.n, 6); /* a limit moves up to the exchange, and no further */
    CHECK_STR_EQ(s.s[2].label, "Reduce->M->Cut2");
    CHECK_EQ(s.s[2].cap_rows, -1);
    CHECK_STR_EQ(s.s[3].label, "Reduce2");
    CHECK_EQ(s.s[3].cap_rows, 3);
    CHECK_EQ(s.s[4].kind, SK_STAGE_LIMIT);
    sk_stages_free(&s);
    char text[3000];
    CHECK_LT(sk_plan_explain(P, id, text, sizeof text), sizeof text);
    CHECK_STR_HAS(text, "[tasks] Merge  as many packs a task as the strategy says");
    CHECK_STR_HAS(text,
                  "[tasks] Reduce->M->Cut2  partitions by size, cut by samples of sorted runs");
    CHECK_STR_HAS(text, "[tasks] Reduce2  5 partitions");
    end();
}

TEST(packs_go_to_an_exchange_and_nothing_else_does) {
    begin();
    struct sk_err err = {0};
    struct sk_stages s;
    uint32_t in = source("R"), cut = map(&CUTS, "Cut", in), merged = map(&MERGE, "Merge", cut), id;
    struct sk_node_desc d[] = {
        {.op = &MAP, .inputs = &cut, .n_inputs = 1},
        {.op = &LIMIT, .inputs = &cut, .n_inputs = 1, .limit = 1},
        {.op = &EXCHANGE, .inputs = &in, .n_inputs = 1},
        {.op = &MERGE, .inputs = &in, .n_inputs = 1},
        {.op = &MERGE_OF_BLOCKS, .inputs = &cut, .n_inputs = 1},
        {.op = &MAP, .inputs = &in, .n_inputs = 1, .exchange = {.cut = true}},
        {.op = &EXCHANGE,
         .inputs = &cut,
         .n_inputs = 1,
         .exchange = {.n_partitions = SK_PARTITIONS_MAX + 1}},
        {.op = &MERGE, .inputs = &merged, .n_inputs = 1},
    };
    for (uint32_t i = 0; i < SK_COUNT(d); i++)
        CHECK_RC(sk_plan_add(P, &d[i], &id, &err), SK_EINVAL);
    CHECK_RC(sk_plan_stages(P, cut, &s, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "only an exchange");
    end();
}

TEST(union_is_in_turn_and_capped) {
    begin();
    struct sk_err err = {0};
    uint32_t in[3] = {map(&MAPB, "A", source("R1")), source("R2"), 0}, id;
    struct sk_bref b[2] = {{1, 0, 5, 50, 0, 0}, {2, 0, 5, 50, 0, 0}};
    static const struct sk_op BLOCKS = {.name = "blocks", .props = SK_OP_SOURCE};
    in[2] = add(&BLOCKS, (struct sk_node_desc){.blocks = b, .n_blocks = 2}, 0);
    struct sk_node_desc d = {.op = &UNION, .inputs = in, .n_inputs = 3};
    CHECK_OK_ERR(sk_plan_add(P, &d, &id, &err), &err);
    struct sk_stages s = stages(limit(4, id));
    CHECK_EQ(s.n, 5);
    const struct sk_stage *u = &s.s[3];
    CHECK_EQ(u->kind, SK_STAGE_UNION);
    CHECK_STR_EQ(s.s[u->inputs[0]].label, "R1->A");
    /* earlier inputs have a higher index */
    CHECK(u->inputs[0] > u->inputs[1] && u->inputs[1] > u->inputs[2]);
    CHECK_EQ(s.s[u->inputs[0]].cap_rows, 4);
    CHECK_EQ(s.s[u->inputs[1]].cap_rows, 4);
    CHECK_EQ(s.s[u->inputs[2]].kind, SK_STAGE_BLOCKS);
    sk_stages_free(&s);
    end();
}

TEST(shared_nodes_are_computed_twice_but_written_once) {
    begin();
    struct sk_err err = {0};
    uint32_t w = add(&WRITE, (struct sk_node_desc){.label = "W", .cpu_e4 = 10000}, source("R")),
             m = map(&MAPB, "B", 0), id;
    struct sk_node_desc d = {.op = &UNION, .inputs = (uint32_t[]){m, m}, .n_inputs = 2};
    CHECK_OK_ERR(sk_plan_add(P, &d, &id, &err), &err);
    struct sk_stages s = stages(id);
    CHECK_EQ(s.n, 3);
    CHECK_STR_EQ(s.s[0].label, "R->B");
    CHECK_STR_EQ(s.s[1].label, "R->B");
    sk_stages_free(&s);
    d.inputs = (uint32_t[]){w, w};
    CHECK_OK_ERR(sk_plan_add(P, &d, &id, &err), &err);
    CHECK_RC(sk_plan_stages(P, id, &s, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "W");
    for (int i = 0; i < 14; i++) {
        d.inputs = (uint32_t[]){m, m};
        CHECK_OK_ERR(sk_plan_add(P, &d, &m, &err), &err);
    }
    CHECK_RC(sk_plan_stages(P, m, &s, &err), SK_EINVAL);
    char text[100000];
    CHECK_LT(sk_plan_explain(P, m, text, sizeof text), sizeof text);
    end();
}

TEST(explain_says_what_runs) {
    begin();
    uint32_t id = limit(20, map(&MAP, "Map(f)", map(&MAPB, "MapBatches(g)", source("ReadRange"))));
    id = add(&MAPB,
             (struct sk_node_desc){
                 .label = "Infer", .gpu_e4 = 5000, .pool_min = 1, .pool_max = 4, .batch_rows = 64},
             id);
    char text[2000], tiny[10];
    size_t n = sk_plan_explain(P, id, text, sizeof text);
    CHECK_EQ(n, strlen(text));
    CHECK_STR_HAS(text, "[actors] Infer  1-4 actors  gpu 0.5  batches of 64 rows");
    CHECK_STR_HAS(text, "[limit] limit  first 20 rows");
    CHECK_STR_HAS(
        text,
        "[tasks] ReadRange->MapBatches(g)  a task stops after 20 rows  2 tasks  15 rows  cpu 1");
    CHECK_EQ(sk_plan_explain(P, id, tiny, sizeof tiny), n);
    CHECK_EQ(strlen(tiny), 9);
    CHECK_EQ(sk_plan_explain(P, id, NULL, 0), n);
    end();
}

TEST(every_allocation_may_fail) {
    for (int64_t nth = 1;; nth++) {
        struct sk_err err = {0};
        struct sk_plan *p = NULL;
        struct sk_stages s = {0};
        struct sk_unit u[2] = {{{"ab", 2}, 10, 1000}, {{"c", 1}, 5, -1}};
        struct sk_node_desc d = {.op = &READ, .units = u, .n_units = 2};
        uint32_t id = 0, in = 0;
        sk_mem_fail_at(nth);
        sk_rc rc = sk_plan_create(&p, &err);
        for (int i = 0; rc == SK_OK && i < 12; i++) {
            rc = sk_plan_add(p, &d, &id, &err);
            in = id;
            d = (struct sk_node_desc){
                .op = i % 3 ? &MAPB : &LIMIT, .inputs = &in, .n_inputs = 1, .limit = 5};
        }
        if (rc == SK_OK) rc = sk_plan_stages(p, id, &s, &err);
        bool failed = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, failed ? SK_ENOMEM : SK_OK);
        sk_stages_free(&s);
        sk_plan_destroy(p, NULL, NULL);
        CHECK_EQ(sk_mem_blocks(SK_TAG_PLAN), 0);
        if (!failed) break;
    }
}

static void released(void *ctx, uint64_t oid) { *(uint64_t *)ctx += oid; }

TEST(block_references_go_back_with_the_plan) {
    begin();
    struct sk_bref b[2] = {{10, 0, 5, 50, 0, 0}, {20, 0, 5, 50, 0, 0}};
    add(&READ, (struct sk_node_desc){.blocks = b, .n_blocks = 2}, 0);
    uint64_t sum = 0;
    sk_plan_destroy(P, released, &sum);
    CHECK_EQ(sum, 30);
}

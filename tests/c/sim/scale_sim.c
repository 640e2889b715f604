/* scale_sim.c - the results of the cluster model agree with simple arithmetic: the scarce hardware
 * decides how long a run takes, and more of other hardware changes nothing. */
#include "sim/cluster/cluster.h"
#include "sim/cluster/scale.h"
#include "test.h"

#define NEAR(got, want, part)                                                 \
    do {                                                                      \
        double got_ = (got), want_ = (want);                                  \
        CHECK_MSG(got_ > want_ * (1 - (part)) && got_ < want_ * (1 + (part)), \
                  "%s is %g, wanted %g", #got, got_, want_);                  \
    } while (0)

#define AT_MOST(got, most)                                                                      \
    do {                                                                                        \
        double got_ = (got), most_ = (most);                                                    \
        CHECK_MSG(got_ <= most_, "%s is %g, wanted at most %g (%s)", #got, got_, most_, #most); \
    } while (0)

/* ---- cluster.c ------------------------------------------------------------------------------- */

static struct sk_cl_conf two_nodes(void) {
    return (struct sk_cl_conf){.n_nodes = 2,
                               .node = {.cores = 2,
                                        .disks = 1,
                                        .disk_bytes_s = 100e6,
                                        .seek_s = 0.01,
                                        .net_bytes_s = 1e9,
                                        .store_bytes = 1000}};
}

static void count(void *ctx, void *arg) {
    (void)ctx;
    ++*(uint32_t *)arg;
}

static double time_of(struct sk_cl_conf conf, const struct sk_cl_flow *f, uint32_t n) {
    /* n of them at once */
    struct sk_cluster *c;
    uint32_t ended = 0;
    CHECK_OK(sk_cl_create(&conf, &c));
    for (uint32_t i = 0; i < n; i++) {
        struct sk_cl_flow g = *f;
        g.done = count;
        g.arg = &ended;
        sk_cl_begin(c, &g);
    }
    while (sk_cl_turn(c)) continue;
    CHECK_EQ(ended, n);
    double sec = sk_cl_now(c);
    sk_cl_destroy(c);
    return sec;
}

TEST(servers_share_and_do_not_idle) {
    struct sk_cl_flow disk = {.hop = {{SK_CL_DISK, 0, 1}}, .n_hops = 1, .pieces = 5, .window = 1};
    struct sk_cl_flow core = {.hop = {{SK_CL_CORE, 0, 1}}, .n_hops = 1, .pieces = 5, .window = 1};
    struct sk_cl_flow both = {
        .hop = {{SK_CL_DISK, 0, 1}, {SK_CL_CORE, 0, 1}}, .n_hops = 2, .pieces = 5, .window = 1};
    struct sk_cl_flow wait = {.hop = {{SK_CL_WAIT, 0, 1}}, .n_hops = 1, .pieces = 5, .window = 5};
    struct sk_cl_conf c = two_nodes();
    NEAR(time_of(c, &disk, 1), 5, 1e-9);
    NEAR(time_of(c, &disk, 3), 15, 1e-9);
    NEAR(time_of(c, &core, 2), 5, 1e-9); /* two cores */
    NEAR(time_of(c, &core, 4), 10, 1e-9);
    NEAR(time_of(c, &both, 1), 10, 1e-9); /* with one piece at a time the steps follow each other */
    both.window = 2;
    NEAR(time_of(c, &both, 1), 6, 1e-9);
    NEAR(time_of(c, &wait, 100), 1, 1e-9);
    c.node.disks = 3;
    NEAR(time_of(c, &disk, 3), 5, 1e-9);
}

TEST(seconds_of_disks_and_cards) {
    struct sk_cl_conf conf = two_nodes();
    struct sk_cluster *c;
    CHECK_OK(sk_cl_create(&conf, &c));
    NEAR(sk_cl_disk_s(c, 50e6, 7), 0.57, 1e-9);
    NEAR(sk_cl_net_s(c, 50e6), 0.05, 1e-9);
    sk_cl_destroy(c);
}

struct seen {
    uint32_t n, object[8];
};
static void on_spilled(void *ctx, uint32_t object) {
    struct seen *s = ctx;
    CHECK_LT(s->n, 8);
    s->object[s->n++] = object;
}

static void room(struct sk_cluster *c, uint64_t bytes, uint32_t *granted) {
    sk_cl_take(c, 0, bytes, count, granted);
}

TEST(stores_spill_the_oldest) {
    struct seen seen = {0};
    struct sk_cl_conf conf = two_nodes();
    struct sk_cl_stats st;
    struct sk_cluster *c;
    uint32_t granted = 0, o[3];
    conf.spilled = on_spilled;
    conf.ctx = &seen;
    conf.spillers = 1;
    CHECK_OK(sk_cl_create(&conf, &c));
    for (uint32_t i = 0; i < 3; i++) {
        room(c, 300, &granted);
        while (sk_cl_turn(c)) continue;
        CHECK_EQ(granted, i + 1);
        if (i < 2) o[i] = sk_cl_keep(c, 0, 300, 1);
    }
    /* 900 of 1000 are above the mark of 0.8: the first value is written in advance */
    CHECK_EQ(seen.n, 1);
    CHECK_EQ(seen.object[0], o[0]);
    o[2] = sk_cl_keep(c, 0, 300, 1);
    room(c, 600, &granted);
    while (sk_cl_turn(c)) continue;
    CHECK_EQ(granted, 4);
    CHECK(sk_cl_on_disk(c, o[1]));
    /* a request for more than the memory is granted when all values are out */
    room(c, 5000, &granted);
    sk_cl_give(c, 0, 600);
    while (sk_cl_turn(c)) continue;
    CHECK_EQ(granted, 5);
    sk_cl_get_stats(c, &st);
    CHECK_EQ(st.over_bytes, 5000);
    CHECK_EQ(st.spilled_bytes, 900);
    CHECK_EQ(st.peak_objects, 3);
    for (uint32_t i = 0; i < 3; i++) sk_cl_drop(c, o[i]);
    sk_cl_give(c, 0, 5000);
    sk_cl_destroy(c);
}

TEST(a_value_dropped_on_its_way_out_is_gone) {
    struct seen seen = {0};
    struct sk_cl_conf conf = two_nodes();
    struct sk_cluster *c;
    uint32_t granted = 0;
    conf.spilled = on_spilled;
    conf.ctx = &seen;
    CHECK_OK(sk_cl_create(&conf, &c));
    room(c, 900, &granted);
    while (sk_cl_turn(c)) continue;
    uint32_t o = sk_cl_keep(c, 0, 900, 1); /* the value is being written now */
    sk_cl_drop(c, o);
    room(c, 1000, &granted);
    while (sk_cl_turn(c)) continue;
    CHECK_EQ(granted, 2);
    CHECK_EQ(seen.n, 0);
    sk_cl_destroy(c);
}

/* ---- scale.c --------------------------------------------------------------------------------- */

/* A sort of 40 GB on four nodes, with all data on disks: each byte is read, written, read and
 * written once, approximately. */
static struct sk_scale_conf sort_of(enum sk_scale_way way) {
    return (struct sk_scale_conf){.cluster = {.n_nodes = 4,
                                              .node = {.cores = 4,
                                                       .disks = 1,
                                                       .disk_bytes_s = 100e6,
                                                       .seek_s = 1e-6,
                                                       .net_bytes_s = 2e9,
                                                       .store_bytes = 3000000000}},
                                  .way = way,
                                  .strategy = "index",
                                  .reduces_a_value = 1,
                                  .bytes = 40000000000,
                                  .maps = 160,
                                  .reduces = 160,
                                  .factor = way == SK_SCALE_MERGE ? 4 : 8,
                                  .grain = 1,
                                  .slots_map = 3,
                                  .slots_merge = 2,
                                  .slots_reduce = 4,
                                  .s3_threads = 8,
                                  .s3_get_bytes = 16e6,
                                  .s3_put_bytes = 16e6,
                                  .s3_wait_s = 0.02,
                                  .s3_conn_bytes_s = 100e6,
                                  .cpu_read = 1e-10,
                                  .cpu_map = 1e-9,
                                  .cpu_merge = 1e-9,
                                  .cpu_reduce = 1e-9,
                                  .cpu_write = 1e-10,
                                  .cpu_receive = 1e-10,
                                  .stretch_bytes = 1e6,
                                  .part_stretch_bytes = 1e6,
                                  .part_stretches = 1,
                                  .task_s = 1e-5,
                                  .value_s = 1e-5,
                                  .part_s = 1e-6,
                                  .value_bytes = 100,
                                  .part_bytes = 10,
                                  .entry_bytes = 1,
                                  .seed = 1};
}

static struct sk_scale_result result(struct sk_scale_conf c) {
    struct sk_scale_result r;
    struct sk_err err = {0};
    CHECK_OK_ERR(sk_scale_run(&c, &r, &err), &err);
    return r;
}

TEST(disks_that_are_all_there_is_to_wait_for) {
    static const enum sk_scale_way WAYS[] = {SK_SCALE_DIRECT, SK_SCALE_MERGE, SK_SCALE_PUSH_STAR};
    for (uint32_t i = 0; i < SK_COUNT(WAYS); i++) {
        struct sk_scale_conf c = sort_of(WAYS[i]);
        struct sk_scale_result one = result(c), again = result(c);
        /* input, what was spilled and read again, output */
        double bound = (3 * 40e9 + one.spilled_bytes) / 400e6;
        NEAR(again.sec, one.sec, 1e-12); /* the same conf gives the same result */
        NEAR(again.spilled_bytes, one.spilled_bytes, 1e-12);
        AT_MOST(one.spilled_bytes, 2 * 40.1e9);
        /* bytes that fit memory need not go to disk */
        AT_MOST((2 * 40e9 + 2 * (40e9 - 12e9)) / 400e6, one.sec * 1.01);
        CHECK_MSG(one.sec <= bound * 1.15, "way %u: %g s, %g GB were spilled, bound %g s", WAYS[i],
                  one.sec, one.spilled_bytes / 1e9, bound);
        c.cluster.node.disk_bytes_s /= 2;
        NEAR(result(c).sec, 2 * one.sec, 0.06);
        c.cluster.node.disk_bytes_s *= 2;
        c.cluster.n_nodes = 8; /* twice the machines: half the time, and more of it in memory */
        NEAR(result(c).sec, one.sec * 0.45, 0.2);
        c = sort_of(WAYS[i]);
        c.cluster.node.cores *= 2; /* more of the hardware that is not scarce */
        c.cluster.node.net_bytes_s *= 2;
        NEAR(result(c).sec, one.sec, 0.03);
    }
}

TEST(memory_for_all_spills_nothing) {
    struct sk_scale_conf c = sort_of(SK_SCALE_PUSH_STAR);
    c.cluster.node.store_bytes = 40000000000;
    struct sk_scale_result r = result(c);
    CHECK(r.spilled_bytes <= 0);
    NEAR(r.sec, 2 * 40e9 / 400e6, 0.1); /* read once, written once */
    NEAR(r.moved_bytes, 40e9 * 3 / 4, 0.02);
}

TEST(cards_cores_and_requests_when_they_are_scarce) {
    struct sk_scale_conf c = sort_of(SK_SCALE_DIRECT);
    c.s3 = true;
    c.cluster.node.store_bytes = 40000000000;
    c.cluster.node.net_bytes_s = 100e6;
    struct sk_scale_result net = result(c);
    /* a node: input in, three quarters of the shuffle, output out */
    NEAR(net.sec, 10e9 / 100e6 * (1 + 0.75 + 1), 0.15);
    NEAR(net.gets, 40e9 / 16e6, 0.01);
    c.cluster.node.net_bytes_s /= 2;
    NEAR(result(c).sec, 2 * net.sec, 0.06);
    c.cluster.node.net_bytes_s = 1e12;
    c.cpu_map = 20e-9;
    c.slots_map = 4;
    double cores = result(c).map_sec;
    NEAR(cores, 40e9 * 20.1e-9 / 16, 0.13);
    c.cpu_map = 1e-9;
    c.cluster.s3_requests_s = 10;
    NEAR(result(c).sec, 2 * 40e9 / 16e6 / 10, 0.1);
}

TEST(every_strategy_runs) {
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        struct sk_scale_conf c = sort_of(SK_SCALE_DIRECT);
        c.strategy = sk_shuffle_name(i);
        struct sk_scale_result r = result(c);
        printf("# %-10s %4.0f s, %5.0f values, %6.0f parts, %3.0f GB spilled, %3.0f GB moved\n",
               c.strategy, r.sec, r.values, r.parts, r.spilled_bytes / 1e9, r.moved_bytes / 1e9);
        AT_MOST((2 * 40e9 + 2 * (40e9 - 12e9)) / 400e6, r.sec * 1.01);
        AT_MOST(r.sec, 2 * (4 * 40e9 + r.spilled_bytes) / 400e6);
    }
}

TEST(values_cost_the_driver) {
    struct sk_scale_conf c = sort_of(SK_SCALE_DIRECT);
    c.values_a_map = 160;
    c.value_s = 0.02;
    struct sk_scale_result many = result(c);
    NEAR(many.values, 160 * 160, 1e-9);
    AT_MOST(160 * 160 * 0.02, many.map_sec);
    AT_MOST(many.map_sec, 160 * 160 * 0.02 * 1.25);
    AT_MOST(160 * 160 * 101, many.driver_bytes);
    c.values_a_map = 0; /* an index: as few values as there may be */
    struct sk_scale_result few = result(c);
    NEAR(few.values, 160 * 2, 1e-9); /* a note lists at most 120 parts */
    AT_MOST(few.sec, many.sec / 1.3);
    c.strategy = "simple";
    AT_MOST(few.values * 10, result(c).values);
}

TEST(stretches_cost_disks_and_merges_save_them) {
    struct sk_scale_conf c = sort_of(SK_SCALE_DIRECT);
    c.cluster.node.seek_s = 0.02;
    c.maps = c.reduces = 800;
    c.grain = 4;
    double direct = result(c).sec;
    c.part_stretches = 2; /* 640,000 parts, three quarters on disk */
    NEAR(result(c).sec - direct, 640000 * 0.75 * 0.02 / 4, 0.15);
    c.way = SK_SCALE_PUSH_STAR;
    c.factor = 40;
    AT_MOST(result(c).sec, direct / 2);
}

TEST(grains_change_little) {
    for (uint32_t way = SK_SCALE_DIRECT; way <= SK_SCALE_PUSH_STAR; way++) {
        struct sk_scale_conf c = sort_of((enum sk_scale_way)way);
        c.maps = c.reduces = 640;
        c.cluster.node.store_bytes = 4000000000;
        c.factor = way == SK_SCALE_MERGE ? 16 : 32;
        struct sk_scale_result fine = result(c);
        c.grain = 4;
        struct sk_scale_result coarse = result(c);
        CHECK_MSG(coarse.sec < fine.sec * 1.12 && coarse.sec > fine.sec / 1.12,
                  "way %u: %g s, in grains %g s", way, fine.sec, coarse.sec);
        NEAR(coarse.values, fine.values, 0.01);
        NEAR(coarse.parts, fine.parts, 0.01);
    }
}

TEST(kept_map_output_takes_memory) {
    struct sk_scale_conf star = sort_of(SK_SCALE_PUSH_STAR), push = sort_of(SK_SCALE_PUSH);
    star.cluster.node.store_bytes = push.cluster.node.store_bytes = 4000000000;
    AT_MOST(result(star).spilled_bytes * 1.05, result(push).spilled_bytes);
}

TEST(sizes_that_do_not_divide_are_refused) {
    struct sk_scale_result r;
    struct sk_err err = {0};
    struct sk_scale_conf c = sort_of(SK_SCALE_DIRECT);
    c.grain = 3;
    CHECK_EQ(sk_scale_run(&c, &r, &err), SK_EINVAL);
    c = sort_of(SK_SCALE_PUSH);
    c.reduces = 161;
    CHECK_EQ(sk_scale_run(&c, &r, &err), SK_EINVAL);
    c = sort_of(SK_SCALE_DIRECT);
    c.strategy = "none";
    CHECK_EQ(sk_scale_run(&c, &r, &err), SK_EINVAL);
    CHECK(strstr(err.msg, "none"));
}

/* test_engine_place.c - placement by example. Random walks against a model: sim/place_sim.c. */
#include "engine/place/place.h"
#include "test.h"

static struct sk_place p;
static struct sk_place_worker w[4];
static struct sk_place_task t[200];

static void setup(int64_t cpus, int n_idle) {
    struct sk_res total = {.amount = {cpus * SK_RES_UNIT, SK_RES_UNIT}};
    CHECK_OK(sk_place_init(&p, &total, NULL));
    for (int i = 0; i < 4; i++) sk_place_worker_init(&w[i]);
    for (int i = 0; i < n_idle; i++) {
        sk_place_worker_starting(&p, &w[i]);
        sk_place_worker_up(&p, &w[i]);
    }
    for (int i = 0; i < 200; i++) {
        t[i] = (struct sk_place_task){.order = 0};
        sk_list_init(&t[i].link);
    }
}
static void done(void) {
    CHECK(sk_place_check(&p));
    sk_place_deinit(&p);
}
static struct sk_place_pick pick(int64_t now) {
    struct sk_place_pick x;
    sk_place_pick(&p, now, &x);
    CHECK(sk_place_check(&p));
    return x;
}
static void push(int i, sk_shape s) {
    t[i].shape = s;
    sk_place_push(&p, &t[i]);
}

TEST(place_warmest_worker_first) {
    setup(2, 3);
    push(0, 0);
    struct sk_place_pick x = pick(0);
    CHECK(x.what == SK_PLACE_RUN && x.worker == &w[2] && x.task == &t[0]);
    sk_place_done(&p, &w[2], 100, 100);
    push(1, 0);
    CHECK(pick(0).worker == &w[2]);
    sk_place_done(&p, &w[2], 100, 200);
    done();
}

TEST(place_queue_depth_follows_the_time) {
    setup(1, 1);
    struct sk_place_shape *s = p.shapes[0];
    CHECK_EQ(sk_place_depth(s), 2); /* unknown */
    s->avg_ns = 1000;
    CHECK_EQ(sk_place_depth(s), SK_PLACE_DEPTH_MAX);
    s->avg_ns = 500000;
    CHECK_EQ(sk_place_depth(s), 4);
    for (int i = 0; i < 10; i++) push(i, 0);
    for (int i = 0; i < 4; i++) CHECK(pick(0).task == &t[i]);
    /* no process is requested for a task that could not start */
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    sk_place_worker_gone(&p, &w[0]);
    for (int i = 4; i < 10; i++) sk_place_unpush(&p, &t[i]);
    done();
}

TEST(place_depth_cap) { /* while memory is short nothing is queued behind another task */
    setup(1, 1);
    p.shapes[0]->avg_ns = 1000;
    p.depth_cap = 1;
    for (int i = 0; i < 3; i++) push(i, 0);
    CHECK(pick(0).task == &t[0]);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    p.depth_cap = 0;
    CHECK(pick(0).task == &t[1]);
    sk_place_worker_gone(&p, &w[0]);
    sk_place_unpush(&p, &t[2]);
    done();
}

TEST(place_no_more_processes_than_can_work) {
    setup(2, 0);
    for (int i = 0; i < 100; i++) push(i, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pick(0).what, SK_PLACE_SPAWN);
        sk_place_worker_starting(&p, &w[i]);
    }
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    for (int i = 0; i < 100; i++) sk_place_unpush(&p, &t[i]);
    done();
}

TEST(place_steal) {
    setup(2, 1);
    for (int i = 0; i < 2; i++) push(i, 0);
    CHECK(pick(0).task == &t[0]);
    CHECK(pick(0).task == &t[1]); /* queued on the same: no other is there */
    CHECK_EQ(pick(0).what, SK_PLACE_SPAWN);
    sk_place_worker_starting(&p, &w[1]);
    sk_place_worker_up(&p, &w[1]);
    struct sk_place_pick x = pick(0);
    CHECK(x.what == SK_PLACE_STEAL && x.worker == &w[0]);
    sk_place_done(&p, &w[0], -1, 0);
    sk_place_push(&p, &t[1]);
    x = pick(0);
    CHECK(x.what == SK_PLACE_RUN && x.worker == &w[1] && x.task == &t[1]);
    /* the tasks are known to be short, so they stay queued until the head turns out to be long */
    sk_place_done(&p, &w[1], 1000, 1000);
    p.shapes[0]->avg_ns = 1000;
    push(2, 0);
    sk_place_worker_gone(&p, &w[1]);
    CHECK(pick(1000).worker == &w[0]);
    CHECK_EQ(pick(1000).what, SK_PLACE_NOTHING);
    CHECK_EQ(pick(2000000).what, SK_PLACE_SPAWN);
    sk_place_worker_gone(&p, &w[0]);
    done();
}

TEST(place_blocked_gives_cpu_not_gpu) {
    sk_shape s;
    setup(1, 2);
    CHECK_OK(sk_place_shape(&p, &(struct sk_res){.amount = {SK_RES_UNIT, SK_RES_UNIT}}, &s, NULL));
    push(0, s);
    CHECK(pick(0).task == &t[0]);
    push(1, 0);
    push(2, s);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    sk_place_worker_block(&p, &w[1], true);
    CHECK(pick(0).task == &t[1]);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING); /* the GPU is still in use */
    sk_place_worker_block(&p, &w[1], false);
    CHECK_EQ(p.avail.amount[SK_RES_CPU], -SK_RES_UNIT);
    sk_place_done(&p, &w[1], 1, 1);
    CHECK_EQ(p.avail.amount[SK_RES_CPU], 0);
    sk_place_worker_gone(&p, &w[0]);
    CHECK(pick(0).task == &t[2]);
    sk_place_worker_gone(&p, &w[1]);
    done();
}

TEST(place_younger_tasks_do_not_keep_a_worker_of_another_kind_away) {
    sk_shape gpu;
    setup(1, 1);
    CHECK_OK(
        sk_place_shape(&p, &(struct sk_res){.amount = {SK_RES_UNIT, SK_RES_UNIT}}, &gpu, NULL));
    push(0, 0);
    CHECK(pick(0).task == &t[0]);
    push(1, gpu);
    push(2, 0);
    sk_place_done(&p, &w[0], 1, 1); /* w[0] is idle, and has no GPU */
    struct sk_place_pick x = pick(1);
    CHECK(x.task == &t[2] && x.spawn);
    sk_place_worker_starting(&p, &w[1]);
    push(3, 0);
    sk_place_done(&p, &w[0], 1, 2);
    x = pick(2);
    CHECK(x.task == &t[3] && !x.spawn); /* one comes */
    sk_place_worker_up(&p, &w[1]);
    push(4, 0);
    sk_place_done(&p, &w[0], 1, 3);
    x = pick(3);
    CHECK(x.task == &t[1] && x.worker == &w[1] && !x.spawn);
    sk_place_worker_gone(&p, &w[1]);
    CHECK(pick(4).task == &t[4]);
    sk_place_worker_gone(&p, &w[0]);
    done();
}

TEST(place_nested_first_when_many_wait) {
    setup(1, 1);
    for (int i = 0; i < 3; i++) push(i, 0);
    t[3].level = 1, push(3, 0);
    t[4].level = 2, push(4, 0);
    CHECK(pick(0).task == &t[0]); /* oldest */
    p.deep_above = 0;
    sk_place_worker_block(&p, &w[0], true);
    sk_place_worker_starting(&p, &w[1]);
    sk_place_worker_up(&p, &w[1]);
    CHECK(pick(0).task == &t[4]);
    CHECK(pick(0).task == &t[3]);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    sk_place_worker_block(&p, &w[0], false);
    sk_place_worker_gone(&p, &w[1]);
    CHECK(pick(0).task == &t[1]);
    sk_place_worker_gone(&p, &w[0]);
    sk_place_unpush(&p, &t[2]);
    done();
}

TEST(place_returned_keeps_its_turn) {
    setup(1, 1);
    for (int i = 0; i < 5; i++) push(i, 0);
    CHECK(pick(0).task == &t[0]);
    CHECK(pick(0).task == &t[1]);
    sk_place_worker_gone(&p, &w[0]);
    sk_place_push(&p, &t[1]);
    sk_place_push(&p, &t[0]);
    sk_place_worker_starting(&p, &w[0]);
    sk_place_worker_up(&p, &w[0]);
    p.shapes[0]->avg_ns = 1;
    for (int i = 0; i < 5; i++) CHECK(pick(0).task == &t[i]);
    sk_place_worker_gone(&p, &w[0]);
    done();
}

TEST_LARGE(place_shapes, 60) {
    sk_shape a, b;
    setup(1, 0);
    struct sk_res r = {.amount = {SK_RES_UNIT}};
    CHECK_OK(sk_place_shape(&p, &r, &a, NULL));
    CHECK_EQ(a, 0);
    r.amount[SK_RES_CUSTOM] = 5;
    CHECK_OK(sk_place_shape(&p, &r, &a, NULL));
    CHECK_OK(sk_place_shape(&p, &r, &b, NULL));
    CHECK_EQ(a, b);
    CHECK(!sk_place_fits_ever(&p, a));
    r.amount[SK_RES_GPU] = -1;
    CHECK_RC(sk_place_shape(&p, &r, &a, NULL), SK_EINVAL);
    for (uint32_t i = p.n_shapes; i < SK_PLACE_SHAPES_MAX; i++) {
        r = (struct sk_res){.amount = {i + 100000}};
        CHECK_OK(sk_place_shape(&p, &r, &a, NULL));
    }
    r.amount[0]++;
    CHECK_RC(sk_place_shape(&p, &r, &a, NULL), SK_EINVAL);
    done();
}

/* Ids of shapes are not reused silently: the id of a shape that is gone is refused. */
TEST(place_shapes_of_removed_groups_are_used_again) {
    struct sk_place_group *g;
    struct sk_res r = {.amount = {SK_RES_UNIT}};
    sk_shape s, before = 0, first = 0;
    setup(2, 1);
    for (uint64_t i = 1; i <= (2u << SK_PLACE_SHAPE_BITS) + 10; i++) {
        /* a place is used 65,536 times at most */
        CHECK_OK(sk_place_group_add(&p, i, &r, 1, false, &g, NULL));
        CHECK_OK(
            sk_place_need(&p, &(struct sk_need){.res = r, .group = i, .bundle = -1}, &s, NULL));
        CHECK(!sk_place_shape_dead(&p, s) && s != before && s != first);
        sk_place_group_remove(&p, g);
        CHECK(sk_place_shape_dead(&p, s));
        if (!first) first = s;
        before = s;
    }
    CHECK_EQ(p.n_shapes, 2 + 3);
    CHECK(sk_place_shape_dead(&p, first) && sk_place_shape_known(&p, first) &&
          !sk_place_shape_known(&p, 77));
    done();
}

/* A task of a removed group is returned as one to fail, in whichever state it was. */
TEST(place_tasks_of_removed_groups_come_out) {
    struct sk_place_group *g;
    struct sk_res r = {.amount = {SK_RES_UNIT}};
    sk_shape s;
    setup(2, 2);
    CHECK_OK(sk_place_group_add(&p, 9, &r, 1, false, &g, NULL));
    CHECK_OK(sk_place_need(&p, &(struct sk_need){.res = r, .group = 9, .bundle = -1}, &s, NULL));
    CHECK_EQ(pick(0).what, SK_PLACE_GROUP);
    for (int i = 0; i < 4; i++) push(i, s);
    struct sk_place_pick x = pick(0);
    CHECK(x.what == SK_PLACE_RUN && x.task == &t[0]);
    CHECK(pick(0).task == &t[1]); /* two deep */
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    sk_place_group_remove(&p, g);
    sk_place_unpush(&p, &t[2]); /* cancelled */
    CHECK(pick(0).what == SK_PLACE_DEAD && sk_place_any(&p) == NULL);
    sk_place_done(&p, x.worker, -1, 0);
    push(1, s); /* taken back */
    CHECK(sk_place_any(&p) == &t[1]);
    struct sk_place_pick y = pick(0);
    CHECK(y.what == SK_PLACE_DEAD && y.task == &t[1]);
    CHECK(sk_place_shape_dead(&p, s) && sk_place_shape_at(&p, s)->id == s); /* a worker holds it */
    sk_place_worker_gone(&p, x.worker);
    CHECK(sk_place_shape_at(&p, s)->id != s);
    push(0, s);
    CHECK(pick(0).what == SK_PLACE_DEAD);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    done();
}

/* The engine may end before the death of a process that was in the group is reported. */
TEST(place_group_removed_under_a_process) {
    for (int gone = 0; gone < 2; gone++) {
        struct sk_place_group *g;
        struct sk_need need = {.res = {.amount = {SK_RES_UNIT}}, .group = 7, .bundle = 0};
        sk_shape s;
        setup(2, 1);
        CHECK_OK(sk_place_group_add(&p, 7, &need.res, 1, false, &g, NULL));
        struct sk_place_pick x = pick(0);
        CHECK(x.what == SK_PLACE_GROUP && x.group == g);
        CHECK_OK(sk_place_need(&p, &need, &s, NULL));
        push(0, s);
        x = pick(0);
        CHECK(x.what == SK_PLACE_RUN && x.worker == &w[0]);
        sk_place_group_remove(&p, g);
        CHECK(sk_place_check(&p));
        CHECK_EQ(p.unreserved.amount[0], p.total.amount[0]);
        if (gone) {
            sk_place_worker_gone(&p, &w[0]);
            CHECK(sk_list_empty(&p.gone));
            CHECK_EQ(p.avail.amount[0], p.total.amount[0]);
        }
        done(); /* the runner counts what is left */
    }
}

TEST(place_launch_one) { /* memory is short: nothing is queued, and one at a time begins */
    setup(4, 3);
    p.shapes[0]->avg_ns = 1000;
    for (int i = 0; i < 6; i++) push(i, 0);
    p.launch = SK_LAUNCH_NONE;
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    p.launch = SK_LAUNCH_ONE;
    CHECK(pick(0).task == &t[0]);
    /* a caller that asks again gets one more task, on a worker of its own */
    CHECK(pick(0).task == &t[1]);
    CHECK(pick(0).task == &t[2]);
    struct sk_place_pick x = pick(0);
    CHECK_EQ(x.what, SK_PLACE_SPAWN); /* no idle one is left, and nothing goes behind another */
    sk_place_worker_starting(&p, &w[3]);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    p.launch = SK_LAUNCH_ALL;
    CHECK(pick(0).task == &t[3]);
    for (int i = 4; i < 6; i++) sk_place_unpush(&p, &t[i]);
    for (int i = 0; i < 4; i++) sk_place_worker_gone(&p, &w[i]);
    done();
}

TEST(place_launch_alone) {
    setup(4, 2);
    sk_shape alone, again;
    CHECK_OK(sk_place_alone(&p, 0, &alone, NULL));
    CHECK_OK(sk_place_alone(&p, alone, &again, NULL));
    CHECK(alone != 0 && again == alone);
    push(0, 0);
    push(1, alone);
    push(2, alone);
    push(3, 0);
    CHECK_EQ(p.n_alone, 2);
    p.launch = SK_LAUNCH_ALONE;
    CHECK(pick(0).task == &t[1]);
    CHECK_EQ(p.n_alone, 1);
    p.launch = SK_LAUNCH_NONE; /* it runs */
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    sk_place_done(&p, &w[1], 100, 100);
    /* without asking for it no shape of that kind begins, nor has another one wait for it */
    p.launch = SK_LAUNCH_ALL;
    CHECK(pick(0).task == &t[0]);
    CHECK(pick(0).task == &t[3]);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    p.launch = SK_LAUNCH_ALONE; /* and it begins on a worker of its own only */
    CHECK_EQ(pick(0).what, SK_PLACE_SPAWN);
    sk_place_done(&p, &w[0], 100, 200);
    CHECK(pick(0).task == &t[2]);
    CHECK_EQ(p.n_alone, 0);
    sk_place_worker_gone(&p, &w[0]);
    sk_place_worker_gone(&p, &w[1]);
    done();
}

TEST(place_launch_alone_saves_for_nobody) {
    /* an actor that waits for all CPUs may not begin now: it does not keep a task that runs alone
     * from beginning */
    setup(4, 1);
    sk_shape all, alone;
    struct sk_res four = {.amount = {4 * SK_RES_UNIT}};
    CHECK_OK(sk_place_shape(&p, &four, &all, NULL));
    CHECK_OK(sk_place_alone(&p, 0, &alone, NULL));
    sk_place_want(&p, sk_place_order(&p), all);
    p.avail.amount[SK_RES_CPU] -= SK_RES_UNIT; /* another task holds one CPU */
    p.starved = p.want_order;
    p.n_bypassed = SK_PLACE_BYPASS;
    push(0, alone);
    p.launch = SK_LAUNCH_ALONE;
    struct sk_place_pick x;
    sk_place_pick(&p, 0, &x);
    CHECK(x.task == &t[0]);
    p.avail.amount[SK_RES_CPU] += SK_RES_UNIT;
    sk_place_want(&p, 0, 0);
    sk_place_worker_gone(&p, &w[0]);
    done();
}

TEST(place_alone_in_a_removed_group) {
    setup(2, 1);
    sk_shape in, alone;
    struct sk_place_group *g;
    struct sk_res one = {.amount = {SK_RES_UNIT}};
    CHECK_OK(sk_place_group_add(&p, 9, &one, 1, false, &g, NULL));
    CHECK_EQ(pick(0).what, SK_PLACE_GROUP);
    CHECK_OK(sk_place_need(&p, &(struct sk_need){.res = one, .group = 9}, &in, NULL));
    CHECK_OK(sk_place_alone(&p, in, &alone, NULL));
    push(0, alone);
    push(1, alone);
    CHECK_EQ(p.n_alone, 2);
    sk_place_group_remove(&p, g);
    CHECK_EQ(p.n_alone, 0);
    p.launch = SK_LAUNCH_NONE; /* they are given out all the same */
    for (int i = 0; i < 2; i++) CHECK_EQ(pick(0).what, SK_PLACE_DEAD);
    CHECK_EQ(pick(0).what, SK_PLACE_NOTHING);
    sk_place_worker_gone(&p, &w[0]);
    done();
}

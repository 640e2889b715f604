/* test_engine_group.c - the local engine: placement groups, GPUs by index, environments of
 * processes. Placement itself is tested in sim/place_sim.c; these tests check that workers get what
 * was decided, and that groups end as they must. */
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/driver/local_int.h"
#include "engine_help.h"

#define OPEN(...) eng_open(&(struct eng_opt){__VA_ARGS__})
#define JOB(...) eng_job(&(struct job){__VA_ARGS__})
#define CPUS(n) ((struct sk_res){.amount = {(int64_t)((n) * SK_RES_UNIT)}})

TASK(gr_pid) { return ret_i64(t, 0, getpid(), err); }
TASK(gr_bundle) {
    return ret_i64(t, 0, t->need ? (int64_t)t->need->bundle + 10 * (t->need->group != 0) : -1, err);
}
TASK(gr_gpus) {
    gate_add(1, 1);
    if (!gate_wait(2, 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    return ret_i64(t, 0, (int64_t)t->gpus, err);
}
TASK(gr_wait) {
    gate_add(1, 1);
    if (!gate_wait(2, 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    return ret_i64(t, 0, 1, err);
}
TASK(gr_env) { return ret_i64(t, 0, task_env ? atoi(task_env) : 0, err); }
TASK(gr_die) {
    gate_add(1, 1);
    raise(SIGKILL);
    return SK_OK;
}
/* Makes a group in a worker, runs tasks in it, removes it. */
TASK(gr_nested) {
    const struct sk_engine_ops *ops = t->engine->ops;
    struct sk_res b = CPUS(1);
    struct sk_group_spec g = {.bundles = &b, .n = 1, .name = "of a worker"};
    uint64_t id;
    sk_oid ready, o;
    sk_shape s;
    int64_t v;
    bool is[1];
    uint8_t buf[300];
    SK_TRY(t->engine->groups->create(t->engine, &g, &id, &ready, err));
    SK_TRY(ops->wait(t->engine, &ready, 1, 1, INT64_MAX, is, err));
    SK_TRY(t->engine->ops->shape(t->engine, &(struct sk_need){.res = b, .group = id, .bundle = -1},
                                 &s, err));
    SK_TRY(job_on(t->engine, &(struct job){.fn = "gr_bundle", .shape = s}, &o, NULL, err));
    SK_TRY(get_i64(t->engine, o, &v, err));
    ops->release(t->engine, o);
    ops->release(t->engine, ready);
    size_t n = t->engine->groups->list(t->engine, buf, sizeof buf);
    SK_TRY(t->engine->groups->remove(t->engine, id, err));
    if (t->engine->groups->remove(t->engine, id, err) != SK_ENOENT)
        return SK_ERR(err, SK_EINVAL, "removed twice");
    return ret_i64(t, 0, v + (int64_t)n * 1000, err);
}

static uint64_t group(const struct sk_res *b, uint32_t n, uint32_t strategy, sk_oid *ready) {
    struct sk_group_spec s = {.bundles = b, .n = n, .strategy = strategy};
    uint64_t id;
    struct sk_err err;
    CHECK_OK_ERR(eng->groups->create(eng, &s, &id, ready, &err), &err);
    return id;
}
static sk_shape in_group(uint64_t id, int32_t bundle, double cpus) {
    sk_shape s;
    struct sk_err err;
    CHECK_OK_ERR(
        eng->ops->shape(eng, &(struct sk_need){.res = CPUS(cpus), .group = id, .bundle = bundle},
                        &s, &err),
        &err);
    return s;
}
static bool is_ready(sk_oid o, int64_t ms) {
    bool r[1];
    return eng->ops->wait(eng, &o, 1, 1, sk_now_ns() + ms * SK_MS, r, NULL) == SK_OK;
}
static int code_of(sk_oid o) {
    char text[300];
    return eng_error(o, text, sizeof text);
}
static void group_end(uint64_t id, sk_oid ready) {
    CHECK_OK(eng->groups->remove(eng, id, NULL));
    eng_release(ready);
}
static int64_t free_cpu(void) {
    struct sk_res total, avail;
    resources_of(eng, &total, &avail);
    return avail.amount[SK_RES_CPU];
}

TEST(group_reserves_and_runs) {
    sk_oid ready, o[6];
    OPEN(.cpus = 3);
    uint64_t g = group((struct sk_res[]){CPUS(1), CPUS(1)}, 2, SK_GROUP_PACK, &ready);
    CHECK(is_ready(ready, 5000));
    CHECK_EQ(free_cpu(), SK_RES_UNIT);
    CHECK_EQ(eng_take(JOB(.fn = "gr_bundle", .shape = in_group(g, 1, 1))), 11);
    CHECK_EQ(eng_take(JOB(.fn = "gr_bundle", .shape = in_group(g, 0, 0.5))), 10);
    /* tasks run in both bundles, and not outside */
    for (int i = 0; i < 6; i++) o[i] = JOB(.fn = "gr_wait", .shape = in_group(g, -1, 1));
    CHECK(gate_wait(1, 2));
    CHECK_EQ(free_cpu(), SK_RES_UNIT);
    CHECK_EQ(eng_take(JOB(.fn = "gr_bundle")), -1); /* the rest of the machine is free */
    gate_add(2, 1);
    for (int i = 0; i < 6; i++) CHECK_EQ(eng_take(o[i]), 1);
    eng_check();
    sk_shape s;
    struct sk_err err;
    CHECK_RC(
        eng->ops->shape(eng, &(struct sk_need){.res = CPUS(2), .group = g, .bundle = -1}, &s, &err),
        SK_EINFEASIBLE);
    CHECK_RC(
        eng->ops->shape(eng, &(struct sk_need){.res = CPUS(1), .group = g, .bundle = 2}, &s, &err),
        SK_EINVAL);
    group_end(g, ready);
    CHECK_EQ(free_cpu(), 3 * SK_RES_UNIT);
    CHECK_RC(
        eng->ops->shape(eng, &(struct sk_need){.res = CPUS(1), .group = g, .bundle = 0}, &s, &err),
        SK_EGROUP);
    eng_close();
}

TEST(group_waits_for_all_of_its_bundles) {
    sk_oid r1, r2, r3, r4;
    OPEN(.cpus = 4);
    uint64_t a = group((struct sk_res[]){CPUS(3)}, 1, SK_GROUP_PACK, &r1),
             b = group((struct sk_res[]){CPUS(1), CPUS(1)}, 2, SK_GROUP_SPREAD, &r2),
             c = group((struct sk_res[]){CPUS(1), CPUS(1)}, 2, SK_GROUP_STRICT_SPREAD, &r3),
             d = group((struct sk_res[]){CPUS(9)}, 1, 0, &r4);
    CHECK(is_ready(r1, 5000));
    CHECK(!is_ready(r2, 20));
    sk_oid o = JOB(.fn = "gr_pid", .shape = in_group(b, -1, 1)); /* waits for its group */
    CHECK(!is_ready(o, 20));
    group_end(a, r1);
    CHECK(is_ready(r2, 5000));
    CHECK(eng_take(o) > 0);
    CHECK(!is_ready(r3, 10) && !is_ready(r4, 10)); /* one machine is not two, and has no 9 CPUs */
    group_end(b, r2);
    CHECK_OK(eng->groups->remove(eng, c, NULL));
    CHECK_EQ(code_of(r3), SK_EGROUP); /* tasks that wait for the group fail when it is removed */
    group_end(d, r4);
    eng_close();
}

/* What a node has of a group that the driver of a cluster has made. */
TEST(group_part_of_another_engine) {
    enum { AWAY = 77 };
    sk_oid ready;
    sk_shape s;
    uint64_t id;
    bool elsewhere[2] = {false, true};
    struct sk_err err;
    struct sk_res b[2] = {CPUS(1), CPUS(2)};
    struct sk_group_spec spec = {.id = AWAY, .bundles = b, .n = 2, .elsewhere = elsewhere};
    struct sk_need second = {.res = CPUS(1), .group = AWAY, .bundle = 1};
    OPEN(.cpus = 4);
    CHECK_OK(eng->groups->create(eng, &spec, &id, &ready, NULL));
    CHECK(id == AWAY && !ready.v);
    CHECK_EQ(free_cpu(), 3 * SK_RES_UNIT);
    CHECK_EQ(eng_take(JOB(.fn = "gr_bundle", .shape = in_group(AWAY, -1, 1))), 10);
    CHECK_RC(eng->ops->shape(eng, &second, &s, &err), SK_EINFEASIBLE);
    CHECK(strstr(err.msg, "on this node"));
    sk_oid o = JOB(.fn = "gr_wait", .shape = in_group(AWAY, 0, 1));
    CHECK(gate_wait(1, 1));
    elsewhere[0] = true; /* it is here already, and stays */
    elsewhere[1] = false;
    CHECK_OK(eng->groups->create(eng, &spec, &id, &ready, NULL));
    CHECK_EQ(free_cpu(), SK_RES_UNIT);
    CHECK_EQ(eng_take(JOB(.fn = "gr_bundle", .shape = in_group(AWAY, 1, 2))), 11);
    gate_add(2, 1);
    CHECK_EQ(eng_take(o), 1);
    eng_check();
    spec.n = 1;
    CHECK_RC(eng->groups->create(eng, &spec, &id, &ready, &err), SK_EINVAL);
    CHECK_OK(eng->groups->remove(eng, AWAY, NULL));
    CHECK_EQ(free_cpu(), 4 * SK_RES_UNIT);
    CHECK_RC(eng->ops->shape(eng, &second, &s, &err), SK_EGROUP);
    eng_close();
}

TEST(group_removed_under_its_tasks) {
    sk_oid ready;
    struct sk_err err;
    sk_aid id;
    sk_oid up;
    OPEN(.cpus = 3);
    uint64_t g = group((struct sk_res[]){CPUS(1), CPUS(1)}, 2, SK_GROUP_PACK, &ready);
    struct sk_actor_spec as = {
        .init = spec_of(&(struct job){.fn = "gr_pid", .shape = in_group(g, 1, 1)}),
        .max_restarts = -1};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &id, &up, &err), &err);
    CHECK(eng_i64(up) > 0);
    sk_shape s = in_group(g, 0, 1);
    sk_oid runs = JOB(.fn = "gr_wait", .shape = s, .retries = 9),
           waits = JOB(.fn = "gr_wait", .shape = s, .retries = 9);
    sk_oid late = JOB(.fn = "gr_wait"),
           later = JOB(.fn = "gr_pid", .a = {REF(late)}, .n_a = 1, .shape = s);
    CHECK(gate_wait(1, 2));
    CHECK_OK(eng->groups->remove(eng, g, NULL));
    char text[300];
    /* its process may not be dead yet */
    CHECK_EQ(eng_error(JOB(.fn = "gr_pid", .actor = id), text, sizeof text), SK_EACTOR);
    CHECK_STR_HAS(text, "placement group was removed");
    CHECK_EQ(code_of(waits), SK_EGROUP);
    CHECK_EQ(code_of(runs), SK_EGROUP);
    CHECK_EQ(code_of(JOB(.fn = "gr_pid", .shape = s)), SK_EGROUP);
    gate_add(2, 1);
    CHECK_EQ(code_of(later), SK_EGROUP); /* its argument existed only after the group was removed */
    CHECK_EQ(eng_take(late), 1);
    sk_actor_release(eng, id);
    eng_release(up);
    eng_release(ready);
    eng_close();
}

/* A task whose process has died goes back into the queue, whether its group is removed before or
 * after that. */
TEST(group_removed_under_tasks_that_are_retried) {
    OPEN(.cpus = 2);
    for (int round = 0; round < 20; round++) {
        sk_oid ready, o[3];
        uint32_t before = atomic_load(&gate->w[1]);
        uint64_t g = group((struct sk_res[]){CPUS(1)}, 1, SK_GROUP_PACK, &ready);
        for (int i = 0; i < 3; i++)
            o[i] = JOB(.fn = "gr_die", .shape = in_group(g, 0, 1), .retries = -1);
        CHECK(gate_wait(1, before + 1 + (uint32_t)round % 4));
        group_end(g, ready);
        for (int i = 0; i < 3; i++) CHECK_EQ(code_of(o[i]), SK_EGROUP);
        eng_check();
    }
    CHECK_EQ(free_cpu(), 2 * SK_RES_UNIT);
    eng_close();
}

TEST(group_names) {
    OPEN();
    struct sk_res b = CPUS(1);
    struct sk_group_spec s = {.bundles = &b, .n = 1, .name = "n", .space = "s"};
    static char longer[SK_NAME_MAX + 2];
    memset(longer, 'x', sizeof longer - 1);
    uint64_t id, other;
    sk_oid ready;
    struct sk_err err;
    CHECK_OK(eng->groups->create(eng, &s, &id, &ready, &err));
    CHECK_RC(eng->groups->create(eng, &s, &other, &ready, &err), SK_EEXIST);
    CHECK_STR_HAS(err.msg, "by a living placement group of namespace 's'");
    s.name = longer;
    CHECK_RC(eng->groups->create(eng, &s, &other, &ready, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "the name of this placement group");
    s.name = "n";
    group_end(id, ready);
    CHECK_OK(eng->groups->create(eng, &s, &id, &ready, &err)); /* free again */
    group_end(id, ready);
    eng_close();
}

TEST(group_of_a_worker) {
    OPEN(.cpus = 2);
    int64_t v = eng_take(JOB(.fn = "gr_nested"));
    CHECK_EQ(v % 1000, 10);
    CHECK_EQ(v / 1000, sizeof(struct sk_group_row) + 16 + sizeof(struct sk_res) + 8);
    eng_close();
}

TEST(group_gone_from_the_lists) {
    /* a bug: the shape of a removed group was soon used by another group, and rows showed that
     * one's amounts */
    sk_oid ready, other;
    OPEN(.cpus = 3);
    sk_oid late = JOB(.fn = "gr_wait");
    uint64_t g = group((struct sk_res[]){CPUS(1)}, 1, SK_GROUP_PACK, &ready);
    CHECK(is_ready(ready, 5000));
    sk_shape s = in_group(g, 0, 0.25);
    sk_oid later = JOB(.fn = "gr_pid", .a = {REF(late)}, .n_a = 1, .shape = s);
    group_end(g, ready);
    g = group((struct sk_res[]){CPUS(1)}, 1, SK_GROUP_PACK, &other);
    CHECK_NE(in_group(g, 0, 0.75), s);
    uint8_t *buf = sk_alloc(SK_TAG_TEST, 4096);
    size_t n = eng->state->rows(eng, SK_STATE_TASKS, buf, 4096);
    CHECK(n <= 4096);
    struct sk_rd r = sk_rd_init(buf, n);
    bool seen = false;
    for ((void)sk_rd_raw(&r, sizeof(struct sk_state_head)); !sk_rd_end(&r);) {
        struct sk_task_row t;
        const void *p = sk_rd_raw(&r, sizeof t);
        CHECK(p);
        memcpy(&t, p, sizeof t);
        (void)sk_rd_raw(&r, (size_t)t.name_n + t.fn_n + t.error_n);
        sk_rd_align(&r, 8);
        if (t.state != SK_TS_ARGS) continue;
        seen = true;
        CHECK_EQ(t.group, 0);
        CHECK_EQ(t.res.amount[SK_RES_CPU], 0);
    }
    CHECK(seen);
    sk_free(buf);
    gate_add(2, 1);
    CHECK_EQ(code_of(later), SK_EGROUP);
    CHECK_EQ(eng_take(late), 1);
    group_end(g, other);
    eng_close();
}

TEST(groups_come_and_go) {
    /* the table has room for 8,192 shapes: those of removed groups are reused */
    OPEN(.cpus = 2);
    for (int i = 0; i < 100000; i++) {
        sk_oid ready;
        uint64_t g = group((struct sk_res[]){CPUS(1)}, 1, SK_GROUP_PACK, &ready);
        sk_shape s = in_group(g, 0, 1);
        if (i % 5000 == 0) CHECK_EQ(eng_take(JOB(.fn = "gr_bundle", .shape = s)), 10);
        (void)in_group(g, -1, 0.5);
        group_end(g, ready);
    }
    eng_check();
    eng_close();
}

/* Returns the driver's answer to a first request 7 whose message is cut off, or has an impossible
 * count. */
static int32_t answer_to(uint32_t type, const void *msg, size_t n) {
    struct sk_local *l = sk_container_of(eng, struct sk_local, base);
    struct sk_rd r = sk_rd_init(msg, n);
    int32_t rc = SK_OK;
    pthread_mutex_lock(&l->mu);
    struct sk_lworker *w = l->pool.workers[0];
    uint64_t at = w->down.tail;
    sk_lgroup_handle(l, w, type, &r);
    if (w->down.tail != at) memcpy(&rc, w->down.data + at % w->down.size + 8 + 4, sizeof rc);
    pthread_mutex_unlock(&l->mu);
    return rc;
}

TEST(damaged_requests_are_answered) { /* a bug: a worker that sent such a request waited for ever */
    OPEN(.cpus = 1);
    CHECK(eng_take(JOB(.fn = "gr_pid")) > 0);
    struct sk_local *l = sk_container_of(eng, struct sk_local, base);
    uint64_t more[] = {7, UINT64_MAX}, few[] = {7, 3, SK_RES_MAX, 1}, cut[] = {7};
    CHECK_EQ(answer_to(SK_M_MORE, more, sizeof more), SK_ECORRUPT);
    CHECK_EQ(answer_to(SK_M_MORE, few, sizeof few), SK_ECORRUPT);
    CHECK_EQ(answer_to(SK_M_DEFENV, more, sizeof more), SK_ECORRUPT);
    CHECK_EQ(answer_to(SK_M_UNGROUP, cut, sizeof cut), SK_ECORRUPT);
    uint64_t group[] = {
        (uint64_t)l->pool.workers[0]->proc << 40 | 1000, 7, 0x7fffffff00000001, 0, 0, 1};
    CHECK_EQ(answer_to(SK_M_GROUP, group, sizeof group), SK_ECORRUPT);
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    CHECK(eng_take(JOB(.fn = "gr_pid")) > 0);
    eng_close();
}

TEST(gpus_have_indices) {
    sk_oid o[4];
    sk_shape half, two;
    OPEN(.cpus = 8, .gpus = 4);
    struct sk_res r = {.amount = {SK_RES_UNIT / 10, SK_RES_UNIT / 2}};
    CHECK_OK(sk_shape_of(eng, &r, &half, NULL));
    r.amount[SK_RES_GPU] = 2 * SK_RES_UNIT;
    CHECK_OK(sk_shape_of(eng, &r, &two, NULL));
    for (int i = 0; i < 4; i++) o[i] = JOB(.fn = "gr_gpus", .shape = i < 3 ? half : two);
    CHECK(gate_wait(1, 4));
    gate_add(2, 1);
    int64_t m[4], all = 0;
    for (int i = 0; i < 4; i++) m[i] = eng_take(o[i]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(__builtin_popcountll((uint64_t)m[i]), 1);
        all |= m[i];
    }
    CHECK_EQ(__builtin_popcountll((uint64_t)all), 2); /* two halves share one */
    CHECK(__builtin_popcountll((uint64_t)m[3]) == 2 && !(all & m[3]));
    eng_close();
}

/* A library checks only once for GPUs: a process that had one is not used for tasks without, and
 * vice versa. */
TEST(gpus_have_their_own_processes) {
    sk_shape gpu, cpu = 0;
    OPEN(.cpus = 1, .gpus = 1, .max_workers = 2);
    CHECK_OK(
        sk_shape_of(eng, &(struct sk_res){.amount = {SK_RES_UNIT, SK_RES_UNIT / 2}}, &gpu, NULL));
    int64_t with = eng_take(JOB(.fn = "gr_pid", .shape = gpu)),
            without = eng_take(JOB(.fn = "gr_pid", .shape = cpu));
    CHECK_NE(with, without);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(eng_take(JOB(.fn = "gr_pid", .shape = gpu)), with);
        CHECK_EQ(eng_take(JOB(.fn = "gr_pid", .shape = cpu)), without);
    }
    eng_close();
}

TEST(an_actor_of_another_environment_gets_a_process) {
    /* at the limit of processes, when all existing ones wait for tasks that others must run */
    OPEN(.cpus = 2, .max_workers = 2);
    sk_oid a = JOB(.fn = "gr_wait"), b = JOB(.fn = "gr_wait"), up;
    CHECK(gate_wait(1, 2)); /* both processes run */
    gate_add(2, 1);
    CHECK_EQ(eng_take(a) + eng_take(b), 2);
    uint32_t env;
    sk_shape s;
    sk_aid id;
    struct sk_err err;
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"5", 2}, &env, NULL));
    CHECK_OK(eng->ops->shape(eng, &(struct sk_need){.env = env}, &s, NULL));
    struct sk_actor_spec as = {.init = spec_of(&(struct job){.fn = "gr_pid", .shape = s})};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &id, &up, &err), &err);
    CHECK(eng_i64(up) > 0);
    CHECK_EQ(eng_take(JOB(.fn = "gr_env", .actor = id)), 5);
    /* the other process still exists: only one was ended to make room */
    CHECK_EQ(eng_take(JOB(.fn = "gr_env")), 0);
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    sk_actor_release(eng, id);
    eng_release(up);
    eng_close();
}

TEST(environments_have_their_own_processes) {
    uint32_t env[3];
    sk_shape s[4] = {0};
    OPEN(.cpus = 2, .max_workers = 3);
    for (int i = 0; i < 3; i++) {
        char text[20];
        int n = snprintf(text, sizeof text, "%d", i + 1);
        CHECK_OK(eng->envs->define(eng, (struct sk_bytes){text, (size_t)n + 1}, &env[i], NULL));
        CHECK_OK(eng->ops->shape(eng, &(struct sk_need){.res = CPUS(1), .env = env[i]}, &s[i + 1],
                                 NULL));
    }
    const struct sk_place *p = &sk_container_of(eng, struct sk_local, base)->place;
    uint32_t n_shapes = p->n_shapes;
    CHECK_OK(eng->ops->shape(eng, &(struct sk_need){.res = CPUS(0.3), .env = env[0]}, &s[0], NULL));
    CHECK_EQ(p->n_shapes, n_shapes + 1); /* the shape without the environment is another one */
    struct sk_err err;
    CHECK_RC(eng->ops->shape(eng, &(struct sk_need){.res = CPUS(9), .env = env[0]}, &s[0], &err),
             SK_EINFEASIBLE);
    CHECK_STR_HAS(err.msg, "asks for 9 CPU, but this machine was given 2");
    s[0] = 0;
    uint32_t again;
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"2", 2}, &again, NULL));
    CHECK_EQ(again, env[1]);
    for (int round = 0; round < 5; round++) /* with three processes: some make room */
        for (int i = 3; i >= 0; i--) CHECK_EQ(eng_take(JOB(.fn = "gr_env", .shape = s[i])), i);
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"x", 2}, &env[0], NULL));
    CHECK_OK(eng->ops->shape(eng, &(struct sk_need){.res = CPUS(1), .env = env[0]}, &s[0], NULL));
    /* the environment cannot be set: its tasks fail with the reason */
    CHECK_EQ(code_of(JOB(.fn = "gr_env", .shape = s[0])), SK_EINVAL);
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    eng_close();
}

/* test_api_options.c - the public C interface: version, options, resources, and calls that are
 * wrong. */
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_help.h"
#include "skate_data.h"

SKATE_TASK(my_gpus) {
    uint32_t g[16];
    size_t n = skate_gpus(t, g, 16);
    return skate_return(t, 0, g, n * sizeof *g);
}

TEST(api_version) {
    char text[40];
    snprintf(text, sizeof text, "%d.%d.%d", SKATE_VERSION_MAJOR, SKATE_VERSION_MINOR,
             SKATE_VERSION_PATCH);
    CHECK_STR_EQ(text, SKATE_VERSION);
    CHECK_STR_EQ(skate_version(), SKATE_VERSION);
    CHECK(SKATE_VERSION_NUMBER < SKATE_VERSION_OF(999, 0, 0));
    CHECK(skate_has("tasks"));
    CHECK(!skate_has("no such") && !skate_has(NULL));
    unsigned n = 0;
    while (skate_feature_name(n)) CHECK(skate_has(skate_feature_name(n++)));
    CHECK_LT(5, n);
}

TEST(api_sized_options) {
    struct skate_opts o = {.cpus = 1}; /* no size */
    struct skate_call_opts c = SKATE_OPTS(struct skate_call_opts);
    skate_ref r;
    skate_actor a;
    CHECK_EQ(skate_init(&o), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "skate_init: the options begin with size 0");
    CHECK_STR_HAS(skate_error(), "SKATE_OPTS");
    o.size = sizeof o;
    OK(skate_init(&o));
    c.size++;
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1, &c, &r), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "my_gpus: the options");
    CHECK_EQ(skate_actor_create("my_gpus", NULL, 0, &c, &a), SKATE_EINVAL);
    c.size--;
    OK(skate_submit("my_gpus", NULL, 0, 1, &c, &r));
    skate_release(r);
    skate_shutdown();
}

#define RESOURCES(...)                                   \
    .resources = (struct skate_resource[]){__VA_ARGS__}, \
    .n_resources = sizeof((struct skate_resource[]){__VA_ARGS__}) / sizeof(struct skate_resource)

TEST(api_resources) {
    struct skate_resource many[14];
    char names[14][8];
    skate_ref r, s;
    for (int i = 0; i < 14; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i);
        many[i] = (struct skate_resource){names[i], i};
    }
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .resources = many, .n_resources = 14)),
             SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "at most 13");
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .n_resources = 1)), SKATE_EINVAL);
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, RESOURCES({NULL, 1}))), SKATE_EINVAL);
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, RESOURCES({"a", -1}))), SKATE_EINVAL);
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, RESOURCES({"a", 1}, {"a", 2}))),
             SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "two resources are named 'a'");
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .gpus = 17)), SKATE_EINVAL);
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1, .resources = many, .n_resources = 13)));
    OK(skate_submit("my_gpus", NULL, 0, 1,
                    SKATE_WITH(struct skate_call_opts, RESOURCES({"r3", 3}, {"r12", 0.5})), &r));
    OK(skate_wait(&r, 1, 1, 20000, (bool[1]){0}));
    skate_release(r);
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1,
                          SKATE_WITH(struct skate_call_opts, RESOURCES({"r3", 3}, {"r12", 13})),
                          &s),
             SKATE_EINFEASIBLE);
    CHECK_STR_HAS(skate_error(), "r12");
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1,
                          SKATE_WITH(struct skate_call_opts, RESOURCES({"unknown", 1})), &s),
             SKATE_EINFEASIBLE);
    CHECK_STR_HAS(skate_error(), "unknown");
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1,
                          SKATE_WITH(struct skate_call_opts, RESOURCES({"r3", NAN})), &s),
             SKATE_EINVAL);
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1,
                          SKATE_WITH(struct skate_call_opts, .n_resources = 2), &s),
             SKATE_EINVAL);
    skate_shutdown();
}

SKATE_BATCHES(with_a_slot) {
    uint32_t gpu;
    return skate_gpus(t, &gpu, 1) == 1 ? skate_emit(t, schema, batch) : skate_fail(t, "no GPU");
}

TEST(api_resources_of_a_map) {
    int64_t rows;
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .gpus = 1, .store_bytes = 64 << 20,
                             RESOURCES({"seat", 1}, {"slot", 1}))));
    char name[8] = "slot"; /* copied by the call */
    for (unsigned actors = 0; actors < 2; actors++) {
        skate_dataset *ds = skate_map(
            skate_range(1000, NULL, NULL), "with_a_slot",
            SKATE_WITH(struct skate_map_opts, .gpus = 1, .actors = actors, RESOURCES({name, 1})));
        CHECK(ds);
        name[0] = 'x';
        OK(skate_count(ds, NULL, &rows));
        CHECK_EQ(rows, 1000);
        skate_dataset_release(ds);
        name[0] = 's';
    }
    skate_dataset *ds = skate_map(skate_range(10, NULL, NULL), "with_a_slot",
                                  SKATE_WITH(struct skate_map_opts, RESOURCES({"slots", 1})));
    CHECK_EQ(skate_count(ds, NULL, &rows), SKATE_EINFEASIBLE);
    CHECK_STR_HAS(skate_error(), "'slots'");
    skate_dataset_release(ds);
    CHECK(!skate_map(skate_range(10, NULL, NULL), "with_a_slot",
                     SKATE_WITH(struct skate_map_opts, RESOURCES({NULL, 1}))));
    skate_shutdown();
}

TEST(api_gpus) {
    struct skate_value v;
    skate_ref r;
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .gpus = 2)));
    for (int want = 0; want < 3; want++) {
        OK(skate_submit("my_gpus", NULL, 0, 1, SKATE_WITH(struct skate_call_opts, .gpus = want),
                        &r));
        OK(skate_get(r, 20000, &v));
        CHECK_EQ(v.size, (size_t)want * sizeof(uint32_t));
        const uint32_t *g = v.data;
        for (int i = 0; i < want; i++) CHECK(g[i] < 2 && (i == 0 || g[i] > g[i - 1]));
        skate_value_release(&v);
        skate_release(r);
    }
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1, SKATE_WITH(struct skate_call_opts, .gpus = 3), &r),
             SKATE_EINFEASIBLE);
    skate_shutdown();
}

TEST(api_null) {
    struct skate_value v;
    skate_ref r;
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1)));
    CHECK_EQ(skate_put(NULL, 1, &r), SKATE_EINVAL);
    CHECK_STR_EQ(skate_error(), "skate_put: data is NULL");
    CHECK_EQ(skate_put("x", 1, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_buf_alloc(1, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_buf_seal(NULL, 1, &r), SKATE_EINVAL);
    CHECK_EQ(skate_get((skate_ref){0}, 0, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_get((skate_ref){0}, 0, &v), SKATE_ELOST);
    CHECK_EQ(skate_wait(NULL, 1, 1, 0, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_submit(NULL, NULL, 0, 0, NULL, NULL), SKATE_ENOENT);
    CHECK_EQ(skate_submit("my_gpus", NULL, 1, 0, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_submit("my_gpus", NULL, 0, 1, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_submit("my_gpus", &SKATE_BYTES(NULL, 3), 1, 1, NULL, &r), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "argument 0 has 3 bytes at NULL");
    CHECK_EQ(skate_actor_create("my_gpus", NULL, 0, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_actor_kill((skate_actor){0, 0}), SKATE_EINVAL);
    /* outside of a task */
    CHECK_EQ(skate_return(NULL, 0, "x", 1), SKATE_EINVAL);
    CHECK_STR_EQ(skate_error(), "skate_return: t is NULL");
    CHECK_EQ(skate_yield(NULL, "x", 1), SKATE_EINVAL);
    CHECK_EQ(skate_fail(NULL, "x"), SKATE_EINVAL);
    CHECK_EQ(skate_arg_copy(NULL, 0, &v, 1), SKATE_EINVAL);
    CHECK(!skate_arg_data(NULL, 0, NULL) && !skate_n_args(NULL) && !skate_n_returns(NULL));
    CHECK(!skate_cancelled(NULL) && !skate_gpus(NULL, NULL, 0));
    skate_value_release(NULL);
    skate_buf_abort(NULL);
    skate_release((skate_ref){0});
    skate_actor_release((skate_actor){0, 0});
    skate_shutdown();
}

TEST(api_forked_child) {
    skate_ref r;
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1)));
    OK(skate_put("x", 1, &r));
    pid_t pid = fork();
    if (pid == 0) {
        struct skate_value v;
        bool ok = skate_get(r, 0, &v) == SKATE_ECLOSED && strstr(skate_error(), "forked") &&
                  skate_init(NULL) == SKATE_ECLOSED && strstr(skate_error(), "forked");
        skate_release(r);
        skate_shutdown();
        _exit(ok ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    struct skate_value v;
    OK(skate_get(r, 0, &v)); /* the child has changed nothing */
    skate_value_release(&v);
    skate_release(r);
    skate_shutdown();
    pid = fork(); /* no engine is open now */
    if (pid == 0) {
        bool ok = skate_init(NULL) == 0;
        skate_shutdown();
        _exit(ok ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
}

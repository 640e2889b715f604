/* test_api_groups.c - the public C interface: actors by name, and placement groups. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api_help.h"

static int64_t held;
SKATE_TASK(keeper_new) { return skate_arg_copy(t, 0, &held, sizeof held); }
SKATE_TASK(keeper_get) { return skate_return(t, 0, &held, sizeof held); }
/* Finds an actor by its name, in a worker. */
SKATE_TASK(ask_the_keeper) {
    skate_actor a;
    skate_ref r;
    struct skate_value v;
    int rc = skate_actor_find("keeper", "mine", &a);
    if (rc) return rc;
    if (!(rc = skate_actor_call(a, "keeper_get", NULL, 0, 1, NULL, &r))) {
        if (!(rc = skate_get(r, -1, &v))) {
            rc = skate_return(t, 0, v.data, v.size);
            skate_value_release(&v);
        }
        skate_release(r);
    }
    skate_actor_release(a);
    return rc;
}
SKATE_TASK(eight) { return skate_return(t, 0, &(int64_t){8}, 8); }
SKATE_TASK(runs_for_ever) {
    int fd = open(skate_arg_data(t, 0, NULL), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "r", 1) != 1) return SKATE_EIO;
    for (;;) (void)pause();
}

static void start(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20,
                             .resources = &(struct skate_resource){"slot", 2}, .n_resources = 1)));
}

TEST(api_names) {
    start();
    skate_actor a, b, same;
    skate_ref r;
    struct skate_call_opts o = SKATE_OPTS(struct skate_call_opts);
    o.name = "keeper";
    CHECK_EQ(skate_actor_find("keeper", NULL, &a), SKATE_ENOENT);
    CHECK_STR_HAS(skate_error(), "no living actor is named 'keeper'");
    OK(skate_actor_create("keeper_new", &SKATE_BYTES(&(int64_t){1}, 8), 1, &o, &a));
    CHECK_EQ(skate_actor_create("keeper_new", &SKATE_BYTES(&(int64_t){1}, 8), 1, &o, &b),
             SKATE_EEXIST);
    o.space = "mine";
    OK(skate_actor_create("keeper_new", &SKATE_BYTES(&(int64_t){2}, 8), 1, &o, &b));
    OK(skate_actor_find("keeper", NULL, &same));
    OK(skate_actor_call(same, "keeper_get", NULL, 0, 1, NULL, &r));
    CHECK_EQ(number(r), 1);
    skate_actor_release(same);
    OK(skate_submit("ask_the_keeper", NULL, 0, 1, NULL, &r));
    CHECK_EQ(number(r), 2);
    OK(skate_actor_kill(a));
    CHECK_EQ(skate_actor_find("keeper", "", &same), SKATE_ENOENT);
    skate_actor_release(a);
    skate_actor_release(b);
    o.detached = true; /* lives without a handle */
    o.space = NULL;
    OK(skate_actor_create("keeper_new", &SKATE_BYTES(&(int64_t){3}, 8), 1, &o, &a));
    skate_actor_release(a);
    OK(skate_actor_find("keeper", "", &a));
    OK(skate_actor_call(a, "keeper_get", NULL, 0, 1, NULL, &r));
    CHECK_EQ(number(r), 3);
    skate_actor_release(a);
    CHECK_EQ(skate_actor_find(NULL, NULL, &a), SKATE_EINVAL);
    CHECK_EQ(skate_actor_find("x", NULL, NULL), SKATE_EINVAL);
    skate_shutdown();
    CHECK_EQ(skate_actor_find("keeper", NULL, &a), SKATE_ECLOSED);
}

TEST(api_groups) {
    char path[512], c;
    start();
    struct skate_bundle b[2] = {
        {.cpus = 1},
        {.cpus = 1, .resources = &(struct skate_resource){"slot", 2}, .n_resources = 1}};
    skate_group g, second;
    skate_ref r, waits;
    snprintf(path, sizeof path, "%s/pipe", test_dir());
    CHECK_EQ(mkfifo(path, 0600), 0);
    OK(skate_group_create(b, 2, SKATE_GROUP_PACK, "both", &g));
    OK(skate_group_wait(g, 20000));
    struct skate_call_opts o = SKATE_OPTS(struct skate_call_opts);
    o.group = g;
    for (o.bundle = -1; o.bundle < 2; o.bundle++) {
        OK(skate_submit("eight", NULL, 0, 1, &o, &r));
        CHECK_EQ(number(r), 8);
    }
    o.bundle = 0; /* which has no slot */
    o.resources = b[1].resources;
    o.n_resources = 1;
    CHECK_EQ(skate_submit("eight", NULL, 0, 1, &o, &r), SKATE_EINFEASIBLE);
    o.bundle = 1;
    OK(skate_submit("eight", NULL, 0, 1, &o, &r));
    CHECK_EQ(number(r), 8);
    o.bundle = 2;
    CHECK_LT(skate_submit("eight", NULL, 0, 1, &o, &r), 0);
    /* a group that has to wait, and a task that waits for it */
    OK(skate_group_create(b, 1, SKATE_GROUP_SPREAD, NULL, &second));
    CHECK_EQ(skate_group_wait(second, 0), SKATE_ETIMEOUT);
    struct skate_call_opts in_second = SKATE_OPTS(struct skate_call_opts);
    in_second.group = second;
    OK(skate_submit("eight", NULL, 0, 1, &in_second, &waits));
    /* what runs in a group is killed with it */
    o.bundle = 0;
    o.n_resources = 0;
    OK(skate_submit("runs_for_ever", &SKATE_BYTES(path, strlen(path) + 1), 1, 1, &o, &r));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(read(fd, &c, 1), 1);
    close(fd);
    OK(skate_group_remove(g));
    CHECK_EQ(failure_of(r), SKATE_EGROUP);
    CHECK_EQ(skate_group_remove(g), SKATE_ENOENT);
    CHECK_EQ(skate_submit("eight", NULL, 0, 1, &o, &r), SKATE_EGROUP);
    OK(skate_group_wait(second, 20000));
    CHECK_EQ(number(waits), 8);
    OK(skate_group_remove(second));
    skate_shutdown();
    CHECK_EQ(skate_group_wait(second, 0), SKATE_ECLOSED);
}

TEST(api_groups_wrong) {
    start();
    struct skate_bundle b = {.cpus = 3};
    skate_group g;
    CHECK_EQ(skate_group_create(NULL, 1, SKATE_GROUP_PACK, NULL, &g), SKATE_EINVAL);
    CHECK_EQ(skate_group_create(&b, 0, SKATE_GROUP_PACK, NULL, &g), SKATE_EINVAL);
    CHECK_EQ(skate_group_create(&b, 1, (enum skate_group_strategy)7, NULL, &g), SKATE_EINVAL);
    CHECK_EQ(skate_group_create(&b, 1, SKATE_GROUP_PACK, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_group_create(&b, 1, SKATE_GROUP_PACK, NULL, &g), SKATE_EINFEASIBLE);
    CHECK_STR_HAS(skate_error(), "ask for 3 of the CPUs, and skate_init was given 2");
    struct skate_bundle spread[2] = {{.cpus = 1}, {.cpus = 1}};
    CHECK_EQ(skate_group_create(spread, 2, SKATE_GROUP_STRICT_SPREAD, NULL, &g), SKATE_EINFEASIBLE);
    b = (struct skate_bundle){.n_resources = 1};
    CHECK_EQ(skate_group_create(&b, 1, SKATE_GROUP_PACK, NULL, &g), SKATE_EINVAL);
    CHECK_EQ(skate_group_wait((skate_group){0}, 0), SKATE_EINVAL);
    CHECK_EQ(skate_group_remove((skate_group){0}), SKATE_EINVAL);
    skate_shutdown();
}

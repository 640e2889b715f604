/* test_api_gen.c - the public C interface: streams of values, and cancelling tasks. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api_help.h"

/* ---- task functions -------------------------------------------------------------------------- */

/* Yields 0 to n - 1, every other one in a buffer, then fails if the second argument says so. */
SKATE_TASK(counts) {
    int64_t a[2];
    struct skate_buf b;
    if (skate_n_returns(t) != 0 || skate_arg_copy(t, 0, a, sizeof a)) return SKATE_EINVAL;
    for (int64_t i = 0; i < a[0]; i++) {
        int rc;
        if (i % 2) {
            rc = skate_yield(t, &i, sizeof i);
        } else {
            if (skate_buf_alloc(100000, &b)) return SKATE_EFULL;
            memcpy(b.data, &i, sizeof i);
            rc = skate_yield_buf(t, &b, sizeof i);
        }
        if (rc) return rc;
    }
    return a[1] ? skate_fail(t, "enough of it") : SKATE_OK;
}
SKATE_TASK(yields_for_ever) {
    int rc = 0;
    for (int64_t i = 0; !rc; i++) rc = skate_yield(t, &i, sizeof i);
    return rc;
}
SKATE_TASK(yields_by_mistake) { return skate_yield(t, "x", 1); }
SKATE_TASK(is_actor) { return SKATE_OK; }
/* Says through a pipe with a name that it runs, then sleeps until it is cancelled. */
SKATE_TASK(sleeps) {
    int fd = open(skate_arg_data(t, 0, NULL), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "r", 1) != 1) return SKATE_EIO;
    close(fd);
    while (!skate_cancelled(t)) (void)pause();
    return SKATE_ECANCEL;
}
/* Submits a task that sleeps, and waits for it. */
SKATE_TASK(sleeps_by_a_child) {
    struct skate_value v;
    skate_ref r;
    size_t n;
    const void *p = skate_arg_data(t, 0, &n);
    int rc = skate_submit("sleeps", &SKATE_BYTES(p, n), 1, 1, NULL, &r);
    return rc ? rc : skate_get(r, -1, &v);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void start(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20)));
}
static struct skate_arg pair(int64_t n, int64_t fails) {
    static int64_t a[2];
    a[0] = n, a[1] = fails;
    return SKATE_BYTES(a, sizeof a);
}
static const char *pipe_path(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/runs", test_dir());
    CHECK_EQ(mkfifo(path, 0600), 0);
    return path;
}
/* Waits until a task has opened the pipe. */
static void wait_until_it_runs(const char *path) {
    char c;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK_EQ(read(fd, &c, 1), 1);
    close(fd);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(api_gen) {
    start();
    struct skate_arg a;
    skate_gen g;
    skate_ref r;
    for (uint32_t window = 0; window < 3; window++)
        for (int fails = 0; fails < 2; fails++) {
            a = pair(20, fails);
            OK(skate_gen_submit("counts", &a, 1,
                                SKATE_WITH(struct skate_call_opts, .window = window), &g));
            for (int64_t i = 0; i < 20; i++) {
                OK(skate_gen_next(g, 20000, &r));
                CHECK_EQ(number(r), i);
            }
            if (fails) {
                CHECK_EQ(skate_gen_next(g, 20000, &r), SKATE_ETASK);
                CHECK_STR_EQ(skate_error(), "enough of it");
            }
            CHECK_EQ(skate_gen_next(g, 20000, &r), SKATE_EDONE);
            CHECK_EQ(skate_gen_next(g, 0, &r), SKATE_EDONE);
            skate_gen_drop(g);
        }
    skate_actor actor;
    OK(skate_actor_create("is_actor", NULL, 0, NULL, &actor));
    a = pair(3, 0);
    OK(skate_gen_call(actor, "counts", &a, 1, NULL, &g));
    for (int64_t i = 0; i < 3; i++) {
        OK(skate_gen_next(g, 20000, &r));
        CHECK_EQ(number(r), i);
    }
    CHECK_EQ(skate_gen_next(g, 20000, &r), SKATE_EDONE);
    skate_gen_drop(g);
    skate_actor_release(actor);
    skate_shutdown();
    CHECK_EQ(skate_gen_next(g, 0, &r), SKATE_ECLOSED);
    skate_gen_drop(g);
}

TEST(api_gen_drop) { /* a stream without an end stops when nobody reads it */
    start();
    skate_gen g;
    skate_ref r;
    for (int i = 0; i < 3; i++) {
        OK(skate_gen_submit("yields_for_ever", NULL, 0,
                            SKATE_WITH(struct skate_call_opts, .cpus = 2, .window = 2), &g));
        OK(skate_gen_next(g, 20000, &r));
        CHECK_EQ(number(r), 0);
        if (i == 1) {
            OK(skate_gen_cancel(g, 0));
            int rc;
            while ((rc = skate_gen_next(g, 20000, &r)) == 0) skate_release(r);
            CHECK_EQ(rc, SKATE_ECANCEL);
        }
        skate_gen_drop(g); /* the next task needs both CPUs */
    }
    skate_shutdown();
}

TEST(api_gen_wrong) {
    start();
    skate_gen g;
    skate_ref r;
    CHECK_EQ(skate_gen_submit("counts", NULL, 0, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_gen_submit("no_such", NULL, 0, NULL, &g), SKATE_ENOENT);
    CHECK_EQ(skate_gen_call((skate_actor){0, 0}, "counts", NULL, 0, NULL, &g), SKATE_EINVAL);
    CHECK_EQ(skate_gen_next((skate_gen){0}, 0, &r), SKATE_EINVAL);
    CHECK_EQ(skate_gen_next((skate_gen){1}, 0, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_gen_next((skate_gen){12345}, 0, &r), SKATE_EDONE);
    CHECK_EQ(skate_gen_cancel((skate_gen){0}, 0), SKATE_EINVAL);
    skate_gen_drop((skate_gen){0});
    OK(skate_submit("yields_by_mistake", NULL, 0, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "was not submitted as a stream");
    skate_shutdown();
}

TEST(api_cancel) {
    start();
    skate_ref running, queued;
    const char *path = pipe_path();
    const struct skate_arg a = SKATE_BYTES(path, strlen(path) + 1);
    struct skate_call_opts whole = SKATE_OPTS(struct skate_call_opts);
    whole.cpus = 2;
    for (unsigned force = 0; force < 2; force++) {
        OK(skate_submit("sleeps", &a, 1, 1, &whole, &running));
        wait_until_it_runs(path);
        OK(skate_submit("sleeps", &a, 1, 1, &whole, &queued));
        OK(skate_cancel(queued, 0)); /* it has not begun */
        CHECK_EQ(failure_of(queued), SKATE_ECANCEL);
        OK(skate_cancel(running, force ? SKATE_CANCEL_FORCE : 0));
        CHECK_EQ(failure_of(running), SKATE_ECANCEL);
    }
    /* the child of a task */
    OK(skate_submit("sleeps_by_a_child", &a, 1, 1, NULL, &running));
    wait_until_it_runs(path);
    OK(skate_cancel(running, SKATE_CANCEL_CHILDREN));
    CHECK_EQ(failure_of(running), SKATE_ECANCEL);
    CHECK_EQ(skate_cancel((skate_ref){0}, 0), SKATE_EINVAL);
    CHECK_EQ(skate_cancel((skate_ref){1}, 64), SKATE_EINVAL);
    OK(skate_put("x", 1, &running));
    OK(skate_cancel(running, 0)); /* no task makes it: no effect */
    skate_release(running);
    skate_shutdown();
    CHECK_EQ(skate_cancel(running, 0), SKATE_ECLOSED);
}

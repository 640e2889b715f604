/* test_api_events.c - the public C interface: callbacks for event loops, and the log. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_help.h"
#include "base/log/log.h"

SKATE_TASK(echo) {
    size_t n;
    const void *p = skate_arg_data(t, 0, &n);
    return skate_return(t, 0, p, n);
}
SKATE_TASK(no_echo) { return skate_fail(t, "no"); }
SKATE_TASK(yields_two) {
    int rc = skate_yield(t, &(int64_t){5}, 8);
    return rc ? rc : skate_yield(t, &(int64_t){6}, 8);
}
static void count_calls(int code, void *ctx) { *(int *)ctx += code == 0; }
/* A task uses a stream, a callback and a placement group. */
SKATE_TASK(uses_all_from_a_worker) {
    struct skate_bundle b = {.cpus = 1};
    struct skate_call_opts o = SKATE_OPTS(struct skate_call_opts);
    skate_gen gen;
    skate_ref r;
    int rc, calls = 0;
    int64_t n = 0;
    if ((rc = skate_gen_submit("yields_two", NULL, 0, NULL, &gen))) return rc;
    for (; (rc = skate_gen_next(gen, 20000, &r)) == 0; n++) skate_release(r);
    skate_gen_drop(gen);
    if (rc != SKATE_EDONE) return rc;
    if ((rc = skate_group_create(&b, 1, SKATE_GROUP_PACK, NULL, &o.group)) ||
        (rc = skate_group_wait(o.group, 20000)) ||
        (rc = skate_submit("echo", &SKATE_BYTES("x", 1), 1, 1, &o, &r)) ||
        (rc = skate_on_ready(r, count_calls, &calls)))
        return rc;
    while (calls < 1) {
        struct pollfd p = {.fd = skate_event_fd(), .events = POLLIN};
        if (poll(&p, 1, 20000) != 1) return SKATE_ETIMEOUT;
        (void)skate_process();
    }
    skate_release(r);
    if ((rc = skate_group_remove(o.group))) return rc;
    return skate_return(t, 0, &n, sizeof n);
}
/* Waits until somebody reads the pipe. */
SKATE_TASK(waits_for_a_reader) {
    int fd = open(skate_arg_data(t, 0, NULL), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return SKATE_EIO;
    close(fd);
    return skate_return(t, 0, "", 0);
}

struct seen {
    int calls, code;
    pthread_t thread;
    skate_ref next; /* to be watched by the callback */
};
static void on_ready(int code, void *ctx) {
    struct seen *s = ctx;
    s->calls++;
    s->code = code;
    s->thread = pthread_self();
    if (s->next.id) {
        skate_ref r = s->next;
        s->next.id = 0;
        OK(skate_on_ready(r, on_ready, s));
    }
}
static void start(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20)));
}
static bool readable(int fd, int timeout_ms) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}
/* Runs an event loop until the callback has been called `calls` times. */
static void loop(const struct seen *s, int calls) {
    while (s->calls < calls) {
        CHECK(readable(skate_event_fd(), 20000));
        CHECK_LT(0, skate_process());
    }
}

TEST(api_events) {
    start();
    struct seen s = {0}, more[50] = {0};
    skate_ref r, bad, many[50];
    skate_gen g;
    int fd = skate_event_fd();
    CHECK(fd >= 0 && fd == skate_event_fd() && !readable(fd, 0));
    CHECK_EQ(skate_process(), 0);
    OK(skate_submit("echo", &SKATE_BYTES(&(int64_t){3}, 8), 1, 1, NULL, &r));
    OK(skate_on_ready(r, on_ready, &s));
    CHECK_EQ(s.calls, 0); /* never inside the call, but by skate_process */
    loop(&s, 1);
    CHECK(s.code == 0 && pthread_equal(s.thread, pthread_self()));
    CHECK(!readable(fd, 0));
    CHECK_EQ(number(r), 3);
    /* an error, and an object that exists already, which a callback watches */
    OK(skate_submit("no_echo", NULL, 0, 1, NULL, &bad));
    OK(skate_put("x", 1, &s.next));
    r = s.next;
    OK(skate_on_ready(bad, on_ready, &s));
    loop(&s, 3);
    skate_release(r);
    CHECK_EQ(failure_of(bad), SKATE_ETASK);
    /* the callback's reference keeps an object that the caller has released */
    for (int i = 0; i < 50; i++) {
        OK(skate_submit("echo", &SKATE_BYTES(&(int64_t){i}, 8), 1, 1, NULL, &many[i]));
        OK(skate_on_ready(many[i], on_ready, &more[i]));
        skate_release(many[i]);
    }
    for (int i = 0; i < 50; i++) {
        loop(&more[i], 1);
        CHECK(more[i].code == 0 && more[i].calls == 1);
    }
    OK(skate_gen_submit("yields_two", NULL, 0, NULL, &g));
    int rc = 0;
    for (int64_t i = 5; !rc; i++) {
        int before = s.calls;
        OK(skate_gen_on_ready(g, on_ready, &s));
        loop(&s, before + 1);
        rc = skate_gen_next(g, 0, &r); /* does not wait */
        if (!rc) CHECK_EQ(number(r), i);
        else CHECK_EQ(i, 7);
    }
    CHECK_EQ(rc, SKATE_EDONE);
    skate_gen_drop(g);
    skate_shutdown();
}

TEST(api_from_a_worker) {
    skate_ref r;
    start();
    OK(skate_submit("uses_all_from_a_worker", NULL, 0, 1, NULL, &r));
    CHECK_EQ(number(r), 2);
    skate_shutdown();
}

TEST(api_events_at_the_end) { /* the callbacks are called after a shutdown, too */
    char path[512];
    struct seen s[3] = {0};
    skate_ref r;
    snprintf(path, sizeof path, "%s/pipe", test_dir());
    CHECK_EQ(mkfifo(path, 0600), 0);
    start();
    OK(skate_submit("waits_for_a_reader", &SKATE_BYTES(path, strlen(path) + 1), 1, 1, NULL, &r));
    for (int i = 0; i < 3; i++) OK(skate_on_ready(r, on_ready, &s[i]));
    skate_release(r);
    CHECK_EQ(skate_process(), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(skate_process() == SKATE_ECLOSED && skate_event_fd() == SKATE_ECLOSED &&
                      skate_on_ready(r, on_ready, &s[0]) == SKATE_ECLOSED
                  ? 0
                  : 1);
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    skate_shutdown();
    CHECK(readable(skate_event_fd(), 0));
    CHECK_EQ(skate_process(), 3);
    for (int i = 0; i < 3; i++) CHECK(s[i].calls == 1 && s[i].code == SKATE_ECLOSED);
    CHECK_EQ(skate_on_ready(r, on_ready, &s[0]), SKATE_ECLOSED);
}

TEST(api_events_wrong) {
    start();
    skate_ref r;
    struct seen s = {0};
    OK(skate_put("x", 1, &r));
    CHECK_EQ(skate_on_ready(r, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_on_ready((skate_ref){0}, on_ready, &s), SKATE_EINVAL);
    CHECK_EQ(skate_gen_on_ready((skate_gen){0}, on_ready, &s), SKATE_EINVAL);
    /* an object that does not exist: ready at once, and skate_get says why */
    OK(skate_on_ready((skate_ref){1}, on_ready, &s));
    loop(&s, 1);
    skate_release(r);
    skate_shutdown();
}

static char logged[4096];
static int log_level;
static void on_log(enum skate_log_level level, const char *line, size_t n, void *ctx) {
    CHECK_EQ(strlen(line), n);
    CHECK(ctx == logged);
    log_level = (int)level;
    snprintf(logged, sizeof logged, "%s", line);
}

TEST(api_log) {
    OK(skate_set_log(SKATE_LOG_INFO, on_log, logged));
    sk_log(SK_LOG_INFO, "something x=%d", 3);
    CHECK_EQ(log_level, SKATE_LOG_INFO);
    CHECK_STR_HAS(logged, "lvl=info");
    CHECK_STR_HAS(logged, "something x=3");
    logged[0] = 0;
    sk_log(SK_LOG_DEBUG, "too low");
    CHECK_STR_EQ(logged, "");
    CHECK_EQ(skate_set_log((enum skate_log_level)9, on_log, NULL), SKATE_EINVAL);
    start();
    CHECK_EQ(skate_set_log(SKATE_LOG_OFF, NULL, NULL), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "before skate_init");
    skate_shutdown();
    OK(skate_set_log(SKATE_LOG_OFF, NULL, NULL));
    logged[0] = 0;
    sk_log(SK_LOG_ERROR, "off");
    CHECK_STR_EQ(logged, "");
}

/* test_engine_task.c - task specifications on the wire, and the table of a task's states. Damaged
 * specifications: fuzz/spec_fuzz.c. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/local/driver/local_int.h"
#include "test.h"

static size_t write_spec(const struct sk_task_spec *s, uint8_t *p, size_t cap) {
    struct sk_wr dry = sk_wr_init(NULL, 0), w = sk_wr_init(p, cap);
    sk_spec_write(&dry, s);
    sk_spec_write(&w, s);
    CHECK(sk_wr_ok(&w));
    CHECK_EQ(dry.n, w.n); /* the measuring pass is exact */
    return w.n;
}

TEST(task_spec_round_trip) {
    static _Alignas(8) uint8_t buf[20000], bytes[8192];
    for (int round = 0; round < test_rounds(2000); round++) {
        struct sk_arg a[20];
        sk_oid c[20];
        uint32_t na = (uint32_t)test_below(20), nc = (uint32_t)test_below(20);
        size_t room = 8192;
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i * 7 + (size_t)round);
        for (uint32_t i = 0; i < na; i++) {
            size_t n = test_below(SK_MIN(room, 1000) + 1);
            room -= n;
            a[i] = test_below(2) ? (struct sk_arg){.ref = {test_rand() | 1}}
                                 : (struct sk_arg){.kind = (uint32_t)test_below(100),
                                                   .bytes = {bytes + test_below(7), n}};
        }
        for (uint32_t i = 0; i < nc; i++) c[i].v = test_rand();
        struct sk_task_opts o = {.refused = test_below(2) ? "it asks for too much" : NULL,
                                 .stream_window = (uint32_t)test_rand(),
                                 .parent = {test_rand()},
                                 .group = (uint32_t)test_rand(),
                                 .max_calls = (uint32_t)test_rand(),
                                 .no_wait = test_below(2)};
        struct sk_task_spec s = {.fn = {test_rand()},
                                 .actor = {test_rand()},
                                 .name = test_below(2) ? "a name" : NULL,
                                 .args = a,
                                 .n_args = na,
                                 .contains = c,
                                 .n_contains = nc,
                                 .n_returns =
                                     test_below(2) ? SK_STREAMING : (uint32_t)test_below(1000),
                                 .shape = (sk_shape)test_rand(),
                                 .max_retries = (int32_t)test_below(5) - 1,
                                 .retry_exceptions = test_below(2),
                                 .sink_tag = test_rand(),
                                 .opts = test_below(4) ? &o : NULL};
        if (!s.opts) memset(&o, 0, sizeof o);
        size_t n = write_spec(&s, buf, sizeof buf);
        struct sk_rd r = sk_rd_init(buf, n);
        struct sk_spec d;
        CHECK(sk_spec_read(&r, &d));
        CHECK(d.fid == s.fn.v && d.actor == s.actor.v && d.sink_tag == s.sink_tag &&
              d.n_args == na && d.n_contains == nc && d.n_returns == s.n_returns);
        CHECK(d.stream_window == o.stream_window && d.parent == o.parent.v && d.group == o.group &&
              d.max_calls == o.max_calls && d.no_wait == o.no_wait);
        CHECK(d.max_retries == s.max_retries && d.shape == s.shape &&
              d.retry_exceptions == s.retry_exceptions);
        CHECK_EQ(d.name.n, s.name ? strlen(s.name) : 0);
        if (s.name) CHECK_MEM_EQ(d.name.p, s.name, d.name.n);
        CHECK_EQ(d.refused.n, o.refused ? strlen(o.refused) : 0);
        if (o.refused) CHECK_MEM_EQ(d.refused.p, o.refused, d.refused.n);
        for (uint32_t i = 0; i < nc; i++) CHECK(d.contains[i] == c[i].v);
        struct sk_rd ar = sk_rd_init(d.args, d.args_len);
        for (uint32_t i = 0; i < na; i++) {
            struct sk_val v;
            const void *b = sk_rd_val(&ar, &v);
            CHECK_EQ(v.oid, a[i].ref.v);
            CHECK_EQ(v.where, a[i].ref.v ? SK_V_NONE : SK_V_INLINE);
            if (a[i].ref.v) continue;
            CHECK(v.kind == a[i].kind && v.len == a[i].bytes.n);
            CHECK_MEM_EQ(b, a[i].bytes.p, v.len);
        }
        CHECK(sk_rd_end(&ar) && !ar.bad);
    }
}

TEST(task_spec_cut_short) { /* at every length: refused, and nothing is read past the end (ASan) */
    static _Alignas(8) uint8_t buf[2000];
    struct sk_arg a[3] = {
        {.ref = {5}}, {.kind = 4, .bytes = {"12345678", 8}}, {.kind = 4, .bytes = {"abc", 3}}};
    struct sk_task_spec s = {.fn = {1},
                             .name = "x",
                             .args = a,
                             .n_args = 3,
                             .contains = (sk_oid[]){{7}, {8}},
                             .n_contains = 2,
                             .n_returns = 1};
    size_t n = write_spec(&s, buf, sizeof buf);
    for (size_t cut = 0; cut < n; cut++) {
        uint8_t *exact = malloc(cut + 1);
        CHECK(exact);
        memcpy(exact, buf, cut);
        struct sk_rd r = sk_rd_init(exact, cut);
        struct sk_spec d;
        CHECK_MSG(!sk_spec_read(&r, &d), "%zu of %zu bytes were enough", cut, n);
        free(exact);
    }
}

TEST(task_spec_absurd) {
    static _Alignas(8) uint8_t buf[200];
    struct sk_task_spec s = {.fn = {1}, .n_returns = 100001};
    struct sk_rd r = sk_rd_init(buf, write_spec(&s, buf, sizeof buf));
    struct sk_spec d;
    CHECK(!sk_spec_read(&r, &d));
    s.n_returns = 1;
    size_t n = write_spec(&s, buf, sizeof buf);
    uint32_t many = UINT32_MAX;
    memcpy(buf + 40, &many, 4); /* n_args */
    r = sk_rd_init(buf, n);
    CHECK(!sk_spec_read(&r, &d));
    n = write_spec(&s, buf, sizeof buf);
    memcpy(buf + 44, &many, 4); /* n_contains */
    r = sk_rd_init(buf, n);
    CHECK(!sk_spec_read(&r, &d));
}

static bool step_aborts(enum sk_tstate from, enum sk_tstate to, struct sk_lworker *w) {
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        if (null < 0 || dup2(null, STDERR_FILENO) < 0) _exit(1);
        unsetenv("SKATE_ASSERT_LOG");
        struct sk_ltask t = {.state = (uint8_t)from, .worker = w};
        sk_ltask_to(&t, to);
        _exit(t.state == to ? 0 : 1);
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGABRT : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

TEST(task_states_follow_the_table) {
    /* each step that it does not have aborts, and so does one with a worker where there is
     * none, or without one */
    static struct sk_lworker w;
    uint32_t reached = 1u << SK_T_WAITING;
    for (uint32_t turn = 0; turn < SK_T_STATES; turn++)
        for (uint32_t s = 0; s < SK_T_STATES; s++)
            if (reached >> s & 1) reached |= sk_tstates[s].next;
    CHECK_EQ(reached, (1u << SK_T_STATES) - 1);
    for (uint32_t from = 0; from < SK_T_STATES; from++) {
        CHECK(sk_tstates[from].name && sk_tstates[from].next &&
              !(sk_tstates[from].next >> from & 1));
        for (uint32_t to = 0; to < SK_T_STATES; to++) {
            bool allowed = sk_tstates[from].next >> to & 1, on_worker = sk_tstates[to].on_worker;
            CHECK_EQ(step_aborts((enum sk_tstate)from, (enum sk_tstate)to, on_worker ? &w : NULL),
                     !allowed);
            CHECK(step_aborts((enum sk_tstate)from, (enum sk_tstate)to, on_worker ? NULL : &w));
        }
    }
}

/* engine_crash.c - the local engine under SIGKILL and refusal: workers at every fault point,
 * workers and fork server at random, the driver at random, the nth allocation, the system calls of
 * a start. Results must be those of an undisturbed run, and no process or memory may be left. */
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "engine/local/driver/calls/calls.h"
#include "engine_help.h"

#define JOB(...) eng_job(&(struct job){__VA_ARGS__})

/* ---- what runs ------------------------------------------------------------------------------- */

static int64_t fold(int64_t x, int64_t by, int64_t y) {
    return (int64_t)((uint64_t)x * (uint64_t)by + (uint64_t)y);
}

TASK(mix) { return ret_i64(t, 0, fold(arg_i64(t, 0), 31, arg_i64(t, 1)), err); }
TASK(bytes) { return ret_blob(t, 0, (size_t)arg_i64(t, 0), (uint8_t)arg_i64(t, 1), err); }
TASK(check_bytes) {
    return ret_i64(
        t, 0, view_is(&t->args[0], (size_t)arg_i64(t, 1), (uint8_t)arg_i64(t, 2)) ? 1 : -1000000,
        err);
}
TASK(numbers) {
    for (int64_t i = 0; i < arg_i64(t, 0); i++)
        SK_TRY(i % 3 ? yield_i64(t, i, err) : yield_blob(t, 20000, (uint8_t)i, err));
    return SK_OK;
}
TASK(make) { return ret_i64(t, 0, arg_i64(t, 0), err); }
TASK(sum_below) { /* nested submits, puts, waits and a stream */
    struct sk_engine *e = t->engine;
    int64_t n = arg_i64(t, 0), x, sum = 0;
    if (n == 0) return ret_i64(t, 0, 1, err);
    sk_oid o[3], in, s;
    sk_tid st;
    bool r[3];
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_I64, .bytes = {&n, 8}}, &in, err));
    struct sk_buf b;
    SK_TRY(e->ops->buf_alloc(e, 50000, &b, err));
    memset(b.data, 7, 50000);
    sk_oid big;
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_BLOB, .buf = &b, .buf_len = 50000},
                       &big, err));
    SK_TRY(job_on(e, &(struct job){.fn = "mix", .a = {REF(in), VAL(1)}, .n_a = 2, .retries = -1},
                  &o[0], NULL, err));
    SK_TRY(job_on(
        e,
        &(struct job){
            .fn = "check_bytes", .a = {REF(big), VAL(50000), VAL(7)}, .n_a = 3, .retries = -1},
        &o[1], NULL, err));
    SK_TRY(job_on(e, &(struct job){.fn = "sum_below", .a = {VAL(n - 1)}, .n_a = 1, .retries = -1},
                  &o[2], NULL, err));
    SK_TRY(job_on(e,
                  &(struct job){.fn = "numbers",
                                .a = {VAL(5)},
                                .n_a = 1,
                                .retries = -1,
                                .n_returns = SK_STREAMING,
                                .opts.stream_window = 2},
                  &s, &st, err));
    e->ops->release(e, in), e->ops->release(e, big);
    SK_TRY(e->ops->wait(e, o, 3, 3, INT64_MAX, r, err));
    for (int i = 0; i < 3; i++) {
        SK_TRY(get_i64(e, o[i], &x, err));
        sum += x;
        e->ops->release(e, o[i]);
    }
    for (int i = 0; i < 3; i++) {
        sk_oid y;
        struct sk_view v;
        SK_TRY(e->streams->next(e, st, INT64_MAX, &y, err));
        SK_TRY(e->ops->get(e, &y, 1, INT64_MAX, &v, err));
        sum += (int64_t)v.len;
        e->ops->view_release(e, &v);
        e->ops->release(e, y);
    }
    e->streams->drop(e, st); /* half-way */
    return ret_i64(t, 0, sum, err);
}

/* references that are left after a failed call are released with the process */
TASK(sum_below_or_die) {
    if (task_sum_below(t, err) != SK_OK) _exit(1);
    return SK_OK;
}

/* These functions return one number each, and release everything. */
static int64_t work_tasks(void) {
    int64_t sum = 0;
    sk_oid o[40], chain = JOB(.fn = "make", .a = {VAL(1)}, .n_a = 1, .retries = -1);
    for (int i = 0; i < 20; i++) {
        o[i] = JOB(.fn = "mix", .a = {VAL(i), VAL(i)}, .n_a = 2, .retries = -1);
        sk_oid b = JOB(.fn = "bytes", .a = {VAL(i * 5000), VAL(i)}, .n_a = 2, .retries = -1);
        o[20 + i] =
            JOB(.fn = "check_bytes", .a = {REF(b), VAL(i * 5000), VAL(i)}, .n_a = 3, .retries = -1);
        eng_release(b);
        sk_oid next = JOB(.fn = "mix", .a = {REF(chain), VAL(i)}, .n_a = 2, .retries = -1);
        eng_release(chain);
        chain = next;
    }
    for (int i = 0; i < 40; i++) sum = fold(sum, 3, eng_take(o[i]));
    return sum ^ eng_take(chain);
}

static int64_t work_streams(void) {
    int64_t sum = 0;
    for (uint32_t window = 0; window < 5; window += 2) {
        sk_tid t;
        sk_oid o;
        struct sk_view v;
        sk_rc rc;
        int n = 0;
        (void)eng_job_tid(&(struct job){.fn = "numbers",
                                        .a = {VAL(12)},
                                        .n_a = 1,
                                        .retries = -1,
                                        .n_returns = SK_STREAMING,
                                        .opts.stream_window = window},
                          &t);
        while ((rc = eng->streams->next(eng, t, INT64_MAX, &o, NULL)) == SK_OK) {
            CHECK_OK(eng->ops->get(eng, &o, 1, INT64_MAX, &v, NULL));
            CHECK(n % 3 ? v.len == 8 && v.data[0] == n : view_is(&v, 20000, (uint8_t)n));
            sum = fold(sum, 3, (int64_t)v.len);
            eng->ops->view_release(eng, &v);
            eng_release(o);
            n++;
        }
        CHECK_EQ(rc, SK_EDONE);
        CHECK_EQ(n, 12);
        eng->streams->drop(eng, t);
    }
    return sum;
}

static int64_t work_actors(void) { /* the calls use no state, since a restarted actor has none */
    int64_t sum = 0;
    sk_oid ready, arg = JOB(.fn = "make", .a = {VAL(5)}, .n_a = 1, .retries = -1), o[20];
    sk_aid a;
    sk_tid st;
    struct sk_actor_spec s = {.init =
                                  spec_of(&(struct job){.fn = "make", .a = {REF(arg)}, .n_a = 1}),
                              .max_restarts = -1,
                              .max_task_retries = -1};
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    eng_release(arg);
    for (int i = 0; i < 20; i++)
        o[i] = JOB(.fn = "mix", .a = {VAL(i), VAL(2)}, .n_a = 2, .actor = a);
    (void)eng_job_tid(&(struct job){.fn = "numbers",
                                    .a = {VAL(6)},
                                    .n_a = 1,
                                    .n_returns = SK_STREAMING,
                                    .opts.stream_window = 2,
                                    .actor = a},
                      &st);
    sk_oid last = JOB(.fn = "sum_below", .a = {VAL(1)}, .n_a = 1, .actor = a);
    for (int i = 0; i < 20; i++) sum = fold(sum, 3, eng_take(o[i]));
    for (sk_oid y; eng->streams->next(eng, st, INT64_MAX, &y, NULL) == SK_OK; sum = fold(sum, 3, 1))
        eng_release(y);
    eng->streams->drop(eng, st);
    sum = fold(sum, 5, eng_take(last)) ^ eng_take(ready);
    sk_actor_release(eng, a);
    return sum;
}

static int64_t work_nested(void) {
    sk_oid a = JOB(.fn = "sum_below", .a = {VAL(3)}, .n_a = 1, .retries = -1),
           b = JOB(.fn = "sum_below", .a = {VAL(2)}, .n_a = 1, .retries = -1);
    return fold(eng_take(a), 3, eng_take(b));
}

static int64_t (*const works[])(void) = {work_tasks, work_streams, work_actors, work_nested};

/* ---- at every fault point -------------------------------------------------------------------- */

/* Runs `work` once with a fault armed in one worker; true if that worker died of it. */
static bool one(int64_t (*work)(void), int64_t want, const char *point, int64_t nth, int skip) {
    char fault[100];
    snprintf(fault, sizeof fault, "%s:kill:%lld", point, (long long)nth);
    eng_open(&(struct eng_opt){.fault = fault, .fault_workers = 1, .fault_skip = skip});
    int64_t got = work();
    CHECK_MSG(got == want, "%s: result %lld, undisturbed %lld", fault, (long long)got,
              (long long)want);
    eng_check();
    eng_settle_fast();
    /* If the worker died after its last message, the status value does not count a death; retries
     * or the missing worker show it. */
    bool fired = eng_stat(eng, "worker_deaths") > 0;
    eng_close_now();
    return fired;
}

/* One worker dies at a pass of the point: at each of the first, at some of the later ones. Of those
 * behind the third, a run tries half, chosen at random; with SK_TEST_ROUNDS it tries all. */
static void at_every_pass(const char *point) {
    int died = 0; /* not every workload passes every fault point */
    bool all = test_rounds(1) > 1;
    for (size_t k = 0; k < SK_COUNT(works); k++) {
        eng_open(&(struct eng_opt){0});
        int64_t want = works[k]();
        eng_close_now();
        int quiet = 0;
        for (int64_t n = 1; n < 2000 && quiet < 3; n += n < 16 ? 1 : n / 8) {
            if (n > 3 && !all && test_below(2)) continue;
            bool fired = one(works[k], want, point, n, (int)(n % 3 == 2));
            quiet = fired ? 0 : quiet + 1;
            died += fired;
        }
    }
    CHECK_MSG(died > 0, "%s killed nobody", point);
}

#define POINT(name, point) \
    TEST_SLOW(crash_##name, 300) { at_every_pass(point); }
POINT(before_publish, "worker.before_publish")
POINT(before_run, "worker.before_run")
POINT(after_run, "worker.after_run")
POINT(after_done, "worker.after_done")
POINT(before_yield, "worker.before_yield")
POINT(after_yield, "worker.after_yield")
POINT(ring_reserved, "ring.reserved")
POINT(ring_before_publish, "ring.before_publish")
POINT(ring_after_publish, "ring.after_publish")
POINT(ring_before_pop, "ring.before_pop")
POINT(ring_after_pop, "ring.after_pop")
POINT(bell_before_clear, "bell.before_clear")
POINT(bell_before_sleep, "bell.before_sleep")

TEST_SLOW(crash_fork_server_points, 300) {
    static const char *const points[] = {"forksrv.before_fork", "forksrv.after_fork"};
    uint32_t died = 0;
    for (size_t k = 0; k < SK_COUNT(works); k++) {
        eng_open(&(struct eng_opt){0});
        int64_t want = works[k]();
        eng_close_now();
        for (size_t p = 0; p < SK_COUNT(points); p++)
            for (int n = 1; n <= 3; n++) {
                char fault[100];
                snprintf(fault, sizeof fault, "%s:kill:%d", points[p], n);
                eng_open(&(struct eng_opt){.server_fault = fault});
                const struct sk_local *l = sk_container_of(eng, struct sk_local, base);
                pid_t first = l->forksrv.pid;
                CHECK_EQ(works[k](), want);
                eng_settle_fast();
                int64_t until = test_patience();
                bool gone = false;
                do {
                    /* a third fork is not always needed; the first always is, and the watch thread
                     * learns of the death */
                    sk_driver_lock(eng);
                    gone = l->pool.server_dead || l->forksrv.pid != first;
                    sk_driver_unlock(eng);
                    CHECK_MSG(gone || n > 1 || sk_now_ns() < until, "%s: the server lives", fault);
                } while (!gone && n == 1 && sched_yield() == 0);
                died += gone;
                eng_close_now();
            }
    }
    CHECK(died > SK_COUNT(works) * SK_COUNT(points)); /* and some at their second */
}

static uint64_t status_of(const char *key) {
    char text[4096], *at;
    CHECK_LE(eng->state->status(eng, text, sizeof text), sizeof text);
    CHECK((at = strstr(text, key)) != NULL);
    return strtoull(at + strlen(key), NULL, 10);
}

/* SK_STARTS_OWN + 1 servers that are killed in turn must not make tasks fail: neither those that
 * wait nor those that are submitted while servers are started again. */
TEST(crash_fork_server_again_and_again) {
    enum { DEATHS = SK_STARTS_OWN + 1 };
    int64_t since = sk_now_ns();
    eng_open(
        &(struct eng_opt){.server_fault = "forksrv.before_fork:kill:1", .server_faults = DEATHS});
    sk_oid o[20], ready;
    sk_aid a;
    struct sk_actor_spec s = {.init =
                                  spec_of(&(struct job){.fn = "make", .a = {VAL(7)}, .n_a = 1})};
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    /* none of them ever began */
    for (int i = 0; i < 20; i++) o[i] = JOB(.fn = "make", .a = {VAL(i)}, .n_a = 1, .retries = 0);
    for (int i = 0; i < 20; i++) CHECK_EQ(eng_take(o[i]), i);
    eng_release(ready);
    sk_actor_release(eng, a);
    CHECK_EQ(status_of("fork_server_restarts "), DEATHS);
    CHECK_GE(sk_now_ns() - since, SK_SEC); /* it waited: 5, 10, 20 ms and so on */
    eng_close_now();
}

/* ---- at random ------------------------------------------------------------------------------- */

TASK(held) {
    return gate_wait(0, 1) ? ret_i64(t, 0, 1, err)
                           : SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
}

enum { KILLS = 300, KILLS_MIN = 6 };
struct kills {
    pid_t pid[KILLS];
    int n;
};

/* Chooses a process that was not killed before. The engine rightly gives up if processes are killed
 * again and again before they are ready, so only a tenth of the kills hits such processes, and the
 * server is killed only if a worker is ready. */
static pid_t choose(const struct kills *k, bool with_server) {
    struct sk_worker_info w[64];
    size_t n = SK_MIN(eng->state->workers(eng, w, SK_COUNT(w)), SK_COUNT(w)), up = 0;
    struct sk_local *l = sk_container_of(eng, struct sk_local, base);
    sk_driver_lock(eng);
    pid_t srv = l->pool.server_dead ? 0 : l->forksrv.pid;
    sk_driver_unlock(eng);
    for (size_t i = 0; i < n; i++) up += w[i].state == 1 || w[i].state == 2;
    const struct sk_worker_info *x = n ? &w[test_below(n)] : NULL;
    bool may = x && (x->state == 1 || x->state == 2 || (x->state == 0 && up && k->n % 10 == 0));
    pid_t victim = with_server && up && test_below(4) == 0 ? srv : may ? x->pid : 0;
    for (int i = 0; i < k->n; i++)
        if (k->pid[i] == victim) return 0;
    return victim;
}

TEST_SLOW(crash_random_kills, 300) {
    enum { N = 2000 };
    static sk_oid o[N + 1];
    static bool ready[N + 1];
    for (int with_server = 0; with_server < 2; with_server++) {
        eng_open(&(struct eng_opt){.cpus = 4});
        /* a task without end, so that there is always a worker to kill */
        o[N] = JOB(.fn = "held", .retries = -1);
        for (int i = 0; i < N; i++)
            o[i] = i % 50 == 7 ? JOB(.fn = "sum_below", .a = {VAL(2)}, .n_a = 1, .retries = -1)
                   : i % 10 == 3
                       ? JOB(.fn = "check_bytes", .a = {REF(o[i - 1]), VAL(100000), VAL(i - 1)},
                             .n_a = 3, .retries = -1)
                   : i % 10 == 2
                       ? JOB(.fn = "bytes", .a = {VAL(100000), VAL(i)}, .n_a = 2, .retries = -1)
                       : JOB(.fn = "mix", .a = {VAL(i), VAL(3)}, .n_a = 2, .retries = -1);
        struct kills k = {.n = 0};
        while (k.n < KILLS &&
               eng->ops->wait(eng, o, N + 1, N + 1, sk_now_ns() + (int64_t)test_below(400000),
                              ready, NULL) == SK_ETIMEOUT) {
            pid_t victim = choose(&k, with_server);
            if (victim > 0 && kill(victim, SIGKILL) == 0) k.pid[k.n++] = victim;
            if (k.n == KILLS_MIN) gate_add(0, 1);
            if (k.n % 10 == 0) eng_check();
        }
        CHECK_GE(k.n, KILLS_MIN);
        CHECK_EQ(eng_take(o[N]), 1);
        for (int i = 0; i < N; i++) {
            if (i % 10 == 2 && i % 50 != 7) {
                struct sk_view v;
                CHECK_OK(eng->ops->get(eng, &o[i], 1, INT64_MAX, &v, NULL));
                CHECK(view_is(&v, 100000, (uint8_t)i));
                eng->ops->view_release(eng, &v);
                eng_release(o[i]);
            } else {
                int64_t x = eng_take(o[i]);
                if (i % 50 == 7) CHECK_GT(x, 20000);
                else CHECK_EQ(x, i % 10 == 3 ? 1 : i * 31 + 3);
            }
        }
        eng_settle_fast();
        eng_close_now();
        CHECK(all_gone());
    }
}

TEST_SLOW(crash_driver, 300) {
    int rounds = test_rounds(test_sanitized() ? 10 : 40);
    int fds = n_fds(), late = 0;
    for (int round = 0; round < rounds; round++) {
        int64_t delay = (int64_t)test_below(30 * SK_MS);
        int up[2];
        CHECK(pipe2(up, O_CLOEXEC) == 0);
        (void)test_dir();
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            eng_open(&(struct eng_opt){.cpus = 4});
            if (write(up[1], "x", 1) != 1) _exit(1);
            for (;;) {
                (void)work_tasks();
                (void)work_nested();
                (void)work_actors();
            }
        }
        close(up[1]);
        char c;
        CHECK(read(up[0], &c, 1) == 1);
        close(up[0]);
        for (int64_t until = sk_now_ns() + delay; sk_now_ns() < until;) (void)sched_yield();
        CHECK(kill(pid, SIGKILL) == 0);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
              WTERMSIG(status) == SIGKILL);
        int64_t dead = sk_now_ns();
        CHECK_MSG(all_gone(), "%d processes outlived the driver (killed after %lld us)",
                  n_descendants(), (long long)delay / 1000);
        late += sk_now_ns() - dead > 500 * SK_MS;
    }
    /* half a second is promised; on a loaded machine some rounds may be late */
    CHECK_LE(late, rounds / 2);
    CHECK_EQ(n_fds(), fds);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static bool is_failure(sk_rc rc) {
    CHECK_MSG(rc == SK_OK || rc == SK_ENOMEM || rc == SK_EFULL || rc == SK_EDONE ||
                  rc == SK_ETASK || rc == SK_ELOST || rc == SK_ENOENT || rc == SK_EACTOR ||
                  rc == SK_EDEAD,
              "a strange answer: %s", sk_rc_name(rc));
    return rc != SK_OK;
}

/* Takes an object that may be an error or the right value, but not a wrong value. */
static void take_or_error(sk_oid o, int64_t want) {
    struct sk_view v;
    if (!is_failure(eng->ops->get(eng, &o, 1, test_patience(), &v, NULL))) {
        int64_t x = want;
        if (!SK_KIND_IS_ERROR(v.kind)) {
            CHECK_EQ(v.len, 8);
            memcpy(&x, v.data, 8);
        }
        CHECK_EQ(x, want);
        eng->ops->view_release(eng, &v);
    }
    eng_release(o);
}

static void careful_work(void) {
    static uint8_t big[50000];
    sk_oid o[6] = {{0}}, p = {0}, ready = {0}, y;
    sk_aid a = {0};
    sk_tid t;
    bool r[6];
    for (int i = 0; i < 6; i++)
        SK_IGNORE(job_on(eng,
                         &(struct job){.fn = "mix", .a = {VAL(i), VAL(1)}, .n_a = 2, .retries = -1},
                         &o[i], NULL, NULL));
    for (int i = 0; i < 6; i++)
        if (o[i].v) {
            sk_oid d = {0};
            if (!is_failure(
                    job_on(eng,
                           &(struct job){
                               .fn = "mix", .a = {REF(o[i]), REF(o[i])}, .n_a = 2, .retries = -1},
                           &d, NULL, NULL)))
                take_or_error(d, (i * 31 + 1) * 32);
        }
    if (!is_failure(eng->ops->put(
            eng, &(struct sk_payload){.kind = KIND_BLOB, .bytes = {big, sizeof big}}, &p, NULL))) {
        sk_oid d = {0};
        if (!is_failure(job_on(eng,
                               &(struct job){.fn = "check_bytes",
                                             .a = {REF(p), VAL(sizeof big), VAL(0)},
                                             .n_a = 3,
                                             .retries = -1},
                               &d, NULL, NULL)))
            take_or_error(d, 1);
        struct sk_view v[2];
        if (!is_failure(eng->ops->get(eng, (sk_oid[]){p, p}, 2, INT64_MAX, v, NULL)))
            eng->ops->view_release(eng, &v[0]), eng->ops->view_release(eng, &v[1]);
        sk_oid in = {0};
        if (!is_failure(eng->ops->put(
                eng,
                &(struct sk_payload){
                    .kind = KIND_I64, .bytes = {&p, 8}, .contains = &p, .n_contains = 1},
                &in, NULL)))
            eng_release(in);
        eng_release(p);
    }
    if (!is_failure(job_on(
            eng,
            &(struct job){
                .fn = "numbers", .a = {VAL(6)}, .n_a = 1, .retries = -1, .n_returns = SK_STREAMING},
            &p, &t, NULL))) {
        sk_rc rc;
        int n = 0;
        while ((rc = eng->streams->next(eng, t, test_patience(), &y, NULL)) == SK_OK)
            n++, eng_release(y);
        if (rc == SK_ETASK) eng_release(y);
        (void)is_failure(rc);
        if (rc == SK_EDONE) CHECK_EQ(n, 6); /* the stream may only end after all values were read */
        eng->streams->drop(eng, t);
    }
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = "make", .a = {VAL(1)}, .n_a = 1}),
                              .max_restarts = -1,
                              .max_task_retries = -1};
    if (!is_failure(eng->ops->actor_create(eng, &s, &a, &ready, NULL))) {
        sk_oid d = {0};
        if (!is_failure(
                job_on(eng, &(struct job){.fn = "mix", .a = {VAL(1), VAL(2)}, .n_a = 2, .actor = a},
                       &d, NULL, NULL)))
            take_or_error(d, 33);
        sk_actor_release(eng, a);
        take_or_error(ready, 1);
    }
    sk_oid nest = {0};
    if (!is_failure(job_on(
            eng, &(struct job){.fn = "sum_below_or_die", .a = {VAL(1)}, .n_a = 1, .retries = 2},
            &nest, NULL, NULL))) {
        SK_IGNORE(eng->ops->wait(eng, &nest, 1, 1, test_patience(), r, NULL));
        CHECK(r[0]);
        eng_release(nest);
    }
    for (int i = 0; i < 6; i++)
        if (o[i].v) take_or_error(o[i], i * 31 + 1);
}

TEST_SLOW(crash_nth_allocation_of_open, 300) {
    for (int64_t n = 1;; n++) {
        sk_mem_fail_at(n);
        struct sk_err err;
        sk_rc rc = eng_try_open(
            &(struct eng_opt){.names = (const char *const[]){"a", "b"}, .n_names = 2}, &eng, &err);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        if (rc == SK_OK) eng_close_now();
        else CHECK_EQ(rc, SK_ENOMEM);
        CHECK_EQ(sk_mem_blocks(SK_TAG_N), 0);
        CHECK(all_gone());
        if (!hit) break;
    }
}

TEST_SLOW(crash_nth_allocation, 300) {
    for (int64_t n = 1;; n += n < 100 ? 1 : 1 + (int64_t)test_below((uint64_t)n / 20)) {
        eng_open(&(struct eng_opt){0});
        sk_mem_fail_at(n);
        careful_work();
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        eng_settle_fast();
        CHECK_EQ(eng_take(JOB(.fn = "mix", .a = {VAL(1), VAL(1)}, .n_a = 2)), 32); /* and goes on */
        eng_close_now();
        CHECK_EQ(sk_mem_blocks(SK_TAG_N), 0);
        if (!hit) break;
    }
}

TEST(crash_refused_system_calls) {
    static const char *const points[] = {"seg.memfd", "seg.truncate",  "seg.mode",
                                         "seg.mmap",  "forksrv.start", "pool.thread"};
    eng_open(&(struct eng_opt){0}); /* TSan has a thread of its own from the first one on */
    eng_close_now();
    int fds = n_fds(), threads = n_threads();
    for (size_t p = 0; p < SK_COUNT(points); p++)
        for (int n = 1;; n++) {
            struct sk_err err;
            CHECK_OK(sk_fault_set(points[p], SK_FAULT_FAIL, n));
            sk_rc rc = eng_try_open(&(struct eng_opt){0}, &eng, &err);
            bool hit = sk_fault_fired();
            sk_fault_clear();
            CHECK_EQ(rc != SK_OK, hit);
            if (rc == SK_OK) eng_close_now();
            else CHECK(err.msg[0]);
            CHECK_EQ(sk_mem_blocks(SK_TAG_N), 0);
            CHECK_EQ(n_fds(), fds);
            CHECK_EQ(n_threads(), threads);
            CHECK(all_gone());
            if (!hit) break;
        }
    /* the fork server cannot be started again: tasks fail, and later ones work */
    char text[1500];
    eng_open(&(struct eng_opt){0});
    CHECK_OK(sk_fault_set("forksrv.start", SK_FAULT_FAIL, 0));
    kill(sk_container_of(eng, struct sk_local, base)->forksrv.pid, SIGKILL);
    CHECK_EQ(eng_error(JOB(.fn = "make", .a = {VAL(4)}, .n_a = 1, .retries = 5), text, sizeof text),
             SK_EDEAD);
    CHECK_STR_HAS(text, "fault injected");
    sk_fault_clear();
    CHECK_EQ(eng_take(JOB(.fn = "make", .a = {VAL(4)}, .n_a = 1)), 4);
    /* the socket has no room: commands wait */
    CHECK_OK(sk_fault_set("forksrv.post", SK_FAULT_FAIL, 1));
    (void)work_actors();
    sk_fault_clear();
    eng_settle_fast();
    eng_close_now();
}

/* test_engine_concurrent.c - actors that run calls side by side: groups of threads, an event loop;
 * their deaths, cancels, ends. Also what ends a
 * worker in order: max_calls, a call that ends its actor. Names of actors, in the driver and in
 * workers. */
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/books/names.h"
#include "ipc/ipc.h"
#include "engine_help.h"

#define OPEN(...) eng_open(&(struct eng_opt){__VA_ARGS__})
#define JOB(...) eng_job(&(struct job){__VA_ARGS__})

/* ---- task functions -------------------------------------------------------------------------- */

TASK(cc_new) {
    gate_add(20, 1);
    return ret_i64(t, 0, t->n_args ? arg_i64(t, 0) : 0, err);
}
TASK(cc_new_fails) {
    struct sk_payload p = {.kind = KIND_USER_ERROR, .bytes = {"no actor today", 14}};
    return sk_task_fail(t, &p, err);
}
/* A constructor: sets word 9 when it runs; calls must not begin before it has ended. */
TASK(cc_new_slow) {
    gate_add(9, 1);
    if (!gate_wait(2, 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    gate_add(20, 1);
    return ret_i64(t, 0, 0, err);
}
TASK(cc_new_twice) {
    if (gate_add(8, 1) > 1 && !gate_wait(2, 1))
        return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    return ret_i64(t, 0, 0, err);
}
TASK(cc_began) { return ret_i64(t, 0, atomic_load(&gate->w[20]), err); }
/* Sets word arg 0, then waits for word arg 1. */
TASK(cc_wait) {
    uint32_t n = gate_add((int)arg_i64(t, 0), 1);
    gate_max((int)arg_i64(t, 0) + 30, n);
    if (!gate_wait((int)arg_i64(t, 1), 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    atomic_fetch_sub(&gate->w[arg_i64(t, 0)], 1);
    return ret_i64(t, 0, t->attempt, err);
}
TASK(cc_echo) { return ret_i64(t, 0, arg_i64(t, 0), err); }
TASK(cc_pid) { return ret_i64(t, 0, getpid(), err); }
static void seen(struct sk_watch *w) { (void)w; }
/* From this task on a thread of this process reads its ring. */
TASK(cc_watch) {
    static struct sk_watch w = {.fn = seen};
    int64_t v = 7;
    sk_oid o;
    SK_TRY(t->engine->ops->put(
        t->engine, &(struct sk_payload){.kind = KIND_I64, .bytes = {(const char *)&v, sizeof v}},
        &o, err));
    sk_rc rc = t->engine->watch->add(t->engine, o, (sk_tid){0}, &w, err);
    if (rc == SK_OK) t->engine->watch->remove(t->engine, &w);
    t->engine->ops->release(t->engine, o);
    return rc == SK_OK || rc == SK_EDONE ? ret_i64(t, 0, getpid(), err) : rc;
}
TASK(cc_die_once) {
    gate_add(6, 1);
    if (t->attempt == 0) {
        if (!gate_wait(7, (uint32_t)arg_i64(t, 0)))
            return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
        raise(SIGKILL);
    }
    return ret_i64(t, 0, t->attempt, err);
}
TASK(cc_nested) {
    /* a call that waits for a task of its own, while others of the actor do the same */
    sk_oid o;
    int64_t v;
    SK_TRY(job_on(
        t->engine,
        &(struct job){.fn = "cc_echo", .a = {VAL(arg_i64(t, 0))}, .n_a = 1, .opts.parent = t->id},
        &o, NULL, err));
    SK_TRY(get_i64(t->engine, o, &v, err));
    t->engine->ops->release(t->engine, o);
    return ret_i64(t, 0, v, err);
}
TASK(cc_yields) {
    for (int64_t i = 0; i < arg_i64(t, 0); i++) SK_TRY(yield_i64(t, i, err));
    return SK_OK;
}
TASK(cc_exit) {
    struct sk_payload p = {.kind = KIND_USER_ERROR, .bytes = {"leaving", 7}};
    sk_task_end_flags(t, SK_END_EXIT_ACTOR);
    return sk_task_fail(t, &p, err);
}
/* Fails until attempt arg 0; from attempt arg 1 on the failure is final. */
TASK(cc_flaky) {
    if (t->attempt >= (uint32_t)arg_i64(t, 0)) return ret_i64(t, 0, t->attempt, err);
    if (t->attempt >= (uint32_t)arg_i64(t, 1)) sk_task_end_flags(t, SK_END_FINAL);
    struct sk_payload p = {.kind = KIND_USER_ERROR, .bytes = {"again", 5}};
    return sk_task_fail(t, &p, err);
}
/* Finds the actor with the name arg 0 from a worker, and calls it. */
TASK(cc_find) {
    char name[40];
    sk_aid a;
    sk_oid ready, o;
    struct sk_bytes meta;
    int64_t v;
    snprintf(name, sizeof name, "n%d", (int)arg_i64(t, 0));
    const struct sk_engine_ops *ops = t->engine->ops;
    SK_TRY(t->engine->actors->find(t->engine, "space", name, &a, &ready, &meta, err));
    v = (int64_t)meta.n;
    sk_free((void *)(uintptr_t)meta.p);
    int64_t back = 0;
    SK_TRY(job_on(t->engine, &(struct job){.fn = "cc_echo", .a = {VAL(40)}, .n_a = 1, .actor = a},
                  &o, NULL, err));
    SK_TRY(get_i64(t->engine, o, &back, err));
    ops->release(t->engine, o);
    ops->release(t->engine, ready);
    sk_actor_release(t->engine, a);
    return ret_i64(t, 0, back + v, err);
}
/* Makes a named actor. Returns 1: made and found; -1: the name was taken. */
TASK(cc_make_named) {
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = "cc_new"}),
                              .opts = &(struct sk_actor_opts){
                                  .name = "n1", .space = "space", .detached = arg_i64(t, 0) != 0}};
    sk_aid a;
    sk_oid ready;
    sk_rc rc = t->engine->ops->actor_create(t->engine, &s, &a, &ready, err);
    if (rc == SK_EEXIST) return ret_i64(t, 0, -1, err);
    if (rc != SK_OK) return rc;
    t->engine->ops->release(t->engine, ready);
    sk_actor_release(t->engine, a);
    return ret_i64(t, 0, 1, err);
}
/* Submits a child, which sets word 1, and waits for it. */
TASK(cc_parent) {
    sk_oid o;
    int64_t v;
    SK_TRY(job_on(t->engine,
                  &(struct job){.fn = "cc_forever", .a = {VAL(1)}, .n_a = 1, .opts.parent = t->id},
                  &o, NULL, err));
    if (arg_i64(t, 0)) {
        gate_add(3, 1);
        if (!gate_wait(4, 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    }
    sk_rc rc = get_i64(t->engine, o, &v, err);
    t->engine->ops->release(t->engine, o);
    return rc == SK_OK ? ret_i64(t, 0, v, err) : rc;
}
/* Runs until it is cancelled. */
TASK(cc_forever) {
    gate_add((int)arg_i64(t, 0), 1);
    for (int64_t until = sk_now_ns() + 20 * SK_SEC; sk_now_ns() < until;) {
        if (sk_task_cancelled(t)) {
            gate_add(5, 1);
            return SK_ERR(err, SK_ECANCEL, "stopped");
        }
        /* polls, since no event reports a cancel of such a task */
        SK_IGNORE(sk_futex_wait(&gate->w[999], 0, sk_now_ns() + SK_MS));
    }
    return SK_ERR(err, SK_ETIMEOUT, "nobody cancelled it");
}

/* a stream of their process that two calls read */
static sk_tid shared_stream;
TASK(cc_open_stream) {
    sk_oid none;
    struct job j = {
        .fn = "cc_gated_yields", .a = {VAL(arg_i64(t, 0))}, .n_a = 1, .n_returns = SK_STREAMING};
    SK_TRY(job_on(t->engine, &j, &none, &shared_stream, err));
    return ret_i64(t, 0, 0, err);
}
/* Makes the next yield when word 3 allows it. */
TASK(cc_gated_yields) {
    for (int64_t i = 0; i < arg_i64(t, 0); i++) {
        if (!gate_wait(3, (uint32_t)i + 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
        SK_TRY(yield_i64(t, i + 1, err));
    }
    return SK_OK;
}
/* Reads a stream to its end and returns the sum; word 4 counts. */
TASK(cc_read_stream) {
    int64_t sum = 0, v;
    for (;;) {
        sk_oid o;
        sk_rc rc = t->engine->streams->next(t->engine, shared_stream, INT64_MAX, &o, err);
        if (rc == SK_EDONE) break;
        if (rc != SK_OK) return rc;
        rc = get_i64(t->engine, o, &v, err);
        t->engine->ops->release(t->engine, o);
        if (rc != SK_OK) return rc;
        sum += v;
        gate_add(4, 1);
    }
    return ret_i64(t, 0, sum, err);
}

TASK(cc_hangs_at_end) {
    task_hangs_at_end = true;
    return ret_i64(t, 0, getpid(), err);
}

/* Parked calls of async actors, which other calls end, also calls of other groups, on their own
 * threads. */
static pthread_mutex_t parked_mu = PTHREAD_MUTEX_INITIALIZER;
static struct sk_task *parked[2000];
static uint32_t n_parked;
static void unpark(struct sk_task *t) {
    pthread_mutex_lock(&parked_mu);
    for (uint32_t i = 0; i < n_parked; i++)
        if (parked[i] == t) parked[i--] = parked[--n_parked];
    pthread_mutex_unlock(&parked_mu);
}
TASK(as_new) {
    task_ended_by_cancel = unpark;
    if (!t->is_async) return SK_ERR(err, SK_EINVAL, "not async");
    return ret_i64(t, 0, 1, err);
}
TASK(as_park) {
    pthread_mutex_lock(&parked_mu);
    parked[n_parked++] = t;
    gate_max(10, n_parked);
    pthread_mutex_unlock(&parked_mu);
    gate_add(11, 1);
    return SK_EAGAIN;
}
TASK(as_count) {
    pthread_mutex_lock(&parked_mu);
    int64_t n = n_parked;
    pthread_mutex_unlock(&parked_mu);
    return ret_i64(t, 0, n, err);
}
/* Ends the calls that are parked now, not those that begin meanwhile. */
TASK(as_free) {
    static struct sk_task *now[2000];
    pthread_mutex_lock(&parked_mu);
    uint32_t n = n_parked;
    memcpy(now, parked, n * sizeof(struct sk_task *));
    n_parked = 0;
    pthread_mutex_unlock(&parked_mu);
    for (uint32_t i = 0; i < n; i++) {
        struct sk_err e = {0};
        sk_rc rc = ret_i64(now[i], 0, i + 1, &e);
        sk_task_end(now[i], rc, &e);
    }
    return ret_i64(t, 0, n, err);
}

/* Blocks the whole event loop of its group until word arg 0 is set. */
TASK(as_block) {
    gate_add(40, 1);
    if (!gate_wait((int)arg_i64(t, 0), 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    return ret_i64(t, 0, (int64_t)syscall(SYS_gettid), err);
}
TASK(as_thread) { return ret_i64(t, 0, (int64_t)syscall(SYS_gettid), err); }

/* ---- help ------------------------------------------------------------------------------------ */

struct actor {
    sk_aid id;
    sk_oid ready;
};
struct wanted { /* of an actor */
    struct sk_actor_opts o;
    int32_t restarts, task_retries;
};
static struct actor make(struct wanted x, const char *init) {
    struct actor a;
    struct sk_err err;
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = init}),
                              .max_restarts = x.restarts,
                              .max_task_retries = x.task_retries,
                              .opts = &x.o};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &s, &a.id, &a.ready, &err), &err);
    return a;
}
#define ACTOR(fn, ...) make((struct wanted){__VA_ARGS__}, fn)
#define GROUPS(...) \
    .o.groups = (uint32_t[]){__VA_ARGS__}, .o.n_groups = sizeof((uint32_t[]){__VA_ARGS__}) / 4
static void drop(struct actor a) {
    sk_actor_release(eng, a.id);
    eng_release(a.ready);
}
static int stat_of(sk_oid o) {
    char text[300];
    return eng_error(o, text, sizeof text);
}

/* ---- threads --------------------------------------------------------------------------------- */

TEST(concurrent_readers_of_one_stream) {
    /* a bug: both readers were woken for one yield, and the one without a value was never woken
     * again */
    enum { N = 40 };
    OPEN(.cpus = 3);
    struct actor a = ACTOR("cc_new", GROUPS(3));
    CHECK_EQ(eng_take(JOB(.fn = "cc_open_stream", .a = {VAL(N)}, .n_a = 1, .actor = a.id)), 0);
    sk_oid o[3];
    for (int i = 0; i < 3; i++) o[i] = JOB(.fn = "cc_read_stream", .actor = a.id);
    for (uint32_t i = 1; i <= N; i++) {
        gate_add(3, 1);
        CHECK(gate_wait(4, i));
    }
    CHECK_EQ(eng_take(o[0]) + eng_take(o[1]) + eng_take(o[2]), N * (N + 1) / 2);
    drop(a);
    eng_close();
}

TEST(concurrent_groups_have_their_limits) {
    sk_oid o[12];
    OPEN();
    struct actor a = ACTOR("cc_new", GROUPS(3, 2));
    for (int i = 0; i < 12; i++)
        o[i] = JOB(.fn = "cc_wait", .a = {VAL(i % 2 ? 1 : 0), VAL(2)}, .n_a = 2, .actor = a.id,
                   .opts.group = (uint32_t)i % 2);
    CHECK(gate_wait(0, 3) && gate_wait(1, 2));
    gate_add(2, 1);
    for (int i = 0; i < 12; i++) CHECK_EQ(eng_take(o[i]), 0);
    CHECK_EQ(gate->w[30], 3); /* the most calls that ran at once */
    CHECK_EQ(gate->w[31], 2);
    drop(a);
    eng_close();
}

TEST(concurrent_calls_begin_after_the_constructor) {
    sk_oid o[8];
    OPEN();
    struct actor a = ACTOR("cc_new_slow", GROUPS(4));
    for (int i = 0; i < 8; i++) o[i] = JOB(.fn = "cc_began", .actor = a.id);
    CHECK(gate_wait(9, 1));
    /* calls that could be sent meanwhile were sent */
    for (int i = 0; i < 3; i++)
        CHECK_EQ(eng_take(JOB(.fn = "cc_echo", .a = {VAL(i)}, .n_a = 1)), i);
    gate_add(2, 1);
    for (int i = 0; i < 8; i++) CHECK_EQ(eng_take(o[i]), 1);
    drop(a);
    eng_close();
}

TEST(concurrent_actors_where_a_task_has_watched) {
    /* its process has a reader thread already: the calls behind the constructor find their
     * groups */
    sk_oid o[3];
    OPEN(.cpus = 1);
    int64_t pid = eng_take(JOB(.fn = "cc_watch"));
    struct actor a = ACTOR("cc_new_slow", GROUPS(3));
    for (int i = 0; i < 3; i++)
        o[i] = JOB(.fn = "cc_wait", .actor = a.id, .a = {VAL(3), VAL(4)}, .n_a = 2);
    CHECK(gate_wait(9, 1));
    gate_add(2, 1);
    CHECK(gate_wait(3, 3)); /* all at once */
    gate_add(4, 1);
    for (int i = 0; i < 3; i++) CHECK_EQ(eng_take(o[i]), 0);
    CHECK_EQ(eng_take(JOB(.fn = "cc_pid", .actor = a.id)), pid);
    drop(a);
    eng_close();
}

TEST(concurrent_call_passes_one_that_waits_for_its_argument) {
    OPEN();
    struct actor a = ACTOR("cc_new", GROUPS(2));
    sk_oid late = JOB(.fn = "cc_wait", .a = {VAL(1), VAL(2)}, .n_a = 2);
    sk_oid x = JOB(.fn = "cc_echo", .a = {REF(late)}, .n_a = 1, .actor = a.id),
           y = JOB(.fn = "cc_echo", .a = {VAL(5)}, .n_a = 1, .actor = a.id);
    CHECK_EQ(eng_take(y), 5);
    gate_add(2, 1);
    CHECK_EQ(eng_take(x), 0);
    eng_release(late);
    drop(a);
    eng_close();
}

TEST(concurrent_constructor_fails) {
    OPEN();
    struct actor a = ACTOR("cc_new_fails", GROUPS(4));
    sk_oid o[4];
    char text[200];
    for (int i = 0; i < 4; i++) o[i] = JOB(.fn = "cc_pid", .actor = a.id);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(eng_error(o[i], text, sizeof text), 0);
        CHECK_STR_EQ(text, "no actor today");
    }
    drop(a);
    eng_close();
}

TEST(concurrent_nested_gets) {
    enum { N = 400 };
    static sk_oid o[N];
    OPEN(.cpus = 2);
    struct actor a = ACTOR("cc_new", GROUPS(8));
    for (int i = 0; i < N; i++)
        o[i] = JOB(.fn = "cc_nested", .a = {VAL(i)}, .n_a = 1, .actor = a.id);
    for (int i = 0; i < N; i++) CHECK_EQ(eng_take(o[i]), i);
    eng_check();
    drop(a);
    eng_close();
}

TEST(concurrent_streams) {
    OPEN();
    struct actor a = ACTOR("cc_new", GROUPS(3));
    sk_tid t[3];
    struct sk_err err;
    for (int i = 0; i < 3; i++)
        CHECK_OK_ERR(job_on(eng,
                            &(struct job){.fn = "cc_yields",
                                          .a = {VAL(50)},
                                          .n_a = 1,
                                          .actor = a.id,
                                          .n_returns = SK_STREAMING,
                                          .opts.stream_window = 2},
                            NULL, &t[i], &err),
                     &err);
    for (int k = 0; k < 50; k++)
        for (int i = 2; i >= 0; i--) { /* each has its own credit */
            sk_oid o = {0};
            CHECK_OK_ERR(eng->streams->next(eng, t[i], INT64_MAX, &o, &err), &err);
            CHECK_EQ(eng_take(o), k);
        }
    for (int i = 0; i < 3; i++) {
        sk_oid o;
        CHECK_RC(eng->streams->next(eng, t[i], INT64_MAX, &o, &err), SK_EDONE);
        eng->streams->drop(eng, t[i]);
    }
    drop(a);
    eng_close();
}

TEST(concurrent_actor_dies_with_calls_under_way) {
    sk_oid o[6];
    OPEN();
    struct actor a = ACTOR("cc_new", GROUPS(4), .restarts = 3, .task_retries = 2);
    sk_oid d = JOB(.fn = "cc_die_once", .a = {VAL(1)}, .n_a = 1, .actor = a.id);
    for (int i = 0; i < 6; i++)
        o[i] = JOB(.fn = "cc_wait", .a = {VAL(0), VAL(2)}, .n_a = 2, .actor = a.id);
    CHECK(gate_wait(6, 1) && gate_wait(0, 3));
    gate_add(2, 1);
    gate_add(7, 1);
    CHECK_EQ(eng_take(d), 1);
    for (int i = 0; i < 6; i++) CHECK(eng_take(o[i]) <= 1);
    CHECK_EQ(gate->w[20], 2); /* constructed twice */
    drop(a);
    eng_close();
}

TEST_SLOW(concurrent_killed_at_each_point, 60) {
    static const char *const points[] = {"worker.before_run", "worker.after_run",
                                         "worker.after_done", "worker.before_publish"};
    for (size_t k = 0; k < SK_COUNT(points) * 2; k++) {
        char fault[60];
        sk_oid o[60];
        bool is_async = k % 2;
        snprintf(fault, sizeof fault, "%s:kill:%d", points[k / 2], 5 + (int)k);
        OPEN(.fault = fault, .fault_workers = 2);
        struct actor a = is_async ? ACTOR("as_new", GROUPS(4), .o.is_async = true, .restarts = -1,
                                          .task_retries = -1)
                                  : ACTOR("cc_new", GROUPS(4), .restarts = -1, .task_retries = -1);
        for (int i = 0; i < 60; i++)
            o[i] = JOB(.fn = "cc_echo", .a = {VAL(i)}, .n_a = 1, .actor = a.id);
        for (int i = 0; i < 60; i++) CHECK_EQ(eng_take(o[i]), i);
        CHECK_GE(eng_stat(eng, "worker_deaths"), 1);
        eng_check();
        drop(a);
        eng_close();
    }
}

/* ---- the event loop -------------------------------------------------------------------------- */

TEST(async_many_parked) {
    enum { N = 900 };
    static sk_oid o[N];
    int64_t sum = 0;
    OPEN();
    struct actor a = ACTOR("as_new", GROUPS(N + 1), .o.is_async = true);
    for (int i = 0; i < N; i++) o[i] = JOB(.fn = "as_park", .actor = a.id);
    CHECK(gate_wait(11, N));
    CHECK_EQ(eng_take(JOB(.fn = "as_count", .actor = a.id)), N);
    CHECK_EQ(eng_take(JOB(.fn = "as_free", .actor = a.id)), N);
    for (int i = 0; i < N; i++) sum += eng_take(o[i]);
    CHECK_EQ(sum, N * (N + 1) / 2);
    CHECK_EQ(eng_i64(a.ready), 1);
    drop(a);
    eng_close();
}

TEST(async_limit_and_groups) {
    sk_oid o[6];
    OPEN();
    struct actor a = ACTOR("as_new", GROUPS(1, 2), .o.is_async = true);
    for (int i = 0; i < 6; i++) o[i] = JOB(.fn = "as_park", .actor = a.id, .opts.group = 1);
    CHECK(gate_wait(11, 2));
    CHECK_EQ(eng_take(JOB(.fn = "as_count", .actor = a.id)), 2);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(eng_take(JOB(.fn = "as_free", .actor = a.id)), 2);
        CHECK(gate_wait(11, (uint32_t)SK_MIN(6, 2 * i + 4)));
    }
    for (int i = 0; i < 6; i++) CHECK(eng_take(o[i]) <= 2);
    CHECK_EQ(gate->w[10], 2);
    drop(a);
    eng_close();
}

TEST(async_cancel) {
    OPEN();
    struct actor a = ACTOR("as_new", GROUPS(2), .o.is_async = true);
    sk_tid t, u;
    sk_oid o = eng_job_tid(&(struct job){.fn = "as_park", .actor = a.id}, &t);
    CHECK(gate_wait(11, 1));
    sk_oid p = eng_job_tid(&(struct job){.fn = "as_park", .actor = a.id}, &u);
    CHECK(gate_wait(11, 2));
    /* begins when o has ended */
    sk_oid q = eng_job_tid(&(struct job){.fn = "as_park", .actor = a.id}, NULL);
    CHECK_OK(eng->ops->cancel(eng, t, 0, NULL));
    CHECK_EQ(stat_of(o), SK_ECANCEL);
    CHECK(gate_wait(11, 3));
    CHECK_OK(eng->ops->cancel(eng, u, 0, NULL));
    CHECK_EQ(stat_of(p), SK_ECANCEL);
    CHECK_EQ(eng_take(JOB(.fn = "as_free", .actor = a.id)), 1);
    CHECK_EQ(eng_take(q), 1);
    drop(a);
    eng_close();
}

TEST(async_groups_have_loops_of_their_own) {
    OPEN();
    struct actor a = ACTOR("as_new", GROUPS(10, 2, 2), .o.is_async = true);
    sk_oid b1 = JOB(.fn = "as_block", .a = {VAL(2)}, .n_a = 1, .actor = a.id, .opts.group = 1);
    sk_oid behind = JOB(.fn = "as_thread", .actor = a.id, .opts.group = 1);
    CHECK(gate_wait(40, 1));
    /* while group 1 is blocked */
    int64_t main_thread = eng_take(JOB(.fn = "as_thread", .actor = a.id));
    int64_t second = eng_take(JOB(.fn = "as_thread", .actor = a.id, .opts.group = 2));
    CHECK(main_thread != second);
    CHECK_EQ(eng_take(JOB(.fn = "as_thread", .actor = a.id, .opts.group = 2)), second);
    sk_oid b0 = JOB(.fn = "as_block", .a = {VAL(3)}, .n_a = 1, .actor = a.id);
    CHECK(gate_wait(40, 2));
    /* nor does the first one */
    CHECK_EQ(eng_take(JOB(.fn = "as_thread", .actor = a.id, .opts.group = 2)), second);
    gate_add(2, 1);
    CHECK_EQ(eng_take(behind), eng_take(b1));
    gate_add(3, 1);
    CHECK_EQ(eng_take(b0), main_thread);
    sk_oid p;
    sk_tid t;
    struct sk_err err;
    CHECK_OK_ERR(
        job_on(eng, &(struct job){.fn = "as_park", .actor = a.id, .opts.group = 2}, &p, &t, &err),
        &err);
    CHECK(gate_wait(11, 1));
    CHECK_OK(eng->ops->cancel(eng, t, 0, NULL)); /* the cancel reaches the call's own loop */
    CHECK_EQ(stat_of(p), SK_ECANCEL);
    drop(a);
    eng_close();
}

/* ---- ends in order --------------------------------------------------------------------------- */

TEST(exit_actor_is_no_death) {
    OPEN();
    struct actor a = ACTOR("cc_new", .restarts = -1, .task_retries = -1);
    sk_oid e = JOB(.fn = "cc_exit", .actor = a.id), late[3];
    for (int i = 0; i < 3; i++) late[i] = JOB(.fn = "cc_pid", .actor = a.id);
    CHECK_EQ(stat_of(e), SK_EACTOR);
    for (int i = 0; i < 3; i++) CHECK_EQ(stat_of(late[i]), SK_EACTOR);
    CHECK_EQ(stat_of(JOB(.fn = "cc_pid", .actor = a.id)), SK_EACTOR);
    eng_wait_stat("workers", 0);
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    drop(a);
    eng_close();
}

TEST_LARGE(who_leaves_and_does_not_end_makes_room, 120) {
    /* a bug: an exit handler that hung (5 s) kept the worker's place for ever */
    OPEN(.cpus = 1, .max_workers = 1);
    int64_t pid = eng_take(JOB(.fn = "cc_hangs_at_end", .opts.max_calls = 1));
    CHECK_NE(eng_take(JOB(.fn = "cc_pid")), pid);
    eng_close();
}

TEST(max_calls_ends_the_process) {
    int64_t pid[9];
    sk_oid o[40];
    OPEN(.cpus = 1);
    for (int i = 0; i < 9; i++) pid[i] = eng_take(JOB(.fn = "cc_pid", .opts.max_calls = 3));
    for (int i = 0; i < 9; i++) CHECK((pid[i] == pid[0]) == (i < 3) && (i < 6 || pid[i] != pid[3]));
    /* many tasks are queued on one worker: all but one go to others */
    for (int i = 0; i < 40; i++) o[i] = JOB(.fn = "cc_pid", .opts.max_calls = 1);
    for (int i = 0; i < 40; i++) {
        pid[i % 2] = eng_take(o[i]);
        CHECK(i == 0 || pid[0] != pid[1]);
    }
    CHECK_EQ(eng_stat(eng, "worker_deaths"), 0);
    eng_close();
}

TEST(retries_of_calls_that_raise) {
    OPEN();
    struct actor a = ACTOR("cc_new", .task_retries = 0);
    CHECK_EQ(eng_take(JOB(.fn = "cc_flaky", .a = {VAL(3), VAL(9)}, .n_a = 2, .actor = a.id,
                          .retries = 3, .retry_exceptions = true)),
             3);
    CHECK_EQ(stat_of(JOB(.fn = "cc_flaky", .a = {VAL(3), VAL(9)}, .n_a = 2, .actor = a.id,
                         .retries = 2, .retry_exceptions = true)),
             0);
    CHECK_EQ(stat_of(JOB(.fn = "cc_flaky", .a = {VAL(3), VAL(1)}, .n_a = 2, .actor = a.id,
                         .retries = 3, .retry_exceptions = true)),
             0);
    CHECK_EQ(stat_of(JOB(.fn = "cc_flaky", .a = {VAL(3), VAL(1)}, .n_a = 2, .retries = 3,
                         .retry_exceptions = true)),
             0);
    sk_oid x = JOB(.fn = "cc_flaky", .a = {VAL(2), VAL(9)}, .n_a = 2, .actor = a.id, .retries = 3,
                   .retry_exceptions = true);
    sk_oid y = JOB(.fn = "cc_echo", .a = {VAL(7)}, .n_a = 1, .actor = a.id);
    CHECK_EQ(eng_take(y), 7);
    CHECK_EQ(eng_take(x), 2);
    drop(a);
    eng_close();
}

TEST(unavailable_while_it_restarts) {
    OPEN();
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = "cc_new_twice"}),
                              .max_restarts = 1};
    struct actor a;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a.id, &a.ready, NULL));
    CHECK_EQ(eng_i64(a.ready), 0);
    gate_add(7, 1);
    CHECK_EQ(stat_of(JOB(.fn = "cc_die_once", .a = {VAL(1)}, .n_a = 1, .actor = a.id,
                         .opts.no_wait = true)),
             SK_EUNAVAIL);
    /* the error is immediate: the constructor still waits for the gate */
    CHECK_EQ(stat_of(JOB(.fn = "cc_pid", .actor = a.id, .opts.no_wait = true)), SK_EUNAVAIL);
    sk_oid waits = JOB(.fn = "cc_pid", .actor = a.id),
           retried = JOB(.fn = "cc_pid", .actor = a.id, .opts.no_wait = true, .retries = 1);
    gate_add(2, 1);
    CHECK(eng_take(waits) > 0 && eng_take(retried) > 0);
    CHECK(eng_take(JOB(.fn = "cc_pid", .actor = a.id, .opts.no_wait = true)) > 0);
    drop(a);
    eng_close();
}

/* ---- cancel with children -------------------------------------------------------------------- */

TEST(calls_without_retries_end_with_their_process) {
    sk_oid o[12], behind[3];
    OPEN();
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = "cc_new_twice"}),
                              .max_restarts = 1};
    struct actor a;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a.id, &a.ready, NULL));
    CHECK_EQ(eng_i64(a.ready), 0);
    sk_oid dies =
        JOB(.fn = "cc_die_once", .a = {VAL(1)}, .n_a = 1, .actor = a.id, .opts.no_wait = true);
    CHECK(gate_wait(6, 1));
    /* on it, or in line */
    for (int i = 0; i < 12; i++) o[i] = JOB(.fn = "cc_pid", .actor = a.id, .opts.no_wait = true);
    sk_oid patient = JOB(.fn = "cc_pid", .actor = a.id),
           retried = JOB(.fn = "cc_pid", .actor = a.id, .opts.no_wait = true, .retries = 1);
    /* an argument that does not exist yet */
    sk_oid slow = JOB(.fn = "cc_wait", .a = {VAL(9), VAL(10)}, .n_a = 2);
    behind[0] =
        JOB(.fn = "cc_echo", .a = {REF(slow)}, .n_a = 1, .actor = a.id, .opts.no_wait = true);
    behind[1] = JOB(.fn = "cc_pid", .actor = a.id, .opts.no_wait = true);
    gate_add(7, 1);
    CHECK_EQ(stat_of(dies), SK_EUNAVAIL);
    /* the error is immediate: the new process is not ready yet */
    for (int i = 0; i < 12; i++) CHECK_EQ(stat_of(o[i]), SK_EUNAVAIL);
    gate_add(2, 1);
    CHECK(eng_take(patient) > 0 && eng_take(retried) > 0);
    gate_add(10, 1);
    CHECK_EQ(eng_take(behind[0]), 0);
    CHECK(eng_take(behind[1]) > 0);
    eng_release(slow);
    drop(a);
    eng_close();
}

TEST(cancel_children) {
    for (int with = 0; with < 2; with++) {
        sk_tid t;
        OPEN(.cpus = 3);
        sk_oid p = eng_job_tid(&(struct job){.fn = "cc_parent", .a = {VAL(1)}, .n_a = 1}, &t);
        CHECK(gate_wait(1, 1) && gate_wait(3, 1)); /* the child runs, the parent is busy */
        CHECK_OK(eng->ops->cancel(eng, t, with ? SK_CANCEL_CHILDREN : 0, NULL));
        if (with) CHECK(gate_wait(5, 1));
        gate_add(4, 1);
        if (!with) {
            CHECK_EQ(gate->w[5], 0);
            eng_release(p);
            eng_close_now();
            continue;
        }
        CHECK_EQ(stat_of(p), SK_ECANCEL);
        eng_close();
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(names_of_actors) {
    struct sk_bytes meta;
    sk_aid id;
    sk_oid ready;
    char buf[100];
    OPEN(.cpus = 5);
    struct actor a = ACTOR("cc_new", .o.name = "n7", .o.space = "space", .o.meta = {"ab", 2});
    struct actor b = ACTOR("cc_new", .o.name = "n7"); /* another space */
    struct sk_err err;
    struct sk_actor_spec again = {.init = spec_of(&(struct job){.fn = "cc_new"}),
                                  .opts = &(struct sk_actor_opts){.name = "n7", .space = "space"}};
    CHECK_RC(eng->ops->actor_create(eng, &again, &id, &ready, &err), SK_EEXIST);
    /* the buffer is too small: only the length is returned */
    CHECK_EQ(eng->actors->names(eng, buf, 3), 13);
    CHECK_EQ(eng->actors->names(eng, buf, sizeof buf), 13);
    CHECK_MEM_EQ(buf, "space\0n7\0\0n7\0", 13);
    CHECK_RC(eng->actors->find(eng, "", "n8", &id, &ready, &meta, &err), SK_ENOENT);
    CHECK_OK_ERR(eng->actors->find(eng, "space", "n7", &id, &ready, &meta, &err), &err);
    CHECK(meta.n == 2 && !memcmp(meta.p, "ab", 2) && id.v == a.id.v && ready.v == a.ready.v);
    sk_free((void *)(uintptr_t)meta.p);
    drop(a); /* the found handle keeps the actor alive */
    CHECK_EQ(eng_take(JOB(.fn = "cc_find", .a = {VAL(7)}, .n_a = 1)), 42);
    drop((struct actor){id, ready});
    /* free at once */
    CHECK_RC(eng->actors->find(eng, "space", "n7", &id, &ready, &meta, &err), SK_ENOENT);
    a = ACTOR("cc_new", .o.name = "n7", .o.space = "space");
    CHECK_OK(eng->ops->actor_end(eng, a.id, true, NULL));
    CHECK_RC(eng->actors->find(eng, "space", "n7", &id, &ready, &meta, &err), SK_ENOENT);
    drop(a);
    drop(b);
    eng_close();
}

TEST(names_from_workers_and_detached) {
    struct sk_bytes meta;
    sk_aid id;
    sk_oid ready;
    struct sk_err err;
    OPEN();
    CHECK_EQ(eng_take(JOB(.fn = "cc_make_named", .a = {VAL(0)}, .n_a = 1)), 1);
    eng_wait_stat("objects", 0); /* the actor ends with its only handle */
    CHECK_EQ(eng_take(JOB(.fn = "cc_make_named", .a = {VAL(1)}, .n_a = 1)), 1);
    CHECK_EQ(eng_take(JOB(.fn = "cc_make_named", .a = {VAL(1)}, .n_a = 1)), -1);
    CHECK_EQ(eng_take(JOB(.fn = "cc_find", .a = {VAL(1)}, .n_a = 1)), 40);
    CHECK_OK_ERR(eng->actors->find(eng, "space", "n1", &id, &ready, &meta, &err), &err);
    sk_free((void *)(uintptr_t)meta.p);
    CHECK_EQ(eng_take(JOB(.fn = "cc_echo", .a = {VAL(3)}, .n_a = 1, .actor = id)), 3);
    CHECK_OK(eng->ops->actor_end(eng, id, true, NULL));
    drop((struct actor){id, ready});
    eng_close();
}

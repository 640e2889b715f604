/* test_api_public.c - the public C interface by its contract, used as by a program. The engine
 * below: test_engine_local.c. */
#include <signal.h>
#include <unistd.h>

#include "api_help.h"

/* ---- task functions -------------------------------------------------------------------------- */

SKATE_TASK(add) {
    int64_t sum = 0, x;
    for (size_t i = 0; i < skate_n_args(t); i++) {
        int rc = skate_arg_copy(t, i, &x, sizeof x);
        if (rc) return rc;
        sum += x;
    }
    return skate_return(t, 0, &sum, sizeof sum);
}
SKATE_TASK(spread) {
    for (int64_t i = 0; i < (int64_t)skate_n_returns(t); i++) {
        int rc = skate_return(t, (size_t)i, &i, sizeof i);
        if (rc) return rc;
    }
    return SKATE_OK;
}
/* Takes a size and a byte; returns that many of the byte, made in place in the store. */
SKATE_TASK(fill) {
    int64_t n[2];
    struct skate_buf b;
    if (skate_arg_copy(t, 0, n, sizeof n) || skate_buf_alloc((size_t)n[0] + 1000, &b))
        return SKATE_EINVAL;
    memset(b.data, (int)n[1], (size_t)n[0]);
    return skate_return_buf(t, 0, &b, (size_t)n[0]);
}
SKATE_TASK(checksum) {
    size_t n;
    const unsigned char *p = skate_arg_data(t, 0, &n);
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += p[i];
    return skate_return(t, 0, &sum, sizeof sum);
}
SKATE_TASK(fails) { return skate_fail(t, "no %s today", "luck"); }
SKATE_TASK(fails_by_code) {
    int64_t x;
    /* the code and the message of the call that failed */
    return skate_arg_copy(t, 0, &x, sizeof x);
}
SKATE_TASK(forgets) { return SKATE_OK; }
SKATE_TASK(dies) {
    raise(SIGKILL);
    return SKATE_OK;
}
SKATE_TASK(sleeps_for_ever) {
    for (;;) (void)pause();
    return SKATE_OK;
}
/* Returns 2^n, computed by nested tasks; an object is put, passed on and read back meanwhile. */
SKATE_TASK(nested) {
    int64_t n, x[2] = {0, 0};
    skate_ref r[2], in;
    struct skate_value v;
    if (skate_arg_copy(t, 0, &n, sizeof n)) return SKATE_EINVAL;
    if (n == 0) return skate_return(t, 0, &(int64_t){1}, 8);
    n--;
    int rc = skate_put(&n, sizeof n, &in);
    for (int i = 0; i < 2 && !rc; i++)
        rc = skate_submit("nested", &SKATE_REF(in), 1, 1, NULL, &r[i]);
    skate_release(in);
    for (int i = 0; i < 2 && !rc; i++) {
        if ((rc = skate_get(r[i], -1, &v))) break;
        memcpy(&x[i], v.data, 8);
        skate_value_release(&v);
        skate_release(r[i]);
    }
    x[0] += x[1];
    return rc ? rc : skate_return(t, 0, &x[0], 8);
}

static int64_t count;
SKATE_TASK(counter_new) { return skate_arg_copy(t, 0, &count, sizeof count); }
SKATE_TASK(counter_bad) { return skate_fail(t, "cannot start"); }
SKATE_TASK(counter_add) {
    int64_t x;
    if (skate_arg_copy(t, 0, &x, sizeof x)) return SKATE_EINVAL;
    count += x;
    return skate_n_returns(t) ? skate_return(t, 0, &count, sizeof count) : SKATE_OK;
}
/* Calls an actor whose handle is an argument. */
SKATE_TASK(count_for) {
    skate_actor a;
    int rc = skate_arg_actor(t, 0, &a);
    if (rc) return rc;
    for (int i = 0; i < 10 && !rc; i++)
        rc = skate_actor_call(a, "counter_add", &SKATE_BYTES(&(int64_t){1}, 8), 1, 0, NULL, NULL);
    skate_actor_release(a);
    return rc ? rc : skate_return(t, 0, "", 0);
}

/* Runs after the constructors above and before main, because this program is also the program of
 * its workers. */
__attribute__((constructor)) static void serve(void) {
    int rc = skate_worker_main(0, NULL);
    if (rc) _exit(rc < 0);
}

/* ---- helpers --------------------------------------------------------------------------------- */

static void start(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20,
                             .resources = &(struct skate_resource){"slot", 1}, .n_resources = 1)));
}
/* ---- tests ----------------------------------------------------------------------------------- */

TEST(api_tasks) {
    start();
    skate_ref r, many[100], sum;
    struct skate_arg a[100];
    OK(skate_submit(
        "add", (struct skate_arg[]){SKATE_BYTES(&(int64_t){3}, 8), SKATE_BYTES(&(int64_t){4}, 8)},
        2, 1, NULL, &r));
    CHECK_EQ(number(r), 7);
    OK(skate_submit("spread", NULL, 0, 100, NULL, many));
    for (int i = 0; i < 100; i++) a[i] = SKATE_REF(many[i]);
    OK(skate_submit("add", a, 100, 1, NULL, &sum));
    bool ready[100];
    OK(skate_wait(many, 100, 100, 20000, ready));
    for (int i = 0; i < 100; i++) {
        CHECK(ready[i]);
        skate_release(many[i]);
    }
    CHECK_EQ(number(sum), 4950);
    OK(skate_submit("nested", &SKATE_BYTES(&(int64_t){4}, 8), 1, 1, NULL, &r));
    CHECK_EQ(number(r), 16);
    skate_shutdown();
}

TEST(api_objects) {
    start();
    static unsigned char big[200000];
    memset(big, 1, sizeof big);
    skate_ref r, s;
    struct skate_value v;
    struct skate_buf b;
    OK(skate_put(big, sizeof big, &r));
    OK(skate_get(r, 0, &v));
    CHECK_EQ(v.size, sizeof big);
    CHECK_MEM_EQ(v.data, big, sizeof big);
    CHECK_EQ((uintptr_t)v.data % 64, 0);
    skate_release(r); /* the value keeps the object alive */
    CHECK_MEM_EQ(v.data, big, sizeof big);
    skate_value_release(&v);
    /* a second release has no effect */
    skate_value_release(&v);
    /* too large for a message: it goes through the store */
    OK(skate_submit("checksum", &SKATE_BYTES(big, sizeof big), 1, 1, NULL, &r));
    CHECK_EQ(number(r), sizeof big);
    OK(skate_buf_alloc(1000, &b));
    memset(b.data, 2, 1000);
    CHECK_EQ(skate_buf_seal(&b, 2000, &s), SKATE_EINVAL);
    OK(skate_buf_seal(&b, 500, &s));
    CHECK_EQ(skate_buf_seal(&b, 500, &r), SKATE_EINVAL); /* once */
    OK(skate_submit("checksum", &SKATE_REF(s), 1, 1, NULL, &r));
    skate_release(s);
    CHECK_EQ(number(r), 1000);
    OK(skate_buf_alloc(1000, &b));
    skate_buf_abort(&b);
    skate_buf_abort(&b);
    OK(skate_submit("fill", &SKATE_BYTES(((int64_t[]){1000000, 3}), 16), 1, 1, NULL, &r));
    OK(skate_submit("checksum", &SKATE_REF(r), 1, 1, NULL, &s));
    CHECK_EQ(number(s), 3000000);
    skate_release(r);
    OK(skate_put(NULL, 0, &r));
    OK(skate_get(r, 0, &v));
    CHECK(v.data && v.size == 0);
    skate_value_release(&v);
    skate_release(r);
    CHECK_EQ(skate_get(r, 100, &v), SKATE_ELOST);
    CHECK_EQ(skate_buf_alloc(1 << 30, &b), SKATE_EFULL);
    skate_shutdown();
}

TEST(api_spill) { /* a full store is an error, or objects go to disk */
    static unsigned char big[4 << 20];
    skate_ref r[32];
    struct skate_value v;
    for (int spill = 0; spill < 2; spill++) {
        OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1, .store_bytes = 64 << 20,
                                 .spill_dir = spill ? test_dir() : NULL)));
        int rc = 0, n = 0;
        for (; n < 32 && !rc; n += !rc) {
            memset(big, n, sizeof big);
            rc = skate_put(big, sizeof big, &r[n]);
        }
        CHECK_EQ(rc, spill ? 0 : SKATE_EFULL);
        for (int i = 0; i < n; i++) {
            memset(big, i, sizeof big);
            OK(skate_get(r[i], 20000, &v));
            CHECK_EQ(v.size, sizeof big);
            CHECK_MEM_EQ(v.data, big, sizeof big);
            skate_value_release(&v);
            skate_release(r[i]);
        }
        skate_shutdown();
    }
}

TEST(api_failures) {
    start();
    skate_ref r, s;
    struct skate_value v = {.size = 77};
    OK(skate_submit("fails", NULL, 0, 1, NULL, &r));
    OK(skate_submit("add", &SKATE_REF(r), 1, 1, NULL, &s));
    CHECK_EQ(skate_get(s, 20000, &v), SKATE_ETASK);
    CHECK_STR_EQ(skate_error(), "no luck today");
    CHECK_EQ(v.size, 77); /* untouched */
    skate_release(s);
    CHECK_EQ(failure_of(r), SKATE_ETASK);
    OK(skate_submit("fails_by_code", NULL, 0, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_EINVAL);
    CHECK_STR_EQ(skate_error(), "task fails_by_code failed: argument 0 of 0");
    OK(skate_submit("forgets", NULL, 0, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_EINVAL);
    OK(skate_submit("dies", NULL, 0, 1, SKATE_WITH(struct skate_call_opts, .max_retries = 1), &r));
    CHECK_EQ(failure_of(r), SKATE_EDEAD);
    CHECK_STR_HAS(skate_error(), "attempt 2");
    OK(skate_submit("dies", NULL, 0, 1, SKATE_WITH(struct skate_call_opts, .max_retries = -2), &r));
    CHECK_EQ(failure_of(r), SKATE_EDEAD);
    CHECK_STR_HAS(skate_error(), "attempt 1");
    CHECK_EQ(skate_submit("no_such", NULL, 0, 1, NULL, &r), SKATE_ENOENT);
    CHECK_STR_HAS(skate_error(), "no_such");
    CHECK_EQ(skate_submit("add", NULL, 0, 1 << 20, NULL, &r), SKATE_EINVAL);
    CHECK_EQ(skate_submit("add", NULL, 0, 1, SKATE_WITH(struct skate_call_opts, .cpus = 3), &r),
             SKATE_EINFEASIBLE);
    CHECK_EQ(
        skate_submit("add", NULL, 0, 1,
                     SKATE_WITH(struct skate_call_opts,
                                .resources = &(struct skate_resource){"slot", 2}, .n_resources = 1),
                     &r),
        SKATE_EINFEASIBLE);
    OK(skate_submit("add", NULL, 0, 1,
                    SKATE_WITH(struct skate_call_opts, .cpus = 0.5,
                               .resources = &(struct skate_resource){"slot", 1}, .n_resources = 1),
                    &r));
    CHECK_EQ(number(r), 0);
    OK(skate_submit("sleeps_for_ever", NULL, 0, 1, NULL, &r));
    CHECK_EQ(skate_get(r, 20, &v), SKATE_ETIMEOUT);
    bool ready;
    CHECK_EQ(skate_wait(&r, 1, 1, 20, &ready), SKATE_ETIMEOUT);
    CHECK(!ready);
    skate_shutdown(); /* although it runs */
}

TEST(api_actors) {
    start();
    skate_actor a, b;
    skate_ref r, done[5];
    OK(skate_actor_create("counter_new", &SKATE_BYTES(&(int64_t){100}, 8), 1, NULL, &a));
    for (int i = 0; i < 5; i++)
        OK(skate_submit("count_for", &SKATE_ACTOR(a), 1, 1, NULL, &done[i]));
    for (int i = 0; i < 5; i++) {
        struct skate_value v;
        OK(skate_get(done[i], 20000, &v));
        skate_value_release(&v);
        skate_release(done[i]);
    }
    OK(skate_actor_call(a, "counter_add", &SKATE_BYTES(&(int64_t){0}, 8), 1, 1, NULL, &r));
    CHECK_EQ(number(r), 150); /* this call is behind the calls that the tasks made */
    OK(skate_actor_call(a, "dies", NULL, 0, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_EACTOR);
    skate_actor_release(a);
    OK(skate_actor_create("counter_bad", NULL, 0, NULL, &a));
    OK(skate_actor_call(a, "counter_add", &SKATE_BYTES(&(int64_t){0}, 8), 1, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_ETASK);
    CHECK_STR_EQ(skate_error(), "cannot start");
    skate_actor_release(a);
    OK(skate_actor_create("counter_new", &SKATE_BYTES(&(int64_t){7}, 8), 1,
                          SKATE_WITH(struct skate_call_opts, .max_restarts = 1), &b));
    OK(skate_actor_call(b, "dies", NULL, 0, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_EACTOR);
    OK(skate_actor_call(b, "counter_add", &SKATE_BYTES(&(int64_t){1}, 8), 1, 1, NULL, &r));
    CHECK_EQ(number(r), 8); /* made anew */
    OK(skate_actor_kill(b));
    OK(skate_actor_call(b, "counter_add", &SKATE_BYTES(&(int64_t){1}, 8), 1, 1, NULL, &r));
    CHECK_EQ(failure_of(r), SKATE_EACTOR);
    skate_actor_release(b);
    CHECK_EQ(skate_actor_call((skate_actor){0, 0}, "counter_add", NULL, 0, 0, NULL, NULL),
             SKATE_EINVAL);
    skate_shutdown();
}

TEST(api_life) {
    skate_ref r;
    struct skate_value v;
    CHECK_EQ(skate_put("x", 1, &r), SKATE_ECLOSED);
    CHECK_STR_HAS(skate_error(), "skate_init");
    CHECK_STR_EQ(skate_code_name(SKATE_ECLOSED), "SKATE_ECLOSED");
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .cpus = -1)), SKATE_EINVAL);
    for (int i = 0; i < 3; i++) {
        OK(skate_init(NULL));
        CHECK_EQ(skate_init(NULL), SKATE_EINVAL);
        OK(skate_submit("add", NULL, 0, 1, NULL, &r));
        CHECK_EQ(number(r), 0);
        skate_shutdown();
        skate_shutdown();
        CHECK_EQ(skate_get(r, 0, &v), SKATE_ECLOSED);
    }
    CHECK_EQ(skate_register("add", fails), SKATE_EINVAL);
    CHECK_EQ(skate_register("", add), SKATE_EINVAL);
    OK(skate_register("add", add));
}

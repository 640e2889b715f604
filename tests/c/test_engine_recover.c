/* test_engine_recover.c - lost values in the local engine: which tasks are run again, which waits
 * end with the new value, and the messages if a value cannot be made again. Lineage by itself:
 * test_engine_lineage.c. */
#include <pthread.h>
#include <signal.h>

#include "base/clock.h"
#include "base/fault.h"
#include "engine/local/driver/calls/calls.h"
#include "engine_help.h"

#define OPEN(...) eng_open(&(struct eng_opt){__VA_ARGS__})
#define JOB(...) eng_job(&(struct job){__VA_ARGS__})

enum { BIG = 100000 };

static struct sk_local *L(void) { return sk_container_of(eng, struct sk_local, base); }

static bool checked(void) {
    sk_driver_lock(eng);
    bool ok = sk_local_check(L());
    sk_driver_unlock(eng);
    return ok;
}

static void lose(sk_oid o) {
    sk_driver_lock(eng);
    sk_recover_lost(L(), o.v);
    sk_loop_dispatch(L());
    sk_driver_unlock(eng);
    CHECK(checked());
}

/* Marks the object as lost; the engine has not noticed it yet. */
static void flag(sk_oid o) {
    sk_driver_lock(eng);
    struct sk_obj *x = sk_obj_get(L(), o.v);
    CHECK(x && x->state == SK_O_READY && x->where == SK_V_STORE);
    x->gone = true;
    sk_driver_unlock(eng);
}

static struct sk_view view(sk_oid o) {
    struct sk_err err;
    struct sk_view v;
    CHECK_OK_ERR(eng->ops->get(eng, &o, 1, test_patience(), &v, &err), &err);
    return v;
}

static void is_blob(sk_oid o, size_t n, uint8_t fill) {
    struct sk_view v = view(o);
    if (SK_KIND_IS_ERROR(v.kind))
        test_fail(__FILE__, __LINE__, "object %llu: %s", (unsigned long long)o.v,
                  (const char *)v.data + 4);
    CHECK(view_is(&v, n, fill));
    eng->ops->view_release(eng, &v);
}

static uint32_t word(int i) { return atomic_load(&gate->w[i]); }

static void close_clean(void) {
    eng_settle();
    CHECK_EQ(eng_stat(eng, "lineage_tasks"), 0);
    CHECK_EQ(eng_stat(eng, "lineage_bytes"), 0);
    eng_close_now();
}

/* ---- task functions: each counts its runs in a word, and its highest attempt 100 further on
 * ------------------------------------------------ */

static void count(struct sk_task *t, int64_t w) {
    gate_max((int)w + 100, t->attempt);
    gate_add((int)w, 1);
}

TASK(r_first) { /* word = fill */
    count(t, arg_i64(t, 0));
    return ret_blob(t, 0, BIG, (uint8_t)arg_i64(t, 0), err);
}
/* Like r_first; a second attempt waits for the given word. */
TASK(r_first_slow) {
    if (word((int)arg_i64(t, 0)) && !gate_wait((int)arg_i64(t, 1), 1))
        return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    count(t, arg_i64(t, 0));
    return ret_blob(t, 0, BIG, (uint8_t)arg_i64(t, 0), err);
}
/* Checks its argument, the blob before; word = fill. */
TASK(r_next) {
    int64_t w = arg_i64(t, 1);
    if (!view_is(&t->args[0], BIG, (uint8_t)(w - 1)))
        return SK_ERR(err, SK_ECORRUPT, "argument of %lld", (long long)w);
    count(t, w);
    return ret_blob(t, 0, BIG, (uint8_t)w, err);
}
TASK(r_pair) {
    count(t, arg_i64(t, 0));
    SK_TRY(ret_blob(t, 0, BIG, (uint8_t)arg_i64(t, 0), err));
    return ret_blob(t, 1, BIG, (uint8_t)(arg_i64(t, 0) + 1), err);
}
TASK(r_reads) {
    /* a blob, its fill, word that says that it runs, word to wait for: reads before and after */
    bool before = view_is(&t->args[0], BIG, (uint8_t)arg_i64(t, 1));
    gate_add((int)arg_i64(t, 2), 1);
    if (!gate_wait((int)arg_i64(t, 3), 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    return ret_i64(t, 0, before && view_is(&t->args[0], BIG, (uint8_t)arg_i64(t, 1)), err);
}
TASK(r_wait) {
    gate_add((int)arg_i64(t, 0), 1);
    return gate_wait((int)arg_i64(t, 1), 1) ? ret_i64(t, 0, 1, err)
                                            : SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
}
TASK(r_is) { return ret_i64(t, 0, view_is(&t->args[0], BIG, (uint8_t)arg_i64(t, 1)), err); }
TASK(r_shorter) { /* word; the first time a blob, then half of it */
    count(t, arg_i64(t, 0));
    return ret_blob(t, 0, t->attempt ? BIG / 2 : BIG, 7, err);
}
TASK(r_num) {
    count(t, arg_i64(t, 0));
    return ret_i64(t, 0, arg_i64(t, 0), err);
}
TASK(r_stream) { /* how many, word: counts yields */
    for (int64_t i = 0; i < arg_i64(t, 0); i++) {
        struct sk_buf b;
        int64_t note = i;
        SK_TRY(t->engine->ops->buf_alloc(t->engine, BIG, &b, err));
        memset(b.data, (int)i, BIG);
        struct sk_payload p = {.kind = KIND_BLOB, .buf = &b, .buf_len = BIG, .note = {&note, 8}};
        SK_TRY(sk_task_yield(t, &p, err));
        count(t, arg_i64(t, 1));
    }
    return SK_OK;
}
TASK(r_stream_liar) { /* how many, what is different again: 1 notes, 2 fewer */
    for (int64_t i = 0; i < arg_i64(t, 0); i++) {
        struct sk_buf b;
        int64_t note = t->attempt && arg_i64(t, 1) == 1 ? -i : i;
        if (t->attempt && arg_i64(t, 1) == 2 && i == 3) return SK_OK;
        SK_TRY(t->engine->ops->buf_alloc(t->engine, BIG, &b, err));
        memset(b.data, (int)i, BIG);
        struct sk_payload p = {.kind = KIND_BLOB, .buf = &b, .buf_len = BIG, .note = {&note, 8}};
        SK_TRY(sk_task_yield(t, &p, err));
    }
    return SK_OK;
}
/* Fails when it is run again. arg 0: 1: raises, 2: dies each time, 3: dies once. */
TASK(r_once) {
    int64_t how = arg_i64(t, 0);
    if (t->attempt && how == 1) {
        struct sk_payload p = {.kind = KIND_USER_ERROR, .bytes = {"not again", 9}};
        return sk_task_fail(t, &p, err);
    }
    if ((t->attempt && how == 2) || (t->attempt == 1 && how == 3)) raise(SIGKILL);
    gate_add(0, 1);
    return ret_blob(t, 0, BIG, 77, err);
}
/* Returns a value with a reference to a blob inside. */
TASK(r_outer) {
    count(t, 1);
    struct sk_buf b;
    SK_TRY(t->engine->ops->buf_alloc(t->engine, BIG, &b, err));
    memset(b.data, 5, BIG);
    struct sk_payload p = {.kind = KIND_BLOB, .buf = &b, .buf_len = BIG};
    sk_oid inner;
    SK_TRY(t->engine->ops->put(t->engine, &p, &inner, err));
    struct sk_payload v = {
        .kind = KIND_I64, .bytes = {&inner, 8}, .contains = &inner, .n_contains = 1};
    sk_rc rc = sk_task_return(t, 0, &v, err);
    t->engine->ops->release(t->engine, inner);
    return rc;
}
/* Gets the object inside its argument; returns a blob of the same fill. */
TASK(r_open) {
    sk_oid inner = {(uint64_t)arg_i64(t, 0)};
    t->engine->ops->retain(t->engine, inner);
    struct sk_view v;
    sk_rc rc = t->engine->ops->get(t->engine, &inner, 1, INT64_MAX, &v, err);
    if (rc == SK_OK) {
        bool fine = !SK_KIND_IS_ERROR(v.kind) && v.len == BIG;
        uint8_t fill = fine ? v.data[BIG - 1] : 0;
        t->engine->ops->view_release(t->engine, &v);
        rc = fine ? ret_blob(t, 0, BIG, fill, err) : SK_ERR(err, SK_ELOST, "inner");
    }
    t->engine->ops->release(t->engine, inner);
    return rc;
}
/* Returns a blob with the reference inside that arrived in the argument's bytes. */
TASK(r_wrap) {
    struct sk_buf b;
    sk_oid inner = {(uint64_t)arg_i64(t, 0)};
    count(t, 2);
    SK_TRY(t->engine->ops->buf_alloc(t->engine, BIG, &b, err));
    memset(b.data, 7, BIG);
    struct sk_payload p = {
        .kind = KIND_BLOB, .buf = &b, .buf_len = BIG, .contains = &inner, .n_contains = 1};
    return sk_task_return(t, 0, &p, err);
}
TASK(r_open_late) {
    /* a value, the reference in it, word that says that it runs, word to wait for: 1 if what is
     * referred to can be had */
    sk_oid inner = {(uint64_t)arg_i64(t, 1)};
    struct sk_view v;
    gate_add((int)arg_i64(t, 2), 1);
    if (!gate_wait((int)arg_i64(t, 3), 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    t->engine->ops->retain(t->engine, inner);
    SK_TRY(t->engine->ops->get(t->engine, &inner, 1, INT64_MAX, &v, err));
    bool fine = view_is(&v, BIG, 1);
    t->engine->ops->view_release(t->engine, &v);
    t->engine->ops->release(t->engine, inner);
    return ret_i64(t, 0, fine, err);
}
/* Returns the sum of the fills of its blobs and the last argument. */
TASK(r_sum) {
    uint32_t x = (uint32_t)arg_i64(t, t->n_args - 1);
    for (uint32_t i = 0; i + 1 < t->n_args; i++) {
        const struct sk_view *v = &t->args[i];
        if (!v->len || !view_is(v, BIG, v->data[0]))
            return SK_ERR(err, SK_ECORRUPT, "argument %u", i);
        x = x * 31 + v->data[0];
    }
    return ret_blob(t, 0, BIG, (uint8_t)x, err);
}

static sk_oid put_blob(uint8_t fill) {
    static uint8_t b[BIG];
    struct sk_err err;
    sk_oid o;
    memset(b, fill, BIG);
    struct sk_payload p = {.kind = KIND_BLOB, .bytes = {b, BIG}};
    CHECK_OK_ERR(eng->ops->put(eng, &p, &o, &err), &err);
    return o;
}

/* Makes o[1..n], a chain of blobs with fills and words 1..n. */
static void chain(sk_oid *o, int n, int32_t retries) {
    o[1] = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = retries);
    for (int i = 2; i <= n; i++)
        o[i] = JOB(.fn = "r_next", .a = {REF(o[i - 1]), VAL(i)}, .n_a = 2, .retries = retries);
    is_blob(o[n], BIG, (uint8_t)n);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

TEST(recover_only_what_is_lost) {
    OPEN();
    sk_oid o[6];
    chain(o, 5, 3);
    CHECK_EQ(eng_stat(eng, "lineage_tasks"), 5);
    struct sk_view old = view(o[3]);
    lose(o[3]);
    lose(o[5]);
    is_blob(o[5], BIG, 5);
    is_blob(o[3], BIG, 3);
    for (int i = 1; i <= 5; i++) {
        CHECK_EQ(word(i), i == 3 || i == 5 ? 2 : 1);
        CHECK_EQ(word(100 + i), i == 3 || i == 5);
    }
    CHECK(view_is(&old, BIG, 3)); /* its bytes stay */
    eng->ops->view_release(eng, &old);
    CHECK_EQ(eng_stat(eng, "objects_lost"), 2);
    CHECK_EQ(eng_stat(eng, "reruns"), 2);
    for (int i = 1; i <= 5; i++) eng_release(o[i]);
    close_clean();
}

TEST(recover_through_arguments_that_are_gone) {
    OPEN();
    sk_oid o[6];
    chain(o, 5, 3);
    for (int i = 1; i < 5; i++) eng_release(o[i]);
    CHECK_EQ(eng_stat(eng, "objects"), 1); /* lineage keeps no values alive */
    for (int round = 1; round <= 2; round++) {
        lose(o[5]);
        is_blob(o[5], BIG, 5);
        for (int i = 1; i <= 5; i++) {
            CHECK_EQ(word(i), 1 + round);
            CHECK_EQ(word(100 + i), round);
        }
        eng_wait_stat("objects", 1); /* the value that was made again was freed again */
        CHECK_EQ(eng_stat(eng, "lineage_tasks"), 5);
    }
    eng_release(o[5]);
    close_clean();
}

TEST(recover_argument_shorter_than_the_part_that_is_wanted) {
    /* it was made again while the task waited for its turn */
    char text[300];
    struct sk_res r = {.amount = {[SK_RES_CUSTOM] = SK_RES_UNIT}};
    /* two: what is of one shape is queued on one worker, and then has the old bytes */
    sk_shape slot, other;
    OPEN(.cpus = 2, .names = (const char *const[]){"slot"}, .n_names = 1, .amounts = {SK_RES_UNIT});
    CHECK_OK(sk_shape_of(eng, &r, &slot, NULL));
    r.amount[SK_RES_CPU] = SK_RES_UNIT;
    CHECK_OK(sk_shape_of(eng, &r, &other, NULL));
    sk_oid o = JOB(.fn = "r_shorter", .a = {VAL(1)}, .n_a = 1, .retries = 1);
    is_blob(o, BIG, 7);
    sk_oid has = JOB(.fn = "r_wait", .a = {VAL(10), VAL(11)}, .n_a = 2, .shape = slot);
    CHECK(gate_wait(10, 1));
    sk_oid late = JOB(.fn = "r_is", .a = {PART(o, BIG - 10, 10), VAL(7)}, .n_a = 2, .shape = other);
    lose(o);
    is_blob(o, BIG / 2, 7);
    gate_add(11, 1);
    CHECK_EQ(eng_error(late, text, sizeof text), SK_EINVAL);
    eng_release(has);
    eng_release(o);
    close_clean();
}

/* Both returns are lost: one run makes them; a return that exists keeps its bytes. */
TEST(recover_returns_of_one_task) {
    OPEN();
    sk_oid o = JOB(.fn = "r_pair", .a = {VAL(1)}, .n_a = 1, .n_returns = 2, .retries = 9),
           p = {o.v + 1};
    is_blob(o, BIG, 1);
    struct sk_view v = view(p);
    lose(o);
    is_blob(o, BIG, 1);
    struct sk_view v2 = view(p);
    CHECK(v.data == v2.data && view_is(&v2, BIG, 2));
    eng->ops->view_release(eng, &v);
    eng->ops->view_release(eng, &v2);
    CHECK_EQ(word(1), 2);
    flag(o);
    flag(p);
    is_blob(p, BIG, 2); /* the loss is detected when the value is needed */
    is_blob(o, BIG, 1);
    CHECK_LE(word(1), 4);
    eng_release(p);
    lose(o);
    is_blob(o, BIG, 1);
    eng_release(o);
    close_clean();
}

/* Small values: lineage keeps no task. */
TEST(recover_cheap_when_nothing_can_be_lost) {
    OPEN();
    sk_oid o = JOB(.fn = "r_num", .a = {VAL(1)}, .n_a = 1, .retries = 3),
           p = JOB(.fn = "r_first", .a = {REF(o)}, .n_a = 1, .retries = 3);
    CHECK_EQ(eng_i64(o), 1);
    CHECK_EQ(eng_stat(eng, "lineage_tasks"), 0);
    is_blob(p, BIG, 1);
    CHECK_EQ(eng_stat(eng, "lineage_tasks"), 1);
    eng_release(o); /* the bytes stay for the task that needs them */
    CHECK_EQ(eng_stat(eng, "objects"), 1);
    lose(p);
    is_blob(p, BIG, 1);
    CHECK_EQ(word(1), 3); /* r_num counts in 1, too: it did not run again */
    eng_release(p);
    close_clean();
}

TEST(recover_refs_inside) {
    OPEN();
    sk_oid outer = JOB(.fn = "r_outer", .retries = 3),
           got = JOB(.fn = "r_open", .a = {REF(outer)}, .n_a = 1, .retries = 3);
    is_blob(got, BIG, 5);
    eng_release(outer);
    eng_wait_stat("objects", 1); /* the blob inside is freed with it */
    CHECK_EQ(word(1), 1);
    lose(got);
    is_blob(got, BIG, 5);
    CHECK_EQ(word(1), 2); /* made again with a new one inside */
    eng_release(got);
    close_clean();
}

/* A task does not wait for references inside an argument, but they must be available again. */
TEST(recover_ref_in_argument_bytes) {
    OPEN();
    sk_oid b = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
    sk_oid got = JOB(.fn = "r_open", .a = {VAL((int64_t)b.v)}, .n_a = 1, .contains = &b,
                     .n_contains = 1, .retries = 3);
    is_blob(got, BIG, 1);
    lose(b); /* the object is lost while a worker requests it */
    sk_oid again = JOB(.fn = "r_open", .a = {VAL((int64_t)b.v)}, .n_a = 1, .contains = &b,
                       .n_contains = 1, .retries = 3);
    is_blob(again, BIG, 1);
    flag(b);
    sk_oid third = JOB(.fn = "r_open", .a = {VAL((int64_t)b.v)}, .n_a = 1, .contains = &b,
                       .n_contains = 1, .retries = 3);
    is_blob(third, BIG, 1);
    CHECK_EQ(word(1), 3);
    eng_release(third);
    eng_release(again);
    eng_release(b);
    lose(got);
    is_blob(got, BIG, 1);
    CHECK_EQ(word(1), 4);
    eng_release(got);
    close_clean();
}

static bool is_held_once(void *oid) { return sk_own_count(L()->own, *(uint64_t *)oid) == 1; }
static void wait_held_once(sk_oid o) {
    /* workers have released their references, which wakes no waiter */
    CHECK(eng_drive_until(is_held_once, &o.v));
}

/* An object that only the lost value referred to is freed with it: lineage must learn of that
 * before it plans. (Found by tests/c/model.) */
TEST(recover_argument_that_only_the_lost_value_held) {
    OPEN();
    sk_oid b = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
    sk_oid o = JOB(.fn = "r_wrap", .a = {VAL((int64_t)b.v)}, .n_a = 1, .contains = &b,
                   .n_contains = 1, .retries = 3);
    is_blob(b, BIG, 1);
    is_blob(o, BIG, 7);
    eng_release(b);
    wait_held_once(b);
    flag(o);
    sk_oid r = JOB(.fn = "r_is", .a = {REF(o), VAL(7)}, .n_a = 2, .retries = 3);
    struct sk_view v = view(r);
    if (SK_KIND_IS_ERROR(v.kind)) test_fail(__FILE__, __LINE__, "%s", (const char *)v.data + 4);
    eng->ops->view_release(eng, &v);
    CHECK(checked());
    CHECK_EQ(word(2), 2);
    CHECK(gate_wait(1, 2)); /* made again for r_wrap, which does not wait for it */
    eng_release(r);
    eng_release(o);
    close_clean();
}

/* The argument's task is not over, so lineage does not know it yet, and then the last other
 * reference is released. (Found by tests/c/model.) */
TEST(recover_argument_that_is_not_there_yet) {
    OPEN();
    sk_oid a = JOB(.fn = "r_wait", .a = {VAL(10), VAL(11)}, .n_a = 2, .retries = 3);
    sk_oid o = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .contains = &a, .n_contains = 1,
                   .retries = 3);
    is_blob(o, BIG, 1);
    eng_release(a);
    lose(o);
    is_blob(o, BIG, 1);
    CHECK_EQ(word(1), 2);
    gate_add(11, 1);
    eng_wait_stat("objects", 1);
    lose(o); /* its argument was made again and released meanwhile */
    is_blob(o, BIG, 1);
    CHECK_EQ(word(1), 3);
    CHECK(gate_wait(10, 2));
    eng_release(o);
    close_clean();
}

/* The error of a cancelled task is its final result, also for tasks that lineage keeps because of
 * it. */
TEST(recover_what_was_cancelled_does_not_run) {
    OPEN();
    sk_tid tid;
    sk_oid late = JOB(.fn = "r_wait", .a = {VAL(10), VAL(11)}, .n_a = 2);
    CHECK(gate_wait(10, 1)); /* it runs */
    sk_oid a = eng_job_tid(
        &(struct job){.fn = "r_next", .a = {REF(late), VAL(2)}, .n_a = 2, .retries = 3}, &tid);
    sk_oid o = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .contains = &a, .n_contains = 1,
                   .retries = 3);
    is_blob(o, BIG, 1);
    CHECK_OK(eng->ops->cancel(eng, tid, 0, NULL));
    eng_release(a);
    gate_add(11, 1);
    eng_release(late);
    eng_wait_stat("objects", 1);
    for (int i = 0; i < 3; i++) {
        lose(o);
        is_blob(o, BIG, 1);
    }
    CHECK_EQ(word(1), 4);
    CHECK_EQ(word(2), 0);
    CHECK_EQ(word(10), 1);
    CHECK_EQ(eng_stat(eng, "reruns"), 3);
    eng_release(o);
    close_clean();
}

/* A task's argument is lost while the task reads it: the objects to which its bytes refer must live
 * on. (Found by world_sim.) */
TEST(recover_refs_in_bytes_that_are_read) {
    OPEN();
    sk_oid b = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1);
    is_blob(b, BIG, 1);
    sk_oid o =
        JOB(.fn = "r_wrap", .a = {VAL((int64_t)b.v)}, .n_a = 1, .contains = &b, .n_contains = 1);
    is_blob(o, BIG, 7);
    sk_oid late =
        JOB(.fn = "r_open_late", .a = {REF(o), VAL((int64_t)b.v), VAL(50), VAL(51)}, .n_a = 4);
    CHECK(gate_wait(50, 1));
    eng_release(b);
    lose(o);
    gate_add(51, 1);
    CHECK_EQ(eng_take(late), 1);
    char text[400];
    CHECK_EQ(eng_error(o, text, sizeof text), SK_ELOST); /* its task may not run again */
    close_clean();
}

/* ---- waiting --------------------------------------------------------------------------------- */

TEST(recover_argument_of_queued_tasks) {
    OPEN(.cpus = 1);
    sk_oid r = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
    is_blob(r, BIG, 1);
    /* some tasks are on the worker already and read the old bytes; the others must wait for the new
     * ones */
    enum { N = SK_PLACE_DEPTH_MAX + 44 };
    sk_oid w = JOB(.fn = "r_wait", .a = {VAL(50), VAL(51)}, .n_a = 2), d[N];
    CHECK(gate_wait(50, 1));
    for (int i = 0; i < N; i++) d[i] = JOB(.fn = "r_is", .a = {REF(r), VAL(1)}, .n_a = 2);
    lose(r);
    eng_release(r);
    sk_oid fill = put_blob(99); /* uses the memory of the lost value, if that is free */
    gate_add(51, 1);
    for (int i = 0; i < N; i++) CHECK_EQ(eng_take(d[i]), 1);
    CHECK_EQ(eng_take(w), 1);
    CHECK_EQ(word(1), 2);
    eng_release(fill);
    close_clean();
}

/* The running task reads the old bytes until it is done. */
TEST(recover_argument_of_a_running_task) {
    OPEN();
    sk_oid r = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
    is_blob(r, BIG, 1);
    sk_oid d = JOB(.fn = "r_reads", .a = {REF(r), VAL(1), VAL(50), VAL(51)}, .n_a = 4);
    CHECK(gate_wait(50, 1));
    lose(r);
    is_blob(r, BIG, 1);
    lose(r);
    is_blob(r, BIG, 1);
    sk_oid p[20];
    for (int i = 0; i < 20; i++) p[i] = put_blob(200);
    gate_add(51, 1);
    CHECK_EQ(eng_take(d), 1);
    for (int i = 0; i < 20; i++) eng_release(p[i]);
    CHECK_EQ(word(1), 3);
    eng_release(r);
    close_clean();
}

TEST(recover_argument_of_a_worker_that_dies) {
    OPEN();
    sk_oid r = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
    is_blob(r, BIG, 1);
    sk_tid tid;
    sk_oid d = eng_job_tid(
        &(struct job){.fn = "r_reads", .a = {REF(r), VAL(1), VAL(50), VAL(51)}, .n_a = 4}, &tid);
    CHECK(gate_wait(50, 1));
    lose(r);
    is_blob(r, BIG, 1);
    CHECK_OK(eng->ops->cancel(eng, tid, true, NULL));
    char text[300];
    CHECK_EQ(eng_error(d, text, sizeof text), SK_ECANCEL);
    eng_release(r);
    close_clean();
}

static void *get_elsewhere(void *arg) {
    sk_oid o = *(sk_oid *)arg;
    struct sk_view v;
    struct sk_err err;
    if (eng->ops->get(eng, &o, 1, INT64_MAX, &v, &err) != SK_OK || !view_is(&v, BIG, 1))
        return NULL;
    eng->ops->view_release(eng, &v);
    return arg;
}

TEST(recover_two_threads_wait) {
    OPEN();
    sk_oid r = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 9);
    for (int i = 0; i < 5; i++) {
        pthread_t th;
        void *ok;
        is_blob(r, BIG, 1);
        flag(r);
        CHECK(pthread_create(&th, NULL, get_elsewhere, &r) == 0);
        is_blob(r, BIG, 1);
        pthread_join(th, &ok);
        CHECK(ok == &r);
    }
    CHECK_EQ(word(1), 6);
    eng_release(r);
    close_clean();
}

TEST(recover_actor_calls_wait_too) {
    OPEN();
    struct sk_err err;
    sk_aid a;
    sk_oid ready;
    struct job init = {.fn = "r_num", .a = {VAL(9)}, .n_a = 1};
    struct sk_actor_spec as = {.init = spec_of(&init)};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    sk_oid r = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
    is_blob(r, BIG, 1);
    sk_oid w = JOB(.fn = "r_wait", .a = {VAL(50), VAL(51)}, .n_a = 2, .actor = a);
    sk_oid d = JOB(.fn = "r_is", .a = {REF(r), VAL(1)}, .n_a = 2, .actor = a);
    CHECK(gate_wait(50, 1));
    flag(r);
    sk_oid d2 = JOB(.fn = "r_is", .a = {REF(r), VAL(1)}, .n_a = 2, .actor = a);
    gate_add(51, 1);
    CHECK_EQ(eng_take(w), 1);
    CHECK_EQ(eng_take(d), 1);
    CHECK_EQ(eng_take(d2), 1);
    CHECK_EQ(word(1), 2);
    sk_oid b = JOB(.fn = "r_first", .a = {VAL(2)}, .n_a = 1, .actor = a);
    is_blob(b, BIG, 2);
    lose(b);
    char text[400];
    CHECK_EQ(eng_error(b, text, sizeof text), SK_ELOST);
    CHECK_STR_HAS(text, "an actor");
    eng_release(r);
    eng_release(ready);
    sk_actor_release(eng, a);
    close_clean();
}

/* State of an actor whose constructor waits for a lost argument: how often it was restarted, and
 * the pid of its process; 0: none. */
struct waits {
    uint64_t actor;
    int32_t restarts_left;
    bool has_process;
    pid_t pid;
};
static bool constructor_waits(void *arg) {
    struct waits *x = arg;
    sk_driver_lock(eng);
    const struct sk_lactor *a = sk_obj_get(L(), x->actor)->u.actor;
    x->pid = a->worker ? a->worker->pid : 0;
    bool is = a->restarts_left == x->restarts_left && !a->placed && !x->pid == !x->has_process &&
              a->init->state == SK_T_WAITING && a->init->n_unready == 1;
    sk_driver_unlock(eng);
    return is;
}

TEST(recover_argument_of_an_actor_that_dies_again) {
    OPEN();
    struct sk_err err;
    sk_aid a;
    sk_oid ready;
    sk_oid r = JOB(.fn = "r_first_slow", .a = {VAL(1), VAL(50)}, .n_a = 2, .retries = 3);
    is_blob(r, BIG, 1);
    struct job init = {.fn = "r_next", .a = {REF(r), VAL(2)}, .n_a = 2};
    struct sk_actor_spec as = {.init = spec_of(&init), .max_restarts = 2};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    is_blob(ready, BIG, 2);
    lose(r); /* it is made again, by a task that waits for word 50 */
    sk_driver_lock(eng);
    struct waits x = {a.v, 1, true, sk_obj_get(L(), a.v)->u.actor->worker->pid};
    sk_driver_unlock(eng);
    CHECK(kill(x.pid, SIGKILL) == 0);
    CHECK(eng_drive_until(constructor_waits, &x));
    /* the death costs no restart, since the constructor had not begun */
    x = (struct waits){a.v, 1, false, x.pid};
    CHECK(kill(x.pid, SIGKILL) == 0); /* its process dies; the constructor waits on */
    CHECK(eng_drive_until(constructor_waits, &x));
    CHECK(checked());
    CHECK_EQ(word(2), 1); /* its constructor ran in the first process only */
    gate_add(50, 1);
    CHECK_EQ(eng_take(JOB(.fn = "r_is", .a = {REF(r), VAL(1)}, .n_a = 2, .actor = a)), 1);
    CHECK_EQ(word(2), 2);
    CHECK_EQ(word(1), 2);
    eng_release(r);
    eng_release(ready);
    sk_actor_release(eng, a);
    close_clean();
}

/* ---- no way back ----------------------------------------------------------------------------- */

TEST(recover_put) {
    OPEN();
    char text[400], want[200];
    sk_oid p = put_blob(1), q = put_blob(2);
    sk_oid d = JOB(.fn = "r_sum", .a = {REF(q), VAL(0)}, .n_a = 2, .retries = 3),
           e = JOB(.fn = "r_sum", .a = {REF(d), VAL(0)}, .n_a = 2, .retries = 3);
    is_blob(e, BIG, 2);
    lose(p);
    snprintf(want, sizeof want,
             "object %llu is lost and cannot be remade: it was put(), no task made it; keep the "
             "source or use a task",
             (unsigned long long)p.v);
    CHECK_EQ(eng_error(p, text, sizeof text), SK_ELOST);
    CHECK_STR_EQ(text, want);
    lose(d); /* its argument exists */
    is_blob(d, BIG, 2);
    eng_release(q);
    /* d cannot be made again; e can, while d is there */
    CHECK_EQ(eng_stat(eng, "lineage_tasks"), 1);
    lose(d);
    sk_oid f = JOB(.fn = "r_sum", .a = {REF(d), VAL(0)}, .n_a = 2, .retries = 3);
    CHECK_EQ(eng_error(f, text, sizeof text), SK_ELOST);
    snprintf(want, sizeof want,
             "object %llu is lost and cannot be remade: it is made from object %llu, which is "
             "gone, too, and that was put()",
             (unsigned long long)d.v, (unsigned long long)q.v);
    CHECK_STR_HAS(text, want);
    eng_release(d);
    lose(e);
    CHECK_EQ(eng_error(e, text, sizeof text), SK_ELOST);
    close_clean();
}

TEST(recover_lost_for_good_under_a_queued_task) {
    OPEN(.cpus = 1);
    char text[400];
    sk_oid p = put_blob(1), w = JOB(.fn = "r_wait", .a = {VAL(50), VAL(51)}, .n_a = 2), d[300];
    CHECK(gate_wait(50, 1));
    /* more tasks than fit on the worker's ring */
    for (int i = 0; i < 300; i++) d[i] = JOB(.fn = "r_is", .a = {REF(p), VAL(1)}, .n_a = 2);
    lose(p);
    gate_add(51, 1);
    int fine = 0;
    for (int i = 0; i < 300; i++) {
        struct sk_view v = view(d[i]);
        bool ok = v.kind == KIND_I64;
        eng->ops->view_release(eng, &v);
        if (ok) {
            fine++;
            CHECK_EQ(eng_take(d[i]), 1);
        } else {
            CHECK_EQ(eng_error(d[i], text, sizeof text), SK_ELOST);
        }
    }
    CHECK_LT(fine, 300); /* only the tasks on the worker have read the old bytes */
    CHECK_EQ(eng_take(w), 1);
    eng_release(p);
    close_clean();
}

TEST(recover_retries) {
    OPEN();
    char text[400];
    sk_oid o = JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 1),
           p = JOB(.fn = "r_first", .a = {VAL(2)}, .n_a = 1);
    is_blob(o, BIG, 1);
    is_blob(p, BIG, 2);
    lose(o);
    is_blob(o, BIG, 1);
    lose(o);
    CHECK_EQ(eng_error(o, text, sizeof text), SK_ELOST);
    CHECK_STR_HAS(text, "max_retries");
    lose(p);
    CHECK_EQ(eng_error(p, text, sizeof text), SK_ELOST);
    CHECK_STR_HAS(text, "max_retries is 0");
    CHECK_EQ(word(1), 2);
    CHECK_EQ(word(2), 1);
    sk_oid q = JOB(.fn = "r_first", .a = {VAL(3)}, .n_a = 1, .retries = -1); /* for ever */
    for (int i = 0; i < 10; i++) {
        is_blob(q, BIG, 3);
        lose(q);
    }
    is_blob(q, BIG, 3);
    CHECK_EQ(word(103), 10);
    eng_release(q);
    close_clean();
}

TEST(recover_budget) {
    OPEN(.lineage_bytes = 5000);
    char text[400];
    sk_oid o[30];
    for (int i = 0; i < 30; i++) {
        o[i] = JOB(.fn = "r_first", .a = {VAL(i)}, .n_a = 1, .retries = 3);
        is_blob(o[i], BIG, (uint8_t)i);
    }
    CHECK_LE(eng_stat(eng, "lineage_bytes"), 5000);
    CHECK_GE(eng_stat(eng, "lineage_tasks"), 2);
    lose(o[29]);
    is_blob(o[29], BIG, 29);
    lose(o[0]);
    CHECK_EQ(eng_error(o[0], text, sizeof text), SK_ELOST);
    CHECK_STR_HAS(text, "lineage_bytes");
    for (int i = 1; i < 30; i++) eng_release(o[i]);
    close_clean();
}

TEST(recover_run_again_fails) {
    OPEN();
    char text[400];
    sk_oid o = JOB(.fn = "r_once", .a = {VAL(1)}, .n_a = 1, .retries = 2);
    is_blob(o, BIG, 77);
    lose(o);
    eng_error(o, text, sizeof text);
    CHECK_STR_EQ(text, "not again");
    o = JOB(.fn = "r_once", .a = {VAL(2)}, .n_a = 1, .retries = 2);
    is_blob(o, BIG, 77);
    lose(o);
    CHECK_EQ(eng_error(o, text, sizeof text), SK_EDEAD);
    o = JOB(.fn = "r_once", .a = {VAL(3)}, .n_a = 1, .retries = 3);
    is_blob(o, BIG, 77);
    lose(o);
    is_blob(o, BIG, 77); /* third attempt */
    eng_release(o);
    close_clean();
}

/* ---- streams --------------------------------------------------------------------------------- */

static int take_all(sk_tid tid, sk_oid *o, int max) {
    struct sk_err err;
    int n = 0;
    for (; n < max; n++) {
        sk_rc rc = eng->streams->next(eng, tid, test_patience(), &o[n], &err);
        if (rc == SK_EDONE) break;
        CHECK_OK_ERR(rc, &err);
    }
    return n;
}

static sk_tid stream(int64_t n, int32_t retries, uint32_t window) {
    sk_tid tid;
    eng_job_tid(&(struct job){.fn = "r_stream",
                              .a = {VAL(n), VAL(1)},
                              .n_a = 2,
                              .n_returns = SK_STREAMING,
                              .retries = retries,
                              .opts.stream_window = window},
                &tid);
    return tid;
}

TEST(recover_stream_only_lost_yields) {
    for (int dropped = 0; dropped < 2; dropped++) {
        OPEN();
        sk_oid o[11];
        struct sk_view v[10];
        sk_tid tid = stream(10, 3, 0);
        CHECK_EQ(take_all(tid, o, 11), 10);
        if (dropped) eng->streams->drop(eng, tid);
        for (int i = 0; i < 10; i++) v[i] = view(o[i]);
        CHECK(gate_wait(1, 10));
        sk_driver_lock(eng);
        sk_recover_lost(L(), o[3].v);
        sk_recover_lost(L(), o[7].v);
        sk_driver_unlock(eng);
        is_blob(o[3], BIG, 3);
        is_blob(o[7], BIG, 7);
        /* 0 to 7 were made again: the task was stopped after the last lost value */
        CHECK(gate_wait(1, 18));
        CHECK_EQ(eng_stat(eng, "reruns"), 1);
        for (int i = 0; i < 10; i++) {
            struct sk_view again = view(o[i]);
            CHECK(view_is(&again, BIG, (uint8_t)i) && view_is(&v[i], BIG, (uint8_t)i));
            /* the other values are at their old places */
            CHECK_EQ(again.data == v[i].data, i != 3 && i != 7);
            eng->ops->view_release(eng, &again);
            eng->ops->view_release(eng, &v[i]);
        }
        eng_wait_stat("tasks_known", dropped ? 0 : 1);
        for (int i = 0; i < 10; i += 2) eng_release(o[i]);
        lose(o[9]);
        is_blob(o[9], BIG, 9);
        CHECK(gate_wait(1, 28)); /* it counts after the yield */
        CHECK_EQ(word(1), 28);
        CHECK_EQ(word(101), 2);
        if (!dropped) {
            sk_oid x;
            /* its end is still its end */
            CHECK_RC(eng->streams->next(eng, tid, INT64_MAX, &x, NULL), SK_EDONE);
            eng->streams->drop(eng, tid);
        }
        for (int i = 1; i < 10; i += 2) eng_release(o[i]);
        close_clean();
    }
}

TEST(recover_stream_yield_consumed_downstream) {
    /* the stream is run again for an argument that is gone */
    OPEN();
    sk_oid o[6], d[6];
    sk_tid tid = stream(5, 3, 0);
    CHECK_EQ(take_all(tid, o, 6), 5);
    eng->streams->drop(eng, tid);
    for (int i = 0; i < 5; i++) {
        d[i] = JOB(.fn = "r_next", .a = {REF(o[i]), VAL(i + 1)}, .n_a = 2, .retries = 3);
        is_blob(d[i], BIG, (uint8_t)(i + 1));
        eng_release(o[i]);
    }
    CHECK_EQ(eng_stat(eng, "objects"), 5);
    sk_driver_lock(eng);
    sk_recover_lost(L(), d[1].v);
    sk_recover_lost(L(), d[3].v);
    sk_driver_unlock(eng);
    is_blob(d[3], BIG, 4);
    is_blob(d[1], BIG, 2);
    eng_wait_stat("objects", 5);
    for (int i = 0; i < 5; i++) eng_release(d[i]);
    close_clean();
}

TEST(recover_stream_under_way) {
    /* its reader waits for the lost value before it takes more, and the window is full */
    OPEN();
    sk_oid o[20], x;
    struct sk_err err;
    sk_tid tid = stream(12, 3, 2);
    for (int i = 0; i < 4; i++)
        CHECK_OK_ERR(eng->streams->next(eng, tid, INT64_MAX, &o[i], &err), &err);
    CHECK(gate_wait(1, 5));
    is_blob(o[1], BIG, 1);
    is_blob(o[3], BIG, 3);
    lose(o[1]);
    is_blob(o[1], BIG, 1);
    is_blob(o[3], BIG, 3);
    lose(o[3]);
    lose(o[0]);
    CHECK_EQ(4 + take_all(tid, o + 4, 16), 12);
    for (int i = 0; i < 12; i++) is_blob(o[i], BIG, (uint8_t)i);
    CHECK_RC(eng->streams->next(eng, tid, INT64_MAX, &x, NULL), SK_EDONE);
    eng->streams->drop(eng, tid);
    for (int i = 0; i < 12; i++) eng_release(o[i]);
    close_clean();
}

TEST(recover_stream_dropped_early) {
    OPEN();
    sk_oid o[4];
    struct sk_err err;
    sk_tid tid = stream(100, 3, 2);
    for (int i = 0; i < 4; i++)
        CHECK_OK_ERR(eng->streams->next(eng, tid, INT64_MAX, &o[i], &err), &err);
    is_blob(o[3], BIG, 3);
    eng->streams->drop(eng, tid);
    eng_wait_stat("tasks_known", 0);
    lose(o[2]);
    is_blob(o[2], BIG, 2);
    eng_wait_stat("tasks_known", 0); /* stopped after it, not after 100 */
    CHECK_GE(word(1), 100);          /* the first run went to its end */
    CHECK_LT(word(1), 120);
    for (int i = 0; i < 4; i++) eng_release(o[i]);
    close_clean();
}

TEST(recover_stream_liar) {
    for (int how = 1; how <= 2; how++) {
        OPEN();
        char text[400];
        sk_oid o[7];
        sk_tid tid;
        eng_job_tid(&(struct job){.fn = "r_stream_liar",
                                  .a = {VAL(6), VAL(how)},
                                  .n_a = 2,
                                  .n_returns = SK_STREAMING,
                                  .retries = 3},
                    &tid);
        CHECK_EQ(take_all(tid, o, 7), 6);
        eng->streams->drop(eng, tid);
        is_blob(o[5], BIG, 5);
        lose(o[4]);
        CHECK_EQ(eng_error(o[4], text, sizeof text), SK_ETASK);
        CHECK_STR_HAS(text, "not deterministic");
        is_blob(o[5], BIG, 5);
        for (int i = 0; i < 6; i++)
            if (i != 4) eng_release(o[i]);
        close_clean();
    }
}

struct seen {
    struct sk_sink s;
    sk_oid o[16];
    uint32_t n, done, failed, late;
};
static void on_event(struct sk_sink *s, const struct sk_event *ev, size_t n) {
    CHECK_EQ(n, 1);
    struct seen *x = sk_container_of(s, struct seen, s);
    x->late += x->done + x->failed;
    if (ev->kind == SK_EV_YIELDED && x->n < 16) x->o[x->n++] = ev->oid;
    if (ev->kind == SK_EV_DONE) x->done++;
    if (ev->kind == SK_EV_FAILED) x->failed++;
}
static bool seen_all(void *arg) { return ((struct seen *)arg)->done == 1; }

TEST(recover_stream_with_a_sink) {
    /* the sink gets no event of the second run, since it may not exist any more */
    OPEN();
    struct seen *s = sk_calloc(SK_TAG_TEST, sizeof *s);
    s->s.on_events = on_event;
    eng_job(&(struct job){.fn = "r_stream",
                          .a = {VAL(6), VAL(1)},
                          .n_a = 2,
                          .n_returns = SK_STREAMING,
                          .retries = 3,
                          .sink = &s->s});
    CHECK_OK(eng->ops->drive(eng, seen_all, s, test_patience(), NULL));
    CHECK_EQ(s->n, 6);
    sk_oid o[6];
    memcpy(o, s->o, sizeof o);
    CHECK_EQ(s->late, 0);
    sk_free(s);
    lose(o[2]);
    lose(o[5]);
    is_blob(o[2], BIG, 2);
    is_blob(o[5], BIG, 5);
    for (int i = 0; i < 6; i++) eng_release(o[i]);
    close_clean();
}

/* ---- the fault point, long chains, chance ---------------------------------------------------- */

TEST(recover_fault_point) {
    sk_oid o[4];
    char text[400];
    CHECK_OK(sk_fault_set("store.lose", SK_FAULT_FAIL, 2)); /* before there are threads */
    OPEN();
    chain(o, 3, 3);
    CHECK(sk_fault_fired());
    CHECK_EQ(word(2), 2);
    CHECK_EQ(word(102), 1);
    CHECK_EQ(eng_stat(eng, "objects_lost"), 1);
    for (int i = 1; i <= 3; i++) eng_release(o[i]);
    close_clean();
    CHECK_OK(sk_fault_set("store.lose", SK_FAULT_FAIL, 1));
    OPEN();
    sk_oid p = put_blob(1);
    CHECK_EQ(eng_error(p, text, sizeof text), SK_ELOST);
    close_clean();
}

TEST_LARGE(recover_long_chain, 300) {
    enum { N = 800 }; /* one after the other: on busy cores each costs slices of the scheduler */
    int n = test_sanitized() ? 500 : N;
    static sk_oid o[N];
    for (int alive = 0; alive < 2; alive++) {
        OPEN();
        for (int i = 0; i < n; i++) {
            o[i] = i ? JOB(.fn = "r_sum", .a = {REF(o[i - 1]), VAL(1)}, .n_a = 2, .retries = 3)
                     : JOB(.fn = "r_first", .a = {VAL(1)}, .n_a = 1, .retries = 3);
            if (i && !alive) eng_release(o[i - 1]);
        }
        struct sk_view v = view(o[n - 1]);
        uint8_t fill = v.data[0];
        eng->ops->view_release(eng, &v);
        sk_driver_lock(eng);
        /* each task finds the value before it lost */
        for (int i = alive ? 0 : n - 1; i < n; i++) sk_obj_get(L(), o[i].v)->gone = true;
        sk_driver_unlock(eng);
        is_blob(o[n - 1], BIG, fill);
        CHECK_EQ(eng_stat(eng, "reruns"), n);
        for (int i = alive ? 0 : n - 1; i < n; i++) eng_release(o[i]);
        close_clean();
    }
}

TEST_LARGE(recover_by_chance, 300) {
    /* random graphs; values and workers are lost; available values are right */
    enum { N = 60 };
    struct {
        sk_oid o;
        uint8_t fill;
        bool can;
    } x[N] = {0};
    int rounds = test_rounds(test_sanitized() ? 200 : 1500);
    uint64_t remade = 0, n_lost = 0;
    OPEN(.cpus = 2, .store_bytes = 64u << 20);
    for (int r = 0; r < rounds || n_lost <= 10 || remade < 10; r++) {
        /* until chance has done something */
        n_lost = eng_stat(eng, "objects_lost");
        remade = eng_stat(eng, "reruns");
        int i = (int)test_below(N), k = (int)test_below(100);
        if (k < 45) { /* a new one from up to three others */
            struct sk_arg a[4];
            uint32_t n = 0, sum = (uint32_t)test_below(100);
            a[3] = VAL(sum);
            struct sk_arg last = a[3];
            for (uint64_t want = test_below(4); n < want;) {
                int j = (int)test_below(N);
                if (!x[j].o.v || j == i) break;
                a[n++] = REF(x[j].o);
                sum = sum * 31 + x[j].fill;
            }
            a[n++] = last;
            if (x[i].o.v) eng_release(x[i].o);
            x[i].o = JOB(.fn = "r_sum", .args = a, .n_args = n, .retries = -1);
            x[i].fill = (uint8_t)sum;
        } else if (k < 60) {
            if (x[i].o.v) eng_release(x[i].o);
            x[i].o.v = 0;
        } else if (k < 80) {
            if (x[i].o.v) {
                if (test_below(4)) is_blob(x[i].o, BIG, x[i].fill); /* it must exist to be lost */
                sk_driver_lock(eng);
                sk_recover_lost(L(), x[i].o.v);
                sk_driver_unlock(eng);
            }
        } else if (k < 84) {
            struct sk_worker_info w[16];
            size_t n = eng->state->workers(eng, w, 16);
            const struct sk_worker_info *one = n ? &w[test_below(n < 16 ? n : 16)] : NULL;
            if (one && one->pid > 0) kill(one->pid, SIGKILL);
        } else if (x[i].o.v) {
            is_blob(x[i].o, BIG, x[i].fill);
        }
        CHECK(checked());
    }
    for (int i = 0; i < N; i++) {
        if (!x[i].o.v) continue;
        is_blob(x[i].o, BIG, x[i].fill);
        eng_release(x[i].o);
    }
    remade = eng_stat(eng, "reruns");
    n_lost = eng_stat(eng, "objects_lost");
    printf("# %llu lost, %llu reruns, %llu workers died\n", (unsigned long long)n_lost,
           (unsigned long long)remade, (unsigned long long)eng_stat(eng, "worker_deaths"));
    close_clean();
}

TEST_SLOW(recover_no_memory, 300) {
    /* the nth allocation fails: the result is a value or an error, never an endless wait, and
     * nothing leaks */
    for (int64_t n = 1;; n++) {
        OPEN(.cpus = 1);
        sk_oid o[4];
        struct sk_err err;
        struct sk_view v;
        chain(o, 3, 3);
        eng_release(o[1]);
        eng_release(o[2]);
        sk_mem_fail_at(n);
        sk_driver_lock(eng);
        sk_recover_lost(L(), o[3].v);
        sk_driver_unlock(eng);
        sk_rc rc = eng->ops->get(eng, &o[3], 1, test_patience(), &v, &err);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_MSG(rc == SK_OK || rc == SK_ENOMEM, "allocation %lld: %s", (long long)n,
                  sk_rc_name(rc));
        if (rc == SK_OK) {
            CHECK(SK_KIND_IS_ERROR(v.kind) || view_is(&v, BIG, 3));
            if (!hit) CHECK(view_is(&v, BIG, 3));
            eng->ops->view_release(eng, &v);
        }
        eng_release(o[3]);
        close_clean();
        if (!hit) {
            CHECK(n > 3);
            break;
        }
    }
}

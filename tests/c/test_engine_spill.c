/* test_engine_spill.c - values that exceed the store, in the local engine: puts, results, streams,
 * arguments, actors, gets; which calls wait and for how long; full disks, damage, deaths. The files
 * on disk by themselves: test_store_spill.c. */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "engine/local/driver/calls/calls.h"
#include "engine/moves.h"
#include "engine_help.h"

enum { MIB = 1 << 20, STORE = 16 * MIB };

#define OPEN(...) \
    eng_open(&(struct eng_opt){.store_bytes = STORE, .spill_dirs = {spill_dir()}, __VA_ARGS__})
#define JOB(...) eng_job(&(struct job){__VA_ARGS__})

static const char *spill_dir(void) {
    static char path[512];
    snprintf(path, sizeof path, "%s/spill", test_dir());
    return path;
}

static struct sk_local *L(void) { return sk_container_of(eng, struct sk_local, base); }

static void checked(void) {
    sk_driver_lock(eng);
    CHECK(sk_local_check(L()));
    sk_driver_unlock(eng);
}

static sk_rc try_put(size_t n, uint8_t fill, sk_oid *o, struct sk_err *err) {
    struct sk_buf b;
    SK_TRY(eng->ops->buf_alloc(eng, n, &b, err));
    memset(b.data, fill, n);
    struct sk_payload p = {.kind = KIND_BLOB, .buf = &b, .buf_len = n};
    return eng->ops->put(eng, &p, o, err);
}

static sk_oid put(size_t n, uint8_t fill) {
    struct sk_err err;
    sk_oid o;
    CHECK_OK_ERR(try_put(n, fill, &o, &err), &err);
    return o;
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

static void close_clean(void) {
    checked();
    eng_settle();
    CHECK_EQ(eng_stat(eng, "spill_objects_on_disk"), 0);
    CHECK_EQ(eng_stat(eng, "overflow_bytes_on_disk"), 0);
    sk_driver_lock(eng);
    sk_space_give_back(L()); /* or within a second */
    sk_driver_unlock(eng);
    CHECK_EQ(eng_stat(eng, "spill_disk_bytes"), 0);
    DIR *d = opendir(spill_dir());
    for (struct dirent *e; (e = readdir(d));) CHECK(e->d_name[0] == '.');
    closedir(d);
    eng_close_now();
}

TASK(blob) { return ret_blob(t, 0, (size_t)arg_i64(t, 0), (uint8_t)arg_i64(t, 1), err); }
TASK(blob_is) {
    return ret_i64(t, 0, view_is(&t->args[0], (size_t)arg_i64(t, 1), (uint8_t)arg_i64(t, 2)), err);
}
/* Returns a blob as large as one of two equal blobs. */
TASK(twice) {
    if (t->args[0].len != t->args[1].len ||
        memcmp(t->args[0].data, t->args[1].data, t->args[0].len) != 0)
        return SK_ERR(err, SK_EINVAL, "not equal");
    return ret_blob(t, 0, t->args[0].len, t->args[0].data[0], err);
}
TASK(blobs) { /* a stream: n, size */
    for (int64_t i = 0; i < arg_i64(t, 0); i++)
        SK_TRY(yield_blob(t, (size_t)arg_i64(t, 1), (uint8_t)(i % 251), err));
    return SK_OK;
}
/* Holds its argument until the gate opens. */
TASK(hold) {
    gate_add(0, 1);
    return ret_i64(t, 0, gate_wait(1, 1) && t->args[0].len > 0, err);
}
TASK(get_all) { /* blobs inside the argument: n, size, first fill; all at once */
    uint32_t n = (uint32_t)arg_i64(t, 1);
    struct sk_view v[64];
    const sk_oid *ids = (const sk_oid *)(const void *)t->args[0].data;
    SK_TRY(t->engine->ops->get(t->engine, ids, n, INT64_MAX, v, err));
    int64_t good = 0;
    for (uint32_t i = 0; i < n; i++) {
        good += view_is(&v[i], (size_t)arg_i64(t, 2), (uint8_t)(arg_i64(t, 3) + i));
        t->engine->ops->view_release(t->engine, &v[i]);
    }
    return ret_i64(t, 0, good, err);
}
TASK(actor_init) { return ret_i64(t, 0, 0, err); }

/* ---- parts: of values whose bytes say where they are ----------------------------------------- */

static uint8_t byte_at(size_t i) { return (uint8_t)((uint32_t)i * 2654435761u >> 24); }
static int64_t is_part(const struct sk_view *v, size_t at, size_t n) {
    if (v->len != n) return 0;
    for (size_t i = 0; i < n; i++)
        if (v->data[i] != byte_at(at + i)) return 0;
    return 1;
}
TASK(stripes) { /* of so many bytes */
    size_t n = (size_t)arg_i64(t, 0);
    struct sk_buf b;
    SK_TRY(t->engine->ops->buf_alloc(t->engine, n, &b, err));
    for (size_t i = 0; i < n; i++) b.data[i] = byte_at(i);
    return sk_task_return(t, 0, &(struct sk_payload){.kind = KIND_BLOB, .buf = &b, .buf_len = n},
                          err);
}
TASK(part_is) {
    return ret_i64(t, 0, is_part(&t->args[0], (size_t)arg_i64(t, 1), (size_t)arg_i64(t, 2)), err);
}
TASK(parts_are) { /* the same of two */
    return ret_i64(t, 0,
                   is_part(&t->args[0], (size_t)arg_i64(t, 2), 1000) +
                       is_part(&t->args[1], (size_t)arg_i64(t, 3), 1000),
                   err);
}
TASK(part_of_inner) { /* submits one itself: its argument holds the object */
    sk_oid o, inner;
    int64_t is = 0;
    memcpy(&inner, t->args[0].data, sizeof inner);
    struct job j = {
        .fn = "part_is",
        .a = {PART(inner, (uint64_t)arg_i64(t, 1), 5000), VAL(arg_i64(t, 1)), VAL(5000)},
        .n_a = 3};
    SK_TRY(job_on(t->engine, &j, &o, NULL, err));
    SK_TRY(get_i64(t->engine, o, &is, err));
    t->engine->ops->release(t->engine, o);
    j.a[0] = PART(inner, UINT64_MAX, 1); /* the part has no end: the call fails at once */
    return job_on(t->engine, &j, &o, NULL, err) == SK_EINVAL
               ? ret_i64(t, 0, is, err)
               : SK_ERR(err, SK_EINVAL, "it was taken");
}
static struct sk_view kept;
TASK(keep_part) {
    kept = sk_task_keep_arg(t, 0);
    return ret_i64(t, 0, 1, err);
}
TASK(kept_is) {
    int64_t is = is_part(&kept, (size_t)arg_i64(t, 0), (size_t)arg_i64(t, 1));
    t->engine->ops->view_release(t->engine, &kept);
    return ret_i64(t, 0, is, err);
}

static sk_oid stripes(size_t n) {
    struct sk_err err;
    sk_oid o;
    if (n <= SK_INLINE_MAX) {
        static uint8_t bytes[SK_INLINE_MAX];
        for (size_t i = 0; i < n; i++) bytes[i] = byte_at(i);
        CHECK_OK_ERR(eng->ops->put(eng,
                                   &(struct sk_payload){.kind = KIND_BLOB, .bytes = {bytes, n}}, &o,
                                   &err),
                     &err);
        return o;
    }
    struct sk_buf b;
    CHECK_OK_ERR(eng->ops->buf_alloc(eng, n, &b, &err), &err);
    for (size_t i = 0; i < n; i++) b.data[i] = byte_at(i);
    CHECK_OK_ERR(eng->ops->put(eng,
                               &(struct sk_payload){.kind = KIND_BLOB, .buf = &b, .buf_len = n}, &o,
                               &err),
                 &err);
    return o;
}
static sk_oid part_job(sk_oid o, size_t at, size_t n) {
    return JOB(.fn = "part_is", .a = {PART(o, at, n), VAL((int64_t)at), VAL((int64_t)n)}, .n_a = 3);
}
/* Makes all values that are not in use go to disk. */
static void push_out(void) {
    sk_oid o[14];
    for (int i = 0; i < 14; i++) o[i] = put(MIB, 9);
    for (int i = 0; i < 14; i++) eng_release(o[i]);
}

TEST(part_of_a_value_in_memory) {
    static const size_t SIZES[] = {0, 100, 8000, 70000, 3 * MIB};
    OPEN();
    for (size_t k = 0; k < SK_COUNT(SIZES); k++) {
        size_t n = SIZES[k];
        sk_oid o = stripes(n), inner = o, c;
        CHECK_EQ(eng_take(part_job(o, 0, n)), 1);
        CHECK_EQ(eng_take(part_job(o, n, 0)), 1);
        CHECK_EQ(eng_take(part_job(o, n / 3, n / 4)), 1);
        CHECK_EQ(eng_take(part_job(o, n - n / 5, n / 5)), 1);
        if (n < 8000) {
            eng_release(o);
            continue;
        }
        struct sk_payload p = {.kind = KIND_BLOB,
                               .bytes = {&inner, sizeof inner},
                               .contains = &inner,
                               .n_contains = 1};
        CHECK_OK(eng->ops->put(eng, &p, &c, NULL));
        CHECK_EQ(eng_take(JOB(.fn = "part_of_inner", .a = {REF(c), VAL(123)}, .n_a = 2)), 1);
        eng_release(c);
        eng_release(o);
    }
    close_clean();
}

TEST(part_of_a_value_on_disk) {
    enum { N = 6 * MIB };
    OPEN();
    sk_oid small = stripes(50000), o = stripes(N); /* the older value is spilled first */
    push_out();
    CHECK_EQ(eng_stat(eng, "spill_objects_on_disk"), 2);
    uint64_t back = eng_stat(eng, "restored_bytes"), io = eng_stat(eng, "spill_io_read_bytes");
    CHECK_EQ(eng_take(part_job(o, 3 * MIB - 7, 100000)), 1);
    CHECK_EQ(eng_stat(eng, "restored_bytes") - back, 100000);
    /* whole chunks of 4 KiB with their sums, in whole pages */
    CHECK_LE(eng_stat(eng, "spill_io_read_bytes") - io, 100000 + 4 * 4096);
    CHECK_EQ(eng_take(part_job(o, N, 0)), 1);
    CHECK_EQ(eng_stat(eng, "restored_bytes") - back, 100000); /* nothing is read without need */
    CHECK_EQ(eng_take(part_job(o, 0, 1)), 1);
    CHECK_EQ(eng_take(part_job(o, N - 1, 1)), 1);
    CHECK_EQ(eng_take(part_job(small, 20000, 20000)), 1);
    CHECK_EQ(eng_take(JOB(.fn = "parts_are",
                          .a = {PART(o, 65536, 1000), PART(o, 65535, 1000), VAL(65536), VAL(65535)},
                          .n_a = 4)),
             2);
    CHECK_EQ(eng_stat(eng, "restored_bytes") - back, 100000 + 2 + 20000 + 2000);
    checked();
    CHECK_EQ(eng_take(part_job(o, 0, N)), 1);
    /* the memory of parts was freed with their tasks, and the whole values are still on disk */
    CHECK_EQ(eng_stat(eng, "spill_objects_on_disk"), 2);
    sk_oid inner = o, c;
    CHECK_OK(eng->ops->put(
        eng,
        &(struct sk_payload){
            .kind = KIND_BLOB, .bytes = {&inner, 8}, .contains = &inner, .n_contains = 1},
        &c, NULL));
    CHECK_EQ(eng_take(JOB(.fn = "part_of_inner", .a = {REF(c), VAL(4 * MIB)}, .n_a = 2)), 1);
    eng_release(c), eng_release(o), eng_release(small);
    close_clean();
}

static bool read_back(void *bytes) {
    return eng_stat(eng, "restored_bytes") == *(const uint64_t *)bytes;
}

TEST(parts_are_read_ahead_for_tasks_in_line) {
    enum { N = 24, LEN = 100000 }; /* queued behind two busy workers */
    OPEN();
    sk_oid o = stripes(6 * MIB), holds[2], c[N];
    push_out();
    /* all CPUs */
    for (int i = 0; i < 2; i++) holds[i] = JOB(.fn = "hold", .a = {VAL(1)}, .n_a = 1);
    CHECK(gate_wait(0, 2));
    for (int i = 0; i < N; i++)
        c[i] =
            JOB(.fn = "part_is",
                .a = {PART(o, 2u * LEN * (unsigned)i, LEN), VAL(2 * LEN * i), VAL(LEN)}, .n_a = 3);
    uint64_t all = (uint64_t)N * LEN;
    /* no task has begun */
    CHECK_OK(eng->ops->drive(eng, read_back, &all, test_patience(), NULL));
    checked();
    /* its part is freed with the task */
    CHECK_OK(eng->ops->cancel(eng, (sk_tid){c[0].v}, 0, NULL));
    gate_add(1, 1);
    for (int i = 1; i < N; i++) CHECK_EQ(eng_take(c[i]), 1);
    for (int i = 0; i < 2; i++) CHECK_EQ(eng_take(holds[i]), 1);
    CHECK_EQ(eng_stat(eng, "restored_bytes"), all);
    eng_release(c[0]), eng_release(o);
    close_clean();
}

TEST(part_that_is_none) {
    char text[600];
    struct sk_err err;
    sk_oid o, none;
    OPEN();
    o = stripes(70000);
    CHECK_EQ(eng_error(part_job(o, 69999, 2), text, sizeof text), SK_EINVAL);
    CHECK_STR_HAS(text,
                  "argument 0: bytes 69999 to 70001 were asked for, of an object of 70000 bytes");
    CHECK_EQ(eng_error(part_job(o, 70001, 0), text, sizeof text), SK_EINVAL);
    /* the value does not exist when the task is submitted */
    sk_oid late = JOB(.fn = "stripes", .a = {VAL(70000)}, .n_a = 1);
    CHECK_EQ(eng_error(part_job(late, 70000, 1), text, sizeof text), SK_EINVAL);
    CHECK_EQ(eng_take(part_job(late, 69999, 1)), 1);
    struct job j = {.fn = "part_is", .a = {PART(o, 1, UINT64_MAX), VAL(0), VAL(0)}, .n_a = 3};
    CHECK_RC(job_on(eng, &j, &none, NULL, &err), SK_EINVAL);
    j.a[0] = VAL(1);
    j.a[0].part = true;
    CHECK_RC(job_on(eng, &j, &none, NULL, &err), SK_EINVAL);
    sk_oid bad = JOB(.fn = "twice", .a = {VAL(1), REF(o)}, .n_a = 2, .retries = 0);
    CHECK_EQ(eng_error(part_job(bad, 5, UINT32_MAX), text, sizeof text), SK_EINVAL);
    /* the task fails with the value's own error, whichever part it takes */
    CHECK_STR_HAS(text, "not equal");
    eng_release(o), eng_release(late), eng_release(bad);
    close_clean();
}

TEST(part_is_kept) {
    sk_oid ready;
    sk_aid a;
    struct sk_err err;
    OPEN();
    sk_oid o = stripes(3 * MIB);
    struct job init = {.fn = "actor_init"};
    struct sk_actor_spec as = {.init = spec_of(&init)};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    for (int disk = 0; disk < 2; disk++) {
        if (disk) push_out();
        CHECK_EQ(eng_stat(eng, "spill_objects_on_disk"), (uint64_t)disk);
        CHECK_EQ(
            eng_take(JOB(.fn = "keep_part", .a = {PART(o, MIB + 3, 200000)}, .n_a = 1, .actor = a)),
            1);
        push_out();
        CHECK_EQ(
            eng_take(JOB(.fn = "kept_is", .a = {VAL(MIB + 3), VAL(200000)}, .n_a = 2, .actor = a)),
            1);
    }
    eng_release(o), eng_release(ready);
    sk_actor_release(eng, a);
    close_clean();
}

TEST(part_is_read_again_for_who_is_killed) {
    OPEN(.fault = "worker.before_run:kill:2", .fault_workers = 2);
    sk_oid o = stripes(6 * MIB), c[8];
    push_out();
    for (int i = 0; i < 8; i++)
        c[i] = JOB(.fn = "part_is",
                   .a = {PART(o, 700000u * (unsigned)i, 600000), VAL(700000 * i), VAL(600000)},
                   .n_a = 3, .retries = 5);
    for (int i = 0; i < 8; i++) CHECK_EQ(eng_take(c[i]), 1);
    CHECK_GT(eng_stat(eng, "worker_deaths"), 0);
    /* the values were restored, and are still in memory */
    CHECK_EQ(eng_stat(eng, "restored_bytes"), 8 * 600000);
    eng_release(o);
    close_clean();
}

TEST(part_of_a_damaged_value) {
    /* the whole is made again, or the task fails as if it needed the whole */
    char text[1100];
    OPEN();
    CHECK_OK(sk_fault_set("spill.corrupt", SK_FAULT_FAIL, 0));
    sk_oid put = stripes(6 * MIB),
           made = JOB(.fn = "stripes", .a = {VAL(5 * MIB)}, .n_a = 1, .retries = 3);
    bool ready;
    CHECK_OK(eng->ops->wait(eng, &made, 1, 1, test_patience(), &ready, NULL));
    push_out();
    CHECK_EQ(eng_stat(eng, "spill_objects_on_disk"), 2);
    sk_fault_clear();
    CHECK_EQ(eng_take(part_job(made, 5 * MIB / 2 - 32768, 65536)), 1);
    CHECK_EQ(eng_stat(eng, "reruns"), 1);
    CHECK_EQ(eng_error(part_job(put, 3 * MIB - 32768, 65536), text, sizeof text), SK_ELOST);
    CHECK_STR_HAS(text, "wrong checksum");
    eng_release(put), eng_release(made);
    close_clean();
}

TEST_LARGE(part_random, 120) {
    /* parts and whole values, in memory and on disk, of several sizes at once */
    enum { N = 12, JOBS = 40 };
    sk_oid o[N], c[JOBS];
    size_t size[N];
    OPEN(.cpus = 4);
    for (int i = 0; i < N; i++)
        o[i] = stripes(size[i] = 9000 + (size_t)test_below(i % 4 ? 4 * MIB : 100000));
    for (int r = 0; r < test_rounds(10); r++) {
        for (int i = 0; i < JOBS; i++) {
            int k = (int)test_below(N);
            size_t at = (size_t)test_below(size[k] + 1), n = (size_t)test_below(size[k] - at + 1);
            c[i] = test_below(5)
                       ? part_job(o[k], at, n)
                       : JOB(.fn = "part_is", .a = {REF(o[k]), VAL(0), VAL((int64_t)size[k])},
                             .n_a = 3, .retries = 3);
        }
        if (r % 3 == 0) push_out();
        for (int i = 0; i < JOBS; i++) CHECK_EQ(eng_take(c[i]), 1);
        checked();
    }
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST(spill_puts_come_back) {
    enum { N = 1000, SIZE = 70000 };
    static sk_oid o[N];
    OPEN();
    for (int i = 0; i < N; i++) o[i] = put(SIZE + (size_t)i, (uint8_t)(i % 251));
    CHECK_GT(eng_stat(eng, "spilled_bytes"), (uint64_t)(N - 240) * SIZE);
    CHECK_LE(eng_stat(eng, "spilled_bytes"), (uint64_t)N * (SIZE + N));
    checked();
    for (int i = 0; i < N; i++) is_blob(o[i], SIZE + (size_t)i, (uint8_t)(i % 251));
    uint64_t wrote = eng_stat(eng, "spilled_bytes");
    for (int r = 0; r < 500; r++) {
        int i = (int)test_below(N);
        is_blob(o[i], SIZE + (size_t)i, (uint8_t)(i % 251));
    }
    CHECK_LE(eng_stat(eng, "spilled_bytes"), (uint64_t)N * (SIZE + N)); /* each at most once */
    CHECK_GE(eng_stat(eng, "spilled_bytes"), wrote);
    checked();
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST(spill_fits_never_spills) {
    OPEN();
    sk_oid o[14];
    for (int i = 0; i < 14; i++) o[i] = put(MIB, (uint8_t)i);
    CHECK_EQ(eng_stat(eng, "spilled_objects"), 0);
    for (int i = 0; i < 14; i++) eng_release(o[i]);
    close_clean();
}

TEST(spill_sizes) {
    /* from the least that is stored to half of the store, mixed: pieces of free room must be made
     * large again */
    enum { N = 120 };
    sk_oid o[N];
    size_t size[N];
    OPEN();
    for (int i = 0; i < N; i++) {
        size[i] = SK_INLINE_MAX + 1 +
                  (size_t)test_below(i % 10 == 0 ? 8 * MIB
                                     : i % 3     ? 100000
                                                 : MIB);
        o[i] = put(size[i], (uint8_t)i);
        if (i % 7 == 3) {
            int k = (int)test_below((uint64_t)i + 1);
            is_blob(o[k], size[k], (uint8_t)k);
        }
    }
    for (int i = N; i-- > 0;) is_blob(o[i], size[i], (uint8_t)i);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST_LARGE(spill_results_and_arguments, 60) {
    enum { N = 150, SIZE = 500000 };
    static sk_oid o[N], c[N];
    OPEN();
    for (int i = 0; i < N; i++) o[i] = JOB(.fn = "blob", .a = {VAL(SIZE), VAL(i % 100)}, .n_a = 2);
    for (int i = 0; i < N; i++)
        c[i] = JOB(.fn = "blob_is", .a = {REF(o[i]), VAL(SIZE), VAL(i % 100)}, .n_a = 3);
    for (int i = 0; i < N; i++) CHECK_EQ(eng_take(c[i]), 1);
    for (int i = 0; i < N; i++)
        c[i] = JOB(.fn = "twice", .a = {REF(o[i]), REF(o[(i + 100) % N > i ? (i + 100) % N : i])},
                   .n_a = 2, .retries = 0);
    int equal = 0;
    for (int i = 0; i < N; i++) {
        int k = (i + 100) % N > i ? (i + 100) % N : i;
        if (k % 100 == i % 100) is_blob(c[i], SIZE, (uint8_t)(i % 100)), equal++, eng_release(c[i]);
        else {
            char text[600];
            CHECK_EQ(eng_error(c[i], text, sizeof text), SK_EINVAL);
        }
    }
    CHECK_GT(equal, 50);
    CHECK_GT(eng_stat(eng, "restored_objects"), 0);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST_LARGE(spill_stream, 60) {
    enum { N = 200, SIZE = 400000 };
    static sk_oid o[N];
    struct sk_err err;
    sk_tid t;
    OPEN();
    struct job j = {.fn = "blobs", .a = {VAL(N), VAL(SIZE)}, .n_a = 2, .n_returns = SK_STREAMING};
    CHECK_OK_ERR(job_on(eng, &j, NULL, &t, &err), &err);
    for (int i = 0; i < N; i++)
        CHECK_OK_ERR(eng->streams->next(eng, t, test_patience(), &o[i], &err), &err);
    sk_oid end;
    CHECK_RC(eng->streams->next(eng, t, test_patience(), &end, &err), SK_EDONE);
    eng->streams->drop(eng, t);
    for (int i = 0; i < N; i++) is_blob(o[i], SIZE, (uint8_t)(i % 251));
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

/* ---- events of spills ------------------------------------------------------------------------ */

enum { FOLLOWED = 60 };
struct follower {
    struct sk_sink s;
    sk_oid o[FOLLOWED];
    bool disk[FOLLOWED];
    int n, ended, spilled, restored, batches, twice, strange;
};

static void on_event(struct sk_sink *s, const struct sk_event *ev, size_t n) {
    struct follower *f = sk_container_of(s, struct follower, s);
    bool moves = ev->kind == SK_EV_SPILLED || ev->kind == SK_EV_RESTORED;
    f->batches += moves;
    for (size_t i = 0; i < n; i++) {
        if (ev[i].kind == SK_EV_YIELDED) f->o[f->n++] = ev[i].oid;
        f->ended += ev[i].kind == SK_EV_DONE || ev[i].kind == SK_EV_FAILED;
        if (!moves) continue;
        bool disk = ev[i].kind == SK_EV_SPILLED;
        f->spilled += disk;
        f->restored += !disk;
        int at = 0;
        while (at < f->n && f->o[at].v != ev[i].oid.v) at++;
        f->strange += at == f->n || ev[i].size_bytes != MIB || ev[i].node != SK_LOCAL_NODE ||
                      ev[i].task.v || (ev[i].run_ns > 0) != disk;
        if (at == f->n) continue;
        f->twice += f->disk[at] == disk;
        f->disk[at] = disk;
    }
}
static bool has_ended(void *arg) { return ((struct follower *)arg)->ended != 0; }

static struct follower *follow(int n, bool really) {
    struct sk_err err;
    sk_tid t;
    struct follower *f = sk_calloc(SK_TAG_TEST, sizeof *f);
    f->s.on_events = on_event;
    if (really) CHECK_OK_ERR(eng->moves->follow(eng, &f->s, &err), &err);
    struct job j = {.fn = "blobs",
                    .a = {VAL(n), VAL(MIB)},
                    .n_a = 2,
                    .n_returns = SK_STREAMING,
                    .retries = -1,
                    .sink = &f->s};
    CHECK_OK_ERR(job_on(eng, &j, NULL, &t, &err), &err);
    CHECK_OK(eng->ops->drive(eng, has_ended, f, test_patience(), NULL));
    CHECK_EQ(f->n, n);
    return f;
}

/* Checks that the reported numbers equal the actual ones, with nothing under way. */
static void follower_knows(const struct follower *f) {
    sk_driver_lock(eng);
    sk_space_step(L());
    for (int i = 0; i < f->n; i++) {
        const struct sk_obj *o = sk_obj_get(L(), f->o[i].v);
        CHECK_EQ(f->disk[i], o && o->state == SK_O_READY && o->where == SK_V_DISK);
    }
    sk_driver_unlock(eng);
    CHECK_EQ(f->twice + f->strange, 0);
}

TEST_LARGE(spill_is_told_to_who_follows, 60) {
    OPEN();
    struct follower *f = follow(FOLLOWED, true), *deaf = follow(30, false);
    follower_knows(f);
    CHECK_GT(f->spilled, FOLLOWED - 16);
    CHECK_LT(f->batches, f->spilled); /* not one at a time */
    CHECK_EQ(deaf->batches, 0);
    for (int i = 0; i < FOLLOWED; i++) is_blob(f->o[i], MIB, (uint8_t)i);
    follower_knows(f);
    CHECK_GT(f->restored, FOLLOWED - 16);
    int told = f->spilled + f->restored;
    eng->moves->unfollow(eng, &f->s);
    /* and the others go to disk for these */
    for (int i = 0; i < 30; i++) is_blob(deaf->o[i], MIB, (uint8_t)i), eng_release(deaf->o[i]);
    CHECK_EQ(f->spilled + f->restored, told);
    for (int i = 0; i < FOLLOWED; i++) eng_release(f->o[i]);
    sk_free(f);
    sk_free(deaf);
    close_clean();
}

TEST_LARGE(spill_is_told_of_what_was_damaged, 60) {
    /* the lost value is no longer on disk, until the new one is spilled */
    OPEN();
    CHECK_OK(sk_fault_set("spill.corrupt", SK_FAULT_FAIL, 0));
    struct follower *f = follow(40, true);
    sk_fault_clear();
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < 40; i++) is_blob(f->o[i], MIB, (uint8_t)i);
    CHECK_GT(eng_stat(eng, "spill_objects_damaged"), 4);
    follower_knows(f);
    CHECK_GT(f->spilled, 40);
    for (int i = 0; i < 40; i++) eng_release(f->o[i]);
    eng->moves->unfollow(eng, &f->s);
    sk_free(f);
    close_clean();
}

TEST_LARGE(spill_is_told_of_whose_worker_is_killed, 120) {
    /* at each of its yields: what was told of the first ones stands */
    for (int n = 1; n < 40; n += 6) {
        char fault[64];
        snprintf(fault, sizeof fault, "worker.after_yield:kill:%d", n);
        OPEN(.fault = fault, .fault_workers = 1);
        struct follower *f = follow(40, true);
        CHECK_GT(eng_stat(eng, "worker_deaths"), 0);
        for (int i = 0; i < 40; i++) is_blob(f->o[i], MIB, (uint8_t)i);
        follower_knows(f);
        CHECK_GT(f->spilled, 20);
        for (int i = 0; i < 40; i++) eng_release(f->o[i]);
        eng->moves->unfollow(eng, &f->s);
        sk_free(f);
        close_clean();
    }
}

TEST_LARGE(spill_gets_of_workers, 60) {
    /* each needs more than half of the store at once: one after the other */
    enum { N = 20, SIZE = 500000, SETS = 6 };
    sk_oid o[SETS][N], list[SETS], c[SETS];
    struct sk_err err;
    OPEN(.cpus = 4);
    for (int s = 0; s < SETS; s++) {
        for (int i = 0; i < N; i++) o[s][i] = put(SIZE, (uint8_t)(s * 20 + i));
        struct sk_payload p = {
            .kind = KIND_BLOB, .bytes = {o[s], sizeof o[s]}, .contains = o[s], .n_contains = N};
        CHECK_OK_ERR(eng->ops->put(eng, &p, &list[s], &err), &err);
    }
    for (int r = 0; r < 3; r++) {
        for (int s = 0; s < SETS; s++)
            c[s] =
                JOB(.fn = "get_all", .a = {REF(list[s]), VAL(N), VAL(SIZE), VAL(s * 20)}, .n_a = 4);
        for (int s = 0; s < SETS; s++) CHECK_EQ(eng_take(c[s]), N);
    }
    checked();
    for (int s = 0; s < SETS; s++) {
        eng_release(list[s]);
        for (int i = 0; i < N; i++) eng_release(o[s][i]);
    }
    close_clean();
}

TEST_LARGE(spill_get_of_more_than_fits, 60) {
    /* the error says so, and no pin is left */
    enum { N = 40 };
    sk_oid o[N];
    struct sk_view v[N];
    struct sk_err err;
    OPEN(.overflow_bytes = UINT64_MAX);
    for (int i = 0; i < N; i++) o[i] = put(MIB, (uint8_t)i);
    CHECK_RC(eng->ops->get(eng, o, N, test_patience(), v, &err), SK_EFULL);
    CHECK_STR_HAS(err.msg, "cannot be read back");
    CHECK_EQ(eng_stat(eng, "store_pins"), 0);
    for (int i = 0; i < N; i++) is_blob(o[i], MIB, (uint8_t)i);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST_LARGE(spill_actor_calls, 60) {
    enum { N = 60, SIZE = MIB };
    sk_oid o[N], c[N], ready;
    sk_aid a;
    struct sk_err err;
    OPEN();
    struct job init = {.fn = "actor_init"};
    struct sk_actor_spec as = {.init = spec_of(&init)};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    for (int i = 0; i < N; i++) {
        o[i] = put(SIZE, (uint8_t)i);
        c[i] = JOB(.fn = "blob_is", .a = {REF(o[i]), VAL(SIZE), VAL(i)}, .n_a = 3, .actor = a);
    }
    for (int i = 0; i < N; i++) CHECK_EQ(eng_take(c[i]), 1);
    /* Results are as large as the arguments, and all calls are queued at once: values of calls that
     * wait on the worker must not stay pinned. */
    for (int i = 0; i < N; i++)
        c[i] = JOB(.fn = "twice", .a = {REF(o[i]), REF(o[i])}, .n_a = 2, .actor = a);
    for (int i = 0; i < N; i++) is_blob(c[i], SIZE, (uint8_t)i);
    for (int i = 0; i < N; i++) eng_release(o[i]), eng_release(c[i]);
    eng_release(ready);
    sk_actor_release(eng, a);
    close_clean();
}

struct putter {
    size_t n;
    sk_rc rc;
    sk_oid o;
    struct sk_err err;
    int64_t took_ns;
};
static void *put_main(void *arg) {
    struct putter *p = arg;
    int64_t t0 = sk_now_ns();
    p->rc = try_put(p->n, 9, &p->o, &p->err);
    p->took_ns = sk_now_ns() - t0;
    return NULL;
}

TEST_LARGE(spill_put_waits_for_a_task, 60) {
    /* all memory is in use by a task: a put waits until that ends, however long it takes */
    pthread_t th;
    OPEN();
    sk_oid big = put(12 * MIB, 1);
    sk_oid h = JOB(.fn = "hold", .a = {REF(big)}, .n_a = 1);
    CHECK(gate_wait(0, 1));
    struct putter p = {.n = 8 * MIB};
    CHECK_EQ(pthread_create(&th, NULL, put_main, &p), 0);
    int64_t until = sk_now_ns() + 1500 * SK_MS;
    while (sk_now_ns() < until) { /* longer than a wait that no process could end */
        sk_driver_lock(eng);
        CHECK_EQ(p.took_ns, 0);
        sk_driver_unlock(eng);
        usleep(10000); /* the time itself is what is tried */
    }
    gate_add(1, 1);
    CHECK_EQ(pthread_join(th, NULL), 0);
    CHECK_MSG(p.rc == SK_OK, "%s", p.err.msg);
    CHECK_EQ(eng_take(h), 1);
    is_blob(p.o, 8 * MIB, 9);
    is_blob(big, 12 * MIB, 1);
    eng_release(big);
    eng_release(p.o);
    close_clean();
}

TEST_LARGE(spill_full_of_views, 60) {
    struct sk_err err;
    sk_oid x;
    OPEN(.overflow_bytes = UINT64_MAX);
    sk_oid o = put(12 * MIB, 1);
    struct sk_view v = view(o);
    CHECK_RC(try_put(8 * MIB, 2, &x, &err), SK_EFULL);
    CHECK_STR_HAS(err.msg, "in use");
    CHECK_RC(try_put(17 * MIB, 2, &x, &err), SK_EFULL); /* never */
    CHECK_STR_HAS(err.msg, "larger than the store");
    CHECK(view_is(&v, 12 * MIB, 1));
    eng->ops->view_release(eng, &v);
    CHECK_OK_ERR(try_put(8 * MIB, 2, &x, &err), &err);
    is_blob(o, 12 * MIB, 1);
    eng_release(o);
    eng_release(x);
    close_clean();
}

TEST_LARGE(spill_disk_full, 60) {
    /* one error (how soon: world_sim) from a put and from a task; what is there is
     * whole, and goes on when there is room */
    static const char *const point[] = {"spill.nospace", "spill.write", "spill.open"};
    for (size_t k = 0; k < SK_COUNT(point); k++) {
        struct sk_err err;
        sk_oid o[20], x;
        char text[1200];
        int n = 0;
        OPEN(.overflow_bytes = UINT64_MAX);
        CHECK_OK(sk_fault_set(point[k], SK_FAULT_FAIL, 0));
        sk_rc rc;
        while ((rc = try_put(MIB, (uint8_t)n, &o[n], &err)) == SK_OK) CHECK_LT(++n, 20);
        CHECK_RC(rc, k == 0 ? SK_ENOSPC : SK_EIO);
        CHECK_STR_HAS(err.msg, "nothing can be spilled");
        CHECK_STR_HAS(err.msg, test_dir());
        if (k == 0)
            CHECK_EQ(eng_error(JOB(.fn = "blob", .a = {VAL(5 * MIB), VAL(1)}, .n_a = 2), text,
                               sizeof text),
                     SK_ENOSPC);
        sk_fault_clear();
        for (int i = 0; i < n; i++) is_blob(o[i], MIB, (uint8_t)i);
        CHECK_OK_ERR(try_put(8 * MIB, 3, &x, &err), &err); /* within the time of a retry */
        for (int i = 0; i < n; i++) is_blob(o[i], MIB, (uint8_t)i);
        for (int i = 0; i < n; i++) eng_release(o[i]);
        eng_release(x);
        close_clean();
    }
}

TEST_LARGE(spill_quota_is_kept, 60) {
    struct sk_err err;
    sk_oid o[64];
    int n = 0;
    OPEN(.spill_bytes = 20 * MIB);
    sk_rc rc;
    while ((rc = try_put(MIB, (uint8_t)n, &o[n], &err)) == SK_OK) CHECK_LT(++n, 50);
    CHECK_RC(rc, SK_ENOSPC);
    CHECK_STR_HAS(err.msg, "quota");
    CHECK_GT(n, 28);
    CHECK_LE(eng_stat(eng, "spill_disk_bytes"), 20 * MIB);
    for (int r = 0; r < 300; r++) {
        /* disk and store are full: one by one all can be read, for as long as one likes */
        int i = (int)test_below((uint64_t)n);
        is_blob(o[i], MIB, (uint8_t)i);
    }
    /* longer than two retries of the disk */
    for (int64_t until = sk_now_ns() + 1200 * SK_MS; sk_now_ns() < until;)
        for (int i = 0; i < n; i++) is_blob(o[i], MIB, (uint8_t)i);
    for (int i = 0; i < 10; i++) eng_release(o[i]);
    CHECK_OK_ERR(try_put(MIB, 77, &o[0], &err), &err);
    for (int i = 10; i < n; i++) is_blob(o[i], MIB, (uint8_t)i);
    is_blob(o[0], MIB, 77);
    eng_release(o[0]);
    for (int i = 10; i < n; i++) eng_release(o[i]);
    close_clean();
}

/* ---- the overflow: what can neither be in the store nor leave it ----------------------------- */

TASK(grown) { return ret_blob(t, 0, 2 * t->args[0].len, t->args[0].data[0], err); }
/* The first attempt dies while it writes its output. */
TASK(grown_or_killed) {
    if (gate_add(2, 1) > 1) return ret_blob(t, 0, 2 * t->args[0].len, t->args[0].data[0], err);
    struct sk_buf b;
    SK_TRY(t->engine->ops->buf_alloc(t->engine, 2 * t->args[0].len, &b, err));
    memset(b.data, 5, b.len);
    raise(SIGKILL);
    return SK_OK;
}

static uint64_t overflow(void) { return eng_stat(eng, "overflow_bytes_on_disk"); }

TEST_LARGE(overflow_of_views_and_of_large_objects, 60) {
    struct sk_err err;
    OPEN();
    sk_oid o = put(12 * MIB, 1);
    struct sk_view v = view(o);
    /* all but 4 MiB is being read; larger than the store */
    sk_oid x = put(8 * MIB, 2), y = put(50 * MIB, 3);
    CHECK_EQ(overflow(), 58 * MIB);
    CHECK_GE(eng_stat(eng, "spill_disk_bytes"), 58 * MIB);
    checked();
    is_blob(x, 8 * MIB, 2);
    is_blob(y, 50 * MIB, 3);
    CHECK_EQ(eng_take(JOB(.fn = "blob_is", .a = {REF(y), VAL(50 * MIB), VAL(3)}, .n_a = 3)), 1);
    sk_oid z = JOB(.fn = "grown", .a = {REF(y)}, .n_a = 1); /* a worker makes one */
    is_blob(z, 100 * MIB, 3);
    CHECK(view_is(&v, 12 * MIB, 1));
    eng->ops->view_release(eng, &v);
    sk_oid w = put(12 * MIB, 4); /* the store has room again */
    CHECK_EQ(overflow(), 158 * MIB);
    is_blob(o, 12 * MIB, 1);
    eng_release(x), eng_release(y), eng_release(z), eng_release(o), eng_release(w);
    (void)err;
    close_clean();
}

TEST_LARGE(overflow_of_a_get_of_more_than_fits, 60) {
    enum { N = 40 };
    sk_oid o[N];
    struct sk_view v[N];
    struct sk_err err;
    OPEN();
    for (int i = 0; i < N; i++) o[i] = put(MIB, (uint8_t)i);
    CHECK_OK_ERR(eng->ops->get(eng, o, N, test_patience(), v, &err), &err);
    for (int i = 0; i < N; i++) CHECK(view_is(&v[i], MIB, (uint8_t)i));
    CHECK_GT(overflow(), 20 * MIB);
    checked();
    for (int i = 0; i < N; i++) eng->ops->view_release(eng, &v[i]);
    for (int i = 0; i < N; i++) is_blob(o[i], MIB, (uint8_t)i);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST_LARGE(overflow_of_results, 60) { /* each of two tasks reads 7 of 16 MiB and makes 14 */
    sk_oid a, b, o[6];
    OPEN();
    a = put(7 * MIB, 1), b = put(7 * MIB, 2);
    for (int i = 0; i < 6; i++) o[i] = JOB(.fn = "grown", .a = {REF(i % 2 ? b : a)}, .n_a = 1);
    for (int i = 0; i < 6; i++) is_blob(o[i], 14 * MIB, (uint8_t)(1 + i % 2));
    for (int i = 0; i < 6; i++) eng_release(o[i]);
    eng_release(a), eng_release(b);
    close_clean();
}

TEST(overflow_of_a_killed_worker) {
    OPEN();
    sk_oid a = put(10 * MIB, 1);
    sk_oid o = JOB(.fn = "grown_or_killed", .a = {REF(a)}, .n_a = 1, .retries = 1);
    is_blob(o, 20 * MIB, 1);
    CHECK_EQ(overflow(), 20 * MIB); /* the memory of the dead process is free */
    eng_release(a), eng_release(o);
    close_clean();
}

TEST_LARGE(overflow_refused, 60) {
    /* no such file: a full store is an error as without it; no disk for it: one error that says
     * both */
    struct sk_err err;
    sk_oid x;
    CHECK_OK(sk_fault_set("seg.tail", SK_FAULT_FAIL, 1));
    OPEN();
    CHECK_RC(try_put(17 * MIB, 2, &x, &err), SK_EFULL);
    CHECK_STR_HAS(err.msg, "larger than the store");
    close_clean();
    OPEN();
    sk_oid o = put(12 * MIB, 1);
    struct sk_view v = view(o);
    CHECK_OK(sk_fault_set("seg.fill", SK_FAULT_FAIL, 0));
    CHECK_RC(try_put(17 * MIB, 2, &x, &err), SK_ENOSPC);
    CHECK_STR_HAS(err.msg, "larger than the store");
    CHECK_STR_HAS(err.msg, "on disk it cannot be");
    CHECK_RC(try_put(8 * MIB, 2, &x, &err), SK_EFULL);
    CHECK_STR_HAS(err.msg, "in use");
    sk_fault_clear();
    CHECK_OK_ERR(try_put(8 * MIB, 2, &x, &err), &err);
    CHECK_EQ(overflow(), 8 * MIB);
    eng->ops->view_release(eng, &v);
    eng_release(o), eng_release(x);
    close_clean();
    OPEN(.spill_bytes = 20 * MIB);
    CHECK_RC(try_put(21 * MIB, 2, &x, &err), SK_ENOSPC);
    CHECK_STR_HAS(err.msg, "quota");
    CHECK_OK_ERR(try_put(18 * MIB, 2, &x, &err), &err);
    is_blob(x, 18 * MIB, 2);
    eng_release(x);
    close_clean();
}

TEST_LARGE(spill_damaged, 60) {
    /* a result is made again by its task; a put value is an error that says what happened */
    enum { N = 40, SIZE = MIB };
    sk_oid o[N], p[4];
    struct sk_err err;
    struct sk_view v;
    OPEN();
    CHECK_OK(sk_fault_set("spill.corrupt", SK_FAULT_FAIL, 0));
    for (int i = 0; i < 4; i++) p[i] = put(SIZE, (uint8_t)i);
    for (int i = 0; i < N; i++)
        o[i] = JOB(.fn = "blob", .a = {VAL(SIZE), VAL(i)}, .n_a = 2, .retries = 3);
    for (int i = 0; i < N; i++) {
        bool ready;
        CHECK_OK_ERR(eng->ops->wait(eng, &o[i], 1, 1, test_patience(), &ready, &err), &err);
    }
    sk_fault_clear();
    int bad = 0;
    for (int i = 0; i < 4; i++) {
        CHECK_OK_ERR(eng->ops->get(eng, &p[i], 1, test_patience(), &v, &err), &err);
        if (SK_KIND_IS_ERROR(v.kind)) {
            CHECK_STR_HAS((const char *)v.data + 4, "wrong checksum");
            CHECK_STR_HAS((const char *)v.data + 4, "put()");
            bad++;
        }
        eng->ops->view_release(eng, &v);
        eng_release(p[i]);
    }
    CHECK_EQ(bad, 4);
    sk_oid c[N];
    for (int i = 0; i < N; i++)
        c[i] = JOB(.fn = "blob_is", .a = {REF(o[i]), VAL(SIZE), VAL(i)}, .n_a = 3);
    for (int i = 0; i < N; i++) CHECK_EQ(eng_take(c[i]), 1);
    CHECK_GT(eng_stat(eng, "reruns"), 0);
    CHECK_GT(eng_stat(eng, "spill_objects_damaged"), 4);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST_LARGE(spill_closed_in_the_middle, 60) {
    for (int r = 0; r < 4; r++) {
        OPEN();
        for (int i = 0; i < 30 + 5 * r; i++) (void)put(MIB, (uint8_t)i);
        eng_close_now();
    }
}

/* Random operations, against the expected values; some workers die. */
TEST_LARGE(spill_random, 120) {
    enum { N = 80 };
    struct {
        sk_oid o;
        size_t n;
        uint8_t fill;
    } x[N] = {0};
    struct sk_err err;
    OPEN(.cpus = 3, .fault = "worker.before_run:kill:40", .fault_workers = 4);
    for (int r = 0; r < test_rounds(1500); r++) {
        int i = (int)test_below(N), k = (int)test_below(N);
        switch (test_below(6)) {
        case 0:
        case 1:
            if (x[i].o.v) break;
            x[i].n = SK_INLINE_MAX + 1 + (size_t)test_below(r % 9 ? 300000 : 3 * MIB);
            x[i].fill = (uint8_t)test_rand();
            x[i].o = test_below(2) ? put(x[i].n, x[i].fill)
                                   : JOB(.fn = "blob", .a = {VAL((int64_t)x[i].n), VAL(x[i].fill)},
                                         .n_a = 2, .retries = 30);
            break;
        case 2:
            if (x[i].o.v && test_below(2)) eng_release(x[i].o), x[i].o.v = 0;
            break;
        case 3:
            if (x[i].o.v) is_blob(x[i].o, x[i].n, x[i].fill);
            break;
        case 4:
            if (x[i].o.v)
                CHECK_EQ(eng_take(JOB(.fn = "blob_is",
                                      .a = {REF(x[i].o), VAL((int64_t)x[i].n), VAL(x[i].fill)},
                                      .n_a = 3, .retries = 30)),
                         1);
            break;
        default: {
            if (!x[i].o.v || !x[k].o.v || x[i].n + x[k].n > 5 * MIB) break;
            sk_oid two[2] = {x[i].o, x[k].o};
            struct sk_view v[2];
            CHECK_OK_ERR(eng->ops->get(eng, two, 2, test_patience(), v, &err), &err);
            CHECK(view_is(&v[0], x[i].n, x[i].fill) && view_is(&v[1], x[k].n, x[k].fill));
            eng->ops->view_release(eng, &v[0]);
            eng->ops->view_release(eng, &v[1]);
        }
        }
        if (r % 50 == 0) checked();
    }
    CHECK_GT(eng_stat(eng, "spilled_objects"), 0);
    CHECK_GT(eng_stat(eng, "restored_objects"), 0);
    for (int i = 0; i < N; i++)
        if (x[i].o.v) eng_release(x[i].o);
    close_clean();
}

struct getter {
    const sk_oid *o;
    size_t n;
    int bad;
};
static void *get_main(void *arg) {
    struct getter *g = arg;
    for (int r = 0; r < 3; r++)
        for (size_t i = 0; i < g->n; i++) {
            struct sk_err err;
            struct sk_view v;
            if (eng->ops->get(eng, &g->o[i], 1, test_patience(), &v, &err) != SK_OK) {
                g->bad++;
                continue;
            }
            g->bad += !view_is(&v, MIB, (uint8_t)i);
            eng->ops->view_release(eng, &v);
        }
    return NULL;
}

/* Gets the object that is its argument when it exists. */
static void *wait_main(void *arg) {
    bool ready = false;
    return eng->ops->wait(eng, arg, 1, 1, test_patience(), &ready, NULL) == SK_OK && ready ? arg
                                                                                           : NULL;
}

TEST_LARGE(spill_threads, 60) { /* some get while one waits for what takes long, and others put */
    enum { N = 30 };
    sk_oid o[N];
    pthread_t th[3], w;
    OPEN();
    for (int i = 0; i < N; i++) o[i] = put(MIB, (uint8_t)i);
    sk_oid small = put(20000, 1), h = JOB(.fn = "hold", .a = {REF(small)}, .n_a = 1);
    struct getter g[3];
    CHECK_EQ(pthread_create(&w, NULL, wait_main, &h), 0);
    for (int i = 0; i < 3; i++) {
        g[i] = (struct getter){.o = o, .n = N};
        CHECK_EQ(pthread_create(&th[i], NULL, get_main, &g[i]), 0);
    }
    for (int r = 0; r < 20; r++) eng_release(put(2 * MIB, 3));
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pthread_join(th[i], NULL), 0);
        CHECK_EQ(g[i].bad, 0);
    }
    gate_add(1, 1);
    void *there = NULL;
    CHECK_EQ(pthread_join(w, &there), 0);
    CHECK(there == &h);
    CHECK_EQ(eng_take(h), 1);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    eng_release(small);
    close_clean();
}

TEST_LARGE(spill_without_memory, 120) {
    /* the nth allocation of the driver fails: an error or not, and every value is whole after */
    enum { N = 40 };
    sk_oid o[N];
    struct sk_err err;
    OPEN();
    for (int i = 0; i < N; i++) o[i] = put(MIB, (uint8_t)i);
    for (int64_t nth = 1; nth <= 40; nth++) {
        int i = (int)test_below(N), k = (int)test_below(N);
        struct sk_view v;
        sk_oid x = {0}, c = {0};
        sk_mem_fail_at(nth);
        sk_rc rc = try_put(3 * MIB, 99, &x, &err);
        CHECK(rc == SK_OK || rc == SK_ENOMEM || rc == SK_EFULL);
        if (eng->ops->get(eng, &o[i], 1, test_patience(), &v, &err) == SK_OK) {
            CHECK(view_is(&v, MIB, (uint8_t)i));
            eng->ops->view_release(eng, &v);
        }
        struct job j = {.fn = "blob_is", .a = {REF(o[k]), VAL(MIB), VAL(k)}, .n_a = 3};
        if (job_on(eng, &j, &c, NULL, &err) == SK_OK) {
            bool ready;
            CHECK_OK_ERR(eng->ops->wait(eng, &c, 1, 1, test_patience(), &ready, &err), &err);
            eng_release(c);
        }
        sk_mem_fail_at(0);
        if (x.v) eng_release(x);
        checked();
    }
    for (int i = 0; i < N; i++) is_blob(o[i], MIB, (uint8_t)i);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    close_clean();
}

TEST(spill_queued_calls_let_go) {
    /* calls that are queued on an actor keep no memory from a put, and are run all the same */
    enum { N = 12 };
    sk_oid o[N], c[N], ready;
    sk_aid a;
    struct sk_err err;
    OPEN();
    struct job init = {.fn = "actor_init"};
    struct sk_actor_spec as = {.init = spec_of(&init)};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &as, &a, &ready, &err), &err);
    for (int i = 0; i < N; i++) o[i] = put(MIB, (uint8_t)i);
    c[0] = JOB(.fn = "hold", .a = {REF(o[0])}, .n_a = 1, .actor = a);
    for (int i = 1; i < N; i++)
        c[i] = JOB(.fn = "blob_is", .a = {REF(o[i]), VAL(MIB), VAL(i)}, .n_a = 3, .actor = a);
    CHECK(gate_wait(0, 1));
    sk_oid big = put(12 * MIB, 99);
    checked();
    gate_add(1, 1);
    for (int i = 0; i < N; i++) CHECK_EQ(eng_take(c[i]), 1);
    is_blob(big, 12 * MIB, 99);
    for (int i = 0; i < N; i++) eng_release(o[i]);
    eng_release(big);
    eng_release(ready);
    sk_actor_release(eng, a);
    close_clean();
}

TASK(parent) {
    /* holds its argument; a child per reference in the other one, both of them its arguments; until
     * word 1 */
    sk_oid o;
    int64_t v;
    const sk_oid *ids = (const sk_oid *)(const void *)t->args[1].data;
    gate_add(0, 1);
    if (!gate_wait(1, 1)) return SK_ERR(err, SK_ETIMEOUT, "the gate stayed shut");
    struct job j = {.fn = "same", .a = {REF(ids[0]), REF(ids[1])}, .n_a = 2, .opts.parent = t->id};
    SK_TRY(job_on(t->engine, &j, &o, NULL, err));
    SK_TRY(get_i64(t->engine, o, &v, err));
    t->engine->ops->release(t->engine, o);
    return ret_i64(t, 0, v, err);
}
TASK(same) { return ret_i64(t, 0, t->args[0].len == t->args[1].len, err); }
/* Sets word 2 before it requests room. */
TASK(wide) {
    gate_add(2, 1);
    return ret_blob(t, 0, (size_t)arg_i64(t, 0), 7, err);
}

static bool room_is_wanted(void *unused) {
    (void)unused;
    sk_driver_lock(eng);
    bool waits = !sk_list_empty(&L()->space.mem_waits);
    sk_driver_unlock(eng);
    return waits;
}
static void room_is_waited_for(void) { CHECK(eng_drive_until(room_is_wanted, NULL)); }

/* A task holds most of the store and waits for its child, whose arguments are on disk; another one
 * waits for more room than there can be until both have ended. Values restored for the child must
 * not be spilled for that room again and again before the child has begun. */
TEST(spill_child_of_who_holds_the_memory) {
    struct sk_err err;
    OPEN(.cpus = 2);
    sk_oid held = put(9 * MIB, 1), x[2] = {put(2 * MIB, 2), put(2 * MIB, 3)}, list;
    struct sk_payload p = {
        .kind = KIND_BLOB, .bytes = {x, sizeof x}, .contains = x, .n_contains = 2};
    CHECK_OK_ERR(eng->ops->put(eng, &p, &list, &err), &err);
    sk_oid job = JOB(.fn = "parent", .a = {REF(held), REF(list)}, .n_a = 2);
    CHECK(gate_wait(0, 1));
    sk_oid room = JOB(.fn = "wide", .a = {VAL(8 * MIB)}, .n_a = 1);
    CHECK(gate_wait(2, 1));
    room_is_waited_for();
    eng_wait_stat("spill_objects_on_disk", 2);
    /* each read takes so long that a waiter for room checks again, before or after it */
    CHECK_OK(sk_fault_delay("spill.read", 20000, 0));
    gate_add(1, 1);
    CHECK_EQ(eng_take(job), 1);
    /* two values, and one more if memory was released in between */
    CHECK_LE(eng_stat(eng, "restored_objects"), 3);
    sk_fault_clear();
    is_blob(room, 8 * MIB, 7);
    is_blob(held, 9 * MIB, 1);
    eng_release(held);
    eng_release(room);
    eng_release(list);
    for (int i = 0; i < 2; i++) eng_release(x[i]);
    close_clean();
}

/* test_api_engines.c - the public C interface: several engines in one process. */
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skate_data.h"
#include "skate_graph.h"
#include "api_help.h"

SKATE_TASK(engines_twice) {
    int64_t x;
    int rc = skate_arg_copy(t, 0, &x, sizeof x);
    x *= 2;
    return rc ? rc : skate_return(t, 0, &x, sizeof x);
}
SKATE_TASK(engines_parent) { /* the process that runs the engine's workers */
    return skate_return(t, 0, &(int64_t){getppid()}, 8);
}
SKATE_TASK(engines_yield) {
    int rc = skate_yield(t, &(int64_t){5}, 8);
    return rc ? rc : skate_yield(t, &(int64_t){6}, 8);
}
static int64_t sum;
SKATE_TASK(engines_sum) { /* an actor; its constructor has no argument */
    int64_t x = 0;
    if (skate_n_args(t) && skate_arg_copy(t, 0, &x, sizeof x)) return SKATE_EINVAL;
    sum += x;
    return skate_n_returns(t) && skate_n_args(t) ? skate_return(t, 0, &sum, sizeof sum) : SKATE_OK;
}
/* Calls the actor and makes a task, an object, a group and an actor of its own. */
SKATE_TASK(engines_nested) {
    struct skate_bundle b = {.cpus = 0};
    skate_actor a, mine;
    skate_ref r[3], put;
    skate_group g;
    bool ready[3];
    int rc;
    if (skate_engine_open(NULL)) return skate_fail(t, "a task has opened an engine");
    if (!strstr(skate_error(), "a task uses the engine that runs it")) return SKATE_EINVAL;
    if ((rc = skate_arg_actor(t, 0, &a)) ||
        (rc = skate_actor_call(a, "engines_sum", &SKATE_BYTES(&(int64_t){40}, 8), 1, 1, NULL,
                               &r[0])) ||
        (rc = skate_put(&(int64_t){1}, 8, &put)) ||
        (rc = skate_submit("engines_twice", &SKATE_REF(put), 1, 1, NULL, &r[1])) ||
        (rc = skate_actor_create("engines_sum", NULL, 0, NULL, &mine)) ||
        (rc = skate_actor_call(mine, "engines_sum", &SKATE_REF(put), 1, 1, NULL, &r[2])) ||
        (rc = skate_wait(r, 3, 3, 20000, ready)) ||
        (rc = skate_group_create(&b, 1, SKATE_GROUP_PACK, NULL, &g)) ||
        (rc = skate_group_wait(g, 20000)) || (rc = skate_group_remove(g)))
        return rc;
    int64_t all = 0;
    for (int i = 0; i < 3; i++) {
        struct skate_value v;
        if ((rc = skate_get(r[i], 0, &v))) return rc;
        all += *(const int64_t *)v.data;
        skate_value_release(&v);
        skate_release(r[i]);
    }
    skate_actor_release(a);
    skate_actor_release(mine);
    skate_release(put);
    return skate_return(t, 0, &all, sizeof all);
}
SKATE_BATCHES(engines_same) { return skate_emit(t, schema, batch); }

static skate_engine *open_one(double cpus, uint64_t store_bytes) {
    skate_engine *e =
        skate_engine_open(SKATE_WITH(struct skate_opts, .cpus = cpus, .store_bytes = store_bytes));
    CHECK_MSG(e != NULL, "%s", skate_error());
    return e;
}
static skate_ref twice(int64_t x) {
    skate_ref r;
    OK(skate_submit("engines_twice", &SKATE_BYTES(&x, 8), 1, 1, NULL, &r));
    return r;
}
static skate_ref put(int64_t x) {
    skate_ref r;
    OK(skate_put(&x, 8, &r));
    return r;
}

/* ---- two engines ----------------------------------------------------------------------------- */

static void *works(void *engine) { /* a thread that uses one engine */
    CHECK(skate_use(engine) == NULL);
    skate_ref r[200];
    for (int64_t i = 0; i < 200; i++) r[i] = twice(i);
    for (int64_t i = 0; i < 200; i++) CHECK_EQ(number(r[i]), 2 * i);
    OK(skate_submit("engines_parent", NULL, 0, 1, NULL, &r[0]));
    return (void *)(intptr_t)number(r[0]);
}

TEST(engines_work_side_by_side) {
    skate_engine *e[2] = {open_one(1, 8 << 20), open_one(2, 64 << 20)};
    pthread_t thread[2];
    void *parent[2];
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&thread[i], NULL, works, e[i]), 0);
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_join(thread[i], &parent[i]), 0);
    CHECK(parent[0] != parent[1]);                               /* each has workers of its own */
    CHECK_EQ(skate_put("x", 1, &(skate_ref){0}), SKATE_ECLOSED); /* skate_init was not called */
    CHECK_STR_HAS(skate_error(), "call skate_init first");
    /* each has its own store and CPUs */
    struct skate_buf b;
    struct skate_bundle two = {.cpus = 2};
    skate_group g;
    CHECK(skate_use(e[0]) == NULL);
    CHECK_EQ(skate_buf_alloc(32 << 20, &b), SKATE_EFULL);
    CHECK_EQ(skate_group_create(&two, 1, SKATE_GROUP_PACK, NULL, &g), SKATE_EINFEASIBLE);
    CHECK(skate_use(e[1]) == e[0]);
    OK(skate_buf_alloc(32 << 20, &b));
    OK(skate_group_create(&two, 1, SKATE_GROUP_PACK, NULL, &g));
    CHECK(skate_use(NULL) == e[1]);
    skate_buf_abort(&b);
    OK(skate_group_wait(g, 20000));
    OK(skate_group_remove(g));
    skate_engine_close(e[0]);
    skate_engine_close(e[1]);
}

TEST(objects_know_their_engine) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1, .store_bytes = 16 << 20)));
    skate_engine *other = open_one(1, 16 << 20);
    skate_ref a = put(1), both[2] = {a, {0}}, got;
    bool ready[2];
    CHECK(skate_use(other) == NULL);
    skate_ref b = both[1] = put(2);
    skate_use(NULL);
    CHECK(a.id != b.id);
    /* a call with an object uses the object's engine, whichever the thread uses */
    OK(skate_submit("engines_twice", &SKATE_REF(b), 1, 1, NULL, &got));
    OK(skate_wait((skate_ref[]){b, got}, 2, 2, 20000, ready));
    CHECK_EQ(number(got), 4);
    CHECK_EQ(skate_wait(both, 2, 2, 0, ready), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "objects of two engines in one call");
    struct skate_arg mixed[] = {SKATE_REF(a), SKATE_REF(b)};
    CHECK_EQ(skate_submit("engines_twice", mixed, 2, 1, NULL, &got), SKATE_EINVAL);
    /* a buffer and a stream too */
    struct skate_buf buf;
    skate_gen g;
    skate_use(other);
    OK(skate_buf_alloc(1 << 20, &buf));
    OK(skate_gen_submit("engines_yield", NULL, 0, NULL, &g));
    skate_use(NULL);
    memset(buf.data, 7, 1 << 20);
    OK(skate_buf_seal(&buf, 8, &got));
    CHECK_EQ(skate_wait((skate_ref[]){a, got}, 2, 2, 0, ready), SKATE_EINVAL);
    CHECK_EQ(number(got), 0x0707070707070707);
    for (int64_t i = 5; i < 7; i++) {
        OK(skate_gen_next(g, 20000, &got));
        CHECK_EQ(number(got), i);
    }
    CHECK_EQ(skate_gen_next(g, 20000, &got), SKATE_EDONE);
    skate_gen_drop(g);
    skate_release(a);
    skate_release(b);
    skate_engine_close(other);
    skate_shutdown();
}

TEST(actors_and_what_tasks_make) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1, .store_bytes = 16 << 20)));
    skate_engine *e[2] = {NULL, open_one(2, 16 << 20)};
    skate_actor a[2], found;
    skate_ref r;
    for (int i = 0; i < 2; i++) { /* names are the engine's */
        skate_use(e[i]);
        OK(skate_actor_create("engines_sum", NULL, 0,
                              SKATE_WITH(struct skate_call_opts, .name = "it"), &a[i]));
        OK(skate_actor_find("it", NULL, &found));
        CHECK_EQ(found.id, a[i].id);
        skate_actor_release(found);
    }
    skate_use(NULL);
    CHECK(a[0].id != a[1].id);
    for (int i = 0; i < 2; i++) {
        OK(skate_submit("engines_nested", &SKATE_ACTOR(a[i]), 1, 1, NULL, &r));
        CHECK_EQ(number(r), 40 + 2 + 1);
        OK(skate_actor_call(a[i], "engines_sum", &SKATE_BYTES(&(int64_t){2}, 8), 1, 1, NULL, &r));
        CHECK_EQ(number(r), 42);
    }
    struct skate_arg other = SKATE_ACTOR(a[1]);
    CHECK_EQ(skate_actor_call(a[0], "engines_sum", &other, 1, 1, NULL, &r), SKATE_EINVAL);
    /* a graph runs in the engine of its actors */
    uint32_t in[] = {SKATE_INPUT}, output[] = {0}, zero[] = {0};
    struct skate_node nodes[] = {{a[1], "engines_sum", in, 1}, {a[0], "engines_sum", zero, 1}};
    struct skate_arg got;
    skate_graph *g;
    OK(skate_graph_compile(nodes, 1, output, 1, NULL, &g));
    OK(skate_graph_execute(g, &(int64_t){8}, 8, -1));
    OK(skate_graph_get(g, -1, &got));
    CHECK_EQ(*(const int64_t *)got.data, 50);
    output[0] = 1;
    skate_graph *none;
    CHECK_EQ(skate_graph_compile(nodes, 2, output, 1, NULL, &none), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "objects of two engines");
    skate_engine_close(e[1]);
    CHECK_EQ(skate_graph_get(g, -1, &got), SKATE_ECLOSED);
    skate_graph_release(g);
    OK(skate_actor_kill(a[0]));
    CHECK_EQ(skate_actor_kill(a[1]), SKATE_ECLOSED);
    skate_actor_release(a[0]);
    skate_actor_release(a[1]); /* no effect */
    skate_shutdown();
}

/* ---- the end of an engine -------------------------------------------------------------------- */

TEST(engines_close_in_either_order) {
    for (int first = 0; first < 2; first++) {
        skate_engine *e[2] = {open_one(1, 16 << 20), open_one(1, 16 << 20)};
        skate_ref r[2], large[2];
        struct skate_value v[2];
        struct skate_buf b[2];
        char *bytes = calloc(1, 1 << 20);
        for (int i = 0; i < 2; i++) {
            skate_use(e[i]);
            r[i] = twice(i);
            bytes[0] = (char)(10 + i);
            OK(skate_put(bytes, 1 << 20, &large[i]));
            OK(skate_get(large[i], 20000, &v[i]));
            OK(skate_buf_alloc(100000, &b[i]));
        }
        free(bytes);
        skate_engine_close(e[first]);
        CHECK_EQ(skate_get(r[first], 0, &(struct skate_value){0}), SKATE_ECLOSED);
        CHECK_STR_HAS(skate_error(), "was closed");
        CHECK_EQ(skate_buf_seal(&b[first], 1, &r[first]), SKATE_ECLOSED);
        skate_buf_abort(&b[first]);
        CHECK_EQ(number(r[!first]), 2 * !first); /* the other goes on */
        skate_use(e[!first]);
        CHECK_EQ(number(twice(21)), 42);
        CHECK_EQ(*(const char *)v[first].data, 10 + first); /* values stay readable */
        skate_value_release(&v[first]);
        skate_release(large[first]);
        skate_value_release(&v[!first]);
        skate_release(large[!first]);
        skate_buf_abort(&b[!first]);
        skate_engine_close(e[!first]);
        skate_engine_close(e[!first]); /* no effect */
        skate_engine_close(NULL);
        skate_use(NULL);
    }
}

TEST(a_closed_engine_stays_closed) {
    skate_engine *old = open_one(1, 16 << 20);
    skate_use(old);
    skate_ref r = put(1);
    skate_engine_close(old);
    CHECK_EQ(skate_put("x", 1, &r), SKATE_ECLOSED);
    CHECK_STR_HAS(skate_error(), "the engine that this thread uses was closed");
    CHECK_EQ(skate_event_fd(), SKATE_ECLOSED);
    CHECK_EQ(skate_process(), SKATE_ECLOSED);
    skate_engine *next = open_one(1, 16 << 20);
    CHECK(next != old);
    CHECK(skate_use(next) == old);
    skate_ref s = put(2);
    CHECK(r.id != s.id);
    CHECK_EQ(skate_get(r, 0, &(struct skate_value){0}), SKATE_ECLOSED);
    skate_release(r); /* no effect */
    CHECK_EQ(number(s), 2);
    skate_use(old);
    CHECK_EQ(skate_put("x", 1, &r), SKATE_ECLOSED);
    skate_engine_close(next);
}

TEST_LARGE(engines_as_many_as_there_may_be, 60) {
    skate_engine *e[16];
    skate_ref r[16];
    for (int i = 0; i < 16; i++) {
        e[i] = open_one(1, 1 << 20);
        skate_use(e[i]);
        r[i] = put(i);
    }
    CHECK(skate_engine_open(NULL) == NULL);
    CHECK_STR_HAS(skate_error(), "16 engines are open, the most in a process");
    skate_engine_close(e[5]);
    skate_engine *again = open_one(1, 1 << 20);
    for (int i = 0; i < 16; i++)
        if (i != 5) CHECK_EQ(number(r[i]), i);
    skate_use(e[5]);
    CHECK_EQ(skate_put("x", 1, &r[5]), SKATE_ECLOSED); /* not that in its place */
    for (int i = 0; i < 16; i++) skate_engine_close(e[i]);
    skate_engine_close(again);
}

TEST(a_forked_child_has_no_engine) {
    skate_engine *e = open_one(1, 16 << 20);
    skate_use(e);
    skate_ref r = put(3);
    pid_t pid = fork();
    if (pid == 0) {
        struct skate_value v;
        bool ok = skate_get(r, 0, &v) == SKATE_ECLOSED && strstr(skate_error(), "forked") &&
                  skate_put("x", 1, &r) == SKATE_ECLOSED && strstr(skate_error(), "forked") &&
                  !skate_engine_open(NULL) && strstr(skate_error(), "forked") &&
                  skate_event_fd() == SKATE_ECLOSED && skate_process() == SKATE_ECLOSED;
        skate_release(r);
        skate_engine_close(e);
        _exit(ok ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(status, 0);
    CHECK_EQ(number(r), 3);
    skate_engine_close(e);
}

/* ---- callbacks, datasets --------------------------------------------------------------------- */

struct seen {
    int calls, code;
};
static void on_ready(int code, void *ctx) {
    struct seen *s = ctx;
    s->calls++;
    s->code = code;
}

TEST(one_loop_polls_all_engines) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 1, .store_bytes = 16 << 20)));
    skate_engine *e[3] = {NULL, open_one(1, 16 << 20), open_one(1, 16 << 20)};
    struct pollfd p[3];
    struct seen seen[3] = {{0}};
    for (int i = 0; i < 3; i++) {
        skate_use(e[i]);
        p[i] = (struct pollfd){.fd = skate_event_fd(), .events = POLLIN};
        CHECK(p[i].fd >= 0);
        for (int k = 0; k < i; k++) CHECK(p[k].fd != p[i].fd);
        for (int k = 0; k < 10; k++) {
            skate_ref r = twice(k);
            OK(skate_on_ready(r, on_ready, &seen[i]));
            skate_release(r);
        }
    }
    while (seen[0].calls + seen[1].calls + seen[2].calls < 30) {
        CHECK_LT(0, poll(p, 3, 20000));
        for (int i = 0; i < 3; i++) {
            if (!p[i].revents) continue;
            int before[3] = {seen[0].calls, seen[1].calls, seen[2].calls};
            skate_use(e[i]);
            CHECK_LT(0, skate_process());
            for (int k = 0; k < 3; k++) CHECK(k == i || seen[k].calls == before[k]);
        }
    }
    for (int i = 0; i < 3; i++) CHECK(seen[i].calls == 10 && seen[i].code == 0);
    /* the callbacks that wait at the end of an engine are called by its close */
    struct seen late = {0}, other = {0};
    skate_use(e[1]);
    skate_ref r = put(1);
    OK(skate_on_ready(r, on_ready, &late));
    skate_use(e[2]);
    skate_ref s = put(1);
    OK(skate_on_ready(s, on_ready, &other));
    skate_engine_close(e[1]);
    CHECK(late.calls == 1 && late.code == SKATE_ECLOSED && other.calls == 0);
    CHECK_EQ(skate_on_ready(r, on_ready, &late), SKATE_ECLOSED);
    CHECK_EQ(skate_process(), 1);
    CHECK(other.calls == 1 && other.code == 0);
    skate_release(s);
    skate_engine_close(e[2]);
    skate_shutdown();
}

static void close_it(int code, void *engine) {
    CHECK_EQ(code, 0);
    skate_engine_close(engine);
}

TEST(a_callback_closes_its_engine) {
    skate_engine *e = open_one(1, 16 << 20);
    struct seen s = {0};
    skate_use(e);
    skate_ref r = put(1);
    OK(skate_on_ready(r, close_it, e));
    OK(skate_on_ready(r, on_ready, &s));
    CHECK_EQ(skate_process(), 2);
    CHECK(s.calls == 1 && s.code == SKATE_ECLOSED);
}

TEST(datasets_run_in_the_engine_of_the_thread) {
    skate_engine *e[2] = {open_one(2, 64 << 20), open_one(1, 64 << 20)};
    struct skate_column c = {.name = "v"};
    struct ArrowSchema schema;
    struct ArrowArray a, batch;
    struct ArrowArrayStream s[2];
    int64_t rows;
    skate_dataset *ds = skate_map(skate_range(100000, NULL, NULL), "engines_same", NULL);
    for (int i = 0; i < 2; i++) { /* a plan belongs to no engine */
        skate_use(e[i]);
        OK(skate_count(ds, NULL, &rows));
        CHECK_EQ(rows, 100000);
        OK(skate_stream(ds, NULL, &s[i]));
    }
    skate_dataset_release(ds);
    /* its batches do */
    OK(skate_batch_new(&c, 1, 3, &schema, &a));
    memset(c.data, 0, 24);
    skate_dataset *arrays = skate_from_arrays(&schema, &a, 1);
    CHECK(arrays != NULL);
    schema.release(&schema);
    OK(skate_count(arrays, NULL, &rows));
    CHECK_EQ(rows, 3);
    skate_use(e[0]);
    CHECK_EQ(skate_count(arrays, NULL, &rows), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "Arrays: its batches are in another engine");
    skate_engine_close(e[1]); /* ends its own runs only */
    CHECK_EQ(skate_count(arrays, NULL, &rows), SKATE_ECLOSED);
    skate_dataset_release(arrays);
    for (rows = 0;; rows += batch.length, batch.release(&batch)) {
        CHECK_EQ(s[0].get_next(&s[0], &batch), 0);
        if (!batch.release) break;
    }
    CHECK_EQ(rows, 100000);
    CHECK(s[1].get_next(&s[1], &batch) != 0);
    CHECK_STR_HAS(skate_error(), "skate was shut down");
    s[0].release(&s[0]);
    s[1].release(&s[1]);
    skate_engine_close(e[0]);
}

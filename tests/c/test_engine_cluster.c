/* test_engine_cluster.c - the engine `cluster` over nodes that are processes of their own, each
 * with a local engine, on loopback. Messages, losses and recovery in all orders: sim/nodes_sim.c.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/containers/vec.h"
#include "engine/cluster/book.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/msg.h"
#include "engine/cluster/node.h"
#include "engine/cluster/nodes.h"
#include "engine/foreign.h"
#include "engine/books/history.h"
#include "engine/guest/guest_int.h"
#include "engine/usage.h"
#include "engine_help.h"
#include "test.h"

enum { MAX_NODES = 4, JOB = 77, CLEAN = 900 /* word of the gate, of node 0 */ };
static const uint8_t secret[32] = "a secret of thirty-two bytes....";

static struct {
    pid_t pid[MAX_NODES];
    char address[MAX_NODES][40];
    uint32_t n;
} cl;

static int64_t lease_ns; /* of nodes and of the driver; 0: the usual one */
static int64_t patience_ns = 20 * SK_SEC;

/* The process of a node: serves until its driver has ended. Exits 0 if the driver said so. */
static void be_node(int to, uint32_t i, const struct eng_opt *o) {
    struct sk_engine *e;
    struct sk_cluster_node *n;
    struct sk_err err = {0};
    uint16_t port;
    struct sk_node_conf c = {.job = JOB,
                             .secret = {secret, sizeof secret},
                             .listen_on = "127.0.0.1",
                             .name = "test",
                             .store_bytes = 64 << 20,
                             .id_base = o->id_base,
                             .lease_ns = lease_ns};
    if (eng_try_open(o, &e, &err) != SK_OK) _exit(10);
    c.engine = e;
    if (sk_node_open(&c, &n, &port, &err) != SK_OK) _exit(11);
    if (write(to, &port, sizeof port) != sizeof port) _exit(12);
    sk_rc rc;
    do { /* tells the test whether the engine has objects */
        atomic_store(&gate->w[CLEAN + i], eng_stat(e, "objects") == 0);
        rc = sk_node_wait(n, sk_deadline_ns(20 * SK_MS), &err);
    } while (rc == SK_EAGAIN);
    sk_node_close(n);
    sk_engine_close(&e);
    _exit(rc == SK_OK ? 0 : 20);
}

static double node_cpus[MAX_NODES]; /* 0: as `o` says */
static void node_start(uint32_t i, const struct eng_opt *o) {
    int fd[2];
    uint16_t port = 0;
    struct eng_opt own = *o;
    own.id_base = (i + 1) * SK_ID_RANGE;
    if (node_cpus[i] > 0) own.cpus = node_cpus[i];
    CHECK(pipe(fd) == 0);
    cl.pid[i] = fork();
    CHECK(cl.pid[i] >= 0);
    if (!cl.pid[i]) {
        close(fd[0]);
        be_node(fd[1], i, &own);
    }
    close(fd[1]);
    CHECK(read(fd[0], &port, sizeof port) == sizeof port);
    close(fd[0]);
    snprintf(cl.address[i], sizeof cl.address[i], "127.0.0.1:%u", port);
}

static sk_rc connect_to(const char *const *at, uint32_t n, const uint8_t *key,
                        struct sk_engine **out, struct sk_err *err) {
    struct sk_cluster_conf k = {.addresses = at,
                                .n_addresses = n,
                                .job = JOB,
                                .secret = {key, 32},
                                .lease_ns = lease_ns,
                                .patience_ns = patience_ns};
    struct sk_engine_conf c = {.task_retries = 3, .cluster = &k};
    return sk_engine_find("cluster")->open(&c, out, err);
}

/* Starts n nodes, and opens the engine over the first `first_n` of them. */
static void cluster_open_some(uint32_t n, uint32_t first_n, const struct eng_opt *o) {
    const char *at[MAX_NODES];
    struct sk_err err;
    struct sk_engine *first;
    CHECK_OK_ERR(eng_try_open(o, &first, &err),
                 &err); /* makes the gate, before there are threads */
    sk_engine_close(&first);
    cl.n = n;
    for (uint32_t i = 0; i < n; i++) {
        node_start(i, o);
        at[i] = cl.address[i];
    }
    CHECK_OK_ERR(connect_to(at, first_n, secret, &eng, &err), &err);
    eng_define_all(eng);
}
static void cluster_open(uint32_t n, const struct eng_opt *o) { cluster_open_some(n, n, o); }

static int end_of(uint32_t i) {
    int status;
    CHECK(waitpid(cl.pid[i], &status, 0) == cl.pid[i]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

/* Closes the engine; every node that was not killed ends by itself, with its workers. */
static void cluster_close(uint32_t killed) {
    sk_engine_close(&eng);
    for (uint32_t i = 0; i < cl.n; i++) CHECK_EQ(end_of(i), killed & 1u << i ? 100 + SIGKILL : 0);
    CHECK(all_gone());
}

/* ---- tasks ----------------------------------------------------------------------------------- */

TASK(cl_add) { return ret_i64(t, 0, arg_i64(t, 0) + arg_i64(t, 1), err); }
TASK(cl_blob) { return ret_blob(t, 0, (size_t)arg_i64(t, 0), (uint8_t)arg_i64(t, 1), err); }
TASK(cl_len) { return ret_i64(t, 0, (int64_t)t->args[0].len * 1000 + t->args[0].data[0], err); }
/* Returns bytes of which no two neighbours are equal, made from a seed. */
static uint8_t byte_at(size_t i, int64_t seed) {
    return (uint8_t)(i * 7 + (i >> 8) + (size_t)seed);
}
TASK(cl_pattern) {
    struct sk_buf b;
    size_t n = (size_t)arg_i64(t, 0);
    SK_TRY(t->engine->ops->buf_alloc(t->engine, n, &b, err));
    for (size_t i = 0; i < n; i++) b.data[i] = byte_at(i, arg_i64(t, 1));
    return sk_task_return(t, 0, &(struct sk_payload){.kind = KIND_BLOB, .buf = &b, .buf_len = n},
                          err);
}
/* Returns the length of the first argument times 1,000, plus the number of its bytes that are
 * wrong, at most 999, of every 13th. It begins at byte `a1` of the pattern of seed `a2`. */
TASK(cl_right) {
    int64_t wrong = 0;
    for (size_t i = 0; i < t->args[0].len && wrong < 999; i += 13)
        wrong += t->args[0].data[i] != byte_at(i + (size_t)arg_i64(t, 1), arg_i64(t, 2));
    return ret_i64(t, 0, (int64_t)t->args[0].len * 1000 + wrong, err);
}
TASK(cl_pid) { return ret_i64(t, 0, getppid(), err); }
TASK(cl_fails) { return SK_ERR(err, SK_EINVAL, "not today"); }
TASK(cl_stream) {
    for (int64_t i = 0; i < arg_i64(t, 0); i++) SK_TRY(yield_blob(t, 20000, (uint8_t)i, err));
    sk_task_note(t, (struct sk_bytes){"end", 3});
    return SK_OK;
}
/* Counts in word 1, and waits for word 2 if it runs for the first time. */
TASK(cl_waits) {
    if (gate_add(1, 1) == 1 && !gate_wait(2, 1)) return SK_ERR(err, SK_ETIMEOUT, "gate");
    return ret_blob(t, 0, 30000, 9, err);
}
static int64_t state;
TASK(cl_counter) {
    state = arg_i64(t, 0);
    return ret_i64(t, 0, 0, err);
}
TASK(cl_count) { return ret_i64(t, 0, state += arg_i64(t, 0), err); }

static void check_blob(sk_oid o, size_t n, uint8_t fill) {
    struct sk_view v;
    struct sk_err err;
    CHECK_OK_ERR(eng->ops->get(eng, &o, 1, INT64_MAX, &v, &err), &err);
    CHECK(view_is(&v, n, fill));
    eng->ops->view_release(eng, &v);
}
static void take_blob(sk_oid o, size_t n, uint8_t fill) { /* and releases it */
    check_blob(o, n, fill);
    eng_release(o);
}

TEST(cluster_runs_tasks_and_moves_values) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid one = eng_job(&(struct job){.fn = "cl_add", .a = {VAL(1), VAL(2)}, .n_a = 2});
    sk_oid two = eng_job(&(struct job){.fn = "cl_add", .a = {REF(one), VAL(10)}, .n_a = 2});
    CHECK_EQ(eng_take(two), 13);
    CHECK_EQ(eng_take(one), 3);
    /* large values stay on the node that made them, and are read by the others */
    sk_oid blob[8], len[8];
    for (uint32_t i = 0; i < 8; i++) {
        struct job j = {
            .fn = "cl_blob", .a = {VAL(100000 + i), VAL(i)}, .n_a = 2, .node = 1 + i % 2};
        blob[i] = eng_job(&j);
    }
    for (uint32_t i = 0; i < 8; i++) {
        struct job j = {
            .fn = "cl_len", .a = {REF(blob[i])}, .n_a = 1, .node = 2 - i % 2, .node_only = true};
        len[i] = eng_job(&j);
    }
    for (uint32_t i = 0; i < 8; i++) CHECK_EQ(eng_take(len[i]), (100000 + i) * 1000 + i);
    /* parts of them, too */
    for (uint32_t i = 0; i < 8; i++) {
        struct job j = {.fn = "cl_len",
                        .a = {PART(blob[i], 500, 70000)},
                        .n_a = 1,
                        .node = 1 + i % 2,
                        .node_only = true};
        CHECK_EQ(eng_take(eng_job(&j)), 70000 * 1000 + i);
    }
    check_blob(blob[3], 100003, 3);
    for (uint32_t i = 0; i < 8; i++) eng_release(blob[i]);
    /* values of the driver */
    uint8_t *mine = sk_calloc(SK_TAG_TEST, 200000);
    CHECK(mine);
    mine[0] = 7;
    sk_oid put;
    struct sk_payload p = {.kind = KIND_BLOB, .bytes = {mine, 200000}};
    CHECK_OK(eng->ops->put(eng, &p, &put, NULL));
    for (uint32_t i = 1; i <= 2; i++) {
        struct job j = {.fn = "cl_len", .a = {REF(put)}, .n_a = 1, .node = i, .node_only = true};
        CHECK_EQ(eng_take(eng_job(&j)), 200000 * 1000 + 7);
    }
    eng_release(put);
    sk_free(mine);
    char text[300];
    CHECK_EQ(eng_error(eng_job(&(struct job){.fn = "cl_fails"}), text, sizeof text), SK_EINVAL);
    CHECK(strstr(text, "not today"));
    /* both nodes work */
    sk_oid pid[20];
    int64_t seen[2] = {0};
    for (int i = 0; i < 20; i++) pid[i] = eng_job(&(struct job){.fn = "cl_pid"});
    for (int i = 0; i < 20; i++) {
        int64_t x = eng_take(pid[i]);
        if (!seen[0] || seen[0] == x) seen[0] = x;
        else seen[1] = x;
    }
    CHECK(seen[1]);
    cluster_close(0);
}

/* Moves values, in sizes that are no multiples of 8, from node to node, to the driver and back. */
static void move_all(const struct eng_opt *o) {
    cluster_open(2, o);
    enum { N_BIG = 13 };
    sk_oid big[N_BIG], right[N_BIG], part[N_BIG];
    for (int64_t i = 0; i < N_BIG; i++) {
        struct job j = {.fn = "cl_pattern", .a = {VAL(4000000 + i), VAL(i)}, .n_a = 2, .node = 1};
        big[i] = eng_job(&j);
        struct job k = {.fn = "cl_right",
                        .a = {REF(big[i]), VAL(0), VAL(i)},
                        .n_a = 3,
                        .node = 2,
                        .node_only = true};
        right[i] = eng_job(&k);
        k.a[0] = PART(big[i], 1001, 100001 + (uint64_t)i);
        k.a[1] = VAL(1001);
        part[i] = eng_job(&k);
    }
    for (int64_t i = 0; i < N_BIG; i++) {
        CHECK_EQ(eng_take(right[i]), (4000000 + i) * 1000);
        CHECK_EQ(eng_take(part[i]), (100001 + i) * 1000);
        struct sk_view v;
        CHECK_OK(eng->ops->get(eng, &big[i], 1, INT64_MAX, &v, NULL));
        CHECK_EQ(v.len, 4000000 + i);
        for (size_t k = 0; k < v.len; k += 13) CHECK(v.data[k] == byte_at(k, i));
        sk_oid put; /* and from the driver to a node */
        struct sk_payload p = {.kind = KIND_BLOB, .bytes = {v.data, v.len}};
        CHECK_OK(eng->ops->put(eng, &p, &put, NULL));
        eng->ops->view_release(eng, &v);
        CHECK_EQ(eng_take(eng_job(&(struct job){
                     .fn = "cl_right", .a = {REF(put), VAL(0), VAL(i)}, .n_a = 3, .node = 2})),
                 (4000000 + i) * 1000);
        eng_release(put);
        eng_release(big[i]);
    }
    cluster_close(0);
}

/* More bytes than a node sends from where they are. */
TEST(cluster_moves_large_values_unharmed) { move_all(&(struct eng_opt){.cpus = 1}); }

/* More bytes than the stores of the nodes have: what comes and goes must not fill them. */
TEST(cluster_moves_values_through_small_stores) {
    char spill[512];
    snprintf(spill, sizeof spill, "%s/spill", test_dir());
    move_all(&(struct eng_opt){
        .cpus = 1, .store_bytes = 24 << 20, .spill_dirs = {spill}, .overflow_bytes = UINT64_MAX});
}

struct heard {
    struct sk_sink sink;
    uint32_t n_yields, n_done, n_failed;
    sk_oid oid[64];
    char note[16];
};
static void on_events(struct sk_sink *s, const struct sk_event *ev, size_t n) {
    struct heard *h = sk_container_of(s, struct heard, sink);
    for (size_t i = 0; i < n; i++) {
        if (ev[i].kind == SK_EV_YIELDED) h->oid[h->n_yields++] = ev[i].oid;
        if (ev[i].kind == SK_EV_FAILED) h->n_failed++;
        if (ev[i].kind != SK_EV_DONE) continue;
        if (ev[i].note.n) memcpy(h->note, ev[i].note.p, SK_MIN(ev[i].note.n, sizeof h->note - 1));
        h->n_done++;
    }
}
static bool is_over(void *arg) {
    const struct heard *h = arg;
    return h->n_done + h->n_failed > 0;
}

TEST(cluster_streams_have_notes) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    struct heard h = {.sink = {on_events}};
    struct job j = {
        .fn = "cl_stream", .a = {VAL(5)}, .n_a = 1, .n_returns = SK_STREAMING, .sink = &h.sink};
    sk_tid t;
    CHECK_OK(job_on(eng, &j, NULL, &t, NULL));
    CHECK(eng_drive_until(is_over, &h));
    CHECK_EQ(h.n_yields, 5);
    CHECK_EQ(h.n_done, 1);
    CHECK(!strcmp(h.note, "end"));
    for (uint32_t i = 0; i < 5; i++) {
        take_blob(h.oid[i], 20000, (uint8_t)i);
    }
    cluster_close(0);
}

TEST(cluster_actors_keep_state_and_order) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    struct sk_actor_spec s = {
        .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(100)}, .n_a = 1})};
    sk_aid a;
    sk_oid ready, r[50];
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    for (int i = 0; i < 50; i++)
        r[i] = eng_job(&(struct job){.fn = "cl_count", .a = {VAL(1)}, .n_a = 1, .actor = a});
    for (int i = 0; i < 50; i++) CHECK_EQ(eng_take(r[i]), 101 + i);
    eng_release(ready);
    sk_actor_release(eng, a);
    cluster_close(0);
}

/* Waits until word 3 is arg 0, so that as many calls have to run at once. */
TASK(cl_meet) {
    gate_add(3, 1);
    if (!gate_wait(3, (uint32_t)arg_i64(t, 0))) return SK_ERR(err, SK_ETIMEOUT, "gate");
    return ret_i64(t, 0, 1, err);
}
TASK(cl_async) {
    return t->is_async ? ret_i64(t, 0, 1, err) : SK_ERR(err, SK_EINVAL, "there is no loop");
}
/* Kills its process when it runs first. */
TASK(cl_dies_once) {
    if (gate_add(4, 1) == 1) raise(SIGKILL);
    return ret_i64(t, 0, (int64_t)t->attempt, err);
}
/* Waits for word 5. */
TASK(cl_late) {
    if (!gate_wait(5, 1)) return SK_ERR(err, SK_ETIMEOUT, "gate");
    return ret_i64(t, 0, arg_i64(t, 0), err);
}

TEST(cluster_actors_have_groups_and_loops_and_retries) {
    cluster_open(2, &(struct eng_opt){.cpus = 2});
    struct sk_actor_opts o = {.n_groups = 2, .groups = (uint32_t[]){1, 4}};
    struct sk_actor_spec s = {
        .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(0)}, .n_a = 1}), .opts = &o};
    sk_aid a;
    sk_oid ready, r[5], late;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    late = eng_job(&(struct job){.fn = "cl_late", .a = {VAL(9)}, .n_a = 1});
    /* a call that waits for its argument holds back no other */
    sk_oid last = eng_job(&(struct job){.fn = "cl_count", .a = {REF(late)}, .n_a = 1, .actor = a});
    for (int i = 0; i < 4; i++)
        r[i] = eng_job(
            &(struct job){.fn = "cl_meet", .a = {VAL(4)}, .n_a = 1, .actor = a, .opts.group = 1});
    for (int i = 0; i < 4; i++) CHECK_EQ(eng_take(r[i]), 1);
    gate_add(5, 1);
    CHECK_EQ(eng_take(last), 9);
    eng_release(late);
    eng_release(ready);
    sk_actor_release(eng, a);

    o = (struct sk_actor_opts){.is_async = true, .n_groups = 1, .groups = (uint32_t[]){8}};
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    CHECK_EQ(eng_take(eng_job(&(struct job){.fn = "cl_async", .actor = a})), 1);
    eng_release(ready);
    sk_actor_release(eng, a);

    o = (struct sk_actor_opts){0};
    s.max_restarts = 1;
    s.max_task_retries = 2;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    CHECK_EQ(eng_take(eng_job(&(struct job){.fn = "cl_dies_once", .actor = a})), 1);
    eng_release(ready);
    sk_actor_release(eng, a);
    o.groups = (uint32_t[]){0};
    o.n_groups = 1;
    struct sk_err err;
    CHECK_EQ(eng->ops->actor_create(eng, &s, &a, &ready, &err), SK_EINVAL);
    cluster_close(0);
}

TASK(cl_env) { /* how many bytes its environment has */
    return ret_i64(t, 0, task_env ? (int64_t)strlen(task_env) : 0, err);
}

TEST(cluster_tasks_have_environments) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    uint32_t env[3], same;
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"a", 2}, &env[0], NULL));
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"bc", 3}, &env[1], NULL));
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"a", 2}, &same, NULL));
    CHECK_EQ(same, env[0]);
    CHECK_OK(eng->envs->define(eng, (struct sk_bytes){"x", 2}, &env[2], NULL)); /* a bad one */
    sk_shape shape[4];
    for (uint32_t i = 0; i < 4; i++) {
        struct sk_need n = {.res.amount = {SK_RES_UNIT}, .env = i ? env[i - 1] : 0};
        CHECK_OK(eng->ops->shape(eng, &n, &shape[i], NULL));
        for (uint32_t k = 0; k < i; k++) CHECK(shape[k] != shape[i]);
    }
    sk_oid r[24];
    for (uint32_t i = 0; i < 24; i++)
        r[i] = eng_job(&(struct job){.fn = "cl_env", .shape = shape[i % 3], .node = 1 + i / 3 % 2});
    for (uint32_t i = 0; i < 24; i++) CHECK_EQ(eng_take(r[i]), i % 3);
    char text[200];
    sk_oid bad = eng_job(&(struct job){.fn = "cl_env", .shape = shape[3]});
    CHECK_EQ(eng_error(bad, text, sizeof text), SK_EINVAL);
    CHECK_MSG(strstr(text, "no such environment"), "%s", text);
    struct sk_actor_spec s = {.init = spec_of(&(struct job){
                                  .fn = "cl_counter", .a = {VAL(0)}, .n_a = 1, .shape = shape[2]})};
    sk_aid a;
    sk_oid ready;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    CHECK_EQ(eng_take(eng_job(&(struct job){.fn = "cl_env", .actor = a})), 2);
    eng_release(ready);
    sk_actor_release(eng, a);
    struct sk_err err;
    struct sk_need n = {.env = 9};
    CHECK_EQ(eng->ops->shape(eng, &n, &shape[0], &err), SK_EINVAL);
    cluster_close(0);
}

static sk_rc named(const char *fn, const char *name, bool detached, int32_t restarts, sk_aid *a,
                   sk_oid *ready) {
    struct sk_actor_opts o = {
        .name = name, .space = "s", .meta = {"meta", 4}, .detached = detached};
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = fn, .a = {VAL(7)}, .n_a = 1}),
                              .max_restarts = restarts,
                              .opts = &o};
    return eng->ops->actor_create(eng, &s, a, ready, NULL);
}
/* True if the actor is found; gives the handle back. */
static bool is_there(const char *space, const char *name, uint64_t id) {
    sk_aid a;
    sk_oid ready;
    struct sk_bytes meta;
    sk_rc rc = eng->actors->find(eng, space, name, &a, &ready, &meta, NULL);
    if (rc != SK_OK) return false;
    CHECK(a.v == id && meta.n == 4 && !memcmp(meta.p, "meta", 4));
    sk_free((void *)(uintptr_t)meta.p);
    eng_release(ready);
    sk_actor_release(eng, a);
    return true;
}
TASK(cl_dies) {
    raise(SIGKILL);
    return SK_OK;
}

TEST(cluster_actors_have_names_in_the_driver) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_aid a, b, c;
    sk_oid ready, r;
    char text[300], names[60];
    CHECK_OK(named("cl_counter", "one", false, 0, &a, &ready));
    CHECK(is_there("s", "one", a.v) && !is_there("t", "one", 0) && !is_there(NULL, "one", 0));
    CHECK_EQ(named("cl_counter", "one", false, 0, &b, &r), SK_EEXIST);
    CHECK_EQ(eng->actors->names(eng, names, sizeof names), 6);
    CHECK(!memcmp(names, "s\0one", 6));
    CHECK_EQ(
        eng_take(eng_job(&(struct job){.fn = "cl_count", .a = {VAL(1)}, .n_a = 1, .actor = a})), 8);
    /* with its last handle its name is free */
    eng_release(ready);
    sk_actor_release(eng, a);
    CHECK(!is_there("s", "one", 0));
    /* a detached one lives without handles, until it is killed */
    CHECK_OK(named("cl_counter", "one", true, 0, &a, &ready));
    eng_release(ready);
    sk_actor_release(eng, a);
    CHECK_EQ(
        eng_take(eng_job(&(struct job){.fn = "cl_count", .a = {VAL(2)}, .n_a = 1, .actor = a})), 9);
    CHECK(is_there("s", "one", a.v));
    CHECK_OK(eng->ops->actor_end(eng, a, true, NULL));
    CHECK(!is_there("s", "one", 0));
    /* one that fails in its constructor, or dies in a call, has none; one that starts again has */
    CHECK_OK(named("cl_fails", "bad", true, 0, &b, &ready));
    CHECK_EQ(eng_error(ready, text, sizeof text), SK_EINVAL);
    CHECK(!is_there("s", "bad", 0));
    sk_actor_release(eng, b);
    for (int32_t restarts = 0; restarts < 2; restarts++) {
        CHECK_OK(named("cl_counter", "dies", restarts, restarts, &c, &ready));
        CHECK_EQ(eng_error(eng_job(&(struct job){.fn = "cl_dies", .actor = c}), text, sizeof text),
                 SK_EACTOR);
        CHECK_EQ(is_there("s", "dies", c.v), restarts > 0);
        if (restarts)
            CHECK_EQ(eng_take(eng_job(
                         &(struct job){.fn = "cl_count", .a = {VAL(1)}, .n_a = 1, .actor = c})),
                     8);
        eng_release(ready);
        sk_actor_release(eng, c);
    }
    CHECK_EQ(eng->actors->leave(eng, NULL), SK_EINVAL);
    cluster_close(0);
}

/* Submits a child that waits, and waits for it. */
TASK(cl_child) {
    gate_add(6, 1);
    bool opened = gate_wait(7, 1);
    gate_add(8, 1); /* it was not killed */
    return opened ? SK_OK : SK_ERR(err, SK_ETIMEOUT, "gate");
}
TASK(cl_parent) {
    sk_oid o;
    bool ready;
    SK_TRY(t->engine->ops->define(t->engine, fid_of("cl_child"), "cl_child",
                                  (struct sk_bytes){"cl_child", 8}, err));
    SK_TRY(job_on(t->engine,
                  &(struct job){.fn = "cl_child", .n_returns = NO_RETURNS, .opts.parent = t->id},
                  NULL, NULL, err));
    SK_TRY(job_on(t->engine, &(struct job){.fn = "cl_child", .opts.parent = t->id}, &o, NULL, err));
    sk_rc rc = t->engine->ops->wait(t->engine, &o, 1, 1, INT64_MAX, &ready, err);
    t->engine->ops->release(t->engine, o);
    return rc;
}

TEST(cluster_cancels_the_children_of_a_task) {
    cluster_open(1, &(struct eng_opt){.cpus = 2});
    char text[300];
    sk_tid t;
    sk_oid o = eng_job_tid(&(struct job){.fn = "cl_parent"}, &t);
    CHECK(gate_wait(6, 2)); /* both children run: the parent lends its CPU */
    CHECK_OK(eng->ops->cancel(eng, t, SK_CANCEL_FORCE | SK_CANCEL_CHILDREN, NULL));
    CHECK_EQ(eng_error(o, text, sizeof text), SK_ECANCEL);
    /* nothing but them has the CPUs: this needs both */
    struct sk_need n = {.res.amount = {2 * SK_RES_UNIT}};
    sk_shape both;
    CHECK_OK(eng->ops->shape(eng, &n, &both, NULL));
    CHECK_EQ(eng_take(eng_job(
                 &(struct job){.fn = "cl_add", .a = {VAL(1), VAL(2)}, .n_a = 2, .shape = both})),
             3);
    CHECK_EQ(atomic_load(&gate->w[8]), 0);
    cluster_close(0);
}

/* ---- references ------------------------------------------------------------------------------ */

static bool host_is_clean(void *arg) {
    struct sk_ghost *x = sk_container_of(eng, struct sk_ghost, e);
    (void)arg;
    bool clean = !sk_own_n(x->own) && !x->actors.n && !x->tasks.n && !x->abroad.n;
    for (uint32_t i = 0; i < x->holders.n; i++) clean = clean && !x->holders.p[i].n;
    return clean;
}
static bool node_is_clean(void *arg) { return gate->w[CLEAN + *(uint32_t *)arg] != 0; }

/* Waits until nothing is left: no object, actor or task in the driver or on a node that is alive.
 */
static void cluster_settle(uint32_t killed) {
    if (!eng_drive_until(host_is_clean, NULL)) {
        struct sk_ghost *x = sk_container_of(eng, struct sk_ghost, e);
        uint64_t id;
        void *o;
        for (uint32_t c = 0; sk_own_each(x->own, &c, &id, &o);)
            printf("# left: %llx, %llu references\n", (unsigned long long)id,
                   (unsigned long long)sk_own_count(x->own, id));
        for (uint32_t i = 0; i < x->holders.n; i++)
            printf("# node %u holds %u\n", i + 1, x->holders.p[i].n);
        CHECK_MSG(false, "the driver has %llu objects, %u actors, %u tasks",
                  (unsigned long long)sk_own_n(x->own), x->actors.n, x->tasks.n);
    }
    for (uint32_t k = 0; k < 2 * cl.n; k++) { /* twice: what a node says may be a moment old */
        uint32_t i = k % cl.n;
        if (killed & 1u << i) continue;
        atomic_store(&gate->w[CLEAN + i], 0);
        CHECK_MSG(eng_drive_until(node_is_clean, &i), "node %u has objects", i);
    }
}

/* A value that is the number of an object, and says so. */
#define OF(o) {.kind = KIND_I64, .bytes = {&(o).v, 8}, .contains = &(o), .n_contains = 1}

/* Gets the object whose number is its argument 0, and adds argument 1, if there is one. */
TASK(cl_look) {
    sk_oid in = {(uint64_t)arg_i64(t, 0)};
    int64_t x = 0;
    t->engine->ops->retain(t->engine, in);
    sk_rc rc = get_i64(t->engine, in, &x, err);
    t->engine->ops->release(t->engine, in);
    return rc == SK_OK ? ret_i64(t, 0, x + (t->n_args > 1 ? arg_i64(t, 1) : 0), err) : rc;
}
TASK(cl_look_blob) { /* length and first byte of such an object */
    sk_oid in = {(uint64_t)arg_i64(t, 0)};
    struct sk_view v;
    t->engine->ops->retain(t->engine, in);
    sk_rc rc = t->engine->ops->get(t->engine, &in, 1, INT64_MAX, &v, err);
    if (rc == SK_OK && SK_KIND_IS_ERROR(v.kind))
        rc = SK_ERR(err, SK_ETASK, "%s", (const char *)v.data + 4);
    int64_t x = rc == SK_OK ? (int64_t)v.len * 1000 + v.data[0] : 0;
    if (rc == SK_OK) t->engine->ops->view_release(t->engine, &v);
    t->engine->ops->release(t->engine, in);
    return rc == SK_OK ? ret_i64(t, 0, x, err) : rc;
}
/* Puts a value of arg 0 bytes (0: the number 5), and gives its number: as its return, or as its
 * second yield. */
TASK(cl_inner) {
    sk_oid in;
    int64_t x = 5;
    const struct sk_engine_ops *ops = t->engine->ops;
    size_t n = t->n_args ? (size_t)arg_i64(t, 0) : 0;
    void *big = n ? sk_calloc(SK_TAG_TEST, n) : NULL;
    if (big) *(uint8_t *)big = 9;
    struct sk_payload p = {.kind = KIND_I64, .bytes = {&x, 8}};
    if (big) p = (struct sk_payload){.kind = KIND_BLOB, .bytes = {big, n}};
    SK_TRY(ops->put(t->engine, &p, &in, err));
    sk_free(big);
    p = (struct sk_payload)OF(in);
    sk_rc rc = t->n_returns == SK_STREAMING ? yield_i64(t, 1, err) : SK_OK;
    if (rc == SK_OK) {
        rc = t->n_returns == SK_STREAMING ? sk_task_yield(t, &p, err)
                                          : sk_task_return(t, t->n_returns - 1, &p, err);
    }
    for (uint32_t i = 0; rc == SK_OK && t->n_returns != SK_STREAMING && i + 1 < t->n_returns; i++)
        rc = ret_i64(t, i, i, err);
    ops->release(t->engine, in);
    return rc;
}
/* Gives the number of a reference without saying that it is one. */
TASK(cl_stray) {
    sk_oid in;
    int64_t x = 5;
    SK_TRY(t->engine->ops->put(t->engine, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}},
                               &in, err));
    t->engine->ops->release(t->engine, in);
    return ret_i64(t, 0, (int64_t)in.v, err);
}

static sk_oid put_i64(int64_t x) {
    sk_oid o;
    CHECK_OK(
        eng->ops->put(eng, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}}, &o, NULL));
    return o;
}
/* The job looks at an object that is inside its argument. */
static sk_oid look(const char *fn, sk_oid in, uint32_t node, uint32_t retries) {
    return eng_job(&(struct job){.fn = fn,
                                 .a = {VAL((int64_t)in.v)},
                                 .n_a = 1,
                                 .contains = &in,
                                 .n_contains = 1,
                                 .node = node,
                                 .node_only = !retries,
                                 .retries = (int32_t)retries});
}
/* The reference inside a value, with a count of its own; the value is released. */
static sk_oid inside(sk_oid outer) {
    sk_oid in = {(uint64_t)eng_i64(outer)};
    eng->ops->retain(eng, in);
    eng_release(outer);
    return in;
}

TEST(cluster_references_go_to_nodes_inside_values) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid one = put_i64(70), two, late, r[8];
    /* inside an argument, and inside an object */
    for (uint32_t i = 0; i < 4; i++) r[i] = look("cl_look", one, 1 + i % 2, 0);
    for (uint32_t i = 0; i < 4; i++) CHECK_EQ(eng_take(r[i]), 70);
    struct sk_payload p = OF(one);
    CHECK_OK(eng->ops->put(eng, &p, &two, NULL));
    eng_release(one);
    for (uint32_t i = 0; i < 4; i++)
        r[i] =
            eng_job(&(struct job){.fn = "cl_look", .a = {REF(two)}, .n_a = 1, .node = 1 + i % 2});
    eng_release(two);
    for (uint32_t i = 0; i < 4; i++) CHECK_EQ(eng_take(r[i]), 70);
    /* one that does not exist yet: the task waits for it */
    late = eng_job(&(struct job){.fn = "cl_late", .a = {VAL(33)}, .n_a = 1, .node = 1});
    r[0] = look("cl_look", late, 2, 0);
    gate_add(5, 1);
    CHECK_EQ(eng_take(r[0]), 33);
    eng_release(late);
    /* large ones: of the driver, of the same node, of another node */
    for (uint32_t size = 20000; size <= 200000; size += 180000) {
        uint8_t *mine = sk_calloc(SK_TAG_TEST, size);
        CHECK(mine);
        mine[0] = 3;
        p = (struct sk_payload){.kind = KIND_BLOB, .bytes = {mine, size}};
        CHECK_OK(eng->ops->put(eng, &p, &one, NULL));
        sk_free(mine);
        two =
            eng_job(&(struct job){.fn = "cl_blob", .a = {VAL(size), VAL(4)}, .n_a = 2, .node = 1});
        for (uint32_t i = 0; i < 8; i++)
            r[i] = look("cl_look_blob", i < 4 ? one : two, 1 + i % 2, 0);
        for (uint32_t i = 0; i < 8; i++) CHECK_EQ(eng_take(r[i]), size * 1000 + (i < 4 ? 3 : 4));
        eng_release(one);
        eng_release(two);
    }
    /* an error is one there, too */
    char text[2000];
    one = eng_job(&(struct job){.fn = "cl_fails"});
    CHECK_EQ(eng_error(look("cl_look", one, 1, 0), text, sizeof text), SK_ETASK);
    CHECK_MSG(strstr(text, "not today"), "%s", text);
    eng_release(one);
    /* nobody counts it, so it is gone */
    one = put_i64(1);
    two = (sk_oid){one.v};
    eng_release(one);
    r[0] = eng_job(&(struct job){.fn = "cl_look", .a = {VAL((int64_t)two.v)}, .n_a = 1});
    CHECK_EQ(eng_error(r[0], text, sizeof text), SK_ETASK);
    CHECK_MSG(strstr(text, "does not exist any more"), "%s", text);
    cluster_settle(0);
    cluster_close(0);
}

TASK(cl_begins) {
    gate_add(6, 1);
    return task_cl_look(t, err);
}

/* Tasks that wait for an object leave what they take to others: more of them than the nodes can run
 * wait here for a task that comes after them. */
TEST(cluster_tasks_that_wait_make_room) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid first = eng_job(&(struct job){.fn = "cl_late", .a = {VAL(6)}, .n_a = 1}), r[30];
    sk_oid late = eng_job(&(struct job){.fn = "cl_add", .a = {REF(first), VAL(1)}, .n_a = 2});
    for (uint32_t i = 0; i < 30; i++) r[i] = look("cl_begins", late, 0, 3);
    CHECK(gate_wait(6, 2)); /* so the first task takes so long that nodes get few tasks ahead */
    gate_add(5, 1);
    for (uint32_t i = 0; i < 30; i++) CHECK_EQ(eng_take(r[i]), 7);
    eng_release(first);
    eng_release(late);
    cluster_settle(0);
    cluster_close(0);
}

TEST(cluster_references_come_from_nodes_inside_values) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid out[40], in, r;
    char text[400];
    for (uint32_t n = 1; n <= 40; n += 39) {
        struct job j = {.fn = "cl_inner", .n_returns = n, .node = 1, .node_only = true};
        CHECK_OK(job_on(eng, &j, out, NULL, NULL));
        for (uint32_t i = 1; i < n; i++) out[i].v = out[0].v + i;
        for (uint32_t i = 0; i + 1 < n; i++) CHECK_EQ(eng_take(out[i]), i);
        in = inside(out[n - 1]);
        CHECK_EQ(eng_i64(in), 5);
        for (uint32_t node = 1; node <= 2; node++) {
            CHECK_EQ(eng_take(look("cl_look", in, node, 0)), 5);
            struct job add = {
                .fn = "cl_add", .a = {REF(in), VAL(1)}, .n_a = 2, .node = node, .node_only = true};
            CHECK_EQ(eng_take(eng_job(&add)), 6);
        }
        eng_release(in);
    }
    /* a large one, and the value that contains it goes to a node itself */
    struct job big = {.fn = "cl_inner", .a = {VAL(300000)}, .n_a = 1, .node = 1, .node_only = true};
    sk_oid outer = eng_job(&big);
    for (uint32_t node = 1; node <= 2; node++) {
        struct job j = {
            .fn = "cl_look_blob", .a = {REF(outer)}, .n_a = 1, .node = node, .node_only = true};
        CHECK_EQ(eng_take(eng_job(&j)), 300000 * 1000 + 9);
    }
    in = inside(outer);
    struct sk_view v;
    CHECK_OK(eng->ops->get(eng, &in, 1, INT64_MAX, &v, NULL));
    CHECK(v.len == 300000 && v.data[0] == 9);
    eng->ops->view_release(eng, &v);
    struct job len = {.fn = "cl_len", .a = {REF(in)}, .n_a = 1, .node = 2, .node_only = true};
    CHECK_EQ(eng_take(eng_job(&len)), 300000 * 1000 + 9);
    eng_release(in);
    /* inside a yield */
    struct heard h = {.sink = {on_events}};
    struct job j = {.fn = "cl_inner", .n_returns = SK_STREAMING, .sink = &h.sink};
    CHECK_OK(job_on(eng, &j, NULL, NULL, NULL));
    CHECK(eng_drive_until(is_over, &h));
    CHECK(h.n_yields == 2 && h.n_done == 1);
    in = inside(h.oid[1]);
    CHECK_EQ(eng_i64(in), 5);
    eng_release(in);
    eng_release(h.oid[0]);
    /* one that nobody counts is an error */
    in = (sk_oid){(uint64_t)eng_take(eng_job(&(struct job){.fn = "cl_stray"}))};
    eng->ops->retain(eng, in);
    CHECK_EQ(eng_error(in, text, sizeof text), SK_ELOST);
    /* a value that nobody looks into */
    r = eng_job(&(struct job){.fn = "cl_inner"});
    bool ready;
    CHECK_OK(eng->ops->wait(eng, &r, 1, 1, INT64_MAX, &ready, NULL));
    eng_release(r);
    cluster_settle(0);
    cluster_close(0);
}

struct handle { /* of an actor, as a value */
    uint64_t aid, ready;
};
static struct handle take_handle(const struct sk_task *t) { /* argument 0, with references */
    struct handle h;
    memcpy(&h, t->args[0].data, sizeof h);
    t->engine->ops->retain(t->engine, (sk_oid){h.ready});
    t->engine->ops->retain(t->engine, (sk_oid){h.aid});
    return h;
}
static void drop_handle(struct sk_engine *e, const struct handle *h) {
    sk_actor_release(e, (sk_aid){h->aid});
    e->ops->release(e, (sk_oid){h->ready});
}
static sk_rc submit_count(struct sk_engine *e, uint64_t aid, const struct sk_arg *a, sk_oid *out,
                          struct sk_err *err) {
    struct job j = {.fn = "cl_count", .a = {*a}, .n_a = 1, .actor = {aid}};
    SK_TRY(
        e->ops->define(e, fid_of("cl_count"), "cl_count", (struct sk_bytes){"cl_count", 8}, err));
    return job_on(e, &j, out, NULL, err);
}
/* Calls the actor that is its argument 0 with argument 1, three times, and gives the last value;
 * the argument of the second call is an object of its own. */
TASK(cl_calls) {
    struct handle h = take_handle(t);
    const struct sk_engine_ops *ops = t->engine->ops;
    int64_t x = arg_i64(t, 1), got = 0;
    sk_oid r[3], own;
    sk_rc rc =
        ops->put(t->engine, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}}, &own, err);
    for (int i = 0; rc == SK_OK && i < 3; i++)
        rc = submit_count(t->engine, h.aid,
                          i == 1 ? &(struct sk_arg)REF(own) : &(struct sk_arg)VAL(x), &r[i], err);
    ops->release(t->engine, own);
    ops->release(t->engine, r[0]); /* nobody wants it */
    if (rc == SK_OK) rc = get_i64(t->engine, r[2], &got, err);
    ops->release(t->engine, r[1]);
    ops->release(t->engine, r[2]);
    drop_handle(t->engine, &h);
    return rc == SK_OK ? ret_i64(t, 0, got, err) : rc;
}
/* As cl_calls, but returns the reference to the value of one call. */
TASK(cl_calls_later) {
    struct handle h = take_handle(t);
    const struct sk_engine_ops *ops = t->engine->ops;
    sk_oid r;
    SK_TRY(submit_count(t->engine, h.aid, &VAL(arg_i64(t, 1)), &r, err));
    sk_rc rc = sk_task_return(t, 0, &(struct sk_payload)OF(r), err);
    ops->release(t->engine, r);
    drop_handle(t->engine, &h);
    return rc;
}
/* Makes an actor and returns its handle. */
TASK(cl_makes) {
    struct sk_engine *e = t->engine;
    for (int i = 0; i < 2; i++) {
        const char *fn = i ? "cl_count" : "cl_counter";
        SK_TRY(e->ops->define(e, fid_of(fn), fn, (struct sk_bytes){fn, strlen(fn)}, err));
    }
    struct sk_actor_spec s = {
        .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(1000)}, .n_a = 1})};
    sk_aid a;
    sk_oid ready;
    SK_TRY(e->ops->actor_create(e, &s, &a, &ready, err));
    struct handle h = {a.v, ready.v};
    sk_rc rc = sk_task_return(
        t, 0,
        &(struct sk_payload){
            .kind = KIND_BLOB, .bytes = {&h, sizeof h}, .contains = &ready, .n_contains = 1},
        err);
    sk_actor_release(e, a);
    e->ops->release(e, ready);
    return rc;
}

static sk_oid with_handle(const char *fn, const struct handle *h, struct sk_arg a, uint32_t node) {
    const sk_oid ready = {h->ready};
    struct job j = {.fn = fn,
                    .a = {{.kind = KIND_BLOB, .bytes = {h, sizeof *h}}, a},
                    .n_a = 2,
                    .contains = &ready,
                    .n_contains = 1,
                    .node = node,
                    .node_only = true};
    return eng_job(&j);
}
static sk_oid calls(const char *fn, const struct handle *h, int64_t x, uint32_t node) {
    return with_handle(fn, h, VAL(x), node);
}
static struct handle handle_of(sk_oid outer) { /* with a count of its own; outer is released */
    struct sk_view v;
    struct handle h;
    struct sk_err err;
    CHECK_OK_ERR(eng->ops->get(eng, &outer, 1, INT64_MAX, &v, &err), &err);
    CHECK_MSG(v.kind == KIND_BLOB && v.len == sizeof h, "kind %x: %s", v.kind, v.data + 4);
    memcpy(&h, v.data, sizeof h);
    eng->ops->retain(eng, (sk_oid){h.ready});
    eng->ops->retain(eng, (sk_oid){h.aid});
    eng->ops->view_release(eng, &v);
    eng_release(outer);
    return h;
}
static struct handle made_on(uint32_t node) { /* an actor that a task has made there */
    return handle_of(eng_job(&(struct job){.fn = "cl_makes", .node = node, .node_only = true}));
}
static void handle_release(const struct handle *h) { drop_handle(eng, h); }
static sk_oid call_count(const struct handle *h, struct sk_arg a) {
    sk_oid r;
    struct sk_err err;
    CHECK_OK_ERR(submit_count(eng, h->aid, &a, &r, &err), &err);
    return r;
}

TEST(cluster_actors_of_the_driver_are_called_from_tasks) {
    cluster_open(2, &(struct eng_opt){.cpus = 2});
    struct sk_actor_spec s = {
        .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(0)}, .n_a = 1})};
    sk_aid a;
    sk_oid ready, r[2];
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    struct handle h = {a.v, ready.v};
    for (uint32_t node = 1; node <= 2; node++)
        CHECK_EQ(eng_take(calls("cl_calls", &h, 10, node)), 30 * (int64_t)node);
    for (uint32_t i = 0; i < 2; i++) r[i] = calls("cl_calls_later", &h, 1, 1 + i);
    int64_t sum = 0;
    for (uint32_t i = 0; i < 2; i++) {
        sk_oid in = inside(r[i]);
        sum += eng_i64(in);
        CHECK(eng_take(look("cl_look", in, 2 - i, 0)) > 60);
        eng_release(in);
    }
    CHECK_EQ(sum, 61 + 62);
    /* a dead one */
    char text[2000];
    CHECK_OK(eng->ops->actor_end(eng, a, true, NULL));
    CHECK_EQ(eng_error(calls("cl_calls", &h, 10, 1), text, sizeof text), SK_ETASK);
    CHECK_MSG(strstr(text, "dead"), "%s", text);
    handle_release(&h);
    cluster_settle(0);
    cluster_close(0);
}

TEST(cluster_actors_that_tasks_make) {
    cluster_open(2, &(struct eng_opt){.cpus = 3});
    struct handle h = made_on(1);
    sk_oid own = put_i64(5), r[4];
    for (int i = 0; i < 4; i++) r[i] = call_count(&h, i % 2 ? REF(own) : (struct sk_arg)VAL(1));
    eng_release(own);
    CHECK_EQ(eng_take(r[3]), 1012);
    for (int i = 0; i < 3; i++) eng_release(r[i]);
    for (uint32_t node = 1; node <= 2; node++) /* from its own node, and from the other */
        CHECK_EQ(eng_take(calls("cl_calls", &h, 10, node)), 1012 + 30 * (int64_t)node);
    sk_oid in = inside(calls("cl_calls_later", &h, 1, 2));
    CHECK_EQ(eng_i64(in), 1073);
    CHECK_EQ(eng_take(look("cl_look", in, 1, 0)), 1073);
    eng_release(in);
    /* what it returns is an argument of a task */
    in = call_count(&h, (struct sk_arg)VAL(1));
    struct job add = {.fn = "cl_add", .a = {REF(in), VAL(1)}, .n_a = 2, .node = 2};
    CHECK_EQ(eng_take(eng_job(&add)), 1075);
    eng_release(in);
    /* it lives as long as there are handles, and not longer */
    handle_release(&h);
    cluster_settle(0);
    /* killed from here */
    char text[400];
    h = made_on(1);
    CHECK_EQ(eng_take(call_count(&h, (struct sk_arg)VAL(1))), 1001);
    CHECK_OK(eng->ops->actor_end(eng, (sk_aid){h.aid}, true, NULL));
    CHECK_EQ(eng_error(call_count(&h, (struct sk_arg)VAL(1)), text, sizeof text), SK_EACTOR);
    struct job j = {.fn = "cl_count", .n_returns = SK_STREAMING, .actor = {h.aid}};
    sk_tid tid;
    sk_oid why;
    CHECK_OK(job_on(eng, &j, NULL, &tid, NULL)); /* nor is there a stream of it */
    CHECK_EQ(eng->streams->next(eng, tid, INT64_MAX, &why, NULL), SK_ETASK);
    CHECK_EQ(eng_error(why, text, sizeof text), SK_EACTOR);
    eng->streams->drop(eng, tid);
    handle_release(&h);
    cluster_settle(0);
    cluster_close(0);
}

/* Waits in the list of calls behind call_count(late): calls of others need not. */
static void others_go_on(struct handle *h, uint32_t node) {
    sk_oid late = eng_job(&(struct job){.fn = "cl_late", .a = {VAL(1)}, .n_a = 1, .node = 1}), r[2];
    gate->w[5] = 0;
    r[0] = call_count(h, REF(late));
    r[1] = call_count(h, (struct sk_arg)VAL(1));
    CHECK_EQ(eng_take(calls("cl_calls", h, 1, node)), 1003);
    gate_add(5, 1);
    CHECK_EQ(eng_take(r[1]), 1005);
    eng_release(r[0]);
    eng_release(late);
}

TEST(cluster_callers_wait_for_their_own_arguments_only) {
    cluster_open(2, &(struct eng_opt){.cpus = 4});
    struct sk_actor_spec s = {
        .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(1000)}, .n_a = 1})};
    sk_aid a;
    sk_oid ready;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    struct handle h = {a.v, ready.v};
    others_go_on(&h, 1);
    handle_release(&h);
    /* calls of an actor that a task has made, by the driver and by the other node */
    h = made_on(1);
    others_go_on(&h, 2);
    handle_release(&h);
    cluster_settle(0);
    cluster_close(0);
}

/* Cancels what makes object arg 0, with the flags arg 1. */
TASK(cl_cancels) {
    sk_oid in = {(uint64_t)arg_i64(t, 0)};
    t->engine->ops->retain(t->engine, in);
    SK_TRY(t->engine->ops->cancel(t->engine, (sk_tid){in.v}, (uint32_t)arg_i64(t, 1), err));
    t->engine->ops->release(t->engine, in);
    return ret_i64(t, 0, 0, err);
}
static void cancelled_by_a_task(sk_oid in, uint32_t flags, uint32_t node) {
    CHECK_EQ(eng_take(eng_job(&(struct job){.fn = "cl_cancels",
                                            .a = {VAL((int64_t)in.v), VAL(flags)},
                                            .n_a = 2,
                                            .contains = &in,
                                            .n_contains = 1,
                                            .node = node,
                                            .node_only = true})),
             0);
}
/* Calls the actor that is its argument 0, with a limit of two calls; cancels the second, and gives
 * the error of what it returns. Its third call has to be refused. */
TASK(cl_limit) {
    struct handle h = take_handle(t);
    const struct sk_engine_ops *ops = t->engine->ops;
    SK_TRY(t->engine->ops->define(t->engine, fid_of("cl_count"), "cl_count",
                                  (struct sk_bytes){"cl_count", 8}, err));
    struct job j = {
        .fn = "cl_count", .a = {VAL(1)}, .n_a = 1, .actor = {h.aid}, .opts.max_pending = 2};
    sk_oid r[3];
    sk_tid tid;
    int64_t x;
    for (int i = 0; i < 2; i++) SK_TRY(job_on(t->engine, &j, &r[i], &tid, err));
    if (job_on(t->engine, &j, &r[2], NULL, err) != SK_EPENDING)
        return SK_ERR(err, SK_EINVAL, "there is no limit");
    SK_TRY(ops->cancel(t->engine, arg_i64(t, 1) ? tid : (sk_tid){r[1].v}, 0, err));
    struct sk_view v;
    int32_t code = 0;
    SK_TRY(ops->get(t->engine, &r[1], 1, INT64_MAX, &v, err));
    if (v.kind == SK_KIND_ENGINE_ERROR) memcpy(&code, v.data, 4);
    ops->view_release(t->engine, &v);
    SK_TRY(job_on(t->engine, &j, &r[2], NULL, err)); /* there is room now */
    gate_add(5, 1);
    SK_TRY(get_i64(t->engine, r[2], &x, err));
    for (int i = 0; i < 3; i++) ops->release(t->engine, r[i]);
    drop_handle(t->engine, &h);
    return ret_i64(t, 0, code, err);
}

TEST(cluster_cancels_what_other_sides_make) {
    cluster_open(2, &(struct eng_opt){.cpus = 4});
    char text[400];
    /* a task of the driver that runs on one node, cancelled by a task on the other */
    sk_oid late = eng_job(&(struct job){.fn = "cl_child", .node = 1, .node_only = true});
    CHECK(gate_wait(6, 1));
    cancelled_by_a_task(late, SK_CANCEL_FORCE, 2);
    CHECK_EQ(eng_error(late, text, sizeof text), SK_ECANCEL);
    for (int made = 0; made < 2; made++) { /* an actor of the driver; one that a task has made */
        struct sk_actor_spec s = {
            .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(1000)}, .n_a = 1})};
        sk_aid a;
        sk_oid ready, r[2];
        struct handle h;
        if (!made) {
            CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
            h = (struct handle){a.v, ready.v};
        } else h = made_on(1);
        gate->w[5] = 0;
        late = eng_job(&(struct job){.fn = "cl_late", .a = {VAL(1)}, .n_a = 1, .node = 1});
        for (int i = 0; i < 2; i++) r[i] = call_count(&h, REF(late));
        CHECK_OK(eng->ops->cancel(eng, (sk_tid){r[0].v}, 0, NULL));
        CHECK_EQ(eng_error(r[0], text, sizeof text), SK_ECANCEL);
        cancelled_by_a_task(r[1], 0, 2);
        CHECK_EQ(eng_error(r[1], text, sizeof text), SK_ECANCEL);
        gate_add(5, 1);
        CHECK_EQ(eng_take(late), 1);
        cancelled_by_a_task(ready, 0, 1); /* nothing to cancel */
        /* calls of a task: counted, and cancelled by it */
        gate->w[5] = 0;
        struct job busy = {.fn = "cl_late", .a = {VAL(1)}, .n_a = 1, .actor = {h.aid}};
        sk_oid b = eng_job(&busy);
        CHECK_EQ(eng_take(calls("cl_limit", &h, made, 2)), SK_ECANCEL);
        CHECK_EQ(eng_take(b), 1);
        /* the driver's calls are counted, too */
        gate->w[5] = 0;
        busy.opts.max_pending = 2;
        for (int i = 0; i < 2; i++) r[i] = eng_job(&busy);
        CHECK_EQ(job_on(eng, &busy, &b, NULL, NULL), SK_EPENDING);
        gate_add(5, 1);
        for (int i = 0; i < 2; i++) CHECK_EQ(eng_take(r[i]), 1);
        handle_release(&h);
    }
    cluster_settle(0);
    cluster_close(0);
}

/* ---- names of actors */

/* Makes a counter that begins with 1000, named as its argument 0; argument 1: detached. Gives 0, or
 * the code of the error. */
TASK(cl_names) {
    struct sk_engine *e = t->engine;
    char name[20];
    memcpy(name, t->args[0].data, t->args[0].len);
    name[t->args[0].len] = 0;
    for (int i = 0; i < 2; i++) {
        const char *fn = i ? "cl_count" : "cl_counter";
        SK_TRY(e->ops->define(e, fid_of(fn), fn, (struct sk_bytes){fn, strlen(fn)}, err));
    }
    struct sk_actor_opts o = {
        .name = name, .space = "s", .meta = {"made", 4}, .detached = arg_i64(t, 1) != 0};
    struct sk_actor_spec s = {
        .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(1000)}, .n_a = 1}), .opts = &o};
    sk_aid a;
    sk_oid ready;
    sk_rc rc = e->ops->actor_create(e, &s, &a, &ready, err);
    if (rc != SK_OK) return ret_i64(t, 0, rc, err);
    sk_actor_release(e, a);
    e->ops->release(e, ready);
    return ret_i64(t, 0, 0, err);
}
/* Finds a counter by its name, and adds argument 1; with a third argument it is killed then. */
TASK(cl_finds) {
    struct sk_engine *e = t->engine;
    char name[20], names[200];
    sk_aid a;
    sk_oid ready, r;
    struct sk_bytes meta;
    int64_t x = 0;
    memcpy(name, t->args[0].data, t->args[0].len);
    name[t->args[0].len] = 0;
    sk_rc rc = e->actors->find(e, "s", name, &a, &ready, &meta, err);
    if (rc == SK_ENOENT) return ret_i64(t, 0, -1, err);
    SK_TRY(rc);
    sk_free((void *)(uintptr_t)meta.p);
    if (meta.n != 4 || e->actors->names(e, names, sizeof names) != 3 + strlen(name) ||
        strcmp(names + 2, name) != 0)
        return SK_EINVAL;
    SK_TRY(submit_count(e, a.v, &VAL(arg_i64(t, 1)), &r, err));
    rc = get_i64(e, r, &x, err);
    e->ops->release(e, r);
    if (t->n_args > 2) SK_TRY(e->ops->actor_end(e, a, true, err));
    sk_actor_release(e, a);
    e->ops->release(e, ready);
    return rc == SK_OK ? ret_i64(t, 0, x, err) : rc;
}
static int64_t by_name(const char *fn, const char *name, int64_t x, uint32_t node, bool kills) {
    struct job j = {.fn = fn,
                    .a = {{.kind = KIND_BLOB, .bytes = {name, strlen(name)}}, VAL(x), VAL(1)},
                    .n_a = 2 + kills,
                    .node = node,
                    .node_only = true};
    return eng_take(eng_job(&j));
}
static bool no_names(void *arg) {
    (void)arg;
    return sk_list_empty(&sk_container_of(eng, struct sk_ghost, e)->actor_names);
}

TEST(cluster_names_of_actors_in_tasks) {
    cluster_open(2, &(struct eng_opt){.cpus = 3});
    sk_aid a;
    sk_oid ready;
    char text[300];
    /* an actor of the driver */
    CHECK_OK(named("cl_counter", "mine", false, 0, &a, &ready));
    for (uint32_t node = 1; node <= 2; node++)
        CHECK_EQ(by_name("cl_finds", "mine", 1, node, false), 7 + node);
    CHECK_EQ(by_name("cl_names", "mine", 0, 1, false), SK_EEXIST);
    CHECK_EQ(by_name("cl_finds", "other", 1, 1, false), -1);
    CHECK_EQ(by_name("cl_finds", "mine", 1, 1, true), 10);
    CHECK(eng_drive_until(no_names, NULL));
    CHECK_EQ(by_name("cl_finds", "mine", 1, 2, false), -1);
    sk_actor_release(eng, a);
    eng_release(ready);
    /* one of a task: found everywhere, and its name is free when it is dead */
    for (uint32_t from = 1; from <= 2; from++) {
        CHECK_EQ(by_name("cl_names", "theirs", 1, from, false), 0);
        CHECK_EQ(by_name("cl_names", "theirs", 1, 3 - from, false), SK_EEXIST);
        CHECK_EQ(by_name("cl_names", "theirs", 1, from, false), SK_EEXIST);
        CHECK_EQ(named("cl_counter", "theirs", false, 0, &a, &ready), SK_EEXIST);
        for (uint32_t node = 1; node <= 2; node++)
            CHECK_EQ(by_name("cl_finds", "theirs", 1, node, false), 1000 + node);
        struct sk_bytes meta;
        CHECK_OK(eng->actors->find(eng, "s", "theirs", &a, &ready, &meta, NULL));
        CHECK(meta.n == 4 && !memcmp(meta.p, "made", 4));
        sk_free((void *)(uintptr_t)meta.p);
        struct handle h = {a.v, ready.v};
        CHECK_EQ(eng_take(call_count(&h, (struct sk_arg)VAL(1))), 1003);
        if (from == 1) CHECK_OK(eng->ops->actor_end(eng, a, true, NULL));
        else CHECK_EQ(by_name("cl_finds", "theirs", 1, 1, true), 1004);
        CHECK(eng_drive_until(no_names, NULL));
        CHECK_EQ(eng_error(call_count(&h, (struct sk_arg)VAL(1)), text, sizeof text), SK_EACTOR);
        handle_release(&h);
    }
    /* not detached: it goes with its last handle */
    CHECK_EQ(by_name("cl_names", "short", 0, 1, false), 0);
    CHECK(eng_drive_until(no_names, NULL));
    cluster_settle(0);
    /* a node is killed: the names of its actors are free */
    CHECK_EQ(by_name("cl_names", "theirs", 1, 2, false), 0);
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    CHECK(eng_drive_until(no_names, NULL));
    CHECK_EQ(by_name("cl_names", "theirs", 0, 1, false), 0);
    cluster_settle(1u << 1);
    cluster_close(1u << 1);
}

static sk_aid counter_on(uint32_t node, int32_t restarts, sk_oid *ready) {
    struct job j = {.fn = "cl_counter", .a = {VAL(100)}, .n_a = 1, .node = node};
    struct sk_actor_spec s = {.init = spec_of(&j), .max_restarts = restarts};
    sk_aid a;
    bool there;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, ready, NULL));
    CHECK_OK(eng->ops->wait(eng, ready, 1, 1, INT64_MAX, &there, NULL));
    return a;
}

/* Calls the actor that is its argument 0, which waits the first time that it is called. */
TASK(cl_calls_waits) {
    struct handle h = take_handle(t);
    const struct sk_engine_ops *ops = t->engine->ops;
    sk_oid r;
    struct sk_view v;
    struct job j = {.fn = "cl_waits", .actor = {h.aid}, .retries = (int32_t)arg_i64(t, 1)};
    SK_TRY(ops->define(t->engine, fid_of("cl_waits"), "cl_waits", (struct sk_bytes){"cl_waits", 8},
                       err));
    SK_TRY(job_on(t->engine, &j, &r, NULL, err));
    sk_rc rc = ops->get(t->engine, &r, 1, INT64_MAX, &v, err);
    int64_t x = rc == SK_OK && SK_KIND_IS_ERROR(v.kind) ? *(const int32_t *)(const void *)v.data
                                                        : (int64_t)v.len;
    if (rc == SK_OK) ops->view_release(t->engine, &v);
    ops->release(t->engine, r);
    drop_handle(t->engine, &h);
    return rc == SK_OK ? ret_i64(t, 0, x, err) : rc;
}

/* A call that a task has made of an actor on another node, which is killed: it runs again where the
 * actor does, if the call has retries, by itself or by the actor's max_task_retries. */
TEST(cluster_repeats_calls_of_tasks_after_the_loss_of_a_node) {
    for (int k = 0; k < 3; k++) {
        cluster_open(3, &(struct eng_opt){.cpus = 2});
        struct job init = {.fn = "cl_counter", .a = {VAL(100)}, .n_a = 1, .node = 2};
        struct sk_actor_spec s = {
            .init = spec_of(&init), .max_restarts = 1, .max_task_retries = k == 1};
        sk_aid a;
        sk_oid ready;
        bool there;
        CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
        CHECK_OK(eng->ops->wait(eng, &ready, 1, 1, INT64_MAX, &there, NULL));
        struct handle h = {a.v, ready.v};
        for (int i = 0; i <= 2; i++) atomic_store(&gate->w[i], 0);
        sk_oid r = calls("cl_calls_waits", &h, k == 2, 1);
        CHECK(gate_wait(1, 1));
        CHECK(kill(cl.pid[1], SIGKILL) == 0);
        CHECK_EQ(eng_take(r), k ? 30000 : SK_EACTOR);
        CHECK_EQ(atomic_load(&gate->w[1]), k ? 2 : 1);
        handle_release(&h);
        cluster_settle(1u << 1);
        cluster_close(1u << 1);
    }
}

/* ---- streams of actors of the other side ----------------------------------------------------- */

/* Yields argument 0 values of argument 1 bytes each (0: numbers); with argument 2 it fails then. */
TASK(cl_sized) {
    for (int64_t i = 0; i < arg_i64(t, 0); i++) {
        if (arg_i64(t, 1)) SK_TRY(yield_blob(t, (size_t)arg_i64(t, 1), (uint8_t)i, err));
        else SK_TRY(yield_i64(t, i, err));
        gate_max(20, gate_add(21, 1) - atomic_load(&gate->w[22]));
    }
    if (arg_i64(t, 2) == 1) return SK_ERR(err, SK_EINVAL, "not today");
    if (arg_i64(t, 2) == 2 && !gate_wait(23, 1)) return SK_ERR(err, SK_ETIMEOUT, "gate");
    return SK_OK;
}
/* Reads a stream of the actor: adds up the first bytes of at most `most` values (0: all). */
static sk_rc read_stream(struct sk_engine *e, uint64_t actor, const int64_t *a, int64_t most,
                         uint32_t window, int64_t *sum, struct sk_err *err) {
    struct job j = {.fn = "cl_sized",
                    .a = {VAL(a[0]), VAL(a[1]), VAL(a[2])},
                    .n_a = 3,
                    .actor = {actor},
                    .opts.stream_window = window};
    struct sk_task_spec s = spec_of(&j);
    struct sk_view v;
    sk_oid r;
    sk_tid tid;
    sk_rc rc = SK_OK;
    s.n_returns = SK_STREAMING;
    *sum = 0;
    SK_TRY(
        e->ops->define(e, fid_of("cl_sized"), "cl_sized", (struct sk_bytes){"cl_sized", 8}, err));
    SK_TRY(e->ops->submit(e, &s, NULL, &tid, err));
    for (int64_t i = 0; rc == SK_OK && (!most || i < most); i++) {
        rc = e->streams->next(e, tid, INT64_MAX, &r, err);
        if (rc != SK_OK && rc != SK_ETASK) break;
        sk_rc got = e->ops->get(e, &r, 1, INT64_MAX, &v, err);
        if (got == SK_OK && rc == SK_OK) *sum += v.data[0] + (int64_t)(v.len > 8 ? v.len : 0);
        if (rc == SK_ETASK) *sum = v.kind == SK_KIND_ENGINE_ERROR ? -2 : -1;
        if (got == SK_OK) e->ops->view_release(e, &v);
        e->ops->release(e, r);
        gate_add(22, 1);
    }
    e->streams->drop(e, tid);
    return rc == SK_EDONE || rc == SK_ETASK ? SK_OK : rc;
}
TASK(cl_reads) { /* arguments: the actor, then those of read_stream */
    struct handle h = take_handle(t);
    int64_t a[5], sum;
    memcpy(a, t->args[1].data, sizeof a);
    sk_rc rc = read_stream(t->engine, h.aid, a, a[3], (uint32_t)a[4], &sum, err);
    drop_handle(t->engine, &h);
    return rc == SK_OK ? ret_i64(t, 0, sum, err) : rc;
}
static sk_oid reads(const struct handle *h, const int64_t *a, uint32_t node) {
    struct sk_arg all = {.kind = KIND_BLOB, .bytes = {a, 5 * sizeof *a}};
    return with_handle("cl_reads", h, all, node);
}

TEST(cluster_streams_of_actors_of_other_sides) {
    cluster_open(3, &(struct eng_opt){.cpus = 3});
    struct sk_err err;
    int64_t sum;
    for (uint32_t owner = 0; owner < 3; owner++) { /* the driver, and two nodes */
        struct handle h;
        if (owner) h = made_on(owner);
        else {
            sk_oid ready;
            h.aid = counter_on(1, 0, &ready).v;
            h.ready = ready.v;
        }
        for (int64_t size = 0; size <= 20000; size += 20000)
            for (uint32_t node = 1; node <= 3; node++) {
                const int64_t all[] = {20, size, 0, 0, 0}, fails[] = {5, size, 1, 0, 0},
                              few[] = {20, size, 0, 3, 0}, window[] = {20, size, 0, 0, 2};
                const int64_t want = 190 + 20 * size;
                CHECK_EQ(eng_take(reads(&h, all, node)), want);
                CHECK_EQ(eng_take(reads(&h, fails, node)), -2);
                CHECK_EQ(eng_take(reads(&h, few, node)), 3 + 3 * size);
                atomic_store(&gate->w[20], 0);
                atomic_store(&gate->w[21], 0);
                atomic_store(&gate->w[22], 0);
                CHECK_EQ(eng_take(reads(&h, window, node)), want);
                CHECK_MSG(atomic_load(&gate->w[20]) <= 4, "%u yields wait", gate->w[20]);
                CHECK_OK_ERR(read_stream(eng, h.aid, all, 0, 0, &sum, &err), &err);
                CHECK_EQ(sum, want);
                CHECK_OK_ERR(read_stream(eng, h.aid, fails, 0, 0, &sum, &err), &err);
                CHECK_EQ(sum, -2);
                CHECK_OK_ERR(read_stream(eng, h.aid, few, 3, 2, &sum, &err), &err);
                CHECK_EQ(sum, 3 + 3 * size);
            }
        handle_release(&h);
    }
    cluster_settle(0);
    cluster_close(0);
}

/* A node says that it has taken all of a stream that it does not read. */
TEST(cluster_streams_are_for_their_reader) {
    cluster_open(1, &(struct eng_opt){.cpus = 1});
    struct sk_ghost *x = sk_container_of(eng, struct sk_ghost, e);
    struct job j = {.fn = "cl_sized", .a = {VAL(3), VAL(0), VAL(2)}, .n_a = 3};
    struct sk_task_spec s = spec_of(&j);
    struct sk_guest_news news = {.place = 1};
    struct sk_guest_event ev = {.node = 1, .news = &news};
    static const enum sk_guest_news_kind says[] = {SK_NEWS_HELD, SK_NEWS_TOOK, SK_NEWS_UNHELD};
    sk_oid r;
    sk_tid tid;
    s.n_returns = SK_STREAMING;
    CHECK_OK(eng->ops->submit(eng, &s, NULL, &tid, NULL));
    CHECK_OK(eng->streams->next(eng, tid, INT64_MAX, &r, NULL));
    for (uint32_t i = 0; i < SK_COUNT(says); i++) {
        news.kind = says[i];
        news.id = r.v;
        news.flags = UINT32_MAX; /* nobody reads it any more */
        pthread_mutex_lock(&x->mu);
        sk_gref_news(x, &ev);
        pthread_mutex_unlock(&x->mu);
    }
    eng_release(r);
    gate_add(23, 1);
    for (int i = 1; i < 3; i++) {
        CHECK_OK(eng->streams->next(eng, tid, INT64_MAX, &r, NULL));
        eng_release(r);
    }
    CHECK_EQ(eng->streams->next(eng, tid, INT64_MAX, &r, NULL), SK_EDONE);
    eng->streams->drop(eng, tid);
    cluster_close(0);
}

TEST(cluster_streams_of_a_killed_node) {
    for (uint32_t who = 1; who <= 2; who++) { /* the actor's node is killed, or the reader's */
        cluster_open(2, &(struct eng_opt){.cpus = 3});
        struct handle h = made_on(1);
        const int64_t waits[] = {3, 20000, 2, 0, 0};
        char text[2000];
        atomic_store(&gate->w[22], 0);
        sk_oid r = reads(&h, waits, 2);
        CHECK(gate_wait(22, 3)); /* it has read three values */
        CHECK(kill(cl.pid[who - 1], SIGKILL) == 0);
        if (who == 1) CHECK_EQ(eng_take(r), -2);
        else CHECK_EQ(eng_error(r, text, sizeof text), SK_EINFEASIBLE);
        gate_add(23, 1);
        handle_release(&h);
        cluster_settle(1u << (who - 1));
        cluster_close(1u << (who - 1));
    }
}

/* ---- what a node cannot run ------------------------------------------------------------------ */

static sk_rc inside_job(struct sk_task *t, const char *fn, struct job *j, int64_t cpus,
                        struct sk_err *err) {
    struct sk_engine *e = t->engine;
    struct sk_need n = {.res.amount = {cpus * SK_RES_UNIT}};
    j->fn = fn;
    SK_TRY(e->ops->define(e, fid_of(fn), fn, (struct sk_bytes){fn, strlen(fn)}, err));
    SK_TRY(e->envs->define(e, (struct sk_bytes){"four", 5}, &n.env, err));
    return e->ops->shape(e, &n, &j->shape, err);
}
/* Submits a task for which this node has too few CPUs, with a value of 50,000 bytes. It returns
 * another one; returns how many bytes of it are right. */
TASK(cl_hands_on) {
    struct sk_engine *e = t->engine;
    struct job j = {.n_a = 2, .retries = arg_i64(t, 1) ? 1 : 0};
    struct sk_view v;
    struct sk_buf b;
    sk_oid own, r;
    SK_TRY(e->ops->buf_alloc(e, 50000, &b, err));
    memset(b.data, 7, b.len);
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_BLOB, .buf = &b, .buf_len = b.len},
                       &own, err));
    SK_TRY(inside_job(t, arg_i64(t, 1) ? "cl_waits_once" : "cl_handed_on", &j, arg_i64(t, 0), err));
    j.a[0] = REF(own);
    j.a[1] = VAL(2);
    SK_TRY(job_on(e, &j, &r, NULL, err));
    e->ops->release(e, own);
    sk_rc rc = e->ops->get(e, &r, 1, INT64_MAX, &v, err);
    e->ops->release(e, r);
    if (rc != SK_OK) return rc;
    int64_t n = 0;
    for (size_t i = 0; v.kind == KIND_BLOB && i < v.len; i++) n += v.data[i] == 9;
    if (SK_KIND_IS_ERROR(v.kind))
        n = v.kind == SK_KIND_ENGINE_ERROR ? *(const int32_t *)(const void *)v.data : SK_ETASK;
    e->ops->view_release(e, &v);
    return ret_i64(t, 0, n, err);
}
TASK(cl_handed_on) {
    if (!view_is(&t->args[0], 50000, 7) || !task_env || strcmp(task_env, "four") != 0)
        return SK_EINVAL;
    return ret_blob(t, 0, 60000, (uint8_t)(arg_i64(t, 1) + 7), err);
}
TASK(cl_waits_once) { /* says where it runs, and waits to be killed */
    atomic_store(&gate->w[3], (uint32_t)sk_id_place(t->id.v));
    if (gate_add(1, 1) > 1) return ret_blob(t, 0, 30000, 9, err);
    return gate_wait(2, 1) ? SK_EINVAL : SK_ETIMEOUT;
}
static sk_oid two_on(const char *fn, int64_t x, int64_t y, uint32_t node) {
    struct job j = {.fn = fn, .a = {VAL(x), VAL(y)}, .n_a = 2, .node = node, .node_only = true};
    return eng_job(&j);
}
static sk_oid hand_on(int64_t cpus, bool waits, uint32_t node) {
    return two_on("cl_hands_on", cpus, waits, node);
}

TASK(cl_place) { return ret_i64(t, 0, (int64_t)sk_id_place(t->id.v), err); }
/* Makes a counter that needs so many CPUs and is named "far", and has it count twice. Returns the
 * count; the actor stays if it is detached (argument 1). */
TASK(cl_makes_far) {
    struct sk_engine *e = t->engine;
    struct job j = {.a = {VAL(100)}, .n_a = 1};
    struct sk_actor_opts o = {
        .name = "far", .space = "s", .meta = {"meta", 4}, .detached = arg_i64(t, 1)};
    sk_aid a;
    sk_oid ready, r;
    int64_t x;
    SK_TRY(inside_job(t, "cl_counter", &j, arg_i64(t, 0), err));
    struct sk_actor_spec s = {
        .init = spec_of(&j), .opts = &o, .max_restarts = 1, .max_task_retries = 1};
    sk_rc rc = e->ops->actor_create(e, &s, &a, &ready, err);
    if (rc == SK_EEXIST) return ret_i64(t, 0, rc, err);
    SK_TRY(rc);
    for (int i = 0; i < 2; i++) {
        SK_TRY(submit_count(e, a.v, &VAL(1), &r, err));
        rc = get_i64(e, r, &x, err);
        e->ops->release(e, r);
        if (rc != SK_OK) break;
    }
    sk_actor_release(e, a);
    e->ops->release(e, ready);
    return rc == SK_OK ? ret_i64(t, 0, x, err) : rc;
}
static sk_oid make_far(int64_t cpus, bool detached, uint32_t node) {
    return two_on("cl_makes_far", cpus, detached, node);
}

TEST(cluster_makes_actors_that_a_node_cannot_hold) {
    node_cpus[1] = node_cpus[2] = 3;
    cluster_open(3, &(struct eng_opt){.cpus = 1});
    char text[2000];
    for (uint32_t i = 0; i < 6; i++) { /* it goes with its last handle, and its name */
        CHECK_EQ(eng_take(make_far(2, false, 1)), 102);
        CHECK(eng_drive_until(no_names, NULL));
    }
    CHECK_EQ(eng_error(make_far(4, false, 1), text, sizeof text), SK_ETASK);
    CHECK(eng_drive_until(no_names, NULL));
    cluster_settle(0);
    /* one that is detached is found everywhere, once; the loss of its maker's node is nothing to
     * it, that of its own costs a restart */
    CHECK_EQ(eng_take(make_far(2, true, 1)), 102);
    CHECK_EQ(eng_take(make_far(2, true, 1)), SK_EEXIST);
    CHECK_EQ(by_name("cl_finds", "far", 1, 2, false), 103);
    CHECK(kill(cl.pid[0], SIGKILL) == 0);
    CHECK_EQ(by_name("cl_finds", "far", 1, 3, false), 104);
    sk_aid a;
    sk_oid ready;
    struct sk_bytes meta;
    CHECK_OK(eng->actors->find(eng, "s", "far", &a, &ready, &meta, NULL));
    sk_free((void *)(uintptr_t)meta.p);
    struct handle h = {a.v, ready.v};
    sk_oid where = eng_job(&(struct job){.fn = "cl_place", .actor = a});
    uint32_t at = (uint32_t)eng_take(where) - 1;
    CHECK(at == 1 || at == 2);
    CHECK(kill(cl.pid[at], SIGKILL) == 0);
    CHECK_EQ(eng_take(call_count(&h, (struct sk_arg)VAL(1))), 101);
    CHECK_OK(eng->ops->actor_end(eng, a, true, NULL));
    handle_release(&h);
    cluster_settle(1u << at | 1u);
    cluster_close(1u << at | 1u);
    memset(node_cpus, 0, sizeof node_cpus);
}

TEST(cluster_hands_on_what_a_node_cannot_run) {
    node_cpus[1] = node_cpus[2] = 3;
    cluster_open(3, &(struct eng_opt){.cpus = 1});
    sk_oid r[20];
    for (uint32_t i = 0; i < 20; i++) r[i] = hand_on(1 + i % 3, false, 1 + i % 3);
    for (uint32_t i = 0; i < 20; i++) CHECK_EQ(eng_take(r[i]), 60000);
    CHECK_EQ(eng_take(hand_on(4, false, 1)), SK_EINFEASIBLE);
    cluster_settle(0);
    /* the node where it runs is killed: it runs on the other one */
    sk_oid o = hand_on(3, true, 1);
    CHECK(gate_wait(1, 1));
    uint32_t at = atomic_load(&gate->w[3]) - 1;
    CHECK((at == 1 || at == 2) && kill(cl.pid[at], SIGKILL) == 0);
    CHECK_EQ(eng_take(o), 30000);
    cluster_settle(1u << at);
    /* the node of the task that has submitted it is killed: it runs to its end, for nobody */
    atomic_store(&gate->w[1], 0);
    o = hand_on(3, true, 1);
    CHECK(gate_wait(1, 1));
    CHECK(kill(cl.pid[0], SIGKILL) == 0);
    char text[300];
    CHECK_EQ(eng_error(o, text, sizeof text), SK_EINFEASIBLE);
    gate_add(2, 1);
    cluster_settle(1u << at | 1u);
    cluster_close(1u << at | 1u);
    memset(node_cpus, 0, sizeof node_cpus);
}

/* ---- what a node has no room for ------------------------------------------------------------- */

enum { FAN = 20 };
/* Waits until others like it run on both nodes; the first one on node 2 then waits for word 14, if
 * word 15 says so. Returns its node. */
TASK(cl_fan) {
    int at = (int)sk_id_place(t->id.v);
    gate_add(10 + at, 1);
    if (!gate_wait(11, 1) || !gate_wait(12, 1)) return SK_ERR(err, SK_ETIMEOUT, "gate");
    if (at == 2 && atomic_load(&gate->w[15]) && gate_add(13, 1) == 1 && !gate_wait(14, 1))
        return SK_ERR(err, SK_ETIMEOUT, "gate");
    return ret_i64(t, 0, at, err);
}
TASK(cl_fans_out) { /* how many of 20 tasks have run on node 1, and 100 times those of node 2 */
    struct sk_engine *e = t->engine;
    struct job j = {.retries = 1, .opts.parent = t->id};
    sk_oid r[FAN];
    int64_t n = 0, at;
    SK_TRY(inside_job(t, "cl_fan", &j, 1, err));
    for (int i = 0; i < FAN; i++) SK_TRY(job_on(e, &j, &r[i], NULL, err));
    for (int i = 0; i < FAN; i++) {
        SK_TRY(get_i64(e, r[i], &at, err));
        e->ops->release(e, r[i]);
        n += at == 1 ? 1 : 100;
    }
    return ret_i64(t, 0, n, err);
}
static sk_oid fans_out(void) {
    return eng_job(&(struct job){.fn = "cl_fans_out", .node = 1, .retries = 1});
}

TEST(cluster_hands_over_what_waits_at_a_busy_node) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    int64_t n = eng_take(fans_out());
    CHECK_MSG(n % 100 > 0 && n / 100 > 0 && n % 100 + n / 100 == FAN, "%lld", (long long)n);
    cluster_settle(0);
    /* the node to which it was handed is killed */
    for (int i = 11; i <= 12; i++) atomic_store(&gate->w[i], 0);
    atomic_store(&gate->w[15], 1);
    sk_oid o = fans_out();
    CHECK(gate_wait(13, 1));
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    CHECK_EQ(eng_take(o), FAN);
    cluster_settle(1u << 1);
    cluster_close(1u << 1);
}

TEST(cluster_hands_over_what_waits_at_a_node_that_is_killed) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    atomic_store(&gate->w[15], 1);
    sk_oid o = fans_out();
    CHECK(gate_wait(13, 1));
    CHECK(kill(cl.pid[0], SIGKILL) == 0);
    gate_add(14, 1); /* it runs to its end, for nobody */
    CHECK_EQ(eng_take(o), 100 * FAN);
    cluster_settle(1u << 0);
    cluster_close(1u << 0);
}

TEST(cluster_references_of_a_killed_node) {
    cluster_open(3, &(struct eng_opt){.cpus = 2});
    char text[2000];
    struct handle h = made_on(2);
    CHECK_EQ(eng_take(call_count(&h, (struct sk_arg)VAL(1))), 1001);
    struct job inner = {.fn = "cl_inner", .a = {VAL(20000)}, .n_a = 1, .node = 2};
    sk_oid in = inside(eng_job(&inner)),
           small = inside(eng_job(&(struct job){.fn = "cl_inner", .node = 2, .node_only = true}));
    CHECK_EQ(eng_i64(small), 5); /* its value is in the driver from now on */
    sk_oid mine = put_i64(8);
    /* node 2 waits for an object of the driver, and for one that does not exist yet */
    sk_oid late = eng_job(&(struct job){.fn = "cl_late", .a = {VAL(3)}, .n_a = 1, .node = 1});
    sk_oid waits = look("cl_look", late, 2, 3), more = look("cl_look", late, 3, 3);
    /* a call that waits for its argument */
    sk_oid call = call_count(&h, REF(late));
    CHECK_EQ(eng_take(look("cl_look", mine, 2, 0)), 8);
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    CHECK_EQ(eng_error(call, text, sizeof text), SK_EACTOR);
    CHECK_MSG(strstr(text, "was lost"), "%s", text);
    struct sk_view v;
    struct sk_err err;
    CHECK_EQ(eng->ops->get(eng, &in, 1, INT64_MAX, &v, &err), SK_ELOST);
    CHECK_MSG(strstr(err.msg, "a task on that node"), "%s", err.msg);
    CHECK_EQ(eng_error(look("cl_look_blob", in, 1, 0), text, sizeof text), SK_ETASK);
    CHECK_MSG(strstr(text, "a task on that node"), "%s", text);
    eng_release(in);
    CHECK_EQ(eng_take(look("cl_look", small, 1, 0)), 5);
    CHECK_EQ(eng_error(call_count(&h, (struct sk_arg)VAL(1)), text, sizeof text), SK_EACTOR);
    gate_add(5, 1);
    CHECK_EQ(eng_take(waits), 3); /* it runs elsewhere */
    CHECK_EQ(eng_take(more), 3);
    eng_release(small);
    eng_release(mine);
    eng_release(late);
    handle_release(&h);
    cluster_settle(1u << 1);
    cluster_close(1u << 1);
}

/* ---- losses ---------------------------------------------------------------------------------- */

/* Gives the value of an object, or false if it is an error; releases it. number: the value is the
 * number of an object, to which the caller gets a reference. */
static bool value_of(sk_oid o, bool lost, bool number, int64_t *out) {
    struct sk_view v;
    struct sk_err err;
    sk_rc rc = eng->ops->get(eng, &o, 1, INT64_MAX, &v, &err);
    CHECK_MSG(rc == SK_OK || (lost && rc == SK_ELOST), "%s", err.msg);
    bool good = rc == SK_OK && v.kind == KIND_I64;
    CHECK_MSG(good || lost, "%.*s", v.len > 4 ? (int)v.len - 4 : 0, (const char *)v.data + 4);
    if (good) memcpy(out, v.data, 8);
    if (good && number) eng->ops->retain(eng, (sk_oid){(uint64_t)*out});
    if (rc == SK_OK) eng->ops->view_release(eng, &v);
    eng_release(o);
    return good;
}

/* Random calls and looks over three nodes, of which one is killed meanwhile: what is given is
 * right, and nothing is left. */
static void many(bool kills) {
    enum { N_ACTORS = 4, N_OPS = 150, N_REFS = 8 };
    cluster_open(3, &(struct eng_opt){.cpus = 3});
    struct handle actor[N_ACTORS];
    int64_t least[N_ACTORS] = {0};
    sk_oid ref[N_REFS] = {0}; /* each has a number of a counter */
    bool lost = false;
    for (uint32_t i = 0; i < N_ACTORS; i++) {
        struct sk_actor_spec s = {
            .init = spec_of(&(struct job){.fn = "cl_counter", .a = {VAL(1000)}, .n_a = 1})};
        sk_aid a;
        sk_oid ready;
        if (i >= 2) actor[i] = made_on(i);
        else {
            CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
            actor[i] = (struct handle){a.v, ready.v};
        }
    }
    for (uint32_t i = 0; i < N_OPS; i++) {
        uint32_t a = (uint32_t)test_below(N_ACTORS), at = (uint32_t)test_below(N_REFS),
                 node = 1 + (uint32_t)test_below(3);
        int64_t got = 0;
        if (kills && i == N_OPS / 2) {
            CHECK(kill(cl.pid[1], SIGKILL) == 0);
            lost = true;
        }
        if (lost && node == 2) node = 3;
        uint64_t what = test_below(4);
        sk_oid o = {0};
        if (what == 0) o = calls("cl_calls", &actor[a], 1, node);
        if (what == 1) o = call_count(&actor[a], ref[at].v ? REF(ref[at]) : (struct sk_arg)VAL(1));
        if (what == 2 && ref[at].v) o = look("cl_look", ref[at], node, 0);
        if (what == 3) {
            o = calls("cl_calls_later", &actor[a], 1, node);
            if (!value_of(o, lost, true, &got)) continue;
            if (ref[at].v) eng_release(ref[at]);
            ref[at].v = (uint64_t)got;
            continue;
        }
        if (!o.v) continue;
        if (test_below(3) == 0) eng_release(o); /* nobody waits for it */
        else if (value_of(o, lost, false, &got) && what < 2) {
            CHECK(got > least[a]);
            least[a] = got;
        }
    }
    for (uint32_t i = 0; i < N_REFS; i++)
        if (ref[i].v) eng_release(ref[i]);
    for (uint32_t i = 0; i < N_ACTORS; i++) handle_release(&actor[i]);
    cluster_settle(lost ? 1u << 1 : 0);
    cluster_close(lost ? 1u << 1 : 0);
}
TEST_SLOW(cluster_references_many, 60) { many(false); }
TEST_SLOW(cluster_references_many_and_a_killed_node, 60) { many(true); }

TEST(cluster_makes_values_of_a_killed_node_again) {
    cluster_open(3, &(struct eng_opt){.cpus = 1});
    sk_oid blob[12];
    for (uint32_t i = 0; i < 12; i++) {
        struct job j = {.fn = "cl_blob",
                        .a = {VAL(50000 + i), VAL(i)},
                        .n_a = 2,
                        .retries = 3,
                        .node = 1 + (uint32_t)i % 3};
        blob[i] = eng_job(&j);
    }
    bool ready[12];
    CHECK_OK(eng->ops->wait(eng, blob, 12, 12, INT64_MAX, ready, NULL));
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    for (uint32_t i = 0; i < 12; i++) {
        check_blob(blob[i], 50000 + (size_t)i, (uint8_t)i);
        struct job j = {.fn = "cl_len", .a = {REF(blob[i])}, .n_a = 1};
        CHECK_EQ(eng_take(eng_job(&j)), (50000 + i) * 1000 + i);
        eng_release(blob[i]);
    }
    cluster_close(1u << 1);
}

/* An actor of a pool: what its calls make follows from the arguments of its constructor, a blob,
 * and of the call. Word 10 counts constructors. */
TASK(cl_pool) {
    gate_add(10, 1);
    state = t->args[0].data[0];
    return ret_i64(t, 0, 0, err);
}
TASK(cl_pooled) {
    return ret_blob(t, 0, (size_t)arg_i64(t, 0), (uint8_t)(state + arg_i64(t, 1)), err);
}
TASK(cl_pooled_next) {
    return ret_blob(t, 0, t->args[0].len, (uint8_t)(state + t->args[0].data[0]), err);
}
TASK(cl_pooled_stream) {
    for (int64_t i = 0; i < arg_i64(t, 0); i++)
        SK_TRY(yield_blob(t, 20000, (uint8_t)(state + i), err));
    return SK_OK;
}
static sk_shape shape_with(int64_t cpus) {
    struct sk_need n = {.res.amount = {cpus * SK_RES_UNIT}};
    sk_shape out;
    CHECK_OK(eng->ops->shape(eng, &n, &out, NULL));
    return out;
}

/* The calls of an actor have retries, and what they made is lost, with the argument of its
 * constructor, when the actor lives, when it was ended, and when its handle was given back. */
TEST(cluster_makes_values_of_a_pool_again) {
    enum { LIVES, ENDED, LET_GO };
    for (int how = LIVES; how <= LET_GO; how++) {
        cluster_open(2, &(struct eng_opt){.cpus = 1});
        struct job base = {.fn = "cl_blob",
                           .a = {VAL(30000), VAL(40)},
                           .n_a = 2,
                           .retries = 3,
                           .node = 2,
                           .shape = shape_with(0)};
        sk_oid arg = eng_job(&base), made[4], next, ready, full = {0};
        struct job init = {
            .fn = "cl_pool", .a = {REF(arg)}, .n_a = 1, .node = 2, .shape = shape_with(1)};
        struct sk_actor_spec s = {.init = spec_of(&init), .max_restarts = -1};
        sk_aid a, other;
        CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
        for (int64_t i = 0; i < 4; i++) {
            struct job j = {.fn = "cl_pooled",
                            .a = {VAL(100000 + i), VAL(i)},
                            .n_a = 2,
                            .retries = 3,
                            .actor = a};
            made[i] = eng_job(&j);
        }
        struct job k = {
            .fn = "cl_pooled_next", .a = {REF(made[3])}, .n_a = 1, .retries = 3, .actor = a};
        next = eng_job(&k);
        struct heard h = {.sink = {on_events}};
        struct job stream = {.fn = "cl_pooled_stream",
                             .a = {VAL(3)},
                             .n_a = 1,
                             .n_returns = SK_STREAMING,
                             .retries = 3,
                             .sink = &h.sink,
                             .actor = a};
        sk_tid t;
        CHECK_OK(job_on(eng, &stream, NULL, &t, NULL));
        CHECK(eng_drive_until(is_over, &h));
        CHECK_EQ(h.n_yields, 3);
        CHECK_EQ(gate->w[10], 1);
        eng_release(made[3]); /* needed only to make `next` again */
        eng_release(arg);
        if (how == ENDED) CHECK_OK(eng->ops->actor_end(eng, a, true, NULL));
        if (how != LIVES) { /* and all CPUs that will be left are taken for ever */
            eng_release(ready);
            sk_actor_release(eng, a);
            init = (struct job){
                .fn = "cl_counter", .a = {VAL(0)}, .n_a = 1, .node = 1, .shape = shape_with(1)};
            s = (struct sk_actor_spec){.init = spec_of(&init)};
            CHECK_OK(eng->ops->actor_create(eng, &s, &other, &full, NULL));
            CHECK_EQ(eng_i64(full), 0);
        }
        CHECK(kill(cl.pid[1], SIGKILL) == 0);
        for (uint32_t i = 0; i < 3; i++) check_blob(made[i], 100000 + i, (uint8_t)(40 + i));
        check_blob(next, 100003, 83);
        for (uint32_t i = 0; i < 3; i++) check_blob(h.oid[i], 20000, (uint8_t)(40 + i));
        CHECK_EQ(gate->w[10], 2);
        for (uint32_t i = 0; i < 3; i++) {
            eng_release(made[i]);
            eng_release(h.oid[i]);
        }
        eng_release(next);
        eng_release(how == LIVES ? ready : full);
        sk_actor_release(eng, how == LIVES ? a : other);
        cluster_settle(1u << 1);
        cluster_close(1u << 1);
    }
}

/* What a call without retries made, which may have changed the actor, is not made again. */
TEST(cluster_does_not_repeat_calls_without_retries) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    struct job init = {.fn = "cl_counter", .a = {VAL(7)}, .n_a = 1, .node = 2};
    struct sk_actor_spec s = {.init = spec_of(&init), .max_restarts = -1};
    sk_aid a;
    sk_oid ready;
    bool there;
    CHECK_OK(eng->ops->actor_create(eng, &s, &a, &ready, NULL));
    sk_oid o =
        eng_job(&(struct job){.fn = "cl_pooled", .a = {VAL(100000), VAL(1)}, .n_a = 2, .actor = a});
    CHECK_OK(eng->ops->wait(eng, &o, 1, 1, INT64_MAX, &there, NULL));
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    struct sk_view v;
    struct sk_err err;
    CHECK_EQ(eng->ops->get(eng, &o, 1, INT64_MAX, &v, &err), SK_ELOST);
    CHECK_MSG(strstr(err.msg, "a call of an actor without retries"), "%s", err.msg);
    eng_release(o);
    eng_release(ready);
    sk_actor_release(eng, a);
    cluster_close(1u << 1);
}

/* The nodes are killed while large values are on their way from and to them. */
TEST(cluster_survives_kills_while_values_move) {
    for (uint32_t victim = 0; victim < 2; victim++) {
        cluster_open(3, &(struct eng_opt){.cpus = 1});
        sk_oid big[8], right[8];
        bool ready[8];
        for (int64_t i = 0; i < 8; i++) {
            struct job j = {.fn = "cl_pattern",
                            .a = {VAL(5000000 + i), VAL(i)},
                            .n_a = 2,
                            .retries = 3,
                            .node = 1};
            big[i] = eng_job(&j);
        }
        CHECK_OK(eng->ops->wait(eng, big, 8, 8, INT64_MAX, ready, NULL));
        for (int64_t i = 0; i < 8; i++) {
            struct job k = {.fn = "cl_right",
                            .a = {REF(big[i]), VAL(0), VAL(i)},
                            .n_a = 3,
                            .retries = 3,
                            .node = 2 + (uint32_t)i % 2};
            right[i] = eng_job(&k);
        }
        CHECK_OK(eng->ops->wait(eng, right, 8, 1, INT64_MAX, ready, NULL));
        CHECK(kill(cl.pid[victim], SIGKILL) == 0);
        for (int64_t i = 0; i < 8; i++) {
            CHECK_EQ(eng_take(right[i]), (5000000 + i) * 1000);
            eng_release(big[i]);
        }
        cluster_close(1u << victim);
    }
}

TEST(cluster_runs_tasks_of_a_killed_node_elsewhere) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid o = eng_job(&(struct job){.fn = "cl_waits", .retries = 1, .node = 2});
    CHECK(gate_wait(1, 1));
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    take_blob(o, 30000, 9);
    cluster_close(1u << 1);
}

TEST(cluster_fails_a_task_that_may_not_run_again) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid o = eng_job(&(struct job){.fn = "cl_waits", .node = 2});
    CHECK(gate_wait(1, 1));
    CHECK(kill(cl.pid[1], SIGKILL) == 0);
    char text[400];
    CHECK_EQ(eng_error(o, text, sizeof text), SK_EDEAD);
    CHECK_MSG(strstr(text, "was lost"), "%s", text);
    cluster_close(1u << 1);
}

TEST(cluster_gives_up_a_node_that_is_stopped) {
    lease_ns = 700 * SK_MS;
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid o = eng_job(&(struct job){.fn = "cl_waits", .retries = 1, .node = 2});
    CHECK(gate_wait(1, 1));
    CHECK(kill(cl.pid[1], SIGSTOP) == 0); /* nobody else would notice */
    take_blob(o, 30000, 9);
    CHECK(kill(cl.pid[1], SIGCONT) == 0); /* it comes back, learns that it is given up, and ends */
    gate_add(2, 1);
    sk_engine_close(&eng);
    CHECK_EQ(end_of(0), 0);
    CHECK_EQ(end_of(1), 20);
    CHECK(all_gone());
}

/* ---- what nodes tell of themselves ----------------------------------------------------------- */

static uint8_t listed[1 << 16];
static struct sk_state_head list(enum sk_state_what what, struct sk_rd *r) {
    struct sk_state_head head;
    size_t n = eng->state->rows(eng, what, listed, sizeof listed);
    CHECK(n <= sizeof listed);
    *r = sk_rd_init(listed, n);
    CHECK(sk_rows_head(r, &head));
    return head;
}

TEST(cluster_tells_of_its_nodes) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid o[2] = {eng_job(&(struct job){.fn = "cl_waits", .node = 2}),
                   eng_job(&(struct job){.fn = "cl_pid", .node = 1})};
    struct sk_rd r;
    struct sk_row row;
    CHECK(gate_wait(1, 1) && eng_i64(o[1]) > 0);
    struct sk_state_head head = list(SK_STATE_TASKS, &r);
    CHECK(head.n == 2 && head.total == 2 && !head.n_silent);
    CHECK(sk_rows_next(&r, SK_STATE_TASKS, &row)); /* ended tasks come first */
    CHECK(row.task.node == 1 && row.task.state == SK_TS_FINISHED && row.task.id == o[1].v + 1);
    CHECK(row.task.submit_ns <= row.task.start_ns && row.task.start_ns < row.task.end_ns);
    CHECK(sk_rows_next(&r, SK_STATE_TASKS, &row));
    CHECK(row.task.node == 2 && row.task.state == SK_TS_RUNNING && row.task.id == o[0].v + 1);
    CHECK(row.task.pid && row.task.start_ns <= sk_now_ns());
    head = list(SK_STATE_OBJECTS, &r);
    CHECK(head.n == 2);
    while (sk_rows_next(&r, SK_STATE_OBJECTS, &row))
        CHECK(row.object.pid == getpid() && row.object.n_refs == 1 &&
              (row.object.id != o[0].v || row.object.task_state == SK_TS_RUNNING));
    CHECK_EQ(list(SK_STATE_WORKERS, &r).n, 2);
    CHECK(sk_rows_next(&r, SK_STATE_WORKERS, &row) && row.worker.node == 1);
    CHECK_EQ(eng_stat(eng, "nodes"), 2);
    CHECK_EQ(eng_stat(eng, "workers"), 2);
    CHECK_EQ(eng_stat(eng, "objects"), 2);
    gate_add(2, 1);
    sk_oid both[] = {o[0], o[1]};
    bool there[2];
    CHECK_OK(eng->ops->wait(eng, both, 2, 2, INT64_MAX, there, NULL));
    head = list(SK_STATE_OBJECTS, &r);
    uint32_t n_large = 0;
    while (sk_rows_next(&r, SK_STATE_OBJECTS, &row))
        n_large += row.object.id == o[0].v && row.object.where == SK_OW_STORE &&
                   row.object.node == 2 && row.object.size_bytes == 30000;
    CHECK_EQ(n_large, 1);
    struct sk_memory_info m;
    struct sk_memory_worker w[4];
    size_t n = 0;
    struct sk_err err;
    CHECK_OK_ERR(eng->usage->memory(eng, &m, w, 4, &n, &err), &err);
    CHECK(n == 2 && w[0].pid && w[1].pid && m.store_limit_bytes >= 2 * (uint64_t)30000);
    eng_release(o[0]);
    eng_release(o[1]);
    cluster_close(0);
}

/* What becomes of an answer with one row. */
static sk_rc tell_row(struct sk_book *b, enum sk_state_what what, const void *row, size_t n) {
    uint8_t buf[512];
    struct sk_rows r = sk_rows_begin(buf, sizeof buf);
    struct sk_err err;
    sk_rows_add(&r, row, n, NULL, 0);
    struct sk_cmsg m = {.type = SK_CMSG_TOLD, .told = {.ask = sk_book_ask(b, what), .what = what}};
    m.told.bytes = (struct sk_bytes){buf, sk_rows_end(&r, buf, sizeof buf)};
    return sk_book_message(b, 1, &m, &err);
}

/* Lists index tables of names by what is in rows. */
TEST(cluster_rows_of_nodes_have_states_that_there_are) {
    struct sk_book *b;
    struct sk_cmsg w = {.type = SK_CMSG_WELCOME,
                        .welcome = {.incarnation = 5, .id_base = SK_ID_RANGE}};
    uint32_t number;
    CHECK_OK(sk_book_create(&b, 0, NULL));
    CHECK_OK(sk_book_joined(b, &w, (struct sk_bytes){"a", 1}, &number, NULL));
    struct sk_task_row task = {.state = SK_TS_FAILED, .error_kind = SK_KIND_ERROR},
                       bad_task[] = {{.state = SK_TS_FAILED + 1},
                                     {.kind = SK_TK_METHOD + 1},
                                     {.error_kind = 1},
                                     {.more = 1},
                                     {.end_ns = -1}};
    struct sk_actor_row actor = {.state = SK_AS_DEAD}, bad_actor = {.state = SK_AS_DEAD + 1};
    struct sk_object_row object = {.where = SK_OW_ACTOR}, bad_object = {.task_state = 6};
    struct sk_worker_row worker = {.end = SK_WE_MEMORY}, bad_worker = {.end = SK_WE_MEMORY + 1};
    CHECK_OK(tell_row(b, SK_STATE_TASKS, &task, sizeof task));
    CHECK_OK(tell_row(b, SK_STATE_ACTORS, &actor, sizeof actor));
    CHECK_OK(tell_row(b, SK_STATE_OBJECTS, &object, sizeof object));
    CHECK_OK(tell_row(b, SK_STATE_WORKERS, &worker, sizeof worker));
    for (size_t i = 0; i < SK_COUNT(bad_task); i++)
        CHECK_RC(tell_row(b, SK_STATE_TASKS, &bad_task[i], sizeof task), SK_ECORRUPT);
    CHECK_RC(tell_row(b, SK_STATE_ACTORS, &bad_actor, sizeof actor), SK_ECORRUPT);
    CHECK_RC(tell_row(b, SK_STATE_OBJECTS, &bad_object, sizeof object), SK_ECORRUPT);
    CHECK_RC(tell_row(b, SK_STATE_WORKERS, &bad_worker, sizeof worker), SK_ECORRUPT);
    sk_book_destroy(b);
}

TEST(cluster_names_nodes_that_do_not_tell) {
    cluster_open(2, &(struct eng_opt){.cpus = 1});
    sk_oid o = eng_job(&(struct job){.fn = "cl_pid", .node = 1});
    struct sk_rd r;
    CHECK(eng_i64(o) > 0);
    int status;
    CHECK(kill(cl.pid[1], SIGSTOP) == 0);
    CHECK(waitpid(cl.pid[1], &status, WUNTRACED) == cl.pid[1] && WIFSTOPPED(status));
    int64_t from = sk_now_ns();
    struct sk_state_head head = list(SK_STATE_TASKS, &r);
    CHECK(head.n == 1 && head.n_silent == 1 && head.silent == 2);
    CHECK(sk_now_ns() - from < 4 * SK_SEC);
    CHECK(kill(cl.pid[1], SIGKILL) == 0); /* who is lost is waited for no longer */
    head = list(SK_STATE_TASKS, &r);
    CHECK(head.n == 1);
    eng_release(o);
    cluster_close(1u << 1);
}

TEST(cluster_without_nodes_is_an_error) {
    cluster_open(1, &(struct eng_opt){.cpus = 1});
    sk_oid o = eng_job(&(struct job){.fn = "cl_waits", .retries = 5});
    CHECK(gate_wait(1, 1));
    CHECK(kill(cl.pid[0], SIGKILL) == 0);
    struct sk_view v = {0};
    struct sk_err err;
    sk_rc rc =
        eng->ops->get(eng, &o, 1, INT64_MAX, &v, &err); /* the task's error, or the engine's */
    CHECK(rc == SK_EDEAD || (rc == SK_OK && v.kind == SK_KIND_ENGINE_ERROR));
    CHECK(
        strstr(rc == SK_OK ? (const char *)v.data + 4 : err.msg, "nodes of the cluster are lost"));
    if (rc == SK_OK) eng->ops->view_release(eng, &v);
    CHECK_EQ(
        eng->ops->put(eng, &(struct sk_payload){.kind = KIND_I64, .bytes = {&rc, 4}}, &o, &err),
        SK_EDEAD);
    cluster_close(1);
}

/* A driver that is killed: its nodes and their workers end by themselves. */
TEST(cluster_nodes_end_with_their_driver) {
    struct sk_engine *first;
    CHECK_OK(eng_try_open(&(struct eng_opt){.cpus = 1}, &first, NULL));
    sk_engine_close(&first);
    cl.n = 2;
    for (uint32_t i = 0; i < 2; i++) node_start(i, &(struct eng_opt){.cpus = 1});
    pid_t driver = fork();
    CHECK(driver >= 0);
    if (!driver) {
        const char *at[] = {cl.address[0], cl.address[1]};
        if (connect_to(at, 2, secret, &eng, NULL) != SK_OK) _exit(1);
        eng_define_all(eng);
        (void)eng_job(&(struct job){.fn = "cl_waits", .retries = 1});
        for (;;) pause();
    }
    CHECK(gate_wait(1, 1));
    CHECK(kill(driver, SIGKILL) == 0);
    CHECK(waitpid(driver, NULL, 0) == driver);
    for (uint32_t i = 0; i < 2; i++) CHECK_EQ(end_of(i), 20);
    CHECK(all_gone());
}

TEST(cluster_refuses_strangers) {
    const char *at[1];
    struct sk_engine *first, *e;
    struct sk_err err;
    CHECK_OK(eng_try_open(&(struct eng_opt){.cpus = 1}, &first, NULL));
    sk_engine_close(&first);
    cl.n = 1;
    node_start(0, &(struct eng_opt){.cpus = 1});
    at[0] = cl.address[0];
    uint8_t wrong[32] = "not the secret";
    CHECK_EQ(connect_to(at, 1, wrong, &e, &err), SK_EIO);
    CHECK(strstr(err.msg, at[0]));
    CHECK_OK_ERR(connect_to(at, 1, secret, &eng, &err), &err);
    CHECK_EQ(connect_to(at, 1, secret, &e, &err), SK_EIO); /* it has a driver */
    CHECK_MSG(strstr(err.msg, "it has a driver already"), "%s", err.msg);
    cluster_close(0);
    CHECK_EQ(connect_to(at, 1, secret, &e, &err), SK_EIO); /* nobody listens there any more */
}

/* ---- nodes that join ------------------------------------------------------------------------- */

TEST(cluster_gives_waiting_tasks_to_a_node_that_joins) {
    cluster_open_some(2, 1, &(struct eng_opt){.cpus = 1});
    sk_oid busy = eng_job(&(struct job){.fn = "cl_waits"}), o[10];
    CHECK(gate_wait(1, 1));
    for (int i = 0; i < 10; i++) o[i] = eng_job(&(struct job){.fn = "cl_pid"});
    uint32_t number = 0;
    struct sk_err err;
    CHECK(eng->nodes);
    CHECK_OK_ERR(eng->nodes->join(eng, cl.address[1], &number, &err), &err);
    CHECK_EQ(number, 2);
    struct sk_node row[4];
    size_t n;
    CHECK_OK(eng->ops->nodes(eng, row, 4, &n, NULL));
    CHECK(n == 2 && row[1].alive && row[1].number == 2);
    bool ready[10]; /* the first node has no CPU left, so what ends now has run on the new one */
    CHECK_OK(eng->ops->wait(eng, o, 10, 1, INT64_MAX, ready, NULL));
    gate_add(2, 1);
    for (int i = 0; i < 10; i++) CHECK(eng_take(o[i]) > 0);
    /* values go both ways, so each of the two knows where the other one is */
    for (uint32_t from = 1; from <= 2; from++) {
        struct job make = {.fn = "cl_blob",
                           .a = {VAL(50000), VAL(from)},
                           .n_a = 2,
                           .node = from,
                           .node_only = true};
        sk_oid blob = eng_job(&make);
        struct job len = {
            .fn = "cl_len", .a = {REF(blob)}, .n_a = 1, .node = 3 - from, .node_only = true};
        CHECK_EQ(eng_take(eng_job(&len)), 50000 * 1000 + from);
        eng_release(blob);
    }
    eng_release(busy);
    cluster_close(0);
}

/* A node that does not come is an error of the call, and no more. */
TEST(cluster_join_can_fail) {
    patience_ns = SK_SEC;
    cluster_open_some(2, 1, &(struct eng_opt){.cpus = 1});
    patience_ns = 20 * SK_SEC;
    struct sk_err err;
    uint32_t number = 0;
    const struct sk_nodes_ops *nodes = eng->nodes;
    CHECK_EQ(nodes->join(eng, "nowhere", &number, &err), SK_EINVAL);
    CHECK_EQ(nodes->join(eng, cl.address[0], &number, &err), SK_EIO);
    CHECK_MSG(strstr(err.msg, "it has a driver already"), "%s", err.msg);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    char mute[40];
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 4) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    snprintf(mute, sizeof mute, "127.0.0.1:%u", ntohs(at.sin_port));
    CHECK_EQ(nodes->join(eng, mute, &number, &err), SK_ETIMEOUT); /* it takes, and never speaks */
    CHECK_MSG(strstr(err.msg, mute) && strstr(err.msg, "no answer"), "%s", err.msg);
    close(fd);
    CHECK_EQ(nodes->join(eng, mute, &number, &err), SK_EIO); /* nobody listens there */
    CHECK_MSG(strstr(err.msg, mute), "%s", err.msg);
    CHECK_EQ(number, 0);
    sk_oid one = eng_job(&(struct job){.fn = "cl_add", .a = {VAL(1), VAL(2)}, .n_a = 2});
    CHECK_EQ(eng_take(one), 3);
    CHECK_OK_ERR(nodes->join(eng, cl.address[1], &number, &err), &err);
    CHECK_EQ(number, 2);
    struct job there = {
        .fn = "cl_add", .a = {VAL(2), VAL(2)}, .n_a = 2, .node = 2, .node_only = true};
    CHECK_EQ(eng_take(eng_job(&there)), 4);
    cluster_close(0);
}

struct joiner {
    sk_rc rc;
    uint32_t number;
    char mute[40];
};
static void *join_mute(void *arg) {
    struct joiner *j = arg;
    j->rc = eng->nodes->join(eng, j->mute, &j->number, NULL);
    return NULL;
}

/* Calls of join that wait end when the engine is closed. */
TEST(cluster_close_ends_a_join) {
    cluster_open(1, &(struct eng_opt){.cpus = 1});
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0), client;
    struct joiner j = {.rc = SK_OK};
    pthread_t thread;
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0 && listen(fd, 4) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    snprintf(j.mute, sizeof j.mute, "127.0.0.1:%u", ntohs(at.sin_port));
    CHECK(pthread_create(&thread, NULL, join_mute, &j) == 0);
    CHECK((client = accept(fd, NULL, NULL)) >= 0); /* the call is under way */
    sk_engine_close(&eng);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK_EQ(j.rc, SK_ECLOSED);
    CHECK_EQ(j.number, 0);
    close(client);
    close(fd);
    CHECK_EQ(end_of(0), 0);
    CHECK(all_gone());
}

/* ---- nodes that go away ---------------------------------------------------------------------- */

static int64_t in(int64_t ns) { return sk_now_ns() + ns; }
static sk_oid count(sk_aid a) {
    return eng_job(&(struct job){.fn = "cl_count", .a = {VAL(1)}, .n_a = 1, .actor = a});
}

/* Whoever launched the nodes knows that they cannot go on. */
TEST(cluster_is_given_up) {
    cluster_open(2, &(struct eng_opt){.cpus = 2});
    sk_oid waits = eng_job(&(struct job){.fn = "cl_waits", .node = 2});
    char text[300];
    CHECK(gate_wait(1, 1));
    CHECK_OK(eng->nodes->give_up(eng, "the head is gone", NULL));
    struct sk_err err = {0};
    struct sk_view v;
    sk_rc rc = eng->ops->get(eng, &waits, 1, in(10 * SK_SEC), &v, &err);
    if (rc == SK_OK) { /* the task has ended by then, with the same error */
        CHECK_EQ(v.kind, SK_KIND_ENGINE_ERROR);
        snprintf(text, sizeof text, "%.*s", (int)(v.len - 4), (const char *)v.data + 4);
        eng->ops->view_release(eng, &v);
    } else {
        CHECK_EQ(rc, SK_EDEAD);
        snprintf(text, sizeof text, "%.200s", err.msg);
    }
    CHECK_STR_HAS(text, "the head is gone");
    eng_release(waits);
    CHECK_EQ(eng->nodes->drain(eng, 1, in(SK_SEC), &err), SK_EDEAD);
    CHECK_STR_HAS(err.msg, "the head is gone");
    CHECK_EQ(eng->nodes->give_up(eng, "once more", NULL), SK_EDEAD);
    sk_engine_close(&eng);
    CHECK_EQ(end_of(0), 0);
    CHECK_EQ(end_of(1), 0);
    CHECK(all_gone());
}

TEST(cluster_drains_a_node) {
    cluster_open(2, &(struct eng_opt){.cpus = 2});
    sk_oid blob[8], ready, late;
    bool there[8];
    for (uint32_t i = 0; i < 8; i++) {
        struct job j = {.fn = "cl_blob", .a = {VAL(100000 + i), VAL(i)}, .n_a = 2, .node = 2};
        blob[i] = eng_job(&j);
    }
    CHECK_OK(eng->ops->wait(eng, blob, 8, 8, INT64_MAX, there, NULL));
    int64_t first = eng_take(eng_job(&(struct job){.fn = "cl_pid", .node = 1})),
            second = eng_take(eng_job(&(struct job){.fn = "cl_pid", .node = 2}));
    CHECK(first != second);
    sk_aid a = counter_on(2, 1, &ready);
    CHECK_EQ(eng_take(count(a)), 101);
    late = eng_job(&(struct job){.fn = "cl_waits", .node = 2}); /* no retries */
    CHECK(gate_wait(1, 1));
    CHECK_EQ(eng->nodes->drain(eng, 3, in(60 * SK_SEC), NULL), SK_ENOENT);
    CHECK_OK(eng->nodes->drain(eng, 2, in(60 * SK_SEC), NULL));
    struct sk_node row[2];
    size_t n;
    CHECK_OK(eng->ops->nodes(eng, row, 2, &n, NULL));
    CHECK(!row[0].draining && row[1].draining && row[1].alive);
    CHECK_EQ(eng_take(count(a)), 101); /* it has started again, on the other node */
    for (int i = 0; i < 6; i++)        /* and new tasks go there, too */
        CHECK_EQ(eng_take(eng_job(&(struct job){.fn = "cl_pid", .node = 2})), first);
    struct job only = {.fn = "cl_pid", .node = 2, .node_only = true};
    char text[300];
    CHECK_EQ(eng_error(eng_job(&only), text, sizeof text), SK_EINFEASIBLE);
    gate_add(2, 1); /* its last task may end */
    CHECK_EQ(end_of(1), 0);
    for (uint32_t i = 0; i < 8; i++) {
        struct job len = {.fn = "cl_len", .a = {REF(blob[i])}, .n_a = 1};
        CHECK_EQ(eng_take(eng_job(&len)), (100000 + i) * 1000 + i);
        eng_release(blob[i]);
    }
    take_blob(late, 30000, 9);
    CHECK_EQ(gate_add(1, 1), 2); /* it has run once */
    CHECK_EQ(eng->nodes->drain(eng, 2, in(SK_SEC), NULL), SK_ENOENT);
    eng_release(ready);
    sk_actor_release(eng, a);
    sk_engine_close(&eng);
    CHECK_EQ(end_of(0), 0);
    CHECK(all_gone());
}

/* A node that is not empty at the deadline counts as lost. */
/* Objects that tasks have put there are moved as other values are; an actor that a task has made
 * keeps the node until its last handle is gone. */
TEST(cluster_drains_a_node_with_objects_of_its_tasks) {
    cluster_open(2, &(struct eng_opt){.cpus = 2});
    struct job inner = {.fn = "cl_inner", .node = 2, .node_only = true},
               make = {.fn = "cl_makes", .node = 2, .node_only = true};
    sk_oid small = inside(eng_job(&inner));
    inner.a[0] = VAL(20000);
    inner.n_a = 1;
    sk_oid large = inside(eng_job(&inner));
    struct handle h = handle_of(eng_job(&make));
    CHECK_EQ(eng_take(call_count(&h, (struct sk_arg)VAL(1))), 1001);
    CHECK_OK(eng->nodes->drain(eng, 2, in(60 * SK_SEC), NULL));
    for (int64_t i = 2; i < 20; i++)
        CHECK_EQ(eng_take(call_count(&h, (struct sk_arg)VAL(1))), 1000 + i);
    handle_release(&h);
    CHECK_EQ(end_of(1), 0);
    CHECK_EQ(eng_take(look("cl_look", small, 1, 0)), 5);
    CHECK_EQ(eng_take(look("cl_look_blob", large, 1, 0)), 20000 * 1000 + 9);
    eng_release(small);
    eng_release(large);
    cluster_settle(1u << 1);
    sk_engine_close(&eng);
    CHECK_EQ(end_of(0), 0);
    CHECK(all_gone());
}

TEST(cluster_drain_has_a_deadline) {
    cluster_open(2, &(struct eng_opt){.cpus = 2});
    sk_oid ready, o = eng_job(&(struct job){.fn = "cl_waits", .retries = 1, .node = 2});
    CHECK(gate_wait(1, 1));
    sk_aid a = counter_on(2, 0, &ready);
    CHECK_OK(eng->nodes->drain(eng, 2, in(60 * SK_SEC), NULL));
    CHECK_EQ(eng_take(count(a)), 101); /* it may not start again, so it stays and serves */
    CHECK_OK(eng->nodes->drain(eng, 2, in(100 * SK_MS), NULL));
    take_blob(o, 30000, 9); /* it ran once more, elsewhere */
    char text[400];
    CHECK_EQ(eng_error(count(a), text, sizeof text), SK_EACTOR);
    CHECK_MSG(strstr(text, "its drain was not over at the deadline"), "%s", text);
    CHECK_EQ(end_of(1), 0);
    eng_release(ready);
    sk_actor_release(eng, a);
    sk_engine_close(&eng);
    CHECK_EQ(end_of(0), 0);
    CHECK(all_gone());
}

/* With the last node the driver takes the values; a node that joins takes the tasks. */
TEST(cluster_drains_its_last_node) {
    cluster_open_some(2, 1, &(struct eng_opt){.cpus = 1});
    sk_oid blob =
        eng_job(&(struct job){.fn = "cl_blob", .a = {VAL(300000), VAL(5)}, .n_a = 2, .retries = 1});
    bool ready;
    CHECK_OK(eng->ops->wait(eng, &blob, 1, 1, INT64_MAX, &ready, NULL));
    CHECK_OK(eng->nodes->drain(eng, 1, in(60 * SK_SEC), NULL));
    CHECK_EQ(end_of(0), 0);
    CHECK_EQ(eng->nodes->drain(eng, 1, in(SK_SEC), NULL), SK_ENOENT);
    uint32_t number = 0;
    check_blob(blob, 300000, 5);
    CHECK_OK(eng->nodes->join(eng, cl.address[1], &number, NULL));
    struct job len = {.fn = "cl_len", .a = {REF(blob)}, .n_a = 1};
    CHECK_EQ(eng_take(eng_job(&len)), 300000 * 1000 + 5);
    eng_release(blob);
    sk_engine_close(&eng);
    CHECK_EQ(end_of(1), 0);
    CHECK(all_gone());
}

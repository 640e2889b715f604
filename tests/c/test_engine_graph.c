/* test_engine_graph.c - memory of compiled graphs and reports of deaths, in the local engine
 * without a real graph: workers that request extents, and leases that must not wait, are killed at
 * every step of the request; actors are killed, restarted and ended; the graph's hooks are called,
 * and no byte is lost or given out twice. */
#include <signal.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "engine/channels.h"
#include "engine/local/driver/calls/calls.h"
#include "engine/windows.h"
#include "engine_help.h"

#define JOB(...) eng_job(&(struct job){__VA_ARGS__})
enum { MOVES = 60, KEEPS = 6 };

/* The head of a graph in these tests; the hooks read it in the driver. */
struct head {
    uint64_t used;
    _Atomic uint64_t n_told;
    uint64_t condemned; /* id of the condemned actor; 0: none yet */
    struct told {
        uint64_t actor;
        bool restarts;
    } told[16];
};
static struct head *last; /* head of the graph in use whose `bury` was called last */

static void bury(void *head, sk_aid a, const char *how, bool restarts) {
    struct head *h = head;
    if (h->used) last = h;
    CHECK(*how && h->n_told < SK_COUNT(h->told));
    h->told[h->n_told] = (struct told){a.v, restarts};
    sk_store_rel(&h->n_told, h->n_told + 1); /* the test waits for it on another thread */
}
static void condemn(void *head, sk_aid a, const char *how) {
    struct head *h = head;
    CHECK(*how && !h->condemned);
    h->condemned = a.v;
}
static bool in_use(const void *head) { return ((const struct head *)head)->used != 0; }
static const struct sk_graph_hooks hooks = {.bury = bury, .condemn = condemn, .in_use = in_use};

static sk_rc extent(struct sk_engine *e, uint64_t graph, uint64_t len, sk_off *off,
                    struct sk_err *err) {
    uint64_t cap, size;
    SK_TRY(e->channels->alloc(e, graph, len, off, &cap, err));
    memset(e->channels->memory(e, &size) + *off, 0xEE, len);
    return cap >= len && *off + cap <= size
               ? SK_OK
               : SK_ERR(err, SK_ECORRUPT, "an extent outside of what is mapped");
}

/* Requests memory in all ways, and gives most of it back. Argument: the graph; 0: a graph of its
 * own, whose head says that it is in use. */
TASK(graph_moves) {
    struct sk_engine *e = t->engine;
    uint64_t graph = (uint64_t)arg_i64(t, 0), size;
    sk_off held[KEEPS], off;
    struct head *h = NULL;
    struct sk_buf b;
    if (!graph) {
        SK_TRY(e->channels->open(e, &graph, err));
        SK_TRY(e->channels->alloc(e, graph, sizeof(struct head), &off, &size, err));
        h = (struct head *)(void *)(e->channels->memory(e, &size) + off);
        *h = (struct head){.used = 1};
    }
    for (uint32_t i = 0; i < MOVES; i++) {
        if (i >= KEEPS) e->channels->free(e, graph, held[i % KEEPS]);
        SK_TRY(extent(e, graph, 64 + i * 1009 % 50000, &held[i % KEEPS], err));
        if (e->windows->lease(e, 1000 + i * 7919 % 300000, &b, NULL) == SK_OK) {
            /* granted only if there is plenty of room now */
            memset(b.data, 0xDD, b.len);
            e->ops->buf_abort(e, &b);
        }
        SK_TRY(e->ops->buf_alloc(e, 1 + i * 4001 % 100000, &b, err));
        memset(b.data, 0xCC, b.len);
        e->ops->buf_abort(e, &b);
    }
    for (uint32_t i = 0; i < KEEPS; i++) e->channels->free(e, graph, held[i]);
    if (h) {
        h->used = 0;
        e->channels->close(e, graph);
    }
    return ret_i64(t, 0, 1, err);
}

static uint64_t store_used(void) {
    struct sk_memory_info m;
    size_t n;
    CHECK_OK(eng->usage->memory(eng, &m, NULL, 0, &n, NULL));
    return m.store_used_bytes;
}

static bool no_graph(void *unused) {
    /* unused memory of graphs is freed when a graph is opened or closed */
    uint64_t id;
    (void)unused;
    CHECK_OK(eng->channels->open(eng, &id, NULL));
    eng->channels->close(eng, id);
    return eng->channels->living(eng) == 0;
}

/* True if the worker was killed at the fault point during a request. */
static bool killed_at(const char *point, int64_t nth, bool own) {
    char fault[100], text[1000];
    snprintf(fault, sizeof fault, "%s:kill:%lld", point, (long long)nth);
    last = NULL;
    eng_open(&(struct eng_opt){.cpus = 1,
                               .max_workers = 1,
                               .store_bytes = 16 << 20,
                               .fault = fault,
                               .fault_workers = 1,
                               .graphs = &hooks});
    struct sk_err err;
    uint64_t graph = 0, size, cap;
    sk_off off;
    struct head *h = NULL;
    if (!own) {
        CHECK_OK_ERR(eng->channels->open(eng, &graph, &err), &err);
        CHECK_OK_ERR(eng->channels->alloc(eng, graph, sizeof *h, &off, &cap, &err), &err);
        h = (struct head *)(void *)(eng->channels->memory(eng, &size) + off);
        *h = (struct head){.used = 1};
    }
    sk_oid o = JOB(.fn = "graph_moves", .a = {VAL((int64_t)graph)}, .n_a = 1);
    struct sk_view v;
    CHECK_OK(eng->ops->get(eng, &o, 1, INT64_MAX, &v, NULL));
    bool died = SK_KIND_IS_ERROR(v.kind);
    eng->ops->view_release(eng, &v);
    eng_check();
    if (died) CHECK_EQ(eng_error(o, text, sizeof text), SK_EDEAD);
    else eng_release(o);
    if (last) { /* its owner died while a process reads it: so its memory must still exist */
        CHECK(died && own && last->n_told == 1 && last->told[0].actor == 0 &&
              !last->told[0].restarts);
        CHECK_EQ(eng->channels->living(eng), 1);
        last->used = 0;
    }
    if (h) { /* the driver's is not told of a task, and keeps its extents */
        CHECK_EQ(h->n_told, 0);
        eng->channels->close(eng, graph);
        CHECK_EQ(eng->channels->living(eng), 1);
        h->used = 0;
    }
    CHECK(eng_drive_until(no_graph, NULL));
    eng_check();
    if (died) CHECK_EQ(store_used(), 0); /* no lease is left */
    eng_close();
    return died;
}

static void at_every_pass(const char *point) {
    uint32_t n_died = 0;
    for (int own = 0; own < 2; own++)
        for (int i = 0; i < test_rounds(4); i++)
            n_died += killed_at(point, 1 + (int64_t)test_below(MOVES * 2), own);
    CHECK_MSG(n_died > 0, "%s killed nobody", point);
}

TEST_SLOW(graph_memory_asked_by_who_is_killed_before_it_is_said, 300) {
    at_every_pass("ring.before_publish");
}
TEST_SLOW(graph_memory_asked_by_who_is_killed_after_it_is_said, 300) {
    at_every_pass("ring.after_publish");
}
TEST_SLOW(graph_memory_asked_by_who_is_killed_before_the_answer, 300) {
    at_every_pass("ring.before_pop");
}
TEST_SLOW(graph_memory_asked_by_who_is_killed_with_the_answer, 300) {
    at_every_pass("ring.after_pop");
}

/* ---- reports of an actor's death ------------------------------------------------------------- */

/* A constructor, which fails from the process number in gate word 1 on; 0: never. */
TASK(graph_actor) {
    uint32_t life = gate_add(0, 1);
    if (atomic_load(&gate->w[1]) && life >= atomic_load(&gate->w[1]))
        return SK_ERR(err, SK_EINVAL, "this life is one too many");
    return ret_i64(t, 0, 1, err);
}
TASK(graph_pid) { return ret_i64(t, 0, getpid(), err); }
TASK(graph_leave) {
    SK_TRY(t->engine->actors->leave(t->engine, err));
    return ret_i64(t, 0, 1, err);
}

struct deaths {
    struct head *h;
    uint64_t graph, n;
    sk_aid a;
    sk_oid ready;
};

static struct deaths open_with_actor(int32_t restarts) {
    struct deaths d = {0};
    struct sk_err err;
    uint64_t size, cap;
    sk_off off;
    eng_open(&(struct eng_opt){.graphs = &hooks});
    CHECK_OK_ERR(eng->channels->open(eng, &d.graph, &err), &err);
    CHECK_OK_ERR(eng->channels->alloc(eng, d.graph, sizeof *d.h, &off, &cap, &err), &err);
    d.h = (struct head *)(void *)(eng->channels->memory(eng, &size) + off);
    struct sk_actor_spec s = {.init = spec_of(&(struct job){.fn = "graph_actor"}),
                              .max_restarts = restarts,
                              .max_task_retries = -1};
    CHECK_OK_ERR(eng->ops->actor_create(eng, &s, &d.a, &d.ready, &err), &err);
    CHECK_EQ(eng_i64(d.ready), 1);
    return d;
}

static bool was_told(void *arg) {
    const struct deaths *d = arg;
    return sk_load_acq(&d->h->n_told) >= d->n;
}

/* Checks that one more death was reported, of this actor, with this `restarts`. */
static void is_told(struct deaths *d, bool restarts) {
    d->n++;
    CHECK(eng_drive_until(was_told, d));
    CHECK_EQ(d->h->told[d->n - 1].actor, d->a.v);
    CHECK_EQ(d->h->told[d->n - 1].restarts, restarts);
}

static void close_all(struct deaths *d) {
    sk_actor_release(eng, d->a);
    eng_release(d->ready);
    eng->channels->close(eng, d->graph);
    CHECK_EQ(eng->channels->living(eng), 0);
    eng_close();
}

TEST(graph_hears_whether_an_actor_restarts) {
    struct deaths d = open_with_actor(2);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(kill((pid_t)eng_take(JOB(.fn = "graph_pid", .actor = d.a)), SIGKILL), 0);
        is_told(&d, i < 2);
    }
    close_all(&d);
}

TEST(graph_hears_of_an_actor_that_is_ended) {
    struct deaths d = open_with_actor(-1);
    CHECK_OK(eng->ops->actor_end(eng, d.a, false, NULL));
    is_told(&d, true);
    CHECK_GT(eng_take(JOB(.fn = "graph_pid", .actor = d.a)), 0);
    CHECK_EQ(d.h->condemned, 0); /* it went on */
    CHECK_OK(eng->ops->actor_end(eng, d.a, true, NULL));
    CHECK_EQ(d.h->condemned, d.a.v); /* reported at once, whenever its process ends */
    is_told(&d, false);
    close_all(&d);
}

TEST(graph_hears_of_an_actor_that_leaves) {
    struct deaths d = open_with_actor(-1);
    eng_release(JOB(.fn = "graph_leave", .actor = d.a));
    is_told(&d, false);
    close_all(&d);
}

TEST(graph_hears_of_an_actor_that_cannot_begin_again) {
    struct deaths d = open_with_actor(-1);
    atomic_store(&gate->w[1], 2);
    CHECK_EQ(kill((pid_t)eng_take(JOB(.fn = "graph_pid", .actor = d.a)), SIGKILL), 0);
    is_told(&d, true);
    is_told(&d, false);
    close_all(&d);
}

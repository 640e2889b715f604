/* The host of a guest engine, over a guest written in C, which ends its tasks in any order, and
 * counts the values that it gets. */
#include <pthread.h>

#include "base/clock.h"
#include "base/containers/vec.h"
#include "engine/conf.h"
#include "engine/guest.h"
#include "engine/streams.h"
#include "engine/watch.h"
#include "test.h"

enum { KIND = 5, FN = 77, N_MAX = 4000 };

struct held { /* behind a handle */
    uint64_t n;
};
struct told {
    uint64_t task, actor, sum; /* of its arguments */
    uint32_t n_returns;
    bool is_init, cancelled;
};

static struct {
    struct sk_engine *e, *in_sink; /* in_sink: the same engine, set until it is closed */
    SK_VEC(struct told) told;
    pthread_t thread;
    /* actor << 32 | argument of each call, in the order in which the guest got them */
    uint64_t order[N_MAX];
    _Atomic uint32_t n_order, n_submits, n_puts, n_ended, n_yields, n_sunk, n_failed;
    _Atomic int32_t n_handles;
    _Atomic bool hold, fail_init, broken;
    uint64_t seen;         /* sum over yields */
    _Atomic uint32_t node; /* of the last task: its wish; + 100: it is no wish */
    _Atomic uint32_t max_calls;
    pthread_mutex_t mu;
} f;

static struct held *held(uint64_t n) {
    /* malloc and not sk_alloc, since it is freed in any thread, and counted here */
    struct held *h = malloc(sizeof *h);
    h->n = n;
    f.n_handles++;
    return h;
}

static void g_begin(void *ctx, void (*wake)(void *host), void *host) {
    (void)ctx, (void)wake, (void)host;
}
static void g_end(void *ctx) { (void)ctx; }
static sk_rc g_nodes(void *ctx, struct sk_node *out, size_t cap, size_t *n, struct sk_err *err) {
    (void)ctx, (void)err;
    *n = 2;
    for (size_t i = 0; i < SK_MIN(cap, *n); i++)
        out[i] = (struct sk_node){.number = (uint32_t)i + 1,
                                  .alive = true,
                                  .name = "n",
                                  .total.amount = {20000},
                                  .capacity_bytes = 1000};
    return SK_OK;
}
static sk_rc g_define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                      struct sk_err *err) {
    (void)ctx, (void)err;
    CHECK(fn.v == FN && !strcmp(name, "f") && def.n == 3);
    return SK_OK;
}
static uint64_t number(const struct sk_guest_value *v) {
    if (v->handle) return ((struct held *)v->handle)->n;
    uint64_t n;
    CHECK(v->kind == KIND && v->bytes.n >= 8);
    memcpy(&n, v->bytes.p, 8);
    return n;
}
static sk_rc g_submit(void *ctx, const struct sk_guest_task *t, struct sk_err *err) {
    (void)ctx;
    struct told x = {
        .task = t->task, .actor = t->actor, .n_returns = t->n_returns, .is_init = t->is_init};
    f.n_submits++;
    CHECK_EQ(t->fn.v, FN);
    for (uint32_t i = 0; i < t->n_args; i++) x.sum += number(&t->args[i]);
    f.node = t->node_only ? 100 + t->node : t->node;
    f.max_calls = t->max_calls;
    if (x.sum == 13) return SK_ERR(err, SK_ENOSYS, "not this one");
    if (t->actor && !t->is_init) f.order[f.n_order++ % N_MAX] = t->actor << 32 | x.sum;
    CHECK(sk_vec_push(&f.told, SK_TAG_TEST, x));
    return SK_OK;
}
static void g_cancel(void *ctx, uint64_t task, uint32_t flags) {
    (void)ctx;
    CHECK(flags <= (SK_CANCEL_FORCE | SK_CANCEL_CHILDREN));
    for (uint32_t i = 0; i < f.told.n; i++)
        if (f.told.p[i].task == task) f.told.p[i].cancelled = true;
}
static void g_actor_end(void *ctx, uint64_t actor, enum sk_guest_end how) {
    (void)ctx, (void)how;
    f.n_ended++;
    for (uint32_t i = 0; i < f.told.n; i++)
        if (f.told.p[i].actor == actor) f.told.p[i].cancelled = true;
}
static sk_rc g_put(void *ctx, uint32_t kind, struct sk_bytes b, void **handle, struct sk_err *err) {
    (void)ctx, (void)err, (void)kind;
    uint64_t n;
    memcpy(&n, b.p, 8);
    f.n_puts++;
    *handle = held(n);
    return SK_OK;
}
static sk_rc g_fetch(void *ctx, void *handle, int64_t deadline_ns, struct sk_guest_value *out,
                     struct sk_err *err) {
    (void)ctx, (void)deadline_ns, (void)err;
    struct held *copy = held(((struct held *)handle)->n);
    *out = (struct sk_guest_value){.kind = KIND, .bytes = {copy, sizeof *copy}, .token = copy};
    return SK_OK;
}
static void g_drop(void *ctx, void *handle) {
    (void)ctx;
    free(handle);
    f.n_handles--;
}
/* Ends tasks: a task returns the sum of its arguments, or yields it as a stream. */
static sk_rc g_poll(void *ctx, void (*tell)(void *host, const struct sk_guest_event *ev),
                    void *host, struct sk_err *err) {
    (void)ctx;
    if (f.broken) return SK_ERR(err, SK_EIO, "the cluster is gone");
    for (uint32_t n = f.told.n; n && !f.hold; n--) {
        uint32_t i = (uint32_t)(test_rand() % f.told.n);
        struct told t = f.told.p[i];
        f.told.p[i] = sk_vec_pop(&f.told);
        struct sk_guest_event ev = {.kind = SK_EV_DONE, .task = t.task, .node = 2};
        if (t.cancelled || (t.is_init && f.fail_init)) {
            uint64_t bad = 9;
            struct sk_guest_value v = {.kind = SK_KIND_ERROR, .bytes = {&bad, 8}};
            ev.kind = SK_EV_FAILED;
            ev.values = &v;
            ev.n_values = t.is_init;
            ev.code = SK_ECANCEL;
            ev.text = "cancelled there";
            tell(host, &ev);
            continue;
        }
        struct sk_guest_value v[20];
        uint64_t sizes[20];
        bool stream = t.n_returns == SK_STREAMING;
        ev.n_values = stream ? (uint32_t)t.sum : t.n_returns;
        ev.values = v;
        ev.sizes = sizes;
        for (uint32_t k = 0; k < ev.n_values; k++) {
            v[k] = (struct sk_guest_value){.handle = held(t.sum)};
            sizes[k] = 10;
        }
        if (stream) {
            ev.kind = SK_EV_YIELDED;
            tell(host, &ev);
            ev = (struct sk_guest_event){.kind = SK_EV_DONE, .task = t.task};
        }
        tell(host, &ev);
    }
    return SK_OK;
}
static const struct sk_guest_ops OPS = {.begin = g_begin,
                                        .end = g_end,
                                        .nodes = g_nodes,
                                        .define = g_define,
                                        .submit = g_submit,
                                        .cancel = g_cancel,
                                        .actor_end = g_actor_end,
                                        .put = g_put,
                                        .poll = g_poll,
                                        .fetch = g_fetch,
                                        .let_go = g_drop,
                                        .drop = g_drop};

static void begin(void) {
    struct sk_err err = {0};
    struct sk_guest g = {.ops = &OPS};
    memset(&f, 0, sizeof f);
    CHECK_OK_ERR(sk_engine_find("guest")->open(&(struct sk_engine_conf){.guest = &g}, &f.e, &err),
                 &err);
    f.in_sink = f.e;
    CHECK_OK(f.e->ops->define(f.e, (sk_fid){FN}, "f", (struct sk_bytes){"def", 3}, NULL));
}
static void end(void) {
    sk_engine_close(&f.e);
    CHECK_EQ(f.n_handles, 0);
    sk_vec_free(&f.told);
}

static sk_oid put(uint64_t n, size_t len) {
    sk_oid o;
    uint8_t *p = calloc(1, SK_MAX(len, 8));
    memcpy(p, &n, 8);
    CHECK_OK(f.e->ops->put(f.e, &(struct sk_payload){.kind = KIND, .bytes = {p, SK_MAX(len, 8)}},
                           &o, NULL));
    free(p);
    return o;
}
static sk_rc job(sk_aid actor, const sk_oid *in, uint32_t n, sk_oid *out, sk_tid *tid) {
    struct sk_arg a[8];
    for (uint32_t i = 0; i < n; i++) a[i] = (struct sk_arg){.ref = in[i]};
    return f.e->ops->submit(
        f.e,
        &(struct sk_task_spec){.fn = {FN}, .args = a, .n_args = n, .n_returns = 1, .actor = actor},
        out, tid, NULL);
}
static void release(sk_oid o) { f.e->ops->release(f.e, o); }
static uint64_t value(sk_oid o, uint32_t *kind) {
    struct sk_view v;
    struct sk_err err = {0};
    uint64_t n = 0;
    CHECK_OK_ERR(f.e->ops->get(f.e, &o, 1, INT64_MAX, &v, &err), &err);
    if (kind) *kind = v.kind;
    else CHECK_EQ(v.kind, KIND);
    memcpy(&n, v.data + (v.kind == SK_KIND_ENGINE_ERROR ? 4 : 0), SK_MIN(v.len, 8));
    f.e->ops->view_release(f.e, &v);
    return n;
}
static uint64_t take(sk_oid o) {
    uint64_t n = value(o, NULL);
    release(o);
    return n;
}

TEST(tasks_wait_for_their_arguments_and_values_go_with_their_references) {
    begin();
    sk_oid one = put(1, 0), sum = one;
    for (uint32_t i = 0; i < 200; i++) { /* each needs the one before it */
        sk_oid in[2] = {sum, one}, out;
        CHECK_OK(job((sk_aid){0}, in, 2, &out, NULL));
        if (i) release(sum);
        sum = out;
        if (i == 11) { /* 1 + 12 */
            uint32_t kind;
            value(sum, &kind);
            CHECK_EQ(kind, SK_KIND_ENGINE_ERROR);
            release(sum);
            sum = one;
            break;
        }
    }
    sk_oid large = put(500, SK_GUEST_INLINE + 1), out[3];
    for (uint32_t i = 0; i < 3; i++)
        CHECK_OK(job((sk_aid){0}, (sk_oid[]){large, one}, 2, &out[i], NULL));
    for (uint32_t i = 0; i < 3; i++) CHECK_EQ(take(out[i]), 501);
    CHECK_EQ(f.n_puts, 1);
    struct sk_node nodes[2];
    size_t n;
    CHECK_OK(job((sk_aid){0}, &one, 1, out, NULL));
    CHECK_EQ(value(out[0], NULL), 1);
    CHECK_OK(f.e->ops->nodes(f.e, nodes, 2, &n, NULL));
    CHECK_EQ(nodes[0].resident_bytes, 0);
    CHECK(nodes[1].resident_bytes >= 10);
    release(out[0]);
    release(large);
    release(one);
    struct sk_view v;
    CHECK_RC(f.e->ops->get(f.e, &one, 1, 0, &v, NULL), SK_ELOST);
    end();
}

TEST(shapes_are_those_of_one_node) {
    struct sk_err err = {0};
    sk_shape a, b;
    begin();
    CHECK_OK(sk_shape_of(f.e, &(struct sk_res){.amount = {20000}}, &a, &err));
    CHECK_OK(sk_shape_of(f.e, &(struct sk_res){.amount = {20000}}, &b, &err));
    CHECK_EQ(a, b);
    /* although all nodes together have as much */
    CHECK_RC(sk_shape_of(f.e, &(struct sk_res){.amount = {30000}}, &b, &err), SK_EINFEASIBLE);
    CHECK_RC(f.e->ops->shape(f.e, &(struct sk_need){.group = 1}, &b, &err), SK_ENOSYS);
    end();
}

static uint32_t told_node(uint32_t node, bool only) {
    sk_oid o;
    f.node = 1000;
    CHECK_OK(f.e->ops->submit(
        f.e, &(struct sk_task_spec){.fn = {FN}, .n_returns = 1, .node = node, .node_only = only},
        &o, NULL, NULL));
    CHECK_EQ(take(o), 0);
    return f.node;
}

TEST(how_often_a_process_may_run_it_is_told) {
    sk_oid o;
    begin();
    for (uint32_t calls = 0; calls < 3; calls++) {
        struct sk_task_opts opts = {.max_calls = calls};
        f.max_calls = 1000;
        CHECK_OK(f.e->ops->submit(f.e,
                                  &(struct sk_task_spec){.fn = {FN}, .n_returns = 1, .opts = &opts},
                                  &o, NULL, NULL));
        CHECK_EQ(take(o), 0);
        CHECK_EQ(f.max_calls, calls);
    }
    end();
}

TEST(where_a_task_should_be_is_told) {
    struct sk_err err = {0};
    sk_oid o;
    begin();
    CHECK_EQ(told_node(0, true), 100); /* anywhere */
    CHECK_EQ(told_node(2, false), 2);
    CHECK_EQ(told_node(2, true), 102);
    CHECK_EQ(told_node(3, false), 0); /* there is none */
    struct sk_task_spec s = {.fn = {FN}, .n_returns = 1, .node = 3, .node_only = true};
    CHECK_RC(f.e->ops->submit(f.e, &s, &o, NULL, &err), SK_EINFEASIBLE);
    CHECK(strstr(err.msg, "node 3"));
    CHECK_RC(
        f.e->ops->actor_create(f.e, &(struct sk_actor_spec){.init = s}, &(sk_aid){0}, &o, &err),
        SK_EINFEASIBLE);
    end();
}

static sk_rc actor(sk_oid in, sk_aid *a, sk_oid *ready) {
    struct sk_arg arg = {.ref = in};
    return f.e->ops->actor_create(
        f.e, &(struct sk_actor_spec){.init = {.fn = {FN}, .args = &arg, .n_args = 1}}, a, ready,
        NULL);
}

static bool both_ended(void *arg) {
    (void)arg;
    return f.n_ended == 2;
}

static bool one_ended(void *arg) {
    (void)arg;
    return f.n_ended == 1;
}

TEST(calls_of_an_actor_are_told_in_order_after_its_constructor) {
    begin();
    sk_oid one = put(1, 0), out[100], ready[2], n[100], late[2];
    sk_aid a[2];
    f.hold = true;
    /* what the second call of each waits for */
    CHECK_OK(job((sk_aid){0}, &one, 1, &late[0], NULL));
    for (uint32_t k = 0; k < 2; k++) CHECK_OK(actor(one, &a[k], &ready[k]));
    for (uint32_t i = 0; i < 100; i++) {
        n[i] = put(100 + i, 0);
        sk_oid in[2] = {n[i], late[0]};
        CHECK_OK(job(a[i % 2], in, 1 + (i / 2 == 1), &out[i], NULL));
    }
    f.hold = false;
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(take(out[i]), 100 + i + (i / 2 == 1));
        release(n[i]);
    }
    uint32_t next[2] = {0};
    for (uint32_t i = 0; i < f.n_order; i++) {
        uint32_t k = f.order[i] >> 32 == a[1].v;
        uint64_t want = 100 + 2 * next[k] + k + (next[k] == 1);
        CHECK_EQ((uint32_t)f.order[i], want);
        next[k]++;
    }
    CHECK_EQ(next[0] + next[1], 100);
    for (uint32_t k = 0; k < 2; k++) {
        release(ready[k]);
        sk_actor_release(f.e, a[k]); /* the last handle: it ends */
    }
    release(late[0]);
    release(one);
    CHECK_OK(f.e->ops->drive(f.e, both_ended, NULL, test_patience(), NULL));
    end();
}

TEST(what_a_constructor_failed_with_is_the_error_of_its_calls) {
    begin();
    f.fail_init = true;
    sk_oid one = put(1, 0), out[3], ready;
    sk_aid a;
    uint32_t kind;
    CHECK_OK(actor(one, &a, &ready));
    for (uint32_t i = 0; i < 2; i++) CHECK_OK(job(a, &one, 1, &out[i], NULL));
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(value(out[i], &kind), 9);
        CHECK_EQ(kind, SK_KIND_ERROR);
    }
    CHECK_OK(job(a, &one, 1, &out[2], NULL));
    CHECK_EQ(value(out[2], &kind), 9);
    CHECK_EQ(value(ready, &kind), 9);
    /* the guest holds no reference to it */
    CHECK_OK(f.e->ops->drive(f.e, one_ended, NULL, test_patience(), NULL));
    for (uint32_t i = 0; i < 3; i++) release(out[i]);
    release(ready);
    sk_actor_release(f.e, a);
    release(one);
    end();
    CHECK_EQ(f.n_order, 0);
}

TEST(cancel_and_kill_end_what_waits_and_what_runs) {
    begin();
    f.hold = true;
    sk_oid one = put(1, 0), first, second, ready, call;
    sk_tid t1, t2;
    sk_aid a;
    uint32_t kind;
    CHECK_OK(job((sk_aid){0}, &one, 1, &first, &t1));
    CHECK_OK(job((sk_aid){0}, &first, 1, &second, &t2));
    CHECK_OK(f.e->ops->cancel(f.e, t2, 0, NULL));
    value(second, &kind); /* cancelled before the guest got it */
    CHECK_EQ(kind, SK_KIND_ENGINE_ERROR);
    CHECK_OK(f.e->ops->cancel(f.e, t1, 0, NULL));
    CHECK_OK(actor(one, &a, &ready));
    CHECK_OK(job(a, &one, 1, &call, NULL));
    CHECK_OK(f.e->ops->actor_end(f.e, a, true, NULL));
    value(call, &kind);
    CHECK_EQ(kind, SK_KIND_ENGINE_ERROR);
    f.hold = false;
    value(first, &kind);
    CHECK_EQ(kind, SK_KIND_ENGINE_ERROR);
    release(first), release(second), release(ready), release(call), release(one);
    sk_actor_release(f.e, a);
    end();
}

static void on_events(struct sk_sink *s, const struct sk_event *ev, size_t n) {
    (void)s;
    for (size_t i = 0; i < n; i++) {
        f.n_sunk += ev[i].kind == SK_EV_DONE || ev[i].kind == SK_EV_FAILED;
        f.n_failed += ev[i].kind == SK_EV_FAILED;
        f.n_yields += ev[i].kind == SK_EV_YIELDED;
        f.seen += ev[i].kind == SK_EV_YIELDED ? ev[i].size_bytes : 0;
        if (ev[i].oid.v) f.in_sink->ops->release(f.in_sink, ev[i].oid);
    }
}
static struct sk_sink sink = {on_events};
static bool sunk(void *want) { return f.n_sunk >= *(uint32_t *)want; }

static void stream(sk_oid in) {
    struct sk_arg a = {.ref = in};
    CHECK_OK(f.e->ops->submit(
        f.e,
        &(struct sk_task_spec){
            .fn = {FN}, .args = &a, .n_args = 1, .n_returns = SK_STREAMING, .sink = &sink},
        NULL, NULL, NULL));
}

TEST(streams_come_to_sinks) {
    begin();
    sk_oid in[6];
    uint32_t want = 60;
    for (uint32_t i = 0; i < 6; i++) in[i] = put(i + 1, 0);
    for (uint32_t i = 0; i < 60; i++) stream(in[i % 6]);
    CHECK_OK(f.e->ops->drive(f.e, sunk, &want, test_patience(), NULL));
    CHECK_EQ(f.n_yields, 10 * 21);
    CHECK_EQ(f.seen, 10 * 21 * 10);
    CHECK_EQ(f.n_failed, 0);
    for (uint32_t i = 0; i < 6; i++) release(in[i]);
    end();
}

static sk_tid stream_without_sink(sk_oid arg) {
    sk_tid t;
    struct sk_arg a = {.ref = arg};
    CHECK_OK(f.e->ops->submit(
        f.e, &(struct sk_task_spec){.fn = {FN}, .args = &a, .n_args = 1, .n_returns = SK_STREAMING},
        NULL, &t, NULL));
    return t;
}

TEST(streams_without_a_sink_are_taken_one_by_one) {
    begin();
    const struct sk_streams_ops *s = f.e->streams;
    sk_oid five = put(5, 0), thirteen = put(13, 0), o, done[3];
    sk_tid t[4];
    f.hold = true;
    for (uint32_t i = 0; i < 4; i++) t[i] = stream_without_sink(i < 3 ? five : thirteen);
    CHECK_EQ(s->next(f.e, t[0], 0, &o, NULL), SK_ETIMEOUT);
    CHECK_EQ(s->wait(f.e, t[0], sk_now_ns() + SK_MS, NULL), SK_ETIMEOUT);
    for (uint32_t i = 0; i < 3; i++) CHECK_OK(s->end(f.e, t[i ? i + 1 : 0], KIND, &done[i], NULL));
    CHECK_EQ(s->end(f.e, t[0], KIND, &o, NULL), SK_EEXIST);
    s->drop(f.e, t[1]); /* before its yields exist */
    s->drop(f.e, t[1]);
    CHECK_EQ(s->next(f.e, t[1], INT64_MAX, &o, NULL), SK_EDONE);
    CHECK_EQ(s->end(f.e, t[1], KIND, &o, NULL), SK_ENOENT);
    f.hold = false;
    for (uint32_t i = 0; i < 5; i++) {
        CHECK_OK(s->wait(f.e, t[0], INT64_MAX, NULL));
        CHECK_OK(s->next(f.e, t[0], INT64_MAX, &o, NULL));
        CHECK_EQ(take(o), 5);
    }
    CHECK_EQ(s->next(f.e, t[0], INT64_MAX, &o, NULL), SK_EDONE);
    CHECK_EQ(s->wait(f.e, t[0], INT64_MAX, NULL), SK_EDONE);
    s->drop(f.e, t[0]);
    CHECK_EQ(s->next(f.e, t[0], INT64_MAX, &o, NULL), SK_EDONE);
    CHECK_OK(s->next(f.e, t[2], INT64_MAX, &o, NULL)); /* four are left */
    release(o);
    s->drop(f.e, t[2]);
    /* a failure comes after the yields, once */
    uint32_t kind;
    struct sk_view v;
    CHECK_EQ(s->next(f.e, t[3], INT64_MAX, &o, NULL), SK_ETASK);
    value(o, &kind);
    CHECK_EQ(kind, SK_KIND_ENGINE_ERROR);
    release(o);
    CHECK_EQ(s->next(f.e, t[3], INT64_MAX, &o, NULL), SK_EDONE);
    s->drop(f.e, t[3]);
    for (uint32_t i = 0; i < 3; i++) {
        CHECK_OK(f.e->ops->get(f.e, &done[i], 1, INT64_MAX, &v, NULL));
        CHECK_EQ(v.kind, i < 2 ? KIND : SK_KIND_ENGINE_ERROR);
        f.e->ops->view_release(f.e, &v);
        release(done[i]);
    }
    /* left open, and dropped while nothing of it exists */
    (void)stream_without_sink(five);
    f.hold = true;
    t[0] = stream_without_sink(five);
    CHECK_OK(s->end(f.e, t[0], KIND, &o, NULL));
    s->drop(f.e, t[0]);
    release(five);
    release(thirteen);
    end();
}

struct seen {
    struct sk_watch w;
    _Atomic uint32_t n;
};
static void is_seen(struct sk_watch *w) { sk_container_of(w, struct seen, w)->n++; }
static bool all_seen(void *arg) {
    const struct seen *s = arg;
    for (uint32_t i = 0; i < 3; i++)
        if (!s[i].n) return false;
    return true;
}

TEST(watches_are_called_once_when_an_object_exists) {
    begin();
    const struct sk_watch_ops *w = f.e->watch;
    struct seen s[8] = {0};
    for (uint32_t i = 0; i < 8; i++) s[i].w.fn = is_seen;
    sk_oid one = put(1, 0), out[2], gone;
    f.hold = true;
    for (uint32_t i = 0; i < 2; i++) CHECK_OK(job((sk_aid){0}, &one, 1, &out[i], NULL));
    sk_tid t = stream_without_sink(one);
    CHECK_EQ(w->add(f.e, one, (sk_tid){0}, &s[0].w, NULL), SK_EDONE);
    CHECK_OK(w->add(f.e, out[0], (sk_tid){0}, &s[0].w, NULL));
    CHECK_OK(w->add(f.e, out[0], (sk_tid){0}, &s[1].w, NULL));
    CHECK_OK(w->add(f.e, (sk_oid){0}, t, &s[2].w, NULL));
    /* removed from the front, the middle and the end of a list */
    for (uint32_t i = 3; i < 6; i++) CHECK_OK(w->add(f.e, out[0], (sk_tid){0}, &s[i].w, NULL));
    CHECK(w->remove(f.e, &s[4].w) && w->remove(f.e, &s[5].w) && w->remove(f.e, &s[3].w));
    CHECK(!w->remove(f.e, &s[3].w));
    /* a watch holds its object */
    CHECK_OK(job((sk_aid){0}, &one, 1, &gone, NULL));
    CHECK_OK(w->add(f.e, gone, (sk_tid){0}, &s[6].w, NULL));
    release(gone);
    CHECK(w->remove(f.e, &s[6].w));
    CHECK_EQ(w->add(f.e, gone, (sk_tid){0}, &s[6].w, NULL), SK_ELOST);
    CHECK(!s[0].n && !s[1].n && !s[2].n);
    f.hold = false;
    CHECK_OK(f.e->ops->drive(f.e, all_seen, s, test_patience(), NULL));
    for (uint32_t i = 0; i < 8; i++) CHECK_EQ(s[i].n, i < 3);
    CHECK(!w->remove(f.e, &s[0].w));
    CHECK_EQ(w->add(f.e, (sk_oid){0}, t, &s[2].w, NULL), SK_EDONE);
    f.e->streams->drop(f.e, t);
    CHECK_EQ(w->add(f.e, (sk_oid){0}, t, &s[2].w, NULL), SK_EDONE);
    for (uint32_t i = 0; i < 2; i++) CHECK_EQ(take(out[i]), 1);
    f.hold = true; /* what is watched when the engine closes is called then */
    CHECK_OK(job((sk_aid){0}, &one, 1, &out[0], NULL));
    CHECK_OK(w->add(f.e, out[0], (sk_tid){0}, &s[7].w, NULL));
    release(out[0]);
    release(one);
    end();
    CHECK_EQ(s[7].n, 1);
}

static int64_t cpu_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * SK_SEC + ts.tv_nsec;
}

/* Each submission once looked at every task that waited. */
TEST(tasks_that_wait_cost_those_after_them_nothing) {
    enum { N = 30000, TENTH = N / 10 };
    begin();
    f.hold = true;
    sk_oid one = put(1, 0), late, *out = calloc(N, sizeof *out);
    CHECK(out);
    CHECK_OK(job((sk_aid){0}, &one, 1, &late, NULL));
    int64_t took[10];
    for (uint32_t k = 0; k < 10; k++) {
        int64_t from = cpu_ns();
        for (uint32_t i = 0; i < TENTH; i++)
            CHECK_OK(job((sk_aid){0}, &late, 1, &out[k * TENTH + i], NULL));
        took[k] = cpu_ns() - from;
    }
    CHECK_MSG(took[9] < 4 * took[0] + 20 * SK_MS, "the first %d took %.1f ms, the last %.1f", TENTH,
              (double)took[0] / 1e6, (double)took[9] / 1e6);
    f.hold = false;
    for (uint32_t i = 0; i < N; i++) CHECK_EQ(take(out[i]), 1);
    release(late);
    release(one);
    free(out);
    end();
}

TEST(references_inside_arguments_are_refused) {
    begin();
    uint64_t n = 1;
    sk_oid one = put(1, 0), outer, out;
    struct sk_payload p = {.kind = KIND, .bytes = {&n, 8}, .contains = &one, .n_contains = 1};
    CHECK_OK(f.e->ops->put(f.e, &p, &outer, NULL));
    CHECK_EQ(job((sk_aid){0}, &outer, 1, &out, NULL), SK_ENOSYS);
    struct sk_task_spec s = {.fn = {FN}, .n_returns = 1, .contains = &one, .n_contains = 1};
    CHECK_EQ(f.e->ops->submit(f.e, &s, &out, NULL, NULL), SK_ENOSYS);
    CHECK(f.e->no_inner && !f.n_submits);
    release(outer);
    release(one);
    end();
}

TEST(close_with_everything_alive) {
    begin();
    f.hold = true;
    sk_oid one = put(1, 0), out;
    sk_aid a;
    sk_oid ready;
    for (uint32_t i = 0; i < 5; i++) stream(one);
    CHECK_OK(job((sk_aid){0}, &one, 1, &out, NULL));
    stream(out);
    CHECK_OK(actor(one, &a, &ready));
    CHECK_OK(job(a, &one, 1, &out, NULL));
    (void)put(3, 1000);
    end();
    CHECK_EQ(f.n_sunk, 6);
    CHECK_EQ(f.n_failed, 6);
}

TEST(a_guest_that_cannot_be_asked_ends_what_it_has) {
    begin();
    f.hold = true;
    sk_oid one = put(1, 0), out;
    uint32_t kind;
    CHECK_OK(job((sk_aid){0}, &one, 1, &out, NULL));
    stream(out);
    f.broken = true;
    value(out, &kind);
    CHECK_EQ(kind, SK_KIND_ENGINE_ERROR);
    struct sk_err err = {0};
    sk_oid o;
    CHECK_RC(
        f.e->ops->put(f.e, &(struct sk_payload){.kind = KIND, .bytes = {"12345678", 8}}, &o, &err),
        SK_EIO);
    CHECK_STR_HAS(err.msg, "the cluster is gone");
    end();
    CHECK_EQ(f.n_sunk, 1);
}

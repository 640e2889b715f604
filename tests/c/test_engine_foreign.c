/* test_engine_foreign.c - objects and actors of other engines at a local engine (engine/foreign.h).
 * The server is the test: it hears what the engine says, and brings values. Tasks refer to object
 * THERE, which is in the range of ids of another engine. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/cluster/wheres.h"
#include "engine/foreign.h"
#include "engine_help.h"
#include "test.h"

enum { THERE = 5, ACTOR = 9, MOST = 64 };

/* ---- the server ------------------------------------------------------------------------------ */

static struct {
    struct sk_foreign f;
    sk_oid held[MOST], wanted[MOST], dropped[MOST];
    _Atomic uint32_t n_held, n_wanted, n_dropped, n_called, n_killed, n_cancelled;
    sk_oid cancelled;
    _Atomic uint32_t n_asked, n_taken, n_queued;
    sk_oid firsts[MOST]; /* first returns of tasks */
    uint32_t taken, window;
    int64_t cpus; /* what a task asks for */
    char where[20];
    uint64_t ask;
    struct sk_foreign_name name;
    uint32_t flags;
    sk_oid first, arg, inner; /* of the last call: its first return, argument 1, reference inside */
    int64_t value;            /* its argument 0 */
    uint32_t n_returns;
    char fn_name[40];
    size_t def_n;
} s;

static void held(struct sk_foreign *f, sk_oid o) {
    (void)f;
    CHECK(s.n_held < MOST);
    s.held[s.n_held++] = o;
}
static void wanted(struct sk_foreign *f, sk_oid o) {
    (void)f;
    CHECK(s.n_wanted < MOST);
    s.wanted[s.n_wanted++] = o;
}
static void dropped(struct sk_foreign *f, sk_oid o) {
    (void)f;
    CHECK(s.n_dropped < MOST);
    s.dropped[s.n_dropped++] = o;
}
static void called(struct sk_foreign *f, const struct sk_task_spec *t,
                   const struct sk_foreign_need *need, struct sk_bytes def, sk_oid first) {
    (void)f;
    s.first = first;
    if (need) {
        CHECK(!t->actor.v && t->opts->max_calls == 5 && t->n_args == 1 && def.n);
        CHECK(need->env.n == 1 && *(const char *)need->env.p >= 'e');
        s.arg = t->args[0].ref;
        s.cpus = need->res.amount[SK_RES_CPU];
        snprintf(s.where, sizeof s.where, "%.*s", (int)need->where.n, (const char *)need->where.p);
        CHECK(s.n_called < MOST);
        s.firsts[s.n_called++] = first;
        return;
    }
    CHECK_EQ(t->actor.v, ACTOR);
    CHECK_EQ(t->n_args, 2);
    CHECK_EQ(t->n_contains, 1);
    memcpy(&s.value, t->args[0].bytes.p, 8);
    s.arg = t->args[1].ref;
    s.inner = t->contains[0];
    s.n_returns = t->n_returns;
    s.window = t->opts->stream_window;
    s.def_n = def.n;
    snprintf(s.fn_name, sizeof s.fn_name, "%s", t->name);
    s.n_called++;
}
static void made(struct sk_foreign *f, uint64_t ask, const struct sk_actor_spec *a,
                 const struct sk_foreign_need *need, struct sk_bytes def) {
    (void)f;
    CHECK(def.n && a->max_restarts == 3 && a->max_task_retries == 4 && a->opts->n_groups == 2);
    CHECK(a->opts->groups[1] == 7 && a->opts->is_async && a->opts->detached);
    CHECK(!strcmp(a->opts->name, "n") && !strcmp(a->opts->space, "s") && a->opts->meta.n == 3);
    CHECK(a->init.n_args == 1 && a->init.args[0].ref.v && a->init.n_returns == 1);
    CHECK_EQ(need->res.amount[SK_RES_CPU], 3 * SK_RES_UNIT);
    s.arg = a->init.args[0].ref;
    s.ask = ask;
    s.n_asked++;
}
static void taken(struct sk_foreign *f, sk_oid first, uint32_t n) {
    (void)f;
    CHECK_EQ(first.v, s.first.v);
    s.taken = n;
    s.n_taken++;
}
static bool here(struct sk_foreign *f, struct sk_bytes where) {
    (void)f;
    return where.n == 4 && !memcmp(where.p, "here", 4);
}
static void cancelled(struct sk_foreign *f, sk_oid o, uint32_t flags) {
    (void)f;
    s.cancelled = o;
    s.flags = flags;
    s.n_cancelled++;
}
static void asked(struct sk_foreign *f, uint64_t ask, const struct sk_foreign_name *n) {
    (void)f;
    CHECK(ask || n->what == SK_NAME_FREE);
    CHECK(!n->name.n || (n->name.n == 1 && *(const char *)n->name.p == 'n'));
    s.ask = ask;
    s.name = *n;
    s.n_asked++;
}
static void queued(struct sk_foreign *f) {
    (void)f;
    s.n_queued++;
}
static void killed(struct sk_foreign *f, sk_aid a, bool no_restart) {
    (void)f;
    CHECK(a.v == ACTOR && no_restart);
    s.n_killed++;
}

static void open_served(const struct eng_opt *o) {
    struct sk_err err;
    struct eng_opt own = *o;
    memset(&s, 0, sizeof s);
    s.f = (struct sk_foreign){.held = held,
                              .wanted = wanted,
                              .dropped = dropped,
                              .called = called,
                              .made = made,
                              .here = here,
                              .taken = taken,
                              .cancelled = cancelled,
                              .asked = asked,
                              .queued = queued,
                              .killed = killed};
    own.id_base = SK_ID_RANGE;
    eng_open(&own);
    CHECK_OK_ERR(eng->foreign->serve(eng, &s.f, &err), &err);
    CHECK_EQ(eng->foreign->serve(eng, &s.f, &err), SK_EEXIST);
}
#define OPEN() open_served(&(struct eng_opt){.cpus = 2})

static bool is_wanted(void *arg) { return s.n_wanted >= *(uint32_t *)arg; }
static bool is_dropped(void *arg) { return s.n_dropped >= *(uint32_t *)arg; }
static bool is_called(void *arg) { return s.n_called >= *(uint32_t *)arg; }
static bool is_killed(void *arg) { return s.n_killed >= *(uint32_t *)arg; }
#define UNTIL(is, n) CHECK(eng_drive_until(is, &(uint32_t){n}))

static sk_rc bring(sk_oid o, uint32_t kind, const void *p, size_t n) {
    struct sk_payload v = {.kind = kind, .bytes = {p, n}};
    return eng->foreign->bring(eng, o, &v, NULL);
}
static sk_rc bring_i64(sk_oid o, int64_t x) { return bring(o, KIND_I64, &x, 8); }

/* ---- tasks ----------------------------------------------------------------------------------- */

static const sk_oid there = {THERE};

TASK(fo_gets) { /* the value of the object whose number is its argument */
    sk_oid in = {(uint64_t)arg_i64(t, 0)};
    int64_t x;
    t->engine->ops->retain(t->engine, in);
    sk_rc rc = get_i64(t->engine, in, &x, err);
    t->engine->ops->release(t->engine, in);
    return rc == SK_OK ? ret_i64(t, 0, x, err) : rc;
}
TASK(fo_nothing) { return ret_i64(t, 0, 1, err); }
TASK(fo_add1) { return ret_i64(t, 0, arg_i64(t, 0) + 1, err); }
TASK(fo_len) { return ret_i64(t, 0, (int64_t)t->args[0].len * 1000 + t->args[0].data[0], err); }
TASK(fo_contains) { /* returns a value with a reference to THERE inside */
    struct sk_payload p = {
        .kind = KIND_I64, .bytes = {&there, 8}, .contains = &there, .n_contains = 1};
    return sk_task_return(t, 0, &p, err);
}
TASK(fo_keeps) { /* takes a reference, says so, and waits to be killed */
    t->engine->ops->retain(t->engine, there);
    int64_t x;
    gate_add(1, 1);
    return get_i64(t->engine, there, &x, err);
}
/* A call of an actor with two numbers, and a reference inside an argument. */
static struct sk_task_spec method_of(const struct sk_task *t, sk_aid a, const sk_oid *inside) {
    static const int64_t x[] = {41, 1};
    static const struct sk_arg args[] = {{.kind = KIND_I64, .bytes = {&x[0], 8}},
                                         {.kind = KIND_I64, .bytes = {&x[1], 8}}};
    return (struct sk_task_spec){.fn = t->fn,
                                 .name = "method",
                                 .args = args,
                                 .n_args = 2,
                                 .contains = inside,
                                 .n_contains = 1,
                                 .n_returns = 1,
                                 .actor = a};
}
TASK(fo_calls) { /* calls ACTOR with a number, an object of its own, and THERE inside a value */
    struct sk_engine *e = t->engine;
    int64_t x = 7, sum = 0, y;
    sk_oid own, first;
    e->ops->retain(e, (sk_oid){ACTOR});
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}}, &own, err));
    const struct sk_arg args[] = {VAL(41), REF(own)};
    struct sk_task_spec call = method_of(t, (sk_aid){ACTOR}, &there);
    call.args = args;
    call.n_returns = 2;
    SK_TRY(e->ops->submit(e, &call, &first, NULL, err));
    e->ops->release(e, own);
    for (uint64_t i = 0; i < 2; i++) {
        SK_TRY(get_i64(e, (sk_oid){first.v + i}, &y, err));
        sum += y;
        e->ops->release(e, (sk_oid){first.v + i});
    }
    SK_TRY(e->ops->actor_end(e, (sk_aid){ACTOR}, true, err));
    e->ops->release(e, (sk_oid){ACTOR});
    return ret_i64(t, 0, sum, err);
}

static sk_oid with_inner(const char *fn, int64_t x) {
    return eng_job(
        &(struct job){.fn = fn, .a = {VAL(x)}, .n_a = 1, .contains = &there, .n_contains = 1});
}

/* ---- objects --------------------------------------------------------------------------------- */

TEST(foreign_values_come_when_they_are_wanted) {
    OPEN();
    sk_oid r = with_inner("fo_gets", THERE);
    UNTIL(is_wanted, 1);
    CHECK(s.n_held == 1 && s.held[0].v == THERE && s.wanted[0].v == THERE && !s.n_dropped);
    CHECK_OK(bring_i64(there, 99));
    CHECK_EQ(eng_take(r), 99);
    UNTIL(is_dropped, 1);
    CHECK(s.dropped[0].v == THERE);
    CHECK_EQ(bring_i64(there, 99), SK_ENOENT);
    CHECK(s.n_held == 1 && s.n_wanted == 1 && s.n_dropped == 1);
    eng_close();
}

TEST(foreign_values_that_nobody_reads_are_not_wanted) {
    OPEN();
    CHECK_EQ(eng_take(with_inner("fo_nothing", 0)), 1);
    UNTIL(is_dropped, 1);
    CHECK(s.n_held == 1 && !s.n_wanted);
    /* an object that is gone may be met again */
    CHECK_EQ(eng_take(with_inner("fo_nothing", 0)), 1);
    UNTIL(is_dropped, 2);
    CHECK(s.n_held == 2 && !s.n_wanted);
    eng_close();
}

TEST(foreign_values_as_arguments) {
    OPEN();
    sk_oid a = eng_job(&(struct job){.fn = "fo_add1", .a = {REF(there)}, .n_a = 1});
    UNTIL(is_wanted, 1);
    sk_oid b = eng_job(&(struct job){.fn = "fo_add1", .a = {REF(there)}, .n_a = 1});
    CHECK_OK(bring_i64(there, 1));
    CHECK_EQ(eng_take(a), 2);
    CHECK_EQ(eng_take(b), 2);
    UNTIL(is_dropped, 1);
    CHECK(s.n_held == 1 && s.n_wanted == 1);
    /* a large one */
    a = eng_job(&(struct job){.fn = "fo_len", .a = {REF(there)}, .n_a = 1});
    UNTIL(is_wanted, 2);
    uint8_t *p = sk_calloc(SK_TAG_TEST, 300000);
    CHECK(p);
    p[0] = 8;
    CHECK_OK(bring(there, KIND_BLOB, p, 300000));
    sk_free(p);
    CHECK_EQ(eng_take(a), 300000 * 1000 + 8);
    UNTIL(is_dropped, 2);
    /* an error is the error of the task */
    a = eng_job(&(struct job){.fn = "fo_add1", .a = {REF(there)}, .n_a = 1});
    UNTIL(is_wanted, 3);
    struct {
        int32_t code;
        char text[12];
    } e = {SK_ELOST, "it is gone"};
    CHECK_OK(bring(there, SK_KIND_ENGINE_ERROR, &e, sizeof e));
    char text[200];
    CHECK_EQ(eng_error(a, text, sizeof text), SK_ELOST);
    CHECK(strstr(text, "it is gone"));
    UNTIL(is_dropped, 3);
    eng_close();
}

TEST(foreign_references_inside_values) {
    OPEN();
    sk_oid outer = eng_job(&(struct job){.fn = "fo_contains"});
    CHECK_EQ(eng_i64(outer), THERE);
    CHECK(s.n_held == 1 && !s.n_dropped); /* it lives as long as the value does */
    sk_oid r = eng_job(&(struct job){.fn = "fo_gets", .a = {REF(outer)}, .n_a = 1});
    UNTIL(is_wanted, 1);
    CHECK_OK(bring_i64(there, 6));
    CHECK_EQ(bring_i64(there, 7), SK_EEXIST);
    eng_release(outer);
    CHECK_EQ(eng_take(r), 6);
    UNTIL(is_dropped, 1);
    /* inside a value that is brought */
    const sk_oid other = {THERE + 1};
    r = with_inner("fo_gets", THERE);
    UNTIL(is_wanted, 2);
    struct sk_payload p = {
        .kind = KIND_I64, .bytes = {&other, 8}, .contains = &other, .n_contains = 1};
    CHECK_OK(eng->foreign->bring(eng, there, &p, NULL));
    CHECK_EQ(eng_take(r), THERE + 1);
    UNTIL(is_dropped, 3);
    CHECK(s.n_held == 3 && s.held[2].v == other.v);
    eng_close();
}

TEST(foreign_references_of_a_process_that_dies) {
    OPEN();
    sk_oid r =
        eng_job(&(struct job){.fn = "fo_keeps", .contains = &there, .n_contains = 1, .retries = 0});
    UNTIL(is_wanted, 1);
    CHECK(gate_wait(1, 1));
    struct sk_worker_info w[8];
    size_t n = eng->state->workers(eng, w, SK_COUNT(w));
    for (size_t i = 0; i < n; i++)
        if (w[i].pid > 0) kill(w[i].pid, SIGKILL);
    char text[2000];
    CHECK_EQ(eng_error(r, text, sizeof text), SK_EDEAD);
    UNTIL(is_dropped, 1);
    CHECK_EQ(bring_i64(there, 1), SK_ENOENT);
    CHECK(s.n_held == 1);
    eng_close();
}

/* ---- actors ---------------------------------------------------------------------------------- */

TEST(foreign_actors_are_called_by_the_server) {
    OPEN();
    sk_oid r = eng_job(&(struct job){.fn = "fo_calls"});
    UNTIL(is_called, 1);
    CHECK(s.value == 41 && s.n_returns == 2 && !strcmp(s.fn_name, "method") && s.inner.v == THERE);
    CHECK(s.def_n > 0);
    CHECK_EQ(eng_i64(s.arg), 7); /* the server has a reference to it */
    UNTIL(is_wanted, 1);
    CHECK(s.wanted[0].v == s.first.v);
    CHECK_OK(bring_i64(s.first, 100));
    UNTIL(is_wanted, 2);
    CHECK_OK(bring_i64((sk_oid){s.first.v + 1}, 20));
    UNTIL(is_killed, 1);
    CHECK_EQ(eng_take(r), 120);
    CHECK(s.n_held == 2); /* THERE and ACTOR; returns are held from the call on */
    eng_release(s.arg);
    eng_release(there);
    UNTIL(is_dropped, 4); /* these two, and both returns */
    eng_settle();
    eng_close();
}

/* Calls ACTOR for a stream, and reads so many values of it (argument 0), or all; returns their sum.
 */
TASK(fo_streams) {
    struct sk_engine *e = t->engine;
    int64_t x, sum = 0, most = arg_i64(t, 0);
    sk_oid r, end;
    sk_tid tid;
    sk_rc rc = SK_OK;
    e->ops->retain(e, (sk_oid){ACTOR});
    struct sk_task_spec call = method_of(t, (sk_aid){ACTOR}, &there);
    call.n_returns = SK_STREAMING;
    call.opts = &(struct sk_task_opts){.stream_window = 2};
    SK_TRY(e->ops->submit(e, &call, NULL, &tid, err));
    SK_TRY(e->streams->end(e, tid, KIND_I64, &end, err));
    for (int64_t i = 0; rc == SK_OK && (!most || i < most); i++) {
        rc = e->streams->next(e, tid, INT64_MAX, &r, err);
        if (rc == SK_EDONE) break;
        if (rc == SK_OK) rc = get_i64(e, r, &x, err);
        else (void)!get_i64(e, r, &x, err); /* the error, which says why */
        if (rc == SK_OK) sum += x;
        e->ops->release(e, r);
    }
    if (rc == SK_EDONE) { /* the end exists */
        struct sk_view v;
        SK_TRY(e->ops->get(e, &end, 1, INT64_MAX, &v, err));
        sum += v.kind == KIND_I64 && !v.len ? 1000 : 0;
        e->ops->view_release(e, &v);
    }
    e->streams->drop(e, tid);
    e->ops->release(e, end);
    e->ops->release(e, (sk_oid){ACTOR});
    return rc == SK_OK || rc == SK_EDONE ? ret_i64(t, 0, sum, err) : rc;
}
static bool is_taken(void *arg) { return s.taken >= *(uint32_t *)arg; }
static void yield(uint64_t oid, int64_t x) {
    eng->foreign->yielded(eng, s.first, (sk_oid){oid});
    CHECK_OK(bring_i64((sk_oid){oid}, x));
}
static sk_oid stream(int64_t most, uint32_t n) {
    sk_oid r = eng_job(&(struct job){.fn = "fo_streams", .a = {VAL(most)}, .n_a = 1});
    UNTIL(is_called, n);
    CHECK(s.n_returns == SK_STREAMING && s.window == 2);
    return r;
}
static void stream_over(uint32_t kind, const void *p, size_t n) {
    CHECK_OK(bring(s.first, kind, p, n));
    eng->foreign->ended(eng, s.first);
    eng_release(there); /* of the call */
}

TEST(foreign_streams) {
    OPEN();
    char text[2000];
    sk_oid r = stream(0, 1);
    yield(20, 1);
    UNTIL(is_taken, 1);
    yield(21, 2);
    yield(22, 3);
    UNTIL(is_taken, 3);
    stream_over(0, "", 0);
    CHECK_EQ(eng_take(r), 1006);
    UNTIL(is_dropped, 6); /* the yields, the end, THERE and ACTOR */
    /* it fails after a value */
    s.taken = 0;
    r = stream(0, 2);
    yield(23, 1);
    struct {
        int32_t code;
        char text[12];
    } e = {SK_EINVAL, "no more"};
    stream_over(SK_KIND_ENGINE_ERROR, &e, sizeof e);
    CHECK_EQ(eng_error(r, text, sizeof text), SK_ETASK);
    /* nobody reads the rest, nor what comes later */
    s.taken = 0;
    r = stream(1, 3);
    yield(24, 5);
    yield(25, 6);
    CHECK_EQ(eng_take(r), 5);
    UNTIL(is_taken, UINT32_MAX);
    eng->foreign->yielded(eng, s.first, (sk_oid){26});
    CHECK_EQ(bring_i64((sk_oid){26}, 7), SK_ENOENT);
    stream_over(0, "", 0);
    /* the call ends without an end; the reader dies */
    s.taken = 0;
    r = stream(0, 4);
    eng->foreign->ended(eng, s.first);
    eng_release(there);
    CHECK_EQ(eng_error(r, text, sizeof text), SK_ETASK);
    r = stream(0, 5);
    struct sk_worker_info w[8];
    size_t n = eng->state->workers(eng, w, SK_COUNT(w));
    for (size_t i = 0; i < n; i++)
        if (w[i].pid > 0) kill(w[i].pid, SIGKILL);
    CHECK_EQ(eng_error(r, text, sizeof text), SK_EDEAD);
    UNTIL(is_taken, UINT32_MAX);
    stream_over(0, "", 0);
    eng_settle();
    eng_close();
}

TASK(fo_limit) { /* calls ACTOR until it must not, and cancels one call, and what makes THERE */
    struct sk_engine *e = t->engine;
    int64_t n = 0, x;
    sk_oid first, more;
    e->ops->retain(e, (sk_oid){ACTOR});
    e->ops->retain(e, there);
    struct sk_task_spec call = method_of(t, (sk_aid){ACTOR}, &there);
    call.opts = &(struct sk_task_opts){.max_pending = 1};
    SK_TRY(e->ops->submit(e, &call, &first, NULL, err));
    if (e->ops->submit(e, &call, &more, NULL, err) != SK_EPENDING) return SK_EINVAL;
    SK_TRY(e->ops->cancel(e, (sk_tid){first.v}, SK_CANCEL_FORCE, err));
    SK_TRY(get_i64(e, first, &x, err)); /* it has a value, but has not ended */
    if (e->ops->submit(e, &call, &more, NULL, err) != SK_EPENDING) return SK_EINVAL;
    SK_TRY(e->ops->cancel(e, (sk_tid){THERE}, 0, err));
    SK_TRY(get_i64(e, there, &n, err));
    SK_TRY(e->ops->submit(e, &call, &more, NULL, err));
    e->ops->release(e, first);
    e->ops->release(e, more);
    e->ops->release(e, there);
    e->ops->release(e, (sk_oid){ACTOR});
    return ret_i64(t, 0, n, err);
}
static bool is_cancelled(void *arg) { return s.n_cancelled >= *(uint32_t *)arg; }

TEST(foreign_calls_are_counted_and_cancelled) {
    OPEN();
    sk_oid r = eng_job(&(struct job){.fn = "fo_limit"});
    UNTIL(is_cancelled, 1);
    CHECK(s.n_called == 1 && s.cancelled.v == s.first.v && s.flags == SK_CANCEL_FORCE);
    sk_oid first = s.first;
    CHECK_OK(bring_i64(first, 1));
    UNTIL(is_cancelled, 2);
    CHECK(s.cancelled.v == THERE && !s.flags);
    eng->foreign->ended(eng, first);
    CHECK_OK(bring_i64(there, 9));
    UNTIL(is_called, 2);
    CHECK_EQ(eng_take(r), 9);
    for (int i = 0; i < 2; i++) eng_release(there); /* of the calls */
    eng->foreign->ended(eng, s.first);
    eng_settle();
    eng_close();
}

/* Submits a task that needs so many CPUs (argument 0), and is to run where argument 1 says. */
TASK(fo_hands_on) {
    struct sk_engine *e = t->engine;
    int64_t x = 3;
    sk_oid own, r;
    sk_tid tid;
    struct sk_need n = {.res.amount = {arg_i64(t, 0) * SK_RES_UNIT}};
    SK_TRY(e->ops->define(e, fid_of("fo_add1"), "fo_add1", (struct sk_bytes){"fo_add1", 7}, err));
    SK_TRY(e->envs->define(e, (struct sk_bytes){"e", 1}, &n.env, err));
    if (t->args[1].len)
        SK_TRY(e->wheres->define(e, (struct sk_bytes){t->args[1].data, t->args[1].len}, &n.where,
                                 err));
    struct job j = {.fn = "fo_add1", .n_a = 1, .opts = {.max_calls = 5, .parent = t->id}};
    SK_TRY(e->ops->shape(e, &n, &j.shape, err));
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}}, &own, err));
    j.a[0] = REF(own);
    SK_TRY(job_on(e, &j, &r, &tid, err));
    e->ops->release(e, own);
    sk_rc rc = get_i64(e, r, &x, err);
    e->ops->release(e, r);
    return rc == SK_OK ? ret_i64(t, 0, x, err) : rc;
}
static sk_oid hands_on(int64_t cpus, const char *where, sk_tid *tid) {
    struct job j = {.fn = "fo_hands_on",
                    .a = {VAL(cpus), {.kind = KIND_BLOB, .bytes = {where, strlen(where)}}},
                    .n_a = 2};
    return eng_job_tid(&j, tid);
}

static bool is_asked(void *arg) { return s.n_asked >= *(uint32_t *)arg; }
static void answer(sk_rc rc, uint64_t actor, const char *text) {
    eng->foreign->answer(eng, s.ask, rc, (sk_aid){actor}, (struct sk_bytes){text, strlen(text)});
}

/* Calls an actor, whose references are released, and returns the result. */
static sk_rc call_it(struct sk_task *t, sk_aid a, sk_oid ready, struct sk_err *err) {
    struct sk_engine *e = t->engine;
    struct sk_task_spec call = method_of(t, a, &ready);
    sk_oid r;
    int64_t x;
    SK_TRY(e->ops->submit(e, &call, &r, NULL, err));
    SK_TRY(get_i64(e, r, &x, err));
    e->ops->release(e, r);
    sk_actor_release(e, a);
    e->ops->release(e, ready);
    return ret_i64(t, 0, x, err);
}

/* Makes an actor that needs 3 CPUs, and returns the result of a call of it. */
TASK(fo_makes) {
    struct sk_engine *e = t->engine;
    int64_t x = 3;
    sk_oid own, ready;
    sk_aid a;
    struct sk_need n = {.res.amount = {3 * SK_RES_UNIT}};
    const uint32_t groups[] = {1, 7};
    struct sk_actor_opts opts = {.name = "n",
                                 .space = "s",
                                 .meta = {"abc", 3},
                                 .detached = true,
                                 .is_async = true,
                                 .n_groups = 2,
                                 .groups = groups};
    SK_TRY(e->ops->define(e, fid_of("fo_add1"), "fo_add1", (struct sk_bytes){"fo_add1", 7}, err));
    struct job j = {.fn = "fo_add1", .n_a = 1, .opts.parent = t->id};
    SK_TRY(e->ops->shape(e, &n, &j.shape, err));
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}}, &own, err));
    j.a[0] = REF(own);
    struct sk_actor_spec spec = {
        .init = spec_of(&j), .max_restarts = 3, .max_task_retries = 4, .opts = &opts};
    sk_rc rc = e->ops->actor_create(e, &spec, &a, &ready, err);
    e->ops->release(e, own);
    if (rc != SK_OK) return rc;
    if (a.v != ACTOR || ready.v != ACTOR - 1) return SK_EINVAL;
    return call_it(t, a, ready, err);
}

TEST(foreign_actors_that_cannot_be_here) {
    OPEN();
    char text[2000];
    sk_oid r = eng_job(&(struct job){.fn = "fo_makes"});
    UNTIL(is_asked, 1);
    CHECK_EQ(eng_i64(s.arg), 3); /* the server has a reference to it */
    eng_release(s.arg);
    answer(SK_OK, ACTOR, "");
    UNTIL(is_called, 1);
    CHECK(s.held[0].v == ACTOR && s.held[1].v == ACTOR - 1);
    CHECK_OK(bring_i64(s.first, 8));
    CHECK_EQ(eng_take(r), 8);
    eng_release((sk_oid){ACTOR - 1}); /* of the call */
    eng->foreign->ended(eng, s.first);
    r = eng_job(&(struct job){.fn = "fo_makes"});
    UNTIL(is_asked, 2);
    answer(SK_EEXIST, 0, "the name is taken");
    CHECK_EQ(eng_error(r, text, sizeof text), SK_EEXIST);
    CHECK_MSG(strstr(text, "is taken"), "%s", text);
    eng_release(s.arg);
    eng_settle();
    eng_close();
}

TEST(foreign_tasks_that_cannot_run_here) {
    OPEN();
    sk_tid tid;
    char text[2000];
    /* it can */
    CHECK_EQ(eng_take(hands_on(2, "", &tid)), 4);
    CHECK_EQ(eng_take(hands_on(1, "here", &tid)), 4);
    CHECK_EQ(s.n_called, 0);
    /* it asks for more, or for another place, or both */
    for (uint32_t k = 1; k <= 3; k++) {
        sk_oid r = hands_on(k == 2 ? 1 : 3, k == 1 ? "" : k == 2 ? "there" : "here", &tid);
        UNTIL(is_called, k);
        CHECK_EQ(s.cpus, (k == 2 ? 1 : 3) * SK_RES_UNIT);
        CHECK_MSG(!strcmp(s.where, k == 1 ? "" : k == 2 ? "there" : "here"), "%s", s.where);
        CHECK_EQ(eng_i64(s.arg), 3);
        CHECK_OK(bring_i64(s.first, 50 + k));
        CHECK_EQ(eng_take(r), 50 + k);
        eng_release(s.arg);
        eng->foreign->ended(eng, s.first);
    }
    /* it is cancelled with its parent */
    uint32_t n = s.n_wanted;
    sk_oid r = hands_on(3, "", &tid);
    UNTIL(is_called, 4);
    UNTIL(is_wanted, n + 1);
    CHECK_OK(eng->ops->cancel(eng, tid, SK_CANCEL_CHILDREN | SK_CANCEL_FORCE, NULL));
    UNTIL(is_cancelled, 1);
    CHECK(s.cancelled.v == s.first.v && s.flags & SK_CANCEL_FORCE);
    CHECK_EQ(eng_error(r, text, sizeof text), SK_ECANCEL);
    eng_release(s.arg);
    eng->foreign->ended(eng, s.first);
    eng_settle();
    eng_close();
    /* without a server there is nobody else */
    eng_open(&(struct eng_opt){.cpus = 2, .id_base = SK_ID_RANGE});
    CHECK_EQ(eng_take(hands_on(1, "there", &tid)), 4);
    CHECK_EQ(eng_error(hands_on(3, "", &tid), text, sizeof text), SK_EINFEASIBLE);
    eng_close();
}

TASK(fo_nothing_actor) { return ret_i64(t, 0, 1, err); }
TASK(
    fo_names) { /* makes an actor named n (argument 0: again, which is refused), and looks for it */
    struct sk_engine *e = t->engine;
    struct sk_actor_spec spec = {.init = spec_of(&(struct job){.fn = "fo_nothing_actor"}),
                                 .opts = &(struct sk_actor_opts){.name = "n", .meta = {"abc", 3}}};
    sk_aid a, b;
    sk_oid ready, other;
    struct sk_bytes meta;
    char names[10];
    SK_TRY(e->ops->define(e, fid_of("fo_nothing_actor"), "fo_nothing_actor",
                          (struct sk_bytes){"fo_nothing_actor", 16}, err));
    sk_rc rc = e->ops->actor_create(e, &spec, &a, &ready, err);
    if (arg_i64(t, 0)) return rc == SK_EEXIST ? ret_i64(t, 0, rc, err) : SK_EINVAL;
    SK_TRY(rc);
    SK_TRY(e->actors->find(e, NULL, "n", &b, &other, &meta, err)); /* known here */
    if (b.v != a.v || meta.n != 3) return SK_EINVAL;
    sk_free((void *)(uintptr_t)meta.p);
    sk_actor_release(e, b);
    e->ops->release(e, other);
    if (e->actors->names(e, names, sizeof names) != 3 || names[1] != 'n') return SK_EINVAL;
    SK_TRY(e->ops->actor_end(e, a, true, err));
    sk_actor_release(e, a);
    e->ops->release(e, ready);
    return ret_i64(t, 0, 1, err);
}
TASK(fo_finds) { /* finds ACTOR by its name, and calls it */
    struct sk_engine *e = t->engine;
    sk_aid a;
    sk_oid ready;
    struct sk_bytes meta;
    SK_TRY(e->actors->find(e, "", "n", &a, &ready, &meta, err));
    if (a.v != ACTOR || ready.v != ACTOR - 1 || meta.n != 4) return SK_EINVAL;
    sk_free((void *)(uintptr_t)meta.p);
    return call_it(t, a, ready, err);
}
TEST(foreign_names_are_asked_for) {
    OPEN();
    char text[400];
    /* an actor gets its name when the server agrees, is found here, and lets its name go */
    sk_oid r = eng_job(&(struct job){.fn = "fo_names", .a = {VAL(0)}, .n_a = 1});
    UNTIL(is_asked, 1);
    CHECK(s.name.what == SK_NAME_CLAIM);
    uint64_t actor = s.name.actor.v;
    answer(SK_OK, 0, "");
    UNTIL(is_asked, 2);
    CHECK(s.name.what == SK_NAME_LIST);
    eng->foreign->answer(eng, s.ask, SK_OK, (sk_aid){0}, (struct sk_bytes){"\0n", 3});
    UNTIL(is_asked, 3);
    CHECK(s.name.what == SK_NAME_FREE && s.name.actor.v == actor && !s.ask);
    CHECK_EQ(eng_take(r), 1);
    /* a name that is taken; an answer that nobody waits for */
    r = eng_job(&(struct job){.fn = "fo_names", .a = {VAL(1)}, .n_a = 1});
    UNTIL(is_asked, 4);
    answer(SK_EEXIST, 0, "it is taken");
    CHECK_EQ(eng_take(r), SK_EEXIST);
    UNTIL(is_asked, 5); /* FREE, of what was not given: the server knows no such actor */
    answer(SK_OK, 0, "");
    /* an actor of another engine */
    r = eng_job(&(struct job){.fn = "fo_finds"});
    UNTIL(is_asked, 6);
    CHECK(s.name.what == SK_NAME_FIND && s.name.name.n == 1);
    answer(SK_OK, ACTOR, "meta");
    UNTIL(is_called, 1);
    CHECK_OK(bring_i64(s.first, 8));
    CHECK_EQ(eng_take(r), 8);
    CHECK(s.held[0].v == ACTOR && s.held[1].v == ACTOR - 1);
    eng_release((sk_oid){ACTOR - 1}); /* of the call */
    eng->foreign->ended(eng, s.first);
    r = eng_job(&(struct job){.fn = "fo_finds"});
    UNTIL(is_asked, 7);
    answer(SK_ENOENT, 0, "there is none");
    CHECK_EQ(eng_error(r, text, sizeof text), SK_ENOENT);
    /* the worker that waits dies: a name that comes is free again, an actor is nobody's */
    for (int k = 0; k < 2; k++) {
        struct sk_worker_info w[8];
        uint32_t n_asked = s.n_asked;
        r = eng_job(&(struct job){.fn = k ? "fo_finds" : "fo_names", .a = {VAL(0)}, .n_a = 1});
        UNTIL(is_asked, n_asked + 1);
        size_t n = eng->state->workers(eng, w, SK_COUNT(w));
        for (size_t i = 0; i < n; i++)
            if (w[i].pid > 0) kill(w[i].pid, SIGKILL);
        CHECK_EQ(eng_error(r, text, sizeof text), SK_EDEAD);
        answer(SK_OK, k ? ACTOR : 0, "");
        CHECK_EQ(s.n_asked, n_asked + 1 + !k);
        CHECK(k || s.name.what == SK_NAME_FREE);
    }
    eng_settle();
    eng_close();
}

/* Without a server a foreign id is nothing. */
TEST(foreign_ids_without_a_server) {
    eng_open(&(struct eng_opt){.cpus = 1, .id_base = SK_ID_RANGE});
    char text[2000];
    sk_oid r = eng_job(&(struct job){.fn = "fo_gets", .a = {VAL(THERE)}, .n_a = 1});
    CHECK_EQ(eng_error(r, text, sizeof text), SK_ELOST);
    eng_close();
}

/* ---- tasks that wait here while others have room --------------------------------------------- */

TASK(fo_add1_later) {
    return gate_wait(2, 1) ? ret_i64(t, 0, arg_i64(t, 0) + 1, err) : SK_ERR(err, SK_ETIMEOUT, "no");
}
/* Submits five tasks of one CPU, the last of which is to run on this node, and returns the sum.
 * They have environment arg 0, and so a shape of which no task has run yet: a worker gets one
 * ahead. */
TASK(fo_fans) {
    struct sk_engine *e = t->engine;
    int64_t x = 3, sum = 0;
    sk_oid own, r[5];
    struct sk_need n = {.res.amount = {SK_RES_UNIT}};
    const struct sk_bytes def = {"fo_add1_later", 13};
    SK_TRY(e->ops->define(e, fid_of("fo_add1_later"), "fo_add1_later", def, err));
    const char *env = arg_i64(t, 0) ? "f" : "e";
    SK_TRY(e->envs->define(e, (struct sk_bytes){env, 1}, &n.env, err));
    struct job j = {.fn = "fo_add1_later", .n_a = 1, .opts = {.max_calls = 5, .parent = t->id}};
    SK_TRY(e->ops->put(e, &(struct sk_payload){.kind = KIND_I64, .bytes = {&x, 8}}, &own, err));
    j.a[0] = REF(own);
    for (int i = 0; i < 5; i++) {
        if (i == 4) SK_TRY(e->wheres->define(e, (struct sk_bytes){"here", 4}, &n.where, err));
        SK_TRY(e->ops->shape(e, &n, &j.shape, err));
        SK_TRY(job_on(e, &j, &r[i], NULL, err));
    }
    e->ops->release(e, own);
    for (int i = 0; i < 5; i++) {
        SK_TRY(get_i64(e, r[i], &x, err));
        e->ops->release(e, r[i]);
        sum += x;
    }
    return ret_i64(t, 0, sum, err);
}
static bool two_wait(void *arg) {
    bool *waits = arg;
    return eng->foreign->hand_over(eng, 0, waits) == 2;
}

TEST(foreign_tasks_that_wait_are_handed_over) {
    bool waits = true;
    sk_tid tid;
    open_served(&(struct eng_opt){.cpus = 1});
    CHECK(eng->foreign->hand_over(eng, SK_RES_UNIT, &waits) == 0 && !waits);
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t n = 2 * round, queued = s.n_queued;
        sk_oid r = eng_job_tid(&(struct job){.fn = "fo_fans", .a = {VAL(round)}, .n_a = 1}, &tid);
        CHECK(eng_drive_until(two_wait, &waits)); /* one runs, one is on its worker, too, one may
                                                   * not go */
        CHECK(waits && s.n_queued == queued + 1 && s.n_called == n);
        CHECK_EQ(eng->foreign->hand_over(eng, SK_RES_UNIT - 1, &waits), 2);
        CHECK_EQ(eng->foreign->hand_over(eng, SK_RES_UNIT, &waits), 1);
        CHECK_EQ(eng->foreign->hand_over(eng, 5 * SK_RES_UNIT, &waits), 0);
        CHECK(s.n_called == n + 2 && s.cpus == SK_RES_UNIT && !s.where[0]);
        CHECK(eng->foreign->hand_over(eng, 5 * SK_RES_UNIT, &waits) == 0 && !waits);
        CHECK_EQ(eng_i64(s.arg), 3); /* the server has two references to it */
        if (round == 0) {
            gate_add(2, 1);
            UNTIL(is_wanted, 1);
            CHECK_OK(bring_i64(s.firsts[0], 50));
            CHECK_OK(bring_i64(s.firsts[1], 60));
            CHECK_EQ(eng_take(r), 50 + 60 + 3 * 4);
        } else {
            char text[2000];
            CHECK_OK(eng->ops->cancel(eng, tid, SK_CANCEL_CHILDREN | SK_CANCEL_FORCE, NULL));
            UNTIL(is_cancelled, 2);
            CHECK_EQ(eng_error(r, text, sizeof text), SK_ECANCEL);
        }
        for (uint32_t i = n; i < n + 2; i++) {
            eng_release(s.arg);
            eng->foreign->ended(eng, s.firsts[i]);
        }
        UNTIL(is_dropped, n + 2);
        atomic_store(&gate->w[2], 0);
    }
    eng_settle();
    eng_close();
}

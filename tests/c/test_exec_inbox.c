/* The inbox of a run: no event is left in it, whichever thread holds the run when the event
 * arrives. */
#include <pthread.h>
#include <stdatomic.h>

#include "exec/exec_int.h"
#include "test.h"

static struct {
    struct sk_engine e;
    struct sk_inbox *in;
    uint64_t n, released, ended;
    uint32_t next[4]; /* [t]: index of the next event of thread t */
    bool inside, deep;
    _Atomic bool stop;
} f;

static void release(struct sk_engine *e, sk_oid o) {
    CHECK(e == &f.e && o.v);
    f.released++;
}
static sk_rc actor_end(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err) {
    (void)err;
    CHECK(e == &f.e && a.v && no_restart && !f.inside);
    f.ended++;
    return SK_OK;
}
static const struct sk_engine_ops OPS = {.release = release, .actor_end = actor_end};

static void send(enum sk_event_kind kind, uint64_t thread, uint32_t index) {
    struct sk_err err = {.code = SK_ETASK, .msg = "as sent"};
    /* this memory is invalid after the return, so the inbox has to copy the note */
    char note[] = "note";
    struct sk_event ev = {.kind = kind,
                          .tag = thread,
                          .index = index,
                          .oid = {7},
                          .note = {note, 4},
                          .err = kind == SK_EV_FAILED ? &err : NULL};
    struct sk_sink *s = sk_inbox_sink(f.in);
    s->on_events(s, &ev, 1);
}

static void take(struct sk_exec *x, const struct sk_event *ev) {
    CHECK((void *)x == (void *)&f && !f.inside);
    f.inside = true;
    CHECK_EQ(ev->index, f.next[ev->tag]);
    f.next[ev->tag]++;
    CHECK(ev->note.n == 4 && !memcmp(ev->note.p, "note", 4));
    if (ev->kind == SK_EV_FAILED) CHECK_STR_EQ(ev->err->msg, "as sent");
    f.n++;
    /* from inside the run: the event waits until the present one is done */
    if (f.deep && ev->tag == 0) send(SK_EV_YIELDED, 3, ev->index);
    f.inside = false;
}
static void lost(struct sk_exec *x) { (void)x; }
static bool wakes(struct sk_exec *x) {
    (void)x;
    return f.n > 0;
}
static const struct sk_inbox_run RUN = {take, lost, wakes};

static void open_inbox(void) {
    memset(&f, 0, sizeof f);
    f.e.ops = &OPS;
    CHECK_OK(sk_inbox_create(&f.e, (struct sk_exec *)(void *)&f, &RUN, &f.in, NULL));
}

TEST(an_event_that_comes_while_the_run_is_held_waits_and_wakes_its_owner) {
    open_inbox();
    CHECK(!sk_inbox_wakes(f.in));
    sk_inbox_enter(f.in);
    send(SK_EV_YIELDED, 0, 0);
    send(SK_EV_YIELDED, 0, 1);
    CHECK_EQ(f.n, 0);
    /* otherwise the thread that delivers would sleep although an event waits */
    CHECK(sk_inbox_wakes(f.in));
    sk_inbox_leave(f.in);
    CHECK_EQ(f.n, 2);
    sk_inbox_destroy(f.in);
}

/* The owner waits for a call from outside; an event may be what the run goes on with. */
TEST(an_event_ends_the_wait_for_a_call) {
    open_inbox();
    for (int first = 0; first < 2; first++) { /* the event comes while the run is held, or later */
        sk_inbox_enter(f.in);
        if (first) send(SK_EV_YIELDED, 0, 2);
        uint64_t seen = sk_inbox_calls(f.in);
        sk_inbox_leave(f.in);
        if (!first) CHECK_RC(sk_inbox_await_call(f.in, seen, 0), SK_ETIMEOUT);
        if (!first) send(SK_EV_YIELDED, 0, 0);
        CHECK_OK(sk_inbox_await_call(f.in, seen, 0));
        sk_inbox_enter(f.in);
        uint64_t again = sk_inbox_calls(f.in);
        sk_inbox_leave(f.in);
        CHECK_RC(sk_inbox_await_call(f.in, again, 0), SK_ETIMEOUT);
        if (!first) send(SK_EV_YIELDED, 0, 1);
    }
    sk_inbox_destroy(f.in);
}

TEST(events_from_below_wait_for_the_step_that_caused_them) {
    open_inbox();
    f.deep = true;
    for (uint32_t i = 0; i < 3; i++) {
        send(SK_EV_YIELDED, 0, i);
        CHECK_EQ(f.next[3], i + 1);
    }
    sk_inbox_destroy(f.in);
}

TEST(a_stopped_run_gives_back_what_its_tasks_still_bring_and_actors_end_outside) {
    open_inbox();
    sk_inbox_task(f.in);
    sk_inbox_task(f.in);
    sk_inbox_enter(f.in);
    f.inside = true;
    send(SK_EV_FAILED, 0, 0);
    sk_inbox_actor_gone(f.in, (struct sk_run_actor){{5}, {6}});
    CHECK_EQ(f.ended, 0);
    sk_inbox_stop(f.in);
    f.inside = false;
    sk_inbox_leave(f.in);
    CHECK_EQ(f.ended, 1);
    CHECK_EQ(f.released, 3); /* two of them handles of the actor */
    sk_inbox_destroy(f.in);
    /* the last event: the inbox is freed with it (the runner would find a leak) */
    send(SK_EV_DONE, 0, 0);
    CHECK_EQ(f.n, 0);
}

enum { N_EVENTS = 20000 };
static void *sender(void *arg) {
    uint64_t t = (uint64_t)(uintptr_t)arg;
    for (uint32_t i = 0; i < N_EVENTS; i++) send(i % 3 ? SK_EV_STARTED : SK_EV_FAILED, t, i);
    return NULL;
}
static void *holder(void *arg) {
    (void)arg;
    while (!f.stop) {
        sk_inbox_enter(f.in);
        sk_inbox_leave(f.in);
    }
    return NULL;
}

TEST(no_event_stays_behind) {
    open_inbox();
    pthread_t th[3];
    for (int i = 0; i < 2 * N_EVENTS; i++) sk_inbox_task(f.in); /* more tasks than will end */
    CHECK_EQ(pthread_create(&th[0], NULL, holder, NULL), 0);
    for (uint64_t t = 1; t < 3; t++)
        CHECK_EQ(pthread_create(&th[t], NULL, sender, (void *)(uintptr_t)t), 0);
    for (uint64_t t = 1; t < 3; t++) pthread_join(th[t], NULL);
    f.stop = true;
    pthread_join(th[0], NULL);
    CHECK_EQ(f.next[1], N_EVENTS);
    CHECK_EQ(f.next[2], N_EVENTS);
    CHECK_EQ(f.n, 2 * N_EVENTS);
    for (int i = 0; i < 2 * (N_EVENTS - (N_EVENTS + 2) / 3); i++) sk_inbox_no_task(f.in);
    sk_inbox_destroy(f.in);
}

static void *enters_once(void *arg) {
    sk_inbox_enter(f.in);
    while (!*(_Atomic bool *)arg) {} /* waits until the other thread is about to send */
    sk_inbox_leave(f.in);
    return NULL;
}

/* No later thread will enter the run: the event must be taken by the sender or by the thread that
 * leaves the run. */
TEST(an_event_that_meets_a_holder_who_lets_go_is_taken_by_one_of_them) {
    open_inbox();
    for (uint32_t i = 0; i < 2000; i++) {
        pthread_t th;
        _Atomic bool go = false;
        CHECK_EQ(pthread_create(&th, NULL, enters_once, &go), 0);
        go = true;
        send(SK_EV_STARTED, 1, i);
        pthread_join(th, NULL);
        CHECK_EQ(f.n, i + 1);
    }
    sk_inbox_destroy(f.in);
}

/* test_engine_verdict.c - what becomes of the tasks and the actor of a worker that ended: examples,
 * every case against the rules in words, and random lives of tasks. */
#include <signal.h>

#include "engine/rules/verdict.h"
#include "test.h"

#define HARMLESS .doing = "", .last_words = ""
static const struct sk_verdict_worker crashed = {
    .pid = 7, .status = SIGSEGV, .peak_bytes = UINT64_C(3) << 20, .up = true, HARMLESS};

static struct sk_verdict plain(const struct sk_verdict_worker *w, struct sk_verdict_task t) {
    return sk_verdict_task(w, NULL, false, &t);
}

TEST(verdict_of_a_plain_task) {
    struct sk_verdict v =
        plain(&crashed, (struct sk_verdict_task){.id = 1, .begun = true, .retries_left = 2});
    CHECK(v.what == SK_VERDICT_AGAIN && v.attempt && v.charged);
    v = plain(&crashed, (struct sk_verdict_task){.id = 1, .begun = true});
    CHECK(v.what == SK_VERDICT_FAIL && v.rc == SK_EDEAD);
    v = plain(&crashed, (struct sk_verdict_task){.id = 1}); /* not begun: no retry is needed */
    CHECK(v.what == SK_VERDICT_AGAIN && !v.attempt && !v.charged);
    v = plain(&crashed, (struct sk_verdict_task){
                            .id = 1, .begun = true, .cancelled = true, .retries_left = 2});
    CHECK_EQ(v.what, SK_VERDICT_CANCELLED);
    v = plain(&crashed, (struct sk_verdict_task){
                            .id = 1, .begun = true, .group_gone = true, .retries_left = 2});
    CHECK(v.what == SK_VERDICT_FAIL && v.rc == SK_EGROUP);
    /* engine/place gives it out to fail */
    v = plain(&crashed, (struct sk_verdict_task){.id = 1, .group_gone = true});
    CHECK(v.what == SK_VERDICT_AGAIN && !v.attempt);
}

TEST(verdict_of_who_was_killed_along) {
    struct sk_verdict_worker w = crashed;
    w.killed = true;
    w.kill_task = 5;
    struct sk_verdict v = plain(&w, (struct sk_verdict_task){.id = 6, .begun = true});
    CHECK(v.what == SK_VERDICT_AGAIN && v.attempt && !v.charged);
    v = plain(&w, (struct sk_verdict_task){.id = 5, .begun = true});
    CHECK(v.what == SK_VERDICT_FAIL && v.rc == SK_EDEAD);
    w.oom = "it grew";
    CHECK_EQ(plain(&w, (struct sk_verdict_task){.id = 5, .begun = true}).what, SK_VERDICT_MEMORY);
    CHECK_EQ(plain(&w, (struct sk_verdict_task){.id = 6, .begun = true}).what, SK_VERDICT_AGAIN);
}

TEST(verdict_of_calls) {
    struct sk_verdict_actor a = {.alive = true, .restarts_left = 1};
    struct sk_verdict_task t = {.id = 1, .is_call = true, .begun = true};
    bool charged = sk_verdict_charged(&crashed, &a);
    CHECK(charged && sk_verdict_restarts(&a, charged));
    /* begun, and may not be repeated */
    CHECK_EQ(sk_verdict_task(&crashed, &a, charged, &t).rc, SK_EACTOR);
    t.begun = false;
    /* the call waits for the actor's next process */
    CHECK_EQ(sk_verdict_task(&crashed, &a, charged, &t).what, SK_VERDICT_AGAIN);
    t.no_wait = true;
    CHECK_EQ(sk_verdict_task(&crashed, &a, charged, &t).rc, SK_EUNAVAIL);
    a.asked = true; /* a new process is started only for new calls */
    CHECK_EQ(sk_verdict_task(&crashed, &a, charged, &t).what, SK_VERDICT_AGAIN);
    t.retries_left = 1;
    t.begun = true;
    struct sk_verdict v = sk_verdict_task(&crashed, &a, charged, &t);
    CHECK(v.what == SK_VERDICT_AGAIN && v.attempt && v.charged);
    a.restarts_left = 0;
    CHECK(!sk_verdict_restarts(&a, charged));
    CHECK_EQ(sk_verdict_task(&crashed, &a, charged, &t).rc, SK_EACTOR);
    /* it has ended before its process did */
    CHECK_EQ(sk_verdict_task(&crashed, NULL, false, &t).rc, SK_EACTOR);
    /* a constructor that had not begun costs nothing */
    a = (struct sk_verdict_actor){.placed = true};
    CHECK(!sk_verdict_charged(&crashed, &a) && sk_verdict_restarts(&a, false));
    a.begun = true;
    CHECK(sk_verdict_charged(&crashed, &a) && !sk_verdict_restarts(&a, true));
}

TEST(verdict_of_a_call_between_two_lives) {
    struct sk_verdict_actor a = {.between = true};
    struct sk_verdict_task t = {.id = 1, .is_call = true, .no_wait = true};
    /* the constructor runs: calls made for the earlier process wait */
    CHECK(!sk_verdict_call_joins(&a, &t) && sk_verdict_call_waits(&a, &t));
    a.asked = true;
    CHECK(sk_verdict_call_joins(&a, &t));
    a = (struct sk_verdict_actor){.between = true, .alive = true, .max_task_retries = -1};
    CHECK(sk_verdict_call_joins(&a, &t));
    a.max_task_retries = 0;
    CHECK(!sk_verdict_call_joins(&a, &t) && !sk_verdict_call_waits(&a, &t));
    t.retries_left = 1;
    CHECK(sk_verdict_call_joins(&a, &t));
    t = (struct sk_verdict_task){.id = 1, .is_call = true};
    CHECK(sk_verdict_call_joins(&a, &t));
    a.between = false;
    t.no_wait = true;
    CHECK(sk_verdict_call_joins(&a, &t));
}

TEST(verdict_of_a_run_that_is_over) {
    CHECK_EQ(sk_verdict_over(&(struct sk_verdict_run){0}), SK_OVER_WELL);
    struct sk_verdict_run r = {.failed = true, .retries_left = 3};
    /* a retry is for a death, not for what user code raised */
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_FAILED);
    r.retry_exceptions = true;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_AGAIN);
    r.final = true;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_FAILED);
    r.final = false;
    r.retries_left = 0;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_FAILED);
    r.retries_left = -1;
    r.of_actor = r.is_init = true;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_FAILED);
    r = (struct sk_verdict_run){.cancelled = true};
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_WELL); /* the task was over before it got the cancel */
    r.failed = r.retry_exceptions = true, r.retries_left = 1;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_STOPPED);
    r = (struct sk_verdict_run){.cancelled = true, .of_actor = true};
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_STOPPED);
    r.async = true;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_WELL);
    r = (struct sk_verdict_run){.failed = true, .restart = true, .is_stream = true, .remake = true};
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_FROM_START);
    r.all_made = true;
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_REMADE);
    r = (struct sk_verdict_run){.is_stream = true, .remake = true};
    CHECK_EQ(sk_verdict_over(&r), SK_OVER_LESS);
}

TEST(verdict_of_memory) {
    char why[120] = "";
    struct sk_verdict_stop s = {.n_stops = 1, .max_retries = 3};
    CHECK(sk_verdict_memory(&s, why, sizeof why));
    s.n_stops = 2;
    s.alone = s.beside = true;
    /* other tasks ran beside it: it has not had its run alone */
    CHECK(sk_verdict_memory(&s, why, sizeof why));
    s.beside = false;
    CHECK(!sk_verdict_memory(&s, why, sizeof why) && strstr(why, "ran alone"));
    s = (struct sk_verdict_stop){.n_stops = 3, .max_retries = 3};
    CHECK(!sk_verdict_memory(&s, why, sizeof why) && strstr(why, "3 times"));
    s.oom_retries = 3;
    CHECK(sk_verdict_memory(&s, why, sizeof why));
    s.oom_retries = -1;
    CHECK(!sk_verdict_memory(&s, why, sizeof why) && strstr(why, "task_oom_retries is 0"));
    s.max_retries = 0;
    CHECK(!sk_verdict_memory(&s, why, sizeof why) && strstr(why, "max_retries is 0"));
}

TEST(verdict_in_words) {
    char b[400];
    struct sk_verdict_worker w = crashed;
    w.doing = "\nin batch 3";
    sk_verdict_text(&w, b, sizeof b);
    CHECK_MSG(!strcmp(b, "worker process 7 was killed by signal 11 (Segmentation fault); peak "
                         "memory 3 MiB\nin batch 3"),
              "%s", b);
    w = (struct sk_verdict_worker){
        .pid = 7, .status = 3 << 8, .doing = "", .last_words = "Fatal: x"};
    sk_verdict_text(&w, b, sizeof b);
    CHECK_MSG(!strcmp(b, "worker process 7 exited with code 3; peak memory 0 MiB\nFatal: x"), "%s",
              b);
    w.kill_why = "its actor is dead";
    sk_verdict_text(&w, b, sizeof b);
    CHECK_MSG(strstr(b, "was stopped: its actor is dead;"), "%s", b);
    w.oom = "it had grown";
    sk_verdict_text(&w, b, sizeof b);
    CHECK_MSG(strstr(b, "was stopped for memory: it had grown;"), "%s", b);
    w = (struct sk_verdict_worker){.pid = 7, .status = -1, HARMLESS};
    sk_verdict_text(&w, b, sizeof b);
    CHECK_MSG(strstr(b, "disappeared with the fork server;"), "%s", b);
    CHECK(!sk_verdict_bad_start(&w, 0) && sk_verdict_counts(&w, false));
    w.status = 256;
    CHECK(sk_verdict_bad_start(&w, 3));
    w.refused = true; /* other workers go on */
    CHECK(!sk_verdict_bad_start(&w, 3) && sk_verdict_bad_start(&w, 0) &&
          !sk_verdict_counts(&w, true));
    /* asked to leave, */
    w = (struct sk_verdict_worker){.pid = 7, .status = 0, .kill_why = "nobody wants it", HARMLESS};
    CHECK(!sk_verdict_counts(&w, false) && sk_verdict_counts(&w, true));
    w.status = SIGKILL; /* and killed by another process before it could end */
    CHECK(sk_verdict_counts(&w, false) && sk_verdict_end(&w) == SK_WE_CRASH);
    sk_verdict_text(&w, b, sizeof b);
    CHECK_MSG(strstr(b, "was killed by signal 9"), "%s", b);
    w.killed = true; /* by the engine */
    CHECK(sk_verdict_end(&w) == SK_WE_KILLED);
    CHECK(!sk_verdict_counts(&w, false));
    sk_verdict_text(&crashed, b, 20); /* cut, and ended */
    CHECK_EQ(strlen(b), 19);
}

static bool bit(uint32_t *b) {
    bool is = *b & 1;
    *b >>= 1;
    return is;
}

/* Every combination of the facts that the rules use. */
TEST(verdict_every_case) {
    for (uint32_t bits = 0; bits < 1u << 19; bits++) {
        uint32_t b = bits;
        struct sk_verdict_worker w = {.pid = 7, .status = 9, .up = true, HARMLESS};
        struct sk_verdict_actor a = {0};
        struct sk_verdict_task t = {.id = 1};
        w.killed = bit(&b);
        w.oom = bit(&b) ? "story" : NULL;
        bool by_task = bit(&b), by_mine = bit(&b);
        w.kill_task = by_task ? by_mine ? 1 : 2 : 0;
        bool has_actor = bit(&b);
        a.alive = bit(&b);
        a.placed = bit(&b);
        a.begun = bit(&b);
        a.no_restart = bit(&b);
        a.asked = bit(&b);
        a.restarts_left = bit(&b);
        a.max_task_retries = bit(&b);
        uint32_t role = b & 3;
        b >>= 2;
        t.is_init = role == 1;
        t.is_call = role == 2;
        t.begun = bit(&b);
        t.cancelled = bit(&b);
        t.group_gone = bit(&b);
        t.no_wait = bit(&b);
        t.retries_left = bit(&b);
        if (role == 3 || (t.is_init && !has_actor)) continue;
        bool charged = sk_verdict_charged(&w, has_actor ? &a : NULL),
             lives = has_actor && sk_verdict_restarts(&a, charged);
        struct sk_verdict v = sk_verdict_task(&w, has_actor ? &a : NULL, charged, &t);
        if (charged) CHECK(has_actor && !w.kill_task && (a.alive || a.begun || w.killed));
        if (charged && !a.restarts_left) CHECK(!lives);
        if (v.charged)
            CHECK(v.what == SK_VERDICT_AGAIN && v.attempt && t.begun &&
                  (t.retries_left || (t.is_call && lives)));
        if (v.attempt) CHECK(v.what == SK_VERDICT_AGAIN && t.begun);
        CHECK_EQ(v.what == SK_VERDICT_CANCELLED, t.cancelled);
        CHECK_EQ(v.what == SK_VERDICT_WITH_ACTOR, t.is_init && !t.cancelled);
        CHECK_EQ(v.what == SK_VERDICT_FAIL,
                 v.rc != SK_OK && v.what != SK_VERDICT_CANCELLED && v.what != SK_VERDICT_MEMORY);
        if (t.is_call && !t.cancelled && !lives)
            CHECK(v.what == SK_VERDICT_FAIL && v.rc == (w.oom ? SK_EOOM : SK_EACTOR));
        if (t.is_call && v.what == SK_VERDICT_AGAIN)
            CHECK(lives && (!t.begun || !charged || t.retries_left));
        if (role == 0 && !t.begun && !t.cancelled)
            CHECK(v.what == SK_VERDICT_AGAIN && !v.attempt && !v.charged);
        if (role == 0 && v.what == SK_VERDICT_FAIL)
            CHECK(t.begun && (v.rc == SK_EGROUP ? t.group_gone : !t.retries_left));
        if (role == 0 && v.what == SK_VERDICT_MEMORY)
            CHECK(t.begun && w.oom && (!w.kill_task || w.kill_task == t.id));
    }
}

TEST(verdict_every_end) {
    for (uint32_t bits = 0; bits < 1u << 16; bits++) {
        uint32_t b = bits;
        struct sk_verdict_run r = {0};
        bool *const facts[] = {&r.failed,    &r.final,           &r.exits,     &r.is_init,
                               &r.of_actor,  &r.async,           &r.is_stream, &r.has_sink,
                               &r.cancelled, &r.spoiled,         &r.remake,    &r.all_made,
                               &r.restart,   &r.retry_exceptions};
        for (size_t i = 0; i < SK_COUNT(facts); i++) *facts[i] = bit(&b);
        r.retries_left = (int32_t)(b % 3) - 1;
        if ((r.is_init && !r.of_actor) || (r.restart && r.of_actor)) continue;
        enum sk_verdict_over v = sk_verdict_over(&r);
        CHECK_EQ(v == SK_OVER_EXIT, r.of_actor && r.exits);
        if (r.spoiled) CHECK(v == SK_OVER_STOPPED || v == SK_OVER_EXIT);
        if (r.cancelled)
            CHECK(v != SK_OVER_AGAIN && v != SK_OVER_FROM_START && v != SK_OVER_FAILED);
        if (v == SK_OVER_AGAIN)
            CHECK(r.failed && r.retry_exceptions && r.retries_left && !r.final && !r.is_init);
        if (v == SK_OVER_FROM_START) CHECK(r.failed && r.restart);
        if (v == SK_OVER_FAILED || v == SK_OVER_AGAIN) CHECK(r.failed);
        if (v == SK_OVER_WELL || v == SK_OVER_LESS) CHECK(!r.failed);
        if (v == SK_OVER_REMADE || v == SK_OVER_LESS)
            CHECK(r.remake && r.is_stream && r.all_made == (v == SK_OVER_REMADE));
        if (v == SK_OVER_STOPPED) CHECK(r.spoiled || r.cancelled);
    }
}

/* Lives of tasks under deaths of all kinds: each ends, no retry is spent on a task that had not
 * begun, and a task runs at most once more than it has retries, not counting deaths that another
 * task has caused. */
TEST(verdict_lives_end) {
    for (int round = 0; round < test_rounds(20000); round++) {
        struct sk_verdict_task t = {.id = 1, .retries_left = (int32_t)test_below(4)};
        const int32_t retries = t.retries_left;
        uint32_t n_begun = 0, n_others = 0, n_stops = 0, deaths = 0;
        bool over = false, alone = false;
        while (!over) {
            struct sk_verdict_worker w = {.pid = 7, .status = 9, .up = true, HARMLESS};
            CHECK_MSG(++deaths < 1000, "a task does not end");
            t.begun = test_below(2);
            w.killed = test_below(2);
            w.kill_task = w.killed ? test_below(3) : 0;
            w.oom = w.kill_task != 2 && test_below(4) == 0 ? "story" : NULL;
            n_begun += t.begun;
            struct sk_verdict v = sk_verdict_task(&w, NULL, false, &t);
            if (v.charged) CHECK(t.retries_left-- > 0);
            if (v.what == SK_VERDICT_AGAIN) n_others += t.begun && w.kill_task == 2;
            over = v.what == SK_VERDICT_FAIL;
            if (v.what == SK_VERDICT_MEMORY) {
                char why[100];
                struct sk_verdict_stop s = {.n_stops = ++n_stops,
                                            .max_retries = retries,
                                            .alone = alone,
                                            .beside = test_below(2)};
                over = !sk_verdict_memory(&s, why, sizeof why);
                CHECK(!over || n_stops > 1 || retries == 0);
                alone = true;
            }
        }
        CHECK(n_stops <= 3);
        CHECK_MSG(n_begun <= 1 + (uint32_t)retries + n_others + n_stops, "%u runs with %d retries",
                  n_begun, retries);
    }
}

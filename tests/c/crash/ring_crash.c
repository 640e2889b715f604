/* ring_crash.c - one side of a ring is SIGKILLed, at each fault point and at random moments:
 * sk_ring_check holds, the survivor sees exactly the committed prefix, and a successor goes on
 * where the dead one stopped. */
#include "ipc_help.h"

#define RING 4096u

struct table {
    struct sk_bell to_consumer, to_producer, to_test; /* one sleeper each */
    _Atomic uint64_t committed;                       /* number of commits of the producer */
    /* number of pops of the consumer, counted after the pop */
    _Atomic uint64_t popped;
    /* number of pops of the consumer, counted before the pop */
    _Atomic uint64_t peeked;
    uint64_t seed;
    uint8_t ring[192 + RING] __attribute__((aligned(64)));
};

static struct table *table(void) {
    struct table *t = share(sizeof *t);
    struct sk_ring r;
    t->seed = test_rand();
    sk_ring_create(&r, t->ring, RING);
    return t;
}

static struct sk_ring side(struct table *t) {
    struct sk_ring r;
    CHECK_OK(sk_ring_attach(&r, t->ring, RING, NULL));
    CHECK(sk_ring_check(&r));
    return r;
}

static void produce(struct table *t, uint64_t from, uint64_t to) {
    struct sk_ring r = side(t);
    size_t max = sk_ring_max_msg(&r);
    for (uint64_t i = from; i < to; i++) {
        size_t len = msg_len(t->seed, i, max), more = SK_MIN(max, len + mix(i) % 100);
        void *m;
        for (;;) {
            uint32_t seen = sk_bell_seq(&t->to_producer);
            if ((m = sk_ring_reserve(&r, more))) break;
            (void)sk_bell_wait(&t->to_producer, seen, 2000, INT64_MAX);
        }
        msg_fill(m, len, i);
        sk_ring_commit(&r, len);
        atomic_store(&t->committed, i + 1);
        sk_bell_ring(&t->to_consumer);
    }
}

/* Pops messages, from number `next` on, until the ring is empty; returns the number after the
 * last. */
static uint64_t drain(struct table *t, struct sk_ring *r, uint64_t next, uint64_t at_most) {
    size_t max = sk_ring_max_msg(r), len;
    for (const void *m; at_most-- && (m = sk_ring_peek(r, &len)); next++) {
        CHECK_EQ(len, msg_len(t->seed, next, max));
        CHECK_MSG(msg_true(m, len, next), "message %llu of %zu bytes is wrong",
                  (unsigned long long)next, len);
        atomic_store(&t->peeked, next + 1);
        sk_ring_pop(r);
        atomic_store(&t->popped, next + 1);
        sk_bell_ring(&t->to_producer);
        sk_bell_ring(&t->to_test);
    }
    return next;
}

static void consume_until(struct table *t, uint64_t next, uint64_t to) {
    struct sk_ring r = side(t);
    while (next < to) {
        uint32_t seen = sk_bell_seq(&t->to_consumer);
        uint64_t n = drain(t, &r, next, UINT64_MAX);
        if (n == next) (void)sk_bell_wait(&t->to_consumer, seen, 2000, INT64_MAX);
        next = n;
    }
}

static pid_t child_producer(struct table *t, uint64_t from, const char *fault, int64_t nth) {
    pid_t pid = fork();
    if (pid == 0) {
        if (fault) CHECK_OK(sk_fault_set(fault, SK_FAULT_KILL, nth));
        produce(t, from, UINT64_MAX);
    }
    return pid;
}

/* Checks that the process was killed, then wakes the other side, as the watcher of deaths does: the
 * dead process may have published or popped without ringing the bell. */
static void expect_killed(struct table *t, pid_t pid) {
    int st = wait_exit(pid);
    CHECK_MSG(WIFSIGNALED(st) && WTERMSIG(st) == SIGKILL, "status %x", (unsigned)st);
    sk_bell_ring(&t->to_consumer);
    sk_bell_ring(&t->to_producer);
}

/* ---- at each fault point --------------------------------------------------------------------- */

static void producer_dies_at(const char *fault, uint64_t also) {
    for (int round = 0, rounds = test_rounds(40); round < rounds; round++) {
        struct table *t = table();
        struct sk_ring c = side(t);
        uint64_t from = 0;
        for (int life = 0; life < 4; life++) { /* successors die, too */
            int64_t nth = 1 + (int64_t)test_below(60);
            pid_t pid = child_producer(t, from, fault, nth);
            /* number of the first message that does not exist */
            uint64_t end = from + (uint64_t)nth - 1 + also;
            while (from < end) {
                uint32_t seen = sk_bell_seq(&t->to_consumer);
                uint64_t n = drain(t, &c, from, 1 + test_below(10));
                /* "after_publish" dies before it rings: the death is the event then */
                if (n == from && sk_ring_empty(&c))
                    (void)sk_bell_wait(&t->to_consumer, seen, 2000, sk_now_ns() + 2 * SK_MS);
                from = n;
            }
            expect_killed(t, pid);
            size_t len;
            CHECK(sk_ring_peek(&c, &len) == NULL);
            CHECK_EQ(len, 0);
            CHECK(sk_ring_check(&c));
            CHECK_EQ(from, end);
        }
        munmap(t, sizeof *t);
    }
}

/* The point ring.reserved is passed once for each message, like the other points. */
TEST_SLOW(producer_killed_after_reserve, 300) { producer_dies_at("ring.reserved", 0); }
TEST_SLOW(producer_killed_before_publish, 300) { producer_dies_at("ring.before_publish", 0); }
TEST_SLOW(producer_killed_after_publish, 300) { producer_dies_at("ring.after_publish", 1); }

static void consumer_dies_at(const char *fault, uint64_t also) {
    for (int round = 0, rounds = test_rounds(40); round < rounds; round++) {
        struct table *t = table();
        pid_t producer = child_producer(t, 0, NULL, 0);
        uint64_t next = 0;
        for (int life = 0; life < 4; life++) {
            uint64_t nth = 1 + test_below(60);
            pid_t pid = fork();
            if (pid == 0) {
                CHECK_OK(sk_fault_set(fault, SK_FAULT_KILL, (int64_t)nth));
                consume_until(t, next, UINT64_MAX);
            }
            expect_killed(t, pid);
            next += nth - 1 + also;
            /* the consumer was killed just before or after the pop of this message */
            CHECK_EQ(atomic_load(&t->peeked), next + 1 - also);
        }
        /* and the successor sees the first one that was not popped */
        consume_until(t, next, next + 100);
        kill(producer, SIGKILL);
        expect_killed(t, producer);
        struct sk_ring c = side(t);
        (void)drain(t, &c, atomic_load(&t->popped), UINT64_MAX);
        CHECK(sk_ring_empty(&c));
        munmap(t, sizeof *t);
    }
}

TEST_SLOW(consumer_killed_before_pop, 300) { consumer_dies_at("ring.before_pop", 0); }
TEST_SLOW(consumer_killed_after_pop, 300) { consumer_dies_at("ring.after_pop", 1); }

/* ---- at random moments ----------------------------------------------------------------------- */

TEST_SLOW(producer_killed_at_random, 300) {
    struct table *t = table();
    struct sk_ring c = side(t);
    uint64_t next = 0;
    for (int life = 0, lives = test_rounds(300); life < lives; life++) {
        pid_t pid = child_producer(t, next, NULL, 0);
        uint64_t goal = next + test_below(400);
        int64_t until = sk_now_ns() + (int64_t)test_below(300000);
        while (next < goal || sk_now_ns() < until) {
            uint32_t seen = sk_bell_seq(&t->to_consumer);
            uint64_t n = drain(t, &c, next, 1 + test_below(20));
            if (n == next && next < goal)
                CHECK_OK(sk_bell_wait(&t->to_consumer, seen, 2000, test_patience()));
            next = n;
        }
        kill(pid, SIGKILL);
        expect_killed(t, pid);
        CHECK(sk_ring_check(&c));
        next = drain(t, &c, next, UINT64_MAX);
        CHECK(sk_ring_empty(&c));
        /* it may have died between publishing and telling */
        uint64_t told = atomic_load(&t->committed);
        CHECK(next == told || next == told + 1);
        atomic_store(&t->committed, next);
    }
    CHECK_GT(next, 1000);
}

TEST_SLOW(consumer_killed_at_random, 300) {
    struct table *t = table();
    pid_t producer = child_producer(t, 0, NULL, 0);
    uint64_t next = 0;
    for (int life = 0, lives = test_rounds(300); life < lives; life++) {
        pid_t pid = fork();
        if (pid == 0) consume_until(t, next, UINT64_MAX);
        uint64_t goal = next + test_below(400);
        for (;;) {
            uint32_t seen = sk_bell_seq(&t->to_test);
            if (atomic_load(&t->popped) >= goal) break;
            CHECK_OK(sk_bell_wait(&t->to_test, seen, 0, test_patience()));
        }
        kill(pid, SIGKILL);
        expect_killed(t, pid);
        uint64_t told = atomic_load(&t->popped), seen_last = atomic_load(&t->peeked);
        /* The shared head is at the count that the dead consumer reported, or one further if it
         * died between the pop and the report. */
        struct sk_ring c = side(t);
        size_t len, max = sk_ring_max_msg(&c);
        const void *m = NULL;
        for (int64_t end = test_patience(); !m;) {
            uint32_t bell = sk_bell_seq(&t->to_consumer);
            if ((m = sk_ring_peek(&c, &len))) break;
            CHECK_EQ(len, 0);
            (void)sk_bell_wait(&t->to_consumer, bell, 2000, end);
            CHECK_LT(sk_now_ns(), end);
        }
        bool is_told = len == msg_len(t->seed, told, max) && msg_true(m, len, told);
        bool is_next = len == msg_len(t->seed, told + 1, max) && msg_true(m, len, told + 1);
        CHECK(is_told || (is_next && seen_last == told + 1));
        next = is_told ? told : told + 1;
        atomic_store(&t->popped, next);
        atomic_store(&t->peeked, next);
    }
    kill(producer, SIGKILL);
    expect_killed(t, producer);
    CHECK_GT(next, 1000);
}

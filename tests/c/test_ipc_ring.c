/* test_ipc_ring.c - the ring against a naive queue, between threads, between processes, and against
 * a peer that writes invalid data. */
#include <pthread.h>

#include "ipc_help.h"

#define RING 4096u
#define HDR 8u /* of a message */

struct pair {
    void *mem;
    struct sk_ring p, c;
    size_t size;
};

static struct pair make(size_t size) {
    struct pair r = {.mem = share(sk_ring_bytes(size)), .size = size};
    struct sk_err err;
    sk_ring_create(&r.p, r.mem, size);
    CHECK_OK_ERR(sk_ring_attach(&r.c, r.mem, size, &err), &err);
    return r;
}

/* Returns a word of the shared header: magic, version|0, size; the tail is at byte 64, the head at
 * byte 128. */
static uint64_t *word(struct pair *r, size_t byte) {
    return (uint64_t *)(void *)((uint8_t *)r->mem + byte);
}

static void send_n(struct pair *r, size_t len, uint64_t i) {
    void *m = sk_ring_reserve(&r->p, len);
    CHECK(m != NULL);
    msg_fill(m, len, i);
    sk_ring_commit(&r->p, len);
}

static void expect(struct pair *r, size_t len, uint64_t i) {
    size_t n = 77;
    const void *m = sk_ring_peek(&r->c, &n);
    CHECK(m != NULL);
    CHECK_EQ(n, len);
    CHECK_EQ((uintptr_t)m % 8, 0);
    CHECK(msg_true(m, n, i));
    sk_ring_pop(&r->c);
}

static void expect_empty(struct pair *r) {
    size_t n = 77;
    CHECK(sk_ring_peek(&r->c, &n) == NULL);
    CHECK_EQ(n, 0);
    CHECK(sk_ring_empty(&r->c));
}

TEST(ring_one_message) {
    struct pair r = make(RING);
    expect_empty(&r);
    send_n(&r, 100, 1);
    CHECK(!sk_ring_empty(&r.c));
    expect(&r, 100, 1);
    expect_empty(&r);
    send_n(&r, 0, 2); /* a message may be empty */
    expect(&r, 0, 2);
    CHECK(sk_ring_check(&r.p));
}

TEST(ring_many_before_the_consumer_looks) {
    struct pair r = make(RING);
    uint64_t n = 0;
    while (sk_ring_reserve(&r.p, 24)) {
        /* a second reserve returns the same place, since nothing was committed */
        void *m = sk_ring_reserve(&r.p, 24);
        msg_fill(m, 24, n++);
        sk_ring_commit(&r.p, 24);
    }
    CHECK_EQ(n, RING / (24 + HDR));
    CHECK(sk_ring_check(&r.c));
    for (uint64_t i = 0; i < n; i++) expect(&r, 24, i);
    expect_empty(&r);
}

TEST(ring_commit_may_shrink) {
    struct pair r = make(RING);
    for (size_t len = 0; len <= 64; len++) {
        void *m = sk_ring_reserve(&r.p, 1000);
        CHECK(m != NULL);
        msg_fill(m, len, len);
        sk_ring_commit(&r.p, len);
        expect(&r, len, len);
    }
}

TEST(ring_abandoned_reservation_leaves_nothing) {
    struct pair r = make(RING);
    for (uint64_t i = 0; i < 1000; i++) {
        for (int k = 0; k < 3; k++)
            CHECK(sk_ring_reserve(&r.p, (size_t)test_below(sk_ring_max_msg(&r.p))) != NULL);
        CHECK(sk_ring_check(&r.p));
        expect_empty(&r);
        send_n(&r, i % 200, i);
        expect(&r, i % 200, i);
    }
}

TEST(ring_largest_message_fits_at_each_position) {
    for (size_t size = RING; size <= 65536; size *= 4) {
        struct pair r = make(size);
        size_t max = sk_ring_max_msg(&r.p);
        CHECK_GE(max, size / 4);
        CHECK(sk_ring_reserve(&r.p, max + 1) == NULL);
        CHECK(sk_ring_reserve(&r.p, SIZE_MAX) == NULL);
        for (uint64_t i = 0; i < 2 * size / 16; i++) {
            send_n(&r, max, i); /* the ring is empty, so it has to fit */
            expect(&r, max, i);
            send_n(&r, 1, i); /* moves on by 16 */
            expect(&r, 1, i);
        }
    }
}

TEST(ring_full_then_room_again) {
    struct pair r = make(RING);
    send_n(&r, 2000, 1);
    send_n(&r, 2000, 2);
    CHECK(sk_ring_reserve(&r.p, 200) == NULL);
    CHECK(sk_ring_check(&r.p));
    send_n(&r, 24, 3); /* a smaller one still fits */
    expect(&r, 2000, 1);
    CHECK(sk_ring_reserve(&r.p, 2000) != NULL);
    send_n(&r, 1000, 4);
    expect(&r, 2000, 2);
    expect(&r, 24, 3);
    expect(&r, 1000, 4);
    expect_empty(&r);
}

TEST(ring_peek_twice_is_one_message) {
    struct pair r = make(RING);
    for (uint64_t i = 0; i < 500; i++) {
        send_n(&r, 700, i);
        size_t n;
        const void *a = sk_ring_peek(&r.c, &n), *b = sk_ring_peek(&r.c, &n);
        CHECK_EQ((uintptr_t)a, (uintptr_t)b);
        CHECK(!sk_ring_empty(&r.c));
        expect(&r, 700, i);
    }
}

TEST(ring_attach_resumes) {
    struct pair r = make(RING);
    for (uint64_t i = 0; i < 300; i++) {
        send_n(&r, 500, i);
        send_n(&r, 300, i + 1000);
        CHECK_OK(sk_ring_attach(&r.p, r.mem, RING, NULL));
        expect(&r, 500, i);
        CHECK_OK(sk_ring_attach(&r.c, r.mem, RING, NULL));
        size_t n;
        CHECK(sk_ring_peek(&r.c, &n) != NULL);
        CHECK_OK(sk_ring_attach(&r.c, r.mem, RING, NULL)); /* peeked, not popped: seen again */
        expect(&r, 300, i + 1000);
    }
}

TEST(ring_attach_refuses) {
    struct pair r = make(RING);
    struct sk_ring h = {0};
    struct sk_err err;
    CHECK_RC(sk_ring_attach(&h, r.mem, 2 * RING, &err), SK_ECORRUPT);
    CHECK_RC(sk_ring_attach(&h, r.mem, RING - 8, &err), SK_EINVAL);
    CHECK_RC(sk_ring_attach(&h, r.mem, RING / 2, &err), SK_EINVAL);
    CHECK_RC(sk_ring_attach(&h, (uint8_t *)r.mem + 8, RING, &err), SK_EINVAL);
    const struct {
        size_t at;
        uint64_t v;
    } bad[] = {{0, 1},         {8, 2},   {16, 8192},           {64, 4},
               {64, RING + 8}, {128, 8}, {128, UINT64_MAX - 7}};
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        uint64_t was = *word(&r, bad[i].at);
        *word(&r, bad[i].at) = bad[i].v;
        CHECK_RC(sk_ring_attach(&h, r.mem, RING, &err), SK_ECORRUPT);
        CHECK(!sk_ring_check(&r.p));
        *word(&r, bad[i].at) = was;
    }
    CHECK(h.shm == NULL);
    CHECK_OK(sk_ring_attach(&h, r.mem, RING, &err));
}

/* Random operations against a queue of (length, number). */
TEST(ring_like_a_naive_queue) {
    struct pair r = make(RING);
    struct {
        size_t len;
        uint64_t i;
    } q[RING / HDR];
    size_t first = 0, n = 0;
    uint64_t next = 0, sent = 0, full = 0;
    for (int step = 0, steps = test_rounds(200000); step < steps; step++) {
        if (test_below(2)) {
            size_t len = msg_len(test_seed(), next, sk_ring_max_msg(&r.p)),
                   want = len + (size_t)test_below(3) * 20;
            want = SK_MIN(want, sk_ring_max_msg(&r.p));
            void *m = sk_ring_reserve(&r.p, want);
            if (!m) {
                full++;
                CHECK_GT(n, 0); /* into an empty ring everything fits */
                continue;
            }
            msg_fill(m, len, next);
            if (test_below(10) == 0) continue; /* abandoned */
            sk_ring_commit(&r.p, len);
            size_t at = (first + n++) % SK_COUNT(q);
            q[at].len = len;
            q[at].i = next++;
            sent++;
        } else if (n == 0) {
            expect_empty(&r);
        } else {
            expect(&r, q[first].len, q[first].i);
            first = (first + 1) % SK_COUNT(q);
            n--;
        }
        if (step % 64 == 0) CHECK(sk_ring_check(&r.c));
    }
    CHECK_GT(sent, 10000);
    CHECK_GT(full, 100);
}

/* ---- two sides at once ----------------------------------------------------------------------- */

struct duo {
    struct sk_bell to_consumer, to_producer;
    uint64_t n, seed, size;
    uint8_t ring[192 + 65536] __attribute__((aligned(64)));
};

static void duo_produce(struct duo *d) {
    struct sk_ring r;
    CHECK_OK(sk_ring_attach(&r, d->ring, d->size, NULL));
    size_t max = sk_ring_max_msg(&r);
    for (uint64_t i = 0; i < d->n; i++) {
        size_t len = msg_len(d->seed, i, max);
        void *m;
        for (;;) {
            uint32_t seen = sk_bell_seq(&d->to_producer);
            if ((m = sk_ring_reserve(&r, len))) break;
            CHECK_OK(sk_bell_wait(&d->to_producer, seen, 5000, test_patience()));
        }
        msg_fill(m, len, i);
        sk_ring_commit(&r, len);
        sk_bell_ring(&d->to_consumer);
    }
}

static void duo_consume(struct duo *d) {
    struct sk_ring r;
    CHECK_OK(sk_ring_attach(&r, d->ring, d->size, NULL));
    size_t max = sk_ring_max_msg(&r), len;
    for (uint64_t i = 0; i < d->n; i++) {
        const void *m;
        for (;;) {
            uint32_t seen = sk_bell_seq(&d->to_consumer);
            if ((m = sk_ring_peek(&r, &len))) break;
            CHECK_EQ(len, 0);
            CHECK_OK(sk_bell_wait(&d->to_consumer, seen, 5000, test_patience()));
        }
        CHECK_EQ(len, msg_len(d->seed, i, max));
        CHECK_MSG(msg_true(m, len, i), "message %llu of %zu bytes is wrong", (unsigned long long)i,
                  len);
        sk_ring_pop(&r);
        sk_bell_ring(&d->to_producer);
    }
    CHECK(sk_ring_empty(&r));
    CHECK(sk_ring_check(&r));
}

static struct duo *duo(size_t size, int n) {
    struct duo *d = share(sizeof *d);
    struct sk_ring r;
    d->n = (uint64_t)test_rounds(test_sanitized() ? n / 10 : n);
    d->seed = test_rand();
    d->size = size;
    sk_ring_create(&r, d->ring, size);
    return d;
}

static void *produce_thread(void *arg) {
    duo_produce(arg);
    return NULL;
}

static void by_threads(struct duo *d) {
    pthread_t th;
    CHECK_EQ(pthread_create(&th, NULL, produce_thread, d), 0);
    duo_consume(d);
    CHECK_EQ(pthread_join(th, NULL), 0);
}

static void by_processes(struct duo *d) {
    pid_t pid = fork();
    if (pid == 0) {
        duo_produce(d);
        _exit(0);
    }
    duo_consume(d);
    CHECK_EQ(wait_exit(pid), 0);
}

TEST_LARGE(ring_many_between_threads, 300) { by_threads(duo(4096, 250000)); }
TEST_SLOW(ring_large_between_threads, 300) { by_threads(duo(65536, 100000)); }
TEST_LARGE(ring_many_between_processes, 300) { by_processes(duo(4096, 250000)); }
TEST_SLOW(ring_large_between_processes, 300) { by_processes(duo(65536, 100000)); }

/* ---- a peer gone mad ------------------------------------------------------------------------- */

/* Whatever is in the shared memory, the consumer stays inside the ring, and either reports
 * corruption or returns a message within the ring. */
TEST(ring_consumer_of_nonsense) {
    struct pair r = make(RING);
    uint64_t mad = 0, fine = 0;
    for (int round = 0, rounds = test_rounds(20000); round < rounds; round++) {
        sk_ring_create(&r.p, r.mem, RING);
        CHECK_OK(sk_ring_attach(&r.c, r.mem, RING, NULL));
        uint64_t next = 0, skip = test_below(40);
        for (uint64_t i = 0; i < skip; i++) { /* some laps */
            size_t len = msg_len(test_seed() + (uint64_t)round, i, sk_ring_max_msg(&r.p));
            send_n(&r, len, i);
            expect(&r, len, i);
        }
        for (void *m; (m = sk_ring_reserve(&r.p, (size_t)test_below(600)));)
            msg_fill(m, 0, next++), sk_ring_commit(&r.p, (size_t)test_below(1));
        uint64_t hits = 1 + test_below(3);
        for (uint64_t k = 0; k < hits; k++) {
            /* a word of data, or tail */
            uint64_t at = test_below(10) ? 192 + test_below(RING / 8) * 8 : 64;
            uint64_t v = *word(&r, at);
            switch (test_below(4)) {
            case 0: v = test_rand(); break;
            case 1: v ^= UINT64_C(1) << test_below(64); break;
            case 2: v += (test_below(64) - 32) * 8; break;
            /* a header is overwritten by data */
            default: v = *word(&r, 192 + test_below(RING / 8) * 8); break;
            }
            *word(&r, at) = v;
        }
        bool whole = sk_ring_check(&r.c);
        for (int k = 0;; k++) {
            size_t len;
            const uint8_t *m = sk_ring_peek(&r.c, &len);
            if (!m) {
                CHECK(len == SIZE_MAX || len == 0);
                if (len) mad++;
                else fine++;
                /* a ring that the check accepts can be read to its end */
                if (whole) CHECK_EQ(len, 0);
                break;
            }
            CHECK_LE(len, sk_ring_max_msg(&r.c));
            const uint8_t *data = (const uint8_t *)r.mem + 192;
            CHECK(m >= data + HDR && m + len <= data + RING);
            CHECK_LT(k, RING / HDR);
            sk_ring_pop(&r.c);
        }
    }
    CHECK_GT(mad, 100);
    CHECK_GT(fine, 100);
}

TEST(ring_producer_of_a_mad_consumer) {
    struct pair r = make(RING);
    for (int i = 0; i < 20000; i++) {
        *word(&r, 128) = test_below(4) ? test_rand() : *word(&r, 64) + (test_below(5) - 2) * 8;
        for (int k = 0; k < 5; k++) {
            size_t len = (size_t)test_below(sk_ring_max_msg(&r.p));
            uint8_t *m = sk_ring_reserve(&r.p, len);
            if (!m) continue;
            const uint8_t *data = (const uint8_t *)r.mem + 192;
            CHECK(m >= data + HDR && m + len <= data + RING);
            memset(m, 0xEE, len);
            sk_ring_commit(&r.p, len);
        }
    }
}

/* test_dag_channel.c - a channel by hand, against a naive queue, between threads and between
 * processes. Kills: crash/channel_crash.c. */
#include <pthread.h>

#include "dag_help.h"

#define MB ((uint64_t)1 << 20)

static struct sk_chan_msg next_of(struct sk_chan_end *e) {
    struct sk_chan_msg m;
    struct sk_err err;
    CHECK_OK_ERR(sk_chan_read(e, test_patience(), &m, &err), &err);
    return m;
}

TEST(channel_shapes) {
    struct sk_chan_shape good = {1, 1, 1};
    CHECK(sk_chan_bytes(&good) > 0);
    uint8_t *mem = share(1 << 16);
    struct sk_chan_shape bad[] = {{0, 1, 1},    {65, 1, 1}, {1, 0, 1},
                                  {1, 1025, 1}, {1, 1, 0},  {1, 1, 1025}};
    struct sk_err err;
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        CHECK_EQ(sk_chan_bytes(&bad[i]), 0);
        CHECK_EQ(sk_chan_create(mem, &bad[i], &err), SK_EINVAL);
    }
    CHECK_EQ(sk_chan_create(mem + 8, &good, &err), SK_EINVAL);
    struct sk_chan_end e;
    struct sk_chan_pool pool = {0};
    CHECK_EQ(sk_chan_attach(&e, mem, 0, mem, 100, NULL, &err), SK_ECORRUPT);
    CHECK_OK(sk_chan_create(mem, &good, &err));
    CHECK_EQ(sk_chan_attach(&e, mem, 1, mem, 100, NULL, &err), SK_EINVAL);
    CHECK_EQ(sk_chan_attach(&e, mem, 0, mem, 100, &pool, &err), SK_EINVAL);
    CHECK_EQ(sk_chan_attach(&e, mem, SK_CHAN_WRITER, mem, 100, NULL, &err), SK_EINVAL);
    CHECK_OK(sk_chan_attach(&e, mem, 0, mem, 100, NULL, &err));
    CHECK(sk_chan_check(mem));
}

TEST(channel_messages_lie_where_they_were_written) {
    struct rig *r = rig(2, 4, 4, MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER), a = end_of(r, 0), b = end_of(r, 1);
    for (uint64_t i = 0; i < 50; i++) {
        size_t len = i % 3 ? (size_t)i * 7 : 0;
        void *p;
        CHECK_OK(sk_chan_reserve(&w, len + 100, 0, &p, NULL));
        CHECK_OK(sk_chan_reserve(&w, len, 0, &p, NULL)); /* instead */
        msg_fill(p, len, i);
        sk_chan_publish(&w, len, (uint32_t)mix(i));
        CHECK_EQ(sk_chan_written(r->mem), i + 1);
        struct sk_chan_msg ma = next_of(&a), mb = next_of(&b);
        is_message(&ma, len, i);
        is_message(&mb, len, i);
        CHECK(ma.p == p && mb.p == p);
        CHECK(sk_chan_check(r->mem));
        done(&a, &ma);
        done(&b, &mb);
    }
    CHECK_EQ(atomic_load(&r->pool->n_live), 1); /* one message at a time: always the same buffer */
}

TEST(channel_buffers_grow) {
    struct rig *r = rig(1, 2, 3, 64 * MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER), a = end_of(r, 0);
    uint64_t i = 0;
    for (size_t len = 1; len <= 4 * MB; len = len * 3 + 1, i++) {
        CHECK_OK(write_by(&w, len, i, 0));
        struct sk_chan_msg m = next_of(&a);
        is_message(&m, len, i);
        done(&a, &m);
    }
    CHECK_EQ(atomic_load(&r->pool->n_live), 1);
    atomic_store(&r->pool->fail, 1);
    struct sk_err err;
    void *p;
    /* the pool's error is returned, and nothing has changed */
    CHECK_EQ(sk_chan_reserve(&w, 16 * MB, 0, &p, &err), SK_EFULL);
    CHECK_OK(write_by(&w, 10, i, 0));
    struct sk_chan_msg m = next_of(&a);
    is_message(&m, 10, i);
    done(&a, &m);
    sk_chan_free_bufs(r->mem, &r->ops);
    CHECK_EQ(atomic_load(&r->pool->n_live), 0);
    CHECK_EQ(atomic_load(&r->pool->live_bytes), 0);
}

TEST(channel_kept_messages_do_not_stop_the_writer) {
    struct rig *r = rig(2, 2, 5, MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER), a = end_of(r, 0), b = end_of(r, 1);
    struct sk_chan_msg kept[5], m;
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_OK(write_by(&w, 100, i, 0));
        kept[i] = next_of(&a);
        sk_chan_pass(&a);
        m = next_of(&b);
        done(&b, &m);
    }
    struct sk_err err;
    void *p;
    CHECK_EQ(sk_chan_reserve(&w, 1, sk_now_ns() + 2 * SK_MS, &p, &err), SK_ETIMEOUT);
    CHECK(strstr(err.msg, "reader 0 keeps 5 of 5 buffers"));
    for (uint64_t i = 0; i < 5; i++) is_message(&kept[i], 100, i);
    sk_chan_release(&a, &kept[3]); /* any of them */
    CHECK_OK(write_by(&w, 50, 5, 0));
    m = next_of(&a);
    CHECK(m.p == kept[3].p);
    CHECK(sk_chan_check(r->mem));
}

TEST(channel_says_who_is_behind) {
    struct rig *r = rig(3, 2, 8, MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER),
                       e[3] = {end_of(r, 0), end_of(r, 1), end_of(r, 2)};
    struct sk_err err;
    struct sk_chan_msg m;
    void *p;
    for (uint64_t i = 0; i < 2; i++) {
        CHECK_OK(write_by(&w, 8, i, 0));
        for (int k = 0; k < 3; k += 2) m = next_of(&e[k]), done(&e[k], &m);
    }
    CHECK_EQ(sk_chan_reserve(&w, 8, 0, &p, &err), SK_ETIMEOUT);
    CHECK(strstr(err.msg, "reader 1 is 2 messages behind"));
    m = next_of(&e[1]); /* read, but not passed */
    CHECK_EQ(sk_chan_reserve(&w, 8, 0, &p, &err), SK_ETIMEOUT);
    sk_chan_pass(&e[1]);
    CHECK_OK(sk_chan_reserve(&w, 8, 0, &p, &err));
    CHECK_EQ(sk_chan_read(&e[0], sk_now_ns() + 2 * SK_MS, &m, &err), SK_ETIMEOUT);
    CHECK(strstr(err.msg, "read message 2"));
}

TEST(channel_ends) {
    struct sk_err err;
    struct sk_chan_msg m;
    void *p;
    struct rig *r = rig(2, 4, 4, MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER), a = end_of(r, 0);
    CHECK_OK(write_by(&w, 8, 0, 0));
    sk_chan_bury(r->mem, SK_CHAN_WRITER); /* the messages published before are read first */
    m = next_of(&a);
    is_message(&m, 8, 0);
    CHECK_EQ(sk_chan_read(&a, INT64_MAX, &m, &err), SK_EDEAD);
    CHECK_EQ(sk_chan_attach(&w, r->mem, SK_CHAN_WRITER, r->arena, r->size, &r->ops, &err),
             SK_EDEAD);
    sk_chan_close(r->mem);
    CHECK_EQ(sk_chan_read(&a, INT64_MAX, &m, &err), SK_ECLOSED);

    r = rig(2, 4, 4, MB);
    w = end_of(r, SK_CHAN_WRITER);
    sk_chan_bury(r->mem, 1);
    CHECK_EQ(sk_chan_reserve(&w, 8, INT64_MAX, &p, &err), SK_EDEAD);
    CHECK(strstr(err.msg, "reader 1"));
    CHECK_EQ(sk_chan_attach(&a, r->mem, 1, r->arena, r->size, NULL, &err), SK_EDEAD);
    sk_chan_close(r->mem);
    CHECK_EQ(sk_chan_reserve(&w, 8, INT64_MAX, &p, &err), SK_ECLOSED);
}

TEST(channel_a_peer_gone_mad) {
    struct sk_chan_shape s = {1, 4, 4};
    struct rig *r = rig(1, 4, 4, MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER), a = end_of(r, 0);
    CHECK_OK(write_by(&w, 8, 0, 0));
    /* version, off, len, (buf, kind) */
    uint64_t *cell = (uint64_t *)(void *)((uint8_t *)r->mem + sk_chan_bytes(&s) - 4 * 32);
    CHECK_EQ(cell[0], 0);
    for (int i = 0, n = test_rounds(2000); i < n; i++) {
        uint64_t old[4], bad = test_rand() >> test_below(64);
        memcpy(old, cell, sizeof old);
        cell[test_below(4)] = bad;
        struct sk_chan_end e = a;
        struct sk_chan_msg m;
        sk_rc rc = sk_chan_read(&e, 0, &m, NULL);
        CHECK(rc == SK_ECORRUPT || (rc == SK_OK && m.p >= r->arena &&
                                    m.p + m.len <= r->arena + r->size && m.version == 0));
        memcpy(cell, old, sizeof old);
    }
}

/* ---- against a naive queue ------------------------------------------------------------------- */

struct naive { /* of one reader */
    uint64_t next, passed;
    struct sk_chan_msg held[64]; /* passed or not, not released */
    uint32_t n_held;
};

static uint64_t least_passed(const struct naive *q, uint32_t n) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) least = SK_MIN(least, q[i].passed);
    return least;
}

static bool is_held(const struct naive *q, uint32_t n, uint64_t version) {
    /* a reader has not released the message */
    for (uint32_t i = 0; i < n; i++) {
        if (version >= q[i].next) return true;
        for (uint32_t k = 0; k < q[i].n_held; k++)
            if (q[i].held[k].version == version) return true;
    }
    return false;
}

static void release_one(struct sk_chan_end *e, struct naive *q, uint64_t seed) {
    uint32_t k = (uint32_t)test_below(q->n_held);
    if (q->held[k].version >= q->passed) return;
    /* the bytes are valid until the release */
    is_message(&q->held[k], msg_len(seed, q->held[k].version, 5000), q->held[k].version);
    sk_chan_release(e, &q->held[k]);
    q->held[k] = q->held[--q->n_held];
}

static void like_a_queue(void) {
    uint32_t n_readers = 1 + (uint32_t)test_below(4), n_cells = 1 + (uint32_t)test_below(6),
             n_bufs = 1 + (uint32_t)test_below(9);
    struct rig *r = rig(n_readers, n_cells, n_bufs, 64 * MB);
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER), e[4];
    struct naive q[4] = {{0}};
    for (uint32_t i = 0; i < n_readers; i++) e[i] = end_of(r, i);
    uint64_t written = 0;
    for (int step = 0; step < 2000; step++) {
        uint32_t i = (uint32_t)test_below(n_readers);
        switch (test_below(8)) {
        case 0:
        case 1:
        case 2: {
            uint32_t in_use = 0;
            for (uint64_t v = written > 600 ? written - 600 : 0; v < written; v++)
                in_use += is_held(q, n_readers, v);
            bool fits = written < least_passed(q, n_readers) + n_cells && in_use < n_bufs;
            CHECK_EQ(write_by(&w, msg_len(r->seed, written, 5000), written, 0),
                     fits ? SK_OK : SK_ETIMEOUT);
            written += fits;
            break;
        }
        case 3:
        case 4: {
            if (q[i].n_held == SK_COUNT(q[i].held)) break;
            struct sk_chan_msg m;
            sk_rc rc = sk_chan_read(&e[i], 0, &m, NULL);
            CHECK_EQ(rc, q[i].next < written ? SK_OK : SK_ETIMEOUT);
            if (rc != SK_OK) break;
            is_message(&m, msg_len(r->seed, q[i].next, 5000), q[i].next);
            q[i].held[q[i].n_held++] = m;
            q[i].next++;
            break;
        }
        case 5:
            sk_chan_pass(&e[i]);
            q[i].passed = q[i].next;
            break;
        case 6:
            if (q[i].n_held) release_one(&e[i], &q[i], r->seed);
            break;
        /* a successor reads messages again that were not passed, and releases the others */
        default:
            if (test_below(20)) break;
            if (test_below(2)) {
                w = end_of(r, SK_CHAN_WRITER);
                break;
            }
            e[i] = end_of(r, i);
            q[i].next = q[i].passed;
            q[i].n_held = 0;
        }
        CHECK(sk_chan_check(r->mem));
        CHECK_LE(atomic_load(&r->pool->n_live), n_bufs);
    }
    sk_chan_free_bufs(r->mem, &r->ops);
    CHECK_EQ(atomic_load(&r->pool->live_bytes), 0);
    munmap(r->arena, r->size);
}

TEST_LARGE(channel_is_a_queue, 120) {
    for (int i = 0, n = test_rounds(100); i < n; i++) like_a_queue();
}

/* ---- by threads and by processes ------------------------------------------------------------- */

struct side {
    struct rig *r;
    uint32_t end;
    uint64_t n;
    int64_t cap_ns;
};

static void run_side(struct side *s) {
    struct sk_chan_end e = end_of(s->r, s->end);
    struct sk_err err;
    e.spin = sk_spin_of(s->cap_ns);
    if (s->end == SK_CHAN_WRITER) {
        for (uint64_t i = 0; i < s->n; i++)
            CHECK_OK(write_by(&e, msg_len(s->r->seed, i, 3000), i, test_patience()));
        return;
    }
    struct sk_chan_msg held[3]; /* always keeps the last two */
    for (uint64_t i = 0; i < s->n; i++) {
        struct sk_chan_msg *m = &held[i % 3];
        CHECK_OK_ERR(sk_chan_read(&e, test_patience(), m, &err), &err);
        is_message(m, msg_len(s->r->seed, i, 3000), i);
        if (i % 2) sk_chan_pass(&e); /* one of two is passed late */
        if (i >= 2 && i % 2) {
            sk_chan_release(&e, &held[(i - 2) % 3]);
            sk_chan_release(&e, &held[(i - 1) % 3]);
        } else if (i == 1) {
            sk_chan_release(&e, &held[0]);
        }
    }
}

static void *side_thread(void *arg) {
    run_side(arg);
    return NULL;
}

static void by_threads(uint32_t n_readers, uint64_t n, int64_t cap_ns) {
    struct rig *r = rig(n_readers, 4, 8, 64 * MB);
    struct side s[5];
    pthread_t t[5];
    for (uint32_t i = 0; i <= n_readers; i++) {
        s[i] = (struct side){r, i ? i - 1 : SK_CHAN_WRITER, n, cap_ns};
        CHECK_EQ(pthread_create(&t[i], NULL, side_thread, &s[i]), 0);
    }
    for (uint32_t i = 0; i <= n_readers; i++) CHECK_EQ(pthread_join(t[i], NULL), 0);
    CHECK(sk_chan_check(r->mem));
}

static void by_processes(uint32_t n_readers, uint64_t n, int64_t cap_ns) {
    struct rig *r = rig(n_readers, 4, 8, 64 * MB);
    pid_t pid[5];
    for (uint32_t i = 0; i <= n_readers; i++) {
        pid[i] = fork();
        if (pid[i]) continue;
        struct side s = {r, i ? i - 1 : SK_CHAN_WRITER, n, cap_ns};
        run_side(&s);
        _exit(0);
    }
    for (uint32_t i = 0; i <= n_readers; i++) CHECK_EQ(wait_exit(pid[i]), 0);
    CHECK(sk_chan_check(r->mem));
}

TEST_LARGE(channel_by_threads_adaptive, 120) {
    by_threads(3, (uint64_t)test_rounds(4000), SK_SPIN_CAP_NS);
}
TEST_LARGE(channel_by_threads_sleeping, 120) { by_threads(2, (uint64_t)test_rounds(4000), 0); }
TEST_LARGE(channel_by_processes_adaptive, 120) {
    by_processes(3, (uint64_t)test_rounds(4000), SK_SPIN_CAP_NS);
}
TEST_LARGE(channel_by_processes_sleeping, 120) { by_processes(1, (uint64_t)test_rounds(8000), 0); }

/* ---- waking sleepers ------------------------------------------------------------------------- */

struct sleeper {
    struct rig *r;
    uint32_t end;
    sk_rc rc;
};

static void *sleeps(void *arg) {
    struct sleeper *s = arg;
    struct sk_chan_end e = end_of(s->r, s->end);
    struct sk_chan_msg m;
    void *p;
    e.spin = sk_spin_of(0);
    int64_t until = test_patience();
    s->rc = s->end == SK_CHAN_WRITER ? sk_chan_reserve(&e, 8, until, &p, NULL)
                                     : sk_chan_read(&e, until, &m, NULL);
    return NULL;
}

/* Checks that `what` ends the wait on a channel that is full (the writer waits) or empty (a reader
 * waits). */
static void woken(bool full, void (*what)(struct rig *r), sk_rc expected) {
    for (int i = 0, n = test_rounds(50); i < n; i++) {
        struct rig *r = rig(1, 1, 1, MB);
        struct sk_chan_end w = end_of(r, SK_CHAN_WRITER);
        if (full) CHECK_OK(write_by(&w, 8, 0, 0));
        struct sleeper s = {r, full ? SK_CHAN_WRITER : 0, 1};
        pthread_t t;
        CHECK_EQ(pthread_create(&t, NULL, sleeps, &s), 0);
        /* The other thread sleeps, or is about to, or has not begun. This waits by the clock, since
         * on a busy machine one yield takes as long as hundreds on a quiet one. */
        for (int64_t until = sk_now_ns() + (int64_t)test_below(200000); sk_now_ns() < until;)
            sched_yield();
        what(r);
        CHECK_EQ(pthread_join(t, NULL), 0);
        CHECK_EQ(s.rc, expected);
        munmap(r->arena, r->size);
    }
}

static void closes(struct rig *r) { sk_chan_close(r->mem); }
static void buries_writer(struct rig *r) { sk_chan_bury(r->mem, SK_CHAN_WRITER); }
static void buries_reader(struct rig *r) { sk_chan_bury(r->mem, 0); }
static void writes(struct rig *r) {
    struct sk_chan_end w = end_of(r, SK_CHAN_WRITER);
    CHECK_OK(write_by(&w, 8, 0, 0));
}
static void reads(struct rig *r) {
    struct sk_chan_end e = end_of(r, 0);
    struct sk_chan_msg m = next_of(&e);
    done(&e, &m);
}

TEST(channel_sleepers_are_woken) {
    woken(false, closes, SK_ECLOSED);
    woken(true, closes, SK_ECLOSED);
    woken(false, buries_writer, SK_EDEAD);
    woken(true, buries_reader, SK_EDEAD);
    woken(false, writes, SK_OK);
    woken(true, reads, SK_OK);
}

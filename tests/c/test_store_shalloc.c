/* test_store_shalloc.c - the extent book by example: life of an extent, where allocations go,
 * messages, refusal of memory. Random operations against a model are in sim/store_sim.c. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/store.h"
#include "store/store_int.h"
#include "test.h"

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static struct sk_store *make(uint64_t size) {
    struct sk_store *st = NULL;
    struct sk_err err = {0};
    CHECK_EQ(sk_store_create(&st, size, &err), SK_OK);
    CHECK(sk_store_check(st));
    return st;
}

static sk_off lease(struct sk_store *st, uint32_t proc, uint64_t len) {
    sk_off off = UINT64_MAX;
    CHECK_EQ(sk_store_alloc(st, proc, len, &off, NULL), SK_OK);
    CHECK(sk_store_check(st));
    return off;
}

static sk_off object(struct sk_store *st, uint64_t len) {
    sk_off off = lease(st, 0, len);
    CHECK_EQ(sk_store_commit(st, 0, off, len, NULL), SK_OK);
    CHECK(sk_store_check(st));
    return off;
}

static void unref(struct sk_store *st, sk_off off) {
    sk_store_unref(st, off);
    CHECK(sk_store_check(st));
}

static struct sk_store_stats stats(const struct sk_store *st) {
    struct sk_store_stats s;
    sk_store_get_stats(st, &s);
    return s;
}

TEST(store_create_refuses_bad_sizes) {
    struct sk_store *st = NULL;
    struct sk_err err = {0};
    CHECK_EQ(sk_store_create(&st, 0, &err), SK_EINVAL);
    CHECK_EQ(sk_store_create(&st, 63, &err), SK_EINVAL);
    CHECK_EQ(sk_store_create(&st, SK_STORE_MAX + 64, &err), SK_EINVAL);
    CHECK_EQ(sk_store_create(&st, UINT64_MAX, &err), SK_EINVAL);
    CHECK(st == NULL);
    CHECK(strstr(err.msg, "object_store_memory") != NULL);
    st = make(1000);
    CHECK_EQ(stats(st).size_bytes, 960);
    sk_store_destroy(st);
    st = make(SK_STORE_MAX);
    CHECK_EQ(lease(st, 0, SK_STORE_MAX), 0);
    sk_store_destroy(st);
    sk_store_destroy(NULL);
}

TEST(store_life_of_an_extent) {
    struct sk_store *st = make(MIB);
    sk_off a = lease(st, 3, 100);
    CHECK_EQ(a, 0);
    CHECK_EQ(stats(st).leased_bytes, 128);
    CHECK_EQ(stats(st).sealed_bytes, 0);
    CHECK_EQ(sk_store_commit(st, 3, a, 100, NULL), SK_OK);
    CHECK_EQ(stats(st).leased_bytes, 0);
    CHECK_EQ(stats(st).sealed_bytes, 128);
    CHECK_EQ(stats(st).n_extents, 1);
    sk_store_ref(st, a);
    unref(st, a);
    CHECK_EQ(stats(st).sealed_bytes, 128);
    unref(st, a);
    CHECK_EQ(stats(st).sealed_bytes, 0);
    CHECK_EQ(stats(st).warm_bytes, 128);
    CHECK_EQ(stats(st).peak_bytes, 128);
    CHECK_EQ(stats(st).n_extents, 0);
    sk_store_destroy(st);
}

TEST(store_empty_objects_have_their_own_offset) {
    struct sk_store *st = make(MIB);
    sk_off a = object(st, 0), b = object(st, 0);
    CHECK(a != b);
    unref(st, a);
    unref(st, b);
    CHECK_EQ(stats(st).warm_bytes, 128);
    sk_store_destroy(st);
}

TEST(store_warm_first_then_cold_lowest) {
    struct sk_store *st = make(64 * MIB);
    sk_off a = object(st, 10000), b = object(st, 4000), c = object(st, 20000), d = object(st, 64);
    unref(st, a);
    unref(st, c);
    /* Both holes are warm; the smaller one that fits is the better one. */
    CHECK_EQ(lease(st, 0, 9000), a);
    CHECK_EQ(lease(st, 0, 12000), c);
    /* Too large for the remaining warm holes: it gets fresh pages. */
    sk_off e = lease(st, 0, 30000);
    CHECK(e > d);
    CHECK_EQ(e, d + 64);
    (void)b;
    /* Punched holes are cold and come after warm ones, the lowest first. */
    sk_store_destroy(st);

    st = make(MIB);
    sk_off o[6];
    for (int i = 0; i < 6; i++) o[i] = object(st, 1024);
    unref(st, o[0]);
    unref(st, o[2]);
    sk_off off;
    uint64_t len;
    CHECK(sk_store_take_punch(st, 64, &off, &len));
    CHECK(sk_store_take_punch(st, 64, &off, &len));
    CHECK(!sk_store_take_punch(st, 64, &off, &len));
    unref(st, o[4]);
    CHECK_EQ(lease(st, 0, 1024), o[4]);
    CHECK_EQ(lease(st, 0, 1024), o[0]);
    CHECK_EQ(lease(st, 0, 1024), o[2]);
    sk_store_destroy(st);
}

TEST(store_bins_hold_lengths_that_differ) {
    /* Lengths of 64 and 65 units share a bin. Full store, isolated holes, and no cold byte. */
    enum { N = 41 };
    struct sk_store *st = make((N * 65 + 1) * 64);
    sk_off o[N], gap[N];
    for (int i = 0; i < N; i++) {
        o[i] = object(st, (i == 7 ? 65 : 64) * 64);
        gap[i] = object(st, 64);
    }
    CHECK_EQ(stats(st).sealed_bytes, stats(st).size_bytes);
    /* the only long hole is freed first, so it is checked last */
    for (int i = 7; i < N + 7; i++) unref(st, o[i % N]);
    CHECK_EQ(lease(st, 0, 65 * 64), o[7]);
    sk_off off;
    CHECK_RC(sk_store_alloc(st, 0, 65 * 64, &off, NULL), SK_EFULL);
    /* of equal holes that were checked, the lowest is taken */
    CHECK_EQ(lease(st, 0, 64 * 64), o[0]);
    CHECK_OK(sk_store_unlease(st, 0, o[7], 65 * 64, NULL));
    sk_off next = lease(st, 0, 64 * 64);
    /* the shorter hole fits better, though the long one would be found first */
    CHECK(next != o[7]);
    unref(st, gap[20]);
    /* the refused allocation is possible now, and best fit still holds */
    CHECK_EQ(lease(st, 0, 65 * 64), o[7]);
    CHECK_EQ(lease(st, 0, 129 * 64), o[20]);
    sk_store_destroy(st);
}

TEST(store_temperature_never_makes_it_full) {
    struct sk_store *st = make(4096);
    sk_off a = object(st, 1024), b = object(st, 1024), c = object(st, 1024);
    unref(st, a);
    unref(st, b);
    sk_off off;
    uint64_t len;
    CHECK(sk_store_take_punch(st, 64, &off, &len));
    CHECK_EQ(off, 0);
    CHECK_EQ(len, 2048);
    unref(st, c);                    /* cold 2048, warm 1024, cold 1024 */
    CHECK_EQ(lease(st, 1, 3072), 0); /* no piece is that long; the lowest of the best windows */
    CHECK_EQ(stats(st).warm_bytes, 0);
    sk_store_proc_dead(st, 1);
    CHECK(sk_store_check(st));
    CHECK_EQ(stats(st).warm_bytes, 3072);
    CHECK_EQ(lease(st, 1, 4096), 0);
    sk_store_destroy(st);
}

TEST(store_mixed_run_takes_the_warm_window) {
    struct sk_store *st = make(10 * 1024);
    sk_off o[10];
    for (int i = 0; i < 10; i++) o[i] = object(st, 1024);
    for (int i = 0; i < 5; i++) unref(st, o[i]);
    sk_off off;
    uint64_t len;
    CHECK(sk_store_take_punch(st, 64, &off, &len)); /* cold 0..5 */
    for (int i = 5; i < 10; i++) unref(st, o[i]);
    CHECK_EQ(stats(st).warm_bytes, 5 * 1024);
    CHECK_EQ(lease(st, 0, 6 * 1024), 4 * 1024); /* all five warm ones and one cold */
    CHECK_EQ(stats(st).warm_bytes, 0);
    sk_store_destroy(st);
}

TEST(store_large_prefers_mostly_warm_to_all_cold) {
    struct sk_store *st = make(GIB);
    sk_off a = object(st, 64 * MIB);
    unref(st, a);
    CHECK_EQ(lease(st, 0, 80 * MIB), 0); /* 64 warm + 16 cold, not 80 cold */
    CHECK_EQ(stats(st).warm_bytes, 0);
    sk_store_destroy(st);

    st = make(GIB);
    a = object(st, 10 * MIB);
    unref(st, a);
    /* saving an eighth of the pages is not worth a worse place */
    CHECK_EQ(lease(st, 0, 80 * MIB), 10 * MIB);
    sk_store_destroy(st);
}

TEST(store_lease_sealed_in_pieces) {
    struct sk_store *st = make(MIB);
    sk_off l = lease(st, 1, 64 * 1024);
    for (uint64_t i = 0; i < 16; i++) {
        CHECK_EQ(sk_store_commit(st, 1, l + i * 1024, 1000, NULL), SK_OK);
        CHECK(sk_store_check(st));
    }
    CHECK_EQ(stats(st).leased_bytes, 48 * 1024);
    CHECK_EQ(stats(st).n_extents, 17);
    CHECK_EQ(sk_store_commit(st, 1, l + 63 * 1024, 1024, NULL), SK_OK); /* the end */
    CHECK(sk_store_check(st));
    /* an object in the middle leaves two leases */
    CHECK_EQ(sk_store_commit(st, 1, l + 32 * 1024, 1024, NULL), SK_OK);
    CHECK(sk_store_check(st));
    CHECK_EQ(stats(st).n_extents, 17 + 1 + 1 + 1);
    /* Give back a tail of the lower, all of the upper. */
    CHECK_EQ(sk_store_unlease(st, 1, l + 31 * 1024, 1024, NULL), SK_OK);
    CHECK(sk_store_check(st));
    CHECK_EQ(sk_store_unlease(st, 1, l + 33 * 1024, 30 * 1024, NULL), SK_OK);
    CHECK(sk_store_check(st));
    CHECK_EQ(stats(st).leased_bytes, 15 * 1024);
    sk_store_proc_dead(st, 1);
    CHECK(sk_store_check(st));
    CHECK_EQ(stats(st).leased_bytes, 0);
    CHECK_EQ(stats(st).sealed_bytes, 18 * 1024); /* sealed objects live on */
    for (uint64_t i = 0; i < 16; i++) unref(st, l + i * 1024);
    unref(st, l + 63 * 1024);
    unref(st, l + 32 * 1024);
    CHECK_EQ(stats(st).warm_bytes, 64 * 1024);
    sk_store_destroy(st);
}

TEST(store_mad_workers_change_nothing) {
    struct sk_store *st = make(MIB);
    sk_off l = lease(st, 1, 4096), o = object(st, 4096);
    struct sk_store_stats before = stats(st), after;
    const struct {
        uint32_t proc;
        uint64_t off, len;
    } bad[] = {
        {2, l, 64},
        {0, l, 64},
        {1, l, 4097},
        {1, l + 32, 64},
        {1, l + 64, 4096},
        {1, o, 64},
        {0, o, 64},
        {1, MIB, 64},
        {1, MIB - 64, 64},
        {1, UINT64_MAX, 64},
        {1, UINT64_MAX - 63, 64},
        {1, l, UINT64_MAX},
        {1, l + 64, UINT64_MAX - 64},
        {99, l, 64},
        {UINT32_MAX, l, 64},
    };
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        struct sk_err err = {0};
        CHECK_EQ(sk_store_commit(st, bad[i].proc, bad[i].off, bad[i].len, &err), SK_EINVAL);
        CHECK(strstr(err.msg, "not within a lease of process") != NULL);
        CHECK_EQ(sk_store_unlease(st, bad[i].proc, bad[i].off, bad[i].len, &err), SK_EINVAL);
        CHECK(!sk_store_unpin(st, bad[i].proc, bad[i].off));
        CHECK(sk_store_check(st));
    }
    CHECK_EQ(sk_store_unlease(st, 1, l, 64, NULL), SK_EINVAL); /* not a tail */
    CHECK_EQ(sk_store_unlease(st, 1, l + 64, 64, NULL), SK_EINVAL);
    after = stats(st);
    CHECK(memcmp(&before, &after, sizeof before) == 0);
    sk_store_destroy(st);
}

TEST(store_full_says_why) {
    struct sk_store *st = make(5 * GIB);
    struct sk_err err = {0};
    sk_off off = 77;
    CHECK_EQ(sk_store_alloc(st, 0, 6 * GIB, &off, &err), SK_EFULL);
    CHECK(strcmp(err.msg, "object of 6.0 GiB is larger than the store (5.0 GiB); raise "
                          "object_store_memory in init()") == 0);
    CHECK_EQ(sk_store_alloc(st, 0, UINT64_MAX, &off, &err), SK_EFULL);
    CHECK(strstr(err.msg, "larger than the store") != NULL);
    sk_off a = object(st, 32 * MIB);
    sk_off b = object(st, 5 * GIB - 64 * MIB);
    CHECK_EQ(lease(st, 1, 16 * MIB), 5 * GIB - 32 * MIB);
    unref(st, a);
    CHECK_EQ(sk_store_alloc(st, 0, 40 * MIB, &off, &err), SK_EFULL); /* 48 MiB free, in two runs */
    CHECK(strcmp(err.msg, "store is full: need 40 MiB; 5.0 GiB of 5.0 GiB in use by 1 objects and "
                          "1 writers, largest free run 32 MiB; "
                          "release references or raise object_store_memory in init()") == 0);
    CHECK_EQ(sk_store_alloc(st, 0, 64 * MIB, &off, &err), SK_EFULL); /* more than all free bytes */
    CHECK(strstr(err.msg, "need 64 MiB") != NULL);
    CHECK_EQ(off, 77);
    CHECK(sk_store_check(st));
    unref(st, b);
    sk_store_destroy(st);
}

TEST(store_whole_segment_can_be_one_object) {
    struct sk_store *st = make(MIB);
    for (int round = 0; round < 3; round++) {
        CHECK_EQ(object(st, MIB), 0);
        sk_off off;
        CHECK_EQ(sk_store_alloc(st, 0, 1, &off, NULL), SK_EFULL);
        unref(st, 0);
        uint64_t len;
        if (round == 1) {
            CHECK(sk_store_take_punch(st, 4096, &off, &len));
            CHECK_EQ(len, MIB);
        }
    }
    sk_store_destroy(st);
}

TEST(store_punch_largest_first_and_merges_cold) {
    struct sk_store *st = make(MIB);
    sk_off o[8];
    for (int i = 0; i < 8; i++) o[i] = object(st, 8192u * (unsigned)(i + 1));
    unref(st, o[1]);
    unref(st, o[5]);
    unref(st, o[3]);
    sk_off off;
    uint64_t len;
    CHECK(!sk_store_take_punch(st, 8192 * 7, &off, &len));
    CHECK(sk_store_take_punch(st, 8192 * 3, &off, &len));
    CHECK_EQ(off, o[5]);
    CHECK_EQ(len, 8192 * 6);
    CHECK(sk_store_take_punch(st, 8192 * 3, &off, &len));
    CHECK_EQ(off, o[3]);
    CHECK(!sk_store_take_punch(st, 8192 * 3, &off, &len));
    unref(st, o[4]); /* cold o3, warm o4, cold o5 */
    CHECK(sk_store_take_punch(st, 8192 * 3, &off, &len));
    CHECK_EQ(off, o[4]);
    CHECK_EQ(len, 8192 * 5);
    CHECK(sk_store_check(st));
    CHECK_EQ(stats(st).warm_bytes, 8192 * 2);
    unref(st, o[7]); /* before the cold end */
    CHECK(sk_store_take_punch(st, 8192 * 8, &off, &len));
    CHECK_EQ(off, o[7]);
    CHECK(sk_store_check(st));
    sk_store_destroy(st);
}

/* True if fn aborts: a bug of the engine must abort rather than corrupt the bytes that others
 * map. */
static bool aborts(void (*fn)(struct sk_store *st), struct sk_store *st) {
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(3);
        fn(st);
        _exit(0);
    }
    int status = 0;
    CHECK(waitpid(pid, &status, 0) == pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
static void unref_unknown(struct sk_store *st) { sk_store_unref(st, 4096); }
static void unref_lease(struct sk_store *st) { sk_store_unref(st, 0); }
static void ref_inside(struct sk_store *st) { sk_store_ref(st, 128); }
static void unref_fine(struct sk_store *st) { sk_store_unref(st, 64); }

TEST(store_unknown_offsets_abort) {
    struct sk_store *st = make(MIB);
    CHECK_EQ(lease(st, 1, 64), 0);
    CHECK_EQ(object(st, 512), 64);
    CHECK(aborts(unref_unknown, st));
    CHECK(aborts(unref_lease, st));
    CHECK(aborts(ref_inside, st));
    CHECK(!aborts(unref_fine, st));
    sk_store_destroy(st);
}

/* number of operations that were refused memory in a small fixed program with every kind of
 * operation; each refusal must leave the book unchanged, and then the operation is repeated without
 * the fault */
static int refused;
static sk_rc again(const struct sk_store *st, sk_rc rc, const struct sk_store_stats *before) {
    CHECK(sk_store_check(st));
    if (rc == SK_ENOMEM) {
        struct sk_store_stats now = stats(st);
        CHECK(memcmp(before, &now, sizeof now) == 0);
        sk_mem_fail_at(0);
        refused++;
    }
    return rc;
}
#define DO(call)                                                          \
    do {                                                                  \
        struct sk_store_stats s_ = stats(st);                             \
        if (again(st, (call), &s_) == SK_ENOMEM) CHECK_EQ((call), SK_OK); \
    } while (0)

static void program(struct sk_store *st) {
    sk_off a, b, off[300];
    DO(sk_store_alloc(st, 1, 64 * 1024, &a, NULL));
    DO(sk_store_commit(st, 1, a + 1024, 1024, NULL)); /* the middle */
    DO(sk_store_commit(st, 1, a, 64, NULL));          /* the start */
    DO(sk_store_unlease(st, 1, a + 32 * 1024, 32 * 1024, NULL));
    for (uint64_t i = 0; i < 24; i++) { /* two map slots each: growth falls on the second, too */
        DO(sk_store_commit(st, 1, a + 4096 + i * 256, 64, NULL));
        /* one slot: even counts become odd */
        if (i == 3) DO(sk_store_commit(st, 1, a + 64, 64, NULL));
    }
    for (uint32_t i = 0; i < 300; i++) { /* grows every table */
        DO(sk_store_alloc(st, i % 7, 100 + i, &off[i], NULL));
        DO(sk_store_commit(st, i % 7, off[i], 100 + i, NULL));
        DO(sk_store_pin(st, i % 5, off[i]));
        DO(sk_store_pin(st, i % 5, off[i]));
    }
    for (uint32_t i = 0; i < 300; i += 2) sk_store_unref(st, off[i]);
    CHECK(sk_store_check(st));
    for (uint32_t i = 0; i < 5; i++) sk_store_proc_dead(st, i);
    CHECK(sk_store_check(st));
    sk_off p;
    uint64_t len;
    CHECK(sk_store_take_punch(st, 64, &p, &len));
    DO(sk_store_alloc(st, 9, 200 * 1024, &b, NULL));
    CHECK(sk_store_check(st));
}

TEST(store_refused_memory_changes_nothing) {
    int64_t base = sk_mem_bytes(SK_TAG_STORE);
    int n_refused = 0;
    bool saw_create = false;
    for (int64_t nth = 1;; nth++) {
        refused = 0;
        struct sk_store *st = NULL;
        sk_mem_fail_at(nth);
        sk_rc rc = sk_store_create(&st, MIB, NULL);
        if (rc != SK_OK) {
            CHECK_EQ(rc, SK_ENOMEM);
            CHECK(st == NULL);
            saw_create = true;
            sk_mem_fail_at(0);
        } else {
            program(st);
            sk_mem_fail_at(0);
            sk_store_destroy(st);
        }
        CHECK_EQ(sk_mem_bytes(SK_TAG_STORE), base);
        n_refused += refused;
        /* the fault is beyond the program's last allocation */
        if (rc == SK_OK && refused == 0) break;
    }
    CHECK(saw_create);
    CHECK(n_refused >= 10);
}

TEST(store_overflow) {
    /* the overflow has a second book, behind the first by offset, and gets only allocations that
     * are meant for it */
    struct sk_store *st = make(MIB);
    struct sk_err err;
    sk_off a, b, c, off;
    uint64_t len;
    CHECK_EQ(sk_store_alloc_overflow(st, 1, 100, &a, &err), SK_EFULL);
    CHECK_OK(sk_store_add_overflow(st, 8 * MIB, NULL));
    CHECK_EQ(sk_store_alloc(st, 1, 2 * MIB, &a, &err), SK_EFULL);
    CHECK_OK(sk_store_alloc_overflow(st, 1, 2 * MIB + 64, &a, &err));
    CHECK_OK(sk_store_alloc_overflow(st, 2, 100000, &b, &err));
    CHECK_OK(sk_store_alloc(st, 1, 1000, &c, &err));
    CHECK(a >= MIB && b >= MIB && c < MIB);
    CHECK_EQ(sk_store_overflow_used(st), 2 * MIB + 64 + SK_ALIGN(100000, 64));
    CHECK_EQ(sk_store_free_bytes(st), MIB - 1024);
    CHECK_EQ(sk_store_commit(st, 2, a, 100, &err), SK_EINVAL); /* not its own */
    CHECK_OK(sk_store_commit(st, 1, a, 2 * MIB + 64, &err));
    CHECK_OK(sk_store_pin(st, 3, a));
    sk_store_ref(st, a);
    sk_store_unref(st, a);
    sk_store_unref(st, a);
    CHECK_EQ(sk_store_pins(st, a), 1);
    CHECK(!sk_store_take_overflow(st, &off, &len));
    CHECK(!sk_store_unpin(st, 4, a));
    CHECK(sk_store_check(st));
    sk_store_proc_dead(st, 3);
    /* up to a border of 64 KiB, or to memory in use */
    CHECK(sk_store_take_overflow(st, &off, &len));
    CHECK(off == a && len == 2 * MIB + 64);
    CHECK(!sk_store_take_overflow(st, &off, &len));
    sk_store_proc_dead(st, 2);
    CHECK(sk_store_take_overflow(st, &off, &len));
    CHECK(off == 3 * MIB && len == SK_ALIGN(64 + 100000, 65536));
    CHECK_EQ(sk_store_overflow_used(st), 0);
    CHECK_OK(sk_store_unlease(st, 1, c, 1000, &err));
    CHECK(sk_store_check(st));
    sk_store_destroy(st);
}

TEST(store_dump_is_text_and_fits) {
    struct sk_store *st = make(5 * GIB);
    (void)object(st, 1000);
    (void)lease(st, 4, 3 * MIB);
    char buf[2048];
    sk_store_dump(st, buf, sizeof buf);
    CHECK(strstr(buf, "store 5.0 GiB") != NULL);
    CHECK(strstr(buf, "leased to 4") != NULL);
    CHECK(strstr(buf, "sealed refs 1 pins 0") != NULL);
    CHECK(strstr(buf, "cold") != NULL);
    for (size_t cap = 0; cap < 300; cap++) {
        memset(buf, 'x', sizeof buf);
        sk_store_dump(st, buf, cap);
        CHECK(cap == 0 || memchr(buf, 0, cap) != NULL);
        CHECK(buf[cap] == 'x');
    }
    sk_store_destroy(st);
}

TEST(store_human_units) {
    char b[24];
    CHECK(strcmp(sk_store_human(0, b), "0 B") == 0);
    CHECK(strcmp(sk_store_human(1023, b), "1023 B") == 0);
    CHECK(strcmp(sk_store_human(1024, b), "1.0 KiB") == 0);
    CHECK(strcmp(sk_store_human(64 * MIB, b), "64 MiB") == 0);
    CHECK(strcmp(sk_store_human(MIB - 1, b), "1.0 MiB") == 0);
    CHECK(strcmp(sk_store_human(5 * GIB, b), "5.0 GiB") == 0);
    CHECK(strcmp(sk_store_human(UINT64_MAX, b), "16 EiB") == 0);
}

/* test_store_spill.c - objects to disk and back: equality, freed space, quota, full disks, every
 * failing call, damage, death. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "store/spill_int.h"
#include "test.h"

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static uint64_t wakes;

static void wake(void *arg) {
    (void)arg;
    pthread_mutex_lock(&mu);
    wakes++;
    pthread_cond_broadcast(&woken);
    pthread_mutex_unlock(&mu);
}

static sk_rc create(struct sk_spill **sp, const char *a, const char *b, uint64_t quota,
                    struct sk_err *err) {
    const char *dirs[] = {a, b};
    return sk_spill_create(
        sp,
        &(struct sk_spill_conf){
            .dirs = dirs, .n_dirs = b ? 2 : 1, .quota_bytes = quota, .wake = wake},
        err);
}
static struct sk_spill *make(const char *dir, uint64_t quota) {
    struct sk_spill *sp;
    struct sk_err err;
    CHECK_OK_ERR(create(&sp, dir, NULL, quota, &err), &err);
    return sp;
}

static struct sk_spill_job *next(struct sk_spill *sp) {
    for (;;) {
        pthread_mutex_lock(&mu);
        uint64_t seen = wakes;
        pthread_mutex_unlock(&mu);
        struct sk_spill_job *j = sk_spill_next_done(sp);
        if (j) return j;
        pthread_mutex_lock(&mu);
        while (wakes == seen) pthread_cond_wait(&woken, &mu);
        pthread_mutex_unlock(&mu);
    }
}

struct thing {
    uint64_t id, len;
    uint8_t *bytes;
    struct sk_spill_at at;
};

static struct thing thing(uint64_t id, uint64_t len) {
    struct thing t = {.id = id, .len = len, .bytes = malloc(len ? len : 1)};
    uint64_t x = id * 0x9e3779b97f4a7c15u + 1;
    for (uint64_t i = 0; i < len; i++)
        t.bytes[i] = (uint8_t)((x = x * 6364136223846793005u + 1442695040888963407u) >> 56);
    return t;
}

static struct sk_spill_job *job_of(struct thing *t, uint32_t n, bool fresh) {
    struct sk_spill_job *j = sk_spill_job(n);
    if (!j) return NULL;
    for (uint32_t i = 0; i < n; i++)
        j->items[i] = (struct sk_spill_item){.id = t[i].id,
                                             .len = t[i].len,
                                             .at = t[i].at,
                                             .user = &t[i],
                                             .bytes = fresh ? calloc(1, t[i].len + 1) : t[i].bytes};
    return j;
}

static void written(struct sk_spill_job *j) {
    for (uint32_t i = 0; i < j->n; i++) ((struct thing *)j->items[i].user)->at = j->items[i].at;
}

static void check_read(struct sk_spill_job *j, bool must) {
    /* bytes that were read without an error are those that were written */
    for (uint32_t i = 0; i < j->n; i++) {
        struct thing *t = j->items[i].user;
        if (must) CHECK_MSG(j->items[i].rc == SK_OK, "%s", j->err.msg);
        if (j->items[i].rc == SK_OK) CHECK_MEM_EQ(j->items[i].bytes, t->bytes, t->len);
        free(j->items[i].bytes);
    }
}

static void write_now(struct sk_spill *sp, struct thing *t, uint32_t n) {
    struct sk_err err;
    struct sk_spill_job *j = job_of(t, n, false);
    CHECK_OK_ERR(sk_spill_write(sp, j, &err), &err);
    j = next(sp);
    CHECK_MSG(j->rc == SK_OK, "%s", j->err.msg);
    written(j);
    sk_free(j);
}

static struct sk_spill_job *read_now(struct sk_spill *sp, struct thing *t, uint32_t n) {
    struct sk_err err;
    CHECK_OK_ERR(sk_spill_read(sp, job_of(t, n, true), &err), &err);
    return next(sp);
}

static uint32_t names_in(const char *dir) {
    uint32_t n = 0;
    DIR *d = opendir(dir);
    CHECK(d);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static uint64_t disk_of(struct sk_spill *sp) {
    struct sk_spill_stats s;
    sk_spill_get_stats(sp, &s);
    return s.disk_bytes;
}

enum { N = 300 };

TEST_LARGE(spill_and_back, 60) {
    struct sk_spill *sp = make(test_dir(), 0);
    static struct thing t[N];
    CHECK(sk_spill_write_ns(sp) <= 0);
    int64_t begin = sk_now_ns();
    for (uint32_t i = 0; i < N; i++) {
        uint64_t len = i == 7        ? 0
                       : i % 50 == 3 ? (UINT64_C(4) << 20) + test_below(5 << 20)
                                     : test_below(i % 10 == 5 ? 900000 : 20000);
        t[i] = thing(1000 + i, len);
    }
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < N;) {
        uint32_t n = 1 + (uint32_t)test_below(40); /* SK_MIN would roll twice */
        n = SK_MIN(n, N - i);
        struct sk_err err;
        CHECK_OK_ERR(sk_spill_write(sp, job_of(t + i, n, false), &err), &err);
        i += n, jobs++;
    }
    while (jobs--) {
        struct sk_spill_job *j = next(sp);
        CHECK_MSG(j->rc == SK_OK, "%s", j->err.msg);
        written(j);
        sk_free(j);
    }
    double disk = (double)disk_of(sp), sec = (double)(sk_now_ns() - begin) / 1e9;
    CHECK(sk_spill_write_ns(sp) > 0 && sk_spill_write_ns(sp) * disk / 1e9 <= sec);
    CHECK_EQ(names_in(test_dir()), 0);
    for (int r = 0; r < 60; r++) { /* any objects, in any order */
        struct thing pick[50];
        uint32_t n = 1 + (uint32_t)test_below(50);
        for (uint32_t i = 0; i < n; i++) pick[i] = t[test_below(N)];
        struct sk_spill_job *j = read_now(sp, pick, n);
        check_read(j, true);
        sk_free(j);
    }
    struct sk_spill_stats s;
    sk_spill_get_stats(sp, &s);
    CHECK_EQ(s.n_written, N);
    CHECK_EQ(s.n_failed, 0);
    CHECK(s.disk_bytes >= s.written_bytes && s.disk_bytes < s.written_bytes + N * (128 + 4096));
    for (uint32_t i = 0; i < N; i++) sk_spill_drop(sp, &t[i].at, t[i].len);
    CHECK_EQ(disk_of(sp), 0);
    sk_spill_destroy(sp);
    for (uint32_t i = 0; i < N; i++) free(t[i].bytes);
}

static void wait_blocks(int fd, int64_t at_most) {
    struct stat st;
    int64_t until = test_patience();
    do {
        CHECK_EQ(fstat(fd, &st), 0);
        sched_yield();
    } while (st.st_blocks > at_most && sk_now_ns() < until);
    CHECK_LE(st.st_blocks, at_most);
}

TEST(spill_gives_disk_back) {
    struct sk_spill *sp = make(test_dir(), 0);
    struct thing t[4] = {thing(1, 1 << 20), thing(2, 1 << 20), thing(3, 1 << 20),
                         thing(4, 1 << 20)};
    for (int i = 0; i < 4; i++) write_now(sp, &t[i], 1);
    int fd = sp->places[0].cur->fd;
    struct stat st;
    CHECK_EQ(fstat(fd, &st), 0);
    CHECK_EQ(st.st_nlink, 0);
    CHECK_GE(st.st_blocks, 4 * 2048);
    for (int i = 0; i < 3; i++) sk_spill_drop(sp, &t[i].at, t[i].len);
    wait_blocks(fd, 2048 + 64);
    struct sk_spill_job *j = read_now(sp, &t[3], 1);
    check_read(j, true);
    sk_free(j);
    sk_spill_drop(sp, &t[3].at, t[3].len);
    wait_blocks(fd, 8);
    /* A file that is full, and whose objects are all gone, is closed. */
    sp->places[0].cur->end = UINT64_C(1) << 40;
    t[0] = (struct thing){.id = 1, .len = t[0].len, .bytes = t[0].bytes};
    write_now(sp, &t[0], 1);
    struct sk_spill_stats s;
    sk_spill_get_stats(sp, &s);
    CHECK_EQ(s.n_files, 1);
    sk_spill_destroy(sp);
    for (int i = 0; i < 4; i++) free(t[i].bytes);
}

/* Half of many small objects are dropped, every second one or in runs: disk space is freed before
 * any whole range is empty, and the other objects stay whole. */
TEST_LARGE(spill_holes, 60) {
    enum { SMALL = 400 };
    static struct thing t[SMALL];
    for (int pattern = 0; pattern < 3; pattern++) {
        struct sk_spill *sp = make(test_dir(), 0);
        for (uint32_t i = 0; i < SMALL; i++)
            t[i] = thing(i + 1, pattern == 2 ? 100 + test_below(30000) : 10000);
        write_now(sp, t, SMALL);
        int fd = sp->places[0].cur->fd;
        uint64_t all = disk_of(sp), left = 0;
        for (uint32_t i = 0; i < SMALL; i++) {
            bool goes = pattern == 0 ? i % 2 : pattern == 1 ? i / 50 % 2 : test_below(2);
            if (goes) sk_spill_drop(sp, &t[i].at, t[i].len);
            else left += t[i].len + 64;
        }
        CHECK_LT(disk_of(sp), all);
        if (pattern == 1) CHECK_LE(disk_of(sp), left * 3 / 2);
        wait_blocks(fd, (blkcnt_t)(disk_of(sp) / 512 + 64));
        for (uint32_t i = 0; i < SMALL; i++) {
            if (!t[i].at.stretch) continue;
            struct sk_spill_job *j = read_now(sp, &t[i], 1);
            check_read(j, true);
            sk_free(j);
        }
        for (uint32_t i = 0; i < SMALL; i++) sk_spill_drop(sp, &t[i].at, t[i].len);
        CHECK_EQ(disk_of(sp), 0);
        wait_blocks(fd, 8);
        sk_spill_destroy(sp);
        for (uint32_t i = 0; i < SMALL; i++) free(t[i].bytes);
    }
}

/* An object that is dropped while it is read keeps its pages until the read is over; without memory
 * for a hole it is made later. */
TEST(spill_holes_and_reads) {
    static struct thing t[40];
    struct sk_spill *sp = make(test_dir(), 0);
    struct sk_err err;
    for (uint32_t i = 0; i < 40; i++) t[i] = thing(i + 1, 10000);
    write_now(sp, t, 40);
    struct sk_spill_job *j = job_of(t, 20, true);
    CHECK_OK_ERR(sk_spill_read(sp, j, &err), &err);
    CHECK_OK(sk_fault_set("spill.holes", SK_FAULT_FAIL, 1));
    uint64_t all = disk_of(sp);
    for (uint32_t i = 0; i < 20; i++) sk_spill_drop(sp, &t[i].at, t[i].len);
    CHECK_EQ(disk_of(sp), all);
    j = next(sp);
    check_read(j, true);
    sk_free(j);
    CHECK(sk_fault_fired());
    sk_fault_clear();
    sk_spill_drop(sp, &t[20].at, t[20].len);
    CHECK_LE(disk_of(sp), all * 3 / 4);
    for (uint32_t i = 21; i < 40; i++) {
        j = read_now(sp, &t[i], 1);
        check_read(j, true);
        sk_free(j);
    }
    sk_spill_destroy(sp);
    for (uint32_t i = 0; i < 40; i++) free(t[i].bytes);
}

static uint32_t in_place(const struct thing *t, uint32_t n, const struct sk_spill_place *p) {
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++) k += t[i].at.stretch->file->place == p;
    return k;
}

/* Jobs use the directories in turn; a full one is skipped without an error, until all are full:
 * then one error is raised. */
TEST(spill_directories_in_turn) {
    char other[512];
    struct thing t[12];
    struct sk_spill *sp;
    struct sk_err err;
    snprintf(other, sizeof other, "%s/b", test_dir());
    CHECK_OK_ERR(create(&sp, test_dir(), other, 0, &err), &err);
    for (uint32_t i = 0; i < 12; i++) t[i] = thing(i + 1, 300000);
    for (uint32_t i = 0; i < 6; i++) write_now(sp, &t[i], 1);
    CHECK_EQ(in_place(t, 6, &sp->places[0]), 3);
    CHECK_EQ(in_place(t, 6, &sp->places[1]), 3);
    CHECK_OK(sk_fault_set("spill.nospace", SK_FAULT_FAIL, 1)); /* the next directory, once */
    uint64_t before = disk_of(sp);
    for (uint32_t i = 6; i < 9; i++) write_now(sp, &t[i], 1);
    CHECK(sk_fault_fired());
    sk_fault_clear();
    /* the first objects went to the second directory, which was not full */
    CHECK_GE(in_place(t + 6, 3, &sp->places[1]), 2);
    CHECK_EQ(disk_of(sp) - before, before / 2);
    CHECK_OK(sk_fault_set("spill.nospace", SK_FAULT_FAIL, 0));
    struct sk_spill_job *j = job_of(&t[9], 1, false);
    CHECK_OK(sk_spill_write(sp, j, &err));
    CHECK_EQ(next(sp), j);
    CHECK_RC(j->rc, SK_ENOSPC);
    CHECK_EQ(j->items[0].at.stretch, NULL);
    sk_fault_clear();
    /* all directories have failed recently: they are tried again all the same */
    CHECK_OK(sk_spill_write(sp, j, &err));
    CHECK_EQ(next(sp), j);
    CHECK_RC(j->rc, SK_OK);
    written(j);
    sk_free(j);
    for (uint32_t i = 0; i < 10; i++) {
        j = read_now(sp, &t[i], 1);
        check_read(j, true);
        sk_free(j);
        sk_spill_drop(sp, &t[i].at, t[i].len);
    }
    CHECK_EQ(disk_of(sp), 0);
    sk_spill_destroy(sp);
    for (uint32_t i = 0; i < 12; i++) free(t[i].bytes);
}

/* Parts of objects are read by several jobs at once, whose items several threads share: each part
 * has the bytes that were written, and a changed byte is an error of exactly the parts that have
 * it. */
TEST(spill_parts) {
    enum { OBJECTS = 12, PARTS = 200, JOBS = 4 };
    struct sk_spill *sp = make(test_dir(), 0);
    struct sk_err err;
    struct thing t[OBJECTS];
    uint64_t changed = 0; /* of object 3 */
    for (uint32_t i = 0; i < OBJECTS; i++)
        t[i] = thing(70 + i, 1 + test_below(i % 3 == 0 ? 2000000 : 30000));
    write_now(sp, t, OBJECTS);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t k = 0; k < JOBS; k++) {
            struct sk_spill_job *j = sk_spill_job(PARTS);
            for (uint32_t i = 0; i < PARTS; i++) {
                struct thing *x = &t[test_below(OBJECTS)];
                uint64_t at = test_below(x->len),
                         n = 1 + test_below(SK_MIN(x->len - at, i % 20 == 0 ? 1500000u : 40000u));
                j->items[i] = (struct sk_spill_item){.id = x->id,
                                                     .len = x->len,
                                                     .at = x->at,
                                                     .user = x,
                                                     .part_at = at,
                                                     .part_len = n,
                                                     .bytes = malloc(n)};
            }
            CHECK_OK_ERR(sk_spill_read(sp, j, &err), &err);
        }
        for (uint32_t k = 0; k < JOBS; k++) {
            struct sk_spill_job *j = next(sp);
            for (uint32_t i = 0; i < PARTS; i++) {
                struct sk_spill_item *x = &j->items[i];
                struct thing *of = x->user;
                uint64_t first = x->part_at / SK_SPILL_CHUNK,
                         last = (x->part_at + x->part_len - 1) / SK_SPILL_CHUNK;
                bool bad = round && of == &t[3] && first <= changed / SK_SPILL_CHUNK &&
                           changed / SK_SPILL_CHUNK <= last;
                CHECK_MSG(x->rc == (bad ? SK_ECORRUPT : SK_OK), "part %llu + %llu of %llu: %s",
                          (unsigned long long)x->part_at, (unsigned long long)x->part_len,
                          (unsigned long long)of->len, j->err.msg);
                if (!bad) CHECK_MEM_EQ(x->bytes, of->bytes + x->part_at, x->part_len);
                free(x->bytes);
            }
            sk_free(j);
        }
        if (round) break;
        changed = test_below(t[3].len);
        int fd = sp->places[0].cur->fd;
        uint8_t byte;
        off_t where = (off_t)(t[3].at.off + sk_spill_chunk_at(changed / SK_SPILL_CHUNK) +
                              SK_SPILL_SUM + changed % SK_SPILL_CHUNK);
        CHECK_EQ(fcntl(fd, F_SETFL, 0), 0); /* not O_DIRECT: any byte */
        CHECK_EQ(pread(fd, &byte, 1, where), 1);
        CHECK_EQ(byte, t[3].bytes[changed]);
        byte ^= 1;
        CHECK_EQ(pwrite(fd, &byte, 1, where), 1);
    }
    for (uint32_t i = 0; i < OBJECTS; i++) {
        sk_spill_drop(sp, &t[i].at, t[i].len);
        free(t[i].bytes);
    }
    CHECK_EQ(disk_of(sp), 0);
    sk_spill_destroy(sp);
}

TEST(spill_quota) {
    struct sk_spill *sp = make(test_dir(), 3 << 20);
    struct thing t[3] = {thing(1, 1000000), thing(2, 1000000), thing(3, 1500000)};
    struct sk_err err;
    write_now(sp, &t[0], 1);
    write_now(sp, &t[1], 1);
    struct sk_spill_job *j = job_of(&t[2], 1, false);
    CHECK_RC(sk_spill_write(sp, j, &err), SK_ENOSPC);
    CHECK_STR_HAS(err.msg, "quota");
    sk_spill_drop(sp, &t[0].at, t[0].len);
    CHECK_OK(sk_spill_write(sp, j, &err)); /* the same job */
    j = next(sp);
    CHECK_RC(j->rc, SK_OK);
    sk_free(j);
    sk_spill_destroy(sp);
    for (int i = 0; i < 3; i++) free(t[i].bytes);
}

TEST(spill_sees_damage) {
    struct sk_spill *sp = make(test_dir(), 0);
    struct thing t[6];
    for (uint32_t i = 0; i < 6; i++) t[i] = thing(i + 1, 30000 + i);
    write_now(sp, t, 6);
    int fd = sp->places[0].cur->fd;
    uint8_t page[4096];
    uint8_t *bad = (uint8_t *)SK_ALIGN((uintptr_t)page, 1);
    CHECK_EQ(fcntl(fd, F_SETFL, 0), 0); /* not O_DIRECT: any byte */
    struct {
        uint32_t i;
        uint64_t at;
    } hit[] = {{1, 3}, {2, 12345}, {4, 30003}};
    for (size_t k = 0; k < SK_COUNT(hit); k++) {
        off_t at = (off_t)(t[hit[k].i].at.off + hit[k].at);
        CHECK_EQ(pread(fd, bad, 1, at), 1);
        bad[0] ^= 0x10;
        CHECK_EQ(pwrite(fd, bad, 1, at), 1);
    }
    struct sk_spill_job *j = read_now(sp, t, 6);
    CHECK_RC(j->rc, SK_ECORRUPT);
    for (uint32_t i = 0; i < 6; i++)
        CHECK_RC(j->items[i].rc, i == 1 || i == 2 || i == 4 ? SK_ECORRUPT : SK_OK);
    CHECK_STR_HAS(j->err.msg, "changed it");
    check_read(j, false);
    sk_free(j);
    struct thing swapped[2] = {t[0], t[3]}; /* two whole objects with exchanged places */
    swapped[0].at = t[3].at;
    j = read_now(sp, swapped, 1);
    CHECK_RC(j->items[0].rc, SK_ECORRUPT);
    check_read(j, false);
    sk_free(j);
    CHECK_EQ(ftruncate(fd, 40000), 0);
    j = read_now(sp, t, 6);
    CHECK_RC(j->items[0].rc, SK_OK);
    for (uint32_t i = 1; i < 6; i++) CHECK_RC(j->items[i].rc, SK_ECORRUPT);
    check_read(j, false);
    sk_free(j);
    sk_spill_destroy(sp);
    for (uint32_t i = 0; i < 6; i++) free(t[i].bytes);
}

/* Runs with every fault point failing, one after the other: the result is an error or the whole
 * object; no memory leaks, and it works again afterwards. */
static bool work(struct sk_spill *sp, struct thing *t, uint32_t n) {
    struct sk_err err;
    struct sk_spill_job *j = job_of(t, n, false);
    if (!j) return false;
    sk_rc rc = sk_spill_write(sp, j, &err);
    if (rc == SK_OK) {
        j = next(sp);
        written(j);
        rc = j->rc;
        CHECK(rc == SK_OK || j->err.msg[0]);
    }
    sk_free(j);
    if (rc != SK_OK) return false;
    j = job_of(t, n, true);
    if (j && sk_spill_read(sp, j, &err) == SK_OK) {
        j = next(sp);
        rc = j->rc;
        check_read(j, false);
    } else {
        rc = SK_ENOMEM;
        for (uint32_t i = 0; j && i < n; i++) free(j->items[i].bytes);
    }
    sk_free(j);
    for (uint32_t i = 0; i < n; i++) sk_spill_drop(sp, &t[i].at, t[i].len);
    return rc == SK_OK;
}

TEST_LARGE(spill_each_failure, 30) {
    static const char *const point[] = {"spill.open",   "spill.write",  "spill.nospace",
                                        "spill.read",   "spill.thread", "spill.punch",
                                        "spill.corrupt"};
    struct thing t[5];
    for (uint32_t i = 0; i < 5; i++) t[i] = thing(i + 1, 1200000 + i);
    for (size_t p = 0; p < SK_COUNT(point); p++)
        for (int64_t nth = 1; nth < 10; nth++) {
            struct sk_spill *sp = make(test_dir(), 0);
            CHECK_OK(sk_fault_set(point[p], SK_FAULT_FAIL, nth));
            bool fine = work(sp, t, 5);
            bool hit = sk_fault_fired();
            sk_fault_clear();
            CHECK(fine || hit);
            if (nth == 1 && p < 4) CHECK(hit && !fine);
            CHECK_EQ(disk_of(sp), 0);
            CHECK(work(sp, t, 5));
            sk_spill_destroy(sp);
            if (!hit) break;
        }
    for (int64_t nth = 1;; nth++) {
        sk_mem_fail_at(nth);
        struct sk_spill *sp = NULL;
        struct sk_err err;
        bool fine = create(&sp, test_dir(), NULL, 0, &err) == SK_OK && work(sp, t, 5);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK(fine || hit);
        if (sp) {
            CHECK_EQ(disk_of(sp), 0);
            CHECK(work(sp, t, 5));
        }
        sk_spill_destroy(sp);
        if (!hit) break;
    }
    for (uint32_t i = 0; i < 5; i++) free(t[i].bytes);
}

static void full_disk(const char *dir) {
    struct sk_spill *sp = make(dir, 0);
    struct thing t[4];
    uint32_t n_full = 0;
    for (uint32_t i = 0; i < 4; i++) {
        t[i] = thing(i + 1, 600000);
        struct sk_err err;
        CHECK_OK_ERR(sk_spill_write(sp, job_of(&t[i], 1, false), &err), &err);
        struct sk_spill_job *j = next(sp);
        if (j->rc != SK_OK) {
            CHECK_RC(j->rc, SK_ENOSPC);
            CHECK_STR_HAS(j->err.msg, dir);
            n_full++;
        }
        written(j);
        sk_free(j);
    }
    CHECK(n_full >= 1 && n_full <= 3);
    for (uint32_t i = 0; i < 4; i++) { /* the written objects are whole */
        if (!t[i].at.stretch) continue;
        struct sk_spill_job *j = read_now(sp, &t[i], 1);
        check_read(j, true);
        sk_free(j);
    }
    sk_spill_destroy(sp);
    for (uint32_t i = 0; i < 4; i++) free(t[i].bytes);
}

TEST(spill_file_size_limit) {
    struct rlimit r = {1 << 20, 1 << 20}, was;
    CHECK_EQ(getrlimit(RLIMIT_FSIZE, &was), 0);
    r.rlim_max = was.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &r), 0);
    full_disk(test_dir());
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &was), 0);
}

TEST(spill_full_tmpfs) {
    if (mount("tmpfs", test_dir(), "tmpfs", 0, "size=1536k") != 0)
        test_skip("mounting a small tmpfs needs root");
    full_disk(test_dir());
    CHECK_EQ(umount(test_dir()), 0);
}

/* A bug: the quota of such a disk was nine tenths of 0 for ever. */
TEST(spill_disk_that_was_full_at_first) {
    if (mount("tmpfs", test_dir(), "tmpfs", 0, "size=4m") != 0)
        test_skip("mounting a small tmpfs needs root");
    static uint8_t bytes[4 << 20];
    char path[300];
    snprintf(path, sizeof path, "%s/others", test_dir());
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    memset(bytes, 1, sizeof bytes);
    CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) > 4000000);
    struct sk_spill *sp = make(test_dir(), SK_SPILL_QUOTA_FREE);
    struct thing t = thing(1, 600000);
    struct sk_err err;
    struct sk_spill_job *j = job_of(&t, 1, false);
    CHECK_RC(sk_spill_write(sp, j, &err), SK_ENOSPC);
    CHECK_STR_HAS(err.msg, "disk full");
    CHECK_EQ(ftruncate(fd, 0), 0);
    CHECK_OK_ERR(sk_spill_write(sp, j, &err), &err);
    j = next(sp);
    CHECK_RC(j->rc, SK_OK);
    written(j);
    sk_free(j);
    struct sk_spill_stats s;
    sk_spill_get_stats(sp, &s);
    CHECK(s.quota_bytes > 3000000 && s.quota_bytes < 4000000);
    sk_spill_destroy(sp);
    free(t.bytes);
    close(fd);
    CHECK_EQ(umount(test_dir()), 0);
}

TEST(spill_bad_directories) {
    char path[512];
    struct sk_spill *sp;
    struct sk_err err;
    CHECK_RC(create(&sp, "/proc/self/no/such", NULL, 0, &err), SK_EIO);
    snprintf(path, sizeof path, "%s/file", test_dir());
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK(fd >= 0);
    close(fd);
    CHECK_RC(create(&sp, path, NULL, 0, &err), SK_EINVAL);
    CHECK_RC(create(&sp, test_dir(), path, 0, &err), SK_EINVAL); /* each must be good */
    CHECK_STR_HAS(err.msg, "not a directory");
    snprintf(path, sizeof path, "%s/new", test_dir());
    CHECK_RC(sk_spill_create(&sp, &(struct sk_spill_conf){0}, &err), SK_EINVAL);
    CHECK_OK(create(&sp, path, NULL, 0, &err));
    struct stat st;
    CHECK_EQ(stat(path, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0700);
    sk_spill_destroy(sp);
}

TEST(spill_killed_leaves_nothing) {
    for (int64_t nth = 1; nth < 4; nth++) {
        pid_t pid = fork();
        CHECK(pid >= 0);
        if (pid == 0) {
            struct thing t = thing(1, 5 << 20);
            struct sk_spill *sp = make(test_dir(), 0);
            if (sk_fault_set("spill.before_last_write", SK_FAULT_KILL, nth) != SK_OK) _exit(2);
            for (int i = 0; i < 5; i++) {
                t.at.stretch = NULL;
                write_now(sp, &t, 1);
            }
            _exit(1);
        }
        int status;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        CHECK_EQ(names_in(test_dir()), 0);
    }
}

TEST(spill_destroy_in_the_middle) {
    struct thing t[8];
    for (uint32_t i = 0; i < 8; i++) t[i] = thing(i + 1, 3 << 20);
    for (int r = 0; r < 4; r++) {
        struct sk_spill *sp = make(test_dir(), 0);
        struct sk_err err;
        for (uint32_t i = 0; i < 8; i++) {
            t[i].at.stretch = NULL;
            CHECK_OK(sk_spill_write(sp, job_of(&t[i], 1, false), &err));
        }
        for (int k = 0; k < r; k++) sk_free(next(sp));
        sk_spill_destroy(sp);
    }
    for (uint32_t i = 0; i < 8; i++) free(t[i].bytes);
}

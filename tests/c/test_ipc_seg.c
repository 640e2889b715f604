/* test_ipc_seg.c - memfd segments: sharing, seals, punching, warming, and every way they can be
 * refused. */
#include <inttypes.h>
#include <pthread.h>
#include <sys/stat.h>

#include "ipc_help.h"

#define MIB ((size_t)1 << 20)

static int64_t blocks(const struct sk_seg *s) {
    struct stat st;
    CHECK_EQ(fstat(s->fd, &st), 0);
    return (int64_t)st.st_blocks * 512;
}

TEST(seg_is_shared_and_closed) {
    int fds = count_fds();
    struct sk_err err;
    struct sk_seg a = SK_SEG_EMPTY, b = SK_SEG_EMPTY;
    CHECK_OK_ERR(sk_seg_create(&a, "t", 10000, false, &err), &err);
    CHECK_EQ(a.size % (size_t)sysconf(_SC_PAGESIZE), 0);
    CHECK_GE(a.size, 10000);
    CHECK(fcntl(a.fd, F_GETFD) & FD_CLOEXEC);
    struct stat st;
    CHECK_EQ(fstat(a.fd, &st), 0);
    CHECK_EQ(st.st_mode & 0777, 0600);
    int inherited = dup(a.fd); /* dup() clears close-on-exec, as for an inherited descriptor */
    CHECK_OK_ERR(sk_seg_attach(&b, inherited, 10000, false, &err), &err);
    CHECK(fcntl(b.fd, F_GETFD) & FD_CLOEXEC);
    CHECK_EQ(b.size, a.size);
    CHECK_NE(a.base, b.base);
    a.base[a.size - 1] = 7;
    CHECK_EQ(b.base[a.size - 1], 7);
    sk_seg_close(&a);
    CHECK_EQ(b.base[b.size - 1], 7);
    sk_seg_close(&a);
    sk_seg_close(&b);
    sk_seg_close(&b);
    CHECK_EQ(b.fd, -1);
    CHECK_EQ(count_fds(), fds);
}

TEST(seg_cannot_shrink) {
    struct sk_seg s;
    CHECK_OK(sk_seg_create(&s, "t", MIB, false, NULL));
    CHECK_EQ(ftruncate(s.fd, 4096), -1);
    CHECK_EQ(errno, EPERM);
    CHECK(fcntl(s.fd, F_GET_SEALS) & F_SEAL_SHRINK);
    sk_seg_close(&s);
}

TEST(seg_is_sparse) {
    struct sk_seg s;
    CHECK_OK(sk_seg_create(&s, "t", (size_t)64 << 30, true, NULL));
    CHECK_EQ(blocks(&s), 0);
    s.base[s.size - 1] = 1;
    CHECK_LE(blocks(&s), 2 * MIB);
    CHECK_EQ((uintptr_t)s.base % (2 * MIB), 0);
    sk_seg_close(&s);
}

static int file(size_t len) {
    char path[] = "/tmp/sk_tail_XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0 && unlink(path) == 0 && ftruncate(fd, (off_t)len) == 0);
    return fd;
}

/* A file mapped behind the memory: in one address range, for two processes, with disk space
 * allocated on request. */
TEST(seg_tail) {
    int fds = count_fds();
    struct sk_err err;
    struct sk_seg a = SK_SEG_EMPTY, b = SK_SEG_EMPTY;
    void *at = NULL;
    CHECK_OK_ERR(sk_seg_create(&a, "t", 2 * MIB, true, &err), &err);
    CHECK_RC(sk_seg_tail(&a, "t", file(MIB), 2 * MIB, &err), SK_ECORRUPT);
    CHECK_OK(sk_fault_set("seg.tail", SK_FAULT_FAIL, 1));
    CHECK_RC(sk_seg_tail(&a, "t", file(MIB), MIB, &err), SK_ENOMEM);
    CHECK_OK(sk_fault_set("seg.mmap", SK_FAULT_FAIL, 1));
    CHECK_RC(sk_seg_tail(&a, "t", file(MIB), MIB, &err), SK_ENOMEM);
    sk_fault_clear();
    CHECK_EQ(a.tail, 0);
    CHECK_EQ(count_fds(), fds + 1);
    CHECK_OK_ERR(sk_seg_tail(&a, "t", file(8 * MIB), 8 * MIB, &err), &err);
    CHECK_EQ((uintptr_t)a.base % (2 * MIB), 0);
    CHECK_OK_ERR(sk_seg_attach(&b, dup(a.fd), 2 * MIB, true, &err), &err);
    CHECK_OK_ERR(sk_seg_tail(&b, "t", dup(a.tail_fd), 8 * MIB, &err), &err);
    CHECK_OK_ERR(sk_seg_fill(&a, 3 * MIB, MIB, &err), &err);
    struct stat st;
    CHECK(fstat(a.tail_fd, &st) == 0 && (size_t)st.st_blocks * 512 >= MIB);
    memset(a.base + 3 * MIB, 5, MIB);
    a.base[0] = 6;
    CHECK(b.base[3 * MIB] == 5 && b.base[4 * MIB - 1] == 5 && b.base[0] == 6);
    CHECK_OK_ERR(sk_seg_window(&b, 3 * MIB + 100, 1000, false, &at, &err), &err);
    memset(at, 7, 1000);
    CHECK(a.base[3 * MIB + 99] == 5 && a.base[3 * MIB + 100] == 7 && a.base[3 * MIB + 1100] == 5);
    sk_seg_window_close(at, 1000);
    int fd;
    uint64_t in_file;
    CHECK_OK_ERR(sk_seg_file(&a, 3 * MIB + 100, 1000, &fd, &in_file, &err), &err); /* of the tail */
    CHECK(fd == a.tail_fd && in_file == MIB + 100);
    CHECK_OK_ERR(sk_seg_file(&a, MIB, MIB, &fd, &in_file, &err), &err);
    CHECK(fd == a.fd && in_file == MIB);
    CHECK_RC(sk_seg_file(&a, 2 * MIB - 1, 2, &fd, &in_file, &err), SK_EINVAL);
    CHECK_RC(sk_seg_file(&a, UINT64_MAX, 2, &fd, &in_file, &err), SK_EINVAL);
    CHECK_EQ(sk_seg_warm(&a, 2 * MIB, 4 * MIB), 0);
    CHECK_LE(sk_seg_present(&a), 2 * MIB);
    CHECK_OK_ERR(sk_seg_punch(&a, 3 * MIB, MIB, &err), &err);
    CHECK(fstat(a.tail_fd, &st) == 0 && (size_t)st.st_blocks * 512 < MIB);
    /* memory; across the border; behind the end */
    CHECK_RC(sk_seg_fill(&a, MIB, MIB, &err), SK_EINVAL);
    CHECK_RC(sk_seg_fill(&a, 2 * MIB - 4096, 8192, &err), SK_EINVAL);
    CHECK_RC(sk_seg_fill(&a, 10 * MIB - 4096, 8192, &err), SK_EINVAL);
    CHECK_RC(sk_seg_punch(&a, 2 * MIB - 4096, 8192, &err), SK_EINVAL);
    CHECK_RC(sk_seg_punch(&a, UINT64_MAX, 8192, &err), SK_EINVAL);
    CHECK_OK(sk_fault_set("seg.fill", SK_FAULT_FAIL, 1));
    CHECK_RC(sk_seg_fill(&a, 3 * MIB, MIB, &err), SK_ENOSPC);
    sk_fault_clear();
    sk_seg_close(&a);
    sk_seg_close(&b);
    CHECK_EQ(count_fds(), fds);
}

/* True if /proc says that core dumps leave out the mapping of this address; -1: it does not say. */
static int left_out(const void *at) {
    FILE *f = fopen("/proc/self/smaps", "r");
    char line[512];
    int found = -1;
    bool here = false;
    while (f && fgets(line, sizeof line, f)) {
        uintptr_t from, to;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
            here = (uintptr_t)at >= from && (uintptr_t)at < to;
        else if (here && strncmp(line, "VmFlags:", 8) == 0) found = strstr(line, " dd") != NULL;
    }
    if (f) (void)fclose(f);
    return found;
}

TEST(seg_of_data_is_left_out_of_core_dumps) {
    struct sk_err err;
    struct sk_seg data = SK_SEG_EMPTY, ctl = SK_SEG_EMPTY;
    CHECK_OK_ERR(sk_seg_create(&data, "t", 2 * MIB, true, &err), &err);
    CHECK_OK_ERR(sk_seg_create(&ctl, "t", 2 * MIB, false, &err), &err);
    bool told = left_out(ctl.base) >= 0; /* not where an emulator makes the file */
    CHECK_EQ(left_out(ctl.base), told ? 0 : -1);
    CHECK_EQ(left_out(data.base), told ? 1 : -1);
    CHECK_OK_ERR(sk_seg_tail(&data, "t", file(MIB), MIB, &err), &err);
    CHECK_EQ(left_out(data.base), told ? 1 : -1);
    CHECK_EQ(left_out(data.base + 2 * MIB), told ? 1 : -1);
    sk_seg_close(&data);
    sk_seg_close(&ctl);
}

TEST(seg_refusals) {
    struct sk_err err;
    struct sk_seg s = SK_SEG_EMPTY, a;
    CHECK_RC(sk_seg_create(&s, "t", 0, false, &err), SK_EINVAL);
    CHECK_RC(sk_seg_create(&s, "t", SIZE_MAX, false, &err), SK_EINVAL);
    /* no address space is so large */
    CHECK_RC(sk_seg_create(&s, "t", SIZE_MAX / 4, false, &err) == SK_OK, false);
    CHECK_EQ(s.fd, -1);
    CHECK_OK(sk_seg_create(&a, "t", MIB, false, NULL));
    int fds = count_fds(), fd = dup(a.fd);
    CHECK_RC(sk_seg_attach(&s, fd, 2 * MIB, false, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "1048576");
    CHECK_EQ(fcntl(fd, F_GETFD), -1); /* taken, so closed */
    CHECK_RC(sk_seg_attach(&s, -1, MIB, false, &err), SK_EINVAL);
    CHECK_RC(sk_seg_attach(&s, dup(a.fd), 0, false, &err), SK_EINVAL);
    CHECK_EQ(s.fd, -1);
    CHECK(s.base == NULL);
    CHECK_EQ(count_fds(), fds);
    sk_seg_close(&a);
}

TEST(seg_survives_each_fault) {
    int fds = count_fds();
    int64_t n = 1;
    for (bool fired = true; fired; n++) {
        struct sk_seg a = SK_SEG_EMPTY, b = SK_SEG_EMPTY;
        struct sk_err err;
        CHECK_OK(sk_fault_set("*", SK_FAULT_FAIL, n));
        sk_rc rc = sk_seg_create(&a, "t", 4 * MIB, true, &err);
        if (rc == SK_OK) rc = sk_seg_attach(&b, dup(a.fd), 4 * MIB, true, &err);
        if (rc == SK_OK) (void)sk_seg_warm(&b, 0, b.size);
        if (rc == SK_OK) rc = sk_seg_punch(&b, 0, b.size, &err);
        fired = sk_fault_fired();
        sk_fault_clear();
        if (!fired) CHECK_OK(rc);
        sk_seg_close(&a);
        sk_seg_close(&b);
        CHECK_EQ(count_fds(), fds);
    }
    CHECK_GE(n - 2, 7); /* memfd, truncate, mode, map twice, warm, punch */
}

TEST(seg_punch_gives_back_whole_pages_only) {
    struct sk_seg s;
    struct sk_err err;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_OK(sk_seg_create(&s, "t", MIB, false, NULL));
    memset(s.base, 9, MIB);
    int64_t before = blocks(&s);
    CHECK_OK_ERR(sk_seg_punch(&s, page + 1, 3 * page, &err), &err); /* holds two whole pages */
    CHECK_EQ(blocks(&s), before - (int64_t)(2 * page));
    for (size_t i = 0; i < 6 * page; i++)
        CHECK_EQ(s.base[i], i / page == 2 || i / page == 3 ? 0 : 9);
    CHECK_OK(sk_seg_punch(&s, page + 1, page, NULL)); /* none */
    CHECK_OK(sk_seg_punch(&s, 0, 0, NULL));
    CHECK_OK(sk_seg_punch(&s, MIB, 0, NULL));
    CHECK_EQ(s.base[page + 1], 9);
    CHECK_RC(sk_seg_punch(&s, 0, MIB + 1, &err), SK_EINVAL);
    CHECK_RC(sk_seg_punch(&s, MIB + 1, 0, &err), SK_EINVAL);
    CHECK_RC(sk_seg_punch(&s, UINT64_MAX - page, 2 * page, &err), SK_EINVAL);
    CHECK_RC(sk_seg_punch(&s, page, SIZE_MAX, &err), SK_EINVAL);
    CHECK_OK(sk_seg_punch(&s, 0, MIB, NULL));
    CHECK_EQ(blocks(&s), 0);
    sk_seg_close(&s);
}

TEST(seg_warm_keeps_bytes) {
    struct sk_seg s;
    size_t size = 16 * MIB;
    CHECK_OK(sk_seg_create(&s, "t", size, true, NULL));
    /* some pages here and there */
    for (size_t i = 0; i < size; i += 12345) s.base[i] = (uint8_t)i | 1;
    CHECK_EQ(sk_seg_warm(&s, 2 * MIB - 4096, 12 * 4096), 0); /* a few pages only */
    CHECK_EQ(sk_seg_warm(&s, 8 * MIB, 12 * 4096), 0);
    /* the first of four units is missing one page here */
    size_t got = sk_seg_warm(&s, 2 * MIB - 4096, 6 * MIB);
    CHECK_EQ(got % (2 * MIB), 0);
    CHECK_LE(got, 6 * MIB);
    got += sk_seg_warm(&s, 1, size - 1);
    CHECK_LE(got, size);
    CHECK_GE(blocks(&s), got);
    if (got == size) CHECK_EQ(sk_seg_warm(&s, 0, size), 0); /* it is there */
    for (size_t i = 0; i < size; i++)
        if (i % 12345 == 0) CHECK_EQ(s.base[i], (uint8_t)i | 1);
        else CHECK_EQ(s.base[i], 0);
    CHECK_EQ(sk_seg_warm(&s, 0, 2 * MIB - 1), 0);
    CHECK_EQ(sk_seg_warm(&s, UINT64_MAX, 2), 0);
    CHECK_EQ(sk_seg_warm(&s, 0, size + 1), 0);
    CHECK_EQ(sk_seg_warm(&s, size, 0), 0);
    printf("# warmed %zu of %zu bytes\n", got, size);
    sk_seg_close(&s);
}

TEST(seg_window_shares_until_it_is_own) {
    struct sk_seg s;
    struct sk_err err;
    size_t len = 5 * MIB + 77, page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK_OK(sk_seg_create(&s, "t", 16 * MIB, true, NULL));
    for (sk_off off = 64; off <= 9 * MIB; off = off * 3 + 64) {
        void *at = NULL;
        memset(s.base + off, 1, len);
        CHECK_OK_ERR(sk_seg_window(&s, off, len, false, &at, &err), &err);
        uint8_t *w = at;
        CHECK_EQ((uintptr_t)w % (2 * MIB), off % (2 * MIB));
        memset(w, 2, len); /* both are the same memory */
        CHECK_EQ(s.base[off], 2);
        CHECK_EQ(s.base[off + len - 1], 2);
        CHECK(s.base[off + len] != 2 || off + len >= s.size);
        s.base[off + 5] = 3;
        CHECK_EQ(w[5], 3);
        CHECK_OK_ERR(sk_seg_window(&s, off, len, true, &at, &err), &err);
        CHECK(at == w);
        CHECK_EQ(w[5], 3);
        CHECK_EQ(w[len - 1], 2);
        memset(w, 4, page); /* not visible in the file system */
        CHECK_EQ(s.base[off], 2);
        CHECK_EQ(s.base[off + 5], 3);
        CHECK_EQ(w[5], 4);
        sk_seg_window_close(w, len);
    }
    void *at = NULL;
    CHECK_EQ(sk_seg_window(&s, 0, 0, false, &at, NULL), SK_EINVAL);
    CHECK_EQ(sk_seg_window(&s, 1, s.size, false, &at, NULL), SK_EINVAL);
    CHECK_EQ(sk_seg_window(&s, UINT64_MAX, 2, false, &at, NULL), SK_EINVAL);
    CHECK_OK(sk_fault_set("seg.window", SK_FAULT_FAIL, 1));
    CHECK_EQ(sk_seg_window(&s, 0, 4 * MIB, false, &at, NULL), SK_ENOMEM);
    sk_fault_clear();
    CHECK(at == NULL);
    sk_seg_close(&s);
}

struct writer {
    struct sk_seg *s;
    _Atomic bool stop;
    uint64_t rounds;
};

static void *write_on(void *arg) {
    struct writer *w = arg;
    _Atomic uint64_t *p = (_Atomic uint64_t *)(void *)w->s->base;
    size_t n = w->s->size / 8;
    while (!atomic_load(&w->stop)) {
        w->rounds++;
        for (size_t i = 0; i < n; i += 500)
            atomic_store_explicit(&p[i], w->rounds, memory_order_relaxed);
        /* no write may be lost while the page under it is exchanged */
        for (size_t i = 0; i < n; i += 500)
            if (atomic_load_explicit(&p[i], memory_order_relaxed) != w->rounds) return w;
    }
    return NULL;
}

TEST(seg_warm_beside_a_writer) {
    struct sk_seg s;
    CHECK_OK(sk_seg_create(&s, "t", 8 * MIB, true, NULL));
    for (int i = 0; i < 20; i++) {
        struct writer w = {.s = &s};
        pthread_t th;
        CHECK_EQ(pthread_create(&th, NULL, write_on, &w), 0);
        for (int k = 0; k < 5; k++) (void)sk_seg_warm(&s, 0, s.size);
        atomic_store(&w.stop, true);
        void *lost;
        CHECK_EQ(pthread_join(th, &lost), 0);
        CHECK(lost == NULL);
        CHECK_OK(sk_seg_punch(&s, 0, s.size, NULL));
    }
    sk_seg_close(&s);
}

TEST(seg_warm_seen_by_another_process) {
    struct sk_seg s;
    CHECK_OK(sk_seg_create(&s, "t", 4 * MIB, true, NULL));
    (void)sk_seg_warm(&s, 0, s.size);
    memset(s.base, 5, s.size);
    pid_t pid = fork();
    if (pid == 0) {
        struct sk_seg r;
        CHECK_OK(sk_seg_attach(&r, dup(s.fd), 4 * MIB, true, NULL));
        for (size_t i = 0; i < r.size; i++) CHECK_EQ(r.base[i], 5);
        memset(r.base, 6, r.size);
        (void)sk_seg_warm(&r, 0, r.size);
        _exit(0);
    }
    CHECK_EQ(wait_exit(pid), 0);
    for (size_t i = 0; i < s.size; i++) CHECK_EQ(s.base[i], 6);
    sk_seg_close(&s);
}

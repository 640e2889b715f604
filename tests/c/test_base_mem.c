/* test_base_mem.c - the allocation ledger: counts by tag, failure of the nth allocation, alignment,
 * misuse. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "test.h"

TEST(mem_counts_by_tag) {
    int64_t before = sk_mem_bytes(SK_TAG_IPC);
    void *a = sk_alloc(SK_TAG_TEST, 100), *b = sk_calloc(SK_TAG_TEST, 28);
    CHECK(a && b);
    CHECK_EQ(sk_mem_bytes(SK_TAG_TEST), 128);
    CHECK_EQ(sk_mem_blocks(SK_TAG_TEST), 2);
    CHECK_EQ(sk_mem_size(a), 100);
    for (int i = 0; i < 28; i++) CHECK_EQ(((char *)b)[i], 0);
    a = sk_realloc(SK_TAG_IPC, a, 1000); /* changes its tag */
    CHECK(a);
    CHECK_EQ(sk_mem_bytes(SK_TAG_TEST), 28);
    CHECK_EQ(sk_mem_bytes(SK_TAG_IPC), before + 1000);
    CHECK_EQ(sk_mem_bytes(SK_TAG_N), before + 1028);
    sk_free(a);
    sk_free(b);
    sk_free(NULL);
    CHECK_EQ(sk_mem_bytes(SK_TAG_TEST), 0);
    CHECK_EQ(sk_mem_blocks(SK_TAG_N), 0);
    CHECK_STR_EQ(sk_tag_name(SK_TAG_ENGINE), "engine");
}

TEST(mem_realloc_keeps_content) {
    unsigned char *p = NULL;
    size_t have = 0;
    for (int i = 0; i < 300; i++) {
        size_t n = (size_t)test_below(5000);
        unsigned char *q = sk_realloc(SK_TAG_TEST, p, n);
        CHECK(q);
        for (size_t k = 0; k < SK_MIN(have, n); k++) CHECK_EQ(q[k], k % 251);
        for (size_t k = 0; k < n; k++) q[k] = (unsigned char)(k % 251);
        p = q;
        have = n;
        CHECK_EQ(sk_mem_bytes(SK_TAG_TEST), n);
    }
    sk_free(p);
}

TEST(mem_alignment) {
    for (size_t align = 16; align <= 4096; align *= 2) {
        void *p = sk_alloc_aligned(SK_TAG_TEST, align, 33);
        CHECK(p && (uintptr_t)p % align == 0);
        memset(p, 1, 33);
        sk_free(p);
    }
    for (size_t n = 0; n < 100; n++) {
        void *p = sk_alloc(SK_TAG_TEST, n);
        CHECK(p && (uintptr_t)p % 16 == 0);
        sk_free(p);
    }
}

TEST(mem_dup) {
    char *s = sk_strdup(SK_TAG_TEST, "h\xc3\xa9");
    int *v = sk_memdup(SK_TAG_TEST, &(int){7}, sizeof(int));
    CHECK_STR_EQ(s, "h\xc3\xa9");
    CHECK_EQ(*v, 7);
    sk_free(s);
    sk_free(v);
}

TEST(mem_nth_failure_is_once) {
    sk_mem_fail_at(3);
    void *p[5];
    for (int i = 0; i < 5; i++) {
        p[i] = sk_alloc(SK_TAG_TEST, 8);
        CHECK_EQ(p[i] == NULL, i == 2);
        CHECK_EQ(sk_mem_failed(), i >= 2);
    }
    sk_mem_fail_at(1);
    CHECK(!sk_realloc(SK_TAG_TEST, p[0], 100));
    CHECK_EQ(sk_mem_size(p[0]), 8); /* untouched */
    sk_mem_fail_at(1);
    CHECK(!sk_calloc(SK_TAG_TEST, 1));
    sk_mem_fail_at(1);
    CHECK(!sk_alloc_aligned(SK_TAG_TEST, 64, 1));
    sk_mem_fail_at(1);
    CHECK(!sk_strdup(SK_TAG_TEST, "x"));
    sk_mem_fail_at(0);
    CHECK(!sk_mem_failed());
    for (int i = 0; i < 5; i++) sk_free(p[i]);
}

TEST(mem_absurd_sizes_are_refused) {
    CHECK(!sk_alloc(SK_TAG_TEST, SIZE_MAX));
    CHECK(!sk_calloc(SK_TAG_TEST, SIZE_MAX - 15));
    CHECK(!sk_alloc_aligned(SK_TAG_TEST, 4096, SIZE_MAX - 100));
    void *p = sk_alloc(SK_TAG_TEST, 1);
    CHECK(!sk_realloc(SK_TAG_TEST, p, (size_t)PTRDIFF_MAX));
    sk_free(p);
}

TEST(mem_free_keeps_errno) {
    void *p = sk_alloc(SK_TAG_TEST, 1 << 20);
    errno = EPIPE;
    sk_free(p);
    CHECK_EQ(errno, EPIPE);
}

TEST(mem_foreign_pointer_aborts) {
    uint64_t not_ours[8] = {0};
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(freopen("/dev/null", "w", stderr));
        sk_free(&not_ours[4]);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void *churn(void *arg) {
    int rounds = *(int *)arg;
    void *p[16] = {0};
    for (int i = 0; i < rounds; i++) {
        sk_free(p[i % 16]);
        p[i % 16] = sk_alloc(i % 2 ? SK_TAG_TEST : SK_TAG_BASE, (size_t)(i % 97));
    }
    for (int i = 0; i < 16; i++) sk_free(p[i]);
    return NULL;
}

TEST(mem_counts_are_exact_with_threads) {
    pthread_t t[4];
    int rounds = test_rounds(20000);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&t[i], NULL, churn, &rounds), 0);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_join(t[i], NULL), 0);
    CHECK_EQ(sk_mem_bytes(SK_TAG_N), 0);
    CHECK_EQ(sk_mem_blocks(SK_TAG_N), 0);
}

static void *alloc_some(void *failed) {
    void *p[100];
    for (int i = 0; i < 100; i++) {
        p[i] = sk_alloc(SK_TAG_TEST, 1);
        if (!p[i]) atomic_fetch_add((_Atomic int *)failed, 1);
    }
    for (int i = 0; i < 100; i++) sk_free(p[i]);
    return NULL;
}

TEST(mem_nth_failure_hits_one_thread) {
    _Atomic int failed = 0;
    pthread_t t[4];
    sk_mem_fail_at(150);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_create(&t[i], NULL, alloc_some, &failed), 0);
    for (int i = 0; i < 4; i++) CHECK_EQ(pthread_join(t[i], NULL), 0);
    CHECK(sk_mem_failed());
    CHECK_EQ(failed, 1);
    sk_mem_fail_at(0);
}

static void *seen[8];
static int n_seen;
static void born(void *p) { seen[n_seen++] = p; }
static void gone(void *p) {
    int i = 0;
    while (i < n_seen && seen[i] != p) i++;
    CHECK(i < n_seen);
    seen[i] = seen[--n_seen];
}

TEST(mem_watch_sees_every_block) {
    sk_mem_watch(born, gone);
    char *a = sk_alloc(SK_TAG_TEST, 10), *b = sk_calloc(SK_TAG_TEST, 20),
         *c = sk_strdup(SK_TAG_TEST, "x"), *d = sk_alloc_aligned(SK_TAG_TEST, 64, 100);
    CHECK_EQ(n_seen, 4);
    a = sk_realloc(SK_TAG_TEST, a, 100000);
    CHECK_EQ(n_seen, 4);
    sk_mem_fail_at(1);
    CHECK(sk_realloc(SK_TAG_TEST, a, 200000) == NULL);
    sk_mem_fail_at(0);
    CHECK_EQ(n_seen, 4); /* the refused block is still allocated */
    sk_free(a), sk_free(b), sk_free(c), sk_free(d);
    CHECK_EQ(n_seen, 0);
    sk_mem_watch(NULL, NULL);
    sk_free(sk_alloc(SK_TAG_TEST, 1));
}

TEST(mem_large_is_as_any_other) {
    for (size_t n = 0; n < (size_t)100 << 20; n += (size_t)33 << 20) {
        uint8_t *p = sk_alloc_large(SK_TAG_TEST, n);
        CHECK(p != NULL);
        CHECK_EQ(sk_mem_size(p), n);
        for (size_t i = 0; i < n; i += 4096) p[i] = 1;
        if (n) p[n - 1] = 1;
        sk_free(p);
    }
    sk_mem_fail_at(1);
    CHECK(sk_alloc_large(SK_TAG_TEST, (size_t)64 << 20) == NULL);
    sk_mem_fail_at(0);
}

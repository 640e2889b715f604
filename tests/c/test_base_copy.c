/* test_base_copy.c - large copies: exactly the bytes of the range are written, also while other
 * threads copy; the callback is called once for each piece before the piece is written. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/copy.h"
#include "test.h"

#define MOST ((size_t)20 << 20)

struct told { /* ranges reported by both threads of one copy */
    uint8_t *dst;
    _Atomic size_t bytes, largest;
    pthread_t caller;
};

/* number of pieces that a helper thread copied, in all copies of this process */
static _Atomic size_t n_by_helper;

static void warm(void *ctx, void *at, size_t n) {
    struct told *t = ctx;
    size_t was = t->largest;
    CHECK((uint8_t *)at >= t->dst && (size_t)((uint8_t *)at - t->dst) + n <= MOST);
    atomic_fetch_add(&t->bytes, n);
    if (!pthread_equal(pthread_self(), t->caller)) atomic_fetch_add(&n_by_helper, 1);
    while (was < n && !atomic_compare_exchange_weak(&t->largest, &was, n)) {}
}

static void copy_once(uint8_t *dst, const uint8_t *src, size_t from, size_t n, bool two,
                      bool told) {
    struct told t = {.dst = dst, .caller = pthread_self()};
    memset(dst, 0xEE, MOST + 64);
    sk_copy_large(dst + from, src, n, two, told ? warm : NULL, &t);
    CHECK(memcmp(dst + from, src, n) == 0);
    CHECK((!from || dst[from - 1] == 0xEE) && dst[from + n] == 0xEE);
    CHECK_EQ(t.bytes, told ? n : 0);
    CHECK_LE(t.largest, 2u << 20);
}

static void *copies(void *arg) {
    const uint8_t *src = arg;
    uint8_t *dst = sk_alloc(SK_TAG_TEST, MOST + 64);
    CHECK(dst != NULL);
    static const size_t sizes[] = {
        0, 1, 4095, 1u << 20, (8u << 20) - 1, 8u << 20, (8u << 20) + 12345, MOST - 64};
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < SK_COUNT(sizes); i++)
            copy_once(dst, src, (size_t)round * 63, sizes[i], i % 3 != 0 || round,
                      (i + (size_t)round) & 1);
    sk_free(dst);
    return NULL;
}

TEST(copy_large_by_several_callers) {
    uint8_t *src = sk_alloc(SK_TAG_TEST, MOST);
    pthread_t other;
    CHECK(src != NULL);
    for (size_t i = 0; i + 8 <= MOST; i += 8) {
        uint64_t v = i * UINT64_C(0x9e3779b97f4a7c15) + test_seed();
        memcpy(src + i, &v, 8);
    }
    CHECK(pthread_create(&other, NULL, copies, src) == 0); /* one of them finds the helper busy */
    copies(src);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(n_by_helper > 0);
    pid_t child = fork();
    if (!child) { /* the child of a fork has no helper thread, and starts its own */
        sk_copy_forget();
        n_by_helper = 0;
        copies(src);
        CHECK(n_by_helper > 0);
        _exit(0);
    }
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    sk_free(src);
}

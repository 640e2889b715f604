/* copy.c - large copies: two threads from 8 MiB on, huge pages, and each thread warms the memory
 * that it writes.
 *
 * Invariant: the helper thread copies for one caller at a time; a caller that finds it busy copies
 * alone. The thread is created at the first large copy and lives as long as the process. The child
 * of a fork has none (sk_copy_forget). */
#include "base/copy.h"

#include <pthread.h>
#include <sys/mman.h>

#define TWO_COPY (8u << 20)
#define HUGE ((size_t)2 << 20)

struct job {
    sk_copy_warm warm;
    void *ctx;
    void *dst;
    const void *src;
    size_t n; /* bytes; 0: no job */
};

static struct { /* state of the helper thread */
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool started, failed, busy; /* busy: from a request until its caller has seen the end */
    struct job job;
} helper = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};

/* Copies one job in pieces that end at huge page boundaries. In fresh memory the first touch costs
 * more than the copy, so each piece is warmed by the thread that writes it. */
static void copy(const struct job *j) {
    uint8_t *dst = j->dst;
    const uint8_t *src = j->src;
    size_t n = j->n;
    for (size_t piece; n; dst += piece, src += piece, n -= piece) {
        piece = SK_MIN(n, (size_t)(SK_ALIGN((uintptr_t)dst + 1, HUGE) - (uintptr_t)dst));
        if (!j->warm) { /* this thread reads the destination next: copy through the cache */
            memcpy(dst, src, piece);
            continue;
        }
        j->warm(j->ctx, dst, piece);
        sk_copy(dst, src, piece);
    }
}

static void *helper_main(void *arg SK_UNUSED) {
    pthread_mutex_lock(&helper.mu);
    for (;;) {
        while (!helper.job.n) pthread_cond_wait(&helper.cv, &helper.mu);
        SK_ASSERT(helper.busy);
        struct job job = helper.job;
        pthread_mutex_unlock(&helper.mu);
        copy(&job);
        pthread_mutex_lock(&helper.mu);
        helper.job.n = 0;
        pthread_cond_broadcast(&helper.cv);
    }
    return NULL;
}

static bool helper_take(const struct job *job) {
    pthread_mutex_lock(&helper.mu);
    if (!helper.started && !helper.failed) {
        pthread_t th;
        pthread_attr_t at;
        pthread_attr_init(&at);
        pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
        helper.started = pthread_create(&th, &at, helper_main, NULL) == 0;
        helper.failed = !helper.started; /* callers then copy alone */
        pthread_attr_destroy(&at);
    }
    bool ok = helper.started && !helper.busy;
    if (ok) {
        helper.busy = true;
        helper.job = *job;
        pthread_cond_broadcast(&helper.cv);
    }
    pthread_mutex_unlock(&helper.mu);
    return ok;
}

static void helper_wait(void) {
    pthread_mutex_lock(&helper.mu);
    while (helper.job.n) pthread_cond_wait(&helper.cv, &helper.mu);
    helper.busy = false;
    pthread_mutex_unlock(&helper.mu);
}

void sk_copy_large(void *dst, const void *src, size_t n, bool two, sk_copy_warm warm, void *ctx) {
    size_t half = (size_t)SK_ALIGN(n / 2, 4096);
    struct job all = {warm, ctx, dst, src, n};
    struct job second = {warm, ctx, (uint8_t *)dst + half, (const uint8_t *)src + half, n - half};
    bool helped = two && n >= TWO_COPY && helper_take(&second);
    if (helped) all.n = half;
    copy(&all);
    if (helped) helper_wait();
}

void sk_copy_forget(void) {
    helper = (typeof(helper)){.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};
}

void sk_copy_hint(void *dst, size_t n) {
    if (n < 2 * HUGE) return;
    uintptr_t at = (uintptr_t)SK_ALIGN((uintptr_t)dst, HUGE), end = (uintptr_t)dst + n;
    /* a hint: errors do not matter */
    (void)madvise((void *)at, (size_t)(end - at) & ~(HUGE - 1), MADV_HUGEPAGE);
}

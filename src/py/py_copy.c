/* py_copy.c - large copies: two threads, huge pages, memory warmed by the thread that writes it.
 *
 * By two threads from 8 MiB (in a driver, which has a core to spare). Nothing here touches a Python object: the GIL may be held or dropped.
 * Invariant: the helper thread copies for one caller at a time; who finds it busy copies alone. In the child of a fork there is none. */
#include <pthread.h>
#include <sys/mman.h>

#include "base/copy.h"
#include "py/py_int.h"

#define TWO_COPY (8u << 20)
#define HUGE ((size_t)2 << 20)

static struct { /* the helper thread: made at the first large copy, lives as long as the process */
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool started, failed, busy; /* busy: between a request and its end */
    struct sk_engine *e;
    void *dst;
    const void *src;
    size_t n;
} helper = {.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER};

void py_warm(struct sk_engine *e, void *dst, size_t n) {
    if (e->ops->buf_warm) e->ops->buf_warm(e, dst, n);
}

/* Into fresh memory of the store the first touch costs more than the copy: huge page by huge page, warmed by the thread that writes it. */
static void copy_warm(struct sk_engine *e, uint8_t *dst, const uint8_t *src, size_t n) {
    for (size_t piece; n; dst += piece, src += piece, n -= piece) {
        piece = SK_MIN(n, (size_t)(SK_ALIGN((uintptr_t)dst + 1, HUGE) - (uintptr_t)dst));
        if (!e) { /* it is read next, here */
            memcpy(dst, src, piece);
            continue;
        }
        py_warm(e, dst, piece);
        sk_copy(dst, src, piece);
    }
}

static void *helper_main(void *arg SK_UNUSED) {
    pthread_mutex_lock(&helper.mu);
    for (;;) {
        while (!helper.n) pthread_cond_wait(&helper.cv, &helper.mu);
        struct sk_engine *e = helper.e;
        void *dst = helper.dst;
        const void *src = helper.src;
        size_t n = helper.n;
        pthread_mutex_unlock(&helper.mu);
        copy_warm(e, dst, src, n);
        pthread_mutex_lock(&helper.mu);
        helper.n = 0;
        pthread_cond_broadcast(&helper.cv);
    }
    return NULL;
}

static bool helper_take(struct sk_engine *e, void *dst, const void *src, size_t n) {
    pthread_mutex_lock(&helper.mu);
    if (!helper.started && !helper.failed) {
        pthread_t th;
        pthread_attr_t at;
        pthread_attr_init(&at);
        pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
        helper.started = pthread_create(&th, &at, helper_main, NULL) == 0;
        helper.failed = !helper.started; /* then one thread copies alone */
        pthread_attr_destroy(&at);
    }
    bool ok = helper.started && !helper.busy;
    if (ok) {
        helper.busy = true;
        helper.e = e;
        helper.dst = dst;
        helper.src = src;
        helper.n = n;
        pthread_cond_broadcast(&helper.cv);
    }
    pthread_mutex_unlock(&helper.mu);
    return ok;
}

static void helper_wait(void) {
    pthread_mutex_lock(&helper.mu);
    while (helper.n) pthread_cond_wait(&helper.cv, &helper.mu);
    helper.busy = false;
    pthread_mutex_unlock(&helper.mu);
}

void py_copy(struct py_state *st, struct sk_engine *e, void *dst, const void *src, size_t n) {
    size_t half = (size_t)SK_ALIGN(n / 2, 4096);
    if (n >= TWO_COPY && st->driver && helper_take(e, (uint8_t *)dst + half, (const uint8_t *)src + half, n - half)) {
        copy_warm(e, dst, src, half);
        helper_wait();
    } else if (n) {
        copy_warm(e, dst, src, n);
    }
}

void py_copy_forget(void) { helper = (typeof(helper)){.mu = PTHREAD_MUTEX_INITIALIZER, .cv = PTHREAD_COND_INITIALIZER}; }

void py_copy_hint(void *dst, size_t n) {
    if (n < 2 * HUGE) return;
    uintptr_t at = (uintptr_t)SK_ALIGN((uintptr_t)dst, HUGE), end = (uintptr_t)dst + n;
    (void)madvise((void *)at, (size_t)(end - at) & ~(HUGE - 1), MADV_HUGEPAGE); /* errors do not matter */
}

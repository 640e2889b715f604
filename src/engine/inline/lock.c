/* lock.c - the lock of the inline engine: recursive; a thread that waits or runs user code drops
 * it, however often it has taken it.
 *
 * Invariant: the lock is not held while user code runs. */
#include <time.h>

#include "engine/inline/inline_int.h"

/* number of tasks and destructors of actors on this thread's stack */
static _Thread_local uint32_t my_running;
static _Thread_local bool my_telling; /* a destructor runs on this thread */

bool sk_inline_is_running(void) { return my_running > 0; }

void sk_inline_user_begins(struct sk_inline *x) {
    x->n_running++;
    my_running++;
}

void sk_inline_user_ended(struct sk_inline *x) {
    SK_ASSERT(x->n_running && my_running);
    x->n_running--;
    my_running--;
}

bool sk_inline_others_run(const struct sk_inline *x) { return x->n_running > my_running; }

void sk_inline_lock(struct sk_inline *x) {
    if (pthread_equal(__atomic_load_n(&x->owner, __ATOMIC_RELAXED), pthread_self())) {
        x->depth++; /* the unlocked read is safe: only the owner can find its own id there */
        return;
    }
    pthread_mutex_lock(&x->mu);
    __atomic_store_n(&x->owner, pthread_self(), __ATOMIC_RELAXED);
    x->depth = 1;
}

static void let_go(struct sk_inline *x) {
    x->depth = 0;
    __atomic_store_n(&x->owner, (pthread_t)0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&x->mu);
}

void sk_inline_unlock(struct sk_inline *x) {
    if (x->depth > 1) {
        x->depth--;
        return;
    }
    while (x->gone.n && !my_telling) {
        /* Destructors are user code, so they run without the lock. Actors that they end are
         * handled by this loop. */
        sk_aid gone = {x->gone.p[--x->gone.n]};
        my_telling = true;
        sk_inline_user_begins(x);
        let_go(x);
        if (x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, gone);
        sk_inline_lock(x);
        sk_inline_user_ended(x);
        my_telling = false;
        pthread_cond_broadcast(&x->cv);
    }
    let_go(x);
}

void sk_inline_wait_unlocked(struct sk_inline *x, int64_t deadline_ns) {
    SK_ASSERT(x->depth == 1);
    x->depth = 0;
    __atomic_store_n(&x->owner, (pthread_t)0, __ATOMIC_RELAXED);
    x->n_waiting++;
    if (deadline_ns == INT64_MAX) {
        pthread_cond_wait(&x->cv, &x->mu);
    } else {
        struct timespec ts = {deadline_ns / 1000000000, deadline_ns % 1000000000};
        pthread_cond_timedwait(&x->cv, &x->mu, &ts);
    }
    x->n_waiting--;
    __atomic_store_n(&x->owner, pthread_self(), __ATOMIC_RELAXED);
    x->depth = 1;
    if (x->closed) pthread_cond_broadcast(&x->cv); /* close() waits for the waiters */
}

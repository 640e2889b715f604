/* futex.c - shared futex words and the bell that stands on them.
 *
 * A bell says "look again"; it does not say what happened.
 *
 * Invariant (no lost wake-up): a ringer adds to `seq` and then reads `asleep`; the sleeper sets
 * `asleep` and then reads `seq`; both pairs are sequentially consistent, so at least one of the two
 * sees the other. Between that read and the system call the kernel compares `seq` again. `asleep`
 * is cleared by a ringer only for a sleep that began before its ring (the token tells): that sleep
 * ends for certain, by the kernel's compare or by the wake, so clearing cannot hide a sleeper from
 * the next ringer.
 *
 * Cost: ring with the sleeper awake = one locked add and one load, no system call. */
#include "ipc/ipc.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/fault.h"

/* Spins before the first yield. A partner on another core answers sooner than this; after that the
 * partner may be waiting for this thread's core, so the spin yields. */
#define YIELD_AFTER_NS 20000

_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex word is 32 bits");

sk_rc sk_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns) {
    struct timespec ts, *until = NULL;
    if (deadline_ns != INT64_MAX) {
        int64_t d = SK_MAX(deadline_ns, 0);
        ts = (struct timespec){(time_t)(d / SK_SEC), (long)(d % SK_SEC)};
        until = &ts;
    }
    /* WAIT_BITSET takes an absolute CLOCK_MONOTONIC time, so a restart after a signal does not
     * lengthen the wait. */
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET, expected, until, NULL,
                FUTEX_BITSET_MATCH_ANY) == 0)
        return SK_OK;
    if (errno == ETIMEDOUT) return SK_ETIMEOUT;
    SK_ASSERT(errno == EAGAIN || errno == EINTR); /* anything else means a bad address, a bug */
    return SK_OK;
}

void sk_futex_wake(_Atomic uint32_t *word, int n) {
    /* a simulated machine polls its bells and needs no wake-up call */
    if (SK_UNLIKELY(sk_machine_ != NULL)) return;
    long r = syscall(SYS_futex, word, FUTEX_WAKE, n, NULL, NULL, 0);
    SK_ASSERT(r >= 0);
}

static inline uint32_t token_of(uint32_t seen) { return seen << 1 | 1; }

void sk_bell_ring(struct sk_bell *b) {
    uint32_t mine = sk_add_seq(&b->seq, 1) + 1;
    uint32_t t = sk_load_seq(&b->asleep);
    if (t == 0) return; /* the sleeper is awake, as usual: one add, no system call */
    SK_FAULT_HERE("bell.before_clear");
    /* Clears the token and wakes the sleeper only if the token is older than this ring (modulo
     * 2^31): a newer sleep has seen this ring in `seq`. If the exchange fails, another ringer wakes
     * the sleeper, or the sleeper is awake and reads `seq` before it sleeps again. */
    if ((int32_t)(t - token_of(mine)) < 0 && sk_cas_acqrel(&b->asleep, &t, 0))
        sk_futex_wake(&b->seq, INT_MAX);
}

/* Spins until seq differs from `seen` (true), or until spin_ns or the deadline is over (false). */
static bool bell_spin(struct sk_bell *b, uint32_t seen, int64_t spin_ns, int64_t deadline_ns) {
    int64_t start = sk_now_ns(), yielded = start;
    for (;;) {
        for (int i = 0; i < 16; i++) {
            if (sk_bell_seq(b) != seen) return true;
            sk_cpu_relax();
        }
        int64_t now = sk_now_ns();
        if (now - start >= spin_ns || now >= deadline_ns) return sk_bell_seq(b) != seen;
        if (now - yielded >= YIELD_AFTER_NS) {
            (void)sched_yield();
            yielded = now;
        }
    }
}

sk_rc sk_bell_wait(struct sk_bell *b, uint32_t seen, int64_t spin_ns, int64_t deadline_ns) {
    if (SK_UNLIKELY(sk_machine_ != NULL))
        return sk_machine_->bell_wait(sk_machine_->ctx, b, seen, deadline_ns);
    if (sk_bell_seq(b) != seen) return SK_OK;
    if (spin_ns > 0 && bell_spin(b, seen, spin_ns, deadline_ns)) return SK_OK;
    sk_rc rc = SK_OK;
    for (;;) {
        sk_store_seq(&b->asleep, token_of(seen));
        if (sk_load_seq(&b->seq) != seen) break;
        /* `seq` was read once more after the time-out, so a ring at the very deadline counts */
        if (rc == SK_ETIMEOUT) break;
        SK_FAULT_HERE("bell.before_sleep");
        rc = sk_futex_wait(&b->seq, seen, deadline_ns);
    }
    /* no thread sleeps now, so the next ringer needs no wake-up call */
    sk_store_relaxed(&b->asleep, 0);
    return sk_bell_seq(b) != seen ? SK_OK : SK_ETIMEOUT;
}

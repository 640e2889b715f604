/* clock.c - clock_gettime behind one name, with a virtual clock for tests of time-driven code.
 *
 * Pure parts do not call this: their callers pass them `now_ns`. Invariant: sk_now_ns never goes
 * back (for the virtual clock this is the test's duty). Cost: about 25 ns (vDSO) plus one
 * predictable branch. */
#include "base/clock.h"

#include <time.h>

#include "base/atomic.h"

static const _Atomic int64_t *_Atomic virtual_now;

static int64_t read_clock(clockid_t id) {
    struct timespec t;
    int rc = clock_gettime(id, &t);
    SK_ASSERT(rc == 0); /* fails only for a clock that the kernel lacks */
    return (int64_t)t.tv_sec * SK_SEC + t.tv_nsec;
}

int64_t sk_now_ns(void) {
    const _Atomic int64_t *v = sk_load_acq(&virtual_now);
    return SK_UNLIKELY(v != NULL) ? sk_load_acq(v) : read_clock(CLOCK_MONOTONIC);
}

int64_t sk_wall_ns(void) { return read_clock(CLOCK_REALTIME); }
int64_t sk_thread_cpu_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
void sk_clock_virtual(const _Atomic int64_t *now) { sk_store_rel(&virtual_now, now); }

/* clock.h - time in nanoseconds, as int64_t. A deadline is an absolute time of sk_now_ns();
 * INT64_MAX means that there is none. */
#ifndef SK_CLOCK_H
#define SK_CLOCK_H

#include "base/base.h"

#define SK_MS INT64_C(1000000)
#define SK_SEC INT64_C(1000000000)

/* Returns the time of CLOCK_MONOTONIC, which is the same for all processes of a machine, or of the
 * virtual clock if a test has set one. */
int64_t sk_now_ns(void);
/* Returns the time of CLOCK_REALTIME: for people and file names, never for a deadline. */
int64_t sk_wall_ns(void);
int64_t sk_thread_cpu_ns(void); /* CPU time used by the calling thread */

/* Test hook: from now on sk_now_ns reads *now in this process; NULL brings the real clock back.
 * `now` must stay valid as long as it is set. */
void sk_clock_virtual(const _Atomic int64_t *now);

/* The time `after_ns` from now, without overflow; a negative after_ns means no deadline. */
static inline int64_t sk_deadline_ns(int64_t after_ns) {
    if (after_ns < 0) return INT64_MAX;
    int64_t at;
    return __builtin_add_overflow(sk_now_ns(), after_ns, &at) ? INT64_MAX : at;
}

#endif

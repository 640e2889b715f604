/* fault.h - named points where a test may make something fail, wait, or kill the process.
 *
 *     if (SK_FAULT("store.seal")) return SK_ERR(err, SK_EIO, "seal: injected failure");     a point
 *     that can fail
 *     SK_FAULT_HERE("ring.commit.before_tail");                                              a
 *     point for kill and delay only
 *
 * Compiled in always: while no point is set, the cost is one predictable branch on a global. Names
 * are "<module>.<what>", string literals, unique. "*" in sk_fault_set means any point: a loop nth =
 * 1, 2, ... until nothing fired walks all points of an operation. Set before threads start, or
 * accept that another thread sees it a moment later. */
#ifndef SK_FAULT_H
#define SK_FAULT_H

#include "base/base.h"
#include "base/err.h"

enum sk_fault_mode {
    SK_FAULT_OFF,
    SK_FAULT_FAIL,  /* SK_FAULT is true */
    SK_FAULT_KILL,  /* SIGKILL to this process, right there */
    SK_FAULT_DELAY, /* sleeps; only sk_fault_delay sets it */
    SK_FAULT_COUNT, /* does nothing but count */
};

extern int sk_fault_on_; /* read through SK_FAULT only */
bool sk_fault_hit(const char *name) __attribute__((cold));

#define SK_FAULT(name) \
    (SK_UNLIKELY(__atomic_load_n(&sk_fault_on_, __ATOMIC_RELAXED) != 0) && sk_fault_hit(name))
#define SK_FAULT_HERE(name) ((void)SK_FAULT(name))

/* nth: acts at the nth pass from now (1 = the next), once; 0 = at each pass. Replaces what was set
 * for the name; SK_FAULT_OFF removes it.
 * SK_EINVAL: name too long (47 bytes). SK_EFULL: more than 16 points set. */
sk_rc sk_fault_set(const char *name, enum sk_fault_mode mode, int64_t nth) SK_MUST_USE;
sk_rc sk_fault_delay(const char *name, int64_t us, int64_t nth) SK_MUST_USE;
/* "name:mode[:nth]" separated by commas; mode is fail, kill, count or delay=<us>. For the
 * environment variable that the top reads. */
sk_rc sk_fault_parse(const char *spec, struct sk_err *err) SK_MUST_USE;
void sk_fault_clear(void);                 /* removes all */
int64_t sk_fault_passes(const char *name); /* passes since it was set; 0 when not set */
/* For simulations: every point calls fn(ctx, name) first, and fails when it says so. NULL: none.
 * One thread only. */
void sk_fault_hook(bool (*fn)(void *ctx, const char *name), void *ctx);
bool sk_fault_fired(void); /* some point acted (failed, delayed) since the last clear */

#endif

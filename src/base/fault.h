/* fault.h - named points in the code where a test may inject a failure, a delay or a kill.
 *
 *     if (SK_FAULT("store.seal")) return SK_ERR(err, SK_EIO, "seal: injected failure");
 *     SK_FAULT_HERE("ring.commit.before_tail");
 *
 * The first point can fail; the second can only kill or delay.
 *
 * The points are compiled into every build: while none is set, each costs one predictable branch on
 * a global. A name is a unique string literal "<module>.<what>". The name "*" in sk_fault_set
 * stands for every point: a test that counts nth = 1, 2, ... until no fault fires walks through all
 * points of an operation. Set points before threads start, or accept that another thread sees the
 * change a moment later. */
#ifndef SK_FAULT_H
#define SK_FAULT_H

#include "base/base.h"
#include "base/err.h"

enum sk_fault_mode {
    SK_FAULT_OFF,
    SK_FAULT_FAIL,  /* SK_FAULT returns true */
    SK_FAULT_KILL,  /* SIGKILL to this process, at the point */
    SK_FAULT_DELAY, /* the point sleeps; set by sk_fault_delay only */
    SK_FAULT_COUNT, /* the point only counts its passes */
};

extern int sk_fault_on_; /* read through SK_FAULT only */
bool sk_fault_hit(const char *name) __attribute__((cold));

#define SK_FAULT(name) \
    (SK_UNLIKELY(__atomic_load_n(&sk_fault_on_, __ATOMIC_RELAXED) != 0) && sk_fault_hit(name))
#define SK_FAULT_HERE(name) ((void)SK_FAULT(name))

/* Sets what the point does at its nth pass from now (1 is the next), once; nth 0 means at each
 * pass. Replaces an earlier setting of the same name; SK_FAULT_OFF removes it. SK_EINVAL: the name
 * is longer than 47 bytes. SK_EFULL: 16 points are set already. */
sk_rc sk_fault_set(const char *name, enum sk_fault_mode mode, int64_t nth) SK_MUST_USE;
sk_rc sk_fault_delay(const char *name, int64_t us, int64_t nth) SK_MUST_USE;
/* Sets points from text: "name:mode[:nth]", separated by commas; mode is fail, kill, count or
 * delay=<us>. The text comes from the environment variable SKATE_FAULT. */
sk_rc sk_fault_parse(const char *spec, struct sk_err *err) SK_MUST_USE;
void sk_fault_clear(void); /* removes all points */
/* passes since the point was set; 0 when it is not set */
int64_t sk_fault_passes(const char *name);
/* For simulations: every point first calls fn(ctx, name) and fails if it returns true. NULL removes
 * the hook. For one thread only. */
void sk_fault_hook(bool (*fn)(void *ctx, const char *name), void *ctx);
bool sk_fault_fired(void); /* true if some point acted (failed, delayed) since the last clear */

#endif

/* spin.h - decides whether a wait spins or sleeps (pure: no clock).
 *
 * Each end of a channel measures both ways: a running mean of its short waits (up to the cap) with
 * spinning and with sleeping, and the share of long waits. It spins if that saves more time in
 * short waits than it costs CPU time in long ones. With a free core for each end spinning wins (0.5
 * us, against 20 to 40 us for two wake-ups); if the partner needs this core, sleeping wins (2 us
 * against 60 us, since a wake-up on the same core is quick). One wait in 128 tries the other way,
 * so that a change is found within a few hundred waits. The simpler rule of spinning for twice the
 * mean of all waits never leaves spinning on a busy machine: 64 us a round trip, against 2 us by
 * sleeping. */
#ifndef SK_SPIN_H
#define SK_SPIN_H

#include "base/base.h"

/* Waits up to this long are short: ends that pass each other 1 MB wait 110 us, and two wake-ups
 * take 33-46 us. */
#define SK_SPIN_CAP_NS INT64_C(250000)
#define SK_SPIN_PROBE 128u
#define SK_SPIN_ONE 1024 /* value of long_part when all waits are long */

struct sk_spin {
    int64_t cap_ns;            /* longest spin; 0: never spins; INT64_MAX: never sleeps */
    int64_t slept_ns, spun_ns; /* means of short waits */
    int32_t long_part;         /* share of long waits, in 1/SK_SPIN_ONE */
    uint32_t n;                /* number of waits */
    /* spins: the current wait spins; probes: the current wait tries the way that is not chosen */
    bool spins, probes;
};

static inline struct sk_spin sk_spin_of(int64_t cap_ns) {
    return (struct sk_spin){.cap_ns = cap_ns, .slept_ns = cap_ns == INT64_MAX ? 0 : cap_ns / 2};
}

/* Returns the time in ns that the wait which begins now should spin before it sleeps. */
static inline int64_t sk_spin_budget(struct sk_spin *s) {
    if (s->cap_ns == 0 || s->cap_ns == INT64_MAX) return s->cap_ns;
    bool better =
        (SK_SPIN_ONE - s->long_part) * (s->slept_ns - s->spun_ns) > s->long_part * s->cap_ns;
    s->probes = ++s->n % SK_SPIN_PROBE == 0;
    s->spins = better != s->probes;
    return s->spins ? s->cap_ns : 0;
}

/* Updates the means by a wait that took the given time in ns. */
static inline void sk_spin_learn(struct sk_spin *s, int64_t waited_ns) {
    if (s->cap_ns == 0 || s->cap_ns == INT64_MAX) return;
    bool is_long = waited_ns > s->cap_ns;
    s->long_part += ((is_long ? SK_SPIN_ONE : 0) - s->long_part) / 8;
    if (is_long) return;
    int64_t *mean = s->spins ? &s->spun_ns : &s->slept_ns;
    /* the way that is only probed has few samples, so each counts more */
    *mean += (SK_MAX(waited_ns, 0) - *mean) / (s->probes ? 2 : 8);
}

#endif

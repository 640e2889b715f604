/* fault.c - the table of fault points that are set.
 *
 * No failure is random: a test names the point and the pass. Invariant: sk_fault_on_ is non-zero
 * exactly when some point or the hook is set, so a process without any never calls sk_fault_hit. An
 * entry is filled before `mode` is published and never moves, so a thread that passes a point while
 * another sets one sees either nothing or a whole entry. Cost while something is set: a scan of at
 * most 16 names at each point. */
#include "base/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"

enum { MAX_POINTS = 16, NAME_BYTES = 48 };

static struct point {
    _Atomic int mode;
    _Atomic int64_t passes, nth, us;
    char name[NAME_BYTES];
} points[MAX_POINTS];

int sk_fault_on_;
static _Atomic bool fired;
static bool (*hook)(void *ctx, const char *name);
static void *hook_ctx;

static void nap(int64_t us) {
    struct timespec t = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

bool sk_fault_hit(const char *name) {
    bool fail = hook && hook(hook_ctx, name);
    if (!(__atomic_load_n(&sk_fault_on_, __ATOMIC_RELAXED) & 1)) return fail;
    int keep = errno;
    for (struct point *p = points; p < points + MAX_POINTS; p++) {
        int mode = sk_load_acq(&p->mode);
        if (mode == SK_FAULT_OFF) continue;
        if (strcmp(p->name, "*") != 0 && strcmp(p->name, name) != 0) continue;
        int64_t pass = sk_add_relaxed(&p->passes, 1) + 1;
        int64_t nth = sk_load_relaxed(&p->nth);
        if (mode == SK_FAULT_COUNT || (nth != 0 && pass != nth)) continue;
        sk_store_relaxed(&fired, true);
        if (mode == SK_FAULT_KILL) {
            kill(getpid(), SIGKILL);
            for (;;) pause(); /* the SIGKILL is about to come: wait for it */
        }
        if (mode == SK_FAULT_DELAY) nap(sk_load_relaxed(&p->us));
        if (mode == SK_FAULT_FAIL) fail = true;
    }
    errno = keep;
    return fail;
}

static void update_on(void) {
    int on = 0;
    for (struct point *p = points; p < points + MAX_POINTS; p++)
        on |= sk_load_relaxed(&p->mode) != SK_FAULT_OFF;
    on |= hook ? 2 : 0;
    __atomic_store_n(&sk_fault_on_, on, __ATOMIC_RELEASE);
}

void sk_fault_hook(bool (*fn)(void *ctx, const char *name), void *ctx) {
    hook = fn;
    hook_ctx = ctx;
    update_on();
}

/* Returns the slot for a name: the slot that has this name, set or cleared; else a slot without a
 * name; else a cleared slot. A thread inside sk_fault_hit may still read the name of a cleared
 * slot, so a name is replaced only when all slots have one. */
static struct point *find(const char *name, size_t n) {
    struct point *unnamed = NULL, *cleared = NULL;
    for (struct point *p = points; p < points + MAX_POINTS; p++) {
        if (strlen(p->name) == n && memcmp(p->name, name, n) == 0) return p;
        if (!p->name[0] && !unnamed) unnamed = p;
        if (sk_load_acq(&p->mode) == SK_FAULT_OFF && !cleared) cleared = p;
    }
    return unnamed ? unnamed : cleared;
}

static sk_rc set(const char *name, size_t n, enum sk_fault_mode mode, int64_t us, int64_t nth) {
    if (n == 0 || n >= NAME_BYTES || nth < 0 || us < 0) return SK_EINVAL;
    struct point *p = find(name, n);
    if (!p) return mode == SK_FAULT_OFF ? SK_OK : SK_EFULL;
    sk_store_rel(&p->mode, SK_FAULT_OFF);
    if (strlen(p->name) != n || memcmp(p->name, name, n) != 0) {
        memcpy(p->name, name, n);
        p->name[n] = 0;
    }
    sk_store_relaxed(&p->nth, nth);
    sk_store_relaxed(&p->us, us);
    sk_store_relaxed(&p->passes, 0);
    sk_store_rel(&p->mode, (int)mode);
    update_on();
    return SK_OK;
}

sk_rc sk_fault_set(const char *name, enum sk_fault_mode mode, int64_t nth) {
    if (mode == SK_FAULT_DELAY) return SK_EINVAL;
    return set(name, strlen(name), mode, 0, nth);
}

sk_rc sk_fault_delay(const char *name, int64_t us, int64_t nth) {
    return set(name, strlen(name), SK_FAULT_DELAY, us, nth);
}

/* Parses the number that fills [s, end) exactly. */
static bool number(const char *s, const char *end, int64_t *out) {
    if (s == end || *s < '0' || *s > '9') return false;
    char *stop;
    errno = 0;
    long long v = strtoll(s, &stop, 10);
    if (errno || stop != end) return false;
    *out = v;
    return true;
}

static bool parse_mode(const char *s, const char *end, enum sk_fault_mode *mode, int64_t *us) {
    static const struct {
        const char *name;
        enum sk_fault_mode mode;
    } known[] = {{"fail", SK_FAULT_FAIL}, {"kill", SK_FAULT_KILL}, {"count", SK_FAULT_COUNT}};
    size_t n = (size_t)(end - s);
    for (size_t i = 0; i < SK_COUNT(known); i++) {
        if (n != strlen(known[i].name) || memcmp(s, known[i].name, n) != 0) continue;
        *mode = known[i].mode;
        return true;
    }
    *mode = SK_FAULT_DELAY;
    return n > 6 && memcmp(s, "delay=", 6) == 0 && number(s + 6, end, us);
}

sk_rc sk_fault_parse(const char *spec, struct sk_err *err) {
    for (const char *s = spec; *s;) {
        const char *end = s + strcspn(s, ",");
        const char *mode_at = memchr(s, ':', (size_t)(end - s));
        const char *mode_end = mode_at ? mode_at + 1 + strcspn(mode_at + 1, ":,") : end;
        enum sk_fault_mode mode = SK_FAULT_OFF;
        int64_t us = 0, nth = 0;
        if (!mode_at || !parse_mode(mode_at + 1, mode_end, &mode, &us) ||
            (mode_end < end && !number(mode_end + 1, end, &nth)))
            return SK_ERR(err, SK_EINVAL,
                          "fault \"%.*s\": want name:fail|kill|count|delay=<us>[:nth]",
                          (int)(end - s), s);
        sk_rc rc = set(s, (size_t)(mode_at - s), mode, us, nth);
        if (rc != SK_OK)
            return SK_ERR(err, rc, "fault \"%.*s\": name too long, or more than %d points",
                          (int)(end - s), s, MAX_POINTS);
        s = *end ? end + 1 : end;
    }
    return SK_OK;
}

void sk_fault_clear(void) {
    for (struct point *p = points; p < points + MAX_POINTS; p++)
        sk_store_rel(&p->mode, SK_FAULT_OFF);
    sk_store_relaxed(&fired, false);
    update_on();
}

int64_t sk_fault_passes(const char *name) {
    for (struct point *p = points; p < points + MAX_POINTS; p++)
        if (sk_load_acq(&p->mode) != SK_FAULT_OFF && strcmp(p->name, name) == 0)
            return sk_load_relaxed(&p->passes);
    return 0;
}

bool sk_fault_fired(void) { return sk_load_relaxed(&fired); }

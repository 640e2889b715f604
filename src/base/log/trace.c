/* trace.c - the ring of events and its export as Chrome trace JSON.
 *
 * Memory: the header, 64 names of 24 bytes, and a power of two of 32-byte slots. Event number k
 * lies in slot k mod size. Invariant: an event below `next` and not below `started - size` is
 * whole: the writer raises `started` before it touches a slot and `next` after. The exporter copies
 * a slot, then reads `started` again and drops the copy if the writer may have reached the slot.
 * Cost: about 5 ns an event besides reading the clock. */
#include "base/log/trace.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"

enum { TRACE_VERSION = 1, MIN_EVENTS = 16 };

/* An event as the ring holds it: four atomic words, so that no word is torn for a reader that runs
 * beside the writer. */
struct slot {
    _Atomic uint64_t word[4];
};
_Static_assert(sizeof(struct slot) == sizeof(struct sk_trace_event), "same bytes");

struct sk_trace {
    uint32_t magic, version;
    uint32_t n_slots; /* a power of two */
    _Atomic int32_t pid;
    _Atomic uint32_t n_names;
    uint32_t pad;
    char process[32];
    _Atomic uint64_t started, next;
    char name[SK_TRACE_NAMES][SK_TRACE_NAME_BYTES];
    struct slot slot[];
};
_Static_assert(sizeof(struct sk_trace) == 72 + SK_TRACE_NAMES * SK_TRACE_NAME_BYTES,
               "fixed format");

static uint32_t slots_for(uint32_t n) {
    uint32_t slots = MIN_EVENTS;
    while (slots < n && slots < UINT32_C(1) << 30) slots *= 2;
    return slots;
}

size_t sk_trace_bytes(uint32_t n_events) {
    return sizeof(struct sk_trace) + (size_t)slots_for(n_events) * sizeof(struct slot);
}

struct sk_trace *sk_trace_create(void *mem, uint32_t n_events, int32_t pid, const char *process) {
    SK_ASSERT((uintptr_t)mem % 8 == 0);
    struct sk_trace *t = mem;
    memset(t, 0, sizeof(*t));
    t->version = TRACE_VERSION;
    t->n_slots = slots_for(n_events);
    sk_store_relaxed(&t->pid, pid);
    snprintf(t->process, sizeof(t->process), "%s", process);
    t->name[0][0] = '?';
    sk_store_relaxed(&t->n_names, 1);
    t->magic = SK_TRACE_MAGIC;
    return t;
}

sk_rc sk_trace_attach(void *mem, size_t bytes, struct sk_trace **out, struct sk_err *err) {
    struct sk_trace *t = mem;
    if ((uintptr_t)mem % 8 || bytes < sizeof(*t) || t->magic != SK_TRACE_MAGIC ||
        t->version != TRACE_VERSION)
        return SK_ERR(err, SK_ECORRUPT, "trace ring: %zu bytes that hold no ring", bytes);
    uint32_t n = t->n_slots;
    if (n < MIN_EVENTS || (n & (n - 1)) || (bytes - sizeof(*t)) / sizeof(struct slot) < n)
        return SK_ERR(err, SK_ECORRUPT, "trace ring: %u slots do not fit into %zu bytes", n, bytes);
    *out = t;
    return SK_OK;
}

void sk_trace_set_pid(struct sk_trace *t, int32_t pid) {
    if (t) sk_store_relaxed(&t->pid, pid);
}

uint16_t sk_trace_name(struct sk_trace *t, const char *name) {
    if (!t) return 0;
    uint32_t n = sk_load_relaxed(&t->n_names);
    for (uint32_t i = 0; i < n; i++)
        if (strncmp(t->name[i], name, SK_TRACE_NAME_BYTES - 1) == 0) return (uint16_t)i;
    if (n == SK_TRACE_NAMES) return 0;
    snprintf(t->name[n], SK_TRACE_NAME_BYTES, "%s", name);
    sk_store_rel(&t->n_names, n + 1);
    return (uint16_t)n;
}

void sk_trace_put(struct sk_trace *t, const struct sk_trace_event *e) {
    if (!t) return;
    uint64_t word[4], at = sk_load_relaxed(&t->next);
    memcpy(word, e, sizeof(word));
    struct slot *s = &t->slot[at & (t->n_slots - 1)];
    /* Exchange with acq_rel: the stores of words below must not be seen before `started` (a plain
     * release store orders only what is above it). */
    (void)sk_xchg_acqrel(&t->started, at + 1);
    for (int i = 0; i < 4; i++) sk_store_rel(&s->word[i], word[i]);
    sk_store_rel(&t->next, at + 1);
}

uint64_t sk_trace_count(const struct sk_trace *t) { return t ? sk_load_acq(&t->next) : 0; }

void sk_trace_span(struct sk_trace *t, uint16_t name, int64_t begin_ns, uint64_t id) {
    if (!t) return;
    sk_trace_put(
        t, &(struct sk_trace_event){begin_ns, sk_now_ns() - begin_ns, id, 0, name, SK_TRACE_SPAN});
}

void sk_trace_mark(struct sk_trace *t, uint16_t name, uint64_t id) {
    if (!t) return;
    sk_trace_put(t, &(struct sk_trace_event){sk_now_ns(), 0, id, 0, name, SK_TRACE_MARK});
}

void sk_trace_counter(struct sk_trace *t, uint16_t name, int64_t value) {
    if (!t) return;
    sk_trace_put(t, &(struct sk_trace_event){sk_now_ns(), value, 0, 0, name, SK_TRACE_COUNTER});
}

/* ---- export ---------------------------------------------------------------------------------- */

struct out {
    int fd;
    size_t n;
    bool comma;
    sk_rc rc;
    struct sk_err *err;
    char buf[8192];
};

static void flush(struct out *o) {
    for (size_t at = 0; at < o->n && o->rc == SK_OK;) {
        ssize_t w = write(o->fd, o->buf + at, o->n - at);
        if (w > 0) at += (size_t)w;
        else if (w < 0 && errno != EINTR) o->rc = SK_ERR_SYS(o->err, "write trace");
    }
    o->n = 0;
}

SK_PRINTF(2, 3) static void put(struct out *o, const char *fmt, ...) {
    if (sizeof(o->buf) - o->n < 512) flush(o);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(o->buf + o->n, sizeof(o->buf) - o->n, fmt, ap);
    va_end(ap);
    /* the longest line is far below 512 bytes */
    SK_ASSERT(n >= 0 && (size_t)n < sizeof(o->buf) - o->n);
    o->n += (size_t)n;
}

/* Turns at most `cap` bytes of text into the inside of a JSON string; characters that are not ASCII
 * or need escaping become '_'. */
static void quote(char *to, const char *from, size_t cap) {
    size_t n = 0;
    for (; n < cap && from[n]; n++)
        to[n] =
            from[n] < 0x20 || from[n] > 0x7e || from[n] == '"' || from[n] == '\\' ? '_' : from[n];
    to[n] = 0;
}

static const char *next_item(struct out *o) {
    const char *sep = o->comma ? ",\n" : "\n";
    o->comma = true;
    return sep;
}

static void put_event(struct out *o, struct sk_trace *t, const struct sk_trace_event *e) {
    char name[SK_TRACE_NAME_BYTES + 1];
    /* names may be added meanwhile: read the count once */
    uint32_t grows = sk_load_acq(&t->n_names), known = SK_MIN(grows, SK_TRACE_NAMES);
    quote(name, e->name < known ? t->name[e->name] : "?", SK_TRACE_NAME_BYTES);
    int pid = sk_load_relaxed(&t->pid);
    double us = (double)e->begin_ns / 1e3;
    const char *sep = next_item(o);
    if (e->kind == SK_TRACE_SPAN)
        put(o,
            "%s{\"ph\":\"X\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,"
            "\"args\":{\"id\":\"%llx\"}}",
            sep, name, pid, e->tid, us, (double)e->value / 1e3, (unsigned long long)e->id);
    else if (e->kind == SK_TRACE_COUNTER)
        put(o, "%s{\"ph\":\"C\",\"name\":\"%s\",\"pid\":%d,\"ts\":%.3f,\"args\":{\"value\":%lld}}",
            sep, name, pid, us, (long long)e->value);
    else
        put(o,
            "%s{\"ph\":\"i\",\"s\":\"t\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,"
            "\"args\":{\"id\":\"%llx\"}}",
            sep, name, pid, e->tid, us, (unsigned long long)e->id);
}

static void put_ring(struct out *o, struct sk_trace *t) {
    char process[sizeof(t->process) + 1];
    quote(process, t->process, sizeof(t->process));
    const char *sep = next_item(o);
    put(o, "%s{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,\"args\":{\"name\":\"%s\"}}", sep,
        (int)sk_load_relaxed(&t->pid), process);
    uint64_t end = sk_load_acq(&t->next);
    for (uint64_t k = end > t->n_slots ? end - t->n_slots : 0; k < end && o->rc == SK_OK; k++) {
        uint64_t word[4];
        for (int i = 0; i < 4; i++) word[i] = sk_load_acq(&t->slot[k & (t->n_slots - 1)].word[i]);
        /* the writer has begun to overwrite this slot: drop the copy */
        if (sk_load_acq(&t->started) > k + t->n_slots) continue;
        struct sk_trace_event e;
        memcpy(&e, word, sizeof(e));
        put_event(o, t, &e);
    }
}

sk_rc sk_trace_json(int fd, struct sk_trace *const *rings, size_t n, struct sk_err *err) {
    struct out o = {.fd = fd, .err = err};
    put(&o, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for (size_t i = 0; i < n; i++)
        if (rings[i]) put_ring(&o, rings[i]);
    put(&o, "\n]}\n");
    flush(&o);
    return o.rc;
}

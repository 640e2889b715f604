/* wire.h - bounded little-endian encoding of messages: a growing writer and a checking reader.
 *
 * The reader never reads past its end: after the first short read `bad` stays true and every value
 * is 0, so a decoder checks once at its end (`sk_rd_ok`). Length-prefixed bytes are borrowed, not
 * copied. Every field starts on its natural alignment relative to the start of the message as long
 * as the message itself is 8-byte aligned; padding is zero. There is no schema: writer and reader
 * must agree on the order of fields. */
#ifndef SK_WIRE_H
#define SK_WIRE_H

#include "base/base.h"

/* Writes into [p, p + cap); beyond cap only `n` grows, so a run with cap 0 only measures the
 * message. */
struct sk_wr {
    uint8_t *p;
    size_t cap, n;
};

static inline struct sk_wr sk_wr_init(void *p, size_t cap) { return (struct sk_wr){p, cap, 0}; }
static inline bool sk_wr_ok(const struct sk_wr *w) { return w->n <= w->cap; }

static inline void sk_wr_raw(struct sk_wr *w, const void *src, size_t n) {
    if (n && w->n + n <= w->cap) {
        SK_DCHECK(w->p);
        memcpy(w->p + w->n, src, n);
    }
    w->n += n;
}
static inline void sk_wr_align(struct sk_wr *w, size_t a) {
    static const uint8_t zero[64];
    sk_wr_raw(w, zero, (size_t)(SK_ALIGN(w->n, a) - w->n));
}
static inline void sk_wr_u8(struct sk_wr *w, uint8_t v) { sk_wr_raw(w, &v, 1); }
static inline void sk_wr_u32(struct sk_wr *w, uint32_t v) {
    sk_wr_align(w, 4);
    sk_wr_raw(w, &v, 4);
}
static inline void sk_wr_u64(struct sk_wr *w, uint64_t v) {
    sk_wr_align(w, 8);
    sk_wr_raw(w, &v, 8);
}
static inline void sk_wr_i64(struct sk_wr *w, int64_t v) { sk_wr_u64(w, (uint64_t)v); }
static inline void sk_wr_bytes(struct sk_wr *w, const void *p, size_t n) {
    sk_wr_u64(w, n);
    sk_wr_raw(w, p, n);
}
static inline void sk_wr_str(struct sk_wr *w, const char *s) {
    sk_wr_bytes(w, s ? s : "", s ? strlen(s) : 0);
}

struct sk_rd {
    const uint8_t *p;
    size_t n, at;
    bool bad;
};

static inline struct sk_rd sk_rd_init(const void *p, size_t n) {
    return (struct sk_rd){p, n, 0, false};
}
static inline bool sk_rd_ok(const struct sk_rd *r) { return !r->bad; }
static inline bool sk_rd_end(const struct sk_rd *r) { return r->at >= r->n; }

static inline const void *sk_rd_raw(struct sk_rd *r, size_t n) {
    if (r->bad || n > r->n - r->at) {
        r->bad = true;
        return NULL;
    }
    const void *q = r->p + r->at;
    r->at += n;
    return q;
}
static inline void sk_rd_align(struct sk_rd *r, size_t a) {
    size_t to = (size_t)SK_ALIGN(r->at, a);
    if (to > r->n) r->bad = true;
    else r->at = to;
}
static inline uint8_t sk_rd_u8(struct sk_rd *r) {
    const uint8_t *q = sk_rd_raw(r, 1);
    return q ? *q : 0;
}
static inline uint32_t sk_rd_u32(struct sk_rd *r) {
    uint32_t v = 0;
    sk_rd_align(r, 4);
    const void *q = sk_rd_raw(r, 4);
    if (q) memcpy(&v, q, 4);
    return v;
}
static inline uint64_t sk_rd_u64(struct sk_rd *r) {
    uint64_t v = 0;
    sk_rd_align(r, 8);
    const void *q = sk_rd_raw(r, 8);
    if (q) memcpy(&v, q, 8);
    return v;
}
static inline int64_t sk_rd_i64(struct sk_rd *r) { return (int64_t)sk_rd_u64(r); }
static inline struct sk_bytes sk_rd_bytes(struct sk_rd *r) {
    uint64_t n = sk_rd_u64(r);
    if (r->bad || n > r->n - r->at) {
        r->bad = true;
        return (struct sk_bytes){"", 0};
    }
    struct sk_bytes b = {r->p + r->at, (size_t)n};
    r->at += (size_t)n;
    return b;
}

#endif

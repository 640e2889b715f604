/* bits.c - bitmaps at bit offsets: copy and count.
 *
 * No function reads a byte that has none of the requested bits. Cost: about a cycle a byte for
 * shifted copies, memcpy when both ends are byte aligned. */
#include "block/block_int.h"

static uint64_t load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Returns the n (1 to 8) bits of src that start at bit `from`, in the low bits. */
static uint8_t few(const uint8_t *src, int64_t from, int64_t n) {
    const uint8_t *p = src + (from >> 3);
    unsigned shift = (unsigned)(from & 7), v = (unsigned)p[0] >> shift;
    if ((int64_t)shift + n > 8) v |= (unsigned)p[1] << (8 - shift);
    return (uint8_t)(v & ((1u << n) - 1));
}

void sk_block_bits_append(uint8_t *dst, int64_t at, const uint8_t *src, int64_t from, int64_t n) {
    int64_t head = at & 7;
    if (head && n) { /* first complete the byte that an earlier range began */
        int64_t k = SK_MIN(8 - head, n);
        dst[at >> 3] = (uint8_t)(dst[at >> 3] | (few(src, from, k) << head));
        at += k;
        from += k;
        n -= k;
    }
    uint8_t *d = dst + (at >> 3);
    const uint8_t *s = src + (from >> 3);
    unsigned shift = (unsigned)(from & 7);
    int64_t bytes = n >> 3, i = 0;
    if (!shift) {
        if (bytes) memcpy(d, s, (size_t)bytes);
    } else {
        /* s[i + 8] may be read: it has requested bits, since shift > 0 */
        for (; i + 8 <= bytes; i += 8) {
            uint64_t v = load64(s + i) >> shift | (uint64_t)s[i + 8] << (64 - shift);
            memcpy(d + i, &v, 8);
        }
        for (; i < bytes; i++) d[i] = (uint8_t)(s[i] >> shift | s[i + 1] << (8 - shift));
    }
    if (n & 7) d[bytes] = few(src, from + 8 * bytes, n & 7);
}

static int64_t ones(uint64_t v) {
#if defined(__POPCNT__) || defined(__aarch64__)
    return __builtin_popcountll(v);
#else /* without the instruction the builtin would look up a table; this code vectorises */
    v -= (v >> 1) & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + ((v >> 2) & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (int64_t)((v * 0x0101010101010101u) >> 56);
#endif
}

int64_t sk_block_bits_count(const uint8_t *src, int64_t from, int64_t n) {
    int64_t sum = 0;
    if ((from & 7) && n) {
        int64_t k = SK_MIN(8 - (from & 7), n);
        sum += ones(few(src, from, k));
        from += k;
        n -= k;
    }
    const uint8_t *s = src + (from >> 3);
    int64_t i = 0;
    for (; i + 8 <= n >> 3; i += 8) sum += ones(load64(s + i));
    for (; i < n >> 3; i++) sum += ones(s[i]);
    if (n & 7) sum += ones(few(src, from + 8 * i, n & 7));
    return sum;
}

/* copy.h - a copy that goes past the cache: for destinations that nobody reads soon (large objects
 * on their way into the store).
 *
 * memcpy of libc does the same, but only above a threshold that pieces of 2 MiB stay below; without
 * it each line is first read to be
 * overwritten. Two threads here: 16.8 GB/s with memcpy by 2 MiB, 24.6 with this (bench:
 * core_micro.py, put 1 GiB warm). */
#ifndef SK_COPY_H
#define SK_COPY_H

#include "base/base.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Past the cache from here on: 800 KB that are kept 30 us instead of 75, 31 instead of 29 where the
 * memory was just used and is in the cache; who reads them in another process takes the same time
 * (c. 50 us). A unit test builds with less; 64 or more. */
#ifndef SK_COPY_PAST
#define SK_COPY_PAST ((size_t)256 << 10)
#endif

/* n bytes, no overlap. */
static inline void sk_copy(void *dst, const void *src, size_t n) {
    uint8_t *d = dst;
    const uint8_t *s = src;
#if defined(__x86_64__)
    if (n >= SK_COPY_PAST) {
        size_t head = (size_t)(-(uintptr_t)d & 63), bulk = (n - head) & ~(size_t)63;
        memcpy(d, s, head);
        __m128i *to = (__m128i *)(void *)(d + head);
        const __m128i *from = (const __m128i *)(const void *)(s + head);
        for (size_t i = 0; i < bulk / 16; i += 4) {
            __m128i a = _mm_loadu_si128(from + i), b = _mm_loadu_si128(from + i + 1),
                    c = _mm_loadu_si128(from + i + 2), e = _mm_loadu_si128(from + i + 3);
            _mm_stream_si128(to + i, a);
            _mm_stream_si128(to + i + 1, b);
            _mm_stream_si128(to + i + 2, c);
            _mm_stream_si128(to + i + 3, e);
        }
        _mm_sfence(); /* before later stores of this thread */
        d += head + bulk;
        s += head + bulk;
        n -= head + bulk;
    }
#endif
    memcpy(d, s, n);
}

/* ---- copy.c */

/* Told before [at, at+n), of at most 2 MiB, is written, on the thread that writes it. */
typedef void (*sk_copy_warm)(void *ctx, void *at, size_t n);
/* n bytes, no overlap; from 8 MiB on by two threads, if the caller has a core to spare (`two`).
 * warm NULL: into memory that is read next, here; else past the cache. Thread-safe. */
void sk_copy_large(void *dst, const void *src, size_t n, bool two, sk_copy_warm warm, void *ctx);
/* fresh memory of malloc: huge pages, as the faults of small ones cost ten times the copy */
void sk_copy_hint(void *dst, size_t n);
/* in the child of a fork: the second thread is the parent's */
void sk_copy_forget(void);

#endif

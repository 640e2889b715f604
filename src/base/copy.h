/* copy.h - a copy that bypasses the CPU cache: for destinations that are not read soon (large
 * objects on their way into the store).
 *
 * libc's memcpy does the same, but only above a threshold, and pieces of 2 MiB stay below it. A
 * copy through the cache first reads each line that it overwrites. Two threads on the development
 * machine: 16.8 GB/s with memcpy in pieces of 2 MiB, 24.6 GB/s with this (bench: core_micro.py, put
 * 1 GiB warm). */
#ifndef SK_COPY_H
#define SK_COPY_H

#include "base/base.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

/* Copies of this many bytes or more bypass the cache. Writing 800 KB into memory that is not in the
 * cache takes 30 us instead of 75; into memory that was just used, 31 us instead of 29. Reading it
 * in another process takes the same time either way (about 50 us). A unit test builds with a
 * smaller value; it must be at least 64. */
#ifndef SK_COPY_PAST
#define SK_COPY_PAST ((size_t)256 << 10)
#endif

/* Copies n bytes; the ranges must not overlap. */
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
        _mm_sfence(); /* orders these stores before later ones of this thread */
        d += head + bulk;
        s += head + bulk;
        n -= head + bulk;
    }
#endif
    memcpy(d, s, n);
}

/* ---- copy.c */

/* Called before each piece [at, at + n) of at most 2 MiB is written, by the thread that writes it.
 */
typedef void (*sk_copy_warm)(void *ctx, void *at, size_t n);
/* Copies n bytes; the ranges must not overlap. From 8 MiB on two threads copy, if the caller says
 * that a core is free (`two`). `warm` prepares each piece of the destination, which the copy then
 * writes past the cache; `warm` NULL copies through the cache, for memory that this thread reads
 * next. Thread-safe. */
void sk_copy_large(void *dst, const void *src, size_t n, bool two, sk_copy_warm warm, void *ctx);
/* Asks for huge pages for fresh memory of malloc: page faults of 4 KiB cost ten times the copy. */
void sk_copy_hint(void *dst, size_t n);
/* Call in the child of a fork: the second thread exists in the parent only. */
void sk_copy_forget(void);

#endif

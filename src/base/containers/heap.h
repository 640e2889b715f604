/* heap.h - binary min-heap, made for one element type by a macro.
 *
 *     static inline bool sooner(const struct timer *a, const struct timer *b) {
 *         return a->at_ns < b->at_ns;
 *     }
 *     SK_HEAP(timer_heap, struct timer, sooner)
 *
 * defines `struct timer_heap` (all zero is empty; fields p, n, cap; p[0] is the least) and
 *
 *     bool timer_heap_push(h, tag, value)   false: no memory, nothing changed
 *     struct timer timer_heap_pop(h)        the heap must not be empty
 *     struct timer timer_heap_remove(h, i)  the element at index i of p
 *     void timer_heap_fix(h, i)             call after the rank of p[i] changed
 *     void timer_heap_free(h)
 *     bool timer_heap_check(h)              true if the heap order holds everywhere
 *
 * Elements are moved by assignment; equal elements come out in no particular order. Each call but
 * free and check takes O(log n). */
#ifndef SK_HEAP_H
#define SK_HEAP_H

#include "base/containers/vec.h"

#define SK_HEAP(name, type, less)                                                 \
    struct name {                                                                 \
        type *p;                                                                  \
        uint32_t n, cap;                                                          \
    };                                                                            \
    static inline void name##_up_(struct name *h, uint32_t i) {                   \
        type x = h->p[i];                                                         \
        while (i > 0) {                                                           \
            uint32_t up = (i - 1) / 2;                                            \
            if (!less(&x, &h->p[up])) break;                                      \
            h->p[i] = h->p[up];                                                   \
            i = up;                                                               \
        }                                                                         \
        h->p[i] = x;                                                              \
    }                                                                             \
    static inline void name##_down_(struct name *h, uint32_t i) {                 \
        type x = h->p[i];                                                         \
        for (;;) {                                                                \
            uint64_t kid = 2 * (uint64_t)i + 1;                                   \
            if (kid >= h->n) break;                                               \
            if (kid + 1 < h->n && less(&h->p[kid + 1], &h->p[kid])) kid++;        \
            if (!less(&h->p[kid], &x)) break;                                     \
            h->p[i] = h->p[kid];                                                  \
            i = (uint32_t)kid;                                                    \
        }                                                                         \
        h->p[i] = x;                                                              \
    }                                                                             \
    static inline void name##_fix(struct name *h, uint32_t i) {                   \
        SK_DCHECK(i < h->n);                                                      \
        if (i > 0 && less(&h->p[i], &h->p[(i - 1) / 2])) name##_up_(h, i);        \
        else name##_down_(h, i);                                                  \
    }                                                                             \
    static inline bool name##_push(struct name *h, enum sk_tag tag, type value) { \
        if (!sk_vec_push(h, tag, value)) return false;                            \
        name##_up_(h, h->n - 1);                                                  \
        return true;                                                              \
    }                                                                             \
    static inline type name##_remove(struct name *h, uint32_t i) {                \
        SK_DCHECK(i < h->n);                                                      \
        type out = h->p[i];                                                       \
        if (i != --h->n) {                                                        \
            h->p[i] = h->p[h->n];                                                 \
            name##_fix(h, i);                                                     \
        }                                                                         \
        return out;                                                               \
    }                                                                             \
    static inline type name##_pop(struct name *h) { return name##_remove(h, 0); } \
    static inline void name##_free(struct name *h) { sk_vec_free(h); }            \
    static inline bool name##_check(const struct name *h) {                       \
        for (uint32_t i = 1; i < h->n; i++)                                       \
            if (less(&h->p[i], &h->p[(i - 1) / 2])) return false;                 \
        return true;                                                              \
    }

#endif

/* vec.h - a growing array of one type, held by value in its owner.
 *
 *     SK_VEC(struct task *) ready;           in a struct; all zero is the empty vector
 *     if (!sk_vec_push(&x->ready, SK_TAG_ENGINE, t)) return SK_ENOMEM;
 *     for (uint32_t i = 0; i < x->ready.n; i++) use(x->ready.p[i]);
 *     sk_vec_free(&x->ready);                empty again
 *
 * Every macro takes a pointer to the vector and evaluates it once. Growth moves the elements: a
 * push makes pointers into `p` invalid. */
#ifndef SK_VEC_H
#define SK_VEC_H

#include "base/mem.h"

#define SK_VEC(type)     \
    struct {             \
        type *p;         \
        uint32_t n, cap; \
    }

/* Returns the array, grown for at least `need` elements, and updates *cap; NULL when memory is
 * refused (p and *cap stay as they were). */
static inline void *sk_vec_grow_(void *p, uint32_t *cap, size_t elem, uint64_t need,
                                 enum sk_tag tag) {
    uint64_t want = SK_MAX(need, (uint64_t)*cap + *cap / 2);
    want = SK_MIN(SK_MAX(want, 8), UINT32_MAX);
    if (want < need || want > SIZE_MAX / elem) return NULL;
    void *q = sk_realloc(tag, p, (size_t)want * elem);
    if (q) *cap = (uint32_t)want;
    return q;
}

/* Makes room for want_n elements in all. false: no memory, nothing changed. */
#define sk_vec_reserve(v, tag, want_n)                                                         \
    __extension__({                                                                            \
        __auto_type sk_vr_ = (v);                                                              \
        uint64_t sk_vr_need_ = (uint64_t)(want_n);                                             \
        bool sk_vr_ok_ = true;                                                                 \
        if (sk_vr_need_ > sk_vr_->cap) {                                                       \
            void *sk_vr_new_ =                                                                 \
                sk_vec_grow_(sk_vr_->p, &sk_vr_->cap, sizeof(*sk_vr_->p), sk_vr_need_, (tag)); \
            if (sk_vr_new_) sk_vr_->p = sk_vr_new_;                                            \
            else sk_vr_ok_ = false;                                                            \
        }                                                                                      \
        sk_vr_ok_;                                                                             \
    })

#define sk_vec_push(v, tag, ...)                                                         \
    __extension__({                                                                      \
        __auto_type sk_vp_ = (v);                                                        \
        bool sk_vp_ok_ = true;                                                           \
        if (SK_UNLIKELY(sk_vp_->n == sk_vp_->cap)) {                                     \
            void *sk_vp_new_ = sk_vec_grow_(sk_vp_->p, &sk_vp_->cap, sizeof(*sk_vp_->p), \
                                            (uint64_t)sk_vp_->n + 1, (tag));             \
            if (sk_vp_new_) sk_vp_->p = sk_vp_new_;                                      \
            else sk_vp_ok_ = false;                                                      \
        }                                                                                \
        if (SK_LIKELY(sk_vp_ok_)) sk_vp_->p[sk_vp_->n++] = (__VA_ARGS__);                \
        sk_vp_ok_;                                                                       \
    })

/* Removes and returns the last element; the vector must not be empty. */
#define sk_vec_pop(v)             \
    __extension__({               \
        __auto_type sk_vo_ = (v); \
        SK_DCHECK(sk_vo_->n > 0); \
        sk_vo_->p[--sk_vo_->n];   \
    })

/* Frees the array (not what its elements point to); the vector is empty and usable afterwards. */
#define sk_vec_free(v)               \
    do {                             \
        __auto_type sk_vf_ = (v);    \
        sk_free(sk_vf_->p);          \
        sk_vf_->p = NULL;            \
        sk_vf_->n = sk_vf_->cap = 0; \
    } while (0)

#endif

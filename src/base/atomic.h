/* atomic.h - the memory orders that skate uses, each named by its use.
 *
 *  name            | order            | use
 *  sk_load_relaxed | relaxed          | counters, own fields, a hint that is checked again
 *  sk_store_relaxed| relaxed          | statistics; a field that another store publishes
 *  sk_load_acq     | acquire          | the flag or position that publishes data: read the data
 *                                       after it
 *  sk_store_rel    | release          | publication: everything written before is seen by who
 *                                       acquires it. The last step of a change
 *  sk_add_relaxed  | relaxed          | counting, taking a reference that one already holds
 *  sk_sub_acqrel   | acq_rel          | dropping a reference: the one that gets the last must see
 *                                       all others' writes
 *  sk_xchg_acqrel  | acq_rel          | taking a whole list or slot
 *  sk_cas_acqrel   | acq_rel, acquire | changing state from one known value; on failure *expected
 *                                       is the present value
 *  sk_load_seq, sk_store_seq, sk_add_seq | seq_cst | only the "I go to sleep / is anybody asleep"
 *                                                    handshake (bell)
 *  sk_cpu_relax()  | -                | inside a spin
 *
 * Add a row before using another order. The targets are _Atomic objects of 1 to 8 bytes, in private
 * or shared memory. */
#ifndef SK_ATOMIC_H
#define SK_ATOMIC_H

#include <stdatomic.h>

#include "base/base.h"

#define sk_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define sk_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define sk_load_acq(p) atomic_load_explicit((p), memory_order_acquire)
#define sk_store_rel(p, v) atomic_store_explicit((p), (v), memory_order_release)
/* the value before */
#define sk_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
/* the value before */
#define sk_sub_acqrel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define sk_xchg_acqrel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define sk_cas_acqrel(p, expected, v)                                                   \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel, \
                                            memory_order_acquire)
#define sk_load_seq(p) atomic_load_explicit((p), memory_order_seq_cst)
#define sk_store_seq(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)
/* the value before */
#define sk_add_seq(p, v) atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)

static inline void sk_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    /* `yield` is a no-op on most cores; isb waits about as long as x86's pause */
    __asm__ volatile("isb" ::: "memory");
#endif
}

#endif

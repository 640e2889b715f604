/* atomic.h - the memory orders that skate uses, each named by its use.
 *
 *  name            | order            | use
 *  sk_load_relaxed | relaxed          | counters, fields of the own thread, a hint that is
 *                                       checked again
 *  sk_store_relaxed| relaxed          | statistics; a field that a later store publishes
 *  sk_load_acq     | acquire          | the flag or position that publishes data: read it, then
 *                                       the data
 *  sk_store_rel    | release          | publication, the last step of a change: a thread that
 *                                       acquires this value sees everything written before
 *  sk_add_relaxed  | relaxed          | counting; taking one more reference while holding one
 *  sk_sub_acqrel   | acq_rel          | dropping a reference: the thread that drops the last one
 *                                       must see all writes of the others
 *  sk_xchg_acqrel  | acq_rel          | taking a whole list or slot
 *  sk_cas_acqrel   | acq_rel, acquire | changing state from one known value; on failure *expected
 *                                       is the present value
 *  sk_load_seq, sk_store_seq, sk_add_seq | seq_cst | only the "I go to sleep / is anybody asleep"
 *                                                    handshake of a bell (ipc/futex.c)
 *  sk_cpu_relax()  | -                | inside a spin loop
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
/* Returns the value before the addition. */
#define sk_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
/* Returns the value before the subtraction. */
#define sk_sub_acqrel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define sk_xchg_acqrel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define sk_cas_acqrel(p, expected, v)                                                   \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel, \
                                            memory_order_acquire)
#define sk_load_seq(p) atomic_load_explicit((p), memory_order_seq_cst)
#define sk_store_seq(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)
/* Returns the value before the addition. */
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

/* fiber.c - stacks of simulated processes: start, switch, abandon.
 *
 * Not here: which fiber runs when. A fiber starts by setcontext and switches by _setjmp and
 * _longjmp, which make no system call (swapcontext makes two). Invariant: at each moment either the
 * stack that resumes or one fiber runs. After sk_fiber_deinit a fiber never runs again, even if it
 * had not returned. Cost: about 20 ns a switch. Stacks are kept for later fibers in one pool per
 * process, as there is one simulation per process. */
#include <sys/mman.h>
#include <ucontext.h>

#include "sim/machine/sim_int.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#define STACK_BYTES (192u << 10)

static uint8_t *pool[128];
static uint32_t n_pool;
static sigjmp_buf back;         /* the stack of the caller of sk_fiber_resume */
static struct sk_fiber *inside; /* the fiber that runs; NULL: none */

static uint8_t *stack_get(void) {
    if (n_pool) return pool[--n_pool];
    void *p = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    /* an overflow faults and does not damage another fiber's stack */
    (void)mprotect(p, 4096, PROT_NONE);
    return p;
}

static void stack_put(uint8_t *p) {
    if (!p) return;
#if defined(__SANITIZE_ADDRESS__)
    __asan_unpoison_memory_region(p + 4096, STACK_BYTES - 4096);
#endif
    if (n_pool < SK_COUNT(pool)) pool[n_pool++] = p;
    else munmap(p, STACK_BYTES);
}

sk_rc sk_fiber_init(struct sk_fiber *f, void (*run)(void *arg), void *arg) {
    *f = (struct sk_fiber){.stack = stack_get(), .run = run, .arg = arg};
    return f->stack ? SK_OK : SK_ENOMEM;
}

void sk_fiber_deinit(struct sk_fiber *f) {
    SK_ASSERT(inside != f);
    stack_put(f->stack);
    f->stack = NULL;
}

#if defined(__SANITIZE_ADDRESS__)
static void *fake_main;
static const void *main_bottom;
static size_t main_size;
static void to_fiber(struct sk_fiber *f) {
    __sanitizer_start_switch_fiber(&fake_main, f->stack + 4096, STACK_BYTES - 4096);
}
static void in_fiber(void *fake) {
    __sanitizer_finish_switch_fiber(fake, &main_bottom, &main_size);
}
static void to_main(void **fake) { __sanitizer_start_switch_fiber(fake, main_bottom, main_size); }
static void in_main(void) { __sanitizer_finish_switch_fiber(fake_main, NULL, NULL); }
#else
static void to_fiber(SK_UNUSED struct sk_fiber *f) {}
static void in_fiber(SK_UNUSED void *fake) {}
static void to_main(SK_UNUSED void **fake) {}
static void in_main(void) {}
#endif

static void entry(void) {
    struct sk_fiber *f = inside;
    in_fiber(NULL);
    f->run(f->arg);
    f->done = true;
    to_main(NULL); /* ASan frees the fiber's fake stack */
    _longjmp(back, 1);
}

static void __attribute__((noinline)) begin(struct sk_fiber *f) {
    static ucontext_t uc;
    SK_ASSERT(getcontext(&uc) == 0);
    uc.uc_stack.ss_sp = f->stack + 4096;
    uc.uc_stack.ss_size = STACK_BYTES - 4096;
    uc.uc_link = NULL;
    makecontext(&uc, entry, 0);
    setcontext(&uc);
}

void sk_fiber_resume(struct sk_fiber *f) {
    SK_ASSERT(!inside && !f->done);
    inside = f;
    if (_setjmp(back) == 0) {
        to_fiber(f);
        if (f->begun) _longjmp(f->env, 1);
        f->begun = true;
        begin(f);
    }
    in_main();
    inside = NULL;
}

void sk_fiber_yield(void) {
    struct sk_fiber *f = inside;
    void *fake = NULL;
    SK_ASSERT(f);
    to_main(&fake);
    if (_setjmp(f->env) == 0) _longjmp(back, 1);
    in_fiber(fake);
}

/* usage.h - side contract: the use of memory, and the references of objects. Only engines that can
 * measure their processes have this table. */
#ifndef SK_USAGE_H
#define SK_USAGE_H

#include "engine/engine.h"

struct sk_reference {
    sk_oid oid;
    /* n_driver: references of the driver's process; n_all: also those of other processes, of
     * tasks and of values */
    uint64_t n_driver, n_all;
};
struct sk_memory_info {
    /* of the tightest memory budget; limit 0: not known (no /proc) */
    uint64_t limit_bytes, used_bytes;
    char where[160];            /* name of that budget, for messages */
    uint64_t store_limit_bytes; /* size of the store */
    /* size to which the store may grow, given the heaps as they are now */
    uint64_t store_may_bytes;
    uint64_t store_used_bytes;    /* bytes of objects and leases */
    uint64_t store_present_bytes; /* pages that are present, including free ones */
    uint64_t spilled_bytes;       /* bytes of objects that are on disk now */
    uint64_t heap_bytes, driver_heap_bytes;
    /* numbers of: workers that the engine stopped to free memory; workers that the kernel killed;
     * tasks that have to run alone or run alone now */
    uint64_t n_stopped, n_kernel_killed, n_alone;
};
struct sk_memory_worker {
    int32_t pid;
    uint32_t number;
    /* heap: private memory of the worker; peak: the highest value since the present task or actor
     * began; asked: memory= of that task or actor */
    uint64_t heap_bytes, peak_bytes, asked_bytes;
    bool busy, is_actor;
    char name[80]; /* name of the task or actor that it runs */
};

struct sk_usage_ops {
    /* Measures memory now. Writes at most cap rows of workers, in the order of state.workers; *n is
     * the number of workers. */
    sk_rc (*memory)(struct sk_engine *e, struct sk_memory_info *out, struct sk_memory_worker *w,
                    size_t cap, size_t *n, struct sk_err *err);
    /* Lists all objects (not actors) that the driver's own code, tasks or other objects hold;
     * for tests and debugging. Returns how many there are. */
    size_t (*references)(struct sk_engine *e, struct sk_reference *out, size_t cap);
};

#endif

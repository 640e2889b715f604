/* usage.h - side contract: what memory is used for, and who holds objects. Only where the engine
 * can look into its processes. */
#ifndef SK_USAGE_H
#define SK_USAGE_H

#include "engine/engine.h"

struct sk_reference {
    sk_oid oid;
    /* references of the driver's process; together with those of others, of tasks and of values */
    uint64_t n_driver, n_all;
};
struct sk_memory_info {
    /* of the budget with the least left; limit 0: not known (no /proc) */
    uint64_t limit_bytes, used_bytes;
    char where[160];              /* whose it is */
    uint64_t store_limit_bytes;   /* size of the store */
    uint64_t store_may_bytes;     /* it may grow to, as heaps are now */
    uint64_t store_used_bytes;    /* objects and leases */
    uint64_t store_present_bytes; /* pages, also those that are free */
    uint64_t spilled_bytes;       /* of objects that are on disk now */
    uint64_t heap_bytes, driver_heap_bytes;
    /* workers stopped for memory; by the kernel; tasks that are to run alone, or do */
    uint64_t n_stopped, n_kernel_killed, n_alone;
};
struct sk_memory_worker {
    int32_t pid;
    uint32_t number;
    /* its own; highest since what it runs began; memory= of that */
    uint64_t heap_bytes, peak_bytes, asked_bytes;
    bool busy, is_actor;
    char name[80]; /* of what it runs */
};

struct sk_usage_ops {
    /* Measured now. Workers: as of state.workers, at most cap of them; *n: how many there are. */
    sk_rc (*memory)(struct sk_engine *e, struct sk_memory_info *out, struct sk_memory_worker *w,
                    size_t cap, size_t *n, struct sk_err *err);
    /* All objects (not actors) that the driver's own code, tasks and other objects hold, for tests
     * and debugging. Returns how many there are. */
    size_t (*references)(struct sk_engine *e, struct sk_reference *out, size_t cap);
};

#endif

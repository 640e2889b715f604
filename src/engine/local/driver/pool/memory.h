/* memory.h - the store and the heaps of workers under one budget: measured, and what follows. The
 * rules are engine/rules/memory.c's.
 *
 * Calls: functions, link, send, space, task. */
#ifndef SK_LOCAL_MEMORY_H
#define SK_LOCAL_MEMORY_H

#include "engine/rules/memory.h"
#include "engine/usage.h"
#include "ipc/ipc.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_memory_worker;
struct sk_err;

struct sk_lmem { /* memory.c */
    struct sk_memory policy;
    struct sk_sysmem *sys;    /* NULL: not looked at */
    bool stops;               /* somebody may be stopped */
    uint64_t own_limit_bytes; /* 0: none */
    uint32_t permille;
    int32_t oom_retries;
    int64_t next_ns, sys_ns; /* the next look; the last one at the machine */
    struct sk_sysmem_now machine;
    uint64_t limit_bytes, used_bytes, slack_bytes, heap_bytes; /* at the last look */
    char where[160];
    uint64_t kills_seen; /* by the kernel, at the last look */
    int64_t kills_ns;    /* when that changed */
    bool was_held, failed, any_paused;
    uint64_t n_stopped, n_kernel_killed;
    struct sk_memory_procs {
        struct sk_memory_proc *p;
        uint32_t n, cap;
    } procs;
    struct sk_memory_who {
        struct sk_lworker **p;
        uint32_t n, cap;
    } who; /* of procs */
};

sk_rc sk_lmem_open(struct sk_local *l, const struct sk_engine_conf *conf,
                   struct sk_err *err) SK_MUST_USE;
void sk_lmem_close(struct sk_local *l);
void sk_lmem_look(struct sk_local *l, int64_t now_ns); /* measures, and acts on it */
enum sk_place_launch sk_lmem_mode(struct sk_local *l); /* what may begin now */
/* Its process ended by `status`: was it for memory? Then w->mem.oom. */
void sk_lmem_died(struct sk_local *l, struct sk_lworker *w, int status);
/* Its process holds still (SIGSTOP) or, `still` false, goes on. One that is stopped already, or is
 * no child of the fork server's any more, is left alone. A SIGSTOP of somebody else that comes
 * while it is held ends with that. */
void sk_lmem_hold(struct sk_local *l, struct sk_lworker *w, bool still);
void sk_lmem_gone(struct sk_lworker *w); /* it is freed */
/* The task that it ran, which has begun: runs again, or ends with SK_EOOM. */
void sk_lmem_stopped(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
const char *sk_lmem_story(const struct sk_lworker *w);
sk_rc sk_lmem_info(struct sk_local *l, struct sk_memory_info *out, struct sk_memory_worker *w,
                   size_t cap, size_t *n, struct sk_err *err) SK_MUST_USE;

#endif

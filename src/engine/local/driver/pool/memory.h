/* memory.h - the store and the heaps of workers under one budget: measuring, and acting on the
 * rules of engine/rules/memory.c.
 *
 * Calls: functions, link, send, space, task. The code of this part may call these parts of the
 * driver and no others; tests/shape.py reads this line. */
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

struct sk_lmem { /* state of memory.c */
    struct sk_memory policy;
    struct sk_sysmem *sys;    /* source of the kernel's figures; NULL: memory is not measured */
    bool stops;               /* true if workers may be stopped when memory is short */
    uint64_t own_limit_bytes; /* the user's limit; 0: none */
    uint32_t permille;
    int32_t oom_retries;
    /* next_ns: time of the next measurement; sys_ns: time of the machine's last measurement */
    int64_t next_ns, sys_ns;
    struct sk_sysmem_now machine;
    uint64_t limit_bytes, used_bytes, slack_bytes, heap_bytes; /* at the last measurement */
    char where[160];
    /* the store's warm bytes when none of them could be given back, as they lie in pieces that are
     * too small; 0: all that it has may be */
    uint64_t stuck_bytes;
    /* number of processes killed by the kernel for memory, at the last measurement */
    uint64_t kills_seen;
    int64_t kills_ns; /* when that number changed */
    bool was_held, failed, any_paused;
    uint64_t n_stopped, n_kernel_killed;
    struct sk_memory_procs {
        struct sk_memory_proc *p;
        uint32_t n, cap;
    } procs;
    struct sk_memory_who {
        struct sk_lworker **p;
        uint32_t n, cap;
    } who; /* the workers that the entries of `procs` describe, in the same order */
};

sk_rc sk_lmem_open(struct sk_local *l, const struct sk_engine_conf *conf,
                   struct sk_err *err) SK_MUST_USE;
void sk_lmem_close(struct sk_local *l);
void sk_lmem_look(struct sk_local *l, int64_t now_ns); /* measures memory, and acts on the result */
enum sk_place_launch sk_lmem_mode(struct sk_local *l); /* decides which tasks may begin now */
/* The process of w has ended with `status`: sets w->mem.oom if the kernel killed it for memory. */
void sk_lmem_died(struct sk_local *l, struct sk_lworker *w, int status);
/* Pauses the process of w (SIGSTOP) or, with `still` false, lets the process go on. A process that
 * is stopped already, or is no longer a child of the fork server, is left alone. A SIGSTOP that
 * another process sends during the pause ends with the pause. */
void sk_lmem_hold(struct sk_local *l, struct sk_lworker *w, bool still);
void sk_lmem_gone(struct sk_lworker *w); /* call before w is freed */
/* Call when w was stopped for memory while it ran t: t runs again, or ends with SK_EOOM. */
void sk_lmem_stopped(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
const char *sk_lmem_story(const struct sk_lworker *w);
sk_rc sk_lmem_info(struct sk_local *l, struct sk_memory_info *out, struct sk_memory_worker *w,
                   size_t cap, size_t *n, struct sk_err *err) SK_MUST_USE;

#endif

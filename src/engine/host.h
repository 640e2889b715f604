/* host.h - side contract: the host side of `local`, what surrounds its processes: the fork server's life, what is seen from outside, what a crash leaves. */
#ifndef SK_HOST_H
#define SK_HOST_H

#include "engine/worker.h"

struct sk_host_ops {
    /* Modules to import in the fork server before the next worker is forked (bytes understood by the runner). */
    sk_rc (*preload)(struct sk_engine *e, struct sk_bytes note, struct sk_err *err);
};

/* Worker processes of `local`: the program calls this first thing; returns false in any process that is not a worker (env variable
 * SKATE_FORK_FD unset). In the fork server it never returns but in forked children; in a worker it runs tasks with `runner` until told
 * to stop, then returns true. */
struct sk_worker_hooks {                                 /* each may be NULL */
    void (*on_note)(void *ctx, const void *p, size_t n); /* in the server: a preload note */
    void (*before_fork)(void *ctx);                      /* in the server, directly before it forks a worker */
    void (*after_fork)(void *ctx);                       /* in the server, directly after it, also when it was refused */
    sk_rc (*begin)(void *ctx, struct sk_engine *client, struct sk_err *err); /* once, in the fresh worker; fails: so does each task there */
    void *ctx;
};
sk_rc sk_worker_serve(struct sk_runner *runner, const struct sk_worker_hooks *hooks, bool *was_worker, struct sk_err *err) SK_MUST_USE;

/* What is seen of a local engine from outside of it, without its lock: see local/look.c. */
struct sk_look {
    int32_t driver_pid;
    char waits[512]; /* what a caller in the driver waits for; "": nothing, or not for long */
};
struct sk_look_worker {
    int32_t pid;
    uint64_t task;  /* that it began last and that has not ended; 0: none */
    int64_t for_ns; /* it has run */
    char name[112];
};
/* Of this process; async-signal-safe. In a worker: its own row. False: no local engine is open here. */
bool sk_look_self(struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n);
/* The processes of an engine share one stderr: who writes more than a line there in a signal handler takes turns with the others, waiting for at most a second
 * (then it writes all the same). Async-signal-safe. */
void sk_look_speak(bool begin);
/* Of the one whose control segment is there (/proc/<pid>/fd/<n>). */
sk_rc sk_look_at(const char *path, struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n, struct sk_err *err) SK_MUST_USE;

/* In a worker of `local`: a descriptor (its own offset) into shared memory where a crash handler may write up to 2 KiB of text that the driver
 * adds to the message about the death; -1 elsewhere. */
int sk_worker_crash_fd(void);
/* In a worker of `local`: what the running task has in hand, for the message about its death: cut at 500 bytes. Elsewhere nothing. 20 ns. */
void sk_worker_doing(const char *text, size_t n);

/* What this process may use: CPUs (affinity, quota of the cgroup), memory (machine or cgroup). SK_EIO: there is no /proc; SK_ENOMEM. */
sk_rc sk_engine_machine(struct sk_res *out, struct sk_err *err) SK_MUST_USE;

#endif

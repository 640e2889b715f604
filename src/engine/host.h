/* host.h - side contract: the host side of `local`, what surrounds its processes: the fork server's
 * life, what is seen from outside, what a crash leaves. */
#ifndef SK_HOST_H
#define SK_HOST_H

#include <stdatomic.h>

#include "engine/worker.h"

struct sk_host_ops {
    /* Modules to import in the fork server before the next worker is forked (bytes understood by
     * the runner). */
    sk_rc (*preload)(struct sk_engine *e, struct sk_bytes note, struct sk_err *err);
};

/* Worker processes of `local`: the program calls this first thing; returns false in any process
 * that is not a worker (env variable SKATE_FORK_FD unset). In the fork server it never returns but
 * in forked children; in a worker it runs tasks with `runner` until told to stop, then returns
 * true. */
struct sk_worker_hooks { /* each may be NULL */
    /* in the server: a preload note */
    void (*on_note)(void *ctx, const void *p, size_t n);
    /* in the server, directly before it forks a worker */
    void (*before_fork)(void *ctx);
    /* in the server, directly after it, also when it was refused */
    void (*after_fork)(void *ctx);
    /* once, in the fresh worker; fails: so does each task there */
    sk_rc (*begin)(void *ctx, struct sk_engine *e, struct sk_err *err);
    void *ctx;
};
sk_rc sk_worker_serve(struct sk_runner *runner, const struct sk_worker_hooks *hooks,
                      bool *was_worker, struct sk_err *err) SK_MUST_USE;

/* What is seen of a local engine from outside of it, without its lock: see local/wire/look.c. */
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
/* Of this process; async-signal-safe. In a worker: its own row. False: no local engine is open
 * here. */
bool sk_look_self(struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n);
/* The processes of an engine share one stderr: who writes more than a line there in a signal
 * handler takes turns with the others, waiting for at most a second (then it writes all the same).
 * Async-signal-safe. */
void sk_look_speak(bool begin);
/* Looks at the engine that owns the control segment at `path` (/proc/<pid>/fd/<n>). */
sk_rc sk_look_at(const char *path, struct sk_look *out, struct sk_look_worker *rows, size_t cap,
                 size_t *n, struct sk_err *err) SK_MUST_USE;

/* In a worker of `local`: a descriptor (its own offset) into shared memory where a crash handler
 * may write up to 2 KiB of text that the driver adds to the message about the death; -1
 * elsewhere. */
int sk_worker_crash_fd(void);
/* In a worker of `local`: what the running task has in hand, for the message about its death: cut
 * at 500 bytes. Elsewhere nothing. 20 ns. */
void sk_worker_doing(const char *text, size_t n);

/* What workers of `local` write to stdout and stderr (local/wire/prints.c). The program opens it
 * before the engine and closes it after that (conf.h). */
struct sk_prints;
struct sk_prints_news {
    const _Atomic uint32_t *now; /* counts what Python code printed in workers */
    uint32_t seen;               /* at the last take */
};
enum {
    SK_PRINTS_PLAIN = -1 /* workers write where the driver's descriptors lead */,
    SK_PRINTS_NONE = -2 /* to /dev/null */
};
/* before a line that brings its label along; ends a line before it that has no end */
#define SK_PRINTS_MARK "\0\x1e"
/* label: "(name pid=N) ", "" where the text brings one along or there is to be none; text without
 * its newline. `to`: 1 or 2. */
typedef void sk_prints_line(void *ctx, int to, const char *label, const char *text, size_t n);
/* none: what they print is for nobody */
sk_rc sk_prints_open(bool none, struct sk_prints **out, struct sk_err *err) SK_MUST_USE;
void sk_prints_close(struct sk_prints *p);
void sk_prints_in_child(struct sk_prints *p); /* of the driver, by fork: closes what it has of it */
/* On a thread of its own: until there is something to take, after a pause in which lines may
 * gather. False: sk_prints_end was called. */
bool sk_prints_wait(struct sk_prints *p, int pause_ms);
/* false: nothing wakes that thread, the user has closed the descriptors; p has to stay */
bool sk_prints_end(struct sk_prints *p);
bool sk_prints_lost(const struct sk_prints *p);
/* What is there, line by line; one thread at a time. last: the workers have ended; lines that have
 * no end, too. */
void sk_prints_take(struct sk_prints *p, bool last, sk_prints_line *line, void *ctx);
static inline bool sk_prints_due(const struct sk_prints *p) {
    /* something was printed that no take has seen; 1 ns */
    const struct sk_prints_news *news = (const struct sk_prints_news *)(const void *)p;
    return atomic_load_explicit(news->now, memory_order_acquire) != news->seen;
}
/* In a worker: it has written what a driver that hears of its task is to have. */
void sk_prints_done(void);
/* In a worker: does this descriptor (1 or 2) lead where it did when the process began, and not
 * where user code has turned it? *joined: to the driver. 200 ns */
bool sk_prints_own(int fd, bool *joined);
/* In a worker: a descriptor of what 1 or 2 are in the driver; -1: its own are that.
 * Async-signal-safe. */
int sk_prints_plain(int fd);
/* Takes or releases the terminal, which one process of the engine at a time has: the driver (p)
 * while it draws, a worker (p is NULL) while it runs a debugger. With wait the call sleeps until
 * the terminal is free. Returns 0 when this process has taken or released it, the pid of the
 * process that has it, or -1 when a
 * signal has interrupted the wait: the caller looks at signals and calls again. */
int32_t sk_prints_terminal(struct sk_prints *p, bool take, bool wait);

/* What this process may use: CPUs (affinity, quota of the cgroup), memory (machine or cgroup).
 * SK_EIO: there is no /proc; SK_ENOMEM. */
sk_rc sk_engine_machine(struct sk_res *out, struct sk_err *err) SK_MUST_USE;

#endif

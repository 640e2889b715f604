/* host.h - side contract of `local` for the program around its processes: start of the fork server,
 * a view of the engine from other processes, crash texts, output of workers, the terminal. */
#ifndef SK_HOST_H
#define SK_HOST_H

#include <stdatomic.h>

#include "engine/worker.h"

struct sk_host_ops {
    /* Modules to import in the fork server before the next worker is forked (bytes understood by
     * the runner). */
    sk_rc (*preload)(struct sk_engine *e, struct sk_bytes note, struct sk_err *err);
};

/* Entry of the worker processes of `local`. The program calls sk_worker_serve before anything
 * else; it returns false in a process that is not a worker (the environment variable
 * SKATE_FORK_FD is unset). In the fork server it returns only in forked children. In a worker it
 * runs tasks with `runner` until the driver tells it to stop, then returns true. */
struct sk_worker_hooks { /* each hook may be NULL */
    /* called in the fork server when a preload note has arrived */
    void (*on_note)(void *ctx, const void *p, size_t n);
    /* called in the fork server directly before it forks a worker */
    void (*before_fork)(void *ctx);
    /* called in the fork server directly after the fork, also when the system refused it */
    void (*after_fork)(void *ctx);
    /* Called once in the fresh worker. If it fails, so does each task in this process. */
    sk_rc (*begin)(void *ctx, struct sk_engine *e, struct sk_err *err);
    void *ctx;
};
sk_rc sk_worker_serve(struct sk_runner *runner, const struct sk_worker_hooks *hooks,
                      bool *was_worker, struct sk_err *err) SK_MUST_USE;

/* What other processes can see of a local engine without its lock: see local/wire/look.c. */
struct sk_look {
    int32_t driver_pid;
    /* text: what a caller in the driver has waited for a long time; "": no caller has */
    char waits[512];
};
struct sk_look_worker {
    int32_t pid;
    uint64_t task;  /* the task that the worker began last, if it has not ended; 0: none */
    int64_t for_ns; /* how long the task has been running */
    char name[112];
};
/* Says what the engine of this process (of several: the one opened last) is doing;
 * async-signal-safe. In a worker, only the worker's
 * own row is written. False: no local engine is open here. */
bool sk_look_self(struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n);
/* Takes turns on stderr, which all processes of an engine share: a signal handler that writes
 * more than one line there calls this before and after. It waits for its turn for at most a
 * second and then writes all the same. Async-signal-safe. */
void sk_look_speak(bool begin);
/* Reads the same of the engine that owns the control segment at `path` (/proc/<pid>/fd/<n>). */
sk_rc sk_look_at(const char *path, struct sk_look *out, struct sk_look_worker *rows, size_t cap,
                 size_t *n, struct sk_err *err) SK_MUST_USE;

/* In a worker of `local`: a descriptor (with its own offset) into shared memory, where a crash
 * handler may write up to 2 KiB of text that the driver adds to the message about the death.
 * In other processes: -1. */
int sk_worker_crash_fd(void);
/* In a worker of `local`: saves a text about what the running task is working on, cut at 500 bytes.
 * If the worker dies, the error message has this text. Elsewhere it does nothing. 20 ns. */
void sk_worker_doing(const char *text, size_t n);

/* The stdout and stderr of the workers of `local` (local/wire/prints.c). The program opens it
 * before the engine (conf.h) and closes it after the engine. */
struct sk_prints;
struct sk_prints_news {
    const _Atomic uint32_t *now; /* counter of texts that Python code has printed in workers */
    uint32_t seen;               /* the counter at the last take */
};
enum {
    /* workers write to the driver's descriptors directly */
    SK_PRINTS_PLAIN = -1,
    /* workers write to /dev/null */
    SK_PRINTS_NONE = -2
};
/* Byte in front of a line whose text already has its label; it also ends an unfinished line. */
#define SK_PRINTS_MARK "\0\x1e"
/* Receives a line. label: "(name pid=N) ", or "" if the text has its own label or no label is
 * needed; text: without its newline; to: 1 (stdout) or 2 (stderr). */
typedef void sk_prints_line(void *ctx, int to, const char *label, const char *text, size_t n);
/* none: true if the output of workers is thrown away */
sk_rc sk_prints_open(bool none, struct sk_prints **out, struct sk_err *err) SK_MUST_USE;
void sk_prints_close(struct sk_prints *p);
/* called in a child that the driver has forked: closes the inherited descriptors */
void sk_prints_in_child(struct sk_prints *p);
/* Called on a thread of its own: waits until workers have printed, then pauses for pause_ms so that
 * several lines gather. False: sk_prints_end was called. */
bool sk_prints_wait(struct sk_prints *p, int pause_ms);
/* Wakes the thread in sk_prints_wait and ends its wait. False: the thread cannot be woken, since
 * the user has closed the descriptors; p must not be freed then. */
bool sk_prints_end(struct sk_prints *p);
bool sk_prints_lost(const struct sk_prints *p);
/* Reads what workers have printed and calls `line` for each whole line; by one thread at a time.
 * last: the workers have ended, so lines without an end are given, too. */
void sk_prints_take(struct sk_prints *p, bool last, sk_prints_line *line, void *ctx);
/* Hands in whole lines, each with its label and its newline, which workers elsewhere have printed:
 * take gives them as one text. May be called by any thread. */
void sk_prints_hand_in(struct sk_prints *p, int to, const char *text, size_t n);
static inline bool sk_prints_due(const struct sk_prints *p) {
    /* True if a worker has printed since the last take. Cost: 1 ns. */
    const struct sk_prints_news *news = (const struct sk_prints_news *)(const void *)p;
    return atomic_load_explicit(news->now, memory_order_acquire) != news->seen;
}
/* In a worker: publishes the count of texts printed so far. A driver that receives the end of
 * this worker's task then knows that there is text to read. */
void sk_prints_done(void);
/* In a worker: true if descriptor `fd` (1 or 2) still leads where it did when the process began,
 * and user code has not redirected it. *joined: whether it leads to the driver. 200 ns. */
bool sk_prints_own(int fd, bool *joined);
/* In a worker: a descriptor for the same file as the driver's descriptor 1 or 2; -1: the
 * worker's own descriptor is that one. Async-signal-safe. */
int sk_prints_plain(int fd);
/* Takes or releases the terminal, which one process of the engine holds at a time: the driver (p)
 * while it draws, a worker (p is NULL) while it runs a debugger. With wait the call sleeps until
 * the terminal is free. Returns 0 when this process has taken or released it, the pid of the
 * process that has it, or -1 when a signal has interrupted the wait: the caller handles the signal
 * and calls again. */
int32_t sk_prints_terminal(struct sk_prints *p, bool take, bool wait);

/* The resources that this process may use: CPUs (affinity, quota of the cgroup) and memory
 * (machine or cgroup). SK_EIO: there is no /proc; SK_ENOMEM. */
sk_rc sk_engine_machine(struct sk_res *out, struct sk_err *err) SK_MUST_USE;

#endif

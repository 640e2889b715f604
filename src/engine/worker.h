/* worker.h - the worker's side: the calls that a running task may make to the engine that runs it,
 * and the runner that an engine calls to run tasks. The functions check what all engines must check
 * (index, kinds, sizes); engine_int.h has the table of calls behind them. */
#ifndef SK_WORKER_H
#define SK_WORKER_H

#include "engine/engine.h"

/* The runner's view of a running task. It exists during run(). */
struct sk_task {
    struct sk_engine *engine; /* engine for nested submit, put and get */
    sk_tid id;
    sk_fid fn;
    sk_aid actor; /* not 0: a method call */
    /* The numbers by which its code and others know it and its actor (sk_task_opts); 0: these. */
    uint64_t known_id, known_actor;
    bool is_actor_init; /* the task is the constructor of an actor */
    /* The actor has an event loop: run() may return SK_EAGAIN, and then the task goes on until
     * sk_task_end. */
    bool is_async;
    void *user; /* private to the runner; NULL when the task begins */
    uint32_t attempt;
    uint32_t n_args;
    /* released by the engine after run(), but for arguments of sk_task_keep_arg */
    const struct sk_view *args;
    uint32_t n_returns;
    uint32_t n_yielded;     /* number of yields by this attempt */
    uint32_t stream_window; /* not 0: sk_task_yield may wait */
    const char *name;
    /* The resources that the task asked for; of a method: those that its actor asked for. NULL: the
     * default, one CPU (an actor: nothing). */
    const struct sk_need *need;
    /* bit i: GPU i, or a share of it, is given to the task; bit 16 + i: device i of the other
     * kind */
    uint64_t gpus;
};
/* Sets return i. Each return must be set exactly once; a missing one is an error of the task.
 * Takes payload.buf over. */
sk_rc sk_task_return(struct sk_task *t, uint32_t i, const struct sk_payload *p,
                     struct sk_err *err) SK_MUST_USE;
/* Yields the next value of a streaming task; may wait for the consumer (stream_window).
 * SK_ECANCEL: stop now, the result is not needed. */
sk_rc sk_task_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) SK_MUST_USE;
/* The number of yields, from the first on, that exist already from an earlier attempt.
 * sk_task_yield must still be called for them, but a payload with only the note (bytes and buf
 * empty) is enough. */
uint32_t sk_task_skip(const struct sk_task *t);
/* Ends the task with an error of user code (kind in the range of errors). Only the first call
 * counts. */
sk_rc sk_task_fail(struct sk_task *t, const struct sk_payload *error,
                   struct sk_err *err) SK_MUST_USE;
enum {
    SK_END_FINAL = 1, /* the task's failure is not retried, whatever its options say */
    /* for a call or constructor that has failed: its actor ends with it, without a restart */
    SK_END_EXIT_ACTOR = 2,
    /* this process runs nothing after the task (if it is a process of its own) */
    SK_END_PROCESS = 4
};
/* To be called before run() returns, or before sk_task_end. */
void sk_task_end_flags(struct sk_task *t, uint32_t flags);
/* Sets the note of the DONE event: copied, at most SK_NOTE_MAX bytes. To be called after the
 * last yield: where the engine has no notes, it is one more yield. */
void sk_task_note(struct sk_task *t, struct sk_bytes note);
/* Lets the function keep args[i] mapped after it has returned: the view now belongs to the caller,
 * and has to be released by view_release. */
struct sk_view sk_task_keep_arg(struct sk_task *t, uint32_t i);

/* Ends a task whose run() returned SK_EAGAIN, with the rc and err that run() would have
 * returned. May be called by any thread; t is freed. */
void sk_task_end(struct sk_task *t, sk_rc rc, const struct sk_err *err);
/* True if the running task was cancelled. May be called at any moment while the task exists. */
bool sk_task_cancelled(const struct sk_task *t);
/* For the handler of SIGINT: true once for each cancel of the running task; the caller then
 * interrupts the task. */
bool sk_task_interrupt(struct sk_task *t);

struct sk_runner { /* filled in by the layer above; one per process */
    void *ctx;
    /* Gives the runner a function's definition, before the first task that needs it. */
    sk_rc (*define)(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);
    /* Runs a task. If it returns a failure (rather than calling sk_task_fail), the task ends
     * with an engine error made of *err. */
    sk_rc (*run)(void *ctx, struct sk_task *t, struct sk_err *err);
    /* Called around blocking waits inside a worker, so that the GIL is free meanwhile. May be
     * NULL. */
    void (*block_begin)(void *ctx);
    void (*block_end)(void *ctx);
    /* Called when a worker has had nothing to do for a second: gives unused memory back. May be
     * NULL. */
    void (*idle)(void *ctx);
    /* inline only (elsewhere the process ends): the actor is dead, so its state can be dropped.
     * May be NULL. */
    void (*actor_gone)(void *ctx, sk_aid actor);
    /* Sets up the environment of this process, before its first task. If it fails, each task
     * here fails with the same error. */
    sk_rc (*env)(void *ctx, struct sk_bytes env, struct sk_err *err);
    /* Called first on each thread that runs calls of an actor with concurrency groups. May be
     * NULL. */
    void (*thread_begin)(void *ctx);
    /* Makes this thread the event loop of group `group` of an async actor: it calls
     * sk_worker_step whenever `fd` is readable, until that returns false. Group 0 runs on the
     * main thread and runs the constructor before any call; the other groups get a thread with
     * their first call. NULL: such an actor runs its calls on threads. */
    sk_rc (*serve_async)(void *ctx, struct sk_engine *e, int fd, uint32_t group,
                         struct sk_err *err);
    /* Cancels a task that is between SK_EAGAIN and sk_task_end; called on the thread of
     * serve_async. */
    void (*cancel)(void *ctx, struct sk_task *t);
};
/* Starts the calls that may start, and cancels those that were cancelled. False: the process has to
 * end. To be called by runner.serve_async only. */
bool sk_worker_step(struct sk_engine *e, uint32_t group);

#endif

/* worker.h - the other side: what a running task may ask of the engine that runs it, and the runner
 * that an engine calls to run tasks. The functions check what all engines must check (index, kinds,
 * sizes); engine_int.h has the table behind them. */
#ifndef SK_WORKER_H
#define SK_WORKER_H

#include "engine/engine.h"

/* A task as its function sees it. Lives during run(). */
struct sk_task {
    struct sk_engine *engine; /* for nested submit/put/get */
    sk_tid id;
    sk_fid fn;
    sk_aid actor;       /* not 0: a method call */
    bool is_actor_init; /* the constructor */
    /* of an actor with an event loop: run() may return SK_EAGAIN, the task then goes on until
     * sk_task_end */
    bool is_async;
    void *user; /* the runner's own, NULL when the task begins */
    uint32_t attempt;
    uint32_t n_args;
    const struct sk_view *args; /* released by the engine after run(), unless sk_task_keep_arg */
    uint32_t n_returns;
    uint32_t n_yielded;     /* by this attempt */
    uint32_t stream_window; /* not 0: sk_task_yield may wait */
    const char *name;
    /* NULL: one CPU (an actor: nothing); of a method: what its actor asked for */
    const struct sk_need *need;
    /* bit i: GPU i is its own, or a share of it; from 16 on: device i - 16 */
    uint64_t gpus;
};
/* Sets return i (each exactly once; missing ones are an error of the task). Takes payload.buf. */
sk_rc sk_task_return(struct sk_task *t, uint32_t i, const struct sk_payload *p,
                     struct sk_err *err) SK_MUST_USE;
/* Next value of a streaming task; may wait for the consumer (stream_window). SK_ECANCEL: stop now,
 * the result is not wanted. */
sk_rc sk_task_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) SK_MUST_USE;
/* How many first yields exist already from an earlier attempt: yield still must be called for them,
 * but a cheap payload with only the note will do (bytes and buf empty). */
uint32_t sk_task_skip(const struct sk_task *t);
/* Ends the task with a user error (kind in the error range). The first call counts. */
sk_rc sk_task_fail(struct sk_task *t, const struct sk_payload *error,
                   struct sk_err *err) SK_MUST_USE;
enum {
    SK_END_FINAL = 1, /* its failure is not retried, whatever its options say */
    /* a call (or the constructor) that has failed: its actor ends with it, without a restart */
    SK_END_EXIT_ACTOR = 2,
    SK_END_PROCESS = 4 /* this process runs nothing more (where it is one of its own) */
};
/* before run() returns, or before sk_task_end */
void sk_task_end_flags(struct sk_task *t, uint32_t flags);
/* Note of the DONE event; copied, <= SK_NOTE_MAX. After the last yield: where the engine has no
 * notes it is one more. */
void sk_task_note(struct sk_task *t, struct sk_bytes note);
/* The function keeps args[i] mapped after it returned: the view is its own now (release by
 * view_release). */
struct sk_view sk_task_keep_arg(struct sk_task *t, uint32_t i);

/* Ends a task whose run() returned SK_EAGAIN: rc and err as run() would have given them. Any
 * thread; t is gone after it. */
void sk_task_end(struct sk_task *t, sk_rc rc, const struct sk_err *err);
/* Somebody cancelled it while it ran. May be asked at any moment of its life. */
bool sk_task_cancelled(const struct sk_task *t);
/* For the handler of SIGINT: true once for each cancel of the task that runs; the caller interrupts
 * it then. */
bool sk_task_interrupt(struct sk_task *t);

struct sk_runner { /* filled by the layer above; one a process */
    void *ctx;
    /* A definition arrived (before the first task that needs it). */
    sk_rc (*define)(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);
    /* Runs it. A failure here (not sk_task_fail) ends the task with an engine error made of
     * *err. */
    sk_rc (*run)(void *ctx, struct sk_task *t, struct sk_err *err);
    /* Blocking waits inside a worker call these around the wait, so that the GIL is free meanwhile.
     * May be NULL. */
    void (*block_begin)(void *ctx);
    void (*block_end)(void *ctx);
    /* a worker has had nothing to do for a second: gives memory back that is not used. May be
     * NULL */
    void (*idle)(void *ctx);
    /* inline only (elsewhere the process ends): the actor is dead, drop its state. May be NULL. */
    void (*actor_gone)(void *ctx, sk_aid actor);
    /* The environment of this process, before its first task. A failure is that of all its
     * tasks. */
    sk_rc (*env)(void *ctx, struct sk_bytes env, struct sk_err *err);
    /* first on each thread that runs calls of an actor with concurrency groups. May be NULL */
    void (*thread_begin)(void *ctx);
    /* This thread is now the event loop of group `group` of an async actor, on the main thread of
     * 0: calls sk_worker_step whenever `fd` is readable until it returns false. Group 0 runs the
     * constructor, before any call; the others get a thread with their first call. NULL: such an
     * actor runs its calls on threads. */
    sk_rc (*serve_async)(void *ctx, struct sk_engine *e, int fd, uint32_t group,
                         struct sk_err *err);
    /* of a task between SK_EAGAIN and sk_task_end, on the thread of serve_async */
    void (*cancel)(void *ctx, struct sk_task *t);
};
/* Starts the calls that may run, tells of cancelled ones. False: the process is to leave. Only for
 * runner.serve_async. */
bool sk_worker_step(struct sk_engine *e, uint32_t group);

#endif

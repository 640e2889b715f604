/* worker.h - a process that runs tasks: running one, the definitions and actors of the process, the
 * results of a task, coroutines, prints; and reports about the process: its title, its stacks, its
 * memory. */
#ifndef SK_PY_WORKER_H
#define SK_PY_WORKER_H

#include "engine/host.h"
#include "py/value/value.h"

/* ---- current.c */
/* Returns the task of this coroutine or thread; NULL outside of tasks. */
struct sk_task *py_current_task(void);
/* True, once, if the task of this thread was cancelled and SIGINT has not interrupted it yet. */
bool py_interrupted(void);
extern PyMethodDef py_current_methods[];
/* True once the task of this thread has made all its values, so that a cancel must not interrupt it
 * any more. */
extern _Thread_local bool py_closing;
/* the task that this thread runs; in a coroutine use py_current_task() */
extern _Thread_local struct sk_task *py_task_now;
/* id of the task of this thread that called exit_actor() */
extern _Thread_local uint64_t py_exiting;

extern _Thread_local const struct py_at {
    uint64_t actor;
    const char *name;
    PyObject *self, *method;
    /* the method that a compiled graph's loop, which is not a task, calls on this thread; NULL:
     * none */
} *py_at_now;

/* ---- run.c */
void py_runner_init(struct py_state *st);
/* Drops all definitions and actors; called when the engine is closed. */
void py_runner_clear(struct py_state *st);
/* The need of the process's task or actor, which a thread started by user code inherits. */
extern struct sk_need py_home;
/* Takes the actor's turn for one method, if the loop of a compiled graph may run another method of
 * the actor. True: the caller must call py_turn_let_go after the method. */
bool py_turn_take(struct py_state *st);
void py_turn_let_go(struct py_state *st);
PyObject *py_call_method(PyObject *self, PyObject *name, PyObject **args, size_t n_pos,
                         PyObject *kwnames);

/* ---- fn.c */
struct py_fn { /* a definition, and its callable after the first use */
    sk_fid id;
    char *name;
    void *def;
    size_t def_n;
    /* The function or class. For a method: its name (str) or, if every actor has that method, a
     * function of (instance, ...). */
    PyObject *callable;
    /* tuple of exception classes after which a call is retried; NULL: all */
    PyObject *retry_on;
    /* number of the ambient environment in which it runs (core.h); 0: the one with which the worker
     * began */
    uint32_t ambient;
};
sk_rc py_fn_define(void *ctx, sk_fid id, const char *name, struct sk_bytes def, struct sk_err *err);
PyObject *py_fn_callable(struct py_state *st, struct py_fn *f, bool method); /* borrowed */
int py_fn_be_ambient(const struct py_fn *f);
void py_fn_clear(struct py_state *st); /* drops all definitions */

/* Stores r as the actor of the task; takes r over. Returns None, or NULL with an exception. */
PyObject *py_keep_actor(struct py_state *st, const struct sk_task *t, PyObject *r);

/* ---- result.c */
/* Each returns 0, with the engine's result in *rc; or -1 with an exception. */
int py_send_results(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc,
                    struct sk_err *err);
int py_send_value(struct py_state *st, struct sk_task *t, PyObject *v, uint32_t i, bool yields,
                  sk_rc *rc, struct sk_err *err);
/* Not NULL: a streaming task that runs on this thread stores its iterator in *py_pulled (a new
 * reference), and the caller takes the values from it. */
extern _Thread_local PyObject **py_pulled;
int py_skip_value(struct py_state *st, struct sk_task *t, PyObject *v, sk_rc *rc,
                  struct sk_err *err);
/* Both end the task: with an error value, or with the current exception. */
sk_rc py_fail(struct py_state *st, struct sk_task *t, uint32_t kind, const void *p, size_t n,
              struct sk_err *err);
sk_rc py_fail_with_exception(struct py_state *st, struct sk_task *t, struct sk_err *err);
/* Ends a process that the running task has forked, when the task's function has returned or raised
 * in it. */
void py_end_stray(const struct py_state *st, const struct sk_task *t) __attribute__((noreturn));

void py_leave_by_exit(PyObject *e); /* ends the process for a SystemExit; does not return */

/* ---- async.c */
sk_rc py_async_start(struct py_state *st, struct sk_task *t, PyObject *coro, bool *failed);
sk_rc py_async_serve(void *ctx, struct sk_engine *client, int fd, uint32_t group,
                     struct sk_err *err);
void py_async_cancel(void *ctx, struct sk_task *t);
struct sk_task *py_async_task(void); /* the task of the running coroutine; NULL: none runs */
bool py_async_serves(void);          /* true in the process of an async actor */
extern PyMethodDef py_async_methods[];

/* ---- prints.c: what workers print */
struct sk_prints *py_prints_open(bool none); /* none: prints are dropped; NULL with an exception */
/* Shows the lines that tasks have printed. False: a signal handler has raised meanwhile, and its
 * exception is set; otherwise an exception that was set before stays set. */
bool py_prints_show(struct py_state *st);
/* Called at the end of a call that waits for tasks: shows the lines that the tasks printed before
 * that call returns or raises. Returns r, or NULL after Ctrl-C. */
static inline PyObject *py_with_prints(struct py_state *st, PyObject *r) {
    if (SK_UNLIKELY(st->prints && sk_prints_due(st->prints)) && !py_prints_show(st)) Py_CLEAR(r);
    return r;
}
/* in a worker: the task has begun a line that has not ended, or has locked the terminal */
extern bool py_to_tidy;
void py_tidy(struct py_state *st); /* called when the task ends, without an exception set */
extern PyMethodDef py_prints_methods[];

/* ---- serve.c */
void py_worker_forget(void); /* called in the child of a fork of a worker */
extern PyMethodDef py_serve_methods[];

/* ---- title.c */
void py_title_init(void);
void py_title_set(const char *name, const char *suffix); /* does nothing before init */

/* ---- stack.c */
extern PyMethodDef py_stack_methods[];

/* ---- memory.c */
/* Makes the allocator put large Python values (bytes of a file) on huge pages. Call it once, while
 * the process has one thread. */
void py_memory_advise(void);
extern PyMethodDef py_memory_methods[];

#endif

/* worker.h - a process that runs tasks: one run, definitions and actors that it keeps, what goes
 * out of a task, coroutines; what tasks print. And what a process
 * of skate tells of itself: its title, its stacks, its memory. */
#ifndef SK_PY_WORKER_H
#define SK_PY_WORKER_H

#include "engine/host.h"
#include "py/value/value.h"

/* ---- current.c */
/* of this thread, or of this coroutine; NULL outside of tasks */
struct sk_task *py_current_task(void);
/* the task of this thread was cancelled, and does not know it: once, as its SIGINT */
bool py_interrupted(void);
extern PyMethodDef py_current_methods[];
/* the task that this thread runs has given all it will: a cancel has nothing left to break off */
extern _Thread_local bool py_closing;
/* what this thread runs; a coroutine's is py_current_task() */
extern _Thread_local struct sk_task *py_task_now;
/* the task of this thread that called exit_actor() */
extern _Thread_local uint64_t py_exiting;

extern _Thread_local const struct py_at {
    uint64_t actor;
    const char *name;
    PyObject *self, *method;
} *py_at_now; /* what a graph's loop calls on this thread, which is no task; or NULL */

/* ---- run.c */
void py_runner_init(struct py_state *st);
void py_runner_clear(struct py_state *st); /* drops functions and actors (the engine is closed) */
/* what a thread that the user started inherits: the environment of this process */
extern struct sk_need py_home;
/* of a method, where a graph's loop may run another one; to be let go if true */
bool py_turn_take(struct py_state *st);
void py_turn_let_go(struct py_state *st);
PyObject *py_call_method(PyObject *self, PyObject *name, PyObject **args, size_t n_pos,
                         PyObject *kwnames);

/* ---- fn.c */
struct py_fn { /* a definition, its callable once it was needed */
    sk_fid id;
    char *name;
    void *def;
    size_t def_n;
    /* function or class; for a method: its name (str), or what every actor has: a function of
     * (instance, ...) */
    PyObject *callable;
    /* tuple of classes: only these exceptions are worth another run; NULL: all */
    PyObject *retry_on;
    /* number of the surroundings that it runs in; 0: those that the worker began with */
    uint32_t around;
};
sk_rc py_fn_define(void *ctx, sk_fid id, const char *name, struct sk_bytes def, struct sk_err *err);
PyObject *py_fn_callable(struct py_state *st, struct py_fn *f, bool method); /* borrowed */
int py_fn_be_around(const struct py_fn *f);
void py_fn_clear(struct py_state *st); /* all of them */

PyObject *py_keep_actor(struct py_state *st, const struct sk_task *t, PyObject *r); /* takes r */

/* ---- result.c */
/* Each: 0, and *rc is what the engine said; -1: an exception is set. */
int py_send_results(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc,
                    struct sk_err *err);
int py_send_value(struct py_state *st, struct sk_task *t, PyObject *v, uint32_t i, bool yields,
                  sk_rc *rc, struct sk_err *err);
/* Not NULL: a streaming task that is run on this thread gives its iterator here (a new reference),
 * and nothing is taken from it. */
extern _Thread_local PyObject **py_pulled;
int py_skip_value(struct py_state *st, struct sk_task *t, PyObject *v, sk_rc *rc,
                  struct sk_err *err);
/* End the task: with an error value, or with the current exception. */
sk_rc py_fail(struct py_state *st, struct sk_task *t, uint32_t kind, const void *p, size_t n,
              struct sk_err *err);
sk_rc py_fail_with_exception(struct py_state *st, struct sk_task *t, struct sk_err *err);
/* This process was forked by the task that runs in it, which came back in it, or raised. */
void py_end_stray(const struct py_state *st, const struct sk_task *t) __attribute__((noreturn));

void py_leave_by_exit(PyObject *e); /* SystemExit: the process ends; does not return */

/* ---- async.c */
sk_rc py_async_start(struct py_state *st, struct sk_task *t, PyObject *coro, bool *failed);
sk_rc py_async_serve(void *ctx, struct sk_engine *client, int fd, uint32_t group,
                     struct sk_err *err);
void py_async_cancel(void *ctx, struct sk_task *t);
struct sk_task *py_async_task(void); /* of the coroutine that runs; NULL: none does */
bool py_async_serves(void);          /* this is the process of an async actor */
extern PyMethodDef py_async_methods[];

/* ---- prints.c: what workers print */
struct sk_prints *py_prints_open(bool none); /* NULL with an exception */
bool py_prints_show(struct py_state *
                        /* what was printed is shown. False: a signal handler raised meanwhile,
                         * which is set now; else an exception that was set still is */
                        st);
/* Of a call that waits for tasks: what they printed is shown before it returns (or raises). r as it
 * is, or NULL after Ctrl-C. */
static inline PyObject *py_with_prints(struct py_state *st, PyObject *r) {
    if (SK_UNLIKELY(st->prints && sk_prints_due(st->prints)) && !py_prints_show(st)) Py_CLEAR(r);
    return r;
}
/* in a worker: the task has begun a line that has no end, or has the terminal */
extern bool py_to_tidy;
void py_tidy(struct py_state *st); /* when it ends; no exception is set */
extern PyMethodDef py_prints_methods[];

/* ---- serve.c */
void py_worker_forget(void); /* in the child of a fork of a worker */
extern PyMethodDef py_serve_methods[];

/* ---- title.c */
void py_title_init(void);
void py_title_set(const char *name, const char *suffix); /* nothing before init */

/* ---- stack.c */
extern PyMethodDef py_stack_methods[];

/* ---- memory.c */
void py_memory_advise(
    /* large values of Python (bytes of a file) lie on huge pages from now on; once, by the only
     * thread of a process */
    void);
extern PyMethodDef py_memory_methods[];

#endif

/* py_run.h - what runs tasks, inside: a definition (py_fn.c), what goes out of a task (py_result.c), coroutines (py_async.c), one run (py_run.c). */
#ifndef SK_PY_RUN_H
#define SK_PY_RUN_H

#include "py/py_int.h"

/* ---- py_current.c */
extern _Thread_local bool py_closing; /* the task that this thread runs has given all it will: a cancel has nothing left to break off */
extern _Thread_local struct sk_task *py_task_now; /* what this thread runs; a coroutine's is py_current_task() */
extern _Thread_local uint64_t py_exiting;         /* the task of this thread that called exit_actor() */

extern _Thread_local const struct py_at {
    uint64_t actor;
    const char *name;
    PyObject *self, *method;
} *py_at_now; /* what a graph's loop calls on this thread, which is no task; or NULL */

/* ---- py_run.c */
PyObject *py_call_method(PyObject *self, PyObject *name, PyObject **args, size_t n_pos, PyObject *kwnames);

/* ---- py_fn.c */
struct py_fn { /* a definition, its callable once it was needed */
    sk_fid id;
    char *name;
    void *def;
    size_t def_n;
    PyObject *callable; /* function or class; for a method: its name (str), or what every actor has: a function of (instance, ...) */
    PyObject *retry_on; /* tuple of classes: only these exceptions are worth another run; NULL: all */
    uint32_t around;    /* number of the surroundings that it runs in; 0: those that the worker began with */
};
sk_rc py_fn_define(void *ctx, sk_fid id, const char *name, struct sk_bytes def, struct sk_err *err);
PyObject *py_fn_callable(struct py_state *st, struct py_fn *f, bool method); /* borrowed */
int py_fn_be_around(const struct py_fn *f);
void py_fn_clear(struct py_state *st); /* all of them */

PyObject *py_keep_actor(struct py_state *st, const struct sk_task *t, PyObject *r); /* takes r */

/* ---- py_result.c */
/* Each: 0, and *rc is what the engine said; -1: an exception is set. */
int py_send_results(struct py_state *st, struct sk_task *t, PyObject *result, sk_rc *rc, struct sk_err *err);
int py_send_value(struct py_state *st, struct sk_task *t, PyObject *v, uint32_t i, bool yields, sk_rc *rc, struct sk_err *err);
/* Not NULL: a streaming task that is run on this thread gives its iterator here (a new reference), and nothing is taken from it. */
extern _Thread_local PyObject **py_pulled;
int py_skip_value(struct py_state *st, struct sk_task *t, PyObject *v, sk_rc *rc, struct sk_err *err);
/* End the task: with an error value, or with the current exception. */
sk_rc py_fail(struct py_state *st, struct sk_task *t, uint32_t kind, const void *p, size_t n, struct sk_err *err);
sk_rc py_fail_with_exception(struct py_state *st, struct sk_task *t, struct sk_err *err);
/* This process was forked by the task that runs in it, which came back in it, or raised. */
void py_end_stray(const struct py_state *st, const struct sk_task *t) __attribute__((noreturn));

void py_leave_by_exit(PyObject *e); /* SystemExit: the process ends; does not return */

/* ---- py_async.c */
sk_rc py_async_start(struct py_state *st, struct sk_task *t, PyObject *coro, bool *failed);
sk_rc py_async_serve(void *ctx, struct sk_engine *client, int fd, uint32_t group, struct sk_err *err);
void py_async_cancel(void *ctx, struct sk_task *t);
struct sk_task *py_async_task(void); /* of the coroutine that runs; NULL: none does */
bool py_async_serves(void);          /* this is the process of an async actor */

#endif

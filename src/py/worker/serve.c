/* serve.c - the fork server and its workers: what Python has to do around a fork, and at the
 * end. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fault.h"
#include "py/worker/worker.h"

static void on_note(void *ctx, const void *p, size_t n) {
    struct py_state *st = ctx;
    PyObject *bytes = PyBytes_FromStringAndSize(p, (Py_ssize_t)n),
             *r = bytes && st->hook_note ? PyObject_CallOneArg(st->hook_note, bytes) : NULL;
    if (!r)
        /* an import that fails is only printed: the task imports the module again and reports the
         * error */
        PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
    Py_XDECREF(bytes);
}

/* These three functions do what os.fork does around fork(): take the locks of the interpreter
 * before it and release them on both sides, which Python 3.13 needs, and call functions registered
 * by os.register_at_fork. The server holds the GIL. */
static void before_fork(void *ctx SK_UNUSED) { PyOS_BeforeFork(); }

static void after_fork(void *ctx SK_UNUSED) { PyOS_AfterFork_Parent(); }

static sk_rc begin(void *ctx, struct sk_engine *client, struct sk_err *why) {
    PyOS_AfterFork_Child();
    py_title_init();
    struct py_state *st = ctx;
    const char *faults = getenv("SKATE_FAULT"); /* "worker.after_yield:kill:3": see base/fault.h */
    struct sk_err err = {0};
    if (faults && sk_fault_parse(faults, &err) != SK_OK)
        fprintf(stderr, "SKATE_FAULT: %s\n", err.msg);
    st->engine = client;
    st->gen++;
    st->driver = false;
    st->worker = true;
    PyObject *r =
        st->hook_after_fork ? PyObject_CallNoArgs(st->hook_after_fork) : Py_NewRef(Py_None);
    sk_rc rc = r ? SK_OK : py_to_err(why, "the worker cannot begin");
    Py_XDECREF(r);
    return rc;
}

/* Calls the leave hook for the actors of this process, which ends in order. */
static void leave(struct py_state *st) {
    PyObject *list = PyList_New(0);
    uint64_t key;
    void *val;
    for (uint32_t i = 0; list && sk_map_next(&st->actors, &i, &key, &val);)
        if (PyList_Append(list, val) < 0) Py_CLEAR(list);
    PyObject *r = list && st->hook_leave && PyList_GET_SIZE(list)
                      ? PyObject_CallOneArg(st->hook_leave, list)
                      : NULL;
    if (PyErr_Occurred()) PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
    Py_XDECREF(list);
}

static PyObject *m_serve(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_worker_hooks hooks = {on_note, before_fork, after_fork, begin, st};
    bool was = false;
    PY_ERR(err);
    py_memory_advise();
    sk_rc rc = sk_worker_serve(&st->runner, &hooks, &was, &err);
    /* the driver has stopped this process, so references that die later must send no message to
     * it */
    if (was) {
        st->engine = NULL;
        st->gen++;
        leave(st);
        py_runner_clear(st);
    }
    return rc == SK_OK ? PyBool_FromLong(was) : py_raise(st, rc, &err);
}

static int crash_fd = -1;

static PyObject *m_crash_fd(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    return PyLong_FromLong(crash_fd = sk_worker_crash_fd());
}

/* The child's crash is not to be reported as a crash of the worker. */
void py_worker_forget(void) {
    if (crash_fd >= 0) (void)dup3(STDERR_FILENO, crash_fd, O_CLOEXEC);
    crash_fd = -1;
}

/* Returns text for the message about a process's death; bytes that are not valid UTF-8 become
 * "?". */
static const char *told(PyObject *text) {
    const char *s = PyUnicode_AsUTF8(text);
    if (!s && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        s = "?";
    }
    return s;
}

enum {
    DOING_LABEL,
    DOING_WHAT,
    DOING_FIRST,
    DOING_LAST,
    DOING_SOURCE,
    DOING_ROW,
    DOING_TASK,
    DOING_ARGS
};

/* doing(...): joins the parts of one line of text that says what the task is doing. Called before
 * each batch. */
static PyObject *m_doing(PyObject *module SK_UNUSED, PyObject *const *a, Py_ssize_t n_args) {
    char text[512];
    int n;
    if (n_args != DOING_LABEL + 1 && n_args != DOING_WHAT + 1 && n_args != DOING_ARGS)
        return PyErr_Format(
            PyExc_TypeError,
            "doing takes a label, what, and the five parts of a place, not %zd arguments", n_args);
    const char *label = told(a[DOING_LABEL]),
               *what = n_args > DOING_WHAT ? told(a[DOING_WHAT]) : "";
    if (!label || !what) return NULL;
    n = snprintf(text, sizeof text, "%s%s%s", label, *what ? ": " : "", what);
    if (n_args == DOING_ARGS) {
        const char *source = told(a[DOING_SOURCE]);
        long long first = PyLong_AsLongLong(a[DOING_FIRST]),
                  last = PyLong_AsLongLong(a[DOING_LAST]);
        char row[40] = "", task[40] = "";
        if (a[DOING_ROW] != Py_None)
            snprintf(row, sizeof row, ", row %lld", PyLong_AsLongLong(a[DOING_ROW]));
        if (a[DOING_TASK] != Py_None)
            snprintf(task, sizeof task, " (task %lld)", PyLong_AsLongLong(a[DOING_TASK]));
        if (PyErr_Occurred()) return NULL;
        if ((size_t)n < sizeof text)
            n += snprintf(text + n, sizeof text - (size_t)n, " %lld..%lld%s%s%s%s", first, last,
                          row, *source ? " of " : "", source, task);
    }
    sk_worker_doing(text, SK_MIN((size_t)n, sizeof text - 1));
    Py_RETURN_NONE;
}

PyMethodDef py_serve_methods[] = {
    {"serve", m_serve, METH_NOARGS,
     "Fork server and workers: first call of skate._worker_main. False when this process is none."},
    {"crash_fd", m_crash_fd, METH_NOARGS,
     "Where a crash handler may write in a worker; -1 elsewhere."},
    {"doing", (PyCFunction)(void (*)(void))m_doing, METH_FASTCALL,
     "doing(label[, what[, first, last, source, row or None, task or None]]): what this worker has "
     "in hand, for the message about its "
     "death. Elsewhere nothing."},
    {NULL, NULL, 0, NULL},
};

/* current.c - the running task, as its code sees it: the task's name and resources, its cancel, its
 * end, its notes. */
#include "engine/actors.h"
#include "exec/exec.h"
#include "py/worker/worker.h"

_Thread_local struct sk_task *py_task_now;
_Thread_local bool py_closing;
_Thread_local uint64_t py_exiting;
_Thread_local const struct py_at *py_at_now;

struct sk_task *py_current_task(void) { return py_task_now ? py_task_now : py_async_task(); }

static struct sk_task *inside(const char *what) {
    if (!py_task_now) PyErr_Format(PyExc_RuntimeError, "%s works only inside a task", what);
    return py_task_now;
}

static PyObject *m_current_task(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    const struct sk_task *t = py_current_task();
    if (!t && py_at_now)
        return Py_BuildValue("(iKNi)", 0, (unsigned long long)py_at_now->actor,
                             py_text(py_at_now->name), 0);
    if (!t) Py_RETURN_NONE;
    return Py_BuildValue("(KKNI)", (unsigned long long)(t->known_id ? t->known_id : t->id.v),
                         (unsigned long long)(t->known_actor ? t->known_actor : t->actor.v),
                         py_text(t->name), (unsigned)t->attempt);
}

/* current_need(names): what the running task needs, or for a call of an actor its actor:
 * ({resource: amount}, placement group or 0, bundle, environment, [GPU, ...], whether tasks that it
 * submits inherit the group). */
static PyObject *m_current_need(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    const struct sk_task *t = py_current_task();
    if (!PyList_Check(names))
        return PyErr_Format(PyExc_TypeError, "current_need(list of the names of custom resources)");
    if (!t) Py_RETURN_NONE;
    struct sk_need need = {.res = {.amount = {[SK_RES_CPU] = t->actor.v ? 0 : SK_RES_UNIT}}};
    if (t->need) need = *t->need;
    PyObject *gpus = PyList_New(0), *d = py_amounts(&need.res, names), *r = NULL;
    for (int i = 0; gpus && i < 16; i++) {
        if (!(t->gpus >> i & 1)) continue;
        PyObject *v = PyLong_FromLong(i);
        if (!v || PyList_Append(gpus, v) < 0) Py_CLEAR(gpus);
        Py_XDECREF(v);
    }
    if (gpus && d && py_add_more(st, d, need.more, names) == 0)
        r = Py_BuildValue("(OKiIOO)", d, (unsigned long long)need.group, (int)need.bundle,
                          (unsigned)need.env, gpus, need.capture ? Py_True : Py_False);
    Py_XDECREF(gpus);
    Py_XDECREF(d);
    return r;
}

static PyObject *m_task_cancelled(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    const struct sk_task *t = py_current_task();
    return PyBool_FromLong(t && sk_task_cancelled(t));
}

bool py_interrupted(void) {
    return py_task_now && !py_task_now->actor.v && sk_task_interrupt(py_task_now) && !py_closing;
}

/* True if this frame or one of its callers is in the middle of an import. */
static bool importing(PyObject *frame) {
    bool found = false;
    PyFrameObject *f = frame && PyFrame_Check(frame) ? (PyFrameObject *)Py_NewRef(frame) : NULL;
    while (f && !found) {
        PyCodeObject *code = PyFrame_GetCode(f);
        const char *file = PyUnicode_AsUTF8(code->co_filename);
        found = file && strcmp(file, "<frozen importlib._bootstrap>") == 0;
        if (!file) PyErr_Clear();
        Py_DECREF(code);
        PyFrameObject *back = PyFrame_GetBack(f);
        Py_DECREF(f);
        f = back;
    }
    Py_XDECREF(f);
    return found;
}

/* Python's handler of SIGINT in a worker. A signal that arrives late, when another task runs, is
 * ignored. An interrupted import leaves half-initialised modules (C extensions may not be
 * importable again), so the process ends after this task. While a task closes its generators it is
 * not interrupted, since Python only prints an exception of a generator that its last reference
 * closes. */
static PyObject *m_on_interrupt(PyObject *module, PyObject *args) {
    if (!py_task_now || ((struct py_state *)PyModule_GetState(module))->stray ||
        !sk_task_interrupt(py_task_now) || py_closing)
        Py_RETURN_NONE;
    if (!py_task_now->actor.v && PyTuple_GET_SIZE(args) == 2 &&
        importing(PyTuple_GET_ITEM(args, 1)))
        sk_task_end_flags(py_task_now, SK_END_PROCESS);
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return NULL;
}

static PyObject *m_end_flags(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned flags;
    struct sk_task *t = py_current_task();
    if (!PyArg_ParseTuple(args, "I", &flags)) return NULL;
    if (!t) return PyErr_Format(PyExc_RuntimeError, "this works only inside a task");
    sk_task_end_flags(t, flags);
    Py_RETURN_NONE;
}

static PyObject *m_actor_exit(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_task *t = py_current_task();
    PY_ERR(err);
    if (t && t->actor.v) {
        sk_task_end_flags(t, SK_END_EXIT_ACTOR | SK_END_FINAL);
        py_exiting = t->id.v;
        Py_RETURN_NONE;
    }
    if (t || (!py_async_serves() && !py_at_now) || !st->engine->actors)
        return PyErr_Format(PyExc_TypeError, "exit_actor: this process runs no actor");
    /* the actor is asked to leave at once and not by the task's end: a coroutine calls this after
     * the call that started it has ended */
    sk_rc rc = st->engine->actors->leave(st->engine, &err);
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_current_function(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    const struct sk_task *t = py_current_task();
    if (!t && py_at_now) return Py_BuildValue("(OO)", Py_TYPE(py_at_now->self), py_at_now->method);
    const struct py_fn *f = t ? sk_map_get(&st->fns, t->fn.v) : NULL;
    if (!f || !f->callable) Py_RETURN_NONE;
    PyObject *self = t->actor.v && !t->is_actor_init ? sk_map_get(&st->actors, t->actor.v) : NULL;
    return self ? Py_BuildValue("(OO)", Py_TYPE(self), f->callable) : Py_NewRef(f->callable);
}

static PyObject *m_task_note(PyObject *module SK_UNUSED, PyObject *ops) {
    struct sk_task *t = inside("task_note");
    PyObject *fast =
        t ? PySequence_Fast(
                ops,
                "task_note takes a list of (rows, ns, io_retries, fallbacks, in_place, no_room)")
          : NULL;
    if (!fast) return NULL;
    struct {
        struct sk_task_note h;
        struct sk_task_note_op
            op[(SK_NOTE_MAX - sizeof(struct sk_task_note)) / sizeof(struct sk_task_note_op)];
    } note;
    Py_ssize_t n = SK_MIN(PySequence_Fast_GET_SIZE(fast), (Py_ssize_t)SK_COUNT(note.op));
    note.h.magic = SK_TASK_NOTE;
    note.h.n = (uint32_t)n;
    for (Py_ssize_t i = 0; i < n; i++) {
        unsigned long long rows, ns, again, fallbacks, in_place, no_room;
        PyObject *row = PySequence_Fast_GET_ITEM(fast, i);
        if (!PyTuple_Check(row) ||
            !PyArg_ParseTuple(row, "KKKKKK", &rows, &ns, &again, &fallbacks, &in_place, &no_room)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "task_note takes a list of (rows, ns, io_retries, "
                                                 "fallbacks, in_place, no_room)");
            Py_DECREF(fast);
            return NULL;
        }
        note.op[i] = (struct sk_task_note_op){rows, ns, again, fallbacks, in_place, no_room, 0};
    }
    Py_DECREF(fast);
    sk_task_note(t, (struct sk_bytes){&note, sizeof note.h + (size_t)n * sizeof note.op[0]});
    Py_RETURN_NONE;
}

static PyObject *m_task_closing(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    py_closing = py_task_now != NULL;
    Py_RETURN_NONE;
}

static PyObject *m_task_skip(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    struct sk_task *t = inside("task_skip");
    return t ? PyLong_FromUnsignedLong(sk_task_skip(t)) : NULL;
}

PyMethodDef py_current_methods[] = {
    {"current_task", m_current_task, METH_NOARGS,
     "(task, actor or 0, name, attempt), or None outside of tasks."},
    {"current_function", m_current_function, METH_NOARGS,
     "The function that the current task runs; for a method (class, name)."},
    {"current_need", m_current_need, METH_O,
     "current_need(custom names): (resources, placement group, bundle, environment, GPUs, captures "
     "children) or None."},
    {"task_cancelled", m_task_cancelled, METH_NOARGS, "Somebody has cancelled the running task."},
    {"on_interrupt", m_on_interrupt, METH_VARARGS,
     "Handler of SIGINT in workers: KeyboardInterrupt when the running task was cancelled."},
    {"task_end_flags", m_end_flags, METH_VARARGS,
     "1: the failure of the running task is final (no retry). 4: its process runs nothing more."},
    {"actor_exit", m_actor_exit, METH_NOARGS,
     "The actor ends with the running call, which must raise. TypeError outside of actors."},
    {"task_note", m_task_note, METH_O,
     "(rows_out, ns, io_retries, fallbacks, in_place, no_room) per fused operator, for the DONE "
     "event."},
    {"task_closing", m_task_closing, METH_NOARGS,
     "The running task has given all it will; until it has ended a cancel does not interrupt it."},
    {"task_skip", m_task_skip, METH_NOARGS, "How many first yields exist from an earlier attempt."},
    {NULL, NULL, 0, NULL},
};

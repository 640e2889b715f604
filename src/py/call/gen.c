/* gen.c - ObjectRefGenerator: the yields of a streaming task as ObjectRefs, one by one as they
 * are made. */
#include "base/clock.h"
#include "engine/streams.h"
#include "py/call/call.h"

struct gen {
    PyObject_HEAD uint64_t task;
    PyObject *end; /* the ObjectRef of completed(), or the one whose value is the failure */
    uint32_t gen;
    bool done;
};

PyObject *py_gen_new(struct py_state *st, sk_tid task) {
    struct gen *g = PyObject_New(struct gen, st->gen_type);
    if (!g) {
        st->engine->streams->drop(st->engine, task);
        return NULL;
    }
    g->task = task.v;
    g->end = NULL;
    g->gen = st->gen;
    g->done = false;
    return (PyObject *)g;
}

static void gen_drop(struct gen *g) {
    struct py_state *st = py_state_of(Py_TYPE((PyObject *)g));
    if (g->task && st && st->engine && g->gen == st->gen && !st->closing)
        st->engine->streams->drop(st->engine, (sk_tid){g->task});
    g->task = 0;
    g->done = true;
}

static void gen_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    gen_drop((struct gen *)(void *)o);
    Py_XDECREF(((struct gen *)(void *)o)->end);
    PyObject_Free(o);
    Py_DECREF(type);
}

bool py_gen_stream(struct py_state *st, PyObject *gen, sk_tid *out) {
    const struct gen *g = (struct gen *)(void *)gen;
    if (g->done) return false;
    if (!st->engine || g->gen != st->gen || st->closing) {
        py_raise(st, SK_ECLOSED,
                 &(struct sk_err){.msg = "this generator is of an engine that was shut down"});
        return false;
    }
    *out = (sk_tid){g->task};
    return true;
}

static PyObject *late(struct py_state *st, sk_tid t) {
    char what[400] = "";
    struct sk_err e;
    if (st->engine->state && st->engine->state->about) {
        PY_DROP(st)
        st->engine->state->about(st->engine, (sk_oid){0}, t, what, sizeof what);
        PY_TAKE(st)
    }
    snprintf(e.msg, sizeof e.msg, "the next item is not ready%s%s", *what ? ": it is one " : "",
             what);
    return py_raise(st, SK_ETIMEOUT, &e);
}

/* Returns the ObjectRef of the next value. NULL without an exception: all values were read. */
static PyObject *gen_take(struct gen *g, int64_t deadline_ns) {
    struct py_state *st = py_state_of(Py_TYPE((PyObject *)g));
    PY_ERR(err);
    sk_oid id = {0};
    sk_tid t;
    uint32_t gen = g->gen;
    int64_t began_ns = 0;
    if (!py_gen_stream(st, (PyObject *)g, &t)) return NULL;
    sk_rc rc = st->driver ? st->engine->streams->next(st->engine, t, 0, &id, &err) : SK_ETIMEOUT;
    while (rc == SK_ETIMEOUT) {
        int64_t now = sk_now_ns(), until = SK_MIN(deadline_ns, now + PY_SLICE_NS);
        if (deadline_ns == 0 || now >= deadline_ns) return late(st, t);
        PY_DROP(st)
        rc = st->engine->streams->next(st->engine, t, until, &id, &err);
        PY_TAKE(st)
        if (rc != SK_ETIMEOUT) break;
        if (!began_ns) began_ns = now;
        /* a signal handler may have shut the engine down and opened another */
        if (py_between_slices(st, began_ns) < 0 || py_gone(st, gen)) return NULL;
        if (g->done)
            return py_raise(st, SK_ECLOSED,
                            &(struct sk_err){.msg = "the engine was shut down during the wait"});
    }
    if (rc == SK_OK) return py_ref_new(st, id, t);
    if (rc == SK_EDONE) {
        gen_drop(g);
        return NULL;
    }
    if (!id.v) return py_raise(st, rc, &err);
    /* A failure of the task arrives as a last reference, whose value is the error. The task is over
     * then; its id is kept for task_id(). */
    g->done = true;
    PyObject *failure = py_ref_new(st, id, t);
    if (failure && !g->end) g->end = Py_NewRef(failure);
    return failure;
}

static PyObject *gen_next(PyObject *o) {
    return py_with_prints(py_state_of(Py_TYPE(o)), gen_take((struct gen *)(void *)o, INT64_MAX));
}

static PyObject *gen_next_within(PyObject *o, PyObject *arg) {
    double s = PyFloat_AsDouble(arg);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    PyObject *r = py_with_prints(py_state_of(Py_TYPE(o)),
                                 gen_take((struct gen *)(void *)o, py_deadline(s, sk_now_ns())));
    if (!r && !PyErr_Occurred()) PyErr_SetNone(PyExc_StopIteration);
    return r;
}

static PyObject *gen_peek(PyObject *o, PyObject *arg) {
    struct py_state *st = py_state_of(Py_TYPE(o));
    double s = PyFloat_AsDouble(arg);
    sk_tid t;
    PY_ERR(err);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    if (!py_gen_stream(st, o, &t)) return PyErr_Occurred() ? NULL : PyLong_FromLong(2);
    int64_t deadline = py_deadline(s, sk_now_ns());
    uint32_t gen = ((struct gen *)(void *)o)->gen;
    sk_rc rc = st->driver ? st->engine->streams->wait(st->engine, t, 0, &err) : SK_ETIMEOUT;
    for (bool more = s != 0 || !st->driver; rc == SK_ETIMEOUT && more;) {
        int64_t now = sk_now_ns(), until = SK_MIN(deadline, now + PY_SLICE_NS);
        PY_DROP(st)
        rc = st->engine->streams->wait(st->engine, t, until, &err);
        PY_TAKE(st)
        if (rc != SK_ETIMEOUT) break;
        if (PyErr_CheckSignals() < 0 || py_gone(st, gen)) return NULL;
        if (((struct gen *)(void *)o)->done)
            return py_raise(st, SK_ECLOSED,
                            &(struct sk_err){.msg = "the engine was shut down during the wait"});
        more = sk_now_ns() < deadline;
    }
    if (rc != SK_OK && rc != SK_EDONE && rc != SK_ETIMEOUT) return py_raise(st, rc, &err);
    return PyLong_FromLong(rc == SK_OK ? 1 : rc == SK_EDONE ? 2 : 0);
}

static PyObject *gen_completed(PyObject *o, PyObject *unused SK_UNUSED) {
    struct gen *g = (struct gen *)(void *)o;
    struct py_state *st = py_state_of(Py_TYPE(o));
    sk_tid t;
    sk_oid id = {0};
    PY_ERR(err);
    if (!g->end) {
        if (py_gen_stream(st, o, &t)) {
            sk_rc rc;
            PY_DROP(st)
            rc = st->engine->streams->end(st->engine, t, PY_NONE, &id, &err);
            PY_TAKE(st)
            g->end = rc == SK_OK ? py_ref_new(st, id, t) : py_raise(st, rc, &err);
        } else if (!PyErr_Occurred() && py_ensure(st) == 0) {
            /* all values were read, and the task has succeeded */
            g->end = py_put(st, Py_None);
        }
    }
    return Py_XNewRef(g->end);
}

static PyObject *gen_completed_attr(PyObject *o, void *unused SK_UNUSED) {
    return gen_completed(o, NULL);
}

static PyObject *gen_is_finished(PyObject *o, PyObject *unused SK_UNUSED) {
    return PyBool_FromLong(((struct gen *)(void *)o)->done);
}

static PyObject *gen_close(PyObject *o, PyObject *unused SK_UNUSED) {
    gen_drop((struct gen *)(void *)o);
    Py_RETURN_NONE;
}

static PyObject *gen_task_id(PyObject *o, PyObject *unused SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(((struct gen *)(void *)o)->task);
}

static PyObject *gen_reduce(PyObject *o SK_UNUSED, PyObject *unused SK_UNUSED) {
    PyErr_SetString(
        PyExc_TypeError,
        "an ObjectRefGenerator cannot be sent to another process; send the refs that it yields");
    return NULL;
}

static PyMethodDef gen_methods[] = {
    {"close", gen_close, METH_NOARGS, "Drops what is left and cancels the task."},
    {"next_within", gen_next_within, METH_O,
     "The next ref within so many seconds; GetTimeoutError, StopIteration."},
    {"peek", gen_peek, METH_O,
     "peek(seconds): whether next() would not wait: 1 when an item is there, 2 at the end. Takes "
     "nothing."},
    {"completed", gen_completed, METH_NOARGS,
     "A ref that is ready when the task has ended: None, or its failure."},
    {"is_finished", gen_is_finished, METH_NOARGS, "Everything was taken, the failure included."},
    {"task_id", gen_task_id, METH_NOARGS, "Number of its task."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {"__reduce__", gen_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef gen_getset[] = {
    {"_generator_ref", gen_completed_attr, NULL, "completed(), by the name it has in Ray.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot gen_slots[] = {
    {Py_tp_dealloc, gen_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, gen_next},
    {Py_tp_methods, gen_methods},
    {Py_tp_getset, gen_getset},
    {Py_tp_doc,
     "Iterator over the yields of a streaming task: ObjectRefs. Dropping it cancels what is left."},
    {0, NULL},
};

static PyType_Spec gen_spec = {"skate._skate.ObjectRefGenerator", sizeof(struct gen), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, gen_slots};

int py_gen_types(PyObject *module, struct py_state *st) {
    st->gen_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &gen_spec, NULL);
    return st->gen_type ? PyModule_AddType(module, st->gen_type) : -1;
}

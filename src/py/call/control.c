/* control.c - calls about tasks and actors: kill, cancel, find by name. */
#include "engine/actors.h"
#include "py/call/call.h"

static PyObject *m_actor_kill(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *token;
    int no_restart;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "O!p", st->token_type, &token, &no_restart) ||
        !py_token_alive(st, token))
        return NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->actor_end(st->engine, py_token_actor(token), no_restart, &err);
    PY_TAKE(st)
    /* SK_ENOENT is no error: the actor is dead already */
    if (rc != SK_OK && rc != SK_ENOENT) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_actor_find(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    const char *name, *space;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "sz", &name, &space) || py_ensure(st) < 0) return NULL;
    if (!py_has(st, st->engine->actors, "names of actors")) return NULL;
    sk_aid aid = {0};
    sk_oid ready = {0};
    struct sk_bytes meta = {0};
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->actors->find(st->engine, space, name, &aid, &ready, &meta, &err);
    PY_TAKE(st)
    if (rc == SK_ENOENT) Py_RETURN_NONE;
    if (rc != SK_OK) return py_raise(st, rc, &err);
    PyObject *ref = py_ref_new(st, ready, (sk_tid){0}), *token = NULL, *r = NULL;
    if (ref) token = py_token_new(st, aid.v, ref);
    else sk_actor_release(st->engine, aid);
    if (token) r = Py_BuildValue("(Oy#)", token, (const char *)meta.p, (Py_ssize_t)meta.n);
    sk_free((void *)(uintptr_t)meta.p);
    Py_XDECREF(ref);
    Py_XDECREF(token);
    return r;
}

static PyObject *m_actor_names(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (py_ensure(st) < 0) return NULL;
    if (!py_has(st, st->engine->actors, "names of actors")) return NULL;
    char *buf = NULL;
    size_t n = 0, cap;
    do { /* the list may grow between the two calls */
        cap = n;
        sk_free(buf);
        buf = sk_alloc(SK_TAG_PY, cap + 1);
        if (!buf) return PyErr_NoMemory();
        PY_DROP(st)
        n = st->engine->actors->names(st->engine, buf, cap);
        PY_TAKE(st)
    } while (n > cap);
    PyObject *list = PyList_New(0);
    for (const char *p = buf, *end = buf + n; list && p < end;) {
        const char *name = p + strlen(p) + 1;
        PyObject *row = Py_BuildValue("(ss)", p, name);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
        p = name + strlen(name) + 1;
    }
    sk_free(buf);
    return list;
}

static PyObject *m_cancel(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *o;
    int force, recursive;
    uint64_t tid = 0;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "Opp", &o, &force, &recursive) || py_ensure(st) < 0) return NULL;
    if (py_ref_check(st, o)) {
        if (!py_ref_alive(st, o)) return NULL;
        tid = ((struct py_ref *)(void *)o)->task;
        /* A reference from another process does not name its task, so the object's id stands for
         * the task. If no task makes the object, nothing happens. */
        if (!tid) tid = ((struct py_ref *)(void *)o)->id;
    } else if (Py_TYPE(o) == st->gen_type) {
        PyObject *n = PyObject_CallMethod(o, "task_id", NULL);
        tid = n ? PyLong_AsUnsignedLongLong(n) : 0;
        Py_XDECREF(n);
        if (PyErr_Occurred()) return NULL;
        if (!tid) Py_RETURN_NONE; /* all values of the generator were read, or it was closed */
    } else {
        return PyErr_Format(
            PyExc_TypeError,
            "cancel: takes an ObjectRef of a task, not %R; an actor is ended by kill(handle)",
            Py_TYPE(o));
    }
    if ((tid & PY_OF_METHOD) && force)
        return PyErr_Format(PyExc_ValueError, "force=True is not supported for actor tasks: it "
                                              "would end the actor; use kill() for that");
    tid &= ~PY_OF_METHOD;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->cancel(
        st->engine, (sk_tid){tid},
        (force ? SK_CANCEL_FORCE : 0u) | (recursive ? SK_CANCEL_CHILDREN : 0u), &err);
    PY_TAKE(st)
    if (rc != SK_OK && rc != SK_ENOENT) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_weak_token(PyObject *module, PyObject *id) {
    struct py_state *st = PyModule_GetState(module);
    unsigned long long aid = PyLong_AsUnsignedLongLong(id);
    if (PyErr_Occurred() || py_ensure(st) < 0) return NULL;
    return py_token_weak(st, aid);
}

PyMethodDef py_control_methods[] = {
    {"weak_token", m_weak_token, METH_O,
     "weak_token(actor's number): a handle that is not counted."},
    {"actor_kill", m_actor_kill, METH_VARARGS, "actor_kill(token, no_restart)"},
    {"actor_find", m_actor_find, METH_VARARGS,
     "actor_find(name, space or None): (token, meta), or None when no living actor has that name."},
    {"actor_names", m_actor_names, METH_NOARGS,
     "[(space, name)] of all living actors that have one."},
    {"cancel", m_cancel, METH_VARARGS, "cancel(ref, force, recursive)"},
    {NULL, NULL, 0, NULL},
};

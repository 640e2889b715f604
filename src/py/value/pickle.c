/* pickle.c - calls of the pickler: Python's own in C first, the dumps hook (cloudpickle) if that
 * fails.
 *
 * Invariant: if a value is pickled twice, only the references found the second time stay in the
 * collector. Cost: the pickler's. */
#include "py/value/value.h"

static int pickle_ready(struct py_state *st) {
    if (SK_LIKELY(st->pickle_dumps != NULL)) return 0;
    PyObject *m = PyImport_ImportModule("_pickle");
    if (!m) return -1;
    st->pickle_loads = PyObject_GetAttrString(m, "loads");
    st->pickle_dumps = PyObject_GetAttrString(m, "dumps");
    Py_DECREF(m);
    return st->pickle_loads && st->pickle_dumps ? 0 : -1;
}

/* The C pickler, with buffers out of band; the cloudpickle hook if that fails or the pickle
 * names __main__, which is another module in a worker. */
int py_dump(struct py_state *st, PyObject *v, PyObject **own, PyObject **bufs,
            struct py_collector *c) {
    uint32_t mark = c->refs.n;
    if (pickle_ready(st) < 0 || !(*bufs = PyList_New(0))) return -1;
    PyObject *append = PyObject_GetAttr(*bufs, st->s_append);
    if (!append) return -1;
    PyObject *args[3] = {v, st->int5, append};
    py_collector_push(c);
    *own = PyObject_Vectorcall(st->pickle_dumps, args, 2, st->kw_buffer_callback);
    py_collector_pop(c);
    Py_DECREF(append);
    if (*own && !memmem(PyBytes_AS_STRING(*own), (size_t)PyBytes_GET_SIZE(*own), "__main__", 8))
        return 0;
    if (!*own && (PyErr_ExceptionMatches(PyExc_MemoryError) ||
                  PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)))
        return -1;
    PyErr_Clear();
    Py_CLEAR(*own);
    Py_CLEAR(*bufs);
    py_collector_cut(c, mark);
    if (!st->hook_dumps) {
        PyErr_SetString(PyExc_RuntimeError, "the dumps hook is not set");
        return -1;
    }
    py_collector_push(c);
    PyObject *r = PyObject_CallOneArg(st->hook_dumps, v);
    py_collector_pop(c);
    if (!r) {
        py_front_strip(st);
        return -1;
    }
    if (!PyTuple_CheckExact(r) || PyTuple_GET_SIZE(r) != 2 ||
        !PyBytes_CheckExact(PyTuple_GET_ITEM(r, 0)) || !PyList_CheckExact(PyTuple_GET_ITEM(r, 1))) {
        Py_DECREF(r);
        PyErr_SetString(PyExc_TypeError, "the dumps hook must return (bytes, list)");
        return -1;
    }
    *own = Py_NewRef(PyTuple_GET_ITEM(r, 0));
    *bufs = Py_NewRef(PyTuple_GET_ITEM(r, 1));
    Py_DECREF(r);
    return 0;
}

PyObject *py_loads(struct py_state *st, PyObject *data, PyObject *buffers) {
    if (pickle_ready(st) < 0) return NULL;
    PyObject *args[2] = {data, buffers};
    return PyObject_Vectorcall(st->pickle_loads, args, 1, buffers ? st->kw_buffers : NULL);
}

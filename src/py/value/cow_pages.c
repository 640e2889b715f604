/* cow_pages.c - large parts of an object as writable memory: copy-on-write pages over the store.
 *
 * Used for objects that functions capture (data/values/captured.py). User code may write to the
 * memory like to its own, but a page costs memory only once it is written. The object stays pinned
 * as long as the memory exists. An engine without windows gives a copy. Cost: a mapping, 3 us; then
 * 0.1 us for the first read of each page. */
#include "engine/windows.h"
#include "py/value/value.h"

struct cow_pages {
    PyObject_HEAD uint8_t *p; /* the window; may be NULL */
    Py_buffer of;             /* the bytes of the object */
};

/* Makes a CowPages of the bytes. else_none: return None for bytes that are not in the store. */
static PyObject *own_of(struct py_state *st, PyObject *bytes, bool else_none) {
    PY_ERR(err);
    struct cow_pages *o = PyObject_New(struct cow_pages, st->cow_pages_type);
    if (!o) return NULL;
    o->p = NULL;
    o->of.obj = NULL;
    PyObject *copy = NULL;
    if (PyObject_GetBuffer(bytes, &o->of, PyBUF_SIMPLE) == 0) {
        void *at = NULL;
        sk_rc rc = SK_OK;
        bool no_window = !st->engine || !st->engine->windows || !o->of.len;
        if (no_window && else_none) copy = Py_NewRef(Py_None);
        else if (no_window) copy = PyByteArray_FromStringAndSize(o->of.buf, o->of.len);
        else if ((rc = st->engine->windows->open(st->engine, o->of.buf, (size_t)o->of.len, true,
                                                 &at, &err)) != SK_OK) {
            if (rc == SK_EINVAL && else_none) copy = Py_NewRef(Py_None);
            else py_raise(st, rc, &err);
        }
        o->p = at;
    }
    if (o->p) return (PyObject *)o;
    Py_DECREF(o);
    return copy;
}

static PyObject *m_own(PyObject *module, PyObject *bytes) {
    struct py_state *st = PyModule_GetState(module);
    return py_ensure(st) < 0 ? NULL : own_of(st, bytes, false);
}

static PyObject *m_file_of(PyObject *module, PyObject *bytes) {
    struct py_state *st = PyModule_GetState(module);
    Py_buffer b;
    int fd;
    uint64_t at;
    PY_ERR(err);
    if (PyObject_GetBuffer(bytes, &b, PyBUF_SIMPLE) < 0) return NULL;
    bool in = st->engine && st->engine->windows && b.len &&
              st->engine->windows->file(st->engine, b.buf, (size_t)b.len, &fd, &at, &err) == SK_OK;
    PyBuffer_Release(&b);
    return in ? Py_BuildValue("(iK)", fd, (unsigned long long)at) : Py_NewRef(Py_None);
}

static PyObject *m_own_pages(PyObject *module, PyObject *bytes) {
    return own_of(PyModule_GetState(module), bytes, true);
}

static void cow_pages_dealloc(PyObject *self) {
    struct cow_pages *o = (struct cow_pages *)(void *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (o->p) sk_window_close(o->p, (size_t)o->of.len);
    if (o->of.obj) PyBuffer_Release(&o->of);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int cow_pages_getbuffer(PyObject *self, Py_buffer *view, int flags) {
    struct cow_pages *o = (struct cow_pages *)(void *)self;
    return PyBuffer_FillInfo(view, self, o->p, o->of.len, 0, flags);
}

static PyType_Slot cow_pages_slots[] = {
    {Py_tp_dealloc, cow_pages_dealloc},
    {Py_bf_getbuffer, cow_pages_getbuffer},
    {Py_tp_doc, "Bytes of an object that may be written: others do not see it."},
    {0, NULL},
};
static PyType_Spec cow_pages_spec = {"skate._skate._CowPages", sizeof(struct cow_pages), 0,
                                     Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                     cow_pages_slots};

int py_cow_pages_types(PyObject *module, struct py_state *st) {
    st->cow_pages_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &cow_pages_spec, NULL);
    return st->cow_pages_type ? 0 : -1;
}

PyMethodDef py_cow_pages_methods[] = {
    {"own", m_own, METH_O,
     "own(bytes of an object): the same as memory to be written by this process alone; pages are "
     "copied as they are written."},
    {"own_pages", m_own_pages, METH_O,
     "own_pages(bytes): the same of bytes that lie in the store; None: they do not, or this engine "
     "has no store to map once more."},
    {"file_of", m_file_of, METH_O,
     "file_of(bytes): (descriptor of the file of the store that they lie in, where); None: they "
     "lie in none."},
    {NULL, NULL, 0, NULL},
};

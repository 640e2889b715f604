/* front.c - the front: wraps functions and generators that users call and that Python code of skate
 * implements, so that their errors show only the user's frames.
 *
 * An error of the user's function has its own traceback, made where it ran; the frames between the
 * user's call and the engine (dataset.py, run/execute.py, ...) say nothing about it. A Python
 * function cannot remove its own frame from a traceback; a C function has none. So front(function)
 * is a method that calls the function, and a generator that it returns goes on in a FrontIter.
 *
 * Not here: which errors lose skate's frames (told() in skate/exceptions.py; a bug of skate itself
 * keeps its whole traceback), and the message for a call with wrong arguments (misused() there).
 * Invariant: only frames of files below the package's folder are removed, wherever in the traceback
 * they are. Cost: 20 ns a call or item. */
#include "py/core/core.h"

#include <structmember.h>

PyObject *py_folder(struct py_state *st) {
    if (!st->home) {
        PyObject *file = PyModule_GetFilenameObject(st->module);
        if (!file) return NULL;
        Py_ssize_t n = PyUnicode_GET_LENGTH(file);
        Py_ssize_t slash = PyUnicode_FindChar(file, '/', 0, n, -1);
        st->home = slash < 0 ? PyUnicode_FromString("") : PyUnicode_Substring(file, 0, slash + 1);
        Py_DECREF(file);
    }
    return st->home;
}

static bool is_ours(PyTracebackObject *tb, PyObject *home) {
    PyCodeObject *code = PyFrame_GetCode(tb->tb_frame);
    Py_ssize_t ours = PyUnicode_GET_LENGTH(home)
                          ? PyUnicode_Tailmatch(code->co_filename, home, 0, PY_SSIZE_T_MAX, -1)
                          : 0;
    Py_DECREF(code);
    if (ours < 0) PyErr_Clear(); /* not a str: a frame of other code */
    return ours > 0;
}

/* Removes skate's frames from the traceback tb, whose reference is taken over. Returns a new
 * reference; NULL if no other frames are left. */
static PyTracebackObject *without_ours(PyTracebackObject *tb, PyObject *home) {
    while (tb && is_ours(tb, home)) {
        PyTracebackObject *next = tb->tb_next;
        Py_XINCREF(next);
        Py_DECREF(tb);
        tb = next;
    }
    for (PyTracebackObject *t = tb; t && t->tb_next;) {
        PyTracebackObject *next = t->tb_next;
        if (!is_ours(next, home)) {
            t = next;
            continue;
        }
        Py_XINCREF(next->tb_next);
        t->tb_next = next->tb_next;
        Py_DECREF(next);
    }
    return tb;
}

static bool told(struct py_state *st, PyObject *e) {
    PyObject *f = py_class(st, "told"), *yes = f ? PyObject_CallOneArg(f, e) : NULL;
    bool r = yes == Py_True;
    if (!yes) PyErr_Clear(); /* on failure all frames are kept */
    Py_XDECREF(f);
    Py_XDECREF(yes);
    return r;
}

void py_front_strip(struct py_state *st) {
    PyObject *type, *value, *tb, *home;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    if (value && tb && PyTraceBack_Check(tb) && PyException_SetTraceback(value, tb) == 0 &&
        told(st, value) && (home = py_folder(st))) {
        tb = (PyObject *)without_ours((PyTracebackObject *)tb, home);
        if (PyException_SetTraceback(value, tb ? tb : Py_None) < 0) PyErr_Clear();
    }
    PyErr_Restore(type, value, tb); /* this also drops errors raised here */
}

/* Improves, in place, the message of a TypeError that says that arguments do not fit the function.
 * In that case the traceback is empty, since the function was not entered. */
static void misused(struct py_state *st, PyObject *fn, PyObject *of) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    PyObject *f = !tb && value ? py_class(st, "misused") : NULL,
             *same = f ? PyObject_CallFunctionObjArgs(f, value, fn, of, NULL) : NULL;
    Py_XDECREF(f);
    Py_XDECREF(same);
    PyErr_Restore(type, value, tb); /* this also drops errors raised here */
}

/* ---- generators that users get --------------------------------------------------------------- */

struct front_iter {
    PyObject_HEAD PyObject *it;
};

static PyObject *iter_next(PyObject *self) {
    PyObject *v = PyIter_Next(((struct front_iter *)self)->it);
    if (!v && PyErr_Occurred()) py_front_strip(py_state_of(Py_TYPE(self)));
    return v;
}

/* close(), send() and throw() go to the generator itself */
static PyObject *iter_getattro(PyObject *self, PyObject *name) {
    PyObject *v = PyObject_GenericGetAttr(self, name);
    if (v || !PyErr_ExceptionMatches(PyExc_AttributeError)) return v;
    PyErr_Clear();
    return PyObject_GetAttr(((struct front_iter *)self)->it, name);
}

static int iter_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct front_iter *)self)->it);
    return 0;
}

static int iter_clear(PyObject *self) {
    Py_CLEAR(((struct front_iter *)self)->it);
    return 0;
}

static void iter_dealloc(PyObject *self) {
    PyTypeObject *t = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    (void)iter_clear(self);
    t->tp_free(self);
    Py_DECREF(t);
}

static PyType_Slot iter_slots[] = {
    {Py_tp_doc, "A generator of skate whose errors show the user's frames only."},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, iter_next},
    {Py_tp_getattro, iter_getattro},
    {Py_tp_traverse, iter_traverse},
    {Py_tp_clear, iter_clear},
    {Py_tp_dealloc, iter_dealloc},
    {0, NULL},
};
static PyType_Spec iter_spec = {
    "skate._skate.FrontIter", sizeof(struct front_iter), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, iter_slots};

/* ---- functions that users call --------------------------------------------------------------- */

struct front {
    PyObject_HEAD PyObject *fn, *dict, *weak;
    vectorcallfunc call;
};

static PyObject *front_call(PyObject *self, PyObject *const *args, size_t n, PyObject *names) {
    struct py_state *st = py_state_of(Py_TYPE(self));
    PyObject *v = PyObject_Vectorcall(((struct front *)self)->fn, args, n, names);
    if (!v) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            misused(st, ((struct front *)self)->fn, PyVectorcall_NARGS(n) ? args[0] : Py_None);
        py_front_strip(st);
        return NULL;
    }
    if (!PyGen_CheckExact(v)) return v;
    struct front_iter *it =
        (struct front_iter *)st->front_iter_type->tp_alloc(st->front_iter_type, 0);
    if (it) it->it = v;
    else Py_DECREF(v);
    return (PyObject *)it;
}

static PyObject *front_get(PyObject *self, PyObject *of, PyObject *cls SK_UNUSED) {
    return !of || of == Py_None ? Py_NewRef(self) : PyMethod_New(self, of);
}

static PyObject *front_new(PyTypeObject *t, PyObject *args, PyObject *kw) {
    PyObject *fn;
    static char *names[] = {"function", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O:front", names, &fn)) return NULL;
    struct front *f = (struct front *)t->tp_alloc(t, 0);
    if (!f) return NULL;
    f->fn = Py_NewRef(fn);
    f->call = front_call;
    return (PyObject *)f;
}

static PyObject *front_repr(PyObject *self) { return PyObject_Repr(((struct front *)self)->fn); }

static int front_traverse(PyObject *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(((struct front *)self)->fn);
    Py_VISIT(((struct front *)self)->dict);
    return 0;
}

static int front_clear(PyObject *self) {
    Py_CLEAR(((struct front *)self)->fn);
    Py_CLEAR(((struct front *)self)->dict);
    return 0;
}

static void front_dealloc(PyObject *self) {
    PyTypeObject *t = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (((struct front *)self)->weak) PyObject_ClearWeakRefs(self);
    (void)front_clear(self);
    t->tp_free(self);
    Py_DECREF(t);
}

static PyMemberDef front_members[] = {
    {"__dictoffset__", T_PYSSIZET, offsetof(struct front, dict), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct front, weak), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(struct front, call), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* Pickles the function by its name, as Python does with functions: "Dataset.map" of its module. */
static PyObject *front_reduce(PyObject *self, PyObject *unused SK_UNUSED) {
    return PyObject_GetAttrString(self, "__qualname__");
}

static PyMethodDef front_methods[] = {{"__reduce__", front_reduce, METH_NOARGS, "Pickled by name."},
                                      {NULL, NULL, 0, NULL}};

static PyGetSetDef front_getset[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot front_slots[] = {
    {Py_tp_methods, front_methods},
    {Py_tp_doc, "front(function): the same as a method whose errors show the user's frames only."},
    {Py_tp_new, front_new},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, front_get},
    {Py_tp_repr, front_repr},
    {Py_tp_members, front_members},
    {Py_tp_getset, front_getset},
    {Py_tp_traverse, front_traverse},
    {Py_tp_clear, front_clear},
    {Py_tp_dealloc, front_dealloc},
    {0, NULL},
};
static PyType_Spec front_spec = {"skate._skate.front", sizeof(struct front), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                     Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR,
                                 front_slots};

int py_front_types(PyObject *module, struct py_state *st) {
    st->front_iter_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &iter_spec, NULL);
    PyObject *t = st->front_iter_type ? PyType_FromModuleAndSpec(module, &front_spec, NULL) : NULL;
    int rc = t ? PyModule_AddObjectRef(module, "front", t) : -1;
    Py_XDECREF(t);
    return rc;
}

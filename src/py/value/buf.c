/* buf.c - _Buf: read-only bytes of an object, which own the engine's view until the last array
 * over them is gone. */
#include "py/value/value.h"

/* the Python object _Buf: read-only bytes of a view that it owns, or of another object */
struct buf {
    PyObject_HEAD const uint8_t *p;
    size_t n;
    PyObject *base; /* the other object, if the bytes belong to one; NULL: the view is set */
    struct sk_view view;
    uint32_t gen;
};

PyObject *py_buf_new(struct py_state *st, const uint8_t *p, size_t n, PyObject *base) {
    struct buf *b = PyObject_New(struct buf, st->buf_type);
    if (!b) return NULL;
    b->p = p;
    b->n = n;
    b->base = Py_XNewRef(base);
    b->view.token = 0;
    b->gen = st->gen;
    return (PyObject *)b;
}

PyObject *py_buf_of_view(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    struct buf *b = (struct buf *)(void *)py_buf_new(st, v->data, v->len, NULL);
    if (!b) return NULL;
    if (k->owner) {
        b->base = Py_NewRef(k->owner);
        k->taken = true;
        return (PyObject *)b;
    }
    b->view = k->task ? sk_task_keep_arg(k->task, k->arg) : *v;
    b->base = NULL;
    k->taken = true;
    return (PyObject *)b;
}

static void buf_dealloc(PyObject *o) {
    struct buf *b = (struct buf *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    if (b->base) Py_DECREF(b->base);
    /* if the engine is closed, it has left the bytes mapped (engine.h, rule 7) */
    else if (st && st->engine && b->gen == st->gen && !st->closing)
        st->engine->ops->view_release(st->engine, &b->view);
    PyObject_Free(o);
    Py_DECREF(type);
}

static int buf_getbuffer(PyObject *o, Py_buffer *view, int flags) {
    struct buf *b = (struct buf *)(void *)o;
    return PyBuffer_FillInfo(view, o, (void *)(uintptr_t)b->p, (Py_ssize_t)b->n, 1, flags);
}

static PyType_Slot buf_slots[] = {
    {Py_tp_dealloc, buf_dealloc},
    {Py_bf_getbuffer, buf_getbuffer},
    {Py_tp_doc, "Read-only bytes of an object."},
    {0, NULL},
};
static PyType_Spec buf_spec = {"skate._skate._Buf", sizeof(struct buf), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, buf_slots};

int py_buf_types(PyObject *module, struct py_state *st) {
    st->buf_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &buf_spec, NULL);
    return st->buf_type ? 0 : -1;
}

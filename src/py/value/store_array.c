/* store_array.c - arrays that are made in the store, so that passing them on copies nothing: the
 * memory behind skate.empty().
 *
 *  open:    the array is a buffer of the engine, written through a second mapping (a window).
 *  sealed:  after the whole array was put, passed as an argument or returned by a task, the object
 *           is the buffer. The window becomes copy-on-write pages, so that no reader ever sees what
 *           older views of the array still write, and the array itself becomes read-only. The
 *           array's memory holds a view of the object (else the bytes could be reused) and, after a
 *           put, a reference to the object: putting the array again gives the same object.
 *
 * Small arrays, and those of an engine without windows, are plain memory that is copied. An array
 * is recognised if it is an exact ndarray whose chain of bases ends in such memory and which covers
 * all of it. A buffer whose array dies before sealing is given back; after a kill the driver takes
 * it back with the process's leases. If sealing fails in the engine (it raises), the bytes of the
 * array are undefined. Cost: the page faults of the window; passing on 80 MB 0.27 ms, all of it for
 * page tables (a put with a copy: 4.3 ms). */
#include "engine/windows.h"
#include "py/value/value.h"

struct store_array {
    PyObject_HEAD uint8_t *p; /* the data, n bytes */
    /* the buffer consists of `head` bytes (py_ndarray_head, padded) and the data */
    size_t n, head;
    struct sk_buf buf;
    struct sk_view view; /* view of the sealed object; token 0: the array is not sealed */
    sk_oid oid;          /* id of the object, if put() sealed it */
    uint32_t gen;
    bool in_store, sealed;
};

static size_t head_of(size_t ndim) { return (size_t)SK_ALIGN(8 + 8 * ndim, 64); }

static bool alive(const struct py_state *st, const struct store_array *r) {
    return st->engine && r->gen == st->gen && !st->closing;
}

static sk_rc map(struct py_state *st, struct store_array *r, struct sk_err *err) {
    struct sk_engine *e = st->engine;
    void *at = NULL;
    SK_TRY(e->ops->buf_alloc(e, r->head + r->n, &r->buf, err));
    py_warm(e, r->buf.data, r->buf.len);
    sk_rc rc = e->windows->open(e, r->buf.data + r->head, r->n, false, &at, err);
    if (rc == SK_OK) r->p = at;
    else e->ops->buf_abort(e, &r->buf);
    return rc;
}

static PyObject *m_room(PyObject *module, PyObject *const *args, Py_ssize_t n_args) {
    struct py_state *st = PyModule_GetState(module);
    if (n_args != 2) return PyErr_Format(PyExc_TypeError, "room(n_bytes, n_axes)");
    size_t n = PyLong_AsSize_t(args[0]), ndim = PyErr_Occurred() ? 0 : PyLong_AsSize_t(args[1]);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_OverflowError)) return NULL;
    if (PyErr_Occurred() || n > PY_SSIZE_T_MAX / 2 || ndim > 32)
        return PyErr_Format(PyExc_ValueError, "an array of %S bytes and %S axes is too large",
                            args[0], args[1]);
    if (py_ensure(st) < 0) return NULL;
    struct store_array *r = PyObject_New(struct store_array, st->store_array_type);
    if (!r) return NULL;
    r->p = NULL;
    r->n = n;
    r->head = head_of(ndim);
    r->view.token = r->oid.v = 0;
    r->gen = st->gen;
    r->in_store = st->engine->windows && n && r->head + n > SK_INLINE_MAX;
    r->sealed = false;
    st->n_store_arrays++;
    if (r->in_store) {
        PY_ERR(err);
        sk_rc rc;
        PY_DROP(st)
        rc = map(st, r, &err);
        PY_TAKE(st)
        if (rc == SK_OK) return (PyObject *)r;
        /* a signal handler may have raised during the wait for room */
        if (!PyErr_Occurred()) py_raise(st, rc, &err);
    } else if ((r->p = sk_alloc(SK_TAG_PY, n + 1)) != NULL) {
        return (PyObject *)r;
    } else {
        PyErr_NoMemory();
    }
    Py_DECREF(r);
    return NULL;
}

static void store_array_dealloc(PyObject *o) {
    struct store_array *r = (struct store_array *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    struct py_state *st = py_state_of(type);
    if (st) st->n_store_arrays--;
    if (!r->in_store) {
        sk_free(r->p);
    } else if (r->p) {
        sk_window_close(r->p, r->n);
        if (st && alive(st, r)) {
            if (!r->sealed) st->engine->ops->buf_abort(st->engine, &r->buf);
            if (r->view.token) st->engine->ops->view_release(st->engine, &r->view);
            if (r->oid.v) st->engine->ops->release(st->engine, r->oid);
        }
    }
    PyObject_Free(o);
    Py_DECREF(type);
}

static int store_array_getbuffer(PyObject *o, Py_buffer *view, int flags) {
    struct store_array *r = (struct store_array *)(void *)o;
    return PyBuffer_FillInfo(view, o, r->p, (Py_ssize_t)r->n, r->sealed, flags);
}

/* Finds the store array that v covers completely; NULL: none, or an exception is set. *root: the
 * array that was first made over that memory. Both are borrowed from v. On success the caller
 * releases *b, the buffer of v. */
static struct store_array *find(struct py_state *st, PyObject *v, PyObject **root, Py_buffer *b) {
    if (SK_LIKELY(!st->n_store_arrays) || !py_ndarray_type(st) || Py_TYPE(v) != st->ndarray)
        return NULL;
    struct store_array *r = NULL;
    for (PyObject *o = v; !r;) {
        PyObject *base = PyObject_GetAttrString(o, "base");
        if (!base) return NULL;
        Py_DECREF(base); /* the array o keeps the base alive */
        *root = o;
        if (Py_TYPE(base) == st->store_array_type) r = (struct store_array *)(void *)base;
        else if (Py_TYPE(base) != st->ndarray) return NULL;
        o = base;
    }
    if (PyObject_GetBuffer(v, b, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        /* v is not contiguous or has no format, so it is a part of the array or has another type */
        PyErr_Clear();
        return NULL;
    }
    if (b->buf == r->p && (size_t)b->len == r->n && b->ndim <= 32 &&
        head_of((size_t)b->ndim) == r->head && py_number_char(b->format))
        return r;
    PyBuffer_Release(b);
    return NULL;
}

/* Seals the array, so that it cannot be written any more. 1: its buffer can be used as the object;
 * 0: the array has to be encoded like any other; -1: exception. */
static int seal(struct py_state *st, struct store_array *r, PyObject *v, PyObject *root,
                const Py_buffer *b) {
    PyObject *arrays[2] = {v, root};
    bool first = !r->sealed && r->in_store && alive(st, r);
    if (first) {
        PY_ERR(err);
        uint8_t head[8 + 8 * 32];
        void *at = r->p;
        size_t n = py_ndarray_head(b, py_number_char(b->format), head);
        memcpy(r->buf.data, head, n);
        memset(r->buf.data + n, 0, r->head - n);
        sk_rc rc =
            st->engine->windows->open(st->engine, r->buf.data + r->head, r->n, true, &at, &err);
        if (rc != SK_OK) {
            py_raise(st, rc, &err);
            return -1;
        }
    }
    r->sealed = true;
    for (int i = 0; i < 2; i++) {
        PyObject *none = PyObject_CallMethod(arrays[i], "setflags", "O", Py_False);
        if (!none) return -1;
        Py_DECREF(none);
    }
    return first;
}

int py_store_array_put(struct py_state *st, PyObject *v, sk_oid *out) {
    Py_buffer b;
    PyObject *root;
    struct store_array *r = find(st, v, &root, &b);
    if (SK_LIKELY(!r)) return PyErr_Occurred() ? -1 : 0;
    int ready = seal(st, r, v, root, &b);
    PyBuffer_Release(&b);
    if (ready > 0) {
        PY_ERR(err);
        struct sk_payload p = {
            .kind = PY_NDARRAY, .buf = &r->buf, .buf_len = r->head + r->n, .keep = &r->view};
        sk_rc rc = st->engine->ops->put(st->engine, &p, &r->oid, &err);
        if (rc != SK_OK) {
            py_raise(st, rc, &err);
            return -1;
        }
    }
    if (ready < 0 || !r->oid.v || !alive(st, r)) return ready < 0 ? -1 : 0;
    st->engine->ops->retain(st->engine, r->oid);
    *out = r->oid;
    return 1;
}

int py_store_array_send(struct py_state *st, PyObject *v, struct sk_task *t, uint32_t i,
                        bool yields, sk_rc *rc, struct sk_err *err) {
    Py_buffer b;
    PyObject *root;
    struct store_array *r = find(st, v, &root, &b);
    if (SK_LIKELY(!r)) return PyErr_Occurred() ? -1 : 0;
    int ready = seal(st, r, v, root, &b);
    PyBuffer_Release(&b);
    if (ready <= 0) return ready;
    struct sk_payload p = {
        .kind = PY_NDARRAY, .buf = &r->buf, .buf_len = r->head + r->n, .keep = &r->view};
    *rc = yields ? sk_task_yield(t, &p, err) : sk_task_return(t, i, &p, err);
    return 1;
}

static PyType_Slot store_array_slots[] = {
    {Py_tp_dealloc, store_array_dealloc},
    {Py_bf_getbuffer, store_array_getbuffer},
    {Py_tp_doc, "Memory of the store for one array."},
    {0, NULL},
};
static PyType_Spec store_array_spec = {"skate._skate._StoreArray", sizeof(struct store_array), 0,
                                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                       store_array_slots};

int py_store_array_types(PyObject *module, struct py_state *st) {
    st->store_array_type =
        (PyTypeObject *)PyType_FromModuleAndSpec(module, &store_array_spec, NULL);
    return st->store_array_type ? 0 : -1;
}

PyMethodDef py_store_array_methods[] = {
    {"room", (PyCFunction)(void (*)(void))m_room, METH_FASTCALL,
     "room(n_bytes, n_axes): memory for an array, see skate.empty()."},
    {NULL, NULL, 0, NULL},
};

/* put.c - puts values and blocks into the store. Cost: 0.15 us plus the engine's part. */
#include "block/block.h"
#include "engine/channels.h"
#include "py/call/call.h"

PyObject *py_put(struct py_state *st, PyObject *value) {
    struct py_enc e;
    struct py_collector c = {0};
    struct sk_payload p;
    sk_oid id = {0};
    PyObject *r = NULL;
    PY_ERR(err);
    int room = py_store_array_put(st, value, &id);
    if (SK_UNLIKELY(room)) return room < 0 ? NULL : py_ref_new(st, id, (sk_tid){0});
    uint32_t gen = st->gen;
    if (py_encode(st, value, &e, &c) < 0) goto out;
    if (SK_UNLIKELY(py_gone(st, gen))) {
        py_enc_done(st, &e);
        goto out;
    }
    if (py_enc_payload(st, &e, &c, 0, &p) < 0) goto out;
    py_enc_taken(&e);
    sk_rc rc = st->engine->ops->put(st->engine, &p, &id, &err);
    r = rc == SK_OK ? py_ref_new(st, id, (sk_tid){0}) : py_raise(st, rc, &err);
    py_enc_done(st, &e);
out:
    if (SK_UNLIKELY(c.refs.cap)) py_collector_free(&c);
    return r;
}

/* promise(): an ObjectRef whose value this process gives later, by keep(). */
static PyObject *m_promise(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    sk_oid id = {0};
    PY_ERR(err);
    if (py_ensure(st) < 0 || !py_has(st, st->engine->channels, "promised values")) return NULL;
    sk_rc rc = st->engine->channels->promise(st->engine, &id, &err);
    return rc == SK_OK ? py_ref_new(st, id, (sk_tid){0}) : py_raise(st, rc, &err);
}

static sk_rc keep(struct py_state *st, uint64_t id, const struct sk_payload *p,
                  struct sk_err *err) {
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->channels->keep(st->engine, (sk_oid){id}, p, err);
    PY_TAKE(st)
    return rc;
}

/* keep(ref, value) or keep(ref, exception, name): gives a promised object its value. */
static PyObject *m_keep(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *ref, *value;
    const char *name = NULL;
    struct sk_payload p;
    sk_rc rc = SK_EINVAL;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "OO|s", &ref, &value, &name)) return NULL;
    if (!py_ref_check(st, ref)) return PyErr_Format(PyExc_TypeError, "keep(ref, value)");
    if (!py_ref_alive(st, ref)) return NULL;
    uint64_t id = ((struct py_ref *)(void *)ref)->id;
    if (name) {
        PyObject *bytes = PyObject_CallFunction(st->hook_dumps_error, "Osi", value, name, 0);
        if (!bytes) return NULL;
        p = (struct sk_payload){
            .kind = PY_ERROR, .bytes = {PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes)}};
        rc = keep(st, id, &p, &err);
        Py_DECREF(bytes);
    } else {
        struct py_enc e;
        struct py_collector c = {0};
        if (py_encode(st, value, &e, &c) == 0 && py_enc_payload(st, &e, &c, 0, &p) == 0) {
            py_enc_taken(&e);
            rc = keep(st, id, &p, &err);
            py_enc_done(st, &e);
        }
        if (SK_UNLIKELY(c.refs.cap)) py_collector_free(&c);
        if (PyErr_Occurred()) return NULL;
    }
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

/* put(value): Ray's arguments `_owner` and `_tensor_transport` are accepted and ignored, since an
 * object lives as long as its references, whichever process put it. */
static PyObject *m_put(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *value = n ? args[0] : NULL;
    for (Py_ssize_t i = 0; SK_UNLIKELY(kwnames != NULL) && i < PyTuple_GET_SIZE(kwnames); i++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, i);
        if (PyUnicode_CompareWithASCIIString(name, "value") == 0 && !value) value = args[n + i];
        else if (PyUnicode_CompareWithASCIIString(name, "_owner") != 0 &&
                 PyUnicode_CompareWithASCIIString(name, "_tensor_transport") != 0)
            return PyErr_Format(PyExc_TypeError, "put() got an unexpected keyword argument '%U'",
                                name);
    }
    if (n > 1 || !value)
        return PyErr_Format(PyExc_TypeError, "put() takes one value (%zd given)", n);
    if (SK_UNLIKELY(py_ensure(st) < 0)) return NULL;
    if (py_ref_check(st, value)) {
        PyErr_SetString(PyExc_TypeError, "put: an ObjectRef stands for a value that is in the "
                                         "store already; to put the ref itself: put([ref])");
        return NULL;
    }
    return py_put(st, value);
}

static PyObject *m_put_block(PyObject *module, PyObject *batch) {
    struct py_state *st = PyModule_GetState(module);
    struct py_enc e;
    struct sk_payload p;
    struct sk_block_sizes size;
    sk_oid id = {0};
    PY_ERR(err);
    if (py_ensure(st) < 0 || py_block_encode(st, batch, &e, &size) < 0 ||
        py_enc_payload(st, &e, NULL, 0, &p) < 0)
        return NULL;
    py_enc_taken(&e);
    sk_rc rc = st->engine->ops->put(st->engine, &p, &id, &err);
    return rc == SK_OK ? py_ref_new(st, id, (sk_tid){0}) : py_raise(st, rc, &err);
}

static const char put_doc[] =
    "put($module, value)\n--\n\n"
    "Stores a value, which never changes from then on.\n\n"
    "Args:\n"
    "    value: Any value that can be pickled (by cloudpickle). Arrays are written once, and every "
    "process maps "
    "the same memory, read-only.\n\n"
    "Returns:\n"
    "    An ObjectRef. The object lives as long as there is a reference to it, in any process or "
    "object.\n\n"
    "Raises:\n"
    "    TypeError: It cannot be pickled (the message says which part), or is an ObjectRef.\n"
    "    ObjectStoreFullError, OutOfDiskError: There is no room for it, neither in memory nor on "
    "disk.\n\n"
    "Example:\n"
    "    >>> import skate\n"
    "    >>> skate.get(skate.put([1, 2]))\n"
    "    [1, 2]\n";

PyMethodDef py_put_methods[] = {
    {"put", (PyCFunction)(void (*)(void))m_put, METH_FASTCALL | METH_KEYWORDS, put_doc},
    {"promise", m_promise, METH_NOARGS,
     "An ObjectRef whose value this process gives later, by keep()."},
    {"keep", m_keep, METH_VARARGS,
     "keep(ref, value), keep(ref, exception, name): the value of a promise."},
    {"put_block", m_put_block, METH_O, "A record batch as a block object."},
    {NULL, NULL, 0, NULL},
};

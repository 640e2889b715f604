/* py_block.c - Arrow record batches in and out through the C Data Interface's PyCapsules; no pyarrow in here.
 *
 * Not here: the layout (block.h) and what rows mean. A batch goes in with one copy (written into a buffer of the engine, without the GIL)
 * and comes out with none: the arrays keep a _Buf alive, which owns the view. Cost: about 2 us a column in, 1 us out. */
#include "base/crc32c.h"
#include "block/block.h"
#include "exec/exec.h"
#include "py/py_int.h"

struct blockout {
    PyObject_HEAD PyObject *batch;
    unsigned bad;
};

uint32_t py_blockout_bad(PyObject *o) { return ((struct blockout *)(void *)o)->bad; }

PyObject *py_blockout_batch(PyObject *o) { return ((struct blockout *)(void *)o)->batch; }

/* Tuple of the two capsules (a reference that keeps both structs) and what is in them. */
static PyObject *capsules_of(struct py_state *st, PyObject *batch, struct ArrowSchema **schema, struct ArrowArray **array) {
    PyObject *two = PyObject_CallMethodNoArgs(batch, st->s_arrow_c_array);
    if (!two) return NULL;
    if (!PyTuple_CheckExact(two) || PyTuple_GET_SIZE(two) != 2 ||
        !(*schema = PyCapsule_GetPointer(PyTuple_GET_ITEM(two, 0), "arrow_schema")) ||
        !(*array = PyCapsule_GetPointer(PyTuple_GET_ITEM(two, 1), "arrow_array"))) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "__arrow_c_array__ must return two capsules");
        Py_DECREF(two);
        return NULL;
    }
    return two;
}

int py_block_encode(struct py_state *st, PyObject *batch, struct py_enc *e, uint64_t *rows, uint64_t *nbytes) {
    PY_ERR(err);
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    struct sk_block_plan *plan = NULL;
    uint64_t size = 0;
    e->x = NULL;
    e->has_buf = false;
    PyObject *two = capsules_of(st, batch, &schema, &array);
    if (!two) return -1;
    if (py_gone(st, st->gen)) { /* by code of the batch */
        Py_DECREF(two);
        return -1;
    }
    e->gen = st->gen;
    sk_rc rc = sk_block_measure(schema, array, &plan, &size, &err);
    if (rc == SK_OK) rc = sk_block_nbytes(schema, array, nbytes, &err);
    if (rc == SK_OK) { /* small ones too: a block wants its 64-byte alignment */
        PY_DROP(st)
        rc = st->engine->ops->buf_alloc(st->engine, size, &e->buf, &err);
        if (rc == SK_OK) {
            py_warm(st->engine, e->buf.data, (size_t)size);
            sk_block_write(plan, e->buf.data);
        }
        PY_TAKE(st)
    }
    if (rc == SK_OK) {
        *rows = (uint64_t)array->length;
        e->has_buf = true;
        e->kind = PY_BLOCK;
        e->n = (size_t)size;
    } else if (!PyErr_Occurred()) { /* a signal handler may have raised while it waited for room */
        py_raise(st, rc, &err);
    }
    sk_block_plan_free(plan);
    Py_DECREF(two);
    return rc == SK_OK ? 0 : -1;
}

int py_block_measure(struct py_state *st, PyObject *batch, uint64_t *rows, uint64_t *nbytes) {
    PY_ERR(err);
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    PyObject *two = capsules_of(st, batch, &schema, &array);
    if (!two) return -1;
    sk_rc rc = sk_block_nbytes(schema, array, nbytes, &err);
    *rows = (uint64_t)array->length;
    if (rc != SK_OK) py_raise(st, rc, &err);
    Py_DECREF(two);
    return rc == SK_OK ? 0 : -1;
}

/* ---- out ------------------------------------------------------------------------------------------------------------------------------- */

static void release_obj(void *ctx) /* any thread, GIL or not */
{
    if (!Py_IsInitialized()) return; /* the process is on its way out */
    PyGILState_STATE g = PyGILState_Ensure();
    Py_DECREF((PyObject *)ctx);
    PyGILState_Release(g);
}

static void schema_capsule_free(PyObject *capsule) {
    struct ArrowSchema *s = PyCapsule_GetPointer(capsule, "arrow_schema");
    if (s->release) s->release(s);
    sk_free(s);
}

static void array_capsule_free(PyObject *capsule) {
    struct ArrowArray *a = PyCapsule_GetPointer(capsule, "arrow_array");
    if (a->release) a->release(a);
    sk_free(a);
}

PyObject *py_block_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    PY_ERR(err);
    struct sk_block_owner owner;
    const uint8_t *data = v->data;
    if (((uintptr_t)v->data & (SK_BLOCK_ALIGN - 1)) != 0) { /* travelled in a message */
        uint8_t *copy = sk_alloc_aligned(SK_TAG_PY, SK_BLOCK_ALIGN, v->len);
        if (!copy) return PyErr_NoMemory();
        memcpy(copy, v->data, v->len);
        data = copy;
        owner = (struct sk_block_owner){sk_free, copy};
    } else {
        PyObject *buf = py_buf_of_view(st, v, k);
        if (!buf) return NULL;
        owner = (struct sk_block_owner){release_obj, buf};
    }
    struct ArrowSchema *schema = sk_calloc(SK_TAG_PY, sizeof *schema);
    struct ArrowArray *array = sk_calloc(SK_TAG_PY, sizeof *array);
    PyObject *cs = NULL, *ca = NULL, *r = NULL;
    if (!schema || !array) {
        owner.release(owner.ctx);
        PyErr_NoMemory();
        goto out;
    }
    sk_rc rc = sk_block_export(data, v->len, 0, UINT64_MAX, owner, schema, array, &err);
    if (rc != SK_OK) {
        py_raise(st, rc, &err);
        goto out;
    }
    cs = PyCapsule_New(schema, "arrow_schema", schema_capsule_free);
    ca = PyCapsule_New(array, "arrow_array", array_capsule_free);
    if (cs && ca) r = PyObject_CallFunctionObjArgs(st->hook_load_block, cs, ca, NULL);
out:
    if (!cs && schema && schema->release) schema->release(schema);
    if (!ca && array && array->release) array->release(array);
    if (!cs) sk_free(schema);
    if (!ca) sk_free(array);
    Py_XDECREF(cs);
    Py_XDECREF(ca);
    return r;
}

/* ---- BlockOut, put_block, block_nbytes --------------------------------------------------------------------------------------------- */

static int blockout_init(PyObject *o, PyObject *args, PyObject *kw) {
    static char *names[] = {"batch", "bad", NULL};
    PyObject *batch;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|I:BlockOut", names, &batch, &((struct blockout *)(void *)o)->bad)) return -1;
    Py_XSETREF(((struct blockout *)(void *)o)->batch, Py_NewRef(batch));
    return 0;
}

static void blockout_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    Py_XDECREF(((struct blockout *)(void *)o)->batch);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyType_Slot blockout_slots[] = {
    {Py_tp_init, blockout_init},
    {Py_tp_dealloc, blockout_dealloc},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_doc, "BlockOut(batch, bad=0): a record batch that a streaming task yields as a block, with its rows and bytes as a note. bad: "
                "it is no output but dead letters, and stands for so many rows."},
    {0, NULL},
};
static PyType_Spec blockout_spec = {"skate._skate.BlockOut", sizeof(struct blockout), 0, Py_TPFLAGS_DEFAULT, blockout_slots};

int py_block_types(PyObject *module, struct py_state *st) {
    st->blockout_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &blockout_spec, NULL);
    return st->blockout_type ? PyModule_AddType(module, st->blockout_type) : -1;
}

static PyObject *m_put_block(PyObject *module, PyObject *batch) {
    struct py_state *st = PyModule_GetState(module);
    struct py_enc e;
    struct sk_payload p;
    uint64_t rows, nbytes;
    sk_oid id = {0};
    PY_ERR(err);
    if (py_ensure(st) < 0 || py_block_encode(st, batch, &e, &rows, &nbytes) < 0 || py_enc_payload(st, &e, NULL, 0, &p) < 0) return NULL;
    py_enc_taken(&e);
    sk_rc rc = st->engine->ops->put(st->engine, &p, &id, &err);
    return rc == SK_OK ? py_ref_new(st, id, (sk_tid){0}) : py_raise(st, rc, &err);
}

static PyObject *m_crc32c(PyObject *module, PyObject *bytes) {
    (void)module;
    Py_buffer b;
    if (PyObject_GetBuffer(bytes, &b, PyBUF_SIMPLE) < 0) return NULL;
    uint32_t crc = sk_crc32c(0, b.buf, (size_t)b.len);
    PyBuffer_Release(&b);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *m_block_nbytes(PyObject *module, PyObject *batch) {
    struct py_state *st = PyModule_GetState(module);
    uint64_t rows, n;
    return py_block_measure(st, batch, &rows, &n) < 0 ? NULL : PyLong_FromUnsignedLongLong(n);
}

PyMethodDef py_block_methods[] = {
    {"put_block", m_put_block, METH_O, "A record batch as a block object."},
    {"crc32c", m_crc32c, METH_O, "CRC-32C (Castagnoli) of bytes."},
    {"block_nbytes", m_block_nbytes, METH_O, "Data bytes of a record batch, as a block would hold them."},
    {NULL, NULL, 0, NULL},
};

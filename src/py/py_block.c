/* py_block.c - Arrow record batches in and out through the C Data Interface's PyCapsules; no pyarrow in here.
 *
 * Not here: the layout (block.h) and what rows mean. A batch goes in with one copy (written into a buffer of the engine, without the GIL)
 * and comes out with none: the arrays keep a _Buf alive, which owns the view. Cost: about 2 us a column in, 1 us out. */
#include "base/crc32c.h"
#include "block/block.h"
#include "exec/exec.h"
#include "py/py_int.h"

struct blockout {
    PyObject_HEAD PyObject *batch; /* NULL: the rows of `parts`, in order */
    PyObject *parts;               /* list of others, each with a batch */
    PyObject *two;                 /* capsules of the batch, which the plan points into */
    struct sk_block_plan *plan;    /* NULL: not asked for yet */
    unsigned bad;
};

static struct blockout *out_of(PyObject *o) { return (void *)o; }

uint32_t py_blockout_bad(PyObject *o) { return out_of(o)->bad; }

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

/* One with a batch gets its plan. */
static int plan_batch(struct py_state *st, struct blockout *o) {
    PY_ERR(err);
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    uint64_t size;
    if (o->plan) return 0;
    if (!o->two && !(o->two = capsules_of(st, o->batch, &schema, &array))) return -1;
    schema = PyCapsule_GetPointer(PyTuple_GET_ITEM(o->two, 0), "arrow_schema");
    array = PyCapsule_GetPointer(PyTuple_GET_ITEM(o->two, 1), "arrow_array");
    sk_rc rc = sk_block_measure(schema, array, &o->plan, &size, &err);
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

/* What cannot be joined here becomes one batch by the merge hook. */
static int concatenate(struct py_state *st, struct blockout *o) {
    PyObject *list = st->hook_merge ? PyList_New(0) : PyErr_Format(PyExc_RuntimeError, "the merge hook is not set");
    bool ok = list != NULL;
    for (Py_ssize_t i = 0; ok && i < PyList_GET_SIZE(o->parts); i++)
        ok = PyList_Append(list, out_of(PyList_GET_ITEM(o->parts, i))->batch) == 0;
    if (ok) o->batch = PyObject_CallOneArg(st->hook_merge, list);
    Py_XDECREF(list);
    if (!o->batch) return -1;
    Py_CLEAR(o->parts);
    return plan_batch(st, o);
}

static int plan_parts(struct py_state *st, struct blockout *o) {
    PY_ERR(err);
    size_t n = (size_t)PyList_GET_SIZE(o->parts);
    const struct sk_block_plan **plans = sk_alloc(SK_TAG_PY, n * sizeof *plans);
    int r = plans ? 0 : -1;
    if (!plans) PyErr_NoMemory();
    for (size_t i = 0; r == 0 && i < n; i++) {
        struct blockout *part = out_of(PyList_GET_ITEM(o->parts, (Py_ssize_t)i));
        r = plan_batch(st, part);
        plans[i] = part->plan;
    }
    if (r == 0) {
        sk_rc rc = sk_block_plan_join(plans, n, &o->plan, &err);
        if (rc != SK_OK) py_raise(st, rc, &err);
        r = rc != SK_OK ? -1 : o->plan ? 0 : concatenate(st, o);
    }
    sk_free(plans);
    return r;
}

static int planned(struct py_state *st, PyObject *out) {
    struct blockout *o = out_of(out);
    return o->plan ? 0 : o->batch ? plan_batch(st, o) : plan_parts(st, o);
}

static PyObject *blockout_of(struct py_state *st, PyObject *batch) /* a new reference */
{
    return Py_TYPE(batch) == st->blockout_type ? Py_NewRef(batch) : PyObject_CallOneArg((PyObject *)st->blockout_type, batch);
}

int py_block_encode(struct py_state *st, PyObject *batch, struct py_enc *e, struct sk_block_sizes *sizes) {
    PY_ERR(err);
    e->x = NULL;
    e->has_buf = false;
    PyObject *out = blockout_of(st, batch);
    if (!out) return -1;
    if (planned(st, out) < 0 || py_gone(st, st->gen)) { /* gone: by code of the batch */
        Py_DECREF(out);
        return -1;
    }
    e->gen = st->gen;
    const struct sk_block_plan *plan = out_of(out)->plan;
    SK_ASSERT(plan);
    struct sk_block_sizes size = sk_block_plan_sizes(plan);
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->buf_alloc(st->engine, size.total_bytes, &e->buf, &err); /* small ones too: a block wants its alignment */
    if (rc == SK_OK) {
        py_warm(st->engine, e->buf.data, (size_t)size.total_bytes);
        sk_block_write(plan, e->buf.data);
    }
    PY_TAKE(st)
    if (rc == SK_OK) {
        *sizes = size;
        e->has_buf = true;
        e->kind = PY_BLOCK;
        e->n = (size_t)size.total_bytes;
    } else if (!PyErr_Occurred()) { /* a signal handler may have raised while it waited for room */
        py_raise(st, rc, &err);
    }
    Py_DECREF(out);
    return rc == SK_OK ? 0 : -1;
}

int py_block_measure(struct py_state *st, PyObject *batch, struct sk_block_sizes *sizes) {
    PyObject *out = blockout_of(st, batch);
    int r = out ? planned(st, out) : -1;
    if (r == 0) *sizes = sk_block_plan_sizes(out_of(out)->plan);
    Py_XDECREF(out);
    return r;
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

/* ---- BlockOut, block_nbytes --------------------------------------------------------------------------------------------- */

static int blockout_init(PyObject *o, PyObject *args, PyObject *kw) {
    static char *names[] = {"batch", "bad", NULL};
    struct blockout *b = out_of(o);
    PyObject *batch;
    if (b->batch || b->parts) {
        PyErr_SetString(PyExc_TypeError, "a BlockOut is made once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O|I:BlockOut", names, &batch, &b->bad)) return -1;
    b->batch = Py_NewRef(batch);
    return 0;
}

static void blockout_dealloc(PyObject *o) {
    PyTypeObject *type = Py_TYPE(o);
    struct blockout *b = out_of(o);
    sk_block_plan_free(b->plan); /* points into the capsules, a joined one into those of the parts */
    Py_XDECREF(b->two);
    Py_XDECREF(b->batch);
    Py_XDECREF(b->parts);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *blockout_join(PyObject *type, PyObject *parts) {
    struct py_state *st = PyType_GetModuleState((PyTypeObject *)type);
    Py_ssize_t n = PyList_Check(parts) ? PyList_GET_SIZE(parts) : 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (Py_TYPE(PyList_GET_ITEM(parts, i)) != st->blockout_type || !out_of(PyList_GET_ITEM(parts, i))->batch) n = 0;
    if (!n) return PyErr_Format(PyExc_TypeError, "BlockOut.join takes a list of BlockOuts of one batch each");
    if (n == 1) return Py_NewRef(PyList_GET_ITEM(parts, 0));
    PyObject *o = st->blockout_type->tp_alloc(st->blockout_type, 0);
    if (o) out_of(o)->parts = PyList_GetSlice(parts, 0, n);
    if (o && !out_of(o)->parts) Py_CLEAR(o);
    return o;
}

static PyObject *blockout_nbytes(PyObject *o, void *closure) {
    (void)closure;
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    return planned(st, o) < 0 ? NULL : PyLong_FromUnsignedLongLong(sk_block_plan_sizes(out_of(o)->plan).data_bytes);
}

static PyMethodDef blockout_methods[] = {
    {"join", blockout_join, METH_O | METH_CLASS,
     "All rows of a list of BlockOuts whose batches have one schema, as one block; they are written one behind the other."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef blockout_getset[] = {
    {"nbytes", blockout_nbytes, NULL, "Data bytes, as a block will hold them.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot blockout_slots[] = {
    {Py_tp_init, blockout_init},
    {Py_tp_dealloc, blockout_dealloc},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, blockout_methods},
    {Py_tp_getset, blockout_getset},
    {Py_tp_doc, "BlockOut(batch, bad=0): a record batch that a streaming task yields as a block, with its rows and bytes as a note. bad: "
                "it is no output but dead letters, and stands for so many rows."},
    {0, NULL},
};
static PyType_Spec blockout_spec = {"skate._skate.BlockOut", sizeof(struct blockout), 0, Py_TPFLAGS_DEFAULT, blockout_slots};

int py_block_types(PyObject *module, struct py_state *st) {
    st->blockout_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &blockout_spec, NULL);
    return st->blockout_type ? PyModule_AddType(module, st->blockout_type) : -1;
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
    struct sk_block_sizes size;
    return py_block_measure(st, batch, &size) < 0 ? NULL : PyLong_FromUnsignedLongLong(size.data_bytes);
}

PyMethodDef py_block_methods[] = {
    {"crc32c", m_crc32c, METH_O, "CRC-32C (Castagnoli) of bytes."},
    {"block_nbytes", m_block_nbytes, METH_O, "Data bytes of a record batch, as a block would hold them."},
    {NULL, NULL, 0, NULL},
};

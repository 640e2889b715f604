/* block.c - Arrow record batches in and out through the PyCapsules of the C Data Interface, without
 * pyarrow.
 *
 * BlockOut is what a streaming task of a pipeline yields: a batch, or a value planned by a piece of
 * work (exchange.c), with its note.
 *
 * Not here: the layout (block.h) and the meaning of rows. A batch goes in with one copy (written
 * into a buffer of the engine, without the GIL) and comes out with none: the arrays keep a _Buf
 * alive, which owns the view. Cost: about 2 us a column in, 1 us out. */
#include "base/crc32c.h"
#include "block/block.h"
#include "exec/exec.h"
#include "py/value/value.h"

struct blockout {
    PyObject_HEAD PyObject *batch; /* NULL: the rows are those of `parts`, in order */
    PyObject *parts;               /* list of BlockOuts, each with a batch */
    /* the tuple of the batch's two Arrow capsules; `plan` points into their structs */
    PyObject *two;
    struct sk_block_plan *plan; /* NULL: not made yet */
    struct sk_value *value;     /* a value of an exchange; the members above are unused then */
    PyObject *owner;            /* the object into which the value's plans point */
    unsigned bad;
};

static struct blockout *out_of(PyObject *o) { return (void *)o; }

/* A repeated yield must have the same note. Dead letters contain texts of errors, which may differ
 * between attempts, so their note has only their number. */
size_t py_blockout_note(PyObject *out, struct sk_block_sizes size, union sk_yield_note *note) {
    const struct blockout *o = out_of(out);
    if (o->value) return sk_value_note(o->value, note);
    note->block = (struct sk_block_note){.magic = SK_BLOCK_NOTE, .bad = o->bad};
    if (o->bad) return sizeof note->block;
    note->block.rows = size.n_rows;
    note->block.bytes = size.data_bytes;
    note->block.schema = size.schema_crc;
    return sizeof note->block;
}

PyObject *py_batch_structs(struct py_state *st, PyObject *batch, struct ArrowSchema **schema,
                           struct ArrowArray **array) {
    PyObject *two = PyObject_CallMethodNoArgs(batch, st->s_arrow_c_array);
    if (!two) return NULL;
    if (!PyTuple_CheckExact(two) || PyTuple_GET_SIZE(two) != 2 ||
        !(*schema = PyCapsule_GetPointer(PyTuple_GET_ITEM(two, 0), "arrow_schema")) ||
        !(*array = PyCapsule_GetPointer(PyTuple_GET_ITEM(two, 1), "arrow_array"))) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "__arrow_c_array__ must return two capsules");
        Py_DECREF(two);
        return NULL;
    }
    return two;
}

/* Makes the plan of a BlockOut with a batch. */
static int plan_batch(struct py_state *st, struct blockout *o) {
    PY_ERR(err);
    struct ArrowSchema *schema;
    struct ArrowArray *array;
    uint64_t size;
    if (o->plan) return 0;
    if (!o->two && !(o->two = py_batch_structs(st, o->batch, &schema, &array))) return -1;
    schema = PyCapsule_GetPointer(PyTuple_GET_ITEM(o->two, 0), "arrow_schema");
    array = PyCapsule_GetPointer(PyTuple_GET_ITEM(o->two, 1), "arrow_array");
    sk_rc rc = sk_block_measure(schema, array, &o->plan, &size, &err);
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

/* Joins the parts into one batch by the merge hook, for parts of which no common plan can be
 * made. */
static int concatenate(struct py_state *st, struct blockout *o) {
    PyObject *list = st->hook_merge ? PyList_New(0)
                                    : PyErr_Format(PyExc_RuntimeError, "the merge hook is not set");
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
    return o->plan || o->value ? 0 : o->batch ? plan_batch(st, o) : plan_parts(st, o);
}

static struct sk_block_sizes sizes_of(const struct blockout *o) {
    const struct sk_value *v = o->value;
    return v ? (struct sk_block_sizes){v->rows, v->bytes, v->size, v->schema}
             : sk_block_plan_sizes(o->plan);
}

static void write_out(const struct blockout *o, uint8_t *dst) {
    if (o->value) sk_value_write(o->value, dst);
    else sk_block_write(o->plan, dst);
}

/* Returns a BlockOut of the batch, a new reference; a BlockOut is returned itself. */
static PyObject *blockout_of(struct py_state *st, PyObject *batch) {
    return Py_TYPE(batch) == st->blockout_type
               ? Py_NewRef(batch)
               : PyObject_CallOneArg((PyObject *)st->blockout_type, batch);
}

int py_block_encode(struct py_state *st, PyObject *batch, struct py_enc *e,
                    struct sk_block_sizes *sizes) {
    PY_ERR(err);
    e->x = NULL;
    e->has_buf = false;
    PyObject *out = blockout_of(st, batch);
    if (!out) return -1;
    /* the batch's __arrow_c_array__ may have closed the engine */
    if (planned(st, out) < 0 || py_gone(st, st->gen)) {
        Py_DECREF(out);
        return -1;
    }
    e->gen = st->gen;
    const struct blockout *o = out_of(out);
    SK_ASSERT(o->plan || o->value);
    struct sk_block_sizes size = sizes_of(o);
    sk_rc rc;
    e->kind = o->value && o->value->kind != SK_VALUE_BLOCK ? PY_PACK : PY_BLOCK;
    e->n = (size_t)size.total_bytes;
    *sizes = size;
    if (!e->n) { /* the value of a cut task has no bytes, only a note */
        e->p = "";
        Py_DECREF(out);
        return 0;
    }
    e->keep = NULL;
    PY_DROP(st)
    if (o->plan && !o->value && py_npmem_place(st, o->plan, &e->buf, &e->keep)) rc = SK_OK;
    /* small blocks get a buffer, too, because blocks have to be aligned */
    else rc = st->engine->ops->buf_alloc(st->engine, size.total_bytes, &e->buf, &err);
    if (rc == SK_OK && !e->keep) {
        py_warm(st->engine, e->buf.data, (size_t)size.total_bytes);
        write_out(o, e->buf.data);
    }
    PY_TAKE(st)
    if (rc == SK_OK) {
        e->has_buf = true;
        /* else a signal handler has raised an exception during the wait for room */
    } else if (!PyErr_Occurred()) {
        py_raise(st, rc, &err);
    }
    Py_DECREF(out);
    return rc == SK_OK ? 0 : -1;
}

int py_block_measure(struct py_state *st, PyObject *batch, struct sk_block_sizes *sizes) {
    PyObject *out = blockout_of(st, batch);
    int r = out ? planned(st, out) : -1;
    if (r == 0) *sizes = sizes_of(out_of(out));
    Py_XDECREF(out);
    return r;
}

/* ---- blocks as record batches ---------------------------------------------------------------- */

/* Drops the reference to the owner of a block. Called by any thread, with or without the GIL. */
static void release_obj(void *ctx) {
    if (!Py_IsInitialized()) return; /* the interpreter is shutting down */
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

/* Makes a RecordBatch over a block without a copy; takes `owner` over, also on failure. */
static PyObject *load(struct py_state *st, const uint8_t *data, size_t n,
                      struct sk_block_owner owner) {
    PY_ERR(err);
    struct ArrowSchema *schema = sk_calloc(SK_TAG_PY, sizeof *schema);
    struct ArrowArray *array = sk_calloc(SK_TAG_PY, sizeof *array);
    PyObject *cs = NULL, *ca = NULL, *r = NULL;
    if (!schema || !array) {
        owner.release(owner.ctx);
        PyErr_NoMemory();
        goto out;
    }
    sk_rc rc = sk_block_export(data, n, 0, UINT64_MAX, owner, schema, array, &err);
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

PyObject *py_block_of(struct py_state *st, PyObject *owner, const uint8_t *p, size_t n) {
    return load(st, p, n, (struct sk_block_owner){release_obj, Py_NewRef(owner)});
}

static void free_capsule(PyObject *capsule) { sk_free(PyCapsule_GetPointer(capsule, NULL)); }

/* Makes a _Buf over n bytes of private memory, aligned for a block; *p: the bytes. */
static PyObject *own_buf(struct py_state *st, size_t n, uint8_t **p) {
    *p = sk_alloc_aligned(SK_TAG_PY, SK_BLOCK_ALIGN, n);
    if (!*p) return PyErr_NoMemory();
    PyObject *base = PyCapsule_New(*p, NULL, free_capsule),
             *buf = base ? py_buf_new(st, *p, n, base) : NULL;
    if (!base) sk_free(*p);
    Py_XDECREF(base);
    return buf;
}

PyObject *py_pack_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    uint8_t *p;
    if (((uintptr_t)v->data & (SK_BLOCK_ALIGN - 1)) == 0) return py_buf_of_view(st, v, k);
    /* the value arrived in a message, so its bytes are not aligned */
    PyObject *buf = own_buf(st, v->len, &p);
    if (buf) memcpy(p, v->data, v->len);
    return buf;
}

PyObject *py_batch_in(struct py_state *st, PyObject *buf) {
    PyObject *r = NULL;
    Py_buffer b;
    if (buf && PyObject_GetBuffer(buf, &b, PyBUF_SIMPLE) == 0) {
        r = py_block_of(st, buf, b.buf, (size_t)b.len);
        PyBuffer_Release(&b);
    }
    Py_XDECREF(buf);
    return r;
}

PyObject *py_batch_of_plan(struct py_state *st, const struct sk_block_plan *plan, uint64_t size) {
    uint8_t *p;
    PyObject *buf = own_buf(st, (size_t)size, &p);
    if (!buf) return NULL;
    PY_DROP(st)
    sk_block_write(plan, p);
    PY_TAKE(st)
    return py_batch_in(st, buf);
}

PyObject *py_block_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    return py_batch_in(st, py_pack_decode(st, v, k));
}

/* ---- the type BlockOut, and block_nbytes ----------------------------------------------------- */

static int blockout_init(PyObject *o, PyObject *args, PyObject *kw) {
    static char *names[] = {"batch", "bad", NULL};
    struct blockout *b = out_of(o);
    PyObject *batch;
    if (b->batch || b->parts || b->value) {
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
    /* the plan is freed first, since it points into the capsules of this batch or of the parts */
    sk_block_plan_free(b->plan);
    sk_value_destroy(b->value);
    Py_XDECREF(b->owner);
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
        if (Py_TYPE(PyList_GET_ITEM(parts, i)) != st->blockout_type ||
            !out_of(PyList_GET_ITEM(parts, i))->batch)
            n = 0;
    if (!n)
        return PyErr_Format(PyExc_TypeError,
                            "BlockOut.join takes a list of BlockOuts of one batch each");
    if (n == 1) return Py_NewRef(PyList_GET_ITEM(parts, 0));
    PyObject *o = st->blockout_type->tp_alloc(st->blockout_type, 0);
    if (o) out_of(o)->parts = PyList_GetSlice(parts, 0, n);
    if (o && !out_of(o)->parts) Py_CLEAR(o);
    return o;
}

static PyObject *blockout_nbytes(PyObject *o, void *closure) {
    (void)closure;
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    return planned(st, o) < 0 ? NULL : PyLong_FromUnsignedLongLong(sizes_of(out_of(o)).data_bytes);
}

static PyObject *blockout_num_rows(PyObject *o, void *closure) {
    (void)closure;
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    const struct blockout *b = out_of(o);
    if (planned(st, o) < 0) return NULL;
    return PyLong_FromUnsignedLongLong(b->value ? sk_value_rows(b->value) : sizes_of(b).n_rows);
}

static PyObject *blockout_note(PyObject *o, void *closure) {
    (void)closure;
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    union sk_yield_note note;
    if (planned(st, o) < 0) return NULL;
    size_t n = py_blockout_note(o, sizes_of(out_of(o)), &note);
    return PyBytes_FromStringAndSize((const char *)&note, (Py_ssize_t)n);
}

/* written(): the bytes of the BlockOut's value, in private memory of this process. */
static PyObject *blockout_written(PyObject *o, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    uint8_t *p;
    if (planned(st, o) < 0) return NULL;
    PyObject *buf = own_buf(st, (size_t)sizes_of(out_of(o)).total_bytes, &p);
    if (!buf) return NULL;
    PY_DROP(st)
    write_out(out_of(o), p);
    PY_TAKE(st)
    return buf;
}

static PyObject *blockout_batch(PyObject *o, PyObject *unused) {
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    const struct sk_value *v = out_of(o)->value;
    if (v && v->kind != SK_VALUE_BLOCK) return PyErr_Format(PyExc_TypeError, "a pack is no batch");
    if (out_of(o)->batch) return Py_NewRef(out_of(o)->batch);
    return py_batch_in(st, blockout_written(o, unused));
}

PyObject *py_blockout_new(struct py_state *st, struct sk_value *value, PyObject *owner) {
    PyObject *o = st->blockout_type->tp_alloc(st->blockout_type, 0);
    if (!o) {
        sk_value_destroy(value);
        return NULL;
    }
    out_of(o)->value = value;
    out_of(o)->owner = Py_NewRef(owner);
    return o;
}

static PyMethodDef blockout_methods[] = {
    {"join", blockout_join, METH_O | METH_CLASS,
     "All rows of a list of BlockOuts whose batches have one schema, as one block; they are "
     "written one behind the other."},
    {"batch", blockout_batch, METH_NOARGS, "The rows as a RecordBatch, in memory of this process."},
    {"written", blockout_written, METH_NOARGS,
     "The bytes of the value, in memory of this process."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef blockout_getset[] = {
    {"nbytes", blockout_nbytes, NULL, "Data bytes, as a block will hold them.", NULL},
    {"num_rows", blockout_num_rows, NULL, "Rows, of a pack all of them.", NULL},
    {"note", blockout_note, NULL, "The note with which it is yielded: bytes (exec.h).", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot blockout_slots[] = {
    {Py_tp_init, blockout_init},
    {Py_tp_dealloc, blockout_dealloc},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, blockout_methods},
    {Py_tp_getset, blockout_getset},
    {Py_tp_doc, "BlockOut(batch, bad=0): a record batch that a streaming task yields as a block, "
                "with its rows and bytes as a note. bad: "
                "it is no output but dead letters, and stands for so many rows."},
    {0, NULL},
};
static PyType_Spec blockout_spec = {"skate._skate.BlockOut", sizeof(struct blockout), 0,
                                    Py_TPFLAGS_DEFAULT, blockout_slots};

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
    struct sk_block_sizes size = {0};
    return py_block_measure(st, batch, &size) < 0 ? NULL
                                                  : PyLong_FromUnsignedLongLong(size.data_bytes);
}

/* block(bytes, owner): a RecordBatch over a block in `bytes`; it keeps `owner`, which holds the
 * memory, alive. */
static PyObject *m_block(PyObject *module, PyObject *args) {
    Py_buffer b;
    PyObject *owner;
    if (!PyArg_ParseTuple(args, "y*O:block", &b, &owner)) return NULL;
    PyObject *r = py_block_of(PyModule_GetState(module), owner, b.buf, (size_t)b.len);
    PyBuffer_Release(&b);
    return r;
}

PyMethodDef py_block_methods[] = {
    {"block", m_block, METH_VARARGS,
     "block(bytes, owner): the batch that these bytes, which owner keeps in place, are."},
    {"crc32c", m_crc32c, METH_O, "CRC-32C (Castagnoli) of bytes."},
    {"block_nbytes", m_block_nbytes, METH_O,
     "Data bytes of a record batch, as a block would hold them."},
    {NULL, NULL, 0, NULL},
};

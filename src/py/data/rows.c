/* rows.c - _skate.Rows: makes batches of any size from the rows of other batches, in order or
 * shuffled (block/sampler.h). Each row is copied once, without the GIL.
 *
 * The result lies in reused memory (pages.c), or in memory of the caller, such as pages that are
 * locked for a GPU. An input batch is held until the last of its rows was given out. _Planned.write
 * returns where the values of each column lie in the block, so that a caller can make arrays over
 * them without Arrow. */
#include "block/sampler.h"
#include "py/data/data.h"

/* ---- Rows */

struct held { /* an input batch that is held; two NULL: the entry is free */
    PyObject *batch, *two;
    const struct ArrowArray *array;
    uint32_t as; /* number of the batch among the batches from which the current plan takes rows */
};

struct rows {
    PyObject_HEAD struct sk_sampler *rows;
    PyObject *two; /* capsules of the first batch, whose schema all batches have */
    const struct ArrowSchema *schema;
    SK_VEC(struct held) slot;
    bool busy;
};

/* A result batch that is planned but not yet gathered. The object holds everything that gathering
 * needs, so any thread can do it at any time. */
struct planned {
    /* keeps alive the structs of the batches from which rows are gathered */
    PyObject_HEAD PyObject *keep;
    struct sk_block_plan *plan;
    uint64_t size, n, n_columns;
    struct sk_row_at *places;       /* [n] */
    const struct ArrowArray **used; /* the plan also points into this list */
    struct sk_block_side side;
};

static struct rows *rows_of(PyObject *o) { return (struct rows *)(void *)o; }

static void clear_held(struct held *h) {
    Py_CLEAR(h->two); /* dropped before the batch, since the capsules point into it */
    Py_CLEAR(h->batch);
    h->array = NULL;
}

static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *names[] = {"window", "seed", "epoch", "start", NULL};
    unsigned long long window = 0, seed = 0, epoch = 0, start = 0;
    PY_ERR(err);
    if (!PyArg_ParseTupleAndKeywords(args, kw, "|KKKK:Rows", names, &window, &seed, &epoch, &start))
        return NULL;
    struct rows *r = rows_of(type->tp_alloc(type, 0));
    if (!r) return NULL;
    py_pages_open();
    sk_rc rc =
        sk_sampler_create(&(struct sk_sampler_conf){window, seed, epoch, start}, &r->rows, &err);
    if (rc == SK_OK) return (PyObject *)r;
    Py_DECREF(r);
    return py_raise(py_state_of(type), rc, &err);
}

static void rows_dealloc(PyObject *o) {
    struct rows *r = rows_of(o);
    PyTypeObject *type = Py_TYPE(o);
    for (uint32_t i = 0; i < r->slot.n; i++) clear_held(&r->slot.p[i]);
    sk_vec_free(&r->slot);
    sk_sampler_destroy(r->rows);
    Py_XDECREF(r->two);
    py_pages_close();
    type->tp_free(o);
    Py_DECREF(type);
}

static bool is_busy(const struct rows *r) {
    if (r->busy) PyErr_SetString(PyExc_ValueError, "another thread takes rows of this object");
    return r->busy;
}

/* Makes h hold a batch; *schema: the schema of the batch. */
static int hold(struct py_state *st, struct held *h, PyObject *batch, struct ArrowSchema **schema) {
    struct ArrowArray *array;
    PyObject *two = py_batch_structs(st, batch, schema, &array);
    if (!two) return -1;
    *h = (struct held){.batch = Py_NewRef(batch), .two = two, .array = array};
    return 0;
}

static PyObject *rows_add(PyObject *o, PyObject *batch) {
    struct rows *r = rows_of(o);
    struct py_state *st = py_state_of(Py_TYPE(o));
    struct ArrowSchema *schema;
    struct held h = {0};
    uint32_t slot = UINT32_MAX;
    PY_ERR(err);
    if (is_busy(r) || hold(st, &h, batch, &schema) < 0) return NULL;
    if (r->schema && !sk_block_same_schema(r->schema, schema)) {
        PyErr_SetString(PyExc_ValueError,
                        "Rows.add: a batch of another schema; cast() those that are held first");
    } else if (!sk_vec_reserve(&r->slot, SK_TAG_PY, (uint64_t)r->slot.n + 1)) {
        PyErr_NoMemory();
    } else {
        sk_rc rc = h.array->length < 0
                       ? SK_ERR(&err, SK_EINVAL, "a batch of %lld rows", (long long)h.array->length)
                       : sk_sampler_add(r->rows, (uint64_t)h.array->length, &slot, &err);
        if (rc != SK_OK) py_raise(st, rc, &err);
    }
    if (PyErr_Occurred()) {
        clear_held(&h);
        return NULL;
    }
    if (!r->schema) {
        r->two = Py_NewRef(h.two);
        r->schema = schema;
    }
    if (slot == UINT32_MAX) { /* the batch has no rows */
        clear_held(&h);
        Py_RETURN_NONE;
    }
    if (slot == r->slot.n) r->slot.n++;
    SK_ASSERT(slot < r->slot.n);
    r->slot.p[slot] = h;
    Py_RETURN_NONE;
}

static PyObject *rows_cast(PyObject *o, PyObject *cast) {
    struct rows *r = rows_of(o);
    struct py_state *st = py_state_of(Py_TYPE(o));
    if (is_busy(r)) return NULL;
    struct ArrowSchema *schema = NULL;
    r->busy = true; /* other calls are refused during cast, which is Python code */
    bool ok = true;
    for (uint32_t i = 0; ok && i < r->slot.n; i++) {
        struct held *h = &r->slot.p[i], was = *h;
        if (!h->two) continue;
        PyObject *batch = PyObject_CallOneArg(cast, h->batch);
        ok = batch && hold(st, h, batch, &schema) == 0;
        Py_XDECREF(batch);
        if (!ok) break;
        if (h->array->length == was.array->length) {
            clear_held(&was);
            continue;
        }
        PyErr_SetString(PyExc_ValueError,
                        "Rows.cast: a batch came back with another number of rows");
        clear_held(h);
        *h = was;
        ok = false;
    }
    r->busy = false;
    if (!ok) return NULL;
    Py_CLEAR(r->two); /* the next batch will set the schema anew */
    r->schema = NULL;
    for (uint32_t i = 0; !r->schema && i < r->slot.n; i++) {
        if (!r->slot.p[i].two) continue;
        r->two = Py_NewRef(r->slot.p[i].two);
        r->schema = PyCapsule_GetPointer(PyTuple_GET_ITEM(r->two, 0), "arrow_schema");
    }
    Py_RETURN_NONE;
}

static struct planned *planned_of(PyObject *o) { return (struct planned *)(void *)o; }

/* Numbers the batches of p->places from 0 on, in the order in which they occur, and keeps them. */
static int number_batches(struct rows *r, struct planned *p) {
    uint32_t n = 0;
    for (uint64_t i = 0; i < p->n; i++) {
        struct sk_row_at *at = &p->places[i];
        struct held *h = &r->slot.p[at->run];
        SK_DCHECK(h->array && at->row < h->array->length);
        if (h->as >= n || p->used[h->as] != h->array) {
            h->as = n;
            p->used[n++] = h->array;
            if (PyList_Append(p->keep, h->two) < 0) return -1;
        }
        at->run = h->as;
    }
    p->side = (struct sk_block_side){.arrays = p->used, .n = n, .places = p->places};
    return 0;
}

static void let_go(struct rows *r) {
    for (uint32_t slot; (slot = sk_sampler_let_go(r->rows)) != UINT32_MAX;) {
        struct held was = r->slot.p[slot];
        /* the entry is emptied before its objects are dropped, which may run code of Python */
        r->slot.p[slot] = (struct held){0};
        clear_held(&was);
    }
}

/* Plans a batch of the next n rows. NULL with an exception. */
static struct planned *plan_next(struct py_state *st, struct rows *r, uint64_t n) {
    PY_ERR(err);
    struct planned *p = planned_of(st->planned_type->tp_alloc(st->planned_type, 0));
    if (!p) return NULL;
    if (n >= UINT32_MAX)
        PyErr_Format(PyExc_ValueError, "a batch of %llu rows", (unsigned long long)n);
    else if (!(p->places = sk_alloc(SK_TAG_PY, n * sizeof *p->places)) ||
             !(p->used =
                   sk_alloc(SK_TAG_PY, (SK_MIN((uint64_t)r->slot.n, n) + 1) * sizeof *p->used)))
        PyErr_NoMemory();
    else if ((p->keep = PyList_New(0)) != NULL) {
        sk_rc rc = sk_sampler_next(r->rows, p->places, &n, &err);
        p->n = n;
        if (rc == SK_OK && r->two && PyList_Append(p->keep, r->two) == 0 &&
            number_batches(r, p) == 0) {
            const struct ArrowSchema *schema = r->schema;
            p->n_columns = (uint64_t)schema->n_children;
            r->busy = true;
            PY_DROP(st)
            rc = sk_block_measure_places(schema, &p->side, 1, NULL, n, &p->plan, &p->size, &err);
            PY_TAKE(st)
            r->busy = false;
        }
        if (rc != SK_OK) py_raise(st, rc, &err);
        let_go(r);
    }
    if (!PyErr_Occurred()) return p;
    Py_DECREF(p);
    return NULL;
}

static void planned_dealloc(PyObject *o) {
    struct planned *p = planned_of(o);
    PyTypeObject *type = Py_TYPE(o);
    sk_block_plan_free(p->plan);
    sk_free(p->places);
    sk_free(p->used);
    Py_XDECREF(p->keep);
    type->tp_free(o);
    Py_DECREF(type);
}

/* Writes the rows of a plan into memory that alloc(size) returns (None: into a _Memory). */
static PyObject *written(struct py_state *st, const struct sk_block_plan *plan, uint64_t size,
                         PyObject *alloc) {
    PyObject *room = alloc == Py_None ? py_pages_new(st, (size_t)size)
                                      : PyObject_CallFunction(alloc, "K", (unsigned long long)size);
    Py_buffer b;
    if (!room || PyObject_GetBuffer(room, &b, PyBUF_WRITABLE) < 0) {
        Py_XDECREF(room);
        return NULL;
    }
    if ((uint64_t)b.len < size || ((uintptr_t)b.buf & (SK_BLOCK_ALIGN - 1))) {
        PyErr_Format(PyExc_ValueError,
                     "Rows: %zd bytes at %p for a batch of %llu, which begins at a multiple of %u",
                     b.len, b.buf, (unsigned long long)size, SK_BLOCK_ALIGN);
        Py_CLEAR(room);
    } else {
        PY_DROP(st)
        sk_block_write(plan, b.buf);
        PY_TAKE(st)
    }
    PyBuffer_Release(&b);
    return room;
}

/* Returns a tuple with, for each column, (offset of its values in the block, their length in bytes)
 * or None (block.h: sk_block_plan_values). */
static PyObject *values_of(const struct planned *p) {
    Py_ssize_t n = (Py_ssize_t)p->n_columns;
    struct sk_block_values *v = sk_alloc(SK_TAG_PY, ((size_t)n + 1) * sizeof *v);
    if (!v) return PyErr_NoMemory();
    PyObject *out = PyTuple_New(n);
    sk_block_plan_values(p->plan, v);
    for (Py_ssize_t i = 0; out && i < n; i++) {
        PyObject *at = v[i].off ? Py_BuildValue("(KK)", (unsigned long long)v[i].off,
                                                (unsigned long long)v[i].len)
                                : Py_NewRef(Py_None);
        if (at) PyTuple_SET_ITEM(out, i, at);
        else Py_CLEAR(out);
    }
    sk_free(v);
    return out;
}

static PyObject *planned_write(PyObject *o, PyObject *args) {
    PyObject *alloc = Py_None;
    struct planned *p = planned_of(o);
    if (!PyArg_ParseTuple(args, "|O:write", &alloc)) return NULL;
    PyObject *room = written(py_state_of(Py_TYPE(o)), p->plan, p->size, alloc),
             *values = room ? values_of(p) : NULL;
    if (values) return Py_BuildValue("(NN)", room, values);
    Py_XDECREF(room);
    return NULL;
}

static PyObject *planned_rows(PyObject *o, void *closure SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(planned_of(o)->n);
}

static PyObject *rows_plan(PyObject *o, PyObject *arg) {
    struct rows *r = rows_of(o);
    unsigned long long want = PyLong_AsUnsignedLongLong(arg);
    if (PyErr_Occurred() || is_busy(r)) return NULL;
    uint64_t n = SK_MIN((uint64_t)want, sk_sampler_ready(r->rows));
    return n ? (PyObject *)plan_next(py_state_of(Py_TYPE(r)), r, n) : Py_NewRef(Py_None);
}

static PyObject *rows_end(PyObject *o, PyObject *unused SK_UNUSED) {
    sk_sampler_end(rows_of(o)->rows);
    Py_RETURN_NONE;
}

static PyObject *rows_wants(PyObject *o, PyObject *n) {
    unsigned long long v = PyLong_AsUnsignedLongLong(n);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(sk_sampler_wants(rows_of(o)->rows, v));
}

static PyObject *rows_ready(PyObject *o, void *closure SK_UNUSED) {
    return PyLong_FromUnsignedLongLong(sk_sampler_ready(rows_of(o)->rows));
}

static PyObject *m_rows_begin(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned long long window, seed, epoch, start;
    if (!PyArg_ParseTuple(args, "KKKK:rows_begin", &window, &seed, &epoch, &start)) return NULL;
    return PyLong_FromUnsignedLongLong(
        sk_sampler_begin(&(struct sk_sampler_conf){window, seed, epoch, start}));
}

static PyMethodDef rows_methods[] = {
    {"add", rows_add, METH_O, "add(batch): the next of the stream."},
    {"end", rows_end, METH_NOARGS, "end(): there are no more."},
    {"plan", rows_plan, METH_O,
     "plan(n): the next n rows that are ready at most, to be gathered by its write(); None: none "
     "is ready."},
    {"wants", rows_wants, METH_O, "wants(n): whether to add more before n rows are taken."},
    {"cast", rows_cast, METH_O,
     "cast(function): each batch that is held becomes function(batch), of as many rows."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef rows_getset[] = {
    {"ready", rows_ready, NULL, "Rows that can be taken.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot rows_slots[] = {
    {Py_tp_new, rows_new},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_methods, rows_methods},
    {Py_tp_getset, rows_getset},
    {Py_tp_doc, "Rows(window=0, seed=0, epoch=0, start=0): rows of a stream of batches, in order "
                "or shuffled by windows."},
    {0, NULL},
};
static PyType_Spec rows_spec = {"skate._skate.Rows", sizeof(struct rows), 0, Py_TPFLAGS_DEFAULT,
                                rows_slots};

static PyMethodDef planned_methods[] = {
    {"write", planned_write, METH_VARARGS,
     "write(alloc=None): (memory of alloc(bytes), or of pages(), with the block in it; by column "
     "(where its values lie, their bytes) or "
     "None)."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef planned_getset[] = {
    {"num_rows", planned_rows, NULL, "Its rows.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot planned_slots[] = {
    {Py_tp_dealloc, planned_dealloc},
    {Py_tp_methods, planned_methods},
    {Py_tp_getset, planned_getset},
    {Py_tp_doc, "A batch that is to be gathered."},
    {0, NULL},
};
static PyType_Spec planned_spec = {"skate._skate._Planned", sizeof(struct planned), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                   planned_slots};

int py_rows_types(PyObject *module, struct py_state *st) {
    st->planned_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &planned_spec, NULL);
    if (!st->planned_type) return -1;
    st->rows_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &rows_spec, NULL);
    return st->rows_type ? PyModule_AddType(module, st->rows_type) : -1;
}

/* Returns the Arrow arrays of a list of batches, which `keep` keeps alive; the caller frees the
 * list. NULL with an exception. */
static const struct ArrowArray **structs_of(struct py_state *st, PyObject *batches, PyObject *keep,
                                            const struct ArrowSchema **schema) {
    Py_ssize_t n = PyList_GET_SIZE(batches);
    const struct ArrowArray **arrays = sk_alloc(SK_TAG_PY, (size_t)(n + 1) * sizeof *arrays);
    if (!arrays) PyErr_NoMemory();
    for (Py_ssize_t i = 0; arrays && i < n; i++) {
        struct ArrowSchema *s;
        struct ArrowArray *a;
        PyObject *two = py_batch_structs(st, PyList_GET_ITEM(batches, i), &s, &a);
        bool ok = two && PyList_Append(keep, two) == 0;
        Py_XDECREF(two);
        if (ok && i && !sk_block_same_schema(*schema, s)) {
            PyErr_SetString(PyExc_ValueError, "gather: batches of several schemas");
            ok = false;
        }
        if (!ok) {
            sk_free(arrays);
            return NULL;
        }
        arrays[i] = a;
        if (!i) *schema = s;
    }
    return arrays;
}

static PyObject *m_gather(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *batches, *out = NULL;
    Py_buffer places;
    const struct ArrowSchema *schema = NULL;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "O!y*:gather", &PyList_Type, &batches, &places)) return NULL;
    PyObject *keep = PyList_New(0);
    const struct ArrowArray **arrays = NULL;
    if (!PyList_GET_SIZE(batches) || (size_t)places.len % sizeof(struct sk_row_at))
        PyErr_SetString(PyExc_ValueError, "gather([batch, ...], pairs of uint32: batch, row)");
    else if (keep) arrays = structs_of(st, batches, keep, &schema);
    if (arrays) {
        struct sk_block_side side = {
            .arrays = arrays, .n = (uint32_t)PyList_GET_SIZE(batches), .places = places.buf};
        struct sk_block_plan *plan = NULL;
        uint64_t size;
        sk_rc rc;
        PY_DROP(st)
        rc = sk_block_measure_places(schema, &side, 1, NULL,
                                     (size_t)places.len / sizeof *side.places, &plan, &size, &err);
        PY_TAKE(st)
        if (rc != SK_OK) py_raise(st, rc, &err);
        else out = py_batch_in(st, written(st, plan, size, Py_None));
        sk_block_plan_free(plan);
        sk_free(arrays);
    }
    PyBuffer_Release(&places);
    Py_XDECREF(keep);
    return out;
}

PyMethodDef py_rows_methods[] = {
    {"gather", m_gather, METH_VARARGS,
     "gather(batches, places): the batch of the rows at these pairs of uint32: batch, row."},
    {"rows_begin", m_rows_begin, METH_VARARGS,
     "rows_begin(window, seed, epoch, start): the first row of the stream that Rows of these "
     "needs."},
    {NULL, NULL, 0, NULL},
};

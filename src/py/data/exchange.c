/* exchange.c - the tasks of an exchange that run Python code around them: _skate.exchange_map,
 * _merge, _cut, _reduce (see shuffle/work.h).
 *
 * Each opens its batches and returns a Work: an iterator of BlockOuts, which are measured
 * without the GIL and written when they are sent. Rows are never touched in Python. */
#include "py/data/data.h"
#include "shuffle/inputs.h"

struct work {
    PyObject_HEAD struct sk_inputs *in;
    struct sk_work *work;
    PyObject *keep; /* list of objects that keep the batches alive */
    Py_buffer *buffers;
    uint32_t n_buffers;
    bool busy;
};

static struct work *work_of(PyObject *o) { return (struct work *)(void *)o; }

/* ---- batches ---- */

static int raised(struct py_state *st, sk_rc rc, const struct sk_err *err) {
    if (rc != SK_OK) py_raise(st, rc, err);
    return rc == SK_OK ? 0 : -1;
}

/* Gets the Arrow structs of a RecordBatch; w->keep keeps them alive. */
static int open_batch(struct py_state *st, struct work *w, PyObject *batch,
                      const struct ArrowSchema **schema, const struct ArrowArray **array) {
    struct ArrowSchema *s;
    struct ArrowArray *a;
    PyObject *two = py_batch_structs(st, batch, &s, &a);
    int r = two ? PyList_Append(w->keep, two) : -1;
    Py_XDECREF(two);
    if (r == 0) *schema = s, *array = a;
    return r;
}

/* Opens a slice: either a buffer of blocks, or a list of batches of one schema. */
static int open_slice(struct py_state *st, struct work *w, PyObject *from) {
    const struct ArrowSchema *schema = NULL;
    const struct ArrowArray *array = NULL;
    PY_ERR(err);
    if (PyList_Check(from)) {
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(from); i++)
            if (open_batch(st, w, PyList_GET_ITEM(from, i), &schema, &array) < 0 ||
                raised(st, sk_inputs_batch(w->in, schema, array, &err), &err) < 0)
                return -1;
        return 0;
    }
    Py_buffer *b = &w->buffers[w->n_buffers];
    if (PyObject_GetBuffer(from, b, PyBUF_SIMPLE) < 0) return -1;
    w->n_buffers++;
    return raised(st, sk_inputs_blocks(w->in, (struct sk_bytes){b->buf, (size_t)b->len}, &err),
                  &err);
}

static void work_dealloc(PyObject *o) {
    struct work *w = work_of(o);
    PyTypeObject *type = Py_TYPE(o);
    sk_work_destroy(w->work);
    sk_inputs_destroy(w->in);
    for (uint32_t i = 0; i < w->n_buffers; i++) PyBuffer_Release(&w->buffers[i]);
    sk_free(w->buffers);
    Py_XDECREF(w->keep);
    type->tp_free(o);
    Py_DECREF(type);
}

static PyObject *work_new(struct py_state *st, struct sk_bytes what, Py_ssize_t n_buffers) {
    PY_ERR(err);
    if (py_ensure(st) < 0) return NULL;
    struct work *w = work_of(st->work_type->tp_alloc(st->work_type, 0));
    if (!w) return NULL;
    sk_rc rc = sk_inputs_create(what, &w->in, &err);
    w->keep = rc == SK_OK ? PyList_New(0) : py_raise(st, rc, &err);
    w->buffers = sk_calloc(SK_TAG_PY, (size_t)(n_buffers + 1) * sizeof *w->buffers);
    if (w->keep && !w->buffers) PyErr_NoMemory();
    if (!PyErr_Occurred()) return (PyObject *)w;
    Py_DECREF(w);
    return NULL;
}

/* Ends a constructor. Returns the Work o, which is taken over; NULL with an exception if rc is an
 * error; None if the batches do not fit together. */
static PyObject *begun(struct py_state *st, PyObject *o, sk_rc rc, bool fits,
                       const struct sk_err *err) {
    if (rc == SK_OK && fits) return o;
    Py_DECREF(o);
    return rc == SK_OK ? Py_NewRef(Py_None) : py_raise(st, rc, err);
}

/* ---- the values that a work gives ---- */

static PyObject *work_next(PyObject *o) {
    struct work *w = work_of(o);
    struct py_state *st = PyType_GetModuleState(Py_TYPE(o));
    struct sk_value *v;
    sk_rc rc;
    PY_ERR(err);
    if (w->busy) return PyErr_Format(PyExc_ValueError, "another thread is in this Work");
    if (!w->work) return NULL;
    w->busy = true;
    PY_DROP(st)
    rc = sk_work_next(w->work, &v, &err);
    PY_TAKE(st)
    w->busy = false;
    if (rc != SK_OK || !v) {
        sk_work_destroy(w->work);
        w->work = NULL;
    }
    if (rc != SK_OK) return py_raise(st, rc, &err);
    return v ? py_blockout_new(st, v, o) : NULL;
}

/* ---- reading the description of an exchange ---- */

struct given_what {
    const char *kind;
    PyObject *keys, *aggs, *join;
    uint64_t seed, limit;
    uint32_t partitions;
    bool groups, firsts, whole_groups, one_block, sorted, own_reduce;
};
#define F(...) PY_FIELD(struct given_what, __VA_ARGS__)
static const struct py_field what_field[] = {
    F("kind", TEXT, kind),
    F("keys", OBJECT, keys, .of = &PyList_Type),
    F("aggs", OBJECT, aggs, .of = &PyList_Type),
    F("join", OBJECT, join, .of = &PyTuple_Type),
    F("partitions", U32, partitions),
    F("groups", BOOL, groups),
    F("firsts", BOOL, firsts),
    F("whole_groups", BOOL, whole_groups),
    F("one_block", BOOL, one_block),
    F("sorted", BOOL, sorted),
    F("own_reduce", BOOL, own_reduce),
    F("seed", U64, seed),
    F("limit", U64, limit),
};
#undef F
static const struct py_fields what_fields = {"exchange_what", SK_COUNT(what_field), 1, what_field};

/* Reads an aggregate from (kind, column, ignores nulls, flattens, wide, ddof, q, k, quantiles as
 * bytes of doubles, name, name of values). Column -1: the aggregate counts rows. A NaN is treated
 * as a null. -1: exception. */
static int agg_of(PyObject *row, struct sk_agg *a) {
    const char *kind, *quantiles;
    int column, ignore_nulls, flatten, wide;
    Py_ssize_t n;
    if (!PyTuple_Check(row)) {
        PyErr_SetString(PyExc_TypeError, "an aggregate is a tuple");
        return -1;
    }
    if (!PyArg_ParseTuple(row, "sipppidIy#ss:aggregate", &kind, &column, &ignore_nulls, &flatten,
                          &wide, &a->ddof, &a->q, &a->k, &quantiles, &n, &a->name, &a->value_name))
        return -1;
    a->column = column < 0 ? SK_AGG_ROWS : (uint32_t)column;
    a->ignore_nulls = ignore_nulls;
    a->nan_is_null = true;
    a->flatten = flatten;
    a->wide = wide;
    if (!sk_agg_kind_find(kind, &a->kind))
        PyErr_Format(PyExc_ValueError, "there is no aggregate %s", kind);
    else if (a->kind == SK_AGG_APPROX_QUANTILES && n != (Py_ssize_t)(a->k * sizeof *a->qs))
        PyErr_Format(PyExc_ValueError, "%zd bytes of %u quantiles", n, a->k);
    a->qs = (const double *)(const void *)quantiles;
    return PyErr_Occurred() ? -1 : 0;
}

/* Reads (kind, names of the right side's key, suffix of left names, suffix of right names). -1:
 * exception. `right` has room for n names. */
static int join_of(PyObject *join, uint32_t n, struct sk_what_join *out, char **right) {
    const char *kind;
    PyObject *names;
    if (!PyArg_ParseTuple(join, "sO!ss:join", &kind, &PyList_Type, &names, &out->suffix[0],
                          &out->suffix[1]))
        return -1;
    if (!sk_join_kind_find(kind, &out->kind))
        PyErr_Format(PyExc_ValueError, "join: there is no kind %s", kind);
    else if (PyList_GET_SIZE(names) != (Py_ssize_t)n)
        PyErr_Format(PyExc_ValueError, "join: %u left keys, %zd right ones", n,
                     PyList_GET_SIZE(names));
    for (uint32_t i = 0; i < n && !PyErr_Occurred(); i++)
        right[i] = (char *)(uintptr_t)PyUnicode_AsUTF8(PyList_GET_ITEM(names, i));
    out->right = right;
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *m_what(PyObject *module, PyObject *args, PyObject *kw) {
    struct py_state *st = PyModule_GetState(module);
    struct given_what g;
    PY_ERR(err);
    if (py_fields_read(&what_fields, args, kw, &g) < 0) return NULL;
    uint32_t n = g.keys ? (uint32_t)PyList_GET_SIZE(g.keys) : 0,
             n_aggs = g.aggs ? (uint32_t)PyList_GET_SIZE(g.aggs) : 0;
    struct sk_what_key *keys = sk_calloc(SK_TAG_PY, n * sizeof *keys);
    struct sk_agg *aggs = sk_calloc(SK_TAG_PY, n_aggs * sizeof *aggs);
    char **right = sk_calloc(SK_TAG_PY, n * sizeof *right);
    struct sk_what w = {.n_partitions = g.partitions,
                        .groups = g.groups,
                        .firsts = g.firsts,
                        .whole_groups = g.whole_groups,
                        .one_block = g.one_block,
                        .sorted = g.sorted,
                        .own_reduce = g.own_reduce,
                        .seed = g.seed,
                        .limit = g.limit,
                        .n_keys = n,
                        .keys = keys,
                        .n_aggs = n_aggs,
                        .aggs = aggs};
    if (!keys || !aggs || !right) PyErr_NoMemory();
    for (uint32_t i = 0; i < n_aggs && !PyErr_Occurred(); i++)
        if (agg_of(PyList_GET_ITEM(g.aggs, i), &aggs[i]) < 0) break;
    for (uint32_t i = 0; i < n && !PyErr_Occurred(); i++) {
        const char *name;
        int descending, nulls_first;
        PyObject *row = PyList_GET_ITEM(g.keys, i);
        if (!PyTuple_Check(row))
            PyErr_SetString(PyExc_TypeError, "a key is (name, descending, nulls first)");
        else if (PyArg_ParseTuple(row, "spp:key", &name, &descending, &nulls_first))
            keys[i] = (struct sk_what_key){(char *)(uintptr_t)name, descending, nulls_first};
    }
    if (!PyErr_Occurred()) {
        sk_rc rc = sk_what_kind_find(g.kind, &w.kind, &err);
        if (rc != SK_OK) py_raise(st, rc, &err);
        else if ((w.kind == SK_WHAT_JOIN) != (g.join != NULL))
            PyErr_SetString(PyExc_ValueError, "exchange_what: `join` is for the kind join");
        else if (g.join) (void)join_of(g.join, n, &w.join, right);
    }
    PyObject *r = PyErr_Occurred()
                      ? NULL
                      : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)sk_what_write(&w, NULL, 0));
    if (r) sk_what_write(&w, PyBytes_AS_STRING(r), (size_t)PyBytes_GET_SIZE(r));
    sk_free(keys);
    sk_free(aggs);
    sk_free(right);
    return r;
}

/* ---- the tasks: map, merge, cut, reduce ---- */

static PyObject *m_map(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *batch, *bounds;
    const char *p;
    Py_ssize_t n;
    unsigned long long seq, row0;
    unsigned values = 1;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "y#OKKO|I:exchange_map", &p, &n, &batch, &seq, &row0, &bounds,
                          &values))
        return NULL;
    PyObject *o = work_new(st, (struct sk_bytes){p, (size_t)n}, 0);
    if (!o) return NULL;
    struct work *w = work_of(o);
    struct sk_map_input in = {.seq = seq, .row0 = row0, .values = values};
    if (open_batch(st, w, batch, &in.schema, &in.array) < 0 ||
        (bounds != Py_None && open_batch(st, w, bounds, &in.bounds_schema, &in.bounds) < 0)) {
        Py_DECREF(o);
        return NULL;
    }
    sk_rc rc;
    PY_DROP(st)
    rc = sk_work_map(sk_inputs_what(w->in), &in, &w->work, &err);
    PY_TAKE(st)
    return begun(st, o, rc, true, &err);
}

static PyObject *m_cut(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *samples;
    const char *p;
    Py_ssize_t n;
    unsigned n_partitions;
    bool fits;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "y#O!I:exchange_cut", &p, &n, &PyList_Type, &samples,
                          &n_partitions))
        return NULL;
    PyObject *o = work_new(st, (struct sk_bytes){p, (size_t)n}, PyList_GET_SIZE(samples));
    if (!o) return NULL;
    struct work *w = work_of(o);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(samples); i++)
        if (raised(st, sk_inputs_slice(w->in, &(struct sk_input_slice){0}, &err), &err) < 0 ||
            open_slice(st, w, PyList_GET_ITEM(samples, i)) < 0) {
            Py_DECREF(o);
            return NULL;
        }
    sk_rc rc;
    PY_DROP(st)
    rc = sk_inputs_cut(w->in, n_partitions, &fits, &w->work, &err);
    PY_TAKE(st)
    return begun(st, o, rc, fits, &err);
}

/* Opens the slices of rows: a list of (source, run, whether the rows are wanted, first
 * partition, side of a join). */
static int open_slices(struct py_state *st, struct work *w, PyObject *rows) {
    PY_ERR(err);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        PyObject *row = PyList_GET_ITEM(rows, i), *from;
        struct sk_input_slice s = {0};
        int wanted;
        if (!PyTuple_Check(row) ||
            !PyArg_ParseTuple(row, "OIpI|I:slice", &from, &s.run, &wanted, &s.partition, &s.side)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a slice is (blocks, run, whether its rows are "
                                                 "wanted, its first partition[, its side])");
            return -1;
        }
        s.columns_only = !wanted;
        if (raised(st, sk_inputs_slice(w->in, &s, &err), &err) < 0 || open_slice(st, w, from) < 0)
            return -1;
    }
    return 0;
}

/* Opens the packs in `rows`: a list of (pack, lengths of its parts). w->keep keeps the lengths
 * alive. */
static int open_packs(struct py_state *st, struct work *w, PyObject *rows, uint32_t n_parts) {
    PY_ERR(err);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        PyObject *row = PyList_GET_ITEM(rows, i), *pack, *parts;
        if (!PyTuple_Check(row) || !PyArg_ParseTuple(row, "OS:pack", &pack, &parts)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a pack is (blocks, lengths of its parts)");
            return -1;
        }
        struct sk_input_slice s = {.parts = (const void *)PyBytes_AS_STRING(parts)};
        if (PyBytes_GET_SIZE(parts) != (Py_ssize_t)(n_parts * sizeof *s.parts)) {
            PyErr_Format(PyExc_ValueError, "lengths of %zd bytes, of %u parts",
                         PyBytes_GET_SIZE(parts), n_parts);
            return -1;
        }
        if (PyList_Append(w->keep, parts) < 0 ||
            raised(st, sk_inputs_slice(w->in, &s, &err), &err) < 0 || open_slice(st, w, pack) < 0)
            return -1;
    }
    return 0;
}

static PyObject *m_merge(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *rows;
    const char *p;
    Py_ssize_t n;
    unsigned first, n_parts, values;
    unsigned long long target;
    bool fits;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "y#O!IIIK:exchange_merge", &p, &n, &PyList_Type, &rows, &first,
                          &n_parts, &values, &target))
        return NULL;
    PyObject *o = work_new(st, (struct sk_bytes){p, (size_t)n}, PyList_GET_SIZE(rows));
    if (!o) return NULL;
    struct work *w = work_of(o);
    if (open_packs(st, w, rows, n_parts) < 0) {
        Py_DECREF(o);
        return NULL;
    }
    sk_rc rc;
    PY_DROP(st)
    rc = sk_inputs_merge(w->in, first, n_parts, values, target, &fits, &w->work, &err);
    PY_TAKE(st)
    return begun(st, o, rc, fits, &err);
}

static PyObject *m_reduce(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *slices, *beside;
    const char *p;
    Py_ssize_t n;
    unsigned phase = SK_PHASE_REDUCE, shared = 0;
    unsigned long long target;
    struct sk_reduce_input how = {0};
    bool fits;
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "y#O!IIIKO!|II:exchange_reduce", &p, &n, &PyList_Type, &slices,
                          &how.first, &how.end, &how.n, &target, &PyList_Type, &beside, &phase,
                          &shared))
        return NULL;
    how.target_bytes = target;
    how.part = sk_phase_part(phase);
    how.shared = sk_shared_side(shared);
    PyObject *o = work_new(st, (struct sk_bytes){p, (size_t)n},
                           PyList_GET_SIZE(slices) + PyList_GET_SIZE(beside));
    if (!o) return NULL;
    struct work *w = work_of(o);
    int r = open_slices(st, w, slices);
    sk_inputs_beside(w->in);
    for (Py_ssize_t i = 0; r == 0 && i < PyList_GET_SIZE(beside); i++)
        r = open_slice(st, w, PyList_GET_ITEM(beside, i));
    if (r < 0) {
        Py_DECREF(o);
        return NULL;
    }
    sk_rc rc;
    PY_DROP(st)
    rc = sk_inputs_reduce(w->in, &how, &fits, &w->work, &err);
    PY_TAKE(st)
    return begun(st, o, rc, fits, &err);
}

/* blocks(bytes): the batches of a slice, over its bytes. */
static PyObject *m_blocks(PyObject *module, PyObject *from) {
    struct py_state *st = PyModule_GetState(module);
    Py_buffer b;
    PY_ERR(err);
    if (PyObject_GetBuffer(from, &b, PyBUF_SIMPLE) < 0) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at < (size_t)b.len;) {
        struct sk_block_info info;
        const uint8_t *p = (const uint8_t *)b.buf + at;
        sk_rc rc = sk_block_info(p, (size_t)b.len - at, &info, &err);
        PyObject *batch = rc == SK_OK ? py_block_of(st, from, p, (size_t)info.total_bytes)
                                      : py_raise(st, rc, &err);
        if (!batch || PyList_Append(list, batch) < 0) Py_CLEAR(list);
        Py_XDECREF(batch);
        at += (size_t)SK_ALIGN(info.total_bytes, SK_BLOCK_ALIGN);
    }
    PyBuffer_Release(&b);
    return list;
}

PyMethodDef py_exchange_methods[] = {
    {"exchange_what", (PyCFunction)(void (*)(void))m_what, METH_VARARGS | METH_KEYWORDS,
     "exchange_what(kind, keys=[(name, descending, nulls first)], ...): what an exchange does, as "
     "bytes for its tasks."},
    {"exchange_map", m_map, METH_VARARGS,
     "exchange_map(what, batch, number of the map, rows before, bounds or None, values=1): a "
     "Work."},
    {"exchange_merge", m_merge, METH_VARARGS,
     "exchange_merge(what, [(pack, lengths of its parts)], first partition, partitions (0: runs), "
     "values, target bytes of memory): a Work; None: they are of "
     "different schemas. A pack: bytes of "
     "blocks, or a list of batches; lengths: of uint32, 0: it has no batch of that partition."},
    {"exchange_cut", m_cut, METH_VARARGS,
     "exchange_cut(what, samples, n): a Work; None: they are of different schemas. A sample: bytes "
     "of a block, or a list of one batch."},
    {"exchange_reduce", m_reduce, METH_VARARGS,
     "exchange_reduce(what, [(slice, run, whether its rows are wanted, its first partition[, "
     "its side])], first, end, n, target, [bounds], phase, shared): a Work; None: they are of "
     "different "
     "schemas, or their keys of other types than the bounds or the other side. A slice: bytes of "
     "blocks, or a list of batches. A join has its match reports in place of bounds."},
    {"blocks", m_blocks, METH_O, "The batches of a slice, over its bytes."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot work_slots[] = {
    {Py_tp_dealloc, work_dealloc},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, work_next},
    {Py_tp_doc, "What a task of an exchange gives, as BlockOuts."},
    {0, NULL},
};
static PyType_Spec work_spec = {"skate._skate.Work", sizeof(struct work), 0,
                                Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, work_slots};

int py_exchange_types(PyObject *module, struct py_state *st) {
    st->work_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &work_spec, NULL);
    if (!st->work_type || PyModule_AddType(module, st->work_type) < 0 ||
        PyModule_AddIntConstant(module, "PARTITIONS", SK_WHAT_PARTITIONS) < 0 ||
        PyModule_AddIntConstant(module, "MAP_BLOCKS", SK_WHAT_MAP_BLOCKS) < 0 ||
        PyModule_AddIntConstant(module, "SIDE_BOUNDS", SK_SIDE_BOUNDS) < 0 ||
        PyModule_AddIntConstant(module, "SIDE_REPORTS", SK_SIDE_REPORTS) < 0 ||
        PyModule_AddIntConstant(module, "PHASE_REDUCE", SK_PHASE_REDUCE) < 0 ||
        PyModule_AddIntConstant(module, "PHASE_SPLIT_REDUCE", SK_PHASE_SPLIT_REDUCE) < 0 ||
        PyModule_AddIntConstant(module, "PHASE_UNMATCHED", SK_PHASE_UNMATCHED) < 0)
        return -1;
    return PyModule_AddIntConstant(module, "PHASE_CUT", SK_PHASE_CUT) < 0
               ? -1
               : PyModule_AddIntConstant(module, "PHASE_MERGE", SK_PHASE_MERGE);
}

/* decode.c - bytes to Python values, the other half of encode.c.
 *
 * Large values are not copied: their buffers are read-only views over an exporter (buf.c) that
 * owns the engine's view until the last array over it dies. Invariant: a reader cannot write to
 * a value through anything made here. Cost: 20-60 ns for a scalar, 0.5 us an array, else
 * pickle's. */
#include "base/copy.h"
#include "exec/args.h"
#include "py/value/value.h"
#include "shuffle/pack.h"

static PyObject *corrupt(struct py_state *st, const struct sk_view *v) {
    struct sk_err err;
    py_raise(
        st,
        SK_ERR(&err, SK_ECORRUPT, "a value of kind %#x and %zu bytes is damaged", v->kind, v->len),
        &err);
    return NULL;
}

/* Returns the object over whose bytes arrays are made without a copy: a _Buf over the view if the
 * value is large, else a copy of the bytes. */
static PyObject *root_of(struct py_state *st, const struct sk_view *v, struct py_keep *k,
                         const uint8_t **data) {
    PyObject *root;
    if (v->len > SK_INLINE_MAX) {
        root = py_buf_of_view(st, v, k);
        *data = v->data;
    } else {
        root = PyBytes_FromStringAndSize((const char *)v->data, (Py_ssize_t)v->len);
        *data = root ? (const uint8_t *)PyBytes_AS_STRING(root) : NULL;
    }
    return root;
}

/* Returns NumPy's dtype for a character of the struct module; borrowed. */
static PyObject *dtype_of(struct py_state *st, uint32_t c) {
    if (c < SK_COUNT(st->dtype) && st->dtype[c]) return st->dtype[c];
    PyObject *np = PyImport_ImportModule("numpy");
    if (!np || !py_ndarray_type(st)) {
        Py_XDECREF(np);
        return NULL;
    }
    PyObject *d = PyObject_CallMethod(np, "dtype", "C", (int)c);
    Py_DECREF(np);
    if (d) st->dtype[c] = d;
    return d;
}

static PyObject *dec_ndarray(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    uint32_t head[2];
    if (v->len < 8) return corrupt(st, v);
    memcpy(head, v->data, 8);
    size_t head_n = 8 + 8 * (size_t)head[1], at = (size_t)SK_ALIGN(head_n, 64);
    if (head[0] >= SK_COUNT(st->dtype) || head[1] > 32 || v->len < at) return corrupt(st, v);
    PyObject *dtype = dtype_of(st, head[0]),
             *shape = dtype ? PyTuple_New((Py_ssize_t)head[1]) : NULL, *base = NULL, *a = NULL;
    if (!shape) return NULL;
    for (uint32_t i = 0; i < head[1]; i++) {
        int64_t d;
        memcpy(&d, v->data + 8 + 8 * i, 8);
        PyObject *o = PyLong_FromLongLong(d);
        if (!o) goto out;
        PyTuple_SET_ITEM(shape, (Py_ssize_t)i, o);
    }
    if (v->len > SK_INLINE_MAX) {
        PyObject *root = py_buf_of_view(st, v, k);
        base = root ? py_buf_new(st, v->data + at, v->len - at, root) : NULL;
        Py_XDECREF(root);
    } else {
        base = PyBytes_FromStringAndSize((const char *)v->data + at, (Py_ssize_t)(v->len - at));
    }
    if (base) {
        PyObject *args[3] = {shape, dtype, base};
        a = PyObject_Vectorcall((PyObject *)st->ndarray, args, 3, NULL);
    }
out:
    Py_XDECREF(base);
    Py_DECREF(shape);
    return a;
}

static PyObject *dec_oob(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    uint32_t n;
    uint64_t pickle_n;
    if (v->len < 16) return corrupt(st, v);
    memcpy(&n, v->data, 4);
    memcpy(&pickle_n, v->data + 8, 8);
    size_t head_n = 16 + 16 * (size_t)n;
    if (v->len < head_n || v->len - head_n < pickle_n) return corrupt(st, v);
    const uint8_t *data;
    PyObject *root = root_of(st, v, k, &data), *bufs = root ? PyTuple_New((Py_ssize_t)n) : NULL,
             *pickle = NULL, *r = NULL;
    for (uint32_t i = 0; bufs && i < n; i++) {
        uint64_t row[2];
        memcpy(row, data + 16 + 16 * i, 16);
        if (row[0] > v->len || row[1] > v->len - row[0]) {
            corrupt(st, v);
            goto out;
        }
        PyObject *b = py_buf_new(st, data + row[0], row[1], root),
                 *m = b ? PyMemoryView_FromObject(b) : NULL;
        Py_XDECREF(b);
        if (!m) goto out;
        PyTuple_SET_ITEM(bufs, (Py_ssize_t)i, m);
    }
    if (bufs && (pickle = py_buf_new(st, data + head_n, pickle_n, root)))
        r = py_loads(st, pickle, bufs);
out:
    Py_XDECREF(pickle);
    Py_XDECREF(bufs);
    Py_XDECREF(root);
    return r;
}

static PyObject *bytes_of(struct sk_bytes b) {
    return PyBytes_FromStringAndSize(b.p, (Py_ssize_t)b.n);
}

static PyObject *str_of(struct sk_bytes b) {
    return PyUnicode_DecodeUTF8(b.p, (Py_ssize_t)b.n, "replace");
}

/* ---- arguments of a stage's tasks (exec/args.h; what an exchange adds: shuffle/pack.h) ----------
 */

/* Fields of StageNode, StageTask, StageBlock and StageExchange: names and descriptions. */
static PyStructSequence_Field node_fields[] = {
    {"op", "name of the operator"},
    {"label", "name of the operator in messages"},
    {"params", "bytes that the operator understands"},
    {"what", "bytes of exchange_what for an operator of an exchange; else empty"},
    {NULL, NULL}};
static PyStructSequence_Field task_fields[] = {
    {"seq", "number of the task in its stage; None: it starts ahead of its turn"},
    {"cap", "number of output rows after which it may stop; -1: no limit"},
    {"target", "approximate bytes of each block of its output"},
    {"table", "bytes of memory that a table of the task may take"},
    {"unit", "parameters of a source's unit; b\"\": none"},
    {"values", "number of values that its packs should form"},
    {"blocks", "[StageBlock, ...], one for each input block"},
    {"exchange", "a StageExchange if the stage begins with an exchange; else None"},
    {NULL, NULL}};
static PyStructSequence_Field block_fields[] = {
    {"row0", "first row of the block that the task has; for a part, its first byte"},
    {"rows", "number of rows that the task has"},
    {"side", "number of the stage's input that the block comes from, or SIDE_..."},
    {"length", "for a part of an exchange: its bytes"},
    {"run", "number of its run or pack"},
    {"row", "number of the part's first row in its run, or its first partition"},
    {"lengths", "for a pack to be merged: lengths of its parts (uint32, in 64 bytes)"},
    {NULL, NULL}};
static PyStructSequence_Field exchange_fields[] = {
    {"phase", "PHASE_..."},
    {"first", "first partition of the task"},
    {"end", "partition behind its last one"},
    {"n", "number of all partitions"},
    {"shared", "1 + the input that several reduces share; 0: none"},
    {NULL, NULL}};

static PyTypeObject *sequence(PyObject *module, const char *name, PyStructSequence_Field *fields,
                              int n) {
    PyStructSequence_Desc desc = {name, NULL, fields, n};
    PyTypeObject *type = PyStructSequence_NewType(&desc);
    if (type && PyModule_AddType(module, type) < 0) Py_CLEAR(type);
    return type;
}

int py_decode_types(PyObject *module, struct py_state *st) {
    st->stage_node_type = sequence(module, "skate._skate.StageNode", node_fields, 4);
    st->stage_task_type = sequence(module, "skate._skate.StageTask", task_fields, 8);
    st->stage_block_type = sequence(module, "skate._skate.StageBlock", block_fields, 7);
    st->stage_exchange_type = sequence(module, "skate._skate.StageExchange", exchange_fields, 5);
    return st->stage_node_type && st->stage_task_type && st->stage_block_type &&
                   st->stage_exchange_type
               ? 0
               : -1;
}

/* Makes an object of `type` from n fields, whose references are taken over. NULL with an exception
 * if one of the fields is NULL. */
static PyObject *made_of(PyTypeObject *type, PyObject *const *fields, Py_ssize_t n) {
    PyObject *o = PyStructSequence_New(type);
    bool ok = o != NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        ok = ok && fields[i];
        if (o) PyStructSequence_SET_ITEM(o, i, fields[i]);
        else Py_XDECREF(fields[i]);
    }
    if (!ok) Py_CLEAR(o);
    return o;
}

static PyObject *u32_of(uint32_t v) { return PyLong_FromUnsignedLong(v); }

static PyObject *u64_of(uint64_t v) { return PyLong_FromUnsignedLongLong(v); }

/* Decodes the description of a stage: [StageNode, ...]. */
static PyObject *dec_stage(struct py_state *st, const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    uint32_t n = sk_stage_read(&r);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && sk_rd_ok(&r); i++) {
        struct sk_stage_node node = sk_stage_node_read(&r);
        PyObject *row = made_of(st->stage_node_type,
                                (PyObject *[]){str_of(node.op), str_of(node.label),
                                               bytes_of(node.params), bytes_of(node.what)},
                                4);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    if (list && !sk_rd_ok(&r)) {
        Py_DECREF(list);
        return corrupt(st, v);
    }
    return list;
}

/* Decodes the blocks of a task: [StageBlock, ...]. `more` reads the parts that the exchange adds,
 * one for each block. */
static PyObject *dec_stage_blocks(struct py_state *st, struct sk_rd *r, struct sk_rd *more,
                                  uint32_t n, uint32_t phase) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && sk_rd_ok(r) && sk_rd_ok(more); i++) {
        struct sk_stage_block b = sk_stage_block_read(r);
        struct sk_pack_block p = {0};
        if (phase) p = sk_pack_block_read(more, phase);
        PyObject *row = made_of(st->stage_block_type,
                                (PyObject *[]){u64_of(b.row0), u64_of(b.n_rows), u32_of(b.side),
                                               u64_of(p.length), u32_of(p.run), u32_of(p.row),
                                               bytes_of(p.parts)},
                                7);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *dec_task(struct py_state *st, const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    struct sk_stage_task t = sk_stage_task_read(&r);
    struct sk_rd more = r;
    struct sk_pack_task x = {0};
    for (uint32_t i = 0; i < t.n_blocks && sk_rd_ok(&more); i++) (void)sk_stage_block_read(&more);
    if (sk_rd_ok(&more) && !sk_rd_end(&more)) x = sk_pack_task_read(&more);
    PyObject *blocks =
        sk_rd_ok(&more) ? dec_stage_blocks(st, &r, &more, t.n_blocks, x.phase) : NULL;
    if (!sk_rd_ok(&r) || !sk_rd_ok(&more)) {
        Py_XDECREF(blocks);
        return corrupt(st, v);
    }
    PyObject *exchange = x.phase
                             ? made_of(st->stage_exchange_type,
                                       (PyObject *[]){u32_of(x.phase), u32_of(x.first),
                                                      u32_of(x.end), u32_of(x.n), u32_of(x.shared)},
                                       5)
                             : Py_NewRef(Py_None);
    return made_of(st->stage_task_type,
                   (PyObject *[]){t.seq == SK_NO_SEQ ? Py_NewRef(Py_None) : u64_of(t.seq),
                                  PyLong_FromLongLong(t.cap_rows), u64_of(t.target_bytes),
                                  u64_of(t.table_bytes), bytes_of(t.unit), u32_of(t.hint), blocks,
                                  exchange},
                   8);
}

static PyObject *dec_bytes(struct py_state *st, const struct sk_view *v) {
    if (v->len <= PY_BIG_COPY)
        return PyBytes_FromStringAndSize((const char *)v->data, (Py_ssize_t)v->len);
    PyObject *b = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)v->len);
    if (b) {
        char *dst = PyBytes_AS_STRING(b);
        sk_copy_hint(dst, v->len);
        PY_DROP(st)
        py_copy(st, NULL, dst, v->data, v->len);
        PY_TAKE(st)
    }
    return b;
}

PyObject *py_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k) {
    switch (v->kind) {
    case PY_NONE: Py_RETURN_NONE;
    case PY_TRUE: Py_RETURN_TRUE;
    case PY_FALSE: Py_RETURN_FALSE;
    case PY_INT: {
        int64_t i;
        if (v->len != 8) return corrupt(st, v);
        memcpy(&i, v->data, 8);
        return PyLong_FromLongLong(i);
    }
    case PY_FLOAT: {
        double d;
        if (v->len != 8) return corrupt(st, v);
        memcpy(&d, v->data, 8);
        return PyFloat_FromDouble(d);
    }
    case PY_STR: return PyUnicode_DecodeUTF8((const char *)v->data, (Py_ssize_t)v->len, NULL);
    case PY_BYTES: return dec_bytes(st, v);
    case PY_PICKLE: {
        PyObject *m = py_buf_new(st, v->data, v->len, Py_None),
                 *r = m ? py_loads(st, m, NULL) : NULL;
        Py_XDECREF(m); /* the unpickler keeps no reference to its input */
        return r;
    }
    case PY_PICKLE_OOB: return dec_oob(st, v, k);
    case PY_NDARRAY: return dec_ndarray(st, v, k);
    case PY_BLOCK: return py_block_decode(st, v, k);
    case PY_PACK: return py_pack_decode(st, v, k);
    case SK_KIND_STAGE: return dec_stage(st, v);
    case SK_KIND_EXEC: return dec_task(st, v);
    default: return corrupt(st, v);
    }
}

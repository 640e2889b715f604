/* decode.c - bytes to Python values, the other half of encode.c.
 *
 * Large values are not copied: buffers are read-only views over an exporter (buf.c) that owns the
 * engine's view until the last array dies.
 * Invariant: what a reader gets can never be written to through us. Cost: 20-60 ns for a scalar,
 * 0.5 us an array, else pickle's. */
#include "base/wire.h"
#include "exec/exec.h"
#include "shuffle/pack.h"
#include "base/copy.h"
#include "py/value/value.h"

static PyObject *corrupt(struct py_state *st, const struct sk_view *v) {
    struct sk_err err;
    py_raise(
        st,
        SK_ERR(&err, SK_ECORRUPT, "a value of kind %#x and %zu bytes is damaged", v->kind, v->len),
        &err);
    return NULL;
}

/* bytes-like over the value from which zero-copy pieces are cut: the view itself when it is large,
 * else a copy. */
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

static PyObject *dtype_of(struct py_state *st, uint32_t c) /* borrowed */
{
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

/* [(op, label, params)] */
static PyObject *dec_stage(struct py_state *st, const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    uint32_t n = sk_rd_u32(&r);
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && sk_rd_ok(&r); i++) {
        PyObject *op = str_of(sk_rd_bytes(&r)), *label = str_of(sk_rd_bytes(&r)),
                 *params = bytes_of(sk_rd_bytes(&r));
        PyObject *row = op && label && params ? PyTuple_Pack(3, op, label, params) : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(op);
        Py_XDECREF(label);
        Py_XDECREF(params);
        Py_XDECREF(row);
    }
    if (list && !sk_rd_ok(&r)) {
        Py_DECREF(list);
        return corrupt(st, v);
    }
    return list;
}

/* [(row0, n_rows, side)] */
static PyObject *dec_ranges(struct sk_rd *r, uint32_t n) {
    PyObject *list = PyList_New(0);
    for (uint32_t i = 0; list && i < n && sk_rd_ok(r); i++) {
        unsigned long long row0 = sk_rd_u64(r), rows = sk_rd_u64(r);
        PyObject *row = Py_BuildValue("(KKI)", row0, rows, sk_rd_u32(r));
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

/* Each of `ranges`, which is taken, with (length, run, row), and of a merge the lengths of its
 * parts. */
static PyObject *dec_packs(struct sk_rd *r, uint32_t phase, PyObject *ranges) {
    for (Py_ssize_t i = 0; ranges && i < PyList_GET_SIZE(ranges) && sk_rd_ok(r); i++) {
        struct sk_pack_block b = sk_pack_block_read(r, phase);
        PyObject *more = phase == SK_PHASE_MERGE
                             ? Py_BuildValue("(KIIy#)", (unsigned long long)b.length, b.run, b.row,
                                             (const char *)b.parts.p, (Py_ssize_t)b.parts.n)
                             : Py_BuildValue("(KII)", (unsigned long long)b.length, b.run, b.row);
        PyObject *all = more ? PySequence_Concat(PyList_GET_ITEM(ranges, i), more) : NULL;
        Py_XDECREF(more);
        if (!all || PyList_SetItem(ranges, i, all) < 0) Py_CLEAR(ranges);
    }
    return ranges;
}

/* (task_seq or None, cap_rows, target_max_bytes, unit params, [(row0, n_rows, side)], values,
 * None); of an exchange the ranges are longer, and the last is (phase, first partition, the one
 * behind the last, all, 1 + the input that reduces share). */
static PyObject *dec_exec(struct py_state *st, const struct sk_view *v) {
    struct sk_rd r = sk_rd_init(v->data, v->len);
    uint64_t seq = sk_rd_u64(&r);
    int64_t cap = sk_rd_i64(&r);
    uint64_t target = sk_rd_u64(&r);
    struct sk_bytes unit = sk_rd_bytes(&r);
    PyObject *list = dec_ranges(&r, sk_rd_u32(&r));
    uint32_t values = sk_rd_u32(&r);
    struct sk_pack_task t = {0};
    if (list && sk_rd_ok(&r) && !sk_rd_end(&r)) {
        t = sk_pack_task_read(&r);
        list = dec_packs(&r, t.phase, list);
    }
    if (list && !sk_rd_ok(&r)) {
        Py_DECREF(list);
        return corrupt(st, v);
    }
    PyObject *number = seq == UINT64_MAX ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(seq);
    PyObject *part = t.phase ? Py_BuildValue("(IIIII)", t.phase, t.first, t.end, t.n, t.shared)
                             : Py_NewRef(Py_None);
    if (list && number && part)
        return Py_BuildValue("(NLKy#NIN)", number, (long long)cap, (unsigned long long)target,
                             (const char *)unit.p, (Py_ssize_t)unit.n, list, values, part);
    Py_XDECREF(list);
    Py_XDECREF(number);
    Py_XDECREF(part);
    return NULL;
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
        Py_XDECREF(m); /* the unpickler keeps nothing of its input */
        return r;
    }
    case PY_PICKLE_OOB: return dec_oob(st, v, k);
    case PY_NDARRAY: return dec_ndarray(st, v, k);
    case PY_BLOCK: return py_block_decode(st, v, k);
    case PY_PACK: return py_pack_decode(st, v, k);
    case SK_KIND_STAGE: return dec_stage(st, v);
    case SK_KIND_EXEC: return dec_exec(st, v);
    default: return corrupt(st, v);
    }
}

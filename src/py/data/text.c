/* text.c - columns of strings and bytes as Python objects.
 *
 * Not here: other types, and the opposite direction. Equal values share one object: a table finds
 * the object made last for the same bytes, and is no longer used if values do not repeat. The input
 * is checked as it is read: offsets outside the data raise ValueError. Cost: about 8 ns for a value
 * that occurred before, 30 ns for a new one; all with the GIL. */
#include "py/data/data.h"

#define SLOTS 2048     /* slots of the table; a power of two */
#define TABLE_MIN 1024 /* columns with fewer rows use no table */
/* The table is given up if, after this many lookups, fewer than one in eight has found an object;
 * the number is larger than SLOTS, so that the table is filled by then. */
#define TRIAL 4096

struct slot {
    const uint8_t *p;
    size_t n;
    /* borrowed from the output, which the caller holds and no user code sees before the end */
    PyObject *o;
};

struct text {
    Py_buffer valid, offsets, data, out;
    PyObject **dst;
    Py_ssize_t n, at; /* n: number of rows; at: index in the buffers of the first row */
    int binary, wide;
};

static inline uint64_t load8(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline size_t slot_of(const uint8_t *p, size_t n) {
    uint64_t a = 0, b = 0;
    if (n >= 8) {
        a = load8(p);
        b = load8(p + n - 8) + load8(p + (n - 8) / 2) * 3;
    } else {
        for (size_t i = 0; i < n; i++) a = a << 8 | p[i];
    }
    uint64_t h = (a * 0x9E3779B97F4A7C15ull) ^ (b * 0xC2B2AE3D27D4EB4Full) ^ n;
    return (size_t)((h * 0x9E3779B97F4A7C15ull) >> 53);
}
_Static_assert(SLOTS == 1 << (64 - 53), "slot_of gives numbers of slots");

static inline PyObject *object_of(const struct text *t, const uint8_t *p, size_t n) {
    return t->binary ? PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)n)
                     : PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)n, NULL);
}

static int fill(const struct text *t) {
    static const uint8_t nothing[1] = {0};
    const uint8_t *data = t->data.buf ? t->data.buf : nothing, *valid = t->valid.buf;
    const int32_t *o32 = t->offsets.buf;
    const int64_t *o64 = t->offsets.buf;
    struct slot *table = NULL;
    uint32_t looks = 0, hits = 0;
    int rc = -1;
    if (t->n >= TABLE_MIN && !(table = sk_calloc(SK_TAG_PY, SLOTS * sizeof *table))) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < t->n; i++) {
        size_t row = (size_t)(t->at + i);
        PyObject *o;
        if (t->dst[i] != Py_None) {
            /* only None may be replaced, because dropping another object could run code that
             * changes the list */
            PyErr_SetString(PyExc_ValueError, "text_objects fills lists and arrays of None");
            goto out;
        }
        if (valid && !(valid[row >> 3] >> (row & 7) & 1)) {
            o = Py_NewRef(Py_None);
        } else {
            int64_t from = t->wide ? o64[row] : o32[row],
                    to = t->wide ? o64[row + 1] : o32[row + 1];
            if (from < 0 || to < from || to > t->data.len) {
                PyErr_Format(
                    PyExc_ValueError,
                    "row %zd of the column has offsets %lld..%lld, beyond its %zd bytes of data", i,
                    (long long)from, (long long)to, t->data.len);
                goto out;
            }
            const uint8_t *p = data + from;
            size_t n = (size_t)(to - from);
            struct slot *s = table ? &table[slot_of(p, n)] : NULL;
            if (s && s->o && s->n == n && memcmp(s->p, p, n) == 0) {
                o = Py_NewRef(s->o);
                hits++;
            } else {
                if (!(o = object_of(t, p, n))) goto out;
                if (s) *s = (struct slot){p, n, o};
            }
            if (table && ++looks == TRIAL) {
                if (hits < TRIAL / 8) {
                    sk_free(table);
                    table = NULL;
                }
                looks = hits = 0;
            }
        }
        t->dst[i] = o;
        Py_DECREF(Py_None);
    }
    rc = 0;
out:
    sk_free(table);
    return rc;
}

/* Gets the buffer of a NumPy array of Python objects. */
static int object_array(PyObject *a, Py_buffer *b, int flags) {
    if (PyObject_GetBuffer(a, b, flags | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) return -1;
    if (b->format && strcmp(b->format, "O") == 0 && b->itemsize == (Py_ssize_t)sizeof(PyObject *))
        return 0;
    PyBuffer_Release(b);
    PyErr_SetString(PyExc_TypeError, "not an array of dtype object");
    return -1;
}

static int optional(PyObject *o, Py_buffer *b, Py_ssize_t least, const char *what) {
    if (o == Py_None && least <= 0) return 0;
    if (PyObject_GetBuffer(o, b, PyBUF_SIMPLE) < 0) return -1;
    if (b->len >= least) return 0;
    PyErr_Format(PyExc_ValueError, "%s has %zd bytes; the column needs %zd", what, b->len, least);
    return -1;
}

static PyObject *m_text_objects(PyObject *module, PyObject *args) {
    (void)module;
    struct text t = {0};
    PyObject *out, *valid, *offsets, *data, *r = NULL;
    if (!PyArg_ParseTuple(args, "OppnOOO:text_objects", &out, &t.binary, &t.wide, &t.at, &valid,
                          &offsets, &data))
        return NULL;
    if (PyList_CheckExact(out)) {
        t.n = PyList_GET_SIZE(out);
        t.dst = ((PyListObject *)(void *)out)->ob_item;
    } else {
        if (object_array(out, &t.out, PyBUF_WRITABLE) < 0) return NULL;
        t.n = t.out.len / (Py_ssize_t)sizeof(PyObject *);
        t.dst = t.out.buf;
    }
    Py_ssize_t end = t.at + t.n, width = t.wide ? 8 : 4;
    if (t.at < 0 || end < t.n || end >= PY_SSIZE_T_MAX / 16) {
        PyErr_Format(PyExc_ValueError, "a column cannot begin at row %zd", t.at);
        goto out;
    }
    if (optional(valid, &t.valid, valid == Py_None ? 0 : (end + 7) / 8, "the bitmap") < 0 ||
        optional(offsets, &t.offsets, t.n ? (end + 1) * width : 0, "the buffer of offsets") < 0 ||
        optional(data, &t.data, 0, "the data") < 0)
        goto out;
    if (fill(&t) == 0) r = Py_NewRef(Py_None);
out:
    if (t.valid.obj) PyBuffer_Release(&t.valid);
    if (t.offsets.obj) PyBuffer_Release(&t.offsets);
    if (t.data.obj) PyBuffer_Release(&t.data);
    if (t.out.obj) PyBuffer_Release(&t.out);
    return r;
}

static PyObject *m_same_objects(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *a, *b;
    Py_buffer x, y;
    if (!PyArg_ParseTuple(args, "OO:same_objects", &a, &b) || object_array(a, &x, PyBUF_SIMPLE) < 0)
        return NULL;
    if (object_array(b, &y, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&x);
        return NULL;
    }
    bool same = x.len == y.len && (x.len == 0 || memcmp(x.buf, y.buf, (size_t)x.len) == 0);
    PyBuffer_Release(&x);
    PyBuffer_Release(&y);
    return PyBool_FromLong(same);
}

/* ---- by codes ---- */

struct coded { /* out[i] is, or will be, values[codes[i]] */
    Py_buffer out, values, codes;
    Py_ssize_t n, n_values;
};

static void coded_free(struct coded *c) {
    if (c->out.obj) PyBuffer_Release(&c->out);
    if (c->values.obj) PyBuffer_Release(&c->values);
    if (c->codes.obj) PyBuffer_Release(&c->codes);
}

static int coded_of(PyObject *args, int flags, struct coded *c) {
    PyObject *out, *values, *codes;
    if (!PyArg_ParseTuple(args, "OOO", &out, &values, &codes) ||
        object_array(out, &c->out, flags) < 0 ||
        object_array(values, &c->values, PyBUF_SIMPLE) < 0 ||
        PyObject_GetBuffer(codes, &c->codes, PyBUF_C_CONTIGUOUS) < 0)
        return -1;
    c->n = c->out.len / (Py_ssize_t)sizeof(PyObject *);
    c->n_values = c->values.len / (Py_ssize_t)sizeof(PyObject *);
    if (c->codes.len == 4 * c->n) return 0;
    PyErr_Format(PyExc_ValueError, "%zd rows have %zd codes of 4 bytes", c->n, c->codes.len / 4);
    return -1;
}

static PyObject *m_coded_objects(PyObject *module, PyObject *args) {
    (void)module;
    struct coded c = {0};
    PyObject *r = NULL;
    if (coded_of(args, PyBUF_WRITABLE, &c) < 0) goto out;
    PyObject **dst = c.out.buf, *const *values = c.values.buf;
    const int32_t *codes = c.codes.buf;
    for (Py_ssize_t i = 0; i < c.n; i++) {
        if (dst[i] != Py_None || codes[i] < 0 || codes[i] >= c.n_values) {
            PyErr_Format(PyExc_ValueError, "row %zd is not None, or has the code %d of %zd values",
                         i, (int)codes[i], c.n_values);
            goto out;
        }
        dst[i] = Py_NewRef(values[codes[i]]);
        Py_DECREF(Py_None);
    }
    r = Py_NewRef(Py_None);
out:
    coded_free(&c);
    return r;
}

static PyObject *m_same_coded(PyObject *module, PyObject *args) {
    (void)module;
    struct coded c = {0};
    PyObject *r = NULL;
    if (coded_of(args, PyBUF_SIMPLE, &c) == 0) {
        PyObject *const *has = c.out.buf, *const *values = c.values.buf;
        const int32_t *codes = c.codes.buf;
        Py_ssize_t i = 0;
        while (i < c.n && codes[i] >= 0 && codes[i] < c.n_values && has[i] == values[codes[i]]) i++;
        r = PyBool_FromLong(i == c.n);
    }
    coded_free(&c);
    return r;
}

PyMethodDef py_text_methods[] = {
    {"coded_objects", m_coded_objects, METH_VARARGS,
     "coded_objects(out, values, codes): fills an object array of None with the objects of another "
     "one, by codes of 4 bytes; ValueError "
     "for a code\n"
     "beyond them; what was filled until then stays."},
    {"same_coded", m_same_coded, METH_VARARGS,
     "same_coded(a, values, codes): whether `a` holds the very objects that coded_objects() would "
     "put there."},
    {"text_objects", m_text_objects, METH_VARARGS,
     "text_objects(out, binary, wide, at, valid, offsets, data): fills a list or object array with "
     "the str (or bytes) of an Arrow column "
     "that\n"
     "begins at row `at` of its buffers; wide: offsets of 8 bytes. None where there is no value. "
     "ValueError for offsets beyond the data,\n"
     "UnicodeDecodeError for what is no UTF-8; what was filled until then stays."},
    {"same_objects", m_same_objects, METH_VARARGS,
     "same_objects(a, b): whether two object arrays hold the very same objects in the same order."},
    {NULL, NULL, 0, NULL},
};

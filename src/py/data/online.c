/* online.c - _skate.online_...: rounds and bounds of an online aggregation (shuffle/online.h), over
 * buffers of doubles. */
#include "py/data/data.h"
#include "shuffle/online.h"

enum { MOST = 5 };

struct columns { /* columns of doubles of equal length */
    Py_buffer view[MOST];
    int n;
    uint64_t rows;
};

static void columns_free(struct columns *c) {
    while (c->n) PyBuffer_Release(&c->view[--c->n]);
}

static const double *column(const struct columns *c, int i) { return c->view[i].buf; }

/* Reads the columns of a tuple; false: an exception is set. */
static bool columns_of(PyObject *given, int n, struct columns *out) {
    *out = (struct columns){.n = 0};
    if (PyTuple_GET_SIZE(given) != n)
        PyErr_Format(PyExc_TypeError, "%d columns of doubles, not %zd", n, PyTuple_GET_SIZE(given));
    while (!PyErr_Occurred() && out->n < n) {
        Py_buffer *b = &out->view[out->n];
        if (PyObject_GetBuffer(PyTuple_GET_ITEM(given, out->n), b,
                               PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
            break;
        out->n++;
        out->rows = (uint64_t)b->len / sizeof(double);
        if (b->itemsize != sizeof(double) || !b->format || strcmp(b->format, "d") != 0)
            PyErr_SetString(PyExc_TypeError, "columns of doubles");
        else if (b->len != out->view[0].len)
            PyErr_SetString(PyExc_ValueError, "columns of other lengths");
    }
    if (PyErr_Occurred()) columns_free(out);
    return !PyErr_Occurred();
}

/* Makes n bytes objects, each with room for one column of doubles; out[i]: the address of object
 * i. */
static PyObject *room_for(const struct columns *c, int n, double **out) {
    PyObject *made = PyTuple_New(n);
    for (int i = 0; made && i < n; i++) {
        PyObject *one = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(c->rows * sizeof(double)));
        if (!one) {
            Py_CLEAR(made);
            break;
        }
        out[i] = (double *)(void *)PyBytes_AS_STRING(one);
        PyTuple_SET_ITEM(made, i, one);
    }
    return made;
}

static PyObject *m_online_unit(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned n, slots, at;
    if (!PyArg_ParseTuple(args, "III:online_unit", &n, &slots, &at)) return NULL;
    struct sk_online_unit u = sk_online_unit(n, slots, at);
    return Py_BuildValue("INN", u.pieces, PyBool_FromLong(u.ends), PyBool_FromLong(u.bounds));
}

static PyObject *m_online_products(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned pieces;
    PyObject *given, *made;
    struct columns c;
    double *out[3] = {NULL};
    if (!PyArg_ParseTuple(args, "IO!:online_products", &pieces, &PyTuple_Type, &given)) return NULL;
    bool two = PyTuple_GET_SIZE(given) == 2;
    if (!columns_of(given, two ? 2 : 1, &c)) return NULL;
    made = room_for(&c, two ? 3 : 1, out);
    if (made)
        sk_online_products(c.rows, column(&c, 0), two ? column(&c, 1) : NULL, pieces, out[0],
                           out[1], out[2]);
    columns_free(&c);
    return made;
}

/* Parses ((pieces, seen, units, confidence), columns) with `n` columns, and makes `results` columns
 * for the result. */
static PyObject *bounds(PyObject *args, int n, int results) {
    struct sk_online_seen z;
    PyObject *given, *made = NULL;
    struct columns c;
    double *out[2] = {NULL};
    if (!PyArg_ParseTuple(args, "(IIId)O!:bounds", &z.pieces, &z.seen, &z.units, &z.confidence,
                          &PyTuple_Type, &given))
        return NULL;
    if (!(z.confidence > 0 && z.confidence < 1) || !z.seen || z.seen > z.pieces)
        return PyErr_Format(PyExc_ValueError, "%u of %u pieces seen, or a confidence that is none",
                            z.seen, z.pieces);
    if (columns_of(given, n, &c)) {
        made = room_for(&c, results, out);
        if (made && results == 2)
            sk_online_totals(&z, c.rows, column(&c, 0), column(&c, 1), out[0], out[1]);
        else if (made)
            sk_online_ratios(&z, c.rows, column(&c, 0), column(&c, 1), column(&c, 2), column(&c, 3),
                             column(&c, 4), out[0]);
        columns_free(&c);
    }
    return made;
}

static PyObject *m_online_totals(PyObject *module SK_UNUSED, PyObject *args) {
    return bounds(args, 2, 2);
}
static PyObject *m_online_ratios(PyObject *module SK_UNUSED, PyObject *args) {
    return bounds(args, 5, 1);
}

PyMethodDef py_online_methods[] = {
    {"online_unit", m_online_unit, METH_VARARGS,
     "online_unit(pieces, slots, at): (pieces of the unit that begins there, whether a result "
     "comes behind it, whether it counts for "
     "bounds)."},
    {"online_products", m_online_products, METH_VARARGS,
     "online_products(pieces, (a,) or (a, b)): (aa,), or (aa, ab, bb)."},
    {"online_totals", m_online_totals, METH_VARARGS,
     "online_totals(seen, (a, aa)): (estimates of the whole, bounds)."},
    {"online_ratios", m_online_ratios, METH_VARARGS,
     "online_ratios(seen, (a, b, aa, ab, bb)): (bounds,)."},
    {NULL, NULL, 0, NULL},
};

/* fields.c - arguments by a table: see core.h. Cost: 10 ns a field and 20 a value that is given. */
#include "py/core/core.h"

#include <math.h>

static int wrong_type(const struct py_fields *f, const struct py_field *d, const char *wanted,
                      PyObject *v) {
    PyErr_Format(PyExc_TypeError, "%s: '%s' must be %s, not %s", f->what, d->name, wanted,
                 Py_TYPE(v)->tp_name);
    return -1;
}

static int whole(const struct py_fields *f, const struct py_field *d, PyObject *v, long long least,
                 long long most, long long *out) {
    int overflow = 0;
    if (!PyIndex_Check(v)) return wrong_type(f, d, "an int", v);
    long long n = PyLong_AsLongLongAndOverflow(v, &overflow);
    if (n == -1 && PyErr_Occurred()) return -1; /* the object's __index__ has raised an exception */
    if (overflow || n < least || n > most) {
        PyErr_Format(PyExc_ValueError, "%s: '%s' must be %lld to %lld, not %R", f->what, d->name,
                     least, most, v);
        return -1;
    }
    *out = n;
    return 0;
}

static int u64(const struct py_fields *f, const struct py_field *d, PyObject *v, uint64_t *out) {
    PyObject *i = PyIndex_Check(v) ? PyNumber_Index(v) : NULL;
    if (!i) return PyErr_Occurred() ? -1 : wrong_type(f, d, "an int", v);
    unsigned long long n = PyLong_AsUnsignedLongLong(i);
    Py_DECREF(i);
    if (n == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "%s: '%s' must be 0 to %llu, not %R", f->what, d->name,
                     (unsigned long long)UINT64_MAX, v);
        return -1;
    }
    *out = n;
    return 0;
}

static int scaled(const struct py_fields *f, const struct py_field *d, PyObject *v, int64_t *out) {
    double x = PyFloat_AsDouble(v);
    if (x < 0 && d->type == PY_FIELD_AUTO && !PyErr_Occurred()) {
        *out = d->otherwise;
        return 0;
    }
    if (x == -1.0 && PyErr_Occurred()) {
        if (!PyErr_ExceptionMatches(PyExc_TypeError) &&
            !PyErr_ExceptionMatches(PyExc_OverflowError))
            return -1;
        bool large = PyErr_ExceptionMatches(PyExc_OverflowError);
        PyErr_Clear();
        if (!large) return wrong_type(f, d, "a number", v);
        x = HUGE_VAL;
    }
    double r = x * d->unit + 0.5;
    if (!(x >= 0) || !(r < 9.2e18)) {
        char most[40] = "";
        if (x >= 0) snprintf(most, sizeof most, " of at most %.2g", 9.2e18 / d->unit);
        PyErr_Format(PyExc_ValueError, "%s: '%s' must be a number >= 0%s, not %R", f->what, d->name,
                     most, v);
        return -1;
    }
    *out = (int64_t)r;
    return 0;
}

static int text(const struct py_fields *f, const struct py_field *d, PyObject *v,
                const char **out) {
    Py_ssize_t n;
    if (!PyUnicode_Check(v)) return wrong_type(f, d, "a str", v);
    const char *s = PyUnicode_AsUTF8AndSize(v, &n);
    if (!s) {
        PyErr_Format(PyExc_ValueError,
                     "%s: '%s' has characters that are no text (lone surrogates): %R", f->what,
                     d->name, v);
        return -1;
    }
    if (strlen(s) != (size_t)n) {
        PyErr_Format(PyExc_ValueError, "%s: '%s' must have no NUL character: %R", f->what, d->name,
                     v);
        return -1;
    }
    *out = s;
    return 0;
}

static int convert(const struct py_fields *f, const struct py_field *d, PyObject *v, void *out) {
    void *to = (char *)out + d->at;
    long long n;
    int r;
    switch (d->type) {
    case PY_FIELD_BOOL:
        r = PyObject_IsTrue(v);
        if (r >= 0) *(bool *)to = r;
        return r < 0 ? -1 : 0;
    case PY_FIELD_I32:
        if (whole(f, d, v, INT32_MIN, INT32_MAX, &n) < 0) return -1;
        *(int32_t *)to = (int32_t)n;
        return 0;
    case PY_FIELD_U32:
        if (whole(f, d, v, 0, UINT32_MAX, &n) < 0) return -1;
        *(uint32_t *)to = (uint32_t)n;
        return 0;
    case PY_FIELD_I64:
        if (whole(f, d, v, INT64_MIN, INT64_MAX, &n) < 0) return -1;
        *(int64_t *)to = n;
        return 0;
    case PY_FIELD_U64: return u64(f, d, v, to);
    case PY_FIELD_SCALED:
    case PY_FIELD_AUTO: return scaled(f, d, v, to);
    case PY_FIELD_TEXT: return text(f, d, v, to);
    case PY_FIELD_BYTES:
        if (!PyBytes_Check(v)) return wrong_type(f, d, "bytes", v);
        *(struct sk_bytes *)to =
            (struct sk_bytes){PyBytes_AS_STRING(v), (size_t)PyBytes_GET_SIZE(v)};
        return 0;
    case PY_FIELD_OBJECT: break;
    }
    SK_ASSERT(d->type == PY_FIELD_OBJECT);
    if (d->of && !PyObject_TypeCheck(v, d->of)) return wrong_type(f, d, d->of->tp_name, v);
    *(PyObject **)to = v;
    return 0;
}

static void not_given(const struct py_field *d, void *out) {
    void *to = (char *)out + d->at;
    switch (d->type) {
    case PY_FIELD_BOOL: *(bool *)to = d->otherwise != 0; break;
    case PY_FIELD_I32: *(int32_t *)to = (int32_t)d->otherwise; break;
    case PY_FIELD_U32: *(uint32_t *)to = (uint32_t)d->otherwise; break;
    case PY_FIELD_I64:
    case PY_FIELD_SCALED:
    case PY_FIELD_AUTO: *(int64_t *)to = d->otherwise; break;
    case PY_FIELD_U64: *(uint64_t *)to = (uint64_t)d->otherwise; break;
    case PY_FIELD_TEXT: *(const char **)to = NULL; break;
    case PY_FIELD_BYTES: *(struct sk_bytes *)to = (struct sk_bytes){NULL, 0}; break;
    case PY_FIELD_OBJECT: *(PyObject **)to = NULL; break;
    }
}

/* Reads positional arguments. `given` gets a bit for each field that has a value. */
static int by_position(const struct py_fields *f, PyObject *args, void *out, uint64_t *given) {
    Py_ssize_t n = args ? PyTuple_GET_SIZE(args) : 0;
    if (n > (Py_ssize_t)f->n_needed) {
        PyErr_Format(PyExc_TypeError, "%s takes %u arguments by position, not %zd", f->what,
                     f->n_needed, n);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        if (convert(f, &f->field[i], PyTuple_GET_ITEM(args, i), out) < 0) return -1;
        *given |= UINT64_C(1) << i;
    }
    return 0;
}

static int by_name(const struct py_fields *f, PyObject *named, bool others, void *out,
                   uint64_t *given) {
    PyObject *key, *v;
    Py_ssize_t pos = 0;
    while (named && PyDict_Next(named, &pos, &key, &v)) {
        const char *name = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : "?";
        uint32_t i = 0;
        if (!name) return -1;
        while (i < f->n && strcmp(f->field[i].name, name) != 0) i++;
        if (i == f->n) {
            if (others) continue;
            PyErr_Format(PyExc_TypeError, "%s has no argument %R", f->what, key);
            return -1;
        }
        if (*given >> i & 1) {
            PyErr_Format(PyExc_TypeError, "%s: '%s' is given by position and by name", f->what,
                         name);
            return -1;
        }
        if (v == Py_None && i >= f->n_needed) continue;
        if (convert(f, &f->field[i], v, out) < 0) return -1;
        *given |= UINT64_C(1) << i;
    }
    return 0;
}

static int read_all(const struct py_fields *f, PyObject *args, PyObject *named, bool others,
                    void *out) {
    uint64_t given = 0;
    SK_ASSERT(f->n <= 64 && f->n_needed <= f->n);
    if (by_position(f, args, out, &given) < 0 || by_name(f, named, others, out, &given) < 0)
        return -1;
    for (uint32_t i = 0; i < f->n; i++) {
        if (given >> i & 1) continue;
        if (i < f->n_needed) {
            PyErr_Format(PyExc_TypeError, "%s: '%s' is missing", f->what, f->field[i].name);
            return -1;
        }
        not_given(&f->field[i], out);
    }
    return 0;
}

int py_fields_read(const struct py_fields *f, PyObject *args, PyObject *named, void *out) {
    return read_all(f, args, named, false, out);
}

int py_fields_pick(const struct py_fields *f, PyObject *dict, void *out) {
    return read_all(f, NULL, dict, true, out);
}

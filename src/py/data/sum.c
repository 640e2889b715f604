/* sum.c - the exact sum of 64-bit integers, which 64 bits may not hold.
 *
 * One pass over the values, in two halves of 32 bits: with fewer than 2^32 values neither sum
 * overflows 64 bits. 0.4 ns a value. pyarrow's min_max and sum, which give the same, are calls
 * of 3 us each for any length: a tenth of what a block of 1,000 rows costs. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#include "py/data/data.h"

static PyObject *m_sum_halves(PyObject *module SK_UNUSED, PyObject *values) {
    Py_buffer b;
    if (PyObject_GetBuffer(values, &b, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) return NULL;
    const char *f = b.format ? b.format : "";
    bool is_signed = strcmp(f, "l") == 0 || strcmp(f, "q") == 0,
         is_unsigned = strcmp(f, "L") == 0 || strcmp(f, "Q") == 0;
    size_t n = (size_t)b.len / 8;
    if ((!is_signed && !is_unsigned) || b.itemsize != 8 || n > UINT32_MAX) {
        PyBuffer_Release(&b);
        PyErr_Format(PyExc_TypeError,
                     "sum_halves takes fewer than 2^32 integers of 64 bits, not %zu of format '%s'",
                     n, f);
        return NULL;
    }
    /* computes as if all values were larger by 2^63: then none is negative */
    const uint64_t *v = b.buf, flip = is_signed ? UINT64_C(1) << 63 : 0;
    uint64_t high = 0, low = 0;
    for (size_t i = 0; i < n; i++) {
        high += (v[i] ^ flip) >> 32;
        low += v[i] & UINT32_MAX;
    }
    PyBuffer_Release(&b);
    if (is_signed)
        return Py_BuildValue("LK", (long long)(high - ((uint64_t)n << 31)),
                             (unsigned long long)low);
    return Py_BuildValue("KK", (unsigned long long)high, (unsigned long long)low);
}

PyMethodDef py_sum_methods[] = {
    {"sum_halves", m_sum_halves, METH_O,
     "sum_halves(values): (high, low) of a contiguous array of int64 or uint64, whose sum is high "
     "* 2**32 + low."},
    {NULL, NULL, 0, NULL},
};

/* ndarray.c - which numpy arrays are plain numbers, and the head in front of their data. */
#include "py/value/value.h"

/* Looks NumPy's array type up, but never imports NumPy: if the program has not imported it, no
 * value is an array. */
bool py_ndarray_type(struct py_state *st) {
    if (st->ndarray) return true;
    PyObject *modules = PyImport_GetModuleDict(); /* borrowed */
    PyObject *np = PyDict_GetItemString(modules, "numpy");
    PyObject *t = np ? PyObject_GetAttrString(np, "ndarray") : NULL;
    if (!t) PyErr_Clear(); /* the program is just importing NumPy */
    st->ndarray = (PyTypeObject *)t;
    return t != NULL;
}

char py_number_char(const char *f) {
    if (!f || !f[0]) return 0;
    if (f[0] == 'Z' && f[1] && !f[2])
        return f[1] == 'd' ? 'D' : f[1] == 'f' ? 'F' : f[1] == 'g' ? 'G' : 0;
    return !f[1] && strchr("?bBhHiIlLqQefdg", f[0]) ? f[0] : 0;
}

size_t py_ndarray_head(const Py_buffer *b, char c, uint8_t *out) {
    uint32_t head[2] = {(uint8_t)c, (uint32_t)b->ndim};
    memcpy(out, head, 8);
    for (int i = 0; i < b->ndim; i++) {
        int64_t d = b->shape[i];
        memcpy(out + 8 + 8 * i, &d, 8);
    }
    return 8 + 8 * (size_t)b->ndim;
}

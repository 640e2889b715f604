/* py_pages.h - memory for batches (py_pages.c). With the GIL. */
#ifndef SK_PY_PAGES_H
#define SK_PY_PAGES_H

#include "py/py_int.h"

void py_pages_open(void);  /* someone makes batches from now on: their memory is kept when they are gone */
void py_pages_close(void); /* as often as open; behind the last one a little is kept */
PyObject *py_pages_new(struct py_state *st,
                       size_t n); /* an object with n bytes that may be written (buffer protocol); NULL with a MemoryError */
int py_pages_types(PyObject *module, struct py_state *st); /* -1 with an exception */
extern PyMethodDef py_pages_methods[];

#endif

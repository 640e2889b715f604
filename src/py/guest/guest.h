/* guest.h - an engine that is written in Python (guest.c), and the runner of such an engine's tasks
 * (guest_task.c). */
#ifndef SK_PY_GUEST_H
#define SK_PY_GUEST_H

#include "engine/guest.h"
#include "py/worker/worker.h"

int py_guest_make(struct py_state *st, PyObject *engine, struct sk_guest *out);
int py_guest_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_guest_methods[];

#endif

/* call.h - the calls of a program: f.remote() and calls of actors, put, get and wait, generators,
 * placement groups, and lists of the engine's state. */
#ifndef SK_PY_CALL_H
#define SK_PY_CALL_H

#include "engine/state.h"
#include "py/worker/worker.h"

/* ---- define.c */
/* Defines a function by its pickled bytes, or a method by its name. */
int py_define(struct py_state *st, PyObject *def, PyObject *name, bool method, sk_fid *out);
extern PyMethodDef py_define_methods[];

/* ---- template.c, control.c, group.c */
int py_template_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_control_methods[];
extern PyMethodDef py_group_methods[];

/* ---- put.c, get_wait.c */
extern PyMethodDef py_put_methods[];
extern PyMethodDef py_get_wait_methods[];
PyObject *py_put(struct py_state *st, PyObject *value); /* returns an ObjectRef */

/* ---- gen.c */
PyObject *py_gen_new(struct py_state *st, sk_tid task);
/* Stores the id of a generator's task in *out. False: all values of the generator were read, or
 * (with an exception set) its task failed. */
bool py_gen_stream(struct py_state *st, PyObject *gen, sk_tid *out);
int py_gen_types(PyObject *module, struct py_state *st);

/* ---- watch.c */
int py_watch_types(PyObject *module);

/* ---- garbage.c */
/* Called between the slices of a wait that began at began_ns (CLOCK_MONOTONIC), with the GIL held:
 * runs handlers of signals and, from time to time, the garbage collector. -1 with an exception. */
int py_between_slices(struct py_state *st, int64_t began_ns);

/* ---- listing.c */
/* Returns rows as in engine/state.h, which the caller frees by sk_free. NULL with an exception. */
uint8_t *py_listing_rows(struct py_state *st, enum sk_state_what what, size_t *len);
extern PyMethodDef py_listing_methods[];

#endif

#include "py/py_int.h"
int py_plan_types(PyObject *module SK_UNUSED, struct py_state *st SK_UNUSED) { return 0; }
int py_exec_types(PyObject *module SK_UNUSED, struct py_state *st SK_UNUSED) { return 0; }

/* open.c - whether the engine of this process is open: checked before each call, and again after
 * user code has run. */
#include "py/core/core.h"

int py_ensure(struct py_state *st) {
    if (SK_LIKELY(st->engine != NULL && !st->closing)) return 0;
    if (st->closing || st->worker || !st->hook_auto_init) {
        py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "skate is shut down in this process"});
        return -1;
    }
    PyObject *r = PyObject_CallNoArgs(st->hook_auto_init);
    Py_XDECREF(r);
    if (!r) return -1;
    if (!st->engine) PyErr_SetString(PyExc_RuntimeError, "auto_init opened no engine");
    return st->engine ? 0 : -1;
}

bool py_gone(struct py_state *st, uint32_t gen) {
    if (py_open(st, gen)) return false;
    py_raise(st, SK_ECLOSED, &(struct sk_err){.msg = "skate was shut down meanwhile"});
    return true;
}

/* an engine without a feature has no table for it */
bool py_has(struct py_state *st, const void *table, const char *what) {
    if (table) return true;
    PyErr_Format(PyExc_NotImplementedError, "the engine \"%s\" has no %s", st->engine->cls->name,
                 what);
    return false;
}

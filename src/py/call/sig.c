/* sig.c - checks the arguments of a remote call against the function's signature, in the process
 * that makes the call. Cost: 20 ns; an error is raised by Python itself (the check_call hook). */
#include "py/call/template.h"

int py_sig_init(struct sig *s, PyObject *func, uint32_t skip) {
    if (!func || !PyFunction_Check(func)) return 0;
    PyCodeObject *co = (PyCodeObject *)(void *)PyFunction_GetCode(func);
    PyObject *defaults = PyFunction_GetDefaults(func), *kwdefaults = PyFunction_GetKwDefaults(func);
    *s = (struct sig){.skip = skip,
                      .n_posonly = (uint32_t)co->co_posonlyargcount,
                      .n_pos = (uint32_t)co->co_argcount,
                      .n_all = (uint32_t)(co->co_argcount + co->co_kwonlyargcount),
                      .varargs = co->co_flags & CO_VARARGS,
                      .varkw = co->co_flags & CO_VARKEYWORDS};
    if (s->n_all > 64 || s->n_pos < skip) return 0;
    uint32_t n_def = defaults && PyTuple_Check(defaults) ? (uint32_t)PyTuple_GET_SIZE(defaults) : 0;
    s->names = PyCode_GetVarnames(co);
    if (!s->names) return -1;
    for (uint32_t i = skip; i < s->n_all; i++) {
        bool has_default =
            i < s->n_pos
                ? i + n_def >= s->n_pos
                : kwdefaults &&
                      PyDict_Contains(kwdefaults, PyTuple_GET_ITEM(s->names, (Py_ssize_t)i)) == 1;
        s->required |= has_default ? 0 : UINT64_C(1) << i;
    }
    s->func = Py_NewRef(func);
    return 0;
}

bool py_sig_fits(const struct sig *s, size_t n_args, PyObject *kwnames) {
    size_t room = s->n_pos - s->skip, last = s->skip + SK_MIN(n_args, room);
    if (n_args > room && !s->varargs) return false;
    uint64_t bound = last >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << last) - 1;
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        uint32_t i = SK_MAX(s->n_posonly, s->skip);
        while (i < s->n_all && PyTuple_GET_ITEM(s->names, (Py_ssize_t)i) != name &&
               PyUnicode_Compare(PyTuple_GET_ITEM(s->names, (Py_ssize_t)i), name) != 0)
            i++;
        if (i < s->n_all ? bound >> i & 1 : !s->varkw) return false;
        if (i < s->n_all) bound |= UINT64_C(1) << i;
    }
    return !(s->required & ~bound);
}

int py_sig_complain(struct py_state *st, const struct sig *s, PyObject *const *args, size_t n,
                    PyObject *kwnames) {
    PyObject *a = PyTuple_New((Py_ssize_t)n), *kw = PyDict_New(),
             *skip = PyLong_FromUnsignedLong(s->skip), *r = NULL;
    bool ok = a && kw && skip && st->hook_check_call;
    for (size_t i = 0; ok && i < n; i++) PyTuple_SET_ITEM(a, (Py_ssize_t)i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; ok && kwnames && i < PyTuple_GET_SIZE(kwnames); i++)
        ok = PyDict_SetItem(kw, PyTuple_GET_ITEM(kwnames, i), args[n + (size_t)i]) == 0;
    if (ok && !(r = PyObject_CallFunctionObjArgs(st->hook_check_call, s->func, skip, a, kw, NULL)))
        py_front_strip(st);
    Py_XDECREF(a);
    Py_XDECREF(kw);
    Py_XDECREF(skip);
    Py_XDECREF(r);
    return r || (ok == false && !PyErr_Occurred()) ? 0 : -1;
}

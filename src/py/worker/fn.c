/* fn.c - the definitions and actors that a worker keeps. A definition of a function, class or
 * method is bytes until its first use. */
#include "py/worker/worker.h"

static void fn_free(struct py_fn *f) {
    sk_free(f->name);
    sk_free(f->def);
    Py_XDECREF(f->callable);
    Py_XDECREF(f->retry_on);
    sk_free(f);
}

static sk_rc define(struct py_state *st, sk_fid id, const char *name, struct sk_bytes def,
                    struct sk_err *err) {
    if (sk_map_get(&st->fns, id.v)) return SK_OK;
    struct py_fn *f = sk_calloc(SK_TAG_PY, sizeof *f);
    if (!f) return SK_ERR(err, SK_ENOMEM, "function %s", name);
    f->id = id;
    f->name = sk_strdup(SK_TAG_PY, name);
    f->def = sk_memdup(SK_TAG_PY, def.p, def.n);
    f->def_n = def.n;
    if (!f->name || !f->def || sk_map_put(&st->fns, id.v, f) != SK_OK) {
        fn_free(f);
        return SK_ERR(err, SK_ENOMEM, "function %s", name);
    }
    return SK_OK;
}

sk_rc py_fn_define(void *ctx, sk_fid id, const char *name, struct sk_bytes def,
                   struct sk_err *err) {
    /* the GIL guards st->fns, since calls of an actor may run on several threads */
    PyGILState_STATE g = PyGILState_Ensure();
    sk_rc rc = define(ctx, id, name, def, err);
    PyGILState_Release(g);
    return rc;
}

/* Returns skate.actor.<what>[arg] if is_table, else skate.actor.<what>(arg). */
static PyObject *of_actor_module(const char *what, PyObject *arg, bool is_table) {
    PyObject *m = PyImport_ImportModule("skate.actor"),
             *o = m ? PyObject_GetAttrString(m, what) : NULL;
    PyObject *r = !o ? NULL : is_table ? PyObject_GetItem(o, arg) : PyObject_CallOneArg(o, arg);
    Py_XDECREF(m);
    Py_XDECREF(o);
    return r;
}

/* Returns the callable of a method. The method's definition is its name, alone or followed by NUL
 * and a pickled (classes of retry_exceptions or None, whether the method yields). */
static PyObject *method_of(struct py_state *st, struct py_fn *f) {
    const char *nul = memchr(f->def, 0, f->def_n);
    size_t n = nul ? (size_t)(nul - (const char *)f->def) : f->def_n;
    PyObject *name = PyUnicode_DecodeUTF8(f->def, (Py_ssize_t)n, NULL), *fn = NULL,
             *retry_on = NULL;
    int dynamic = 0;
    if (!name) return NULL;
    if (nul) {
        PyObject *def = PyBytes_FromStringAndSize(nul + 1, (Py_ssize_t)(f->def_n - n - 1));
        PyObject *more = def ? PyObject_CallOneArg(st->hook_load_function, def) : NULL;
        bool ok = more && PyArg_ParseTuple(more, "Op", &retry_on, &dynamic);
        if (ok && retry_on != Py_None) Py_XSETREF(f->retry_on, Py_NewRef(retry_on));
        Py_XDECREF(def);
        Py_XDECREF(more);
        if (!ok) goto out;
    }
    if (dynamic) {
        fn = of_actor_module("dynamic", name, false);
    } else if (n > 6 && memcmp(f->def, "__ray_", 6) == 0) { /* a method that every actor has */
        fn = of_actor_module("BUILT_IN", name, true);
    } else {
        fn = Py_NewRef(name);
        PyUnicode_InternInPlace(&fn);
    }
out:
    Py_DECREF(name);
    return fn;
}

/* Returns the callable of a definition, which is unpickled at its first use; borrowed. NULL with an
 * exception. */
PyObject *py_fn_callable(struct py_state *st, struct py_fn *f, bool method) {
    if (SK_LIKELY(f->callable != NULL)) return f->callable;
    if (method) return f->callable = method_of(st, f);
    PyObject *def = PyBytes_FromStringAndSize(f->def, (Py_ssize_t)f->def_n);
    if (!def) return NULL;
    st->ambient.arrived = 0;
    f->callable = PyObject_CallOneArg(st->hook_load_function, def);
    f->ambient = st->ambient.arrived;
    Py_DECREF(def);
    if (f->callable && !f->retry_on) {
        f->retry_on = PyObject_GetAttrString(f->callable, "__skate_retry_on__");
        if (!f->retry_on) PyErr_Clear(); /* the class has no such attribute */
    }
    if (f->callable) { /* the bytes are not needed any more, and may be large */
        sk_free(f->def);
        f->def = NULL;
    }
    return f->callable;
}

/* Sets the ambient environment of a function or class again, which this worker has set before and
 * other functions have changed since. A method runs in the ambient environment of its actor. */
int py_fn_be_ambient(const struct py_fn *f) {
    PyObject *m = PyImport_ImportModule("skate.calls.ambient_environment"),
             *r = m ? PyObject_CallMethod(m, "again", "I", f->ambient) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(r);
    return r ? 0 : -1;
}

void py_fn_clear(struct py_state *st) {
    uint64_t key;
    void *val;
    struct sk_map fns = st->fns;
    /* the map is emptied first, since destructors called below are user code and may use it */
    sk_map_init(&st->fns, SK_TAG_PY);
    for (uint32_t i = 0; sk_map_next(&fns, &i, &key, &val);) fn_free(val);
    sk_map_deinit(&fns);
}

/* Stores r, which a constructor has made, as the actor of this process, and takes it over. Returns
 * None, or NULL with an exception. */
PyObject *py_keep_actor(struct py_state *st, const struct sk_task *t, PyObject *r) {
    PyObject *old = sk_map_del(&st->actors, t->actor.v);
    Py_XDECREF(old);
    if (sk_map_put(&st->actors, t->actor.v, r) == SK_OK) return Py_NewRef(Py_None);
    Py_DECREF(r);
    return PyErr_NoMemory();
}

/* define.c - definitions of remote functions: pickled at the first call, sent once to each engine.
 *
 * A Template made from another one (options) shares its definition. A definition belongs to the
 * ambient environment of the program (skate/ambient_environment.py). When that changes, a
 * definition that was made earlier for the same ambient environment is used again, else a new one
 * is made and sent. */
#include "py/call/template.h"

/* Returns a hash that is never 0. */
static uint64_t hash_bytes(const uint8_t *p, size_t n, uint64_t seed) {
    uint64_t h = seed ^ (n * 0x9E3779B97F4A7C15u);
    for (; n >= 8; p += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        __uint128_t m = (__uint128_t)(h ^ w) * 0xD6E8FEB86659FD93u;
        h = (uint64_t)m ^ (uint64_t)(m >> 64) ^ w;
    }
    uint64_t w = 0;
    memcpy(&w, p, n);
    __uint128_t m = (__uint128_t)(h ^ w ^ 0xA0761D6478BD642Fu) * 0xE7037ED1A0B428DBu;
    h = (uint64_t)m ^ (uint64_t)(m >> 64);
    return h ? h : 1;
}

static int make_def(struct py_state *st, struct tmpl *t) {
    if (t->def) return 0;
    if (t->kind == METHOD) {
        t->def = PyUnicode_AsUTF8String(t->target);
        if (t->def && t->retry_on) { /* name, NUL, then the pickled exception classes */
            PyBytes_ConcatAndDel(&t->def, PyBytes_FromStringAndSize("", 1));
            PyBytes_Concat(&t->def, t->retry_on);
        }
    } else if (!st->hook_dump_function) {
        PyErr_SetString(PyExc_RuntimeError, "the dump_function hook is not set");
    } else {
        struct py_collector c = {0};
        py_collector_push(&c);
        t->def = PyObject_CallOneArg(st->hook_dump_function, t->target);
        py_collector_pop(&c);
        if (!t->def) py_front_strip(st);
        if (t->def && !PyBytes_CheckExact(t->def)) {
            Py_CLEAR(t->def);
            PyErr_SetString(PyExc_TypeError, "dump_function must return bytes");
        }
        if (t->def && c.refs.n && py_ref_strict()) {
            Py_CLEAR(t->def);
            py_raise_class(st, "OufOfBandObjectRefSerializationException",
                           "a function refers to an ObjectRef in its closure or globals, which "
                           "RAY_allow_out_of_band_object_ref_serialization=0 "
                           "forbids: pass the ref as an argument");
        }
        /* references in the closure have to live as long as the definition is used */
        if (t->def && c.refs.n) {
            t->def_refs = PyTuple_New((Py_ssize_t)c.refs.n);
            for (uint32_t i = 0; t->def_refs && i < c.refs.n; i++)
                PyTuple_SET_ITEM(t->def_refs, (Py_ssize_t)i, Py_NewRef(c.refs.p[i]));
            if (!t->def_refs) Py_CLEAR(t->def);
        }
        py_collector_free(&c);
    }
    if (!t->def) return -1;
    return 0;
}

int py_define(struct py_state *st, PyObject *def, PyObject *name, bool method, sk_fid *out) {
    PY_ERR(err);
    const char *s = PyUnicode_AsUTF8(name);
    /* pickling the definition ran user code, which may have closed the engine */
    if (!s || py_gone(st, st->gen)) return -1;
    struct sk_bytes b = {PyBytes_AS_STRING(def), (size_t)PyBytes_GET_SIZE(def)};
    /* the hash of a method includes `name`, with the class, since the definitions of equally named
     * methods of different classes are equal */
    out->v = hash_bytes(b.p, b.n, method ? hash_bytes((const uint8_t *)s, strlen(s), 1) : 0);
    sk_rc rc = st->engine->ops->define(st->engine, *out, s, b, &err);
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

static PyObject *m_ambient_of(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    PyObject *path, *env;
    if (!PyArg_ParseTuple(args, "O!O!:ambient_of", &PyList_Type, &path, &PyDict_Type, &env))
        return NULL;
    Py_XSETREF(st->ambient.path, Py_NewRef(path));
    Py_XSETREF(st->ambient.environ, Py_NewRef(env));
    st->ambient.path_n = PyList_GET_SIZE(path);
    st->ambient.environ_n = PyDict_GET_SIZE(env);
    if (!st->ambient.sys) {
        PyObject *sys = PyImport_ImportModule("sys");
        st->ambient.s_path = PyUnicode_InternFromString("path");
        st->ambient.sys = sys ? Py_NewRef(PyModule_GetDict(sys)) : NULL;
        Py_XDECREF(sys);
    }
    if (!st->ambient.sys || !st->ambient.s_path) {
        Py_CLEAR(st->ambient.path);
        return NULL;
    }
    st->ambient.content = 0;
    st->ambient.tick++;
    Py_RETURN_NONE;
}

static PyObject *m_ambient_is(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    unsigned content;
    int arrives;
    if (!PyArg_ParseTuple(args, "Ip:ambient_is", &content, &arrives)) return NULL;
    st->ambient.content = content;
    if (arrives) st->ambient.arrived = content;
    Py_RETURN_NONE;
}

void py_template_forget(struct tmpl *t) {
    struct made *kept = t->kept;
    uint32_t n = t->n_kept;
    t->kept = NULL; /* cleared first, since the destructors called below are user code */
    t->n_kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        Py_XDECREF(kept[i].def);
        Py_XDECREF(kept[i].refs);
    }
    sk_free(kept);
}

/* Gives `d` the definition that was made earlier for the present ambient environment, or none; then
 * make_def() makes one. */
static int turn_def(struct py_state *st, struct tmpl *d) {
    PyObject *m = PyImport_ImportModule("skate.calls.ambient_environment"),
             *r = m ? PyObject_CallMethod(m, "changed", NULL) : NULL;
    Py_XDECREF(m);
    Py_XDECREF(r);
    if (!r || py_gone(st, st->gen)) return -1;
    if (!d->def || d->content == st->ambient.content) return 0;
    if (!d->kept && !(d->kept = sk_calloc(SK_TAG_PY, KEPT * sizeof *d->kept))) {
        PyErr_NoMemory();
        return -1;
    }
    struct made was = {d->def, d->def_refs, d->fid, d->content},
                now = {.content = st->ambient.content}, gone = {0};
    uint32_t i = 0;
    SK_ASSERT(d->n_kept <= KEPT);
    while (i < d->n_kept && d->kept[i].content != now.content) i++;
    if (i < d->n_kept) now = d->kept[i];
    else if (d->n_kept < KEPT) d->n_kept++;
    else gone = d->kept[--i];
    memmove(d->kept + 1, d->kept, i * sizeof *d->kept); /* most recently used first */
    d->kept[0] = was;
    d->def = now.def;
    d->def_refs = now.refs;
    d->fid = now.fid;
    d->content = now.content;
    Py_XDECREF(gone.def);
    Py_XDECREF(gone.refs);
    return 0;
}

int py_template_prepare(struct py_state *st, struct tmpl *t) {
    struct tmpl *d = t->base ? (struct tmpl *)(void *)t->base : t;
    if (d->kind != METHOD) {
        /* the engine was closed and opened again, with another ambient environment */
        if (d->gen != st->gen) {
            py_template_forget(d);
            d->fid.v = 0;
            if (d->content) {
                Py_CLEAR(d->def);
                Py_CLEAR(d->def_refs);
            }
        }
        if (d->tick != st->ambient.tick && d->def && turn_def(st, d) < 0) return -1;
    }
    bool made = !d->def;
    if (make_def(st, d) < 0) return -1;
    /* dump_function may have noticed that the ambient environment changed */
    if (made) d->content = st->ambient.content;
    if (d->def_refs && st->engine->no_inner) {
        PyErr_Format(PyExc_NotImplementedError,
                     "%U refers to an ObjectRef or an actor in its closure or globals, and a "
                     "reference does not travel there to the processes of the engine \"%s\"; pass "
                     "it as an argument of its own",
                     d->name, st->engine->cls->name);
        return -1;
    }
    if ((d->gen != st->gen || d->fid.v == 0) &&
        py_define(st, d->def, d->named ? d->target : d->name, d->kind == METHOD, &d->fid) < 0)
        return -1; /* a name given for one call does not belong to the definition */
    t->fid = d->fid;
    t->shape = 0;
    Py_CLEAR(t->refused);
    if (t->unfit) {
        PyObject *why = PyObject_CallNoArgs(t->unfit);
        if (why && why != Py_None && !PyUnicode_Check(why))
            PyErr_Format(PyExc_TypeError, "unfit() must be str, not %s", Py_TYPE(why)->tp_name);
        if (why && PyUnicode_Check(why)) t->refused = Py_NewRef(why);
        Py_XDECREF(why);
        if (PyErr_Occurred()) return -1;
    }
    if (t->has_shape && !t->refused) {
        const char *name = PyUnicode_AsUTF8(t->name);
        struct sk_need need = {.res = t->res,
                               .group = t->o.pg,
                               .bundle = t->o.bundle,
                               .capture = t->capture == CAPTURES};
        if (t->env && py_env(st, t->env, &need.env) < 0) return -1;
        if (t->where && py_where(st, t->where, &need.where) < 0) return -1;
        t->env_number = need.env;
        t->where_number = need.where;
        PY_ERR(err);
        sk_rc rc;
        if (!name || py_find_shape(st, &need, t->custom, name, &t->shape, &rc, &err) < 0) return -1;
        if (rc == SK_EINFEASIBLE && !t->o.pg) {
            /* as in Ray, the error is raised when the value is read, not by this call */
            t->refused = py_text(err.msg);
            if (!t->refused) return -1;
        } else if (rc != SK_OK) {
            py_raise(st, rc, &err);
            return -1;
        }
    }
    t->gen = st->gen;
    d->tick = t->tick = st->ambient.tick;
    if (t->unfit && t->refused) t->tick--; /* asked again: a node that fits may join */
    return 0;
}

PyMethodDef py_define_methods[] = {
    {"ambient_of", m_ambient_of, METH_VARARGS,
     "ambient_of(sys.path, environ): functions are sent again when the sizes of these change, or "
     "sys.path is another list."},
    {"ambient_is", m_ambient_is, METH_VARARGS,
     "ambient_is(number, came): the number of this process's ambient environment; came: it came "
     "with the definition that was loaded last."},
    {NULL, NULL, 0, NULL},
};

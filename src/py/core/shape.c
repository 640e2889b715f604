/* shape.c - the resources of a task or an actor, from Python's numbers to a shape of the engine:
 * amounts, custom resources, environment. */
#include "engine/custom.h"
#include "engine/envs.h"
#include "engine/cluster/wheres.h"
#include "py/core/core.h"

static int by_index(const void *a, const void *b) {
    uint64_t x = ((const struct sk_amount *)a)->index, y = ((const struct sk_amount *)b)->index;
    return x < y ? -1 : x > y;
}

/* Adds custom resources by name. The engine's own ones go to *r; the set of the others becomes a
 * number, *more (NULL: others are refused). -1: exception; else *rc says whether the engine knows
 * them. */
int py_add_custom(struct py_state *st, PyObject *custom, struct sk_res *r, uint32_t *more,
                  struct sk_err *err, sk_rc *rc) {
    const struct sk_custom_ops *table = st->engine->custom;
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    struct sk_amount *v = NULL;
    uint32_t n = 0;
    int done = 0;
    *rc = SK_OK;
    while (*rc == SK_OK && custom && PyDict_Next(custom, &pos, &key, &value)) {
        const char *name = PyUnicode_AsUTF8(key);
        double amount = PyFloat_AsDouble(value);
        uint32_t i;
        if (!name || (amount == -1.0 && PyErr_Occurred())) {
            done = -1;
            break;
        }
        if (amount == 0) continue;
        if (!table)
            *rc = SK_ERR(err, SK_EINFEASIBLE,
                         "resource '%s': the engine \"%s\" has no custom resources", name,
                         st->engine->cls->name);
        else *rc = table->index(st->engine, name, &i, err);
        if (*rc != SK_OK) break;
        int64_t a = (int64_t)(amount * SK_RES_UNIT + 0.5);
        if (i < SK_RES_MAX) {
            r->amount[i] = a;
        } else if (!more) {
            *rc = SK_ERR(err, SK_EINFEASIBLE,
                         "resource '%s': bundles of placement groups hold only the first %d of "
                         "init(resources={...})",
                         name, SK_RES_MAX - SK_RES_CUSTOM);
        } else {
            if (!v && !(v = sk_calloc(SK_TAG_PY, (size_t)PyDict_GET_SIZE(custom) * sizeof *v))) {
                PyErr_NoMemory();
                done = -1;
                break;
            }
            v[n++] = (struct sk_amount){i, a};
        }
    }
    if (done == 0 && *rc == SK_OK && n) {
        qsort(v, n, sizeof *v, by_index);
        *rc = table->more(st->engine, v, n, more, err);
    }
    sk_free(v);
    return done;
}

int py_find_shape(struct py_state *st, const struct sk_need *base, PyObject *custom,
                  const char *what, sk_shape *out, sk_rc *rc, struct sk_err *err) {
    struct sk_need n = *base;
    if (py_gone(st, st->gen) || py_add_custom(st, custom, &n.res, &n.more, err, rc) < 0) return -1;
    if (*rc == SK_OK)
        *rc = n.group || n.env || n.more || n.where
                  ? st->engine->ops->shape(st->engine, &n, out, err)
                  : sk_shape_of(st->engine, &n.res, out, err);
    if (*rc != SK_OK) sk_err_prefix(err, "%s can never run here", what);
    return 0;
}

int py_shape(struct py_state *st, const struct sk_need *base, PyObject *custom, const char *what,
             sk_shape *out) {
    PY_ERR(err);
    sk_rc rc;
    if (py_find_shape(st, base, custom, what, out, &rc, &err) < 0) return -1;
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

/* Interns a runtime_env, on top of the environment of this process. */
int py_env(struct py_state *st, PyObject *env, uint32_t *out) {
    PY_ERR(err);
    if (!py_has(st, st->engine->envs,
                "processes of its own, which a runtime_env of one task or actor needs; use the "
                "local one"))
        return -1;
    PyObject *m = st->worker ? PyImport_ImportModule("skate.runtime_env") : NULL;
    PyObject *whole = m            ? PyObject_CallMethod(m, "inside", "O", env)
                      : st->worker ? NULL
                                   : Py_NewRef(env);
    Py_XDECREF(m);
    char *p;
    Py_ssize_t n;
    if (!whole || py_gone(st, st->gen) || PyBytes_AsStringAndSize(whole, &p, &n) < 0) {
        Py_XDECREF(whole);
        return -1;
    }
    sk_rc rc = st->engine->envs->define(st->engine, (struct sk_bytes){p, (size_t)n}, out, &err);
    Py_DECREF(whole);
    if (rc == SK_OK) return 0;
    py_raise(st, rc, &err);
    return -1;
}

/* Interns a choice of nodes (wheres.h), if the engine has several nodes. */
int py_where(struct py_state *st, PyObject *where, uint32_t *out) {
    PY_ERR(err);
    struct sk_bytes b = {PyBytes_AS_STRING(where), (size_t)PyBytes_GET_SIZE(where)};
    if (py_gone(st, st->gen)) return -1;
    if (!st->engine->wheres) return 0;
    if (st->engine->wheres->define(st->engine, b, out, &err) == SK_OK) return 0;
    py_raise(st, err.code, &err);
    return -1;
}

PyObject *py_amounts(const struct sk_res *r, PyObject *names) {
    PyObject *d = PyDict_New();
    for (uint32_t i = 0; d && i < SK_RES_MAX; i++) {
        PyObject *name;
        if (i < SK_RES_CUSTOM) {
            static const char *const fixed[] = {"CPU", "GPU", "memory"};
            if (i == SK_RES_GPU && !r->amount[i]) continue;
            name = PyUnicode_FromString(fixed[i]);
        } else {
            if (i - SK_RES_CUSTOM >= (uint32_t)PyList_GET_SIZE(names)) break;
            name = Py_NewRef(PyList_GET_ITEM(names, (Py_ssize_t)(i - SK_RES_CUSTOM)));
        }
        PyObject *v =
            PyFloat_FromDouble((double)r->amount[i] / (i == SK_RES_MEMORY ? 1 : SK_RES_UNIT));
        if (!name || !v || PyDict_SetItem(d, name, v) < 0) Py_CLEAR(d);
        Py_XDECREF(name);
        Py_XDECREF(v);
    }
    return d;
}

int py_add_more(struct py_state *st, PyObject *d, uint32_t more, PyObject *names) {
    const struct sk_custom_ops *custom = st->engine->custom;
    size_t n_names = (size_t)PyList_GET_SIZE(names), n = 0, cap = n_names;
    if (!more || !custom || n_names <= SK_RES_MAX - SK_RES_CUSTOM) return 0;
    /* a set has at most one entry for each name */
    struct sk_amount *v = sk_alloc(SK_TAG_PY, cap * sizeof *v);
    if (!v) {
        PyErr_NoMemory();
        return -1;
    }
    PY_DROP(st)
    n = custom->more_read(st->engine, more, v, cap);
    PY_TAKE(st)
    int r = 0;
    for (size_t i = 0; r == 0 && n <= cap && i < n; i++) {
        PyObject *a = PyFloat_FromDouble((double)v[i].amount / SK_RES_UNIT);
        uint64_t at = v[i].index - SK_RES_CUSTOM;
        r = a && at < n_names ? PyDict_SetItem(d, PyList_GET_ITEM(names, (Py_ssize_t)at), a)
            : a               ? 0
                              : -1;
        Py_XDECREF(a);
    }
    sk_free(v);
    return r;
}

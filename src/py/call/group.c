/* group.c - placement groups: made, removed, listed. */
#include "engine/groups.h"
#include "py/call/call.h"

/* pg_create([{resource: amount}], strategy, name or None, namespace or None, [bytes of a choice of
 * nodes, ...] or []): (number, ObjectRef that is ready when the group has its bundles) */
static PyObject *m_pg_create(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    static const char *const strategy[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
    static const char *const fixed[] = {"CPU", "GPU", "memory"};
    PyObject *list, *nodes, *r = NULL;
    const char *how;
    struct sk_group_spec s = {0};
    struct sk_res *b = NULL;
    uint32_t *wheres = NULL;
    PY_ERR(err);
    sk_rc rc = SK_OK;
    if (!PyArg_ParseTuple(args, "O!szzO!", &PyList_Type, &list, &how, &s.name, &s.space,
                          &PyList_Type, &nodes) ||
        py_ensure(st) < 0)
        return NULL;
    if (!py_has(st, st->engine->groups, "placement groups")) return NULL;
    while (s.strategy < SK_COUNT(strategy) && strcmp(strategy[s.strategy], how) != 0) s.strategy++;
    if (s.strategy == SK_COUNT(strategy))
        return PyErr_Format(PyExc_ValueError, "Invalid placement strategy: %s", how);
    s.n = (uint32_t)PyList_GET_SIZE(list);
    s.bundles = b = sk_calloc(SK_TAG_PY, (s.n + 1) * sizeof *b);
    if (!b) return PyErr_NoMemory();
    if (PyList_GET_SIZE(nodes) == (Py_ssize_t)s.n && s.n) {
        s.wheres = wheres = sk_calloc(SK_TAG_PY, s.n * sizeof *wheres);
        for (uint32_t i = 0; wheres && i < s.n; i++) {
            PyObject *where = PyList_GET_ITEM(nodes, (Py_ssize_t)i);
            if (!PyBytes_Check(where)) PyErr_SetString(PyExc_TypeError, "nodes are bytes");
            else if (PyBytes_GET_SIZE(where)) (void)py_where(st, where, &wheres[i]);
            if (PyErr_Occurred()) goto out;
        }
    }
    for (uint32_t i = 0; rc == SK_OK && i < s.n; i++) {
        PyObject *d = PyList_GET_ITEM(list, (Py_ssize_t)i),
                 *rest = PyDict_Check(d) ? PyDict_Copy(d) : NULL;
        if (!rest) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a bundle is a dict of resources");
            goto out;
        }
        bool bad = false;
        for (uint32_t k = 0; k < SK_COUNT(fixed); k++) {
            PyObject *v = PyDict_GetItemString(rest, fixed[k]);
            double amount = v ? PyFloat_AsDouble(v) : 0;
            if (amount == -1.0 && PyErr_Occurred()) bad = true;
            b[i].amount[k] = (int64_t)(amount * (k == SK_RES_MEMORY ? 1 : SK_RES_UNIT) + 0.5);
            if (v && PyDict_DelItemString(rest, fixed[k]) < 0) bad = true;
        }
        bad = bad || py_add_custom(st, rest, &b[i], NULL, &err, &rc) < 0;
        Py_DECREF(rest);
        if (bad) goto out;
    }
    uint64_t id = 0;
    sk_oid ready = {0};
    if (rc == SK_OK) {
        PY_DROP(st)
        rc = st->engine->groups->create(st->engine, &s, &id, &ready, &err);
        PY_TAKE(st)
    }
    if (rc != SK_OK) {
        /* SK_EEXIST is changed, because its exception class is about actors */
        py_raise(st, rc == SK_EEXIST ? SK_EINVAL : rc, &err);
        goto out;
    }
    PyObject *ref = py_ref_new(st, ready, (sk_tid){0});
    if (ref) r = Py_BuildValue("(KN)", (unsigned long long)id, ref);
out:
    sk_free(b);
    sk_free(wheres);
    return r;
}

static PyObject *m_pg_remove(PyObject *module, PyObject *id) {
    struct py_state *st = PyModule_GetState(module);
    uint64_t g = PyLong_AsUnsignedLongLong(id);
    PY_ERR(err);
    if ((g == UINT64_MAX && PyErr_Occurred()) || py_ensure(st) < 0) return NULL;
    if (!py_has(st, st->engine->groups, "placement groups")) return NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->groups->remove(st->engine, g, &err);
    PY_TAKE(st)
    if (rc == SK_ENOENT) Py_RETURN_FALSE;
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_TRUE;
}

static PyObject *m_pg_table(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    static const char *const strategy[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
    if (!PyList_Check(names))
        return PyErr_Format(PyExc_TypeError, "pg_table(list of the names of custom resources)");
    if (py_ensure(st) < 0) return NULL;
    if (!py_has(st, st->engine->groups, "placement groups")) return NULL;
    uint8_t *buf = NULL;
    size_t n = 0, cap;
    do {
        cap = n;
        sk_free(buf);
        buf = sk_alloc(SK_TAG_PY, cap + 1);
        if (!buf) return PyErr_NoMemory();
        PY_DROP(st)
        n = st->engine->groups->list(st->engine, buf, cap);
        PY_TAKE(st)
    } while (n > cap);
    PyObject *list = PyList_New(0);
    for (size_t at = 0; list && at + sizeof(struct sk_group_row) <= n;) {
        struct sk_group_row g;
        memcpy(&g, buf + at, sizeof g);
        const char *name = (const char *)buf + at + sizeof g, *space = name + strlen(name) + 1;
        PyObject *bundles = PyList_New(0);
        at += sizeof g + g.text_n;
        for (uint32_t i = 0; bundles && i < g.n; i++, at += sizeof(struct sk_res)) {
            struct sk_res res;
            memcpy(&res, buf + at, sizeof res);
            PyObject *d = py_amounts(&res, names);
            if (!d || PyList_Append(bundles, d) < 0) Py_CLEAR(bundles);
            Py_XDECREF(d);
        }
        PyObject *nodes = PyList_New(0);
        for (uint32_t i = 0; nodes && i < g.n; i++) {
            uint32_t node;
            memcpy(&node, buf + at + sizeof node * i, sizeof node);
            PyObject *v = PyLong_FromUnsignedLong(node);
            if (!v || PyList_Append(nodes, v) < 0) Py_CLEAR(nodes);
            Py_XDECREF(v);
        }
        at += (size_t)SK_ALIGN(sizeof(uint32_t) * (size_t)g.n, 8);
        PyObject *row = bundles && nodes
                            ? Py_BuildValue("(KsssONdN)", (unsigned long long)g.id, name, space,
                                            strategy[g.strategy & 3], g.state ? Py_True : Py_False,
                                            bundles, (double)g.reserved_ns / 1e9, nodes)
                            : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    sk_free(buf);
    return list;
}

PyMethodDef py_group_methods[] = {
    {"pg_create", m_pg_create, METH_VARARGS,
     "pg_create([{resource: amount}], strategy, name, space, [choice of nodes]): (number, "
     "ObjectRef that is ready with it)."},
    {"pg_remove", m_pg_remove, METH_O, "pg_remove(number): False when it is gone already."},
    {"pg_table", m_pg_table, METH_O,
     "pg_table(custom names): [(number, name, space, strategy, ready, [{resource: amount}], "
     "seconds until it was, [number of the node of each bundle, or 0])]."},
    {NULL, NULL, 0, NULL},
};

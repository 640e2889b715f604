/* listing.c - the rows of engine/state.h as Python tuples, for skate.util.state and
 * skate.timeline. No policy: names of fields and states, filters and limits belong to the Python
 * side. Invariant: a text is read only within the bytes that the engine gave. Cost: about 1 us a
 * row. */
#include "base/clock.h"
#include "base/wire.h"
#include "py/call/call.h"

/* Reads the whole list; the call is repeated with a larger buffer if the list grew meanwhile. */
uint8_t *py_listing_rows(struct py_state *st, enum sk_state_what what, size_t *len) {
    uint8_t *buf = NULL;
    size_t n = 0, cap;
    if (!py_has(st, st->engine->state, "state to list")) return NULL;
    do {
        cap = n + n / 8 + (1u << 20); /* one call, which may ask nodes, is enough for most lists */
        sk_free(buf);
        buf = sk_alloc(SK_TAG_PY, cap + 8);
        if (!buf) {
            PyErr_NoMemory();
            return NULL;
        }
        PY_DROP(st)
        n = st->engine->state->rows(st->engine, what, buf, cap);
        PY_TAKE(st)
    } while (n > cap);
    *len = n;
    return buf;
}

static PyObject *text(struct sk_rd *r, uint32_t n) {
    const char *p = sk_rd_raw(r, n);
    return PyUnicode_DecodeUTF8(p ? p : "", p ? (Py_ssize_t)strnlen(p, n) : 0, "replace");
}

/* Returns (kind, name of the engine's error code or None, bytes), or None if there is no error. */
static PyObject *error(struct sk_rd *r, uint32_t kind, uint32_t n) {
    const char *p = sk_rd_raw(r, n);
    int32_t code = 0;
    if (!kind) Py_RETURN_NONE;
    if (kind == SK_KIND_ENGINE_ERROR && p && n > 4) memcpy(&code, p, 4);
    return Py_BuildValue("(Izy#)", (unsigned)kind, code ? sk_rc_name(code) : NULL, p ? p : "",
                         (Py_ssize_t)(p ? n : 0));
}

static PyObject *amounts(struct py_state *st, const struct sk_res *res, uint32_t more,
                         PyObject *names) {
    PyObject *d = py_amounts(res, names);
    if (d && py_add_more(st, d, more, names) < 0) Py_CLEAR(d);
    return d;
}

static PyObject *task(struct py_state *st, struct sk_rd *r, PyObject *names) {
    struct sk_task_row t;
    const void *p = sk_rd_raw(r, sizeof t);
    if (!p) return NULL;
    memcpy(&t, p, sizeof t);
    PyObject *name = text(r, t.name_n), *fn = text(r, t.fn_n),
             *err = error(r, t.error_kind, t.error_n), *res = amounts(st, &t.res, t.more, names);
    if (name && fn && err && res)
        return Py_BuildValue(
            "(KKKKLLLiIIIIINNNNI)", (unsigned long long)t.id, (unsigned long long)t.parent,
            (unsigned long long)t.actor, (unsigned long long)t.group, (long long)t.submit_ns,
            (long long)t.start_ns, (long long)t.end_ns, (int)t.pid, (unsigned)t.worker,
            (unsigned)t.attempt, (unsigned)t.state, (unsigned)t.kind, (unsigned)t.n_returns, name,
            fn, err, res, (unsigned)t.node);
    Py_XDECREF(name);
    Py_XDECREF(fn);
    Py_XDECREF(err);
    Py_XDECREF(res);
    return NULL;
}

static PyObject *actor(struct py_state *st, struct sk_rd *r, PyObject *names) {
    struct sk_actor_row a;
    const void *p = sk_rd_raw(r, sizeof a);
    if (!p) return NULL;
    memcpy(&a, p, sizeof a);
    PyObject *cls = text(r, a.class_n), *name = text(r, a.name_n), *space = text(r, a.space_n);
    PyObject *why = a.error_kind ? error(r, a.error_kind, a.why_n) : text(r, a.why_n),
             *res = amounts(st, &a.res, a.more, names);
    if (cls && name && space && why && res)
        return Py_BuildValue("(KKKiIIIIONNNNNI)", (unsigned long long)a.id,
                             (unsigned long long)a.group, (unsigned long long)a.init, (int)a.pid,
                             (unsigned)a.worker, (unsigned)a.state, (unsigned)a.n_restarts,
                             (unsigned)a.n_calls, a.detached ? Py_True : Py_False, cls, name, space,
                             why, res, (unsigned)a.node);
    Py_XDECREF(cls);
    Py_XDECREF(name);
    Py_XDECREF(space);
    Py_XDECREF(why);
    Py_XDECREF(res);
    return NULL;
}

static PyObject *object(struct py_state *st SK_UNUSED, struct sk_rd *r, PyObject *names SK_UNUSED) {
    struct sk_object_row o;
    const void *p = sk_rd_raw(r, sizeof o);
    if (!p) return NULL;
    memcpy(&o, p, sizeof o);
    return Py_BuildValue("(KKKKKiIIIIII)", (unsigned long long)o.id,
                         (unsigned long long)o.size_bytes, (unsigned long long)o.n_refs,
                         (unsigned long long)o.n_total, (unsigned long long)o.task, (int)o.pid,
                         (unsigned)o.worker, (unsigned)o.where, (unsigned)o.attempt,
                         (unsigned)o.task_state, (unsigned)o.kind, (unsigned)o.node);
}

static PyObject *worker(struct py_state *st SK_UNUSED, struct sk_rd *r, PyObject *names SK_UNUSED) {
    struct sk_worker_row w;
    const void *p = sk_rd_raw(r, sizeof w);
    if (!p) return NULL;
    memcpy(&w, p, sizeof w);
    PyObject *name = text(r, w.text_n);
    if (!name) return NULL;
    return Py_BuildValue("(KKKLiIINIILI)", (unsigned long long)w.n_done,
                         (unsigned long long)w.actor, (unsigned long long)w.task,
                         (long long)w.since_ns, (int)w.pid, (unsigned)w.worker, (unsigned)w.state,
                         name, (unsigned)w.end, (unsigned)w.signal, (long long)w.end_ns,
                         (unsigned)w.node);
}

static PyObject *m_state(PyObject *module, PyObject *args) {
    static const struct {
        const char *name;
        PyObject *(*row)(struct py_state *st, struct sk_rd *r, PyObject *names);
    } lists[] = {[SK_STATE_TASKS] = {"tasks", task},
                 [SK_STATE_ACTORS] = {"actors", actor},
                 [SK_STATE_OBJECTS] = {"objects", object},
                 [SK_STATE_WORKERS] = {"workers", worker}};
    struct py_state *st = PyModule_GetState(module);
    const char *what;
    PyObject *names;
    unsigned i = 0;
    size_t n;
    if (!PyArg_ParseTuple(args, "sO!:state", &what, &PyList_Type, &names) || py_ensure(st) < 0)
        return NULL;
    while (i < SK_COUNT(lists) && strcmp(lists[i].name, what) != 0) i++;
    if (i == SK_COUNT(lists))
        return PyErr_Format(PyExc_ValueError, "state: there is no list of %s", what);
    uint8_t *buf = py_listing_rows(st, (enum sk_state_what)i, &n);
    if (!buf) return NULL;
    struct sk_rd r = sk_rd_init(buf, n);
    struct sk_state_head head = {0};
    const void *p = sk_rd_raw(&r, sizeof head);
    if (p) memcpy(&head, p, sizeof head);
    PyObject *list = PyList_New(0);
    for (uint64_t k = 0; list && k < head.n; k++) {
        PyObject *row = lists[i].row(st, &r, names);
        sk_rd_align(&r, 8);
        if (!row && !PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "state: the engine's list is damaged");
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    sk_free(buf);
    return list ? Py_BuildValue("(NKII)", list, (unsigned long long)head.total,
                                (unsigned)head.n_silent, (unsigned)head.silent)
                : NULL;
}

static PyObject *m_state_error(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    unsigned kind;
    Py_buffer b;
    if (!PyArg_ParseTuple(args, "Iy*:state_error", &kind, &b)) return NULL;
    if (!SK_KIND_IS_ERROR(kind)) {
        PyBuffer_Release(&b);
        return PyErr_Format(PyExc_ValueError, "state_error: %u is no kind of error", kind);
    }
    py_raise_value(st, &(struct sk_view){.data = b.buf, .len = (size_t)b.len, .kind = kind});
    PyBuffer_Release(&b);
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    Py_XDECREF(type);
    Py_XDECREF(trace);
    return value;
}

static PyObject *m_monotonic_ns(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    return PyLong_FromLongLong(sk_now_ns());
}

PyMethodDef py_listing_methods[] = {
    {"state", m_state, METH_VARARGS,
     "state(\"tasks\" | \"actors\" | \"objects\" | \"workers\", custom names): ([rows], number "
     "there are, nodes that did not answer, number of one of these)."},
    {"state_error", m_state_error, METH_VARARGS,
     "state_error(kind, bytes): the exception that getting the object would raise."},
    {"monotonic_ns", m_monotonic_ns, METH_NOARGS, "The engine's clock, of the times in rows."},
    {NULL, NULL, 0, NULL},
};

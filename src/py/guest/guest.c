/* guest.c - an engine that is written in Python, as the guest of engine/by/guest.c: each call of
 * guest.h becomes a call of a method of one Python object (see skate/engine/__init__.py).
 * guest_task.c runs the tasks of such an engine. All methods but get() are called by one thread.
 * All state of the engine is in that object. Invariant: no lock of the engine is held in these
 * calls. Cost: a method call of Python, and a tuple for each value. */
#include "base/clock.h"
#include "engine/guest.h"
#include "py/guest/guest.h"

struct guest {
    struct py_state *st;
    PyObject *engine;
    void (*wake)(void *host); /* called when the guest has news; NULL: the engine has ended */
    void *host;
};

/* Converts the exception that a method raised to an error of the engine. */
static sk_rc raised(struct sk_err *err, const char *what) {
    sk_rc rc = PyErr_ExceptionMatches(PyExc_NotImplementedError) ? SK_ENOSYS
               : PyErr_ExceptionMatches(PyExc_ValueError)        ? SK_EINVAL
               : PyErr_ExceptionMatches(PyExc_TimeoutError)      ? SK_ETIMEOUT
               : PyErr_ExceptionMatches(PyExc_LookupError)       ? SK_ELOST
                                                                 : SK_EIO;
    struct sk_err e = {0};
    (void)py_to_err(&e, what);
    e.code = rc;
    if (err) *err = e;
    return rc;
}

/* Ends a call of a method: checks r, the method's result, and releases it. */
static sk_rc ended(PyObject *r, const char *what, struct sk_err *err) {
    Py_XDECREF(r);
    return r ? SK_OK : raised(err, what);
}

/* ---- values as tuples: (handle, size) or (None, kind, bytes) --------------------------------- */

static PyObject *value_tuple(const struct sk_guest_value *v) {
    if (v->handle) return Py_BuildValue("(OIO)", (PyObject *)v->handle, 0u, Py_None);
    return Py_BuildValue("(OIy#)", Py_None, (unsigned)v->kind,
                         v->bytes.p ? (const char *)v->bytes.p : "", (Py_ssize_t)v->bytes.n);
}

/* Reads (handle, size) or (None, kind, bytes); bytes are borrowed, a handle is a new reference. */
static int value_read(PyObject *t, struct sk_guest_value *v, uint64_t *size) {
    PyObject *handle, *x;
    unsigned kind;
    if (!PyTuple_Check(t) ||
        !PyArg_ParseTuple(t, "OIO;a value is (handle, 0, size) or (None, kind, bytes)", &handle,
                          &kind, &x)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError,
                            "a value is a tuple: (handle, 0, size) or (None, kind, bytes)");
        return -1;
    }
    *v = (struct sk_guest_value){.kind = kind};
    if (handle != Py_None) {
        *size = PyLong_AsUnsignedLongLong(x);
        if (*size == UINT64_MAX && PyErr_Occurred()) return -1;
        v->handle = Py_NewRef(handle);
        return 0;
    }
    char *p;
    Py_ssize_t n;
    if (PyBytes_AsStringAndSize(x, &p, &n) < 0) return -1;
    v->bytes = (struct sk_bytes){p, (size_t)n};
    *size = (uint64_t)n;
    return 0;
}

/* ---- calls of the guest's methods ------------------------------------------------------------ */

static PyObject *m_wake(PyObject *self, PyObject *unused SK_UNUSED) {
    struct guest *g = PyCapsule_GetPointer(self, "guest");
    if (!g) return NULL;
    /* this does not deadlock: no thread waits for the GIL while it holds the lock that wake
     * takes */
    if (g->wake) g->wake(g->host);
    Py_RETURN_NONE;
}
static PyMethodDef wake_def = {"wake", m_wake, METH_NOARGS,
                               "There is something for poll(). From any thread."};

static void capsule_free(PyObject *capsule) {
    struct guest *g = PyCapsule_GetPointer(capsule, "guest");
    Py_XDECREF(g->engine);
    sk_free(g);
}

/* Returns a new reference to the capsule of g; the host has one until end. */
static PyObject *capsule_of(const struct guest *g) {
    return PyObject_GetAttrString(g->engine, "_guest");
}

static void g_begin(void *ctx, void (*wake)(void *host), void *host) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    g->wake = wake;
    g->host = host;
    PyObject *capsule = capsule_of(g), *fn = capsule ? PyCFunction_New(&wake_def, capsule) : NULL;
    PyObject *r = fn ? PyObject_CallMethod(g->engine, "begin", "O", fn) : NULL;
    if (!r) PyErr_WriteUnraisable(g->engine);
    Py_XDECREF(r);
    Py_XDECREF(fn);
    Py_XDECREF(capsule);
    PyGILState_Release(s);
}

static void g_end(void *ctx) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *engine = g->engine, *r = PyObject_CallMethod(engine, "close", NULL);
    if (!r) PyErr_WriteUnraisable(engine);
    Py_XDECREF(r);
    g->wake = NULL;
    g->engine = NULL;
    /* this frees g, unless user code still holds the capsule */
    if (PyObject_DelAttrString(engine, "_guest") < 0) PyErr_Clear();
    Py_DECREF(engine);
    PyGILState_Release(s);
}

struct given_node {
    const char *name;
    uint32_t number;
    bool alive;
    int64_t cpu, gpu, memory;
    uint64_t capacity, disk, disk_limit;
};
#define N(...) PY_FIELD(struct given_node, __VA_ARGS__)
static const struct py_field node_field[] = {
    N("name", TEXT, name),
    N("number", U32, number),
    N("alive", BOOL, alive, .otherwise = true),
    N("num_cpus", SCALED, cpu, .unit = SK_RES_UNIT),
    N("num_gpus", SCALED, gpu, .unit = SK_RES_UNIT),
    N("memory", SCALED, memory, .unit = 1),
    N("object_store_memory", U64, capacity),
    N("disk_bytes", U64, disk),
    N("disk_limit", U64, disk_limit),
};
static const struct py_fields node_fields = {"nodes", SK_COUNT(node_field), 0, node_field};

static int node_read(PyObject *row, struct sk_node *out) {
    struct given_node g;
    if (!PyDict_Check(row)) {
        PyErr_SetString(PyExc_TypeError, "nodes: a row is a dict");
        return -1;
    }
    if (py_fields_read(&node_fields, NULL, row, &g) < 0) return -1;
    *out = (struct sk_node){.number = g.number,
                            .alive = g.alive,
                            .total = {.amount = {g.cpu, g.gpu, g.memory}},
                            .free = {.amount = {g.cpu, g.gpu, g.memory}},
                            .capacity_bytes = g.capacity,
                            .disk_bytes = g.disk,
                            .disk_limit_bytes = g.disk_limit};
    snprintf(out->name, sizeof out->name, "%s", g.name ? g.name : "?");
    return 0;
}

static sk_rc g_nodes(void *ctx, struct sk_node *out, size_t cap, size_t *n, struct sk_err *err) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(g->engine, "nodes", NULL);
    PyObject *rows = r ? PySequence_Fast(r, "nodes() gives a list") : NULL;
    sk_rc rc = rows ? SK_OK : raised(err, "nodes");
    size_t have = rows ? (size_t)PySequence_Fast_GET_SIZE(rows) : 0;
    for (size_t i = 0; rc == SK_OK && i < SK_MIN(have, cap); i++)
        if (node_read(PySequence_Fast_GET_ITEM(rows, (Py_ssize_t)i), &out[i]) < 0)
            rc = raised(err, "nodes");
    if (rc == SK_OK) *n = have;
    Py_XDECREF(rows);
    Py_XDECREF(r);
    PyGILState_Release(s);
    return rc;
}

static sk_rc g_define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                      struct sk_err *err) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(g->engine, "define", "Ksy#", (unsigned long long)fn.v, name,
                                      (const char *)def.p, (Py_ssize_t)def.n);
    sk_rc rc = ended(r, name, err);
    PyGILState_Release(s);
    return rc;
}

/* Stores d[key] = v, taking v over. */
static int set(PyObject *d, const char *key, PyObject *v) {
    int r = v ? PyDict_SetItemString(d, key, v) : -1;
    Py_XDECREF(v);
    return r;
}

static PyObject *amounts_of(const struct sk_need *need) {
    PyObject *names = PyList_New(0), *d = NULL;
    if (names) d = need ? py_amounts(&need->res, names) : PyDict_New();
    Py_XDECREF(names);
    return d;
}

static PyObject *task_dict(const struct sk_guest_task *t) {
    PyObject *d = PyDict_New(), *args = PyList_New((Py_ssize_t)t->n_args);
    for (uint32_t i = 0; args && i < t->n_args; i++) {
        PyObject *v = value_tuple(&t->args[i]);
        if (v) PyList_SET_ITEM(args, (Py_ssize_t)i, v);
        else Py_CLEAR(args);
    }
    bool ok = d && args && set(d, "args", Py_NewRef(args)) == 0 &&
              set(d, "task", PyLong_FromUnsignedLongLong(t->task)) == 0 &&
              set(d, "actor", PyLong_FromUnsignedLongLong(t->actor)) == 0 &&
              set(d, "fn", PyLong_FromUnsignedLongLong(t->fn.v)) == 0 &&
              set(d, "name", py_text(t->name)) == 0 &&
              set(d, "is_init", PyBool_FromLong(t->is_init)) == 0 &&
              set(d, "n_returns",
                  t->n_returns == SK_STREAMING ? Py_NewRef(Py_None)
                                               : PyLong_FromUnsignedLong(t->n_returns)) == 0 &&
              set(d, "max_retries", PyLong_FromLong(t->max_retries)) == 0 &&
              set(d, "retry_exceptions", PyBool_FromLong(t->retry_exceptions)) == 0 &&
              set(d, "need", amounts_of(t->need)) == 0 &&
              set(d, "max_calls", PyLong_FromUnsignedLong(t->max_calls)) == 0 &&
              set(d, "node", PyLong_FromUnsignedLong(t->node)) == 0 &&
              set(d, "node_only", PyBool_FromLong(t->node_only)) == 0;
    Py_XDECREF(args);
    if (!ok) Py_CLEAR(d);
    return d;
}

static sk_rc g_submit(void *ctx, const struct sk_guest_task *t, struct sk_err *err) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *d = task_dict(t), *r = d ? PyObject_CallMethod(g->engine, "submit", "O", d) : NULL;
    Py_XDECREF(d);
    sk_rc rc = ended(r, t->name, err);
    PyGILState_Release(s);
    return rc;
}

static void g_cancel(void *ctx, uint64_t task, uint32_t flags) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(g->engine, "cancel", "KO", (unsigned long long)task,
                                      flags & SK_CANCEL_FORCE ? Py_True : Py_False);
    if (!r) PyErr_WriteUnraisable(g->engine); /* after a failure here the task ends by itself */
    Py_XDECREF(r);
    PyGILState_Release(s);
}

static void g_actor_end(void *ctx, uint64_t actor, enum sk_guest_end how) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(g->engine, "actor_end", "KO", (unsigned long long)actor,
                                      how == SK_GUEST_RESTART ? Py_True : Py_False);
    if (!r) PyErr_WriteUnraisable(g->engine);
    Py_XDECREF(r);
    PyGILState_Release(s);
}

static sk_rc g_put(void *ctx, uint32_t kind, struct sk_bytes bytes, void **handle,
                   struct sk_err *err) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(g->engine, "put", "Iy#", (unsigned)kind,
                                      (const char *)bytes.p, (Py_ssize_t)bytes.n);
    sk_rc rc = r ? SK_OK : raised(err, "put");
    if (r) *handle = r;
    PyGILState_Release(s);
    return rc;
}

static sk_rc g_fetch(void *ctx, void *handle, int64_t deadline_ns, struct sk_guest_value *out,
                     struct sk_err *err) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    Py_buffer *b = PyMem_Calloc(1, sizeof *b);
    PyObject *wait = deadline_ns == INT64_MAX
                         ? Py_NewRef(Py_None)
                         : PyFloat_FromDouble((double)SK_MAX(deadline_ns - sk_now_ns(), 0) / 1e9);
    PyObject *r = b && wait ? PyObject_CallMethod(g->engine, "get", "OO", (PyObject *)handle, wait)
                            : PyErr_NoMemory();
    PyObject *value;
    unsigned kind = 0;
    bool ok = b && r && PyArg_ParseTuple(r, "IO;get() gives (kind, bytes)", &kind, &value) &&
              PyObject_GetBuffer(value, b, PyBUF_SIMPLE) == 0;
    sk_rc rc = ok ? SK_OK : raised(err, "get");
    if (ok)
        *out = (struct sk_guest_value){.kind = kind, .bytes = {b->buf, (size_t)b->len}, .token = b};
    else PyMem_Free(b);
    Py_XDECREF(wait);
    Py_XDECREF(r);
    PyGILState_Release(s);
    return rc;
}

static void g_let_go(void *ctx SK_UNUSED, void *token) {
    if (!Py_IsInitialized()) return; /* the interpreter is shutting down */
    PyGILState_STATE s = PyGILState_Ensure();
    PyBuffer_Release(token);
    PyMem_Free(token);
    PyGILState_Release(s);
}

static void g_drop(void *ctx SK_UNUSED, void *handle) {
    if (!Py_IsInitialized()) return;
    PyGILState_STATE s = PyGILState_Ensure();
    Py_DECREF((PyObject *)handle);
    PyGILState_Release(s);
}

/* ---- events that the guest reports ----------------------------------------------------------- */

struct given_event {
    const char *kind, *code, *text;
    uint64_t task;
    uint32_t attempt, node;
    int64_t run_ns;
    PyObject *values;
};
#define E(...) PY_FIELD(struct given_event, __VA_ARGS__)
static const struct py_field event_field[] = {
    E("kind", TEXT, kind),
    E("task", U64, task),
    E("values", OBJECT, values, .of = &PyList_Type),
    E("attempt", U32, attempt),
    E("node", U32, node),
    E("run_s", SCALED, run_ns, .unit = 1e9),
    E("code", TEXT, code),
    E("text", TEXT, text),
};
static const struct py_fields event_fields = {"poll", SK_COUNT(event_field), 2, event_field};

static sk_rc code_named(const char *name) {
    for (sk_rc rc = SK_ENOMEM; rc >= SK_ERANGE; rc--)
        if (name && strcmp(sk_rc_name(rc), name) == 0) return rc;
    return SK_EIO;
}

static int event_tell(PyObject *d, void (*tell)(void *host, const struct sk_guest_event *ev),
                      void *host) {
    static const char *const kinds[] = {[SK_EV_STARTED] = "started",
                                        [SK_EV_YIELDED] = "yielded",
                                        [SK_EV_DONE] = "done",
                                        [SK_EV_FAILED] = "failed"};
    struct given_event g;
    uint32_t kind = SK_EV_STARTED;
    if (!PyDict_Check(d)) {
        PyErr_SetString(PyExc_TypeError, "poll: an event is a dict");
        return -1;
    }
    if (py_fields_read(&event_fields, NULL, d, &g) < 0) return -1;
    while (kind < SK_COUNT(kinds) && strcmp(kinds[kind], g.kind) != 0) kind++;
    if (kind == SK_COUNT(kinds)) {
        PyErr_Format(PyExc_ValueError, "poll: there is no event '%s'", g.kind);
        return -1;
    }
    size_t n = g.values ? (size_t)PyList_GET_SIZE(g.values) : 0, have = 0;
    struct sk_guest_value *v = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *v);
    uint64_t *sizes = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *sizes);
    if (!v || !sizes) PyErr_NoMemory();
    while (v && sizes && have < n &&
           value_read(PyList_GET_ITEM(g.values, (Py_ssize_t)have), &v[have], &sizes[have]) == 0)
        have++;
    bool ok = v && sizes && have == n;
    if (ok)
        tell(host, &(struct sk_guest_event){.kind = (enum sk_event_kind)kind,
                                            .task = g.task,
                                            .attempt = g.attempt,
                                            .node = g.node,
                                            .run_ns = g.run_ns,
                                            .values = v,
                                            .sizes = sizes,
                                            .n_values = (uint32_t)n,
                                            .code = g.code ? code_named(g.code) : 0,
                                            .text = g.text});
    while (!ok && have) Py_XDECREF((PyObject *)v[--have].handle);
    sk_free(v);
    sk_free(sizes);
    return ok ? 0 : -1;
}

static sk_rc g_poll(void *ctx, void (*tell)(void *host, const struct sk_guest_event *ev),
                    void *host, struct sk_err *err) {
    struct guest *g = ctx;
    PyGILState_STATE s = PyGILState_Ensure();
    PyObject *r = PyObject_CallMethod(g->engine, "poll", NULL),
             *list = r ? PySequence_Fast(r, "poll() gives a list of events") : NULL;
    sk_rc rc = list ? SK_OK : raised(err, "poll");
    for (Py_ssize_t i = 0; list && rc == SK_OK && i < PySequence_Fast_GET_SIZE(list); i++)
        if (event_tell(PySequence_Fast_GET_ITEM(list, i), tell, host) < 0) rc = raised(err, "poll");
    Py_XDECREF(list);
    Py_XDECREF(r);
    PyGILState_Release(s);
    return rc;
}

static const struct sk_guest_ops OPS = {.begin = g_begin,
                                        .end = g_end,
                                        .nodes = g_nodes,
                                        .define = g_define,
                                        .submit = g_submit,
                                        .cancel = g_cancel,
                                        .actor_end = g_actor_end,
                                        .put = g_put,
                                        .poll = g_poll,
                                        .fetch = g_fetch,
                                        .let_go = g_let_go,
                                        .drop = g_drop};

int py_guest_make(struct py_state *st, PyObject *engine, struct sk_guest *out) {
    struct guest *g = sk_calloc(SK_TAG_PY, sizeof *g);
    if (!g) {
        PyErr_NoMemory();
        return -1;
    }
    PyObject *capsule = PyCapsule_New(g, "guest", capsule_free);
    if (!capsule) {
        sk_free(g);
        return -1;
    }
    g->st = st;
    g->engine = Py_NewRef(engine); /* a reference cycle, which end breaks */
    int r = PyObject_SetAttrString(engine, "_guest", capsule);
    Py_DECREF(capsule);
    *out = (struct sk_guest){.ops = &OPS, .ctx = g};
    return r;
}

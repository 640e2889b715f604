/* module.c - the module skate._skate: its state, its types, and opening and closing the one engine
 * of this process.
 *
 * Not here: any policy; defaults come from skate/config.py through init(conf). Shutdown has three
 * steps: new calls are refused (closing), waits return within PY_SLICE_NS, then the engine is
 * closed. References that are still alive get invalid by their generation number. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/copy.h"
#include "engine/custom.h"
#include "engine/usage.h"
#include "ipc/ipc.h"
#include "py/call/call.h"
#include "py/conf.h"
#include "py/data/data.h"
#include "py/graph/graph.h"
#include "py/guest/guest.h"
#include "py/node.h"
#include "skate.h"

/* ---- opening and closing the engine ---------------------------------------------------------- */

static PyObject *m_init(PyObject *module, PyObject *dict) {
    struct py_state *st = PyModule_GetState(module);
    struct py_conf k;
    struct sk_engine *e = NULL;
    PY_ERR(err);
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "init takes a dict");
    if (st->stray) return py_raise(st, SK_ECLOSED, NULL);
    if (st->engine || st->worker)
        return PyErr_Format(PyExc_RuntimeError, "an engine is open in this process");
    /* true if prints of tasks are shown; borrowed */
    PyObject *prints = PyDict_GetItemString(dict, "prints");
    if (py_conf_read(&k, st, dict) < 0) return NULL;
    if (prints && k.cls->prints && !(k.c.prints = py_prints_open(prints != Py_True))) {
        py_conf_free(&k);
        return NULL;
    }
    /* Opening a cluster waits for its nodes, to which a carrier of this process's Python may lead
     * (engine/carry.py). init() of Python lets one thread at a time in here. */
    PyThreadState *own = k.c.cluster ? PyEval_SaveThread() : NULL;
    sk_rc rc = k.cls->open(&k.c, &e, &err);
    if (own) PyEval_RestoreThread(own);
    py_conf_free(&k);
    if (rc != SK_OK) {
        sk_prints_close(k.c.prints);
        return py_raise(st, rc, &err);
    }
    st->prints = k.c.prints;
    st->engine = e;
    st->driver = true;
    st->gen++;
    Py_RETURN_NONE;
}

static PyObject *m_shutdown(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (!st->engine || st->closing || st->worker) Py_RETURN_NONE;
    if (py_current_task()) return PyErr_Format(PyExc_RuntimeError, "shutdown() inside a task");
    st->closing = true;
    py_node_close(st);
    /* every wait returns within PY_SLICE_NS; the last thread to leave posts the semaphore */
    while (st->n_inside) {
        Py_BEGIN_ALLOW_THREADS sem_wait(&st->all_out);
        Py_END_ALLOW_THREADS
    }
    py_exec_stop_all(st);
    struct sk_engine *e = st->engine;
    Py_BEGIN_ALLOW_THREADS sk_engine_close(&e);
    Py_END_ALLOW_THREADS st->engine = NULL;
    st->gen++;
    st->closing = st->driver = false;
    py_runner_clear(st);
    Py_CLEAR(st->pinned);
    Py_RETURN_NONE;
}

static struct py_state *the_state; /* for in_child() */

/* Called in the child of any fork before Python code runs: the engine and its threads belong to the
 * parent. The child of a driver may open an engine of its own; the child of a worker is a stray. */
static void in_child(void) {
    struct py_state *st = the_state;
    if (!st) return;
    if (!st->stray && (st->worker || st->engine)) st->forked_from = getppid();
    st->stray = st->worker;
    st->engine = NULL;
    st->gen++;
    st->n_inside = 0;
    st->driver = st->closing = false;
    sem_init(&st->all_out, 0, 0);
    py_exec_forget(st);
    if (st->prints) sk_prints_in_child(st->prints);
    /* the memory is not freed, since threads of the parent may have been using it at the fork */
    st->prints = NULL;
    st->node = NULL;
    sk_copy_forget();
    py_npmem_forget();
    if (st->stray) py_worker_forget();
}

static PyObject *m_is_initialized(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    return PyBool_FromLong(st->engine != NULL && !st->closing);
}

static PyObject *m_in_worker(PyObject *module, PyObject *unused SK_UNUSED) {
    return PyBool_FromLong(((struct py_state *)PyModule_GetState(module))->worker);
}

static PyObject *m_engine(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (!st->engine || !st->engine->cls) Py_RETURN_NONE;
    return PyUnicode_FromString(st->engine->cls->name);
}

/* ---- questions about the open engine --------------------------------------------------------- */

static PyObject *m_resources(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_node sum;
    PY_ERR(err);
    if (!PyList_Check(names))
        return PyErr_Format(PyExc_TypeError,
                            "resources(list of the custom names, in the order of init)");
    if (py_ensure(st) < 0) return NULL;
    sk_rc rc;
    PY_DROP(st)
    rc = sk_engine_sum(st->engine, &sum, &err);
    PY_TAKE(st)
    if (rc != SK_OK) return py_raise(st, rc, &err);
    PyObject *a = py_amounts(&sum.total, names), *b = py_amounts(&sum.free, names), *r = NULL;
    if (a && b && py_add_more(st, a, SK_MORE_TOTAL, names) == 0 &&
        py_add_more(st, b, SK_MORE_FREE, names) == 0)
        r = PyTuple_Pack(2, a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return r;
}

static PyObject *m_nodes(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_node *node = NULL;
    size_t n = 0, cap;
    sk_rc rc;
    PY_ERR(err);
    if (!PyList_Check(names))
        return PyErr_Format(PyExc_TypeError,
                            "nodes(list of the custom names, in the order of init)");
    if (py_ensure(st) < 0) return NULL;
    do {
        cap = n + 8;
        sk_free(node);
        if (!(node = sk_alloc(SK_TAG_PY, cap * sizeof *node))) return PyErr_NoMemory();
        PY_DROP(st)
        rc = st->engine->ops->nodes(st->engine, node, cap, &n, &err);
        PY_TAKE(st)
    } while (rc == SK_OK && n > cap);
    PyObject *list = rc == SK_OK ? PyList_New(0) : py_raise(st, rc, &err);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *has = py_amounts(&node[i].total, names);
        struct sk_bytes l = node[i].labels;
        PyObject *row = has ? Py_BuildValue("(IsONKy#)", node[i].number, node[i].name,
                                            node[i].alive ? Py_True : Py_False, has,
                                            (unsigned long long)node[i].capacity_bytes,
                                            l.n ? l.p : "", (Py_ssize_t)l.n)
                            : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    sk_free(node);
    return list;
}

static PyObject *m_status(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    char buf[8192];
    if (py_ensure(st) < 0 || !py_has(st, st->engine->state, "state to tell")) return NULL;
    PY_DROP(st)
    buf[SK_MIN(st->engine->state->status(st->engine, buf, sizeof buf), sizeof buf - 1)] = 0;
    PY_TAKE(st)
    PyObject *d = PyDict_New();
    for (char *line = buf, *end; d && (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        char *value = strchr(line, ' '), *rest = NULL;
        if (!value) continue;
        *value++ = 0;
        long long i = strtoll(value, &rest, 10);
        PyObject *v = *value && !*rest ? PyLong_FromLongLong(i) : PyUnicode_FromString(value);
        if (!v || PyDict_SetItemString(d, line, v) < 0) Py_CLEAR(d);
        Py_XDECREF(v);
    }
    return d;
}

static PyObject *m_unpin(PyObject *module, PyObject *ref) {
    struct py_state *st = PyModule_GetState(module);
    if (!Py_IS_TYPE(ref, st->ref_type))
        return PyErr_Format(PyExc_TypeError, "takes an ObjectRef, not %R",
                            (PyObject *)Py_TYPE(ref));
    if (st->pinned && PySet_Discard(st->pinned, ref) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *m_references(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_reference *r = NULL;
    size_t n = 0, cap = 0;
    if (py_ensure(st) < 0) return NULL;
    if (!py_has(st, st->engine->usage, "references to list")) return NULL;
    do { /* the number of references may grow between the two calls */
        cap = n + 64;
        sk_free(r);
        if (!(r = sk_alloc(SK_TAG_PY, cap * sizeof *r))) return PyErr_NoMemory();
        PY_DROP(st)
        n = st->engine->usage->references(st->engine, r, cap);
        PY_TAKE(st)
    } while (n > cap);
    PyObject *d = PyDict_New();
    for (size_t i = 0; d && i < n; i++) {
        PyObject *key = PyLong_FromUnsignedLongLong(r[i].oid.v);
        PyObject *row = Py_BuildValue("(KK)", (unsigned long long)r[i].n_driver,
                                      (unsigned long long)(r[i].n_all - r[i].n_driver));
        if (!key || !row || PyDict_SetItem(d, key, row) < 0) Py_CLEAR(d);
        Py_XDECREF(key);
        Py_XDECREF(row);
    }
    sk_free(r);
    return d;
}

static PyObject *m_workers(PyObject *module, PyObject *unused SK_UNUSED) {
    static const char *const state[] = {"starting", "idle", "busy", "dead"};
    struct py_state *st = PyModule_GetState(module);
    struct sk_worker_info w[1024];
    size_t n;
    if (py_ensure(st) < 0 || !py_has(st, st->engine->state, "workers to list")) return NULL;
    PY_DROP(st)
    n = st->engine->state->workers(st->engine, w, SK_COUNT(w));
    PY_TAKE(st)
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < SK_MIN(n, SK_COUNT(w)); i++) {
        /* a worker whose pid the fork server has not reported yet is left out, since os.kill(0)
         * would kill the caller's whole process group */
        if (w[i].pid <= 0) continue;
        PyObject *row = Py_BuildValue("(iIsK)", (int)w[i].pid, (unsigned)w[i].number,
                                      w[i].state < 4 ? state[w[i].state] : "?",
                                      (unsigned long long)w[i].n_done);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyObject *m_preload(PyObject *module, PyObject *note) {
    struct py_state *st = PyModule_GetState(module);
    char *p;
    Py_ssize_t n;
    PY_ERR(err);
    if (PyBytes_AsStringAndSize(note, &p, &n) < 0 || py_ensure(st) < 0) return NULL;
    /* without a fork server there is nothing to preload */
    if (!st->engine->host) Py_RETURN_NONE;
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->host->preload(st->engine, (struct sk_bytes){p, (size_t)n}, &err);
    PY_TAKE(st)
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_mem_bytes(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    return PyLong_FromLongLong(sk_mem_bytes(SK_TAG_N));
}

static PyObject *m_set_hooks(PyObject *module, PyObject *args, PyObject *kw) {
    struct py_state *st = PyModule_GetState(module);
    static const char *const names[] = {
#define X(n) #n,
        PY_HOOKS(X)
#undef X
    };
    PyObject **const slots[] = {
#define X(n) &st->hook_##n,
        PY_HOOKS(X)
#undef X
    };
    PyObject *key, *value;
    Py_ssize_t pos = 0;
    if (PyTuple_GET_SIZE(args)) return PyErr_Format(PyExc_TypeError, "set_hooks takes keywords");
    while (kw && PyDict_Next(kw, &pos, &key, &value)) {
        size_t i = 0;
        while (i < SK_COUNT(names) && PyUnicode_CompareWithASCIIString(key, names[i]) != 0) i++;
        if (i == SK_COUNT(names)) return PyErr_Format(PyExc_TypeError, "there is no hook %R", key);
        Py_XSETREF(*slots[i], Py_NewRef(value));
    }
    Py_RETURN_NONE;
}

static PyObject *m_restore_ref(PyObject *module, PyObject *id) {
    struct py_state *st = PyModule_GetState(module);
    sk_oid o = {PyLong_AsUnsignedLongLong(id)};
    if ((o.v == UINT64_MAX && PyErr_Occurred()) || py_ensure(st) < 0) return NULL;
    st->engine->ops->retain(st->engine, o);
    return py_ref_new(st, o, (sk_tid){0});
}

static PyObject *m_restore_token(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    unsigned long long id;
    PyObject *ready;
    if (!PyArg_ParseTuple(args, "KO!", &id, st->ref_type, &ready) || py_ensure(st) < 0) return NULL;
    return py_restore_token(st, id, ready);
}

static PyMethodDef methods[] = {
    {"init", m_init, METH_O, "Opens the engine of this process."},
    {"shutdown", m_shutdown, METH_NOARGS, "Closes it; idempotent."},
    {"is_initialized", m_is_initialized, METH_NOARGS, NULL},
    {"in_worker", m_in_worker, METH_NOARGS, NULL},
    {"engine", m_engine, METH_NOARGS,
     "The name of the engine of this process: local, inline, guest, cluster; None: none is open."},
    {"nodes", m_nodes, METH_O,
     "nodes(custom names): [(number, name, alive, {resource: amount}, bytes for objects, "
     "labels)]."},
    {"resources", m_resources, METH_O, "resources(custom names): (total, available)."},
    {"status", m_status, METH_NOARGS, "Counters of the engine and its store."},
    {"references", m_references, METH_NOARGS,
     "{object: (references of this process, others)} of all objects; in the driver."},
    {"unpin", m_unpin, METH_O, "Gives up the reference that pickling an ObjectRef by hand keeps."},
    {"workers", m_workers, METH_NOARGS, "(pid, number, state, tasks done) of each worker."},
    {"preload", m_preload, METH_O, "A note for the fork server."},
    {"mem_bytes", m_mem_bytes, METH_NOARGS, "C heap in use by skate in this process."},
    {"set_hooks", (PyCFunction)(void (*)(void))m_set_hooks, METH_VARARGS | METH_KEYWORDS,
     "The Python helpers that C calls."},
    {"_restore_ref", m_restore_ref, METH_O, NULL},
    {"_restore_token", m_restore_token, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- the module and its types ---------------------------------------------------------------- */

static PyObject *kw1(const char *name) {
    PyObject *s = PyUnicode_InternFromString(name), *t = s ? PyTuple_Pack(1, s) : NULL;
    Py_XDECREF(s);
    return t;
}

static int mod_exec(PyObject *m) {
    struct py_state *st = PyModule_GetState(m);
    st->module = m; /* borrowed: the state belongs to the module */
    st->gen = 1;    /* 0 is for references made from bytes */
    py_runner_init(st);
    sem_init(&st->all_out, 0, 0);
    if (!the_state && pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    the_state = st;
    PyMethodDef *const tables[] = {
        py_put_methods,     py_get_wait_methods,    py_define_methods,
        py_control_methods, py_group_methods,       py_block_methods,
        py_joblog_methods,  py_serve_methods,       py_current_methods,
        py_async_methods,   py_listing_methods,     py_stack_methods,
        py_memory_methods,  py_store_array_methods, py_cow_pages_methods,
        py_text_methods,    py_guest_methods,       py_exchange_methods,
        py_join_methods,    py_rows_methods,        py_pages_methods,
        py_loop_methods,    py_image_methods,       py_partial_aggregates_methods,
        py_npmem_methods,   py_online_methods,      py_prints_methods,
        py_view_methods,    py_node_methods};
    for (size_t i = 0; i < SK_COUNT(tables); i++)
        if (PyModule_AddFunctions(m, tables[i]) < 0) return -1;
    if (py_ref_types(m, st) < 0 || py_gen_types(m, st) < 0 || py_buf_types(m, st) < 0 ||
        py_store_array_types(m, st) < 0 || py_cow_pages_types(m, st) < 0 ||
        py_block_types(m, st) < 0 || py_decode_types(m, st) < 0 || py_template_types(m, st) < 0 ||
        py_token_types(m, st) < 0 || py_watch_types(m) < 0 || py_plan_types(m, st) < 0 ||
        py_exec_types(m, st) < 0 || py_told_types(m, st) < 0 || py_joblog_types(m, st) < 0 ||
        py_front_types(m, st) < 0 || py_guest_types(m, st) < 0 || py_exchange_types(m, st) < 0 ||
        py_pages_types(m, st) < 0 || py_rows_types(m, st) < 0 || py_graph_types(m, st) < 0 ||
        py_partial_aggregates_types(m, st) < 0)
        return -1;
    if (PyModule_AddStringConstant(m, "__version__", SKATE_VERSION) < 0) return -1;
    st->kw_buffer_callback = kw1("buffer_callback");
    st->kw_buffers = kw1("buffers");
    st->int5 = PyLong_FromLong(5);
    st->s_append = PyUnicode_InternFromString("append");
    st->s_arrow_c_array = PyUnicode_InternFromString("__arrow_c_array__");
    st->ctx_task = PyContextVar_New("skate_task", NULL);
    if (!st->ctx_task) return -1;
    st->restore_ref = PyObject_GetAttrString(m, "_restore_ref");
    st->restore_token = PyObject_GetAttrString(m, "_restore_token");
    st->weak_token = PyObject_GetAttrString(m, "weak_token");
    return st->kw_buffer_callback && st->kw_buffers && st->int5 && st->s_append &&
                   st->s_arrow_c_array && st->restore_ref && st->restore_token && st->weak_token
               ? 0
               : -1;
}

// clang-format off
#define OBJECTS(X) \
    X(store_array_type) X(cow_pages_type) X(ref_type) X(gen_type) X(buf_type) X(template_type) X(token_type) X(blockout_type) X(work_type) X(partial_aggregates_type) X(plan_type) \
    X(exec_type) X(told_type) X(front_iter_type) X(rows_type) X(memory_type) X(planned_type) X(stage_node_type) X(stage_task_type) X(stage_block_type) X(stage_exchange_type) X(message_type) X(graph_type) X(result_type) X(exceptions) X(home) X(pinned) X(pickle_dumps) X(pickle_loads) X(kw_buffer_callback) X(kw_buffers) X(int5) \
    X(s_append) X(s_arrow_c_array) X(restore_ref) X(restore_token) X(weak_token) X(ctx_task) X(ndarray) X(ambient.path) X(ambient.environ) \
    X(ambient.sys) X(ambient.s_path)
// clang-format on

static int mod_traverse(PyObject *m, visitproc visit, void *arg) {
    struct py_state *st = PyModule_GetState(m);
#define X(n) Py_VISIT(st->n);
    OBJECTS(X)
#undef X
#define X(n) Py_VISIT(st->hook_##n);
    PY_HOOKS(X)
#undef X
    return 0;
}

static int mod_clear(PyObject *m) {
    struct py_state *st = PyModule_GetState(m);
    while (st->free_refs) {
        struct py_ref *r = st->free_refs;
        st->free_refs = r->next;
        PyObject_Free(r);
    }
    /* references that die from now on are freed, not put on the free list */
    st->n_free_refs = UINT32_MAX;
#define X(n) Py_CLEAR(st->n);
    OBJECTS(X)
#undef X
#define X(n) Py_CLEAR(st->hook_##n);
    PY_HOOKS(X)
#undef X
    for (size_t i = 0; i < SK_COUNT(st->dtype); i++) Py_CLEAR(st->dtype[i]);
    return 0;
}

static void mod_free(void *m) {
    if (the_state == PyModule_GetState(m)) {
        the_state = NULL;
        py_npmem_end();
    }
    (void)mod_clear(m);
}

/* The state of the process (the engine, the fork hook, the allocator of arrays) is one for all
 * interpreters, so only the main one may have the module. Python 3.11 has no slot to say so, and
 * interpreters that share the GIL do not look at it. */
static int mod_may_be_here(PyObject *m SK_UNUSED) {
    PY_ERR(err);
    if (sk_ipc_needs(&err) != SK_OK) {
        PyErr_SetString(PyExc_ImportError, err.msg);
        return -1;
    }
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) == 0) return 0;
    PyErr_SetString(PyExc_ImportError,
                    "skate runs in the main interpreter only: it has one engine in a process; "
                    "use tasks, which are processes, instead of subinterpreters");
    return -1;
}

/* On a Python without the GIL the import turns it on: the calls that hand values to the engine
 * trust it (docs/design/wheels.md). */
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, mod_may_be_here},
    {Py_mod_exec, mod_exec},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_USED},
#endif
    {0, NULL},
};

struct PyModuleDef py_module_def = {
    PyModuleDef_HEAD_INIT,
    "skate._skate",
    "The C core of skate.",
    sizeof(struct py_state),
    methods,
    slots,
    mod_traverse,
    mod_clear,
    mod_free,
};

PyMODINIT_FUNC PyInit__skate(void);
PyMODINIT_FUNC PyInit__skate(void) { return PyModuleDef_Init(&py_module_def); }

/* module.c - the module skate._skate: its state, its types, and opening and closing the one engine of this process.
 *
 * Not here: any policy; defaults come from skate/config.py through init(conf). Shutdown lets go in three steps: no new call gets in
 * (closing), waits come back within a slice, then the engine is closed. Refs that are still alive belong to an old generation then. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "py/py_int.h"

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

/* ---- init: the configuration dict into sk_engine_conf --------------------------------------------------------------------------------- */

struct conf { /* everything that sk_engine_conf points to */
    struct sk_engine_conf c;
    PyObject *dict; /* borrowed */
    char **argv, **env, **dirs;
    const char **names;
    int64_t *more;
};

/* Value of a key, borrowed; NULL when absent or None. */
static PyObject *item(const struct conf *k, const char *key) {
    PyObject *v = PyDict_GetItemString(k->dict, key);
    return v == Py_None ? NULL : v;
}

static int number(const struct conf *k, const char *key, double unit, int64_t fallback, int64_t *out) {
    PyObject *v = item(k, key);
    *out = fallback;
    if (!v) return 0;
    double d = PyFloat_AsDouble(v);
    if (d == -1.0 && PyErr_Occurred()) return -1;
    *out = d < 0 ? fallback : (int64_t)(d * unit + 0.5);
    return 0;
}

static int strings(PyObject *list, char ***out) /* NULL-terminated; the strings are borrowed from the list's items */
{
    Py_ssize_t n = PyList_GET_SIZE(list);
    char **v = sk_calloc(SK_TAG_PY, ((size_t)n + 1) * sizeof *v);
    if (!v) {
        PyErr_NoMemory();
        return -1;
    }
    *out = v;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *o = PyList_GET_ITEM(list, i);
        const char *s = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : NULL;
        if (!s) {
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "argv, env and spill_dir are lists of str");
            return -1;
        }
        v[i] = (char *)(uintptr_t)s;
    }
    return 0;
}

static int conf_resources(struct conf *k) {
    int64_t *a = k->c.total.amount;
    PyObject *custom = item(k, "resources"), *key, *value;
    Py_ssize_t pos = 0;
    if (number(k, "num_cpus", SK_RES_UNIT, SK_RES_UNIT, &a[SK_RES_CPU]) < 0 || number(k, "num_gpus", SK_RES_UNIT, 0, &a[SK_RES_GPU]) < 0 ||
        number(k, "memory", 1, 0, &a[SK_RES_MEMORY]) < 0)
        return -1;
    size_t n = custom ? (size_t)PyDict_Size(custom) : 0;
    k->names = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *k->names);
    k->more = sk_calloc(SK_TAG_PY, (n + 1) * sizeof *k->more);
    if (!k->names || !k->more) {
        PyErr_NoMemory();
        return -1;
    }
    while (custom && k->c.n_custom < n && PyDict_Next(custom, &pos, &key, &value)) {
        double d = PyFloat_AsDouble(value);
        uint32_t i = SK_RES_CUSTOM + k->c.n_custom;
        if ((d == -1.0 && PyErr_Occurred()) || !(k->names[k->c.n_custom] = PyUnicode_AsUTF8(key))) return -1;
        *(i < SK_RES_MAX ? &a[i] : &k->more[i - SK_RES_MAX]) = (int64_t)(d * SK_RES_UNIT + 0.5);
        k->c.n_custom++;
    }
    k->c.custom_names = k->names;
    k->c.more = k->more;
    return 0;
}

/* A caller that waits for room in the store lets Ctrl-C in. Its thread has a thread state: it dropped the GIL before. */
static bool interrupted(void *ctx) {
    (void)ctx;
    PyGILState_STATE g = PyGILState_Ensure();
    bool stop = PyErr_CheckSignals() < 0;
    PyGILState_Release(g);
    return stop;
}

/* A worker has made an actor that asks the driver for something: the hook hears of it on a thread of its own, for nothing may wait for the GIL here. */
struct named {
    PyObject *hook;
    char *name; /* in `space` */
    char space[];
};

static void *tell(void *arg) {
    struct named *n = arg;
    PyGILState_STATE g = PyGILState_Ensure();
    PyObject *r = PyObject_CallFunction(n->hook, "ss", n->space, n->name);
    if (!r) PyErr_WriteUnraisable(n->hook);
    Py_XDECREF(r);
    PyGILState_Release(g);
    sk_free(n);
    return NULL;
}

static void named(void *ctx, struct sk_bytes space, struct sk_bytes name) {
    struct py_state *st = ctx;
    struct named *n = sk_calloc(SK_TAG_PY, sizeof *n + space.n + name.n + 2);
    pthread_attr_t detached;
    pthread_t thread;
    if (!n) return;
    n->hook = st->hook_named; /* set once, when the package is imported */
    n->name = n->space + space.n + 1;
    memcpy(n->space, space.p, space.n);
    memcpy(n->name, name.p, name.n);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    if (!n->hook || pthread_create(&thread, &detached, tell, n) != 0) sk_free(n);
    pthread_attr_destroy(&detached);
}

static int conf_read(struct conf *k, struct py_state *st) {
    struct sk_engine_conf *c = &k->c;
    int64_t workers, store, seed, lineage, spill, overflow, budget, permille, oom, retries;
    PyObject *dirs = item(k, "spill_dir");
    PyObject *argv = item(k, "argv"), *env = item(k, "env"), *preload = item(k, "preload");
    if (conf_resources(k) < 0 || number(k, "max_workers", 1, 0, &workers) < 0 || number(k, "object_store_memory", 1, 0, &store) < 0 ||
        number(k, "spin_us", 1e3, -1, &c->spin_ns) < 0 || number(k, "idle_reap_s", 1e9, 0, &c->idle_reap_ns) < 0 ||
        number(k, "seed", 1, 0, &seed) < 0 || number(k, "lineage_bytes", 1, 0, &lineage) < 0 ||
        number(k, "spill_bytes", 1, -1, &spill) < 0 || number(k, "overflow_bytes", 1, -1, &overflow) < 0 ||
        number(k, "memory_limit", 1, 0, &budget) < 0 || number(k, "memory_usage_threshold", 1e3, 0, &permille) < 0 ||
        number(k, "memory_monitor_refresh_ms", 1e6, 0, &c->memory_every_ns) < 0 || number(k, "task_oom_retries", 1, -1, &oom) < 0 ||
        number(k, "max_retries", 1, -1, &retries) < 0)
        return -1;
    c->task_retries = item(k, "max_retries") ? (int32_t)SK_MIN(retries, INT32_MAX) : 0;
    c->memory_bytes = (uint64_t)budget;
    c->memory_permille = (uint32_t)SK_MIN(permille, 1000);
    if (item(k, "memory_monitor_refresh_ms") && c->memory_every_ns == 0) c->memory_every_ns = -1; /* Ray's 0 is never, ours is chosen */
    c->oom_retries = oom < 0 ? 0 : oom == 0 ? -1 : (int32_t)SK_MIN(oom, 1000);                    /* as there */
    if (dirs && (!PyList_Check(dirs) || strings(dirs, &k->dirs) < 0))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "spill_dir must be a list"), -1);
    c->spill_dirs = (const char *const *)k->dirs;
    c->n_spill_dirs = dirs ? (uint32_t)PyList_GET_SIZE(dirs) : 0;
    c->spill_bytes = spill < 0 ? UINT64_MAX : (uint64_t)spill;
    c->overflow_bytes = overflow < 0 ? 0 : overflow == 0 ? UINT64_MAX : (uint64_t)overflow;
    c->interrupted = interrupted;
    c->named = named;
    c->named_ctx = st;
    c->max_workers = (uint32_t)workers;
    c->store_bytes = (uint64_t)store;
    c->seed = (uint64_t)seed;
    c->lineage_bytes = (uint64_t)lineage;
    c->runner = &st->runner;
    if (argv && (!PyList_Check(argv) || strings(argv, &k->argv) < 0))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "argv must be a list"), -1);
    if (env && (!PyList_Check(env) || strings(env, &k->env) < 0))
        return PyErr_Occurred() ? -1 : (PyErr_SetString(PyExc_TypeError, "env must be a list of \"NAME=value\""), -1);
    c->spawn_argv = k->argv;
    c->spawn_env = k->env;
    if (preload) {
        char *p;
        Py_ssize_t n;
        if (PyBytes_AsStringAndSize(preload, &p, &n) < 0) return -1;
        c->preload = (struct sk_bytes){p, (size_t)n};
    }
    return 0;
}

static PyObject *m_init(PyObject *module, PyObject *dict) {
    struct py_state *st = PyModule_GetState(module);
    struct conf k = {.dict = dict};
    PyObject *r = NULL;
    PY_ERR(err);
    if (!PyDict_Check(dict)) return PyErr_Format(PyExc_TypeError, "init takes a dict");
    if (st->stray) return py_raise(st, SK_ECLOSED, NULL);
    if (st->engine || st->worker) return PyErr_Format(PyExc_RuntimeError, "an engine is open in this process");
    PyObject *engine = item(&k, "engine");
    const char *name = engine ? PyUnicode_AsUTF8(engine) : "local";
    if (!name) return NULL;
    const struct sk_engine_class *cls = sk_engine_find(name);
    if (!cls) return PyErr_Format(PyExc_ValueError, "there is no engine \"%s\"", name);
    if (conf_read(&k, st) == 0) {
        struct sk_engine *e = NULL;
        sk_rc rc = cls->open(&k.c, &e, &err);
        if (rc == SK_OK) {
            st->engine = e;
            st->store_bytes = k.c.store_bytes;
            st->driver = true;
            st->gen++;
            r = Py_NewRef(Py_None);
        } else {
            py_raise(st, rc, &err);
        }
    }
    sk_free(k.argv);
    sk_free(k.env);
    sk_free(k.names);
    sk_free(k.more);
    sk_free(k.dirs);
    return r;
}

static PyObject *m_shutdown(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (!st->engine || st->closing || st->worker) Py_RETURN_NONE;
    if (py_current_task()) return PyErr_Format(PyExc_RuntimeError, "shutdown() inside a task");
    st->closing = true;
    while (st->n_inside) { /* every wait comes back within PY_SLICE_NS; the last one posts */
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

static struct py_state *the_state; /* for the handler below */

/* In the child of any fork, whoever made it, before Python runs on: the engine and its threads are the parent's. A driver's child opens one of its own when
 * it needs it; a worker's is a stray. */
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
    py_copy_forget();
    if (st->stray) py_worker_forget();
}

static PyObject *m_is_initialized(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    return PyBool_FromLong(st->engine != NULL && !st->closing);
}

static PyObject *m_in_worker(PyObject *module, PyObject *unused SK_UNUSED) {
    return PyBool_FromLong(((struct py_state *)PyModule_GetState(module))->worker);
}

/* ---- what can be asked of an open engine ---------------------------------------------------------------------------------------------- */

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
        PyObject *v = PyFloat_FromDouble((double)r->amount[i] / (i == SK_RES_MEMORY ? 1 : SK_RES_UNIT));
        if (!name || !v || PyDict_SetItem(d, name, v) < 0) Py_CLEAR(d);
        Py_XDECREF(name);
        Py_XDECREF(v);
    }
    return d;
}

int py_add_more(struct py_state *st, PyObject *d, uint32_t more, PyObject *names) {
    const struct sk_engine_ops *ops = st->engine->ops;
    size_t n_names = (size_t)PyList_GET_SIZE(names), n = 0, cap = n_names;
    if (!more || !ops->more_read || n_names <= SK_RES_MAX - SK_RES_CUSTOM) return 0;
    struct sk_amount *v = sk_alloc(SK_TAG_PY, cap * sizeof *v); /* there are not more of them */
    if (!v) {
        PyErr_NoMemory();
        return -1;
    }
    PY_DROP(st)
    n = ops->more_read(st->engine, more, v, cap);
    PY_TAKE(st)
    int r = 0;
    for (size_t i = 0; r == 0 && n <= cap && i < n; i++) {
        PyObject *a = PyFloat_FromDouble((double)v[i].amount / SK_RES_UNIT);
        uint64_t at = v[i].index - SK_RES_CUSTOM;
        r = a && at < n_names ? PyDict_SetItem(d, PyList_GET_ITEM(names, (Py_ssize_t)at), a) : a ? 0 : -1;
        Py_XDECREF(a);
    }
    sk_free(v);
    return r;
}

static PyObject *m_resources(PyObject *module, PyObject *names) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_res total, available;
    if (!PyList_Check(names)) return PyErr_Format(PyExc_TypeError, "resources(list of the custom names, in the order of init)");
    if (py_ensure(st) < 0) return NULL;
    PY_DROP(st)
    st->engine->ops->resources(st->engine, &total, &available);
    PY_TAKE(st)
    PyObject *a = py_amounts(&total, names), *b = py_amounts(&available, names), *r = NULL;
    if (a && b && py_add_more(st, a, SK_MORE_TOTAL, names) == 0 && py_add_more(st, b, SK_MORE_FREE, names) == 0) r = PyTuple_Pack(2, a, b);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return r;
}

static PyObject *m_status(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    char buf[8192];
    if (py_ensure(st) < 0) return NULL;
    PY_DROP(st)
    buf[SK_MIN(st->engine->ops->status(st->engine, buf, sizeof buf), sizeof buf - 1)] = 0;
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
    if (!Py_IS_TYPE(ref, st->ref_type)) return PyErr_Format(PyExc_TypeError, "takes an ObjectRef, not %R", (PyObject *)Py_TYPE(ref));
    if (st->pinned && PySet_Discard(st->pinned, ref) < 0) return NULL;
    Py_RETURN_NONE;
}

static PyObject *m_references(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_reference *r = NULL;
    size_t n = 0, cap = 0;
    if (py_ensure(st) < 0) return NULL;
    if (!st->engine->ops->references)
        return PyErr_Format(PyExc_NotImplementedError, "the engine \"%s\" cannot do this", st->engine->ops->name);
    do { /* there may be more by the second time */
        cap = n + 64;
        sk_free(r);
        if (!(r = sk_alloc(SK_TAG_PY, cap * sizeof *r))) return PyErr_NoMemory();
        PY_DROP(st)
        n = st->engine->ops->references(st->engine, r, cap);
        PY_TAKE(st)
    } while (n > cap);
    PyObject *d = PyDict_New();
    for (size_t i = 0; d && i < n; i++) {
        PyObject *key = PyLong_FromUnsignedLongLong(r[i].oid.v);
        PyObject *row = Py_BuildValue("(KK)", (unsigned long long)r[i].n_driver, (unsigned long long)(r[i].n_all - r[i].n_driver));
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
    if (py_ensure(st) < 0) return NULL;
    PY_DROP(st)
    n = st->engine->ops->workers(st->engine, w, SK_COUNT(w));
    PY_TAKE(st)
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < SK_MIN(n, SK_COUNT(w)); i++) {
        if (w[i].pid <= 0) continue; /* the fork server has not told it yet; and os.kill(0) would kill the caller's whole group */
        PyObject *row = Py_BuildValue("(iIsK)", (int)w[i].pid, (unsigned)w[i].number, w[i].state < 4 ? state[w[i].state] : "?",
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
    sk_rc rc;
    PY_DROP(st)
    rc = st->engine->ops->preload(st->engine, (struct sk_bytes){p, (size_t)n}, &err);
    PY_TAKE(st)
    if (rc != SK_OK) return py_raise(st, rc, &err);
    Py_RETURN_NONE;
}

static PyObject *m_mem_bytes(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) { return PyLong_FromLongLong(sk_mem_bytes(SK_TAG_N)); }

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
    st->engine->ops->addref(st->engine, o);
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
    {"resources", m_resources, METH_O, "resources(custom names): (total, available)."},
    {"status", m_status, METH_NOARGS, "Counters of the engine and its store."},
    {"references", m_references, METH_NOARGS, "{object: (references of this process, others)} of all objects; in the driver."},
    {"unpin", m_unpin, METH_O, "Gives up the reference that pickling an ObjectRef by hand keeps."},
    {"workers", m_workers, METH_NOARGS, "(pid, number, state, tasks done) of each worker."},
    {"preload", m_preload, METH_O, "A note for the fork server."},
    {"mem_bytes", m_mem_bytes, METH_NOARGS, "C heap in use by skate in this process."},
    {"set_hooks", (PyCFunction)(void (*)(void))m_set_hooks, METH_VARARGS | METH_KEYWORDS, "The Python helpers that C calls."},
    {"_restore_ref", m_restore_ref, METH_O, NULL},
    {"_restore_token", m_restore_token, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- the module --------------------------------------------------------------------------------------------------------------------------- */

static PyObject *kw1(const char *name) {
    PyObject *s = PyUnicode_InternFromString(name), *t = s ? PyTuple_Pack(1, s) : NULL;
    Py_XDECREF(s);
    return t;
}

static int mod_exec(PyObject *m) {
    struct py_state *st = PyModule_GetState(m);
    st->module = m; /* borrowed: the state is the module's */
    st->gen = 1;    /* 0 is that of refs made of bytes */
    py_runner_init(st);
    sem_init(&st->all_out, 0, 0);
    if (!the_state && pthread_atfork(NULL, NULL, in_child) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    the_state = st;
    PyMethodDef *const tables[] = {py_store_methods,  py_task_methods,  py_block_methods, py_joblog_methods,
                                   py_worker_methods, py_state_methods, py_stack_methods, py_memory_methods,
                                   py_room_methods,   py_own_methods,   py_text_methods};
    for (size_t i = 0; i < SK_COUNT(tables); i++)
        if (PyModule_AddFunctions(m, tables[i]) < 0) return -1;
    if (py_ref_types(m, st) < 0 || py_decode_types(m, st) < 0 || py_room_types(m, st) < 0 || py_own_types(m, st) < 0 ||
        py_block_types(m, st) < 0 || py_task_types(m, st) < 0 || py_watch_types(m) < 0 || py_plan_types(m, st) < 0 ||
        py_exec_types(m, st) < 0 || py_joblog_types(m, st) < 0 || py_front_types(m, st) < 0)
        return -1;
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
    return st->kw_buffer_callback && st->kw_buffers && st->int5 && st->s_append && st->s_arrow_c_array && st->restore_ref &&
                   st->restore_token && st->weak_token
               ? 0
               : -1;
}

// clang-format off
#define OBJECTS(X) \
    X(room_type) X(own_type) X(ref_type) X(gen_type) X(buf_type) X(template_type) X(token_type) X(blockout_type) X(plan_type) \
    X(exec_type) X(front_iter_type) X(exceptions) X(home) X(pinned) X(pickle_dumps) X(pickle_loads) X(kw_buffer_callback) X(kw_buffers) X(int5) \
    X(s_append) X(s_arrow_c_array) X(restore_ref) X(restore_token) X(weak_token) X(ctx_task) X(ndarray) X(around.path) X(around.environ) \
    X(around.sys) X(around.s_path)
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
    st->n_free_refs = UINT32_MAX; /* refs that die from now on go to the heap */
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
    if (the_state == PyModule_GetState(m)) the_state = NULL;
    (void)mod_clear(m);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, mod_exec}, {0, NULL}};

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
